//! The interface to the file system, which nothing else in the engine touches.
//!
//! Everything the engine does to a disk is a method of [`Disk`] or [`DiskFile`]: some twenty operations, each close
//! to one system call, none of them clever. The real implementation is [`RealDisk`]; `manent-sim` implements the
//! same traits in memory and breaks them on purpose. Code that reaches around this file cannot be crash-tested, so
//! `clippy.toml` bans `std::fs` elsewhere.
//!
//! What it does not do: retry, interpret bytes, or decide what an error means. Only [`write_fully`] loops, because
//! a short write is not an error.

mod real;
mod settling;
mod watch;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

pub use real::RealDisk;
pub use settling::Settling;
pub use watch::Watch;

/// The access with which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only. The file must exist.
    Read,
    /// Read and append. The file must exist.
    Append,
    /// Read and append; the file must not exist, and is created with mode 0600 whatever the umask.
    CreateNew,
    /// Read, and write at offsets ([`DiskFile::write_at`]). The file must exist. Without `O_APPEND`, with which Linux
    /// writes at the end whatever the offset.
    Overwrite,
    /// A directory that must exist, opened only to be locked: nothing is read or written through it, and its names
    /// are made durable with [`Disk::sync_dir`]. A symbolic link is followed, because a store may be reached
    /// through one. Anything but a directory is `NotADirectory`.
    Directory,
}

/// Identity of a file, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Device number.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
}

/// Metadata of the file at a path, without following a symbolic link in its last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathInfo {
    /// Identity of the file.
    pub id: FileId,
    /// The kind of file.
    pub shape: Shape,
    /// Length in bytes.
    pub len: u64,
    /// Permission bits (the low twelve).
    pub mode: u32,
    /// Owner's user id.
    pub owner: u32,
    /// Number of names.
    pub links: u64,
    /// Time of the last change of the content, in milliseconds since 1970.
    pub modified_ms: i64,
    /// Time of the last change of anything about it, in nanoseconds since 1970. A program cannot choose it, but whoever
    /// sets the clock back makes old times come again, and file systems keep it more or less exactly: see
    /// [`Settling`].
    pub changed_ns: i64,
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

/// The kind of file system: append, lock and sync have the semantics that the engine needs on local ones only.
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
    /// The kind of file that it names.
    pub shape: Shape,
}

/// A file system, or something that behaves like one.
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Opens a regular file (or, with [`Access::Directory`], a directory). Never follows a symbolic link to a file in
    /// the last component, never blocks on a FIFO.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;
    /// Looks at a path without following a final symbolic link.
    fn inspect(&self, path: &Path) -> io::Result<PathInfo>;
    /// Follows symbolic links to what a path means: the store itself may be one.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf>;
    /// The time, in nanoseconds since 1970, by the clock that time stamps of files are taken from.
    fn now_ns(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
    /// Returns true if files of this owner belong to the user of this process.
    fn is_own(&self, owner: u32) -> bool;
    /// The names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Looks at many names in a directory, as [`Disk::inspect`] does; `None` for one that is not there.
    fn look(&self, dir: &Path, names: &[&str]) -> io::Result<Vec<Option<PathInfo>>> {
        let look = |name: &&str| match self.inspect(&dir.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            looked => looked.map(Some),
        };
        names.iter().map(look).collect()
    }
    /// Begins to watch directories for changes; `None` where the system does not report them.
    fn watch(&self, _dirs: &[&Path]) -> io::Result<Option<Box<dyn Watch>>> {
        Ok(None)
    }
    /// Makes a directory and its missing parents, mode 0700 whatever the umask, and makes them survive power loss.
    /// An existing one is left as it is.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames, replacing `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames, but fails with `AlreadyExists` and changes nothing if there is anything at `to`, even a symbolic link
    /// that leads nowhere. Where the system has no such call, that holds within one directory whatever others do
    /// meanwhile; between two of them, callers keep each other off the name with a lock.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory that is empty.
    fn remove_dir(&self, _dir: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes creations, renames and removals in `dir` survive power loss.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Returns the kind of file system that `path` lies on.
    fn file_system(&self, path: &Path) -> io::Result<FileSystem>;
    /// Another process that has this file open, as far as the system tells. For files of programs that know nothing of
    /// our lease, and might go on writing to one that is about to be removed.
    fn opened_by(&self, _path: &Path) -> Option<u32> {
        None
    }
    /// Bytes that an ordinary user can still write at `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Reports obstacles to making files in a directory, as far as these can be told without trying.
    fn check_writable(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// An open file.
pub trait DiskFile: Send + Sync + std::fmt::Debug {
    /// Reads at an offset; 0 means the end of the file. May be short.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at the end of the file in one call. May be short.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Writes at an offset, through a file that was opened with [`Access::Overwrite`]. May be short.
    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Cuts or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Waits until content and length are on stable storage.
    fn sync(&self) -> io::Result<()>;
    /// Sets the permission bits. A disk that knows of none does nothing.
    fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Ok(())
    }
    /// Length and link count now.
    fn state(&self) -> io::Result<FileState>;
    /// Identity of the open file.
    fn id(&self) -> io::Result<FileId>;
    /// Takes the exclusive lock if it is free. `Ok(false)`: somebody else holds it.
    fn try_lock(&self) -> io::Result<bool>;
    /// Takes the lock together with others who want it shared. `Ok(false)`: somebody holds it exclusively. An open file
    /// has one lock: taking it shared gives up an exclusive one, and the other way round, even if that fails.
    fn try_lock_shared(&self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Lets go of the lock; the file stays open. Without a lock of this process, it does nothing.
    fn unlock(&self) -> io::Result<()>;
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

/// Reads a whole file that is no longer than so many bytes; a longer one is `FileTooLarge`.
pub fn read_whole(disk: &dyn Disk, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let len = file.state()?.len;
    if len > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; len as usize];
    let read = read_fully(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Fills `buffer` from an offset; `UnexpectedEof` if the file ends before that.
pub fn read_exactly(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    if read_fully(file, buffer, offset)? == buffer.len() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read"))
}

/// Reads a range block by block and calls `take` with the offset and the bytes of each block. Returns how many bytes
/// were read, which is less than the range where the file ends before it.
pub fn read_blocks(
    file: &dyn DiskFile,
    range: std::ops::Range<u64>,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut block = vec![0; BLOCK_BYTES.min(range.end.saturating_sub(range.start) as usize)];
    let mut offset = range.start;
    while offset < range.end {
        let want = (range.end - offset).min(block.len() as u64) as usize;
        let n = read_fully(file, &mut block[..want], offset)?;
        if n == 0 {
            break;
        }
        take(offset, &block[..n])?;
        offset += n as u64;
    }
    Ok(offset - range.start)
}

/// Copies a range of one file to the end of another. A range that ends behind the file is `UnexpectedEof`.
pub fn copy_range(from: &dyn DiskFile, offset: u64, length: u64, to: &dyn DiskFile) -> io::Result<()> {
    let copied =
        read_blocks(from, offset..offset + length, |_, bytes| write_fully(to, bytes).map_err(|(_, e)| e))?;
    if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Writes the bytes of a range again where they stand, through a file opened with [`Access::Overwrite`].
///
/// After a failed sync Linux takes the pages that it could not write for clean, and no later sync writes them; written
/// again, they are dirty again.
pub fn rewrite(file: &dyn DiskFile, range: std::ops::Range<u64>) -> io::Result<()> {
    let length = range.end - range.start;
    let rewritten = read_blocks(file, range, |offset, bytes| {
        let mut written = 0;
        while written < bytes.len() {
            match file.write_at(&bytes[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    })?;
    if rewritten == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

const BLOCK_BYTES: usize = 256 << 10;
