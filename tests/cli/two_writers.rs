//! Two processes, one session: one writes, the other is told who does, waits, or reads.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::{Stream, TestEnvironment, records};

/// Acceptance list 28 and 72, at once.
#[test]
fn a_second_writer_is_told_at_once_who_holds_the_session() {
    let env = TestEnvironment::new();
    let holder = Stream::hold(&env, "a");
    let before = env.bytes("a");
    let began = Instant::now();
    let output = env.manent(&["append", "a", "x", "--wait", "0s"]);
    output.assert_fails(5, &["a.jsonl is held by pid", "wait for it"]);
    assert!(output.stderr().contains(&format!("held by pid {};", holder.pid())), "{}", output.stderr());
    assert!(began.elapsed() < Duration::from_secs(4), "--wait 0s does not wait");
    assert_eq!(env.bytes("a"), before);
    // Another session is nobody's business.
    env.append("b", "x");
}

/// Acceptance list 28, waiting.
#[test]
fn a_second_writer_waits_as_long_as_it_was_told_and_goes_on_behind_the_first() {
    let env = TestEnvironment::new();
    let mut holder = Stream::hold(&env, "a");
    let began = Instant::now();
    env.manent(&["append", "a", "x", "--wait", "300ms"]).assert_code(5);
    assert!((250..30_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());

    let waiting = Stream::start(&env, &["append", "a", "second", "--wait", "5s"]);
    assert!(waiting.is_silent_for(Duration::from_millis(150)), "it waits");
    holder.send(&records::plain("first, while the other waits"));
    holder.line();
    holder.finish();
    assert_eq!(waiting.line(), "a 3", "the number after what the first one wrote meanwhile");
    assert!(waiting.finish().0.success());
    env.assert_clean("a");
}

/// Acceptance list 30: there is no lock file that could outlive its owner.
#[test]
fn a_writer_that_was_killed_holds_nothing() {
    let env = TestEnvironment::new();
    let holder = Stream::hold(&env, "a");
    holder.signal(rustix::process::Signal::KILL);
    holder.finish();
    env.manent(&["append", "a", "x", "--wait", "0s"]).assert_code(0);
    assert_eq!(env.file_names(), ["a.jsonl"]);
}

/// A key that several processes use at once is recorded once, and each gets its receipt.
#[test]
fn eight_writers_with_one_key_at_once_record_it_once() {
    let env = TestEnvironment::new();
    let writers: Vec<Stream> = (0..8)
        .map(|_| Stream::start(&env, &["append", "a", "the same", "--key", "job-1", "--wait", "60s"]))
        .collect();
    for writer in writers {
        assert_eq!(writer.line(), "a 1");
        assert!(writer.finish().0.success());
    }
    assert_eq!(env.records("a").len(), 1);
    // In a stream, turns have it as a member.
    let lines = [r#"{"role":"user","content":"again","idempotency_key":"job-1"}"#, &records::plain("two")];
    let output = env.output(env.command(&["append", "a", "--jsonl"]), lines.join("\n").as_bytes());
    output.assert_code(0);
    assert_eq!(output.stdout(), "a 1\na 2\n");
    env.assert_clean("a");
}

#[test]
fn sixteen_writers_at_once_lose_nothing_and_share_no_number() {
    let env = TestEnvironment::new();
    let writers: Vec<Stream> = (0..16)
        .map(|n| Stream::start(&env, &["append", "a", &format!("writer {n}"), "--wait", "30s"]))
        .collect();
    let mut receipts: Vec<String> = writers
        .into_iter()
        .map(|writer| {
            let (status, mut lines, errors) = writer.finish();
            assert!(status.success(), "{errors:?}");
            lines.remove(0)
        })
        .collect();
    receipts.sort_by_key(String::len);
    receipts.dedup();
    assert_eq!(receipts.len(), 16, "sixteen different numbers");
    let records = env.records("a");
    assert_eq!(records.len(), 16);
    for n in 0..16 {
        assert!(records.iter().any(|r| r.contains(&format!("\"writer {n}\""))), "writer {n}");
    }
    env.assert_clean("a");
}

#[test]
fn a_session_in_mid_sentence_is_in_flight_and_not_damaged() {
    let env = TestEnvironment::new();
    let holder = Stream::hold(&env, "a");
    let mut file = std::fs::OpenOptions::new().append(true).open(env.log("a")).unwrap();
    let half = &records::turn(2, "half a sentence").into_bytes()[..60];
    file.write_all(half).unwrap();
    let (report, code) = env.verify("a");
    assert_eq!((code, &report["tail"]), (0, &"in_flight".into()), "{report}");
    assert_eq!(report["damage"], serde_json::json!([]));
    let said = env.manent(&["verify"]).stdout();
    assert!(said.contains("ok       a  1 record") && said.contains("in flight: 60 bytes"), "{said}");
    // Nobody else may decide what those bytes are.
    env.manent(&["repair", "a", "--wait", "0s"]).assert_code(5);

    holder.signal(rustix::process::Signal::KILL);
    holder.finish();
    let (report, code) = env.verify("a");
    assert_eq!((code, &report["tail"]), (3, &"torn".into()), "without a holder they are torn: {report}");
}

/// Acceptance list 26.
#[test]
fn a_session_deleted_under_its_writer_gets_no_ghost() {
    let env = TestEnvironment::new();
    for durability in ["flush", "sync"] {
        let mut writer = Stream::start(&env, &["append", "a", "--jsonl", "--durability", durability]);
        writer.send(&records::plain("one"));
        writer.line();
        std::fs::remove_file(env.log("a")).unwrap();
        writer.send(&records::plain("two"));
        let (status, receipts, errors) = writer.finish();
        assert_eq!((status.code(), receipts.len()), (Some(1), 0), "no receipt for what nobody will find");
        assert!(errors[0].contains("was deleted while it was open; nothing was written"), "{errors:?}");
        assert_eq!(env.file_names(), [""; 0]);
    }
}

/// Acceptance list 31.
#[test]
fn a_session_replaced_under_its_writer_gets_no_second_writer() {
    let env = TestEnvironment::new();
    let mut writer = Stream::start(&env, &["append", "a", "--jsonl"]);
    writer.send(&records::plain("one"));
    writer.line();
    std::fs::rename(env.log("a"), env.root().join("moved.jsonl")).unwrap();
    env.append("a", "another session under the same name");
    let after = env.bytes("a");
    writer.send(&records::plain("two"));
    let (status, receipts, errors) = writer.finish();
    assert_eq!((status.code(), receipts.len()), (Some(1), 0));
    assert!(errors[0].contains("was moved or replaced while it was open"), "{errors:?}");
    assert_eq!(env.bytes("a"), after, "the new file is not touched");
}

/// Acceptance list 33: a reader never sees half of a record, whenever it looks.
#[test]
fn a_hundred_readers_during_appends_see_only_whole_records() {
    let env = TestEnvironment::new();
    env.append("a", "first");
    let mut writer = Stream::start(&env, &["append", "a", "--jsonl", "--durability", "flush"]);
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..25).map(|_| look(&env)).collect::<Vec<_>>())).collect();
        let mut n = 0;
        while !readers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            n += 1;
            writer.send(&records::plain(&format!("{n} {}", "y".repeat(50_000))));
            writer.line();
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen: Vec<usize> = readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect();
        assert_eq!(seen.len(), 100);
        assert!(seen.iter().max() > seen.iter().min(), "they looked while it grew: {seen:?}");
    });
}

/// Reads the end of the session and checks each line; gives the last number.
fn look(env: &TestEnvironment) -> usize {
    let output = env.manent(&["show", "a", "--json", "--tail", "3"]);
    output.assert_code(0);
    let shown = output.stdout();
    assert!(shown.ends_with('\n'), "whole lines only");
    for line in shown.lines() {
        let sealed = records::sealed(&line[1..line.len() - 18]);
        assert_eq!(line.len(), sealed.len());
        assert!(line == sealed, "a line whose checksum holds");
    }
    let last: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    last["seq"].as_u64().unwrap() as usize
}
