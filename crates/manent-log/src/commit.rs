//! How durable a receipt is, and how threads share the cost.
//!
//! A sync takes as long for a hundred records as for one. Threads that append to one log at the same time therefore
//! form batches: the first to arrive leads, waits for the sync that is running, and then writes and syncs for
//! everyone who joined meanwhile. Different logs have different leaders, whose syncs the kernel runs side by side.
//! There is no second journal: what is acknowledged is in the file itself.

use std::fmt;
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
pub type SharedLog = Group<Log>;

/// Something that takes a row of records with one write and one sync.
pub trait Commit {
    /// What stands for one record that was taken.
    type Receipt: Clone + fmt::Debug;
    /// What can go wrong.
    type Error: fmt::Debug + From<Error> + From<Arc<Self::Error>>;
    /// What a commit needs to know besides. The leader's counts for everyone it takes along.
    type Context<'a>: Copy;
    /// Appends records in order.
    fn commit(
        &mut self,
        context: Self::Context<'_>,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> std::result::Result<Vec<Self::Receipt>, Self::Error>;
}

impl Commit for Log {
    type Receipt = Receipt;
    type Error = Error;
    type Context<'a> = ();

    fn commit(
        &mut self,
        (): (),
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        self.append_batch(bodies, durability, expect)
    }
}

/// Threads that share the cost of their commits to one target.
#[derive(Debug)]
pub struct Group<T: Commit> {
    /// The batch that takes new records. Its leader is waiting for `target`.
    open: Mutex<Option<Arc<Batch<T>>>>,
    target: Mutex<T>,
}

#[derive(Debug)]
struct Batch<T: Commit> {
    state: Mutex<BatchState<T>>,
    committed: Condvar,
}

#[derive(Debug)]
struct BatchState<T: Commit> {
    bodies: Vec<Body>,
    bytes: usize,
    outcome: Option<Outcome<T>>,
}

/// What everyone in a batch gets: his receipt, or the error they share.
type Outcome<T> = std::result::Result<Vec<<T as Commit>::Receipt>, Arc<<T as Commit>::Error>>;

impl Group<Log> {
    /// Appends one record; returns when it is as durable as asked.
    pub fn append(&self, body: Body, durability: Durability) -> Result<Receipt> {
        self.append_with((), body, durability)
    }
}

impl<T: Commit> Group<T> {
    /// Shares a target.
    pub fn new(target: T) -> Group<T> {
        Group { open: Mutex::new(None), target: Mutex::new(target) }
    }

    /// Appends one record; returns when it is as durable as asked.
    pub fn append_with(
        &self,
        context: T::Context<'_>,
        body: Body,
        durability: Durability,
    ) -> std::result::Result<T::Receipt, T::Error> {
        if durability != Durability::Group {
            let receipts =
                self.lock().commit(context, std::slice::from_ref(&body), durability, Expect::Any)?;
            return Ok(receipts[0].clone());
        }
        // Here and not in the batch, where it would fail for everyone.
        log::check_size(&body)?;
        let (batch, place) = self.join(body);
        if place == 0 {
            self.lead(context, &batch);
        }
        batch.receipt(place)
    }

    /// The target for oneself.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.target)
    }

    /// Gives the target back.
    pub fn into_inner(self) -> T {
        self.target.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a record into the open batch, or opens one. Place 0 leads.
    fn join(&self, body: Body) -> (Arc<Batch<T>>, usize) {
        let mut open = lock(&self.open);
        let batch = match &*open {
            Some(batch) if lock(&batch.state).bytes + body.as_bytes().len() <= BATCH_BYTES_MAX => {
                batch.clone()
            }
            _ => {
                let state = BatchState { bodies: Vec::new(), bytes: 0, outcome: None };
                let batch = Arc::new(Batch { state: Mutex::new(state), committed: Condvar::new() });
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
    fn lead(&self, context: T::Context<'_>, batch: &Arc<Batch<T>>) {
        // Others join while we wait here for the commit before ours.
        let mut target = self.lock();
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|b| Arc::ptr_eq(b, batch)) {
            *open = None;
        }
        drop(open);
        let bodies = std::mem::take(&mut lock(&batch.state).bodies);
        let outcome = target.commit(context, &bodies, Durability::Group, Expect::Any).map_err(Arc::new);
        drop(target);
        lock(&batch.state).outcome = Some(outcome);
        batch.committed.notify_all();
    }
}

impl<T: Commit> Batch<T> {
    fn receipt(&self, place: usize) -> std::result::Result<T::Receipt, T::Error> {
        let mut state = lock(&self.state);
        loop {
            match &state.outcome {
                Some(Ok(receipts)) => return Ok(receipts[place].clone()),
                Some(Err(error)) => return Err(error.clone().into()),
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
