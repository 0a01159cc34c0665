//! Streams seen from outside: what tells, without opening them, which of them came, changed or went.

use std::fmt;

use manent_log::fs::Settling;

use super::Place;

/// A stream as it is seen from outside, without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// Where it is.
    pub place: Place,
    /// What the backend calls it there.
    pub name: String,
    /// Tells whether it changed.
    pub stamp: Stamp,
}

/// All streams as they are seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Of those that were seen before, in their order: how each looks now. Nothing: it is gone.
    pub stamps: Vec<Option<Stamp>>,
    /// The others.
    pub others: Vec<Sight>,
    /// To be given to the next survey. [`Survey::UNSETTLED`] in it makes that one look for others in any case.
    pub note: Vec<u64>,
}

impl Survey {
    /// In a note: the directory may change again without showing it.
    pub const UNSETTLED: u64 = u64::MAX;
}

/// Tells whether a stream changed, as far as [`Backend::settling`](super::Backend::settling) says that it can be
/// relied on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Which file it is, or what stands for that.
    pub file: (u64, u64),
    /// Its length in bytes.
    pub bytes: u64,
    /// When it last changed, in nanoseconds since 1970.
    pub changed_ns: i64,
}

impl Stamp {
    /// The time in a stamp that equals no other: the stream is looked at again.
    pub(crate) const UNSETTLED_NS: i64 = i64::MIN;

    /// The stamp to remember of a stream that is about to be read.
    pub(crate) fn settled(self, settling: Settling) -> Stamp {
        let is_settled = settling.is_settled(self.changed_ns);
        Stamp { changed_ns: if is_settled { self.changed_ns } else { Stamp::UNSETTLED_NS }, ..self }
    }

    /// Whether a stream whose stamp is this one now is what it was when it had the other. A stamp that is no longer
    /// settled tells nothing: the clock was set back since.
    pub(crate) fn is_still(self, remembered: Stamp, settling: Settling) -> bool {
        self == remembered && settling.is_settled(self.changed_ns)
    }
}

/// Tells which streams changed since it was last asked.
pub trait Watching: fmt::Debug + Send {
    /// What changed before this call.
    fn changes(&mut self) -> Changes;
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// These streams, by place and name: as each is now, or nothing if it is gone. None changed if there are none.
    These(Vec<(Place, String, Option<Stamp>)>),
    /// Anything may have: look at all of them, and watch anew.
    Unknown,
}
