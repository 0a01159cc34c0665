//! Verdicts that were given on runs afterwards: parsing their lines, and applying them to runs.
//!
//! A verdict stands behind its run, and runs are read as streams, from the first to the last. So before a log is read,
//! its bytes are looked through for the word; most logs have none of them, and that costs next to nothing. Only where
//! it stands is the log read once more than it would be, for the verdicts alone: a few numbers are kept of each, and
//! what was said with those that are bad, as far as that is little.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::Arc;

use foldhash::quality::RandomState;
use manent::redact;
use manent_store::{Seek, SessionKey, Space, StreamId};
use memchr::memmem::Finder;

use super::entry::{Members, Run, RunRecord, Status, text, time};
use super::{LogFaults, Runs};
use crate::error::Result;

/// A verdict on an attempt of a run, as its line tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The number of its record.
    pub seq: u64,
    /// The run; empty for one that has no id.
    pub run_id: Cow<'a, str>,
    /// The number of the run's own record, where it has no id.
    pub run_seq: Option<u64>,
    /// The number of the attempt; `None` for the last one.
    pub attempt: Option<u64>,
    /// The verdict: good or bad. `None` takes back an earlier one.
    pub verified: Option<bool>,
    /// The remark that was made with it.
    pub note: Cow<'a, str>,
    /// The time as it is written.
    pub timestamp: Cow<'a, str>,
    /// The same in milliseconds since 1970; `None` if it is not a valid time.
    pub at_ms: Option<i64>,
}

/// The record of a verdict that was given after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerdictRef {
    /// The number of its record: [`Runs::verdict`] tells all of it.
    pub seq: u64,
    /// The time of the verdict in milliseconds since 1970; `None` if it is not a valid time.
    pub at_ms: Option<i64>,
}

impl Verdict<'_> {
    /// The JSON of its kind, which tells it from everything else. It is searched for in bytes, so one that is written
    /// otherwise (`run\u002dverdict`) is not a verdict.
    pub(super) const KIND: &'static str = r#""run-verdict""#;

    pub(super) fn into_owned(self) -> Verdict<'static> {
        Verdict {
            run_id: self.run_id.into_owned().into(),
            note: self.note.into_owned().into(),
            timestamp: self.timestamp.into_owned().into(),
            ..self
        }
    }
}

impl<'a> Members<'a> {
    /// Parses a verdict. `None` if the line does not name a run, or gives no verdict.
    pub(super) fn verdict(&self, seq: u64) -> Option<Verdict<'a>> {
        let value = |name: &str| self.get(name).filter(|json| *json != "null");
        let string =
            |name: &str| value(name).filter(|json| json.starts_with('"')).map(text).unwrap_or_default();
        let run_id = string("run_id");
        let number = |name: &str| value(name).map(str::parse::<u64>).transpose().ok();
        let run_seq = number("run_seq")?.filter(|_| run_id.is_empty());
        let attempt = number("attempt")?;
        let verified = match self.get("verified")? {
            "true" => Some(true),
            "false" => Some(false),
            "null" => None,
            _ => return None,
        };
        if (run_id.is_empty() && run_seq.is_none()) || attempt == Some(0) {
            return None;
        }
        let timestamp = string("timestamp");
        let at_ms = time(&timestamp);
        Some(Verdict { seq, run_id, run_seq, attempt, verified, note: string("note"), timestamp, at_ms })
    }
}

impl Run<'_> {
    /// Returns the number by which an attempt is named: its own, or else its place, from 1 on.
    pub fn number_of(&self, nth: usize) -> u64 {
        self.attempts.get(nth).and_then(|attempt| attempt.attempt).unwrap_or(nth as u64 + 1)
    }

    /// Returns the number of the last attempt: the highest, in whatever order they stand. `None` if there is none.
    pub fn last_attempt(&self) -> Option<u64> {
        (0..self.attempts.len()).map(|nth| self.number_of(nth)).max()
    }
}

impl Runs {
    /// Returns the verdict with this record number, or `None` if that record is no verdict or does not exist.
    pub fn verdict(&self, session: &SessionKey, seq: u64) -> Result<Option<Verdict<'static>>> {
        self.record_at(session, seq, |line| match line {
            RunRecord::Verdict(verdict) => Some(verdict.into_owned()),
            RunRecord::Run(_) | RunRecord::Start(_) => None,
        })
    }

    /// Returns all verdicts that a log holds now. One that comes while it is read counts, or does not.
    pub(super) fn verdicts(&self, session: &SessionKey) -> Result<Verdicts> {
        let mut verdicts = Verdicts::default();
        let id = StreamId::live_in(Space::Runs, session);
        if !self.store.streams().may_contain(&id, Verdict::KIND.as_bytes())? {
            return Ok(verdicts);
        }
        let word = Finder::new(Verdict::KIND);
        let mut nth = 0;
        self.lines(session, Seek::First, &mut LogFaults::default(), |seq, line| {
            if word.find(line).is_some()
                && let Some(RunRecord::Verdict(verdict)) = RunRecord::of_bytes(seq, line)
            {
                nth += 1;
                verdicts.note(&verdict, nth);
            }
            ControlFlow::Continue(())
        })?;
        Ok(verdicts)
    }
}

/// The verdicts of a log.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    hasher: RandomState,
    /// The last verdict on each run and attempt, by a hash of both.
    last: HashMap<u64, LatestVerdict, foldhash::fast::RandomState>,
    /// The notes of bad verdicts, each once, by its hash.
    notes: HashMap<u64, Arc<str>, foldhash::fast::RandomState>,
}

#[derive(Debug)]
struct LatestVerdict {
    verified: Option<bool>,
    judgement: VerdictRef,
    /// The number of verdicts before it. Record numbers are no order in a file that was put together by hand.
    nth: u64,
    note: Option<Arc<str>>,
}

/// The name by which a run is found.
#[derive(Debug, Clone, Copy, Hash)]
enum Name<'a> {
    Id(&'a str),
    Seq(u64),
}

impl Verdicts {
    fn note(&mut self, verdict: &Verdict<'_>, nth: u64) {
        let name = self.hasher.hash_one(verdict.run_seq.map_or(Name::Id(&verdict.run_id), Name::Seq));
        let hash = self.hasher.hash_one((name, verdict.attempt));
        let judgement = VerdictRef { seq: verdict.seq, at_ms: verdict.at_ms };
        let note = if verdict.verified == Some(false) { self.shared_note(&verdict.note) } else { None };
        self.last.insert(hash, LatestVerdict { verified: verdict.verified, judgement, nth, note });
    }

    /// Returns the first line of a note, shared by all verdicts that have it. `None` if it is empty, or there are
    /// [`NOTES_MAX`] others.
    fn shared_note(&mut self, note: &str) -> Option<Arc<str>> {
        let line = note.trim().lines().next()?.trim_end();
        let line = &line[..line.floor_char_boundary(NOTE_BYTES_LOOKED_AT)];
        let hash = self.hasher.hash_one(line);
        if let Some(shared) = self.notes.get(&hash) {
            return Some(Arc::clone(shared));
        }
        if self.notes.len() >= NOTES_MAX {
            return None;
        }
        // Redacted before it is cut: the beginning of a credential is not recognised.
        let line = redact(line);
        let note: Arc<str> = line[..line.floor_char_boundary(NOTE_BYTES)].into();
        self.notes.insert(hash, Arc::clone(&note));
        Some(note)
    }

    /// Replaces the outcome of a run, and of its attempts, by the verdicts on them.
    pub(super) fn apply(&self, run: &mut Run<'_>) {
        if self.last.is_empty() {
            return;
        }
        let last = run.last_attempt();
        // Once: there may be millions of attempts, and an id of megabytes.
        let name = self.hasher.hash_one(match &*run.run_id {
            "" => Name::Seq(run.seq),
            id => Name::Id(id),
        });
        let on_last = self.on(name, None);
        let mut of_run = on_last.filter(|_| last.is_none());
        for nth in 0..run.attempts.len() {
            let number = run.number_of(nth);
            let is_last = Some(number) == last;
            let by_number = self.on(name, Some(number));
            // Of a verdict by number and a verdict on the last attempt, the later counts.
            let both = by_number.into_iter().chain(on_last.filter(|_| is_last));
            let Some(latest) = both.max_by_key(|verdict| verdict.nth) else { continue };
            if latest.verified.is_some() {
                let attempt = &mut run.attempts[nth];
                (attempt.verified, attempt.judged) = (latest.verified, Some(latest.judgement));
            }
            of_run = of_run.or(Some(latest).filter(|_| is_last));
        }
        if let Some(LatestVerdict { verified: Some(is_good), judgement, note, .. }) = of_run {
            run.status = if *is_good { Status::Success } else { Status::Failure };
            run.judged = Some(*judgement);
            run.judged_note = note.as_ref().map_or_else(Cow::default, |note| Cow::Owned(note.to_string()));
        }
    }

    fn on(&self, name: u64, attempt: Option<u64>) -> Option<&LatestVerdict> {
        self.last.get(&self.hasher.hash_one((name, attempt)))
    }
}

/// The most different notes of a log, and the most bytes of each.
const NOTES_MAX: usize = 4096;
const NOTE_BYTES: usize = 240;
const NOTE_BYTES_LOOKED_AT: usize = 1 << 10;
