//! One stream in memory: the lines that its file would have, and reading them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use manent_log::frame::{self, RECORD_BYTES_MAX, Reason, SEQ_MAX};
use manent_log::{Body, Change, Damage, End, Entry, FileKind, Found, Item, Report, TailState};

use super::{Shared, path_of};
use crate::backend::{Address, Header, Place, Position, Progress, Records, Stamp, Start};
use crate::clock;
use crate::error::Result;
use crate::key::SessionKey;
use crate::meta::Meta;
use crate::sync::lock;
use crate::turn::is_turn;

/// One stream. It only grows; whatever else changes it makes another one.
pub(super) struct Stream {
    /// Tells it from every other one.
    number: u64,
    id: Arc<str>,
    meta: Option<Meta>,
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
}

impl Line {
    fn new(seq: u64, body: &Body) -> Result<Line> {
        let mut line = frame::line(seq, body);
        if line.len() > RECORD_BYTES_MAX {
            let (bytes, max) = (line.len() as u64, RECORD_BYTES_MAX as u64);
            return Err(manent_log::Error::TooLarge { bytes, max }.into());
        }
        line.pop();
        Ok(Line { seq, bytes: line.into() })
    }

    fn entry(&self, index: usize) -> Entry<'_> {
        Entry { seq: self.seq, offset: index as u64, bytes: &self.bytes, verified: true }
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
    /// A stream that has a header and no records.
    pub(super) fn new(header: &Header) -> Result<Stream> {
        Stream::with(header.id.as_str().into(), &header.body)
    }

    fn with(id: Arc<str>, header: &Body) -> Result<Stream> {
        let line = Line::new(0, header)?;
        let meta = Meta::of(&line.entry(0));
        let upto = meta.as_ref().and_then(|meta| meta.parent.as_ref()).map(|parent| parent.upto);
        let first_seq = upto.filter(|upto| *upto <= SEQ_MAX).map_or(1, |upto| upto + 1);
        let mut lines = Lines { written_ms: clock::now_ms(), ..Lines::default() };
        lines.push(line);
        let number = STREAMS.fetch_add(1, Ordering::Relaxed);
        Ok(Stream { number, id, meta, first_seq, lines: Mutex::new(lines) })
    }

    /// This stream behind what it shares with another: a new header, that one's records up to a number, its
    /// own.
    pub(super) fn behind(&self, header: &Body, shared: &Stream, upto: u64) -> Result<Stream> {
        let whole = Stream::with(self.id.clone(), header)?;
        let mut lines = lock(&whole.lines);
        let above = lock(&shared.lines);
        above.all[..above.from(upto.saturating_add(1))]
            .iter()
            .skip(1)
            .for_each(|line| lines.push(line.clone()));
        drop(above);
        lock(&self.lines).all.iter().skip(1).for_each(|line| lines.push(line.clone()));
        drop(lines);
        Ok(whole)
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The number that the next record gets.
    pub(super) fn next_seq(&self) -> u64 {
        match lock(&self.lines).all.last() {
            Some(line) if line.seq > 0 => line.seq + 1,
            _ => self.first_seq,
        }
    }

    pub(super) fn size_and_time(&self) -> (u64, i64) {
        let lines = lock(&self.lines);
        (lines.bytes, lines.written_ms)
    }

    /// Appends records and gives the position of the first. Called by whoever holds the lease.
    pub(super) fn append(&self, key: &SessionKey, bodies: &[&Body]) -> Result<u64> {
        // All of them are made before any is put down.
        let mut made = Vec::with_capacity(bodies.len());
        for (seq, body) in (self.next_seq()..).zip(bodies) {
            body.check_size()?;
            if seq > SEQ_MAX {
                return Err(manent_log::Error::Full { path: path_of(key), max: SEQ_MAX }.into());
            }
            made.push(Line::new(seq, body)?);
        }
        let mut lines = lock(&self.lines);
        let first = lines.all.len() as u64;
        if !made.is_empty() {
            for line in made {
                lines.push(line);
            }
            lines.written_ms = lines.written_ms.max(clock::now_ms());
        }
        Ok(first)
    }

    /// Number and position of the first record with an idempotency key, among the last ones.
    pub(super) fn with_key(&self, key: &str) -> Option<(u64, u64)> {
        let lines = lock(&self.lines);
        let first = lines.all.len().saturating_sub(manent_log::KEY_RECORDS).max(1);
        let mut recent = lines.all.iter().enumerate().skip(first);
        let is_it = |line: &Line| manent_log::idempotency_key(&line.bytes).as_deref() == Some(key);
        recent.find(|(_, line)| is_it(line)).map(|(index, line)| (line.seq, index as u64))
    }

    pub(super) fn stamp(&self) -> Stamp {
        let lines = lock(&self.lines);
        // Each line is a moment of its own.
        Stamp { file: (0, self.number), bytes: lines.bytes, changed_ns: lines.all.len().cast_signed() as i64 }
    }

    pub(super) fn line(&self, position: Position) -> Option<Vec<u8>> {
        lock(&self.lines).all.get(position.raw() as usize).map(|line| line.bytes.to_vec())
    }

    /// Checks every line, as if memory could rot.
    pub(super) fn verify(&self, progress: Progress<'_>) -> Report {
        let (all, bytes) = {
            let lines = lock(&self.lines);
            (lines.all.clone(), lines.bytes)
        };
        let (mut done, mut records, mut damage, mut expected) = (0, 0, Vec::new(), 0);
        for (index, line) in all.iter().enumerate() {
            let reason = match frame::verify(&line.bytes) {
                None => Some(Reason::Checksum),
                Some(seq) if seq > expected => Some(Reason::Missing),
                Some(seq) if seq < expected => Some(Reason::OutOfOrder),
                Some(_) => None,
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

    /// Where to begin, and how many of the turns asked for are not there.
    fn start(&self, start: Start) -> (usize, u64) {
        let lines = lock(&self.lines);
        match start {
            Start::Header | Start::First => (0, 0),
            Start::Seq(seq) => (lines.from(seq), 0),
            Start::At { position, .. } => (position.raw() as usize, 0),
            Start::Tail { count, before } => {
                let end = before.map_or(lines.all.len(), |seq| lines.from(seq));
                let (mut first, mut left) = (end, count);
                for (index, line) in lines.all[..end].iter().enumerate().skip(1).rev() {
                    if left == 0 {
                        break;
                    }
                    left -= u64::from(is_turn(&line.bytes));
                    first = index;
                }
                if left == 0 { (first, 0) } else { (0, left) }
            }
        }
    }
}

/// How many streams were made, in all stores of this process.
static STREAMS: AtomicU64 = AtomicU64::new(1);

/// A stream being read.
pub(super) struct MemoryRecords {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    key: SessionKey,
    place: Place,
    /// Where the next line is.
    next: usize,
    from_seq: u64,
    until: u64,
    missing: u64,
    current: Option<(usize, Line)>,
}

impl MemoryRecords {
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: Arc<Stream>,
        at: &Address,
        start: Start,
        until: Option<u64>,
    ) -> MemoryRecords {
        let (next, missing) = stream.start(start);
        let from_seq = if let Start::Seq(seq) = start { seq } else { 0 };
        let (key, place, until) = (at.key.clone(), at.place, until.unwrap_or(u64::MAX));
        MemoryRecords { shared, stream, key, place, next, from_seq, until, missing, current: None }
    }
}

impl Records for MemoryRecords {
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

    fn end(&self) -> End {
        End::Clean
    }

    fn change(&self) -> Result<Change> {
        // First what can still be read: a stream that was moved away may have grown before.
        if lock(&self.stream.lines).all.len() > self.next {
            return Ok(Change::Grew);
        }
        let state = lock(&self.shared.state);
        let here = state
            .of_key(&self.key)
            .iter()
            .any(|spot| spot.place == self.place && Arc::ptr_eq(&spot.stream, &self.stream));
        Ok(if here { Change::None } else { Change::Replaced })
    }

    fn meta(&self) -> Option<&Meta> {
        self.stream.meta.as_ref()
    }

    fn missing(&self) -> u64 {
        self.missing
    }
}

impl fmt::Debug for MemoryRecords {
    /// Says nothing of what it reads: that is content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRecords")
            .field("key", &self.key)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
