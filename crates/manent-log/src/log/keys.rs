//! Appending by keys: finding the records that are there already, and making sure that they are kept.
//!
//! Before a record is appended under a [`KeyRule`], it is looked for by its keys. That it can be read proves nothing
//! about the disk: where a sync failed, Linux takes the pages for clean, shows them to every reader, and writes them no
//! more. So what is found is written again, from there to the end of the file, and synced; only then is there a
//! receipt. Other programs' files are not written to but at their end.
//!
//! Which records have which keys is kept in [`LogKeys`], which outlives a handle. A log is read once; afterwards, what
//! this process appends is noted as it is appended, and what others appended is read on, if the last line that was read
//! is still there. What is found is read where it lies before it counts.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Body, Expect, Log, LogReceipt};
use crate::commit::Durability;
use crate::error::{Error, Result, hint};
use crate::frame::FileKind;
use crate::fs::FileId;
use crate::keys::{DedupOutcome, KeyIndex, KeyRule, Occurrence, Reach, RecordPlace, deduplicate};
use crate::reader::{Entry, LogItem, Reader};
use crate::recover;

/// The keys of one log, shared by the handles that are opened for it one after the other.
pub type SharedKeys = Arc<Mutex<LogKeys>>;

/// The keys of one log, and what is known of the records that have them.
#[derive(Debug, Default)]
pub struct LogKeys {
    index: KeyIndex,
    /// The id and the file of the log that was read: another one of the same name is not taken for it.
    log: Option<(Arc<str>, FileId)>,
    /// The fingerprint of the last line that was read.
    newest: Option<(RecordPlace, u32)>,
    /// The mark of the handle for which this was last brought up to date.
    mark: u64,
    /// The bytes that this process wrote, or wrote again, as durable as that.
    kept_ranges: Vec<(Range<u64>, Durability)>,
}

/// A record that was found by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedLine {
    /// The number of the record.
    pub seq: u64,
    /// The offset in the file; elsewhere, the position.
    pub offset: u64,
    /// The line, without a newline.
    pub bytes: Vec<u8>,
    /// True if this process made sure that the record survives power loss.
    pub is_kept: bool,
}

/// Returns what tells the state of a file, as one handle knows it, from every other state and handle.
pub(super) fn next_mark() -> u64 {
    static MARKS: AtomicU64 = AtomicU64::new(1);
    MARKS.fetch_add(1, Ordering::Relaxed)
}

/// Returns what tells a line from others: its place and its checksum.
fn fingerprint(line: &Entry<'_>) -> (RecordPlace, u32) {
    (RecordPlace { seq: line.seq, offset: line.offset }, crc32c::crc32c(line.bytes))
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
    pub fn key_count(&self) -> usize {
        self.index.key_count()
    }

    /// Returns whether no line was read yet under a rule.
    pub fn is_unread(&self, rule: &KeyRule) -> bool {
        self.newest.is_none() || !self.index.serves(rule)
    }

    /// Reads the keys of the log with the id `stream`, without its lease, so that whoever has the lease reads only what
    /// was appended since. The reader stands at the beginning.
    pub fn read(&mut self, rule: &KeyRule, stream: &Arc<str>, mut reader: Reader) -> Result<()> {
        *self = LogKeys::new(rule, stream, reader.file_id());
        self.read_with(&mut reader)
    }

    fn new(rule: &KeyRule, stream: &Arc<str>, file: FileId) -> LogKeys {
        LogKeys { index: KeyIndex::new(rule), log: Some((stream.clone(), file)), ..LogKeys::default() }
    }

    fn read_with(&mut self, reader: &mut Reader) -> Result<()> {
        while let Some(item) = reader.next()? {
            if let LogItem::Entry(line) = item {
                self.index.add(&line);
                self.newest = Some(fingerprint(&line));
            }
        }
        Ok(())
    }

    /// Reads as far back as a rule reaches.
    fn read_anew(&mut self, log: &Log, rule: &KeyRule) -> Result<()> {
        let reader = match rule.reach {
            _ if log.is_new() => {
                *self = LogKeys::new(rule, &log.stream, log.file_id());
                return Ok(());
            }
            Reach::Whole => Reader::open(&log.disk, log.path()),
            Reach::Last(records) => Reader::open_tail(&log.disk, log.path(), records as u64, |_| true),
        };
        self.read(rule, &log.stream, log.own(reader)?)
    }

    /// Reads what was appended to a log that was read from its beginning. Returns false if it was not, or if the
    /// file is another one or was changed.
    fn read_on(&mut self, log: &Log, rule: &KeyRule) -> Result<bool> {
        let is_whole = rule.reach == Reach::Whole && self.is_of(log, rule);
        let Some((place, _)) = self.newest.filter(|_| is_whole) else { return Ok(false) };
        let mut reader = log.reader_at(place)?;
        let first = reader.next()?;
        if !matches!(first, Some(LogItem::Entry(line)) if Some(fingerprint(&line)) == self.newest) {
            return Ok(false);
        }
        self.read_with(&mut reader).map(|()| true)
    }

    fn is_of(&self, log: &Log, rule: &KeyRule) -> bool {
        let is_same = |(stream, file): &(Arc<str>, FileId)| *stream == log.stream && *file == log.file_id();
        self.index.serves(rule) && self.log.as_ref().is_some_and(is_same)
    }

    fn is_kept(&self, offset: u64, durability: Durability) -> bool {
        let is_enough = |reached: Durability| reached != Durability::Flush || durability == Durability::Flush;
        self.kept_ranges.iter().any(|(range, reached)| range.contains(&offset) && is_enough(*reached))
    }

    fn note_kept(&mut self, new: Range<u64>, durability: Durability) {
        let follows = |(range, reached): &&mut (Range<u64>, Durability)| {
            *reached == durability && (range.start..=range.end).contains(&new.start)
        };
        if let Some((range, _)) = self.kept_ranges.last_mut().filter(follows) {
            range.end = range.end.max(new.end);
            return;
        }
        if self.kept_ranges.len() >= RANGES_MAX {
            self.kept_ranges.clear();
        }
        self.kept_ranges.push((new, durability));
    }
}

impl Log {
    /// Uses keys that outlive this handle, which other handles of the log with this id used before.
    pub fn use_keys(&mut self, keys: &SharedKeys, stream: &Arc<str>) {
        (self.keys, self.stream) = (keys.clone(), stream.clone());
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
    ) -> Result<Vec<LogReceipt>> {
        if bodies.iter().any(|body| body.key().is_some()) || !rule.is_idempotency() {
            return self.guarded(|log| log.commit_keyed(rule, bodies, durability, expect));
        }
        let first = self.guarded(|log| log.commit(bodies, durability, expect))?;
        let numbered = (first..).zip(&self.starts);
        Ok(numbered.map(|(seq, offset)| LogReceipt { seq, offset: *offset, durability }).collect())
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
            if let Some(mut keys) = log.keys.try_lock().ok().filter(|keys| keys.mark == log.mark) {
                keys.note_kept(offset..log.end.len, Durability::Sync);
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
        mut expect: Expect,
    ) -> Result<Vec<LogReceipt>> {
        let shared = self.keys.clone();
        let mut keys = LogKeys::lock(&shared);
        self.catch_up(&mut keys, rule, durability)?;
        let (outcomes, written) = deduplicate(rule, bodies, |key| {
            let found = self.look_up(&mut keys, rule, key, Occurrence::First)?;
            Ok::<_, Error>(found.map(|line| RecordPlace { seq: line.seq, offset: line.offset }))
        })?;
        for body in &written {
            body.check_size()?;
        }
        let unsure = outcomes.iter().filter_map(|outcome| match outcome {
            DedupOutcome::Known(place) => {
                Some(place.offset).filter(|offset| !keys.is_kept(*offset, durability))
            }
            DedupOutcome::Written(_) => None,
        });
        if let Some(first) = unsure.min() {
            self.rewrite_from(first)?;
            keys.note_kept(first..self.end.len, Durability::Sync);
            // That takes a while, in which another program may have written.
            self.check_usable(durability)?;
        }
        if let Some(DedupOutcome::Known(_)) = outcomes.first() {
            expect = Expect::Any;
        }
        let first = self.write_records(written.iter().copied(), durability, expect, Some(&mut keys))?;
        let receipt = |outcome| match outcome {
            DedupOutcome::Known(RecordPlace { seq, offset }) => LogReceipt { seq, offset, durability },
            DedupOutcome::Written(nth) => {
                LogReceipt { seq: first + nth as u64, offset: self.starts[nth], durability }
            }
        };
        Ok(outcomes.into_iter().map(receipt).collect())
    }

    /// Checks that the log may be written, and reads the keys that are not known yet.
    fn catch_up(&mut self, keys: &mut LogKeys, rule: &KeyRule, durability: Durability) -> Result<()> {
        self.check_usable(durability)?;
        // Another program may have rewritten its file in place: the last line is compared, where all of them count.
        let mut is_read = self.end.kind == FileKind::Native || rule.reach != Reach::Whole;
        for _ in 0..READS_MAX {
            if is_read && keys.is_of(self, rule) && keys.mark == self.mark && keys.index.upto == self.end.len
            {
                break;
            }
            if !keys.read_on(self, rule)? {
                keys.read_anew(self, rule)?;
            }
            if keys.mark != self.mark {
                // What another handle only flushed may be gone, if a sync of it failed since.
                keys.kept_ranges.retain(|(_, reached)| *reached != Durability::Flush);
            }
            (keys.mark, keys.index.upto, is_read) = (self.mark, self.end.len, true);
            if !self.is_new() {
                // Reading takes a while, in which another program may have written.
                self.check_usable(durability)?;
            }
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
        for _ in 0..2 {
            let Some(place) = keys.index.find(key, which) else { break };
            let mut reader = self.reader_at(place)?;
            if let Some(LogItem::Entry(line)) = reader.next()? {
                let mut is_it = false;
                (rule.keys_of)(&line, &mut |one| is_it |= one == key && fingerprint(&line).0 == place);
                let (bytes, is_kept) = (line.bytes.to_vec(), keys.is_kept(place.offset, Durability::Sync));
                if is_it {
                    return Ok(Some(KeyedLine { seq: place.seq, offset: place.offset, bytes, is_kept }));
                }
            }
            // Another program rewrote its file.
            keys.read_anew(self, rule)?;
        }
        Ok(None)
    }

    /// Opens a reader before a line that was read before.
    fn reader_at(&self, place: RecordPlace) -> Result<Reader> {
        self.own(Reader::resume(&self.disk, self.path(), self.end.kind, place.offset, place.seq))
    }

    /// Refuses a reader of another file, to which the path leads by now.
    fn own(&self, reader: Result<Reader>) -> Result<Reader> {
        match reader {
            Ok(reader) if reader.file_id() != self.file_id() => {
                Err(Error::Gone { path: self.path().to_owned(), how: "moved or replaced" })
            }
            reader => reader,
        }
    }

    pub(super) fn rewrite_from(&mut self, offset: u64) -> Result<()> {
        if self.end.kind != FileKind::Native {
            let why =
                "it can be read there, but in another program's file nothing is written again to make sure";
            return Err(self.unknown(why));
        }
        // The header stands at the beginning, and a first record is little without it.
        let start = if offset <= REWRITTEN_WHOLE_BYTES { 0 } else { offset };
        if let Err(why) = recover::write_again(&*self.disk, &self.lease, start..self.end.len) {
            return Err(self.close_unknown(format!("it could not be written again ({why}{})", hint(&why))));
        }
        self.sync_name()
    }

    /// Notes the keys of what was just written from `start` on, if all before it was read: what is not noted is read by
    /// whoever looks for a key next.
    pub(super) fn note_keys<'b>(
        &self,
        keys: &mut LogKeys,
        written: impl Iterator<Item = &'b Body>,
        start: u64,
        durability: Durability,
    ) {
        if keys.mark != self.mark || keys.index.upto != start {
            return;
        }
        let first = self.end.next_seq - self.starts.len() as u64;
        let ends = self.starts.iter().skip(1).copied().chain([self.end.len]);
        for (((seq, body), offset), end) in (first..).zip(written).zip(&self.starts).zip(ends) {
            // Without its newline.
            let bytes = &self.buffer[(offset - start) as usize..(end - start - 1) as usize];
            let line = Entry { seq, offset: *offset, bytes, verified: true };
            keys.index.add_appended(body, &line);
            if end == self.end.len {
                keys.newest = Some(fingerprint(&line));
            }
        }
        keys.note_kept(start..self.end.len, durability);
        keys.index.upto = self.end.len;
    }
}

/// The number of looks after which a program that writes all the time is not waited for: its lines have no keys of
/// ours.
const READS_MAX: u32 = 8;
/// Up to here a log is written again from its beginning: no header is longer.
const REWRITTEN_WHOLE_BYTES: u64 = 64 << 10;
/// The number of ranges remembered as kept. Records outside of them are made sure of again.
const RANGES_MAX: usize = 1000;
