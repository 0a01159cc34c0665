//! The writer's lease: an exclusive [`FileLock`] on the log itself.
//!
//! Whoever holds it may write. It is not a lock on reading (anyone may read), and not a lock between threads
//! ([`crate::SharedLog`] is). A new log gets its name only when its creator holds its lock, so that nobody else ever
//! finds a log that its creator may still have to remove.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::atomic_file::AtomicFile;
use crate::error::{Error, Result};
use crate::file_lock::{FileLock, LockAttempt, LockMode, LockWait};
use crate::fs::{Access, Disk, DiskFile, FileId, FileSystem, Shape};

/// The right to write one log, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lease {
    lock: FileLock,
    /// True if the file was made by taking this lease.
    pub(crate) created: bool,
    pub(crate) trust: FileSystemTrust,
    opener: u32,
}

/// Selects what happens if there is no file at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingLog {
    Create,
    Refuse,
}

/// Selects the file systems on which logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileSystemTrust {
    /// Local file systems known to keep our assumptions.
    #[default]
    LocalOnly,
    /// Any file system: the user insisted.
    AnyFileSystem,
}

impl Lease {
    /// Takes the lease, waiting for another holder at most `wait`.
    pub(crate) fn take(
        disk: &dyn Disk,
        path: &Path,
        missing: MissingLog,
        trust: FileSystemTrust,
        wait: Duration,
    ) -> Result<Lease> {
        let mut waiting = LockWait::new(wait);
        refuse_unsafe(disk, path, trust)?;
        loop {
            let file = match disk.open(path, Access::Append) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    if missing == MissingLog::Refuse {
                        return Err(Error::NotFound { path: path.to_owned() });
                    }
                    match create(disk, path)? {
                        Some(lock) => return Ok(Lease { created: true, ..Lease::new(lock, trust) }),
                        None => continue,
                    }
                }
                Err(e) => return Err(open_error(disk, path, "open", e)),
            };
            match FileLock::attempt(disk, file, path, LockMode::Exclusive)? {
                LockAttempt::Locked(lock) => return Ok(Lease::new(lock, trust)),
                LockAttempt::Moved => {}
                LockAttempt::Held(file) => waiting.pause_or_give_up(file, path)?,
            }
        }
    }

    fn new(lock: FileLock, trust: FileSystemTrust) -> Lease {
        Lease { lock, created: false, trust, opener: std::process::id() }
    }

    /// The log, open for appending.
    pub(crate) fn file(&self) -> &dyn DiskFile {
        self.lock.file()
    }

    /// The path of the log.
    pub(crate) fn path(&self) -> &Path {
        self.lock.path()
    }

    /// Identity of the log.
    pub(crate) fn id(&self) -> FileId {
        self.lock.id()
    }

    /// Removes a file that taking this lease made and to which nothing was written. Whoever waits for it makes a new
    /// one: the path is looked at again after the lock was taken. The caller holds the lock.
    pub(crate) fn remove_untouched(&self, disk: &dyn Disk) {
        if self.created && self.check_process().is_ok() && self.check_path(disk).is_ok() {
            let empty = self.file().state().is_ok_and(|state| state.len == 0);
            if empty {
                let _ = disk.remove(self.path());
            }
        }
    }

    /// Lets others take the lease; the file stays open, for [`Lease::retake`].
    pub(crate) fn let_go(&self) -> Result<()> {
        self.check_process()?;
        self.lock.release()
    }

    /// Takes the lease again after it was let go, waiting for another holder at most `wait`. The path must be checked
    /// then: it may have come to lead elsewhere.
    pub(crate) fn retake(&self, wait: Duration) -> Result<()> {
        // Before the lock: parent and child would share it, as they share the open file.
        self.check_process()?;
        self.lock.reacquire(wait)
    }

    /// Refuses a handle that was carried into another process by fork(2): both would believe they hold the lease.
    pub(crate) fn check_process(&self) -> Result<()> {
        if std::process::id() == self.opener {
            return Ok(());
        }
        Err(Error::OtherProcess { path: self.path().to_owned(), opener: self.opener })
    }

    /// Refuses to go on if the path no longer leads to the file we hold.
    pub(crate) fn check_path(&self, disk: &dyn Disk) -> Result<()> {
        if self.lock.is_at_path(disk)? {
            return Ok(());
        }
        Err(Error::Gone { path: self.path().to_owned(), how: "moved or replaced" })
    }
}

/// Makes an empty log and locks it before it gets its name. `None`: the name was taken meanwhile.
///
/// Syncs nothing: the name becomes durable with the first record, as that of any log.
fn create(disk: &dyn Disk, path: &Path) -> Result<Option<FileLock>> {
    loop {
        let new = AtomicFile::create_locked(disk, path)?;
        let id = new.id().map_err(Error::io("inspect", path))?;
        match new.rename_with(|temporary| disk.rename_new(temporary, path)) {
            Ok(file) => return Ok(Some(FileLock::of_locked(file, path, id))),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            // A process that was refused the lock of an earlier file of this name removed it: see `create_locked`.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("create", path)(e)),
        }
    }
}

/// Opens a log for reading; says what is in the way if it is not a regular file.
pub(crate) fn open_for_reading(disk: &dyn Disk, path: &Path) -> Result<Box<dyn DiskFile>> {
    disk.open(path, Access::Read).map_err(|e| open_error(disk, path, "read", e))
}

fn open_error(disk: &dyn Disk, path: &Path, action: &'static str, error: io::Error) -> Error {
    let path = path.to_owned();
    match disk.inspect(&path).map(|info| info.shape) {
        Ok(Shape::Directory) => Error::NotALog { path, what: "a directory" },
        Ok(Shape::Link) => Error::NotALog { path, what: "a symbolic link" },
        Ok(Shape::Special) => Error::NotALog { path, what: "a pipe, socket or device" },
        _ if error.kind() == io::ErrorKind::NotFound => Error::NotFound { path },
        _ => Error::Io { action, path, source: error },
    }
}

fn refuse_unsafe(disk: &dyn Disk, path: &Path, trust: FileSystemTrust) -> Result<()> {
    if trust == FileSystemTrust::AnyFileSystem {
        return Ok(());
    }
    // The directory is asked, because the file may not exist and must not be made only to be refused.
    let file_system = match disk.file_system(directory_of(path)) {
        Ok(FileSystem::Local) => return Ok(()),
        Ok(FileSystem::Network(name)) => format!("a network file system ({name})"),
        Ok(FileSystem::Unknown(magic)) => format!("a file system we do not know (magic {magic:#x})"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(Error::NotFound { path: path.to_owned() });
        }
        Err(e) => return Err(Error::io("inspect the file system of", path)(e)),
    };
    Err(Error::UnsafeFileSystem { path: path.to_owned(), file_system })
}

/// The directory a file lies in; the working directory for a bare name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealDisk;

    #[test]
    fn a_handle_carried_into_another_process_is_refused() {
        // What fork(2) leaves in the child: the same lease, another process id.
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("log.jsonl");
        let lease =
            Lease::take(&RealDisk, &path, MissingLog::Create, FileSystemTrust::LocalOnly, Duration::ZERO)
                .expect("free");
        assert!(lease.check_process().is_ok());
        let opener = std::process::id() + 1;
        let carried = Lease { opener, ..lease };
        assert!(matches!(carried.check_process(), Err(Error::OtherProcess { opener: o, .. }) if o == opener));
        for refused in [carried.let_go(), carried.retake(Duration::ZERO)] {
            assert!(matches!(refused, Err(Error::OtherProcess { .. })), "{refused:?}");
        }
    }
}
