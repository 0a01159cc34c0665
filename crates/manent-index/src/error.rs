//! Errors of the index.
//!
//! What is wrong with an index file. Nobody outside ever sees it: an index that is broken is made anew.

use std::io;

/// The result of an operation on an index.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on an index that did not succeed.
///
/// An index that is damaged is no error: it is built again from the streams.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The streams could not be read.
    #[error(transparent)]
    Store(#[from] manent_store::Error),
    /// The index cannot be kept where it is to be kept, or was changed faster than it could be read.
    #[error("the index: {0}")]
    Index(String),
}

impl Error {
    /// Returns whether a stream does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Store(e) if e.is_not_found())
    }
}

/// Why an index file cannot be used.
#[derive(Debug)]
pub(crate) enum IndexDamage {
    /// Its bytes are not what was written.
    Wrong(&'static str),
    /// The disk does not give it.
    Disk(io::Error),
}

/// What reading the index gives.
pub(crate) type IndexResult<T> = std::result::Result<T, IndexDamage>;

pub(crate) fn broken(why: &'static str) -> IndexDamage {
    IndexDamage::Wrong(why)
}

impl From<io::Error> for IndexDamage {
    fn from(e: io::Error) -> IndexDamage {
        IndexDamage::Disk(e)
    }
}

impl std::fmt::Display for IndexDamage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IndexDamage::Wrong(why) => f.write_str(why),
            IndexDamage::Disk(e) => e.fmt(f),
        }
    }
}
