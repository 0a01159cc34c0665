//! Why a command was not run, or not to its end. What the command itself did wrong is an outcome, not an error.

use std::io;
use std::path::PathBuf;

use super::Isolation;

/// The errors of running a command in a sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// No isolation mechanism works on this machine.
    #[error(
        "no sandbox works on this machine, so no command is run ({}); install bubblewrap (`apt-get install \
         bubblewrap`) and let users make name spaces, or use Linux 6.12 or newer with Landlock enabled",
        .tried.iter().map(|(kind, why)| format!("{kind}: {why}")).collect::<Vec<_>>().join("; ")
    )]
    NoneWorks {
        /// The kinds of isolation, each with its error.
        tried: Vec<(Isolation, String)>,
    },
    /// A kind of isolation does not work.
    #[error("{kind} does not work here: {why}")]
    Unusable {
        /// The mechanism.
        kind: Isolation,
        /// The fault and its remedy.
        why: String,
    },
    /// A path in the policy leads nowhere.
    #[error("{what} {} cannot be used: {source}; give a directory that exists", .path.display())]
    Path {
        /// The role of the path.
        what: &'static str,
        /// The given path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A path in the policy would show what must stay hidden, or is no place for a command.
    #[error("{what} {} cannot be used: {why}", .path.display())]
    Refused {
        /// The role of the path.
        what: &'static str,
        /// Resolved.
        path: PathBuf,
        /// The reason and its remedy.
        why: String,
    },
    /// An empty command line, or one that cannot be passed on.
    #[error("this command cannot be run: {0}")]
    Command(&'static str),
    /// The sandbox was not entered; the command did not begin.
    #[error("{kind} could not be entered, so the command was not run: {why}")]
    Setup {
        /// The mechanism.
        kind: Isolation,
        /// The output of the failed setup.
        why: String,
    },
    /// Another command runs in the workspace, or above or below it, and did not end in time.
    #[error(
        "another command is running in {}, or in a directory above or below it; try again when it has ended",
        .0.display()
    )]
    Busy(PathBuf),
    /// The system refused something that it usually does not.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl SandboxError {
    /// Makes the argument of `map_err` for an operation.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> SandboxError {
        move |source| SandboxError::Io { doing, source: source.into() }
    }
}
