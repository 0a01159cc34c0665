//! Runs that were judged afterwards: their verdict is what somebody said, whatever the record had said before.

use manent_runs::dataset::DatasetFormat;
use manent_runs::{NewVerdict, RunName, Runs};
use serde_json::{Value, json};

use crate::scene::{Scene, key, passage, words};

/// A question, its answer, and the run of one attempt that gave it, with these members.
fn answered(scene: &Scene, n: u64, members: &Value) {
    let (session, id) = (format!("s{n}"), format!("run-{n}"));
    let asked = scene.say(&session, "user", &words(n, 30));
    let said = scene.say(&session, "assistant", &format!("answer {n} {}", words(n + 100, 30)));
    let mut attempt = json!({"attempt": 1, "model": "m", "prompt_ref": passage(&session, asked, asked),
        "output_ref": passage(&session, said, said)});
    attempt.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let status = "success";
    scene
        .run(&session, &json!({"run_id": id, "skill": "fix", "attempts": [attempt], "final_status": status}));
}

fn judge(scene: &Scene, n: u64, verified: Option<bool>) {
    let run = RunName::Id(format!("run-{n}"));
    let verdict = NewVerdict { run, attempt: None, verified, note: String::new() };
    Runs::open(&scene.store).unwrap().judge(&key(&format!("s{n}")), &verdict).unwrap();
}

#[test]
fn what_was_said_afterwards_overrules_what_was_on_record() {
    let scene = Scene::new();
    answered(&scene, 1, &json!({}));
    answered(&scene, 2, &json!({"verified": true, "exit_code": 1}));
    answered(&scene, 3, &json!({"error_class": "interrupted", "verified": false}));
    answered(&scene, 4, &json!({"verified": true}));
    answered(&scene, 5, &json!({"error_class": "verifier"}));
    answered(&scene, 6, &json!({"error_class": "sandbox"}));
    let labels = || {
        let rows = scene.make_all(DatasetFormat::Kto);
        let label = |row: &Value| {
            let text = row["completion"].to_string();
            let from = text.find("answer ").unwrap() + "answer ".len();
            (text[from..=from].parse::<u64>().unwrap(), row["label"].as_bool().unwrap())
        };
        let mut labels: Vec<(u64, bool)> = rows.of("train.jsonl").iter().map(label).collect();
        labels.sort_unstable();
        (labels, rows.left_out("not_verified"), rows.left_out("verified_with_error"))
    };
    // An interrupt, a missing verifier and a sandbox that did not start say nothing of what it was worth.
    assert_eq!(labels(), (vec![(4, true)], 4, 1));
    judge(&scene, 1, Some(true));
    judge(&scene, 2, Some(true));
    judge(&scene, 3, Some(true));
    judge(&scene, 4, Some(false));
    assert_eq!(labels(), (vec![(1, true), (2, true), (3, true), (4, false)], 2, 0));
    for n in 1..=4 {
        judge(&scene, n, None);
    }
    assert_eq!(labels(), (vec![(4, true)], 4, 1), "taken back");
}

#[test]
fn of_an_attempt_that_is_written_twice_the_one_counts_that_was_judged() {
    let scene = Scene::new();
    let (asked, said) = (scene.say("s9", "user", &words(9, 30)), scene.say("s9", "assistant", &words(8, 30)));
    for (id, verified) in [("quoted", json!(null)), ("checked", json!(false))] {
        let attempt = json!({"verified": verified, "prompt_ref": passage("s9", asked, asked),
            "output_ref": passage("s9", said, said)});
        scene.run("s9", &json!({"run_id": id, "skill": "fix", "attempts": [attempt, attempt]}));
        let run = RunName::Id(id.to_owned());
        let verdict = NewVerdict { run, attempt: None, verified: Some(true), note: String::new() };
        Runs::open(&scene.store).unwrap().judge(&key("s9"), &verdict).unwrap();
    }
    let rows = scene.make_all(DatasetFormat::Kto);
    assert_eq!(rows.left_out("attempt_repeated"), 2);
    assert_eq!(rows.left_out("contradiction"), 0);
    let train = rows.of("train.jsonl");
    assert_eq!(train.len(), 1, "both runs say the same: {train:?}");
    assert_eq!(train[0]["label"], true);
}
