//! A disk that panics at each of its operations in turn, under threads that share a log: nobody hangs, nobody gets a
//! receipt for what is not kept, and the log can be opened and written afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Error, Expect, Log, LogItem, Options, Reader, Result, SharedLog};
use manent_sim::{CrashKind, Fault, SimDisk};

const LOG: &str = "/store/log.jsonl";
const THREADS: u64 = 3;

fn open(disk: &SimDisk) -> Result<Log> {
    let (mut header, mut meta) = (Body::new(), Body::new());
    meta.number("format", manent_log::FORMAT);
    header.object("meta", &meta);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(&shared, Path::new(LOG), &Options { header: Some(header), ..Options::default() })
}

fn keyed(key: &str) -> Body {
    let mut body = Body::new();
    body.string("role", "user").idempotent(key).string("content", &key.repeat(40));
    body
}

/// The keys of all records. One that is there twice fails the test.
fn keys(disk: &SimDisk) -> BTreeSet<String> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = match Reader::open(&shared, Path::new(LOG)) {
        Err(Error::NotFound { .. }) => return BTreeSet::new(),
        reader => reader.unwrap(),
    };
    let mut keys = BTreeSet::new();
    while let Some(item) = reader.next().unwrap() {
        if let LogItem::Entry(entry) = item
            && let Some(key) = manent_log::idempotency_key(entry.bytes)
        {
            assert!(keys.insert(key.clone()), "{key} is there twice");
        }
    }
    keys
}

/// The records that one thread appended, and their outcomes.
type Outcomes = Vec<(String, Option<Result<()>>)>;

/// Threads that append to one log in groups, and each for itself. A panic ends what it struck, and not its thread.
fn crowd(shared: &SharedLog) -> Outcomes {
    let append = |thread: u64, nth: u64| {
        let key = format!("{thread}-{nth}");
        let durability = if nth == 2 { Durability::Sync } else { Durability::Group };
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.append(keyed(&key), durability).map(drop)));
        (key, outcome.ok())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || (0..4).map(|nth| append(thread, nth)).collect::<Outcomes>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn panic_at_any_operation_of_the_disk_hangs_nobody_and_gives_no_false_receipt() {
    let (mut struck, mut refused) = (0, 0);
    for fault in [Fault::PanicBefore, Fault::PanicAfter] {
        for operation in 0..70 {
            let disk = SimDisk::new(operation);
            disk.poke_dir("/store").unwrap();
            disk.add_fault(operation, fault);
            let opened = catch_unwind(AssertUnwindSafe(|| open(&disk).unwrap()));
            let Ok(log) = opened else {
                struck += 1;
                assert_eq!(after(&disk), BTreeSet::new());
                continue;
            };
            let shared = SharedLog::new(log);
            let outcomes = crowd(&shared);
            let panicked = outcomes.iter().filter(|(_, outcome)| outcome.is_none()).count();
            assert!(panicked <= 1, "a panic is one thread's");
            struck += panicked;
            for (key, outcome) in &outcomes {
                if let Some(Err(error)) = outcome {
                    refused += 1;
                    let expected = matches!(error.root(), Error::Unknown { .. } | Error::Poisoned { .. });
                    assert!(expected && panicked == 1, "{key}: {error}");
                }
            }
            disk.reset_faults();
            let closed = catch_unwind(AssertUnwindSafe(|| drop(shared)));
            assert!(closed.is_ok(), "closing after a panic");
            let kept = after(&disk);
            for (key, outcome) in outcomes {
                assert!(
                    !matches!(outcome, Some(Ok(()))) || kept.contains(&key),
                    "{fault:?} at {operation}: {key}"
                );
            }
        }
    }
    assert!(struck > 50 && refused > 100, "{struck} panics, {refused} others refused");
}

/// Opens the log again, tries again what may have failed, cuts the power, and reads.
fn after(disk: &SimDisk) -> BTreeSet<String> {
    disk.reset_faults();
    let before = keys(disk);
    let mut log = open(disk).unwrap();
    for thread in 0..THREADS {
        for nth in 0..4 {
            log.append(&keyed(&format!("{thread}-{nth}")), Durability::Sync, Expect::Any).unwrap();
        }
    }
    drop(log);
    disk.crash(CrashKind::Power);
    assert_eq!(keys(&disk.restart()).len(), 12, "each was tried again, and is there once");
    before
}

/// Whoever catches the panic and goes on with the same handle is refused: nobody knows what is in the file.
#[test]
fn handle_that_a_panic_left_in_the_middle_of_a_commit_is_closed() {
    let mut closed = 0;
    for operation in 0..8 {
        let disk = SimDisk::new(1);
        disk.poke_dir("/store").unwrap();
        let mut log = open(&disk).unwrap();
        disk.add_fault(disk.op_count() + operation, Fault::PanicAfter);
        let outcome =
            catch_unwind(AssertUnwindSafe(|| log.append(&keyed("k"), Durability::Sync, Expect::Any)));
        disk.reset_faults();
        if let Ok(appended) = outcome {
            appended.unwrap();
            continue;
        }
        closed += 1;
        let why = log.poisoned().unwrap().to_owned();
        assert!(why.contains("panic"), "{why}");
        for refused in [
            log.append(&keyed("l"), Durability::Flush, Expect::Any).map(drop),
            log.append_batch(&[keyed("l")], Durability::Sync, Expect::Any).map(drop),
            log.write_header(Durability::Sync),
            log.keep_from(0),
        ] {
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        }
        let mut log = log.rest().unwrap().wake(Duration::ZERO).unwrap();
        assert!(log.append(&keyed("l"), Durability::Flush, Expect::Any).is_err(), "not even after a rest");
    }
    assert_eq!(closed, 5, "state, path, write, sync, directory");
}
