//! Errors of streams: what happened, where, and what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::streams::{Place, Space, StreamId};

/// The result of an operation on streams.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on streams that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused.
    #[error(transparent)]
    Log(#[from] manent_log::Error),
    /// There is no such stream.
    #[error("there is no {}{} {name:?} in {store}", adjective(*place), noun(*space))]
    NotFound {
        /// The key of the stream, or `@` and its id.
        name: String,
        /// The space it was looked for in.
        space: Space,
        /// The place it was looked for in; `None` if in all of them.
        place: Option<Place>,
        /// The backend's name.
        store: String,
    },
    /// There is a stream where another one was to go.
    #[error("there is a {} session {key:?} in the way; {hint}", place.word())]
    InTheWay {
        /// The key they share.
        key: String,
        /// The place of the stream that is in the way.
        place: Place,
        /// A hint for the user.
        hint: &'static str,
    },
    /// The stream is in a place where it is only read.
    #[error("the session {key:?} is {}, and is only read there", whereabouts(*place))]
    NotLive {
        /// The key of the stream.
        key: String,
        /// The place it is in.
        place: Place,
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
    #[error("the archive {} is damaged: {source}", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// The damage that was met.
        source: io::Error,
    },
    /// The directory is open to others.
    #[error("refusing to write to {}: {why}; {}", path.display(), why.hint())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Who else may write there.
        why: Exposure,
    },
    /// Somebody holds a lock that excludes this.
    #[error("the store {} is busy: {} is moving sessions; try again, or wait longer", path.display(), holder(*pid))]
    Busy {
        /// The directory or file that is locked.
        path: PathBuf,
        /// The holder's process, if the system can tell.
        pid: Option<u32>,
    },
    /// This backend does not keep streams of this space, or the space has no such place.
    #[error("{store} has no such place for {}", space.word())]
    Unsupported {
        /// The backend's name.
        store: String,
        /// The space.
        space: Space,
    },
    /// A space whose streams have fixed keys has none of this key.
    #[error("the {} of a store has no stream {key:?}", space.word())]
    NoSuchKey {
        /// The key.
        key: String,
        /// The space.
        space: Space,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation that was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A commit shared with other threads failed; all of them get the same error.
    #[error(transparent)]
    Shared(Arc<Error>),
    /// Another backend refused, in its own words.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}

/// Says who else may write to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exposure {
    /// Everybody may.
    #[error("everybody may write there")]
    Everybody,
    /// Its owner may, who is another user.
    #[error("it belongs to user {0}")]
    OwnedBy(u32),
}

impl Exposure {
    fn hint(self) -> &'static str {
        match self {
            Exposure::Everybody => "take that right away with chmod o-w",
            Exposure::OwnedBy(_) => "run as that user, or choose another directory",
        }
    }
}

impl Error {
    /// For backends: makes the error of a stream that is not there.
    pub fn not_found(at: &StreamId, store: &str) -> Error {
        let (name, store) = (at.name(), store.to_owned());
        Error::NotFound { name, space: at.space, place: Some(at.place), store }
    }

    /// For backends: makes the error of a stream that is not there under the backend's own name for it.
    pub fn no_name(space: Space, place: Place, name: &str, store: &str) -> Error {
        Error::NotFound { name: name.to_owned(), space, place: Some(place), store: store.to_owned() }
    }

    /// Returns the error itself, also where several threads share it.
    pub fn root(&self) -> &Error {
        match self {
            Error::Shared(inner) => inner.root(),
            other => other,
        }
    }

    /// Returns the log's error behind this one, if it is one.
    pub fn log(&self) -> Option<&manent_log::Error> {
        match self.root() {
            Error::Log(error) => Some(error.root()),
            _ => None,
        }
    }

    /// Returns whether another writer has the stream.
    pub fn is_held(&self) -> bool {
        matches!(self.log(), Some(manent_log::Error::Held { .. }))
    }

    /// Returns whether a record would not have got the number that was expected.
    pub fn is_conflict(&self) -> bool {
        matches!(self.log(), Some(manent_log::Error::Conflict { .. }))
    }

    /// Returns whether nobody can tell if the record is kept: it may be there.
    pub fn is_unknown(&self) -> bool {
        self.log().is_some_and(manent_log::Error::is_unknown)
    }

    /// Returns whether the system refused to answer, so that nothing is known about what is damaged or missing.
    pub fn is_refusal(&self) -> bool {
        let refused = |e: &io::Error| e.raw_os_error().is_some() && e.kind() != io::ErrorKind::NotFound;
        match self.root() {
            Error::Io { source, .. } => refused(source),
            Error::Log(error) => {
                matches!(error.root(), manent_log::Error::Io { source, .. } if refused(source))
            }
            _ => false,
        }
    }

    /// Returns whether it says that a stream does not exist.
    pub fn is_not_found(&self) -> bool {
        match self.root() {
            Error::NotFound { .. } => true,
            Error::Log(error) => matches!(error.root(), manent_log::Error::NotFound { .. }),
            Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

impl From<Arc<Error>> for Error {
    fn from(error: Arc<Error>) -> Error {
        Error::Shared(error)
    }
}

/// Makes an error of what the system said about a path.
pub fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

fn noun(space: Space) -> &'static str {
    match space {
        Space::Sessions => "session",
        Space::Runs => "log of runs of",
        Space::Memory | Space::Inbox => "memory",
        Space::Journal => "journal",
        Space::Ledger => "ledger",
    }
}

fn adjective(place: Option<Place>) -> &'static str {
    match place {
        None => "",
        Some(Place::Live) => "live ",
        Some(Place::Archive) => "archived ",
        Some(Place::Trash) => "deleted ",
    }
}

fn whereabouts(place: Place) -> &'static str {
    if place == Place::Trash { "in the trash" } else { place.word() }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"))
}
