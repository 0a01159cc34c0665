//! Being the only one at work on a run: a lock of its own.
//!
//! The log cannot be locked for that long, because others record to it meanwhile. The lock ends with its holder, so
//! that what a file backend leaves behind for it means nothing.

use std::time::Duration;

use manent_store::{Lock, LockMode, LockName, SessionKey, Space};

use super::Runs;
use crate::error::{Error, Result};

/// The right to be the only one at work on a run, until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _lock: Lock,
}

impl Runs {
    /// Makes sure that nobody else is at work on the run of this key, in any process: whoever asks meanwhile is told
    /// [`Error::Running`] at once. Take it before [`Runs::begin`], and keep it until the end is recorded.
    pub fn lock_run(&self, session: &SessionKey, idempotency_key: &str) -> Result<RunLock> {
        // Both may be of any length, and hold anything.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(session.as_str().len() as u64).to_le_bytes());
        let hash = hasher.update(session.as_str().as_bytes()).update(idempotency_key.as_bytes()).finalize();
        let name = format!("{}{MARK}", &hash.to_hex()[..HASH_DIGITS]);
        let name = LockName::Named(Space::Runs, &name);
        match self.logs.store().streams().lock(name, LockMode::Exclusive, Duration::ZERO) {
            Err(manent_store::Error::Busy { pid, .. }) => Err(Error::Running { pid }),
            taken => Ok(RunLock { _lock: taken? }),
        }
    }
}

/// Behind the names of such locks. No log is called so.
const MARK: &str = ".running";
const HASH_DIGITS: usize = 32;
