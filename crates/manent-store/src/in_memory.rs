//! A backend that keeps everything in memory: for tests, and for programs that keep nothing.
//!
//! A stream holds the very lines that a file would, so that whatever is read looks the same and can be checked. A
//! record's position is its place in the row of lines; the header's is 0. Streams only grow: whatever else changes one
//! puts another in its place. A lease is the name of a stream in a set, whether the stream exists or not.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use manent_log::frame::{self, RECORD_BYTES_MAX, Reason, SEQ_MAX};
use manent_log::{
    Body, Change, Damage, Durability, End, Entry, Expect, Fate, FileKind, Found, Item, Report, TailState,
};

use crate::error::{Error, Result};
use crate::header::HeaderNames;
use crate::key::SessionKey;
use crate::streams::{
    Append, ChangeKind, Changes, Cursor, Filter, Header, IfMissing, KnownStreams, Lock, LockGuard, LockMode,
    LockName, Maintenance, NewHeader, Part, Parts, Place, Position, Progress, Receipt, Repaired, Replaced,
    Seek, Seen, Space, StreamChange, StreamId, StreamReader, StreamStat, StreamWriter, Streams, Target,
    Version, Which,
};
use crate::sync::lock;

/// Streams that nothing outlives: they are gone with the last `Arc` of this.
///
/// All it promises of durability is that a record is there for every thread when its receipt is: a [`Receipt`] repeats
/// the level that was asked for, and no level survives the process.
#[derive(Default)]
pub struct InMemory {
    shared: Arc<Shared>,
}

/// What the backend, its writers and its readers share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A lease or a lock was given back.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    /// Every stream, wherever it is, by its space and key.
    streams: BTreeMap<(Space, SessionKey), Vec<Kept>>,
    /// How leases and locks are held, by their names: so many shared holders, or one alone.
    held: HashMap<String, Holders>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holders {
    Shared(u64),
    Alone,
}

/// A stream, and where it is.
#[derive(Clone)]
struct Kept {
    place: Place,
    /// In the trash: where it was before.
    from: Place,
    id: Arc<str>,
    /// When it was put here, in milliseconds since 1970.
    moved_ms: i64,
    stream: Arc<Stream>,
}

/// One stream. It only grows; whatever else changes it makes another one.
struct Stream {
    /// Tells it from every other one.
    number: u64,
    id: Arc<str>,
    /// The header, if it has one.
    header: Option<Line>,
    /// The number of the first record: of a fork, the one after what it shares.
    first_seq: u64,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    /// The header, then the records.
    all: Vec<Line>,
    bytes: u64,
    written_ms: i64,
}

/// A line as a file holds it, without its newline. Readers share it.
#[derive(Clone)]
struct Line {
    seq: u64,
    bytes: Arc<[u8]>,
    verified: bool,
}

impl InMemory {
    /// Makes an empty backend.
    pub fn new() -> InMemory {
        InMemory::default()
    }

    /// Waits until nobody writes a stream, and looks only then where it is: whoever was waited for may have moved
    /// everything. Nobody can write it as long as the state is held.
    fn unleased(&self, at: &StreamId, wait: Duration) -> Result<MutexGuard<'_, State>> {
        lock(&self.shared.state).find(at)?;
        let name = lease_name(at);
        let (state, is_held) = self.shared.wait_while(wait, |state| state.held.contains_key(&name));
        if is_held {
            return Err(held(at));
        }
        state.find(at)?;
        Ok(state)
    }

    fn stream(&self, at: &StreamId) -> Result<Arc<Stream>> {
        Ok(lock(&self.shared.state).find(at)?.stream.clone())
    }
}

impl fmt::Debug for InMemory {
    /// Says nothing of what it holds: that is content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").finish_non_exhaustive()
    }
}

impl Shared {
    /// Waits at most so long for something to end; returns whether it goes on still.
    fn wait_while(&self, wait: Duration, goes_on: impl Fn(&State) -> bool) -> (MutexGuard<'_, State>, bool) {
        let state = lock(&self.state);
        let waited = self.freed.wait_timeout_while(state, wait, |state| goes_on(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, timeout.timed_out())
    }

    /// Takes a lease or a lock; `None` if others hold it for as long as `wait`.
    fn hold(self: &Arc<Shared>, name: String, mode: LockMode, wait: Duration) -> Option<Holding> {
        let excludes = |state: &State| match (state.held.get(&name), mode) {
            (None, _) | (Some(Holders::Shared(_)), LockMode::Shared) => false,
            (Some(Holders::Alone), _) | (Some(Holders::Shared(_)), LockMode::Exclusive) => true,
        };
        let (mut state, is_held) = self.wait_while(wait, excludes);
        if is_held {
            return None;
        }
        let holders = match (state.held.get(&name), mode) {
            (Some(Holders::Shared(count)), _) => Holders::Shared(count + 1),
            (_, LockMode::Shared) => Holders::Shared(1),
            (_, LockMode::Exclusive) => Holders::Alone,
        };
        state.held.insert(name.clone(), holders);
        Some(Holding { shared: self.clone(), name })
    }
}

/// A lease or a lock, until it is dropped, also by a panic.
struct Holding {
    shared: Arc<Shared>,
    name: String,
}

impl LockGuard for Holding {}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Holding")
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        match state.held.remove(&self.name) {
            Some(Holders::Shared(count)) if count > 1 => {
                state.held.insert(self.name.clone(), Holders::Shared(count - 1));
            }
            _ => {}
        }
        drop(state);
        self.shared.freed.notify_all();
    }
}

impl Kept {
    fn live(stream: Arc<Stream>) -> Kept {
        Kept { place: Place::Live, from: Place::Live, id: stream.id.clone(), moved_ms: 0, stream }
    }

    /// A live stream may be meant by its key alone: there is only one.
    fn is_at(&self, at: &StreamId) -> bool {
        let any = at.place == Place::Live && at.id.is_empty();
        self.place == at.place && (any || *self.id == *at.id)
    }

    fn name(&self, key: &SessionKey) -> String {
        format!("{} {key}", self.id)
    }

    fn stat(&self, space: Space, key: &SessionKey) -> StreamStat {
        let Seen { version, bytes } = self.stream.seen();
        let written_ms = lock(&self.stream.lines).written_ms;
        StreamStat {
            id: StreamId { space, place: self.place, key: key.clone(), id: self.id.to_string() },
            name: self.name(key),
            version,
            bytes,
            modified_ms: written_ms.max(self.moved_ms),
            from: self.from,
            header_key: None,
        }
    }
}

impl State {
    fn of_key(&self, space: Space, key: &SessionKey) -> &[Kept] {
        self.streams.get(&(space, key.clone())).map(Vec::as_slice).unwrap_or_default()
    }

    fn find(&self, at: &StreamId) -> Result<&Kept> {
        self.of_key(at.space, &at.key).iter().find(|kept| kept.is_at(at)).ok_or_else(|| not_found(at))
    }

    fn in_space(&self, space: Space) -> impl Iterator<Item = (&SessionKey, &Kept)> {
        let streams = self.streams.iter().filter(move |((of, _), _)| *of == space);
        streams.flat_map(|((_, key), all)| all.iter().map(move |kept| (key, kept)))
    }

    fn take_out(&mut self, at: &StreamId) -> Result<Kept> {
        let all = self.streams.entry((at.space, at.key.clone())).or_default();
        let found = all.iter().position(|kept| kept.is_at(at)).ok_or_else(|| not_found(at))?;
        Ok(all.swap_remove(found))
    }

    fn put(&mut self, space: Space, key: &SessionKey, kept: Kept) {
        self.streams.entry((space, key.clone())).or_default().push(kept);
    }

    /// Refuses where a stream is, and for the live place also where one may begin at any moment.
    fn check_free(&self, at: &StreamId) -> Result<()> {
        let mut same_place = self.of_key(at.space, &at.key).iter().filter(|kept| kept.place == at.place);
        let (taken, hint) = match at.place {
            Place::Live => {
                let is_leased = self.held.contains_key(&lease_name(at));
                let hint = "archive it or give it up first, or choose another key";
                (same_place.next().is_some() || is_leased, hint)
            }
            Place::Archive | Place::Trash => {
                (same_place.any(|kept| *kept.id == *at.id), "it has the same id; give that one up first")
            }
        };
        let in_the_way = || Error::InTheWay { key: at.key.to_string(), place: at.place, hint };
        if taken { Err(in_the_way()) } else { Ok(()) }
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
        let state = lock(&self.shared.state);
        let (id, stream) = match at {
            Target::Id(id) => (id.clone(), state.find(id)?.stream.clone()),
            Target::Name { space, place, name } => {
                let is_it =
                    |(key, kept): &(&SessionKey, &Kept)| kept.place == place && kept.name(key) == name;
                let found = state.in_space(space).find(is_it);
                let missing = || Error::NotFound {
                    name: name.to_owned(),
                    space,
                    place: Some(place),
                    store: NAME.to_owned(),
                };
                let (key, kept) = found.ok_or_else(missing)?;
                let id = StreamId { space, place, key: key.clone(), id: kept.id.to_string() };
                (id, kept.stream.clone())
            }
        };
        let shared = self.shared.clone();
        let reader =
            MemoryReader { shared, stream, id, next: 0, from_seq: 0, until: u64::MAX, current: None };
        Ok(Box::new(reader))
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        Ok(Box::new(MemoryWriter::take(&self.shared, id, missing, wait)?))
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &Append,
    ) -> Result<Vec<Receipt>> {
        let mut writer = MemoryWriter::take(&self.shared, id, IfMissing::Create(new), how.wait)?;
        writer.append(records, how.durability, how.expect)
    }

    fn list(&self, filter: &Filter<'_>) -> Result<Vec<StreamStat>> {
        let state = lock(&self.shared.state);
        let wanted = |(key, kept): &(&SessionKey, &Kept)| {
            kept.place == filter.place
                && match filter.which {
                    Which::All => true,
                    Which::Key(wanted) => *key == wanted,
                    Which::Id(id) => kept.id.starts_with(id),
                    Which::Name(name) => kept.name(key) == name,
                }
        };
        let found = state.in_space(filter.space).filter(wanted);
        let mut all: Vec<StreamStat> = found.map(|(key, kept)| kept.stat(filter.space, key)).collect();
        if let Some(count) = filter.newest {
            all.sort_unstable_by(|a, b| (b.modified_ms, &b.id.key).cmp(&(a.modified_ms, &a.id.key)));
            all.truncate(count);
        }
        Ok(all)
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, _since: &Cursor) -> Result<Changes> {
        let state = lock(&self.shared.state);
        let mut now: HashMap<(Place, String), Seen> = state
            .in_space(space)
            .map(|(key, kept)| ((kept.place, kept.name(key)), kept.stream.seen()))
            .collect();
        let mut streams = Vec::new();
        known.each(&mut |place, name, was| {
            let name = name.to_owned();
            let kind = match now.remove(&(place, name.clone())) {
                None => ChangeKind::Gone,
                Some(seen) if seen.version == was => return,
                Some(seen) => {
                    let (now, was) = (seen.version.words(), was.words());
                    let grew = now[0] == was[0] && now[1] > was[1];
                    if grew { ChangeKind::Appended(seen) } else { ChangeKind::Rewritten(seen) }
                }
            };
            streams.push(StreamChange { place, name, kind });
        });
        let new = now.into_iter().map(|((place, name), seen)| StreamChange {
            place,
            name,
            kind: ChangeKind::New(seen),
        });
        streams.extend(new);
        Ok(Changes { streams, cursor: Cursor::default() })
    }

    fn create(&self, id: &StreamId, header: &Header, parts: Parts<'_>) -> Result<()> {
        let at = StreamId { id: header.id.clone(), ..id.clone() };
        lock(&self.shared.state).check_free(&at)?;
        // Without the lock: the parts may come from a stream of this very backend.
        let stream = Stream::of_parts(&self.shared, header.id.as_str().into(), Some(&header.body), parts)?;
        let mut state = lock(&self.shared.state);
        state.check_free(&at)?;
        state.put(id.space, &id.key, Kept::live(Arc::new(stream)));
        Ok(())
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        let mut state = self.unleased(id, wait)?;
        let at = StreamId { place: to, id: state.find(id)?.id.to_string(), ..id.clone() };
        if to != id.place {
            state.check_free(&at)?;
            let from = if to == Place::Trash { id.place } else { to };
            let kept = state.take_out(id)?;
            state.put(id.space, &id.key, Kept { place: to, from, moved_ms: now_ms(), ..kept });
        }
        Ok(at)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        self.unleased(id, wait)?.take_out(id).map(|_| ())
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.stream(id).map(|_| ())
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        let busy = || Error::Busy { path: NAME.into(), pid: Some(std::process::id()) };
        let held = self.shared.hold(format!("lock {name:?}"), mode, wait).ok_or_else(busy)?;
        Ok(Box::new(held))
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

impl Maintenance for InMemory {
    fn verify(&self, id: &StreamId, progress: Progress<'_>) -> Result<Report> {
        Ok(self.stream(id)?.verify(progress))
    }

    fn repair(&self, id: &StreamId, _ts: &str, _wait: Duration) -> Result<Repaired> {
        // Nothing tears here: a record is there as a whole or not at all.
        self.stream(id).map(|_| Repaired::default())
    }

    fn pack(&self, id: &StreamId, progress: Progress<'_>) -> Result<()> {
        let Seen { bytes, .. } = self.stream(id)?.seen();
        progress(bytes, bytes);
        Ok(())
    }
}

impl Line {
    fn record(seq: u64, body: &Body) -> Result<Line> {
        let mut line = frame::line(seq, body);
        if line.len() > RECORD_BYTES_MAX {
            let (bytes, max) = (line.len() as u64, RECORD_BYTES_MAX as u64);
            return Err(manent_log::Error::TooLarge { bytes, max }.into());
        }
        line.pop();
        Ok(Line { seq, bytes: line.into(), verified: true })
    }

    fn entry(&self, index: usize) -> Entry<'_> {
        Entry { seq: self.seq, offset: index as u64, bytes: &self.bytes, verified: self.verified }
    }
}

impl Lines {
    fn push(&mut self, line: Line) {
        self.bytes += line.bytes.len() as u64 + 1;
        self.all.push(line);
    }

    /// Where the first line with at least this number is.
    fn from(&self, seq: u64) -> usize {
        self.all.partition_point(|line| line.seq < seq)
    }
}

impl Stream {
    /// Makes a stream that has no records.
    fn new(id: Arc<str>, header: Option<&Body>) -> Result<Stream> {
        let header = header.map(|body| Line::record(0, body)).transpose()?;
        let first_seq = header.as_ref().map_or(1, |line| manent_log::Header::parse(&line.bytes).first_seq);
        let mut lines = Lines { written_ms: now_ms(), ..Lines::default() };
        header.iter().for_each(|line| lines.push(line.clone()));
        let number = STREAMS.fetch_add(1, Ordering::Relaxed);
        Ok(Stream { number, id, header, first_seq, lines: Mutex::new(lines) })
    }

    fn of_parts(shared: &Shared, id: Arc<str>, header: Option<&Body>, parts: Parts<'_>) -> Result<Stream> {
        let stream = Stream::new(id, header)?;
        for part in parts {
            match part? {
                Part::Record { seq, body } => {
                    body.check_size()?;
                    lock(&stream.lines).push(Line::record(seq, &body)?);
                }
                Part::Line(bytes) => {
                    let mut lines = lock(&stream.lines);
                    let seq = lines.all.last().map_or(1, |line| line.seq + 1);
                    lines.push(Line { seq, bytes: bytes.into(), verified: false });
                }
                Part::Lines { of, upto } => {
                    let source = lock(&shared.state).find(&of)?.stream.clone();
                    let source = lock(&source.lines).all.clone();
                    let mut lines = lock(&stream.lines);
                    let upto = upto.unwrap_or(u64::MAX);
                    let copied = source.into_iter().filter(|line| line.seq > 0 && line.seq <= upto);
                    copied.for_each(|line| lines.push(line));
                }
            }
        }
        Ok(stream)
    }

    fn next_seq(&self) -> u64 {
        match lock(&self.lines).all.last() {
            Some(line) if line.seq > 0 => line.seq + 1,
            _ => self.first_seq,
        }
    }

    fn seen(&self) -> Seen {
        let lines = lock(&self.lines);
        let version = Version::new([self.number, lines.all.len() as u64, 0, 0, 0]);
        Seen { version, bytes: lines.bytes }
    }

    /// Appends records and returns the position of the first. Called by whoever holds the lease.
    fn append(&self, at: &StreamId, bodies: &[&Body]) -> Result<u64> {
        // All of them are made before any is put down.
        let mut made = Vec::with_capacity(bodies.len());
        for (seq, body) in (self.next_seq()..).zip(bodies) {
            body.check_size()?;
            if seq > SEQ_MAX {
                return Err(manent_log::Error::Full { path: path_of(at), max: SEQ_MAX }.into());
            }
            made.push(Line::record(seq, body)?);
        }
        let mut lines = lock(&self.lines);
        let first = lines.all.len() as u64;
        if !made.is_empty() {
            made.into_iter().for_each(|line| lines.push(line));
            lines.written_ms = lines.written_ms.max(now_ms());
        }
        Ok(first)
    }

    /// Number and position of the first record with an idempotency key, among the last ones.
    fn with_key(&self, key: &str) -> Option<(u64, u64)> {
        let lines = lock(&self.lines);
        let first = lines.all.len().saturating_sub(manent_log::KEY_RECORDS).max(1);
        let mut recent = lines.all.iter().enumerate().skip(first);
        let is_it = |line: &Line| manent_log::idempotency_key(&line.bytes).as_deref() == Some(key);
        recent.find(|(_, line)| is_it(line)).map(|(index, line)| (line.seq, index as u64))
    }

    /// Checks every line, as if memory could rot.
    fn verify(&self, progress: Progress<'_>) -> Report {
        let (all, bytes) = {
            let lines = lock(&self.lines);
            (lines.all.clone(), lines.bytes)
        };
        let (mut done, mut records, mut damage, mut expected) = (0, 0, Vec::new(), 0);
        for (index, line) in all.iter().enumerate() {
            let reason = match frame::verify(&line.bytes) {
                None if line.verified => Some(Reason::Checksum),
                Some(seq) if seq > expected => Some(Reason::Missing),
                Some(seq) if seq < expected => Some(Reason::OutOfOrder),
                None | Some(_) => None,
            };
            records += u64::from(index > 0 && reason != Some(Reason::Checksum));
            if let Some(reason) = reason {
                let damage_here = Damage { offset: index as u64, length: 0, reason, lines: 0, seq: expected };
                damage.push(Found { damage: damage_here, acknowledged: false });
            }
            expected = if index == 0 { self.first_seq } else { line.seq + 1 };
            done += line.bytes.len() as u64 + 1;
            progress(done, bytes);
        }
        Report { records, unverified: 0, damage, tail: TailState::Clean, kind: Some(FileKind::Native) }
    }

    /// Where to begin, and how many of the lines asked for are not there.
    fn seek(&self, to: Seek<'_>) -> (usize, u64) {
        let lines = lock(&self.lines);
        match to {
            Seek::Header | Seek::First => (0, 0),
            Seek::Seq(seq) => (lines.from(seq), 0),
            Seek::Position { position, .. } => (position.raw() as usize, 0),
            Seek::Last { count, before, matches } => {
                let end = before.map_or(lines.all.len(), |seq| lines.from(seq));
                let (mut first, mut left) = (end, count);
                let headers = usize::from(self.header.is_some());
                for (index, line) in lines.all[..end].iter().enumerate().skip(headers).rev() {
                    if left == 0 {
                        break;
                    }
                    left -= u64::from(matches(&line.bytes));
                    first = index;
                }
                if left == 0 { (first, 0) } else { (0, left) }
            }
        }
    }
}

/// A stream being read.
struct MemoryReader {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    id: StreamId,
    /// Where the next line is.
    next: usize,
    from_seq: u64,
    until: u64,
    current: Option<(usize, Line)>,
}

impl StreamReader for MemoryReader {
    fn header(&self) -> Option<&[u8]> {
        self.stream.header.as_ref().map(|line| &*line.bytes)
    }

    fn id(&self) -> &str {
        &self.stream.id
    }

    fn seek(&mut self, to: Seek<'_>) -> Result<u64> {
        let (next, missing) = self.stream.seek(to);
        (self.next, self.until, self.current) = (next, u64::MAX, None);
        self.from_seq = if let Seek::Seq(seq) = to { seq } else { 0 };
        Ok(missing)
    }

    fn end_at(&mut self, seq: u64) {
        self.until = seq;
    }

    fn advance(&mut self) -> Result<bool> {
        let lines = lock(&self.stream.lines);
        // A number that was not there when reading began may still be some records away.
        self.next = self.next.max(lines.from(self.from_seq));
        let found = lines.all.get(self.next).filter(|line| line.seq <= self.until).cloned();
        drop(lines);
        self.current = found.map(|line| (self.next, line));
        self.next += usize::from(self.current.is_some());
        Ok(self.current.is_some())
    }

    fn item(&self) -> Option<Item<'_>> {
        self.current.as_ref().map(|(index, line)| Item::Entry(line.entry(*index)))
    }

    fn line_at(&self, position: Position, _bytes: usize) -> Result<Option<Vec<u8>>> {
        let lines = lock(&self.stream.lines);
        Ok(lines.all.get(position.raw() as usize).map(|line| line.bytes.to_vec()))
    }

    fn end(&self) -> End {
        End::Clean
    }

    fn poll(&self) -> Result<Change> {
        // First what can still be read: a stream that was moved away may have grown before.
        if lock(&self.stream.lines).all.len() > self.next {
            return Ok(Change::Grew);
        }
        let state = lock(&self.shared.state);
        let mut here = state.of_key(self.id.space, &self.id.key).iter();
        let is_it = |kept: &Kept| kept.place == self.id.place && Arc::ptr_eq(&kept.stream, &self.stream);
        Ok(if here.any(is_it) { Change::None } else { Change::Replaced })
    }

    fn identity(&self) -> [u64; 2] {
        [0, self.stream.number]
    }

    fn is_native(&self) -> Result<bool> {
        Ok(self.stream.header.is_some())
    }
}

impl fmt::Debug for MemoryReader {
    /// Says nothing of what it reads: that is content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReader").field("id", &self.id).field("next", &self.next).finish_non_exhaustive()
    }
}

/// The right to write a stream.
struct MemoryWriter {
    holding: Holding,
    at: StreamId,
    stream: Arc<Stream>,
    /// Whether the stream has no record yet, so that nobody may see it.
    is_new: bool,
}

impl MemoryWriter {
    fn take(
        shared: &Arc<Shared>,
        at: &StreamId,
        missing: IfMissing<'_>,
        wait: Duration,
    ) -> Result<MemoryWriter> {
        let name = lease_name(at);
        let holding = shared.hold(name, LockMode::Exclusive, wait).ok_or_else(|| held(at))?;
        let found = lock(&shared.state).find(at).map(|kept| kept.stream.clone());
        let (stream, is_new) = match (found, missing) {
            (Ok(stream), _) => (stream, false),
            // Made without the lock: the caller may want to look at this store for it.
            (Err(_), IfMissing::Create(new)) => {
                let Header { id, body } = new();
                (Arc::new(Stream::new(id.into(), Some(&body))?), true)
            }
            (Err(e), IfMissing::Refuse) => return Err(e),
        };
        Ok(MemoryWriter { holding, at: at.clone(), stream, is_new })
    }

    fn receipt(&self, seq: u64, position: u64, durability: Durability) -> Receipt {
        Receipt { id: self.stream.id.clone(), seq, position: Position::new(position), durability }
    }
}

impl StreamWriter for MemoryWriter {
    fn append(&mut self, bodies: &[Body], durability: Durability, expect: Expect) -> Result<Vec<Receipt>> {
        if self.at.place != Place::Live {
            return Err(Error::NotLive { key: self.at.key.to_string(), place: self.at.place });
        }
        let next = self.next_seq();
        let (fates, fresh) = manent_log::sort_out(bodies, |key| self.stream.with_key(key));
        if let (Expect::Seq(expected), None | Some(Fate::Written(_))) = (expect, fates.first())
            && expected != next
        {
            return Err(manent_log::Error::Conflict { path: path_of(&self.at), expected, next }.into());
        }
        let first = self.stream.append(&self.at, &fresh)?;
        if self.is_new && !fresh.is_empty() {
            let kept = Kept::live(self.stream.clone());
            lock(&self.holding.shared.state).put(self.at.space, &self.at.key, kept);
            self.is_new = false;
        }
        let receipt = |fate: Fate<(u64, u64)>| match fate {
            Fate::Known((seq, position)) => self.receipt(seq, position, durability),
            Fate::Written(nth) => self.receipt(next + nth as u64, first + nth as u64, durability),
        };
        Ok(fates.into_iter().map(receipt).collect())
    }

    fn receipt_of(&mut self, key: &str, durability: Durability) -> Result<Option<Receipt>> {
        let found = self.stream.with_key(key);
        Ok(found.map(|(seq, position)| self.receipt(seq, position, durability)))
    }

    fn keep_from(&mut self, _position: Position) -> Result<()> {
        Ok(())
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: Parts<'_>,
        _left_out: &[Damage],
    ) -> Result<Replaced> {
        let id = header.and_then(|body| HeaderNames::of_line(&frame::line(0, body)));
        let id = id.map_or_else(|| self.stream.id.clone(), |names| names.id.into());
        let shared = &self.holding.shared;
        let whole = Arc::new(Stream::of_parts(shared, id, header, parts)?);
        // Another stream in its place: whoever reads the old one goes on reading that, and hears of it.
        let mut state = lock(&shared.state);
        let kept = state.take_out(&self.at)?;
        let bytes = whole.seen().bytes;
        let id = if kept.place == Place::Live { whole.id.clone() } else { kept.id.clone() };
        state.put(self.at.space, &self.at.key, Kept { stream: whole, id, ..kept });
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

fn not_found(at: &StreamId) -> Error {
    Error::NotFound { name: at.name(), space: at.space, place: Some(at.place), store: NAME.to_owned() }
}

fn held(at: &StreamId) -> Error {
    manent_log::Error::Held { path: path_of(at), pid: Some(std::process::id()) }.into()
}

/// What a lease is called. The live stream of a key has one, whatever its id.
fn lease_name(at: &StreamId) -> String {
    let id = if at.place == Place::Live { "" } else { &at.id };
    format!("lease {:?} {:?} {id} {}", at.space, at.place, at.key)
}

/// What stands for a file in messages.
fn path_of(at: &StreamId) -> PathBuf {
    PathBuf::from(format!("{NAME}/{}", at.key))
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// How many streams were made, in all backends of this process.
static STREAMS: AtomicU64 = AtomicU64::new(1);

const NAME: &str = "memory";
