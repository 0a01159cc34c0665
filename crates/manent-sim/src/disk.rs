//! [`SimDisk`]: the simulated disk as the engine sees it, and the methods that only tests use.
//!
//! [`SimDisk`] and its files implement the traits of `manent_log::fs` by turning each call into one numbered
//! operation of the shared world. They behave as `RealDisk` does on Linux, down to the kinds of errors.
//!
//! The invariant: trait calls (but `is_own` and `now_ns`) are the only things that are counted and struck by
//! faults. The methods of `SimDisk` itself stand outside the simulated machine: they work before, after and
//! between crashes and never fail by plan.
//!
//! What it does not do: permissions (all files are 0600, all directories 0700, of one owner) and symbolic
//! links.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use manent_log::LockMode;
use manent_log::fs::{Access, DirEntry, Disk, DiskFile, FileId, FileState, FileSystem, PathInfo, Shape};

use crate::faults::{CrashKind, FaultPlan};
use crate::pages::{CutStyle, Pages};
use crate::trace::{Call, Detail};
use crate::tree::absolute;
use crate::world::{Extent, Handle, SimProcess, USER, World};

/// A disk in memory. Clones share one world; so do views of other processes and later incarnations.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    caller: SimProcess,
    visit: Arc<Mutex<Option<Visit>>>,
}

/// An operation of another process in the middle of one of this process.
struct Visit {
    operation: u64,
    pid: u32,
    act: Box<dyn FnOnce() + Send>,
}

impl SimDisk {
    /// An empty disk with a root directory and no faults.
    pub fn new(seed: u64) -> Self {
        Self::with_faults(seed, FaultPlan::new())
    }

    /// An empty disk on which the given faults are going to strike.
    pub fn with_faults(seed: u64, plan: FaultPlan) -> Self {
        let caller = SimProcess { incarnation: 0, pid: FIRST_PID };
        Self { world: Arc::new(Mutex::new(World::new(seed, plan))), caller, visit: Arc::default() }
    }

    /// Another disk with all that is seen on this one, durable, to the numbers and the times of the files; no faults,
    /// and dice of its own.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        let copy = Self::new(seed);
        let (mut there, here) = (copy.world(), self.world());
        there.tree = here.tree.settled();
        there.operations = here.operations;
        there.clock = here.clock;
        drop((there, here));
        copy
    }

    /// The same disk seen by another process of the same incarnation.
    #[must_use]
    pub fn as_process(&self, pid: u32) -> Self {
        Self { caller: SimProcess { pid, ..self.caller }, ..self.clone() }
    }

    /// The machine stops now, between two operations. A view that is already dead changes nothing.
    pub fn crash(&self, kind: CrashKind) {
        let mut world = self.world();
        if world.end_of(self.caller).is_none() {
            world.crash(kind);
        }
    }

    /// A view of what the crash left, for processes started afterwards. Handles from before stay dead.
    ///
    /// If nothing crashed yet, this kills all processes first.
    #[must_use]
    pub fn restart(&self) -> Self {
        self.crash(CrashKind::Kill);
        let incarnation = self.world().ends.len();
        Self { caller: SimProcess { incarnation, ..self.caller }, ..self.clone() }
    }

    /// Returns the end of the incarnation of this view, if it has ended.
    pub fn crashed(&self) -> Option<CrashKind> {
        self.world().end_of(self.caller)
    }

    /// Returns the number of operations that have begun, which is the number of the next one.
    pub fn op_count(&self) -> u64 {
        self.world().operations
    }

    /// Runs `act` once, before the first operation of this process that has at least this number, and outside of the
    /// world's lock: `act` may do to the disk what it likes. So a test can put all that another process does between
    /// any two operations of this one.
    pub fn visit_before(&self, operation: u64, act: impl FnOnce() + Send + 'static) {
        let visit = Visit { operation, pid: self.caller.pid, act: Box::new(act) };
        *self.visit.lock().unwrap_or_else(PoisonError::into_inner) = Some(visit);
    }

    /// Forgets a visit that has not begun; says whether there was one.
    pub fn cancel_visit(&self) -> bool {
        self.visit.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Makes all power cuts to come leave the content of files in this way; `None` leaves it to the dice
    /// again.
    pub fn set_cut_style(&self, style: Option<CutStyle>) {
        self.world().cut_style = style;
    }

    /// Limits the total bytes of all files; `None` takes the limit away.
    pub fn set_capacity(&self, capacity_bytes: Option<u64>) {
        self.world().capacity_bytes = capacity_bytes;
    }

    /// Sets the answer of `file_system`.
    pub fn set_file_system(&self, file_system: FileSystem) {
        self.world().file_system = file_system;
    }

    /// Gives all files to this user. At first they belong to the simulated user, who has the id 1000.
    pub fn set_owner(&self, owner: u32) {
        self.world().owner = owner;
    }

    /// The kernel reclaims its clean pages. Nothing changes, except that data which a failed sync gave up is
    /// gone.
    pub fn drop_caches(&self) {
        self.world().tree.drop_clean();
    }

    /// The content of a file as a reader would see it; `None` if there is no such file.
    pub fn peek(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let world = self.world();
        let ino = world.tree.resolve(path.as_ref()).ok()?;
        Some(world.tree.pages(ino).ok()?.bytes().to_vec())
    }

    /// Puts a file on the disk: content, name and parents are there at once and survive every crash.
    pub fn poke(&self, path: impl AsRef<Path>, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        let path = path.as_ref();
        let mut world = self.world();
        world.tree.create_dirs(path.parent().unwrap_or(path), u64::MAX)?;
        let ino = world.tree.resolve(path).or_else(|_| world.tree.create_file(path))?;
        world.tree.settle_path(path);
        *world.tree.pages_mut(ino)? = Pages::durable(bytes.into());
        world.stamp(ino);
        Ok(())
    }

    /// Puts a directory and its parents on the disk, durable at once.
    pub fn poke_dir(&self, dir: impl AsRef<Path>) -> io::Result<()> {
        let mut world = self.world();
        world.tree.create_dirs(dir.as_ref(), u64::MAX)?;
        world.tree.settle_path(dir.as_ref());
        Ok(())
    }

    /// Appends as a foreign program would: into the cache, unsynced. A missing file is created.
    pub fn raw_append(&self, path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = path.as_ref();
        let mut world = self.world();
        let ino = world.tree.resolve(path).or_else(|_| world.tree.create_file(path))?;
        world.tree.pages_mut(ino)?.append(bytes);
        world.stamp(ino);
        Ok(())
    }

    /// Absolute paths of all files (not directories), sorted.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.world().tree.files()
    }

    /// The last operations and crashes, one line each, oldest first.
    pub fn trace(&self) -> Vec<String> {
        self.world().trace.lines()
    }

    /// Returns true if the last operation that a fault struck was one that changes the disk.
    pub fn struck_a_change(&self) -> bool {
        let struck = self.trace().into_iter().rfind(|line| line.starts_with('#') && line.ends_with(']'));
        struck.is_some_and(|line| crate::trace::is_change(&line))
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        // A test that panicked in another thread has its own message; the world itself is never left half
        // changed by anything but a broken invariant.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every operation begins here, before it has the world for itself.
    fn begin(&self) -> MutexGuard<'_, World> {
        let mut planned = self.visit.lock().unwrap_or_else(PoisonError::into_inner);
        if planned.as_ref().is_some_and(|v| v.pid == self.caller.pid && v.operation <= self.op_count())
            && let Some(visit) = planned.take()
        {
            drop(planned);
            (visit.act)();
        }
        self.world()
    }

    fn run<T>(&self, call: Call, effect: impl FnOnce(&mut World, Extent) -> io::Result<T>) -> io::Result<T> {
        self.begin().run(self.caller, call, effect)
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the world: it may be locked by the very thread that prints, and it is megabytes.
        f.debug_struct("SimDisk").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let call = Call { detail: Detail::Access(access), ..Call::on("open", path) };
        let shared: Arc<Path> = Arc::clone(&call.path);
        let handle = self.run(call, |world, _| {
            let ino = match access {
                Access::Read | Access::Append | Access::Overwrite | Access::Directory => {
                    world.tree.resolve(path)?
                }
                Access::CreateNew => {
                    let ino = world.tree.create_file(path)?;
                    world.stamp(ino);
                    ino
                }
            };
            match access {
                Access::Directory => world.tree.names(ino).map(|_| ())?,
                // Linux opens a directory for reading; that it is not a file shows only afterwards.
                Access::Read if !world.tree.inode(ino).is_file() => {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
                }
                _ => world.tree.pages(ino).map(|_| ())?,
            }
            Ok(world.open(ino))
        })?;
        Ok(Box::new(SimFile { disk: self.clone(), handle, access, path: shared }))
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        self.run(Call::on("inspect", path), |world, _| {
            let ino = world.tree.resolve(path)?;
            let inode = world.tree.inode(ino);
            let (shape, mode) =
                if inode.is_file() { (Shape::File, 0o600) } else { (Shape::Directory, 0o700) };
            let id = FileId { device: DEVICE, inode: ino };
            Ok(PathInfo {
                id,
                shape,
                len: inode.len(),
                mode,
                owner: world.owner,
                links: inode.links,
                modified_ms: inode.modified_ns.div_euclid(1_000_000),
                changed_ns: inode.changed_ns,
            })
        })
    }

    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.run(Call::on("resolve", path), |world, _| {
            world.tree.resolve(path)?;
            Ok(absolute(path))
        })
    }

    /// Not counted: reading the clock is no operation of a disk.
    fn now_ns(&self) -> i64 {
        self.clock().now_ns
    }

    /// Not counted: it asks about the process, not the disk, and has no way to fail.
    fn is_own(&self, owner: u32) -> bool {
        owner == USER
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.run(Call::on("list", dir), |world, _| {
            let ino = world.tree.resolve(dir)?;
            let shape = |ino| if world.tree.inode(ino).is_file() { Shape::File } else { Shape::Directory };
            let names = world.tree.names(ino)?.iter();
            let mut entries: Vec<DirEntry> =
                names.map(|(name, &ino)| DirEntry { name: name.clone(), shape: shape(ino) }).collect();
            // The trait promises no order, so none may be relied on.
            for last in (1..entries.len()).rev() {
                let other = world.rng.range(0..=last as u64) as usize;
                entries.swap(last, other);
            }
            Ok(entries)
        })
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.run(Call::on("create_dir_all", dir), |world, extent| {
            let count_max = match extent {
                Extent::Whole | Extent::Short => u64::MAX,
                Extent::Torn => world.rng.range(0..=dir.components().count() as u64),
            };
            if dir.as_os_str().is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            world.tree.create_dirs(dir, count_max)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let call = Call { detail: Detail::To(to.into()), ..Call::on("rename", from) };
        self.run(call, |world, _| world.tree.rename(from, to))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let call = Call { detail: Detail::To(to.into()), ..Call::on("rename_new", from) };
        self.run(call, |world, _| world.tree.rename_new(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(Call::on("remove", path), |world, _| world.tree.remove(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Call::on("remove_dir", dir), |world, _| world.tree.remove_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(Call::on("sync_dir", dir), |world, _| {
            let ino = world.tree.resolve(dir)?;
            world.tree.sync_dir(ino)
        })
    }

    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        self.run(Call::on("file_system", path), |world, _| {
            world.tree.resolve(path)?;
            Ok(world.file_system)
        })
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.run(Call::on("free_bytes", path), |world, _| {
            world.tree.resolve(path)?;
            Ok(world.free_bytes())
        })
    }
}

/// An open file or directory of a [`SimDisk`]; dropping it closes it and frees its lock.
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    handle: Handle,
    access: Access,
    /// The path it was opened by, for the trace.
    path: Arc<Path>,
}

impl SimFile {
    fn call(&self, verb: &'static str, detail: Detail) -> Call {
        Call { verb, path: Arc::clone(&self.path), detail }
    }

    fn can_write(&self) -> bool {
        matches!(self.access, Access::Append | Access::CreateNew)
    }

    /// Runs an operation whose result is a number worth reading in the trace.
    fn run_counted(
        &self,
        call: Call,
        effect: impl FnOnce(&mut World, Extent) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut world = self.disk.begin();
        let result = world.run(self.disk.caller, call, effect);
        if let Ok(count) = result {
            world.trace.gave(count as u64);
        }
        result
    }

    fn lock(&self, verb: &'static str, mode: LockMode) -> io::Result<bool> {
        let (caller, call) = (self.disk.caller, self.call(verb, Detail::None));
        self.run_counted(call, |world, _| Ok(usize::from(world.try_lock(caller, self.handle, mode))))
            .map(|got| got == 1)
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let call = self.call("read_at", Detail::Read { offset, bytes: buffer.len() });
        self.run_counted(call, |world, _| {
            let bytes = world.tree.pages(self.handle.ino)?.bytes();
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let count = buffer.len().min(bytes.len() - start);
            buffer[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        })
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.run_counted(self.call("append", Detail::Append(bytes.len())), |world, extent| {
            if !self.can_write() {
                return Err(io::Error::from_raw_os_error(EBADF));
            }
            world.append(self.handle.ino, bytes, extent)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.run_counted(
            self.call("write_at", Detail::Write { offset, bytes: bytes.len() }),
            |world, extent| {
                if self.access != Access::Overwrite {
                    return Err(io::Error::from_raw_os_error(EBADF));
                }
                world.write_at(self.handle.ino, bytes, offset, extent)
            },
        )
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.run(self.call("set_len", Detail::Length(len)), |world, _| {
            if !self.can_write() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
            world.tree.pages_mut(self.handle.ino)?.set_len(len);
            world.stamp(self.handle.ino);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        let ino = self.handle.ino;
        self.disk.begin().run_or(
            self.disk.caller,
            self.call("sync", Detail::None),
            |world, _| world.tree.pages_mut(ino).map(Pages::sync),
            |world| {
                if let Ok(pages) = world.tree.pages_mut(ino) {
                    pages.fail_sync();
                }
            },
        )
    }

    fn state(&self) -> io::Result<FileState> {
        self.disk.run(self.call("state", Detail::None), |world, _| {
            let inode = world.tree.inode(self.handle.ino);
            Ok(FileState { len: inode.len(), links: inode.links })
        })
    }

    fn id(&self) -> io::Result<FileId> {
        let id = FileId { device: DEVICE, inode: self.handle.ino };
        self.disk.run(self.call("id", Detail::None), |_, _| Ok(id))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.lock("try_lock", LockMode::Exclusive)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.lock("try_lock_shared", LockMode::Shared)
    }

    fn unlock(&self) -> io::Result<()> {
        self.disk.run(self.call("unlock", Detail::None), |world, _| {
            world.unlock(self.handle);
            Ok(())
        })
    }

    fn lock_holder(&self) -> Option<u32> {
        let call = self.call("lock_holder", Detail::None);
        self.disk.run(call, |world, _| Ok(world.lock_holder(self.handle.ino))).ok().flatten()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.world().close(self.disk.caller, self.handle);
    }
}

const FIRST_PID: u32 = 1000;
const DEVICE: u64 = 1;
const EBADF: i32 = 9;
