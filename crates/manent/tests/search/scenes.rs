//! Stores on the simulated disk: built once, without faults, and put on a new disk for each try.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent::{Files, Place, Store, StoreOptions, StreamId, turn};
use manent_sim::{Rng, SimDisk};

use super::check::check_all;
use super::key;
use super::oracle::{Ask, Truth, any_ask};
use super::without_index::fresh_on;

pub(crate) const HOME: &str = "/store";

/// Words that stand in one session alone, each with a first letter of its own, so that the index writes them out.
pub(crate) const SECRETS: [&str; 3] = ["qzsecret", "vwsecret", "yxsecret"];

/// A store that waits for nobody: one thread plays all processes.
pub(crate) fn open(disk: &SimDisk) -> Store {
    try_open(disk).unwrap()
}

pub(crate) fn try_open(disk: &SimDisk) -> manent::Result<Store> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Ok(Store::on_files(files, options))
}

/// The turns of the logs.
pub(crate) fn truth(disk: &SimDisk) -> Truth {
    Truth::of(&fresh_on(Files::open_on(Arc::new(disk.clone()), HOME.into()).unwrap())).unwrap()
}

pub(crate) fn say(store: &Store, session: &str, texts: &[&str]) {
    for text in texts {
        store.append(&key(session), turn("user", *text)).unwrap();
    }
}

pub(crate) fn find(store: &Store, place: Place, session: &str) -> StreamId {
    store.find_in(place, &key(session)).unwrap().id
}

/// A few sessions in all places, a fork, and one that says what nobody else does. No index.
pub(crate) fn logs() -> SimDisk {
    let disk = SimDisk::new(0);
    let store = open(&disk);
    say(&store, "work", &["alpha bravo charlie", "delta alpha", "bravo charlie alpha", "echo"]);
    say(&store, "old", &["alpha of old", "bravo of old"]);
    store.archive(&find(&store, Place::Live, "old"), &mut |_, _| {}).unwrap();
    say(&store, "gone", &["alpha in the trash"]);
    store.delete(&find(&store, Place::Live, "gone")).unwrap();
    say(&store, "secret", &["qzsecret alpha", "vwsecret bravo charlie", "the yxsecret"]);
    store.set_title(&key("secret"), "qzsecret title").unwrap();
    store.fork(&find(&store, Place::Live, "work"), Some(2), &key("branch")).unwrap();
    say(&store, "branch", &["charlie on a branch"]);
    let line = r#"{"role":"user","content":"alpha of another program"}"#;
    disk.poke("/store/sessions/foreign.jsonl", format!("{line}\nno record\n{line}\n")).unwrap();
    disk
}

/// Builds [`logs`] with an index on the disk that is behind: sessions grew, moved and came since.
pub(crate) fn behind() -> SimDisk {
    let disk = logs();
    open(&disk).reindex(&mut |_, _| {}).unwrap();
    let store = open(&disk);
    say(&store, "work", &["alpha again", "bravo charlie"]);
    say(&store, "secret", &["yxsecret again"]);
    say(&store, "new", &["alpha bravo"]);
    store.unarchive(&find(&store, Place::Archive, "old")).unwrap();
    store.archive(&find(&store, Place::Live, "branch"), &mut |_, _| {}).unwrap();
    disk
}

/// Builds [`logs`] with an index of several segments that knows everything but the secret, which was added since.
pub(crate) fn untold() -> SimDisk {
    let disk = SimDisk::new(0);
    let store = open(&disk);
    for n in 0..3 {
        say(&store, "work", &["alpha bravo charlie", "delta"]);
        say(&store, &format!("more {n}"), &["bravo charlie"]);
        let ask = manent::Query::parse("alpha", super::NOW_MS).unwrap();
        open(&disk).search(&ask, 1).unwrap();
    }
    say(&store, "secret", &["qzsecret alpha", "vwsecret bravo charlie", "the yxsecret"]);
    disk
}

/// Asks this store, and one that is opened anew, whatever can be asked; panics if an answer is not that of the logs.
#[track_caller]
pub(crate) fn expect_right(disk: &SimDisk, store: &Store, what: &str) {
    expect_right_of(disk, &[store, &open(disk)], what);
}

/// Checks some stores like [`expect_right`].
#[track_caller]
pub(crate) fn expect_right_of(disk: &SimDisk, stores: &[&Store], what: &str) {
    let truth = truth(disk);
    let mut rng = Rng::new(disk.op_count());
    let mut asks: Vec<Ask> = ["alpha", "yxsecret"].map(Ask::word).into();
    asks.extend((0..2).map(|_| any_ask(&mut rng, &truth)));
    for (who, store) in stores.iter().enumerate() {
        for ask in &asks {
            if let Err(wrong) = check_all(store, &truth, ask) {
                panic!("{what}: store {who}: {wrong}\n  {}", disk.trace().join("\n  "));
            }
        }
    }
}

/// The files that hold a word.
pub(crate) fn files_with(disk: &SimDisk, words: &[&str]) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = disk.peek(path).unwrap_or_default();
        words.iter().any(|word| bytes.windows(word.len()).any(|some| some == word.as_bytes()))
    };
    disk.paths().into_iter().filter(holds).collect()
}
