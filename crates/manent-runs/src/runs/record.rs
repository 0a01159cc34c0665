//! Recording: the beginning of a run, its end, and entries that others made.
//!
//! An entry without an id or a key of its own is appended like a turn. One that has either may have been recorded
//! before, and is looked for first, under the lease of its log.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use manent_log::{Body, Durability, Expect, KeyedLine, Occurrence};
use manent_store::{
    AppendOptions, Lock, LockMode, LockName, Position, Receipt, SessionKey, Space, StreamWriter,
};

use super::Runs;
use super::entry::RunRecord;
use super::keys::LineKey;
use super::new_entry::{NewEntry, NewRun, RunEnd, RunEntryKind};
use crate::error::{Error, Result};

/// The right to be the only one at work on a run, until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _lock: Lock,
}

/// Proof that an entry is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReceipt {
    /// The id of the run.
    pub run_id: String,
    /// The position of the record, and its durability.
    pub receipt: Receipt,
    /// True if it was recorded before: the receipt is that of then.
    pub repeated: bool,
    /// True if the run has come to its end. Always so for an end.
    pub ended: bool,
}

/// A run that was begun and is in the log. Without an end its outcome is unknown.
#[derive(Debug, Clone)]
pub struct StartedRun {
    /// The session that it belongs to.
    pub session: SessionKey,
    /// The run as it was begun.
    pub run: NewRun,
    /// The receipt of its beginning.
    pub recorded: RunReceipt,
}

impl StartedRun {
    /// Returns the id of the run.
    pub fn run_id(&self) -> &str {
        &self.recorded.run_id
    }
}

impl Runs {
    /// Locks the run of this key. Other callers, in any process, get [`Error::Running`] at once. Take the lock before
    /// [`Runs::begin`], and keep it until the end is recorded.
    pub fn lock_run(&self, session: &SessionKey, idempotency_key: &str) -> Result<RunLock> {
        // Both may be of any length, and hold anything.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(session.as_str().len() as u64).to_le_bytes());
        let hash = hasher.update(session.as_str().as_bytes()).update(idempotency_key.as_bytes()).finalize();
        let name = format!("{}{MARK}", &hash.to_hex()[..HASH_DIGITS]);
        let name = LockName::Named(Space::Runs, &name);
        match self.store.streams().lock(name, LockMode::Exclusive, Duration::ZERO) {
            Err(manent_store::Error::Busy { pid, .. }) => Err(Error::Running { pid }),
            taken => Ok(RunLock { _lock: taken? }),
        }
    }

    /// Records that a run begins. When it returns, that survives power loss: begin the run after it, not before.
    pub fn begin(&self, session: &SessionKey, run: NewRun) -> Result<StartedRun> {
        let entry = NewEntry::start(&run)?;
        let recorded = self.record_one(session, entry, Durability::Sync)?;
        Ok(StartedRun { session: session.clone(), run, recorded })
    }

    /// Records how a run ended. Where its attempts printed more than a record can hold, the end of each is kept.
    pub fn finish(&self, started: &StartedRun, ended: &RunEnd) -> Result<RunReceipt> {
        let mut entry = NewEntry::end(&started.run, started.run_id(), ended)?;
        if entry.check_size(&started.session).is_err() {
            // The end is recorded even if the output must be cut for it.
            entry = NewEntry::end(&started.run, started.run_id(), &ended.shortened())?;
        }
        self.record_one(&started.session, entry, Durability::Sync)
    }

    fn record_one(
        &self,
        session: &SessionKey,
        entry: NewEntry,
        durability: Durability,
    ) -> Result<RunReceipt> {
        let recorded = self.record_as(session, &[entry], durability, IfUnsure::WriteAgain)?;
        recorded.into_iter().next().ok_or_else(|| no_receipt(session))
    }

    /// Records entries in the log of a session, in their order, and gives a receipt for each. One that was recorded
    /// before, by the same `run_id` or the same `idempotency_key`, gets the receipt of then, after it was made sure
    /// that it is as durable as asked. In another program's file, where nothing is written again, that cannot be made
    /// sure of what another process recorded: the receipt of such an entry says [`Durability::Flush`].
    ///
    /// One that is too large is refused, and with it all of them; see [`NewEntry::check_size`].
    pub fn record(
        &self,
        session: &SessionKey,
        entries: &[NewEntry],
        durability: Durability,
    ) -> Result<Vec<RunReceipt>> {
        self.record_as(session, entries, durability, IfUnsure::Tell)
    }

    fn record_as(
        &self,
        session: &SessionKey,
        entries: &[NewEntry],
        durability: Durability,
        if_unsure: IfUnsure,
    ) -> Result<Vec<RunReceipt>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        if entries.iter().any(NewEntry::may_be_recorded) {
            return self.record_known(session, entries, durability, if_unsure);
        }
        let ids: Vec<String> = entries.iter().map(run_id_of).collect();
        let bodies: Vec<Body> = entries.iter().zip(&ids).map(|(entry, id)| entry.body(id, session)).collect();
        let receipts = self.append(session, &bodies, durability)?;
        let recorded = |((run_id, receipt), entry): ((String, Receipt), &NewEntry)| {
            let ended = entry.kind == RunEntryKind::Run;
            RunReceipt { run_id, receipt, repeated: false, ended }
        };
        Ok(ids.into_iter().zip(receipts).zip(entries).map(recorded).collect())
    }

    fn record_known(
        &self,
        session: &SessionKey,
        entries: &[NewEntry],
        durability: Durability,
        if_unsure: IfUnsure,
    ) -> Result<Vec<RunReceipt>> {
        let mut writer = self.lease(session)?;
        for _ in 0..TRIES {
            // Taken before the search: whatever another program writes from here on is a conflict.
            let next = writer.next_seq();
            let mut plan = Plan::make(&mut *writer, session, entries, if_unsure)?;
            plan.keep(&mut *writer)?;
            let options = AppendOptions { expect: Expect::Seq(next), ..AppendOptions::new(durability) };
            let appended =
                if plan.bodies.is_empty() { Ok(Vec::new()) } else { writer.append(&plan.bodies, &options) };
            match appended {
                // Another program wrote without the lease, and may have written one of these.
                Err(e) if e.is_conflict() => {}
                Err(e) => return Err(e.into()),
                Ok(receipts) => return plan.receipts(session, &receipts, writer.id(), durability),
            }
        }
        Err(Error::RunsChange(session.to_string()))
    }
}

impl NewEntry {
    /// Returns an error if the entry is too large to be recorded.
    pub fn check_size(&self, session: &SessionKey) -> Result<()> {
        // The longest id that it can get.
        let id = if self.run_id.is_empty() { LONGEST_ID } else { &self.run_id };
        Ok(self.body(id, session).check_size()?)
    }
}

/// The choice for an entry that is in another program's file already, where nobody can make sure of it without writing
/// it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfUnsure {
    /// Give a receipt that says so.
    Tell,
    /// Append it once more: of several the first counts, and if that is lost, the next.
    WriteAgain,
}

/// The fate of each entry, and the records to be written for that.
struct Plan {
    bodies: Vec<Body>,
    fates: Vec<Fate>,
}

struct Fate {
    run_id: String,
    kind: RunEntryKind,
    repeated: bool,
    at: At,
}

enum At {
    /// The record is in the log already.
    Found(KeyedLine),
    /// The record is among those to be written, at this place.
    Written(usize),
}

impl Plan {
    fn make(
        writer: &mut dyn StreamWriter,
        session: &SessionKey,
        entries: &[NewEntry],
        if_unsure: IfUnsure,
    ) -> Result<Plan> {
        let mut plan = Plan { bodies: Vec::new(), fates: Vec::with_capacity(entries.len()) };
        let write_again = if_unsure == IfUnsure::WriteAgain && writer.id().is_empty();
        // The entries further up in the same batch.
        let mut fresh: HashMap<LineKey, (usize, String, RunEntryKind)> = HashMap::new();
        for entry in entries {
            let names: Vec<LineKey> = LineKey::same_as(entry).collect();
            if let Some((nth, run_id, kind)) = names.iter().find_map(|name| fresh.get(name)).cloned() {
                plan.fates.push(Fate { run_id, kind, repeated: true, at: At::Written(nth) });
                continue;
            }
            let mut begun = None;
            if let Some(line) = LineKey::find_any(writer, &names)? {
                let (kind, run_id) = run_of(&line);
                if line.is_kept || kind != entry.kind || !write_again {
                    plan.fates.push(Fate { run_id, kind, repeated: true, at: At::Found(line) });
                    continue;
                }
                begun = Some(run_id);
            }
            let repeated = begun.is_some();
            if let Some(name) = LineKey::beginning_of(entry).filter(|_| !repeated) {
                begun = match fresh.get(&name) {
                    Some((_, run_id, _)) => Some(run_id.clone()),
                    None => name.find(writer, Occurrence::First)?.map(|line| run_of(&line).1),
                };
            }
            let run_id = begun.filter(|id| !id.is_empty()).unwrap_or_else(|| run_id_of(entry));
            let (nth, kind) = (plan.bodies.len(), entry.kind);
            plan.bodies.push(entry.body(&run_id, session));
            for name in LineKey::all_of(kind, &run_id, &entry.idempotency_key) {
                fresh.entry(name).or_insert((nth, run_id.clone(), kind));
            }
            plan.fates.push(Fate { run_id, kind, repeated, at: At::Written(nth) });
        }
        Ok(plan)
    }

    /// Makes the entries that are there already survive power loss, where that is possible.
    fn keep(&mut self, writer: &mut dyn StreamWriter) -> Result<()> {
        let found = self.fates.iter_mut().filter_map(|fate| match &mut fate.at {
            At::Found(line) => Some(line).filter(|line| !line.is_kept),
            At::Written(_) => None,
        });
        let unsure: Vec<&mut KeyedLine> = found.collect();
        let Some(first) = unsure.iter().map(|line| line.offset).min() else { return Ok(()) };
        match writer.keep_from(Position::new(first)) {
            // Their receipts say `Durability::Flush`.
            Err(e) if e.is_unknown() && writer.id().is_empty() => Ok(()),
            kept => Ok(kept.map(|()| unsure.into_iter().for_each(|line| line.is_kept = true))?),
        }
    }

    fn receipts(
        self,
        session: &SessionKey,
        written: &[Receipt],
        id: &Arc<str>,
        durability: Durability,
    ) -> Result<Vec<RunReceipt>> {
        let recorded = |Fate { run_id, kind, repeated, at }: Fate| {
            let receipt = match at {
                At::Found(KeyedLine { seq, offset, is_kept, .. }) => {
                    let durability = if is_kept { durability } else { Durability::Flush };
                    Receipt { id: id.clone(), seq, position: Position::new(offset), durability }
                }
                At::Written(nth) => written.get(nth).cloned().ok_or_else(|| no_receipt(session))?,
            };
            Ok(RunReceipt { run_id, receipt, repeated, ended: kind == RunEntryKind::Run })
        };
        self.fates.into_iter().map(recorded).collect()
    }
}

/// Returns whether a line begins or ends a run, and the id of that.
fn run_of(line: &KeyedLine) -> (RunEntryKind, String) {
    match RunRecord::of_bytes(line.seq, &line.bytes) {
        Some(RunRecord::Start(run)) => (RunEntryKind::Start, run.run_id.into_owned()),
        entry => (RunEntryKind::Run, entry.and_then(RunRecord::run).unwrap_or_default().run_id.into_owned()),
    }
}

/// Returns the id of the entry, or a new one.
fn run_id_of(entry: &NewEntry) -> String {
    if entry.run_id.is_empty() { uuid::Uuid::now_v7().to_string() } else { entry.run_id.clone() }
}

fn no_receipt(session: &SessionKey) -> Error {
    manent_store::Error::Backend(format!("the backend gave no receipt for a run of {session:?}").into())
        .into()
}

/// A placeholder with the length of an id of ours.
const LONGEST_ID: &str = "00000000-0000-0000-0000-000000000000";
/// The number of times that another program may write between our search and our append.
pub(super) const TRIES: u32 = 8;
/// The end of the names of locks on runs. No log has such a name.
const MARK: &str = ".running";
const HASH_DIGITS: usize = 32;
