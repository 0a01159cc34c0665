//! Time stamps that tell too little: coarse ones, clocks that jump, files that arrive with times of their own.
//!
//! Everything happens on a simulated disk with a clock of its own. Other programs write, rename into place, restore
//! old copies, truncate and remove files there; whoever searches next must find what the logs say.
//! `MANENT_CLOCK_LIVES=n` lives n lives, `MANENT_CLOCK_SEED=n` lives one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use manent::log::fs::{Access, Disk};
use manent::{Durability, Expect, Place, Store, turn};
use manent_sim::seeds::live_as_asked;
use manent_sim::{Clock, Rng, SimDisk};

use super::check::check_all;
use super::key;
use super::oracle::{Ask, ROLES, WORDS, any_ask, pick};
use super::scenes::{HOME, find, open, truth};
use super::vanishing::{By, Losses};

const SECOND: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(HOME).join("sessions").join(name)
}

fn line(word: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{word}\"}}\n")
}

/// A file that another program wrote elsewhere and renames into place.
fn rename_into_place(disk: &SimDisk, name: &str, text: &str) {
    disk.poke("/elsewhere/file", text).unwrap();
    disk.rename(Path::new("/elsewhere/file"), &path(name)).unwrap();
}

/// Every turn, whoever said it.
fn everything() -> Ask {
    Ask { roles: ROLES.map(str::to_owned).into(), ..Ask::default() }
}

/// A disk with a store, whose time stamps have this resolution.
fn disk_of(tick_ns: i64) -> SimDisk {
    let disk = SimDisk::new(1);
    let now_ns = Clock::default().now_ns + 300 * MS;
    disk.set_clock(Clock { now_ns, step_ns: 1000, tick_ns });
    rename_into_place_first(&disk);
    disk
}

fn rename_into_place_first(disk: &SimDisk) {
    disk.poke_dir(path("").as_path()).unwrap();
    rename_into_place(disk, "first.jsonl", &line("alpha"));
}

#[track_caller]
fn expect_found(disk: &SimDisk, what: &str) {
    let truth = truth(disk);
    for (who, store) in [("who looked before", open(disk)), ("another", open(disk))] {
        check_all(&store, &truth, &everything()).unwrap_or_else(|wrong| panic!("{what}: {who}: {wrong}"));
    }
}

#[test]
fn session_renamed_into_place_in_the_tick_of_a_search_is_found() {
    for tick_ns in [1, MS, 4 * MS, 10 * MS, SECOND, 2 * SECOND] {
        let disk = disk_of(tick_ns);
        let store = open(&disk);
        check_all(&store, &truth(&disk), &everything()).unwrap();
        rename_into_place(&disk, "second.jsonl", &line("bravo"));
        disk.pass(60 * SECOND);
        check_all(&store, &truth(&disk), &everything()).unwrap_or_else(|wrong| panic!("{tick_ns}: {wrong}"));
        expect_found(&disk, &format!("time stamps in steps of {tick_ns} ns"));
    }
}

#[test]
fn session_renamed_into_place_when_the_clock_was_set_back_is_found() {
    let disk = disk_of(SECOND);
    let store = open(&disk);
    disk.pass(10 * SECOND);
    check_all(&store, &truth(&disk), &everything()).unwrap();
    // The same second comes again.
    disk.pass(-10 * SECOND);
    check_all(&store, &truth(&disk), &everything()).unwrap();
    rename_into_place(&disk, "second.jsonl", &line("bravo"));
    check_all(&store, &truth(&disk), &everything()).unwrap();
    disk.pass(60 * SECOND);
    expect_found(&disk, "the clock was set back");
}

#[test]
fn directory_without_a_time_is_listed_again() {
    let disk = SimDisk::new(1);
    disk.set_clock(Clock { now_ns: 0, step_ns: 0, tick_ns: SECOND });
    rename_into_place_first(&disk);
    disk.pass(Clock::default().now_ns);
    let store = open(&disk);
    check_all(&store, &truth(&disk), &everything()).unwrap();
    disk.pass(-Clock::default().now_ns);
    rename_into_place(&disk, "second.jsonl", &line("bravo"));
    disk.pass(Clock::default().now_ns);
    check_all(&store, &truth(&disk), &everything()).unwrap();
    expect_found(&disk, "times of 1970");
}

#[test]
fn file_replaced_in_the_tick_of_a_search_by_one_of_the_same_length_is_read_again() {
    for tick_ns in [1, 10 * MS, SECOND, 2 * SECOND] {
        let disk = disk_of(tick_ns);
        let store = open(&disk);
        check_all(&store, &truth(&disk), &everything()).unwrap();
        // Removed first, so that the new file gets the number of the old one.
        let id = || disk.inspect(&path("first.jsonl")).unwrap().id;
        let before = id();
        disk.remove(&path("first.jsonl")).unwrap();
        disk.sync_dir(&path("")).unwrap();
        rename_into_place(&disk, "first.jsonl", &line("bravo"));
        disk.set_modified(path("first.jsonl"), SECOND).unwrap();
        assert_eq!(id(), before);
        disk.pass(60 * SECOND);
        for store in [open(&disk), store] {
            check_all(&store, &truth(&disk), &Ask::word("bravo"))
                .unwrap_or_else(|wrong| panic!("time stamps in steps of {tick_ns} ns: {wrong}"));
        }
    }
}

/// A session of two turns of which another program keeps a copy of the first.
fn session_and_older_copy() -> (SimDisk, Store, Vec<u8>) {
    let disk = disk_of(1);
    let store = open(&disk);
    store.append(&key("k0"), turn("user", "alpha")).unwrap();
    let copy = disk.peek(path("k0.jsonl")).unwrap();
    store.append(&key("k0"), turn("user", "bravo")).unwrap();
    (disk, store, copy)
}

fn restore_copy(disk: &SimDisk, copy: &[u8]) {
    disk.poke("/elsewhere/copy", copy).unwrap();
    disk.set_modified("/elsewhere/copy", SECOND).unwrap();
    disk.rename(Path::new("/elsewhere/copy"), &path("k0.jsonl")).unwrap();
}

#[test]
fn archived_session_is_found_beside_a_restored_older_copy_of_it() {
    let (disk, store, copy) = session_and_older_copy();
    check_all(&store, &truth(&disk), &everything()).unwrap();
    store.archive(&find(&store, Place::Live, "k0"), &mut |_, _| {}).unwrap();
    check_all(&store, &truth(&disk), &everything()).unwrap();
    restore_copy(&disk, &copy);
    for store in [&store, &open(&disk)] {
        let found = check_all(store, &truth(&disk), &Ask::word("bravo")).unwrap();
        assert_eq!(found.hits.len(), 1, "the turn that the copy does not have");
        assert_eq!(check_all(store, &truth(&disk), &Ask::word("alpha")).unwrap().hits.len(), 3);
    }
    // Archived again, the copy takes the place of what was there, and that is set aside.
    store.archive(&find(&store, Place::Live, "k0"), &mut |_, _| {}).unwrap();
    assert_eq!(store.list(Place::Trash).unwrap().len(), 1);
    expect_found(&disk, "archived again");
}

#[test]
fn archived_session_is_hidden_by_a_live_one_that_holds_all_of_it() {
    let (disk, store, _) = session_and_older_copy();
    let whole = disk.peek(path("k0.jsonl")).unwrap();
    store.archive(&find(&store, Place::Live, "k0"), &mut |_, _| {}).unwrap();
    restore_copy(&disk, &whole);
    for grown in [false, true] {
        if grown {
            store.append(&key("k0"), turn("user", "carol")).unwrap();
        }
        assert!(store.list(Place::Archive).unwrap().is_empty());
        assert_eq!(check_all(&store, &truth(&disk), &Ask::word("bravo")).unwrap().hits.len(), 1);
        expect_found(&disk, "a copy that is no session of its own");
    }
}

#[test]
fn deleted_copies_of_a_session_in_two_forms_are_two_sessions() {
    let (disk, store, copy) = session_and_older_copy();
    store.archive(&find(&store, Place::Live, "k0"), &mut |_, _| {}).unwrap();
    let packed = store.delete(&find(&store, Place::Archive, "k0")).unwrap();
    restore_copy(&disk, &copy);
    check_all(&store, &truth(&disk), &everything()).unwrap();
    let plain = store.delete(&find(&store, Place::Live, "k0")).unwrap();
    assert_ne!(packed.id, plain.id);
    assert_eq!(store.list(Place::Trash).unwrap().len(), 2);
    expect_found(&disk, "two forms in the trash");
}

#[test]
fn restore_of_a_packed_session_beside_a_plain_one_of_its_id_is_refused() {
    let (disk, store, copy) = session_and_older_copy();
    store.archive(&find(&store, Place::Live, "k0"), &mut |_, _| {}).unwrap();
    let deleted = store.delete(&find(&store, Place::Archive, "k0")).unwrap();
    disk.poke(Path::new(HOME).join(format!("archive/k0.{}.jsonl", deleted.id)), copy).unwrap();
    let trashed = store.list(Place::Trash).unwrap().remove(0);
    assert_eq!((&trashed.id, trashed.from), (&deleted, Place::Archive));
    let refused = store.restore(&trashed).unwrap_err();
    assert!(refused.is_in_the_way(), "{refused}");
    assert_eq!(store.list(Place::Trash).unwrap().len(), 1);
    expect_found(&disk, "not restored");
}

/// A store at rest is looked at from outside only, a few seconds after its last change.
#[test]
fn store_at_rest_is_neither_listed_nor_read_again() {
    for tick_ns in [1, SECOND] {
        let disk = disk_of(tick_ns);
        open(&disk).append(&key("ours"), turn("user", "charlie")).unwrap();
        open(&disk).stats(&mut |_, _| {}).unwrap();
        disk.pass(5 * SECOND);
        open(&disk).stats(&mut |_, _| {}).unwrap();
        let before = disk.op_count() as usize;
        open(&disk).stats(&mut |_, _| {}).unwrap();
        let trace = disk.trace();
        let last = &trace[trace.len().saturating_sub(disk.op_count() as usize - before)..];
        let again: Vec<&String> = last
            .iter()
            .filter(|line| line.contains(" list /store/sessions") || line.contains(" open /store/sessions/"))
            .collect();
        assert!(again.is_empty(), "time stamps in steps of {tick_ns} ns: {again:#?}\n{last:#?}");
    }
}

pub(crate) struct Life {
    pub(crate) rng: Rng,
    pub(crate) disk: SimDisk,
    pub(crate) handles: Vec<Store>,
    pub(crate) did: Vec<String>,
    /// The sessions of ours that vanished.
    pub(crate) losses: Losses,
    /// Copies that another program keeps of files, to restore them.
    copies: BTreeMap<String, Vec<u8>>,
    pub(crate) stats: Stats,
}

#[derive(Debug, Default)]
pub(crate) struct Stats {
    steps: u64,
    refused: u64,
    looks: u64,
    turns: u64,
    pub(crate) losses: u64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.refused += other.refused;
        self.looks += other.looks;
        self.turns += other.turns;
        self.losses += other.losses;
    }
}

pub(crate) type Done = Result<(), String>;

pub(crate) fn said(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::new(!seed);
        let disk = SimDisk::new(seed);
        let tick_ns = [1, MS, 4 * MS, 10 * MS, SECOND, SECOND, 2 * SECOND][rng.below(7) as usize];
        let step_ns = [0, 1000, 100_000, MS, 20 * MS][rng.below(5) as usize];
        let now_ns = Clock::default().now_ns + rng.below(5 * SECOND as u64) as i64;
        disk.set_clock(Clock { now_ns, step_ns, tick_ns });
        disk.poke_dir(path("")).unwrap();
        let handles = (0..2).map(|_| open(&disk)).collect();
        let (did, copies, stats) = (Vec::new(), BTreeMap::new(), Stats::default());
        Life { rng, disk, handles, did, losses: Losses::default(), copies, stats }
    }

    fn run(&mut self) -> Done {
        for _ in 0..self.rng.range(6..=20) {
            self.stats.steps += 1;
            let before = self.ids()?;
            let (by, acted) = match self.rng.below(9) {
                0..=2 => (By::Us, self.ours()),
                3..=5 => (By::Others, self.theirs()),
                6 => (By::Others, self.lose_or_acknowledge()),
                _ => {
                    self.time();
                    (By::Others, Ok(()))
                }
            };
            self.note_vanished(&before, by)?;
            if let Err(e) = acted {
                self.stats.refused += 1;
                self.did.push(format!("  refused: {e}"));
            }
            if self.rng.chance(2, 3) {
                self.look()?;
            }
        }
        self.disk.pass(3600 * SECOND);
        for at in 0..self.handles.len() {
            self.look_with(at)?;
        }
        self.handles[0] = open(&self.disk);
        self.look_with(0)
    }

    fn look(&mut self) -> Done {
        let at = self.rng.below(self.handles.len() as u64) as usize;
        if self.rng.chance(1, 8) {
            self.did.push(format!("open {at} anew"));
            self.handles[at] = open(&self.disk);
        }
        self.look_with(at)
    }

    /// Asks one of the programs for everything, and for something, and compares with the logs.
    fn look_with(&mut self, at: usize) -> Done {
        let truth = truth(&self.disk);
        self.stats.looks += 1;
        self.stats.turns += truth.turns.len() as u64;
        self.did.push(format!("program {at} asks"));
        for ask in [everything(), any_ask(&mut self.rng, &truth)] {
            check_all(&self.handles[at], &truth, &ask).map_err(|what| format!("program {at}: {what}"))?;
        }
        self.check_losses(at)
    }

    fn text(&mut self) -> String {
        (0..self.rng.range(1..=4)).map(|_| pick(&mut self.rng, &WORDS)).collect::<Vec<_>>().join(" ")
    }

    /// A program of ours does something.
    fn ours(&mut self) -> Done {
        let at = self.rng.below(self.handles.len() as u64) as usize;
        let store = self.handles[at].clone();
        let name = pick(&mut self.rng, &["k0", "k1", "k2", "f0"]);
        let dice = self.rng.below(12);
        self.did.push(format!("{at} to {name}, {dice}"));
        if dice < 6 {
            let body = turn("user", self.text()).into();
            return store
                .append_with(&key(name), &[body], Durability::Flush, Expect::Any)
                .map(drop)
                .map_err(said);
        }
        let mut all = Vec::new();
        for place in Place::ALL {
            all.extend(store.list(place).map_err(said)?);
        }
        all.sort_by(|a, b| (a.id.place, &a.id.key, &a.id.id).cmp(&(b.id.place, &b.id.key, &b.id.id)));
        if all.is_empty() {
            return Ok(());
        }
        let listed = all.swap_remove(self.rng.below(all.len() as u64) as usize);
        let session = &listed.id;
        self.did.push(format!("  {} {} {}", session.place.word(), session.key, session.id));
        let moved = match (session.place, dice) {
            (_, 11) => return store.purge(std::slice::from_ref(session), false).map(drop).map_err(said),
            (Place::Live, 6 | 7) => store.archive(session, &mut |_, _| {}),
            (Place::Archive, 6 | 7) => store.unarchive(session),
            (Place::Trash, _) => store.restore(&listed),
            (Place::Live, 8) => {
                return store.fork(session, None, &key("fork")).map(drop).map_err(said);
            }
            _ => store.delete(session),
        };
        moved.map(drop).map_err(said)
    }

    /// Another program does something to the files.
    fn theirs(&mut self) -> Done {
        let disk = self.disk.as_process(7);
        let name = format!("f{}.jsonl", self.rng.below(3));
        let there = path(&name);
        let text = line(&self.text());
        let dice = self.rng.below(16);
        self.did.push(format!("another program, {name}, {dice}"));
        match dice {
            0..=2 => rename_into_place(&disk, &name, &text),
            3 | 4 => disk.raw_append(&there, text.as_bytes()).map_err(said)?,
            5 | 6 => self.change_in_place(&there)?,
            7 => disk.remove(&there).map_err(said)?,
            8 => {
                let bytes = disk.peek(&there).unwrap_or_default();
                disk.remove(&there).map_err(said)?;
                // A file of the same length, and perhaps under the same number.
                disk.poke(&there, swapped(&bytes, &mut self.rng)).map_err(said)?;
            }
            9 => {
                let file = disk.open(&there, Access::Append).map_err(said)?;
                file.set_len(self.rng.below(200)).map_err(said)?;
            }
            10 | 11 => self.copy(),
            _ => self.restore()?,
        }
        Ok(())
    }

    /// Another program writes other words of the same length over what it wrote.
    fn change_in_place(&mut self, path: &Path) -> Done {
        let bytes = self.disk.peek(path).ok_or("it is not there")?;
        if bytes.starts_with(b"{\"seq\":0,") {
            return Ok(());
        }
        self.disk.poke(path, swapped(&bytes, &mut self.rng)).map_err(said)
    }

    /// Another program makes a copy of any live session.
    fn copy(&mut self) {
        let live: Vec<PathBuf> = self.disk.paths().into_iter().filter(|p| p.starts_with(path(""))).collect();
        if live.is_empty() {
            return;
        }
        let from = &live[self.rng.below(live.len() as u64) as usize];
        let name = from.file_name().unwrap().to_str().unwrap().to_owned();
        self.did.push(format!("  copies {name}"));
        self.copies.insert(name, self.disk.peek(from).unwrap());
    }

    /// Another program puts a copy in its place again, with an old time.
    fn restore(&mut self) -> Done {
        let mut copies = self.copies.iter();
        let nth = self.rng.below(copies.len().max(1) as u64) as usize;
        let Some((name, bytes)) = copies.nth(nth) else { return Ok(()) };
        let (name, bytes) = (name.clone(), bytes.clone());
        // Two files may have one id from here on. Every answer is checked as before; which loss is named is not
        // promised then.
        let stem = name.trim_end_matches("jsonl");
        let put_away = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(stem);
        let live = path("");
        if self.disk.paths().iter().any(|path| !path.starts_with(&live) && put_away(path)) {
            self.losses.doubled.insert(stem.trim_end_matches('.').to_owned());
        }
        self.did.push(format!("  restores {name}"));
        self.disk.poke("/elsewhere/copy", bytes).map_err(said)?;
        self.disk.set_modified("/elsewhere/copy", SECOND * self.rng.below(1000) as i64).map_err(said)?;
        self.disk.rename(Path::new("/elsewhere/copy"), &path(&name)).map_err(said)
    }

    /// Time passes, or the clock is set.
    fn time(&mut self) {
        let clock = self.disk.clock();
        let ahead = [0, 1000, MS, 15 * MS, 150 * MS, SECOND, 3 * SECOND, 3600 * SECOND];
        let mut ns = ahead[self.rng.below(8) as usize] + self.rng.below(MS as u64) as i64;
        // A tick that comes again cannot be told from the one before; that is not promised.
        if clock.tick_ns == 1 && self.rng.chance(1, 3) {
            ns = -ns;
        }
        self.did.push(format!("{ns} ns pass"));
        self.disk.pass(ns);
    }
}

/// The same bytes, with one word of five letters replaced by another.
fn swapped(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let five: Vec<&str> = WORDS.iter().copied().filter(|word| word.len() == 5).collect();
    let mut places: Vec<usize> = Vec::new();
    for word in &five {
        places.extend(text.match_indices(word).map(|(at, _)| at));
    }
    if places.is_empty() {
        return bytes.to_vec();
    }
    let at = places[rng.below(places.len() as u64) as usize];
    let mut bytes = bytes.to_vec();
    bytes[at..at + 5].copy_from_slice(pick(rng, &five).as_bytes());
    bytes
}

fn live(seed: u64) -> Result<Stats, String> {
    let mut life = Life::new(seed);
    let Err(what) = life.run() else { return Ok(life.stats) };
    let (did, trace) = (life.did.join("\n"), life.disk.trace().join("\n  "));
    let clock = life.disk.clock();
    Err(format!("{what}\n{clock:?}\nwhat was done:\n{did}\nthe last operations:\n  {trace}"))
}

#[test]
fn no_answer_misses_a_turn_whatever_the_clock_does() {
    let names = ["MANENT_CLOCK_SEED", "MANENT_CLOCK_FIRST", "MANENT_CLOCK_LIVES"];
    let (total, count) =
        live_as_asked(names, 400, live, Stats::add).unwrap_or_else(|trouble| panic!("{trouble}"));
    eprintln!("{count} lives: {total:?}");
    if count >= 50 {
        assert!(total.looks > count * 5 && total.turns > total.looks, "too little happens: {total:?}");
        assert!(total.refused * 3 < total.steps, "too little happens: {total:?}");
        assert!(total.losses > count / 4, "too little is lost: {total:?}");
    }
}
