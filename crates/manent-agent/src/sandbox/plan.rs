//! What the process outside tells the keeper, which runs from the same program: on its command line, so that it needs
//! no file that both can see; and what the keeper tells back.

use std::io;
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::Disk;
use serde::{Deserialize, Serialize};

use super::Isolation;
use super::error::SandboxError;
use super::outcome::{CommandEnd, Limit};
use super::policy::{FilesystemView, Network, ResourceLimits, SETTINGS, SYSTEM};

/// The first word on the command line of a process that is to enter a sandbox.
pub(super) const ENTRANCE: &str = "__sandbox";
/// The second: stay, and look after what is started.
pub(super) const KEEP: &str = "keep";
/// The second: become the command.
pub(super) const BECOME: &str = "become";

/// The instructions for the processes inside of the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeeperPlan {
    pub(super) kind: Isolation,
    pub(super) network: Network,
    pub(super) limits: ResourceLimits,
    /// The directory that the keeper removes if the process that created it is gone.
    pub(super) scratch: Option<PathBuf>,
    /// The rules for Landlock: the paths that may be reached, and no others.
    pub(super) rules: Vec<PathRule>,
}

/// A path, and what may be done with it and below it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PathRule {
    pub(super) path: PathBuf,
    pub(super) access: PathAccess,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PathAccess {
    /// Read and start.
    Use,
    /// Read, not start.
    Read,
    /// Read and write what is there.
    Device,
    /// A path that may be changed, except for devices and sockets.
    Change,
}

/// Returns the Landlock rules for a view. Paths have no symbolic links; paths that do not exist are left out.
pub(super) fn rules(view: &FilesystemView, scratch: &Path) -> Result<Vec<PathRule>, SandboxError> {
    let fixed = SYSTEM.iter().chain(&SETTINGS).map(|path| (PathBuf::from(path), PathAccess::Use));
    let devices = ["null", "zero", "full", "random", "urandom"].map(|name| Path::new("/dev").join(name));
    let given = view.read_only.iter().map(|path| (path.clone(), PathAccess::Use));
    let own = [view.workspace.clone(), scratch.to_owned()].map(|path| (path, PathAccess::Change));
    let all = fixed
        .chain([(PathBuf::from("/proc"), PathAccess::Read)])
        .chain(devices.map(|path| (path, PathAccess::Device)))
        .chain(given)
        .chain(own);
    let mut rules = Vec::new();
    for (path, access) in all {
        match RealDisk.resolve(&path) {
            Ok(path) => rules.push(PathRule { path, access }),
            // Not every system has all of them. Where anything else is wrong, the command would run without a right
            // that it was promised.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {}
            Err(e) => return Err(SandboxError::io("find a path that the command may use")(e)),
        }
    }
    Ok(rules)
}

/// The messages from the keeper to the process outside.
pub(super) mod report {
    use super::{CommandEnd, Limit};

    /// The sandbox is entered; the next thing is the command.
    pub(in super::super) const ENTERED: u8 = b'r';

    /// Encodes the end of a command in two bytes.
    pub(in super::super) fn encode(ending: CommandEnd) -> [u8; 2] {
        match ending {
            CommandEnd::Exit(code) => [b'e', u8::try_from(code).unwrap_or(u8::MAX)],
            CommandEnd::Signal(signal) => [b's', u8::try_from(signal).unwrap_or(u8::MAX)],
            CommandEnd::Limit(limit) => [b'l', limit as u8],
            CommandEnd::Timeout => [b't', 0],
            CommandEnd::Stopped => [b'x', 0],
        }
    }

    /// The same, read.
    pub(in super::super) fn decode(bytes: &[u8]) -> Option<CommandEnd> {
        match bytes {
            [b'e', code] => Some(CommandEnd::Exit(i32::from(*code))),
            [b's', signal] => Some(CommandEnd::Signal(i32::from(*signal))),
            [b'l', limit] => [Limit::Cpu, Limit::Memory, Limit::Processes, Limit::FileSize]
                .get(usize::from(*limit))
                .map(|limit| CommandEnd::Limit(*limit)),
            _ => None,
        }
    }
}
