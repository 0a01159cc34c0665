//! Reads all runs and spools the rows that may be wanted. One thread reads and looks up; others make rows; what comes
//! out is put in order again, so that nothing depends on which thread was first.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};

use super::alike::Signature;
use super::draft::{Draft, Verdict, drafts, is_wanted, project_of};
use super::place::Place;
use super::quote::Quotes;
use super::row::{Row, Worker};
use super::split::{Groups, Kind};
use super::spool::{Slot, Spool};
use super::{Counts, DatasetError, Format, Progress, Reason, Recipe, Result};
use crate::backend::{Listed, Place as Where};
use crate::runs::{Run, Runs};
use crate::store::Store;
use crate::sync::lock;

/// What was gathered.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) rows: Vec<Kept>,
    pub(super) signatures: Vec<Signature>,
    pub(super) spool: Spool,
    pub(super) groups: Groups,
    pub(super) counts: Counts,
    pub(super) sources: Vec<Source>,
    /// What was quoted of which sessions.
    pub(super) quoted: BTreeMap<(String, String), (u64, u64)>,
    /// When the first and the last run were that gave rows.
    pub(super) times: Option<(i64, i64)>,
    /// The work of reading: writing is counted behind it.
    pub(super) read_bytes: u64,
}

/// What is kept in memory of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) prompt_hash: [u64; 2],
    pub(super) hash: u64,
    pub(super) slot: Slot,
    pub(super) node: u32,
    pub(super) source: u32,
    pub(super) model: u32,
    /// Among the signatures; [`NO_SIGNATURE`] if it has none.
    pub(super) signature: u32,
    pub(super) verdict: Verdict,
    pub(super) is_repair: bool,
}

/// A log of runs.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) listed: Listed,
    /// Its first and its last run that gave a row.
    pub(super) records: Option<(u64, u64)>,
}

/// Reads all runs of a store.
pub(super) fn gather(
    store: &Store,
    recipe: &Recipe,
    place: &Place,
    progress: Progress<'_>,
) -> Result<Gathered> {
    let runs = store.runs()?;
    let listed = runs.sessions()?;
    let read_bytes = listed.iter().map(|listed| listed.bytes).sum();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, WORKERS_MAX);
    let format = recipe.format;
    let mut gathered = Gathered {
        rows: Vec::new(),
        signatures: Vec::new(),
        spool: Spool::new(place)?,
        groups: Groups::default(),
        counts: Counts::default(),
        sources: listed.into_iter().map(|listed| Source { listed, records: None }).collect(),
        quoted: BTreeMap::new(),
        times: None,
        read_bytes,
    };
    std::thread::scope(|scope| {
        let (work, todo) = sync_channel(workers);
        let (done, ready) = channel();
        let todo = Arc::new(Mutex::new(todo));
        for _ in 0..workers {
            let (todo, done) = (Arc::clone(&todo), done.clone());
            scope.spawn(move || make_rows(&todo, &done, format));
        }
        drop((done, todo));
        let mut intake = Intake {
            store,
            recipe,
            gathered: &mut gathered,
            quotes: Quotes::new(store, recipe)?,
            line: Line { work: Some(work), ready, sent: 0, taken: 0, early: BTreeMap::new() },
            batch: Vec::new(),
            batch_bytes: 0,
            nodes: Nodes::default(),
            progress,
            done: 0,
            at_once: AT_ONCE_FIRST,
        };
        intake.read_all(&runs)
    })?;
    Ok(gathered)
}

/// What a worker does until there is no more work.
fn make_rows(
    todo: &Mutex<Receiver<(u64, Vec<Draft>)>>,
    done: &Sender<(u64, Vec<Row>, Counts)>,
    format: Format,
) {
    let mut worker = Worker::default();
    loop {
        // One waits for work and the others for their turn to wait.
        let next = lock(todo).recv();
        let Ok((number, drafts)) = next else { return };
        let rows = worker.rows(drafts, format);
        if done.send((number, rows, std::mem::take(&mut worker.counts))).is_err() {
            return;
        }
    }
}

/// The way to the workers and back.
#[derive(Debug)]
struct Line {
    work: Option<SyncSender<(u64, Vec<Draft>)>>,
    ready: Receiver<(u64, Vec<Row>, Counts)>,
    sent: u64,
    taken: u64,
    /// Came before those that were sent before them.
    early: BTreeMap<u64, (Vec<Row>, Counts)>,
}

/// What is known of the last run, so that the next one of the same session and project costs nothing.
#[derive(Debug, Default)]
struct Nodes {
    session: u32,
    joined: [String; 2],
}

struct Intake<'a> {
    store: &'a Store,
    recipe: &'a Recipe,
    gathered: &'a mut Gathered,
    quotes: Quotes<'a>,
    line: Line,
    batch: Vec<Draft>,
    batch_bytes: usize,
    nodes: Nodes,
    progress: Progress<'a>,
    done: u64,
    /// How many drafts are looked up together: fewer where they quote much.
    at_once: usize,
}

impl Intake<'_> {
    fn read_all(&mut self, runs: &Runs) -> Result<()> {
        let deleted = self.deleted()?;
        let mut behind = 0;
        for source in 0..self.gathered.sources.len() {
            let listed = self.gathered.sources[source].listed.clone();
            let key = listed.address.key.clone();
            let is_deleted = deleted.contains(key.as_str());
            self.nodes =
                Nodes { session: self.gathered.groups.node(Kind::Session, key.as_str()), ..Nodes::default() };
            let mut failed = None;
            let seen = runs.each(&key, |run| match self.take(run, source as u32, is_deleted, &deleted) {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            self.gathered.counts.unreadable += seen.others + seen.damage.len() as u64;
            behind += listed.bytes;
            self.done = behind;
            (self.progress)(self.done, self.gathered.read_bytes * 2);
        }
        self.send()?;
        self.line.work = None;
        while self.line.taken < self.line.sent {
            let next = self.line.ready.recv().map_err(|_| DatasetError::Died)?;
            self.receive(next)?;
        }
        self.gathered.quoted = std::mem::take(&mut self.quotes.quoted);
        self.gathered.counts.memory_left_out += self.quotes.memory_left_out;
        Ok(())
    }

    /// The keys of sessions that are in the trash, and of which there is no other.
    fn deleted(&self) -> Result<HashSet<String>> {
        let trash = self.store.list(Where::Trash)?;
        let mut keys = HashSet::new();
        for listed in trash {
            match self.store.find(&listed.address.key) {
                Err(e) if e.is_not_found() => {
                    keys.insert(listed.address.key.to_string());
                }
                found => drop(found?),
            }
        }
        Ok(keys)
    }

    fn take(
        &mut self,
        run: &Run<'_>,
        source: u32,
        is_deleted: bool,
        deleted: &HashSet<String>,
    ) -> Result<()> {
        self.join(run);
        let counts = &mut self.gathered.counts;
        counts.runs += 1;
        counts.attempts += run.attempts.len() as u64;
        self.done = self.done.saturating_add(bytes_of(run)).min(self.gathered.read_bytes);
        let refused = if is_deleted || deleted.contains(&*run.session_id) {
            Some(Reason::Deleted)
        } else {
            (!is_wanted(run, self.recipe)).then_some(Reason::Filtered)
        };
        if let Some(why) = refused {
            let attempts = run.attempts.len() as u64;
            *counts.left_out.entry(why).or_default() += attempts;
            return Ok(());
        }
        let (batch, batch_bytes) = (&mut self.batch, &mut self.batch_bytes);
        let before = batch.len();
        drafts(run, self.recipe, self.nodes.session, source, |draft| match draft {
            Ok(draft) => {
                *batch_bytes += draft.bytes();
                batch.push(draft);
            }
            Err(why) => counts.leave_out(why),
        });
        if let Some(at) = run.at_ms.filter(|_| batch.len() > before) {
            let times = self.gathered.times.get_or_insert((at, at));
            *times = (times.0.min(at), times.1.max(at));
        }
        if self.batch.len() >= BATCH_DRAFTS || self.batch_bytes >= BATCH_BYTES {
            self.send()?;
        }
        Ok(())
    }

    /// Puts whatever may share content into one group, also what the filters leave out: they must not move a group from
    /// one side to the other.
    fn join(&mut self, run: &Run<'_>) {
        let groups = &mut self.gathered.groups;
        let names = [(Kind::Project, project_of(run)), (Kind::Session, &*run.session_id)];
        for ((kind, name), last) in names.into_iter().zip(&mut self.nodes.joined) {
            if !name.is_empty() && name != last {
                let node = groups.node(kind, name);
                groups.join(self.nodes.session, node);
                name.clone_into(last);
            }
        }
        let passages = run.attempts.iter().flat_map(|attempt| [&attempt.prompt_ref, &attempt.output_ref]);
        for passage in passages.flatten() {
            let node = groups.node(Kind::Session, &passage.session);
            groups.join(self.nodes.session, node);
        }
    }

    /// Looks up what the batch quotes and gives it to the workers; takes what they are done with.
    fn send(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let mut waiting = batch;
        while !waiting.is_empty() {
            // What is quoted may be much longer than what quotes it.
            let rest = waiting.split_off(waiting.len().min(self.at_once));
            let drafts = self.quotes.look_up(waiting, &mut self.gathered.counts)?;
            let bytes: usize = drafts.iter().map(Draft::bytes).sum();
            self.at_once = if bytes > BATCH_BYTES { self.at_once / 2 } else { self.at_once * 2 };
            self.at_once = self.at_once.clamp(1, BATCH_DRAFTS);
            waiting = rest;
            let work = self.line.work.as_ref().ok_or(DatasetError::Died)?;
            work.send((self.line.sent, drafts)).map_err(|_| DatasetError::Died)?;
            self.line.sent += 1;
            while let Ok(next) = self.line.ready.try_recv() {
                self.receive(next)?;
            }
        }
        (self.progress)(self.done, self.gathered.read_bytes * 2);
        Ok(())
    }

    fn receive(&mut self, (number, rows, counts): (u64, Vec<Row>, Counts)) -> Result<()> {
        self.line.early.insert(number, (rows, counts));
        while let Some((rows, counts)) = self.line.early.remove(&self.line.taken) {
            self.line.taken += 1;
            self.gathered.counts.add(&counts);
            for row in rows {
                self.gathered.keep(&row)?;
            }
        }
        Ok(())
    }
}

impl Gathered {
    fn keep(&mut self, row: &Row) -> Result<()> {
        let slot = self.spool.put(row)?;
        let signature = match row.signature {
            Some(signature) => {
                self.signatures.push(signature);
                self.signatures.len() as u32 - 1
            }
            None => NO_SIGNATURE,
        };
        let records = &mut self.sources[row.source as usize].records;
        let range = records.get_or_insert((row.seq, row.seq));
        *range = (range.0.min(row.seq), range.1.max(row.seq));
        self.rows.push(Kept {
            prompt_hash: [row.prompt_hash as u64, (row.prompt_hash >> 64) as u64],
            hash: row.hash,
            slot,
            node: row.node,
            source: row.source,
            model: row.model,
            signature,
            verdict: row.verdict,
            is_repair: row.is_repair,
        });
        Ok(())
    }
}

/// How long the line of a run is, about.
fn bytes_of(run: &Run<'_>) -> u64 {
    let attempts =
        run.attempts.iter().map(|attempt| attempt.output_summary.len() + attempt.runner_output.len() + 200);
    (attempts.sum::<usize>() + run.input.map_or(0, str::len) + 200) as u64
}

pub(super) const NO_SIGNATURE: u32 = u32::MAX;
const WORKERS_MAX: usize = 4;
const BATCH_DRAFTS: usize = 2048;
const BATCH_BYTES: usize = 2 << 20;
/// Each may quote as much as a row may hold.
const AT_ONCE_FIRST: usize = 8;
