//! Verdicts that are given afterwards: what they change, what they leave, and lines that only look like some.

use std::ops::ControlFlow;
use std::sync::Barrier;

use manent::{Durability, Store};
use manent_runs::{
    EntryError, Error, NewAttempt, NewEntry, NewRun, NewVerdict, ReadSummary, RunEnd, RunName, Runs,
    StartedRun, Status, VerdictReceipt,
};

use super::key;

fn store() -> (tempfile::TempDir, Runs) {
    let dir = tempfile::tempdir().unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    (dir, runs)
}

fn begin(runs: &Runs, skill: &str) -> StartedRun {
    runs.begin(&key("a"), NewRun { skill: skill.to_owned(), ..NewRun::default() }).unwrap()
}

/// A run of so many attempts, none of them checked.
fn ended(runs: &Runs, skill: &str, attempts: usize, status: Status) -> String {
    let started = begin(runs, skill);
    let attempts = vec![NewAttempt::default(); attempts];
    runs.finish(&started, &RunEnd { attempts, status, ..RunEnd::default() }).unwrap();
    started.run_id().to_owned()
}

fn on(run_id: &str, verified: Option<bool>) -> NewVerdict {
    NewVerdict { run: RunName::Id(run_id.to_owned()), attempt: None, verified, note: String::new() }
}

fn judge(runs: &Runs, run_id: &str, verified: Option<bool>) -> VerdictReceipt {
    runs.judge(&key("a"), &on(run_id, verified)).unwrap()
}

/// A run as it is read: its status, and of each attempt whether it is verified and whether that was said afterwards.
type JudgedRun = (String, Status, Vec<(Option<bool>, bool)>);

fn read_runs(runs: &Runs) -> (Vec<JudgedRun>, ReadSummary) {
    let mut found = Vec::new();
    let seen = runs.each(&key("a"), |run| {
        let attempts = run.attempts.iter().map(|attempt| (attempt.verified, attempt.judged.is_some()));
        found.push((run.skill.to_string(), run.status, attempts.collect()));
        ControlFlow::Continue(())
    });
    (found, seen.unwrap())
}

fn only(runs: &Runs) -> JudgedRun {
    let (mut found, _) = read_runs(runs);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// A log as another program left it.
fn foreign(lines: &[&str]) -> (tempfile::TempDir, Runs) {
    let (dir, runs) = store();
    std::fs::create_dir(dir.path().join("runs")).unwrap();
    std::fs::write(dir.path().join("runs/a.jsonl"), lines.join("\n") + "\n").unwrap();
    (dir, runs)
}

#[test]
fn a_verdict_counts_for_the_last_attempt_and_for_the_run_and_the_last_one_counts() {
    let (_dir, runs) = store();
    let id = ended(&runs, "fix", 2, Status::Success);
    ended(&runs, "other", 1, Status::Success);
    let unjudged = read_runs(&runs).0;
    let judged = judge(&runs, &id, Some(false));
    assert_eq!((judged.attempt, judged.repeated, &judged.run_id), (Some(2), false, &id));
    let receipt = judged.receipt.unwrap();
    assert_eq!((receipt.seq, receipt.durability), (5, Durability::Sync));
    let (found, seen) = read_runs(&runs);
    let bad = ("fix".to_owned(), Status::Failure, vec![(None, false), (Some(false), true)]);
    assert_eq!(found, [bad, unjudged[1].clone()]);
    assert_eq!((seen.runs, seen.others, seen.unknown), (2, 0, 0), "a verdict is no line that is no run");

    judge(&runs, &id, Some(true));
    assert_eq!(read_runs(&runs).0[0].1, Status::Success);
    // By its number it is the same attempt, and the later verdict counts.
    let first = NewVerdict { attempt: Some(1), ..on(&id, Some(false)) };
    let second = NewVerdict { attempt: Some(2), ..on(&id, Some(false)) };
    runs.judge(&key("a"), &first).unwrap();
    runs.judge(&key("a"), &second).unwrap();
    let bad = ("fix".to_owned(), Status::Failure, vec![(Some(false), true), (Some(false), true)]);
    assert_eq!(read_runs(&runs).0[0], bad);

    // Taken back, all is as it was.
    judge(&runs, &id, None);
    runs.judge(&key("a"), &NewVerdict { verified: None, ..first }).unwrap();
    assert_eq!(read_runs(&runs).0, unjudged);
}

#[test]
fn a_run_that_never_ended_has_an_outcome_once_somebody_says_so() {
    let (_dir, runs) = store();
    let id = begin(&runs, "lost").run_id().to_owned();
    let other = begin(&runs, "still open");
    let verdict = NewVerdict { note: "the file is there".to_owned(), ..on(&id, Some(true)) };
    let judged = runs.judge(&key("a"), &verdict).unwrap();
    assert_eq!(judged.attempt, None);
    let (found, seen) = read_runs(&runs);
    assert_eq!(found[0], ("lost".to_owned(), Status::Success, vec![]));
    assert_eq!((found[1].1, seen.unknown), (Status::Unknown, 1));

    // What was said, and when, can be asked for.
    let mut place = None;
    runs.each(&key("a"), |run| {
        place = place.or(run.judged);
        ControlFlow::Continue(())
    })
    .unwrap();
    let place = place.unwrap();
    let said = runs.verdict(&key("a"), place.seq).unwrap().unwrap();
    assert_eq!((&*said.note, said.at_ms, said.verified), ("the file is there", place.at_ms, Some(true)));
    assert!(place.at_ms.is_some());
    assert_eq!(runs.run_of(&key("a"), place.seq).unwrap(), Some(id), "a verdict is about its run");
    assert_eq!(runs.verdict(&key("a"), 1).unwrap(), None, "that is a run");
    assert_eq!(runs.verdict(&key("a"), 99).unwrap(), None);

    // One that ends all the same: the verdict is on its last attempt.
    judge(&runs, other.run_id(), Some(false));
    let attempts = vec![NewAttempt::default()];
    runs.finish(&other, &RunEnd { attempts, status: Status::Success, ..RunEnd::default() }).unwrap();
    assert_eq!(read_runs(&runs).0[0], ("still open".to_owned(), Status::Failure, vec![(Some(false), true)]));
}

#[test]
fn the_very_same_verdict_is_not_written_twice() {
    let (dir, runs) = store();
    let id = ended(&runs, "fix", 1, Status::Success);
    let nothing = judge(&runs, &id, None);
    assert!(nothing.repeated && nothing.receipt.is_none(), "there is nothing to take back: {nothing:?}");
    let first = judge(&runs, &id, Some(true));
    let file = std::fs::read(dir.path().join("runs/a.jsonl")).unwrap();
    // Also for another program, which knows nothing of this one; and by the number of the attempt, or of the record.
    let another = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    let by_number = NewVerdict { attempt: Some(1), ..on(&id, Some(true)) };
    let by_seq = NewVerdict { run: RunName::Seq(2), ..on(&id, Some(true)) };
    for runs in [&runs, &another] {
        for again in [&on(&id, Some(true)), &by_number, &by_seq] {
            let again = runs.judge(&key("a"), again).unwrap();
            assert!(again.repeated);
            assert_eq!((again.receipt, again.run_id), (first.receipt.clone(), id.clone()));
        }
    }
    assert_eq!(std::fs::read(dir.path().join("runs/a.jsonl")).unwrap(), file);
    // With another note it is another one; and one that was said before, but not last, too.
    let noted = NewVerdict { note: "looked again".to_owned(), ..on(&id, Some(true)) };
    assert!(!another.judge(&key("a"), &noted).unwrap().repeated);
    assert!(!judge(&runs, &id, Some(true)).repeated);
    let back = judge(&runs, &id, None);
    assert_eq!(judge(&another, &id, None), VerdictReceipt { repeated: true, ..back });
}

#[test]
fn what_is_not_there_is_not_judged() {
    let (dir, runs) = store();
    let refused = runs.judge(&key("a"), &on("none", Some(true)));
    assert!(matches!(refused, Err(Error::NoRun { .. })), "{refused:?}");
    assert!(!dir.path().join("runs").exists(), "asking made nothing");
    let id = ended(&runs, "fix", 2, Status::Success);
    let open = begin(&runs, "open").run_id().to_owned();
    let file = std::fs::read(dir.path().join("runs/a.jsonl")).unwrap();
    let elsewhere = runs.judge(&key("b"), &on(&id, Some(true)));
    assert!(matches!(elsewhere, Err(Error::NoRun { .. })), "{elsewhere:?}");
    for run in
        [RunName::Id(String::new()), RunName::Id(id[..8].to_owned()), RunName::Seq(0), RunName::Seq(99)]
    {
        let refused = runs.judge(&key("a"), &NewVerdict { run, ..on("", Some(true)) });
        assert!(matches!(refused, Err(Error::NoRun { .. })), "{refused:?}");
    }
    for (id, attempt, last) in
        [(&id, 0, "the last is 2"), (&id, 3, "the last is 2"), (&open, 1, "it has none")]
    {
        let verdict = NewVerdict { attempt: Some(attempt), ..on(id, Some(true)) };
        let refused = runs.judge(&key("a"), &verdict).unwrap_err();
        assert!(
            matches!(refused, Error::NoAttempt { .. }) && refused.to_string().contains(last),
            "{refused}"
        );
    }
    let long = NewVerdict { note: "x".repeat(70 << 20), ..on(&id, Some(true)) };
    assert!(
        matches!(runs.judge(&key("a"), &long), Err(Error::Manent(manent::Error::Store(_)))),
        "no line is that long"
    );
    assert_eq!(std::fs::read(dir.path().join("runs/a.jsonl")).unwrap(), file, "nothing was written");
}

#[test]
fn runs_of_other_programs_are_judged_by_their_number() {
    let (dir, runs) = foreign(&[
        r#"{"skill":"one","attempts":[{"attempt":3},{"attempt":1},{"attempt":3}],"final_status":"failed"}"#,
        r#"{"skill":"two","attempts":[{},{}],"final_status":"splendid"}"#,
        r#"{"kind":"run-start","skill":"begun"}"#,
    ]);
    let by_seq = |seq, attempt| NewVerdict { run: RunName::Seq(seq), attempt, ..on("", Some(true)) };
    // Attempts in no order: the last one is that with the highest number, and it is there twice.
    let judged = runs.judge(&key("a"), &by_seq(1, None)).unwrap();
    assert_eq!((judged.attempt, judged.run_seq, &*judged.run_id), (Some(3), 1, ""));
    // Attempts without numbers are counted.
    runs.judge(&key("a"), &by_seq(2, Some(1))).unwrap();
    runs.judge(&key("a"), &by_seq(3, None)).unwrap();
    assert!(runs.judge(&key("a"), &by_seq(3, None)).unwrap().repeated);
    let good = (Some(true), true);
    let expected = [
        ("one".to_owned(), Status::Success, vec![good, (None, false), good]),
        ("two".to_owned(), Status::Other, vec![good, (None, false)]),
        ("begun".to_owned(), Status::Success, vec![]),
    ];
    assert_eq!(read_runs(&runs).0, expected);
    let file = std::fs::read_to_string(dir.path().join("runs/a.jsonl")).unwrap();
    assert!(file.contains(r#""run_seq":1,"#) && !file.contains("run_id"), "{file}");
}

#[test]
fn lines_that_only_look_like_verdicts_change_nothing() {
    let run = r#"{"kind":"run","run_id":"x","skill":"s","final_status":"failed","attempts":[{"attempt":1}]}"#;
    let note = "n".repeat(10 << 20);
    let long = format!(r#"{{"kind":"run-verdict","run_id":"y","verified":true,"note":"{note}"}}"#);
    let deep = format!(
        r#"{{"kind":"run-verdict","run_id":"x","verified":{}1{}}}"#,
        "[".repeat(9000),
        "]".repeat(9000)
    );
    // What no reader could understand is counted as a line that is no run; what is about another run is a verdict.
    let (no_verdicts, stray): (Vec<&str>, Vec<&str>) = (
        vec![
            r#"{"kind":"run-verdict","run_id":"x","attempt":0,"verified":true}"#,
            r#"{"kind":"run-verdict","run_id":"x","attempt":-1,"verified":true}"#,
            r#"{"kind":"run-verdict","run_id":"x","attempt":1.0,"verified":true}"#,
            r#"{"kind":"run-verdict","run_id":"x","attempt":"1","verified":true}"#,
            r#"{"kind":"run-verdict","run_id":"x","attempt":99999999999999999999999,"verified":true}"#,
            r#"{"kind":"run-verdict","run_id":"x","verified":"yes"}"#,
            r#"{"kind":"run-verdict","run_id":"x","verified":1}"#,
            r#"{"kind":"run-verdict","run_id":"x"}"#,
            r#"{"kind":"run-verdict","run_id":"","verified":true}"#,
            r#"{"kind":"run-verdict","run_id":{"a":"x"},"verified":true}"#,
            r#"{"kind":"run-verdict","run_seq":-1,"verified":true}"#,
            r#"{"kind":"run-verdict","verified":true}"#,
            r#"{"kind":"run\u002dverdict","run_id":"x","verified":true}"#,
            r#"{"kind":["run-verdict"],"run_id":"x","verified":true}"#,
            &deep,
        ],
        vec![
            r#"{"kind":"run-verdict","run_id":"x","attempt":999999,"verified":true}"#,
            r#"{"kind":"run-verdict","run_id":"of another session","verified":true}"#,
            r#"{"kind":"run-verdict","run_seq":1,"verified":true}"#,
            r#"{"kind":"run-verdict","run_seq":999,"verified":true}"#,
            &long,
        ],
    );
    let mut lines = vec![run];
    lines.extend(&no_verdicts);
    lines.extend(&stray);
    let (_dir, runs) = foreign(&lines);
    let (found, seen) = read_runs(&runs);
    assert_eq!(found, [("s".to_owned(), Status::Failure, vec![(None, false)])]);
    assert_eq!((seen.others, seen.damage.len()), (no_verdicts.len() as u64, 0));
    // Among all of these, one that is one counts, however it is written.
    lines.push(r#" { "note":{"a":1} , "verified" :true, "run_id":"\u0078", "attempt":null, "kind" : "run-verdict" } "#);
    let (_dir, runs) = foreign(&lines);
    assert_eq!(only(&runs), ("s".to_owned(), Status::Success, vec![(Some(true), true)]));
    assert!(!judge(&runs, "x", Some(false)).repeated);
    assert_eq!(only(&runs).1, Status::Failure);
}

#[test]
fn a_run_that_speaks_of_verdicts_has_none() {
    let (_dir, runs) = store();
    let verdict = r#"{"kind":"run-verdict","run_id":"x","verified":true}"#;
    let entry = format!(r#"{{"skill":"s","kind":"run","input":{verdict},"run_id":"x"}}"#);
    runs.record(&key("a"), &[NewEntry::parse(entry.as_bytes()).unwrap()], Durability::Sync).unwrap();
    assert_eq!(only(&runs), ("s".to_owned(), Status::Unknown, vec![]));
    let refused = NewEntry::parse(verdict.as_bytes()).unwrap_err();
    assert_eq!(refused, EntryError::Verdict, "a verdict is not recorded as if it were a run");
}

/// A verdict in whose line a byte was hurt is named, and the run is what it was before.
#[test]
fn a_damaged_verdict_is_named_and_the_one_before_it_counts() {
    let (dir, runs) = store();
    let id = ended(&runs, "fix", 1, Status::Failure);
    judge(&runs, &id, Some(true));
    let path = dir.path().join("runs/a.jsonl");
    let before = std::fs::read(&path).unwrap().len();
    judge(&runs, &id, Some(false));
    ended(&runs, "behind it", 0, Status::Success);
    let whole = std::fs::read(&path).unwrap();
    let line = whole[before..].iter().position(|byte| *byte == b'\n').unwrap();
    for at in before..before + line {
        let mut hurt = whole.clone();
        hurt[at] ^= 0x04;
        std::fs::write(&path, &hurt).unwrap();
        let (found, seen) = read_runs(&runs);
        let good = ("fix".to_owned(), Status::Success, vec![(Some(true), true)]);
        assert_eq!((found.len(), &found[0]), (2, &good), "byte {at}");
        assert!(!seen.damage.is_empty(), "byte {at} is hurt, and nobody says so");
    }
}

#[test]
fn many_who_judge_at_once_lose_no_verdict_and_write_none_twice() {
    let (dir, runs) = store();
    let id = ended(&runs, "fix", 8, Status::Failure);
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (dir, id, barrier) = (dir.path(), &id, &barrier);
            scope.spawn(move || {
                // Each is a program of its own; pairs of them say the same.
                let runs = Runs::open(&Store::open(dir).unwrap()).unwrap();
                barrier.wait();
                for attempt in 1..=8 {
                    let note = format!("by {}", thread / 2);
                    let verdict = NewVerdict { attempt: Some(attempt), note, ..on(id, Some(true)) };
                    let judged = runs.judge(&key("a"), &verdict).unwrap();
                    assert!(judged.receipt.is_some());
                }
            });
        }
    });
    let told = only(&runs);
    assert_eq!(told, ("fix".to_owned(), Status::Success, vec![(Some(true), true); 8]));
    let file = std::fs::read_to_string(dir.path().join("runs/a.jsonl")).unwrap();
    let verdicts: Vec<&str> = file.lines().filter(|line| line.contains("run-verdict")).collect();
    assert!((32..=64).contains(&verdicts.len()), "{}", verdicts.len());
    for attempt in 1..=8 {
        // No two that say the same stand behind each other.
        let on_it: Vec<&str> = verdicts
            .iter()
            .filter(|line| line.contains(&format!(r#""attempt":{attempt},"#)))
            .map(|line| &line[line.find(r#""note""#).unwrap()..line.find(r#","crc""#).unwrap()])
            .collect();
        assert!(on_it.windows(2).all(|pair| pair[0] != pair[1]), "{on_it:?}");
    }
    assert_eq!(runs.verify(&key("a")).unwrap().unwrap().damage.len(), 0);
}

/// The word may stand where one block of the file that is looked through ends and the next begins.
#[test]
fn a_verdict_is_found_wherever_it_stands_in_a_large_log() {
    for room in (0..40).step_by(3) {
        let (_dir, runs) = store();
        let id = ended(&runs, "fix", 1, Status::Failure);
        let filler = |bytes: usize| {
            let json = format!(r#"{{"skill":"fill","input":"{}"}}"#, "x".repeat(bytes));
            NewEntry::parse(json.as_bytes()).unwrap()
        };
        let lengths = |runs: &Runs| runs.log(&key("a")).unwrap().unwrap().bytes as usize;
        runs.record(&key("a"), &[filler(0)], Durability::Flush).unwrap();
        let one = lengths(&runs);
        runs.record(&key("a"), &[filler(0)], Durability::Flush).unwrap();
        let line = lengths(&runs) - one;
        let missing = (256 << 10) - lengths(&runs) - line - room;
        runs.record(&key("a"), &[filler(missing)], Durability::Flush).unwrap();
        judge(&runs, &id, Some(true));
        runs.record(&key("a"), &[filler(100_000)], Durability::Flush).unwrap();
        assert_eq!(read_runs(&runs).0[0].1, Status::Success, "{room}");
    }
}

/// An id of megabytes, and a hundred thousands of attempts: each is looked at once.
#[test]
fn a_run_of_any_size_is_judged() {
    let (id, attempts) = ("i".repeat(4 << 20), vec!["{}"; 500_000].join(","));
    let run = format!(r#"{{"kind":"run","run_id":"{id}","skill":"s","attempts":[{attempts}]}}"#);
    let (_dir, runs) = foreign(&[&run]);
    judge(&runs, &id, Some(true));
    let (skill, status, attempts) = only(&runs);
    assert_eq!((&*skill, status, attempts.len()), ("s", Status::Success, 500_000));
    assert_eq!((attempts[0], attempts[499_999]), ((None, false), (Some(true), true)));
}

/// Two verdicts whose lines somebody put in another order: what is read last is last, also for whoever judges next.
#[test]
fn where_a_verdict_stands_decides_and_not_its_number() {
    let (dir, runs) = store();
    let id = ended(&runs, "fix", 2, Status::Failure);
    judge(&runs, &id, Some(true));
    let bad = NewVerdict { attempt: Some(2), ..on(&id, Some(false)) };
    runs.judge(&key("a"), &bad).unwrap();
    assert_eq!(only(&runs).1, Status::Failure);
    let file = dir.path().join("runs/a.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let end = lines.len();
    lines.swap(end - 2, end - 1);
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    assert_eq!(only(&runs).1, Status::Success);
    assert!(!runs.judge(&key("a"), &bad).unwrap().repeated, "it is not what was said last");
    assert_eq!(only(&runs).1, Status::Failure);
}
