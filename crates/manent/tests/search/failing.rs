//! A disk on which everything works but the index: answers are right, records are kept, and what was purged is gone or
//! said not to be.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::log::Disk;
use manent::log::fs::{Access, DirEntry, DiskFile, FileId, FileState, FileSystem, PathInfo};
use manent::{Place, Store, StoreOptions};
use manent_sim::{Errno, SimDisk};

use super::scenes::{
    HOME, SECRETS, behind, expect_right, expect_right_of, files_with, find, logs, say, untold,
};

/// The operation that fails on files of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Everything,
    /// Reading what is in a file.
    Reads,
    /// Making, writing, renaming and removing files.
    Changes,
    /// Writing only: what is there can be removed.
    Writes,
    Syncs,
    Locks,
    Removals,
}

#[derive(Debug, Clone)]
struct Failing {
    disk: SimDisk,
    broken: Broken,
    errno: Errno,
}

#[derive(Debug)]
struct FailingFile {
    file: Box<dyn DiskFile>,
    disk: Failing,
    path: PathBuf,
}

impl Failing {
    fn check(&self, path: &Path, fails: &[Broken]) -> io::Result<()> {
        let of_index = path.starts_with(Path::new(HOME).join("index"));
        if of_index && (self.broken == Broken::Everything || fails.contains(&self.broken)) {
            return Err(io::Error::from_raw_os_error(match self.errno {
                Errno::NoSpace => 28,
                Errno::ReadOnly => 30,
                Errno::TooManyFiles => 24,
                Errno::Io => 5,
            }));
        }
        Ok(())
    }
}

const MAKING: [Broken; 2] = [Broken::Changes, Broken::Writes];

impl Disk for Failing {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.check(path, if access == Access::CreateNew { &MAKING } else { &[] })?;
        let file = self.disk.open(path, access)?;
        Ok(Box::new(FailingFile { file, disk: self.clone(), path: path.to_owned() }))
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        self.check(path, &[])?;
        self.disk.inspect(path)
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.resolve(path)
    }

    fn now_ns(&self) -> i64 {
        self.disk.now_ns()
    }

    fn is_own(&self, owner: u32) -> bool {
        self.disk.is_own(owner)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.check(dir, &[])?;
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.check(dir, &MAKING)?;
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(from, &MAKING)?;
        self.disk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(path, &[Broken::Changes, Broken::Removals])?;
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.check(dir, &[Broken::Syncs])?;
        self.disk.sync_dir(dir)
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.disk.file_system(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
}

impl DiskFile for FailingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.check(&self.path, &[Broken::Reads])?;
        self.file.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.check(&self.path, &MAKING)?;
        self.file.append(bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.check(&self.path, &[Broken::Syncs])?;
        self.file.sync()
    }

    fn state(&self) -> io::Result<FileState> {
        self.file.state()
    }

    fn id(&self) -> io::Result<FileId> {
        self.file.id()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.disk.check(&self.path, &[Broken::Locks])?;
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn lock_holder(&self) -> Option<u32> {
        self.file.lock_holder()
    }
}

fn open(disk: &Failing) -> Store {
    let options = StoreOptions { wait: std::time::Duration::ZERO, ..StoreOptions::default() };
    Store::open_on(Arc::new(disk.clone()), HOME.into(), options).unwrap()
}

#[test]
fn an_index_that_always_fails_costs_no_answer_and_no_record() {
    use Broken::{Changes, Everything, Locks, Reads, Removals, Syncs, Writes};
    for (scene, image) in [("logs", logs()), ("behind", behind()), ("untold", untold())] {
        for broken in [Everything, Reads, Changes, Writes, Syncs, Locks, Removals] {
            for errno in [Errno::Io, Errno::NoSpace, Errno::ReadOnly] {
                let what = format!("{scene}: {broken:?} give {errno:?}");
                let disk = Failing { disk: image.copy(0), broken, errno };
                let store = open(&disk);
                expect_right_of(&disk.disk, &[&store, &open(&disk)], &what);
                say(&store, "after", &["alpha in spite of it"]);
                store.sessions(Place::Live, None, 9).unwrap_or_else(|e| panic!("{what}: {e}"));
                store.stats(&mut |_, _| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
                let state = store.index_state();
                assert!(state.is_ok(), "{what}: {state:?}");
                let _ = store.reindex(&mut |_, _| {});
                expect_right_of(&disk.disk, &[&store], &what);
                let purged = store.purge(&[find(&store, Place::Live, "secret")], true);
                let left = files_with(&disk.disk, &SECRETS);
                assert!(purged.is_err() || left.is_empty(), "{what}: purged, and yet in {left:?}");
                expect_right_of(&disk.disk, &[&store, &open(&disk)], &what);
                // When it works again, it is used again, and nothing of what was purged is left in it.
                let store = super::scenes::open(&disk.disk);
                expect_right(&disk.disk, &store, &what);
                let left = files_with(&disk.disk, &SECRETS);
                assert!(left.is_empty(), "{what}: the next search leaves {left:?}");
            }
        }
    }
}
