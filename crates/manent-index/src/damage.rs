//! What is wrong with an index file. Nobody outside ever sees it: an index that is broken is made anew.

use std::io;

/// Why an index file cannot be used.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Its bytes are not what was written.
    Wrong(&'static str),
    /// The disk does not give it.
    Disk(io::Error),
}

/// What reading the index gives.
pub(crate) type IndexResult<T> = Result<T, Broken>;

pub(crate) fn broken(why: &'static str) -> Broken {
    Broken::Wrong(why)
}

impl From<io::Error> for Broken {
    fn from(e: io::Error) -> Broken {
        Broken::Disk(e)
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Wrong(why) => f.write_str(why),
            Broken::Disk(e) => e.fmt(f),
        }
    }
}
