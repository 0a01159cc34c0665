//! The life of one log, from one seed: opened, appended to, broken, opened again, and compared with the model.
//!
//! Faults fall on any operation, so also inside recovery and inside the recovery from that. Each life that fails is
//! one number, and [`Trouble`] prints the command that lives it again.
//!
//! Some records have a key, and are tried again when they were refused or nobody knows what became of them: by the same
//! process or a later one. Some are appended by threads that share a commit, whose leader may panic
//! (`life/group_commit.rs`).

mod group_commit;

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Error, Expect, Log, LogItem, Options, Reader, SetAside, frame};

use crate::model::{Model, Written};
use crate::{CrashKind, Errno, Fault, Rng, SimDisk};

/// Counts of what happened in the lives, to show that they cover the cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records with a receipt.
    pub acknowledged: u64,
    /// Appends that were refused.
    pub refused: u64,
    /// Kills and power cuts.
    pub crashes: u64,
    /// Crashes while the log was being opened.
    pub crashes_in_recovery: u64,
    /// Torn ends that were set aside.
    pub set_aside: u64,
    /// Handles that were closed for writing.
    pub poisoned: u64,
    /// Damaged places that were read over.
    pub damaged_places: u64,
    /// Rests from which a log woke.
    pub rests: u64,
    /// Appends of which nobody could tell whether they are kept.
    pub unknown: u64,
    /// Records that were tried again by their key, and were there.
    pub found_again: u64,
    /// Records that were tried again by their key, and were not there.
    pub appended_again: u64,
    /// Panics in the middle of an operation.
    pub panics: u64,
    /// Commits that several threads shared.
    pub shared: u64,
    /// Shared commits that failed, or whose leader panicked.
    pub shared_failed: u64,
}

impl Stats {
    /// Adds the stats of another life.
    pub fn add(&mut self, other: &Stats) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.set_aside += other.set_aside;
        self.poisoned += other.poisoned;
        self.damaged_places += other.damaged_places;
        self.rests += other.rests;
        self.unknown += other.unknown;
        self.found_again += other.found_again;
        self.appended_again += other.appended_again;
        self.panics += other.panics;
        self.shared += other.shared;
        self.shared_failed += other.shared_failed;
    }
}

/// A promise that was broken.
#[derive(Debug)]
pub struct Trouble {
    seed: u64,
    what: String,
    trace: Vec<String>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        writeln!(
            f,
            "replay: MANENT_SIM_SEED={} cargo test -p manent-sim --test seeds -- --nocapture",
            self.seed
        )?;
        writeln!(f, "the last operations:")?;
        self.trace.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Lives one life.
pub fn live(seed: u64) -> Result<Stats, Box<Trouble>> {
    let mut life = Life::new(seed);
    life.run().map_err(|what| Box::new(Trouble { seed, what, trace: life.disk.trace() }))?;
    Ok(life.stats)
}

struct Life {
    rng: Rng,
    disk: SimDisk,
    model: Model,
    stats: Stats,
    bodies: u64,
    /// Records with a key whose append was refused, or has an unknown outcome.
    pending: Vec<Body>,
    /// Torn bytes that recovery cut, and the copy it made of them first.
    aside: Vec<(PathBuf, Vec<u8>)>,
}

impl Life {
    fn new(seed: u64) -> Life {
        let disk = SimDisk::new(seed);
        // The directory is not what is tested: it is there, and durable.
        let made = disk.poke_dir(DIR);
        debug_assert!(made.is_ok(), "an empty world has room for a directory");
        Life {
            rng: Rng::new(!seed),
            disk,
            model: Model::default(),
            stats: Stats::default(),
            bodies: 0,
            pending: Vec::new(),
            aside: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.range(2..=6) {
            self.plan_faults();
            // Closing a log that was never written to is an operation too, and may panic as any other.
            match group_commit::unless_simulated_panic(|| self.epoch()) {
                Some(lived) => lived?,
                None => self.stats.panics += 1,
            }
            self.disk.reset_faults();
            self.disk.set_capacity(None);
            self.end_epoch();
            self.compare("after an epoch")?;
        }
        Ok(())
    }

    fn plan_faults(&mut self) {
        for _ in 0..self.rng.below(3) {
            let fault = match self.rng.below(14) {
                0 | 1 => Fault::CrashKill,
                2 | 3 => Fault::CrashPower,
                4 => Fault::Fail(Errno::Io),
                5 => Fault::Fail(Errno::NoSpace),
                6 => Fault::PartialThenFail,
                7 => Fault::Fail(Errno::TooManyFiles),
                8 => Fault::Interrupted,
                9 => Fault::ShortWrite,
                10 | 11 => Fault::FailSync,
                12 => Fault::PanicBefore,
                _ => Fault::PanicAfter,
            };
            let at = self.disk.op_count() + self.rng.below(60);
            self.disk.add_fault(at, fault);
        }
        if self.rng.chance(1, 8) {
            let used: usize =
                self.disk.paths().iter().filter_map(|path| self.disk.peek(path)).map(|b| b.len()).sum();
            let room = self.rng.below(12_000);
            self.disk.set_capacity(Some(used as u64 + room));
        }
    }

    /// Opens the log and appends for a while, until something stops it.
    fn epoch(&mut self) -> Result<(), String> {
        let Some(mut log) = self.open()? else { return Ok(()) };
        for _ in 0..self.rng.below(12) {
            if self.rng.chance(1, 5) {
                log = match self.rest(log)? {
                    Some(log) => log,
                    None => return Ok(()),
                };
            }
            let goes_on = match self.rng.below(8) {
                0 => match self.crowd(log)? {
                    Some(again) => {
                        log = again;
                        true
                    }
                    None => return Ok(()),
                },
                1 | 2 if !self.pending.is_empty() => self.retry(&mut log)?,
                _ => self.append(&mut log)?,
            };
            if !goes_on {
                return Ok(());
            }
            if self.rng.chance(1, 6) && self.disk.faults_left() == 0 {
                self.compare("while it is open")?;
            }
        }
        Ok(())
    }

    /// Lets the log rest, and perhaps another writer in. Nothing: something stopped it.
    fn rest(&mut self, log: Log) -> Result<Option<Log>, String> {
        let resting = match self.calmly(|| log.rest()) {
            Some(Ok(resting)) => resting,
            Some(Err(e)) => return self.could_not_wake(&e),
            None => return Ok(None),
        };
        if self.rng.chance(1, 2) {
            let Some(mut other) = self.open()? else { return Ok(None) };
            if self.rng.chance(3, 4) && !self.append(&mut other)? {
                if self.disk.crashed().is_some() || self.disk.faults_left() > 0 {
                    return Ok(None);
                }
                // How much of its last records is there only reading can tell, before others take their numbers.
                self.compare("after another writer was closed for writing")?;
            }
        }
        let before = self.disk.peek(LOG).unwrap_or_default();
        match self.calmly(|| resting.wake(Duration::ZERO)) {
            Some(Ok(log)) => {
                self.stats.rests += 1;
                self.stats.set_aside += u64::from(log.set_aside().is_some());
                self.nothing_was_destroyed(&before, log.set_aside())?;
                self.model.opened();
                Ok(Some(log))
            }
            Some(Err(e)) => self.could_not_wake(&e),
            None => Ok(None),
        }
    }

    /// Does something to the disk. Nothing: it panicked, as far as the faults want it.
    fn calmly<T>(&mut self, work: impl FnOnce() -> T) -> Option<T> {
        let done = group_commit::unless_simulated_panic(work);
        self.stats.panics += u64::from(done.is_none());
        done
    }

    fn could_not_wake(&mut self, error: &Error) -> Result<Option<Log>, String> {
        if matches!(error, Error::Held { .. } | Error::Gone { .. } | Error::Shrunk { .. }) {
            return Err(format!("nobody held or touched the log, and yet: {error}"));
        }
        if self.disk.crashed().is_none() {
            // The sync of a cut may be what failed.
            self.model.sync_failed();
        }
        Ok(None)
    }

    fn open(&mut self) -> Result<Option<Log>, String> {
        let before = self.disk.peek(LOG).unwrap_or_default();
        let options = Options { header: Some(header()), ..Options::default() };
        let shared: Arc<dyn Disk> = Arc::new(self.disk.clone());
        match self.calmly(|| Log::open(&shared, Path::new(LOG), &options)) {
            Some(Ok(log)) => {
                self.stats.set_aside += u64::from(log.set_aside().is_some());
                self.nothing_was_destroyed(&before, log.set_aside())?;
                self.model.opened();
                Ok(Some(log))
            }
            None => Ok(None),
            Some(Err(_)) if self.disk.crashed().is_some() => {
                self.stats.crashes_in_recovery += 1;
                Ok(None)
            }
            Some(Err(_)) => {
                // The sync of a cut may be what failed.
                self.model.sync_failed();
                Ok(None)
            }
        }
    }

    /// Opening may cut the end of the file, but only what it says it has put aside.
    fn nothing_was_destroyed(&mut self, before: &[u8], aside: Option<&SetAside>) -> Result<(), String> {
        let after = self.disk.peek(LOG).unwrap_or_default();
        let Some(cut) = before.strip_prefix(after.as_slice()) else {
            return Err("opening the log changed bytes in it".to_owned());
        };
        match aside {
            None if cut.is_empty() => Ok(()),
            Some(aside) if self.disk.peek(&aside.copy).as_deref() == Some(cut) => {
                self.aside.push((aside.copy.clone(), cut.to_vec()));
                Ok(())
            }
            _ => Err(format!("{} bytes were cut and are not where they should be", cut.len())),
        }
    }

    /// Checks that bytes which were cut once are kept for ever, whatever happens later.
    fn copies_are_there(&self) -> Result<(), String> {
        let lost = self.aside.iter().find(|(copy, bytes)| self.disk.peek(copy).as_ref() != Some(bytes));
        lost.map_or(Ok(()), |(copy, _)| Err(format!("{} is gone or changed", copy.display())))
    }

    /// Appends something. False: this handle is of no more use.
    fn append(&mut self, log: &mut Log) -> Result<bool, String> {
        let first = log.next_seq();
        let bodies: Vec<Body> = (0..self.rng.range(1..=4)).map(|_| self.body()).collect();
        let written = numbered(first, &bodies);
        let durability = match self.rng.below(5) {
            0 | 1 => Durability::Sync,
            2 => Durability::Group,
            _ => Durability::Flush,
        };
        match self.calmly(|| log.append_batch(&bodies, durability, Expect::Seq(first))) {
            Some(Ok(receipts)) => {
                if receipts.iter().map(|r| r.seq).ne(written.iter().map(|w| w.seq)) {
                    return Err("the receipts carry other numbers than the records".to_owned());
                }
                self.stats.acknowledged += receipts.len() as u64;
                match durability {
                    Durability::Flush => self.model.flushed(written),
                    Durability::Sync | Durability::Group => self.model.synced(written),
                }
                Ok(true)
            }
            failed => {
                self.pending.extend(bodies.into_iter().filter(|body| body.key().is_some()));
                self.failed(log, written, failed.and_then(Result::err).as_ref())
            }
        }
    }

    /// Tries a record with a key again. It is there once, whatever became of it before.
    fn retry(&mut self, log: &mut Log) -> Result<bool, String> {
        let nth = self.rng.below(self.pending.len() as u64) as usize;
        let body = self.pending[nth].clone();
        let first = log.next_seq();
        let durability = if self.rng.chance(3, 4) { Durability::Sync } else { Durability::Flush };
        let written = numbered(first, std::slice::from_ref(&body));
        match self.calmly(|| log.append(&body, durability, Expect::Any)) {
            Some(Ok(receipt)) if receipt.seq == first => {
                self.pending.swap_remove(nth);
                self.stats.appended_again += 1;
                match durability {
                    Durability::Flush => self.model.flushed(written),
                    Durability::Sync | Durability::Group => self.model.synced(written),
                }
                Ok(true)
            }
            Some(Ok(receipt)) => {
                self.pending.swap_remove(nth);
                self.stats.found_again += 1;
                let found = Written { seq: receipt.seq, body: body.as_bytes().to_vec() };
                self.model.kept_again(&found, durability != Durability::Flush)?;
                Ok(true)
            }
            failed => self.failed(log, written, failed.and_then(Result::err).as_ref()),
        }
    }

    /// An append came to nothing, as far as the caller was told; without an error it panicked.
    fn failed(
        &mut self,
        log: &mut Log,
        written: Vec<Written>,
        error: Option<&Error>,
    ) -> Result<bool, String> {
        if self.disk.crashed().is_some() {
            self.model.unknown(written);
            return Ok(false);
        }
        self.stats.refused += 1;
        let is_unknown = error.is_none_or(Error::is_unknown);
        if is_unknown != log.poisoned().is_some() {
            return Err(format!("closed for writing: {:?}, and yet told: {error:?}", log.poisoned()));
        }
        if !is_unknown {
            return Ok(!matches!(error, Some(Error::Gone { .. })));
        }
        self.stats.unknown += 1;
        self.stats.poisoned += 1;
        self.model.unknown(written);
        // After a panic it may or may not have: the model expects less then.
        self.model.sync_failed();
        let body = self.body();
        match self.calmly(|| log.append(&body, Durability::Flush, Expect::Any)) {
            Some(Err(Error::Poisoned { .. })) => Ok(false),
            _ if self.disk.crashed().is_some() => Ok(false),
            other => Err(format!("a poisoned handle answered {other:?}")),
        }
    }

    fn end_epoch(&mut self) {
        if self.disk.crashed().is_none() {
            match self.rng.below(4) {
                0 => self.disk.crash(CrashKind::Kill),
                1 | 2 => self.disk.crash(CrashKind::Power),
                _ => {}
            }
        }
        if let Some(kind) = self.disk.crashed() {
            self.stats.crashes += 1;
            self.model.crashed(kind);
            self.disk = self.disk.restart();
        }
        if self.rng.chance(1, 4) {
            self.disk.drop_caches();
            self.model.caches_dropped();
        }
    }

    /// Reads the whole log and asks the model.
    fn compare(&mut self, moment: &str) -> Result<(), String> {
        let shared: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let mut read = Vec::new();
        let mut keys = HashSet::new();
        let mut damaged_places = 0;
        match Reader::open(&shared, Path::new(LOG)) {
            Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(format!("{moment}: {e}")),
            Ok(mut reader) => {
                while let Some(item) = reader.next().map_err(|e| format!("{moment}: {e}"))? {
                    match item {
                        LogItem::Damage(_) => damaged_places += 1,
                        LogItem::Entry(entry) if entry.seq == 0 => {}
                        LogItem::Entry(entry) => {
                            let key = manent_log::idempotency_key(entry.bytes);
                            if let Some(key) = key.filter(|key| !keys.insert(key.clone())) {
                                return Err(format!(
                                    "{moment}: the record with the key {key} is there twice"
                                ));
                            }
                            read.push(Written { seq: entry.seq, body: frame::body_of(entry.bytes).to_vec() });
                        }
                    }
                }
            }
        }
        self.stats.damaged_places += damaged_places as u64;
        self.copies_are_there()?;
        self.model.check(&read, damaged_places).map_err(|what| format!("{moment}: {what}"))
    }

    /// A record like no other: mostly a few hundred bytes, sometimes many sectors.
    fn body(&mut self) -> Body {
        self.bodies += 1;
        let length = match self.rng.below(12) {
            0 => self.rng.range(4_000..=20_000),
            1 => 0,
            _ => self.rng.range(1..=600),
        };
        let letters = (0..length).map(|_| char::from(b' ' + self.rng.below(95) as u8));
        let text: String = letters.collect();
        let mut body = Body::new();
        body.number("n", self.bodies).string("role", "user");
        if self.rng.chance(1, 3) {
            body.idempotent(&format!("k{}", self.bodies));
        }
        body.string("content", &text);
        body
    }
}

/// Records as they stand in the log, from this number on.
fn numbered(first: u64, bodies: &[Body]) -> Vec<Written> {
    let numbered = (first..).zip(bodies);
    numbered.map(|(seq, body)| Written { seq, body: body.as_bytes().to_vec() }).collect()
}

fn header() -> Body {
    let mut header = Body::new();
    let mut meta = Body::new();
    meta.number("format", manent_log::FORMAT).string("id", "sim");
    header.object("meta", &meta);
    header
}

const DIR: &str = "/store";
const LOG: &str = "/store/log.jsonl";
