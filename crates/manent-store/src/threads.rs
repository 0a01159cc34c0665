//! Work that is shared with another thread where the system gives one, and done on the calling thread where it does
//! not: a limit on processes makes an operation slower, and does not fail it.

use std::any::Any;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::sync::lock;

/// The error of work that another thread was to do, and panicked in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a thread of it died; please report this")]
pub struct ThreadDied;

impl From<ThreadDied> for std::io::Error {
    fn from(died: ThreadDied) -> std::io::Error {
        std::io::Error::other(died)
    }
}

impl From<ThreadDied> for crate::Error {
    fn from(died: ThreadDied) -> crate::Error {
        crate::Error::Backend(Box::new(died))
    }
}

/// Maps `items` with `work` on as many threads as there are processors, at most `threads_max`; the results are in the
/// order of the items. Each thread takes the next item as soon as it is done with the last, because one of them may
/// have a processor to itself.
pub fn parallel_map<T: Sync, R: Send>(
    items: &[T],
    threads_max: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>, ThreadDied> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(at)
        {
            done.push((at, work(item)));
        }
        done
    };
    let threads = processors(threads_max).min(items.len());
    let mut done: Vec<(usize, R)> = with_helpers(threads, take, take)?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

/// Runs `own` on the calling thread while `threads - 1` others run `helper`, and returns what each gave, `own` first.
/// They share their work by taking it from a common place, so that those that are there do all of it. A panic of
/// `helper` on another thread is [`ThreadDied`], so that it does not unwind through a program that embeds this.
pub fn with_helpers<T: Send>(
    threads: usize,
    helper: impl Fn() -> T + Sync,
    own: impl FnOnce() -> T,
) -> Result<Vec<T>, ThreadDied> {
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| spawn_scoped(scope, &helper)).collect();
        let own = Ok(own());
        let helpers = helpers.into_iter().map(|helper| helper.finish().map_err(|_| ThreadDied));
        std::iter::once(own).chain(helpers).collect()
    })
}

/// Runs `own` on the calling thread and `other` on another one, and returns both results. A panic is passed on to the
/// caller.
pub fn join<A, B: Send>(own: impl FnOnce() -> A, other: impl FnOnce() -> B + Send) -> (A, B) {
    std::thread::scope(|scope| {
        let other = spawn_scoped(scope, other);
        (own(), other.finish().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Returns the number of processors, at most `max`.
pub fn processors(max: usize) -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(max)
}

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
    fn parallel_map_keeps_the_order_of_its_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(
            parallel_map(&items, 8, |item| item * 2).unwrap(),
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        assert_eq!(parallel_map(&[0_u64; 0], 8, |item| item * 2).unwrap(), [0; 0]);
    }

    #[test]
    fn parallel_map_without_threads_maps_everything_on_the_calling_thread() {
        let items: Vec<u64> = (0..1000).collect();
        let here = std::thread::current().id();
        let done = without_threads(|| {
            parallel_map(&items, 8, |item| (item * 2, std::thread::current().id() == here))
        });
        assert_eq!(done.unwrap(), items.iter().map(|item| (item * 2, true)).collect::<Vec<_>>());
    }

    #[test]
    fn panic_on_another_thread_is_an_error_and_does_not_unwind_through_the_caller() {
        let here = std::thread::current().id();
        let panic_elsewhere = || assert_eq!(std::thread::current().id(), here, "of the work");
        assert_eq!(with_helpers(2, panic_elsewhere, || ()), Err(ThreadDied));
    }

    #[test]
    fn share_returns_the_panic_of_its_thread() {
        let panicked =
            std::thread::scope(|scope| spawn_scoped(scope, || -> u8 { panic!("of the work") }).finish());
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"of the work"));
    }
}
