//! Why bringing the index up to the logs did not come to its end.

use crate::error::Error;

use crate::damage::Broken;

/// Why a sweep did not come to its end.
pub(crate) enum RefreshError {
    /// Another process put something newer on the disk.
    Outdated,
    /// The records that were read change the rows of other streams, which must be read again.
    Unsettled,
    /// The files on the disk do not hold what was written.
    Broken(&'static str),
    Failed(Error),
}

impl RefreshError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            RefreshError::Failed(e) => e,
            RefreshError::Broken(why) => Error::Index(why.to_owned()),
            RefreshError::Outdated | RefreshError::Unsettled => {
                Error::Index("another process is writing it".to_owned())
            }
        }
    }
}

impl From<Error> for RefreshError {
    fn from(e: Error) -> RefreshError {
        RefreshError::Failed(e)
    }
}

impl From<manent_store::Error> for RefreshError {
    fn from(e: manent_store::Error) -> RefreshError {
        RefreshError::Failed(e.into())
    }
}

impl From<Broken> for RefreshError {
    fn from(broken: Broken) -> RefreshError {
        match broken {
            Broken::Wrong(why) => RefreshError::Broken(why),
            // An index that the disk does not give is as good as none.
            Broken::Disk(_) => RefreshError::Broken("the disk does not give it"),
        }
    }
}
