//! The streams that an index covers, and the meaning of their records.
//!
//! [`Corpus`] is all that the index knows about the world: which streams changed, how to read them, and which text of a
//! record is searched. The index knows no turns, memory items or forks beyond that.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use manent_log::{Entry, LogItem};
use manent_store::{
    Changes, Cursor, KnownStreams, ListDetail, Lock, Place, Position, Result, ScanTime, Seek, Selector,
    SessionKey, Space, StreamId, StreamReader, StreamStat, Target,
};

/// The streams of one space, as an index reads them.
///
/// Methods may block on the disk and are called from several threads at once. Blocking, retries and errors are those of
/// the methods of [`manent_store::Streams`] that have the same name.
pub trait Corpus: fmt::Debug + Send + Sync {
    /// Returns the space of the streams.
    fn space(&self) -> Space;

    /// Compares every stream with what the index knows; see [`manent_store::Streams::changes`].
    fn changes(&self, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes>;

    /// Lists streams of a place; see [`manent_store::Streams::list`].
    fn list(&self, place: Place, which: Selector<'_>, detail: ListDetail) -> Result<Vec<StreamStat>>;

    /// Opens a stream for reading; see [`manent_store::Streams::open`].
    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>>;

    /// Returns what a header line says about the origin of its stream, or `None` if the line is not a header.
    fn origin(&self, header: &[u8]) -> Option<StreamOrigin>;

    /// Returns what the index takes from a record, or `None` if the line is not a record.
    fn document<'a>(&self, entry: &Entry<'a>) -> Option<Document<'a>>;

    /// Returns the text that stands for a stream without a title, or `None` if this record does not give one.
    fn opening(&self, entry: &Entry<'_>) -> Option<String> {
        let _ = entry;
        None
    }

    /// Calls `take` for each record and damage that a fork shares with the stream it was forked from, in order, up to
    /// and including the record `upto`.
    fn shared(&self, fork: &StreamId, upto: u64, take: &mut dyn FnMut(LogItem<'_>)) -> Result<()> {
        let _ = (fork, upto, take);
        Ok(())
    }

    /// Returns the parts of a text that a snippet replaces by [`REDACTED`], such as credentials: byte ranges, in order,
    /// that do not overlap.
    fn redactions(&self, text: &str) -> Vec<Range<usize>> {
        let _ = text;
        Vec::new()
    }

    /// Returns whether a record was set aside; see [`manent_store::Maintenance::was_set_aside`].
    fn was_set_aside(&self, at: &StreamId, position: Position, seq: u64, since: ScanTime) -> Result<bool> {
        let _ = (at, position, seq, since);
        Ok(false)
    }

    /// Takes the lock that keeps streams from being moved, or returns `None` if it cannot be had in time.
    fn lock_moves(&self) -> Option<Lock> {
        None
    }

    /// Selects the neighbours that count towards the score of a record.
    fn score_scope(&self) -> ScoreScope;

    /// Says whether streams that vanish are remembered.
    fn losses(&self) -> LossPolicy;
}

impl dyn Corpus + '_ {
    /// Opens a stream and moves to a place in it.
    pub(crate) fn open_at(&self, id: &StreamId, seek: Seek<'_>) -> Result<Box<dyn StreamReader>> {
        let mut reader = self.open(Target::Id(id))?;
        reader.seek(seek)?;
        Ok(reader)
    }

    /// Returns the origin of a stream as its header gives it.
    pub(crate) fn origin_of(&self, reader: &dyn StreamReader) -> Option<StreamOrigin> {
        reader.header().and_then(|header| self.origin(header))
    }

    /// Returns the live stream of a key as it is seen without opening it.
    pub(crate) fn live_outside(&self, key: &SessionKey) -> Result<Option<StreamStat>> {
        Ok(self.list(Place::Live, Selector::Key(key), ListDetail::Outside)?.into_iter().next())
    }

    /// Reads the line at a position of a stream that was seen; `None` if the stream is gone or ends before that.
    pub(crate) fn line_at(&self, place: Place, name: &str, position: Position) -> Result<Option<Vec<u8>>> {
        match self.open(Target::Name { space: self.space(), place, name }) {
            Err(e) if e.is_not_found() => Ok(None),
            reader => reader?.line_at(position, LINE_BYTES_GUESS),
        }
    }
}

/// One record as the index sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<'a> {
    /// The time at which it was written, as the record says.
    pub ts: Option<Cow<'a, str>>,
    /// The part of it that matters.
    pub content: Content<'a>,
}

/// The part of a record that matters to the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<'a> {
    /// Text that is searched.
    Text {
        /// The speaker, or the kind of text.
        role: Cow<'a, str>,
        /// The text.
        text: Cow<'a, str>,
    },
    /// The title of its stream from here on. An empty one takes back the title before it.
    Title(Cow<'a, str>),
    /// Neither searched nor listed.
    Other,
}

impl<'a> Document<'a> {
    /// Returns the role and the text, or `None` if the record is not searched.
    pub(crate) fn searched(self) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
        match self.content {
            Content::Text { role, text } => Some((role, text)),
            Content::Title(_) | Content::Other => None,
        }
    }
}

/// The origin of a stream, as its header gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamOrigin {
    /// The id in the header.
    pub id: String,
    /// The id of the stream it was forked from, and the number of the last record that they share.
    pub parent: Option<(String, u64)>,
}

/// Selects the neighbours of a record that count towards its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreScope {
    /// The records before and after it in its stream, as in a conversation.
    Conversation,
    /// None: each record stands for itself.
    Alone,
}

/// Says whether streams that vanish are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossPolicy {
    /// They are, until somebody acknowledges the loss.
    Remembered,
    /// They are not: streams come and go.
    Ignored,
}

/// Stands in a snippet for a part that is not shown.
pub const REDACTED: &str = "[secret]";
/// The bytes that are read for a line: more than most records have, so that one read gets the whole line.
const LINE_BYTES_GUESS: usize = 8 << 10;
