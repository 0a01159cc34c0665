//! One stream of a session being read: the reader of the backend, and what its header says.

use manent_log::{FileChange, LogEnd, LogItem};
use manent_store::{Position, Seek, StreamId, StreamReader, Streams, Target};

use crate::error::Result;
use crate::meta::Meta;
use crate::store::Store;
use crate::turn::is_turn;

/// Where to begin to read a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The header; the caller wants little more than that.
    Header,
    /// Everything.
    First,
    /// The first record with at least this number; 0 is the header. One that is not there yet is waited for: nothing
    /// smaller is given when the session grows.
    Seq(u64),
    /// The record that lay at this position and had this number. For a caller that read there before: where the
    /// session is another one by now, what comes first is something else, or damage, or nothing.
    At {
        /// Where it lay.
        position: Position,
        /// Its number.
        seq: u64,
    },
    /// The last `count` turns (records with a role) before the number `before`, and everything between and behind
    /// them. With a count of 0, what begins at `before`, or what comes later. Where there are fewer turns, everything
    /// from the header on.
    Tail {
        /// How many turns.
        count: u64,
        /// Only records with a smaller number count.
        before: Option<u64>,
    },
}

impl Start {
    fn seek(self) -> Seek<'static> {
        match self {
            Start::Header => Seek::Header,
            Start::First => Seek::First,
            Start::Seq(seq) => Seek::Seq(seq),
            Start::At { position, seq } => Seek::Position { position, seq },
            Start::Tail { count, before } => Seek::Last { count, before, matches: &is_turn },
        }
    }
}

/// The records of one stream, without what it was forked from.
#[derive(Debug)]
pub(crate) struct Records {
    reader: Box<dyn StreamReader>,
    meta: Option<Meta>,
    missing: u64,
}

impl Records {
    /// Opens a stream and moves to where to begin; ends with the record `until`, or with the stream.
    pub(crate) fn open(
        streams: &dyn Streams,
        at: Target<'_>,
        start: Start,
        until: Option<u64>,
    ) -> Result<Records> {
        let mut reader = streams.open(at)?;
        let missing = reader.seek(start.seek())?;
        if let Some(seq) = until {
            reader.end_at(seq);
        }
        let meta = reader.header().and_then(Meta::of_line);
        Ok(Records { reader, meta, missing })
    }

    /// Moves to another place.
    pub(crate) fn seek(&mut self, start: Start) -> Result<()> {
        self.missing = self.reader.seek(start.seek())?;
        Ok(())
    }

    /// Moves to the next record or damage. False: there is none; ask again later, when the stream has grown.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        Ok(self.reader.advance()?)
    }

    /// Returns what [`Records::advance`] moved to.
    pub(crate) fn item(&self) -> Option<LogItem<'_>> {
        self.reader.item()
    }

    /// Moves to the next record or damage and returns it.
    pub(crate) fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        Ok(self.reader.next()?)
    }

    /// Returns how the stream ended when [`Records::advance`] last found nothing.
    pub(crate) fn end(&self) -> LogEnd {
        self.reader.end()
    }

    /// Returns what became of the stream since it was read to its end.
    pub(crate) fn change(&self) -> Result<FileChange> {
        Ok(self.reader.poll()?)
    }

    /// Returns what the header says; `None` if the stream is another program's.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// After [`Start::Tail`]: returns how many of the turns asked for were not there.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }
}

impl Store {
    /// Opens a stream of a session and moves to where to begin.
    pub(crate) fn records(&self, at: &StreamId, start: Start) -> Result<Records> {
        Records::open(self.streams(), Target::Id(at), start, None)
    }
}
