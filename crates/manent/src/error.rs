//! What can go wrong with a store, in words: what, where, and what to do next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::backend::Place;
use crate::context::SettingError;
use crate::key::KeyError;
use crate::memory::ItemError;
use crate::runs::EntryError;
use crate::turn::RecordError;

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on a store that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused.
    #[error(transparent)]
    Log(#[from] manent_log::Error),
    /// The key is at fault.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The record is at fault.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What was to be remembered is at fault.
    #[error(transparent)]
    Item(ItemError),
    /// An entry about a run is at fault.
    #[error("the run cannot be recorded: {0}")]
    Run(#[from] EntryError),
    /// The log of runs is not what it was a moment ago.
    #[error("the runs of {key:?} are written by something else all the time; close that, and try again")]
    RunsChange {
        /// The session.
        key: String,
    },
    /// What a model saw cannot be shown.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A context that cannot be made small enough.
    #[error(
        "the context takes {tokens} tokens with everything left out that may be, and {limit} are allowed; allow \
         more, shorten the system text or the tools, or begin a new session"
    )]
    CannotCompact {
        /// The least that it takes.
        tokens: u64,
        /// What is allowed.
        limit: u64,
    },
    /// Somebody else writes the memory.
    #[error(
        "memory is held by another manent process{}; try again when it is done, or wait longer",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    MemoryHeld {
        /// Who, if the system can tell.
        pid: Option<u32>,
    },
    /// Somebody else consolidates.
    #[error(
        "another manent process is consolidating{}; try again when it is done, or wait longer",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    ConsolidationHeld {
        /// Who, if the system can tell.
        pid: Option<u32>,
    },
    /// No item of this number.
    #[error("there is no item {id} in the memory; `manent memory list` shows what is there")]
    NoItem {
        /// The number.
        id: u64,
    },
    /// Nothing of this number waits in the inbox.
    #[error("there is nothing with the number {id} in the inbox; `manent memory inbox` shows what is there")]
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
    /// A store that keeps nothing but sessions.
    #[error(
        "{store} keeps sessions of another program and nothing else; choose a home of its own with --home"
    )]
    NoRoom {
        /// The store.
        store: String,
    },
    /// No run of this name.
    #[error("there is no run {run:?} in the session {session:?}; `manent run list` shows what is there")]
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
    /// Somebody else is at work on this run.
    #[error(
        "a run with this key is under way{}, and is not begun a second time; wait for its end, or use another key",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    Running {
        /// Who, if the system can tell.
        pid: Option<u32>,
    },
    /// The index cannot be kept.
    #[error("the index: {0}")]
    Index(String),
    /// No session of this name.
    #[error("there is no {}session {name:?} in {store}; `{}` lists what is there", among.text(), among.list())]
    NotFound {
        /// Its key, or `@` and its id.
        name: String,
        /// Where it was looked for.
        among: Among,
        /// The store.
        store: String,
    },
    /// The beginning of an id that more than one session has.
    #[error("several sessions have an id that begins with {id:?}; give more of it")]
    Ambiguous {
        /// What was given.
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
    /// There is a session where another one was to go.
    #[error("there is a {} session {key:?} in the way; {hint}", place.word())]
    InTheWay {
        /// The key they share.
        key: String,
        /// Where it is.
        place: Place,
        /// What to do.
        hint: &'static str,
    },
    /// Something that only a live session can do.
    #[error("the session {key:?} is {}, and is only read there; {hint}", whereabouts(*place))]
    NotLive {
        /// The session.
        key: String,
        /// Where it is.
        place: Place,
        /// What to do.
        hint: &'static str,
    },
    /// Something that has no place in another program's session.
    #[error(
        "the session {key:?} is another program's, which could not read a title in it; fork it, and title the fork"
    )]
    Foreign {
        /// The session.
        key: String,
    },
    /// The file that the key leads to says in its header that it is another session.
    #[error(
        "{} says it holds the session {found:?}, not {key:?}; it was copied or renamed by hand: move a copy out of \
         the store, or give it its name back",
        path.display()
    )]
    WrongKey {
        /// The file.
        path: PathBuf,
        /// The key that led to it.
        key: String,
        /// The key in its header.
        found: String,
    },
    /// An archive that cannot be unpacked byte for byte.
    #[error(
        "the archive {} is damaged: {source}; what can be read is saved by \
         `manent show … --json | manent append NEW --jsonl`",
        path.display()
    )]
    Archive {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A session was archived, but could not be packed.
    #[error("it is archived, but not packed: {source}; then `manent archive @{id}` packs it")]
    NotPacked {
        /// Its id.
        id: String,
        /// What was in the way.
        source: Box<Error>,
    },
    /// The directory is open to others.
    #[error("refusing to write to {}: {why}; {hint}", path.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Who else may write there.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// Sessions are being moved by somebody else.
    #[error("the store {} is busy: {} is moving sessions; try again, or wait longer", path.display(), holder(*pid))]
    Busy {
        /// The store.
        path: PathBuf,
        /// Who, if the system can tell.
        pid: Option<u32>,
    },
    /// There is not enough memory to hold a session.
    #[error("no memory to hold the session: {0}; read it as a stream, or only its tail")]
    Memory(io::Error),
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A commit shared with other threads failed; all of them get the same error.
    #[error(transparent)]
    Shared(Arc<Error>),
    /// Another backend refused, in its own words.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}

/// Among which sessions one was not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Wherever a key or an id leads.
    All,
    /// Among those of one place.
    Place(Place),
}

impl Among {
    fn list(self) -> &'static str {
        match self {
            Among::All | Among::Place(Place::Live) => "manent sessions",
            Among::Place(Place::Archive) => "manent sessions --archived",
            Among::Place(Place::Trash) => "manent sessions --trash",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Among::All => "",
            Among::Place(Place::Live) => "live ",
            Among::Place(Place::Archive) => "archived ",
            Among::Place(Place::Trash) => "deleted ",
        }
    }
}

impl Error {
    /// The error itself, also where several threads share it.
    pub fn root(&self) -> &Error {
        match self {
            Error::Shared(inner) => inner.root(),
            other => other,
        }
    }

    /// Whether nobody can tell if the record is kept: it may be there. Append it again with the same idempotency key
    /// ([`NewTurn::key`](crate::NewTurn::key)), or look before you do.
    pub fn is_unknown(&self) -> bool {
        matches!(self.root(), Error::Log(error) if error.is_unknown())
    }

    /// Whether the system refused to answer, and so nothing is known: not what is damaged or not there.
    pub(crate) fn is_refusal(&self) -> bool {
        let refused = |e: &io::Error| e.raw_os_error().is_some() && e.kind() != io::ErrorKind::NotFound;
        match self {
            Error::Io { source, .. } => refused(source),
            Error::Log(error) => {
                matches!(error.root(), manent_log::Error::Io { source, .. } if refused(source))
            }
            Error::Shared(error) => error.is_refusal(),
            _ => false,
        }
    }

    /// Whether it says that a session does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            Error::NotFound { .. } => true,
            Error::Log(error) => matches!(error.root(), manent_log::Error::NotFound { .. }),
            Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Error::Shared(error) => error.is_not_found(),
            _ => false,
        }
    }
}

impl From<Arc<Error>> for Error {
    fn from(error: Arc<Error>) -> Error {
        Error::Shared(error)
    }
}

pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

fn whereabouts(place: Place) -> &'static str {
    if place == Place::Trash { "in the trash" } else { place.word() }
}

fn last_hint(last: Option<u64>) -> String {
    last.map_or_else(String::new, |last| format!("; the last is {last}"))
}

fn last_attempt(last: Option<u64>) -> String {
    let there = last.map_or_else(|| "it has none".to_owned(), |last| format!("the last is {last}"));
    format!("; {there}: leave the number out to mean the run as it ended")
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"))
}
