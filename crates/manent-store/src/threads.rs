//! Work that is shared with another thread where the system gives one, and done on the calling thread where it does
//! not: a limit on processes makes an operation slower, and does not fail it.

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::sync::lock;

/// Work that another thread does, or that is left to whoever waits for it.
pub enum ScopedTask<'scope, F, T> {
    /// Another thread does it.
    Running(ScopedJoinHandle<'scope, Option<T>>),
    /// No thread could be started.
    Deferred(Option<F>),
}

/// Starts work on another thread of `scope`. Where no thread can be started, [`ScopedTask::finish`] does it.
pub fn spawn_scoped<'scope, 'env, F, T>(
    scope: &'scope Scope<'scope, 'env>,
    work: F,
) -> ScopedTask<'scope, F, T>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    // A start that fails drops the closure that it was given, so the work itself must lie elsewhere.
    let slot = Arc::new(Mutex::new(Some(work)));
    let taken = slot.clone();
    let take = move || {
        let work = lock(&taken).take();
        work.map(|work| work())
    };
    match builder().spawn_scoped(scope, take) {
        Ok(running) => ScopedTask::Running(running),
        Err(_) => ScopedTask::Deferred(lock(&slot).take()),
    }
}

impl<F: FnOnce() -> T, T> ScopedTask<'_, F, T> {
    /// Waits for the result, or does the work now. Returns the panic of a thread that panicked.
    pub fn finish(self) -> std::thread::Result<T> {
        let done = match self {
            ScopedTask::Running(running) => running.join()?,
            ScopedTask::Deferred(work) => work.map(|work| work()),
        };
        done.ok_or_else(|| Box::new("the work was taken by nobody") as Box<dyn Any + Send>)
    }
}

fn builder() -> Builder {
    if REFUSED.get() { Builder::new().stack_size(1 << 56) } else { Builder::new() }
}

thread_local! {
    static REFUSED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` while no thread can be started from this one: each would need more memory than can be addressed. For
/// tests.
#[doc(hidden)]
pub fn without_threads<T>(work: impl FnOnce() -> T) -> T {
    REFUSED.set(true);
    let refused = std::thread::scope(|scope| builder().spawn_scoped(scope, || ()).is_err());
    assert!(refused, "a thread could be started");
    let done = work();
    REFUSED.set(false);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread_of_work() -> std::thread::ThreadId {
        std::thread::scope(|scope| spawn_scoped(scope, || std::thread::current().id()).finish().unwrap())
    }

    #[test]
    fn share_with_a_thread_runs_the_work_there() {
        assert_ne!(thread_of_work(), std::thread::current().id());
    }

    #[test]
    fn share_without_threads_runs_the_work_on_the_calling_thread() {
        assert_eq!(without_threads(thread_of_work), std::thread::current().id());
    }

    #[test]
    fn share_returns_the_panic_of_its_thread() {
        let panicked =
            std::thread::scope(|scope| spawn_scoped(scope, || -> u8 { panic!("of the work") }).finish());
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"of the work"));
    }
}
