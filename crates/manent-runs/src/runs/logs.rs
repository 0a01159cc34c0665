//! The streams of [`Space::Runs`]: one log for each session key.

use manent::Store;
use manent_log::{Body, Durability, Expect, LogEnd, LogItem};
use manent_store::{
    AppendOptions, IfMissing, Place, Receipt, Seek, Selector, SessionKey, Space, StreamFilter, StreamId,
    StreamReader, StreamStat, StreamWriter, Target,
};

use super::keys::RUN_KEYS;
use crate::error::Result;

/// The logs of runs of a store.
#[derive(Debug, Clone)]
pub(super) struct RunLogs {
    store: Store,
}

impl RunLogs {
    pub(super) fn new(store: Store) -> RunLogs {
        RunLogs { store }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the log of a session, if it has one.
    pub(super) fn stat(&self, session: &SessionKey) -> Result<Option<StreamStat>> {
        let filter = StreamFilter::new(Space::Runs, Place::Live, Selector::Key(session));
        Ok(self.store.streams().list(&filter)?.into_iter().next())
    }

    /// Opens the log of a session and moves to a place in it. One that does not exist reads as empty.
    pub(super) fn open(&self, session: &SessionKey, start: Seek<'_>) -> Result<LogReader> {
        let id = StreamId::live_in(Space::Runs, session);
        let mut reader = match self.store.streams().open(Target::Id(&id)) {
            Err(e) if e.is_not_found() => return Ok(LogReader(None)),
            reader => reader?,
        };
        reader.seek(start)?;
        Ok(LogReader(Some(reader)))
    }

    /// Takes the right to write the log of a session, or a new one. A long log is read for its keys before, while
    /// others may write to it.
    pub(super) fn lease(&self, session: &SessionKey) -> Result<Box<dyn StreamWriter>> {
        let header = || self.store.new_header(session);
        let id = StreamId::live_in(Space::Runs, session);
        self.store.streams().prefetch_keys(&id, &RUN_KEYS)?;
        Ok(self.store.streams().lease(&id, IfMissing::Create(&header), self.store.wait())?)
    }

    /// Appends records to the log of a session, or to a new one.
    pub(super) fn append(
        &self,
        session: &SessionKey,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        let header = || self.store.new_header(session);
        let how = AppendOptions { expect, wait: self.store.wait(), ..AppendOptions::new(durability) };
        let id = StreamId::live_in(Space::Runs, session);
        Ok(self.store.streams().append(&id, &header, bodies, &how)?)
    }
}

/// A log being read; `None` if it does not exist.
#[derive(Debug)]
pub(super) struct LogReader(Option<Box<dyn StreamReader>>);

impl LogReader {
    pub(super) fn advance(&mut self) -> Result<bool> {
        Ok(match &mut self.0 {
            Some(reader) => reader.advance()?,
            None => false,
        })
    }

    pub(super) fn item(&self) -> Option<LogItem<'_>> {
        self.0.as_ref()?.item()
    }

    pub(super) fn end(&self) -> LogEnd {
        self.0.as_ref().map_or(LogEnd::Clean, |reader| reader.end())
    }
}
