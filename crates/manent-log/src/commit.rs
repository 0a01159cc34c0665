//! Durability of receipts, and the commits by which threads share its cost.
//!
//! A sync takes as long for a hundred records as for one. Threads that append to one log at the same time therefore
//! form batches: the first to arrive leads, waits for the sync that is running, and then writes and syncs for
//! everyone who joined meanwhile. Different logs have different leaders, whose syncs the kernel runs side by side.
//! There is no second journal: what is acknowledged is in the file itself.
//!
//! A leader that panics ends its batch: a guard gives everyone in it an error, so that nobody waits for a thread that
//! is gone, and [`Commit::abandon`] is called on the target before anybody uses it again.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::body::Body;
use crate::error::{Error, Result};
use crate::log::{Expect, Log, LogReceipt};

/// The durability that a receipt promises.
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
pub type SharedLog = GroupCommit<Log>;

/// A target of commits: takes a row of records with one write and one sync.
pub trait Commit {
    /// The receipt of one record that was taken.
    type Receipt: Clone + fmt::Debug;
    /// The error of a commit that failed.
    type Error: fmt::Debug + From<Error> + From<Arc<Self::Error>>;
    /// The parameters of a commit. The leader's count for everyone it takes along.
    type Context<'a>: Copy;
    /// Appends records in order.
    fn commit(
        &mut self,
        context: Self::Context<'_>,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> std::result::Result<Vec<Self::Receipt>, Self::Error>;
    /// Gives the error for everyone whose commit was broken off by a panic, or came back without receipts: nobody knows
    /// what was written. Called with the target locked, also by whoever takes it next; the target must not go on from
    /// what the panic left of its state.
    fn abandon(&mut self) -> Self::Error;
}

impl Commit for Log {
    type Receipt = LogReceipt;
    type Error = Error;
    type Context<'a> = ();

    fn commit(
        &mut self,
        (): (),
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<LogReceipt>> {
        self.append_batch(bodies, durability, expect)
    }

    /// A log that was in the middle of a commit refuses to write by itself.
    fn abandon(&mut self) -> Error {
        self.broken_off()
    }
}

/// Threads that share the cost of their commits to one target.
#[derive(Debug)]
pub struct GroupCommit<T: Commit> {
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

/// The outcome of a batch for its members: a receipt for each, or the error they share.
type Outcome<T> = std::result::Result<Vec<<T as Commit>::Receipt>, Arc<<T as Commit>::Error>>;

impl GroupCommit<Log> {
    /// Appends one record; returns when it is as durable as asked.
    pub fn append(&self, body: Body, durability: Durability) -> Result<LogReceipt> {
        self.append_with((), body, durability)
    }
}

impl<T: Commit> GroupCommit<T> {
    /// Shares a target.
    pub fn new(target: T) -> GroupCommit<T> {
        GroupCommit { open: Mutex::new(None), target: Mutex::new(target) }
    }

    /// Appends one record; returns when it is as durable as asked.
    pub fn append_with(
        &self,
        context: T::Context<'_>,
        body: Body,
        durability: Durability,
    ) -> std::result::Result<T::Receipt, T::Error> {
        if durability != Durability::Group {
            let outcome = commit_all(&mut *self.lock(), context, std::slice::from_ref(&body), durability)?;
            return Ok(outcome[0].clone());
        }
        // Here and not in the batch, where it would fail for everyone.
        body.check_size()?;
        let (batch, place) = self.join(body);
        if place == 0 {
            self.lead(context, &batch);
        }
        batch.receipt(place)
    }

    /// Locks the target. If its last user panicked, [`Commit::abandon`] is called first.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.target.lock().unwrap_or_else(|poisoned| {
            let mut target = poisoned.into_inner();
            drop(target.abandon());
            self.target.clear_poison();
            target
        })
    }

    /// Returns the target.
    pub fn into_inner(self) -> T {
        let panicked = self.target.is_poisoned();
        let mut target = self.target.into_inner().unwrap_or_else(PoisonError::into_inner);
        if panicked {
            drop(target.abandon());
        }
        target
    }

    /// Returns the number of records that wait in the open batch, for tests.
    #[doc(hidden)]
    pub fn waiting(&self) -> usize {
        lock(&self.open).as_ref().map_or(0, |batch| lock(&batch.state).bodies.len())
    }

    /// Puts a record into the open batch, or opens one. Place 0 leads.
    fn join(&self, body: Body) -> (Arc<Batch<T>>, usize) {
        let mut open = lock(&self.open);
        let bytes = body.as_bytes().len();
        if let Some(batch) = &*open {
            let mut state = lock(&batch.state);
            if state.bytes + bytes <= BATCH_BYTES_MAX {
                let place = state.bodies.len();
                state.bodies.push(body);
                state.bytes += bytes;
                drop(state);
                return (batch.clone(), place);
            }
        }
        // Others see it only when its first record is in it: whoever joins can rely on a leader.
        let state = BatchState { bodies: vec![body], bytes, outcome: None };
        let batch = Arc::new(Batch { state: Mutex::new(state), committed: Condvar::new() });
        *open = Some(batch.clone());
        (batch, 0)
    }

    /// Commits a batch for all who joined it.
    fn lead(&self, context: T::Context<'_>, batch: &Arc<Batch<T>>) {
        let leader = Leader { group: self, batch };
        // Others join while we wait here for the commit before ours.
        let mut target = self.lock();
        self.close(batch);
        let bodies = std::mem::take(&mut lock(&batch.state).bodies);
        let outcome = commit_all(&mut *target, context, &bodies, Durability::Group).map_err(Arc::new);
        drop(target);
        batch.end(outcome);
        drop(leader);
    }

    /// Closes a batch, so that no thread joins it any more.
    fn close(&self, batch: &Arc<Batch<T>>) {
        let mut open = lock(&self.open);
        if open.as_ref().is_some_and(|b| Arc::ptr_eq(b, batch)) {
            *open = None;
        }
    }
}

/// The thread that commits a batch. However it ends, the batch ends with it.
struct Leader<'a, T: Commit> {
    group: &'a GroupCommit<T>,
    batch: &'a Arc<Batch<T>>,
}

impl<T: Commit> Drop for Leader<'_, T> {
    fn drop(&mut self) {
        if lock(&self.batch.state).outcome.is_some() {
            return;
        }
        self.group.close(self.batch);
        let error = self.group.lock().abandon();
        self.batch.end(Err(Arc::new(error)));
    }
}

impl<T: Commit> Batch<T> {
    fn end(&self, outcome: Outcome<T>) {
        lock(&self.state).outcome = Some(outcome);
        self.committed.notify_all();
    }

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

/// Calls [`Commit::commit`] and insists on a receipt for each record.
fn commit_all<T: Commit>(
    target: &mut T,
    context: T::Context<'_>,
    bodies: &[Body],
    durability: Durability,
) -> std::result::Result<Vec<T::Receipt>, T::Error> {
    let receipts = target.commit(context, bodies, durability, Expect::Any)?;
    if receipts.len() == bodies.len() { Ok(receipts) } else { Err(target.abandon()) }
}

/// Locks what a panic in another thread cannot leave half done, so that its poison is no reason to stop. The target is
/// locked by [`GroupCommit::lock`] instead.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A batch larger than this waits for the next: its members would otherwise wait for megabytes of others.
const BATCH_BYTES_MAX: usize = 8 << 20;
