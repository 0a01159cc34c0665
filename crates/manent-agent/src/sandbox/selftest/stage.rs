//! What an attempt is made on: a home with secrets, a store, sockets that listen, and a process, all planted for it;
//! and a look at them afterwards, which sees what got through.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use manent::log::RealDisk;
use manent::log::fs::{Access, Disk, write_fully};
use rustix::fs::{Mode, OFlags, Stat};
use serde::{Deserialize, Serialize};

use super::super::error::SandboxError;
use super::super::policy::SandboxPolicy;
use super::super::scratch::Scratch;

/// A secret that must not be readable in the sandbox.
pub(super) const SECRET: &str = "planted-secret-6f1c";
/// The name of a variable that nobody in a sandbox may see.
pub(super) const VARIABLE: &str = "MANENT_SELFTEST_SECRET";
const CONTENT: &str = "as it was\n";

/// The locations of all targets, passed to the process that makes an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Targets {
    pub(super) home: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) store: PathBuf,
    /// A directory outside.
    pub(super) outside: PathBuf,
    /// A file in it.
    pub(super) file: PathBuf,
    pub(super) tcp: u16,
    pub(super) udp: u16,
    pub(super) abstract_name: String,
    /// Sockets with a name in the workspace, the worst place for one.
    pub(super) socket: PathBuf,
    pub(super) datagrams: PathBuf,
    pub(super) victim: i32,
    /// The home of whoever runs this, really.
    pub(super) real_home: PathBuf,
    /// The paths that are visible on purpose.
    pub(super) shown: Vec<PathBuf>,
    /// The variables that may be seen.
    pub(super) variables: Vec<String>,
}

/// The place itself, gone when dropped.
pub(super) struct TestStage {
    pub(super) targets: Targets,
    before: Stat,
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_socket: UnixListener,
    socket: UnixListener,
    datagrams: UnixDatagram,
    victim: Child,
    /// Left open without a word that it is to be closed, as careless programs do.
    _leaked: OwnedFd,
    _scratch: Scratch,
}

impl TestStage {
    pub(super) fn new() -> Result<TestStage, SandboxError> {
        let scratch = Scratch::new()?;
        let root = scratch.path().to_owned();
        let dir = |name: &str| {
            let path = root.join(name);
            RealDisk
                .create_dir_all(&path)
                .map(|()| path)
                .map_err(SandboxError::io("make a place for attempts"))
        };
        let (home, workspace) = (dir("home")?, dir("home/project")?);
        let (store, outside) = (dir("home/.local/share/manent")?, dir("outside")?);
        dir("home/.ssh")?;
        plant(&home.join(".ssh/id"), SECRET)?;
        plant(&home.join(".netrc"), SECRET)?;
        plant(&store.join("log.jsonl"), SECRET)?;
        plant(&workspace.join("own"), CONTENT)?;
        let file = outside.join("file");
        plant(&file, CONTENT)?;
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let listening = || -> std::io::Result<_> {
            let tcp = TcpListener::bind("127.0.0.1:0")?;
            tcp.set_nonblocking(true)?;
            let udp = UdpSocket::bind("127.0.0.1:0")?;
            udp.set_nonblocking(true)?;
            let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            abstract_socket.set_nonblocking(true)?;
            let socket = UnixListener::bind(workspace.join("socket"))?;
            socket.set_nonblocking(true)?;
            let datagrams = UnixDatagram::bind(workspace.join("datagrams"))?;
            datagrams.set_nonblocking(true)?;
            Ok((tcp, udp, abstract_socket, socket, datagrams))
        };
        let (tcp, udp, abstract_socket, socket, datagrams) =
            listening().map_err(SandboxError::io("listen for attempts"))?;
        let mut victim = Command::new("sleep");
        victim.arg("600").env_clear().env(VARIABLE, SECRET).env("PATH", "/usr/bin:/bin");
        victim.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let victim = victim.spawn().map_err(SandboxError::io("start a process for attempts"))?;
        let port =
            |address: std::io::Result<std::net::SocketAddr>| address.map_or(0, |address| address.port());
        let targets = Targets {
            tcp: port(tcp.local_addr()),
            udp: port(udp.local_addr()),
            abstract_name: name,
            socket: workspace.join("socket"),
            datagrams: workspace.join("datagrams"),
            victim: victim.id().cast_signed(),
            real_home: std::env::home_dir().unwrap_or_default(),
            shown: Vec::new(),
            variables: Vec::new(),
            home,
            workspace,
            store,
            outside,
            file,
        };
        let leaked = rustix::fs::open(targets.home.join(".netrc"), OFlags::RDONLY, Mode::empty());
        let leaked = leaked.map_err(SandboxError::io("open a file for attempts"))?;
        let before = rustix::fs::stat(&targets.file).map_err(SandboxError::io("look at a file"))?;
        Ok(TestStage {
            targets,
            before,
            tcp,
            udp,
            abstract_socket,
            socket,
            datagrams,
            victim,
            _leaked: leaked,
            _scratch: scratch,
        })
    }

    /// Returns the policy of an attempt. The directory outside is readable, so that changes to it are prevented by more
    /// than a missing path.
    pub(super) fn policy(&self, helper: &Path) -> SandboxPolicy {
        let mut policy = SandboxPolicy::new(&self.targets.workspace, &self.targets.store);
        policy.home = Some(self.targets.home.clone());
        policy.read_only.extend([helper.to_owned(), self.targets.outside.clone()]);
        policy
    }

    /// Tells whoever makes an attempt what is no success: to see what the policy shows, and the variables that shells
    /// and bubblewrap set by themselves.
    pub(super) fn allow(&mut self, policy: &SandboxPolicy) {
        let made = ["HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_"].map(str::to_owned);
        self.targets.variables = policy.environment.iter().cloned().chain(made).collect();
        self.targets.shown = policy.read_only.iter().chain([&policy.workspace]).cloned().collect();
    }

    /// Returns the first trace of a successful attempt, seen from outside, or `None` if everything is unchanged.
    pub(super) fn traces(&mut self) -> Option<String> {
        let Targets { file, outside, workspace, .. } = &self.targets;
        let Ok(now) = rustix::fs::stat(file) else { return Some("the file outside is gone".to_owned()) };
        let metadata =
            |stat: &Stat| (stat.st_mode, stat.st_nlink, stat.st_uid, stat.st_mtime, stat.st_mtime_nsec);
        if metadata(&now) != metadata(&self.before) || now.st_size != self.before.st_size {
            return Some("the file outside is not as it was".to_owned());
        }
        if rustix::fs::listxattr(file, &mut [0; 256][..]).is_ok_and(|length| length > 0) {
            return Some("the file outside has an attribute".to_owned());
        }
        let names = RealDisk.list(outside).map(|entries| entries.len());
        if names.ok() != Some(1) {
            return Some("there is something new outside".to_owned());
        }
        if RealDisk.inspect(workspace).is_err() {
            return Some("the workspace is gone".to_owned());
        }
        if self.victim.try_wait().ok() != Some(None) {
            return Some("the process outside is gone".to_owned());
        }
        self.calls()
    }

    /// Returns the socket that was reached, if one was.
    fn calls(&self) -> Option<String> {
        let mut byte = [0; 1];
        let called = [
            ("TCP", self.tcp.accept().err()),
            ("UDP", self.udp.recv_from(&mut byte).err()),
            ("the abstract socket", self.abstract_socket.accept().err()),
            ("the socket", self.socket.accept().err()),
            ("the socket for datagrams", self.datagrams.recv_from(&mut byte).err()),
        ];
        let quiet = |error: &Option<std::io::Error>| {
            error.as_ref().is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
        };
        let (name, _) = called.iter().find(|(_, error)| !quiet(error))?;
        Some(format!("somebody called over {name}"))
    }
}

impl Drop for TestStage {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

pub(super) fn plant(path: &Path, text: &str) -> Result<(), SandboxError> {
    let planted = RealDisk
        .open(path, Access::CreateNew)
        .and_then(|file| write_fully(&*file, text.as_bytes()).map_err(|(_, e)| e));
    planted.map_err(SandboxError::io("make a file for attempts"))
}

/// Counts the processes that have `marker` on their command line.
pub(super) fn running(marker: &str) -> usize {
    let listed = RealDisk.list("/proc".as_ref()).unwrap_or_default();
    let pids = listed.iter().filter_map(|entry| entry.name.to_str()?.parse::<u32>().ok());
    let is_meant = |pid: &u32| {
        let Ok(file) = RealDisk.open(format!("/proc/{pid}/cmdline").as_ref(), Access::Read) else {
            return false;
        };
        let mut line = vec![0; 4096];
        let read = manent::log::fs::read_fully(&*file, &mut line, 0).unwrap_or_default();
        memchr::memmem::find(&line[..read], marker.as_bytes()).is_some()
    };
    pids.filter(is_meant).count()
}
