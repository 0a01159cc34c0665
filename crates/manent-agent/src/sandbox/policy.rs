//! The policy of a command (the files that it may see and change, its limits), and the policy resolved on this
//! machine (`FilesystemView`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent::log::RealDisk;
use manent::log::fs::{Disk, Shape};
use serde::{Deserialize, Serialize};

use super::Isolation;
use super::error::SandboxError;
use super::guard::NewEntries;
use crate::protected::{GIT, RepositoryMarks, is_git};

/// The permissions and limits of a command. Everything that is not listed here is forbidden.
#[derive(Debug, Clone)]
pub struct SandboxPolicy {
    /// The directory in which it runs, and the only one that it may change.
    pub workspace: PathBuf,
    /// The home of the store: hidden wherever it is.
    pub store: PathBuf,
    /// The home of the user: what opens doors there is hidden, if the home can be seen at all.
    pub home: Option<PathBuf>,
    /// Further paths that the command may read, besides the programs of the system.
    pub read_only: Vec<PathBuf>,
    /// Further paths that are hidden, even within readable ones.
    pub hidden: Vec<PathBuf>,
    /// Directories called `.git` in the workspace, by their path from there, in which the command may make commits and
    /// branches. Whatever else it changes in them is put back.
    pub writable_git: Vec<PathBuf>,
    /// The treatment of repositories and protected names that appear during the command.
    pub new_entries: NewEntries,
    /// The access to the internet. Local sockets are never reachable.
    pub network: Network,
    /// The resource limits.
    pub limits: ResourceLimits,
    /// The names of environment variables that are handed on. `HOME` and `TMPDIR` are made by the sandbox.
    pub environment: Vec<String>,
    /// The handling of the two output streams.
    pub streams: OutputStreams,
}

impl SandboxPolicy {
    /// The usual: no network, ordinary limits, nothing to read but the system and the workspace.
    pub fn new(workspace: impl Into<PathBuf>, store: impl Into<PathBuf>) -> SandboxPolicy {
        SandboxPolicy {
            workspace: workspace.into(),
            store: store.into(),
            home: std::env::home_dir(),
            read_only: Vec::new(),
            hidden: Vec::new(),
            writable_git: Vec::new(),
            new_entries: NewEntries::Quarantined,
            network: Network::Denied,
            limits: ResourceLimits::default(),
            environment: ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ"].map(str::to_owned).to_vec(),
            streams: OutputStreams::Merged,
        }
    }

    /// Returns true if a path without symbolic links lies in something that the command can see.
    pub fn shows(&self, path: &Path) -> bool {
        let own =
            std::iter::once(&self.workspace).chain(&self.read_only).map(|dir| resolve_what_is_there(dir));
        let system = SYSTEM.iter().map(|dir| resolve_what_is_there(Path::new(dir)));
        own.chain(system).any(|dir| path.starts_with(dir))
    }
}

/// The access of a command to the internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Denies TCP and UDP.
    Denied,
    /// TCP and UDP, as from this machine: what listens on it is reached too.
    Allowed,
}

/// The handling of standard output and standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStreams {
    /// Standard output and standard error as one, in the order in which they were written.
    Merged,
    /// Standard output and standard error apart.
    Apart,
}

/// The resource limits of a command and all that it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Time on the clock.
    pub wall: Duration,
    /// Seconds of work, of all processes together.
    pub cpu_seconds: u64,
    /// Resident memory, of all processes together. Looked at many times a second.
    pub memory_bytes: u64,
    /// Address space of each process; nothing: any. Some programs reserve far more than they use.
    pub address_space_bytes: Option<u64>,
    /// Processes and threads at once.
    pub processes: u64,
    /// The longest file that can be written.
    pub file_bytes: u64,
    /// The number of bytes kept of each output stream: a quarter of the start, the rest of the end.
    pub output_bytes: usize,
}

impl Default for ResourceLimits {
    fn default() -> ResourceLimits {
        ResourceLimits {
            wall: Duration::from_mins(2),
            cpu_seconds: 600,
            memory_bytes: 4 << 30,
            address_space_bytes: None,
            processes: 512,
            file_bytes: 1 << 30,
            output_bytes: 64 << 10,
        }
    }
}

/// A policy, resolved: what there really is to show and to hide. All paths are free of symbolic links.
#[derive(Debug)]
pub(super) struct FilesystemView {
    pub(super) workspace: PathBuf,
    pub(super) read_only: Vec<PathBuf>,
    /// The hidden paths that exist within visible ones.
    pub(super) hidden: Vec<(PathBuf, Shape)>,
    /// Repositories in which commits may be made.
    pub(super) writable: Vec<PathBuf>,
    /// Paths of the workspace that are mounted read-only, because a person's programs would execute them.
    pub(super) protected: Vec<PathBuf>,
}

impl FilesystemView {
    pub(super) fn new(policy: &SandboxPolicy, kind: Isolation) -> Result<FilesystemView, SandboxError> {
        let workspace = resolve("the workspace", &policy.workspace)?;
        let inspected = RealDisk.inspect(&workspace);
        if !inspected.is_ok_and(|info| info.shape == Shape::Directory) {
            return Err(refused("the workspace", &workspace, "it is no directory"));
        }
        let below = |dir: &&&str| Path::new(dir).starts_with(&workspace) || workspace.starts_with(dir);
        if let Some(dir) = SYSTEM.iter().chain(&["/proc", "/dev", "/sys", "/etc"]).find(below) {
            let why = format!("{dir} belongs to the system; choose a directory of your own");
            return Err(refused("the workspace", &workspace, why));
        }
        if let Some(why) = within_repository(&workspace) {
            return Err(refused("the workspace", &workspace, why));
        }
        let read_only = policy.read_only.iter().map(|path| resolve("the read-only path", path));
        let read_only = read_only.collect::<Result<Vec<_>, _>>()?;
        if let Some(path) = read_only.iter().find(|path| path.parent().is_none()) {
            return Err(refused("the read-only path", path, "it is everything; name what is needed"));
        }
        let mut hidden = Vec::new();
        for path in hidden_paths(policy) {
            let path = resolve_what_is_there(&path);
            for (what, shown) in visible_paths(&workspace, &read_only) {
                if shown.starts_with(&path) {
                    let why = format!("{} is hidden from commands; choose another place", path.display());
                    return Err(refused(what, shown, why));
                }
                // Only what is there can be seen; and only what can be seen must be hidden.
                let Ok(info) = RealDisk.inspect(&path) else { continue };
                if !path.starts_with(shown) {
                    continue;
                }
                if kind == Isolation::Landlock {
                    let why = format!(
                        "it holds {}, and Landlock cannot hide a part of a directory; choose one that does not \
                         hold it, or install bubblewrap",
                        path.display()
                    );
                    return Err(refused(what, shown, why));
                }
                hidden.push((path.clone(), info.shape));
            }
        }
        hidden.sort_by(|a, b| a.0.cmp(&b.0));
        hidden.dedup_by(|a, b| a.0 == b.0);
        let writable = policy.writable_git.iter().map(|path| writable_repository(&workspace, path));
        let writable = writable.collect::<Result<Vec<_>, _>>()?;
        Ok(FilesystemView { workspace, read_only, hidden, writable, protected: Vec::new() })
    }

    /// Protects as many of these paths by a read-only mount as can be mounted quickly, those near the root first, and
    /// returns the
    /// rest. What lies in something that is read-only already needs nothing.
    pub(super) fn mount(&mut self, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let is_read_only = |path: &PathBuf| {
            let mut inside = self.read_only.iter().filter(|dir| dir.starts_with(&self.workspace));
            inside.any(|dir| path.starts_with(dir))
        };
        paths.retain(|path| !is_read_only(path));
        paths.sort_by_cached_key(|path| (path.components().count(), path.clone()));
        let mut points = BTreeSet::new();
        let mut rest = Vec::new();
        for path in paths {
            let new: Vec<&Path> = std::iter::once(path.as_path()).chain(self.above(&path)).collect();
            let added = new.iter().filter(|point| !points.contains(**point)).count();
            if points.len() + added > MOUNTS_MAX {
                rest.push(path);
                continue;
            }
            points.extend(new.into_iter().map(Path::to_owned));
            self.protected.push(path);
        }
        rest
    }

    /// The directories between the workspace and a path in it.
    fn above<'a>(&self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        path.ancestors().skip(1).take_while(|dir| *dir != self.workspace)
    }

    /// The directories between the workspace and what is hidden, read-only or protected in it. Renamed, one of them
    /// would take what is below it to another name, where the next command finds it in the open, and something else
    /// could be put into its place.
    pub(super) fn pinned(&self) -> Vec<PathBuf> {
        let inside = self.hidden.iter().map(|(path, _)| path).chain(&self.read_only);
        let inside = inside.chain(&self.protected).chain(&self.writable);
        let mut pinned: Vec<PathBuf> = self.writable.clone();
        for path in inside.filter(|path| path.starts_with(&self.workspace)) {
            pinned.extend(self.above(path).map(Path::to_owned));
        }
        pinned.sort();
        pinned.dedup();
        pinned
    }
}

/// Says why a directory is no workspace because it belongs to a repository itself: nothing in it could be written. A
/// work tree that lies in its repository is one.
fn within_repository(workspace: &Path) -> Option<String> {
    let is_work_tree = |dir: &&Path| RealDisk.inspect(&dir.join(GIT)).is_ok();
    let is_repository = |dir: &&Path| {
        dir.file_name().is_some_and(is_git) || RepositoryMarks::of(&RealDisk, dir).is_repository()
    };
    let repository = workspace.ancestors().take_while(|dir| !is_work_tree(dir)).find(is_repository)?;
    Some(format!("{} holds the data of a Git repository; choose a work tree", repository.display()))
}

/// The directory of a repository in which a person lets a command make commits.
fn writable_repository(workspace: &Path, path: &Path) -> Result<PathBuf, SandboxError> {
    let what = "the writable repository";
    let asked = workspace.join(path);
    let real = resolve(what, &asked)?;
    let is_directory = RealDisk.inspect(&asked).is_ok_and(|info| info.shape == Shape::Directory);
    let is_repository =
        real.file_name().is_some_and(is_git) && RepositoryMarks::of(&RealDisk, &real).is_repository();
    if !real.starts_with(workspace) || real == workspace || !is_directory || !is_repository {
        let why = "only a directory called .git in the workspace can be, neither a link nor the file that a linked \
                   work tree or a submodule has instead";
        return Err(refused(what, &real, why));
    }
    Ok(real)
}

/// Returns the visible paths, each with its name in error messages.
fn visible_paths<'a>(
    workspace: &'a Path,
    read_only: &'a [PathBuf],
) -> impl Iterator<Item = (&'static str, &'a Path)> {
    let others = read_only.iter().map(|path| ("the read-only path", path.as_path()));
    let system = SYSTEM.iter().map(|path| ("the directory of the system", Path::new(path)));
    std::iter::once(("the workspace", workspace)).chain(others).chain(system)
}

/// Returns the paths that commands must not see, whether they exist or not.
fn hidden_paths(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let mut hidden = vec![policy.store.clone()];
    hidden.extend(policy.hidden.iter().cloned());
    hidden.extend(["/run", "/var/run", "/root/.ssh"].map(PathBuf::from));
    hidden.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()));
    if let Some(home) = policy.home.as_ref().filter(|home| home.is_absolute() && *home != Path::new("/")) {
        hidden.extend(SECRET_IN_HOME.map(|name| home.join(name)));
    }
    // Cargo keeps its own wherever its home is.
    if let Some(cargo) = std::env::var_os("CARGO_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        hidden.extend(["credentials", "credentials.toml"].map(|name| cargo.join(name)));
    }
    hidden
}

fn resolve(what: &'static str, path: &Path) -> Result<PathBuf, SandboxError> {
    let resolved = RealDisk.resolve(path);
    resolved.map_err(|source| SandboxError::Path { what, path: path.to_owned(), source })
}

/// The path without symbolic links, as far as it exists.
fn resolve_what_is_there(path: &Path) -> PathBuf {
    match RealDisk.resolve(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => resolve_what_is_there(parent).join(name),
            _ => path.to_owned(),
        },
        resolved => resolved.unwrap_or_else(|_| path.to_owned()),
    }
}

fn refused(what: &'static str, path: &Path, why: impl Into<String>) -> SandboxError {
    SandboxError::Refused { what, path: path.to_owned(), why: why.into() }
}

/// The environment of a command: only what is named, and a home of its own.
pub(super) fn environment(
    policy: &SandboxPolicy,
    view: &FilesystemView,
    scratch: &Path,
) -> Vec<(OsString, OsString)> {
    let own = ["HOME", "TMPDIR"];
    let names = policy.environment.iter().filter(|name| !own.contains(&name.as_str()));
    let mut variables: Vec<(OsString, OsString)> =
        names.filter_map(|name| Some((name.into(), value(name, view)?))).collect();
    variables.extend(own.map(|name| (name.into(), scratch.into())));
    variables.extend(TOOLS_IN_HOME.into_iter().filter_map(|(name, dir)| {
        let said = std::env::var_os(name).map(PathBuf::from);
        let place = RealDisk.resolve(&said.or_else(|| Some(policy.home.as_ref()?.join(dir)))?).ok()?;
        let is_let_in = view.read_only.iter().any(|shown| place.starts_with(shown));
        is_let_in.then(|| (name.into(), place.into_os_string()))
    }));
    variables
}

/// Returns the value of an environment variable inside of the sandbox. Of `PATH` only the visible directories remain: a
/// shell that finds a program in an invisible one would not look any further.
fn value(name: &str, view: &FilesystemView) -> Option<OsString> {
    if name != "PATH" {
        return std::env::var_os(name);
    }
    let value = std::env::var_os(name).unwrap_or_default();
    let seen = |dir: &PathBuf| {
        visible_paths(&view.workspace, &view.read_only).any(|(_, place)| dir.starts_with(place))
    };
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&value).filter(seen).collect();
    // Directories with programs were made readable to be used, so they come first.
    let let_in: Vec<PathBuf> = view.read_only.iter().filter_map(|dir| programs_in(dir)).collect();
    let is_there = !dirs.is_empty();
    dirs.splice(0..0, let_in);
    dirs.extend(usual.into_iter().filter(|_| !is_there));
    std::env::join_paths(dirs).ok()
}

/// Returns the directory of programs in `dir`, if there is one.
fn programs_in(dir: &Path) -> Option<PathBuf> {
    let programs = if dir.ends_with("bin") { dir.to_owned() } else { dir.join("bin") };
    programs.is_dir().then_some(programs)
}

/// The number of paths of the workspace that are mounted at most, with the directories above them. Each mount costs
/// bubblewrap more than the one before it: 128 take less than 0.1 s, 1,500 take 2 s.
const MOUNTS_MAX: usize = 128;

/// Variables that name the directories of tools, with their defaults in the home. They are set if the directory is
/// visible, because the sandbox has another home.
const TOOLS_IN_HOME: [(&str, &str); 2] = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")];

/// Programs and what they need: can be read and started, wherever they exist.
pub(super) const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];

/// The system configuration that programs need. The rest of `/etc` holds keys and passwords.
pub(super) const SETTINGS: [&str; 31] = [
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/environment",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// Secrets in the home of a user. They matter only if the home itself is visible.
const SECRET_IN_HOME: [&str; 24] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".git-credentials",
    ".terraform.d",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".local/share/keyrings",
    ".password-store",
    ".mozilla",
    ".bash_history",
    ".zsh_history",
    ".python_history",
];
