//! Pairs only of answers to the very same prompt; repairs in files of their own, with the failure in the prompt.

use std::collections::HashMap;

use manent_runs::dataset::{DatasetFormat, Recipe};
use manent_sim::Rng;
use serde_json::{Value, json};

use super::scene::{Scene, passage, words};

/// A session in which a question was answered badly, told so, and answered well; and the run of both attempts.
fn repaired(scene: &Scene, session: &str, seed: u64) -> String {
    let printed = format!("FAILED: assertion {} did not hold", words(seed + 500, 6));
    let asked = scene.say(session, "user", &words(seed, 20));
    let bad = scene.say(session, "assistant", &words(seed + 1, 20));
    let told = scene.say(session, "user", &format!("It failed:\n{printed}"));
    let good = scene.say(session, "assistant", &words(seed + 2, 20));
    scene.run(
        session,
        &json!({"attempts": [
        {"attempt": 1, "model": "m", "verified": false, "runner_output": printed,
            "prompt_ref": passage(session, asked, asked), "output_ref": passage(session, bad, bad)},
        {"attempt": 2, "model": "m", "verified": true,
            "prompt_ref": passage(session, asked, told), "output_ref": passage(session, good, good)}]}),
    );
    printed
}

#[test]
fn a_second_attempt_that_was_told_of_the_first_is_a_repair_and_no_pair() {
    let scene = Scene::new();
    let printed = repaired(&scene, "s", 1);
    for format in super::scene::FORMATS {
        let rows = scene.make_all(format);
        let repairs = rows.of("repair-train.jsonl");
        assert_eq!(repairs.len(), 1, "{format:?}");
        assert!(repairs[0].to_string().contains(&printed), "{format:?}: the failure is in the prompt");
        if format == DatasetFormat::TrlDpo {
            assert_eq!(rows.made.rows("train.jsonl"), 0, "no pair");
            assert_eq!(rows.of("unpaired-train.jsonl")[0]["label"], false);
            assert!(repairs[0]["prompt"].to_string().contains(&printed));
            assert!(!repairs[0]["completion"].to_string().contains(&printed));
        }
    }
}

#[test]
fn attempts_at_the_same_prompt_are_a_pair_with_their_model_told() {
    let scene = Scene::new();
    // The prompt tells of the same failure that the first attempt ends with: still it is the same prompt.
    let failure = "FAILED: assertion left == right did not hold";
    let asked = scene.say("s", "user", &format!("mend this: {failure}"));
    let answers: Vec<u64> = (0..4).map(|n| scene.say("s", "assistant", &words(n + 10, 25))).collect();
    let attempt = |n: usize, model: &str, verified: bool| {
        json!({"attempt": n + 1, "model": model, "verified": verified, "runner_output": failure,
            "prompt_ref": passage("s", asked, asked), "output_ref": passage("s", answers[n], answers[n])})
    };
    let attempts = [
        attempt(0, "small", false),
        attempt(1, "large", false),
        attempt(2, "large", true),
        attempt(3, "", true),
    ];
    scene.run("s", &json!({ "attempts": attempts }));
    let rows = scene.make_all(DatasetFormat::TrlDpo);
    let same: Vec<Value> = rows.of("train.jsonl").iter().map(|row| row["same_model"].clone()).collect();
    assert_eq!(same, [json!(true), json!(false)]);
    let recipe = Recipe { validation: 0, same_model_only: true, ..Recipe::new(DatasetFormat::TrlDpo) };
    let rows = scene.make(&recipe);
    assert_eq!((rows.made.rows("train.jsonl"), rows.made.rows("unpaired-train.jsonl")), (1, 2));
    assert_eq!(rows.of("train.jsonl")[0]["same_model"], true);
}

#[test]
fn what_was_found_good_and_bad_teaches_nothing() {
    let scene = Scene::new();
    for verified in [true, false] {
        scene.asked("s", "", "what is 6 x 7?", "42", verified);
    }
    scene.asked("s", "", &words(3, 20), &words(4, 20), true);
    let rows = scene.make_all(DatasetFormat::Kto);
    assert_eq!((rows.made.rows("train.jsonl"), rows.left_out("contradiction")), (1, 2));
}

/// Random runs against a model in a few lines: which prompts and answers there are, and how each was found.
#[test]
fn random_runs_make_pairs_of_equal_prompts_only() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let scene = Scene::new();
        let mut found: HashMap<String, (String, bool, String)> = HashMap::new();
        let mut n = 0;
        for session in ["a", "b", "c"] {
            for _ in 0..rng.range(1..=5) {
                let question = words(rng.range(1..=3), 15);
                let attempts: Vec<Value> = (0..rng.range(1..=4))
                    .map(|at| {
                        n += 1;
                        let answer = words(seed * 1000 + 100 + n, 25);
                        let asked = scene.say(session, "user", &question);
                        let answered = scene.say(session, "assistant", &answer);
                        let (verified, model) = (rng.range(0..=1) == 0, format!("m{}", rng.range(0..=1)));
                        found.insert(answer, (question.clone(), verified, model.clone()));
                        json!({"attempt": at + 1, "model": model, "verified": verified,
                            "prompt_ref": passage(session, asked, asked),
                            "output_ref": passage(session, answered, answered)})
                    })
                    .collect();
                scene.run(session, &json!({ "attempts": attempts }));
            }
        }
        let rows = scene.make_all(DatasetFormat::TrlDpo);
        let text = |row: &Value, name: &str| row[name][0]["content"].as_str().unwrap().to_owned();
        let mut used = 0;
        for row in rows.of("train.jsonl") {
            let chosen = &found[&text(&row, "chosen")];
            let rejected = &found[&text(&row, "rejected")];
            assert_eq!((&chosen.0, &rejected.0), (&text(&row, "prompt"), &text(&row, "prompt")));
            assert!(chosen.1 && !rejected.1, "the good one is chosen");
            assert_eq!(row["same_model"], json!(chosen.2 == rejected.2));
            used += 2;
        }
        for row in rows.of("unpaired-train.jsonl") {
            assert_eq!(row["label"], json!(found[&text(&row, "completion")].1));
            used += 1;
        }
        assert_eq!(used, found.len(), "seed {seed}: every attempt is somewhere, once");
    }
}
