//! A store of sessions: what people embed.
//!
//! The library has no terminal, no environment and no home directory: whoever embeds it says where the store is. This
//! file opens, writes, reads and lists; `lifecycle.rs` archives and deletes, `fork.rs` forks, `reader.rs` reads
//! through forks. Where records lie is the [`Backend`]'s business.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use manent_log::frame::DamageReason;
use manent_log::fs::Disk;
use manent_log::{Body, Damage, DamageFinding, FileSystemTrust, RealDisk, SetAside, VerifyReport};
use manent_store::clock;
use manent_store::sync::lock;
use manent_store::{
    AppendOptions, Blobs, FileBlobs, Files, IfMissing, ListDetail, Maintenance, Place, Position, ProgressFn,
    Receipt, Repaired, Selector, SessionKey, Space, StreamFilter, StreamHeader, StreamId, StreamStat,
    StreamWriter, Streams,
};

use crate::context::Tail;
use crate::error::{Error, Result, if_found};
use crate::meta::{Parent, session_header};
use crate::reader::Reader;
use crate::reader::Start;
use crate::search::{Background, SessionIndex, session_index};
use crate::transcript::Transcript;
use crate::{Durability, Expect};

/// A store of sessions.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use manent::{SessionKey, Store, turn};
///
/// let store = Store::open(dir.path())?;
/// let alice = SessionKey::new("telegram:alice")?;
/// store.append(&alice, turn("user", "hello"))?; // on the disk when this returns; a new key begins a session
/// store.append(&alice, turn("assistant", "hi!"))?;
///
/// let said: Vec<String> = store.load(&alice)?.turns().map(|t| t.content.to_owned()).collect();
/// assert_eq!(said, ["hello", "hi!"]);
/// # Ok(()) }
/// ```
///
/// Clones share everything. All of it can be used from many threads and from many processes at once.
#[derive(Debug, Clone)]
pub struct Store {
    streams: Arc<dyn Streams>,
    /// The blobs that hold derived data; `None` if it lives in memory.
    blobs: Option<Arc<dyn Blobs>>,
    options: Arc<StoreOptions>,
    index: SessionIndex,
    /// Values that other parts of the library keep for as long as a store is open, one of each type.
    extensions: Arc<Mutex<HashMap<TypeId, Arc<OnceLock<Extension>>>>>,
}

type Extension = Arc<dyn Any + Send + Sync>;

/// Options of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The longest time to wait for another writer, or for another process that moves sessions.
    pub wait: Duration,
    /// The file systems to trust.
    pub trust: FileSystemTrust,
    /// The name and version of the writing program, for headers.
    pub app: String,
    /// The working directory to note in the header of a new session.
    pub cwd: Option<String>,
    /// A directory for the index of this one store, if the store has no place for it itself: it is a directory of other
    /// programs' sessions, or its backend is not a disk. It is a directory of the disk of the sessions, or of this
    /// machine where the backend has none. Without this, such an index lives in memory.
    pub index: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        let app = concat!("manent/", env!("CARGO_PKG_VERSION")).to_owned();
        StoreOptions {
            wait: Duration::from_secs(5),
            trust: FileSystemTrust::LocalOnly,
            app,
            cwd: None,
            index: None,
        }
    }
}

impl Store {
    /// Opens the store in a directory of this machine. Nothing is created before something is written.
    pub fn open(home: impl Into<PathBuf>) -> Result<Store> {
        Store::open_with(home, StoreOptions::default())
    }

    /// Opens the store in a directory of this machine, with options.
    pub fn open_with(home: impl Into<PathBuf>, options: StoreOptions) -> Result<Store> {
        let files = Files::open_on(RealDisk::shared(), home.into())?.trusting(options.trust);
        Ok(Store::of_files(files, options, Background::Allowed))
    }

    /// Opens a store on any disk.
    pub fn open_on(disk: Arc<dyn Disk>, home: PathBuf, options: StoreOptions) -> Result<Store> {
        let files = Files::open_on(disk, home)?.trusting(options.trust);
        Ok(Store::of_files(files, options, Background::Never))
    }

    /// Opens a store on files that are set up already. Derived data is kept beside them, or in
    /// [`StoreOptions::index`] where they are a directory of another program.
    pub fn on_files(files: Files, options: StoreOptions) -> Store {
        Store::of_files(files, options, Background::Never)
    }

    fn of_files(files: Files, options: StoreOptions, background: Background) -> Store {
        let shared = |blobs| Arc::new(blobs) as Arc<dyn Blobs>;
        let blobs = files.blobs().map(shared);
        let index_blobs = options.index.clone().map(|dir| shared(files.blobs_in(dir)));
        Store::new(Arc::new(files), blobs, index_blobs, options, background)
    }

    /// Opens a store on any backend. Derived data is kept in `blobs`; without any, in [`StoreOptions::index`] or in
    /// memory. A backend says nothing about disks, so [`StoreOptions::index`] is a directory of this machine here.
    pub fn on(streams: Arc<dyn Streams>, blobs: Option<Arc<dyn Blobs>>, options: StoreOptions) -> Store {
        let in_dir = |dir| Arc::new(FileBlobs::new(RealDisk::shared(), dir)) as Arc<dyn Blobs>;
        let index_blobs = options.index.clone().map(in_dir);
        Store::new(streams, blobs, index_blobs, options, Background::Never)
    }

    fn new(
        streams: Arc<dyn Streams>,
        blobs: Option<Arc<dyn Blobs>>,
        index_blobs: Option<Arc<dyn Blobs>>,
        options: StoreOptions,
        background: Background,
    ) -> Store {
        let index = session_index(&streams, blobs.as_ref(), index_blobs, options.wait, background);
        Store { streams, blobs, options: Arc::new(options), index, extensions: Arc::default() }
    }

    /// Returns what the store stands on.
    pub fn streams(&self) -> &dyn Streams {
        &*self.streams
    }

    /// Returns what the store stands on, for whoever outlives it.
    pub fn shared_streams(&self) -> &Arc<dyn Streams> {
        &self.streams
    }

    /// Returns where data derived from the streams is kept; `None` if only in memory.
    pub fn blobs(&self) -> Option<&Arc<dyn Blobs>> {
        self.blobs.as_ref()
    }

    /// Returns the value of a type that lives as long as the store, made by whoever asks first. For crates that build
    /// on this one and keep caches. `make` may ask for extensions of other types.
    pub fn extension<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let slot = lock(&self.extensions).entry(TypeId::of::<T>()).or_default().clone();
        let value = slot.get_or_init(|| Arc::new(make())).clone();
        // The value was put there under this very type.
        value.downcast::<T>().unwrap_or_else(|_| unreachable!("an extension has the type of its name"))
    }

    fn maintenance(&self) -> Result<&dyn Maintenance> {
        let missing = || format!("{} can neither check nor repair", self.streams.name());
        self.streams.maintenance().ok_or_else(|| manent_store::Error::Backend(missing().into()).into())
    }

    /// Refuses a space that the backend does not keep.
    pub fn check_supports(&self, space: Space) -> Result<()> {
        if self.streams.supports(space) {
            return Ok(());
        }
        Err(manent_store::Error::Unsupported { store: self.streams.name(), space }.into())
    }

    /// Checks every byte of a stream of any space; `None` if there is none.
    pub fn verify_stream(&self, id: &StreamId) -> Result<Option<VerifyReport>> {
        if_found(self.maintenance()?.verify(id, &mut |_, _| {}))
    }

    /// Sets a torn end of a stream of any space aside, and acknowledges its damage.
    pub fn repair_stream(&self, id: &StreamId) -> Result<Repaired> {
        Ok(self.maintenance()?.repair(id, &clock::now(), self.options.wait)?)
    }

    /// Returns the keys whose live stream cannot be read because something else stands in its place.
    pub(crate) fn obstructed(&self, space: Space) -> Result<Vec<SessionKey>> {
        self.streams.maintenance().map_or(Ok(Vec::new()), |maintenance| Ok(maintenance.obstructed(space)?))
    }

    /// Returns who writes, for headers.
    pub fn app(&self) -> &str {
        &self.options.app
    }

    pub(crate) fn index(&self) -> &SessionIndex {
        &self.index
    }

    /// Returns how long to wait for another writer.
    pub fn wait(&self) -> Duration {
        self.options.wait
    }

    /// Opens a session for writing: the live one of this key, or a new one. Nobody else can write it until the
    /// [`Session`] is dropped; hold it from a question to the end of its answer. For single records there is
    /// [`Store::append`].
    pub fn session(&self, key: &SessionKey) -> Result<Session> {
        let header = || self.header(key, None);
        self.lease(key, IfMissing::Create(&header))
    }

    /// Opens the live session of this key for writing, like [`Store::session`], but does not create it.
    pub fn existing_session(&self, key: &SessionKey) -> Result<Session> {
        self.lease(key, IfMissing::Refuse)
    }

    fn lease(&self, key: &SessionKey, missing: IfMissing<'_>) -> Result<Session> {
        let writer = self.streams.lease(&StreamId::live(key), missing, self.options.wait)?;
        self.index.note_written(key);
        Ok(Session { store: self.clone(), key: key.clone(), writer, tail: None })
    }

    /// Appends one record to the live session of a key, or to a new one. When it returns, the record survives power
    /// loss. If the error is one of unknown outcome ([`Error::is_unknown`]), the record may be there all the same; one
    /// with a key ([`NewTurn::key`](crate::NewTurn::key)) can be appended again.
    pub fn append(&self, key: &SessionKey, record: impl Into<Body>) -> Result<Receipt> {
        let receipts = self.append_with(key, &[record.into()], Durability::Sync, Expect::Any)?;
        receipts.into_iter().next().ok_or_else(|| nothing_taken(key))
    }

    /// Appends records with one write, as durable as asked, if the first gets the number that is expected.
    pub fn append_with(
        &self,
        key: &SessionKey,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        let how = AppendOptions { expect, wait: self.options.wait, ..AppendOptions::new(durability) };
        let header = || self.header(key, None);
        let receipts = self.streams.append(&StreamId::live(key), &header, bodies, &how)?;
        self.index.note_written(key);
        Ok(receipts)
    }

    /// Returns true if there is a live session of this key.
    pub fn exists(&self, key: &SessionKey) -> Result<bool> {
        Ok(self.live(key)?.is_some())
    }

    /// Reads the whole live session of a key into memory. One that was never written is empty.
    pub fn load(&self, key: &SessionKey) -> Result<Transcript> {
        let bytes = self.live(key)?.map_or(0, |listed| listed.bytes);
        Transcript::load(&mut self.stream(key, Start::First)?, bytes)
    }

    /// Reads the last turns of the live session of a key. Costs the tail, not the length.
    pub fn tail(&self, key: &SessionKey, turns: u64) -> Result<Transcript> {
        Transcript::load(&mut self.stream(key, Start::Tail { count: turns, before: None })?, 0)
    }

    /// Reads the live session of a key as a stream, whatever its length. One that was never written is empty, and can
    /// be waited for ([`Reader::wait`]) as one that grows.
    pub fn stream(&self, key: &SessionKey, start: Start) -> Result<Reader> {
        let found = if_found(self.read(&StreamId::live(key), start))?;
        Ok(found.unwrap_or_else(|| Reader::awaiting(self.clone(), key.clone(), start)))
    }

    /// Reads a whole session into memory, wherever it is.
    pub fn load_at(&self, at: &StreamId) -> Result<Transcript> {
        Transcript::load(&mut self.read(at, Start::First)?, 0)
    }

    /// The live session of a key.
    pub fn live(&self, key: &SessionKey) -> Result<Option<StreamStat>> {
        Ok(self.list_which(Place::Live, Selector::Key(key))?.into_iter().next())
    }

    /// The sessions of a place, in no order.
    pub fn list(&self, place: Place) -> Result<Vec<StreamStat>> {
        self.list_which(place, Selector::All)
    }

    /// The sessions of a key in a place, in no order.
    pub fn list_of(&self, place: Place, key: &SessionKey) -> Result<Vec<StreamStat>> {
        self.list_which(place, Selector::Key(key))
    }

    /// The live sessions that changed last, the newest first, at most so many. Ids that only a header tells are left
    /// out: whoever wants thousands reads each next, and should not have to open them twice.
    pub fn recent(&self, count: usize) -> Result<Vec<StreamStat>> {
        let filter = StreamFilter::sessions(Place::Live, Selector::All);
        Ok(self.streams.list(&StreamFilter { detail: ListDetail::Outside, newest: Some(count), ..filter })?)
    }

    fn list_which(&self, place: Place, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        Ok(self.streams.list(&StreamFilter::sessions(place, which))?)
    }

    /// The session that a key means to a reader: the live one, else the newest that was archived.
    pub fn find(&self, key: &SessionKey) -> Result<StreamStat> {
        for _ in 0..LOOKS {
            if let Some(listed) = self.live(key)? {
                return Ok(listed);
            }
            if let Some(listed) = self.newest(Place::Archive, key)? {
                return Ok(listed);
            }
        }
        Err(self.not_found(key.as_str(), None))
    }

    /// The session of a key in a place; of several, the one that was put there last.
    pub fn find_in(&self, place: Place, key: &SessionKey) -> Result<StreamStat> {
        self.newest(place, key)?.ok_or_else(|| self.not_found(key.as_str(), Some(place)))
    }

    /// The session whose id begins so, wherever it is.
    pub fn find_id(&self, id: &str) -> Result<StreamStat> {
        let mut found: Vec<StreamStat> = Vec::new();
        for _ in 0..LOOKS {
            for place in Place::ALL {
                found.extend(self.list_which(place, Selector::Id(id))?);
                if let Some(at) = found.iter().position(|listed| listed.id.id == id) {
                    return Ok(found.swap_remove(at));
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        let Some(first) = found.pop() else { return Err(self.not_found(&format!("@{id}"), None)) };
        if found.iter().any(|other| other.id.id != first.id.id) {
            return Err(Error::Ambiguous { id: id.to_owned() });
        }
        Ok(found.into_iter().next().unwrap_or(first))
    }

    fn newest(&self, place: Place, key: &SessionKey) -> Result<Option<StreamStat>> {
        Ok(self
            .list_of(place, key)?
            .into_iter()
            .max_by(|a, b| (a.modified_ms, &a.id.id).cmp(&(b.modified_ms, &b.id.id))))
    }

    fn not_found(&self, name: &str, place: Option<Place>) -> Error {
        let (name, store) = (name.to_owned(), self.streams.name());
        manent_store::Error::NotFound { name, space: Space::Sessions, place, store }.into()
    }

    /// Gives the live session of a key a title.
    pub fn set_title(&self, key: &SessionKey, title: &str) -> Result<Receipt> {
        let mut body = Body::new();
        // A key of its own for each call: the same title given again is a new record.
        let tried_as = uuid::Uuid::now_v7().to_string();
        body.string("ts", &clock::now()).string("kind", "title").idempotent(&tried_as).string("title", title);
        let append = || {
            let mut session = self.existing_session(key)?;
            if session.id().is_empty() {
                return Err(Error::Foreign { key: key.to_string() });
            }
            session.append(body.clone())
        };
        match append() {
            Err(e) if e.is_unknown() => append(),
            titled => titled,
        }
    }

    /// Checks every byte of a session, that what it was forked from is still there, and that it has all the records
    /// with which the catalogue last saw it.
    pub fn verify(&self, at: &StreamId, progress: ProgressFn<'_>) -> Result<VerifyReport> {
        let mut report = self.maintenance()?.verify(at, progress)?;
        report.damage.splice(0..0, self.check_parent(at)?);
        let shorter = self.shorter(at)?;
        report.damage.extend(shorter.map(|damage| DamageFinding { damage, acknowledged: false }));
        Ok(report)
    }

    /// Returns the damage of a session that has fewer records than when the catalogue last saw it.
    fn shorter(&self, at: &StreamId) -> Result<Option<Damage>> {
        let Some((bytes, seq)) = self.index.once(at)? else { return Ok(None) };
        let same = |listed: &&StreamStat| at.id.is_empty() || listed.id.id == at.id;
        let listed = self.list_of(at.place, &at.key)?;
        let offset = listed.iter().find(same).map_or(0, |listed| listed.bytes);
        let length = bytes.saturating_sub(offset);
        Ok(Some(Damage { offset, length, reason: DamageReason::Shorter, lines: 0, seq }))
    }

    /// Sets a torn end of the live session of a key aside, and acknowledges its damage.
    pub fn repair(&self, key: &SessionKey) -> Result<Repaired> {
        let at = StreamId::live(key);
        let shorter = self.shorter(&at)?;
        let mut repaired = self.maintenance()?.repair(&at, &clock::now(), self.options.wait)?;
        if let Some(shorter) = shorter {
            self.index.acknowledge(&at)?;
            repaired.acknowledged.push(shorter);
        }
        Ok(repaired)
    }

    /// Makes the header of a new stream of a key.
    pub fn new_header(&self, key: &SessionKey) -> StreamHeader {
        self.header(key, None)
    }

    pub(crate) fn header(&self, key: &SessionKey, parent: Option<&Parent>) -> StreamHeader {
        session_header(&self.options, key, parent)
    }
}

/// A session open for writing. Nobody else writes it until this is dropped.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let store = manent::Store::open(dir.path())?;
/// use manent::{SessionKey, turn};
/// let mut session = store.session(&SessionKey::new("work")?)?;
/// session.append(turn("user", "what is 6 x 7?"))?;
/// let receipt = session.append(turn("assistant", "42"))?;
/// assert_eq!(receipt.seq, 2);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Session {
    store: Store,
    key: SessionKey,
    writer: Box<dyn StreamWriter>,
    /// The end of the session, if it was read since the lease was taken.
    pub(crate) tail: Option<Tail>,
}

impl Session {
    /// Appends one record. When it returns, the record survives power loss.
    pub fn append(&mut self, record: impl Into<Body>) -> Result<Receipt> {
        let receipts = self.append_with(&[record.into()], Durability::Sync, Expect::Any)?;
        receipts.into_iter().next().ok_or_else(|| nothing_taken(&self.key))
    }

    /// Appends records with one write, as durable as asked, if the first gets the number that is expected.
    pub fn append_with(
        &mut self,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        // After a failure nobody knows what was written, and the tail is read again.
        let tail = self.tail.take();
        let receipts =
            self.writer.append(bodies, &AppendOptions { expect, ..AppendOptions::new(durability) })?;
        self.tail = tail.and_then(|tail| tail.with_appended(bodies, &receipts));
        Ok(receipts)
    }

    /// Returns the store that it belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Makes the record at a position, and all behind it, survive power loss, whoever wrote it, and even if a sync of
    /// it failed; see [`StreamWriter::keep_from`].
    pub fn keep_from(&mut self, position: Position) -> Result<()> {
        Ok(self.writer.keep_from(position)?)
    }

    /// Returns the key of the session.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Returns the id of the session; empty in other programs' files.
    pub fn id(&self) -> &str {
        self.writer.id()
    }

    /// The number that the next record will get, if nobody writes around the lease.
    pub fn next_seq(&self) -> u64 {
        self.writer.next_seq()
    }

    /// Returns the torn end that opening the session had to cut off after a crash, and the place where it is kept.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.writer.set_aside()
    }

    /// Returns the number of names under which it can be reached: with more than one, somebody else reads along.
    pub fn names(&self) -> Result<u64> {
        Ok(self.writer.names()?)
    }
}

/// The number of attempts to find a session: between two of them it may have moved to a place already looked at.
pub(crate) const LOOKS: u32 = 3;

/// A backend that takes a record without giving a receipt breaks its contract; no caller should see that as success.
fn nothing_taken(key: &SessionKey) -> Error {
    manent_store::Error::Backend(format!("the backend gave no receipt for a record of {key:?}").into()).into()
}

#[cfg(test)]
mod tests {
    use manent_store::InMemory;

    use super::*;

    #[test]
    fn extension_that_asks_for_another_one_while_it_is_made_gets_it() {
        let store = Store::on(Arc::new(InMemory::new()), None, StoreOptions::default());
        let make = || store.extension(|| 7_u8).to_string();
        assert_eq!(*store.extension(make), "7");
        assert_eq!(*store.extension(|| 8_u8), 7, "made once");
    }
}
