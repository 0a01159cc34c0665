//! Which entries a log holds already: by the ids and keys under which somebody may record them again. And which verdict
//! was the last on an attempt.
//!
//! The log is read once, by whoever first records such an entry; from then on only what was added is read. It is done
//! under the lease of the log, so that between looking and appending nobody else appends.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use foldhash::quality::FixedState;
use manent_log::Item;
use manent_store::sync::lock;

use super::entry::Line;
use super::incoming::{Kind, NewEntry};
use super::logs::RunLogs;
use super::verdict::Verdict;
use crate::error::Result;
use manent_store::{Position, Seek, SessionKey, StreamWriter};

/// What is known of the logs of a store.
#[derive(Debug, Default)]
pub(super) struct KeyCache(Mutex<HashMap<SessionKey, Arc<Mutex<Keys>>>>);

impl KeyCache {
    /// What is known of the log of a session.
    pub(super) fn of(&self, session: &SessionKey) -> Arc<Mutex<Keys>> {
        let mut all = lock(&self.0);
        if let Some(keys) = all.get(session) {
            return keys.clone();
        }
        // One that somebody uses just now is as large as it is.
        let known = |keys: &Arc<Mutex<Keys>>| keys.try_lock().map_or(0, |keys| keys.len());
        if all.values().map(known).sum::<usize>() > NAMES_MAX || all.len() > LOGS_MAX {
            all.clear();
        }
        let keys = Arc::<Mutex<Keys>>::default();
        all.insert(session.clone(), keys.clone());
        keys
    }
}

/// What is known of one log.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The id of the log, so that another one of the same name is not taken for it.
    id: Arc<str>,
    /// Where what is known by such a name stands.
    places: HashMap<Name, (u64, Position)>,
    /// The last record that was read.
    last: Option<Last>,
    /// Records with these numbers survive power loss: this process saw to it.
    kept: Vec<Range<u64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    seq: u64,
    position: Position,
    hash: u64,
}

/// An id or a key, and in what sense: half a hash, so that no two are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name([u8; 16]);

/// An entry that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) seq: u64,
    pub(super) position: Position,
    pub(super) run_id: String,
    pub(super) kind: Kind,
}

impl Name {
    fn new(sense: u8, text: &str) -> Option<Name> {
        (!text.is_empty()).then(|| Name::hashed(sense, text))
    }

    fn hashed(sense: u8, text: &str) -> Name {
        let hash = blake3::Hasher::new().update(&[sense]).update(text.as_bytes()).finalize();
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        Name(half)
    }

    /// Under what an entry is known from now on.
    pub(super) fn all_of(kind: Kind, run_id: &str, key: &str) -> impl Iterator<Item = Name> + use<> {
        let (id, by_key) = match kind {
            Kind::Start => (STARTED, STARTED_BY_KEY),
            Kind::Run => (ENDED, ENDED_BY_KEY),
        };
        [Name::new(id, run_id), Name::new(by_key, key)].into_iter().flatten()
    }

    /// Under what a run is known that has this id: its end, or else its beginning.
    pub(super) fn of_run(run_id: &str) -> Vec<Name> {
        [ENDED, STARTED].into_iter().filter_map(|sense| Name::new(sense, run_id)).collect()
    }

    /// Under what the last verdict on an attempt is known.
    pub(super) fn of_verdict(verdict: &Verdict<'_>) -> Name {
        Name::verdict(&verdict.run_id, verdict.run_seq, verdict.attempt)
    }

    /// As [`Name::of_verdict`], of a run that is known by its id, or by the number of its record.
    pub(super) fn verdict(run_id: &str, run_seq: Option<u64>, attempt: Option<u64>) -> Name {
        let attempt = attempt.map_or_else(String::new, |number| number.to_string());
        match run_seq {
            None => Name::hashed(VERDICT, &format!("{attempt}:{run_id}")),
            Some(seq) => Name::hashed(VERDICT_BY_SEQ, &format!("{attempt}:{seq}")),
        }
    }

    /// What makes an entry one that was recorded before. The end of a run is its beginning too.
    pub(super) fn same_as(entry: &NewEntry) -> impl Iterator<Item = Name> + use<> {
        let id = if entry.id_is_given { entry.run_id.as_str() } else { "" };
        let key = entry.idempotency_key.as_str();
        let end = [Name::new(ENDED, id), Name::new(ENDED_BY_KEY, key)];
        let start = match entry.kind {
            Kind::Start => [Name::new(STARTED, id), Name::new(STARTED_BY_KEY, key)],
            Kind::Run => [None, None],
        };
        end.into_iter().chain(start).flatten()
    }

    /// The beginning of the run that an entry ends, where only its key tells.
    pub(super) fn beginning_of(entry: &NewEntry) -> Option<Name> {
        let is_end = entry.kind == Kind::Run && entry.run_id.is_empty();
        is_end.then(|| Name::new(STARTED_BY_KEY, &entry.idempotency_key)).flatten()
    }
}

impl Keys {
    /// Takes what is known of a log. What a panic left of it is forgotten: a record that was read and not noted
    /// would be recorded twice.
    pub(super) fn lock(shared: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
        shared.lock().unwrap_or_else(|poisoned| {
            let mut keys = poisoned.into_inner();
            *keys = Keys::default();
            shared.clear_poison();
            keys
        })
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Reads a log of which nothing is known yet while nobody holds it: a long one takes its time, and others record to
    /// it. What is added meanwhile is read under its lease.
    pub(super) fn read_ahead(&mut self, logs: &RunLogs, key: &SessionKey) -> Result<()> {
        let listed = if self.last.is_none() { logs.stat(key)? } else { None };
        if let Some(listed) = listed {
            self.id = listed.id.id.into();
            self.read(logs, key, Seek::First, None)?;
        }
        Ok(())
    }

    /// Reads what was added since last time; or everything, if it is another log, or not what it was.
    pub(super) fn catch_up(
        &mut self,
        logs: &RunLogs,
        key: &SessionKey,
        held: &dyn StreamWriter,
    ) -> Result<()> {
        let known = if *self.id == **held.id() { self.last } else { None };
        if let Some(last) = known
            && self.read(logs, key, Seek::Position { position: last.position, seq: last.seq }, Some(last))?
        {
            return Ok(());
        }
        self.read_all(logs, key, held)
    }

    fn read_all(&mut self, logs: &RunLogs, key: &SessionKey, held: &dyn StreamWriter) -> Result<()> {
        *self = Keys { id: held.id().clone(), ..Keys::default() };
        self.read(logs, key, Seek::First, None)?;
        Ok(())
    }

    /// False: what should come first is not there.
    fn read(
        &mut self,
        logs: &RunLogs,
        key: &SessionKey,
        start: Seek<'_>,
        mut first: Option<Last>,
    ) -> Result<bool> {
        let mut reader = logs.open(key, start)?;
        while reader.advance()? {
            let Some(Item::Entry(entry)) = reader.item() else {
                if first.is_some() {
                    return Ok(false);
                }
                continue;
            };
            let now = Last {
                seq: entry.seq,
                position: Position::new(entry.offset),
                hash: FixedState::default().hash_one(entry.bytes),
            };
            if let Some(first) = first.take() {
                if first != now {
                    return Ok(false);
                }
                continue;
            }
            self.last = Some(now);
            let line = Line::of_bytes(entry.seq, entry.bytes);
            let place = (now.seq, now.position);
            match line {
                None => {}
                Some(Line::Start(run)) => self.note(Kind::Start, &run.run_id, &run.idempotency_key, place),
                Some(Line::Run(run)) => self.note(Kind::Run, &run.run_id, &run.idempotency_key, place),
                // The last counts.
                Some(Line::Verdict(verdict)) => drop(self.places.insert(Name::of_verdict(&verdict), place)),
            }
        }
        Ok(first.is_none())
    }

    fn note(&mut self, kind: Kind, run_id: &str, key: &str, place: (u64, Position)) {
        for name in Name::all_of(kind, run_id, key) {
            // The first counts.
            self.places.entry(name).or_insert(place);
        }
    }

    /// Where what has this name stood when it was read.
    pub(super) fn place_of(&self, name: Name) -> Option<(u64, Position)> {
        self.places.get(&name).copied()
    }

    /// What is known is not so any more: all of it is read next time.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// The entry that is known by one of these names. What only seems to be there is not.
    pub(super) fn find(
        &mut self,
        logs: &RunLogs,
        key: &SessionKey,
        held: &dyn StreamWriter,
        names: &[Name],
    ) -> Result<Option<Known>> {
        for look_again in [true, false] {
            let mut is_stale = false;
            for name in names.iter().copied() {
                let Some((seq, position)) = self.places.get(&name).copied() else { continue };
                match at(logs, key, seq, position, name)? {
                    Some(known) => return Ok(Some(known)),
                    None => is_stale = true,
                }
            }
            if !is_stale {
                return Ok(None);
            }
            // Another program rewrote its file.
            if look_again {
                self.read_all(logs, key, held)?;
            }
        }
        Ok(None)
    }

    /// Makes sure that records which are there survive power loss, whoever wrote them and whatever became of earlier
    /// syncs: they are written again, unless this process saw to it before.
    pub(super) fn keep(&mut self, held: &mut dyn StreamWriter, records: &[(u64, Position)]) -> Result<()> {
        let unsure = records.iter().filter(|(seq, _)| !self.is_kept(*seq));
        let Some((seq, position)) = unsure.min_by_key(|(_, position)| position.raw()).copied() else {
            return Ok(());
        };
        held.keep_from(position)?;
        self.kept(seq..held.next_seq());
        Ok(())
    }

    /// Whether this process saw to it that a record survives power loss.
    pub(super) fn is_kept(&self, seq: u64) -> bool {
        self.kept.iter().any(|range| range.contains(&seq))
    }

    /// Records with these numbers survive power loss.
    pub(super) fn kept(&mut self, seqs: Range<u64>) {
        if let Some(last) = self.kept.last_mut().filter(|last| (last.start..=last.end).contains(&seqs.start))
        {
            last.end = last.end.max(seqs.end);
            return;
        }
        if self.kept.len() >= RANGES_MAX {
            self.kept.clear();
        }
        self.kept.push(seqs);
    }
}

/// The entry at a place, if it is known by that name.
fn at(logs: &RunLogs, key: &SessionKey, seq: u64, position: Position, name: Name) -> Result<Option<Known>> {
    let mut reader = logs.open(key, Seek::Position { position, seq })?;
    if !reader.advance()? {
        return Ok(None);
    }
    let Some(Item::Entry(entry)) = reader.item() else { return Ok(None) };
    let line = Line::of_bytes(entry.seq, entry.bytes);
    let (kind, run) = match line {
        Some(Line::Start(run)) => (Kind::Start, run),
        Some(Line::Run(run)) => (Kind::Run, run),
        Some(Line::Verdict(_)) | None => return Ok(None),
    };
    let mut names = Name::all_of(kind, &run.run_id, &run.idempotency_key);
    let is_it = entry.seq == seq && entry.offset == position.raw() && names.any(|n| n == name);
    Ok(is_it.then(|| Known { seq, position, run_id: run.run_id.into_owned(), kind }))
}

/// What is kept of logs that nobody records to just now: some 60 MB.
const NAMES_MAX: usize = 1_000_000;
const LOGS_MAX: usize = 1000;
/// What is not remembered is made sure of again.
const RANGES_MAX: usize = 1000;
const STARTED: u8 = b's';
const STARTED_BY_KEY: u8 = b't';
const ENDED: u8 = b'r';
const ENDED_BY_KEY: u8 = b'k';
const VERDICT: u8 = b'v';
const VERDICT_BY_SEQ: u8 = b'w';
