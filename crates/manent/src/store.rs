//! A store of sessions: what people embed.
//!
//! The library has no terminal, no environment and no home directory: whoever embeds it says where the store is. This
//! file opens, writes, reads and lists; `lifecycle.rs` archives and deletes, `fork.rs` forks, `reading.rs` reads
//! through forks. Where records lie is the [`Backend`]'s business.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use manent_log::frame::Reason;
use manent_log::fs::Disk;
use manent_log::{Body, Damage, Found, RealDisk, Report, SetAside, Trust};

use crate::backend::{
    Address, Backend, Header, Lease, Listed, Place, Position, Progress, Receipt, Repaired, Shelf, Start,
    Terms, Which,
};
use crate::error::{Among, Error, Result};
use crate::files::Files;
use crate::index::{Index, Kept, Subject};
use crate::key::SessionKey;
use crate::memory;
use crate::meta::{Author, Parent};
use crate::reading::Reader;
use crate::runs;
use crate::transcript::Transcript;
use crate::{Durability, Expect, clock};

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
    backend: Arc<dyn Backend>,
    options: Arc<StoreOptions>,
    index: Arc<Index>,
    remembered: Arc<Remembered>,
}

/// What else is kept beside the sessions of one store, each made by whoever asks first.
#[derive(Debug, Default)]
struct Remembered {
    memory: OnceLock<Arc<memory::Core>>,
    inbox: OnceLock<Arc<memory::Core>>,
    runs: OnceLock<Arc<runs::Core>>,
}

/// How a store is used.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// How long to wait for another writer, or for somebody who moves sessions.
    pub wait: Duration,
    /// Which file systems to trust.
    pub trust: Trust,
    /// Who writes, for the header: a name and a version.
    pub app: String,
    /// The working directory to note in the header of a new session.
    pub cwd: Option<String>,
    /// Where to keep the index of a store that has no place for it itself: a directory of other programs' sessions, or
    /// a backend that is no disk. Without this, such an index lives in memory. A directory for this one store.
    pub index: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        let app = concat!("manent/", env!("CARGO_PKG_VERSION")).to_owned();
        StoreOptions { wait: Duration::from_secs(5), trust: Trust::LocalOnly, app, cwd: None, index: None }
    }
}

impl Store {
    /// Opens the store in a directory of this machine. Nothing is created before something is written.
    pub fn open(home: impl Into<PathBuf>) -> Result<Store> {
        Store::open_with(home, StoreOptions::default())
    }

    /// As [`Store::open`], with options.
    pub fn open_with(home: impl Into<PathBuf>, options: StoreOptions) -> Result<Store> {
        let files = Files::open_on(RealDisk::shared(), home.into())?.trusting(options.trust);
        Ok(Store::new(Arc::new(files), options, true, Subject::TURNS))
    }

    /// Opens a store on any disk.
    pub fn open_on(disk: Arc<dyn Disk>, home: PathBuf, options: StoreOptions) -> Result<Store> {
        let files = Files::open_on(disk, home)?.trusting(options.trust);
        Ok(Store::on(Arc::new(files), options))
    }

    /// A store on any backend.
    pub fn on(backend: Arc<dyn Backend>, options: StoreOptions) -> Store {
        Store::new(backend, options, false, Subject::TURNS)
    }

    /// A store that is searched, and in which other things are found than turns.
    pub(crate) fn searching(backend: Arc<dyn Backend>, options: StoreOptions, subject: Subject) -> Store {
        Store::new(backend, options, false, subject)
    }

    /// `in_background`: a thread may be begun that keeps the index near what is written.
    fn new(backend: Arc<dyn Backend>, options: StoreOptions, in_background: bool, subject: Subject) -> Store {
        let own = backend.shelf();
        let elsewhere = own.is_none().then_some(options.index.as_ref()).flatten();
        let elsewhere =
            elsewhere.map(|dir| Shelf { disk: RealDisk::shared(), dir: dir.clone(), within: None });
        let kept = own.or(elsewhere).map(Kept::new);
        let index = Arc::new(Index::new(kept, in_background, options.wait, subject));
        Store { backend, options: Arc::new(options), index, remembered: Arc::default() }
    }

    /// What it stands on.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// For whoever outlives it: see [`Store::of_parts`].
    pub(crate) fn parts(&self) -> (&Arc<dyn Backend>, &Arc<StoreOptions>, &Arc<Index>) {
        (&self.backend, &self.options, &self.index)
    }

    pub(crate) fn of_parts(
        backend: Arc<dyn Backend>,
        options: Arc<StoreOptions>,
        index: Arc<Index>,
    ) -> Store {
        Store { backend, options, index, remembered: Arc::default() }
    }

    /// What the memories of this store share, of one of their files; made by whoever asks first.
    pub(crate) fn memory_core(
        &self,
        file: memory::File,
        make: impl FnOnce() -> Result<memory::Core>,
    ) -> Result<Arc<memory::Core>> {
        let core = match file {
            memory::File::Memory => &self.remembered.memory,
            memory::File::Inbox => &self.remembered.inbox,
        };
        if let Some(core) = core.get() {
            return Ok(core.clone());
        }
        let fresh = Arc::new(make()?);
        Ok(core.get_or_init(|| fresh).clone())
    }

    /// What the runs of this store share; made by whoever asks first.
    pub(crate) fn runs_core(&self, make: impl FnOnce() -> runs::Core) -> Arc<runs::Core> {
        self.remembered.runs.get_or_init(|| Arc::new(make())).clone()
    }

    pub(crate) fn app(&self) -> &str {
        &self.options.app
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    pub(crate) fn wait(&self) -> Duration {
        self.options.wait
    }

    /// Opens a session for writing: the live one of this key, or a new one. Nobody else can write it until the
    /// [`Session`] is dropped; hold it from a question to the end of its answer. For single records there is
    /// [`Store::append`].
    pub fn session(&self, key: &SessionKey) -> Result<Session> {
        let lease = self.backend.lease(key, Some(&|| self.header(key, None)), self.options.wait)?;
        self.index.written(self, key);
        Ok(Session { key: key.clone(), lease })
    }

    /// As [`Store::session`], for one that must exist.
    pub fn existing_session(&self, key: &SessionKey) -> Result<Session> {
        let lease = self.backend.lease(key, None, self.options.wait)?;
        self.index.written(self, key);
        Ok(Session { key: key.clone(), lease })
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
        let terms = Terms { durability, expect, wait: self.options.wait };
        let receipts = self.backend.append(key, &|| self.header(key, None), bodies, &terms)?;
        self.index.written(self, key);
        Ok(receipts)
    }

    /// Whether there is a live session of this key.
    pub fn exists(&self, key: &SessionKey) -> Result<bool> {
        Ok(self.live(key)?.is_some())
    }

    /// Reads the whole live session of a key into memory. One that was never written is empty.
    pub fn load(&self, key: &SessionKey) -> Result<Transcript> {
        self.load_from(key, Start::First)
    }

    /// Reads the last turns of the live session of a key. Costs the tail, not the length.
    pub fn tail(&self, key: &SessionKey, turns: u64) -> Result<Transcript> {
        self.load_from(key, Start::Tail { count: turns, before: None })
    }

    /// Reads the live session of a key as a stream, whatever its length. One that was never written is empty, and can
    /// be waited for ([`Reader::wait`]) as one that grows.
    pub fn stream(&self, key: &SessionKey, start: Start) -> Result<Reader> {
        match self.read(&Address::live(key), start) {
            Err(e) if e.is_not_found() => Ok(Reader::awaiting(self.clone(), key.clone(), start)),
            read => read,
        }
    }

    /// Reads a whole session into memory, wherever it is.
    pub fn load_at(&self, at: &Address) -> Result<Transcript> {
        Transcript::load(&mut self.read(at, Start::First)?, 0)
    }

    fn load_from(&self, key: &SessionKey, start: Start) -> Result<Transcript> {
        let bytes = match start {
            Start::First => self.live(key)?.map_or(0, |listed| listed.bytes),
            _ => 0,
        };
        Transcript::load(&mut self.stream(key, start)?, bytes)
    }

    /// The live session of a key.
    pub fn live(&self, key: &SessionKey) -> Result<Option<Listed>> {
        Ok(self.backend.list(Place::Live, Which::Key(key))?.into_iter().next())
    }

    /// The sessions of a place, in no order.
    pub fn list(&self, place: Place) -> Result<Vec<Listed>> {
        self.backend.list(place, Which::All)
    }

    /// The sessions of a key in a place, in no order.
    pub fn list_of(&self, place: Place, key: &SessionKey) -> Result<Vec<Listed>> {
        self.backend.list(place, Which::Key(key))
    }

    /// The session that a key means to a reader: the live one, else the newest that was archived.
    pub fn find(&self, key: &SessionKey) -> Result<Listed> {
        for _ in 0..LOOKS {
            if let Some(listed) = self.live(key)? {
                return Ok(listed);
            }
            if let Some(listed) = self.newest(Place::Archive, key)? {
                return Ok(listed);
            }
        }
        Err(self.not_found(key.as_str(), Among::All))
    }

    /// The session of a key in a place; of several, the one that was put there last.
    pub fn find_in(&self, place: Place, key: &SessionKey) -> Result<Listed> {
        self.newest(place, key)?.ok_or_else(|| self.not_found(key.as_str(), Among::Place(place)))
    }

    /// The session whose id begins so, wherever it is.
    pub fn find_id(&self, id: &str) -> Result<Listed> {
        let mut found: Vec<Listed> = Vec::new();
        for _ in 0..LOOKS {
            for place in Place::ALL {
                found.extend(self.backend.list(place, Which::Id(id))?);
                if let Some(at) = found.iter().position(|listed| listed.address.id == id) {
                    return Ok(found.swap_remove(at));
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        let Some(first) = found.pop() else { return Err(self.not_found(&format!("@{id}"), Among::All)) };
        if found.iter().any(|other| other.address.id != first.address.id) {
            return Err(Error::Ambiguous { id: id.to_owned() });
        }
        Ok(found.into_iter().next().unwrap_or(first))
    }

    fn newest(&self, place: Place, key: &SessionKey) -> Result<Option<Listed>> {
        Ok(self
            .list_of(place, key)?
            .into_iter()
            .max_by(|a, b| (a.modified_ms, &a.address.id).cmp(&(b.modified_ms, &b.address.id))))
    }

    pub(crate) fn not_found(&self, name: &str, among: Among) -> Error {
        Error::NotFound { name: name.to_owned(), among, store: self.backend.name() }
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
    pub fn verify(&self, at: &Address, progress: Progress<'_>) -> Result<Report> {
        let mut report = self.backend.verify(at, progress)?;
        report.damage.splice(0..0, self.check_parent(at)?);
        let shorter = self.shorter(at)?;
        report.damage.extend(shorter.map(|damage| Found { damage, acknowledged: false }));
        Ok(report)
    }

    /// What a session lacks that it had when the catalogue last saw it.
    fn shorter(&self, at: &Address) -> Result<Option<Damage>> {
        let Some((bytes, seq)) = self.once(at)? else { return Ok(None) };
        let same = |listed: &&Listed| at.id.is_empty() || listed.address.id == at.id;
        let listed = self.backend.list(at.place, Which::Key(&at.key))?;
        let offset = listed.iter().find(same).map_or(0, |listed| listed.bytes);
        let length = bytes.saturating_sub(offset);
        Ok(Some(Damage { offset, length, reason: Reason::Shorter, lines: 0, seq }))
    }

    /// Sets a torn end of the live session of a key aside, and acknowledges its damage.
    pub fn repair(&self, key: &SessionKey) -> Result<Repaired> {
        let at = Address::live(key);
        let shorter = self.shorter(&at)?;
        let mut repaired = self.backend.repair(key, &clock::now(), self.options.wait)?;
        if let Some(shorter) = shorter {
            self.index.acknowledge(self, &at)?;
            repaired.acknowledged.push(shorter);
        }
        Ok(repaired)
    }

    pub(crate) fn header(&self, key: &SessionKey, parent: Option<&Parent>) -> Header {
        Author { app: &self.options.app, cwd: self.options.cwd.as_deref() }.header(key, parent)
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
    key: SessionKey,
    lease: Box<dyn Lease>,
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
        self.lease.append(bodies, durability, expect)
    }

    /// Makes the record at a position, and all behind it, survive power loss, whoever wrote it, and even if a sync of
    /// it failed; see [`Lease::keep_from`].
    pub fn keep_from(&mut self, position: Position) -> Result<()> {
        self.lease.keep_from(position)
    }

    /// Its key.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Its id; empty in other programs' files.
    pub fn id(&self) -> &str {
        self.lease.id()
    }

    /// The number that the next record will get, if nobody writes around the lease.
    pub fn next_seq(&self) -> u64 {
        self.lease.next_seq()
    }

    /// What opening it had to cut off its end, torn by a crash, and where that is kept.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.lease.set_aside()
    }

    /// Under how many names it can be reached: with more than one, somebody else reads along.
    pub fn names(&self) -> Result<u64> {
        self.lease.names()
    }
}

/// How often to look for a session that is nowhere: between two looks it may have moved to where we had looked before.
pub(crate) const LOOKS: u32 = 3;

/// A backend that takes a record without giving a receipt breaks its contract; no caller should see that as success.
fn nothing_taken(key: &SessionKey) -> Error {
    Error::Backend(format!("the backend gave no receipt for a record of {key:?}").into())
}
