//! How durable a receipt is, and how threads share the cost.
//!
//! A sync takes as long for a hundred records as for one. Threads that append to one log at the same time therefore
//! form batches: the first to arrive leads, waits for the sync that is running, and then writes and syncs for
//! everyone who joined meanwhile. Different logs have different leaders, whose syncs the kernel runs side by side.
//! There is no second journal: what is acknowledged is in the file itself.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::body::Body;
use crate::error::{Error, Result};
use crate::log::{self, Expect, Log, Receipt};

/// What a receipt promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// On stable storage before the receipt. Survives power loss.
    #[default]
    Sync,
    /// The same promise; appends that happen at the same time share one sync. Through a [`Log`] of one's own it is
    /// the same as `Sync`; through a [`SharedLog`] it is how many threads write fast.
    Group,
    /// Handed to the kernel in one write. Survives the death of the process, also by kill -9. A power cut may lose
    /// the records since the last sync: some newest ones are gone, the others are whole.
    Flush,
}

impl Durability {
    /// The word used on the command line and in receipts.
    pub fn word(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Group => "group",
            Durability::Flush => "flush",
        }
    }
}

/// A log that many threads append to.
#[derive(Debug)]
pub struct SharedLog {
    /// The batch that takes new records. Its leader is waiting for `log`.
    open: Mutex<Option<Arc<Batch>>>,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Batch {
    state: Mutex<BatchState>,
    committed: Condvar,
}

#[derive(Debug, Default)]
struct BatchState {
    bodies: Vec<Body>,
    bytes: usize,
    outcome: Option<std::result::Result<Vec<Receipt>, Arc<Error>>>,
}

impl SharedLog {
    /// Shares a log.
    pub fn new(log: Log) -> SharedLog {
        SharedLog { open: Mutex::new(None), log: Mutex::new(log) }
    }

    /// Appends one record; returns when it is as durable as asked.
    pub fn append(&self, body: Body, durability: Durability) -> Result<Receipt> {
        if durability != Durability::Group {
            return lock(&self.log).append(&body, durability, Expect::Any);
        }
        // Here and not in the batch, where it would fail for everyone.
        log::check_size(&body)?;
        let (batch, place) = self.join(body);
        if place == 0 {
            self.lead(&batch);
        }
        batch.receipt(place)
    }

    /// Gives the log back.
    pub fn into_inner(self) -> Log {
        self.log.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a record into the open batch, or opens one. Place 0 leads.
    fn join(&self, body: Body) -> (Arc<Batch>, usize) {
        let mut open = lock(&self.open);
        let batch = match &*open {
            Some(batch) if lock(&batch.state).bytes + body.as_bytes().len() <= BATCH_BYTES_MAX => {
                batch.clone()
            }
            _ => {
                let batch = Arc::new(Batch::default());
                *open = Some(batch.clone());
                batch
            }
        };
        let mut state = lock(&batch.state);
        let place = state.bodies.len();
        state.bytes += body.as_bytes().len();
        state.bodies.push(body);
        drop(state);
        (batch, place)
    }

    /// Commits a batch for all who joined it.
    fn lead(&self, batch: &Arc<Batch>) {
        // Others join while we wait here for the commit before ours.
        let mut log = lock(&self.log);
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|b| Arc::ptr_eq(b, batch)) {
            *open = None;
        }
        drop(open);
        let bodies = std::mem::take(&mut lock(&batch.state).bodies);
        let outcome = log.append_batch(&bodies, Durability::Group, Expect::Any).map_err(Arc::new);
        drop(log);
        lock(&batch.state).outcome = Some(outcome);
        batch.committed.notify_all();
    }
}

impl Batch {
    fn receipt(&self, place: usize) -> Result<Receipt> {
        let mut state = lock(&self.state);
        loop {
            match &state.outcome {
                Some(Ok(receipts)) => return Ok(receipts[place]),
                Some(Err(error)) => return Err(Error::Shared(error.clone())),
                None => state = self.committed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// A panic in another thread leaves nothing half done behind these locks, so its poison is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A batch larger than this waits for the next: its members would otherwise wait for megabytes of others.
const BATCH_BYTES_MAX: usize = 8 << 20;
