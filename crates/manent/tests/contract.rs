//! The contract of backends, run on ours: files, files on the simulated disk, memory.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::cell::RefCell;
use std::sync::Arc;

use manent::backend::Backend;
use manent::{Files, InMemory};
use manent_sim::SimDisk;

thread_local! {
    /// Each test has a thread of its own, and with it end its directories.
    static DIRS: RefCell<Vec<tempfile::TempDir>> = const { RefCell::new(Vec::new()) };
}

fn on_files() -> Arc<dyn Backend> {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::open(dir.path()).unwrap();
    DIRS.with_borrow_mut(|dirs| dirs.push(dir));
    Arc::new(files)
}

/// With one file kept open, so that every change of the key closes one.
fn on_one_open_file() -> Arc<dyn Backend> {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::open(dir.path()).unwrap().keeping_open(1);
    DIRS.with_borrow_mut(|dirs| dirs.push(dir));
    Arc::new(files)
}

fn on_a_simulated_disk() -> Arc<dyn Backend> {
    let disk = SimDisk::new(1);
    disk.poke_dir("/store").unwrap();
    Arc::new(Files::open_on(Arc::new(disk), "/store".into()).unwrap())
}

fn in_memory_only() -> Arc<dyn Backend> {
    Arc::new(InMemory::new())
}

mod files {
    manent::backend_contract!(super::on_files);
}

mod few_open_files {
    manent::backend_contract!(super::on_one_open_file);
}

mod simulated_disk {
    manent::backend_contract!(super::on_a_simulated_disk);
}

mod in_memory {
    manent::backend_contract!(super::in_memory_only);
}

/// What another process does, and other programs, is told as what we do ourselves.
#[test]
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "the test plays another program")]
fn a_watch_tells_of_what_others_do() {
    use manent::backend::Changes;
    use manent::{Place, SessionKey, Store, turn};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let work = SessionKey::new("work").unwrap();
    store.append(&work, turn("user", "1")).unwrap();
    let watching = Files::open(dir.path()).unwrap();
    let mut watch = watching.watch().expect("there is one on a disk of this machine");
    let sessions = dir.path().join("sessions");
    let mut told = |name: &str, there: bool, what: &str| match watch.changes() {
        Changes::Unknown => panic!("{what}: it lost track"),
        Changes::These(told) => {
            let told: Vec<_> = told.into_iter().filter(|(place, ..)| *place == Place::Live).collect();
            let last = told.iter().rfind(|(_, called, _)| called == name);
            assert_eq!(last.map(|(_, _, stamp)| stamp.is_some()), Some(there), "{what}: {told:?}");
        }
    };
    store.append(&work, turn("user", "2")).unwrap();
    told("work.jsonl", true, "an append");
    std::fs::write(sessions.join("foreign.jsonl"), "{\"role\":\"user\"}\n").unwrap();
    told("foreign.jsonl", true, "a file of another program");
    let file = std::fs::OpenOptions::new().write(true).open(sessions.join("foreign.jsonl")).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"{\"role\":\"tool\"}", 0).unwrap();
    told("foreign.jsonl", true, "a change in place");
    file.set_len(3).unwrap();
    told("foreign.jsonl", true, "cut");
    std::fs::rename(sessions.join("foreign.jsonl"), sessions.join("other.jsonl")).unwrap();
    told("other.jsonl", true, "renamed");
    std::fs::remove_file(sessions.join("other.jsonl")).unwrap();
    told("other.jsonl", false, "removed");
    let at = store.find(&work).unwrap().id;
    store.archive(&at, &mut |_, _| {}).unwrap();
    // Something came to the archive: look at everything.
    assert_eq!(watch.changes(), Changes::Unknown);
}

/// The list of checks is written by hand; one that is not on it would never run.
#[test]
fn every_check_is_on_the_list() {
    let listed: Vec<&str> = manent::contract::CHECKS.iter().map(|(name, _)| *name).collect();
    let sources = [
        include_str!("../src/contract/following.rs"),
        include_str!("../src/contract/keys.rs"),
        include_str!("../src/contract/leasing.rs"),
        include_str!("../src/contract/making.rs"),
        include_str!("../src/contract/moving.rs"),
        include_str!("../src/contract/reading.rs"),
        include_str!("../src/contract/seeing.rs"),
        include_str!("../src/contract/stores.rs"),
        include_str!("../src/contract/threads.rs"),
        include_str!("../src/contract/writing.rs"),
    ];
    let names = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let rest = line.strip_prefix("pub fn ")?;
        Some(rest.split('(').next().unwrap())
    });
    let forgotten: Vec<&str> = names.filter(|name| !listed.contains(name)).collect();
    assert_eq!(forgotten, Vec::<&str>::new());
}
