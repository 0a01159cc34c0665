//! Resting logs and headers without records on a disk that breaks, and what they cost there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Error, Expect, Log, Options, Reader, Result};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};

const LOG: &str = "/store/log.jsonl";

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.poke_dir("/store").unwrap();
    disk
}

/// A fork of a session at record 41.
fn options() -> Options {
    let (mut header, mut meta, mut parent) = (Body::new(), Body::new(), Body::new());
    parent.number("upto", 41);
    meta.number("format", manent_log::FORMAT).object("parent", &parent);
    header.object("meta", &meta);
    Options { header: Some(header), ..Options::default() }
}

fn open(disk: &SimDisk, options: &Options) -> Result<Log> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Log::open(&shared, Path::new(LOG), options)
}

fn append(log: &mut Log, durability: Durability) -> Result<u64> {
    let mut body = Body::new();
    body.string("role", "user").string("content", "hello");
    Ok(log.append(&body, durability, Expect::Any)?.seq)
}

/// The verbs of the operations from number `first` on.
fn verbs_since(disk: &SimDisk, first: u64) -> Vec<String> {
    let lines = disk.trace();
    let words = lines.iter().map(|line| line.split(' ').collect::<Vec<_>>());
    let since = words.filter(|words| {
        words[0].strip_prefix('#').is_some_and(|number| number.parse::<u64>().unwrap() >= first)
    });
    since.map(|words| words[3].to_owned()).collect()
}

fn seqs(disk: &SimDisk) -> Vec<u64> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = Reader::open(&shared, Path::new(LOG)).unwrap();
    let mut seqs = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        match item {
            manent_log::LogItem::Entry(entry) => seqs.push(entry.seq),
            manent_log::LogItem::Damage(damage) => panic!("{damage:?}"),
        }
    }
    seqs
}

/// Waking a log to which nobody wrote costs a lock and three looks, however long the file is and whoever's.
#[test]
fn a_log_that_nobody_touched_wakes_without_reading() {
    let disk = disk(1);
    disk.poke(LOG, b"{\"theirs\":1}\n").unwrap();
    let mut log = open(&disk, &options()).unwrap();
    append(&mut log, Durability::Sync).unwrap();
    let first = disk.op_count();
    let mut log = log.rest().unwrap().wake(Duration::ZERO).unwrap();
    assert_eq!(verbs_since(&disk, first), ["unlock", "try_lock", "state", "inspect"]);
    let first = disk.op_count();
    assert_eq!(append(&mut log, Durability::Sync).unwrap(), 3);
    assert_eq!(
        verbs_since(&disk, first),
        ["state", "inspect", "append", "sync"],
        "its name is durable still"
    );
}

/// The directory is synced once for each handle, unless the caller knows better; about a new file nobody does.
#[test]
fn a_name_that_is_known_to_be_durable_is_not_synced_again() {
    let syncs = |disk: &SimDisk, name_is_durable| {
        let mut log = open(disk, &Options { name_is_durable, ..options() }).unwrap();
        let first = disk.op_count();
        append(&mut log, Durability::Sync).unwrap();
        append(&mut log, Durability::Sync).unwrap();
        verbs_since(disk, first).iter().filter(|verb| *verb == "sync_dir").count()
    };
    let disk = disk(1);
    assert_eq!(syncs(&disk, true), 1, "a file that was made just now");
    assert_eq!(syncs(&disk, true), 0);
    assert_eq!(syncs(&disk, false), 1);
    assert!(!Options::default().name_is_durable);

    // A file that was there and empty, and is made anew after a rest.
    disk.poke(LOG, []).unwrap();
    let log = open(&disk, &Options { name_is_durable: true, ..options() }).unwrap();
    let resting = log.rest().unwrap();
    disk.remove(Path::new(LOG)).unwrap();
    let mut log = resting.wake(Duration::ZERO).unwrap();
    let first = disk.op_count();
    append(&mut log, Durability::Sync).unwrap();
    assert!(verbs_since(&disk, first).contains(&"sync_dir".to_owned()), "the name is another now");
}

/// The file could not be removed before the rest. Then it is anybody's, and is not removed after the rest either.
#[test]
fn an_empty_file_is_not_removed_without_the_lease() {
    let disk = disk(1);
    let log = open(&disk, &options()).unwrap();
    disk.add_fault(disk.op_count() + 2, Fault::Fail(Errno::Io));
    let resting = log.rest().unwrap();
    assert_eq!(disk.peek(LOG).as_deref(), Some(&b""[..]), "the fault struck the removal");
    let mut other = open(&disk, &options()).unwrap();
    drop(resting);
    assert_eq!(append(&mut other, Durability::Sync).unwrap(), 42);
    assert_eq!(seqs(&disk), [0, 42]);
}

/// A record that a failed sync lost cannot be known, not even after a rest.
#[test]
fn a_log_whose_sync_failed_stays_poisoned_over_a_rest() {
    let disk = disk(1);
    let mut log = open(&disk, &options()).unwrap();
    append(&mut log, Durability::Sync).unwrap();
    disk.add_fault(disk.op_count() + 3, Fault::Fail(Errno::Io));
    append(&mut log, Durability::Sync).unwrap_err();
    assert!(log.poisoned().is_some());
    let mut log = log.rest().unwrap().wake(Duration::ZERO).unwrap();
    assert!(matches!(append(&mut log, Durability::Flush), Err(Error::Poisoned { .. })));
    drop(log);

    // The same where not even the header is known to be there.
    disk.remove(Path::new(LOG)).unwrap();
    let mut log = open(&disk, &options()).unwrap();
    disk.add_fault(disk.op_count() + 3, Fault::Fail(Errno::Io));
    log.write_header(Durability::Sync).unwrap_err();
    assert!(log.is_new() && log.poisoned().is_some());
    let mut log = log.rest().unwrap().wake(Duration::ZERO).unwrap();
    assert!(log.is_new(), "it does not look again");
    assert!(matches!(log.write_header(Durability::Sync), Err(Error::Poisoned { .. })));
    assert!(disk.peek(LOG).is_some(), "what is in the file is for the next to check");
    let resting = log.rest().unwrap();
    disk.remove(Path::new(LOG)).unwrap();
    assert!(matches!(resting.wake(Duration::ZERO), Err(Error::Gone { .. })));
    assert!(disk.paths().is_empty(), "and it makes no new one");
}

/// One failure at each operation of a header's write: it is there as asked, or taken back, or the handle is finished.
#[test]
fn a_header_that_could_not_be_written_is_taken_back_or_ends_the_handle() {
    let (mut failed, mut poisoned) = (0, 0);
    for fault in [Fault::Fail(Errno::Io), Fault::PartialThenFail] {
        for operation in 0..6 {
            let disk = disk(operation);
            let mut log = open(&disk, &options()).unwrap();
            disk.add_fault(disk.op_count() + operation, fault);
            let Err(_) = log.write_header(Durability::Sync) else { continue };
            failed += 1;
            disk.reset_faults();
            assert!(log.is_new());
            if log.poisoned().is_some() {
                poisoned += 1;
                continue;
            }
            assert_eq!(disk.peek(LOG).unwrap(), b"", "taken back");
            log.write_header(Durability::Sync).unwrap();
            assert_eq!(append(&mut log, Durability::Sync).unwrap(), 42);
            drop(log);
            disk.crash(CrashKind::Power);
            assert_eq!(seqs(&disk.restart()), [0, 42]);
        }
    }
    assert!(failed > 5 && poisoned >= 2, "{failed} failed, {poisoned} poisoned");
}

/// A crash at each operation: a header that was acknowledged is there, and the numbers are right in any case.
#[test]
fn a_header_without_records_survives_or_is_written_again_with_the_same_numbers() {
    let (mut kept, mut lost, mut torn) = (0, 0, 0);
    for seed in 0..300 {
        for crash in [Fault::CrashKill, Fault::CrashPower] {
            let old = disk(seed);
            let mut log = open(&old, &options()).unwrap();
            old.add_fault(old.op_count() + seed % 8, crash);
            let written = log.write_header(Durability::Sync).is_ok();
            drop(log);
            old.crash(if crash == Fault::CrashKill { CrashKind::Kill } else { CrashKind::Power });
            let new = old.restart();
            new.reset_faults();
            let mut log = open(&new, &options()).unwrap();
            assert!(!written || !log.is_new(), "seed {seed}: acknowledged and gone");
            let place = if log.is_new() { &mut lost } else { &mut kept };
            *place += 1;
            torn += u32::from(log.set_aside().is_some());
            log.write_header(Durability::Flush).unwrap();
            assert_eq!(append(&mut log, Durability::Flush).unwrap(), 42, "seed {seed}");
            assert_eq!(seqs(&new), [0, 42], "seed {seed}");
        }
    }
    assert!(kept > 50 && lost > 50 && torn > 5, "{kept} kept, {lost} lost, {torn} torn");
}
