//! Errors of the index.

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

/// The reason why an index file cannot be used.
///
/// It never leaves the crate as such: a damaged index is built again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexDamage {
    /// The bytes are not those that were written.
    #[error("{0}")]
    Wrong(&'static str),
    #[error(transparent)]
    Disk(#[from] std::io::Error),
}

/// The result of reading an index file.
pub(crate) type IndexResult<T> = std::result::Result<T, IndexDamage>;

pub(crate) fn broken(why: &'static str) -> IndexDamage {
    IndexDamage::Wrong(why)
}
