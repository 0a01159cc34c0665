//! What a log of runs says: each run once, and those that did not end.

use std::ops::ControlFlow;

use manent::{Body, Durability, Store};
use manent_runs::{Run, Runs, Status};

use super::{all, key};

fn add(runs: &Runs, json: &str) {
    let body = Body::parse(json.as_bytes()).unwrap();
    runs.append(&key("a"), &[body], Durability::Sync).unwrap();
}

#[test]
fn a_run_that_did_not_end_shows_as_one_whose_outcome_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    assert!(all(&runs, "a").is_empty(), "a session without runs is empty, and no error");
    add(&runs, r#"{"kind":"run-start","run_id":"1","skill":"lint"}"#);
    add(&runs, r#"{"kind":"run-start","run_id":"2","skill":"test"}"#);
    add(&runs, r#"{"kind":"run","run_id":"2","skill":"test","final_status":"success"}"#);
    add(&runs, r#"{"kind":"run","run_id":"2","skill":"test","final_status":"success"}"#);
    let expected = [("test".to_owned(), Status::Success), ("lint".to_owned(), Status::Unknown)];
    assert_eq!(all(&runs, "a"), expected);
    assert!(dir.path().join("runs/a.jsonl").exists());
}

#[test]
fn entries_of_other_programs_are_read_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("runs")).unwrap();
    let line = r#"{"session_id":"b","timestamp":"2026-01-02T03:04:05Z","skill":"fix","input":[1,{"x":null}],
        "attempts":[{"attempt":2,"verified":true},{"attempt":1,"model":7}],"final_status":"splendid",
        "duration_ms":-4}"#;
    std::fs::write(dir.path().join("runs/b.jsonl"), format!("{}\n", line.replace('\n', ""))).unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    let seen = runs
        .each(&key("b"), |run| {
            assert_eq!((&*run.skill, run.status, run.duration_ms), ("fix", Status::Other, None));
            assert_eq!(run.input, Some(r#"[1,{"x":null}]"#));
            assert_eq!((run.attempts[0].verified, &*run.attempts[1].model), (Some(true), "7"));
            assert_eq!(run.oddities.len(), 4, "{:?}", run.oddities);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((seen.runs, seen.others, seen.damage.len()), (1, 0, 0));
}

#[test]
fn a_run_and_a_key_of_the_same_name_are_two_runs() {
    let dir = tempfile::tempdir().unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    add(&runs, r#"{"kind":"run","run_id":"x","skill":"one","final_status":"ok"}"#);
    add(&runs, r#"{"kind":"run","idempotency_key":"x","skill":"two","final_status":"ok"}"#);
    add(&runs, r#"{"kind":"run","skill":"three"}"#);
    add(&runs, r#"{"kind":"run","skill":"three"}"#);
    let skills: Vec<String> = all(&runs, "a").into_iter().map(|(skill, _)| skill).collect();
    assert_eq!(skills, ["one", "two", "three", "three"], "two without a name are never the same");
}

#[test]
fn no_shape_of_a_line_hides_the_runs_around_it() {
    let deep = format!(r#"{{"skill":"deep","input":{}1{}}}"#, "[".repeat(50_000), "]".repeat(50_000));
    let lines = [
        r#"{"skill":"first"}"#,
        r#"{"skill":"twice","skill":"second","phase":{"a":1,"a":2}}"#,
        r#"{"skill":["no","text"],"attempts":"none","timestamp":{},"duration_ms":"long"}"#,
        r#"{"skill":"half \ud800","attempts":[{"attempt":1e400},7,{"attempt":1},{"attempt":1}]}"#,
        r#"{"kind":"run-start","skill":"begun without an id"}"#,
        r#"{"kind":7,"skill":"another kind"}"#,
        "[1]",
        &deep,
        r#"{"skill":"last","timestamp":-1,"input":1e999}"#,
    ];
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("runs")).unwrap();
    std::fs::write(dir.path().join("runs/a.jsonl"), lines.join("\n") + "\n").unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    let skills: Vec<String> = all(&runs, "a").into_iter().map(|(skill, _)| skill).collect();
    let wanted =
        ["first", "second", r#"["no","text"]"#, "half \u{fffd}", "deep", "last", "begun without an id"];
    assert_eq!(skills, wanted);
    let seen = runs.each(&key("a"), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((seen.runs, seen.unknown, seen.others, seen.damage.len()), (7, 1, 1, 1), "{:?}", seen.damage);
}

#[test]
fn a_project_is_its_path_what_is_below_it_or_the_end_of_its_path() {
    let run = |root: &'static str| Run { project_root: root.into(), ..Run::default() };
    for (root, project, is_in) in [
        ("/home/u/app", "/home/u/app", true),
        ("/home/u/app/", "/home/u/app//", true),
        ("/home/u/app/web", "/home/u/app", true),
        ("/home/u/apple", "/home/u/app", false),
        ("/home/u/app", "/", true),
        ("/home/u/app", "app", true),
        ("/home/u/app", "u/app", true),
        ("/home/u/my-app", "app", false),
        ("/srv/home/u/app", "/home/u/app", false),
        ("C:\\work\\app", "C:\\work", true),
        ("", "app", false),
    ] {
        assert_eq!(run(root).is_in(project), is_in, "{root} in {project}");
    }
}
