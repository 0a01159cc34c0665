//! Recording runs: a beginning and an end, entries of other programs, each once.

use std::ops::ControlFlow;
use std::time::Duration;

use manent::{Durability, Store};
use manent_runs::{EntryError, NewAttempt, NewEntry, NewRun, Oddity, RunEnd, RunReceipt, Runs, Status};
use serde_json::value::RawValue;

use super::{all, key};

fn store() -> (tempfile::TempDir, Runs) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    (dir, runs)
}

fn entry(json: &str) -> NewEntry {
    NewEntry::parse(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e}"))
}

fn record(runs: &Runs, json: &str) -> RunReceipt {
    runs.record(&key("a"), &[entry(json)], Durability::Flush).unwrap().remove(0)
}

fn log(dir: &tempfile::TempDir) -> String {
    std::fs::read_to_string(dir.path().join("runs/a.jsonl")).unwrap()
}

#[test]
fn what_was_begun_is_there_before_it_ends_and_whole_afterwards() {
    let (_dir, runs) = store();
    let input = RawValue::from_string(r#"{"n":1e999,"n":2,"s":"\ud800"}"#.to_owned()).unwrap();
    let run = NewRun {
        skill: "lint".into(),
        skill_hash: "h1".into(),
        phase: "check".into(),
        project_root: "/p".into(),
        input: Some(input),
        ..NewRun::default()
    };
    let started = runs.begin(&key("a"), run).unwrap();
    assert_eq!(all(&runs, "a"), [("lint".to_owned(), Status::Unknown)]);
    let attempt = |output: &str, verified| NewAttempt {
        model: "m".into(),
        runner_output: output.into(),
        verified: Some(verified),
        exit_code: Some(-1),
        duration: Some(Duration::from_millis(7)),
        ..NewAttempt::default()
    };
    let ended = RunEnd {
        attempts: vec![attempt("bad \u{1b}[31m\n", false), attempt("good", true)],
        status: Status::Success,
        model_used: "m".into(),
        duration: Duration::from_millis(1500),
    };
    let recorded = runs.finish(&started, &ended).unwrap();
    assert_eq!((recorded.run_id.as_str(), recorded.receipt.seq), (started.run_id(), 2));
    let seen = runs
        .each(&key("a"), |run| {
            assert_eq!((&*run.skill, &*run.phase, &*run.project_root), ("lint", "check", "/p"));
            assert_eq!(run.input, Some(r#"{"n":1e999,"n":2,"s":"\ufffd"}"#));
            assert_eq!((run.status, run.duration_ms, &*run.session_id), (Status::Success, Some(1500), "a"));
            let [first, second] = &run.attempts[..] else { panic!("{:?}", run.attempts) };
            assert_eq!((first.attempt, first.verified, first.exit_code), (Some(1), Some(false), Some(-1)));
            assert_eq!((&*first.runner_output, &*second.skill_hash), ("bad \u{1b}[31m\n", "h1"));
            assert_eq!((second.attempt, second.verified, second.duration_ms), (Some(2), Some(true), Some(7)));
            assert!(run.oddities.is_empty(), "{:?}", run.oddities);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!((seen.runs, seen.unknown, seen.others), (1, 0, 0));
    assert!(matches!(
        runs.begin(&key("a"), NewRun::default()),
        Err(manent_runs::Error::Run(EntryError::NoSkill))
    ));
}

#[test]
fn what_cannot_be_a_run_is_refused_in_words() {
    let refused = |json: &[u8]| NewEntry::parse(json).unwrap_err();
    assert_eq!(refused(br#"{"skill":"x","meta":{}}"#), EntryError::Meta);
    assert_eq!(refused(br#"{"skill":"x","kind":"title"}"#), EntryError::Kind);
    assert_eq!(refused(br#"{"phase":"x"}"#), EntryError::NoSkill);
    assert!(matches!(refused(br#"{"skill":"x","skill":"y"}"#), EntryError::Body(_)));
    assert!(matches!(refused(b"[]"), EntryError::Body(_)));
    assert!(matches!(refused(b""), EntryError::Body(_)));
    assert_eq!(entry(r#"{"skill":"x"}"#).session().unwrap_err(), EntryError::NoSession);
    let too_long = format!(r#"{{"skill":"x","session_id":"{}"}}"#, "k".repeat(10_000));
    assert!(matches!(entry(&too_long).session(), Err(EntryError::Session(_))));
}

#[test]
fn what_is_odd_is_kept_and_named() {
    let (dir, runs) = store();
    let odd = r#"{"seq":9,"crc":"no","skill":"odd","session_id":"a","timestamp":"1970-01-01T00:00:03Z",
        "attempts":[{"attempt":2},{"attempt":1},{"attempt":1}],"final_status":"splendid","duration_ms":-3,
        "mine":{"k":1,"k":2,"n":123456789012345678901234567890}}"#;
    let parsed = entry(odd);
    let oddities =
        [Oddity::NegativeDuration, Oddity::Order, Oddity::Repeated, Oddity::OldTime, Oddity::Status];
    for odd in oddities {
        assert!(parsed.oddities.contains(&odd), "{odd:?} is not among {:?}", parsed.oddities);
    }
    assert_eq!(parsed.session().unwrap(), key("a"));
    runs.record(&key("a"), &[parsed], Durability::Flush).unwrap();
    assert!(log(&dir).contains(r#""mine":{"k":1,"k":2,"n":123456789012345678901234567890}"#));
    assert!(!log(&dir).contains(r#""crc":"no""#));
    assert_eq!(all(&runs, "a"), [("odd".to_owned(), Status::Other)]);
}

#[test]
fn bytes_that_are_no_text_are_replaced_and_the_entry_is_marked() {
    let (dir, runs) = store();
    for bytes in [&b"{\"skill\":\"a\xff\"}"[..], br#"{"skill":"a\udc80"}"#, br#"{"skill":"a","\ud800":1}"#] {
        let parsed = NewEntry::parse(bytes).unwrap();
        assert_eq!(parsed.oddities, [Oddity::Replaced]);
        runs.record(&key("a"), &[parsed], Durability::Flush).unwrap();
    }
    assert_eq!(log(&dir).matches(r#""replaced_utf8":true"#).count(), 3);
    let mut marked = 0;
    runs.each(&key("a"), |run| {
        marked += u64::from(run.oddities.contains(&Oddity::Replaced));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(marked, 3);
    assert!(NewEntry::parse(b"{\"skill\":\"x\"}\xff").is_err(), "outside of a text it is no JSON");
}

#[test]
fn the_same_entry_is_recorded_once() {
    let (dir, runs) = store();
    let json = r#"{"skill":"x","idempotency_key":"k1","final_status":"ok"}"#;
    let first = record(&runs, json);
    assert!(!first.repeated && !first.run_id.is_empty());
    let again = record(&runs, json);
    assert!(again.repeated);
    assert_eq!((&again.receipt.seq, &again.run_id), (&first.receipt.seq, &first.run_id));
    assert_eq!(again.receipt.position, first.receipt.position);
    // Another process, which knows nothing of it yet; and the same key twice in one batch.
    let other = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    assert_eq!(record(&other, json).receipt.seq, first.receipt.seq);
    let new = r#"{"skill":"y","idempotency_key":"k2"}"#;
    let batch = [entry(new), entry(json), entry(new), entry(r#"{"skill":"z"}"#)];
    let receipts = other.record(&key("a"), &batch, Durability::Sync).unwrap();
    let told: Vec<(u64, bool)> = receipts.iter().map(|r| (r.receipt.seq, r.repeated)).collect();
    assert_eq!(told, [(2, false), (1, true), (2, true), (3, false)]);
    // The first one hears of what the other wrote.
    assert!(record(&runs, new).repeated);
    assert_eq!(log(&dir).lines().count(), 4);
    // By its own id too; in another session it is another.
    let by_id = r#"{"skill":"w","run_id":"mine"}"#;
    assert_eq!((record(&runs, by_id).repeated, record(&runs, by_id).repeated), (false, true));
    let elsewhere = runs.record(&key("b"), &[entry(json)], Durability::Flush).unwrap();
    assert!(!elsewhere[0].repeated);
}

#[test]
fn a_run_that_is_begun_again_after_a_crash_is_the_same_run() {
    let (_dir, runs) = store();
    let run = NewRun { skill: "x".into(), idempotency_key: "job-7".into(), ..NewRun::default() };
    let first = runs.begin(&key("a"), run.clone()).unwrap();
    let again = runs.begin(&key("a"), run.clone()).unwrap();
    assert_eq!(first.run_id(), again.run_id());
    assert!(again.recorded.repeated && !again.recorded.ended);
    let ended = RunEnd { status: Status::Failure, ..RunEnd::default() };
    let one = runs.finish(&first, &ended).unwrap();
    let two = runs.finish(&again, &ended).unwrap();
    assert_eq!((one.receipt.seq, two.receipt.seq, two.repeated), (2, 2, true));
    assert!(runs.begin(&key("a"), run).unwrap().recorded.ended);
    // Told by another program with the key alone, it is still the end of what was begun.
    record(&runs, r#"{"kind":"run-start","skill":"y","idempotency_key":"job-8"}"#);
    record(&runs, r#"{"skill":"y","idempotency_key":"job-8","final_status":"ok"}"#);
    let expected = [("x".to_owned(), Status::Failure), ("y".to_owned(), Status::Success)];
    assert_eq!(all(&runs, "a"), expected);
}

#[test]
fn files_of_other_programs_are_gone_on_with_and_their_keys_count() {
    let (dir, runs) = store();
    std::fs::create_dir_all(dir.path().join("runs")).unwrap();
    let path = dir.path().join("runs/a.jsonl");
    let theirs = "{\"skill\":\"one\",\"idempotency_key\":\"k\"}\n{\"skill\":\"two\"}\n";
    std::fs::write(&path, theirs).unwrap();
    let known = record(&runs, r#"{"skill":"one","idempotency_key":"k"}"#);
    assert_eq!((known.receipt.seq, known.repeated, known.run_id.as_str()), (1, true, ""));
    assert!(!record(&runs, r#"{"skill":"three","idempotency_key":"n"}"#).repeated);
    assert!(log(&dir).starts_with(theirs));
    assert_eq!(all(&runs, "a").len(), 3);
    // They write a new file, in which nothing stands where it stood.
    std::fs::write(&path, "{\"skill\":\"four\"}\n{\"skill\":\"one\",\"idempotency_key\":\"k\"}\n").unwrap();
    let known = record(&runs, r#"{"skill":"one","idempotency_key":"k"}"#);
    assert_eq!((known.receipt.seq, known.repeated), (2, true));
    assert!(!record(&runs, r#"{"skill":"three","idempotency_key":"n"}"#).repeated, "it is gone there");
}

#[test]
fn many_at_once_record_each_entry_once() {
    let (dir, runs) = store();
    let home = dir.path().to_owned();
    std::thread::scope(|scope| {
        for process in 0..4 {
            let home = home.clone();
            let shared = runs.clone();
            scope.spawn(move || {
                let runs =
                    if process % 2 == 0 { shared } else { Runs::open(&Store::open(home).unwrap()).unwrap() };
                for n in 0..50 {
                    let json = format!(r#"{{"skill":"s{n}","idempotency_key":"k{n}"}}"#);
                    record(&runs, &json);
                    record(&runs, &format!(r#"{{"skill":"free {process}"}}"#));
                }
            });
        }
    });
    let mut skills: Vec<String> = all(&runs, "a").into_iter().map(|(skill, _)| skill).collect();
    assert_eq!(skills.len(), 250, "in the file there is nothing twice either");
    skills.sort();
    skills.dedup();
    assert_eq!(skills.len(), 54);
    assert_eq!(log(&dir).lines().count(), 251);
}

#[test]
fn an_entry_of_fifty_megabytes_is_kept_whole_and_one_that_is_too_long_is_refused() {
    let (_dir, runs) = store();
    let output = "x".repeat(50 << 20);
    let json = format!(r#"{{"skill":"long","attempts":[{{"attempt":1,"runner_output":"{output}"}}]}}"#);
    record(&runs, &json);
    let seen = runs.each(&key("a"), |run| {
        assert_eq!(run.attempts[0].runner_output.len(), 50 << 20);
        ControlFlow::Continue(())
    });
    assert_eq!(seen.unwrap().runs, 1);
    // That a run ended is recorded however much it printed.
    let run = NewRun { skill: "loud".into(), ..NewRun::default() };
    let started = runs.begin(&key("b"), run).unwrap();
    let loud =
        NewAttempt { runner_output: format!("{}é!", "\u{1}".repeat(6 << 20)), ..NewAttempt::default() };
    let ended = RunEnd { attempts: vec![loud; 2], status: Status::Failure, ..RunEnd::default() };
    runs.finish(&started, &ended).unwrap();
    runs.each(&key("b"), |run| {
        let attempt = &run.attempts[1];
        let cut =
            serde_json::from_str::<serde_json::Value>(run.line).unwrap()["attempts"][1]["cut_bytes"].clone();
        assert_eq!(attempt.runner_output.len() as u64 + cut.as_u64().unwrap(), (6 << 20) + 3);
        assert!(attempt.runner_output.ends_with("\u{1}é!"));
        ControlFlow::Continue(())
    })
    .unwrap();
    let json = format!(r#"{{"skill":"longer","phase":"{}"}}"#, "x".repeat(64 << 20));
    assert!(entry(&json).check_size(&key("a")).is_err());
}

#[test]
fn one_at_a_time_is_at_work_on_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    let (one, other) = (open(), open());
    let alone = one.lock_run(&key("a"), "k").unwrap();
    let is_running =
        |runs: &Runs| matches!(runs.lock_run(&key("a"), "k"), Err(manent_runs::Error::Running { .. }));
    assert!(is_running(&one) && is_running(&other));
    // Other keys, of other sessions, and however they are put together.
    for (session, by_key) in [("a", "kk"), ("a", ""), ("ak", ""), ("b", "k"), ("a", "../../x\0\n")] {
        other.lock_run(&key(session), by_key).unwrap();
    }
    // Meanwhile others record, and lists do not take the file for a log.
    other.begin(&key("a"), NewRun { skill: "s".to_owned(), ..NewRun::default() }).unwrap();
    assert_eq!(one.sessions().unwrap().len(), 1);
    drop(alone);
    let names = || std::fs::read_dir(dir.path().join("runs")).unwrap().map(|entry| entry.unwrap().path());
    assert!(names().all(|path| path.ends_with("a.jsonl")), "nothing is left behind");
    // A file that somebody left behind, or removed from under us, means nothing.
    let alone = other.lock_run(&key("a"), "k").unwrap();
    let file = names().find(|path| !path.ends_with("a.jsonl")).unwrap();
    std::fs::remove_file(&file).unwrap();
    drop(alone);
    std::fs::write(&file, "left behind").unwrap();
    let alone = one.lock_run(&key("a"), "k").unwrap();
    assert!(is_running(&other));
    drop(alone);
    assert!(!is_running(&other));
}
