//! [`RealDisk`]: the file system of this machine, each operation close to one system call.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FlockOperation, OFlags};
#[cfg(target_os = "linux")]
use {rustix::fs::StatxFlags, std::os::fd::AsFd};

use super::{Access, DirEntry, Disk, DiskFile, FileId, FileState, FileSystem, PathInfo, Shape};

/// The machine's own file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The disk in the form in which logs take it.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    /// Asked for once: an open file stays what it is.
    id: FileId,
    /// The process that took its lock (0: none did).
    locked_by: AtomicU32,
}

impl RealFile {
    fn flock(&self, operation: FlockOperation) -> io::Result<bool> {
        match rustix::fs::flock(&self.file, operation) {
            Ok(()) => {
                self.locked_by.store(std::process::id(), Ordering::Relaxed);
                Ok(true)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for RealFile {
    /// Closing is not enough: a child between fork and exec has the file open too, and the lock would live on in it.
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}

impl Disk for RealDisk {
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        // O_NONBLOCK: opening a FIFO that was planted as a log must not hang; it means nothing for a regular file.
        let last = if access == Access::Directory { OFlags::DIRECTORY } else { OFlags::NOFOLLOW };
        let flags = (last | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags).mode(0o600);
        match access {
            Access::Read | Access::Directory => {}
            Access::Append => {
                options.append(true);
            }
            Access::CreateNew => {
                options.append(true).create_new(true);
            }
            Access::Overwrite => {
                options.write(true);
            }
        }
        let file = options.open(path)?;
        let meta = file.metadata()?;
        if access != Access::Directory && !meta.file_type().is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if access == Access::CreateNew {
            // A umask can take bits away from 0600; an explicit mode is not subject to it.
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
        let id = FileId { device: meta.dev(), inode: meta.ino() };
        Ok(Box::new(RealFile { file, id, locked_by: AtomicU32::new(0) }))
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(path_info(&stat))
    }

    fn look(&self, dir: &Path, names: &[&str]) -> io::Result<Vec<Option<PathInfo>>> {
        use rustix::fs::Mode;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let dir = rustix::fs::openat(CWD, dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut looked = vec![None; names.len()];
        let work = Mutex::new(names.chunks(LOOK_AT_ONCE).zip(looked.chunks_mut(LOOK_AT_ONCE)));
        let look = || -> io::Result<()> {
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((names, looked)) = next else { return Ok(()) };
                for (name, info) in names.iter().zip(looked) {
                    *info = look_at(&dir, name)?;
                }
            }
        };
        if names.len() < LOOK_ALONE_MAX {
            look()?;
        } else {
            // Looking at a name is a system call and nothing else: two threads take half the time. Each takes the next
            // few as soon as it is done with the last, because one of them may have a processor to itself.
            let (first, second) = std::thread::scope(|scope| {
                // Without a second thread, this one looks at all of them.
                let second = std::thread::Builder::new().spawn_scoped(scope, look).ok();
                (look(), second.map(std::thread::ScopedJoinHandle::join))
            });
            first?;
            second
                .unwrap_or(Ok(Ok(())))
                .unwrap_or_else(|_| Err(io::Error::other("looking at names failed")))?;
        }
        Ok(looked)
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

    fn watch(&self, dirs: &[&Path]) -> io::Result<Option<Box<dyn super::Watch>>> {
        super::watch::watch(dirs)
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

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::RenameFlags;
        use rustix::io::Errno;
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // The kernel or this file system does not know the flag. EINVAL can mean other things too; then the
            // plain rename says so again.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_new_in_steps(from, to),
            done => Ok(done?),
        }
    }

    #[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        rename_new_in_steps(from, to)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::remove_dir(dir)
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

    #[cfg(target_os = "linux")]
    fn opened_by(&self, path: &Path) -> Option<u32> {
        let wanted = std::fs::symlink_metadata(path).ok()?;
        let own = std::process::id();
        let pids = std::fs::read_dir("/proc").ok()?.flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.find(|pid| *pid != own && has_open(*pid, wanted.dev(), wanted.ino()))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn check_writable(&self, dir: &Path) -> io::Result<()> {
        let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        Ok(rustix::fs::accessat(CWD, dir, wanted, AtFlags::EACCESS)?)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.file, bytes)?)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync on Linux; std issues F_FULLFSYNC on macOS.
        self.file.sync_data()
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file.set_permissions(std::fs::Permissions::from_mode(mode))
    }

    #[cfg(target_os = "linux")]
    fn state(&self) -> io::Result<FileState> {
        // Only size and links: asking for the times would make the next write stamp the inode again, which
        // costs more than this call (multigrain timestamps).
        let mask = StatxFlags::SIZE | StatxFlags::NLINK;
        let stat = rustix::fs::statx(self.file.as_fd(), c"", AtFlags::EMPTY_PATH, mask)?;
        Ok(FileState { len: stat.stx_size, links: u64::from(stat.stx_nlink) })
    }

    #[cfg(not(target_os = "linux"))]
    fn state(&self) -> io::Result<FileState> {
        let meta = self.file.metadata()?;
        Ok(FileState { len: meta.len(), links: meta.nlink() })
    }

    fn id(&self) -> io::Result<FileId> {
        Ok(self.id)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.flock(FlockOperation::NonBlockingLockExclusive)
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.flock(FlockOperation::NonBlockingLockShared)
    }

    fn unlock(&self) -> io::Result<()> {
        // A child that was only forked shares the lock with its parent, and must not let go of it.
        let holder = self.locked_by.load(Ordering::Relaxed);
        if holder != 0 && holder == std::process::id() {
            rustix::fs::flock(&self.file, FlockOperation::Unlock)?;
            self.locked_by.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    fn lock_holder(&self) -> Option<u32> {
        // In one read: between two of them a lock that goes away makes the kernel skip another one.
        let mut table = String::with_capacity(1 << 16);
        io::Read::read_to_string(&mut File::open("/proc/locks").ok()?, &mut table).ok()?;
        holder_in_lock_table(&table, self.id.device, self.id.inode)
    }
}

/// [`Disk::rename_new`] where the system has no such call.
///
/// Within one directory a second name is made, which replaces nothing, and the first one removed: a new file gets its
/// name so, without any lock that keeps others from making one of the same name. A crash in between leaves both names,
/// of which the first is that of a temporary file.
fn rename_new_in_steps(from: &Path, to: &Path) -> io::Result<()> {
    if from.parent() != to.parent() {
        return look_then_rename(from, to);
    }
    match rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => RealDisk.remove(from).inspect_err(|_| {
            let _ = RealDisk.remove(to);
        }),
        Err(e) if io::Error::from(e).kind() == io::ErrorKind::AlreadyExists => Err(e.into()),
        Err(rustix::io::Errno::NOENT) => Err(io::ErrorKind::NotFound.into()),
        // A directory, or a file system without hard links.
        Err(_) => look_then_rename(from, to),
    }
}

/// [`Disk::rename_new`] in two steps, for directories and for moves between them.
///
/// Whoever comes in between is overwritten. That is good enough here: callers hold the lock of the store, so that no
/// other process of ours moves anything to that name meanwhile.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn look_then_rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => std::fs::rename(from, to),
        Err(e) => Err(e),
    }
}

/// Looks at a name in an open directory, which costs less than at a whole path.
fn look_at(dir: &OwnedFd, name: &str) -> io::Result<Option<PathInfo>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => Ok(None),
        looked => Ok(Some(path_info(&looked?))),
    }
}

fn path_info(stat: &rustix::fs::Stat) -> PathInfo {
    let shape = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => Shape::File,
        rustix::fs::FileType::Directory => Shape::Directory,
        rustix::fs::FileType::Symlink => Shape::Link,
        _ => Shape::Special,
    };
    PathInfo {
        id: FileId { device: stat.st_dev, inode: stat.st_ino },
        shape,
        len: stat.st_size.cast_unsigned(),
        mode: stat.st_mode & 0o7777,
        owner: stat.st_uid,
        links: links_of(stat),
        modified_ms: nanoseconds(stat.st_mtime, stat.st_mtime_nsec.cast_signed()) / 1_000_000,
        changed_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
    }
}

#[allow(clippy::unnecessary_cast, reason = "its type is not the same on every machine")]
fn links_of(stat: &rustix::fs::Stat) -> u64 {
    stat.st_nlink as u64
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// The number of names up to which looking at them is faster than starting a thread.
const LOOK_ALONE_MAX: usize = 1000;
/// The number of names that a thread takes from the rest each time.
const LOOK_AT_ONCE: usize = 128;

/// Returns true if a process has a file open. One that we may not look into counts as not.
#[cfg(target_os = "linux")]
fn has_open(pid: u32, device: u64, inode: u64) -> bool {
    let Ok(handles) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    // Following the link leads to the file itself, whatever its name is now.
    let mut files = handles.flatten().filter_map(|handle| std::fs::metadata(handle.path()).ok());
    files.any(|file| file.ino() == inode && file.dev() == device)
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
            [_, "FLOCK", _, "WRITE" | "READ", pid, id, ..] if *id == wanted => {
                pid.parse().ok().filter(|pid| *pid > 0)
            }
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
    #[expect(clippy::disallowed_methods, reason = "the test lays out the disk")]
    fn a_rename_in_two_steps_refuses_what_is_there_too() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a"), "a").unwrap();
        std::os::unix::fs::symlink("nowhere", at("b")).unwrap();
        let refused = look_then_rename(&at("a"), &at("b")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(at("a")).unwrap(), "a");
        look_then_rename(&at("a"), &at("c")).unwrap();
        assert_eq!(std::fs::read_to_string(at("c")).unwrap(), "a");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test lays out the disk")]
    fn rename_new_in_steps_replaces_nothing_and_leaves_one_name() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a"), "a").unwrap();
        std::fs::write(at("b"), "b").unwrap();
        std::fs::create_dir(at("dir")).unwrap();
        for (from, to) in [("a", "b"), ("a", "dir"), ("dir", "b")] {
            let refused = rename_new_in_steps(&at(from), &at(to)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists, "{from} to {to}");
        }
        assert_eq!(std::fs::read_to_string(at("b")).unwrap(), "b");
        let missing = rename_new_in_steps(&at("none"), &at("c")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        rename_new_in_steps(&at("a"), &at("c")).unwrap();
        rename_new_in_steps(&at("dir"), &at("other")).unwrap();
        assert_eq!(RealDisk.inspect(&at("c")).unwrap().links, 1);
        assert!(!at("a").exists() && !at("dir").exists() && at("other").is_dir());
    }

    #[test]
    fn network_and_unknown_file_systems_are_told_from_local_ones() {
        assert_eq!(file_system_of(0xEF53), FileSystem::Local);
        assert_eq!(file_system_of(0x6969), FileSystem::Network("NFS"));
        assert_eq!(file_system_of(0x6573_5546), FileSystem::Unknown(0x6573_5546));
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "the test changes the disk")]
    fn whatever_is_written_made_moved_or_removed_is_told_before_the_next_call_returns() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "1").unwrap();
        let mut watch = RealDisk.watch(&[dir.path()]).unwrap().unwrap();
        assert_eq!(watch.changed().unwrap().unwrap(), []);
        std::fs::write(dir.path().join("a"), "2").unwrap();
        assert_eq!(watch.changed().unwrap().unwrap(), [(0, "a".into())]);
        std::fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert_eq!(watch.changed().unwrap().unwrap(), [(0, "a".into()), (0, "b".into())]);
        std::fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(watch.changed().unwrap().unwrap().last().unwrap(), &(0, "b".into()));
        std::fs::remove_dir(dir.path()).unwrap();
        assert_eq!(watch.changed().unwrap(), None, "without the directory nothing is known");
    }
}
