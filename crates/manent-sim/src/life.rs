//! The life of one log, from one seed: opened, appended to, broken, opened again, and compared with the model.
//!
//! Faults fall on any operation, so also inside recovery and inside the recovery from that. Each life that fails is
//! one number, and [`Trouble`] prints the command that lives it again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::Disk;
use manent_log::{Body, Durability, Error, Expect, Item, Log, Options, Reader, SetAside, frame};

use crate::model::{Model, Written};
use crate::{CrashKind, Errno, Fault, Rng, SimDisk};

/// What happened in a life, to show that lives are worth living.
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
            aside: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.range(2..=6) {
            self.plan_faults();
            self.epoch()?;
            self.disk.reset_faults();
            self.disk.set_capacity(None);
            self.end_epoch();
            self.compare("after an epoch")?;
        }
        Ok(())
    }

    fn plan_faults(&mut self) {
        for _ in 0..self.rng.below(3) {
            let fault = match self.rng.below(10) {
                0 | 1 => Fault::CrashKill,
                2 | 3 => Fault::CrashPower,
                4 => Fault::Fail(Errno::Io),
                5 => Fault::Fail(Errno::NoSpace),
                6 => Fault::PartialThenFail,
                7 => Fault::Fail(Errno::TooManyFiles),
                8 => Fault::Interrupted,
                _ => Fault::ShortWrite,
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
            if !self.append(&mut log)? {
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
        let resting = match log.rest() {
            Ok(resting) => resting,
            Err(e) => return self.could_not_wake(&e),
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
        match resting.wake(Duration::ZERO) {
            Ok(log) => {
                self.stats.rests += 1;
                self.stats.set_aside += u64::from(log.set_aside().is_some());
                self.nothing_was_destroyed(&before, log.set_aside())?;
                Ok(Some(log))
            }
            Err(e) => self.could_not_wake(&e),
        }
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
        match Log::open(&shared, Path::new(LOG), &options) {
            Ok(log) => {
                self.stats.set_aside += u64::from(log.set_aside().is_some());
                self.nothing_was_destroyed(&before, log.set_aside())?;
                Ok(Some(log))
            }
            Err(_) if self.disk.crashed().is_some() => {
                self.stats.crashes_in_recovery += 1;
                Ok(None)
            }
            Err(_) => {
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

    /// What was cut once is there for ever, whatever happens later.
    fn copies_are_there(&self) -> Result<(), String> {
        let lost = self.aside.iter().find(|(copy, bytes)| self.disk.peek(copy).as_ref() != Some(bytes));
        lost.map_or(Ok(()), |(copy, _)| Err(format!("{} is gone or changed", copy.display())))
    }

    /// Appends something. False: this handle is of no more use.
    fn append(&mut self, log: &mut Log) -> Result<bool, String> {
        let first = log.next_seq();
        let bodies: Vec<Body> = (0..self.rng.range(1..=4)).map(|_| self.body()).collect();
        let written: Vec<Written> = (first..)
            .zip(&bodies)
            .map(|(seq, body)| Written { seq, body: body.as_bytes().to_vec() })
            .collect();
        let durability = match self.rng.below(5) {
            0 | 1 => Durability::Sync,
            2 => Durability::Group,
            _ => Durability::Flush,
        };
        match log.append_batch(&bodies, durability, Expect::Seq(first)) {
            Ok(receipts) => {
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
            Err(_) if self.disk.crashed().is_some() => {
                self.model.unknown(written);
                Ok(false)
            }
            Err(error) => self.refused(log, written, &error),
        }
    }

    fn refused(&mut self, log: &mut Log, written: Vec<Written>, error: &Error) -> Result<bool, String> {
        self.stats.refused += 1;
        if log.poisoned().is_none() {
            return Ok(!matches!(error, Error::Gone { .. }));
        }
        self.stats.poisoned += 1;
        self.model.unknown(written);
        self.model.sync_failed();
        match log.append(&self.body(), Durability::Flush, Expect::Any) {
            Err(Error::Poisoned { .. }) => Ok(false),
            Err(_) if self.disk.crashed().is_some() => Ok(false),
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
        let mut damaged_places = 0;
        match Reader::open(&shared, Path::new(LOG)) {
            Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(format!("{moment}: {e}")),
            Ok(mut reader) => {
                while let Some(item) = reader.next().map_err(|e| format!("{moment}: {e}"))? {
                    match item {
                        Item::Damage(_) => damaged_places += 1,
                        Item::Entry(entry) if entry.seq == 0 => {}
                        Item::Entry(entry) => {
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
        body.number("n", self.bodies).string("role", "user").string("content", &text);
        body
    }
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
