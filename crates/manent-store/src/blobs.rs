//! Data that is derived from streams and may be deleted at any time: index segments, catalogues, reports.
//!
//! A [`Blobs`] holds named blobs. Names are paths with `/` between their parts; what stands before the last `/` is a
//! folder, which can be listed, synced and judged on its own. Errors are those of the system: whoever keeps derived
//! data makes it again, or does without.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Access, Disk, DiskFile, Shape, write_fully};
use manent_log::{AtomicFile, CommitSync, Durability, FileLock, LockMode};

use crate::streams::{Lock, Version};

/// A blob that is open for reading. It stays what it was when it was opened, whatever takes its name.
pub trait Blob: fmt::Debug + Send + Sync {
    /// Returns its length in bytes.
    fn len(&self) -> u64;

    /// Returns whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns which blob this is: while it is open, no other blob of its name has the same version.
    fn version(&self) -> Version;

    /// Reads at an offset; 0 means the end, also for any offset beyond it. May be short.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// A blob as it is seen without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobStat {
    /// The version of the blob, which tells it from others of its name.
    pub version: Version,
    /// The length in bytes.
    pub bytes: u64,
    /// The time of the last change, in milliseconds since 1970.
    pub modified_ms: i64,
    /// True if the blob is ours: one that somebody else put there tells nothing.
    pub is_own: bool,
}

/// A place to keep derived data. Every method may block on the disk, and may be retried.
pub trait Blobs: fmt::Debug + Send + Sync {
    /// Returns what to call a folder in messages: where it is.
    fn name(&self, folder: &str) -> String;

    /// Opens a blob; `None` if there is none of this name.
    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Blob>>>;

    /// Looks at a blob without opening it; `None` if there is none of this name.
    fn stat(&self, name: &str) -> io::Result<Option<BlobStat>>;

    /// Puts a blob in the place of whatever has its name: all of it or nothing. Its content survives power loss when
    /// this returns; that it has this name, after [`Blobs::sync`]. An error of the kind `NotFound` if the folder was
    /// not made yet ([`Blobs::lock`] does). Whoever has the old blob open goes on reading that.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Puts several blobs. All are written before any gets its name; then each gets its name, in this order, and that
    /// survives power loss before the next one does.
    fn put_all(&self, blobs: &[(&str, &[u8])]) -> io::Result<()>;

    /// Appends to a blob, which is made if it is not there. Not atomic: a crash may leave a part. The blob has another
    /// version then, and blobs that are open do not show what was appended. The folder must be there, as for
    /// [`Blobs::put`].
    fn append(&self, name: &str, bytes: &[u8], durability: Durability) -> io::Result<()>;

    /// Lists the names in a folder, without the folder itself and without folders in it. What a crash left half written
    /// by [`Blobs::put`] is listed too, and the names of locks may be. A folder that was not made has no names.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Removes a blob, if it is there. Whoever has it open goes on reading it.
    fn delete(&self, name: &str) -> io::Result<()>;

    /// Makes what was put, and what was deleted, in a folder survive power loss. Nothing to do where there is no
    /// folder.
    fn sync(&self, folder: &str) -> io::Result<()>;

    /// Makes a folder and takes the lock of this name in it; `None` if somebody else holds it for as long as `wait`. An
    /// empty name is the lock of the folder itself.
    /// The lock ends with its holder. It keeps nobody from reading or writing blobs; that is what its callers agree on.
    fn lock(&self, folder: &str, name: &str, wait: Duration) -> io::Result<Option<Lock>>;

    /// Waits until nobody holds a lock, without keeping it or making a folder. Returns false if somebody holds it for
    /// as long as `wait`.
    fn wait_for(&self, folder: &str, name: &str, wait: Duration) -> io::Result<bool>;

    /// Returns whether what is in a folder may be believed: whether nobody else can have written it. An error of the
    /// kind `NotFound` if the folder was not made yet.
    fn is_trustworthy(&self, folder: &str) -> io::Result<bool>;

    /// Returns the path of a blob, for people to open; `None` where blobs are not files.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let _ = name;
        None
    }
}

/// Returns whether a name is that of a file which a crash left half written: [`Blobs::list`] gives such names too.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(TEMPORARY)
}

/// Blobs as files in a directory.
#[derive(Debug, Clone)]
pub struct FileBlobs {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    /// The root is the home of a store, which is not made again if it is gone.
    is_home: bool,
}

impl FileBlobs {
    /// Keeps blobs in a directory that is used for nothing else. It need not exist yet.
    pub fn new(disk: Arc<dyn Disk>, root: PathBuf) -> FileBlobs {
        FileBlobs { disk, root, is_home: false }
    }

    /// Keeps blobs in folders of the home of a store.
    pub fn within(disk: Arc<dyn Disk>, home: PathBuf) -> FileBlobs {
        FileBlobs { disk, root: home, is_home: true }
    }

    fn at(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    /// Refuses to put anything into another user's directory: its owner could never write there again.
    fn refuse_others_store(&self, dir: &Path) -> io::Result<()> {
        let Some(above) = dir.parent() else { return Ok(()) };
        let owner = self.disk.resolve(above).and_then(|above| self.disk.inspect(&above));
        match owner {
            Ok(info) if !self.disk.is_own(info.owner) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "the store belongs to another user"))
            }
            _ => Ok(()),
        }
    }

    /// Writes a blob under a temporary name, and makes its content survive power loss.
    fn write(&self, name: &str, bytes: &[u8], sync: CommitSync) -> io::Result<AtomicFile<'_>> {
        let mut file = AtomicFile::create(&*self.disk, &self.at(name))?.with_sync(sync);
        file.write_all(bytes)?;
        file.sync()?;
        Ok(file)
    }

    /// Takes a lock; `None` if somebody else has it for as long as that.
    fn acquire(&self, path: &Path, access: Access, wait: Duration) -> io::Result<Option<FileLock>> {
        match FileLock::acquire(&*self.disk, path, access, LockMode::Exclusive, wait) {
            Ok(lock) => Ok(Some(lock)),
            Err(manent_log::Error::Held { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// A link is not followed: what is behind it was never ours, and stays.
    fn is_link(&self, dir: &Path) -> bool {
        self.disk.inspect(dir).is_ok_and(|info| info.shape == Shape::Link)
    }
}

impl Blobs for FileBlobs {
    fn name(&self, folder: &str) -> String {
        self.at(folder).display().to_string()
    }

    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Blob>>> {
        let file = match self.disk.open(&self.at(name), Access::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let (len, id) = (file.state()?.len, file.id()?);
        Ok(Some(Box::new(FileBlob { file, len, version: Version::new([id.device, id.inode, len, 0, 0]) })))
    }

    fn stat(&self, name: &str) -> io::Result<Option<BlobStat>> {
        let info = match self.disk.inspect(&self.at(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked => looked?,
        };
        let version = Version::new([info.id.device, info.id.inode, info.len, 0, 0]);
        let is_own = info.shape == Shape::File && self.disk.is_own(info.owner);
        Ok(Some(BlobStat { version, bytes: info.len, modified_ms: info.modified_ms, is_own }))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write(name, bytes, CommitSync::File)?.commit()
    }

    fn put_all(&self, blobs: &[(&str, &[u8])]) -> io::Result<()> {
        let write = |(name, bytes): &(&str, &[u8])| self.write(name, bytes, CommitSync::FileAndDirectory);
        let written = blobs.iter().map(write).collect::<io::Result<Vec<AtomicFile<'_>>>>()?;
        written.into_iter().try_for_each(AtomicFile::commit)
    }

    fn append(&self, name: &str, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let path = self.at(name);
        let file = match self.disk.open(&path, Access::Append) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.disk.open(&path, Access::CreateNew)?,
            opened => opened?,
        };
        write_fully(&*file, bytes).map_err(|(_, e)| e)?;
        if durability == Durability::Flush { Ok(()) } else { file.sync() }
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let dir = self.at(folder);
        if self.is_link(&dir) {
            return Ok(Vec::new());
        }
        let entries = match self.disk.list(&dir) {
            // Something else of that name, in which nothing of ours can be.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            listed => listed?,
        };
        let files = entries.into_iter().filter(|entry| entry.shape != Shape::Directory);
        Ok(files.filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let path = self.at(name);
        if path.parent().is_some_and(|dir| self.is_link(dir)) {
            return Ok(());
        }
        match self.disk.remove(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn sync(&self, folder: &str) -> io::Result<()> {
        let dir = self.at(folder);
        match self.disk.sync_dir(&dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) if self.is_link(&dir) => Ok(()),
            synced => synced,
        }
    }

    fn lock(&self, folder: &str, name: &str, wait: Duration) -> io::Result<Option<Lock>> {
        let dir = self.at(folder);
        self.refuse_others_store(&dir)?;
        if self.is_home {
            self.disk.inspect(&self.root)?;
        }
        if self.is_link(&dir) {
            let why = "it is a symbolic link, which is not followed here; put a directory in its place";
            return Err(io::Error::other(why));
        }
        self.disk.create_dir_all(&dir)?;
        let info = self.disk.inspect(&dir)?;
        let refused = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if info.mode & 0o002 != 0 {
            return refused("everybody may write there; take that right away with chmod o-w".to_owned());
        }
        if !self.disk.is_own(info.owner) {
            return refused(format!("it belongs to user {}", info.owner));
        }
        let (path, access) =
            if name.is_empty() { (dir, Access::Directory) } else { (dir.join(name), Access::Append) };
        if access == Access::Append {
            match self.disk.open(&path, Access::CreateNew) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
        }
        Ok(self.acquire(&path, access, wait)?.map(|lock| Box::new(lock) as Lock))
    }

    fn wait_for(&self, folder: &str, name: &str, wait: Duration) -> io::Result<bool> {
        let path = self.at(folder).join(name);
        // Where it is not, or cannot be written, nobody writes.
        if self.disk.open(&path, Access::Append).is_err() {
            return Ok(true);
        }
        Ok(self.acquire(&path, Access::Append, wait)?.is_some())
    }

    fn is_trustworthy(&self, folder: &str) -> io::Result<bool> {
        let info = self.disk.inspect(&self.at(folder))?;
        Ok(info.shape == Shape::Directory && self.disk.is_own(info.owner) && info.mode & 0o022 == 0)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        Some(self.at(name))
    }
}

#[derive(Debug)]
struct FileBlob {
    file: Box<dyn DiskFile>,
    len: u64,
    version: Version,
}

impl Blob for FileBlob {
    fn len(&self) -> u64 {
        self.len
    }

    fn version(&self) -> Version {
        self.version
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        // What was appended since it was opened is not part of it.
        let rest = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let want = rest.min(buffer.len());
        self.file.read_at(&mut buffer[..want], offset)
    }
}

/// The end of the names of files that are not finished.
const TEMPORARY: &str = ".tmp";
