//! Creating a log while another process creates it too, and the system refuses a lock to one of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Expect, Log, LogItem, LogReceipt, Options, Reader};
use manent_sim::{Errno, Fault, SimDisk};

const LOG: &str = "/store/log.jsonl";

fn shared(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn options() -> Options {
    let (mut header, mut meta) = (Body::new(), Body::new());
    meta.number("format", manent_log::FORMAT);
    header.object("meta", &meta);
    Options { header: Some(header), ..Options::default() }
}

fn append(disk: &SimDisk, text: &str) -> manent_log::Result<(Log, LogReceipt)> {
    let mut body = Body::new();
    body.string("role", "user").string("content", text);
    let mut log = Log::open(&shared(disk), Path::new(LOG), &options())?;
    let receipt = log.append(&body, Durability::Sync, Expect::Any)?;
    Ok((log, receipt))
}

fn texts(disk: &SimDisk) -> Vec<String> {
    let Ok(mut reader) = Reader::open(&shared(disk), Path::new(LOG)) else { return Vec::new() };
    let mut texts = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let LogItem::Entry(entry) = item else { panic!("damage: {item:?}") };
        if entry.seq > 0 {
            let value: serde_json::Value = serde_json::from_slice(entry.bytes).unwrap();
            texts.push(value["content"].as_str().unwrap().to_owned());
        }
    }
    texts
}

fn store() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.poke_dir("/store").unwrap();
    disk
}

/// The number of the first operation with this verb that creating a log does.
fn operation_of(verb: &str) -> u64 {
    let disk = store();
    drop(append(&disk, "once").unwrap());
    let line = disk.trace().into_iter().find(|line| line.contains(&format!(" {verb} "))).expect(verb);
    let number = line.trim_start_matches('#').split([' ', ':']).next().unwrap();
    number.parse().unwrap_or_else(|_| panic!("{line}"))
}

/// The operation of the other process in the instant between two operations.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Other {
    WritesAndCloses,
    WritesAndStays,
}

#[test]
fn record_of_a_process_that_is_granted_the_lock_survives_a_creator_that_is_refused_it() {
    let lock = operation_of("try_lock");
    for other in [Other::WritesAndCloses, Other::WritesAndStays] {
        for operation in 0..lock + 20 {
            let disk = store();
            let them = disk.as_process(2000);
            disk.add_fault(lock, Fault::Fail(Errno::Io));
            let answer = Arc::new(Mutex::new(None));
            let (note, actor, faulty) = (answer.clone(), them.clone(), disk.clone());
            // The fault strikes whoever does the operation with that number; theirs come first, so it is put off.
            disk.visit_before(operation, move || {
                let before = faulty.op_count();
                faulty.reset_faults();
                let written = append(&actor, "theirs")
                    .map(|(log, receipt)| (receipt, (other == Other::WritesAndStays).then_some(log)));
                if before <= lock {
                    faulty.add_fault(faulty.op_count() + lock - before, Fault::Fail(Errno::Io));
                }
                *note.lock().unwrap() = Some(written);
            });
            let ours = append(&disk, "ours").map(|(_, receipt)| receipt);
            disk.reset_faults();
            let visited = !disk.cancel_visit();
            let theirs = answer.lock().unwrap().take();
            let mut expected = Vec::new();
            if let Some(Ok(_)) = &theirs {
                expected.push("theirs".to_owned());
            }
            if ours.is_ok() {
                expected.push("ours".to_owned());
            }
            let mut found = texts(&disk);
            expected.sort();
            found.sort();
            let context =
                format!("{other:?} before {operation}: {ours:?}, {theirs:?}\n{}", disk.trace().join("\n"));
            assert_eq!(found, expected, "{context}");
            assert!(visited || theirs.is_none(), "{context}");
            drop(theirs);
            if expected.is_empty() {
                assert!(disk.paths().is_empty(), "nothing may be left behind: {context}");
            }
        }
    }
}
