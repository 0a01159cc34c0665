//! Locks: on one file while its place or form changes, and on the whole store while files come and go.
//!
//! Both are flocks: whoever dies lets go. The lock on a live file is the writer's lease itself. The lock on the store
//! is on the directory of the live sessions, so that there is no lock file to be left behind.

use std::path::Path;
use std::time::Duration;

use manent_log::fs::Access;
use manent_log::{Disk, FileLock, LockMode};

use super::Files;
use crate::backend::Exclusive;
use crate::error::{Error, Result};

/// Locks a file, so that nobody else moves or rewrites it, waiting for another holder at most `wait`.
pub(super) fn lock_file(disk: &dyn Disk, path: &Path, wait: Duration) -> Result<FileLock> {
    FileLock::acquire(disk, path, Access::Read, LockMode::Exclusive, wait).map_err(lock_error)
}

/// The lock on the store.
#[derive(Debug)]
pub(super) struct StoreLock {
    _dir: FileLock,
}

impl Exclusive for StoreLock {}

impl StoreLock {
    /// For somebody who only looks: nothing if it is not to be had soon.
    pub(super) fn take_soon(files: &Files) -> Option<StoreLock> {
        StoreLock::take_within(files, files.store_wait_min.min(SOON)).ok()
    }

    pub(super) fn take(files: &Files, wait: Duration) -> Result<StoreLock> {
        // Others hold it for a few renames, so a caller who wants no waiting means writers, not this.
        StoreLock::take_within(files, wait.max(files.store_wait_min))
    }

    fn take_within(files: &Files, wait: Duration) -> Result<StoreLock> {
        let dir = &files.layout.sessions;
        match FileLock::acquire(&*files.disk, dir, Access::Directory, LockMode::Exclusive, wait) {
            Ok(dir) => Ok(StoreLock { _dir: dir }),
            Err(manent_log::Error::Held { path, pid }) => Err(Error::Busy { path, pid }),
            Err(e) => Err(lock_error(e)),
        }
    }
}

/// A refusal of the system is told apart from one of a log: a file that is not there may just have been moved.
fn lock_error(error: manent_log::Error) -> Error {
    match error {
        manent_log::Error::Io { action, path, source } => Error::Io { action, path, source },
        other => other.into(),
    }
}

/// Whoever moves sessions holds the lock for a few renames and their syncs.
const SOON: Duration = Duration::from_millis(200);
pub(super) const STORE_WAIT_MIN: Duration = Duration::from_secs(10);
