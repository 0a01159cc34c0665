//! The corpus of an index over records: which of them are searched, and under which role.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use manent_index::{Content, Corpus, Document, LossPolicy, ScoreScope, StreamOrigin};
use manent_log::{Entry, LogItem};
use manent_store::{
    Changes, Cursor, KnownStreams, ListDetail, Lock, LockMode, LockName, Place, Position, Result, ScanTime,
    Selector, Space, StreamFilter, StreamId, StreamReader, StreamStat, Streams, Target,
};

use super::text::searchable_text;
use crate::error::Error;
use crate::meta::Meta;
use crate::reader;
use crate::reader::Start;
use crate::secrets::secrets;
use crate::turn::Record;

/// Returns the role under which a record is searched, or `None` if it is not.
type RoleOf = for<'a> fn(&Record<'a>) -> Option<Cow<'a, str>>;

/// The streams of one space, whose records are searched under a role each.
#[derive(Debug)]
pub(crate) struct RecordCorpus {
    streams: Arc<dyn Streams>,
    space: Space,
    wait: Duration,
    role_of: RoleOf,
    scope: ScoreScope,
    losses: LossPolicy,
}

impl RecordCorpus {
    /// The turns of sessions.
    pub(crate) fn sessions(streams: Arc<dyn Streams>, wait: Duration) -> RecordCorpus {
        let (scope, losses) = (ScoreScope::Conversation, LossPolicy::Remembered);
        RecordCorpus { streams, space: Space::Sessions, wait, role_of: role_of_turn, scope, losses }
    }

    /// Records that have nothing to do with those before and after them.
    pub(crate) fn alone(
        streams: Arc<dyn Streams>,
        space: Space,
        wait: Duration,
        role_of: RoleOf,
    ) -> RecordCorpus {
        RecordCorpus { streams, space, wait, role_of, scope: ScoreScope::Alone, losses: LossPolicy::Ignored }
    }
}

/// Returns the role of a turn. `Record::role` itself is not general enough in its lifetimes for [`RoleOf`].
fn role_of_turn<'a>(record: &Record<'a>) -> Option<Cow<'a, str>> {
    record.role()
}

impl Corpus for RecordCorpus {
    fn space(&self) -> Space {
        self.space
    }

    fn changes(&self, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes> {
        self.streams.changes(self.space, known, since)
    }

    fn list(&self, place: Place, which: Selector<'_>, detail: ListDetail) -> Result<Vec<StreamStat>> {
        self.streams.list(&StreamFilter { detail, ..StreamFilter::new(self.space, place, which) })
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        self.streams.open(at)
    }

    fn origin(&self, header: &[u8]) -> Option<StreamOrigin> {
        let Meta { id, parent, .. } = Meta::of_line(header)?;
        Some(StreamOrigin { id, parent: parent.map(|parent| (parent.id, parent.upto)) })
    }

    fn document<'a>(&self, entry: &Entry<'a>) -> Option<Document<'a>> {
        let record = Record::of(entry)?;
        let content = match (self.role_of)(&record) {
            Some(role) => Content::Text { role, text: searchable_text(&record) },
            None if record.kind().as_deref() == Some("title") => {
                Content::Title(record.string("title").unwrap_or_default())
            }
            None => Content::Other,
        };
        Some(Document { ts: record.ts(), content })
    }

    fn opening(&self, entry: &Entry<'_>) -> Option<String> {
        let record = Record::of(entry).filter(|record| record.role().as_deref() == Some("user"))?;
        Some(record.content().into_owned())
    }

    fn shared(&self, fork: &StreamId, upto: u64, take: &mut dyn FnMut(LogItem<'_>)) -> Result<()> {
        let mut reader = reader::read(&*self.streams, fork, Start::First).map_err(Error::into_store)?;
        while let Some(item) = reader.next().map_err(Error::into_store)? {
            if matches!(&item, LogItem::Entry(entry) if entry.seq > upto) {
                break;
            }
            take(item);
        }
        Ok(())
    }

    fn redactions(&self, text: &str) -> Vec<Range<usize>> {
        secrets(text)
    }

    fn was_set_aside(&self, at: &StreamId, position: Position, seq: u64, since: ScanTime) -> Result<bool> {
        let Some(maintenance) = self.streams.maintenance() else { return Ok(false) };
        maintenance.was_set_aside(at, position, seq, since)
    }

    fn lock_moves(&self) -> Option<Lock> {
        self.streams.lock(LockName::Moves(Space::Sessions), LockMode::Exclusive, self.wait).ok()
    }

    fn score_scope(&self) -> ScoreScope {
        self.scope
    }

    fn losses(&self) -> LossPolicy {
        self.losses
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn redacted_text_of_snippets_and_of_the_library_is_the_same() {
        assert_eq!(manent_index::REDACTED, crate::REDACTED);
    }
}
