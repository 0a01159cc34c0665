//! Errors of a log: what happened, where, and what to do next.
//!
//! No text here ever holds the content of a record: a damaged line may be a secret.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of an operation on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on a log that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}{}", path.display(), hint(source))]
    Io {
        /// The operation that was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no such file.
    #[error("there is no log at {}", path.display())]
    NotFound {
        /// The path at which it was looked for.
        path: PathBuf,
    },
    /// Another writer holds the lease.
    #[error("{} is held by {}; wait for it, or read it meanwhile", path.display(), holder(*pid))]
    Held {
        /// The log.
        path: PathBuf,
        /// The holder, where the system tells.
        pid: Option<u32>,
    },
    /// The path does not lead to a file that can be a log.
    #[error("{} is not a log: it is {what}; move it away or name another file", path.display())]
    NotALog {
        /// The path.
        path: PathBuf,
        /// The kind of thing that was found instead.
        what: &'static str,
    },
    /// The disk is full. Nothing of the record remains in the file.
    #[error(
        "no space for {needed} bytes in {} ({free} bytes free); nothing was written, free some space and append again",
        path.display()
    )]
    NoSpace {
        /// The log.
        path: PathBuf,
        /// The number of bytes to be written.
        needed: u64,
        /// The number of bytes that are free.
        free: u64,
    },
    /// The record did not get the number the caller insisted on.
    #[error(
        "expected seq {expected} in {}, but the next is {next}; read what was added and decide again",
        path.display()
    )]
    Conflict {
        /// The log.
        path: PathBuf,
        /// The number that the caller expected.
        expected: u64,
        /// The number that the record would have got.
        next: u64,
    },
    /// The record is too long.
    #[error(
        "a record of {bytes} bytes is over the limit of {max}; keep large things in files and refer to them"
    )]
    TooLarge {
        /// The length of the record, in bytes.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The log has used up all numbers.
    #[error("{} has no numbers left (the last is {max}); go on in a new session", path.display())]
    Full {
        /// The log.
        path: PathBuf,
        /// The largest number.
        max: u64,
    },
    /// An earlier failure left it unknown what is on the disk; this handle will not write again.
    #[error("{} was closed for writing: {why}; open it again, it will be checked", path.display())]
    Poisoned {
        /// The log.
        path: PathBuf,
        /// The first failure.
        why: String,
    },
    /// An append with an unknown outcome: a sync of it failed, a failed write could not be taken back, or a
    /// panic broke off the commit. The record may be read, and may be gone after a power cut. The handle is closed for
    /// writing.
    #[error(
        "it is unknown whether the record is kept in {}: {why}; it may be there, so look before you append it again. \
         One with an idempotency key can be appended again and is there once",
        path.display()
    )]
    Unknown {
        /// The log.
        path: PathBuf,
        /// The failure that left the outcome unknown.
        why: String,
    },
    /// The file was deleted, moved or replaced while it was open.
    #[error("{} was {how} while it was open; nothing was written, open it again", path.display())]
    Gone {
        /// The path at which it was.
        path: PathBuf,
        /// Deleted, moved or replaced.
        how: &'static str,
    },
    /// The file became shorter while we held it: acknowledged records may be gone.
    #[error("{} shrank from {was} to {now} bytes while it was open; verify it, then open it again", path.display())]
    Shrunk {
        /// The log.
        path: PathBuf,
        /// The length after the last record.
        was: u64,
        /// The length now.
        now: u64,
    },
    /// The handle was inherited through fork(2).
    #[error("{} was opened by process {opener}; open it again in this process", path.display())]
    OtherProcess {
        /// The log.
        path: PathBuf,
        /// The process that opened it.
        opener: u32,
    },
    /// Written by a newer version: can be read, must not be written.
    #[error("{} needs {needs}, which this version does not know; it can be read, upgrade to write", path.display())]
    Newer {
        /// The log.
        path: PathBuf,
        /// The format or feature.
        needs: String,
    },
    /// Append and lock are not to be trusted on this file system.
    #[error(
        "{} lies on {file_system}, where appends and locks are not safe; put it on a local disk, or insist",
        path.display()
    )]
    UnsafeFileSystem {
        /// The log.
        path: PathBuf,
        /// A description of the file system.
        file_system: String,
    },
    /// The record itself is at fault.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A commit shared with other threads failed; all of them get the same error.
    #[error(transparent)]
    Shared(Arc<Error>),
}

/// A JSON text that cannot be a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// A record that is not UTF-8.
    #[error("a record must be UTF-8; byte {offset} is not")]
    NotUtf8 {
        /// The first bad byte.
        offset: usize,
    },
    /// A record that is not a JSON object.
    #[error("a record must be one JSON object; this is not: {why}")]
    NotAnObject {
        /// The message of the parser.
        why: String,
    },
    /// The same member twice.
    #[error("a record may not have the member {name:?} twice")]
    DuplicateMember {
        /// The name of the member.
        name: String,
    },
    /// Half a surrogate pair in a string.
    #[error("a record may not hold half of a surrogate pair (\\ud800 to \\udfff); replace it with \\ufffd")]
    LoneSurrogate,
    /// An idempotency key that is empty or too long.
    #[error("an idempotency key has 1 to {max} bytes, and this one has {bytes}; choose another")]
    Key {
        /// The length of the key.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

impl Error {
    /// Borrows the path, and copies it only if there is an error: this stands on the path of every append.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, path: path.to_owned(), source }
    }

    /// Returns true if nobody can tell whether the record is kept: it may be there.
    pub fn is_unknown(&self) -> bool {
        matches!(self.root(), Error::Unknown { .. })
    }

    /// The error itself, also where several threads share it.
    pub fn root(&self) -> &Error {
        match self {
            Error::Shared(inner) => inner.root(),
            other => other,
        }
    }
}

/// For code that deals in system errors: one of the system's stays what it is, and [`Error::Held`] is `WouldBlock`.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io { source, .. } => source,
            Error::Held { .. } => io::Error::new(io::ErrorKind::WouldBlock, error),
            Error::NotFound { .. } => io::Error::new(io::ErrorKind::NotFound, error),
            other => io::Error::other(other),
        }
    }
}

impl From<Arc<Error>> for Error {
    fn from(error: Arc<Error>) -> Error {
        Error::Shared(error)
    }
}

fn holder(pid: Option<u32>) -> String {
    match pid {
        None => "another process".to_owned(),
        // Most often a handle that is still alive somewhere in the program.
        Some(pid) if pid == std::process::id() => format!("this process (pid {pid}), through another handle"),
        Some(pid) => format!("pid {pid}"),
    }
}

pub(crate) fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; check who owns it",
        io::ErrorKind::ReadOnlyFilesystem => "; it can be read, writing needs a writable disk",
        io::ErrorKind::FileTooLarge => "; a limit on file sizes (ulimit -f) is in force",
        _ if source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "; raise the limit on open files (ulimit -n)"
        }
        _ => "",
    }
}
