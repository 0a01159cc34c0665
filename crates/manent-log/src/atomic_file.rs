//! [`AtomicFile`]: a file that appears under its name when it is complete, or not at all.
//!
//! The content is written to a temporary file in the directory of the target, synced, and given its name by one rename;
//! then the directory is synced. Whoever looks sees the old content or the new one, whenever the process is killed or
//! the power fails. What a crash leaves is a temporary file, whose name begins with a dot and ends with `.tmp`: readers
//! ignore such names, and the owners of a directory remove them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::file_lock::{FileLock, LockAttempt, LockMode};
use crate::fs::{self, Access, Disk, DiskFile, FileId, write_fully};
use crate::lock::directory_of;

/// A file being written, which [`AtomicFile::commit`] or [`AtomicFile::commit_new`] puts in its place. Dropped before
/// that, it is removed and the target stays as it was.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = &dir.path().join("settings.json");
/// use manent_log::{AtomicFile, RealDisk};
///
/// let mut file = AtomicFile::create(&RealDisk, path)?;
/// file.write_all(b"{}\n")?;
/// file.commit()?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct AtomicFile<'d> {
    disk: &'d dyn Disk,
    target: PathBuf,
    // Before `file`, so that a temporary file that goes is removed while its lock, if it has one, is held.
    temporary: Temporary<'d>,
    file: Box<dyn DiskFile>,
    sync: CommitSync,
    is_synced: bool,
}

/// The syncs that a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitSync {
    /// The content before the rename, and the directory after it: the new file survives power loss.
    #[default]
    FileAndDirectory,
    /// The content before the rename: a power cut leaves the old file or the new one. The caller syncs the directory.
    File,
    /// No sync at all: the file is atomic for other processes and for a killed one, not for a power cut.
    None,
}

impl<'d> AtomicFile<'d> {
    /// Begins a file that will be at `target`, with mode 0600, under a temporary name that nobody else uses.
    pub fn create(disk: &'d dyn Disk, target: &Path) -> io::Result<AtomicFile<'d>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let dir = directory_of(target);
        for _ in 0..NAMES_TRIED {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = dir.join(format!(".manent-{}-{number}.tmp", std::process::id()));
            match AtomicFile::create_as(disk, target, temporary) {
                // A process with the same number died here, or lives in another namespace.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Begins a file under a temporary name that the caller chose and that must be free. For callers who look for that
    /// name themselves to remove what a crash left.
    pub fn create_as(disk: &'d dyn Disk, target: &Path, temporary: PathBuf) -> io::Result<AtomicFile<'d>> {
        let file = disk.open(&temporary, Access::CreateNew)?;
        Ok(AtomicFile::new(disk, target, temporary, file))
    }

    /// Begins a file that is exclusively locked until it is committed or dropped, for directories in which unlocked
    /// temporary files are taken for leftovers and removed. The lock stays with the file that
    /// [`AtomicFile::rename_with`] returns.
    ///
    /// The names are numbered, and one that a crash left is removed and used again, so that leftovers do not pile up.
    pub fn create_locked(disk: &'d dyn Disk, target: &Path) -> Result<AtomicFile<'d>> {
        let dir = directory_of(target);
        for number in 0..LOCKED_NAMES_TRIED {
            let temporary = dir.join(format!(".new-{number}.tmp"));
            let created = match disk.open(&temporary, Access::CreateNew) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    if !remove_leftover(disk, &temporary) {
                        continue;
                    }
                    disk.open(&temporary, Access::CreateNew)
                }
                created => created,
            };
            let file = match created {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created.map_err(Error::io("create", target))?,
            };
            let id = file.id().map_err(Error::io("inspect", target))?;
            match FileLock::attempt(disk, file, &temporary, LockMode::Exclusive) {
                Ok(LockAttempt::Locked(lock)) => {
                    return Ok(AtomicFile::new(disk, target, temporary, lock.into_file()));
                }
                // Taken for a leftover before it was locked, and removed.
                Ok(LockAttempt::Moved | LockAttempt::Held(_)) => {}
                Err(e) => {
                    // Nothing was written to it. Should its name lead to the file of another process by now, that
                    // process finds its name gone and starts over.
                    if disk.inspect(&temporary).is_ok_and(|info| info.id == id) {
                        let _ = disk.remove(&temporary);
                    }
                    return Err(match e {
                        Error::Io { action, source, .. } => Error::io(action, target)(source),
                        other => other,
                    });
                }
            }
        }
        Err(Error::io("create", target)(io::ErrorKind::AlreadyExists.into()))
    }

    fn new(disk: &'d dyn Disk, target: &Path, temporary: PathBuf, file: Box<dyn DiskFile>) -> AtomicFile<'d> {
        let temporary = Temporary { disk, path: temporary, is_renamed: false };
        let sync = CommitSync::default();
        AtomicFile { disk, target: target.to_owned(), temporary, file, sync, is_synced: false }
    }

    /// Sets what the commit waits for; by default, for everything that survives power loss.
    #[must_use]
    pub fn with_sync(mut self, sync: CommitSync) -> AtomicFile<'d> {
        self.sync = sync;
        self
    }

    /// Appends all of `bytes`.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_fully(self.file(), bytes).map_err(|(_, e)| e)
    }

    /// Appends a range of another file. A range that ends behind that file is `UnexpectedEof`.
    pub fn copy_range(&mut self, from: &dyn DiskFile, offset: u64, length: u64) -> io::Result<()> {
        fs::copy_range(from, offset, length, self.file())
    }

    /// Locks the file exclusively, as [`AtomicFile::create_locked`] does, and keeps its temporary name.
    pub fn lock(&mut self) -> Result<()> {
        if self.file.try_lock().map_err(Error::io("lock", &self.temporary.path))? {
            return Ok(());
        }
        Err(Error::Held { path: self.temporary.path.clone(), pid: self.file.lock_holder() })
    }

    /// Sets the permission bits.
    pub fn set_mode(&mut self, mode: u32) -> io::Result<()> {
        self.file().set_mode(mode)
    }

    /// The temporary file itself, to be written to. A commit syncs what was written through it.
    pub fn file(&mut self) -> &dyn DiskFile {
        self.is_synced = false;
        &*self.file
    }

    /// Identity of the file, which stays the same when it gets its name.
    pub fn id(&self) -> io::Result<FileId> {
        self.file.id()
    }

    /// The path of the temporary file.
    pub fn temporary_path(&self) -> &Path {
        &self.temporary.path
    }

    /// Waits until the content is on stable storage. The commit does so too, unless nothing was written in between.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync()?;
        self.is_synced = true;
        Ok(())
    }

    /// Puts the file in its place and replaces what is there.
    ///
    /// After an error the target is as it was, unless only the sync of the directory failed: then the new file is in
    /// its place, and a power cut may bring the old one back.
    pub fn commit(self) -> io::Result<()> {
        self.finish(|disk, from, to| disk.rename(from, to))
    }

    /// Puts the file in its place; `AlreadyExists` if there is anything. Errors are as those of [`AtomicFile::commit`].
    pub fn commit_new(self) -> io::Result<()> {
        self.finish(|disk, from, to| disk.rename_new(from, to))
    }

    fn finish(mut self, rename: fn(&dyn Disk, &Path, &Path) -> io::Result<()>) -> io::Result<()> {
        if self.sync != CommitSync::None && !self.is_synced {
            self.sync()?;
        }
        let (disk, sync, target) = (self.disk, self.sync, self.target.clone());
        let file = self.rename_with(|temporary| rename(disk, temporary, &target))?;
        drop(file);
        match sync {
            CommitSync::FileAndDirectory => disk.sync_dir(directory_of(&target)),
            CommitSync::File | CommitSync::None => Ok(()),
        }
    }

    /// Gives the file its name by a rename of the caller's, and returns it open. Nothing is synced: for callers with
    /// steps of their own between the syncs and the rename.
    pub fn rename_with<E>(
        mut self,
        rename: impl FnOnce(&Path) -> std::result::Result<(), E>,
    ) -> std::result::Result<Box<dyn DiskFile>, E> {
        rename(&self.temporary.path)?;
        self.temporary.is_renamed = true;
        Ok(self.file)
    }
}

/// The name of a temporary file, removed on drop unless the file was renamed.
#[derive(Debug)]
struct Temporary<'d> {
    disk: &'d dyn Disk,
    path: PathBuf,
    is_renamed: bool,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            // One that cannot be removed is a leftover like any other.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// Removes a temporary file whose creator died. Returns whether the name may be free now: a file that is locked has a
/// creator who lives, and one that cannot be opened is somebody else's.
fn remove_leftover(disk: &dyn Disk, path: &Path) -> bool {
    let Ok(file) = disk.open(path, Access::Read) else { return false };
    match FileLock::attempt(disk, file, path, LockMode::Exclusive) {
        Ok(LockAttempt::Locked(_lock)) => disk.remove(path).is_ok(),
        Ok(LockAttempt::Moved) => true,
        Ok(LockAttempt::Held(_)) | Err(_) => false,
    }
}

const NAMES_TRIED: u32 = 100;
/// Bounds how many processes and threads can create locked files in one directory at the same time.
const LOCKED_NAMES_TRIED: u32 = 1000;
