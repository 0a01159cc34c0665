//! The view of the file system that bubblewrap makes: an empty one, into which is mounted what may be seen.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::{Disk, Shape};

use super::policy::{FilesystemView, Network, ResourceLimits, SETTINGS, SYSTEM};

/// The path of the helper program inside of the sandbox.
pub(super) const HELPER: &str = "/manent-sandbox";
/// The home and the temporary directory of a command.
pub(super) const SCRATCH: &str = "/tmp";

/// The arguments of `bwrap`, up to the command.
pub(super) fn arguments(
    view: &FilesystemView,
    helper: &Path,
    network: Network,
    limits: &ResourceLimits,
) -> Vec<OsString> {
    let mut list = Arguments::default();
    list.flags(&[
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]);
    if network == Network::Denied {
        list.flags(&["--unshare-net"]);
    }
    // Our keeper is the first process inside: when it ends, for whatever reason, the kernel ends all others.
    list.flags(&["--as-pid-1", "--new-session", "--die-with-parent"]);
    list.add("--cap-drop", &["ALL".as_ref()]);
    // Read-only, because root owns the switches of the machine in it, with or without rights.
    list.add("--proc", &["/proc".as_ref()]);
    list.add("--remount-ro", &["/proc".as_ref()]);
    list.add("--dev", &["/dev".as_ref()]);
    // Memory that no limit of a process counts, so it has one of its own.
    list.tmpfs("/dev/shm".as_ref(), limits.memory_bytes / 8);
    list.add("--remount-ro", &["/dev".as_ref()]);
    list.tmpfs(SCRATCH.as_ref(), limits.memory_bytes / 4);
    for dir in SYSTEM.map(Path::new) {
        list.system(dir);
    }
    for path in SETTINGS.map(Path::new) {
        list.add("--ro-bind-try", &[path, path]);
    }
    list.add("--ro-bind", &[helper, HELPER.as_ref()]);
    list.view(view);
    list.add("--remount-ro", &["/".as_ref()]);
    list.add("--chdir", &[&view.workspace]);
    list.flags(&["--"]);
    list.words
}

#[derive(Default)]
struct Arguments {
    words: Vec<OsString>,
}

impl Arguments {
    fn flags(&mut self, flags: &[&str]) {
        self.words.extend(flags.iter().map(OsString::from));
    }

    fn add(&mut self, option: &str, values: &[&Path]) {
        self.words.push(option.into());
        self.words.extend(values.iter().map(|value| value.as_os_str().to_owned()));
    }

    fn tmpfs(&mut self, at: &Path, bytes: u64) {
        self.add("--size", &[bytes.max(4096).to_string().as_ref()]);
        self.add("--tmpfs", &[at]);
    }

    /// A directory of the system. Many are links into `/usr` today, and programs expect them to be.
    fn system(&mut self, dir: &Path) {
        let Ok(info) = RealDisk.inspect(dir) else { return };
        match RealDisk.resolve(dir) {
            Ok(real) if info.shape == Shape::Link => self.add("--symlink", &[&real, dir]),
            Ok(_) => self.add("--ro-bind", &[dir, dir]),
            Err(_) => {}
        }
    }

    /// Adds the mounts of the policy, parents before what lies in them.
    fn view(&mut self, view: &FilesystemView) {
        let mut mounts: Vec<(PathBuf, Mount)> = vec![(view.workspace.clone(), Mount::Change)];
        let read_only = |path: &Path| view.read_only.iter().any(|dir| path.starts_with(dir));
        let closed = view.read_only.iter().chain(&view.protected);
        mounts.extend(closed.map(|path| (path.clone(), Mount::Read)));
        mounts.extend(view.pinned().into_iter().map(|path| {
            let within =
                view.read_only.iter().any(|dir| dir.starts_with(&view.workspace)) && read_only(&path);
            let how = if within { Mount::Read } else { Mount::Change };
            (path, how)
        }));
        mounts.extend(view.hidden.iter().map(|(path, shape)| {
            let how = if *shape == Shape::Directory { Mount::Empty } else { Mount::Nothing };
            (path.clone(), how)
        }));
        // What is asked for twice is given the stricter way, which comes last.
        mounts.sort();
        for (path, mount) in &mounts {
            match mount {
                Mount::Change => self.add("--bind", &[path, path]),
                Mount::Read => self.add("--ro-bind", &[path, path]),
                Mount::Empty => {
                    self.tmpfs(path, 4096);
                    self.add("--remount-ro", &[path]);
                }
                Mount::Nothing => self.add("--ro-bind", &["/dev/null".as_ref(), path]),
            }
        }
    }
}

/// The way a path is mounted, from the least to the most restrictive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mount {
    Change,
    Read,
    Empty,
    Nothing,
}
