//! A backend that keeps everything in memory: for tests, and for programs that want to forget.
//!
//! | file | about |
//! |---|---|
//! | `in_memory.rs` | [`InMemory`]: which stream is meant, what is there, what moves it |
//! | `in_memory/stream.rs` | one stream: its lines, and reading them |
//! | `in_memory/leases.rs` | who may write, who may move, and who waits for that |
//!
//! A stream holds the very lines that a file would, so that whatever is read looks the same and can be
//! checked. A record's position is its place in the row of lines; the header's is 0.

mod leases;
mod stream;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use manent_log::{Body, Report};

use crate::backend::{
    Address, Backend, Exclusive, Header, Lease, Listed, NewHeader, Place, Position, Progress, Receipt,
    Records, Repaired, Sight, Stamp, Start, Survey, Terms, Which,
};
use crate::clock;
use crate::error::{Among, Error, Result};
use crate::key::SessionKey;
use crate::sync::lock;
use leases::{MemoryLease, Moving};
use stream::{MemoryRecords, Stream};

/// Sessions that nothing outlives: they are gone with the last `Arc` of this.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use manent::{InMemory, SessionKey, Store, StoreOptions, turn};
///
/// let store = Store::on(Arc::new(InMemory::new()), StoreOptions::default());
/// let key = SessionKey::new("scratch")?;
/// store.append(&key, turn("user", "remember nothing of this"))?;
/// assert_eq!(store.load(&key)?.len(), 1);
/// # Ok(()) }
/// ```
///
/// All it promises of durability is that a record is there for every thread when its receipt is: a
/// [`Receipt`] repeats the level that was asked for, and no level survives the process.
#[derive(Default)]
pub struct InMemory {
    shared: Arc<Shared>,
}

/// What the backend, its leases and its readers share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A lease, or the right to move, was given back.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// Every stream, wherever it is, by its key.
    streams: BTreeMap<SessionKey, Vec<Spot>>,
    /// Whose live stream is being written, whether it exists yet or not.
    leased: HashSet<SessionKey>,
    /// Somebody holds the right to move streams.
    moving: bool,
}

/// A stream, and where it is.
#[derive(Clone)]
struct Spot {
    place: Place,
    /// In the trash: where it was before.
    from: Place,
    id: Arc<str>,
    /// When it was put here, in milliseconds since 1970.
    moved_ms: i64,
    stream: Arc<Stream>,
}

impl InMemory {
    /// An empty store.
    pub fn new() -> InMemory {
        InMemory::default()
    }

    /// Waits until nobody writes the stream, and looks only then where it is: whoever was waited for may have
    /// moved everything. Nobody can write it as long as the state is held.
    fn unleased(&self, at: &Address, wait: Duration) -> Result<MutexGuard<'_, State>> {
        lock(&self.shared.state).find(at)?;
        let state = match at.place {
            Place::Live => self.shared.wait_for_writer(&at.key, wait)?,
            Place::Archive | Place::Trash => lock(&self.shared.state),
        };
        state.find(at)?;
        Ok(state)
    }

    fn stream(&self, at: &Address) -> Result<Arc<Stream>> {
        Ok(lock(&self.shared.state).find(at)?.stream.clone())
    }
}

impl fmt::Debug for InMemory {
    /// Says nothing of what it holds: that is content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").finish_non_exhaustive()
    }
}

impl Spot {
    fn live(stream: Arc<Stream>) -> Spot {
        let (place, from, id) = (Place::Live, Place::Live, stream.id().clone());
        Spot { place, from, id, moved_ms: 0, stream }
    }

    /// A live stream may be meant by its key alone: there is only one.
    fn is_at(&self, at: &Address) -> bool {
        let any = at.place == Place::Live && at.id.is_empty();
        self.place == at.place && (any || *self.id == *at.id)
    }

    fn name(&self, key: &SessionKey) -> String {
        format!("{} {key}", self.id)
    }

    fn sight(&self, key: &SessionKey) -> Sight {
        Sight { place: self.place, name: self.name(key), stamp: self.stream.stamp() }
    }

    fn listed(&self, key: &SessionKey) -> Listed {
        let (bytes, written_ms) = self.stream.size_and_time();
        let address = Address { place: self.place, key: key.clone(), id: self.id.to_string() };
        let modified_ms = written_ms.max(self.moved_ms);
        Listed { address, bytes, modified_ms, from: self.from, says: None }
    }
}

impl State {
    fn of_key(&self, key: &SessionKey) -> &[Spot] {
        self.streams.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    fn live(&self, key: &SessionKey) -> Option<&Spot> {
        self.of_key(key).iter().find(|spot| spot.place == Place::Live)
    }

    fn find(&self, at: &Address) -> Result<&Spot> {
        self.of_key(&at.key).iter().find(|spot| spot.is_at(at)).ok_or_else(|| not_found(at))
    }

    fn seen(&self, place: Place, name: &str) -> Option<(&SessionKey, &Spot)> {
        let mut all = self.streams.iter().flat_map(|(key, spots)| spots.iter().map(move |spot| (key, spot)));
        all.find(|(key, spot)| spot.place == place && spot.name(key) == name)
    }

    fn take_out(&mut self, at: &Address) -> Result<Spot> {
        let spots = self.streams.get_mut(&at.key).ok_or_else(|| not_found(at))?;
        let found = spots.iter().position(|spot| spot.is_at(at)).ok_or_else(|| not_found(at))?;
        let spot = spots.swap_remove(found);
        if spots.is_empty() {
            self.streams.remove(&at.key);
        }
        Ok(spot)
    }

    fn put(&mut self, key: &SessionKey, spot: Spot) {
        self.streams.entry(key.clone()).or_default().push(spot);
    }

    /// Refuses where a stream is, and for the live place also where one may begin at any moment.
    fn check_free(&self, key: &SessionKey, place: Place, id: &str) -> Result<()> {
        let taken = match place {
            Place::Live => self.live(key).is_some() || self.leased.contains(key),
            Place::Archive | Place::Trash => {
                self.of_key(key).iter().any(|spot| spot.place == place && *spot.id == *id)
            }
        };
        let hint = match place {
            Place::Live => "archive it or give it up first, or choose another key",
            Place::Archive | Place::Trash => "it has the same id; give that one up first",
        };
        if taken { Err(Error::InTheWay { key: key.to_string(), place, hint }) } else { Ok(()) }
    }
}

impl Backend for InMemory {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn lease(&self, key: &SessionKey, new: Option<NewHeader<'_>>, wait: Duration) -> Result<Box<dyn Lease>> {
        Ok(Box::new(MemoryLease::take(&self.shared, key, new, wait)?))
    }

    fn append(
        &self,
        key: &SessionKey,
        new: NewHeader<'_>,
        bodies: &[Body],
        terms: &Terms,
    ) -> Result<Vec<Receipt>> {
        let mut lease = MemoryLease::take(&self.shared, key, Some(new), terms.wait)?;
        lease.append(bodies, terms.durability, terms.expect)
    }

    fn read(&self, at: &Address, start: Start, until: Option<u64>) -> Result<Box<dyn Records>> {
        let stream = self.stream(at)?;
        Ok(Box::new(MemoryRecords::new(self.shared.clone(), stream, at, start, until)))
    }

    fn list(&self, place: Place, which: Which<'_>) -> Result<Vec<Listed>> {
        let state = lock(&self.shared.state);
        let of_place = |key: &SessionKey, spots: &[Spot]| -> Vec<Listed> {
            spots.iter().filter(|spot| spot.place == place).map(|spot| spot.listed(key)).collect()
        };
        if let Which::Key(key) = which {
            return Ok(of_place(key, state.of_key(key)));
        }
        let wanted = |listed: &Listed| match which {
            Which::Id(id) => listed.address.id.starts_with(id),
            Which::All | Which::Key(_) => true,
        };
        Ok(state.streams.iter().flat_map(|(key, spots)| of_place(key, spots)).filter(wanted).collect())
    }

    fn survey(&self, seen: &[(Place, &str)], _note: &[u64]) -> Result<Survey> {
        let state = lock(&self.shared.state);
        let all = state.streams.iter().flat_map(|(key, spots)| spots.iter().map(move |spot| spot.sight(key)));
        let mut others: HashMap<(Place, String), Stamp> =
            all.map(|sight| ((sight.place, sight.name), sight.stamp)).collect();
        let stamps = seen.iter().map(|(place, name)| others.remove(&(*place, (*name).to_owned()))).collect();
        let others = others.into_iter().map(|((place, name), stamp)| Sight { place, name, stamp }).collect();
        Ok(Survey { stamps, others, note: Vec::new() })
    }

    fn identify(&self, sight: &Sight) -> Result<Option<Listed>> {
        let state = lock(&self.shared.state);
        Ok(state.seen(sight.place, &sight.name).map(|(key, spot)| spot.listed(key)))
    }

    fn sight(&self, key: &SessionKey) -> Result<Option<Sight>> {
        Ok(lock(&self.shared.state).live(key).map(|spot| spot.sight(key)))
    }

    fn line(&self, place: Place, name: &str, position: Position) -> Result<Option<Vec<u8>>> {
        let stream = lock(&self.shared.state).seen(place, name).map(|(_, spot)| spot.stream.clone());
        Ok(stream.and_then(|stream| stream.line(position)))
    }

    fn exclusive(&self, wait: Duration) -> Result<Box<dyn Exclusive>> {
        Ok(Box::new(Moving::take(&self.shared, wait)?))
    }

    fn create(
        &self,
        key: &SessionKey,
        header: &Header,
        records: &mut dyn Iterator<Item = Result<Body>>,
    ) -> Result<()> {
        lock(&self.shared.state).check_free(key, Place::Live, &header.id)?;
        // Without the lock: the records may come from a stream of this very backend.
        let bodies = records.collect::<Result<Vec<Body>>>()?;
        let stream = Stream::new(header)?;
        stream.append(key, &bodies.iter().collect::<Vec<_>>())?;
        let mut state = lock(&self.shared.state);
        state.check_free(key, Place::Live, &header.id)?;
        state.put(key, Spot::live(Arc::new(stream)));
        Ok(())
    }

    fn relocate(&self, at: &Address, to: Place, wait: Duration) -> Result<Address> {
        let mut state = self.unleased(at, wait)?;
        let found = state.find(at)?;
        let address = Address { place: to, key: at.key.clone(), id: found.id.to_string() };
        if to != at.place {
            state.check_free(&at.key, to, &address.id)?;
            let from = if to == Place::Trash { at.place } else { to };
            let spot = state.take_out(at)?;
            state.put(&at.key, Spot { place: to, from, moved_ms: clock::now_ms(), ..spot });
        }
        Ok(address)
    }

    fn condense(&self, at: &Address, progress: Progress<'_>) -> Result<()> {
        let (bytes, _) = self.stream(at)?.size_and_time();
        progress(bytes, bytes);
        Ok(())
    }

    fn absorb(
        &self,
        fork: &Address,
        header: &Body,
        parent: &Address,
        upto: u64,
        wait: Duration,
    ) -> Result<()> {
        let mut state = self.unleased(fork, wait)?;
        let shared = state.find(parent)?.stream.clone();
        let own = state.find(fork)?.stream.clone();
        let whole = Arc::new(own.behind(header, &shared, upto)?);
        // Another stream in its place: whoever reads the old one goes on reading that, and hears of it.
        let spot = state.take_out(fork)?;
        state.put(&fork.key, Spot { stream: whole, ..spot });
        Ok(())
    }

    fn delete(&self, at: &Address, wait: Duration) -> Result<()> {
        self.unleased(at, wait)?.take_out(at)?;
        Ok(())
    }

    fn settle(&self, at: &Address) -> Result<()> {
        self.stream(at).map(|_| ())
    }

    fn verify(&self, at: &Address, progress: Progress<'_>) -> Result<Report> {
        Ok(self.stream(at)?.verify(progress))
    }

    fn repair(&self, key: &SessionKey, _ts: &str, _wait: Duration) -> Result<Repaired> {
        // Nothing tears here: a record is there as a whole or not at all.
        self.stream(&Address::live(key)).map(|_| Repaired::default())
    }
}

fn not_found(at: &Address) -> Error {
    Error::NotFound { name: at.name(), among: Among::Place(at.place), store: NAME.to_owned() }
}

/// What stands for a file in messages.
fn path_of(key: &SessionKey) -> PathBuf {
    PathBuf::from(format!("{NAME}/{key}"))
}

const NAME: &str = "memory";
