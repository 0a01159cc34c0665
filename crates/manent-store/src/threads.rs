//! Work that is shared with another thread where the system gives one, and done on the calling thread where it does
//! not: a limit on processes makes an operation slower, and does not fail it.

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::sync::lock;

/// Work that another thread does, or that is left to whoever waits for it.
pub enum Shared<'scope, F, T> {
    Running(ScopedJoinHandle<'scope, Option<T>>),
    /// No thread could be started.
    Left(Option<F>),
}

/// Starts work on another thread of `scope`. Where no thread can be started, [`Shared::finish`] does it.
pub fn share<'scope, 'env, F, T>(scope: &'scope Scope<'scope, 'env>, work: F) -> Shared<'scope, F, T>
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
        Ok(running) => Shared::Running(running),
        Err(_) => Shared::Left(lock(&slot).take()),
    }
}

impl<F: FnOnce() -> T, T> Shared<'_, F, T> {
    /// Waits for the result, or does the work now. Returns the panic of a thread that panicked.
    pub fn finish(self) -> std::thread::Result<T> {
        let done = match self {
            Shared::Running(running) => running.join()?,
            Shared::Left(work) => work.map(|work| work()),
        };
        done.ok_or_else(|| Box::new("the work was taken by nobody") as Box<dyn Any + Send>)
    }
}

#[cfg(not(test))]
fn builder() -> Builder {
    Builder::new()
}

#[cfg(test)]
fn builder() -> Builder {
    if tests::are_refused() { Builder::new().stack_size(1 << 56) } else { Builder::new() }
}

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::retrospective::Question;
    use crate::runs::NewRun;
    use crate::{InMemory, Query, SessionKey, Store, StoreOptions, turn};

    thread_local! {
        static REFUSED: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn are_refused() -> bool {
        REFUSED.get()
    }

    /// Runs `work` while no thread can be started from this one: each would need more memory than can be addressed.
    pub fn without_threads<T>(work: impl FnOnce() -> T) -> T {
        REFUSED.set(true);
        let refused = std::thread::scope(|scope| builder().spawn_scoped(scope, || ()).is_err());
        assert!(refused, "a thread could be started");
        let done = work();
        REFUSED.set(false);
        done
    }

    fn thread_of_work() -> std::thread::ThreadId {
        std::thread::scope(|scope| share(scope, || std::thread::current().id()).finish().unwrap())
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
    fn search_of_many_sessions_without_threads_finds_every_turn() {
        let store = Store::on(Arc::new(InMemory::default()), StoreOptions::default());
        for number in 0..1100 {
            let key = SessionKey::new(format!("s{number}")).unwrap();
            store.append(&key, turn("user", "alpha")).unwrap();
        }
        let query = Query::parse("alpha", 0).unwrap();
        without_threads(|| {
            for _ in 0..2 {
                assert_eq!(store.search(&query, 1).unwrap().total, Some(1100));
            }
        });
    }

    #[test]
    fn retrospective_without_threads_reads_every_session() {
        let dir = tempfile::tempdir().unwrap();
        let runs = Store::open(dir.path()).unwrap().runs().unwrap();
        for number in 0..4 {
            let run = NewRun { skill: "fix".to_owned(), ..NewRun::default() };
            runs.begin(&SessionKey::new(format!("s{number}")).unwrap(), run).unwrap();
        }
        let question = Question { threads: 4, ..Question::default() };
        let read = AtomicU64::new(0);
        let progress = |_: u64, _: u64| {
            read.fetch_add(1, Ordering::Relaxed);
        };
        without_threads(|| runs.retrospective(&question, &progress)).unwrap();
        assert_eq!(read.into_inner(), 4, "sessions");
    }

    #[test]
    fn share_returns_the_panic_of_its_thread() {
        let panicked = std::thread::scope(|scope| share(scope, || -> u8 { panic!("of the work") }).finish());
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"of the work"));
    }
}
