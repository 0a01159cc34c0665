//! Locks: on one file while its place or form changes, and on the whole store while files come and go.
//!
//! Both are flocks: whoever dies lets go. The lock on a live file is the writer's lease itself. The lock on the store
//! is on the directory of the live sessions, so that there is no lock file to be left behind.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::Access;
use manent_log::{Disk, FileLock, LockMode};

use crate::error::{Error, Result, io_error};
use crate::streams::LockGuard;

/// Locks a file, so that nobody else moves or rewrites it, waiting for another holder at most `wait`.
pub(super) fn lock_file(disk: &dyn Disk, path: &Path, wait: Duration) -> Result<FileLock> {
    FileLock::acquire(disk, path, Access::Read, LockMode::Exclusive, wait).map_err(lock_error)
}

/// Locks a directory, waiting for another holder at most `wait`. The lock of the sessions' directory is the right to
/// move them.
pub(super) fn lock_dir(disk: &dyn Disk, dir: &Path, mode: LockMode, wait: Duration) -> Result<FileLock> {
    match FileLock::acquire(disk, dir, Access::Directory, mode, wait) {
        Err(manent_log::Error::Held { path, pid }) => Err(Error::Busy { path, pid }),
        locked => locked.map_err(lock_error),
    }
}

/// A lock that is a small file of its own. Whoever holds it alone removes the file while it is held; one that stays
/// means nothing, because only the lock does.
#[derive(Debug)]
pub(super) struct NamedLock {
    lock: FileLock,
    disk: Arc<dyn Disk>,
    mode: LockMode,
}

impl LockGuard for NamedLock {}

impl NamedLock {
    /// Takes the lock, waiting for other holders at most `wait`, and makes the file if it is not there.
    pub(super) fn take(
        disk: &Arc<dyn Disk>,
        path: &Path,
        mode: LockMode,
        wait: Duration,
    ) -> Result<NamedLock> {
        loop {
            match disk.open(path, Access::CreateNew) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(io_error("create", path)(e));
                }
                _ => {}
            }
            match FileLock::acquire(&**disk, path, Access::Append, mode, wait) {
                Ok(lock) => return Ok(NamedLock { lock, disk: disk.clone(), mode }),
                Err(manent_log::Error::Held { path, pid }) => return Err(Error::Busy { path, pid }),
                // Removed by whoever held it until now.
                Err(manent_log::Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(lock_error(e)),
            }
        }
    }
}

impl Drop for NamedLock {
    fn drop(&mut self) {
        if self.mode == LockMode::Exclusive && self.lock.is_at_path(&*self.disk).unwrap_or(false) {
            let _ = self.disk.remove(self.lock.path());
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

/// The longest wait of somebody who only looks. Whoever moves sessions holds the lock for a few renames and their
/// syncs.
pub(super) const LOOK_WAIT_MAX: Duration = Duration::from_millis(200);
pub(super) const STORE_WAIT_MIN: Duration = Duration::from_secs(10);
