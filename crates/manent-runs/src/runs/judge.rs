//! Giving a verdict on a run afterwards.
//!
//! The run is looked for under the lease of its log, as an entry is that may be there already, and so is the last
//! verdict on it: the very same one is not written twice.

use manent_log::{Body, Durability, Expect, KeyedLine, Occurrence};
use manent_store::{AppendOptions, Position, Receipt, SessionKey, StreamWriter, clock};
use serde_json::Value;

use super::Runs;
use super::entry::{Run, RunRecord};
use super::keys::LineKey;
use super::new_entry::{add_json, add_number, add_text};
use crate::error::{Error, Result};

/// Names a run of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunName {
    /// The id of the run.
    Id(String),
    /// The number of its record, for runs of other programs, which have no id. The id is used if the run has one.
    Seq(u64),
}

/// A verdict that is to be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVerdict {
    /// The run that is judged.
    pub run: RunName,
    /// The number of the attempt; `None` for the last one, or for a run that has none.
    pub attempt: Option<u64>,
    /// The verdict: good or bad. `None` takes back an earlier one.
    pub verified: Option<bool>,
    /// A remark on the verdict; may be empty.
    pub note: String,
}

/// A verdict that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictReceipt {
    /// The id of the run; empty if it has none.
    pub run_id: String,
    /// The number of the run's own record.
    pub run_seq: u64,
    /// The number of the attempt; `None` if the run has none.
    pub attempt: Option<u64>,
    /// Proof that it is kept; `None` if a verdict was to be taken back and there is none.
    pub receipt: Option<Receipt>,
    /// True if the last verdict on it says the same: the receipt is that of then.
    pub repeated: bool,
}

/// The attempt that a verdict is on.
struct VerdictTarget {
    /// The receipt for the verdict, to be filled in.
    judged: VerdictReceipt,
    /// True for the last attempt of the run.
    is_last: bool,
}

impl Runs {
    /// Says of a run, when it is over, whether it was good; the last verdict on an attempt counts. When it returns, the
    /// verdict survives power loss. One that says the same as the last one is not written again.
    ///
    /// A run that was begun and never ended has an outcome from then on. Should it end all the same, the verdict is one
    /// on its last attempt.
    pub fn judge(&self, session: &SessionKey, verdict: &NewVerdict) -> Result<VerdictReceipt> {
        if self.log(session)?.is_none() {
            return Err(no_run(session, &verdict.run));
        }
        let mut writer = self.lease(session)?;
        for _ in 0..super::record::TRIES {
            // Taken before the search: whatever another program writes from here on is a conflict.
            let next = writer.next_seq();
            let mut target = VerdictTarget::find(self, session, &mut *writer, verdict)?;
            match target.last_verdict(&mut *writer)? {
                Some(last) if says_the_same(&last, verdict) => {
                    let (id, seq, position) = (writer.id().clone(), last.seq, Position::new(last.offset));
                    if !last.is_kept {
                        writer.keep_from(position)?;
                    }
                    target.judged.repeated = true;
                    target.judged.receipt = Some(Receipt { id, seq, position, durability: Durability::Sync });
                    return Ok(target.judged);
                }
                None if verdict.verified.is_none() => {
                    target.judged.repeated = true;
                    return Ok(target.judged);
                }
                None | Some(_) => {}
            }
            let options = AppendOptions { expect: Expect::Seq(next), ..AppendOptions::new(Durability::Sync) };
            match writer.append(&[target.body(verdict)], &options) {
                // Another program wrote without the lease, and may have written such a verdict.
                Err(e) if e.is_conflict() => {}
                Err(e) => return Err(e.into()),
                Ok(receipts) => {
                    target.judged.receipt = receipts.into_iter().next();
                    return Ok(target.judged);
                }
            }
        }
        Err(Error::RunsChange(session.to_string()))
    }
}

impl VerdictTarget {
    fn find(
        runs: &Runs,
        session: &SessionKey,
        writer: &mut dyn StreamWriter,
        verdict: &NewVerdict,
    ) -> Result<VerdictTarget> {
        let unknown = || no_run(session, &verdict.run);
        let id = match &verdict.run {
            RunName::Id(id) => id.clone(),
            RunName::Seq(seq) => {
                let take = |line: RunRecord<'_>| {
                    let run = line.run()?;
                    Some((run.run_id.to_string(), VerdictTarget::of(&run, session, verdict)))
                };
                let (id, target) = runs.record_at(session, *seq, take)?.ok_or_else(unknown)?;
                if id.is_empty() {
                    return target;
                }
                // The record may be the start of the run, its end, or a repeated end: find the one that counts.
                id
            }
        };
        let found = LineKey::find_any(writer, &LineKey::of_run(&id))?.ok_or_else(unknown)?;
        let run =
            RunRecord::of_bytes(found.seq, &found.bytes).and_then(RunRecord::run).ok_or_else(unknown)?;
        VerdictTarget::of(&run, session, verdict)
    }

    fn of(run: &Run<'_>, session: &SessionKey, verdict: &NewVerdict) -> Result<VerdictTarget> {
        let last = run.last_attempt();
        let has_wanted = (0..run.attempts.len()).any(|nth| Some(run.number_of(nth)) == verdict.attempt);
        if let Some(attempt) = verdict.attempt.filter(|_| !has_wanted) {
            let run = name_of(&verdict.run);
            return Err(Error::NoAttempt { session: session.to_string(), run, attempt, last });
        }
        let attempt = verdict.attempt.or(last);
        let (run_id, run_seq) = (run.run_id.to_string(), run.seq);
        let judged = VerdictReceipt { run_id, run_seq, attempt, receipt: None, repeated: false };
        Ok(VerdictTarget { judged, is_last: attempt == last })
    }

    /// Returns the last verdict on the attempt, given by its number or on the last attempt. The position in the log
    /// decides: the numbers of records are no order in a file that was put together by hand.
    fn last_verdict(&self, writer: &mut dyn StreamWriter) -> Result<Option<KeyedLine>> {
        let VerdictReceipt { run_id, run_seq, attempt, .. } = &self.judged;
        let seq = Some(*run_seq).filter(|_| run_id.is_empty());
        let mut last: Option<KeyedLine> = None;
        for attempt in attempt.map(Some).into_iter().chain(self.is_last.then_some(None)) {
            let found = LineKey::verdict(run_id, seq, attempt).find(writer, Occurrence::Last)?;
            last = last.into_iter().chain(found).max_by_key(|line| line.offset);
        }
        Ok(last)
    }

    fn body(&self, verdict: &NewVerdict) -> Body {
        let mut body = Body::new();
        body.string("kind", "run-verdict");
        if self.judged.run_id.is_empty() {
            body.number("run_seq", self.judged.run_seq);
        } else {
            body.string("run_id", &self.judged.run_id);
        }
        body.string("timestamp", &clock::now());
        add_number(&mut body, "attempt", verdict.attempt);
        add_json(&mut body, "verified", &Value::from(verdict.verified).to_string());
        add_text(&mut body, "note", &verdict.note);
        body
    }
}

/// Returns whether a record is a verdict in the same words.
fn says_the_same(record: &KeyedLine, new: &NewVerdict) -> bool {
    let line = RunRecord::of_bytes(record.seq, &record.bytes);
    matches!(line, Some(RunRecord::Verdict(old)) if old.verified == new.verified && old.note == new.note)
}

fn no_run(session: &SessionKey, run: &RunName) -> Error {
    Error::NoRun { session: session.to_string(), run: name_of(run) }
}

fn name_of(run: &RunName) -> String {
    match run {
        RunName::Id(id) => id.clone(),
        RunName::Seq(seq) => seq.to_string(),
    }
}
