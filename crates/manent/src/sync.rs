//! Mutexes that do not give up.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// For locks behind which a panic in another thread leaves nothing half done: its poison is no reason to
/// stop.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
