//! The errors of this crate: what, where, and what to do next.

use std::io;
use std::path::Path;

use crate::runs::EntryError;

/// The result of an operation on runs.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on runs that did not succeed.
///
/// Messages name no command and no option: a program that has some adds what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused: the log is held by somebody else, or the disk is full.
    #[error(transparent)]
    Manent(#[from] manent::Error),
    /// An entry about a run is at fault.
    #[error("the run cannot be recorded: {0}")]
    Run(#[from] EntryError),
    /// Another program keeps writing to the log of runs while this one does.
    #[error("the runs of {0:?} are written by something else all the time; close that, and try again")]
    RunsChange(String),
    /// No run of this name.
    #[error("there is no run {run:?} in the session {session:?}")]
    NoRun {
        /// The session.
        session: String,
        /// The id of the run, or the number of its record.
        run: String,
    },
    /// The run has no attempt of this number.
    #[error("the run {run:?} of the session {session:?} has no attempt {attempt}{}", last_attempt(*last))]
    NoAttempt {
        /// The session.
        session: String,
        /// The id of the run, or the number of its record.
        run: String,
        /// The number.
        attempt: u64,
        /// The last number there is.
        last: Option<u64>,
    },
    /// Another process is at work on this run.
    #[error(
        "a run with this key is under way{}, and is not begun a second time; wait for its end, or use another key",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    Running {
        /// The process, if the system can tell.
        pid: Option<u32>,
    },
}

impl Error {
    /// Returns whether another writer has the log.
    pub fn is_held(&self) -> bool {
        matches!(self, Error::Manent(error) if error.is_held())
    }

    /// Returns whether the store keeps no runs, because it is a directory of another program.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Error::Manent(error) if error.is_unsupported())
    }

    /// Returns whether nobody can tell if the record is kept: it may be there. Record it again with the same
    /// idempotency key, or look before you do.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Error::Manent(error) if error.is_unknown())
    }
}

impl From<manent_store::Error> for Error {
    fn from(error: manent_store::Error) -> Error {
        Error::Manent(error.into())
    }
}

impl From<manent_log::Error> for Error {
    fn from(error: manent_log::Error) -> Error {
        Error::Manent(error.into())
    }
}

/// Makes an error of what the system said about a path.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| manent_store::io_error(action, path)(source).into()
}

fn last_attempt(last: Option<u64>) -> String {
    let there = last.map_or_else(|| "it has none".to_owned(), |last| format!("the last is {last}"));
    format!("; {there}: leave the number out to mean the run as it ended")
}
