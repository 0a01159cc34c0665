//! What a line consists of: one record nearly always, but several where newlines were lost.
//!
//! This is where a damaged line is searched for whole records, so that forward and backward readers, recovery and
//! verification all see the same things in the same bytes.

use std::ops::Range;

use crate::frame::{self, Class, DamageReason, FileKind};
use crate::lines::Line;

/// A stretch of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Offset of its first byte in the file.
    pub(crate) offset: u64,
    /// The bytes in the buffer, without blanks around them.
    pub(crate) range: Range<usize>,
    /// Offset of the first byte after it, newline included if it ends the line.
    pub(crate) end: u64,
    pub(crate) kind: PieceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceKind {
    Record { seq: u64 },
    Foreign,
    Damaged(DamageReason),
}

/// Takes a line apart. `bytes` are those of `line.range`. Nothing comes of a blank line.
pub(crate) fn of_line(line: &Line, bytes: &[u8], file_kind: FileKind, out: &mut Vec<Piece>) {
    out.clear();
    if line.too_long() {
        out.push(whole(line, bytes, PieceKind::Damaged(DamageReason::TooLong)));
        return;
    }
    match frame::classify(bytes, file_kind) {
        Class::Blank => {}
        Class::Record { seq } => out.push(whole(line, bytes, PieceKind::Record { seq })),
        Class::Foreign => out.push(whole(line, bytes, PieceKind::Foreign)),
        Class::Damaged(reason) => match frame::salvage(bytes).as_slice() {
            [] => out.push(whole(line, bytes, PieceKind::Damaged(reason))),
            found => salvaged(line, bytes, file_kind, found, out),
        },
    }
}

fn whole(line: &Line, bytes: &[u8], kind: PieceKind) -> Piece {
    let range = match kind {
        // Damage is reported with every byte it takes.
        PieceKind::Damaged(_) => line.range.clone(),
        PieceKind::Record { .. } | PieceKind::Foreign => trimmed(line.range.start, bytes),
    };
    Piece { offset: line.offset + (range.start - line.range.start) as u64, range, end: line.end(), kind }
}

fn trimmed(start: usize, bytes: &[u8]) -> Range<usize> {
    let inner = frame::trim(bytes);
    let lead = inner.as_ptr().addr() - bytes.as_ptr().addr();
    start + lead..start + lead + inner.len()
}

fn salvaged(
    line: &Line,
    bytes: &[u8],
    file_kind: FileKind,
    found: &[(Range<usize>, u64)],
    out: &mut Vec<Piece>,
) {
    let piece = |part: Range<usize>, kind| Piece {
        offset: line.offset + part.start as u64,
        range: line.range.start + part.start..line.range.start + part.end,
        end: if part.end == bytes.len() { line.end() } else { line.offset + part.end as u64 },
        kind,
    };
    let mut from = 0;
    for (range, seq) in found {
        rest(bytes, from..range.start, file_kind, &piece, out);
        out.push(piece(range.clone(), PieceKind::Record { seq: *seq }));
        from = range.end;
    }
    rest(bytes, from..bytes.len(), file_kind, &piece, out);
}

/// Adds the piece between salvaged records: none, another program's whole line, or damage.
fn rest(
    bytes: &[u8],
    part: Range<usize>,
    file_kind: FileKind,
    piece: &impl Fn(Range<usize>, PieceKind) -> Piece,
    out: &mut Vec<Piece>,
) {
    let kind = match frame::classify(&bytes[part.clone()], file_kind) {
        Class::Blank => return,
        Class::Damaged(reason) => return out.push(piece(part, PieceKind::Damaged(reason))),
        Class::Foreign => PieceKind::Foreign,
        Class::Record { seq } => PieceKind::Record { seq },
    };
    let end = piece(part.clone(), kind).end;
    out.push(Piece { end, ..piece(trimmed(part.start, &bytes[part]), kind) });
}
