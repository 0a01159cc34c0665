//! A crash or an error at every disk operation of a search, of a reindex and of a purge.

use std::sync::{Arc, Mutex};

use manent::log::frame::DamageReason;
use manent::{Place, Query, Store, turn};
use manent_sim::{Errno, Fault, SimDisk};

use super::scenes::{SECRETS, behind, expect_right, files_with, find, logs, open, say, try_open, untold};
use super::{NOW_MS, key, number};

type Act = fn(&Store) -> manent::Result<()>;

fn search(store: &Store) -> manent::Result<()> {
    store.search(&Query::parse("alpha", NOW_MS).unwrap(), 20).map(drop)
}

fn reindex(store: &Store) -> manent::Result<()> {
    store.reindex(&mut |_, _| {}).map(drop)
}

fn purge(store: &Store) -> manent::Result<()> {
    let at = store.find_in(Place::Live, &key("secret"))?.id;
    store.purge(&[at], true).map(drop)
}

/// The sessions that also hold the secret text, as forks do: they get a copy.
fn purge_parent(store: &Store) -> manent::Result<()> {
    let at = store.find_in(Place::Live, &key("work"))?.id;
    store.purge(&[at], false).map(drop)
}

fn scenes() -> [(&'static str, SimDisk); 3] {
    [("logs", logs()), ("behind", behind()), ("untold", untold())]
}

const ACTS: [(&str, Act); 4] =
    [("search", search), ("reindex", reindex), ("purge", purge), ("purge a parent", purge_parent)];

/// The operation that was struck changes the disk.
fn struck_a_change(disk: &SimDisk) -> bool {
    let changing =
        ["append", "set_len", "sync", "sync_dir", "rename", "rename_new", "remove", "create_dir_all"];
    let line = struck(disk).unwrap_or_default();
    changing.contains(&line.split(' ').nth(3).unwrap_or_default()) || line.contains("CreateNew")
}

/// The operation that a fault struck last.
fn struck(disk: &SimDisk) -> Option<String> {
    disk.trace().into_iter().rfind(|line| line.starts_with('#') && line.ends_with(']'))
}

/// Crashes an act at one operation; then every answer must be right, what is appended must be found, and the index must
/// be as good as ever. False: the act was over before that.
fn crash_at(image: &SimDisk, act: Act, operation: u64, fault: Fault, seed: u64, what: &str) -> bool {
    let what = format!("{what}: {fault:?} at operation {operation}, seed {seed}");
    let disk = image.copy(seed);
    disk.add_fault(disk.op_count() + operation, fault);
    let done = try_open(&disk).and_then(|store| act(&store));
    if disk.crashed().is_none() {
        assert!(done.is_ok(), "{what}: nothing was wrong, and yet: {done:?}");
        return false;
    }
    // A crash in an operation that changes nothing is one before the next that does: a few of them are enough.
    if !struck_a_change(&disk) && !operation.is_multiple_of(8) {
        return true;
    }
    let disk = disk.restart();
    disk.reset_faults();
    let store = open(&disk);
    expect_right(&disk, &store, &what);
    store.append(&key("after"), turn("user", "alpha after the crash")).unwrap();
    expect_right(&disk, &store, &what);
    true
}

#[test]
fn a_crash_anywhere_changes_no_answer() {
    let seeds = number("MANENT_CRASH_SEEDS").unwrap_or(1);
    let mut tried = 0;
    for (scene, image) in scenes() {
        for (name, act) in ACTS {
            for operation in 0.. {
                let mut went_on = false;
                for nth in 0..2 * seeds {
                    let fault = if nth % 2 == 0 { Fault::CrashKill } else { Fault::CrashPower };
                    let seed = operation * 1_000_003 + nth;
                    went_on |= crash_at(&image, act, operation, fault, seed, &format!("{name}, {scene}"));
                    tried += 1;
                }
                if !went_on {
                    assert!(operation > 30, "{name} in {scene} takes more than {operation} operations");
                    break;
                }
            }
        }
    }
    eprintln!("{tried} crashes");
}

/// Lets one operation fail. A search whose index fails answers all the same; nothing else is ever wrong.
fn fail_at(image: &SimDisk, name: &str, act: Act, operation: u64, errno: Errno, what: &str) -> bool {
    let what = format!("{what}: {errno:?} at operation {operation}");
    let disk = image.copy(operation);
    disk.add_fault(disk.op_count() + operation, Fault::Fail(errno));
    let opened = try_open(&disk);
    let done = opened.as_ref().map_err(ToString::to_string).and_then(|s| act(s).map_err(|e| e.to_string()));
    if disk.faults_left() > 0 {
        assert!(done.is_ok(), "{what}: nothing was wrong, and yet: {done:?}");
        return false;
    }
    let line = struck(&disk);
    disk.reset_faults();
    let of_index = line.as_ref().is_some_and(|line| line.contains("/store/index"));
    if name == "search" && of_index {
        assert!(done.is_ok(), "{what}: the index failed ({line:?}), and the search with it: {done:?}");
    }
    if name == "purge" && done.is_ok() {
        assert_eq!(
            files_with(&disk, &SECRETS),
            Vec::<std::path::PathBuf>::new(),
            "{what}: purged ({line:?})"
        );
    }
    if !struck_a_change(&disk) && !of_index && !operation.is_multiple_of(8) {
        return true;
    }
    let store = opened.unwrap_or_else(|_| open(&disk));
    say(&store, "after", &["alpha after the error"]);
    expect_right(&disk, &store, &what);
    true
}

#[test]
fn an_error_anywhere_changes_no_answer() {
    for (scene, image) in scenes() {
        for (name, act) in ACTS {
            for operation in 0.. {
                let what = format!("{name}, {scene}");
                let io = fail_at(&image, name, act, operation, Errno::Io, &what);
                let full = fail_at(&image, name, act, operation, Errno::NoSpace, &what);
                if !io && !full {
                    break;
                }
            }
        }
    }
}

/// Whoever was told that a session is purged can count on it, also after a power cut, and whatever somebody who died
/// while writing the index has left behind.
#[test]
fn nothing_of_what_was_purged_is_left_on_the_disk() {
    for (scene, image) in scenes() {
        for (name, before) in [("search", search as Act), ("reindex", reindex)] {
            for operation in 0.. {
                let disk = image.copy(operation);
                disk.add_fault(disk.op_count() + operation, Fault::CrashKill);
                let _ = try_open(&disk).and_then(|store| before(&store));
                let crashed = disk.crashed().is_some();
                if crashed && !struck_a_change(&disk) {
                    continue;
                }
                let disk = disk.restart();
                disk.reset_faults();
                purge(&open(&disk)).unwrap();
                let what = format!("{scene}: purged after a {name} that was killed at {operation}");
                assert_eq!(files_with(&disk, &SECRETS), Vec::<std::path::PathBuf>::new(), "{what}");
                disk.crash(manent_sim::CrashKind::Power);
                let disk = disk.restart();
                let after = "and a power cut";
                assert_eq!(files_with(&disk, &SECRETS), Vec::<std::path::PathBuf>::new(), "{what} {after}");
                expect_right(&disk, &open(&disk), &what);
                if !crashed {
                    break;
                }
            }
        }
    }
}

/// Two processes: all that one does, at every point of what the other does. Whoever was told that it is purged can
/// count on it, whatever the other had read of it before.
#[test]
fn a_purge_holds_against_a_search_of_another_process() {
    let pairs: [(&str, Act, Act); 4] = [
        ("a search while purging", purge, search),
        ("an index made anew while purging", purge, reindex),
        ("a purge while searching", search, purge),
        ("a purge while indexing anew", reindex, purge),
    ];
    let mut purged = 0;
    for (scene, image) in scenes() {
        for (name, first, second) in pairs {
            for operation in 0.. {
                let disk = image.copy(operation);
                let other = open(&disk.as_process(2));
                if operation % 2 == 0 {
                    // It knows the store already.
                    search(&other).unwrap();
                }
                let store = open(&disk);
                let visited = Arc::new(Mutex::new(None));
                let told = visited.clone();
                disk.visit_before(disk.op_count() + operation, move || {
                    *told.lock().unwrap() = Some(second(&other).is_ok());
                });
                let done = first(&store).is_ok();
                let Some(visited) = *visited.lock().unwrap() else { break };
                let what = format!("{scene}: {name}, at operation {operation}");
                let is_purged = if name.starts_with("a purge") { visited } else { done };
                purged += u32::from(is_purged);
                if is_purged {
                    assert_eq!(files_with(&disk, &SECRETS), Vec::<std::path::PathBuf>::new(), "{what}");
                }
                expect_right(&disk, &store, &what);
            }
        }
    }
    assert!(purged > 100, "purged {purged} times only");
}

/// A write that failed for want of room leaves nothing behind.
#[test]
fn a_full_disk_is_not_made_fuller_by_an_index_that_finds_no_room() {
    for (scene, image) in scenes() {
        let used = |disk: &SimDisk| -> usize {
            disk.paths().iter().filter_map(|path| disk.peek(path)).map(|bytes| bytes.len()).sum()
        };
        for room in (0..6000).step_by(97) {
            let disk = image.copy(room);
            let before = used(&disk);
            disk.set_capacity(Some(before as u64 + room));
            let catalogue = disk.peek("/store/index/catalogue");
            for _ in 0..3 {
                let store = open(&disk);
                expect_right(&disk, &store, &format!("{scene}: {room} bytes left"));
            }
            let is_saved = disk.peek("/store/index/catalogue") != catalogue;
            assert!(
                is_saved || used(&disk) == before,
                "{scene}: {room} bytes were left, and {} after an index that did not fit",
                before as u64 + room - used(&disk) as u64
            );
        }
    }
}

/// A search that saves its index, and a purge of what it just read, leave what another purge would.
#[test]
fn a_purged_session_is_found_no_more() {
    let disk = behind();
    let store = open(&disk);
    search(&store).unwrap();
    store.purge(&[find(&store, Place::Live, "secret")], false).unwrap();
    expect_right(&disk, &store, "purged");
    assert_eq!(files_with(&disk, &SECRETS), Vec::<std::path::PathBuf>::new());
}

/// A log that loses its end in the middle of a search: the search answers for before or after, and the loss is told.
#[test]
fn a_log_that_is_cut_while_it_is_searched_is_told() {
    let image = logs();
    search(&open(&image)).unwrap();
    let path = "/store/sessions/work.jsonl";
    for operation in 0.. {
        let disk = image.copy(operation);
        let store = open(&disk);
        let whole = disk.peek(path).unwrap();
        let ends: Vec<usize> = (1..=whole.len()).filter(|at| whole[at - 1] == b'\n').collect();
        let cut = whole[..ends[ends.len() - 3]].to_vec();
        let other = disk.clone();
        disk.visit_before(disk.op_count() + operation, move || other.poke(path, cut).unwrap());
        search(&store).unwrap();
        if disk.cancel_visit() {
            break;
        }
        let what = format!("cut at operation {operation}");
        expect_right(&disk, &store, &what);
        let at = find(&store, Place::Live, "work");
        for store in [&store, &open(&disk)] {
            let report = store.verify(&at, &mut |_, _| {}).unwrap();
            let told = report.damage.iter().any(|found| found.damage.reason == DamageReason::Shorter);
            assert!(told, "{what}: {:?}", report.damage);
        }
    }
}
