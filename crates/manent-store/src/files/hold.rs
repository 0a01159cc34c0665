//! Locks: on one file while its place or form changes, and on the whole store while files come and go.
//!
//! Both are flocks: whoever dies lets go. The lock on a live file is the writer's lease itself. The lock on the store
//! is on the directory of the live sessions, so that there is no lock file to be left behind.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use manent_log::Disk;
use manent_log::fs::{Access, DiskFile};

use crate::error::{Error, Result, io_error};
use crate::streams::{LockGuard, LockMode};
use crate::sync::lock;

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

/// A lock on a directory: of the sessions, the right to move them.
#[derive(Debug)]
pub(super) struct DirLock {
    _dir: Box<dyn DiskFile>,
}

impl DirLock {
    /// Takes the lock for somebody who only looks; `None` if it is not to be had soon.
    pub(super) fn take_soon(disk: &dyn Disk, dir: &Path, wait_min: Duration) -> Option<DirLock> {
        DirLock::take(disk, dir, wait_min.min(SOON)).ok()
    }

    /// Takes the lock, waiting for another holder at most `wait`.
    pub(super) fn take(disk: &dyn Disk, dir: &Path, wait: Duration) -> Result<DirLock> {
        let deadline = Deadline::after(wait);
        let file = disk.open(dir, Access::Directory).map_err(io_error("open", dir))?;
        while !file.try_lock().map_err(io_error("lock", dir))? {
            if deadline.is_near() {
                return Err(Error::Busy { path: dir.to_owned(), pid: file.lock_holder() });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(DirLock { _dir: file })
    }
}

/// A lock that callers of the seam hold.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not used")]
pub(super) enum AnyLock {
    Dir(DirLock),
    File(manent_log::Hold),
}

/// The locks that are held through this backend.
///
/// A [`Disk`] has only exclusive locks. Shared holders of one process share one, so another process waits for them even
/// if it wants to share the lock too.
#[derive(Debug, Default)]
pub(super) struct Locks {
    shared: Mutex<HashMap<PathBuf, Weak<AnyLock>>>,
}

#[derive(Debug)]
pub(super) struct TakenLock(#[expect(dead_code, reason = "held, not used")] Arc<AnyLock>);

impl LockGuard for TakenLock {}

impl Locks {
    /// Takes a lock, waiting for other holders at most `wait`. `take` takes it without waiting.
    pub(super) fn take(
        &self,
        path: &Path,
        mode: LockMode,
        wait: Duration,
        take: impl Fn() -> Result<AnyLock>,
    ) -> Result<TakenLock> {
        let deadline = Deadline::after(wait);
        loop {
            let mut shared = lock(&self.shared);
            let held = shared.get(path).and_then(Weak::upgrade);
            if let Some(held) = held.filter(|_| mode == LockMode::Shared) {
                return Ok(TakenLock(held));
            }
            match take() {
                Err(Error::Busy { .. }) if !deadline.is_near() => {}
                taken => {
                    let taken = Arc::new(taken?);
                    if mode == LockMode::Shared {
                        shared.retain(|_, held| held.strong_count() > 0);
                        shared.insert(path.to_owned(), Arc::downgrade(&taken));
                    }
                    return Ok(TakenLock(taken));
                }
            }
            drop(shared);
            std::thread::sleep(PAUSE);
        }
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
