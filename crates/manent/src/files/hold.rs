//! Locks: on one file while its place or form changes, and on the whole store while files come and go.
//!
//! Both are flocks: whoever dies lets go. The lock on a live file is the writer's lease itself. The lock on the store
//! is on the directory of the live sessions, so that there is no lock file to be left behind.

use std::path::Path;
use std::time::{Duration, Instant};

use manent_log::Disk;
use manent_log::fs::{Access, DiskFile};

use super::Files;
use crate::backend::Exclusive;
use crate::error::{Error, Result, io_error};

/// A file that nobody else moves or rewrites while this lives.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) file: Box<dyn DiskFile>,
}

impl Held {
    /// Locks a file, waiting for another holder at most `wait`.
    pub(super) fn take(disk: &dyn Disk, path: &Path, wait: Duration) -> Result<Held> {
        let deadline = Deadline::after(wait);
        loop {
            let file = disk.open(path, Access::Read).map_err(io_error("open", path))?;
            if file.try_lock().map_err(io_error("lock", path))? {
                let id = file.id().map_err(io_error("inspect", path))?;
                // Moved between our open and our lock: then it is not this path's file that we hold.
                if disk.inspect(path).map_err(io_error("inspect", path))?.id == id {
                    return Ok(Held { file });
                }
                continue;
            }
            if deadline.is_near() {
                let pid = file.lock_holder();
                return Err(manent_log::Error::Held { path: path.to_owned(), pid }.into());
            }
            drop(file);
            std::thread::sleep(PAUSE);
        }
    }
}

/// The lock on the store.
#[derive(Debug)]
pub(super) struct StoreLock {
    _dir: Box<dyn DiskFile>,
}

impl Exclusive for StoreLock {}

impl StoreLock {
    /// For somebody who only looks: nothing if it is not to be had soon.
    pub(super) fn take_soon(files: &Files) -> Option<StoreLock> {
        let deadline = Deadline::after(files.store_wait_min.min(SOON));
        let file = files.disk.open(&files.layout.sessions, Access::Directory).ok()?;
        while !file.try_lock().ok()? {
            if deadline.is_near() {
                return None;
            }
            std::thread::sleep(PAUSE);
        }
        Some(StoreLock { _dir: file })
    }

    pub(super) fn take(files: &Files, wait: Duration) -> Result<StoreLock> {
        let dir = &files.layout.sessions;
        // Others hold it for a few renames, so a caller who wants no waiting means writers, not this.
        let deadline = Deadline::after(wait.max(files.store_wait_min));
        let file = files.disk.open(dir, Access::Directory).map_err(io_error("open", dir))?;
        while !file.try_lock().map_err(io_error("lock", dir))? {
            if deadline.is_near() {
                return Err(Error::Busy { path: dir.to_owned(), pid: file.lock_holder() });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(StoreLock { _dir: file })
    }
}

/// Until when to wait. Nothing: longer than any clock runs.
#[derive(Debug, Clone, Copy)]
struct Deadline(Option<Instant>);

impl Deadline {
    fn after(wait: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(wait))
    }

    /// Whether there is no time for another look.
    fn is_near(self) -> bool {
        self.0.is_some_and(|deadline| Instant::now() + PAUSE > deadline)
    }
}

const PAUSE: Duration = Duration::from_millis(5);
/// Whoever moves sessions holds the lock for a few renames and their syncs.
const SOON: Duration = Duration::from_millis(200);
pub(super) const STORE_WAIT_MIN: Duration = Duration::from_secs(10);
