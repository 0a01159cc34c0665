//! Histories of threads that append to one stream and read it at once, in every space, with and without a crash in the
//! middle: numbers without gaps, each record once, readers that see prefixes, and receipts that hold.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manent_log::{Durability, KeyRule};
use manent_sim::{CrashKind, Fault, Rng, SimDisk};
use manent_store::{AppendOptions, Files, IfMissing, Result, Space, Streams};

use super::scene::{Content, TEXTS, at, disk, header, keyed, open, read, turn};

const WRITERS: u64 = 4;
const ROUNDS: u64 = 10;
const LONG: Duration = Duration::from_mins(2);

/// A receipt as a thread got it.
struct Acknowledged {
    text: String,
    seq: u64,
    durability: Durability,
}

/// Appends one record in one of several ways.
fn append(files: &Files, space: Space, text: &str, nth: u64) -> Result<Acknowledged> {
    let durability = [Durability::Group, Durability::Sync, Durability::Flush][(nth % 3) as usize];
    let how = AppendOptions { wait: LONG, ..AppendOptions::new(durability) };
    let new = || header(space);
    let receipts = match nth % 4 {
        0 => files.append(&at(space), &new, &[turn(text)], &AppendOptions { keys: &TEXTS, ..how }),
        1 => files.append(&at(space), &new, &[keyed(text, text)], &how),
        2 => files.lease(&at(space), IfMissing::Create(&new), LONG)?.append(&[keyed(text, text)], &how),
        _ => files.append(&at(space), &new, &[keyed(text, text)], &AppendOptions { keys: &TEXTS, ..how }),
    }?;
    Ok(Acknowledged { text: text.to_owned(), seq: receipts[0].seq, durability })
}

/// Appends what belongs to one thread, and what all of them append, until something fails.
fn write(files: &Files, space: Space, writer: u64) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        for text in [format!("shared {round}"), format!("{writer}/{round}")] {
            // A record that several append is known by the same kind of key to all of them.
            let nth = if text.starts_with("shared") { 4 * round + 1 } else { writer + round };
            match append(files, space, &text, nth) {
                Ok(receipt) => acknowledged.push(receipt),
                Err(_) => return acknowledged,
            }
        }
    }
    acknowledged
}

/// Reads the stream again and again, and returns what was read each time.
fn follow(files: &Files, space: Space, done: &AtomicBool) -> Vec<Content> {
    let mut seen = Vec::new();
    while !done.load(Ordering::Acquire) {
        seen.extend(read(files, &at(space)).ok());
        thread::yield_now();
    }
    seen
}

fn history(space: Space, seed: u64) {
    let disk = disk(seed);
    let files = open(&disk);
    let mut rng = Rng::new(seed);
    if let Some(fault) = [None, Some(Fault::CrashKill), Some(Fault::CrashPower)][(seed % 3) as usize] {
        disk.add_fault(disk.op_count() + rng.below(1_500), fault);
    }
    let done = AtomicBool::new(false);
    let (acknowledged, views) = thread::scope(|scope| {
        let (files, done) = (&files, &done);
        let writers: Vec<_> = (0..WRITERS).map(|nth| scope.spawn(move || write(files, space, nth))).collect();
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(move || follow(files, space, done))).collect();
        let acknowledged: Vec<Vec<Acknowledged>> =
            writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Release);
        (acknowledged, readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect::<Vec<_>>())
    });
    drop(files);
    let crashed = disk.crashed();
    let disk = if crashed.is_some() { disk.restart() } else { disk };
    disk.reset_faults();
    check(space, &disk, crashed, &acknowledged, &views, &format!("{space:?}, seed {seed}, {crashed:?}"));
}

fn check(
    space: Space,
    disk: &SimDisk,
    crashed: Option<CrashKind>,
    acknowledged: &[Vec<Acknowledged>],
    views: &[Content],
    what: &str,
) {
    let files = open(disk);
    let content = read(&files, &at(space)).unwrap_or_default();
    let texts = content.texts();
    let by_text: HashMap<&String, u64> =
        texts.iter().zip(&content.records).map(|(text, record)| (text, record.seq)).collect();
    assert_eq!(by_text.len(), texts.len(), "{what}: a record is there twice: {texts:?}");
    let numbers: Vec<u64> = content.records.iter().map(|record| record.seq).collect();
    if crashed.is_none() {
        let all = WRITERS * ROUNDS + ROUNDS;
        assert_eq!(numbers, (1..=all).collect::<Vec<_>>(), "{what}: numbers without a gap");
    }
    assert!(numbers.is_sorted(), "{what}: {numbers:?}");
    for receipts in acknowledged {
        let survives = |record: &&Acknowledged| {
            record.durability != Durability::Flush || crashed != Some(CrashKind::Power)
        };
        for record in receipts.iter().filter(survives) {
            assert_eq!(
                by_text.get(&record.text),
                Some(&record.seq),
                "{what}: {} was acknowledged",
                record.text
            );
        }
        let own =
            receipts.iter().filter(|record| !record.text.starts_with("shared")).map(|record| record.seq);
        assert!(own.is_sorted(), "{what}: a thread's records are in its order");
    }
    let mut shared: HashMap<&str, HashSet<u64>> = HashMap::new();
    for record in acknowledged.iter().flatten().filter(|record| record.text.starts_with("shared")) {
        shared.entry(&record.text).or_default().insert(record.seq);
    }
    assert!(shared.values().all(|seqs| seqs.len() == 1), "{what}: one record, one number: {shared:?}");
    for seen in views {
        assert_eq!(seen.damaged, 0, "{what}: a reader meets no damage");
        let numbers: Vec<u64> = seen.records.iter().map(|record| record.seq).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{what}: a reader sees no gap");
        if crashed.is_none() {
            assert_eq!(seen.records[..], content.records[..seen.records.len()], "{what}: a prefix");
        }
    }
    // The stream goes on, behind whatever is there.
    let again = append(&files, space, "shared 0", 1).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(by_text.get(&again.text).is_none_or(|seq| *seq == again.seq), "{what}: it is known by its key");
    let rule = &KeyRule::IDEMPOTENCY;
    let next = super::scene::append(&files, space, &[turn("in the end")], rule).unwrap();
    assert!(numbers.iter().all(|seq| *seq < next[0]), "{what}: {next:?} comes last");
}

#[test]
fn histories_of_threads_hold_in_every_space() {
    for space in Space::ALL {
        for seed in 0..12 {
            history(space, seed);
        }
    }
}
