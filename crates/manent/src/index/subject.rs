//! What an index is about: which records are found, and what each belongs with.

use std::borrow::Cow;

use crate::turn::Record;

use super::related::Reach;
use super::speech::role;

/// What of the streams is found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    /// Which records, and as whose words.
    pub(crate) spoken: Spoken,
    /// What each is taken together with.
    pub(crate) reach: Reach,
    /// What becomes of streams that vanish.
    pub(crate) losses: Losses,
}

/// Whether streams that vanish are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Losses {
    Remembered,
    Ignored,
}

impl Subject {
    /// Turns of conversations.
    pub(crate) const TURNS: Subject =
        Subject { spoken: role, reach: Reach::Conversation, losses: Losses::Remembered };
}

/// Tells which records are found, and as whose words.
pub(crate) type Spoken = for<'a> fn(&Record<'a>) -> Option<Cow<'a, str>>;
