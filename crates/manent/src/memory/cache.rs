//! The memory as it was last read, and what was added since.

use std::sync::Arc;

use manent_log::{FileChange, LogEnd, LogItem};
use manent_store::{
    ChangeKind, Cursor, KnownStreams, ListDetail, Place, Seek, Selector, StreamFilter, StreamId,
    StreamReader, StreamStat, Streams, Target, Version,
};

use super::active::Active;
use crate::error::Result;

/// A stream that was read to its end.
#[derive(Debug)]
pub(super) struct MemoryCache {
    reader: Box<dyn StreamReader>,
    active: Arc<Active>,
    /// What the stream was called, and the state it was seen in before the last of it was read.
    name: String,
    version: Version,
}

impl MemoryCache {
    /// Reads all of it; `None` if there is nothing.
    pub(super) fn read(streams: &dyn Streams, id: &StreamId) -> Result<Option<MemoryCache>> {
        loop {
            let Some(mut reader) = open(streams, id)? else { return Ok(None) };
            // Items are read through a handle of their own, for as long as somebody has this state of the stream.
            let Some(items) = open(streams, id)? else { continue };
            if items.identity() != reader.identity() {
                continue;
            }
            let Some(StreamStat { bytes, name, .. }) = look(streams, id)? else { return Ok(None) };
            reader.seek(Seek::First)?;
            let active = Arc::new(Active::new(Some(items.into()), bytes));
            let mut loaded = MemoryCache { reader, active, name, version: Version::UNKNOWN };
            loaded.read_on(streams, id)?;
            return Ok(Some(loaded));
        }
    }

    pub(super) fn active(&self) -> Arc<Active> {
        self.active.clone()
    }

    /// Reads what was added. False: the stream is another one, or may have changed in place, and must be read anew.
    pub(super) fn catch_up(&mut self, streams: &dyn Streams, id: &StreamId) -> Result<bool> {
        let changes = streams.changes(id.space, &*self, &Cursor::default())?;
        let is_native = self.reader.is_native()?;
        match changes.streams.first().map(|change| change.kind) {
            None => Ok(true),
            // Ours only grow. Another program may change anything in its file.
            Some(ChangeKind::Appended(_)) if is_native => match self.reader.poll()? {
                FileChange::None => Ok(true),
                FileChange::Grew => {
                    self.read_on(streams, id)?;
                    Ok(true)
                }
                FileChange::Truncated | FileChange::Replaced => Ok(false),
            },
            Some(_) => Ok(false),
        }
    }

    fn read_on(&mut self, streams: &dyn Streams, id: &StreamId) -> Result<()> {
        self.version = look(streams, id)?.map_or(Version::UNKNOWN, |stat| stat.version);
        let active = Arc::make_mut(&mut self.active);
        while let Some(item) = self.reader.next()? {
            match item {
                LogItem::Entry(entry) => active.take(&entry),
                LogItem::Damage(damage) => active.take_damage(damage),
            }
        }
        active.torn = match self.reader.end() {
            LogEnd::Torn(torn) => Some(torn),
            LogEnd::Clean => None,
        };
        Ok(())
    }
}

impl KnownStreams for MemoryCache {
    fn each(&self, take: &mut dyn FnMut(Place, &str, Version)) {
        take(Place::Live, &self.name, self.version);
    }

    fn version(&self, place: Place, name: &str) -> Option<Version> {
        (place == Place::Live && name == self.name).then_some(self.version)
    }
}

/// Looks at the stream without opening it; `None` if there is none.
pub(super) fn look(streams: &dyn Streams, id: &StreamId) -> Result<Option<StreamStat>> {
    let filter = StreamFilter::new(id.space, Place::Live, Selector::Key(&id.key));
    Ok(streams.list(&StreamFilter { detail: ListDetail::Outside, ..filter })?.into_iter().next())
}

fn open(streams: &dyn Streams, id: &StreamId) -> Result<Option<Box<dyn StreamReader>>> {
    match streams.open(Target::Id(id)) {
        Err(e) if e.is_not_found() => Ok(None),
        reader => Ok(Some(reader?)),
    }
}
