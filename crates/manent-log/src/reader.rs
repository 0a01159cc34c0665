//! Reading a log: forwards as a stream, from a number, before its last entries, and along as it grows.
//!
//! A reader needs no lease and changes nothing. Memory is bounded by the longest record. It gives every record it
//! can read and names every place it cannot; it stops before bytes at the end that are not (or not yet) a record,
//! because another process may be writing them at this moment.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::frame::{self, DamageReason, FileKind};
use crate::fs::{Disk, DiskFile, FileId, read_fully};
use crate::header::Header;
use crate::lines::{Line, Lines, MIN_BLOCK_BYTES, SMALL_BLOCK_BYTES, STREAM_BLOCK_BYTES, TAIL_BYTES};
use crate::lock;
use crate::pieces::{self, Piece, PieceKind};
use crate::reverse::ReverseReader;
use crate::tail::{self, FileOrigin};

/// An item of a log that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogItem<'a> {
    /// A record or another program's line.
    Entry(Entry<'a>),
    /// A damaged place. What follows can be read.
    Damage(Damage),
}

/// One line that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The number of the line.
    pub seq: u64,
    /// The offset of the line in the file.
    pub offset: u64,
    /// The line as it stands in the file, without its newline.
    pub bytes: &'a [u8],
    /// True if its checksum was there and held. False for lines of other programs.
    pub verified: bool,
}

/// A place that cannot be read, or where something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The offset of the place in the file.
    pub offset: u64,
    /// The number of bytes it takes; 0 where lines are missing altogether.
    pub length: u64,
    /// The reason (of the first line, if there are several).
    pub reason: DamageReason,
    /// The number of lines it takes. Each takes a number.
    pub lines: u64,
    /// The number of the first of them.
    pub seq: u64,
}

/// The end of the part of a file that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnd {
    /// The end of a record.
    Clean,
    /// Bytes that are no record: torn by a crash, or being written now.
    Torn(Damage),
}

/// A change of a file since it was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// The file is as it was.
    None,
    /// The file grew, or its end was torn and may have been mended: read on. Reported again as long as the end is torn,
    /// so pause between two looks.
    Grew,
    /// The file is shorter than what was read: acknowledged records are gone.
    Truncated,
    /// The path leads to another file now, or to none.
    Replaced,
}

/// A forward reader.
///
/// ```no_run
/// # fn main() -> manent_log::Result<()> {
/// use manent_log::{LogItem, Reader, RealDisk};
/// let mut reader = Reader::open(&RealDisk::shared(), "chat.jsonl".as_ref())?;
/// while let Some(item) = reader.next()? {
///     match item {
///         LogItem::Entry(entry) => println!("{} {} bytes", entry.seq, entry.bytes.len()),
///         LogItem::Damage(damage) => eprintln!("damaged: {} bytes at {}", damage.length, damage.offset),
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Reader {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    id: FileId,
    lines: Lines,
    /// Decided when the first line is wanted; not before, because the file may not have been born yet.
    origin: Option<FileOrigin>,
    queue: VecDeque<Piece>,
    scratch: Vec<Piece>,
    /// Damage met but not reported: whether it is a gap or the torn end shows only when something valid follows.
    pending: Option<Damage>,
    /// The number the next line takes unless it carries its own.
    next_seq: Option<u64>,
    /// Damage was just reported; the next record may carry any higher number.
    after_gap: bool,
    /// The break before the next record was reported.
    break_reported: bool,
    /// Everything before this offset was read, whether it could be understood or not.
    read_to: u64,
    /// The last place from which reading can go on later as if nothing had happened.
    resume: Resume,
    end: LogEnd,
    current: Option<Current>,
    last_seq: u64,
    /// Up to this offset `lines` holds records that were verified and follow each other.
    verified_to: u64,
}

/// The item at which the reader stands.
#[derive(Debug)]
enum Current {
    Entry { seq: u64, offset: u64, range: Range<usize>, verified: bool },
    Damage(Damage),
}

#[derive(Debug, Clone, Copy, Default)]
struct Resume {
    offset: u64,
    next_seq: Option<u64>,
    after_gap: bool,
}

impl Reader {
    /// Opens a log and stands at its beginning.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Reader> {
        Reader::open_sized(disk, path, STREAM_BLOCK_BYTES)
    }

    /// Opens a log whose file is read through another one, such as one that unpacks it: `wrap` gets the open file and
    /// returns the file to read. The caller moves first, so no memory is set apart for reading yet.
    pub fn open_with(
        disk: &Arc<dyn Disk>,
        path: &Path,
        wrap: impl FnOnce(Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>>,
    ) -> Result<Reader> {
        let file = lock::open_for_reading(&**disk, path)?;
        let file = wrap(file).map_err(Error::io("read", path))?;
        Reader::of_file(disk, path, file, MIN_BLOCK_BYTES)
    }

    /// Opens a log and stands before the first entry whose number is at least `seq`.
    pub fn open_from(disk: &Arc<dyn Disk>, path: &Path, seq: u64) -> Result<Reader> {
        let mut reader = Reader::open(disk, path)?;
        reader.seek_seq(seq)?;
        Ok(reader)
    }

    /// Moves to the beginning of the log, to read all of it.
    pub fn seek_start(&mut self) {
        self.reset(STREAM_BLOCK_BYTES);
    }

    /// Moves to the beginning of the log, to read only its first lines.
    pub fn seek_header(&mut self) {
        self.reset(SMALL_BLOCK_BYTES);
    }

    /// Moves to the beginning, to read blocks of this size from there or elsewhere.
    fn reset(&mut self, block_bytes: usize) {
        self.lines.set_block_bytes(block_bytes);
        self.last_seq = u64::MAX;
        self.origin = None;
        self.go_to(Resume::default());
    }

    /// Moves before the first entry whose number is at least `seq`; to the end if there is none.
    pub fn seek_seq(&mut self, seq: u64) -> Result<()> {
        self.seek_start();
        if let Some(start) = tail::place_before(&*self.file, &self.path, seq)? {
            self.origin = Some(FileOrigin::of(FileKind::Native));
            self.go_to(Resume { offset: start.offset, next_seq: Some(start.seq), after_gap: false });
        }
        while let Some(item) = self.next()? {
            let LogItem::Entry(entry) = item else { continue };
            if entry.seq >= seq {
                let here = Resume { offset: entry.offset, next_seq: Some(entry.seq), after_gap: true };
                self.go_to(here);
                break;
            }
        }
        Ok(())
    }

    /// Moves before the line at `offset`, where the caller read the number `seq` before. Where the log is another one
    /// by now, what comes first is something else, or damage, or nothing: compare.
    pub fn seek_offset(&mut self, offset: u64, seq: u64) -> Result<()> {
        self.reset(SMALL_BLOCK_BYTES);
        self.origin = tail::detect_at_once(&*self.file, &self.path)?;
        if self.origin.is_some() {
            self.go_to(Resume { offset, next_seq: Some(seq), after_gap: false });
        }
        Ok(())
    }

    /// Returns the line at `offset` as it stands, without its newline, or `None` at the end of the file. The reader
    /// stays where it is. For a caller that read there before and compares. `bytes` is how long the line is believed to
    /// be: a wrong guess costs another read.
    pub fn line_at(&self, offset: u64, bytes: usize) -> Result<Option<Vec<u8>>> {
        // With its newline.
        let mut lines = Lines::new(offset, (bytes + 1).clamp(MIN_BLOCK_BYTES, SMALL_BLOCK_BYTES));
        let line = lines.next(&*self.file).map_err(Error::io("read", &self.path))?;
        Ok(line.filter(|line| !line.too_long()).map(|line| lines.bytes(line.range).to_vec()))
    }

    fn open_sized(disk: &Arc<dyn Disk>, path: &Path, block_bytes: usize) -> Result<Reader> {
        Reader::of_file(disk, path, lock::open_for_reading(&**disk, path)?, block_bytes)
    }

    fn of_file(
        disk: &Arc<dyn Disk>,
        path: &Path,
        file: Box<dyn DiskFile>,
        block_bytes: usize,
    ) -> Result<Reader> {
        let id = file.id().map_err(Error::io("inspect", path))?;
        Ok(Reader {
            disk: disk.clone(),
            path: path.to_owned(),
            file,
            id,
            lines: Lines::new(0, block_bytes),
            origin: None,
            queue: VecDeque::new(),
            scratch: Vec::new(),
            pending: None,
            next_seq: None,
            after_gap: false,
            break_reported: false,
            read_to: 0,
            resume: Resume::default(),
            end: LogEnd::Clean,
            current: None,
            last_seq: u64::MAX,
            verified_to: 0,
        })
    }

    /// Opens a log and goes on behind a place that was read before, where the next line takes the number `seq`.
    pub(crate) fn resume(
        disk: &Arc<dyn Disk>,
        path: &Path,
        kind: FileKind,
        offset: u64,
        seq: u64,
    ) -> Result<Reader> {
        let mut reader = Reader::open_sized(disk, path, SMALL_BLOCK_BYTES)?;
        reader.origin = Some(FileOrigin::of(kind));
        reader.go_to(Resume { offset, next_seq: Some(seq), after_gap: true });
        Ok(reader)
    }

    /// Returns the next entry or damage; `None` at the end, where [`Reader::end`] says how the file ends. May be called
    /// again later: it then goes on where the file has grown.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends its buffer and can fail, which Iterator cannot say"
    )]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        Ok(if self.advance()? { self.item() } else { None })
    }

    /// Goes to the next entry or damage, which [`Reader::item`] then returns. Returns false if there is none.
    pub fn advance(&mut self) -> Result<bool> {
        self.current = None;
        if self.origin.is_none() && !self.find_origin()? {
            return Ok(false);
        }
        loop {
            if self.queue.is_empty() {
                let Some(line) = self.lines.next(&*self.file).map_err(Error::io("read", &self.path))? else {
                    self.stop();
                    return Ok(false);
                };
                if let Some(seq) = self.expected_record(&line) {
                    return Ok(self.found(seq, line.offset, line.range, true));
                }
                let kind = self.kind().unwrap_or(FileKind::Native);
                pieces::of_line(&line, self.lines.bytes(line.range.clone()), kind, &mut self.scratch);
                self.queue.extend(self.scratch.drain(..));
            }
            let Some(piece) = self.queue.front().cloned() else { continue };
            if let PieceKind::Damaged(reason) = piece.kind {
                self.queue.pop_front();
                self.hold(&piece, reason);
                continue;
            }
            if let Some(damage) = self.pending.take() {
                self.after_gap = true;
                return Ok(self.damaged(damage));
            }
            if let Some(damage) = self.break_before(&piece) {
                return Ok(self.damaged(damage));
            }
            self.queue.pop_front();
            let (seq, verified) = self.number(&piece);
            return Ok(self.found(seq, piece.offset, piece.range, verified));
        }
    }

    /// Returns the item that [`Reader::advance`] last went to.
    pub fn item(&self) -> Option<LogItem<'_>> {
        Some(match self.current.as_ref()? {
            Current::Damage(damage) => LogItem::Damage(*damage),
            Current::Entry { seq, offset, range, verified } => {
                let bytes = self.lines.bytes(range.clone());
                LogItem::Entry(Entry { seq: *seq, offset: *offset, bytes, verified: *verified })
            }
        })
    }

    /// Ends before the first entry with a larger number than this.
    pub fn end_at(&mut self, seq: u64) {
        self.last_seq = seq;
    }

    fn found(&mut self, seq: u64, offset: u64, range: Range<usize>, verified: bool) -> bool {
        let wanted = seq <= self.last_seq;
        self.current = wanted.then_some(Current::Entry { seq, offset, range, verified });
        wanted
    }

    fn damaged(&mut self, damage: Damage) -> bool {
        let wanted = damage.seq <= self.last_seq;
        self.current = wanted.then_some(Current::Damage(damage));
        wanted
    }

    /// Returns the end of the file as of when [`Reader::next`] last returned `None`.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// The offset up to which everything was given.
    pub fn position(&self) -> u64 {
        self.resume.offset
    }

    /// The offset up to which everything was read, torn bytes included; set when [`Reader::next`] gave nothing.
    pub fn read_to(&self) -> u64 {
        self.read_to
    }

    /// The number that the next line will take, once something was read.
    pub fn next_seq(&self) -> Option<u64> {
        self.resume.next_seq
    }

    /// Returns the identity of the file: two that had the same name one after the other are not the same.
    pub fn file_id(&self) -> FileId {
        self.id
    }

    /// Returns the file that is read, whatever its path leads to by now, and that path.
    pub(crate) fn file(&self) -> (&dyn DiskFile, &Path) {
        (&*self.file, &self.path)
    }

    /// Returns the kind of the file: ours, adopted or foreign; `None` before something was read.
    pub fn kind(&self) -> Option<FileKind> {
        self.origin.as_ref().map(|o| o.kind)
    }

    /// Returns what changed about the file since it was read to its end.
    pub fn change(&self) -> Result<FileChange> {
        let state = self.file.state().map_err(Error::io("inspect", &self.path))?;
        if state.len < self.resume.offset {
            return Ok(FileChange::Truncated);
        }
        // A torn end is always worth a look: it may have been cut and a record of the same length written there.
        if state.len != self.read_to || self.end != LogEnd::Clean {
            return Ok(FileChange::Grew);
        }
        match self.disk.inspect(&self.path) {
            Ok(info) if info.id == self.id && state.links > 0 => Ok(FileChange::None),
            _ => Ok(FileChange::Replaced),
        }
    }

    fn find_origin(&mut self) -> Result<bool> {
        self.lines.seek(0);
        self.origin = tail::detect(&*self.file, &self.path)?;
        let Some(origin) = &self.origin else {
            self.read_to = self.file.state().map_err(Error::io("inspect", &self.path))?.len;
            self.end =
                tail::torn_header(&*self.file, &self.path, self.read_to)?.map_or(LogEnd::Clean, LogEnd::Torn);
            return Ok(false);
        };
        self.next_seq = Some(u64::from(origin.kind != FileKind::Native));
        self.resume.next_seq = self.next_seq;
        Ok(true)
    }

    /// Nearly every line is the very record that was expected, and needs no queue: this is the whole cost of reading.
    fn expected_record(&mut self, line: &Line) -> Option<u64> {
        let expected = self.next_seq.filter(|seq| *seq > 0)?;
        if self.pending.is_some() || line.too_long() || self.kind() == Some(FileKind::Foreign) {
            return None;
        }
        if line.end() > self.verified_to {
            frame::verify(self.lines.bytes(line.range.clone())).filter(|seq| *seq == expected)?;
        }
        self.passed(line.end(), expected + 1);
        Some(expected)
    }

    /// Keeps damage back until something valid follows. Neighbouring damage is one place.
    fn hold(&mut self, piece: &Piece, reason: DamageReason) {
        let seq = self.next_seq.unwrap_or_default();
        self.next_seq = Some(seq + 1);
        let length = piece.end - piece.offset;
        match &mut self.pending {
            Some(pending) => {
                pending.length = piece.end - pending.offset;
                pending.lines += 1;
            }
            None => self.pending = Some(Damage { offset: piece.offset, length, reason, lines: 1, seq }),
        }
    }

    /// Damage that shows only in the numbers: the record does not follow the one before it. Reported once.
    fn break_before(&mut self, piece: &Piece) -> Option<Damage> {
        let (PieceKind::Record { seq }, Some(expected), false) =
            (piece.kind, self.next_seq, self.break_reported)
        else {
            return None;
        };
        // Nobody knows how many records a gap swallowed, so behind one any number above the last is right.
        let follows = if self.after_gap { seq >= self.resume.next_seq.unwrap_or(0) } else { seq == expected };
        if follows {
            return None;
        }
        self.break_reported = true;
        let (length, reason) = match seq {
            _ if self.after_gap || seq < expected => (piece.range.len() as u64, DamageReason::OutOfOrder),
            _ if expected == 0 => (0, DamageReason::NoHeader),
            _ => (0, DamageReason::Missing),
        };
        Some(Damage { offset: piece.offset, length, reason, lines: 0, seq: expected })
    }

    /// Gives a piece its number and remembers that reading can go on behind it.
    fn number(&mut self, piece: &Piece) -> (u64, bool) {
        let expected = self.next_seq.unwrap_or(1);
        let (seq, verified) = match piece.kind {
            PieceKind::Record { seq } => (seq, true),
            PieceKind::Foreign | PieceKind::Damaged(_) => (expected, false),
        };
        let mut after = seq + 1;
        if verified && seq == 0 {
            after = Header::parse(self.lines.bytes(piece.range.clone())).first_seq;
        }
        if verified && self.kind() == Some(FileKind::Foreign) {
            self.origin = Some(FileOrigin::of(FileKind::Adopted));
        }
        self.passed(piece.end, after);
        (seq, verified)
    }

    /// An entry was given: reading can go on behind it.
    fn passed(&mut self, offset: u64, next_seq: u64) {
        self.next_seq = Some(next_seq);
        self.after_gap = false;
        self.break_reported = false;
        self.resume = Resume { offset, next_seq: self.next_seq, after_gap: false };
    }

    /// At the end of the file: says how it ends and makes ready to go on if it grows.
    fn stop(&mut self) {
        self.read_to = self.lines.position();
        let to_the_end = |torn: Damage| Damage { length: self.read_to - torn.offset, ..torn };
        self.end = self.pending.take().map_or(LogEnd::Clean, |torn| LogEnd::Torn(to_the_end(torn)));
        self.go_to(self.resume);
    }

    fn go_to(&mut self, place: Resume) {
        self.stand_at(place);
        self.verified_to = 0;
        self.lines.seek(place.offset);
    }

    fn stand_at(&mut self, place: Resume) {
        self.resume = place;
        self.next_seq = place.next_seq;
        self.after_gap = place.after_gap;
        self.break_reported = false;
        self.pending = None;
        self.queue.clear();
    }
}

/// Seeking the last entries of a log.
///
/// Nearly every log is whole at its end, and a few pages tell: these are read once, looked at from the end backwards,
/// and then given forwards out of the same memory. Anything unusual (damage, a torn end, another program's lines, a
/// tail of megabytes) is left to the readers that know about it, as if nothing had been looked at.
impl Reader {
    /// Opens a log and stands before its last `count` entries for which `wanted` is true.
    ///
    /// Costs the tail, not the length, if the file is native.
    pub fn open_tail(
        disk: &Arc<dyn Disk>,
        path: &Path,
        count: u64,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Reader> {
        let mut reader = Reader::open_sized(disk, path, TAIL_BYTES)?;
        reader.seek_last(None, count, wanted)?;
        Ok(reader)
    }

    /// Moves before the last `count` entries for which `wanted` is true, of those before the number `before`, and
    /// returns how many of them were not there. The reader itself goes on behind that number.
    pub fn seek_last(
        &mut self,
        before: Option<u64>,
        count: u64,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<u64> {
        if let Some(seq) = before {
            self.seek_seq(seq)?;
            return self.walk_back(count, wanted, Some(self.resume));
        }
        self.reset(TAIL_BYTES);
        if let Some(left) = self.glance_back(count, &wanted)? {
            return Ok(left);
        }
        self.reset(SMALL_BLOCK_BYTES);
        self.walk_back(count, wanted, None)
    }

    /// The first line, where the file is ours and nothing damaged stands before it.
    pub fn header_line(&self) -> Result<Option<Vec<u8>>> {
        if let Some(line) = self.origin.as_ref().and_then(|origin| origin.header_line.clone()) {
            return Ok(Some(line));
        }
        Ok(tail::detect_at_once(&*self.file, &self.path)?.and_then(|origin| origin.header_line))
    }

    /// Goes back over the wanted entries one by one, from a place or the end; gives how many were not there.
    fn walk_back(&mut self, count: u64, wanted: impl Fn(&[u8]) -> bool, from: Option<Resume>) -> Result<u64> {
        let mut back = match from {
            None => ReverseReader::new(&*self.file, &self.path)?,
            Some(Resume { offset, next_seq, .. }) => {
                ReverseReader::before(&*self.file, &self.path, offset, next_seq.unwrap_or(0))?
            }
        };
        let mut left = count;
        let mut start = Resume { offset: back.end_offset, next_seq: Some(back.next_seq), after_gap: false };
        while left > 0 {
            match back.next()? {
                None => break,
                Some(LogItem::Damage(_)) => {}
                Some(LogItem::Entry(entry)) => {
                    start = Resume { offset: entry.offset, next_seq: Some(entry.seq), after_gap: false };
                    left -= u64::from(wanted(entry.bytes));
                }
            }
        }
        let origin = back.origin;
        if left == 0 {
            self.origin = origin;
            self.go_to(start);
        } else {
            // Fewer than wanted: the file begins here, and what stands before the first entry is to be named too.
            self.origin = None;
            self.go_to(Resume::default());
        }
        Ok(left)
    }

    /// Does what [`Reader::walk_back`] does, from the end of a log that is ours and whole: every record back to the
    /// first that is wanted verifies, and each follows the one before it. Returns `None` if not, or if
    /// that cannot be decided by a few blocks.
    fn glance_back(&mut self, count: u64, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<u64>> {
        let len = self.file.state().map_err(Error::io("inspect", &self.path))?.len;
        self.lines.stand_at_end(len);
        let (mut left, mut start, mut next) = (count, len, None);
        while left > 0 && next != Some(0) {
            let base = self.lines.position();
            let line = match self.lines.held().get(..(start - base) as usize) {
                None | Some([]) => None,
                Some([before @ .., b'\n']) => {
                    let first = (base == 0).then_some(0);
                    let at = memchr::memrchr(b'\n', before).map(|newline| newline + 1).or(first);
                    at.map(|at| (base + at as u64, &before[at..]))
                }
                Some(_) => return Ok(None),
            };
            let Some((offset, line)) = line else {
                let filled = self.lines.fill_back(&*self.file).map_err(Error::io("read", &self.path))?;
                if filled {
                    continue;
                }
                return Ok(None);
            };
            let Some(seq) = frame::verify(line).filter(|seq| (*seq == 0) == (offset == 0)) else {
                return Ok(None);
            };
            let after = if seq == 0 { Header::parse(line).first_seq } else { seq + 1 };
            if next.is_some_and(|next| next != after) {
                return Ok(None);
            }
            left -= u64::from(wanted(line));
            (start, next) = (offset, Some(seq));
        }
        let Some(origin) = self.origin_at_once()?.filter(|_| next.is_some()) else { return Ok(None) };
        self.origin = Some(origin);
        self.stand_at(Resume { offset: start, next_seq: next, after_gap: false });
        self.lines.pass_to(start);
        self.verified_to = len;
        Ok(Some(left))
    }

    /// Returns the origin of the file, if it begins with a header of ours.
    fn origin_at_once(&self) -> Result<Option<FileOrigin>> {
        let mut first = [0; HEADER_BYTES];
        let bytes = if self.lines.position() == 0 {
            self.lines.held()
        } else {
            let n = read_fully(&*self.file, &mut first, 0).map_err(Error::io("read", &self.path))?;
            &first[..n]
        };
        let line = memchr::memchr(b'\n', bytes).map(|end| &bytes[..end]);
        Ok(line.filter(|line| frame::verify(line) == Some(0)).map(|line| FileOrigin::native(line, 0)))
    }
}

/// The bytes that are read for a header: more than nearly every header has.
const HEADER_BYTES: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;
    use crate::fs::RealDisk;

    /// Reads everything and formats each item, because the bytes of an item are gone when the next one is read.
    fn items_and_end(reader: &mut Reader) -> (Vec<String>, LogEnd) {
        let mut all = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            all.push(match item {
                LogItem::Entry(e) => {
                    format!("{} {} {} {:?}", e.seq, e.offset, e.verified, String::from_utf8_lossy(e.bytes))
                }
                LogItem::Damage(damage) => format!("{damage:?}"),
            });
        }
        (all, reader.end())
    }

    fn is_turn(line: &[u8]) -> bool {
        memchr::memmem::find(line, b"\"role\"").is_some()
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % n
        }
    }

    /// A log, of which most are whole and some are hurt or another program's.
    fn file(random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        let first = if random.below(4) == 0 { 8 } else { 1 };
        let mut header = Body::new();
        let mut meta = Body::new();
        meta.number("format", 1);
        if first > 1 {
            let mut parent = Body::new();
            parent.number("upto", first - 1);
            meta.object("parent", &parent);
        }
        header.object("meta", &meta);
        if random.below(8) > 0 {
            bytes.extend(frame::line(0, &header));
        }
        let long = [10, 300, 5_000, 90_000][random.below(4)];
        for n in 0..random.below(40) as u64 {
            let mut body = Body::new();
            let name = if random.below(4) == 0 { "kind" } else { "role" };
            body.string(name, "user").string("content", &"x".repeat(random.below(long)));
            bytes.extend(frame::line(first + n, &body));
            match random.below(150) {
                0 => bytes.extend(b"{\"role\":\"other\"}\n"),
                1 => bytes.extend(b"\n"),
                2 => bytes.extend(b"no record\n"),
                3 => bytes.truncate(bytes.len() - 1),
                _ => {}
            }
        }
        match random.below(6) {
            0 => bytes.truncate(bytes.len() - random.below(bytes.len().min(60) + 1)),
            1 if !bytes.is_empty() => {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            2 => bytes.extend([b"\n\n".as_slice(), b"{\"role\":\"a\"}\n", b"{\"seq\":9"][random.below(3)]),
            _ => {}
        }
        bytes
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test lays out the disk")]
    fn a_glance_gives_what_a_walk_gives_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let disk = RealDisk::shared();
        let mut random = Random(11);
        let mut glances = 0;
        for life in 0..300 {
            let bytes = file(&mut random);
            std::fs::write(&path, &bytes).unwrap();
            for count in [0, 1, 3, 20, 1000] {
                let mut walking = Reader::open_sized(&disk, &path, SMALL_BLOCK_BYTES).unwrap();
                let walked = walking.walk_back(count, is_turn, None);
                let mut glancing = Reader::open_sized(&disk, &path, TAIL_BYTES).unwrap();
                let Some(left) = glancing.glance_back(count, is_turn).unwrap() else { continue };
                glances += 1;
                assert_eq!(left, walked.unwrap(), "life {life}, {count}");
                assert_eq!(glancing.header_line().unwrap(), walking.header_line().unwrap());
                assert_eq!(items_and_end(&mut glancing), items_and_end(&mut walking), "life {life}, {count}");
                // And on, when the file has grown.
                let next = glancing.next_seq().unwrap();
                let grown = [bytes.as_slice(), &frame::line(next, Body::new().string("role", "a"))].concat();
                std::fs::write(&path, grown).unwrap();
                assert_eq!(
                    items_and_end(&mut glancing),
                    items_and_end(&mut walking),
                    "life {life}, {count}, grown"
                );
                std::fs::write(&path, &bytes).unwrap();
            }
        }
        assert!(glances > 300, "only {glances} glances");
    }
}
