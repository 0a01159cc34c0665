//! The only door to the file system.
//!
//! Everything the engine does to a disk is a method of [`Disk`] or [`DiskFile`]: some twenty operations, each close
//! to one system call, none of them clever. The real implementation is [`RealDisk`]; `manent-sim` implements the
//! same traits in memory and breaks them on purpose. Code that reaches around this file cannot be crash-tested, so
//! `clippy.toml` bans `std::fs` elsewhere.
//!
//! What it does not do: retry, interpret bytes, or decide what an error means. Only [`write_fully`] loops, because
//! a short write is not an error.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, OFlags};
#[cfg(target_os = "linux")]
use {
    rustix::fs::{AtFlags, StatxFlags},
    std::os::fd::AsFd,
};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only. The file must exist.
    Read,
    /// Read and append. The file must exist.
    Append,
    /// Read and append; the file must not exist, and is created with mode 0600 whatever the umask.
    CreateNew,
}

/// What tells one file from another, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
}

/// What a path leads to, without following a symbolic link in its last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathInfo {
    /// Identity of the file.
    pub id: FileId,
    /// What kind of thing it is.
    pub shape: Shape,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits (the low twelve).
    pub mode: u32,
    /// Owner's user id.
    pub owner: u32,
    /// Time of the last change of the content, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// The kind of thing found at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (not followed).
    Link,
    /// A FIFO, socket or device: opening one may block or never end.
    Special,
}

/// Length and link count of an open file, in one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Length in bytes.
    pub len: u64,
    /// Number of names; 0 means the file was deleted while open.
    pub links: u64,
}

/// Whether append, lock and sync mean what the engine needs them to mean on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// A local file system known to keep our assumptions.
    Local,
    /// A network file system: append is emulated with a race, locks may be local only.
    Network(&'static str),
    /// A file system we know nothing about, by its magic number.
    Unknown(u64),
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: OsString,
    /// What it is.
    pub shape: Shape,
}

/// A file system, or something that behaves like one.
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Opens a regular file. Never follows a symbolic link in the last component, never blocks on a FIFO.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;
    /// Looks at a path without following a final symbolic link.
    fn inspect(&self, path: &Path) -> io::Result<PathInfo>;
    /// Follows symbolic links to what a path means: the store itself may be one.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// Whether a file of this owner belongs to whoever runs this process.
    fn is_own(&self, owner: u32) -> bool;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Makes a directory and its missing parents, mode 0700 whatever the umask, and makes them survive power loss.
    /// An existing one is left as it is.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames, replacing `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `dir` survive power loss.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// What kind of file system `path` lies on.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
    /// Bytes that an ordinary user can still write at `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// An open file.
pub trait DiskFile: Send + Sync + std::fmt::Debug {
    /// Reads at an offset; 0 means the end of the file. May be short.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end of the file in one call. May be short.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Waits until content and length are on stable storage.
    fn sync(&self) -> io::Result<()>;
    /// Length and link count now.
    fn state(&self) -> io::Result<FileState>;
    /// Identity of the open file.
    fn id(&self) -> io::Result<FileId>;
    /// Takes the exclusive lock if it is free. `Ok(false)`: somebody else holds it.
    fn try_lock(&self) -> io::Result<bool>;
    /// The process that holds the lock, if the system can tell.
    fn lock_holder(&self) -> Option<u32>;
}

/// Appends all of `bytes`, going on after short writes and interruptions.
///
/// On an error, `Err((written, error))` says how much is already in the file.
pub fn write_fully(file: &dyn DiskFile, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while written < bytes.len() {
        match file.append(&bytes[written..]) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(n) => written += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((written, e)),
        }
    }
    Ok(())
}

/// Reads until `buffer` is full or the file ends; gives the number of bytes read.
pub fn read_fully(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// The machine's own file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The disk in the form in which logs take it.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }
}

/// The file, and the process that took its lock (0: none did).
#[derive(Debug)]
struct RealFile(File, AtomicU32);

impl Drop for RealFile {
    /// Closing is not enough: a child between fork and exec has the file open too, and the lock would live on in it.
    /// But a child that was only forked must not let go of its parent's lock.
    fn drop(&mut self) {
        if self.1.load(Ordering::Relaxed) == std::process::id() {
            let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
        }
    }
}

impl Disk for RealDisk {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        // O_NONBLOCK: opening a FIFO that was planted as a log must not hang; it means nothing for a regular file.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags).mode(0o600);
        match access {
            Access::Read => {}
            Access::Append => {
                options.append(true);
            }
            Access::CreateNew => {
                options.append(true).create_new(true);
            }
        }
        let file = options.open(path)?;
        if !file.metadata()?.file_type().is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if access == Access::CreateNew {
            // A umask can take bits away from 0600; an explicit mode is not subject to it.
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        Ok(Box::new(RealFile(file, AtomicU32::new(0))))
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        let meta = std::fs::symlink_metadata(path)?;
        Ok(PathInfo {
            id: FileId { device: meta.dev(), inode: meta.ino() },
            shape: shape_of(meta.file_type()),
            len: meta.len(),
            mode: meta.mode() & 0o7777,
            owner: meta.uid(),
            modified_ms: meta.mtime().saturating_mul(1000).saturating_add(meta.mtime_nsec() / 1_000_000),
        })
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn is_own(&self, owner: u32) -> bool {
        rustix::process::geteuid().as_raw() == owner
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        std::fs::read_dir(dir)?
            .map(|entry| {
                let entry = entry?;
                Ok(DirEntry { shape: shape_of(entry.file_type()?), name: entry.file_name() })
            })
            .collect()
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if let Ok(meta) = std::fs::metadata(dir) {
            return if meta.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) };
        }
        if let Some(parent) = dir.parent().filter(|p| !p.as_os_str().is_empty()) {
            self.create_dir_all(parent)?;
        }
        match std::fs::DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(e) => return Err(e),
        }
        match dir.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent),
            _ => self.sync_dir(Path::new(".")),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    #[cfg(not(target_os = "linux"))]
    fn file_system(&self, _path: &Path) -> io::Result<FileSystem> {
        // Magic numbers are Linux's own; elsewhere nothing is promised, and nothing refused.
        Ok(FileSystem::Local)
    }

    #[cfg(target_os = "linux")]
    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        let magic = u64::from(rustix::fs::statfs(path)?.f_type.cast_unsigned() as u32);
        Ok(file_system_of(magic))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, bytes)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync on Linux; std issues F_FULLFSYNC on macOS.
        self.0.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn state(&self) -> io::Result<FileState> {
        // Only size and links: asking for the times would make the next write stamp the inode again, which
        // costs more than this call (multigrain timestamps).
        let mask = StatxFlags::SIZE | StatxFlags::NLINK;
        let stat = rustix::fs::statx(self.0.as_fd(), c"", AtFlags::EMPTY_PATH, mask)?;
        Ok(FileState { len: stat.stx_size, links: u64::from(stat.stx_nlink) })
    }

    #[cfg(not(target_os = "linux"))]
    fn state(&self) -> io::Result<FileState> {
        let meta = self.0.metadata()?;
        Ok(FileState { len: meta.len(), links: meta.nlink() })
    }

    fn id(&self) -> io::Result<FileId> {
        let meta = self.0.metadata()?;
        Ok(FileId { device: meta.dev(), inode: meta.ino() })
    }

    fn try_lock(&self) -> io::Result<bool> {
        match rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                self.1.store(std::process::id(), Ordering::Relaxed);
                Ok(true)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn lock_holder(&self) -> Option<u32> {
        let meta = self.0.metadata().ok()?;
        let table = std::fs::read_to_string("/proc/locks").ok()?;
        holder_in_lock_table(&table, meta.dev(), meta.ino())
    }
}

/// Finds the holder of an flock in the kernel's table.
///
/// A line reads `7: FLOCK  ADVISORY  WRITE 4242 fe:00:131077 0 EOF`: pid, then device (major and minor in
/// hexadecimal) and inode. Waiters are lines with `->`. A holder outside our namespace has the pid 0: it helps nobody.
fn holder_in_lock_table(table: &str, device: u64, inode: u64) -> Option<u32> {
    let wanted = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, "WRITE", pid, id, ..] if *id == wanted => pid.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        }
    })
}

fn shape_of(kind: std::fs::FileType) -> Shape {
    if kind.is_file() {
        Shape::File
    } else if kind.is_dir() {
        Shape::Directory
    } else if kind.is_symlink() {
        Shape::Link
    } else {
        debug_assert!(
            kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device(),
            "unheard-of file type"
        );
        Shape::Special
    }
}

#[cfg(any(target_os = "linux", test))]
fn file_system_of(magic: u64) -> FileSystem {
    match magic {
        // ext2/3/4, xfs, btrfs, f2fs, bcachefs, zfs, tmpfs, ramfs, overlayfs, ecryptfs, reiserfs, jfs.
        0xEF53 | 0x5846_5342 | 0x9123_683E | 0xF2F5_2010 | 0xCA45_1A4E | 0x2FC1_2FC1 | 0x0102_1994
        | 0x8584_58F6 | 0x794C_7630 | 0xF15F | 0x5265_4973 | 0x3153_464A => FileSystem::Local,
        0x6969 => FileSystem::Network("NFS"),
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => FileSystem::Network("SMB"),
        0x0102_1997 => FileSystem::Network("9P"),
        0x00C3_6400 => FileSystem::Network("Ceph"),
        0x5346_414F => FileSystem::Network("AFS"),
        other => FileSystem::Unknown(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode_and_waiters_are_not_holders() {
        let device = rustix::fs::makedev(0xfe, 0);
        let table = "1: FLOCK  ADVISORY  WRITE 17 fe:00:99 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 18 fe:00:99 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 19 fe:00:100 0 EOF\n";
        assert_eq!(holder_in_lock_table(table, device, 99), Some(17));
        assert_eq!(holder_in_lock_table(table, device, 100), None, "a POSIX lock is not our lease");
        assert_eq!(holder_in_lock_table(table, device, 9), None);
    }

    #[test]
    fn network_and_unknown_file_systems_are_told_from_local_ones() {
        assert_eq!(file_system_of(0xEF53), FileSystem::Local);
        assert_eq!(file_system_of(0x6969), FileSystem::Network("NFS"));
        assert_eq!(file_system_of(0x6573_5546), FileSystem::Unknown(0x6573_5546));
    }
}
