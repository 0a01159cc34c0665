//! A disk on which packed files read as what they hold, so that one reader serves plain and packed streams.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent_log::fs::{Access, DirEntry, Disk, DiskFile, FileSystem, PathInfo};

use crate::pack;

/// A disk on which packed files are read as what they hold. Everything else is the disk beneath: also what
/// [`Disk::inspect`] says of a packed file is about the file as it lies there.
#[derive(Debug, Clone)]
pub(crate) struct Unpacking(pub(crate) Arc<dyn Disk>);

impl Disk for Unpacking {
    /// A packed file can be read and created, but not opened to append or to overwrite: either would ruin it.
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        match access {
            Access::Append | Access::Overwrite if is_packed(path) => Err(io::ErrorKind::Unsupported.into()),
            Access::Read if is_packed(path) => pack::open(self.0.open(path, access)?),
            _ => self.0.open(path, access),
        }
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        self.0.inspect(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.resolve(path)
    }

    fn now_ns(&self) -> i64 {
        self.0.now_ns()
    }

    fn is_own(&self, owner: u32) -> bool {
        self.0.is_own(owner)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.0.file_system(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.0.free_bytes(path)
    }
}

/// Returns whether a file is a packed one, by its name.
pub(crate) fn is_packed(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(EXTENSION))
}

/// The extension of packed files.
const EXTENSION: &str = "zst";
