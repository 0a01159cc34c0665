//! Threads that share one commit in the life of a log, and what becomes of them when it fails or its leader panics.
//!
//! The log is held while the threads come, one behind the other, so that all of them are in one batch and in the same
//! order each time: the seed alone decides what happens.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use manent_log::{Body, Durability, Log, LogReceipt, SharedLog};

use super::{Life, numbered};

impl Life {
    /// Some threads append one record each, in one commit. Nothing: this handle is of no more use.
    pub(super) fn crowd(&mut self, log: Log) -> Result<Option<Log>, String> {
        let first = log.next_seq();
        let bodies: Vec<Body> = (0..self.rng.range(2..=4)).map(|_| self.body()).collect();
        let written = numbered(first, &bodies);
        let shared = SharedLog::new(log);
        let outcomes = commit_together(&shared, &bodies);
        let mut log = shared.into_inner();
        self.stats.shared += 1;
        let receipts: Vec<LogReceipt> =
            outcomes.iter().flatten().filter_map(|outcome| outcome.as_ref().ok().copied()).collect();
        if receipts.len() == bodies.len() {
            if receipts.iter().map(|receipt| receipt.seq).ne(written.iter().map(|written| written.seq)) {
                return Err("threads that shared a commit have the numbers of others".to_owned());
            }
            self.stats.acknowledged += receipts.len() as u64;
            self.model.synced(written);
            return Ok(Some(log));
        }
        if !receipts.is_empty() {
            return Err(format!(
                "{} of {} threads have a receipt of one commit",
                receipts.len(),
                bodies.len()
            ));
        }
        self.stats.shared_failed += 1;
        let panicked = outcomes.iter().filter(|outcome| outcome.is_none()).count();
        self.stats.panics += panicked as u64;
        let errors: Vec<_> = outcomes.iter().flatten().filter_map(|outcome| outcome.as_ref().err()).collect();
        if panicked > 1 || (panicked == 1 && errors.iter().any(|error| !error.is_unknown())) {
            return Err(format!(
                "{panicked} threads panicked in one commit, and others were told {errors:?}"
            ));
        }
        self.pending.extend(bodies.into_iter().filter(|body| body.key().is_some()));
        let error = errors.first().copied().filter(|_| panicked == 0);
        Ok(self.failed(&mut log, written, error)?.then_some(log))
    }
}

/// The outcome of each thread, the leader first. `None`: it panicked.
fn commit_together(shared: &SharedLog, bodies: &[Body]) -> Vec<Option<manent_log::Result<LogReceipt>>> {
    std::thread::scope(|scope| {
        let held = shared.lock();
        let threads: Vec<_> = (bodies.iter().enumerate())
            .map(|(nth, body)| {
                let append = || shared.append(body.clone(), Durability::Group);
                let thread = scope.spawn(move || unless_simulated_panic(append));
                while shared.waiting() <= nth {
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        drop(held);
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|p| resume_unwind(p));
        threads.into_iter().map(join).collect()
    })
}

/// Does something, and gives nothing if it panics as a fault wanted it to. Any other panic goes on.
pub(super) fn unless_simulated_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(panic) if is_simulated(&*panic) => None,
        Err(panic) => resume_unwind(panic),
    }
}

fn is_simulated(payload: &dyn std::any::Any) -> bool {
    payload.downcast_ref() == Some(&crate::world::PANIC)
}
