//! Rows of the catalogue that are taken apart only when somebody looks at them: a search among ten thousand sessions
//! needs the name and the version of each, and all the rest of twenty.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use manent_store::{Place, Version};

use crate::catalogue::Row;
use crate::damage::{IndexResult, broken};
use crate::pages::{Bytes, Pages, u32_at, u64_at};

/// A row, read or still as it stands in the file.
#[derive(Debug, Clone)]
pub(crate) enum RowRef {
    Filed(Arc<Filed>, u32),
    Read(Arc<Row>),
}

/// The rows of a catalogue file.
#[derive(Debug)]
pub(crate) struct Filed {
    pages: Pages,
    /// What every row has in front, of one length each.
    fronts: Bytes,
    rows: usize,
    /// Where the names lie, one behind the other, and behind them the rest of the rows.
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

impl Filed {
    pub(crate) fn open(pages: Pages, rows: usize, fronts_at: u64, bodies_end: u64) -> IndexResult<Filed> {
        let names_at = (rows as u64)
            .checked_mul(FRONT_BYTES as u64)
            .and_then(|fronts| fronts.checked_add(fronts_at))
            .filter(|at| *at <= bodies_end)
            .ok_or_else(|| broken("its parts do not fit"))?;
        let fronts = pages.read(fronts_at..names_at)?;
        let mut filed =
            Filed { pages, fronts, rows, names_at, bodies_at: names_at, bodies_end, names: OnceLock::new() };
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

    fn begin(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.number(before, BODY_END))
    }

    /// Where the body of a row lies in the file.
    fn body(&self, at: usize) -> IndexResult<Range<u64>> {
        let (begin, end) = (self.begin(at), self.number(at, BODY_END));
        let fits = begin <= end && end <= self.bodies_end - self.bodies_at;
        if fits {
            Ok(self.bodies_at + begin..self.bodies_at + end)
        } else {
            Err(broken("a row lies beyond its end"))
        }
    }

    fn name_end(&self, at: usize) -> u64 {
        u64::from(u32_at(&self.fronts, at * FRONT_BYTES + NAME_END_AT))
    }

    /// Where the name of a row lies among the names.
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
        RowRef::Read(Arc::new(row))
    }
}

impl RowRef {
    pub(crate) fn number(&self) -> u64 {
        match self {
            RowRef::Filed(filed, at) => filed.number(*at as usize, 0),
            RowRef::Read(row) => row.number,
        }
    }

    pub(crate) fn place(&self) -> Place {
        let place = match self {
            RowRef::Filed(filed, at) => filed.place(*at as usize),
            RowRef::Read(row) => row.place,
        };
        Place::ALL.get(usize::from(place)).copied().unwrap_or(Place::Trash)
    }

    pub(crate) fn name(&self) -> IndexResult<&str> {
        match self {
            RowRef::Filed(filed, at) => filed.name(*at as usize),
            RowRef::Read(row) => Ok(&row.name),
        }
    }

    pub(crate) fn version(&self) -> Version {
        match self {
            RowRef::Filed(filed, at) => filed.version(*at as usize),
            RowRef::Read(row) => row.version,
        }
    }

    pub(crate) fn updated_ms(&self) -> i64 {
        match self {
            RowRef::Filed(filed, at) => filed.updated_ms(*at as usize),
            RowRef::Read(row) => row.updated_ms,
        }
    }

    pub(crate) fn is_unread(&self) -> bool {
        match self {
            RowRef::Filed(filed, at) => filed.byte(*at as usize, FLAGS_AT) & UNREAD > 0,
            RowRef::Read(row) => !row.unreadable.is_empty(),
        }
    }

    pub(crate) fn is_fork(&self) -> bool {
        match self {
            RowRef::Filed(filed, at) => filed.byte(*at as usize, FLAGS_AT) & FORK > 0,
            RowRef::Read(row) => !row.parent.is_empty(),
        }
    }

    /// All of it.
    pub(crate) fn row(&self) -> IndexResult<Arc<Row>> {
        match self {
            RowRef::Filed(filed, at) => filed.row(*at as usize).map(Arc::new),
            RowRef::Read(row) => Ok(row.clone()),
        }
    }
}
