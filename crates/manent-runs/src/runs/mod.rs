//! The logs of runs: recording, reading and judging what skills did.
//!
//! One log a session, in `runs/` beside the sessions. A run that begins is a record (`run-start`), and its end is
//! another (`run`) with the same `run_id`: one without an end shows as a run whose outcome is unknown. A verdict that
//! somebody gives on a run afterwards is a third (`run-verdict`). Entries that other programs wrote, without numbers
//! and checksums, are read as they are.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Runs`]: listing and reading |
//! | `entry.rs` | [`Run`] and [`Attempt`]: parsing a line |
//! | `new_entry.rs` | [`NewRun`], [`NewEntry`]: entries to be recorded, checked |
//! | `record.rs` | recording them: [`Runs::begin`], [`Runs::finish`], [`Runs::record`], [`Runs::lock_run`] |
//! | `verdict.rs` | [`Verdict`]: parsing verdicts, and applying them to runs |
//! | `judge.rs` | giving a verdict: [`Runs::judge`] |
//! | `keys.rs` | the keys of lines, by which entries are found that are there already |
//! | `seen_runs.rs` | the runs that were met while a log is read |

mod entry;
mod judge;
mod keys;
mod new_entry;
mod record;
mod seen_runs;
mod verdict;

use std::ops::ControlFlow;

use manent::Store;
use manent_log::{Body, Damage, Durability, LogEnd, LogItem, VerifyReport};
use manent_store::{
    AppendOptions, IfMissing, LockMode, LockName, Place, Receipt, Repaired, Seek, Selector, SessionKey,
    Space, StreamFilter, StreamId, StreamReader, StreamStat, StreamWriter, Target,
};

use crate::error::Result;
use keys::RUN_KEYS;
use seen_runs::SeenRuns;

pub use entry::{Attempt, INTERRUPTED, NOT_CHECKED, NOT_RUN, Oddity, RecordRange, Run, RunRecord, Status};
pub(crate) use entry::{YEAR_2000_MS, bare};
pub use judge::{NewVerdict, RunName, VerdictReceipt};
pub use new_entry::{EntryError, NewAttempt, NewEntry, NewRun, RunEnd};
pub use record::{RunLock, RunReceipt, StartedRun};
pub use verdict::{Verdict, VerdictRef};

/// The runs of a store. Clones share everything.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use manent::{SessionKey, Store};
/// use manent_runs::{RunEnd, NewAttempt, NewRun, Runs, Status};
///
/// let runs = Runs::open(&Store::open(dir.path())?)?;
/// let run = NewRun { skill: "lint".to_owned(), ..NewRun::default() };
/// let started = runs.begin(&SessionKey::new("work")?, run)?; // on the disk: now it may begin
/// let attempt = NewAttempt { exit_code: Some(0), ..NewAttempt::default() };
/// let ended = RunEnd { attempts: vec![attempt], status: Status::Success, ..RunEnd::default() };
/// let recorded = runs.finish(&started, &ended)?;
/// assert_eq!(recorded.run_id, started.run_id());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Runs {
    store: Store,
}

/// Counts of what was met when runs were read.
#[derive(Debug, Default)]
pub struct ReadSummary {
    /// The runs that were given.
    pub runs: u64,
    /// The number of runs that were begun and did not end, and have no verdict.
    pub unknown: u64,
    /// Runs that were passed over because they were recorded before.
    pub repeated: u64,
    /// Lines that are neither runs nor verdicts on them.
    pub others: u64,
    /// Places that could not be read.
    pub damage: Vec<Damage>,
    /// Bytes behind the last record: torn by a crash, or being written now.
    pub torn: Option<Damage>,
}

impl Runs {
    /// Returns the runs of a store. An error if the store keeps no runs, because it is a directory of another program.
    pub fn open(store: &Store) -> Result<Runs> {
        store.check_supports(Space::Runs)?;
        Ok(Runs { store: store.clone() })
    }

    /// Appends records to the log of a session, as they are.
    pub fn append(
        &self,
        session: &SessionKey,
        bodies: &[Body],
        durability: Durability,
    ) -> Result<Vec<Receipt>> {
        let header = || self.store.new_header(session);
        let how = AppendOptions { wait: self.store.wait(), ..AppendOptions::new(durability) };
        let id = StreamId::live_in(Space::Runs, session);
        Ok(self.store.streams().append(&id, &header, bodies, &how)?)
    }

    /// The sessions of which there are runs, in the order of their keys.
    pub fn sessions(&self) -> Result<Vec<StreamStat>> {
        let filter = StreamFilter::new(Space::Runs, Place::Live, Selector::All);
        let mut listed = self.store.streams().list(&filter)?;
        listed.sort_by(|a, b| a.id.key.as_str().cmp(b.id.key.as_str()));
        Ok(listed)
    }

    /// The log of a session, if it has one.
    pub fn log(&self, session: &SessionKey) -> Result<Option<StreamStat>> {
        let filter = StreamFilter::new(Space::Runs, Place::Live, Selector::Key(session));
        Ok(self.store.streams().list(&filter)?.into_iter().next())
    }

    /// Checks every byte of the log of a session; nothing if it has none.
    pub fn verify(&self, session: &SessionKey) -> Result<Option<VerifyReport>> {
        Ok(self.store.verify_stream(&StreamId::live_in(Space::Runs, session))?)
    }

    /// Sets a torn end of the log of a session aside, and acknowledges its damage.
    pub fn repair(&self, session: &SessionKey) -> Result<Repaired> {
        Ok(self.store.repair_stream(&StreamId::live_in(Space::Runs, session))?)
    }

    /// Returns the id of the run that a record is about: its beginning, its end, or a verdict on it. Empty if the run
    /// has no
    /// id; `None` if the record is not about a run.
    pub fn run_of(&self, session: &SessionKey, seq: u64) -> Result<Option<String>> {
        self.record_at(session, seq, |line| match line {
            RunRecord::Run(run) | RunRecord::Start(run) => Some(run.run_id.into_owned()),
            RunRecord::Verdict(verdict) => Some(verdict.run_id.into_owned()),
        })
    }

    /// Removes the log of a session for good, with what was set aside of it. Returns false if it has none.
    pub fn purge(&self, session: &SessionKey) -> Result<bool> {
        if self.log(session)?.is_none() {
            return Ok(false);
        }
        let store = &self.store;
        let moves = LockName::Moves(Space::Runs);
        let _right = store.streams().lock(moves, LockMode::Exclusive, store.wait())?;
        match store.streams().delete(&StreamId::live_in(Space::Runs, session), store.wait()) {
            Err(e) if e.is_not_found() => Ok(false),
            deleted => Ok(deleted.map(|()| true)?),
        }
    }

    /// Gives the runs of a session, each once, in the order in which they ended; then those that were begun and did
    /// not end, as runs of [`Status::Unknown`]. None if it has none. What was said of a run afterwards counts, wherever
    /// it stands in the log: what is there when this is called. Memory is bounded by the longest line and some bytes
    /// for each run and each verdict.
    pub fn each(
        &self,
        session: &SessionKey,
        mut take: impl FnMut(&Run<'_>) -> ControlFlow<()>,
    ) -> Result<ReadSummary> {
        let mut seen = ReadSummary::default();
        let mut runs = SeenRuns::default();
        let verdicts = self.verdicts(session)?;
        let mut give = |seen: &mut ReadSummary, run: &Run<'_>| {
            seen.runs += 1;
            take(run)
        };
        let mut faults = LogFaults::default();
        let whole = self.lines(session, Seek::First, &mut faults, |seq, line| {
            match RunRecord::of_bytes(seq, line) {
                None if seq == 0 => {}
                None => seen.others += 1,
                Some(RunRecord::Start(run)) => runs.begin(&run),
                Some(RunRecord::Run(run)) if !runs.end(&run) => seen.repeated += 1,
                Some(RunRecord::Verdict(_)) => {}
                Some(RunRecord::Run(mut run)) => {
                    verdicts.apply(&mut run);
                    return give(&mut seen, &run);
                }
            }
            ControlFlow::Continue(())
        })?;
        (seen.damage, seen.torn) = (faults.damage, faults.torn);
        let Some(first) = runs.first_open().filter(|_| whole) else { return Ok(seen) };
        // Only the numbers of their records were kept. Where there is damage, records may not stand in the order of
        // their numbers, and then a number is no way to find one.
        let start = if seen.damage.is_empty() { Seek::Seq(first) } else { Seek::First };
        self.lines(session, start, &mut LogFaults::default(), |seq, line| {
            match RunRecord::of_bytes(seq, line) {
                Some(RunRecord::Start(mut run)) if runs.is_open(&run) => {
                    run.status = Status::Unknown;
                    verdicts.apply(&mut run);
                    seen.unknown += u64::from(run.status == Status::Unknown);
                    give(&mut seen, &run)
                }
                _ => ControlFlow::Continue(()),
            }
        })?;
        Ok(seen)
    }

    /// Gives the lines of a log as they stand, with the numbers of their records, and notes what cannot be read. False:
    /// it was stopped.
    fn lines(
        &self,
        session: &SessionKey,
        start: Seek<'_>,
        faults: &mut LogFaults,
        mut take: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<bool> {
        let Some(mut reader) = self.reader(session, start)? else { return Ok(true) };
        while reader.advance()? {
            match reader.item() {
                Some(LogItem::Damage(damage)) => faults.damage.push(damage),
                Some(LogItem::Entry(entry)) if take(entry.seq, entry.bytes).is_break() => return Ok(false),
                Some(LogItem::Entry(_)) | None => {}
            }
        }
        if let LogEnd::Torn(damage) = reader.end() {
            faults.torn = Some(damage);
        }
        Ok(true)
    }

    /// Calls `take` with the record `seq`. Returns `None` if there is no such record, or it is not about a run.
    fn record_at<T>(
        &self,
        session: &SessionKey,
        seq: u64,
        take: impl FnOnce(RunRecord<'_>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(mut reader) = self.reader(session, Seek::Seq(seq))? else { return Ok(None) };
        while reader.advance()? {
            let Some(LogItem::Entry(entry)) = reader.item() else { continue };
            let is_it = entry.seq == seq;
            return Ok(RunRecord::of_bytes(seq, entry.bytes).filter(|_| is_it).and_then(take));
        }
        Ok(None)
    }

    /// Opens the log of a session and moves to a place in it. Returns `None` if it does not exist.
    fn reader(&self, session: &SessionKey, start: Seek<'_>) -> Result<Option<Box<dyn StreamReader>>> {
        let id = StreamId::live_in(Space::Runs, session);
        let mut reader = match self.store.streams().open(Target::Id(&id)) {
            Err(e) if e.is_not_found() => return Ok(None),
            reader => reader?,
        };
        reader.seek(start)?;
        Ok(Some(reader))
    }

    /// Takes the right to write the log of a session, or a new one. A long log is read for its keys before, while
    /// others may write to it.
    fn lease(&self, session: &SessionKey) -> Result<Box<dyn StreamWriter>> {
        let header = || self.store.new_header(session);
        let id = StreamId::live_in(Space::Runs, session);
        self.store.streams().prefetch_keys(&id, &RUN_KEYS)?;
        Ok(self.store.streams().lease(&id, IfMissing::Create(&header), self.store.wait())?)
    }
}

/// The parts of a log that cannot be read.
#[derive(Debug, Default)]
struct LogFaults {
    damage: Vec<Damage>,
    torn: Option<Damage>,
}
