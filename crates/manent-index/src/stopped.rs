//! Why bringing the index up to the logs did not come to its end.

use crate::error::Error;

use crate::damage::Broken;

/// Why a sweep did not come to its end.
pub(crate) enum Stopped {
    /// Another process put something newer on the disk.
    Outdated,
    /// What was read changes what was known of others: they must be read again.
    Unsettled,
    /// What is on the disk is not what was written.
    Broken(&'static str),
    Failed(Error),
}

impl Stopped {
    pub(crate) fn into_error(self) -> Error {
        match self {
            Stopped::Failed(e) => e,
            Stopped::Broken(why) => Error::Index(why.to_owned()),
            Stopped::Outdated | Stopped::Unsettled => {
                Error::Index("another process is writing it".to_owned())
            }
        }
    }
}

impl From<Error> for Stopped {
    fn from(e: Error) -> Stopped {
        Stopped::Failed(e)
    }
}

impl From<manent_store::Error> for Stopped {
    fn from(e: manent_store::Error) -> Stopped {
        Stopped::Failed(e.into())
    }
}

impl From<Broken> for Stopped {
    fn from(broken: Broken) -> Stopped {
        match broken {
            Broken::Wrong(why) => Stopped::Broken(why),
            // An index that the disk does not give is as good as none.
            Broken::Disk(_) => Stopped::Broken("the disk does not give it"),
        }
    }
}
