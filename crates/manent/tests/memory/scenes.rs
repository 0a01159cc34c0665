//! Memories on the simulated disk: made once, without faults, and put on a new disk for each try.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent::memory::Filter;
use manent::{Files, Memory, Query, Store, StoreOptions};
use manent_sim::SimDisk;

use super::fact;

pub(crate) const HOME: &str = "/store";
pub(crate) const FILE: &str = "/store/memory.jsonl";
/// Stands in an item that is forgotten, and in nothing else.
pub(crate) const SECRET: &str = "qzsecret";

/// The memory of a store that waits for nobody: one thread plays all processes.
pub(crate) fn open(disk: &SimDisk) -> Memory {
    try_open(disk).unwrap()
}

pub(crate) fn try_open(disk: &SimDisk) -> manent::Result<Memory> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Store::on_files(files, options).memory()
}

/// Lets the index learn the secret, and forgets it.
fn forget_the_secret(disk: &SimDisk, memory: &Memory) {
    find(memory, SECRET).unwrap();
    memory.forget(&[2]).unwrap();
    let index = |path: &PathBuf| path.starts_with("/store/index/memory");
    let files = files_with(disk, SECRET);
    assert!(files.iter().any(index), "the index holds it: {files:?}");
}

/// Items 1 to 5: 2 is forgotten, 5 replaces 4; and an index of all of it. The highest id is 6.
pub(crate) fn native() -> SimDisk {
    let disk = SimDisk::new(0);
    let memory = open(&disk);
    for text in ["alpha one", "alpha qzsecret", "alpha three", "alpha four"] {
        memory.add(&fact(text)).unwrap();
    }
    memory.add(&fact("alpha five").replacing(4)).unwrap();
    forget_the_secret(&disk, &memory);
    disk
}

/// The same, in a file that another program began.
pub(crate) fn foreign() -> SimDisk {
    let disk = SimDisk::new(0);
    disk.poke_dir(HOME).unwrap();
    let theirs = r#"{"meta":{"version":1}}
{"id":1,"kind":"fact","content":"alpha one"}
{"id":2,"kind":"fact","content":"alpha qzsecret"}
{"id":3,"kind":"fact","content":"alpha three"}
{"id":4,"kind":"fact","content":"alpha four"}
"#;
    disk.poke(FILE, theirs).unwrap();
    let memory = open(&disk);
    memory.add(&fact("alpha five").replacing(4)).unwrap();
    forget_the_secret(&disk, &memory);
    disk
}

/// The same as `native`, with a line in the middle that cannot be read any more (item 3).
pub(crate) fn damaged() -> SimDisk {
    let disk = native().copy(0);
    let text = String::from_utf8(disk.peek(FILE).unwrap()).unwrap();
    disk.poke(FILE, text.replace("alpha three", "alpha thrEE")).unwrap();
    disk
}

/// Returns the active items of a memory, with their texts.
pub(crate) fn told(memory: &Memory) -> manent::Result<Vec<(u64, String)>> {
    let items = memory.items(&Filter::default())?;
    let mut told: Vec<(u64, String)> = items.into_iter().map(|item| (item.id, item.content)).collect();
    told.sort();
    Ok(told)
}

/// The ids of the items that hold a word.
pub(crate) fn find(memory: &Memory, word: &str) -> manent::Result<Vec<u64>> {
    let found = memory.search(&Query::parse(word, 0).unwrap(), 100)?;
    let mut ids: Vec<u64> = found.hits.iter().map(|hit| hit.item.id).collect();
    ids.sort_unstable();
    Ok(if found.related { Vec::new() } else { ids })
}

/// The files that hold a word.
pub(crate) fn files_with(disk: &SimDisk, word: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = disk.peek(path).unwrap_or_default();
        bytes.windows(word.len()).any(|some| some == word.as_bytes())
    };
    disk.paths().into_iter().filter(holds).collect()
}
