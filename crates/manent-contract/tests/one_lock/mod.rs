//! A backend with one lock for the right to move streams of any space.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent_log::{Body, KeyRule};
use manent_store::{
    AppendOptions, Changes, Cursor, IfMissing, KnownStreams, Lock, LockMode, LockName, Maintenance,
    NewHeader, Place, Receipt, Result, Space, StreamFilter, StreamHeader, StreamId, StreamParts,
    StreamReader, StreamStat, StreamWriter, Streams, Target,
};

/// Another backend, with [`LockName::Moves`] of all spaces as one lock.
#[derive(Debug)]
pub(crate) struct OneLock(Arc<dyn Streams>);

impl OneLock {
    pub(crate) fn new(streams: Arc<dyn Streams>) -> OneLock {
        OneLock(streams)
    }
}

/// The longest wait for a lock, so that whoever waits for its own lock fails instead of waiting for ever.
const WAIT_MAX: Duration = Duration::from_secs(5);

impl Streams for OneLock {
    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        let name = match name {
            LockName::Moves(_) => LockName::Moves(Space::Sessions),
            LockName::Named(..) => name,
        };
        self.0.lock(name, mode, wait.min(WAIT_MAX))
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn supports(&self, space: Space) -> bool {
        self.0.supports(space)
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        self.0.open(at)
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        self.0.lease(id, missing, wait)
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        self.0.append(id, new, records, how)
    }

    fn prefetch_keys(&self, id: &StreamId, rule: &KeyRule) -> Result<()> {
        self.0.prefetch_keys(id, rule)
    }

    fn list(&self, which: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        self.0.list(which)
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes> {
        self.0.changes(space, known, since)
    }

    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()> {
        self.0.create(id, header, parts)
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        self.0.relocate(id, to, wait)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        self.0.delete(id, wait)
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.0.sync(id)
    }

    fn is_trustworthy(&self, id: &StreamId) -> Result<bool> {
        self.0.is_trustworthy(id)
    }

    fn may_contain(&self, id: &StreamId, bytes: &[u8]) -> Result<bool> {
        self.0.may_contain(id, bytes)
    }

    fn path(&self, id: &StreamId) -> Option<PathBuf> {
        self.0.path(id)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.0.maintenance()
    }
}
