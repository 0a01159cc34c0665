//! Appends whose outcome is unknown, and records that are known by a key, on a disk that breaks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::Disk;
use manent_log::{
    Body, Durability, Error, Expect, KEY_BYTES_MAX, KEY_RECORDS, KeyRule, Log, LogItem, LogKeys, LogReceipt,
    Occurrence, Options, Reach, Reader, Result, SharedKeys, SharedLog,
};
use manent_sim::{CrashKind, CutStyle, Errno, Fault, SimDisk};

const LOG: &str = "/store/log.jsonl";
const STYLES: [CutStyle; 6] = [
    CutStyle::Lost,
    CutStyle::Kept,
    CutStyle::Prefix,
    CutStyle::Torn,
    CutStyle::NulTail,
    CutStyle::Scattered,
];

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.poke_dir("/store").unwrap();
    disk
}

fn open(disk: &SimDisk) -> Result<Log> {
    let (mut header, mut meta) = (Body::new(), Body::new());
    meta.number("format", manent_log::FORMAT);
    header.object("meta", &meta);
    let options = Options { header: Some(header), ..Options::default() };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(&shared, Path::new(LOG), &options)
}

fn turn(content: &str) -> Body {
    let mut body = Body::new();
    body.string("role", "user").string("content", content);
    body
}

fn keyed(key: &str, content: &str) -> Body {
    let mut body = Body::new();
    body.string("role", "user").idempotent(key).string("content", content);
    body
}

fn append(log: &mut Log, body: &Body) -> Result<LogReceipt> {
    log.append(body, Durability::Sync, Expect::Any)
}

/// The numbers and texts of all records; damage is not expected.
fn contents(disk: &SimDisk) -> Vec<(u64, String)> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = Reader::open(&shared, Path::new(LOG)).unwrap();
    let mut all = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let LogItem::Entry(entry) = item else { panic!("{item:?}") };
        let line: serde_json::Value = serde_json::from_slice(entry.bytes).unwrap();
        if entry.seq > 0 {
            all.push((entry.seq, line["content"].as_str().unwrap_or_default().to_owned()));
        }
    }
    all
}

/// Appends a record whose sync fails.
fn fail_a_sync(disk: &SimDisk, log: &mut Log, body: &Body) -> Error {
    disk.add_fault(disk.op_count(), Fault::FailSync);
    append(log, body).unwrap_err()
}

#[test]
fn append_whose_sync_fails_is_unknown_and_its_handle_is_closed() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    append(&mut log, &turn("one")).unwrap();
    let error = fail_a_sync(&disk, &mut log, &turn("two"));
    assert!(error.is_unknown(), "{error}");
    let message = error.to_string();
    for words in ["unknown whether", LOG, "a sync failed", "may be there", "idempotency key"] {
        assert!(message.contains(words), "{message}");
    }
    assert!(matches!(append(&mut log, &turn("three")), Err(Error::Poisoned { .. })));
    drop(log);
    assert_eq!(contents(&disk), [(1, "one".to_owned()), (2, "two".to_owned())], "nothing is cut");
}

#[test]
fn append_whose_write_fails_is_refused_and_leaves_nothing() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    append(&mut log, &turn("one")).unwrap();
    disk.add_fault(disk.op_count(), Fault::PartialThenFail);
    let error = append(&mut log, &turn("two")).unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert_eq!(append(&mut log, &turn("three")).unwrap().seq, 2);
    disk.crash(CrashKind::Power);
    assert_eq!(contents(&disk.restart()), [(1, "one".to_owned()), (2, "three".to_owned())]);
}

/// One of the two cuts fails, or a sync of them: the record may be there still.
#[test]
fn append_whose_failed_write_cannot_be_taken_back_is_unknown() {
    // After the write that fails, for the stub and for the rest: state, set_len, sync.
    for operation in 3..=9 {
        let disk = disk(1);
        let mut log = open(&disk).unwrap();
        append(&mut log, &turn("one")).unwrap();
        let first = disk.op_count();
        disk.add_fault(first, Fault::PartialThenFail);
        disk.add_fault(first + operation, Fault::Fail(Errno::Io));
        let error = append(&mut log, &turn(&"two".repeat(100))).unwrap_err();
        if operation == 3 {
            // The second write fails with this error already; the cut then works.
            assert!(!error.is_unknown(), "{error}");
            continue;
        }
        assert!(error.is_unknown() && error.to_string().contains("could not be taken back"), "{error}");
        assert!(log.poisoned().is_some());
    }
}

/// The sync of a record fails; it is tried again with its key, and only then the power goes. In this process, or in
/// another one after a kill.
#[test]
fn keyed_retry_after_a_failed_sync_records_once_and_survives_power_loss() {
    for seed in 0..60 {
        for style in STYLES {
            for killed in [false, true] {
                let mut disk = disk(seed);
                let mut log = open(&disk).unwrap();
                append(&mut log, &turn(&"x".repeat(seed as usize * 37))).unwrap();
                let error = fail_a_sync(&disk, &mut log, &keyed("k", &"y".repeat(700)));
                assert!(error.is_unknown(), "{error}");
                drop(log);
                if killed {
                    disk = disk.restart();
                }
                let mut log = open(&disk).unwrap();
                let receipt = append(&mut log, &keyed("k", &"y".repeat(700))).unwrap();
                assert_eq!((receipt.seq, receipt.durability), (2, Durability::Sync));
                drop(log);
                disk.set_cut_style(Some(style));
                disk.crash(CrashKind::Power);
                let disk = disk.restart();
                let found = contents(&disk);
                assert_eq!(found.len(), 2, "seed {seed}, {style:?}: {found:?}");
                assert_eq!(found[1], (2, "y".repeat(700)));
            }
        }
    }
}

/// The header and the first record are one write: the retry makes both durable, and the name of the file.
#[test]
fn keyed_retry_of_the_first_record_keeps_the_header_and_the_name() {
    for operation in 3..=4 {
        for style in STYLES {
            let disk = disk(operation);
            let mut log = open(&disk).unwrap();
            disk.add_fault(disk.op_count() + operation, Fault::Fail(Errno::Io));
            let error = append(&mut log, &keyed("k", "first")).unwrap_err();
            assert!(error.is_unknown(), "{error}");
            drop(log);
            let mut log = open(&disk).unwrap();
            assert!(!log.is_new());
            assert_eq!(append(&mut log, &keyed("k", "first")).unwrap().seq, 1);
            drop(log);
            disk.set_cut_style(Some(style));
            disk.crash(CrashKind::Power);
            let disk = disk.restart();
            assert_eq!(contents(&disk), [(1, "first".to_owned())]);
            let log = open(&disk).unwrap();
            assert!(log.header_line().is_some() && log.next_seq() == 2);
        }
    }
}

/// One failure at each operation of a retry: it has a receipt and survives, or its outcome is unknown still, and the
/// next retry settles it. In no case is the record there twice.
#[test]
fn keyed_retry_that_fails_itself_can_be_tried_again() {
    let (mut failed, mut unknown) = (0, 0);
    for operation in 0..40 {
        for fault in [Fault::Fail(Errno::Io), Fault::ShortWrite, Fault::Interrupted] {
            let disk = disk(operation);
            let mut log = open(&disk).unwrap();
            append(&mut log, &turn("one")).unwrap();
            fail_a_sync(&disk, &mut log, &keyed("k", &"y".repeat(700)));
            drop(log);
            disk.add_fault(disk.op_count() + operation, fault);
            let retry = || append(&mut open(&disk)?, &keyed("k", &"y".repeat(700)));
            let first = retry();
            disk.reset_faults();
            if let Err(error) = &first {
                failed += 1;
                unknown += u32::from(error.is_unknown());
                assert_eq!(retry().unwrap().seq, 2);
            }
            disk.set_cut_style(Some(CutStyle::Lost));
            disk.crash(CrashKind::Power);
            assert_eq!(contents(&disk.restart()).len(), 2, "operation {operation}, {fault:?}, {first:?}");
        }
    }
    assert!(failed > 10 && unknown >= 4, "{failed} failed, {unknown} of them unknown");
}

/// A record that a failed sync gave up may be gone from the cache before anybody tries again: then it is appended anew.
#[test]
fn keyed_retry_of_a_record_that_is_gone_appends_it() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    append(&mut log, &turn(&"x".repeat(500))).unwrap();
    fail_a_sync(&disk, &mut log, &keyed("k", &"y".repeat(2000)));
    drop(log);
    disk.set_cut_style(Some(CutStyle::Lost));
    disk.crash(CrashKind::Power);
    let disk = disk.restart();
    assert_eq!(append(&mut open(&disk).unwrap(), &keyed("k", "again")).unwrap().seq, 2);
    assert_eq!(contents(&disk)[1..], [(2, "again".to_owned())]);
}

/// In a file that another program writes too, nothing of ours is written but at its end.
#[test]
fn keyed_retry_in_another_programs_file_stays_unknown_and_changes_no_byte() {
    let disk = disk(1);
    disk.poke(LOG, b"{\"theirs\":1}\n").unwrap();
    let mut log = open(&disk).unwrap();
    fail_a_sync(&disk, &mut log, &keyed("k", "ours"));
    drop(log);
    let before = disk.peek(LOG);
    let first = disk.op_count();
    for durability in [Durability::Sync, Durability::Flush] {
        let mut log = open(&disk).unwrap();
        let error = log.append(&keyed("k", "ours"), durability, Expect::Any).unwrap_err();
        assert!(error.is_unknown() && error.to_string().contains("another program's file"), "{error}");
        assert!(log.poisoned().is_none(), "other records can be appended");
    }
    assert_eq!(disk.peek(LOG), before);
    let writes =
        disk.trace().into_iter().filter(|line| line.contains("write_at") || line.contains("Overwrite"));
    assert_eq!(writes.count(), 0, "since operation {first}");
    // The handle that wrote it and synced it knows.
    let mut log = open(&disk).unwrap();
    assert_eq!(append(&mut log, &keyed("k2", "x")).unwrap(), append(&mut log, &keyed("k2", "x")).unwrap());
}

/// A key that was used is used: the first record counts, whatever else comes with it later.
#[test]
fn same_key_with_other_content_gets_the_first_receipt_and_changes_nothing() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    let first = append(&mut log, &keyed("k", "first")).unwrap();
    let before = disk.peek(LOG);
    assert_eq!(append(&mut log, &keyed("k", "second")).unwrap(), first);
    let expecting = log.append(&keyed("k", "third"), Durability::Sync, Expect::Seq(1)).unwrap();
    assert_eq!(expecting, first, "what was expected of the first append is not expected of its retry");
    drop(log);
    assert_eq!(append(&mut open(&disk).unwrap(), &keyed("k", "fourth")).unwrap(), first);
    assert_eq!(disk.peek(LOG), before);
    let refused = open(&disk).unwrap().append(&keyed("new", "x"), Durability::Sync, Expect::Seq(1));
    assert!(matches!(refused, Err(Error::Conflict { next: 2, .. })), "{refused:?}");
}

#[test]
fn retry_of_what_this_handle_synced_costs_no_write() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    let first = append(&mut log, &keyed("k", "x")).unwrap();
    let flushed = log.append(&keyed("f", "x"), Durability::Flush, Expect::Any).unwrap();
    let before = disk.trace().len();
    assert_eq!(append(&mut log, &keyed("k", "x")).unwrap(), first);
    assert!(!disk.trace()[before..].iter().any(|line| line.contains("sync") || line.contains("write")));
    let again = append(&mut log, &keyed("f", "x")).unwrap();
    assert_eq!((again.seq, again.durability), (flushed.seq, Durability::Sync));
    assert!(
        disk.trace()[before..].iter().any(|line| line.contains("write_at")),
        "it was only flushed before"
    );
}

#[test]
fn key_is_found_among_the_last_thousand_records() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    append(&mut log, &keyed("k", "x")).unwrap();
    let fill: Vec<Body> = (0..KEY_RECORDS - 1).map(|_| turn("filler")).collect();
    log.append_batch(&fill, Durability::Flush, Expect::Any).unwrap();
    drop(log);
    let mut log = open(&disk).unwrap();
    assert_eq!(append(&mut log, &keyed("k", "x")).unwrap().seq, 1);
    assert_eq!(log.next_seq(), KEY_RECORDS as u64 + 1, "nothing was appended");
    // Further back nothing is promised, and today it is not found.
    append(&mut log, &turn("filler")).unwrap();
    drop(log);
    assert_eq!(append(&mut open(&disk).unwrap(), &keyed("k", "x")).unwrap().seq, KEY_RECORDS as u64 + 2);
}

#[test]
fn key_counts_in_a_batch_in_a_group_and_through_a_rest() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    let batch = [keyed("a", "1"), turn("2"), keyed("a", "3"), keyed("b", "4"), turn("5")];
    let receipts = log.append_batch(&batch, Durability::Sync, Expect::Seq(1)).unwrap();
    assert_eq!(receipts.iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2, 1, 3, 4]);
    let batch = [turn("6"), keyed("b", "7"), keyed("c", "8")];
    let receipts = log.append_batch(&batch, Durability::Sync, Expect::Seq(5)).unwrap();
    assert_eq!(receipts.iter().map(|r| r.seq).collect::<Vec<_>>(), [5, 3, 6]);

    // Another writer appends while it rests.
    let resting = log.rest().unwrap();
    assert_eq!(append(&mut open(&disk).unwrap(), &keyed("d", "9")).unwrap().seq, 7);
    let mut log = resting.wake(Duration::ZERO).unwrap();
    assert_eq!(append(&mut log, &keyed("d", "9")).unwrap().seq, 7);

    let shared = SharedLog::new(log);
    let seqs: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| shared.append(keyed("e", "10"), Durability::Group).unwrap().seq))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(seqs, [8; 8]);
    assert_eq!(contents(&disk).len(), 8);
}

#[test]
fn member_that_was_not_given_as_a_key_is_found_as_one() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    append(&mut log, &keyed("other", "0")).unwrap();
    let mut plain = Body::new();
    plain.string("role", "user").string("idempotency_key", "k").string("content", "1");
    assert!(plain.key().is_none());
    let first = append(&mut log, &plain).unwrap();
    assert_eq!(append(&mut log, &plain).unwrap().seq, 3, "without a key it is just a record");
    assert_eq!(append(&mut log, &plain.clone().keyed_by_member()).unwrap().seq, first.seq);
    // Only a member of the record itself, and only a string.
    for other in [r#"{"role":"a","x":{"idempotency_key":"n"}}"#, r#"{"role":"a","idempotency_key":7}"#] {
        let body = Body::parse(other.as_bytes()).unwrap().keyed_by_member();
        assert_eq!(body.key(), None, "{other}");
        append(&mut log, &body).unwrap();
    }
    assert_eq!(append(&mut log, &keyed("n", "x")).unwrap().seq, 6);
}

#[test]
fn key_that_is_empty_or_too_long_is_refused_and_nothing_written() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    for key in [String::new(), "k".repeat(KEY_BYTES_MAX + 1)] {
        let refused = append(&mut log, &keyed(&key, "x")).unwrap_err();
        assert!(matches!(refused, Error::Body(_)), "{refused}");
    }
    assert_eq!(disk.peek(LOG).unwrap(), b"");
    for key in ["\"\\\n\u{1f600}".to_owned(), "k".repeat(KEY_BYTES_MAX)] {
        let first = append(&mut log, &keyed(&key, "x")).unwrap();
        drop(log);
        log = open(&disk).unwrap();
        assert_eq!(append(&mut log, &keyed(&key, "x")).unwrap().seq, first.seq);
    }
}

/// A lock that the system refuses, on a key that is new: nothing is left.
#[test]
fn lock_that_fails_on_a_new_key_leaves_no_file() {
    for operation in 0..12 {
        let disk = disk(1);
        disk.add_fault(operation, Fault::Fail(Errno::Io));
        let opened = open(&disk);
        let struck = disk.trace().into_iter().find(|line| line.ends_with(']')).unwrap_or_default();
        match opened {
            Ok(_) => {}
            // Which file it is was not told, so that it is not removed.
            Err(_) if struck.contains(" id ") => {}
            Err(error) => assert_eq!(disk.paths(), [] as [&Path; 0], "{error}: {struck}"),
        }
    }
    // A file that was there stays, and so does one that somebody else holds.
    let disk = disk(1);
    disk.poke(LOG, []).unwrap();
    disk.add_fault(2, Fault::Fail(Errno::Io));
    let error = open(&disk).unwrap_err();
    assert!(error.to_string().contains("cannot lock"), "{error}");
    assert_eq!(disk.paths().len(), 1);
}

/// Knows every line of a log by its text.
const TEXTS: KeyRule = KeyRule {
    name: "texts",
    reach: Reach::Whole,
    keys_of: |line, add| {
        let line: serde_json::Value = serde_json::from_slice(line.bytes).unwrap();
        assert_ne!(line["content"], "panic", "a rule that panics");
        if let Some(text) = line["content"].as_str() {
            add(text.as_bytes());
        }
    },
};

/// Opens the log with keys that other handles used before.
fn open_with(disk: &SimDisk, keys: &SharedKeys) -> Log {
    let mut log = open(disk).unwrap();
    log.use_keys(keys, &"id".into());
    log
}

fn append_by(log: &mut Log, text: &str) -> u64 {
    log.append_by(&TEXTS, &[turn(text)], Durability::Sync, Expect::Any).unwrap()[0].seq
}

fn find(log: &mut Log, text: &str) -> Option<u64> {
    log.find(&TEXTS, text.as_bytes(), Occurrence::First).unwrap().map(|line| line.seq)
}

/// Runs something, and returns how many bytes it read.
fn bytes_read(disk: &SimDisk, act: impl FnOnce()) -> u64 {
    let first = disk.op_count();
    act();
    let of_call = |line: &String| {
        let number = line.strip_prefix('#')?.split(' ').next()?.parse::<u64>().ok()?;
        let gave = line.rsplit(" -> ").next()?.parse::<u64>().ok()?;
        (number >= first && line.contains(" read_at ")).then_some(gave)
    };
    disk.trace().iter().filter_map(of_call).sum()
}

#[test]
fn keys_of_what_a_handle_appends_are_known_without_reading() {
    let disk = disk(1);
    let mut log = open(&disk).unwrap();
    for n in 0..50 {
        assert_eq!(append_by(&mut log, &format!("text {n}")), 2 * n + 1);
        append(&mut log, &turn("another rule")).unwrap();
    }
    let read = bytes_read(&disk, || {
        assert_eq!(find(&mut log, "new"), None);
        assert_eq!(append_by(&mut log, "new"), 101);
    });
    assert_eq!(read, 0, "all that was appended was noted");
    assert_eq!(find(&mut log, "new"), Some(101));
    assert_eq!(find(&mut log, "another rule"), Some(2), "whatever rule it was appended by");
    drop(log);
    assert_eq!(find(&mut open(&disk).unwrap(), "text 7"), Some(15), "nothing is known there, so all is read");
}

#[test]
fn keys_that_outlive_a_handle_are_read_on_from_the_last_line() {
    let (disk, keys) = (disk(1), SharedKeys::default());
    let mut log = open_with(&disk, &keys);
    for n in 0..500 {
        append_by(&mut log, &format!("text {n}"));
    }
    drop(log);
    let mut other = open(&disk).unwrap();
    append(&mut other, &turn("of another process")).unwrap();
    drop(other);
    let mut log = open_with(&disk, &keys);
    let whole = disk.peek(LOG).unwrap().len() as u64;
    let read = bytes_read(&disk, || assert_eq!(find(&mut log, "missing"), None));
    assert!(read > 0 && read < whole / 4, "{read} of {whole} bytes were read");
    assert_eq!(append_by(&mut log, "of another process"), 501);
    assert_eq!(append_by(&mut log, "text 0"), 1);
    drop(log);
    // Another log in its place.
    disk.poke(LOG, []).unwrap();
    let mut log = open(&disk).unwrap();
    log.use_keys(&keys, &"another id".into());
    assert_eq!(append_by(&mut log, "text 1"), 1, "the keys of the old one are forgotten");
}

#[test]
fn keys_of_a_file_that_another_program_rewrote_in_place_are_read_again() {
    let (disk, keys) = (disk(1), SharedKeys::default());
    let line = |text: &str| format!("{{\"content\":\"{text}\"}}\n");
    disk.poke(LOG, [line("one"), line("two"), line("end")].concat()).unwrap();
    let mut log = open_with(&disk, &keys);
    assert_eq!((find(&mut log, "one"), find(&mut log, "two")), (Some(1), Some(2)));
    // As long as before, and with the same last line.
    disk.poke(LOG, [line("two"), line("new"), line("end")].concat()).unwrap();
    assert_eq!(find(&mut log, "one"), None, "it is not where it was");
    assert_eq!((find(&mut log, "two"), find(&mut log, "new")), (Some(1), Some(2)));
    disk.poke(LOG, [line("six"), line("two"), line("fin")].concat()).unwrap();
    assert_eq!((find(&mut log, "six"), find(&mut log, "two")), (Some(1), Some(2)));
}

#[test]
fn keys_that_a_panic_left_are_forgotten() {
    let (disk, keys) = (disk(1), SharedKeys::default());
    let mut log = open_with(&disk, &keys);
    append_by(&mut log, "one");
    drop(log);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut log = open_with(&disk, &keys);
        log.append_by(&TEXTS, &[turn("two"), turn("panic")], Durability::Sync, Expect::Any)
    }));
    assert!(panicked.is_err());
    let mut log = open_with(&disk, &keys);
    assert_eq!(LogKeys::lock(&keys).key_count(), 0);
    assert_eq!((append_by(&mut log, "one"), append_by(&mut log, "two")), (1, 2));
}

/// A record that was only flushed is in the cache, from which a failed sync of what followed may take it.
#[test]
fn flushed_record_that_another_handle_finds_is_written_again() {
    let (disk, keys) = (disk(1), SharedKeys::default());
    let mut log = open_with(&disk, &keys);
    append_by(&mut log, "zero");
    let flush = |log: &mut Log| log.append_by(&TEXTS, &[turn("one")], Durability::Flush, Expect::Any);
    let first = flush(&mut log).unwrap();
    assert_eq!(flush(&mut log).unwrap(), first);
    fail_a_sync(&disk, &mut log, &turn("two"));
    drop(log);
    assert_eq!(flush(&mut open_with(&disk, &keys)).unwrap(), first);
    disk.drop_caches();
    assert_eq!(contents(&disk)[..2], [(1, "zero".to_owned()), (2, "one".to_owned())]);
}
