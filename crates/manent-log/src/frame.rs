//! One record and its bytes: the validity rule, and what a line that breaks it is.
//!
//! A record is one line, `{"seq":N,…,"crc":"xxxxxxxx"}`, where the crc is the crc32c, in lower-case hexadecimal, of
//! all bytes before the last eighteen. [`classify`] is the whole judgement on a line: a pure function of the line
//! and the kind of file it stands in, with its table in `docs/FORMAT.md` and a twin in Python
//! (`tests/format/classify.py`) that the tests run over the same corpus.
//!
//! This file does not read, does not number lines and does not know what a record means.

use std::io::Write as _;
use std::ops::Range;

use memchr::memmem;

use crate::members;

/// The longest line a record may take, its newline included.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// The largest sequence number: the largest integer that every JSON reader keeps exactly.
pub const SEQ_MAX: u64 = (1 << 53) - 1;

/// The owner of a file: us or another program. Decided once for a whole file, by its first readable line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A file that is ours from the first line: a record verifies, and the file does not begin with another program's
    /// line.
    Native,
    /// Another program's file that we have appended to: its first line is plain, and a record verifies.
    Adopted,
    /// Another program's file: nothing in it verifies.
    Foreign,
}

/// The judgement on one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A line of nothing but spaces, tabs or a carriage return. Takes no number.
    Blank,
    /// A record whose checksum holds.
    Record {
        /// The number it carries.
        seq: u64,
    },
    /// Another program's JSON object: read, counted, unverified.
    Foreign,
    /// Neither. The bytes stay where they are and are reported.
    Damaged(DamageReason),
}

/// The reason why bytes are reported as damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageReason {
    /// The line has a record's two ends, but the checksum does not hold.
    Checksum,
    /// The line has only one of `seq` and `crc`.
    HalfMarked,
    /// There are NUL bytes in the line: a power cut between a file's growth and its data.
    Nul,
    /// The line is not UTF-8.
    NotUtf8,
    /// The line is not JSON.
    NotJson,
    /// The line is JSON, but not an object.
    NotObject,
    /// The line is longer than [`RECORD_BYTES_MAX`].
    TooLong,
    /// Records are missing between two that verify: a line was removed.
    Missing,
    /// A record's number is not above the one before it: a line was repeated or moved.
    OutOfOrder,
    /// The file has no header although it is ours: its first line was removed.
    NoHeader,
    /// The session that this one was forked from cannot be found.
    NoParent,
    /// The session that this one was forked from no longer holds the record at which it was forked.
    OtherParent,
    /// The table of an archive is damaged. What the archive holds was found without it.
    ArchiveTable,
    /// The end is missing: the log was seen with more records than it has.
    Shorter,
}

impl DamageReason {
    /// Returns true if the damage is in the session this one was forked from, and not at a place in its own file.
    pub fn is_about_parent(self) -> bool {
        matches!(self, DamageReason::NoParent | DamageReason::OtherParent)
    }

    /// The word used in reports. Once released it stays.
    pub fn word(self) -> &'static str {
        match self {
            DamageReason::Checksum => "checksum",
            DamageReason::HalfMarked => "half_marked",
            DamageReason::Nul => "nul",
            DamageReason::NotUtf8 => "not_utf8",
            DamageReason::NotJson => "not_json",
            DamageReason::NotObject => "not_object",
            DamageReason::TooLong => "too_long",
            DamageReason::Missing => "missing",
            DamageReason::OutOfOrder => "out_of_order",
            DamageReason::NoHeader => "no_header",
            DamageReason::NoParent => "no_parent",
            DamageReason::OtherParent => "other_parent",
            DamageReason::ArchiveTable => "archive_table",
            DamageReason::Shorter => "shorter",
        }
    }
}

impl std::fmt::Display for DamageReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// Judges one line (without its newline).
///
/// ```
/// use manent_log::frame::{Class, DamageReason, FileKind, classify};
/// let line = br#"{"seq":1,"role":"user","content":"hello","crc":"5ebdaa2e"}"#;
/// assert_eq!(classify(line, FileKind::Native), Class::Record { seq: 1 });
/// let line = br#"{"seq":1,"role":"user","content":"hellO","crc":"5ebdaa2e"}"#;
/// assert_eq!(classify(line, FileKind::Native), Class::Damaged(DamageReason::Checksum));
/// let line = br#"{"role":"user","content":"hello"}"#;
/// assert_eq!(classify(line, FileKind::Native), Class::Foreign);
/// ```
pub fn classify(line: &[u8], kind: FileKind) -> Class {
    let line = trim(line);
    if line.is_empty() {
        return Class::Blank;
    }
    if let Some(seq) = verify(line) {
        return Class::Record { seq };
    }
    if memchr::memchr(0, line).is_some() {
        return Class::Damaged(DamageReason::Nul);
    }
    let (head, tail) = (line.starts_with(HEAD), tail_crc(line).is_some());
    if head && tail {
        return Class::Damaged(DamageReason::Checksum);
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Class::Damaged(DamageReason::NotUtf8);
    };
    let marked = match members::marks(text) {
        members::MemberMarks::NotJson => return Class::Damaged(DamageReason::NotJson),
        members::MemberMarks::NotObject => return Class::Damaged(DamageReason::NotObject),
        members::MemberMarks::Object { seq, crc } => seq || crc,
    };
    let damaged = match kind {
        FileKind::Native => marked,
        // Another program may have a `seq` in front or a `crc` at the end of its own. Only a line that has one end
        // exactly as ours do and the other nearly so must be one of ours: a flipped bit spoils one end, never both.
        FileKind::Adopted | FileKind::Foreign => {
            (tail && begins_nearly_like_a_record(line)) || (head && ends_nearly_like_a_record(line))
        }
    };
    if damaged { Class::Damaged(DamageReason::HalfMarked) } else { Class::Foreign }
}

/// Returns the number of a line that is a valid record, or `None`.
///
/// Valid means: begins with `{"seq":` and a decimal number without leading zeros, at most [`SEQ_MAX`], then a comma;
/// ends with the eighteen bytes `,"crc":"xxxxxxxx"}`; and the crc is that of all bytes before those eighteen.
pub fn verify(line: &[u8]) -> Option<u64> {
    let (covered, tail) = line.split_at_checked(line.len().checked_sub(TAIL_BYTES)?)?;
    let stated = tail.strip_prefix(TAIL_HEAD)?.strip_suffix(b"\"}")?;
    let seq = head_seq(line)?;
    // Ours is written out instead of theirs being read: there is one right way to write it.
    (hex_of(crc32c::crc32c(covered)) == stated).then_some(seq)
}

/// The bytes of a record between `{"seq":N,` and the crc: its members, without braces.
///
/// Meaningful only for a line that [`verify`] accepts.
pub fn body_of(record: &[u8]) -> &[u8] {
    record.get(body_range(record)).unwrap_or_default()
}

/// Returns the range of [`body_of`] in its record.
pub fn body_range(record: &[u8]) -> Range<usize> {
    let digits = record.iter().skip(HEAD.len()).take_while(|b| b.is_ascii_digit()).count();
    let start = HEAD.len() + digits + 1;
    start..record.len().saturating_sub(TAIL_BYTES).max(start)
}

/// One record and its newline, as they stand in a file.
pub fn line(seq: u64, body: &crate::Body) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, seq, body.as_bytes());
    out
}

/// Writes one record and its newline to the end of `out`.
pub(crate) fn encode(out: &mut Vec<u8>, seq: u64, body: &[u8]) {
    debug_assert!(seq <= SEQ_MAX, "a sequence number is bounded");
    debug_assert!(!body.contains(&b'\n'), "a body is one line");
    let start = out.len();
    out.extend_from_slice(HEAD);
    // A vector takes all that is written to it.
    let _ = write!(out, "{seq}");
    if !body.is_empty() {
        out.push(b',');
        out.extend_from_slice(body);
    }
    let crc = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(TAIL_HEAD);
    out.extend_from_slice(&hex_of(crc));
    out.extend_from_slice(b"\"}\n");
    debug_assert_eq!(verify(&out[start..out.len() - 1]), Some(seq), "what is written can be read");
}

/// Returns an upper bound for the length of the record of `body`, newline included.
pub(crate) fn encoded_len_max(body: &[u8]) -> usize {
    HEAD.len() + 16 + 1 + body.len() + TAIL_BYTES + 1
}

/// Finds whole records inside a damaged line: two records without a newline between them, or a torn one to which
/// a whole one was glued. Gives their places and numbers, in order.
///
/// Sound because no record holds the eighteen-byte end anywhere but at its end: strings cannot (their quotes are
/// escaped) and [`crate::Body`] defuses nested objects that would. So each end belongs to at most one record, which
/// begins after the end before it, and the search is linear.
pub(crate) fn salvage(line: &[u8]) -> Vec<(Range<usize>, u64)> {
    let mut found = Vec::new();
    let mut from = 0;
    let mut starts_left = SALVAGE_STARTS_MAX;
    for at in memmem::find_iter(line, TAIL_HEAD) {
        let end = at + TAIL_BYTES;
        if end > line.len() || tail_crc(&line[from..end]).is_none() {
            continue;
        }
        if let Some(range) = record_ending_at(line, from..end, &mut starts_left) {
            let seq = head_seq(&line[range.clone()]).unwrap_or_default();
            found.push((range, seq));
        }
        from = end;
    }
    found
}

/// The record that ends where `span` ends and begins somewhere in it.
///
/// The crc of each candidate follows from two crcs that grow with the search (`combine` is linear in the first
/// argument), so that a line of nothing but beginnings costs no quadratic time.
fn record_ending_at(line: &[u8], span: Range<usize>, starts_left: &mut usize) -> Option<Range<usize>> {
    let end = span.end;
    let stated = tail_crc(&line[span.clone()])?;
    let covered_end = end - TAIL_BYTES;
    let whole = crc32c::crc32c(&line[span.start..covered_end]);
    let (mut before, mut before_end) = (0, span.start);
    for at in memmem::find_iter(&line[span.start..covered_end], HEAD) {
        if *starts_left == 0 {
            return None;
        }
        *starts_left -= 1;
        let start = span.start + at;
        before = crc32c::crc32c_append(before, &line[before_end..start]);
        before_end = start;
        let candidate = whole ^ crc32c::crc32c_combine(before, 0, covered_end - start);
        if candidate == stated && verify(&line[start..end]).is_some() {
            return Some(start..end);
        }
    }
    None
}

/// Takes away what editors and other programs leave around a line: a byte-order mark, blanks, a carriage return.
pub(crate) fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(BOM).unwrap_or(line);
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r');
    let Some(first) = line.iter().position(|b| !blank(b)) else { return &[] };
    let last = line.iter().rposition(|b| !blank(b)).unwrap_or(first);
    &line[first..=last]
}

/// True for bytes that can only be the beginning of a header we were writing when we died.
///
/// `first` are the first bytes of the first line. A part of `{"seq":0,` counts if the line ends there without a
/// newline, or in NULs: what stands behind a lost page.
pub(crate) fn begins_like_a_header(first: &[u8], terminated: bool) -> bool {
    let (text, nuls) = first.split_at(first.iter().position(|b| *b == 0).unwrap_or(first.len()));
    if text.starts_with(HEADER_HEAD) {
        return true;
    }
    let ends_there = if nuls.is_empty() { !terminated } else { nuls.iter().all(|b| *b == 0) };
    HEADER_HEAD.starts_with(text) && ends_there
}

/// True for a line that is a record, or damaged with a whole record in it.
pub(crate) fn holds_a_record(line: &[u8]) -> bool {
    memmem::find(line, HEAD).is_some()
        && match classify(line, FileKind::Adopted) {
            Class::Record { .. } => true,
            Class::Damaged(_) => !salvage(line).is_empty(),
            Class::Blank | Class::Foreign => false,
        }
}

/// True for bytes that begin as our records do.
pub(crate) fn begins_like_a_record(bytes: &[u8]) -> bool {
    bytes.starts_with(HEAD)
}

fn head_seq(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(HEAD)?;
    let digits = rest.iter().take(17).take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 || digits > 16 || (digits > 1 && rest[0] == b'0') || rest.get(digits) != Some(&b',') {
        return None;
    }
    let seq = rest[..digits].iter().fold(0_u64, |n, b| n * 10 + u64::from(b - b'0'));
    (seq <= SEQ_MAX).then_some(seq)
}

/// The beginning of a record of which one byte is wrong, but not so that the line is no JSON any more.
fn begins_nearly_like_a_record(line: &[u8]) -> bool {
    matches!(line, [b'{', b'"', _, _, _, b'"', b':', b'0'..=b'9', ..])
}

/// The end of a record of which one byte is wrong, but not so that the line is no JSON any more.
fn ends_nearly_like_a_record(line: &[u8]) -> bool {
    matches!(line, [.., b',', b'"', _, _, _, b'"', b':', b'"', _, _, _, _, _, _, _, _, b'"', b'}'])
}

fn tail_crc(line: &[u8]) -> Option<u32> {
    let tail = line.get(line.len().checked_sub(TAIL_BYTES)?..)?;
    let hex = tail.strip_prefix(TAIL_HEAD)?.strip_suffix(b"\"}")?;
    hex.iter().try_fold(0_u32, |crc, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(crc << 4 | u32::from(value))
    })
}

/// Eight lower-case hexadecimal digits, all at once: a nibble to a byte, then up to the letters where it is above nine.
fn hex_of(crc: u32) -> [u8; 8] {
    let mut digits = u64::from(crc);
    digits = (digits | digits << 16) & 0x0000_FFFF_0000_FFFF;
    digits = (digits | digits << 8) & 0x00FF_00FF_00FF_00FF;
    digits = (digits | digits << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (digits + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

const HEAD: &[u8] = br#"{"seq":"#;
const HEADER_HEAD: &[u8] = br#"{"seq":0,"#;
const TAIL_HEAD: &[u8] = br#","crc":""#;
const TAIL_BYTES: usize = 18;
const BOM: &[u8] = b"\xef\xbb\xbf";
/// The number of beginnings tried in one damaged line; more is not an accident but an attack on our time.
const SALVAGE_STARTS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, body: &str) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, seq, body.as_bytes());
        out.pop();
        out
    }

    #[test]
    fn a_record_reads_back_and_its_body_is_what_was_written() {
        for (seq, body) in [(0, r#""a":1"#), (7, ""), (SEQ_MAX, r#""role":"user","content":"x""#)] {
            let line = record(seq, body);
            assert_eq!(verify(&line), Some(seq));
            assert_eq!(body_of(&line), body.as_bytes());
            assert!(serde_json::from_slice::<serde_json::Value>(&line).is_ok());
        }
    }

    #[test]
    fn every_single_bit_flip_of_a_record_is_damage_in_a_native_and_an_adopted_file() {
        let line = record(41, r#""ts":"2026-11-15T18:07:00.123Z","role":"user","content":"caf\u00e9 \"q\"""#);
        for bit in 0..line.len() * 8 {
            let mut hurt = line.clone();
            hurt[bit / 8] ^= 1 << (bit % 8);
            for kind in [FileKind::Native, FileKind::Adopted] {
                let class = classify(&hurt, kind);
                assert!(matches!(class, Class::Damaged(_)), "bit {bit} in {kind:?}: {class:?}");
            }
        }
    }

    #[test]
    fn a_checksum_is_written_as_eight_lower_case_digits() {
        for crc in [0, 1, 0x9f3a_1c22, 0x0123_4567, 0x89ab_cdef, u32::MAX, 0xa0b0_c0d0] {
            assert_eq!(hex_of(crc), format!("{crc:08x}").as_bytes());
        }
    }

    #[test]
    fn numbers_must_be_canonical() {
        for head in [
            r#"{"seq":01,"a":1"#,
            r#"{"seq":-1,"a":1"#,
            r#"{"seq":9007199254740992,"a":1"#,
            r#"{"seq":,"a":1"#,
        ] {
            let mut line = head.as_bytes().to_vec();
            let crc = crc32c::crc32c(&line);
            line.extend_from_slice(format!(r#","crc":"{crc:08x}"}}"#).as_bytes());
            assert_eq!(verify(&line), None, "{head}");
        }
    }

    #[test]
    fn glued_records_are_found_and_torn_ones_are_not() {
        let (a, b) = (record(1, r#""x":{"seq":1}"#), record(2, r#""content":"two""#));
        let glued = [a.as_slice(), b.as_slice()].concat();
        assert_eq!(salvage(&glued), [(0..a.len(), 1), (a.len()..glued.len(), 2)]);
        for cut in 0..a.len() {
            let torn = [&a[..cut], b.as_slice()].concat();
            assert_eq!(salvage(&torn), [(cut..torn.len(), 2)], "cut at {cut}");
        }
        assert_eq!(salvage(&[&b"\0\0\0"[..], &b, &b"\0\0"[..]].concat()), [(3..3 + b.len(), 2)]);
        assert_eq!(salvage(b"no record here"), []);
    }

    #[test]
    fn a_line_of_nothing_but_beginnings_costs_little() {
        let mut line = HEAD.repeat(200_000);
        line.extend_from_slice(br#","crc":"00000000"}"#);
        assert_eq!(salvage(&line), []);
    }

    #[test]
    fn blanks_marks_and_carriage_returns_around_a_line_are_read() {
        let line = record(3, r#""a":1"#);
        for dressed in [[b"\xef\xbb\xbf", &line[..]].concat(), [b" \t", &line[..], b" \r"].concat()] {
            assert_eq!(classify(&dressed, FileKind::Native), Class::Record { seq: 3 });
        }
        assert_eq!(classify(b" \t\r", FileKind::Native), Class::Blank);
    }
}
