//! Moves what a command left behind, and must not stay, out of the workspace.
//!
//! Everything is reached through a descriptor of its directory that was opened beneath the workspace without following
//! any link, so that a process that outlived its command could not have something else moved. Links are moved as links.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use manent::log::RealDisk;
use manent::log::fs::{Access, Disk, write_fully};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::state::unique_name;

/// The quarantine of one command: a directory of its own in `<home>/quarantine/`, made when it is needed.
#[derive(Debug)]
pub(super) struct Quarantine {
    home: PathBuf,
    workspace: PathBuf,
    place: Option<PathBuf>,
}

/// The result of moving something to the quarantine.
#[derive(Debug)]
pub(super) enum MoveResult {
    /// Moved to this path in the quarantine.
    To(PathBuf),
    /// Could not be moved, for this reason. The entry was given another name in its own directory, where no program
    /// obeys it.
    Renamed(PathBuf, io::Error),
}

impl Quarantine {
    pub(super) fn new(store: &Path, workspace: &Path) -> Quarantine {
        Quarantine { home: store.join(DIRECTORY), workspace: workspace.to_owned(), place: None }
    }

    /// Moves `path`, which lies in the workspace. If that fails, `armed` gets another name: the entry without which no
    /// program obeys `path`, mostly `path` itself. An error means that everything is where it was.
    pub(super) fn take(&mut self, path: &Path, armed: &Path) -> io::Result<MoveResult> {
        let handle = EntryHandle::open(&self.workspace, path)?;
        let moved = self.destination(path).and_then(|to| match handle.rename(CWD, &to) {
            Err(Errno::XDEV) => handle.copy_and_remove(&to).map(|()| to),
            renamed => renamed.map(|()| to).map_err(io::Error::from),
        });
        match moved {
            Ok(to) => Ok(MoveResult::To(to)),
            Err(why) => {
                let renamed =
                    EntryHandle::open(&self.workspace, armed).ok().and_then(|handle| handle.disarm().ok());
                match renamed {
                    Some(name) => Ok(MoveResult::Renamed(armed.with_file_name(name), why)),
                    None => Err(why),
                }
            }
        }
    }

    /// Returns a free path for something, with its directories.
    fn destination(&mut self, path: &Path) -> io::Result<PathBuf> {
        let place = if let Some(place) = &self.place {
            place
        } else {
            let place = self.home.join(unique_name());
            RealDisk.create_dir_all(&place)?;
            let file = RealDisk.open(&place.join(ORIGIN), Access::CreateNew)?;
            let origin = [self.workspace.as_os_str().as_encoded_bytes(), b"\n"].concat();
            write_fully(&*file, &origin).map_err(|(_, e)| e)?;
            self.place.insert(place)
        };
        // Below a directory of its own, where no name of the workspace meets ours.
        let to = place.join("files").join(path.strip_prefix(&self.workspace).unwrap_or(path));
        make_directories(place, &to)?;
        let is_free =
            |path: &Path| RealDisk.inspect(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
        let numbered = (2..NAMES_MAX).map(|number| {
            let mut name = to.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{number}"));
            to.with_file_name(name)
        });
        let free = std::iter::once(to.clone()).chain(numbered).find(|path| is_free(path));
        free.ok_or_else(|| io::ErrorKind::AlreadyExists.into())
    }
}

/// An entry of a directory, reached without following links.
pub(super) struct EntryHandle {
    pub(super) dir: OwnedFd,
    pub(super) name: std::ffi::OsString,
}

impl EntryHandle {
    /// Opens the directory of `path`, which lies below `root`.
    pub(super) fn open(root: &Path, path: &Path) -> io::Result<EntryHandle> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let inside = path.strip_prefix(root).map_err(|_| invalid())?;
        let (parent, name) = (inside.parent().ok_or_else(invalid)?, inside.file_name().ok_or_else(invalid)?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty())?;
        let dir = if parent.as_os_str().is_empty() {
            root
        } else {
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            rustix::fs::openat2(&root, parent, flags, Mode::empty(), beneath)?
        };
        Ok(EntryHandle { dir, name: name.to_owned() })
    }

    /// Renames the entry, where nothing may be. A directory that the command closed to its owner is opened first.
    fn rename(&self, dir: impl std::os::fd::AsFd + Copy, to: &Path) -> Result<(), Errno> {
        let rename = || rustix::fs::renameat_with(&self.dir, &self.name, dir, to, RenameFlags::NOREPLACE);
        match rename() {
            Err(Errno::ACCESS | Errno::PERM) => {
                open_for_owner(&self.dir)?;
                if let Ok(own) = rustix::fs::openat(&self.dir, &self.name, ENTRY, Mode::empty())
                    && rustix::fs::fstat(&own)
                        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
                {
                    open_for_owner(&own)?;
                }
                rename()
            }
            // A file system that does not know the flag: the destination was looked at a moment ago, and is ours.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                rustix::fs::renameat(&self.dir, &self.name, dir, to)
            }
            renamed => renamed,
        }
    }

    /// Moves to another file system. What cannot be copied in whole stays.
    fn copy_and_remove(&self, to: &Path) -> io::Result<()> {
        let from = self.path();
        // `cp -a` follows no link, and keeps links, modes and times.
        let mut copy = Command::new("/bin/cp");
        copy.args(["-a", "-T", "--"]).args([&from, to]).env_clear();
        let copied = copy.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if !copied.success() {
            super::super::scratch::remove(to);
            return Err(io::Error::other("it could not be copied to another file system in whole"));
        }
        super::super::scratch::remove(&from);
        match self.stat() {
            Err(Errno::NOENT) => Ok(()),
            _ => Err(io::Error::other(format!("it was copied to {}, but not removed", to.display()))),
        }
    }

    /// Gives the entry a name under which no program obeys it, and returns that.
    fn disarm(&self) -> Result<std::ffi::OsString, Errno> {
        let mut name = self.name.clone();
        name.push(format!(".quarantined-{}", unique_name()));
        self.rename(&self.dir, name.as_ref())?;
        Ok(name)
    }

    pub(super) fn stat(&self) -> Result<rustix::fs::Stat, Errno> {
        rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// A path by which another process reaches the entry, whatever happens to the directories above it.
    fn path(&self) -> PathBuf {
        let dir = format!("/proc/{}/fd/{}", std::process::id(), self.dir.as_raw_fd());
        Path::new(&dir).join(&self.name)
    }
}

/// Makes the directories between `above`, which is there, and `path`. They are not brought to the disk one by one: a
/// command can leave thousands of repositories, and nobody should wait for that.
fn make_directories(above: &Path, path: &Path) -> io::Result<()> {
    let inside = path.strip_prefix(above).ok().and_then(Path::parent).unwrap_or(Path::new(""));
    let mut dir = above.to_owned();
    for name in inside {
        dir.push(name);
        match rustix::fs::mkdir(&dir, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Gives the owner of a directory all rights in it.
pub(super) fn open_for_owner(dir: &OwnedFd) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(dir)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), mode | Mode::RWXU)?;
    }
    Ok(())
}

const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The number of entries with the same name that one quarantine accepts.
const NAMES_MAX: u32 = 1000;
const DIRECTORY: &str = "quarantine";
/// The file that says which workspace it came from.
const ORIGIN: &str = "workspace";
