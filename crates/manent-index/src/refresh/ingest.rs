//! Reads streams for the index, on several threads where there is much to read: the records that were appended since
//! the last refresh, or the whole stream where its earlier part may have changed.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::{Entry, LogEnd, LogItem};
use manent_store::sync::lock;
use manent_store::threads::{processors, with_helpers};
use manent_store::{
    ListDetail, Place, Position, ScanTime, Seek, Selector, StreamId, StreamReader, StreamStat, Version, clock,
};

use crate::catalogue::listing::shorten;
use crate::catalogue::{Row, RowRef};
use crate::corpus::{Content, Corpus, Document};
use crate::error::{Error, IndexResult, Result};
use crate::query::ranking::NEIGHBOURS;
use crate::refresh::RefreshResult;
use crate::refresh::index_dir::IndexDir;
use crate::refresh::loaded::SegmentHandle;
use crate::segment::RecordRef;
use crate::segment::builder::{Builder, TurnInfo};

/// Collects records and emits segments, each of a size that fits in memory.
pub(crate) struct SegmentSink<'a> {
    builder: Builder,
    /// The number of bytes of memory that a segment may take while it is built.
    memory_max: usize,
    /// Receives the bytes of each finished segment.
    give: &'a mut dyn FnMut(Vec<u8>) -> Result<()>,
    /// The last records of the stream: neighbours of the next one.
    before: VecDeque<Neighbour>,
    /// The run of this stream was begun in the current segment.
    begun: bool,
}

#[derive(Default)]
struct Neighbour {
    role: String,
    second: u32,
    record: RecordRef,
    text: String,
}

impl<'a> SegmentSink<'a> {
    pub(crate) fn new(memory_max: usize, give: &'a mut dyn FnMut(Vec<u8>) -> Result<()>) -> SegmentSink<'a> {
        SegmentSink { builder: Builder::default(), memory_max, give, before: VecDeque::new(), begun: false }
    }

    fn begin_session(&mut self) {
        self.before.clear();
        self.begun = false;
    }

    /// Remembers a record that was indexed before, as a neighbour of the next ones.
    fn remember(&mut self, role: &str, second: u32, record: RecordRef, text: &str) {
        // The oldest makes room, and lends its memory.
        let full = self.before.len() >= NEIGHBOURS;
        let mut before = if full { self.before.pop_front() } else { None }.unwrap_or_default();
        role.clone_into(&mut before.role);
        text.clone_into(&mut before.text);
        (before.second, before.record) = (second, record);
        self.before.push_back(before);
    }

    fn take(&mut self, row: &Row, role: &str, second: u32, record: RecordRef, text: &str) -> Result<()> {
        if !self.begun {
            self.begun = true;
            // The row counts this record already.
            self.builder.begin_run(row.number, self.before.len() as u32, row.turns.saturating_sub(1));
            for before in &self.before {
                let turn = TurnInfo { role: &before.role, second: before.second, record: before.record };
                self.builder.add(turn, &before.text);
            }
        }
        self.builder.add(TurnInfo { role, second, record }, text);
        self.remember(role, second, record, text);
        if self.builder.memory() > self.memory_max {
            self.finish()?;
        }
        Ok(())
    }

    /// Emits the last segment.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.begun = false;
        let builder = std::mem::take(&mut self.builder);
        if builder.is_empty() { Ok(()) } else { (self.give)(builder.finish()) }
    }
}

/// Reads a stream that changed. `old` is what was known of it; `number` marks its records if it must be read anew.
///
/// A stream that cannot be read has a row too, which says so. An error is about the index, not about the stream.
pub(crate) fn ingest(
    corpus: &dyn Corpus,
    changed: &ChangedStream,
    listed: &StreamStat,
    old: Option<&Row>,
    number: u64,
    intake: &mut SegmentSink<'_>,
) -> Result<Row> {
    intake.begin_session();
    let mut row = Row {
        place: place_number(listed.id.place),
        from: place_number(listed.from),
        name: changed.name.clone(),
        key: listed.id.key.as_str().to_owned(),
        id: listed.id.id.clone(),
        version: changed.version,
        bytes: changed.bytes,
        number,
        ..Row::default()
    };
    // The only stream of a space has another id each time it is replaced, and is meant whatever that is by now.
    let is_single = listed.id.space.single_key().is_some();
    let at = if is_single { StreamId::single(listed.id.space) } else { listed.id.clone() };
    let modified_ms = listed.modified_ms;
    let mut ingest = StreamIngest { corpus, intake, modified_ms, taken: false, sought: None, trouble: None };
    // A key leads to one file. Another file that would be the stream of that key too is not read.
    if changed.place == Place::Live && row.id.is_empty() {
        let read = corpus.live_outside(&listed.id.key)?;
        if read.is_some_and(|read| read.name != changed.name) {
            SHADOWED.clone_into(&mut row.unreadable);
            row.version = Version::UNKNOWN;
            return Ok(row);
        }
    }
    let grown = old.filter(|old| old.unreadable.is_empty() && only_grew(old, changed));
    let read = match grown.and_then(|old| Some((old, old.last?))) {
        Some((old, last)) => ingest.go_on(&at, old, last, &mut row),
        None => Ok(false),
    };
    let read = match read {
        Ok(true) => Ok(()),
        Ok(false) => {
            // The neighbours that were remembered of it are outdated.
            ingest.intake.begin_session();
            ingest.read_all(&at, old, &mut row)
        }
        Err(e) => Err(e),
    };
    let taken = ingest.taken;
    match (read, ingest.trouble) {
        (_, Some(trouble)) => Err(trouble),
        (Ok(()), None) => Ok(row),
        // Not settled: the obstacle may go away without the stream changing.
        (Err(e), None) => {
            if let Some(old) = old.filter(|_| !taken) {
                // The part that was read before can still be found.
                let Row { name, place, from, version, bytes, .. } = row;
                row = Row { place, from, name, version, bytes, ..old.clone() };
            }
            row.unreadable = e.to_string();
            row.version = Version::UNKNOWN;
            if row.updated.is_empty() {
                (row.created_ms, row.updated_ms) = (listed.modified_ms, listed.modified_ms);
            }
            Ok(row)
        }
    }
}

/// Returns whether all that was read of a stream before can be trusted to stand where it stood, if its last record
/// does.
///
/// Another program may change anything in its own files. Ours only grow: one that changed without growing was changed
/// by something else, unless it was just moved, or was looked at again because its time stamp was not settled. A file
/// that another one took the place of (a copy that was restored, say) is read as a whole.
fn only_grew(old: &Row, changed: &ChangedStream) -> bool {
    let moved = old.place() != changed.place || old.name != changed.name;
    old.native && !old.stale && (moved || changed.grew)
}

struct StreamIngest<'a, 'b> {
    corpus: &'a dyn Corpus,
    intake: &'a mut SegmentSink<'b>,
    modified_ms: i64,
    /// True once a record was taken in.
    taken: bool,
    /// The last record that was read before, until it is met again.
    sought: Option<RecordRef>,
    /// The index could not be written: not the stream's fault.
    trouble: Option<Error>,
}

impl StreamIngest<'_, '_> {
    /// Reads what was appended. Returns false if the stream is not what it was, and must be read as a whole.
    fn go_on(&mut self, at: &StreamId, old: &Row, last: RecordRef, row: &mut Row) -> Result<bool> {
        let from = old.recent.first().copied().unwrap_or(last);
        let seek = Seek::Position { position: Position::new(from.offset), seq: from.seq };
        let mut records = self.corpus.open_at(at, seek)?;
        let parent = self.corpus.origin_of(&*records).and_then(|origin| origin.parent);
        if parent.as_ref().map_or("", |(id, _)| id) != old.parent {
            return Ok(false);
        }
        // From the last searched records to the last record, nothing may have changed.
        let mut here = None;
        while here != Some(last) {
            match records.next()? {
                Some(LogItem::Entry(entry)) => {
                    let record = record_ref(&entry);
                    here = Some(record);
                    if entry.seq > last.seq || (entry.seq == from.seq && record != from) {
                        return Ok(false);
                    }
                    if old.recent.contains(&record) {
                        self.remember(&entry);
                    }
                }
                Some(LogItem::Damage(_)) if here.is_some() => {}
                _ => return Ok(false),
            }
        }
        let Row { place, from, name, key, id, version, bytes, .. } = std::mem::take(row);
        *row = Row { place, from, name, key, id, version, bytes, ..old.clone() };
        self.read_on(&mut *records, row)?;
        Ok(true)
    }

    fn remember(&mut self, entry: &Entry<'_>) {
        if let Some(document) = self.corpus.document(entry) {
            let written_ms = document.ts.as_deref().and_then(clock::parse_ms);
            let second = seconds(written_ms.unwrap_or(self.modified_ms));
            if let Some((role, text)) = document.searched() {
                self.intake.remember(&role, second, record_ref(entry), &text);
            }
        }
    }

    fn read_all(&mut self, at: &StreamId, old: Option<&Row>, row: &mut Row) -> Result<()> {
        let mut records = self.corpus.open_at(at, Seek::First)?;
        let origin = self.corpus.origin_of(&*records);
        row.headed = origin.is_some();
        // The disk may not have given the header when it was asked whose stream this is.
        if let Some(origin) = origin.as_ref().filter(|_| row.id.is_empty() && at.place == Place::Live) {
            row.id.clone_from(&origin.id);
        }
        if let Some(parent) = origin.and_then(|origin| origin.parent) {
            (row.parent, row.upto) = parent;
            row.lineage = 0;
            self.read_shared(at, row)?;
        }
        self.sought = old.filter(|old| old.native && old.id == row.id).and_then(|old| old.last);
        self.read_on(&mut *records, row)?;
        // Ours only grow. One that no longer has the last record that was read has lost it.
        if let Some(old) = old.filter(|_| row.native) {
            (row.once_bytes, row.once_seq) = (old.once_bytes, old.once_seq);
            if let Some(lost) = self.sought.take().filter(|lost| lost.seq >= row.once_seq)
                && !is_set_aside(self.corpus, at, old, records.end())?
            {
                (row.once_bytes, row.once_seq) = (old.bytes.max(lost.offset), lost.seq);
            }
        }
        Ok(())
    }

    /// Counts the records that a fork shares with its parent. They are found in the parent.
    fn read_shared(&self, at: &StreamId, row: &mut Row) -> Result<()> {
        let corpus = self.corpus;
        corpus.shared(at, row.upto, &mut |item| {
            let entry = match item {
                LogItem::Entry(entry) => entry,
                LogItem::Damage(_) => {
                    row.damaged = true;
                    return;
                }
            };
            let Some(document) = corpus.document(&entry) else { return };
            note(corpus, &entry, &document, row);
            if let Some((_, text)) = document.searched() {
                row.shared_turns += 1;
                row.shared_tokens += estimated_tokens(&text);
            }
        })?;
        Ok(())
    }

    fn read_on(&mut self, records: &mut dyn StreamReader, row: &mut Row) -> Result<()> {
        // A record that does not say when it was written is as old as the one before it.
        let mut second =
            if row.updated.is_empty() { seconds(self.modified_ms) } else { seconds(row.updated_ms) };
        while let Some(item) = records.next()? {
            let entry = match item {
                LogItem::Entry(entry) => entry,
                LogItem::Damage(_) => {
                    row.damaged = true;
                    continue;
                }
            };
            // A line without a checksum is another program's, which may change it.
            let ours = if row.last.is_some() { row.native } else { entry.seq == 0 };
            row.native = ours && entry.verified;
            let record = record_ref(&entry);
            row.last = Some(record);
            if self.sought.is_some_and(|sought| sought.seq == entry.seq && sought.crc == record.crc) {
                self.sought = None;
            }
            let Some(document) = self.corpus.document(&entry) else { continue };
            second = note(self.corpus, &entry, &document, row).map_or(second, seconds);
            let Some((role, text)) = document.searched() else { continue };
            row.turns += 1;
            row.tokens += estimated_tokens(&text);
            if row.recent.len() >= NEIGHBOURS {
                row.recent.remove(0);
            }
            row.recent.push(record);
            self.taken = true;
            if let Err(e) = self.intake.take(row, &role, second, record, &text) {
                self.trouble = Some(e);
                return Ok(());
            }
        }
        row.torn = matches!(records.end(), LogEnd::Torn(_));
        if row.updated.is_empty() || row.updated_ms == 0 {
            row.updated_ms = self.modified_ms;
        }
        if row.created.is_empty() {
            row.created_ms = self.modified_ms;
        }
        Ok(())
    }
}

/// Returns whether the last record that was read of a stream, and that is no longer there, stands in its torn end, or
/// in what was set aside of that since. Then it is named there, and did not vanish without a trace.
pub(crate) fn is_set_aside(corpus: &dyn Corpus, at: &StreamId, old: &Row, end: LogEnd) -> Result<bool> {
    let Some(RecordRef { offset, seq, .. }) = old.last else { return Ok(false) };
    match end {
        LogEnd::Torn(torn) if torn.offset <= offset && offset - torn.offset < torn.length => Ok(true),
        _ => Ok(corpus.was_set_aside(at, Position::new(offset), seq, old.read_at)?),
    }
}

/// Updates the parts of a row that a list shows by one record, and returns when the record was written, if it says.
fn note(corpus: &dyn Corpus, entry: &Entry<'_>, document: &Document<'_>, row: &mut Row) -> Option<i64> {
    let ms = document.ts.as_deref().and_then(clock::parse_ms);
    if let Some(ts) = &document.ts {
        if row.created.is_empty() {
            row.created = ts.clone().into_owned();
            row.created_ms = ms.unwrap_or(row.created_ms);
        }
        row.updated.clear();
        row.updated.push_str(ts);
        row.updated_ms = ms.unwrap_or(row.updated_ms);
    }
    match &document.content {
        Content::Text { .. } if row.opening.is_empty() => {
            row.opening = corpus.opening(entry).map(|text| shorten(&text)).unwrap_or_default();
        }
        Content::Title(title) => row.given_title = shorten(title),
        Content::Text { .. } | Content::Other => {}
    }
    ms
}

/// Returns about how many tokens a text has: four bytes each.
fn estimated_tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}

fn record_ref(entry: &Entry<'_>) -> RecordRef {
    RecordRef { offset: entry.offset, seq: entry.seq, crc: crc32c::crc32c(entry.bytes) }
}

/// Converts a time to seconds, clamped to the range of a segment: 1970 to 2106.
pub(crate) fn seconds(ms: i64) -> u32 {
    u32::try_from((ms.div_euclid(1000)).max(0)).unwrap_or(u32::MAX)
}

pub(crate) fn place_number(place: Place) -> u8 {
    Place::ALL.iter().position(|other| *other == place).unwrap_or_default() as u8
}

/// The reason that is given for a file that is not read.
const SHADOWED: &str = "another file of the same key is read in its place; give one of them another name";

/// A stream that changed, or is new.
pub(crate) struct ChangedStream {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) bytes: u64,
    /// The time of the survey that reported it.
    pub(crate) seen_at: ScanTime,
    /// The stream is the same and not shorter, so that the part that was read before may be unchanged.
    pub(crate) grew: bool,
    pub(crate) old: Option<Arc<Row>>,
}

impl ChangedStream {
    /// Returns the number of bytes that are to be read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        let read = self.old.as_ref().and_then(|old| old.last).map_or(0, |last| last.offset);
        if self.bytes >= read { self.bytes - read } else { self.bytes }
    }

    /// Returns the stream as its header describes it, or `None` if it is gone since the survey.
    pub(crate) fn identify(&self, corpus: &dyn Corpus) -> Result<Option<StreamStat>> {
        Ok(corpus.list(self.place, Selector::Name(&self.name), ListDetail::Header)?.into_iter().next())
    }
}

/// Cuts items into groups, in their order. `has_room` tells whether a group of so many bytes takes an item of so many
/// bytes; a new group takes any.
pub(crate) fn grouped<T>(
    items: Vec<T>,
    bytes_of: impl Fn(&T) -> u64,
    has_room: impl Fn(u64, u64) -> bool,
) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut group_bytes = 0;
    for item in items {
        let bytes = bytes_of(&item);
        if let Some(group) = groups.last_mut().filter(|_| has_room(group_bytes, bytes)) {
            group.push(item);
        } else {
            groups.push(vec![item]);
            group_bytes = 0;
        }
        group_bytes += bytes;
    }
    groups
}

/// The rows and segments of a batch of streams.
pub(crate) struct BatchResult {
    pub(crate) rows: Vec<RowRef>,
    pub(crate) segments: Vec<SegmentHandle>,
    pub(crate) next_number: u64,
    /// True if streams were no longer where the survey saw them, and may be elsewhere.
    pub(crate) lost: bool,
}

/// Sessions that are not where they were, by their ids.
pub(crate) type MovedStreams = Mutex<HashMap<String, Arc<Row>>>;

/// Called with each segment that is finished, and the rows of the streams that were read since the last one.
pub(crate) type Publish<'a> = &'a (dyn Fn(&[RowRef], &SegmentHandle) + Sync);

/// Reads streams, on several threads where there is much to read.
pub(crate) fn read_batch(
    corpus: &dyn Corpus,
    batch: &[ChangedStream],
    moved: &MovedStreams,
    next_number: u64,
    spill: Option<&Spill<'_>>,
    publish: Publish<'_>,
    progress: &mut dyn FnMut(u64),
) -> RefreshResult<BatchResult> {
    let bytes: u64 = batch.iter().map(ChangedStream::unread_bytes).sum();
    let threads = if bytes < ALONE_BYTES { 1 } else { processors(THREADS_MAX) };
    let reading = Reading {
        corpus,
        batch,
        moved,
        spill,
        publish,
        next: AtomicUsize::new(0),
        number: AtomicU64::new(next_number),
        done: AtomicU64::new(0),
        lost: AtomicBool::new(false),
    };
    let parts: Vec<Part> = with_helpers(threads, || reading.work(&mut |_| {}), || reading.work(progress))
        .map_err(|died| Error::Index(died.to_string()))?;
    let (mut rows, mut segments) = (Vec::with_capacity(batch.len()), Vec::new());
    for part in parts {
        let (some_rows, some_segments) = part?;
        rows.extend(some_rows);
        segments.extend(some_segments);
    }
    let (next_number, lost) = (reading.number.into_inner(), reading.lost.into_inner());
    Ok(BatchResult { rows, segments, next_number, lost })
}

/// The rows and segments of one thread.
type Part = RefreshResult<(Vec<RowRef>, Vec<SegmentHandle>)>;

struct Reading<'a> {
    corpus: &'a dyn Corpus,
    batch: &'a [ChangedStream],
    moved: &'a MovedStreams,
    spill: Option<&'a Spill<'a>>,
    publish: Publish<'a>,
    next: AtomicUsize,
    number: AtomicU64,
    done: AtomicU64,
    lost: AtomicBool,
}

impl Reading<'_> {
    /// Reads one stream after the other until none is left.
    fn work(&self, progress: &mut dyn FnMut(u64)) -> Part {
        // Shared with the closure that publishes them.
        let rows: RefCell<Vec<RowRef>> = RefCell::default();
        let mut segments = Vec::new();
        let mut published = 0;
        // The stream that is just being read.
        let current: RefCell<Option<StreamRead>> = RefCell::default();
        let mut give = |bytes: Vec<u8>| {
            let rows = rows.borrow();
            let segment = self.keep(bytes, &rows[published..], current.borrow().as_ref())?;
            (self.publish)(&rows[published..], &segment);
            published = rows.len();
            segments.push(segment);
            Ok(())
        };
        let mut intake = SegmentSink::new(SEGMENT_MEMORY, &mut give);
        while let Some(changed) = self.batch.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let listed = match changed.identify(self.corpus) {
                Ok(Some(listed)) => listed,
                // Gone since the survey.
                Ok(None) => {
                    self.lost.store(true, Ordering::Relaxed);
                    continue;
                }
                Err(e) => return Err(e.into()),
            };
            let id = listed.id.id.as_str();
            let by_name = changed.old.clone().filter(|old| old.id == id);
            let old = by_name.or_else(|| self.take_moved(&listed.id));
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            *current.borrow_mut() =
                Some(StreamRead { place: changed.place, name: changed.name.clone(), id: id.to_owned() });
            let mut row = ingest(self.corpus, changed, &listed, old.as_deref(), number, &mut intake)?;
            if row.unreadable.is_empty() {
                row.read_at = changed.seen_at;
            } else if changed.identify(self.corpus)?.is_none() {
                self.lost.store(true, Ordering::Relaxed);
            }
            rows.borrow_mut().push(row.into());
            *current.borrow_mut() = None;
            let done =
                self.done.fetch_add(changed.unread_bytes(), Ordering::Relaxed) + changed.unread_bytes();
            progress(done);
        }
        intake.finish()?;
        Ok((rows.into_inner(), segments))
    }

    /// Takes the row of a session that was moved here. Of several copies, only one keeps the indexed turns, because a
    /// number belongs to one row.
    fn take_moved(&self, at: &StreamId) -> Option<Arc<Row>> {
        let mut moved = lock(self.moved);
        moved.get(at.id.as_str()).filter(|row| row.key == at.key.as_str())?;
        moved.remove(at.id.as_str())
    }

    /// Stores a segment on the disk if it is large, else in memory; in memory too if the disk does not take it.
    fn keep(
        &self,
        mut bytes: Vec<u8>,
        rows: &[RowRef],
        current: Option<&StreamRead>,
    ) -> Result<SegmentHandle> {
        if let Some(spill) = self.spill
            && bytes.len() as u64 >= SAVE_BYTES
            && let Some(handle) = spill.put(self.corpus, &mut bytes, rows, current)
        {
            return Ok(handle);
        }
        SegmentHandle::in_memory(bytes).map_err(|broken| Error::Index(broken.to_string()))
    }
}

/// A stream of which a segment holds records.
struct StreamRead {
    place: Place,
    name: String,
    id: String,
}

impl StreamRead {
    fn of(row: &RowRef) -> IndexResult<StreamRead> {
        let row = row.row()?;
        Ok(StreamRead { place: row.place(), name: row.name.clone(), id: row.id.clone() })
    }

    /// Returns whether the stream is still where it was read.
    fn is_there(&self, corpus: &dyn Corpus) -> bool {
        let listed = corpus.list(self.place, Selector::Name(&self.name), ListDetail::Header);
        listed.is_ok_and(|listed| listed.first().is_some_and(|listed| listed.id.id == self.id))
    }
}

/// The disk as a place for segments that no catalogue names yet.
///
/// A segment is written with the right to write held for that moment, and only if all streams of which it holds records
/// are still there: whoever purged one was told that no byte of it is left, and removes what was written before.
pub(crate) struct Spill<'a> {
    dir: &'a IndexDir,
    wait: Duration,
    /// False once the right to write could not be had, which is not waited for again.
    is_possible: Mutex<bool>,
}

impl Spill<'_> {
    pub(crate) fn new(dir: &IndexDir, wait: Duration) -> Spill<'_> {
        Spill { dir, wait, is_possible: Mutex::new(true) }
    }

    fn put(
        &self,
        corpus: &dyn Corpus,
        bytes: &mut Vec<u8>,
        rows: &[RowRef],
        current: Option<&StreamRead>,
    ) -> Option<SegmentHandle> {
        // One thread after the other: they would wait for each other at the lock on the disk.
        let mut is_possible = lock(&self.is_possible);
        let writing = if *is_possible { self.dir.write(self.wait).ok().flatten() } else { None };
        *is_possible = writing.is_some();
        let _writing = writing?;
        let read = rows.iter().map(StreamRead::of).collect::<IndexResult<Vec<_>>>().ok()?;
        if !read.iter().chain(current).all(|stream| stream.is_there(corpus)) {
            return None;
        }
        let named = self.dir.put_segment(bytes).ok()?;
        let segment = Arc::new(self.dir.segment(&named).ok()?);
        Some(SegmentHandle { segment, named: Some(named) })
    }
}

/// The number of bytes of logs from which on the index is saved, so that the next process does not read them again.
pub(crate) const SAVE_BYTES: u64 = 256 * 1024;
/// The number of bytes that are read between two saves when everything is read anew.
pub(crate) const BATCH_BYTES: u64 = 1024 * 1024 * 1024;
/// The number of bytes below which reading is faster than starting threads.
const ALONE_BYTES: u64 = 4 * 1024 * 1024;
const THREADS_MAX: usize = 4;
/// The memory that a segment may take while it is made, in each thread: with it, the whole process stays below 100 MiB
/// where one file is read, however many turns it holds.
const SEGMENT_MEMORY: usize = 64 * 1024 * 1024;
