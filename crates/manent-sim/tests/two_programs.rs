//! Another program appends to its own file, without our lease, while we append to it too; and processes get killed.
//!
//! The other program writes whole lines as such programs do: sometimes it leaves the last newline to its next line.
//! Whatever the order, every line of both must be read, once, in the order of the file, under rising numbers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::sync::Arc;

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Expect, Log, LogItem, Options, Reader, verify};
use manent_sim::{CrashKind, Fault, Rng, SimDisk};

const FILE: &str = "/other/chat.jsonl";

/// A line of the other program; some have a `seq` of their own.
fn their_line(n: u64) -> String {
    match n % 3 {
        0 => format!(r#"{{"role":"user","content":"theirs {n}"}}"#),
        1 => format!(r#"{{"type":"message","seq":{n},"role":"assistant","content":"theirs {n}"}}"#),
        _ => format!(r#"{{"meta":{{"n":{n}}}}}"#),
    }
}

fn ours(n: u64) -> Body {
    let mut body = Body::new();
    body.string("role", "assistant").string("content", &format!("ours {n}"));
    body
}

/// The marks (`theirs 7`, `ours 8`, `"n":9`) that a file must show, in order.
fn mark(line: &str) -> String {
    let at = line.find("theirs ").or_else(|| line.find("ours ")).or_else(|| line.find("\"n\":"));
    line[at.expect("a mark")..]
        .chars()
        .take_while(|c| !matches!(c, '"' | '}') || *c == '"' && line.contains("\"n\":"))
        .collect()
}

fn read_all(disk: &Arc<dyn Disk>) -> Vec<(u64, String)> {
    let mut reader = Reader::open(disk, Path::new(FILE)).expect("it is there");
    let mut lines = Vec::new();
    while let Some(item) = reader.next().expect("no faults are planned") {
        match item {
            LogItem::Entry(entry) => {
                lines.push((entry.seq, mark(std::str::from_utf8(entry.bytes).expect("text"))));
            }
            LogItem::Damage(damage) => panic!("{damage:?}"),
        }
    }
    lines
}

#[test]
fn two_programs_on_one_file_lose_and_mix_nothing() {
    'seeds: for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let mut disk = SimDisk::new(seed);
        let first = their_line(0) + "\n";
        disk.poke(FILE, first.clone()).unwrap();
        // One record of ours, so that a later one that a kill tears is known to be ours to cut. In a file that is all
        // another program's, nothing is ever cut (R13).
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut log = Log::open(&shared, Path::new(FILE), &Options::default()).unwrap();
        log.append(&ours(0), Durability::Sync, Expect::Any).unwrap();
        drop(log);
        let mut expected = vec![mark(&first), mark("ours 0")];
        let mut unterminated = false;
        for n in 1..40 {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let mut log = None;
            for _ in 0..rng.range(1..=4) {
                if rng.chance(1, 2) {
                    let newline_before = if std::mem::take(&mut unterminated) { "\n" } else { "" };
                    unterminated = rng.chance(1, 4);
                    let newline_after = if unterminated { "" } else { "\n" };
                    let line = their_line(n);
                    disk.raw_append(FILE, format!("{newline_before}{line}{newline_after}").as_bytes())
                        .unwrap();
                    expected.push(mark(&line));
                } else {
                    let log = log.get_or_insert_with(|| {
                        Log::open(&shared, Path::new(FILE), &Options::default()).unwrap()
                    });
                    if rng.chance(1, 8) {
                        let at = disk.op_count() + rng.below(6);
                        disk.add_fault(at, Fault::CrashKill);
                    }
                    match log.append(&ours(n), Durability::Flush, Expect::Any) {
                        Ok(receipt) => {
                            assert_eq!(receipt.seq, expected.len() as u64 + 1, "seed {seed}");
                            expected.push(mark(&format!("ours {n}")));
                            unterminated = false;
                        }
                        Err(_) => break,
                    }
                }
            }
            drop(log);
            if disk.crashed().is_some() || rng.chance(1, 6) {
                disk.reset_faults();
                disk.crash(CrashKind::Kill);
                disk = disk.restart();
                let shared: Arc<dyn Disk> = Arc::new(disk.clone());
                // The record in hand may have come through whole, without a receipt; then it counts from now on.
                let read = read_all(&shared);
                if read.len() == expected.len() + 1 {
                    expected.push(read[expected.len()].1.clone());
                }
                // A torn one is cut by the next writer, who also knows about a missing newline.
                drop(Log::open(&shared, Path::new(FILE), &Options::default()).unwrap());
                let bytes = disk.peek(FILE).unwrap();
                unterminated = bytes.last() != Some(&b'\n');
                let last_line = bytes.rsplit(|b| *b == b'\n').next().unwrap();
                if !last_line.is_empty() && br#"{"seq":"#.starts_with(last_line) {
                    // Too short to tell whose it is: it stays, and will be a named gap (R15). Nothing before is lost.
                    let read = read_all(&shared);
                    assert!(read.iter().map(|(_, mark)| mark).eq(&expected), "seed {seed}, step {n}");
                    continue 'seeds;
                }
            }
            disk.reset_faults();
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let read = read_all(&shared);
            let marks: Vec<&String> = read.iter().map(|(_, mark)| mark).collect();
            assert_eq!(marks, expected.iter().collect::<Vec<_>>(), "seed {seed}, step {n}");
            assert!(
                read.iter().map(|(seq, _)| *seq).eq(1..=read.len() as u64),
                "seed {seed}, step {n}: {read:?}"
            );
        }
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let report = verify(&shared, Path::new(FILE)).unwrap();
        assert!(report.is_sound(), "seed {seed}: {report:?}");
        assert!(
            disk.peek(FILE).unwrap().starts_with(first.as_bytes()),
            "no header was put before their lines"
        );
    }
}
