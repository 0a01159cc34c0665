//! The end of a log, the owner of its file, and the place of a number in it, found by reading few bytes.
//!
//! For a native file all of this costs the tail, not the length. For another program's file the whole is read once,
//! because its lines carry no numbers. Nothing here changes a file.

use std::path::Path;

use crate::error::{Error, Result};
use crate::frame::{self, Class, DamageReason, FileKind};
use crate::fs::{DiskFile, read_fully};
use crate::header::Header;
use crate::keys::RecordPlace;
use crate::lines::{Lines, LinesBack, SMALL_BLOCK_BYTES, STREAM_BLOCK_BYTES};
use crate::pieces::{self, Piece, PieceKind};
use crate::reader::Damage;

/// The owner of a file, and its header if it has one that verifies as its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileOrigin {
    pub(crate) kind: FileKind,
    pub(crate) header: Option<Header>,
    /// The header as it stands, if it is the first thing in the file: nothing damaged before it.
    pub(crate) header_line: Option<Vec<u8>>,
}

impl FileOrigin {
    pub(crate) fn of(kind: FileKind) -> FileOrigin {
        FileOrigin { kind, header: None, header_line: None }
    }

    /// A native file whose first readable line is this record.
    pub(crate) fn native(record: &[u8], seq: u64) -> FileOrigin {
        if seq != 0 {
            return FileOrigin::of(FileKind::Native);
        }
        let (header, header_line) = (Some(Header::parse(record)), Some(record.to_vec()));
        FileOrigin { kind: FileKind::Native, header, header_line }
    }
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogTail {
    /// The owner of the file. `None` if the file is empty or holds only the beginning of a header: it was never born.
    pub(crate) origin: Option<FileOrigin>,
    /// Length of the file when it was looked at.
    pub(crate) len: u64,
    /// The end of the last entry, its newline included.
    pub(crate) good_end: u64,
    /// The number after the last entry.
    pub(crate) good_seq: u64,
    /// The damage behind the last entry, if there is any.
    pub(crate) torn: Option<Damage>,
}

/// Decides whose file it is. `None` if the file is empty, or only the torn beginning of a header.
///
/// The first line that can be read decides: if it is a record the file is native; if it is another program's, the
/// file is adopted where any record verifies, else foreign.
pub(crate) fn detect(file: &dyn DiskFile, path: &Path) -> Result<Option<FileOrigin>> {
    detect_until(file, path, true)
}

/// Does what [`detect`] does, but of a file that begins with another program's line nothing more is read: it counts as
/// foreign until a record is met.
pub(crate) fn detect_at_once(file: &dyn DiskFile, path: &Path) -> Result<Option<FileOrigin>> {
    detect_until(file, path, false)
}

fn detect_until(file: &dyn DiskFile, path: &Path, to_the_end: bool) -> Result<Option<FileOrigin>> {
    let failed = |e| Error::io("read", path)(e);
    let mut lines = Lines::new(0, SMALL_BLOCK_BYTES);
    let mut first_bytes: Option<(Vec<u8>, bool)> = None;
    let (mut plain, mut damaged) = (false, false);
    while let Some(line) = lines.next(file).map_err(failed)? {
        let bytes = lines.bytes(line.range.clone());
        if first_bytes.is_none() && (line.too_long() || !frame::trim(bytes).is_empty()) {
            let mut first = bytes[..bytes.len().min(FIRST_BYTES)].to_vec();
            if line.too_long() {
                first.resize(FIRST_BYTES, 0);
                let n = read_fully(file, &mut first, line.offset).map_err(failed)?;
                first.truncate(n);
            }
            first_bytes = Some((first, line.terminated));
        }
        if plain {
            // Only a record can change the answer now, and most lines are plainly none.
            if frame::holds_a_record(bytes) {
                return Ok(Some(FileOrigin::of(FileKind::Adopted)));
            }
            continue;
        }
        match frame::classify(bytes, FileKind::Adopted) {
            Class::Record { seq } => {
                let origin = FileOrigin::native(frame::trim(bytes), seq);
                let header_line = origin.header_line.filter(|_| !damaged);
                return Ok(Some(FileOrigin { header_line, ..origin }));
            }
            Class::Foreign if !to_the_end => return Ok(Some(FileOrigin::of(FileKind::Foreign))),
            Class::Foreign => {
                plain = true;
                // It is read to its end: larger blocks for that.
                lines = Lines::new(line.end(), STREAM_BLOCK_BYTES);
            }
            Class::Blank => {}
            Class::Damaged(_) => {
                // Two records on one line are still records, and a header among them still a header.
                if let Some((range, seq)) = frame::salvage(bytes).first() {
                    damaged |= !frame::trim(&bytes[..range.start]).is_empty();
                    let origin = FileOrigin::native(&bytes[range.clone()], *seq);
                    let header_line = origin.header_line.filter(|_| !damaged);
                    return Ok(Some(FileOrigin { header_line, ..origin }));
                }
                damaged = true;
            }
        }
    }
    if let Some((first, _)) = first_bytes.as_ref().filter(|_| !plain) {
        refuse_other_formats(first, path)?;
    }
    let unborn = first_bytes.is_none_or(|(b, terminated)| frame::begins_like_a_header(&b, terminated));
    if !plain && unborn {
        return Ok(None);
    }
    Ok(Some(FileOrigin::of(FileKind::Foreign)))
}

/// Says what a file is in which nothing can be read, instead of listing its every line as damage. A log whose first
/// bytes were hurt is not refused: its other lines can be read.
fn refuse_other_formats(first: &[u8], path: &Path) -> Result<()> {
    let what = match first {
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => "UTF-16 text",
        [0x1F, 0x8B, ..] => "gzip data",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "zstd data",
        _ if first.starts_with(b"SQLite format 3") => "a SQLite database",
        _ => return Ok(()),
    };
    Err(Error::NotALog { path: path.to_owned(), what })
}

/// Looks at the end of a log.
pub(crate) fn inspect(file: &dyn DiskFile, path: &Path) -> Result<LogTail> {
    let len = file.state().map_err(Error::io("inspect", path))?.len;
    let Some(origin) = detect(file, path)? else {
        return Ok(LogTail {
            origin: None,
            len,
            good_end: 0,
            good_seq: 0,
            torn: torn_header(file, path, len)?,
        });
    };
    let mut search = TailSearch::new(len);
    // Where there is no record anywhere, the numbers begin with the first line, at 1.
    let good_seq = search.run(file, path, origin.kind)?.unwrap_or(1) + search.unnumbered;
    let good_end = search.good_end.unwrap_or(0);
    let torn = search.torn.map(|torn| Damage { length: len - torn.offset, seq: good_seq, ..torn });
    Ok(LogTail { origin: Some(origin), len, good_end, good_seq, torn })
}

/// Returns the damage in a file that was never born: the beginning of a header, all of it torn; `None` for nothing but
/// blanks.
pub(crate) fn torn_header(file: &dyn DiskFile, path: &Path, len: u64) -> Result<Option<Damage>> {
    let mut lines = Lines::new(0, SMALL_BLOCK_BYTES);
    while let Some(line) = lines.next(file).map_err(Error::io("read", path))? {
        if line.too_long() || !frame::trim(lines.bytes(line.range)).is_empty() {
            return Ok(Some(Damage {
                offset: 0,
                length: len,
                reason: DamageReason::NotJson,
                lines: 1,
                seq: 0,
            }));
        }
    }
    Ok(None)
}

/// A walk back from the end to the last record.
struct TailSearch {
    len: u64,
    /// The end of the last entry, once it is found.
    good_end: Option<u64>,
    /// Damage behind it, as far back as it was met.
    torn: Option<Damage>,
    /// Lines without a number of their own between the last record and `good_end`.
    unnumbered: u64,
}

impl TailSearch {
    fn new(len: u64) -> TailSearch {
        TailSearch { len, good_end: None, torn: None, unnumbered: 0 }
    }

    /// The number after the last record, if there is one at all.
    fn run(&mut self, file: &dyn DiskFile, path: &Path, kind: FileKind) -> Result<Option<u64>> {
        let mut lines = LinesBack::new(self.len);
        let mut found: Vec<Piece> = Vec::new();
        while let Some(line) = lines.next(file).map_err(Error::io("read", path))? {
            if kind == FileKind::Foreign && self.good_end.is_some() {
                // No record will come: only the lines are to be counted.
                self.unnumbered +=
                    u64::from(!frame::trim(lines.bytes(line.range.clone())).is_empty() || line.too_long());
                continue;
            }
            pieces::of_line(&line, lines.bytes(line.range.clone()), kind, &mut found);
            for piece in found.drain(..).rev() {
                if let Some(seq) = self.step(&piece) {
                    let first_seq = || Header::parse(lines.bytes(piece.range.clone())).first_seq;
                    return Ok(Some(if seq == 0 { first_seq() } else { seq + 1 }));
                }
            }
        }
        Ok(None)
    }

    fn step(&mut self, piece: &Piece) -> Option<u64> {
        match piece.kind {
            PieceKind::Damaged(reason) if self.good_end.is_none() => {
                let lines = self.torn.map_or(0, |torn| torn.lines) + 1;
                self.torn = Some(Damage { offset: piece.offset, length: 0, reason, lines, seq: 0 });
            }
            PieceKind::Damaged(_) => self.unnumbered += 1,
            PieceKind::Foreign | PieceKind::Record { .. } => {
                // Blank lines behind the last entry belong to nobody and are no damage.
                let end = if self.torn.is_some() { piece.end } else { self.len };
                self.good_end.get_or_insert(end);
                if let PieceKind::Record { seq } = piece.kind {
                    return Some(seq);
                }
                self.unnumbered += 1;
            }
        }
        None
    }
}

/// Finds a place at or before the record with this number by halving; `None` if reading from the start is as good.
///
/// Relies on numbers that rise. Where a damaged file breaks that, the place may lie too early or be none at all, and
/// the caller reads on from it to the first number that is large enough.
pub(crate) fn place_before(file: &dyn DiskFile, path: &Path, seq: u64) -> Result<Option<RecordPlace>> {
    if detect_at_once(file, path)?.is_none_or(|o| o.kind != FileKind::Native) {
        return Ok(None);
    }
    let len = file.state().map_err(Error::io("inspect", path))?.len;
    let (mut low, mut high) = (0, len);
    let mut best = None;
    while high - low > HALVING_STOPS_BYTES {
        let middle = low + (high - low) / 2;
        match record_after(file, path, middle, high)? {
            Some(place) if place.seq <= seq => {
                best = Some(place);
                low = place.offset.max(middle);
            }
            _ => high = middle,
        }
    }
    Ok(best)
}

/// The first record that begins on a line of its own behind `from` and before `until`.
fn record_after(file: &dyn DiskFile, path: &Path, from: u64, until: u64) -> Result<Option<RecordPlace>> {
    let mut lines = Lines::new(from, SMALL_BLOCK_BYTES);
    let mut partial = true;
    while let Some(line) = lines.next(file).map_err(Error::io("read", path))? {
        if line.offset >= until {
            break;
        }
        // The first line most likely begins in the middle of one.
        if !std::mem::take(&mut partial) {
            let bytes = lines.bytes(line.range.clone());
            if let Some(seq) = frame::verify(frame::trim(bytes)) {
                return Ok(Some(RecordPlace { offset: line.offset, seq }));
            }
        }
    }
    Ok(None)
}

/// Enough to know other formats by.
const FIRST_BYTES: usize = 16;
const HALVING_STOPS_BYTES: u64 = 256 << 10;
