//! Rules of Landlock, put by a process on itself: for machines on which nobody may make name spaces.
//!
//! Two domains, one in the other. In the outer one is the keeper, and it can signal only what is in it: so it can end
//! everything that it started at once, however far that ran. In the inner one is the command; it cannot signal the
//! keeper, nor anybody outside.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags};

use super::plan::{PathAccess, PathRule};
use super::policy::Network;

/// The first that confines signals and abstract sockets (Linux 6.12). Without that, we refuse.
const NEEDED: ABI = ABI::V6;

/// From here on, signals go only to what this process starts.
pub(super) fn confine_signals() -> Result<(), String> {
    // Moving files between directories is denied by every set of rules that does not allow it, also by one that is not
    // about files.
    let (root, _) = open("/".as_ref())?;
    let confined = || -> Result<_, RulesetError> {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let ruleset = ruleset.handle_access(AccessFs::Refer)?.scope(Scope::Signal)?.create()?;
        ruleset.add_rule(PathBeneath::new(root, AccessFs::Refer))?.restrict_self()
    };
    whole(confined())
}

/// From here on, only these paths can be reached, nobody outside be signalled, and no network.
pub(super) fn confine(rules: &[PathRule], network: Network) -> Result<(), String> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let handled = || -> Result<_, RulesetError> {
        let ruleset = ruleset.handle_access(AccessFs::from_all(NEEDED))?.scope(Scope::from_all(NEEDED))?;
        match network {
            Network::Denied => ruleset.handle_access(AccessNet::from_all(NEEDED))?.create(),
            Network::Allowed => ruleset.create(),
        }
    };
    let mut ruleset = handled().map_err(|e| too_old(&e))?;
    for rule in rules {
        let (opened, file_type) = open(&rule.path)?;
        let access = access(rule.access, file_type);
        ruleset = ruleset
            .add_rule(PathBeneath::new(opened, access))
            .map_err(|e| format!("no rule can be made for {}: {e}", rule.path.display()))?;
    }
    whole(ruleset.restrict_self())
}

/// Opens what a rule is about, and makes sure that it is what the path says: somebody may have put a link there
/// since.
fn open(path: &Path) -> Result<(OwnedFd, FileType), String> {
    let opened = || -> rustix::io::Result<_> {
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let file_type = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
        let name = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new())?;
        Ok((fd, file_type, name))
    };
    let (fd, file_type, name) = opened().map_err(|e| format!("{} cannot be opened: {e}", path.display()))?;
    if name.as_bytes() != path.as_os_str().as_encoded_bytes() {
        return Err(format!("{} is not what it was a moment ago", path.display()));
    }
    Ok((fd, file_type))
}

fn access(access: PathAccess, file_type: FileType) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let wanted = match access {
        PathAccess::Use => AccessFs::from_read(NEEDED),
        PathAccess::Read => read,
        PathAccess::Device => AccessFs::ReadFile | AccessFs::WriteFile,
        PathAccess::Change => {
            let special = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev;
            AccessFs::from_all(NEEDED) & !special
        }
    };
    if file_type == FileType::Directory { wanted } else { wanted & AccessFs::from_file(NEEDED) }
}

fn whole(status: Result<RestrictionStatus, RulesetError>) -> Result<(), String> {
    match status.map_err(|e| too_old(&e))?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err("the kernel keeps to a part of the rules only; Linux 6.12 or newer is needed".to_owned()),
    }
}

fn too_old(error: &RulesetError) -> String {
    format!(
        "it is missing, switched off or too old; Linux 6.12 or newer is needed, with landlock in `lsm=` ({error})"
    )
}
