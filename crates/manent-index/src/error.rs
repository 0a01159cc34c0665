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
