//! The writer's lease: an flock on the log itself.
//!
//! There is no lock file, so none can outlive its owner: when the process ends, however it ends, the kernel lets go.
//! Because the lock belongs to an inode and a path can lead to another one a moment later, the path is looked at
//! again after the lock was taken. It is not a lock on reading (anyone may read), and not a lock between threads
//! ([`crate::SharedLog`] is).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::fs::{Access, Disk, DiskFile, FileId, FileSystem, Shape};

/// The right to write one log, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    /// Whether the file was made by taking this lease.
    pub(crate) created: bool,
    pub(crate) trust: Trust,
    pub(crate) id: FileId,
    opener: u32,
}

/// What to do when there is no file at the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Refuse,
}

/// Whether to write on file systems that are not known to be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Only on local file systems known to keep our assumptions.
    #[default]
    LocalOnly,
    /// On any: the user insisted.
    AnyFileSystem,
}

impl Lease {
    /// Takes the lease, waiting for another holder at most `wait`.
    pub(crate) fn take(
        disk: &dyn Disk,
        path: &Path,
        missing: IfMissing,
        trust: Trust,
        wait: Duration,
    ) -> Result<Lease> {
        let mut patience = Patience::new(wait);
        refuse_unsafe(disk, path, trust)?;
        loop {
            let (file, created) = open(disk, path, missing)?;
            let id = file.id().map_err(Error::io("inspect", path))?;
            let lease = Lease { file, path: path.to_owned(), created, trust, id, opener: std::process::id() };
            match lease.file.try_lock() {
                // Somebody may have renamed or removed the file between our open and our lock: then we hold the
                // lock of a file that nobody else will ever open, and must start again.
                Ok(true) => match leads_to(disk, path, id) {
                    Ok(true) => return Ok(lease),
                    Ok(false) => continue,
                    Err(e) => {
                        lease.remove_untouched(disk);
                        return Err(e);
                    }
                },
                Ok(false) if patience.is_over() => {
                    return Err(Error::Held { path: path.to_owned(), pid: lease.file.lock_holder() });
                }
                Ok(false) => {}
                Err(e) => {
                    // Whoever was granted the lock that we were not keeps the file.
                    if lease.file.lock_holder().is_none() {
                        lease.remove_untouched(disk);
                    }
                    return Err(Error::io("lock", path)(e));
                }
            }
            drop(lease);
            patience.pause();
        }
    }

    /// Removes a file that taking this lease made and to which nothing was written. Whoever waits for it makes a new
    /// one: the path is looked at again after the lock was taken.
    pub(crate) fn remove_untouched(&self, disk: &dyn Disk) {
        if self.created && self.check_process().is_ok() && self.check_path(disk).is_ok() {
            let empty = self.file.state().is_ok_and(|state| state.len == 0);
            if empty {
                let _ = disk.remove(&self.path);
            }
        }
    }

    /// Lets others take the lease; the file stays open, for [`Lease::retake`].
    pub(crate) fn let_go(&self) -> Result<()> {
        self.check_process()?;
        self.file.unlock().map_err(Error::io("unlock", &self.path))
    }

    /// Takes the lease again after it was let go, waiting for another holder at most `wait`. The path must be checked
    /// then: it may have come to lead elsewhere.
    pub(crate) fn retake(&self, wait: Duration) -> Result<()> {
        // Before the lock: parent and child would share it, as they share the open file.
        self.check_process()?;
        let mut patience = Patience::new(wait);
        while !self.file.try_lock().map_err(Error::io("lock", &self.path))? {
            if patience.is_over() {
                return Err(Error::Held { path: self.path.clone(), pid: self.file.lock_holder() });
            }
            patience.pause();
        }
        Ok(())
    }

    /// Refuses a handle that was carried into another process by fork(2): both would believe they hold the lease.
    pub(crate) fn check_process(&self) -> Result<()> {
        if std::process::id() == self.opener {
            return Ok(());
        }
        Err(Error::OtherProcess { path: self.path.clone(), opener: self.opener })
    }

    /// Refuses to go on if the path no longer leads to the file we hold.
    pub(crate) fn check_path(&self, disk: &dyn Disk) -> Result<()> {
        if leads_to(disk, &self.path, self.id)? {
            return Ok(());
        }
        Err(Error::Gone { path: self.path.clone(), how: "moved or replaced" })
    }
}

/// The right to be the only one, by a file that means nothing but that: held as a log is.
#[derive(Debug)]
pub struct Hold {
    lease: Lease,
    disk: Arc<dyn Disk>,
}

impl Hold {
    /// Takes it, and makes the file if it is not there. Another holder is not waited for.
    pub fn take(disk: &Arc<dyn Disk>, path: &Path, trust: Trust) -> Result<Hold> {
        let lease = Lease::take(&**disk, path, IfMissing::Create, trust, Duration::ZERO)?;
        Ok(Hold { lease, disk: disk.clone() })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // While it is held: afterwards the file may be somebody else's. One that stays is in nobody's way.
        if self.lease.check_process().and_then(|()| self.lease.check_path(&*self.disk)).is_ok() {
            let _ = self.disk.remove(&self.lease.path);
        }
    }
}

/// How long another holder is waited for, and how often to look.
struct Patience {
    /// Nothing: longer than any clock runs.
    deadline: Option<Instant>,
    pause: Duration,
}

impl Patience {
    fn new(wait: Duration) -> Patience {
        Patience { deadline: Instant::now().checked_add(wait), pause: Duration::from_millis(1) }
    }

    /// Whether there is no time for another look.
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() + self.pause > deadline)
    }

    fn pause(&mut self) {
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

/// Opens the file, and says whether it had to be made.
fn open(disk: &dyn Disk, path: &Path, missing: IfMissing) -> Result<(Box<dyn DiskFile>, bool)> {
    loop {
        match disk.open(path, Access::Append) {
            Ok(file) => return Ok((file, false)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(open_error(disk, path, "open", e)),
        }
        if missing == IfMissing::Refuse {
            return Err(Error::NotFound { path: path.to_owned() });
        }
        match disk.open(path, Access::CreateNew) {
            Ok(file) => return Ok((file, true)),
            // Another process was faster: its file is as good as ours.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
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

fn refuse_unsafe(disk: &dyn Disk, path: &Path, trust: Trust) -> Result<()> {
    if trust == Trust::AnyFileSystem {
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

fn leads_to(disk: &dyn Disk, path: &Path, id: FileId) -> Result<bool> {
    match disk.inspect(path) {
        Ok(info) => Ok(info.id == id),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("inspect", path)(e)),
    }
}

/// A waiting writer looks this often at least: an answer takes seconds, so nobody feels it.
const PAUSE_MAX: Duration = Duration::from_millis(25);

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
            Lease::take(&RealDisk, &path, IfMissing::Create, Trust::LocalOnly, Duration::ZERO).expect("free");
        assert!(lease.check_process().is_ok());
        let opener = std::process::id() + 1;
        let carried = Lease { opener, ..lease };
        assert!(matches!(carried.check_process(), Err(Error::OtherProcess { opener: o, .. }) if o == opener));
        for refused in [carried.let_go(), carried.retake(Duration::ZERO)] {
            assert!(matches!(refused, Err(Error::OtherProcess { .. })), "{refused:?}");
        }
    }
}
