//! The directory of a data set. It is made beside its place under another name, and renamed when it is whole: whoever
//! looks sees a whole data set or none, whenever the power goes. A directory is renamed as a whole, so its files are
//! not [`manent_log::AtomicFile`]s.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Access, Disk, DiskFile, Shape, write_fully};
use manent_log::{FileLock, LockMode};

use super::manifest::ROW_FILES;
use super::{DatasetError, DatasetFile, DatasetResult, Existing};

/// The directory in which a data set is made.
#[derive(Debug)]
pub(super) struct OutputDir {
    disk: Arc<dyn Disk>,
    /// The directory of the finished data set.
    pub(super) dir: PathBuf,
    /// The directory that is written to, and renamed when it is whole.
    making: PathBuf,
    /// The name of a data set that is replaced, until it is removed.
    old: PathBuf,
    existing: Existing,
    /// Keeps other processes from making a data set in the same place.
    _lock: FileLock,
    finished: bool,
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct OutputFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    buffer: Vec<u8>,
    /// The hasher, for files whose hash is wanted.
    hasher: Option<blake3::Hasher>,
    pub(super) bytes: u64,
}

impl OutputDir {
    /// Looks whether a data set can be made there, and begins.
    pub(super) fn prepare(disk: &Arc<dyn Disk>, dir: &Path, existing: Existing) -> DatasetResult<OutputDir> {
        let no_directory = || DatasetError::NoDirectory(dir.to_owned());
        let failed = |source: io::Error| DatasetError::Write { path: dir.to_owned(), source };
        let dir = match disk.inspect(dir) {
            // Through a link, the place it leads to is meant.
            Ok(info) if matches!(info.shape, Shape::Directory | Shape::Link) => {
                disk.resolve(dir).map_err(|_| no_directory())?
            }
            Ok(_) => return Err(no_directory()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                disk.create_dir_all(parent).map_err(failed)?;
                let parent = disk.resolve(parent).map_err(failed)?;
                parent.join(dir.file_name().ok_or_else(no_directory)?)
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(no_directory()),
            Err(e) => return Err(failed(e)),
        };
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return Err(no_directory()) };
        let beside = |word: &str| {
            let mut beside = std::ffi::OsString::from(".");
            beside.push(name);
            beside.push(word);
            parent.join(beside)
        };
        let (making, old) = (beside(".manent-new"), beside(".manent-old"));
        disk.create_dir_all(&making).map_err(failed)?;
        let (access, wait) = (Access::Directory, Duration::ZERO);
        let busy = || DatasetError::Busy(dir.clone());
        let lock = match FileLock::acquire(&**disk, &making, access, LockMode::Exclusive, wait) {
            Err(manent_log::Error::Held { .. }) => return Err(busy()),
            lock => lock.map_err(|e| failed(e.into()))?,
        };
        // The process that had the lock may have finished and renamed the directory.
        if !lock.is_at_path(&**disk).unwrap_or(false) {
            return Err(busy());
        }
        let disk = Arc::clone(disk);
        let place = OutputDir { disk, dir, making, old, existing, _lock: lock, finished: false };
        place.recover().map_err(|source| DatasetError::Write { path: place.dir.clone(), source })?;
        place.check()?;
        Ok(place)
    }

    /// Takes up after a process that died: what it was making goes, and what it was replacing comes back.
    fn recover(&self) -> io::Result<()> {
        self.clear(&self.making)?;
        if !self.exists(&self.old)? {
            return Ok(());
        }
        if self.exists(&self.dir)? {
            self.clear(&self.old)?;
            return self.disk.remove_dir(&self.old);
        }
        self.disk.rename_new(&self.old, &self.dir)
    }

    /// Returns an error if the directory is neither free nor may be replaced.
    fn check(&self) -> DatasetResult<()> {
        let dir = self.dir.clone();
        let names = match self.disk.list(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(source) => return Err(DatasetError::Write { path: dir, source }),
            Ok(names) => names,
        };
        if names.is_empty() {
            return Ok(());
        }
        if self.existing == Existing::Keep {
            return Err(DatasetError::NotEmpty(dir));
        }
        let is_ours =
            |name: &str| OTHER_FILES.contains(&name) || ROW_FILES.iter().any(|(file, ..)| *file == name);
        let other = names
            .iter()
            .find(|entry| entry.shape != Shape::File || !entry.name.to_str().is_some_and(is_ours));
        match other {
            Some(entry) => {
                Err(DatasetError::NotOurs { dir, name: entry.name.to_string_lossy().into_owned() })
            }
            None => Ok(()),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.disk.inspect(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            looked => looked.map(|_| true),
        }
    }

    /// Removes the files of a directory of ours.
    fn clear(&self, dir: &Path) -> io::Result<()> {
        for entry in self.disk.list(dir)? {
            self.disk.remove(&dir.join(entry.name))?;
        }
        Ok(())
    }

    /// Begins a file whose hash is wanted.
    pub(super) fn create_hashed(&self, name: &str) -> DatasetResult<OutputFile> {
        Ok(OutputFile { hasher: Some(blake3::Hasher::new()), ..self.create(name)? })
    }

    /// Begins a file.
    pub(super) fn create(&self, name: &str) -> DatasetResult<OutputFile> {
        let path = self.making.join(name);
        let file = self.disk.open(&path, Access::CreateNew).map_err(|source| self.error(name, source))?;
        let path = self.dir.join(name);
        Ok(OutputFile { file, path, buffer: Vec::with_capacity(BUFFER_BYTES), hasher: None, bytes: 0 })
    }

    /// Opens a file to read it.
    pub(super) fn open(&self, name: &str) -> DatasetResult<Box<dyn DiskFile>> {
        self.disk.open(&self.making.join(name), Access::Read).map_err(|source| self.error(name, source))
    }

    pub(super) fn remove(&self, name: &str) -> DatasetResult<()> {
        self.disk.remove(&self.making.join(name)).map_err(|source| self.error(name, source))
    }

    pub(super) fn error(&self, name: &str, source: io::Error) -> DatasetError {
        DatasetError::Write { path: self.dir.join(name), source }
    }

    /// Puts what was made in its place. What was written is on the disk before.
    pub(super) fn finish(mut self) -> DatasetResult<()> {
        // Another program may have written there meanwhile.
        self.check()?;
        self.rename().map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                DatasetError::NotEmpty(self.dir.clone())
            }
            _ => DatasetError::Write { path: self.dir.clone(), source },
        })?;
        self.finished = true;
        Ok(())
    }

    fn rename(&self) -> io::Result<()> {
        let parent = self.dir.parent().unwrap_or(Path::new("."));
        self.disk.sync_dir(&self.making)?;
        let is_there = self.exists(&self.dir)?;
        if !is_there {
            self.disk.rename_new(&self.making, &self.dir)?;
            return self.disk.sync_dir(parent);
        }
        if self.disk.list(&self.dir)?.is_empty() {
            // An empty directory is replaced as a file is; one that is not, is not.
            self.disk.rename(&self.making, &self.dir)?;
            return self.disk.sync_dir(parent);
        }
        self.disk.rename_new(&self.dir, &self.old)?;
        if let Err(e) = self.disk.rename_new(&self.making, &self.dir) {
            let _ = self.disk.rename_new(&self.old, &self.dir);
            return Err(e);
        }
        self.disk.sync_dir(parent)?;
        self.clear(&self.old)?;
        self.disk.remove_dir(&self.old)
    }
}

impl Drop for OutputDir {
    /// Removes what is unfinished. Whatever cannot be removed now is removed by the next one that is made there.
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.clear(&self.making);
            let _ = self.disk.remove_dir(&self.making);
        }
    }
}

impl OutputFile {
    pub(super) fn put(&mut self, bytes: &[u8]) -> DatasetResult<()> {
        self.bytes += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> DatasetResult<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&self.buffer);
        }
        let written = write_fully(&*self.file, &self.buffer);
        written.map_err(|(_, source)| DatasetError::Write { path: self.path.clone(), source })?;
        self.buffer.clear();
        Ok(())
    }

    /// Closes the file. It is on the disk when this returns.
    pub(super) fn close(mut self, name: &'static str, rows: u64) -> DatasetResult<DatasetFile> {
        self.flush()?;
        self.file.sync().map_err(|source| DatasetError::Write { path: self.path.clone(), source })?;
        let hash = self.hasher.map(|hasher| hasher.finalize().to_hex().to_string()).unwrap_or_default();
        Ok(DatasetFile { name, rows, bytes: self.bytes, hash })
    }
}

/// The files of a data set beside those with rows.
const OTHER_FILES: [&str; 3] = ["dataset_info.json", "manifest.json", "README.md"];
const BUFFER_BYTES: usize = 256 << 10;
