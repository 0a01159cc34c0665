//! Batches whose write fails in the middle, on a disk that also fails, or dies, while the part is taken back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::sync::Arc;

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Expect, Log, LogItem, Options, Reader, Result};
use manent_sim::{CrashKind, CutStyle, Fault, SimDisk};

const LOG: &str = "/store/log.jsonl";

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

/// A record that is known by its name, which is its key too, of some length.
fn record(name: &str, bytes: usize) -> Body {
    let mut body = Body::new();
    body.string("role", "user").idempotent(name).string("content", &"x".repeat(bytes));
    body
}

/// The names of the records that can be read, in the order of the file.
fn names(disk: &SimDisk) -> Vec<String> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = Reader::open(&shared, Path::new(LOG)).unwrap();
    let mut names = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        if let LogItem::Entry(entry) = item {
            names.extend(manent_log::idempotency_key(entry.bytes));
        }
    }
    names
}

/// Strikes a fault at each operation of taking back a batch whose write failed after a part, and another one in the
/// next opening. What of the batch is not in the log then must not come back when the power goes: others have its
/// numbers by then, and it may have been appended again by its keys.
#[test]
fn record_taken_back_by_a_cut_that_was_not_synced_never_comes_back() {
    let (mut unknown, mut interrupted) = (0, 0);
    for seed in 0..250 {
        // Two looks, two writes; then state, set_len and sync, for the stub and for the rest.
        for operation in 2..10 {
            for (fault, later) in [
                (Fault::FailSync, None),
                (Fault::CrashKill, None),
                (Fault::FailSync, Some(Fault::FailSync)),
                (Fault::FailSync, Some(Fault::CrashKill)),
                (Fault::CrashKill, Some(Fault::CrashKill)),
            ] {
                let mut disk = disk(seed);
                unknown += u32::from(fail_a_batch(&disk, seed, operation, fault));
                disk = after_faults(disk);
                if let Some(later) = later {
                    disk.add_fault(disk.op_count() + 6 + seed % 16, later);
                    interrupted += u32::from(open(&disk).is_err());
                    disk = after_faults(disk);
                }
                let mut log = open(&disk).unwrap();
                let before = names(&disk);
                for again in [record("new", seed as usize % 400), record("b", 150), record("c", 300)] {
                    log.append(&again, Durability::Flush, Expect::Any).unwrap();
                }
                disk.set_cut_style(Some(CutStyle::Scattered));
                disk.crash(CrashKind::Power);
                let after = names(&disk.restart());
                let count = |names: &[String], name: &str| names.iter().filter(|n| *n == name).count();
                let is_back = |name: &str| count(&after, name) > count(&before, name);
                assert!(
                    !is_back("a") && !is_back("d") && count(&after, "b") <= 1 && count(&after, "c") <= 1,
                    "seed {seed}, {fault:?} at {operation}, then {later:?}: {before:?} became {after:?}\n{}",
                    disk.trace().join("\n")
                );
            }
        }
    }
    assert!(unknown > 100 && interrupted > 100, "{unknown} unknown, {interrupted} interrupted");
}

/// Appends a batch whose write fails after a part, while a fault strikes the given operation of the append. Returns
/// whether its outcome is unknown.
fn fail_a_batch(disk: &SimDisk, seed: u64, operation: u64, fault: Fault) -> bool {
    let mut log = open(disk).unwrap();
    log.append(&record("first", seed as usize * 7 % 600), Durability::Sync, Expect::Any).unwrap();
    let batch = [record("a", 20), record("b", 150), record("c", 300), record("d", 900)];
    disk.add_fault(disk.op_count(), Fault::PartialThenFail);
    disk.add_fault(disk.op_count() + operation, fault);
    log.append_batch(&batch, Durability::Sync, Expect::Any).unwrap_err().is_unknown()
}

/// The disk without the faults that are still to come, as a new process finds it if the last one was killed.
fn after_faults(disk: SimDisk) -> SimDisk {
    disk.reset_faults();
    if disk.crashed().is_some() { disk.restart() } else { disk }
}
