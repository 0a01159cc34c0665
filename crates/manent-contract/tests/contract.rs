//! The contract of backends, run on ours: files, files on the simulated disk, memory, and on one in SQLite.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::cell::RefCell;
use std::sync::Arc;

use manent_log::RealDisk;
use manent_sim::SimDisk;
use manent_store::{Blobs, FileBlobs, Files, InMemory, InMemoryBlobs, Streams};

thread_local! {
    /// Each test has a thread of its own, and with it end its directories.
    static DIRS: RefCell<Vec<tempfile::TempDir>> = const { RefCell::new(Vec::new()) };
}

fn new_dir() -> std::path::PathBuf {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    DIRS.with_borrow_mut(|dirs| dirs.push(dir));
    path
}

fn on_files() -> Arc<dyn Streams> {
    Arc::new(Files::open(new_dir()).unwrap())
}

/// Keeps one file open, so that every change of the key closes one.
fn on_one_open_file() -> Arc<dyn Streams> {
    Arc::new(Files::open(new_dir()).unwrap().keeping_open(1))
}

fn on_a_simulated_disk() -> Arc<dyn Streams> {
    let disk = SimDisk::new(1);
    disk.poke_dir("/store").unwrap();
    Arc::new(Files::open_on(Arc::new(disk), "/store".into()).unwrap())
}

/// A directory of another program, which holds sessions and nothing else.
fn in_a_flat_directory() -> Arc<dyn Streams> {
    let dir = new_dir();
    RealDisk::shared().create_dir_all(&dir.join("archive")).unwrap();
    Arc::new(Files::open(dir).unwrap())
}

fn in_memory_only() -> Arc<dyn Streams> {
    Arc::new(InMemory::new())
}

mod files {
    manent_contract::backend_contract!(super::on_files);
}

mod few_open_files {
    manent_contract::backend_contract!(super::on_one_open_file);
}

mod simulated_disk {
    manent_contract::backend_contract!(super::on_a_simulated_disk);
}

mod flat_directory {
    manent_contract::backend_contract!(super::in_a_flat_directory);
}

mod in_memory {
    manent_contract::backend_contract!(super::in_memory_only);
}

mod file_blobs {
    manent_contract::blobs_contract!(super::blobs_in_files);
}

mod simulated_blobs {
    manent_contract::blobs_contract!(super::blobs_on_a_simulated_disk);
}

mod in_memory_blobs {
    manent_contract::blobs_contract!(super::blobs_in_memory);
}

fn blobs_in_files() -> Arc<dyn Blobs> {
    Arc::new(FileBlobs::new(RealDisk::shared(), new_dir().join("blobs")))
}

fn blobs_on_a_simulated_disk() -> Arc<dyn Blobs> {
    let disk = SimDisk::new(1);
    disk.poke_dir("/cache").unwrap();
    Arc::new(FileBlobs::new(Arc::new(disk), "/cache/blobs".into()))
}

fn blobs_in_memory() -> Arc<dyn Blobs> {
    Arc::new(InMemoryBlobs::new())
}

/// The lists of checks are written by hand; a check that is not on them would never run.
#[test]
fn every_check_is_on_the_list() {
    let listed: Vec<&str> = manent_contract::CHECKS.to_vec();
    let of_blobs = manent_contract::BLOB_CHECKS.iter().map(|(name, _)| *name);
    let listed: Vec<&str> = listed.into_iter().chain(of_blobs).collect();
    let sources = [
        include_str!("../src/blobs.rs"),
        include_str!("../src/writing.rs"),
        include_str!("../src/retrying.rs"),
        include_str!("../src/reading.rs"),
        include_str!("../src/positions.rs"),
        include_str!("../src/following.rs"),
        include_str!("../src/leasing.rs"),
        include_str!("../src/locking.rs"),
        include_str!("../src/threads.rs"),
        include_str!("../src/listing.rs"),
        include_str!("../src/changes.rs"),
        include_str!("../src/moving.rs"),
        include_str!("../src/making.rs"),
        include_str!("../src/replacing.rs"),
        include_str!("../src/spaces.rs"),
    ];
    let names = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let rest = line.strip_prefix("pub fn ")?;
        Some(rest.split('(').next().unwrap())
    });
    let forgotten: Vec<&str> = names.filter(|name| !listed.contains(name)).collect();
    assert_eq!(forgotten, Vec::<&str>::new());
}
