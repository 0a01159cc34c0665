//! The memory across sessions: what was acknowledged is there until it is forgotten, and then nowhere.
//!
//! | file | about |
//! |---|---|
//! | `first.rs` | what a user does with it on an ordinary day |
//! | `model.rs` | what the memory must say: a list, and nothing clever |
//! | `lives.rs`, `acts.rs` | random lives of a memory that several programs use, compared with the model |
//! | `scenes.rs`, `crashes.rs` | a simulated disk that crashes, loses power and fails |
//! | `visits.rs` | all that another process does, at every point of what one does |
//! | `threads.rs` | many at once, and other processes |
//! | `rot.rs` | every byte of a memory changed, the file cut at every length |
//! | `foreign.rs` | files of other programs |
//! | `shapes.rs` | files of any shape, against a parser and a list |
//! | `odd.rs` | files and items as nobody would make them on purpose |
//! | `sizes.rs` | sizes at which a square would show |
//! | `select.rs` | what is given to a model, and what no item can make of it |
//! | `audits.rs` | what an audit says of good items and of bad ones |
//!
//! `MANENT_MEMORY_LIVES=n` lives n lives, `MANENT_MEMORY_SEED=n` lives one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may"
)]
#![allow(clippy::disallowed_methods, reason = "tests do to files what people and other programs do")]

mod audits;
mod crashes;
mod foreign;
mod invalid_input;
mod items;
mod lives;
mod model;
mod operations;
mod rot;
mod scenes;
mod select;
mod shapes;
mod sizes;
mod threads;
mod two_processes;

use std::path::Path;
use std::time::Duration;

use manent::memory::{Filter, Kind, NewItem};
use manent::{Memory, Query, Store, StoreOptions};

fn number(name: &str) -> Option<u64> {
    manent_sim::seeds::number(name).unwrap()
}

fn fact(text: &str) -> NewItem {
    NewItem::new(Kind::Fact, text)
}

/// The memory of a store that waits for nobody.
fn open(home: &Path) -> Memory {
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Store::open_with(home, options).unwrap().memory().unwrap()
}

/// A directory in memory where there is one: what a real disk makes of a sync is nothing that these tests look at.
fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The memory whose file holds these bytes.
fn with_file(bytes: impl AsRef<[u8]>) -> (tempfile::TempDir, Memory) {
    let dir = home();
    std::fs::write(dir.path().join("memory.jsonl"), bytes).unwrap();
    let memory = open(dir.path());
    (dir, memory)
}

fn ids(memory: &Memory) -> Vec<u64> {
    memory.items(&Filter::default()).unwrap().iter().map(|item| item.id).collect()
}

fn file(memory: &Memory) -> String {
    String::from_utf8_lossy(&std::fs::read(memory.path()).unwrap()).into_owned()
}

/// The ids of the items that hold a word, lowest first.
fn found(memory: &Memory, word: &str) -> Vec<u64> {
    let found = memory.search(&Query::parse(word, 0).unwrap(), 1000).unwrap();
    let mut ids: Vec<u64> = found.hits.iter().map(|hit| hit.item.id).collect();
    ids.sort_unstable();
    if found.related { Vec::new() } else { ids }
}

/// The names of all files below a directory that hold a word.
fn files_with(home: &Path, word: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(home).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            names.extend(files_with(&entry.path(), word));
        } else if entry.file_type().unwrap().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            if bytes.windows(word.len()).any(|some| some == word.as_bytes()) {
                names.push(entry.path().display().to_string());
            }
        }
    }
    names
}
