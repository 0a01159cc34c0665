//! Runs: what skills did, with every attempt. Raw material for looking back, and for training.
//!
//! One log a session, in `runs/` beside the sessions. A run that is begun is a record (`run-start`), and its end is
//! another (`run`) with the same `run_id`: one without an end shows as a run whose outcome is unknown. Entries that
//! other programs wrote, without numbers and checksums, are read as they are.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Runs`]: listing and reading |
//! | `entry.rs` | [`Run`] and [`Attempt`]: what a line says |
//! | `incoming.rs` | [`NewRun`], [`NewEntry`]: what is to be recorded, checked |
//! | `recording.rs` | recording it: [`Runs::begin`], [`Runs::finish`], [`Runs::record`] |
//! | `keys.rs` | which entries are there already |

mod entry;
mod incoming;
mod keys;
mod recording;

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::quality::RandomState;
use manent_log::{Body, Damage, Durability, Expect, Item, Report};

use crate::backend::{Address, Backend, Listed, Place, Receipt, Repaired, Start};
use crate::clock;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::key::SessionKey;
use crate::store::{Store, StoreOptions};

pub(crate) use entry::bare;
pub use entry::{Attempt, Line, Oddity, Passage, Run, Status};
pub use incoming::{Ended, EntryError, NewAttempt, NewEntry, NewRun};
pub use recording::{Recorded, Started};

/// The runs of a store. Clones share everything.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use manent::runs::{Ended, NewAttempt, NewRun, Status};
/// use manent::{SessionKey, Store};
///
/// let runs = Store::open(dir.path())?.runs()?;
/// let run = NewRun { skill: "lint".to_owned(), ..NewRun::default() };
/// let started = runs.begin(&SessionKey::new("work")?, run)?; // on the disk: now it may begin
/// let attempt = NewAttempt { exit_code: Some(0), ..NewAttempt::default() };
/// let ended = Ended { attempts: vec![attempt], status: Status::Success, ..Ended::default() };
/// let recorded = runs.finish(&started, &ended)?;
/// assert_eq!(recorded.run_id, started.run_id());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Runs {
    core: Arc<Core>,
}

/// What all handles of one store share.
#[derive(Debug)]
pub(crate) struct Core {
    /// Where the store itself is.
    home: Arc<dyn Backend>,
    /// The logs, as a store of one directory: leases, open files and names are those that sessions have.
    streams: Store,
    /// What is known of the logs to which entries were recorded that may be there already.
    keys: Mutex<HashMap<SessionKey, Arc<Mutex<keys::Keys>>>>,
}

/// What was seen when runs were read.
#[derive(Debug, Default)]
pub struct Seen {
    /// How many runs were given.
    pub runs: u64,
    /// How many of them were begun and did not end.
    pub unknown: u64,
    /// How many were passed over because they were recorded before.
    pub repeated: u64,
    /// Lines that are no runs.
    pub others: u64,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

impl Store {
    /// What skills did.
    pub fn runs(&self) -> Result<Runs> {
        let room = self.backend().room().ok_or_else(|| Error::NoRoom { store: self.backend().name() })?;
        let core = self.runs_core(|| {
            let files = Files::flat_on(room.disk, room.dir.join(DIR)).trusting(room.trust);
            let app = self.app().to_owned();
            let options =
                StoreOptions { wait: self.wait(), trust: room.trust, app, ..StoreOptions::default() };
            let streams = Store::on(Arc::new(files), options);
            Core { home: self.parts().0.clone(), streams, keys: Mutex::default() }
        });
        Ok(Runs { core })
    }
}

impl Runs {
    /// Appends records to the log of a session, as they are.
    pub fn append(
        &self,
        session: &SessionKey,
        bodies: &[Body],
        durability: Durability,
    ) -> Result<Vec<Receipt>> {
        self.core.home.make_room()?;
        self.core.streams.append_with(session, bodies, durability, Expect::Any)
    }

    /// The sessions of which there are runs, in the order of their keys.
    pub fn sessions(&self) -> Result<Vec<Listed>> {
        let mut listed = self.core.streams.list(Place::Live)?;
        listed.sort_by(|a, b| a.address.key.as_str().cmp(b.address.key.as_str()));
        Ok(listed)
    }

    /// The logs as streams, to verify and repair them.
    pub fn streams(&self) -> &Store {
        &self.core.streams
    }

    /// The log of a session, if it has one.
    pub fn log(&self, session: &SessionKey) -> Result<Option<Listed>> {
        self.core.streams.live(session)
    }

    /// Checks every byte of the log of a session; nothing if it has none.
    pub fn verify(&self, session: &SessionKey) -> Result<Option<Report>> {
        match self.core.streams.backend().verify(&Address::live(session), &mut |_, _| {}) {
            Err(e) if e.is_not_found() => Ok(None),
            report => report.map(Some),
        }
    }

    /// Sets a torn end of the log of a session aside, and acknowledges its damage.
    pub fn repair(&self, session: &SessionKey) -> Result<Repaired> {
        self.core.streams.backend().repair(session, &clock::now(), self.core.streams.wait())
    }

    /// The id of the run that a record is about, its beginning or its end; empty if it has none. Nothing: it is no
    /// record about a run.
    pub fn run_of(&self, session: &SessionKey, seq: u64) -> Result<Option<String>> {
        let mut reader = self.core.streams.stream(session, Start::Seq(seq))?;
        while reader.advance()? {
            let Some(Item::Entry(entry)) = reader.item() else { continue };
            if entry.seq != seq {
                break;
            }
            let line = std::str::from_utf8(entry.bytes).ok().and_then(|line| Line::read(seq, line));
            return Ok(line.map(|line| line.run().run_id.into_owned()));
        }
        Ok(None)
    }

    /// Removes the log of a session for good, with what was set aside of it. False: it has none.
    pub fn purge(&self, session: &SessionKey) -> Result<bool> {
        self.purge_within(session, self.core.streams.wait())
    }

    pub(crate) fn purge_within(&self, session: &SessionKey, wait: Duration) -> Result<bool> {
        if self.log(session)?.is_none() {
            return Ok(false);
        }
        let backend = self.core.streams.backend();
        let _right = backend.exclusive(wait)?;
        match backend.delete(&Address::live(session), wait) {
            Err(e) if e.is_not_found() => Ok(false),
            deleted => deleted.map(|()| true),
        }
    }

    /// Gives the runs of a session, each once, in the order in which they ended; then those that were begun and did
    /// not end, as runs of [`Status::Unknown`]. None if it has none. Memory is bounded by the longest line and some
    /// bytes for each run.
    pub fn each(
        &self,
        session: &SessionKey,
        mut take: impl FnMut(&Run<'_>) -> ControlFlow<()>,
    ) -> Result<Seen> {
        let mut seen = Seen::default();
        let mut known = Known::default();
        let mut reader = self.core.streams.stream(session, Start::First)?;
        while reader.advance()? {
            let entry = match reader.item() {
                Some(Item::Damage(damage)) => {
                    seen.damage.push(damage);
                    continue;
                }
                Some(Item::Entry(entry)) => entry,
                None => continue,
            };
            let line = std::str::from_utf8(entry.bytes).ok().and_then(|line| Line::read(entry.seq, line));
            match line {
                None if entry.seq == 0 => {}
                None => seen.others += 1,
                Some(Line::Start(run)) => known.begun(&run),
                Some(Line::Run(run)) if !known.ended(&run) => seen.repeated += 1,
                Some(Line::Run(run)) => {
                    seen.runs += 1;
                    if take(&run).is_break() {
                        return Ok(seen);
                    }
                }
            }
        }
        let Some(first) = known.open.values().copied().min() else { return Ok(seen) };
        // Of those that did not end, only where they stand was kept: there may be many, and long ones.
        // Where numbers are not in order, a number is no way to find a record.
        let start = if seen.damage.is_empty() { Start::Seq(first) } else { Start::First };
        let mut reader = self.core.streams.stream(session, start)?;
        while reader.advance()? {
            let Some(Item::Entry(entry)) = reader.item() else { continue };
            let line = std::str::from_utf8(entry.bytes).ok().and_then(|line| Line::read(entry.seq, line));
            let Some(Line::Start(mut run)) = line else { continue };
            if !known.is_open(&run) {
                continue;
            }
            run.status = Status::Unknown;
            seen.runs += 1;
            seen.unknown += 1;
            if take(&run).is_break() {
                return Ok(seen);
            }
        }
        Ok(seen)
    }
}

/// Which runs were met, by hashes of what they are known by.
#[derive(Debug, Default)]
struct Known {
    hasher: RandomState,
    /// Begun and not ended: where they stand.
    open: HashMap<u64, u64, foldhash::fast::RandomState>,
    /// By the key of whoever records: which of these it is.
    open_keys: HashMap<u64, u64, foldhash::fast::RandomState>,
    ended: HashSet<u64, foldhash::fast::RandomState>,
}

/// As what something is known. An id and a key may be the same word.
#[derive(Debug, Clone, Copy, Hash)]
enum As {
    Run,
    Key,
    /// By where it stands, for want of an id.
    Place(u64),
}

impl Known {
    fn begun(&mut self, run: &Run<'_>) {
        let id = self.id_of(run);
        let key = self.hash(As::Key, &run.idempotency_key);
        if [Some(id), key].into_iter().flatten().any(|id| self.ended.contains(&id)) {
            return;
        }
        self.open.entry(id).or_insert(run.seq);
        if let Some(key) = key {
            self.open_keys.entry(key).or_insert(id);
        }
    }

    /// False: it is known already.
    fn ended(&mut self, run: &Run<'_>) -> bool {
        let id = self.hash(As::Run, &run.run_id);
        let key = self.hash(As::Key, &run.idempotency_key);
        for begun in [id, key.and_then(|key| self.open_keys.remove(&key))].into_iter().flatten() {
            self.open.remove(&begun);
        }
        // Both are noted, and one that was met is enough.
        [id, key].into_iter().flatten().filter(|id| !self.ended.insert(*id)).count() == 0
    }

    fn is_open(&self, run: &Run<'_>) -> bool {
        self.open.get(&self.id_of(run)) == Some(&run.seq)
    }

    fn id_of(&self, run: &Run<'_>) -> u64 {
        let id = self.hash(As::Run, &run.run_id);
        id.unwrap_or_else(|| self.hasher.hash_one(As::Place(run.seq)))
    }

    fn hash(&self, what: As, id: &str) -> Option<u64> {
        (!id.is_empty()).then(|| self.hasher.hash_one((what, id)))
    }
}

/// In the home of the store.
const DIR: &str = "runs";
