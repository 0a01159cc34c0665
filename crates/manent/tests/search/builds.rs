//! Builds of an index on a simulated disk: another process at every point of one, and a crash there.

use std::sync::{Arc, Mutex};

use manent::{Place, Query, Store};
use manent_sim::{Fault, SimDisk};

use super::scenes::{SECRETS, behind, expect_right, files_with, logs, open, say, try_open};
use super::{NOW_MS, key};

/// The number of words of the session that is read by a build: more than a search reads with the index locked.
const WORDS: usize = 40_000;

/// The length from which on a segment is written before the build is done.
const SPILLED_BYTES: usize = 256 * 1024;

fn search(store: &Store) -> manent::Result<()> {
    store.search(&Query::parse("alpha", NOW_MS).unwrap(), 20).map(drop)
}

fn purge(store: &Store) -> manent::Result<()> {
    let at = store.find_in(Place::Live, &key("secret"))?.id;
    store.purge(&[at], true).map(drop)
}

/// Adds a session that is long enough for a build, most of whose words stand nowhere else.
fn with_much(disk: SimDisk) -> SimDisk {
    let words: Vec<String> = (0..WORDS).map(|word| format!("w{:x}", word * 7919)).collect();
    say(&open(&disk), "much", &[&words.join(" "), "alpha behind all of that"]);
    disk
}

fn scenes() -> [(&'static str, SimDisk); 2] {
    [("no index", with_much(logs())), ("an old index", with_much(behind()))]
}

/// Two processes: what one does in the middle of what the other does. Only every third point is tried.
#[test]
fn purge_holds_against_a_build_of_another_process() {
    let (mut purged, mut tried) = (0, 0);
    for (scene, image) in scenes() {
        for (name, first, second) in [
            ("a purge while building", search as fn(&Store) -> _, purge as fn(&Store) -> _),
            ("a build while purging", purge, search),
        ] {
            for operation in (0..).step_by(3) {
                let disk = image.copy(operation);
                let (store, other) = (open(&disk), open(&disk.as_process(2)));
                let visited = Arc::new(Mutex::new(None));
                let told = visited.clone();
                disk.visit_before(disk.op_count() + operation, move || {
                    *told.lock().unwrap() = Some(second(&other).is_ok());
                });
                let done = first(&store);
                let Some(visited) = *visited.lock().unwrap() else { break };
                let what = format!("{scene}: {name}, at operation {operation}");
                tried += 1;
                if if name.starts_with("a purge") { visited } else { done.is_ok() } {
                    purged += 1;
                    let left = files_with(&disk, &SECRETS);
                    assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{what}");
                }
                if operation.is_multiple_of(9) {
                    expect_right(&disk, &store, &what);
                }
            }
        }
    }
    // One thread plays both, so a purge in the middle of a single write fails.
    assert!(purged * 10 > tried * 7, "purged {purged} times of {tried} only");
}

/// A build that was cut off anywhere changes no answer, and what it left behind goes with a purge.
#[test]
fn crash_in_a_build_changes_no_answer_and_hides_nothing_from_a_purge() {
    for (scene, image) in scenes() {
        for operation in (0..).step_by(3) {
            let disk = image.copy(operation);
            disk.add_fault(disk.op_count() + operation, Fault::CrashKill);
            let _ = try_open(&disk).and_then(|store| search(&store));
            if disk.crashed().is_none() {
                let longest = |path: &std::path::PathBuf| disk.peek(path).map_or(0, |bytes| bytes.len());
                let segments =
                    disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == "words"));
                assert!(segments.map(|path| longest(&path)).max() >= Some(SPILLED_BYTES), "{scene}");
                break;
            }
            let disk = disk.restart();
            disk.reset_faults();
            let what = format!("{scene}: killed at operation {operation}");
            if operation.is_multiple_of(9) {
                expect_right(&disk, &open(&disk), &what);
            }
            purge(&open(&disk)).unwrap();
            assert_eq!(files_with(&disk, &SECRETS), Vec::<std::path::PathBuf>::new(), "{what}");
        }
    }
}
