//! Errors of a store, in words: what happened, where, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use manent_store::KeyError;

use crate::context::PromptConfigError;
#[cfg(feature = "search")]
use crate::memory::ItemError;
use crate::turn::RecordError;

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on a store that did not succeed.
///
/// Messages name no command and no option: a program that has some adds what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The backend refused: there is no such stream, somebody else holds it, the disk is full.
    #[error(transparent)]
    Store(#[from] manent_store::Error),
    /// The key is at fault.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The record is at fault.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The item to remember is not valid.
    #[cfg(feature = "search")]
    #[error(transparent)]
    Item(#[from] ItemError),
    /// A text that the model was given is not where its record says.
    #[error(transparent)]
    PromptConfig(#[from] PromptConfigError),
    /// A context that cannot be made small enough.
    #[error(
        "the context takes {tokens} tokens with everything left out that may be, and {limit} are allowed; allow \
         more, shorten the system text or the tools, or begin a new session"
    )]
    CannotCompact {
        /// The smallest size that the context can have.
        tokens: u64,
        /// The limit.
        limit: u64,
    },
    /// Somebody else writes the memory.
    #[error(
        "memory is held by another manent process{}; try again when it is done, or wait longer",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    MemoryHeld {
        /// The process id of the writer, if the system tells.
        pid: Option<u32>,
    },
    /// Somebody else consolidates.
    #[error(
        "another manent process is consolidating{}; try again when it is done, or wait longer",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    ConsolidationHeld {
        /// The process id of the other process, if the system tells.
        pid: Option<u32>,
    },
    /// There is no item with this number.
    #[error("there is no item {id} in the memory")]
    NoItem {
        /// The number.
        id: u64,
    },
    /// There is no proposal with this number in the inbox.
    #[error("there is nothing with the number {id} in the inbox")]
    NotProposed {
        /// The number.
        id: u64,
    },
    /// An item that another one replaced is to be replaced again.
    #[error("item {id} was replaced by item {by}; replace that one")]
    Replaced {
        /// The item.
        id: u64,
        /// The one that replaced it.
        by: u64,
    },
    /// The memory file is not what it was a moment ago.
    #[error("{} is changed by something else while it is read; close that, and try again", path.display())]
    MemoryChanges {
        /// The file.
        path: PathBuf,
    },
    /// The index cannot be kept.
    #[cfg(feature = "search")]
    #[error(transparent)]
    Index(manent_index::Error),
    /// The beginning of an id that more than one session has.
    #[error("several sessions have an id that begins with {id:?}; give more of it")]
    Ambiguous {
        /// The beginning of the id.
        id: String,
    },
    /// The session has no record of this number.
    #[error("the session {name:?} has no record {seq} that can be read{}", last_hint(*last))]
    NoSuchRecord {
        /// The session.
        name: String,
        /// The number.
        seq: u64,
        /// The last number there is.
        last: Option<u64>,
    },
    /// A record that has no place in another program's session.
    #[error(
        "the session {key:?} is another program's, which could not read a title in it; fork it, and title the fork"
    )]
    Foreign {
        /// The session.
        key: String,
    },
    /// A session was archived, but could not be packed.
    #[error("it is archived, but not packed: {source}")]
    NotPacked {
        /// The id of the archived session.
        id: String,
        /// The reason why it was not packed.
        source: Box<Error>,
    },
    /// There is not enough memory to hold a session.
    #[error("no memory to hold the session: {0}; read it as a stream, or only its tail")]
    Memory(io::Error),
}

impl Error {
    /// Returns the backend's error behind this one, if it is one.
    pub fn store(&self) -> Option<&manent_store::Error> {
        match self {
            Error::Store(error) => Some(error.root()),
            _ => None,
        }
    }

    /// Returns whether another writer has the session.
    pub fn is_held(&self) -> bool {
        self.store().is_some_and(manent_store::Error::is_held)
    }

    /// Returns whether a record would not have got the number that was expected.
    pub fn is_conflict(&self) -> bool {
        self.store().is_some_and(manent_store::Error::is_conflict)
    }

    /// Returns whether this store keeps sessions alone, because it is a directory of another program.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.store(), Some(manent_store::Error::Unsupported { .. }))
    }

    /// Returns whether nobody can tell if the record is kept: it may be there. Append it again with the same
    /// idempotency key ([`NewTurn::key`](crate::NewTurn::key)), or look before you do.
    pub fn is_unknown(&self) -> bool {
        self.store().is_some_and(manent_store::Error::is_unknown)
    }

    /// Returns whether the system refused to answer, so that nothing is known about what is damaged or missing.
    pub(crate) fn is_refusal(&self) -> bool {
        self.store().is_some_and(manent_store::Error::is_refusal)
    }

    /// Returns whether it says that no session has the name that was given. Unlike [`Error::is_not_found`], it does not
    /// count files that were found and then gone.
    pub fn is_missing_session(&self) -> bool {
        matches!(self.store(), Some(manent_store::Error::NotFound { .. }))
    }

    /// Returns whether there is a session where another one was to go.
    pub fn is_in_the_way(&self) -> bool {
        matches!(self.store(), Some(manent_store::Error::InTheWay { .. }))
    }

    /// Returns whether it says that a session does not exist.
    pub fn is_not_found(&self) -> bool {
        self.store().is_some_and(manent_store::Error::is_not_found)
    }

    /// Makes an error that a backend passes on.
    pub(crate) fn into_store(self) -> manent_store::Error {
        match self {
            Error::Store(error) => error,
            other => manent_store::Error::Backend(Box::new(other)),
        }
    }
}

#[cfg(feature = "search")]
impl From<manent_index::Error> for Error {
    fn from(error: manent_index::Error) -> Error {
        match error {
            manent_index::Error::Store(error) => Error::Store(error),
            error => Error::Index(error),
        }
    }
}

impl From<manent_log::Error> for Error {
    fn from(error: manent_log::Error) -> Error {
        Error::Store(error.into())
    }
}

/// Turns the error that a session does not exist into `None`.
pub(crate) fn if_found<T, E: Into<Error>>(result: std::result::Result<T, E>) -> Result<Option<T>> {
    match result.map_err(Into::into) {
        Err(e) if e.is_not_found() => Ok(None),
        result => result.map(Some),
    }
}

/// Makes an error of what the system said about a path.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| manent_store::io_error(action, path)(source).into()
}

fn last_hint(last: Option<u64>) -> String {
    last.map_or_else(String::new, |last| format!("; the last is {last}"))
}
