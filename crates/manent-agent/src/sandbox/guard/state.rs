//! What is remembered of a workspace while a command runs, on the disk: if this process is killed, the next command
//! finds it and does what was left undone.
//!
//! Each command has a directory of its own in `<home>/sandbox/`, with a lock that lasts as long as its process, copies
//! of files by number, and `state.json`, which is there in whole before the command begins. The time of the lock tells
//! when the command was last known to run.

use std::borrow::Borrow;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use manent::log::fs::{Access, Disk, PathInfo, Shape, read_whole, write_fully};
use manent::log::{AtomicFile, CommitSync, Error, FileLock, LockMode, RealDisk};
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps};
use serde::{Deserialize, Serialize};

use super::copy::ProtectedCopy;
use super::walk::ProtectedEntries;
use crate::hex;

/// A path of any bytes, as a string in JSON: one that is not UTF-8 is written in hexadecimal behind a NUL, which no
/// path contains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub(super) struct RawPath(pub(super) PathBuf);

impl From<RawPath> for String {
    fn from(path: RawPath) -> String {
        let path = path.0.into_os_string().into_string();
        path.unwrap_or_else(|other| format!("\0{}", hex::encode(other.as_bytes())))
    }
}

impl From<String> for RawPath {
    fn from(text: String) -> RawPath {
        let Some(digits) = text.strip_prefix('\0') else { return RawPath(text.into()) };
        RawPath(OsString::from_vec(hex::decode(digits).unwrap_or_default()).into())
    }
}

impl Borrow<Path> for RawPath {
    fn borrow(&self) -> &Path {
        &self.0
    }
}

/// The stored form of [`Shape`], for `#[serde(with = "StoredShape")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Shape", rename_all = "snake_case")]
pub(super) enum StoredShape {
    File,
    Directory,
    Link,
    Special,
}

/// The attributes of something that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryStat {
    /// Device and inode.
    pub(super) id: (u64, u64),
    #[serde(with = "StoredShape")]
    pub(super) form: Shape,
    pub(super) changed_ns: i64,
    /// Set if the entry lies in a directory that Git ignores.
    pub(super) is_ignored: bool,
}

impl EntryStat {
    pub(super) fn of(info: &PathInfo, is_ignored: bool) -> EntryStat {
        let id = (info.id.device, info.id.inode);
        EntryStat { id, form: info.shape, changed_ns: info.changed_ns, is_ignored }
    }
}

/// A workspace as it was when a command began.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GuardState {
    pub(super) workspace: RawPath,
    /// Device and inode of the workspace.
    pub(super) id: (u64, u64),
    pub(super) hidden: Vec<RawPath>,
    /// The start of the walk, in nanoseconds since 1970.
    pub(super) begun_ns: i64,
    pub(super) found: ProtectedEntries,
    /// The paths that are mounted read-only, so that the command cannot change them.
    pub(super) mounted: Vec<RawPath>,
    /// The entries that are compared and restored afterwards.
    pub(super) kept: Vec<ProtectedCopy>,
    /// The missing targets of protected links.
    pub(super) missing: Vec<RawPath>,
    pub(super) new: NewEntries,
}

/// The treatment of new repositories and protected names that a command leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewEntries {
    /// New entries are moved to the quarantine.
    Quarantined,
    /// New entries stay, because a person allowed them.
    Allowed,
}

/// The directory of one command in `<home>/sandbox/`, locked by this process.
#[derive(Debug)]
pub(super) struct CommandDir {
    dir: PathBuf,
    _lock: FileLock,
    copies: u64,
}

/// The right to make and to clear up directories of commands, which one process has at a time.
#[derive(Debug)]
pub(super) struct CommandDirsLock {
    parent: PathBuf,
    _lock: FileLock,
}

impl CommandDirsLock {
    /// Waits until it is free: nobody has it for long.
    pub(super) fn take(store: &Path) -> io::Result<CommandDirsLock> {
        let parent = store.join(DIRECTORY);
        RealDisk.create_dir_all(&parent)?;
        let lock =
            FileLock::acquire(&RealDisk, &parent, Access::Directory, LockMode::Exclusive, Duration::MAX)?;
        Ok(CommandDirsLock { parent, _lock: lock })
    }

    /// The notes of commands whose process is gone.
    pub(super) fn left_behind(&self) -> Vec<CommandDir> {
        let open = |dir: PathBuf| {
            let lock = lock_of(&dir).ok()?;
            Some(CommandDir { dir, _lock: lock, copies: 0 })
        };
        self.directories().into_iter().filter_map(open).collect()
    }

    /// Begins notes about a command in `workspace`; `None` while another one runs there, or above it, or below it: each
    /// would take what the other changes for what was there.
    pub(super) fn begin(&self, workspace: &Path) -> io::Result<Option<CommandDir>> {
        let meets = |dir: PathBuf| {
            let read = read_whole(&RealDisk, &dir.join(WORKSPACE), u64::MAX).ok()?;
            let other = PathBuf::from(OsString::from_vec(read));
            let is_locked = matches!(lock_of(&dir), Err(Error::Held { .. }));
            Some(is_locked && (other.starts_with(workspace) || workspace.starts_with(&other)))
        };
        if self.directories().into_iter().any(|dir| meets(dir) == Some(true)) {
            return Ok(None);
        }
        // Not brought to the disk, unlike its parent: each command would wait for that.
        let dir = self.parent.join(unique_name());
        rustix::fs::mkdir(&dir, Mode::RWXU)?;
        let path = dir.join(LOCK);
        let file = RealDisk.open(&path, Access::CreateNew)?;
        let lock = FileLock::acquire_open(file, &path, LockMode::Exclusive, Duration::ZERO)?;
        let notes = CommandDir { dir, _lock: lock, copies: 0 };
        notes.write(WORKSPACE, workspace.as_os_str().as_bytes())?;
        Ok(Some(notes))
    }

    fn directories(&self) -> Vec<PathBuf> {
        let listed = RealDisk.list(&self.parent).unwrap_or_default();
        let directories = listed.into_iter().filter(|entry| entry.shape == Shape::Directory);
        directories.map(|entry| self.parent.join(entry.name)).collect()
    }
}

impl CommandDir {
    /// Keeps a copy, and gives its number.
    pub(super) fn copy(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.copies += 1;
        self.write(&self.copies.to_string(), bytes)?;
        Ok(self.copies)
    }

    pub(super) fn copied(&self, number: u64) -> io::Result<Vec<u8>> {
        read_whole(&RealDisk, &self.dir.join(number.to_string()), u64::MAX)
    }

    /// Writes down what there is. Not brought to the disk: this is for a process that is killed, not for a power cut.
    pub(super) fn save(&self, state: &GuardState) -> io::Result<()> {
        let file = AtomicFile::create(&RealDisk, &self.dir.join(STATE))?;
        let mut file = file.with_sync(CommitSync::None);
        file.write_all(&serde_json::to_vec(state)?)?;
        file.commit()
    }

    /// Reads what was written down; nothing if the command had not begun.
    pub(super) fn load(&self) -> io::Result<Option<GuardState>> {
        match read_whole(&RealDisk, &self.dir.join(STATE), u64::MAX) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Says from time to time, by the time of the lock, that the command still runs.
    pub(super) fn beat(&self) -> io::Result<Heartbeat> {
        Heartbeat::start(self.dir.join(LOCK))
    }

    /// Returns the time of the last heartbeat, in nanoseconds since 1970.
    pub(super) fn last_beat_ns(&self) -> i64 {
        let info = RealDisk.inspect(&self.dir.join(LOCK));
        info.map_or(0, |info| info.modified_ms.saturating_mul(1_000_000))
    }

    pub(super) fn remove(self) {
        super::super::scratch::remove(&self.dir);
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = RealDisk.open(&self.dir.join(name), Access::CreateNew)?;
        write_fully(&*file, bytes).map_err(|(_, e)| e)
    }
}

/// Sets the time of a file every second, until it is dropped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    is_over: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    fn start(file: PathBuf) -> io::Result<Heartbeat> {
        let (is_over, over) = mpsc::channel::<()>();
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        let beat = move || {
            while over.recv_timeout(BEAT_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = rustix::fs::utimensat(CWD, &file, &times, AtFlags::SYMLINK_NOFOLLOW);
            }
        };
        let thread = std::thread::Builder::new().spawn(beat)?;
        Ok(Heartbeat { is_over, thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        let _ = self.is_over.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Takes the lock of a command's directory, which is free when its process is gone.
fn lock_of(dir: &Path) -> manent::log::Result<FileLock> {
    let wait = Duration::ZERO;
    FileLock::acquire(&RealDisk, &dir.join(LOCK), Access::Read, LockMode::Exclusive, wait)
}

/// A name that no other command has: the time in milliseconds, this process, and a count.
pub(super) fn unique_name() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let count = MADE.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{count}", now_ns() / 1_000_000, std::process::id())
}

/// Nanoseconds since 1970.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

const DIRECTORY: &str = "sandbox";
const LOCK: &str = "lock";
const WORKSPACE: &str = "workspace";
const STATE: &str = "state.json";
const BEAT_EVERY: Duration = Duration::from_secs(1);
