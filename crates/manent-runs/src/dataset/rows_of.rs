//! From lines to rows: what one thread does with a batch.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use manent_store::sync::lock;
use manent_store::{Seek, SessionKey};

use super::crew::{Batch, Crew, End, Job, Log, Offered};
use super::draft::{Draft, Origin, drafts, is_wanted, project_of};
use super::gather::{Gathered, Pending};
use super::quote::Quotes;
use super::row::Worker;
use super::split::Kind;
use super::{DatasetError, DatasetResult, Recipe, SkipReason};
use crate::runs::{Faults, Known, Namer, Names, Run, RunRecord, Runs, Status, start_at};

/// What came of a batch. Rows are in the spool already; whether they count is known when its turn comes.
#[derive(Debug, Default)]
pub(super) struct Finished {
    pub(super) runs: Vec<Met>,
    /// In the order of the runs.
    pub(super) rows: Vec<Pending>,
    /// Of which run, why, and how many attempts.
    pub(super) left_out: Vec<(u32, SkipReason, u64)>,
    /// Lines that are no runs.
    pub(super) others: u64,
}

/// A run that was met.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) names: Names,
    pub(super) seq: u64,
    pub(super) is_start: bool,
    pub(super) attempts: u64,
    pub(super) at_ms: Option<i64>,
}

/// What all threads share.
#[derive(Debug)]
pub(super) struct Desk<'a> {
    pub(super) runs: &'a Runs,
    pub(super) recipe: &'a Recipe,
    /// Of each log: the session, and its node among the groups.
    pub(super) sources: &'a [(SessionKey, u32)],
    /// Sessions that are in the trash, and of which there is no other.
    pub(super) deleted: &'a HashSet<String>,
    pub(super) namer: Namer,
    pub(super) gathered: Mutex<Gathered>,
}

/// One thread, with what it keeps from batch to batch.
#[derive(Debug)]
pub(super) struct Hand<'a> {
    desk: &'a Desk<'a>,
    crew: &'a Crew,
    quotes: Quotes<'a>,
    worker: Worker,
    /// The log it worked on last.
    last: u32,
}

impl<'a> Hand<'a> {
    pub(super) fn new(desk: &'a Desk<'a>, crew: &'a Crew, quotes: Quotes<'a>) -> Hand<'a> {
        Hand { desk, crew, quotes, worker: Worker::default(), last: 0 }
    }

    /// Works until there is nothing left to do.
    pub(super) fn work(mut self) {
        let crew = self.crew;
        let _guard = StopIfDying(crew);
        while let Some(job) = crew.next(self.last) {
            let done = match job {
                Job::Read(source) => self.read(source),
                Job::Make(batch) => self.make(&batch),
            };
            if let Err(why) = done {
                crew.stop(Some(why));
            }
        }
    }

    fn read(&mut self, source: usize) -> DatasetResult<()> {
        let desk = self.desk;
        let key = &desk.sources[source].0;
        let log = Log::new(source as u32, desk.runs.verdicts(key)?);
        let mut batch = Batch::first(&log);
        let (mut faults, mut failed) = (Faults::default(), None);
        let whole = desk.runs.lines(key, Seek::First, &mut faults, |seq, line| {
            batch.push(seq, line);
            if batch.is_full() {
                failed = self.hand_on(batch.turn_over()).err();
            }
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(why) = failed {
            return Err(why);
        }
        if whole {
            batch.end = Some(End { in_order: faults.damage.is_empty() });
            lock(&desk.gathered).counts.unreadable += faults.damage.len() as u64;
            self.hand_on(batch)?;
        }
        self.crew.has_read();
        Ok(())
    }

    fn hand_on(&mut self, mut batch: Batch) -> DatasetResult<()> {
        loop {
            match self.crew.offer(batch) {
                Offered::Taken => return Ok(()),
                Offered::First(first, then) => {
                    self.make(&first)?;
                    batch = then;
                }
                Offered::Over => return Err(DatasetError::Died),
            }
        }
    }

    /// Makes rows of a batch, and has those counted whose turn it is.
    fn make(&mut self, batch: &Batch) -> DatasetResult<()> {
        self.last = batch.log.source;
        let finished = self.finish(batch, None)?;
        let log = &batch.log;
        let mut turn = lock(&log.turn);
        turn.finished(batch.number, finished, batch.end);
        let mut ended = None;
        while let Some((finished, end)) = turn.next() {
            let counts: Vec<bool> = finished.runs.iter().map(|met| met.counts(&mut turn.known)).collect();
            lock(&self.desk.gathered).keep(log.source, finished, &counts);
            ended = ended.or(end);
        }
        let Some(end) = ended else { return Ok(()) };
        let known = std::mem::take(&mut turn.known);
        drop(turn);
        self.make_open(log, &known, end)
    }

    /// Runs that were begun and did not end stand at the end.
    fn make_open(&mut self, log: &Arc<Log>, known: &Known, end: End) -> DatasetResult<()> {
        let Some(first) = known.first_open() else { return Ok(()) };
        let desk = self.desk;
        let mut batch = Batch::first(log);
        let mut failed = None;
        let start = start_at(first, end.in_order);
        let key = &desk.sources[log.source as usize].0;
        desk.runs.lines(key, start, &mut Faults::default(), |seq, line| {
            batch.push(seq, line);
            if batch.is_full() {
                failed = self.keep_open(&batch.turn_over(), known).err();
            }
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failed.map_or_else(|| self.keep_open(&batch, known), Err)
    }

    fn keep_open(&mut self, batch: &Batch, known: &Known) -> DatasetResult<()> {
        let finished = self.finish(batch, Some(known))?;
        let counts = vec![true; finished.runs.len()];
        lock(&self.desk.gathered).keep(batch.log.source, finished, &counts);
        Ok(())
    }

    /// Of the lines of a batch: runs that ended; or those that were begun and did not, if these are wanted.
    fn finish(&mut self, batch: &Batch, open: Option<&Known>) -> DatasetResult<Finished> {
        let mut finished = Finished::default();
        let mut waiting = Waiting::default();
        for (seq, line) in batch.lines() {
            let line = RunRecord::of_bytes(seq, line);
            let (mut run, is_start) = match line {
                None => {
                    finished.others += u64::from(seq != 0 && open.is_none());
                    continue;
                }
                Some(RunRecord::Verdict(_)) => continue,
                Some(RunRecord::Start(run)) => (run, true),
                Some(RunRecord::Run(run)) => (run, false),
            };
            let names = self.desk.namer.names(&run);
            if open.is_some_and(|known| !is_start || !known.is_open(names, seq)) {
                continue;
            }
            let attempts = run.attempts.len() as u64;
            finished.runs.push(Met { names, seq, is_start, attempts, at_ms: run.at_ms });
            if is_start && open.is_none() {
                continue;
            }
            if is_start {
                run.status = Status::Unknown;
            }
            batch.log.verdicts.apply(&mut run);
            self.take(&run, batch.log.source, &mut finished, &mut waiting)?;
        }
        self.make_rows(&mut waiting, &mut finished)?;
        // What quotes much may have been looked up after what stands behind it.
        finished.rows.sort_by_key(Pending::order);
        Ok(finished)
    }

    fn take(
        &mut self,
        run: &Run<'_>,
        source: u32,
        finished: &mut Finished,
        waiting: &mut Waiting,
    ) -> DatasetResult<()> {
        let desk = self.desk;
        let (key, node) = &desk.sources[source as usize];
        let nth = finished.runs.len() as u32 - 1;
        self.join(run, *node, waiting);
        let is_deleted = |session: &str| desk.deleted.contains(session);
        let refused = if is_deleted(key.as_str()) || is_deleted(&run.session_id) {
            Some(SkipReason::Deleted)
        } else {
            (!is_wanted(run, desk.recipe)).then_some(SkipReason::Filtered)
        };
        if let Some(why) = refused {
            finished.left_out.push((nth, why, run.attempts.len() as u64));
            return Ok(());
        }
        drafts(run, desk.recipe, |draft| {
            match draft {
                Ok(draft) => {
                    waiting.bytes += draft.bytes();
                    waiting.met += 1;
                    let order = waiting.met;
                    let origin = Origin { source, node: *node, run: nth, order, ..draft.origin };
                    waiting.drafts.push(Draft { origin, ..draft });
                }
                Err(why) => finished.left_out.push((nth, why, 1)),
            }
            if waiting.drafts.len() >= DRAFTS_MAX || waiting.bytes >= DRAFTS_BYTES {
                self.make_rows(waiting, finished)?;
            }
            Ok(())
        })
    }

    /// Puts whatever may share content into one group, also what the filters leave out: they must not move a group from
    /// one side to the other.
    fn join(&self, run: &Run<'_>, session: u32, waiting: &mut Waiting) {
        let names = [(Kind::Project, project_of(run)), (Kind::Session, &*run.session_id)];
        for ((kind, name), last) in names.into_iter().zip(&mut waiting.joined) {
            if !name.is_empty() && name != last {
                lock(&self.desk.gathered).groups.join_named(session, kind, name);
                name.clone_into(last);
            }
        }
        let passages = run.attempts.iter().flat_map(|attempt| [&attempt.prompt_ref, &attempt.output_ref]);
        for passage in passages.flatten() {
            lock(&self.desk.gathered).groups.join_named(session, Kind::Session, &passage.session);
        }
    }

    /// Looks up what drafts quote, and makes rows of them.
    fn make_rows(&mut self, waiting: &mut Waiting, finished: &mut Finished) -> DatasetResult<()> {
        waiting.bytes = 0;
        let mut drafts = std::mem::take(&mut waiting.drafts);
        while !drafts.is_empty() {
            let (whole, rest) = self.quotes.look_up(drafts, DRAFTS_BYTES, &mut finished.left_out)?;
            drafts = rest;
            let rows = self.worker.rows(whole, self.desk.recipe.format, &mut finished.left_out);
            let mut gathered = lock(&self.desk.gathered);
            for row in rows {
                finished.rows.push(gathered.spool(row)?);
            }
        }
        Ok(())
    }
}

impl Met {
    /// Whether it counts as a run: only an end does, and only once.
    fn counts(&self, known: &mut Known) -> bool {
        if self.is_start {
            known.begun(self.names, self.seq);
            return false;
        }
        known.ended(self.names)
    }
}

/// Drafts that wait to be looked up.
#[derive(Debug, Default)]
struct Waiting {
    drafts: Vec<Draft>,
    bytes: usize,
    /// How many there were until now.
    met: u32,
    /// The project and the session that were joined last: mostly those of the next run.
    joined: [String; 2],
}

/// Whoever panics must not leave the others waiting.
struct StopIfDying<'a>(&'a Crew);

impl Drop for StopIfDying<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(None);
        }
    }
}

const DRAFTS_MAX: usize = 2048;
const DRAFTS_BYTES: usize = 1 << 20;
