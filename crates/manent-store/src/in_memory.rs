//! Streams and blobs that are kept in memory: for tests, and for programs that keep nothing.
//!
//! A stream holds the very lines that a file would, so that whatever is read looks the same and can be checked. Streams
//! only grow: whatever else changes one puts another in its place. A lease is a lock with the name of a stream, whether
//! the stream exists or not. Whoever makes, moves or removes a stream holds its lease meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use manent_log::{Body, Damage, Durability, Entry, KeyIndex, KeyRule, KeyedLine, Occurrence, VerifyReport};

use crate::blobs::{Blob, BlobStat, Blobs};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::header::HeaderNames;
use crate::key::SessionKey;
use crate::rows::{self, RowReader, Rows, StoredLine};
use crate::streams::{
    AppendOptions, Changes, Cursor, IfMissing, KnownStreams, Lock, LockMode, LockName, Maintenance,
    NewHeader, Place, Position, ProgressFn, Receipt, Repaired, Replaced, Space, StreamFilter, StreamHeader,
    StreamId, StreamParts, StreamReader, StreamStat, StreamState, StreamWriter, Streams, Target, Version,
    compare_streams,
};
use crate::sync::lock;
use crate::thread_locks::{ThreadLockGuard, ThreadLocks};

/// Streams that nothing outlives: they are gone with the last `Arc` of this.
///
/// All it promises of durability is that a record is there for every thread when its receipt is: a [`Receipt`] repeats
/// the level that was asked for, and no level survives the process.
#[derive(Default)]
pub struct InMemory {
    shared: Arc<MemoryStore>,
}

/// The state that the backend, its writers and its readers share.
#[derive(Default)]
struct MemoryStore {
    /// Every stream, wherever it is, by its space and key.
    streams: Mutex<BTreeMap<(Space, SessionKey), Vec<StoredStream>>>,
    /// Leases and locks.
    holders: Arc<ThreadLocks>,
}

/// A stream, and where it is.
#[derive(Clone)]
struct StoredStream {
    place: Place,
    /// In the trash: where it was before.
    from: Place,
    id: Arc<str>,
    /// The time it was put here, in milliseconds since 1970.
    moved_ms: i64,
    stream: Arc<MemoryStream>,
}

/// One stream. It only grows; whatever else changes it makes another one.
struct MemoryStream {
    /// Tells it from every other one.
    number: u64,
    id: Arc<str>,
    header: Option<StoredLine>,
    lines: Mutex<StreamLines>,
    /// Used by whoever has the lease.
    keys: Mutex<KeyIndex>,
}

#[derive(Default)]
struct StreamLines {
    /// The header, then the records.
    all: Vec<StoredLine>,
    bytes: u64,
    written_ms: i64,
}

impl InMemory {
    /// Makes an empty backend.
    pub fn new() -> InMemory {
        InMemory::default()
    }
}

impl MemoryStream {
    fn new(id: Arc<str>, lines: Vec<StoredLine>) -> MemoryStream {
        let header = lines.first().filter(|line| line.seq == 0).cloned();
        let number = STREAMS.fetch_add(1, Ordering::Relaxed);
        let stream = MemoryStream { number, id, header, lines: Mutex::default(), keys: Mutex::default() };
        stream.push(lines);
        stream
    }

    /// Appends lines and returns the position of the first.
    fn push(&self, lines: Vec<StoredLine>) -> u64 {
        let mut now = lock(&self.lines);
        let first = now.all.len() as u64;
        now.bytes += lines.iter().map(StoredLine::file_bytes).sum::<u64>();
        now.written_ms = now.written_ms.max(now_ms());
        now.all.extend(lines);
        first
    }

    fn state(&self) -> StreamState {
        let lines = lock(&self.lines);
        let version = Version::new([self.number, lines.all.len() as u64, 0, 0, 0]);
        StreamState { version, bytes: lines.bytes }
    }

    fn all(&self) -> Vec<StoredLine> {
        lock(&self.lines).all.clone()
    }

    fn next_seq(&self) -> u64 {
        rows::next_seq(self.header.as_ref(), lock(&self.lines).all.last())
    }

    fn line(&self, index: u64) -> Option<StoredLine> {
        lock(&self.lines).all.get(index as usize).cloned()
    }

    /// Returns the keys of the records, up to date.
    fn keys(&self, rule: &KeyRule) -> Result<MutexGuard<'_, KeyIndex>> {
        let mut keys = lock(&self.keys);
        let count = lock(&self.lines).all.len() as u64;
        rows::catch_up(&mut keys, rule, count, |index| Ok(self.line(index)))?;
        Ok(keys)
    }
}

impl StoredStream {
    fn live(stream: Arc<MemoryStream>) -> StoredStream {
        StoredStream { place: Place::Live, from: Place::Live, id: stream.id.clone(), moved_ms: 0, stream }
    }

    /// Returns whether this stream is meant. A live one may be named by its key alone: there is only one.
    fn is_at(&self, at: &StreamId) -> bool {
        let any = at.place == Place::Live && at.id.is_empty();
        self.place == at.place && (any || *self.id == *at.id)
    }

    fn stat(&self, space: Space, key: &SessionKey) -> StreamStat {
        let StreamState { version, bytes } = self.stream.state();
        let written_ms = lock(&self.stream.lines).written_ms;
        StreamStat {
            id: StreamId { space, place: self.place, key: key.clone(), id: self.id.to_string() },
            name: format!("{} {key}", self.id),
            version,
            bytes,
            modified_ms: written_ms.max(self.moved_ms),
            from: self.from,
            header_key: None,
        }
    }
}

impl MemoryStore {
    /// Finds a stream and does something with it, in the row of those of its key.
    fn with<T>(&self, at: &StreamId, act: impl FnOnce(&mut Vec<StoredStream>, usize) -> T) -> Result<T> {
        let mut streams = lock(&self.streams);
        let not_found = || Error::not_found(at, NAME);
        let all = streams.get_mut(&(at.space, at.key.clone())).ok_or_else(not_found)?;
        let index = all.iter().position(|stored| stored.is_at(at)).ok_or_else(not_found)?;
        Ok(act(all, index))
    }

    fn find(&self, at: &StreamId) -> Result<StoredStream> {
        self.with(at, |all, index| all[index].clone())
    }

    fn put(&self, space: Space, key: &SessionKey, stored: StoredStream) {
        lock(&self.streams).entry((space, key.clone())).or_default().push(stored);
    }

    /// Returns every stream of a space.
    fn stats(&self, space: Space) -> Vec<(StreamStat, StoredStream)> {
        let streams = lock(&self.streams);
        let of_space = streams.iter().filter(|((of, _), _)| *of == space);
        of_space
            .flat_map(|((_, key), all)| all.iter().map(|stored| (stored.stat(space, key), stored.clone())))
            .collect()
    }

    /// Takes the lease of a stream, which need not exist.
    fn hold(&self, at: &StreamId, wait: Duration) -> Result<ThreadLockGuard> {
        // The live stream of a key has one lease, whatever its id.
        let id = if at.place == Place::Live { "" } else { &at.id };
        let name = format!("lease {:?} {:?} {id} {}", at.space, at.place, at.key);
        let held = || {
            let (path, pid) = (rows::path_of(at), Some(std::process::id()));
            manent_log::Error::Held { path, pid }.into()
        };
        self.holders.take(&name, LockMode::Exclusive, wait).ok_or_else(held)
    }

    /// Takes the lease of a live stream that is to begin, so that nobody else begins one.
    fn hold_free(&self, key: &SessionKey, space: Space) -> Result<ThreadLockGuard> {
        let at = StreamId::live_in(space, key);
        let hint = "archive it or give it up first, or choose another key";
        let in_the_way = || Error::InTheWay { key: key.to_string(), place: Place::Live, hint };
        let held = self.hold(&at, Duration::ZERO).map_err(|_| in_the_way())?;
        if self.find(&at).is_ok() { Err(in_the_way()) } else { Ok(held) }
    }

    fn of_parts(
        &self,
        at: &StreamId,
        header: Option<&Body>,
        parts: StreamParts<'_>,
    ) -> Result<Arc<MemoryStream>> {
        let lines = rows::write_parts(at, header, parts, |of| Ok(self.find(of)?.stream.all()))?;
        let names =
            lines.first().filter(|_| header.is_some()).and_then(|line| HeaderNames::of_line(&line.bytes));
        Ok(Arc::new(MemoryStream::new(names.unwrap_or_default().id.into(), lines)))
    }
}

impl Streams for InMemory {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn supports(&self, _space: Space) -> bool {
        true
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        let (id, stream) = match at {
            Target::Id(id) => (id.clone(), self.shared.find(id)?.stream),
            Target::Name { space, place, name } => {
                let mut all = self.shared.stats(space).into_iter();
                let found = all.find(|(stat, _)| stat.id.place == place && stat.name == name);
                let (stat, stored) = found.ok_or_else(|| Error::no_name(space, place, name, NAME))?;
                (stat.id, stored.stream)
            }
        };
        Ok(Box::new(RowReader::new(MemoryRows { shared: self.shared.clone(), id, stream })?))
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        Ok(Box::new(MemoryWriter::take(&self.shared, id, missing, wait)?))
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        let mut writer = MemoryWriter::take(&self.shared, id, IfMissing::Create(new), how.wait)?;
        writer.append(records, how)
    }

    fn list(&self, filter: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        let all = self.shared.stats(filter.space).into_iter().map(|(stat, _)| stat);
        Ok(filter.arrange(all.filter(|stat| filter.takes(stat)).collect()))
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, _since: &Cursor) -> Result<Changes> {
        let now = self.shared.stats(space).into_iter().map(|(stat, _)| stat);
        let grew = |was: Version, now: Version| {
            let ([was, before, ..], [is, count, ..]) = (was.words(), now.words());
            was == is && count > before
        };
        Ok(Changes { streams: compare_streams(known, now, grew), ..Changes::default() })
    }

    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()> {
        id.check_key()?;
        let _lease = self.shared.hold_free(&id.key, id.space)?;
        let stream = self.shared.of_parts(id, Some(&header.body), parts)?;
        self.shared.put(id.space, &id.key, StoredStream::live(stream));
        Ok(())
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        let shared = &self.shared;
        id.check_place(to, NAME)?;
        shared.find(id)?;
        let _lease = shared.hold(id, wait)?;
        let found = shared.find(id)?;
        let at = StreamId { place: to, id: found.id.to_string(), ..id.clone() };
        if to == id.place {
            return Ok(at);
        }
        let _target = if to == Place::Live { Some(shared.hold_free(&id.key, id.space)?) } else { None };
        // Another program's stream has no id of its own, and another stream may have the same one.
        let new_id = match to {
            Place::Live => found.stream.id.clone(),
            _ if found.id.is_empty() || shared.find(&at).is_ok() => uuid::Uuid::now_v7().to_string().into(),
            _ => found.id.clone(),
        };
        let at = StreamId { id: new_id.to_string(), ..at };
        shared.with(id, |all, index| {
            let from = if to == Place::Trash { id.place } else { to };
            let moved_ms = now_ms();
            all[index] = StoredStream { place: to, from, moved_ms, id: new_id, stream: found.stream };
        })?;
        Ok(at)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        self.shared.find(id)?;
        let _lease = self.shared.hold(id, wait)?;
        self.shared.with(id, |all, index| drop(all.swap_remove(index)))
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.shared.find(id).map(|_| ())
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        let busy = || Error::Busy { path: NAME.into(), pid: Some(std::process::id()) };
        let held = self.shared.holders.take(&format!("{name:?}"), mode, wait).ok_or_else(busy)?;
        Ok(Box::new(held))
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

impl Maintenance for InMemory {
    fn verify(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<VerifyReport> {
        Ok(rows::verify_rows(&self.shared.find(id)?.stream.all(), progress))
    }

    fn repair(&self, id: &StreamId, _ts: &str, _wait: Duration) -> Result<Repaired> {
        // Nothing tears here: a record is there as a whole or not at all.
        self.shared.find(id).map(|_| Repaired::default())
    }

    fn pack(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<()> {
        let StreamState { bytes, .. } = self.shared.find(id)?.stream.state();
        progress(bytes, bytes);
        Ok(())
    }
}

impl fmt::Debug for InMemory {
    /// Says nothing of what it holds: that is content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").finish_non_exhaustive()
    }
}

/// A stream being read.
struct MemoryRows {
    shared: Arc<MemoryStore>,
    id: StreamId,
    stream: Arc<MemoryStream>,
}

impl Rows for MemoryRows {
    fn count(&self) -> Result<u64> {
        Ok(lock(&self.stream.lines).all.len() as u64)
    }

    fn line(&self, index: u64) -> Result<Option<StoredLine>> {
        Ok(self.stream.line(index))
    }

    fn first_from(&self, seq: u64) -> Result<u64> {
        Ok(lock(&self.stream.lines).all.partition_point(|line| line.seq < seq) as u64)
    }

    fn is_current(&self) -> Result<bool> {
        Ok(self.shared.find(&self.id).is_ok_and(|stored| Arc::ptr_eq(&stored.stream, &self.stream)))
    }

    fn number(&self) -> u64 {
        self.stream.number
    }
}

impl fmt::Debug for MemoryRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRows").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The right to write a stream.
struct MemoryWriter {
    shared: Arc<MemoryStore>,
    at: StreamId,
    stream: Arc<MemoryStream>,
    /// True if the stream has no record yet, so that nobody may see it.
    is_new: bool,
    _lease: ThreadLockGuard,
}

impl MemoryWriter {
    fn take(
        shared: &Arc<MemoryStore>,
        at: &StreamId,
        missing: IfMissing<'_>,
        wait: Duration,
    ) -> Result<MemoryWriter> {
        at.check_key()?;
        let lease = shared.hold(at, wait)?;
        let (stream, is_new) = match (shared.find(at), missing) {
            (Ok(stored), _) => (stored.stream, false),
            (Err(_), IfMissing::Create(new)) if at.place == Place::Live && at.id.is_empty() => {
                let StreamHeader { id, body } = new();
                (Arc::new(MemoryStream::new(id.into(), vec![StoredLine::record(at, 0, &body)?])), true)
            }
            (Err(e), _) => return Err(e),
        };
        Ok(MemoryWriter { shared: shared.clone(), at: at.clone(), stream, is_new, _lease: lease })
    }
}

impl StreamWriter for MemoryWriter {
    fn append(&mut self, bodies: &[Body], how: &AppendOptions<'_>) -> Result<Vec<Receipt>> {
        self.at.check_live()?;
        let keys = self.stream.keys(how.keys)?;
        let mut planned = rows::plan_append(&self.at, bodies, how, self.next_seq(), &keys)?;
        let lines = std::mem::take(&mut planned.lines);
        let begins = self.is_new && !lines.is_empty();
        let first = self.stream.push(lines);
        if begins {
            self.shared.put(self.at.space, &self.at.key, StoredStream::live(self.stream.clone()));
            self.is_new = false;
        }
        Ok(planned.receipts(&self.stream.id, first))
    }

    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        self.at.check_live()?;
        let place = self.stream.keys(rule)?.find(key, which);
        Ok(place.and_then(|place| {
            let bytes = self.stream.line(place.offset)?.bytes.to_vec();
            Some(KeyedLine { seq: place.seq, offset: place.offset, bytes, is_kept: true })
        }))
    }

    fn keep_from(&mut self, _position: Position) -> Result<()> {
        Ok(())
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        _left_out: &[Damage],
    ) -> Result<Replaced> {
        let whole = self.shared.of_parts(&self.at, header, parts)?;
        let bytes = whole.state().bytes;
        // Another stream in its place: whoever reads the old one goes on reading that, and hears of it.
        self.shared.with(&self.at, |all, index| {
            let stored = &mut all[index];
            if stored.place == Place::Live {
                stored.id = whole.id.clone();
            }
            stored.stream = whole;
        })?;
        Ok(Replaced { bytes, set_aside: None })
    }

    fn acknowledge(&mut self, _ts: &str) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    fn next_seq(&self) -> u64 {
        self.stream.next_seq()
    }

    fn id(&self) -> &Arc<str> {
        &self.stream.id
    }

    fn header(&self) -> Option<Entry<'_>> {
        self.stream.header.as_ref().filter(|_| !self.is_new).map(|line| line.entry(0))
    }

    fn is_new(&self) -> bool {
        self.is_new
    }

    fn is_native(&self) -> bool {
        self.stream.header.is_some()
    }

    fn is_finished(&self) -> bool {
        false
    }
}

impl fmt::Debug for MemoryWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWriter").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Blobs that are gone with the last `Arc` of this.
#[derive(Default)]
pub struct InMemoryBlobs {
    state: Mutex<BlobState>,
    locks: Arc<ThreadLocks>,
}

#[derive(Default)]
struct BlobState {
    folders: BTreeSet<String>,
    blobs: BTreeMap<String, MemoryBlob>,
    /// The number of times that a blob was put or appended to.
    changes: u64,
}

/// One state of a blob.
#[derive(Clone)]
struct MemoryBlob {
    bytes: Arc<[u8]>,
    version: Version,
    modified_ms: i64,
}

impl InMemoryBlobs {
    /// Makes an empty place for blobs.
    pub fn new() -> InMemoryBlobs {
        InMemoryBlobs::default()
    }
}

impl BlobState {
    fn set(&mut self, name: &str, bytes: Arc<[u8]>) -> io::Result<()> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !self.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.changes += 1;
        let version = Version::new([self.changes, 0, 0, 0, 0]);
        self.blobs.insert(name.to_owned(), MemoryBlob { bytes, version, modified_ms: now_ms() });
        Ok(())
    }
}

impl Blobs for InMemoryBlobs {
    fn name(&self, folder: &str) -> String {
        format!("memory/{folder}")
    }

    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Blob>>> {
        Ok(lock(&self.state).blobs.get(name).map(|blob| Box::new(blob.clone()) as Box<dyn Blob>))
    }

    fn stat(&self, name: &str) -> io::Result<Option<BlobStat>> {
        let stat = |blob: &MemoryBlob| BlobStat {
            version: blob.version,
            bytes: blob.len(),
            modified_ms: blob.modified_ms,
            is_own: true,
        };
        Ok(lock(&self.state).blobs.get(name).map(stat))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        lock(&self.state).set(name, bytes.into())
    }

    fn put_all(&self, blobs: &[(&str, &[u8])]) -> io::Result<()> {
        let mut state = lock(&self.state);
        blobs.iter().try_for_each(|(name, bytes)| state.set(name, (*bytes).into()))
    }

    fn append(&self, name: &str, bytes: &[u8], _durability: Durability) -> io::Result<()> {
        let mut state = lock(&self.state);
        let before = state.blobs.get(name).map(|blob| blob.bytes.to_vec()).unwrap_or_default();
        state.set(name, [&before, bytes].concat().into())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let inside = |name: &String| match name.rsplit_once('/') {
            Some((of, name)) => (of == folder).then(|| name.to_owned()),
            None => folder.is_empty().then(|| name.clone()),
        };
        Ok(lock(&self.state).blobs.keys().filter_map(inside).collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        lock(&self.state).blobs.remove(name);
        Ok(())
    }

    fn sync(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, folder: &str, name: &str, wait: Duration) -> io::Result<Option<Lock>> {
        lock(&self.state).folders.insert(folder.to_owned());
        let held = self.locks.take(&format!("{folder}/{name}"), LockMode::Exclusive, wait);
        Ok(held.map(|held| Box::new(held) as Lock))
    }

    fn wait_for(&self, folder: &str, name: &str, wait: Duration) -> io::Result<bool> {
        Ok(self.locks.wait_until_free(&format!("{folder}/{name}"), wait))
    }

    fn is_trustworthy(&self, folder: &str) -> io::Result<bool> {
        if lock(&self.state).folders.contains(folder) {
            Ok(true)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

impl fmt::Debug for InMemoryBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryBlobs").finish_non_exhaustive()
    }
}

impl Blob for MemoryBlob {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn version(&self) -> Version {
        self.version
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl fmt::Debug for MemoryBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBlob").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The number of streams that were made, in all backends of this process.
static STREAMS: AtomicU64 = AtomicU64::new(1);

const NAME: &str = "memory";
