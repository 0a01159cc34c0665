//! A real disk with a hook before every operation: it may refuse it, hold it up, or panic.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::log::RealDisk;
use manent::log::fs::{Access, DirEntry, Disk, DiskFile, FileId, FileState, FileSystem, PathInfo, Watch};

/// Called with the path and the name of an operation.
pub(crate) type Hook = Arc<dyn Fn(&Path, &'static str) -> io::Result<()> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct HookedDisk {
    inner: Arc<dyn Disk>,
    hook: Hook,
}

impl HookedDisk {
    pub(crate) fn shared(
        hook: impl Fn(&Path, &'static str) -> io::Result<()> + Send + Sync + 'static,
    ) -> Arc<dyn Disk> {
        Arc::new(HookedDisk { inner: RealDisk::shared(), hook: Arc::new(hook) })
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedDisk")
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        (self.hook)(path, "open")?;
        let inner = self.inner.open(path, access)?;
        Ok(Box::new(HookedFile { inner, path: path.to_owned(), hook: self.hook.clone() }))
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        (self.hook)(path, "inspect")?;
        self.inner.inspect(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        (self.hook)(path, "resolve")?;
        self.inner.resolve(path)
    }

    fn is_own(&self, owner: u32) -> bool {
        self.inner.is_own(owner)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        (self.hook)(dir, "list")?;
        self.inner.list(dir)
    }

    fn look(&self, dir: &Path, names: &[&str]) -> io::Result<Vec<Option<PathInfo>>> {
        (self.hook)(dir, "look")?;
        self.inner.look(dir, names)
    }

    fn watch(&self, dirs: &[&Path]) -> io::Result<Option<Box<dyn Watch>>> {
        self.inner.watch(dirs)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(dir, "create_dir_all")?;
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(from, "rename")?;
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(from, "rename_new")?;
        self.inner.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.hook)(path, "remove")?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(dir, "remove_dir")?;
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(dir, "sync_dir")?;
        self.inner.sync_dir(dir)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        (self.hook)(path, "file_system")?;
        self.inner.file_system(path)
    }

    fn opened_by(&self, path: &Path) -> Option<u32> {
        self.inner.opened_by(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        (self.hook)(path, "free_bytes")?;
        self.inner.free_bytes(path)
    }

    fn check_writable(&self, dir: &Path) -> io::Result<()> {
        (self.hook)(dir, "check_writable")?;
        self.inner.check_writable(dir)
    }
}

struct HookedFile {
    inner: Box<dyn DiskFile>,
    path: PathBuf,
    hook: Hook,
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedFile")
    }
}

impl HookedFile {
    fn before(&self, operation: &'static str) -> io::Result<&dyn DiskFile> {
        (self.hook)(&self.path, operation)?;
        Ok(&*self.inner)
    }
}

impl DiskFile for HookedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.before("read_at")?.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.before("append")?.append(bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.before("set_len")?.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.before("sync")?.sync()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.before("set_mode")?.set_mode(mode)
    }

    fn state(&self) -> io::Result<FileState> {
        self.before("state")?.state()
    }

    fn id(&self) -> io::Result<FileId> {
        self.before("id")?.id()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.before("try_lock")?.try_lock()
    }

    // Called while a panic unwinds: a second one there would end the process.
    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }

    fn lock_holder(&self) -> Option<u32> {
        self.inner.lock_holder()
    }
}
