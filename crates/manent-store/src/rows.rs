//! Helpers for backends that keep a stream as a row of lines: memory, tables of a database.
//!
//! The position of a line is its place in the row: 0 for the first line, which is the header unless the stream is
//! another program's. A backend implements [`Rows`] to get a reader ([`RowReader`]), and calls [`catch_up`],
//! [`plan_append`], [`write_parts`] and [`verify_rows`] where it writes and checks.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use manent_log::frame::{self, DamageReason, RECORD_BYTES_MAX, SEQ_MAX};
use manent_log::{
    Body, Damage, DamageFinding, DedupOutcome, Durability, Entry, Expect, FileChange, FileKind, KeyIndex,
    KeyRule, LogEnd, LogItem, Occurrence, Reach, TailState, VerifyReport,
};

use crate::error::{Error, Result};
use crate::header::HeaderNames;
use crate::streams::{
    AppendOptions, Position, ProgressFn, Receipt, Seek, StreamId, StreamPart, StreamParts, StreamReader,
};

/// A line as a file would hold it, without its newline. Clones share the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredLine {
    /// The record's number: 0 for the header. A line of another program has the number after that of the line before
    /// it.
    pub seq: u64,
    /// The line, without its newline.
    pub bytes: Arc<[u8]>,
    /// True if the line carries its number and a checksum that holds.
    pub verified: bool,
}

impl StoredLine {
    /// Makes the line of a record.
    ///
    /// Gives [`manent_log::Error::TooLarge`] for a body that is too long, or whose idempotency key is, and
    /// [`manent_log::Error::Full`] for a number above [`SEQ_MAX`].
    pub fn record(at: &StreamId, seq: u64, body: &Body) -> Result<StoredLine> {
        body.check_size()?;
        if seq > SEQ_MAX {
            return Err(manent_log::Error::Full { path: path_of(at), max: SEQ_MAX }.into());
        }
        let mut line = frame::line(seq, body);
        if line.len() > RECORD_BYTES_MAX {
            let (bytes, max) = (line.len() as u64, RECORD_BYTES_MAX as u64);
            return Err(manent_log::Error::TooLarge { bytes, max }.into());
        }
        line.pop();
        Ok(StoredLine { seq, bytes: line.into(), verified: true })
    }

    /// Makes a line of another program.
    pub fn foreign(seq: u64, bytes: impl Into<Arc<[u8]>>) -> StoredLine {
        StoredLine { seq, bytes: bytes.into(), verified: false }
    }

    /// Returns the line as readers give it. `index` is its place in the row, and becomes the offset of the entry.
    pub fn entry(&self, index: u64) -> Entry<'_> {
        Entry { seq: self.seq, offset: index, bytes: &self.bytes, verified: self.verified }
    }

    /// Returns how many bytes a file would need for it.
    pub fn file_bytes(&self) -> u64 {
        self.bytes.len() as u64 + 1
    }
}

impl fmt::Debug for StoredLine {
    /// Says nothing of the bytes: they are content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("seq", &self.seq).finish_non_exhaustive()
    }
}

/// The lines of one stream that is being read. They stay what they were when the stream was opened, and more may follow
/// as it grows, wherever it is moved and whatever takes its place.
pub trait Rows: fmt::Debug + Send + Sync {
    /// Returns how many lines there are now.
    fn count(&self) -> Result<u64>;

    /// Returns a line by its place in the row, or `None` beyond the end.
    fn line(&self, index: u64) -> Result<Option<StoredLine>>;

    /// Returns the place of the first line with at least this number, or the number of lines if there is none. Numbers
    /// grow from line to line in a stream that is sound; in another one, any line with at least this number will do.
    fn first_from(&self, seq: u64) -> Result<u64>;

    /// Returns whether the stream is still where it was opened and was not replaced.
    fn is_current(&self) -> Result<bool>;

    /// Returns a number that no other stream of this backend has: see [`StreamReader::identity`].
    fn number(&self) -> u64;
}

/// Reads a row of lines.
#[derive(Debug)]
pub struct RowReader<R> {
    rows: R,
    header: Option<StoredLine>,
    id: String,
    /// The place of the next line in the row.
    next: u64,
    /// The smallest number that is given.
    from_seq: u64,
    until: u64,
    current: Option<(u64, StoredLine)>,
}

impl<R: Rows> RowReader<R> {
    /// Makes a reader that stands before the first line.
    pub fn new(rows: R) -> Result<RowReader<R>> {
        let header = rows.line(0)?.filter(|line| line.seq == 0);
        let names = header.as_ref().and_then(|line| HeaderNames::of_line(&line.bytes));
        let id = names.unwrap_or_default().id;
        Ok(RowReader { rows, header, id, next: 0, from_seq: 0, until: u64::MAX, current: None })
    }

    /// Returns where the last `count` matching lines begin, and how many are missing.
    fn last(&self, count: u64, before: Option<u64>, matches: &dyn Fn(&[u8]) -> bool) -> Result<(u64, u64)> {
        let end = before.map_or_else(|| self.rows.count(), |seq| self.rows.first_from(seq))?;
        let (mut first, mut left) = (end, count);
        while left > 0 && first > u64::from(self.header.is_some()) {
            first -= 1;
            let line = self.rows.line(first)?;
            left -= u64::from(line.is_some_and(|line| matches(&line.bytes)));
        }
        Ok(if left == 0 { (first, 0) } else { (0, left) })
    }
}

impl<R: Rows> StreamReader for RowReader<R> {
    fn header(&self) -> Option<&[u8]> {
        self.header.as_ref().map(|line| &*line.bytes)
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn identity(&self) -> [u64; 2] {
        [0, self.rows.number()]
    }

    fn seek(&mut self, to: Seek<'_>) -> Result<u64> {
        let (next, missing) = match to {
            Seek::Header | Seek::First => (0, 0),
            Seek::Seq(seq) => (self.rows.first_from(seq)?, 0),
            Seek::Position { position, .. } => (position.raw(), 0),
            Seek::Last { count, before, matches } => self.last(count, before, matches)?,
        };
        // A number that is not there yet may still be some records away.
        self.from_seq = if let Seek::Seq(seq) = to { seq } else { 0 };
        (self.next, self.until, self.current) = (next, u64::MAX, None);
        Ok(missing)
    }

    fn end_at(&mut self, seq: u64) {
        self.until = seq;
    }

    fn advance(&mut self) -> Result<bool> {
        self.current = None;
        while let Some(line) = self.rows.line(self.next)?.filter(|line| line.seq <= self.until) {
            self.next += 1;
            if line.seq >= self.from_seq {
                self.current = Some((self.next - 1, line));
                break;
            }
        }
        Ok(self.current.is_some())
    }

    fn item(&self) -> Option<LogItem<'_>> {
        self.current.as_ref().map(|(index, line)| LogItem::Entry(line.entry(*index)))
    }

    fn line_at(&self, position: Position, _bytes: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.rows.line(position.raw())?.map(|line| line.bytes.to_vec()))
    }

    fn end(&self) -> LogEnd {
        LogEnd::Clean
    }

    fn poll(&self) -> Result<FileChange> {
        // First what can still be read: a stream that was moved away may have grown before.
        if self.rows.count()? > self.next {
            return Ok(FileChange::Grew);
        }
        Ok(if self.rows.is_current()? { FileChange::None } else { FileChange::Replaced })
    }

    fn is_native(&self) -> Result<bool> {
        Ok(self.header.is_some())
    }
}

/// Reads the keys of the lines that were appended since an index was last brought up to date, as far back as the rule
/// reaches. There are `count` lines, which stay what they are; another stream needs another index. Sets
/// [`KeyIndex::upto`] to `count`. An index that does not serve the rule, such as the default one, is begun anew.
pub fn catch_up(
    index: &mut KeyIndex,
    rule: &KeyRule,
    count: u64,
    line: impl Fn(u64) -> Result<Option<StoredLine>>,
) -> Result<()> {
    if !index.serves(rule) {
        *index = KeyIndex::new(rule);
    }
    let first = match rule.reach {
        Reach::Last(records) => count.saturating_sub(records as u64),
        Reach::Whole => 0,
    };
    for position in first.max(index.upto)..count {
        if let Some(line) = line(position)? {
            index.add(&line.entry(position));
        }
    }
    index.upto = count;
    Ok(())
}

/// The lines that an append writes, and the receipts it gives.
#[derive(Debug)]
pub struct AppendPlan {
    outcomes: Vec<DedupOutcome>,
    first_seq: u64,
    durability: Durability,
    /// The lines to be written, in order. If there are fewer than bodies, the others are known: the backend makes the
    /// records that are there as durable as asked.
    pub lines: Vec<StoredLine>,
}

/// Decides what an append writes, and writes nothing: bodies that are known by their keys are left out, the expectation
/// is compared with `next`, and every line is made. The index is up to date.
pub fn plan_append(
    at: &StreamId,
    bodies: &[Body],
    how: &AppendOptions<'_>,
    next: u64,
    index: &KeyIndex,
) -> Result<AppendPlan> {
    let find = |key: &[u8]| Ok::<_, Error>(index.find(key, Occurrence::First));
    let (outcomes, written) = manent_log::deduplicate(how.keys, bodies, find)?;
    if let (Expect::Seq(expected), None | Some(DedupOutcome::Written(_))) = (how.expect, outcomes.first())
        && expected != next
    {
        return Err(manent_log::Error::Conflict { path: path_of(at), expected, next }.into());
    }
    let lines = (next..).zip(written).map(|(seq, body)| StoredLine::record(at, seq, body));
    let (first_seq, durability) = (next, how.durability);
    Ok(AppendPlan { outcomes, first_seq, durability, lines: lines.collect::<Result<_>>()? })
}

impl AppendPlan {
    /// Makes the receipts, when the lines are written and the first of them got this position.
    pub fn receipts(self, id: &Arc<str>, first: u64) -> Vec<Receipt> {
        let receipt = |outcome| {
            let (seq, position) = match outcome {
                DedupOutcome::Known(place) => (place.seq, place.offset),
                DedupOutcome::Written(nth) => (self.first_seq + nth as u64, first + nth as u64),
            };
            Receipt { id: id.clone(), seq, position: Position::new(position), durability: self.durability }
        };
        self.outcomes.into_iter().map(receipt).collect()
    }
}

/// Makes the lines of a stream that is written as a whole. `lines_of` returns the lines of another stream, its header
/// included, or [`Error::NotFound`]. Parts and `lines_of` run code of the caller that may read the same backend, so no
/// lock that a reader needs may be held.
pub fn write_parts(
    at: &StreamId,
    header: Option<&Body>,
    parts: StreamParts<'_>,
    lines_of: impl Fn(&StreamId) -> Result<Vec<StoredLine>>,
) -> Result<Vec<StoredLine>> {
    let mut all: Vec<StoredLine> = Vec::new();
    all.extend(header.map(|body| StoredLine::record(at, 0, body)).transpose()?);
    for part in parts {
        let more = match part? {
            StreamPart::Record { seq, body } => vec![StoredLine::record(at, seq, &body)?],
            StreamPart::Line(bytes) => vec![StoredLine::foreign(1, bytes)],
            StreamPart::Lines { of, upto } => {
                let is_wanted = |line: &StoredLine| line.seq > 0 && line.seq <= upto.unwrap_or(u64::MAX);
                lines_of(&of)?.into_iter().filter(is_wanted).collect()
            }
        };
        for line in more {
            // A line of another program has no number but the next one.
            let next = all.last().map_or(1, |last| last.seq + 1);
            all.push(if line.verified { line } else { StoredLine { seq: next, ..line } });
        }
    }
    Ok(all)
}

/// Returns the number that the next record gets behind these lines, of which the first and the last are given. With a
/// header alone, it is both; without any line, the number is 1.
pub fn next_seq(first: Option<&StoredLine>, last: Option<&StoredLine>) -> u64 {
    match last {
        Some(last) if last.seq > 0 => last.seq + 1,
        _ => first.map_or(1, |header| manent_log::Header::parse(&header.bytes).first_seq),
    }
}

/// Checks lines as [`manent_log::verify()`] checks a file of them.
pub fn verify_rows(lines: &[StoredLine], progress: ProgressFn<'_>) -> VerifyReport {
    let all = lines.iter().map(StoredLine::file_bytes).sum();
    let (mut done, mut records, mut unverified, mut damage) = (0, 0, 0, Vec::new());
    let mut expected = lines.first().map_or(1, |line| line.seq);
    progress(0, all);
    for (index, line) in lines.iter().enumerate() {
        let reason = match frame::verify(&line.bytes) {
            None if line.verified => Some(DamageReason::Checksum),
            Some(seq) if seq > expected => Some(DamageReason::Missing),
            Some(seq) if seq < expected => Some(DamageReason::OutOfOrder),
            None | Some(_) => None,
        };
        records += u64::from(line.seq > 0 && reason != Some(DamageReason::Checksum));
        unverified += u64::from(!line.verified);
        if let Some(reason) = reason {
            let damage_here = Damage { offset: index as u64, length: 0, reason, lines: 0, seq: expected };
            damage.push(DamageFinding { damage: damage_here, acknowledged: false });
        }
        expected = next_seq(lines.first(), Some(line));
        done += line.file_bytes();
        progress(done, all);
    }
    let kind = lines.first().map(|first| match first.verified {
        true => FileKind::Native,
        false if unverified < records => FileKind::Adopted,
        false => FileKind::Foreign,
    });
    VerifyReport { records, unverified, damage, tail: TailState::Clean, kind }
}

/// Returns what stands for a file in messages of the log.
pub fn path_of(at: &StreamId) -> PathBuf {
    PathBuf::from(format!("{}/{}", at.space.word(), at.key))
}
