//! The catalogue: a row for every stream, with the position up to which it was read and what a list shows of it.
//!
//! The fields that are needed of every row precede all rows at a fixed size, so that the rest is read only for the rows
//! of a page or of a hit ([`RowRef`]).
//!
//! ```text
//! number of rows, next number, time of the last comparison, segments, cursor, lost sessions
//! | front (80 bytes) × rows | name × rows | body × rows | offset of the fronts
//! ```

pub(crate) mod listing;
pub(crate) mod lookup;
pub(crate) mod missing;
pub(crate) mod recently_written;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use manent_store::{Cursor, Place, ScanTime, Version};

use crate::catalogue::missing::LostSession;
use crate::error::{IndexResult, broken};
use crate::pages::{Bytes, Pages, VarintReader, put, put_text, u32_at, u64_at};
use crate::segment::RecordRef;

/// A row, loaded or still in the catalogue file: a search among ten thousand sessions needs the name and the version of
/// each, and the rest of twenty.
#[derive(Debug, Clone)]
pub(crate) enum RowRef {
    OnDisk(Arc<CatalogueFile>, u32),
    Loaded(Arc<Row>),
}

/// The rows of a catalogue file.
#[derive(Debug)]
pub(crate) struct CatalogueFile {
    pages: Pages,
    /// The fronts of all rows, of one length each.
    fronts: Bytes,
    rows: usize,
    /// The offset of the names, one behind the other, and behind them of the bodies of the rows.
    names_at: u64,
    bodies_at: u64,
    bodies_end: u64,
    names: OnceLock<Bytes>,
}

/// The number, five words of the version, bytes, updated, end of the body (8 each), end of the name (4), place, flags
/// (1 each), 2 to spare.
pub(crate) const FRONT_BYTES: usize = 80;
const BYTES: usize = 6;
const UPDATED: usize = 7;
const BODY_END: usize = 8;
const NAME_END_AT: usize = 72;
const PLACE_AT: usize = 76;
const FLAGS_AT: usize = 77;
const UNREAD: u8 = 1;
const FORK: u8 = 2;

/// Writes the front of a row whose name and body end there.
pub(crate) fn put_front(out: &mut Vec<u8>, row: &Row, name_end: u32, body_end: u64) {
    let behind = [row.bytes, row.updated_ms.cast_unsigned(), body_end];
    for number in std::iter::once(row.number).chain(row.version.words()).chain(behind) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&name_end.to_le_bytes());
    out.push(row.place);
    let flag = |is: bool, flag: u8| if is { flag } else { 0 };
    out.push(flag(!row.unreadable.is_empty(), UNREAD) | flag(!row.parent.is_empty(), FORK));
    out.extend_from_slice(&[0; 2]);
}

impl CatalogueFile {
    pub(crate) fn open(
        pages: Pages,
        rows: usize,
        fronts_at: u64,
        bodies_end: u64,
    ) -> IndexResult<CatalogueFile> {
        let names_at = (rows as u64)
            .checked_mul(FRONT_BYTES as u64)
            .and_then(|fronts| fronts.checked_add(fronts_at))
            .filter(|at| *at <= bodies_end)
            .ok_or_else(|| broken("its parts do not fit"))?;
        let fronts = pages.read(fronts_at..names_at)?;
        let mut filed = CatalogueFile {
            pages,
            fronts,
            rows,
            names_at,
            bodies_at: names_at,
            bodies_end,
            names: OnceLock::new(),
        };
        filed.bodies_at += rows.checked_sub(1).map_or(0, |last| filed.name_end(last));
        if filed.bodies_at > bodies_end { Err(broken("its parts do not fit")) } else { Ok(filed) }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    fn number(&self, at: usize, field: usize) -> u64 {
        u64_at(&self.fronts, at * FRONT_BYTES + field * 8)
    }

    fn byte(&self, at: usize, byte: usize) -> u8 {
        self.fronts.get(at * FRONT_BYTES + byte).copied().unwrap_or_default()
    }

    pub(crate) fn updated_ms(&self, at: usize) -> i64 {
        self.number(at, UPDATED).cast_signed()
    }

    pub(crate) fn place(&self, at: usize) -> u8 {
        self.byte(at, PLACE_AT)
    }

    /// Returns the range of the body of a row in the file.
    fn body(&self, at: usize) -> IndexResult<Range<u64>> {
        let begin = at.checked_sub(1).map_or(0, |before| self.number(before, BODY_END));
        let end = self.number(at, BODY_END);
        let fits = begin <= end && end <= self.bodies_end - self.bodies_at;
        let range = fits.then(|| self.bodies_at + begin..self.bodies_at + end);
        range.ok_or_else(|| broken("a row lies beyond its end"))
    }

    fn name_end(&self, at: usize) -> u64 {
        u64::from(u32_at(&self.fronts, at * FRONT_BYTES + NAME_END_AT))
    }

    /// Returns the range of the name of a row among the names.
    fn name_range(&self, at: usize) -> Range<usize> {
        let begin = at.checked_sub(1).map_or(0, |before| self.name_end(before));
        begin as usize..self.name_end(at) as usize
    }

    fn name(&self, at: usize) -> IndexResult<&str> {
        if self.names.get().is_none() {
            let _ = self.names.set(self.pages.read(self.names_at..self.bodies_at)?);
        }
        let names = self.names.get().map(|bytes| &**bytes).unwrap_or_default();
        let name = names.get(self.name_range(at)).ok_or_else(|| broken("a name lies beyond its end"))?;
        std::str::from_utf8(name).map_err(|_| broken("a name is no text"))
    }

    /// Reads one row, and nothing of the others.
    pub(crate) fn row(&self, at: usize) -> IndexResult<Row> {
        let Range { start, end } = self.name_range(at);
        let name = self.pages.read(self.names_at + start as u64..self.names_at + end as u64)?;
        let name = std::str::from_utf8(&name).map_err(|_| broken("a name is no text"))?.to_owned();
        let rest = self.pages.read(self.body(at)?)?;
        let (version, bytes) = (self.version(at), self.number(at, BYTES));
        let (number, updated_ms, place) = (self.number(at, 0), self.updated_ms(at), self.place(at));
        Row { number, place, name, version, bytes, updated_ms, ..Row::default() }.with_rest(&rest)
    }

    fn version(&self, at: usize) -> Version {
        Version::new([1, 2, 3, 4, 5].map(|field| self.number(at, field)))
    }
}

impl From<Row> for RowRef {
    fn from(row: Row) -> RowRef {
        RowRef::Loaded(Arc::new(row))
    }
}

impl RowRef {
    /// Takes a field from where the row is.
    fn get<T>(&self, on_disk: impl Fn(&CatalogueFile, usize) -> T, loaded: impl Fn(&Row) -> T) -> T {
        match self {
            RowRef::OnDisk(filed, at) => on_disk(filed, *at as usize),
            RowRef::Loaded(row) => loaded(row),
        }
    }
    pub(crate) fn number(&self) -> u64 {
        self.get(|filed, at| filed.number(at, 0), |row| row.number)
    }
    pub(crate) fn place(&self) -> Place {
        place_of(self.get(CatalogueFile::place, |row| row.place))
    }

    pub(crate) fn name(&self) -> IndexResult<&str> {
        match self {
            RowRef::OnDisk(filed, at) => filed.name(*at as usize),
            RowRef::Loaded(row) => Ok(&row.name),
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.get(CatalogueFile::version, |row| row.version)
    }
    pub(crate) fn updated_ms(&self) -> i64 {
        self.get(CatalogueFile::updated_ms, |row| row.updated_ms)
    }
    pub(crate) fn is_unread(&self) -> bool {
        self.get(|filed, at| filed.byte(at, FLAGS_AT) & UNREAD > 0, |row| !row.unreadable.is_empty())
    }
    pub(crate) fn is_fork(&self) -> bool {
        self.get(|filed, at| filed.byte(at, FLAGS_AT) & FORK > 0, |row| !row.parent.is_empty())
    }

    /// All of it.
    pub(crate) fn row(&self) -> IndexResult<Arc<Row>> {
        match self {
            RowRef::OnDisk(filed, at) => filed.row(*at as usize).map(Arc::new),
            RowRef::Loaded(row) => Ok(row.clone()),
        }
    }
}

/// The place of a number that [`place_number`](crate::refresh::ingest::place_number) gave.
fn place_of(number: u8) -> Place {
    Place::ALL.get(usize::from(number)).copied().unwrap_or(Place::Trash)
}

/// A session, or another stream, as it was last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Row {
    /// The number that marks the runs of its records. Never reused, not even for a session that is read anew.
    pub(crate) number: u64,
    pub(crate) place: u8,
    /// In the trash: where it was before.
    pub(crate) from: u8,
    /// The backend's name of the stream.
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) id: String,
    /// The state that the stream was seen in before it was read; [`Version::UNKNOWN`] if it must be read again.
    pub(crate) version: Version,
    /// The length in bytes in that state.
    pub(crate) bytes: u64,
    /// The last record that was read.
    pub(crate) last: Option<RecordRef>,
    /// The last turns that were read, which are neighbours of what comes.
    pub(crate) recent: Vec<RecordRef>,
    /// The number of its own turns; a fork's parent has the others.
    pub(crate) turns: u64,
    pub(crate) tokens: u64,
    /// The counts of the records that a fork shares with its parent.
    pub(crate) shared_turns: u64,
    pub(crate) shared_tokens: u64,
    /// The id of what it was forked from, and up to which record.
    pub(crate) parent: String,
    pub(crate) upto: u64,
    /// A hash of the numbers of the sessions that a fork descends from; 0 if it was not computed yet.
    pub(crate) lineage: u64,
    /// The first and the last time that its records give, as they give it.
    pub(crate) created: String,
    pub(crate) updated: String,
    /// Milliseconds since 1970; where the records say nothing, the stream's own time.
    pub(crate) created_ms: i64,
    pub(crate) updated_ms: i64,
    /// The first thing the user said, shortened, and the title that was given.
    pub(crate) opening: String,
    pub(crate) given_title: String,
    pub(crate) damaged: bool,
    pub(crate) torn: bool,
    /// Written by us: it only grows.
    pub(crate) native: bool,
    /// Begun by us, whoever wrote to it since.
    pub(crate) headed: bool,
    /// The stream is not what it was: all of it must be read again.
    pub(crate) stale: bool,
    /// The reason why it cannot be read; empty if it can.
    pub(crate) unreadable: String,
    /// The length and the last number that it once had, if it was found shorter.
    pub(crate) once_bytes: u64,
    pub(crate) once_seq: u64,
    /// The time of the survey before it was last read, by the clock of the backend.
    pub(crate) read_at: ScanTime,
}

impl Row {
    pub(crate) fn place(&self) -> Place {
        place_of(self.place)
    }
    pub(crate) fn from(&self) -> Place {
        place_of(self.from)
    }

    pub(crate) fn title(&self) -> &str {
        if self.given_title.is_empty() { &self.opening } else { &self.given_title }
    }

    /// Writes all fields but those of the front.
    fn put(&self, out: &mut Vec<u8>) {
        let flags = [self.damaged, self.torn, self.native, self.last.is_some(), self.stale, self.headed];
        let flags = flags.iter().rev().fold(0, |all, flag| all << 1 | u64::from(*flag));
        let last = self.last.unwrap_or_default();
        let numbers = [
            u64::from(self.from),
            flags,
            last.offset,
            last.seq,
            u64::from(last.crc),
            self.turns,
            self.tokens,
            self.shared_turns,
            self.shared_tokens,
            self.upto,
            self.lineage,
            self.created_ms.cast_unsigned(),
            self.once_bytes,
            self.once_seq,
        ];
        for number in numbers {
            put(out, number);
        }
        put(out, self.read_at.raw().cast_unsigned());
        put(out, self.recent.len() as u64);
        for mark in &self.recent {
            for number in [mark.offset, mark.seq, u64::from(mark.crc)] {
                put(out, number);
            }
        }
        let texts = [
            &self.key,
            &self.id,
            &self.parent,
            &self.created,
            &self.updated,
            &self.opening,
            &self.given_title,
            &self.unreadable,
        ];
        for text in texts {
            put_text(out, text);
        }
    }

    /// Takes over what [`Row::put`] wrote.
    pub(crate) fn with_rest(mut self, bytes: &[u8]) -> IndexResult<Row> {
        let row = &mut self;
        let mut from = VarintReader::new(bytes);
        row.from = from.next()? as u8;
        let flags = from.next()?;
        let flag = |at: u32| flags >> at & 1 == 1;
        (row.damaged, row.torn, row.native, row.stale) = (flag(0), flag(1), flag(2), flag(4));
        row.headed = flag(5);
        let last = from.record_ref()?;
        row.last = flag(3).then_some(last);
        (row.turns, row.tokens) = (from.next()?, from.next()?);
        (row.shared_turns, row.shared_tokens) = (from.next()?, from.next()?);
        (row.upto, row.lineage) = (from.next()?, from.next()?);
        row.created_ms = from.next()?.cast_signed();
        (row.once_bytes, row.once_seq) = (from.next()?, from.next()?);
        row.read_at = ScanTime::new(from.next()?.cast_signed());
        row.recent = (0..from.next()?).map(|_| from.record_ref()).collect::<IndexResult<_>>()?;
        let texts = [
            &mut row.key,
            &mut row.id,
            &mut row.parent,
            &mut row.created,
            &mut row.updated,
            &mut row.opening,
            &mut row.given_title,
            &mut row.unreadable,
        ];
        for text in texts {
            from.text()?.clone_into(text);
        }
        Ok(self)
    }
}

/// A segment that the catalogue counts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The part of a catalogue besides its rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CatalogueHead {
    pub(crate) next_number: u64,
    pub(crate) segments: Vec<SegmentFile>,
    /// The backend's cursor when all streams were last compared.
    pub(crate) cursor: Cursor,
    /// The time at which all streams were last compared, in milliseconds since 1970.
    pub(crate) checked_ms: i64,
    /// Sessions that are nowhere any more.
    pub(crate) gone: Vec<LostSession>,
}

/// The bytes of a catalogue file.
pub(crate) fn encode(rows: &[Arc<Row>], head: &CatalogueHead) -> Vec<u8> {
    let mut out = Vec::new();
    let checked_ms = head.checked_ms.cast_unsigned();
    for number in [rows.len() as u64, head.next_number, checked_ms, head.segments.len() as u64] {
        put(&mut out, number);
    }
    for segment in &head.segments {
        put_text(&mut out, &segment.name);
        put(&mut out, segment.bytes);
    }
    put(&mut out, head.cursor.words().len() as u64);
    for number in head.cursor.words() {
        put(&mut out, *number);
    }
    put(&mut out, head.gone.len() as u64);
    for gone in &head.gone {
        gone.put(&mut out);
    }
    let fronts_at = out.len() as u64;
    let (mut names, mut bodies) = (Vec::new(), Vec::new());
    for row in rows {
        names.extend_from_slice(row.name.as_bytes());
        row.put(&mut bodies);
        put_front(&mut out, row, names.len() as u32, bodies.len() as u64);
    }
    out.extend_from_slice(&names);
    out.extend_from_slice(&bodies);
    out.extend_from_slice(&fronts_at.to_le_bytes());
    out
}

/// Opens a catalogue file.
pub(crate) fn decode(pages: Pages) -> IndexResult<(CatalogueHead, CatalogueFile)> {
    let end = pages.len().checked_sub(8).ok_or_else(|| broken("too short"))?;
    let fronts_at = u64_at(&pages.read(end..end + 8)?, 0);
    let bytes = pages.read(0..fronts_at.min(end))?;
    let mut from = VarintReader::new(&bytes);
    let rows = from.next()? as usize;
    let mut head = CatalogueHead {
        next_number: from.next()?,
        checked_ms: from.next()?.cast_signed(),
        ..CatalogueHead::default()
    };
    for _ in 0..from.next()? {
        head.segments.push(SegmentFile { name: from.text()?.to_owned(), bytes: from.next()? });
    }
    head.cursor = Cursor::new((0..from.next()?).map(|_| from.next()).collect::<IndexResult<_>>()?);
    head.gone = (0..from.next()?).map(|_| LostSession::take(&mut from)).collect::<IndexResult<_>>()?;
    Ok((head, CatalogueFile::open(pages, rows, fronts_at, end)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::RowRef;

    #[test]
    fn every_member_of_a_row_comes_back() {
        let mark = |n| RecordRef { offset: n, seq: n + 1, crc: n as u32 + 2 };
        let text = |s: &str| s.to_owned();
        let row = Row {
            number: 7,
            place: 1,
            from: 2,
            name: text("a.jsonl"),
            key: text("ключ"),
            id: text("0192"),
            version: Version::new([1, u64::MAX, 3, 4, 5]),
            bytes: 3,
            last: Some(mark(10)),
            recent: vec![mark(20), mark(21)],
            turns: 30,
            tokens: 31,
            shared_turns: 32,
            shared_tokens: 33,
            parent: text("0191"),
            upto: 34,
            lineage: 42,
            created: text("c"),
            updated: text("u"),
            created_ms: -35,
            updated_ms: 36,
            opening: text("said"),
            given_title: text("given"),
            damaged: true,
            torn: true,
            native: true,
            headed: true,
            stale: true,
            unreadable: text("why"),
            once_bytes: 40,
            once_seq: 41,
            read_at: ScanTime::new(-43),
        };
        let rows = [Arc::new(row), Arc::new(Row { number: 8, ..Row::default() })];
        let segments = vec![SegmentFile { name: text("s"), bytes: 5 }];
        let head = CatalogueHead {
            next_number: 9,
            segments,
            cursor: Cursor::new(vec![1, u64::MAX]),
            checked_ms: -3,
            ..CatalogueHead::default()
        };
        let (same_head, filed) = decode(Pages::Memory(Arc::new(encode(&rows, &head)))).unwrap();
        assert_eq!(same_head, head);
        let filed = Arc::new(filed);
        for (at, row) in rows.iter().enumerate() {
            let found = RowRef::OnDisk(filed.clone(), at as u32);
            assert_eq!(found.row().unwrap(), *row);
            assert_eq!((found.number(), found.name().unwrap()), (row.number, row.name.as_str()));
            assert_eq!((found.place(), found.version()), (row.place(), row.version));
            assert_eq!((found.updated_ms(), found.is_unread()), (row.updated_ms, !row.unreadable.is_empty()));
        }
    }
}
