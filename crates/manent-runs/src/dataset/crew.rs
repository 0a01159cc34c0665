//! Who does what while runs are gathered.
//!
//! Each thread reads logs, and hands on their lines in batches, as long as the others have too little to do; when they
//! have enough it works on batches itself. So all are busy with one large log as with many small ones. Lines are parsed
//! and made into rows in any order; then the batches of a log take their turns, since only the first of two records of
//! one run counts.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use manent_store::sync::lock;

use super::rows_of::Finished;
use super::{DatasetError, DatasetResult};
use crate::runs::{Known, Verdicts};

/// What there is to do.
#[derive(Debug)]
pub(super) struct Crew {
    todo: Mutex<Todo>,
    changed: Condvar,
    sources: usize,
    /// How many bytes were read.
    read: AtomicU64,
}

#[derive(Debug, Default)]
struct Todo {
    /// The next log that nobody reads yet.
    next: usize,
    /// How many are being read.
    reading: usize,
    waiting: VecDeque<Batch>,
    waiting_bytes: usize,
    failed: Option<DatasetError>,
    stopped: bool,
}

/// What a thread does next.
#[derive(Debug)]
pub(super) enum Job {
    Read(usize),
    Make(Batch),
}

/// What became of a batch that was offered.
#[derive(Debug)]
pub(super) enum Offered {
    Taken,
    /// There is enough to do: this first, and then it is offered again.
    First(Batch, Batch),
    /// Something failed elsewhere.
    Over,
}

/// Lines of one log, as they stand.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) log: Arc<Log>,
    /// Which of its batches, from 0 on.
    pub(super) number: u64,
    /// No other comes behind it.
    pub(super) end: Option<End>,
    text: Vec<u8>,
    lines: Vec<(u64, usize)>,
}

/// What is known at the end of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// All its records could be read, so that their numbers are in order.
    pub(super) in_order: bool,
}

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) source: u32,
    /// What was said of its runs afterwards.
    pub(super) verdicts: Verdicts,
    pub(super) turn: Mutex<Turn>,
}

/// Whose turn it is among the batches of a log.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) known: Known,
    next: u64,
    early: BTreeMap<u64, (Finished, Option<End>)>,
}

impl Crew {
    pub(super) fn new(sources: usize) -> Crew {
        Crew { todo: Mutex::default(), changed: Condvar::new(), sources, read: AtomicU64::new(0) }
    }

    /// What to do next, for a thread that worked on a batch of this log before; waits for it. Nothing: it is all done,
    /// or something failed.
    pub(super) fn next(&self, last: u32) -> Option<Job> {
        let mut todo = lock(&self.todo);
        loop {
            if todo.stopped {
                return None;
            }
            let enough = todo.waiting_bytes >= ENOUGH_BYTES || todo.next == self.sources;
            if let Some(batch) = enough.then(|| todo.take(last)).flatten() {
                return Some(Job::Make(batch));
            }
            if todo.next < self.sources {
                todo.next += 1;
                todo.reading += 1;
                return Some(Job::Read(todo.next - 1));
            }
            if todo.reading == 0 {
                return None;
            }
            todo = self.changed.wait(todo).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Hands on what was read, unless the others have enough to do.
    pub(super) fn offer(&self, batch: Batch) -> Offered {
        let mut todo = lock(&self.todo);
        if todo.stopped {
            return Offered::Over;
        }
        if todo.waiting_bytes >= ENOUGH_BYTES
            && let Some(first) = todo.take(batch.log.source)
        {
            return Offered::First(first, batch);
        }
        self.read.fetch_add(batch.text.len() as u64, Ordering::Relaxed);
        todo.waiting_bytes += batch.text.len();
        todo.waiting.push_back(batch);
        self.changed.notify_one();
        Offered::Taken
    }

    /// A log was read to its end.
    pub(super) fn has_read(&self) {
        lock(&self.todo).reading -= 1;
        self.changed.notify_all();
    }

    /// Ends everything. The first reason counts.
    pub(super) fn stop(&self, why: Option<DatasetError>) {
        let mut todo = lock(&self.todo);
        todo.stopped = true;
        if todo.failed.is_none() {
            todo.failed = why;
        }
        self.changed.notify_all();
    }

    /// How many bytes were read until now.
    pub(super) fn read_bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// What came of it.
    pub(super) fn outcome(self) -> DatasetResult<()> {
        let todo = self.todo.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (todo.failed, todo.stopped) {
            (Some(why), _) => Err(why),
            (None, true) => Err(DatasetError::Died),
            (None, false) => Ok(()),
        }
    }
}

impl Todo {
    /// One of a log if there is one: whoever works on it has the sessions open that it quotes.
    fn take(&mut self, log: u32) -> Option<Batch> {
        let of_log = self.waiting.iter().take(LOOKED_AT_MAX).position(|batch| batch.log.source == log);
        let batch = self.waiting.remove(of_log.unwrap_or(0))?;
        self.waiting_bytes -= batch.text.len();
        Some(batch)
    }
}

impl Batch {
    pub(super) fn first(log: &Arc<Log>) -> Batch {
        Batch { log: Arc::clone(log), number: 0, end: None, text: Vec::new(), lines: Vec::new() }
    }

    /// The one behind it, in its place.
    pub(super) fn turn_over(&mut self) -> Batch {
        // A log that filled one fills another; a small one is not worth so much room.
        let text = Vec::with_capacity(BATCH_BYTES);
        let next = Batch { number: self.number + 1, text, ..Batch::first(&self.log) };
        std::mem::replace(self, next)
    }

    pub(super) fn push(&mut self, seq: u64, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.lines.push((seq, self.text.len()));
    }

    pub(super) fn is_full(&self) -> bool {
        self.text.len() + LINE_BYTES > BATCH_BYTES
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.lines.iter().map(|(_, end)| *end));
        self.lines.iter().zip(starts).map(|((seq, end), start)| (*seq, &self.text[start..*end]))
    }
}

impl Log {
    pub(super) fn new(source: u32, verdicts: Verdicts) -> Arc<Log> {
        Arc::new(Log { source, verdicts, turn: Mutex::default() })
    }
}

impl Turn {
    pub(super) fn finished(&mut self, number: u64, finished: Finished, end: Option<End>) {
        self.early.insert(number, (finished, end));
    }

    /// The next one, if it is finished.
    pub(super) fn next(&mut self) -> Option<(Finished, Option<End>)> {
        let next = self.early.remove(&self.next)?;
        self.next += 1;
        Some(next)
    }
}

/// So much may wait: whoever reads has always something to hand on, and whoever works something to do.
const ENOUGH_BYTES: usize = 2 << 20;
const BATCH_BYTES: usize = 256 << 10;
/// Of the batches that wait.
const LOOKED_AT_MAX: usize = 64;
/// About as much as a line takes: a batch that has less room is full.
const LINE_BYTES: usize = 4 << 10;
