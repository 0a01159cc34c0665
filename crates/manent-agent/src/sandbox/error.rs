//! Why a command was not run, or not to its end. What the command itself did wrong is an outcome, not an error.

use std::io;
use std::path::PathBuf;

use super::Isolation;

/// What can go wrong around a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// Nothing here confines a command.
    #[error(
        "no sandbox works on this machine, so no command is run ({}); install bubblewrap (`apt-get install \
         bubblewrap`) and let users make name spaces, or use Linux 6.12 or newer with Landlock enabled",
        .tried.iter().map(|(kind, why)| format!("{kind}: {why}")).collect::<Vec<_>>().join("; ")
    )]
    NoneWorks {
        /// Each kind, and what it said.
        tried: Vec<(Isolation, String)>,
    },
    /// One kind does not work.
    #[error("{kind} does not work here: {why}")]
    Unusable {
        /// Which.
        kind: Isolation,
        /// What it said, and what to do.
        why: String,
    },
    /// A path in the policy leads nowhere.
    #[error("{what} {} cannot be used: {source}; give a directory that exists", .path.display())]
    Path {
        /// What it was to be.
        what: &'static str,
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path in the policy would show what must stay hidden, or is no place for a command.
    #[error("{what} {} cannot be used: {why}", .path.display())]
    Refused {
        /// What it was to be.
        what: &'static str,
        /// Resolved.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// Nothing to run, or nothing that could be handed over.
    #[error("this command cannot be run: {0}")]
    Command(&'static str),
    /// The sandbox was not entered; the command did not begin.
    #[error("{kind} could not be entered, so the command was not run: {why}")]
    Setup {
        /// Which.
        kind: Isolation,
        /// What it said.
        why: String,
    },
    /// Another command runs in the workspace, or above or below it, and did not end in time.
    #[error(
        "another command is running in {}, or in a directory above or below it; try again when it has ended",
        .workspace.display()
    )]
    Busy {
        /// Resolved.
        workspace: PathBuf,
    },
    /// The system refused something that it usually does not.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was to be done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl SandboxError {
    /// For `map_err`: names what was being done.
    pub(super) fn io<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> SandboxError {
        move |source| SandboxError::Io { doing, source: source.into() }
    }
}
