//! Training and validation: nothing of one is in the other.

use std::collections::{HashMap, HashSet};

use manent_runs::dataset::{DatasetFormat, Recipe};
use serde_json::json;

use super::scene::{Rows, Scene, passage, words};

fn half(format: DatasetFormat) -> Recipe {
    Recipe { validation: 5000, ..Recipe::new(format) }
}

/// On which sides the questions are that hold a word.
fn sides(rows: &Rows, word: &str) -> HashSet<&'static str> {
    let has = |name: &str| rows.text(name).contains(&format!("{word} "));
    ["train", "validation"].into_iter().filter(|side| has(&format!("{side}.jsonl"))).collect()
}

#[test]
fn a_project_is_on_one_side_with_all_its_sessions() {
    let scene = Scene::new();
    for n in 0..60_u64 {
        let (session, project) = (format!("s{n}"), n % 20);
        // However its directory is written.
        let dir = format!("/src/p{project}{}", if n >= 40 { "/" } else { "" });
        let question = format!("project{project} session{n} {}", words(n, 20));
        scene.asked(&session, &dir, &question, &words(n + 1000, 20), true);
        scene.asked(&session, "", &format!("session{n} {}", words(n + 2000, 20)), &words(n + 3000, 20), true);
    }
    for format in [DatasetFormat::TrlSft, DatasetFormat::OpenAi, DatasetFormat::ShareGpt, DatasetFormat::Kto]
    {
        let rows = scene.make(&half(format));
        assert!(rows.made.rows("train.jsonl") > 10 && rows.made.rows("validation.jsonl") > 10);
        for n in 0..20 {
            assert_eq!(sides(&rows, &format!("project{n}")).len(), 1, "{format:?}: project {n}");
        }
        for n in 0..60 {
            assert_eq!(sides(&rows, &format!("session{n}")).len(), 1, "{format:?}: session {n}");
        }
    }
}

#[test]
fn filters_do_not_move_a_project_to_the_other_side() {
    let scene = Scene::new();
    for n in 0..40_u64 {
        scene.asked(
            &format!("s{n}"),
            &format!("/src/p{}", n % 10),
            &format!("q{n} {}", words(n, 20)),
            &words(n + 100, 20),
            true,
        );
        // Joins the projects of two sessions, and is filtered away below.
        scene.run(
            &format!("s{n}"),
            &json!({"skill": "other", "project_root": format!("/src/p{}", (n + n % 2) % 10),
            "attempts": [{"verified": true, "prompt_ref": passage("x", 1, 1)}]}),
        );
    }
    let all = scene.make(&half(DatasetFormat::TrlSft));
    let some = scene.make(&Recipe { skill: Some("fix".into()), ..half(DatasetFormat::TrlSft) });
    assert!(some.left_out("filtered") > 0);
    for n in 0..40 {
        assert_eq!(sides(&all, &format!("q{n}")), sides(&some, &format!("q{n}")));
    }
}

#[test]
fn what_is_nearly_the_same_on_both_sides_is_left_out_of_validation() {
    let scene = Scene::new();
    for n in 0..40_u64 {
        // The same forty questions in projects of both sides, a word or two apart; and one of its own in each.
        for copy in 0..4 {
            let (session, project) = (format!("s{n}-{copy}"), format!("/src/p{n}-{copy}"));
            let question = format!("{} changed{copy} {}", words(n, 40), words(n + 500, 40));
            scene.asked(&session, &project, &question, &words(n + 1000, 40), true);
            scene.asked(
                &session,
                &project,
                &words(n * 4 + copy + 5000, 40),
                &words(n * 4 + copy + 9000, 40),
                true,
            );
        }
    }
    let rows = scene.make(&half(DatasetFormat::TrlSft));
    assert!(rows.left_out("near_duplicate_in_train") > 10, "{:?}", rows.made.counts.left_out);
    assert!(rows.left_out("near_duplicate") > 10);
    let mut seen: HashMap<String, &str> = HashMap::new();
    for side in ["train.jsonl", "validation.jsonl"] {
        for row in rows.of(side) {
            let answer = row["completion"][0]["content"].as_str().unwrap().to_owned();
            let before = seen.insert(answer, side);
            assert!(before.is_none(), "an answer that was left on {before:?} is on {side} too");
        }
    }
    assert!(rows.made.rows("validation.jsonl") > 30);
}

#[test]
fn a_prompt_to_train_on_is_not_asked_in_validation() {
    let scene = Scene::new();
    for n in 0..60_u64 {
        scene.asked(&format!("s{n}"), "", "the same short question", &words(n, 30), true);
    }
    let rows = scene.make(&half(DatasetFormat::TrlSft));
    assert_eq!(rows.made.rows("validation.jsonl"), 0);
    assert!(rows.left_out("prompt_in_train") > 10);
    assert!(rows.made.rows("train.jsonl") > 10);
}
