//! Logs that nobody sane would write: nothing panics, nothing is lost silently, and what is sound is there.

use manent_runs::dataset::{DatasetCounts, DatasetError, DatasetFormat, Existing, Recipe};
use serde_json::{Value, json};

use super::scene::{FORMATS, Scene, passage, words};

fn one(scene: &Scene, run: &Value, why: &str) {
    scene.run("odd", run);
    for format in [DatasetFormat::TrlSft, DatasetFormat::Kto] {
        let left_out = scene.make_none(&Recipe::new(format)).left_out;
        assert!(left_out.keys().any(|reason| reason.word() == why), "{why}: {left_out:?}");
    }
    let path = scene.dir.path().join("store/runs/odd.jsonl");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_cannot_be_a_row_is_counted_by_why() {
    let scene = Scene::new();
    let asked = scene.say("s", "user", "question");
    let answered = scene.say("s", "assistant", "answer");
    let good = |prompt: Value, output: Value| {
        let attempt = json!({"verified": true, "prompt_ref": prompt, "output_ref": output});
        json!({ "attempts": [attempt] })
    };
    let (p, o) = (passage("s", asked, asked), passage("s", answered, answered));
    one(&scene, &good(passage("nobody", 1, 1), o.clone()), "reference_not_found");
    one(&scene, &good(p.clone(), passage("s", 77, 78)), "reference_not_found");
    one(&scene, &good(passage("s", 2, 1), o.clone()), "reference_invalid");
    one(&scene, &good(passage("", 1, 1), o.clone()), "reference_invalid");
    one(&scene, &good(passage("s", 0, 0), o.clone()), "reference_invalid");
    one(&scene, &good(passage("s", 1, u64::MAX), o.clone()), "reference_not_found");
    one(&scene, &good(o.clone(), o.clone()), "odd_shape");
    one(&scene, &good(p.clone(), p.clone()), "odd_shape");
    one(&scene, &json!({"attempts": [{"verified": true, "output_ref": o}]}), "no_prompt");
    one(&scene, &json!({"input": "x", "attempts": [{"verified": true}]}), "no_output");
    one(&scene, &json!({"input": "", "attempts": [{"verified": true, "output_ref": o}]}), "no_prompt");
    one(&scene, &json!({"input": "x", "attempts": [{"output_ref": o}]}), "not_verified");
    one(
        &scene,
        &json!({"input": "x", "attempts": [{"attempt": 3, "verified": true, "output_ref": o}]}),
        "prompt_unknown",
    );
    one(
        &scene,
        &json!({"input": "x", "attempts": [{"verified": true, "exit_code": 1, "output_ref": o}]}),
        "verified_with_error",
    );
}

#[test]
fn damage_in_what_is_quoted_leaves_out_what_quotes_it_and_nothing_else() {
    let scene = Scene::new();
    for n in 0..4_u64 {
        scene.asked("s", "", &words(n, 20), &words(n + 10, 20), true);
    }
    let path = scene.dir.path().join("store/sessions/s.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // The second question.
    lines[3] = lines[3].replace('w', "v");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let rows = scene.make_all(DatasetFormat::TrlSft);
    assert_eq!(rows.made.rows("train.jsonl"), 3, "{:?}", rows.made.counts.left_out);
    assert_eq!(rows.left_out("reference_not_found") + rows.left_out("damaged"), 1);
}

#[test]
fn attempts_out_of_order_or_written_twice_count_once_and_in_order() {
    let scene = Scene::new();
    let second = json!({"attempt": 2, "verified": true, "output_summary": words(2, 20)});
    let first = json!({"attempt": 1, "verified": false, "output_summary": words(1, 20),
        "runner_output": "it broke here"});
    let attempts = [&second, &first, &second, &first];
    scene.run("s", &json!({"input": words(9, 20), "attempts": attempts, "final_status": "splendid"}));
    let rows = scene.make(&Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::Kto) });
    assert_eq!((rows.made.rows("train.jsonl"), rows.made.rows("repair-train.jsonl")), (1, 1));
    assert_eq!(
        (rows.of("train.jsonl")[0]["label"].clone(), rows.left_out("attempt_repeated")),
        (json!(false), 2)
    );
}

#[test]
fn texts_of_any_kind_come_through_as_they_are() {
    let scene = Scene::new();
    let odd = "nul \u{0} escape \u{1b}[31m bell \u{7} line\u{2028}sep \u{feff} rtl \u{202e} 😀 \
        \"quoted\" back\\slash\r\n\tend";
    scene.asked("s", "", odd, &format!("{odd}!"), true);
    // Ours refuses to write such a line; other programs do not.
    let lone = [
        r#"{"skill":"x","input":"half \ud800 a pair","#,
        r#""attempts":[{"verified":true,"output_summary":"whole \ud83d\ude00"}]}"#,
    ]
    .concat();
    std::fs::write(scene.dir.path().join("store/runs/t.jsonl"), format!("{lone}\n")).unwrap();
    for format in FORMATS {
        let rows = scene.make(&Recipe { validation: 0, summaries: true, ..Recipe::new(format) });
        let name = if format == DatasetFormat::TrlDpo { "unpaired-train.jsonl" } else { "train.jsonl" };
        assert_eq!(rows.made.rows(name), 2, "{format:?}");
        let told = rows.of(name)[0].to_string();
        assert!(told.contains(&serde_json::to_string(odd).unwrap()[1..20]), "{told}");
        assert!(rows.text(name).contains("half \u{fffd} a pair"), "{format:?}");
    }
    let row = &scene.make_all(DatasetFormat::TrlSft).of("train.jsonl")[0];
    assert_eq!(row["prompt"][0]["content"], odd);
    assert_eq!(row["completion"][0]["content"], format!("{odd}!"));
}

#[test]
fn what_is_longer_than_any_model_reads_is_left_out_and_hides_nothing() {
    let scene = Scene::new();
    let huge = "x ".repeat(25 << 20);
    scene.run("a", &json!({"input": "short", "attempts": [{"verified": true, "output_summary": huge}]}));
    scene.run("a", &json!({"input": huge, "attempts": [{"verified": true, "output_summary": "short"}]}));
    scene.asked("s", "", "before it", "an answer", true);
    scene.asked("s", "", &huge, "to the huge one", true);
    scene.asked("s", "", "what is asked behind it", "is answered", true);
    let rows = scene.make(&Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::TrlSft) });
    assert_eq!((rows.made.rows("train.jsonl"), rows.left_out("too_long")), (2, 3));
}

#[test]
fn without_rows_nothing_is_written_and_nothing_replaced() {
    let scene = Scene::new();
    for format in FORMATS {
        assert_eq!(scene.make_none(&Recipe::new(format)), DatasetCounts::default());
    }
    scene.run("s", &json!({}));
    scene.run("s", &json!({"attempts": []}));
    let odd = json!({"verified": "yes", "prompt_ref": 7, "output_ref": {"session": 1}});
    scene.run("s", &json!({"attempts": [{}, null, 3, odd]}));
    scene.run("s", &json!({"input": null, "attempts": {"not": "a list"}}));
    assert_eq!(scene.make_none(&Recipe::new(DatasetFormat::Kto)).runs, 4);
    scene.asked("s", "", &words(1, 20), &words(2, 20), true);
    let rows = scene.make_all(DatasetFormat::Kto);
    let before = rows.files();
    let recipe = Recipe { skill: Some("another".to_owned()), ..Recipe::new(DatasetFormat::Kto) };
    let replaced = scene.try_make(&recipe, &rows.dir, Existing::Replace);
    assert!(matches!(replaced, Err(DatasetError::NoRows { .. })), "{replaced:?}");
    assert_eq!(rows.files(), before, "a good one is not replaced by nothing");
}
