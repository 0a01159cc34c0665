//! [`FileLock`]: an flock on a file or a directory, released when it is dropped or its process ends.
//!
//! There is no lock that means "locked" by existing, so none can outlive its holder: when a process ends, however it
//! ends, the kernel releases its locks. A lock belongs to an inode, and a path can lead to another inode a moment after
//! it was opened, so [`FileLock::acquire`] looks at the path again after the lock was granted and starts over if the
//! file was moved, removed or replaced.
//!
//! A lock excludes other open files, in this process too. It does not keep anybody from reading or writing who does
//! not ask for it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fs::{Access, Disk, DiskFile, FileId};

/// The mode of a lock: for one holder, or shared by several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockMode {
    /// Excludes all other locks.
    Exclusive,
    /// Excludes exclusive locks only.
    Shared,
}

/// A held lock. Dropping it closes the file and releases the lock.
#[derive(Debug)]
pub struct FileLock {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    id: FileId,
    mode: LockMode,
}

/// The outcome of one attempt to lock a file.
pub(crate) enum LockAttempt {
    /// The lock is held, and the path leads to the locked file.
    Locked(FileLock),
    /// The lock was granted, but the path leads elsewhere by now: open it again.
    Moved,
    /// Another open file holds the lock.
    Held(Box<dyn DiskFile>),
}

impl FileLock {
    /// Opens `path` and locks it, waiting at most `wait` for other holders.
    ///
    /// A file is opened again on each attempt, and when this returns, `path` led to the locked file at a moment at
    /// which the lock was held. A directory ([`Access::Directory`]) may be reached through a symbolic link and is not
    /// looked at again; use [`FileLock::is_at_path`] where that matters.
    ///
    /// [`Error::Held`] names the holder; [`Error::Io`] says which step failed (`open`, `lock` or `inspect`).
    pub fn acquire(
        disk: &dyn Disk,
        path: &Path,
        access: Access,
        mode: LockMode,
        wait: Duration,
    ) -> Result<FileLock> {
        if access == Access::Directory {
            let dir = disk.open(path, access).map_err(Error::io("open", path))?;
            return FileLock::acquire_open(dir, path, mode, wait);
        }
        let mut waiting = LockWait::new(wait);
        loop {
            let file = disk.open(path, access).map_err(Error::io("open", path))?;
            match FileLock::attempt(disk, file, path, mode)? {
                LockAttempt::Locked(lock) => return Ok(lock),
                LockAttempt::Moved => {}
                LockAttempt::Held(file) => waiting.pause_or_give_up(file, path)?,
            }
        }
    }

    /// Locks an open file, waiting at most `wait` for other holders. `path` is for messages and for
    /// [`FileLock::is_at_path`]; it is not looked at.
    pub fn acquire_open(
        file: Box<dyn DiskFile>,
        path: &Path,
        mode: LockMode,
        wait: Duration,
    ) -> Result<FileLock> {
        let lock = FileLock::new(file, path, mode)?;
        lock.reacquire(wait)?;
        Ok(lock)
    }

    fn new(file: Box<dyn DiskFile>, path: &Path, mode: LockMode) -> Result<FileLock> {
        let id = file.id().map_err(Error::io("inspect", path))?;
        Ok(FileLock { file, path: path.to_owned(), id, mode })
    }

    /// The lock of a file that was locked exclusively under another name and is called `path` now.
    pub(crate) fn of_locked(file: Box<dyn DiskFile>, path: &Path, id: FileId) -> FileLock {
        FileLock { file, path: path.to_owned(), id, mode: LockMode::Exclusive }
    }

    /// Locks an open file without waiting and checks that `path` leads to it.
    pub(crate) fn attempt(
        disk: &dyn Disk,
        file: Box<dyn DiskFile>,
        path: &Path,
        mode: LockMode,
    ) -> Result<LockAttempt> {
        if !try_lock(&*file, mode).map_err(Error::io("lock", path))? {
            return Ok(LockAttempt::Held(file));
        }
        let lock = FileLock::new(file, path, mode)?;
        Ok(if lock.is_at_path(disk)? { LockAttempt::Locked(lock) } else { LockAttempt::Moved })
    }

    /// Returns whether the path still leads to the locked file.
    pub fn is_at_path(&self, disk: &dyn Disk) -> Result<bool> {
        match disk.inspect(&self.path) {
            Ok(info) => Ok(info.id == self.id),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("inspect", &self.path)(e)),
        }
    }

    /// Releases the lock and keeps the file open, for [`FileLock::reacquire`].
    pub fn release(&self) -> Result<()> {
        self.file.unlock().map_err(Error::io("unlock", &self.path))
    }

    /// Takes the lock of the same open file again, waiting at most `wait` for other holders. The path may lead
    /// elsewhere by now; [`FileLock::is_at_path`] tells.
    pub fn reacquire(&self, wait: Duration) -> Result<()> {
        let mut waiting = LockWait::new(wait);
        while !try_lock(&*self.file, self.mode).map_err(Error::io("lock", &self.path))? {
            if waiting.is_over() {
                return Err(Error::Held { path: self.path.clone(), pid: self.file.lock_holder() });
            }
            waiting.pause();
        }
        Ok(())
    }

    /// The locked file.
    pub fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// The path by which it was locked.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identity of the locked file.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The locked file without its path; the lock is held until the file is closed.
    pub fn into_file(self) -> Box<dyn DiskFile> {
        self.file
    }
}

fn try_lock(file: &dyn DiskFile, mode: LockMode) -> io::Result<bool> {
    match mode {
        LockMode::Exclusive => file.try_lock(),
        LockMode::Shared => file.try_lock_shared(),
    }
}

/// Limits how long another holder is waited for, and how often the lock is tried.
pub(crate) struct LockWait {
    /// `None` means longer than any clock runs.
    deadline: Option<Instant>,
    pause: Duration,
    pause_max: Duration,
}

impl LockWait {
    pub(crate) fn new(wait: Duration) -> LockWait {
        LockWait {
            deadline: Instant::now().checked_add(wait),
            pause: PAUSE_MIN,
            pause_max: (wait / ATTEMPTS_MIN).clamp(PAUSE_MIN, PAUSE_MAX),
        }
    }

    /// Returns whether there is no time for another attempt.
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() + self.pause > deadline)
    }

    fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(self.pause_max);
    }

    /// Closes a file that another holder has locked and waits before the next attempt, or says who holds it.
    pub(crate) fn pause_or_give_up(&mut self, file: Box<dyn DiskFile>, path: &Path) -> Result<()> {
        if self.is_over() {
            return Err(Error::Held { path: path.to_owned(), pid: file.lock_holder() });
        }
        drop(file);
        self.pause();
        Ok(())
    }
}

const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The least number of attempts while a lock is waited for. Somebody who takes it again and again, as one who moves
/// sessions does, leaves it free for moments only.
const ATTEMPTS_MIN: u32 = 40;
/// The longest pause between two attempts. Holders write for milliseconds, and whoever waits waits for a person or a
/// model next.
const PAUSE_MAX: Duration = Duration::from_millis(25);
