//! Every byte of a small index changed, and every file of it cut short everywhere: no answer changes, nothing panics.

use std::path::{Path, PathBuf};

use manent::{Place, SearchResults, Store, StoreStats, Summary};
use manent_sim::SimDisk;

use super::check::{ALL, search};
use super::oracle::{Ask, Part};
use super::scenes::{find, open, say};

/// Everything that an index can be asked.
#[derive(Debug, PartialEq)]
struct Told {
    found: Vec<SearchResults>,
    sessions: Vec<Summary>,
    stats: StoreStats,
}

fn ask(store: &Store) -> Result<Told, String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let phrase = Part { words: words(&["bravo", "charlie"]), prefix: false, joined: false };
    let start = Part { words: words(&["al"]), prefix: true, joined: false };
    let asks = [
        Ask::word("alpha"),
        Ask { must: vec![vec![phrase]], ..Ask::default() },
        Ask { must: vec![vec![start]], roles: words(&["user"]), ..Ask::default() },
        // Near, but not there.
        Ask {
            must: Ask::word("alpha").must.into_iter().chain(Ask::word("zulu").must).collect(),
            ..Ask::default()
        },
    ];
    let found = asks.iter().map(|ask| search(store, ask, ALL)).collect::<Result<_, _>>()?;
    let sessions = store.sessions(Place::Live, None, 10).map_err(|e| format!("sessions: {e}"))?.sessions;
    let mut stats = store.stats(&mut |_, _| {}).map_err(|e| format!("stats: {e}"))?;
    // How it is cut into segments is its own business.
    stats.index_bytes = 0;
    Ok(Told { found, sessions, stats })
}

fn scene() -> (SimDisk, Told) {
    let disk = SimDisk::new(0);
    let store = open(&disk);
    say(&store, "work", &["alpha bravo charlie", "bravo alpha"]);
    say(&store, "old", &["alpha of old"]);
    store.archive(&find(&store, Place::Live, "old"), &mut |_, _| {}).unwrap();
    store.reindex(&mut |_, _| {}).unwrap();
    // Another segment, and a run that goes on.
    say(&store, "work", &["charlie again, bravo charlie"]);
    let told = ask(&open(&disk)).unwrap();
    // What is there is used as it is.
    let files = index_files(&disk);
    assert_eq!(ask(&open(&disk)).unwrap(), told);
    assert_eq!(index_files(&disk), files);
    (disk, told)
}

fn index_files(disk: &SimDisk) -> Vec<PathBuf> {
    let files = disk.paths().into_iter().filter(|path| path.starts_with("/store/index"));
    files.filter(|path| !disk.peek(path).unwrap().is_empty()).collect()
}

/// Changes one file; a store that is opened then, and the next, must answer as if nothing had happened.
fn expect_the_same(image: &SimDisk, told: &Told, path: &Path, bytes: &[u8], what: &str) {
    let disk = image.copy(0);
    disk.poke(path, bytes).unwrap();
    for who in ["the first", "the next"] {
        match ask(&open(&disk)) {
            Ok(now) => assert_eq!(now, *told, "{}, {what}: {who}", path.display()),
            Err(e) => panic!("{}, {what}: {who}: {e}", path.display()),
        }
    }
}

#[test]
fn every_byte_of_an_index_may_change() {
    let (image, told) = scene();
    let disk = image.copy(0);
    let files = index_files(&disk);
    assert!(files.len() >= 3, "a catalogue and two segments: {files:?}");
    for path in files {
        let sound = disk.peek(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            expect_the_same(&image, &told, &path, &bytes, &format!("byte {at} of {} changed", sound.len()));
        }
    }
}

#[test]
fn every_file_of_an_index_may_be_cut_short_or_grow() {
    let (image, told) = scene();
    let disk = image.copy(0);
    for path in index_files(&disk) {
        let sound = disk.peek(&path).unwrap();
        for len in 0..sound.len() {
            expect_the_same(&image, &told, &path, &sound[..len], &format!("cut to {len} of {}", sound.len()));
        }
        for more in [&b"\0"[..], b"more", &sound] {
            let bytes = [&sound, more].concat();
            expect_the_same(&image, &told, &path, &bytes, &format!("{} bytes too long", more.len()));
        }
    }
}

/// One that is open, and has read of it what it needed so far.
#[test]
fn every_byte_of_an_index_may_change_while_it_is_used() {
    let (image, told) = scene();
    let disk = image.copy(0);
    for path in index_files(&disk) {
        let sound = disk.peek(&path).unwrap();
        for at in (0..sound.len()).step_by(2) {
            let disk = image.copy(0);
            let store = open(&disk);
            if at % 4 == 0 {
                search(&store, &Ask::word("bravo"), 1).unwrap();
            } else {
                assert_eq!(ask(&store).unwrap(), told);
            }
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            disk.poke(&path, bytes).unwrap();
            // Whoever asks first is the one who notices.
            let listed = match at % 3 {
                0 => store.stats(&mut |_, _| {}).map(drop),
                1 => store.sessions(Place::Archive, None, 10).map(drop),
                _ => Ok(()),
            };
            listed.unwrap_or_else(|e| panic!("{}, byte {at}: {e}", path.display()));
            let now = ask(&store).unwrap_or_else(|e| panic!("{}, byte {at}: {e}", path.display()));
            assert_eq!(now, told, "{}, byte {at}", path.display());
        }
    }
}
