//! A backend that is another one, but keeps no index and watches nothing: a store on it reads every log anew.

use std::sync::Arc;
use std::time::Duration;

use manent::backend::{
    Backend, Exclusive, Header, Lease, NewHeader, Place, Position, Progress, Receipt, Records, Repaired,
    Sight, Start, StreamId, StreamStat, Survey, Terms, Which,
};
use manent::log::Report;
use manent::log::fs::Settling;
use manent::{Body, Files, Result, SessionKey, Store, StoreOptions};

#[derive(Debug)]
struct Bare(Arc<dyn Backend>);

/// A store that knows nothing yet of what is in a directory, and never leaves anything there.
pub(crate) fn fresh(home: &std::path::Path) -> Store {
    let files: Arc<dyn Backend> = Arc::new(Files::open(home).unwrap());
    Store::on(Arc::new(Bare(files)), StoreOptions::default())
}

/// As [`fresh`], on what another store stands on.
pub(crate) fn fresh_on(files: Files) -> Store {
    Store::on(Arc::new(Bare(Arc::new(files))), StoreOptions::default())
}

impl Backend for Bare {
    fn name(&self) -> String {
        self.0.name()
    }

    fn lease(&self, key: &SessionKey, new: Option<NewHeader<'_>>, wait: Duration) -> Result<Box<dyn Lease>> {
        self.0.lease(key, new, wait)
    }

    fn append(
        &self,
        key: &SessionKey,
        new: NewHeader<'_>,
        bodies: &[Body],
        terms: &Terms,
    ) -> Result<Vec<Receipt>> {
        self.0.append(key, new, bodies, terms)
    }

    fn read(&self, at: &StreamId, start: Start, until: Option<u64>) -> Result<Box<dyn Records>> {
        self.0.read(at, start, until)
    }

    fn list(&self, place: Place, which: Which<'_>) -> Result<Vec<StreamStat>> {
        self.0.list(place, which)
    }

    fn survey(&self, seen: &[(Place, &str)], note: &[u64]) -> Result<Survey> {
        self.0.survey(seen, note)
    }

    fn settling(&self) -> Settling {
        self.0.settling()
    }

    fn sight(&self, key: &SessionKey) -> Result<Option<Sight>> {
        self.0.sight(key)
    }

    fn identify(&self, sight: &Sight) -> Result<Option<StreamStat>> {
        self.0.identify(sight)
    }

    fn line(&self, place: Place, name: &str, position: Position) -> Result<Option<Vec<u8>>> {
        self.0.line(place, name, position)
    }

    fn exclusive(&self, wait: Duration) -> Result<Box<dyn Exclusive>> {
        self.0.exclusive(wait)
    }

    fn create(
        &self,
        key: &SessionKey,
        header: &Header,
        records: &mut dyn Iterator<Item = Result<Body>>,
    ) -> Result<()> {
        self.0.create(key, header, records)
    }

    fn relocate(&self, at: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        self.0.relocate(at, to, wait)
    }

    fn condense(&self, at: &StreamId, progress: Progress<'_>) -> Result<()> {
        self.0.condense(at, progress)
    }

    fn absorb(
        &self,
        fork: &StreamId,
        header: &Body,
        parent: &StreamId,
        upto: u64,
        wait: Duration,
    ) -> Result<()> {
        self.0.absorb(fork, header, parent, upto, wait)
    }

    fn delete(&self, at: &StreamId, wait: Duration) -> Result<()> {
        self.0.delete(at, wait)
    }

    fn settle(&self, at: &StreamId) -> Result<()> {
        self.0.settle(at)
    }

    fn verify(&self, at: &StreamId, progress: Progress<'_>) -> Result<Report> {
        self.0.verify(at, progress)
    }

    fn repair(&self, key: &SessionKey, ts: &str, wait: Duration) -> Result<Repaired> {
        self.0.repair(key, ts, wait)
    }
}
