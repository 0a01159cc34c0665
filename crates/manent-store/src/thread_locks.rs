//! Leases and locks between the threads of one process, for backends that have nothing better.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::streams::{LockGuard, LockMode};
use crate::sync::lock;

/// Named locks that are held by threads of this process. Waiting costs no polling, and any wait is accepted, also
/// [`Duration::MAX`].
///
/// Leases and locks share one set of names, so a backend prefixes them. Other processes are not excluded: a backend
/// that several processes can open has to do that in another way.
#[derive(Debug, Default)]
pub struct ThreadLocks {
    held: Mutex<HashMap<String, Count>>,
    freed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Shared(u64),
    Alone,
}

impl ThreadLocks {
    /// Waits until nobody holds the lock of a name, without taking it, for a caller that only has to know that a holder
    /// is done. Returns false if somebody holds it for as long as `wait`.
    pub fn wait_until_free(&self, name: &str, wait: Duration) -> bool {
        let waited = self.freed.wait_timeout_while(lock(&self.held), wait, |held| held.contains_key(name));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Takes the lock of a name, or returns `None` if others hold it for as long as `wait`.
    pub fn take(
        self: &Arc<ThreadLocks>,
        name: &str,
        mode: LockMode,
        wait: Duration,
    ) -> Option<ThreadLockGuard> {
        let excludes = |held: &mut HashMap<String, Count>| match held.get(name) {
            None => false,
            Some(count) => *count == Count::Alone || mode == LockMode::Exclusive,
        };
        let waited = self.freed.wait_timeout_while(lock(&self.held), wait, excludes);
        let (mut held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return None;
        }
        let count = match (held.get(name), mode) {
            (Some(Count::Shared(count)), _) => Count::Shared(count + 1),
            (_, LockMode::Shared) => Count::Shared(1),
            (_, LockMode::Exclusive) => Count::Alone,
        };
        held.insert(name.to_owned(), count);
        Some(ThreadLockGuard { holders: self.clone(), name: name.to_owned() })
    }
}

/// A lock of [`ThreadLocks`], until it is dropped, also by a panic.
pub struct ThreadLockGuard {
    holders: Arc<ThreadLocks>,
    name: String,
}

impl LockGuard for ThreadLockGuard {}

impl fmt::Debug for ThreadLockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Holding").field(&self.name).finish()
    }
}

impl Drop for ThreadLockGuard {
    fn drop(&mut self) {
        let mut held = lock(&self.holders.held);
        match held.remove(&self.name) {
            Some(Count::Shared(count)) if count > 1 => {
                held.insert(self.name.clone(), Count::Shared(count - 1));
            }
            _ => {}
        }
        drop(held);
        self.holders.freed.notify_all();
    }
}
