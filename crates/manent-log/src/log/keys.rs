//! Appending by keys: finding the records that are there already, and making sure that they are kept.
//!
//! Before a record is appended under a [`KeyRule`], it is looked for by its keys. That it can be read proves nothing
//! about the disk: where a sync failed, Linux takes the pages for clean, shows them to every reader, and writes them no
//! more. So what is found is written again, from there to the end of the file, and synced; only then is there a
//! receipt. Other programs' files are not written to but at their end.
//!
//! Which records have which keys is kept in [`LogKeys`], which outlives a handle. A log is read once; afterwards, what
//! this process appends is noted as it is appended, and what others appended is read on, if the last record that was
//! read is still there. Everything that is found is read where it lies before it counts.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Body, Expect, Log, Receipt};
use crate::commit::Durability;
use crate::error::{Error, Result, hint};
use crate::frame::FileKind;
use crate::fs::FileId;
use crate::keys::{Fate, KeyIndex, KeyRule, Occurrence, Reach, RecordPlace, sort_out};
use crate::reader::{Entry, Item, Reader};
use crate::recover;
use crate::reverse::ReverseReader;

/// The keys of one log, shared by the handles that are opened for it one after the other.
pub type SharedKeys = Arc<Mutex<LogKeys>>;

/// The keys of one log, and what is known of the records that have them.
#[derive(Debug, Default)]
pub struct LogKeys {
    index: KeyIndex,
    /// The id of the stream and the file that was read, so that another log of the same name is not taken for it.
    stream: Arc<str>,
    file: Option<FileId>,
    /// The last line that was read.
    newest: Option<Line>,
    /// The state of the handle that last brought this up to date.
    mark: Mark,
    /// Bytes that survive power loss: this process synced them.
    synced: Ranges,
    /// Bytes that the handle of `mark` handed to the kernel.
    flushed: Ranges,
}

/// A line that was read, to be recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    seq: u64,
    offset: u64,
    bytes: usize,
    crc: u32,
}

/// The state of a handle: which one it is, and how often others wrote to its file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    handle: u64,
    changes: u64,
}

/// Parts of a file.
#[derive(Debug, Default)]
struct Ranges(Vec<Range<u64>>);

/// A record that was found by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedLine {
    /// Its number and where it begins in the file.
    pub place: RecordPlace,
    /// The line as it stands in the file, without its newline.
    pub bytes: Vec<u8>,
    /// Whether this process made sure that it survives power loss.
    pub is_kept: bool,
}

impl Mark {
    /// Returns the mark of a handle that was just opened.
    pub(super) fn new() -> Mark {
        static HANDLES: AtomicU64 = AtomicU64::new(1);
        Mark { handle: HANDLES.fetch_add(1, Ordering::Relaxed), changes: 0 }
    }

    /// Notes that the file is not as this handle left it.
    pub(super) fn change(&mut self) {
        self.changes += 1;
    }
}

impl Line {
    fn of(entry: &Entry<'_>) -> Line {
        let crc = crc32c::crc32c(entry.bytes);
        Line { seq: entry.seq, offset: entry.offset, bytes: entry.bytes.len(), crc }
    }
}

impl Ranges {
    fn contain(&self, offset: u64) -> bool {
        self.0.iter().any(|range| range.contains(&offset))
    }

    fn add(&mut self, new: Range<u64>) {
        if let Some(last) = self.0.last_mut().filter(|last| (last.start..=last.end).contains(&new.start)) {
            last.end = last.end.max(new.end);
            return;
        }
        if self.0.len() >= RANGES_MAX {
            self.0.clear();
        }
        self.0.push(new);
    }
}

impl LogKeys {
    /// Locks the keys of a log. What a panic left of them is forgotten: a record that was read and not noted would be
    /// recorded twice.
    pub fn lock(shared: &SharedKeys) -> MutexGuard<'_, LogKeys> {
        shared.lock().unwrap_or_else(|poisoned| {
            let mut keys = poisoned.into_inner();
            *keys = LogKeys::default();
            shared.clear_poison();
            keys
        })
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Returns whether nothing was read yet under a rule that reaches through the whole log.
    pub fn wants_prefetch(&self, rule: &KeyRule) -> bool {
        rule.reach() == Reach::Whole && (self.newest.is_none() || !self.index.serves(rule))
    }

    /// Reads the keys of a log without its lease, so that whoever has the lease reads only what was appended since. The
    /// reader stands at the beginning of the log with the id `stream`.
    pub fn prefetch(&mut self, rule: &KeyRule, stream: &Arc<str>, reader: Reader) -> Result<()> {
        *self = LogKeys::new(rule, stream, reader.file_id());
        self.read_with(reader)
    }

    fn new(rule: &KeyRule, stream: &Arc<str>, file: FileId) -> LogKeys {
        let (index, stream) = (KeyIndex::new(rule), stream.clone());
        LogKeys { index, stream, file: Some(file), ..LogKeys::default() }
    }

    /// Returns whether this is about the log of a handle and serves a rule.
    fn is_of(&self, log: &Log, rule: &KeyRule) -> bool {
        self.index.serves(rule) && self.file == Some(log.file_id()) && *self.stream == *log.stream
    }

    /// Returns whether all that the handle knows of was read.
    fn is_current(&self, log: &Log) -> bool {
        self.mark == log.mark && self.index.upto() == log.len
    }

    fn read_with(&mut self, mut reader: Reader) -> Result<()> {
        while let Some(item) = reader.next()? {
            if let Item::Entry(entry) = item {
                self.index.add(&entry);
                self.newest = Some(Line::of(&entry));
            }
        }
        Ok(())
    }

    /// Reads what was appended behind the newest line. False: that is not where it was.
    fn read_on(&mut self, log: &Log, rule: &KeyRule) -> Result<bool> {
        let Some(newest) = self.newest else { return Ok(false) };
        let is_far = log.len.saturating_sub(newest.offset) > READ_ON_BYTES_MAX;
        if is_far && rule.reach() != Reach::Whole {
            return Ok(false);
        }
        let mut reader = log.reader_at(newest.offset, newest.seq)?;
        match reader.next()? {
            Some(Item::Entry(entry)) if Line::of(&entry) == newest => {}
            _ => return Ok(false),
        }
        self.read_with(reader)?;
        Ok(true)
    }

    /// Reads as far back as a rule reaches.
    fn read_anew(&mut self, log: &Log, rule: &KeyRule) -> Result<()> {
        *self = LogKeys::new(rule, &log.stream, log.file_id());
        if log.is_new() {
            return Ok(());
        }
        let Reach::Last(records) = rule.reach() else {
            return self.read_with(Reader::open(&log.disk, log.path())?);
        };
        let mut back = ReverseReader::of_file(log.lease.file(), log.lease.path())?;
        let mut left = records;
        while left > 0
            && let Some(item) = back.next()?
        {
            let Item::Entry(entry) = item else { continue };
            left -= 1;
            self.index.add_before(&entry);
            self.newest.get_or_insert_with(|| Line::of(&entry));
        }
        Ok(())
    }

    fn is_kept(&self, offset: u64, durability: Durability) -> bool {
        let is_flushed = || durability == Durability::Flush && self.flushed.contain(offset);
        self.synced.contain(offset) || is_flushed()
    }
}

impl Log {
    /// Uses keys that outlive this handle: those of the log with this id, which other handles of it used before.
    pub fn use_keys(&mut self, keys: &SharedKeys, stream: &Arc<str>) {
        if !Arc::ptr_eq(&self.keys, keys) {
            (self.keys, self.stream) = (keys.clone(), stream.clone());
        }
    }

    /// Appends several records with one write and one sync, as [`Log::append_batch`] does, under a rule of the caller:
    /// a body of which a record within reach, or a body before it in the same call, has a key is not appended, whatever
    /// the rest of it and `expect` say, and its receipt is that of the first record. Such a record is written again and
    /// synced first, unless this process did that before. In another program's file nothing is written again, and such
    /// an append is [`Error::Unknown`].
    pub fn append_by(
        &mut self,
        rule: &KeyRule,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        if bodies.iter().any(|body| rule.may_have_keys(body)) {
            return self.guarded(|log| log.commit_keyed(rule, bodies, durability, expect));
        }
        let first = self.guarded(|log| log.commit(bodies, durability, expect))?;
        let numbered = (first..).zip(&self.starts);
        Ok(numbered.map(|(seq, offset)| Receipt { seq, offset: *offset, durability }).collect())
    }

    /// Returns a record with a key, as far back as the rule reaches, or `None` if none has it. Appends nothing.
    pub fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        self.guarded(|log| {
            let shared = log.keys.clone();
            let mut keys = LogKeys::lock(&shared);
            log.catch_up(&mut keys, rule, Durability::Flush)?;
            log.look_up(&mut keys, rule, key, which)
        })
    }

    /// Makes the record at an offset, and everything behind it, survive power loss, whoever wrote it and whatever
    /// became of earlier syncs: the bytes are written again and synced. [`Error::Unknown`] in another program's file,
    /// in which nothing is written again.
    pub fn keep_from(&mut self, offset: u64) -> Result<()> {
        self.guarded(|log| {
            log.check_usable(Durability::Sync)?;
            log.rewrite_from(offset)?;
            if let Ok(mut keys) = log.keys.try_lock()
                && keys.mark == log.mark
            {
                keys.synced.add(offset..log.len);
            }
            Ok(())
        })
    }

    /// [`Log::append_by`], where bodies may have keys.
    fn commit_keyed(
        &mut self,
        rule: &KeyRule,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        let shared = self.keys.clone();
        let mut keys = LogKeys::lock(&shared);
        self.catch_up(&mut keys, rule, durability)?;
        let (fates, written) = sort_out(rule, bodies, |key| {
            let found = self.look_up(&mut keys, rule, key, Occurrence::First)?;
            Ok::<_, Error>(found.map(|found| found.place))
        })?;
        for body in &written {
            super::check_size(body)?;
        }
        let lost = |fate: &Fate| match fate {
            Fate::Known(place) if !keys.is_kept(place.offset, durability) => Some(place.offset),
            Fate::Known(_) | Fate::Written(_) => None,
        };
        if let Some(first) = fates.iter().filter_map(lost).min() {
            self.rewrite_from(first)?;
            keys.synced.add(first..self.len);
            // That takes a while, in which another program may have written.
            self.check_usable(durability)?;
        }
        let first = self.next_seq;
        if let (Expect::Seq(expected), Some(Fate::Written(_))) = (expect, fates.first())
            && expected != first
        {
            return Err(Error::Conflict { path: self.path().to_owned(), expected, next: first });
        }
        self.encode(written.iter().copied())?;
        if !written.is_empty() {
            let start = self.readable_end();
            self.put_down(written.len() as u64, durability)?;
            self.note_keys(&mut keys, written.iter().copied(), start, durability);
        }
        let receipt = |fate| match fate {
            Fate::Known(RecordPlace { seq, offset }) => Receipt { seq, offset, durability },
            Fate::Written(nth) => Receipt { seq: first + nth as u64, offset: self.starts[nth], durability },
        };
        Ok(fates.into_iter().map(receipt).collect())
    }

    /// Checks that the log may be written, and reads the keys that are not known yet.
    fn catch_up(&mut self, keys: &mut LogKeys, rule: &KeyRule, durability: Durability) -> Result<()> {
        self.check_usable(durability)?;
        // Another program may have rewritten its file in place, so what was read last is compared each time.
        let mut is_trusted = self.kind == FileKind::Native;
        for _ in 0..READS_MAX {
            if is_trusted && keys.is_of(self, rule) && keys.is_current(self) {
                break;
            }
            if !(keys.is_of(self, rule) && keys.read_on(self, rule)?) {
                keys.read_anew(self, rule)?;
            }
            if keys.mark.handle != self.mark.handle {
                keys.flushed = Ranges::default();
            }
            keys.mark = self.mark;
            keys.index.read_to(self.len);
            is_trusted = true;
            if self.is_new() {
                break;
            }
            // Reading takes a while, in which another program may have written.
            self.check_usable(durability)?;
        }
        Ok(())
    }

    /// Returns the record with a key, as it is read now. What only seems to be there is not.
    fn look_up(
        &self,
        keys: &mut LogKeys,
        rule: &KeyRule,
        key: &[u8],
        which: Occurrence,
    ) -> Result<Option<KeyedLine>> {
        let Some(place) = keys.index.find(key, which) else { return Ok(None) };
        let found = self.line_with_key(rule, key, place)?;
        let (place, bytes) = match found {
            Some(bytes) => (place, bytes),
            None => {
                // Another program rewrote its file.
                keys.read_anew(self, rule)?;
                let Some(place) = keys.index.find(key, which) else { return Ok(None) };
                let Some(bytes) = self.line_with_key(rule, key, place)? else { return Ok(None) };
                (place, bytes)
            }
        };
        Ok(Some(KeyedLine { place, bytes, is_kept: keys.is_kept(place.offset, Durability::Sync) }))
    }

    fn line_with_key(&self, rule: &KeyRule, key: &[u8], place: RecordPlace) -> Result<Option<Vec<u8>>> {
        let mut reader = self.reader_at(place.offset, place.seq)?;
        let Some(Item::Entry(entry)) = reader.next()? else { return Ok(None) };
        let is_it =
            RecordPlace { seq: entry.seq, offset: entry.offset } == place && rule.has_key(&entry, key);
        Ok(is_it.then(|| entry.bytes.to_vec()))
    }

    /// Opens a reader before the line at an offset, where the number `seq` was read before.
    fn reader_at(&self, offset: u64, seq: u64) -> Result<Reader> {
        Reader::resume(&self.disk, self.lease.path(), self.kind, offset, seq)
    }

    pub(super) fn rewrite_from(&mut self, offset: u64) -> Result<()> {
        if self.kind != FileKind::Native {
            let why =
                "it can be read there, but in another program's file nothing is written again to make sure";
            return Err(self.unknown(why));
        }
        // The header stands at the beginning, and a first record is little without it.
        let start = if offset <= REWRITTEN_WHOLE_BYTES { 0 } else { offset };
        if let Err(why) = recover::write_again(&*self.disk, &self.lease, start..self.len) {
            return Err(self.close_unknown(format!("it could not be written again ({why}{})", hint(&why))));
        }
        self.sync_name()
    }

    /// Returns where the next line begins, or `None` if what stands before that could not be read: another program's
    /// line that is not finished becomes a record when ours follows.
    pub(super) fn readable_end(&self) -> Option<u64> {
        (!self.newline_first && !self.torn_end).then_some(self.len)
    }

    /// Notes the keys of what was just written from `start` on, if all before it is known. What is not noted is read by
    /// whoever needs it next.
    pub(super) fn note_keys<'b>(
        &self,
        keys: &mut LogKeys,
        written: impl Iterator<Item = &'b Body>,
        start: Option<u64>,
        durability: Durability,
    ) {
        let Some(start) = start.filter(|start| keys.mark == self.mark && keys.index.upto() == *start) else {
            return;
        };
        let first = self.next_seq - self.starts.len() as u64;
        let ends = self.starts.iter().skip(1).copied().chain([self.len]);
        for (((seq, body), offset), end) in (first..).zip(written).zip(&self.starts).zip(ends) {
            // Without its newline.
            let bytes = &self.buffer[(offset - start) as usize..(end - start - 1) as usize];
            let line = Entry { seq, offset: *offset, bytes, verified: true };
            keys.index.add_appended(body, &line);
            if end == self.len {
                keys.newest = Some(Line::of(&line));
            }
        }
        let ranges = if durability == Durability::Flush { &mut keys.flushed } else { &mut keys.synced };
        ranges.add(start..self.len);
        keys.index.read_to(self.len);
    }
}

/// After so many times another program that writes all the time is not waited for: what it writes has no keys of ours.
const READS_MAX: u32 = 8;
/// Behind so much that others appended, the last records are read backwards instead.
const READ_ON_BYTES_MAX: u64 = 256 << 10;
/// Up to here a log is written again from its beginning: no header is longer.
const REWRITTEN_WHOLE_BYTES: u64 = 64 << 10;
/// What is not remembered is made sure of again.
const RANGES_MAX: usize = 1000;
