//! Long random lives of a store that several processes use, with kills and power cuts at any disk operation.
//!
//! A life that breaks a promise prints the command that lives it again.

use manent::{Error, Place, Session, SessionKey, Store, StreamStat, turn};
use manent_sim::seeds::live_as_asked;
use manent_sim::{CrashKind, Fault, Rng, SimDisk};

use super::model::Model;
use super::pairs::refused;
use super::scenes::key;
use super::state::{self, State};

/// Counts of what happened in a life, to show that lives cover enough.
#[derive(Debug, Default)]
struct Stats {
    acknowledged: u64,
    moved: u64,
    forked: u64,
    purged: u64,
    refused: u64,
    crashes: u64,
    /// Crashes in the middle of archive, unarchive, delete, restore, fork or purge.
    crashes_in_moves: u64,
}

/// One process: its store, and the session that it holds.
struct Process {
    store: Store,
    held: Option<(SessionKey, Session)>,
}

struct Life {
    rng: Rng,
    disk: SimDisk,
    model: Model,
    processes: Vec<Process>,
    texts: u64,
    stats: Stats,
}

/// An act that a crash may have interrupted, for the model.
enum Did {
    Append(SessionKey, String),
    Move(StreamStat, Place),
    Fork(SessionKey, Vec<(u64, String)>),
    Purge(StreamStat),
    Nothing,
}

impl Life {
    fn new(seed: u64) -> Life {
        let disk = SimDisk::new(seed);
        disk.poke_dir("/store").unwrap();
        let mut life = Life {
            rng: Rng::new(!seed),
            disk,
            model: Model::default(),
            processes: Vec::new(),
            texts: 0,
            stats: Stats::default(),
        };
        life.start();
        life
    }

    /// Starts all processes.
    fn start(&mut self) {
        let open = |pid| state::open(&self.disk.as_process(pid), "/store").unwrap();
        self.processes = (1..=3).map(|pid| Process { store: open(pid), held: None }).collect();
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.range(20..=60) {
            if self.rng.chance(1, 10) {
                let fault = if self.rng.chance(1, 2) { Fault::CrashKill } else { Fault::CrashPower };
                self.disk.add_fault(self.disk.op_count() + self.rng.below(120), fault);
            }
            let who = self.rng.below(self.processes.len() as u64) as usize;
            let (did, error) = self.step(who)?;
            self.after(did, error)?;
        }
        self.disk.reset_faults();
        self.check()?;
        self.disk.crash(CrashKind::Power);
        self.restart()
    }

    /// One act of one process; what it was, and the error if there was one. An act that succeeds is in the model.
    fn step(&mut self, who: usize) -> Result<(Did, Option<Error>), String> {
        let name = ["a", "b", "c:d"][self.rng.below(3) as usize];
        match self.rng.below(12) {
            0..=3 => self.append(who, &key(name)),
            4 => Ok((Did::Nothing, self.hold(who, &key(name)))),
            5 => {
                self.processes[who].held = None;
                Ok((Did::Nothing, None))
            }
            _ => match self.pick(who) {
                Ok(Some(listed)) => self.change(who, listed),
                Ok(None) => Ok((Did::Nothing, None)),
                Err(e) => Ok((Did::Nothing, Some(e))),
            },
        }
    }

    fn append(&mut self, who: usize, key: &SessionKey) -> Result<(Did, Option<Error>), String> {
        self.texts += 1;
        let text = format!("{key} {}", self.texts);
        let process = &mut self.processes[who];
        let (key, done) = match &mut process.held {
            Some((held, session)) => (held.clone(), session.append(turn("user", &text))),
            None => (key.clone(), process.store.append(key, turn("user", &text))),
        };
        match done {
            Ok(receipt) => {
                self.stats.acknowledged += 1;
                self.model.appended(&receipt.id, &key, receipt.seq, &text)?;
                Ok((Did::Nothing, None))
            }
            Err(e) => Ok((Did::Append(key, text), Some(e))),
        }
    }

    fn hold(&mut self, who: usize, key: &SessionKey) -> Option<Error> {
        let process = &mut self.processes[who];
        process.held = None;
        match process.store.session(key) {
            Ok(session) => {
                process.held = Some((key.clone(), session));
                None
            }
            Err(e) => Some(e),
        }
    }

    /// Any session, wherever it is.
    fn pick(&mut self, who: usize) -> Result<Option<StreamStat>, Error> {
        let mut all = Vec::new();
        for place in Place::ALL {
            all.extend(self.processes[who].store.list(place)?);
        }
        all.sort_by(|a, b| a.id.id.cmp(&b.id.id));
        // What has no id yet is the torn beginning of a session.
        all.retain(|listed| !listed.id.id.is_empty());
        let nth = self.rng.below(all.len().max(1) as u64) as usize;
        Ok((nth < all.len()).then(|| all.swap_remove(nth)))
    }

    /// Moves, forks or purges a session.
    fn change(&mut self, who: usize, listed: StreamStat) -> Result<(Did, Option<Error>), String> {
        let store = self.processes[who].store.clone();
        let at = &listed.id;
        let id = at.id.clone();
        let dice = self.rng.below(10);
        if dice < 2 {
            return self.fork(&store, &listed);
        }
        if dice == 2 {
            return match store.purge(std::slice::from_ref(at), false) {
                Ok(_) => {
                    self.stats.purged += 1;
                    self.model.purged(&id);
                    Ok((Did::Nothing, None))
                }
                Err(e) => Ok((Did::Purge(listed), Some(e))),
            };
        }
        let (to, done) = match at.place {
            Place::Live if dice < 7 => (Place::Archive, store.archive(at, &mut |_, _| {})),
            Place::Archive if dice < 7 => (Place::Live, store.unarchive(at)),
            Place::Live | Place::Archive => (Place::Trash, store.delete(at)),
            Place::Trash => (listed.from, store.restore(&listed)),
        };
        match done {
            Ok(_) => {
                self.stats.moved += 1;
                self.model.moved(&id, to);
                Ok((Did::Nothing, None))
            }
            Err(e) => Ok((Did::Move(listed, to), Some(e))),
        }
    }

    fn fork(&mut self, store: &Store, listed: &StreamStat) -> Result<(Did, Option<Error>), String> {
        let at = &listed.id;
        let to = key(["a", "b", "c:d", "e", "f"][self.rng.below(5) as usize]);
        let Some(known) = self.model.sessions.get(&at.id) else {
            return Err(format!("a list shows what is not there: {listed:?}"));
        };
        let mut records = known.records.clone();
        if records.is_empty() {
            // All that a crash left of it is its header.
            return Ok((Did::Nothing, None));
        }
        let upto = if self.rng.chance(1, 2) {
            records.truncate(1 + self.rng.below(records.len() as u64) as usize);
            records.last().map(|(seq, _)| *seq)
        } else {
            None
        };
        match store.fork(at, upto, &to) {
            Ok(forked) => {
                self.stats.forked += 1;
                self.model.made(&forked.id.id, &to, records);
                Ok((Did::Nothing, None))
            }
            Err(e) => Ok((Did::Fork(to, records), Some(e))),
        }
    }

    /// The outcome of an act: nothing new, a refusal, or a crash.
    fn after(&mut self, did: Did, error: Option<Error>) -> Result<(), String> {
        if self.disk.crashed().is_none() {
            return match error {
                Some(Error::NotPacked { source, .. }) if refused(&source) => {
                    if let Did::Move(listed, to) = did {
                        self.model.moved(&listed.id.id, to);
                    }
                    Ok(())
                }
                Some(e) if !refused(&e) => Err(format!("nothing was wrong, and yet: {e:?}")),
                error => {
                    self.stats.refused += u64::from(error.is_some());
                    if self.rng.chance(1, 4) && self.disk.faults_left() == 0 { self.check() } else { Ok(()) }
                }
            };
        }
        self.stats.crashes_in_moves += u64::from(!matches!(did, Did::Append(..) | Did::Nothing));
        match did {
            Did::Append(key, text) => self.model.perhaps_appended(&key, &text),
            Did::Move(listed, to) => self.model.perhaps_moved(&listed.id.id, to),
            Did::Fork(key, records) => self.model.perhaps_made(&key, records),
            Did::Purge(listed) => self.model.perhaps_purged(&listed.id.id),
            Did::Nothing => {}
        }
        self.restart()
    }

    fn restart(&mut self) -> Result<(), String> {
        self.stats.crashes += 1;
        let kind = self.disk.crashed().unwrap();
        self.processes.clear();
        self.disk = self.disk.restart();
        self.disk.reset_faults();
        self.start();
        let now = State::of(&self.processes[0].store)?;
        self.model.adopt(&now, kind).map_err(|what| format!("after {kind:?}: {what}\n{}", now.text()))
    }

    fn check(&self) -> Result<(), String> {
        let now = State::of(&state::open(&self.disk, "/store").map_err(|e| e.to_string())?)?;
        self.model.check(&now).map_err(|what| format!("{what}\n{}", now.text()))
    }
}

fn live(seed: u64) -> Result<Stats, String> {
    let mut life = Life::new(seed);
    let Err(what) = life.run() else { return Ok(life.stats) };
    Err(format!("{what}\nthe last operations:\n  {}", life.disk.trace().join("\n  ")))
}

#[test]
fn no_acknowledged_turn_is_lost_or_doubled_in_any_life() {
    let names = ["MANENT_LIFE_SEED", "MANENT_LIVES_FIRST", "MANENT_LIVES"];
    let (total, count) =
        live_as_asked(names, 500, live, Stats::add).unwrap_or_else(|trouble| panic!("{trouble}"));
    eprintln!("{count} lives: {total:?}");
    if count >= 200 {
        // Lives in which nothing happens prove nothing.
        let seen =
            [total.moved, total.forked, total.purged, total.refused, total.crashes, total.crashes_in_moves];
        assert!(seen.iter().all(|n| *n * 4 >= count), "too little happens: {total:?}");
    }
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.acknowledged += other.acknowledged;
        self.moved += other.moved;
        self.forked += other.forked;
        self.purged += other.purged;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.crashes_in_moves += other.crashes_in_moves;
    }
}
