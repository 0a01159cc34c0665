//! Where the commands of an agent run.
//!
//! A command sees the programs of the system, its workspace, and nothing else of the file system: not the home of the
//! user, not the store, not the sockets of the machine. It has no network unless the policy says so, none of the
//! user's environment, no terminal, no rights to gain, and limits on what it uses up. When it ends, whatever it started
//! ends too.
//!
//! Which kind of sandbox that is, is found out by trying ([`Sandbox::probe`]), and is told with every outcome. If none
//! works, no command is run. Nothing that a command or a model says can switch it off: there is no such parameter.
//!
//! | file | about |
//! |---|---|
//! | `policy.rs` | [`SandboxPolicy`]: what a command may; and what that means on this machine |
//! | `run.rs`, `stop.rs`, `outcome.rs` | running one, stopping it, what came of it |
//! | `bubblewrap.rs` | the first choice: name spaces, with an empty file system into which little is mounted |
//! | `landlock.rs` | the second choice: rules that a process puts on itself |
//! | `guard/` | repositories and protected names: read-only, put back, or moved to the quarantine |
//! | `seccomp.rs`, `syscalls.rs` | which system calls there are, for both |
//! | `entrance.rs`, `keeper.rs`, `plan.rs` | the processes inside: this same program; see [`enter_if_asked`] |
//! | `shell.rs` | [`SandboxShell`]: the shell of the tools |
//! | `resource_usage.rs` | who is inside, and what they use up |
//! | `selftest/` | [`selftest`]: real attempts to get out |

mod bubblewrap;
mod entrance;
mod error;
mod guard;
mod keeper;
mod landlock;
mod outcome;
mod plan;
mod policy;
mod resource_usage;
mod run;
mod scratch;
mod seccomp;
pub mod selftest;
mod shell;
mod stop;
mod syscalls;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use manent::log::RealDisk;
use manent::log::fs::Disk;
use serde::{Deserialize, Serialize};

pub use entrance::enter_if_asked;
pub use error::SandboxError;
pub use guard::{Cause, GuardNote, NewEntries};
pub use outcome::{CapturedOutput, CommandEnd, CommandOutcome, Limit};
pub use policy::{Network, OutputStreams, ResourceLimits, SandboxPolicy};
pub use run::{OutputObserver, SandboxCommand};
use scratch::Scratch;
pub use shell::SandboxShell;
pub use stop::{StopFlag, StopOnDrop};

/// The mechanism that confines commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Name spaces made by `bwrap`, and a filter of system calls.
    Bubblewrap,
    /// Rules of Landlock, and a stricter filter of system calls. Owners, modes and times of files stay as they
    /// are, whoever changes them, and a command sees the names and command lines of other processes.
    Landlock,
}

impl Isolation {
    /// The kinds of isolation, the preferred one first.
    pub const ALL: [Isolation; 2] = [Isolation::Bubblewrap, Isolation::Landlock];
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::Bubblewrap => "bubblewrap",
            Isolation::Landlock => "landlock",
        })
    }
}

/// A sandbox that was tried and works. Its `Display` is for the log.
#[derive(Debug, Clone)]
pub struct Sandbox {
    kind: Isolation,
    details: String,
    /// The helper: this program, or another that calls [`enter_if_asked`].
    helper: PathBuf,
    /// The path of `bwrap`, if it is used.
    bubblewrap: Option<PathBuf>,
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.details)
    }
}

impl Sandbox {
    /// The first kind that works here. The running program must call [`enter_if_asked`] in its `main`.
    pub fn probe() -> Result<Sandbox, SandboxError> {
        let mut tried = Vec::new();
        for kind in Isolation::ALL {
            match Sandbox::probe_kind(kind) {
                Ok(sandbox) => return Ok(sandbox),
                Err(SandboxError::Unusable { kind, why }) => tried.push((kind, why)),
                Err(e) => tried.push((kind, e.to_string())),
            }
        }
        Err(SandboxError::NoneWorks { tried })
    }

    /// Returns a sandbox of this kind, if it works here.
    pub fn probe_kind(kind: Isolation) -> Result<Sandbox, SandboxError> {
        let helper = std::env::current_exe().map_err(SandboxError::io("find our own program"))?;
        Sandbox::probe_with(kind, &helper)
    }

    /// The same, entered through another program, which calls [`enter_if_asked`].
    pub fn probe_with(kind: Isolation, helper: &Path) -> Result<Sandbox, SandboxError> {
        let unusable = |why: String| SandboxError::Unusable { kind, why };
        let bubblewrap = match kind {
            Isolation::Bubblewrap => Some(find_bubblewrap().ok_or_else(|| {
                unusable("bwrap is not installed (`apt-get install bubblewrap`)".to_owned())
            })?),
            Isolation::Landlock => None,
        };
        let details = details(bubblewrap.as_deref());
        let sandbox = Sandbox { kind, details, helper: helper.to_owned(), bubblewrap };
        sandbox.try_out().map_err(|e| match e {
            SandboxError::Setup { why, .. } => unusable(why),
            e => unusable(e.to_string()),
        })?;
        Ok(sandbox)
    }

    /// Returns the mechanism.
    pub fn kind(&self) -> Isolation {
        self.kind
    }

    /// Versions of what it rests on.
    pub fn details(&self) -> &str {
        &self.details
    }

    /// Runs a command that tries to leave something beside its workspace.
    fn try_out(&self) -> Result<(), SandboxError> {
        let around = Scratch::new()?;
        let workspace = around.path().join("workspace");
        rustix::fs::mkdir(&workspace, rustix::fs::Mode::RWXU)
            .map_err(SandboxError::io("make a directory to try it in"))?;
        let mut policy = SandboxPolicy::new(&workspace, around.path().join("store"));
        policy.limits.wall = PROBE_MAX;
        let line = SandboxCommand::Shell("(echo > ../out) 2> /dev/null; echo > in && echo inside".to_owned());
        let outcome = self.run(&policy, &line, &StopFlag::new()?)?;
        let wrote = |name: &str| RealDisk.inspect(&around.path().join(name)).is_ok();
        let setup = |why: String| SandboxError::Setup { kind: self.kind, why };
        if outcome.ending != CommandEnd::Exit(0)
            || outcome.stdout.text() != "inside\n"
            || !wrote("workspace/in")
        {
            let said = outcome.stdout.text();
            return Err(setup(format!("a trivial command failed ({}): {}", outcome.ending, said.trim())));
        }
        if wrote("out") {
            return Err(setup("a command in it could write outside of its workspace".to_owned()));
        }
        Ok(())
    }
}

/// Finds `bwrap`: in the directories of the system first, then in `PATH`.
fn find_bubblewrap() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let searched = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    let dirs = ["/usr/bin", "/bin", "/usr/local/bin"].map(PathBuf::from).into_iter().chain(searched);
    dirs.map(|dir| dir.join("bwrap")).find(|program| program.is_file())
}

fn details(bubblewrap: Option<&Path>) -> String {
    let system = rustix::system::uname();
    let kernel = format!("seccomp, Linux {}", system.release().to_string_lossy());
    let Some(program) = bubblewrap else {
        return format!("{kernel}; owners, modes and times of files stay as they are");
    };
    let mut asked = Command::new(program);
    asked.arg("--version").env_clear().stdin(Stdio::null()).stderr(Stdio::null());
    let version = asked.output().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    format!("{}, {kernel}", version.unwrap_or_default())
}

/// The time limit for a trivial command on a busy machine.
const PROBE_MAX: Duration = Duration::from_secs(20);
