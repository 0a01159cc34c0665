//! Attempts to get out, as a process in a sandbox makes them: real system calls on what was planted.
//!
//! Each gives what it got (`Ok`), or why it did not (`Err`). They need no rights and have none: any program could do
//! the same.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use manent::log::RealDisk;
use manent::log::fs::{Access, Disk, read_fully, write_fully};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::process::{Pid, Resource, Rlimit, Signal};

use super::stage::{SECRET, Targets};

/// The word on the command line, behind that of the sandbox.
pub(in super::super) const ATTEMPT: &str = "attempt";
/// The exit code of an attempt that was refused. A successful one exits with 0.
pub(super) const REFUSED: u8 = 10;

type Attempted = io::Result<String>;

/// Makes the attempt that was named, on the targets that were given.
pub(in super::super) fn make(words: &[OsString]) -> ExitCode {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let Ok(targets) = serde_json::from_str::<Targets>(text(1)) else { return ExitCode::from(2) };
    let mut all = REFUSED_ALL.iter().chain(EXCESSIVE);
    let Some((_, attempt)) = all.find(|(name, _)| *name == text(0)) else { return ExitCode::from(2) };
    let mut stdout = io::stdout();
    match attempt(&targets) {
        Ok(got) => {
            let _ = write!(stdout, "{got}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            let _ = write!(stdout, "{e}");
            ExitCode::from(REFUSED)
        }
    }
}

type NamedAttempt = (&'static str, fn(&Targets) -> Attempted);

/// Attempts by name that must all be refused.
pub(super) const REFUSED_ALL: &[NamedAttempt] = &[
    ("write outside", |at| write(&at.file)),
    ("create outside", |at| create(&at.outside.join("new"))),
    ("truncate outside", |at| truncate(&at.file)),
    ("remove outside", |at| done(rustix::fs::unlink(&at.file), "removed it")),
    ("chmod outside", |at| chmod(&at.file, Mode::RWXU)),
    ("utime outside", |at| utime(&at.file)),
    ("setxattr outside", |at| setxattr(&at.file)),
    ("hard link in", |at| hard_link_in(at)),
    ("hard link out", |at| {
        done(rustix::fs::link(at.workspace.join("own"), at.outside.join("own")), "linked it")
    }),
    ("symlink swap", symlink_swap),
    ("rename the workspace", rename_workspace),
    ("read ~/.ssh", |at| read(&at.home.join(".ssh/id"))),
    ("read ~/.netrc", |at| read(&at.home.join(".netrc"))),
    ("list the real home", |at| list(&at.real_home, at)),
    ("read the store", |at| read(&at.store.join("log.jsonl"))),
    ("unhide the store", unhide_store),
    ("read /etc/shadow", |_| read_any("/etc/shadow".as_ref())),
    ("list /run", |at| list("/run".as_ref(), at)),
    ("watch ~/.ssh", |at| watch(&at.home.join(".ssh"))),
    ("TCP connect", |at| TcpStream::connect(("127.0.0.1", at.tcp)).map(|_| "connected".to_owned())),
    ("UDP send", udp),
    ("abstract Unix socket", abstract_socket),
    ("pathname Unix socket", |at| UnixStream::connect(&at.socket).map(|_| "connected".to_owned())),
    ("Unix datagram from a pair", datagram),
    ("signal a process", |at| done(rustix::process::kill_process(victim(at)?, Signal::TERM), "sent it")),
    ("limit a process", limit_process),
    ("slow a process", |at| done(rustix::process::setpriority_process(Some(victim(at)?), 19), "slowed it")),
    ("read /proc/PID/environ", |at| read(format!("/proc/{}/environ", at.victim).as_ref())),
    ("open /proc/PID/mem", |at| open_for_writing(format!("/proc/{}/mem", at.victim).as_ref())),
    ("open /proc/PARENT/mem", |_| open_for_writing(format!("/proc/{}/mem", parent()).as_ref())),
    ("open /proc/self/mem", |_| open_for_writing("/proc/self/mem".as_ref())),
    ("write a switch of the kernel", |_| open_for_writing("/proc/sys/kernel/core_pattern".as_ref())),
    ("become another user", |_| {
        done(rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(1)), "became it")
    }),
    ("make a setuid file", setuid_file),
    ("make a device", device),
    ("change the root", |at| done(rustix::process::chroot(&at.workspace), "changed it")),
    ("mount", mount),
    ("secret in the environment", environment),
    ("files left open", descriptors),
];

/// Attempts that are ended by a limit.
const EXCESSIVE: &[NamedAttempt] = &[("memory hog", |_| memory()), ("fill the disk", fill)];

fn done(result: rustix::io::Result<()>, what: &str) -> Attempted {
    Ok(result.map(|()| what.to_owned())?)
}

fn open_for_writing(path: &Path) -> Attempted {
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    Ok("opened it for writing".to_owned())
}

fn write(path: &Path) -> Attempted {
    let file = RealDisk.open(path, Access::Append)?;
    write_fully(&*file, b"written").map_err(|(_, e)| e)?;
    Ok("wrote into it".to_owned())
}

fn create(path: &Path) -> Attempted {
    new_file(path, Mode::RUSR | Mode::WUSR)?;
    Ok("made it".to_owned())
}

/// Not through the door of the library, which sets the mode too: that alone may be refused.
fn new_file(path: &Path, mode: Mode) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, mode)
}

fn truncate(path: &Path) -> Attempted {
    rustix::fs::open(path, OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC, Mode::empty())?;
    Ok("emptied it".to_owned())
}

fn utime(path: &Path) -> Attempted {
    let long_ago = Timespec { tv_sec: 1, tv_nsec: 0 };
    let times = Timestamps { last_access: long_ago, last_modification: long_ago };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())?;
    match rustix::fs::stat(path)?.st_mtime {
        1 => Ok("changed its time".to_owned()),
        _ => Err(io::Error::other("without effect")),
    }
}

/// Changes the mode of a file and checks the result: the call may do nothing and report success.
fn chmod(path: &Path, mode: Mode) -> Attempted {
    rustix::fs::chmod(path, mode)?;
    if Mode::from_raw_mode(rustix::fs::stat(path)?.st_mode) == mode {
        return Ok("changed its mode".to_owned());
    }
    Err(io::Error::other("without effect"))
}

fn setxattr(path: &Path) -> Attempted {
    done(rustix::fs::setxattr(path, "user.manent", b"x", XattrFlags::empty()), "set an attribute")
}

fn hard_link_in(at: &Targets) -> Attempted {
    let inside = at.workspace.join("linked");
    rustix::fs::link(&at.file, &inside)?;
    write(&inside)
}

/// A directory that was ours a moment ago leads outside now.
fn symlink_swap(at: &Targets) -> Attempted {
    let dir = at.workspace.join("dir");
    rustix::fs::mkdir(&dir, Mode::RWXU)?;
    rustix::fs::rename(&dir, at.workspace.join("aside"))?;
    rustix::fs::symlink(&at.outside, &dir)?;
    create(&dir.join("new")).or_else(|_| write(&dir.join("file")))
}

fn rename_workspace(at: &Targets) -> Attempted {
    let moved = rustix::fs::rename(&at.workspace, at.workspace.with_extension("moved"));
    done(moved.or_else(|_| rustix::fs::rename(&at.workspace, at.outside.join("moved"))), "renamed it")
}

/// Reads a hidden store through another name of its parent directory, in case only its path is hidden by a mount.
fn unhide_store(at: &Targets) -> Attempted {
    let (old, new) = (at.home.join(".local"), at.home.join("renamed"));
    let found = rustix::fs::rename(&old, &new);
    read(&at.store.join("log.jsonl")).or_else(|e| {
        found?;
        read(&new.join("share/manent/log.jsonl")).map_err(|_| e)
    })
}

/// Reads the secret, not just anything.
fn read(path: &Path) -> Attempted {
    let text = read_any(path)?;
    if text.contains(SECRET) {
        Ok("read the secret".to_owned())
    } else {
        Err(io::Error::other("nothing in it"))
    }
}

fn read_any(path: &Path) -> Attempted {
    let file = RealDisk.open(path, Access::Read)?;
    let mut buffer = vec![0; 64 << 10];
    let read = read_fully(&*file, &mut buffer, 0)?;
    Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
}

/// Names that are not on the way to something that is shown on purpose.
fn list(dir: &Path, at: &Targets) -> Attempted {
    let names = RealDisk.list(dir)?.into_iter().map(|entry| dir.join(entry.name));
    match names.filter(|name| !at.shown.iter().any(|shown| shown.starts_with(name))).count() {
        0 => Err(io::Error::other("empty")),
        n => Ok(format!("saw {n} names")),
    }
}

fn watch(dir: &Path) -> Attempted {
    use rustix::fs::inotify;
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&fd, dir, inotify::WatchFlags::ALL_EVENTS)?;
    Ok("watches it".to_owned())
}

fn udp(at: &Targets) -> Attempted {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(b"x", ("127.0.0.1", at.udp))?;
    // Sent is not received: in a network of its own it goes nowhere, which the kernel tells on the next call.
    socket.connect(("127.0.0.1", at.udp))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    socket.send(b"x")?;
    match socket.recv(&mut [0]) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Err(e),
        _ => Ok("sent it".to_owned()),
    }
}

fn abstract_socket(at: &Targets) -> Attempted {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(&at.abstract_name)?)?;
    Ok("connected".to_owned())
}

/// A socket that was made connected can be sent elsewhere afterwards, if it is for datagrams.
fn datagram(at: &Targets) -> Attempted {
    let (one, _other) = std::os::unix::net::UnixDatagram::pair()?;
    one.send_to(b"x", &at.datagrams)?;
    Ok("sent it".to_owned())
}

fn victim(at: &Targets) -> io::Result<Pid> {
    Pid::from_raw(at.victim).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn parent() -> i32 {
    rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get())
}

fn limit_process(at: &Targets) -> Attempted {
    let zero = Rlimit { current: Some(0), maximum: Some(0) };
    rustix::process::prlimit(Some(victim(at)?), Resource::Core, zero)?;
    Ok("set a limit".to_owned())
}

fn setuid_file(at: &Targets) -> Attempted {
    let mode = Mode::RWXU | Mode::SUID;
    let own = chmod(&at.workspace.join("own"), mode);
    own.or_else(|_| done(new_file(&at.workspace.join("setuid"), mode).map(drop), "made one"))
}

fn device(at: &Targets) -> Attempted {
    // The device of /dev/null: harmless if it works.
    let path = at.workspace.join("device");
    let made =
        rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::RUSR, rustix::fs::makedev(1, 3));
    done(made, "made one")
}

fn mount(at: &Targets) -> Attempted {
    use rustix::mount::{MountFlags, UnmountFlags};
    let dir = at.workspace.join("mounted");
    rustix::fs::mkdir(&dir, Mode::RWXU)?;
    rustix::mount::mount("none", &dir, "tmpfs", MountFlags::empty(), None)?;
    let _ = rustix::mount::unmount(&dir, UnmountFlags::DETACH);
    Ok("mounted something".to_owned())
}

fn environment(at: &Targets) -> Attempted {
    let known = |name: &OsString| at.variables.iter().any(|known| name == known.as_str());
    match std::env::vars_os().map(|(name, _)| name).find(|name| !known(name)) {
        Some(name) => Ok(format!("saw {}", name.display())),
        None => Err(io::Error::other("nothing but what was allowed")),
    }
}

fn descriptors(_: &Targets) -> Attempted {
    let listed = RealDisk.list("/proc/self/fd".as_ref())?;
    let mut open = listed.iter().filter_map(|entry| entry.name.to_str()?.parse::<i32>().ok());
    let leaked = open.find(|fd| {
        let path = rustix::fs::readlink(format!("/proc/self/fd/{fd}"), Vec::new());
        *fd > 2 && path.is_ok_and(|path| !path.as_bytes().starts_with(b"/proc/"))
    });
    leaked.map_or_else(|| Err(io::Error::other("none")), |fd| Ok(format!("found file {fd}")))
}

/// Takes a gibibyte, page by page.
fn memory() -> Attempted {
    let mut taken = Vec::new();
    for _ in 0..64 {
        let mut piece = Vec::new();
        piece.try_reserve_exact(16 << 20).map_err(io::Error::other)?;
        piece.resize(16 << 20, 1_u8);
        taken.push(piece);
    }
    Ok(format!("took {} bytes", taken.iter().map(Vec::len).sum::<usize>()))
}

fn fill(at: &Targets) -> Attempted {
    let file = new_file(&at.workspace.join("full"), Mode::RUSR | Mode::WUSR)?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..64 {
        if rustix::io::write(&file, &zeros)? < zeros.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok("wrote 64 MiB".to_owned())
}
