//! One immutable piece of the index: records, and a posting list for each word.
//!
//! Records have consecutive numbers within a segment; those of one stream that were read in one go are a [`Run`]. The
//! index keeps the place of a record in its stream and the numbers that rank it; its text stays in the stream.
//!
//! ```text
//! lists | tags | words | heads of the words | norms | roles | questions | seconds | places | runs | role names | end
//! ```
//!
//! Norms, roles, questions and seconds are [`Column`]s, read page by page: a query that finds twenty records among a
//! million looks at few of them.

pub(crate) mod builder;
pub(crate) mod dictionary;
pub(crate) mod postings;
pub(crate) mod view;

use std::sync::OnceLock;

use crate::error::{IndexResult, broken};
use crate::pages::{Bytes, PAGE_BYTES, Pages, VarintReader, put, put_text, u32_at, u64_at};
use crate::segment::dictionary::{Dictionary, TermEntry};
use crate::segment::postings::PostingList;

/// An immutable piece of the index, opened for queries.
#[derive(Debug)]
pub(crate) struct Segment {
    pages: Pages,
    pub(crate) words: Dictionary,
    /// The number of records.
    pub(crate) turns: u32,
    record_refs_at: u64,
    pub(crate) runs: Vec<Run>,
    /// The names of roles, which [`Segment::role_of`] refers to.
    pub(crate) roles: Vec<String>,
    norms: Column<1>,
    role_of: Column<1>,
    questions: Column<1>,
    seconds: Column<4>,
}

/// Adjacent records of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// The number of the first record.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The number of the stream in the catalogue.
    pub(crate) session: u64,
    /// So many of the first were indexed before, in another run, and are here again only as neighbours of the next.
    pub(crate) echo: u32,
    /// The number of records of the stream that were indexed before the first new one of this run.
    pub(crate) before: u64,
}

impl Run {
    pub(crate) fn end(&self) -> u32 {
        self.first + self.count
    }

    /// Returns the place of a record of the run among all indexed records of its stream.
    pub(crate) fn ordinal(&self, doc: u32) -> u64 {
        (self.before + u64::from(doc - self.first)).saturating_sub(u64::from(self.echo))
    }

    /// Returns the number of records of the stream that are indexed up to the end of this run.
    pub(crate) fn after(&self) -> u64 {
        self.before + u64::from(self.count - self.echo)
    }
}

/// The place of a record in its stream, and its checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordRef {
    pub(crate) offset: u64,
    pub(crate) seq: u64,
    pub(crate) crc: u32,
}

pub(crate) const RECORD_REF_BYTES: usize = 16;
/// The number of a role that has no name in the segment.
pub(crate) const UNNAMED_ROLE: u8 = u8::MAX;

/// The parts of a segment before they are written.
#[derive(Debug, Default)]
pub(crate) struct SegmentParts {
    pub(crate) lists: Vec<u8>,
    pub(crate) tags: Vec<u8>,
    pub(crate) words: Vec<u8>,
    pub(crate) heads: Vec<u8>,
    pub(crate) norms: Vec<u8>,
    pub(crate) role_of: Vec<u8>,
    /// 1 for each record that ends in a question, else 0.
    pub(crate) questions: Vec<u8>,
    pub(crate) seconds: Vec<u8>,
    pub(crate) record_refs: Vec<u8>,
    pub(crate) runs: Vec<Run>,
    pub(crate) roles: Vec<String>,
}

impl SegmentParts {
    /// The place of a role among the names. Roles are few; should somebody have more than fit in a byte, the others
    /// have no name here, and only their records tell.
    pub(crate) fn role(&mut self, role: &str) -> u8 {
        match self.roles.iter().position(|known| known == role) {
            Some(at) => at as u8,
            None if self.roles.len() < usize::from(UNNAMED_ROLE) => {
                self.roles.push(role.to_owned());
                (self.roles.len() - 1) as u8
            }
            None => UNNAMED_ROLE,
        }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut runs = Vec::new();
        for run in &self.runs {
            for number in [u64::from(run.count), run.session, u64::from(run.echo), run.before] {
                put(&mut runs, number);
            }
        }
        let mut roles = Vec::new();
        for role in &self.roles {
            put_text(&mut roles, role);
        }
        let turns = self.norms.len() as u64;
        let parts = [
            self.tags,
            self.words,
            self.heads,
            self.norms,
            self.role_of,
            self.questions,
            self.seconds,
            self.record_refs,
            runs,
            roles,
        ];
        let mut out = self.lists;
        out.reserve_exact(parts.iter().map(Vec::len).sum::<usize>() + END_BYTES);
        let mut begins = Vec::new();
        // Each part is freed once it is copied: a segment is never held twice.
        for part in parts {
            begins.push(out.len() as u64);
            out.extend_from_slice(&part);
        }
        begins.extend([out.len() as u64, turns]);
        for number in begins {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }
}

impl Segment {
    pub(crate) fn open(pages: Pages) -> IndexResult<Segment> {
        let end_at = pages.len().checked_sub(END_BYTES as u64).ok_or_else(|| broken("too short"))?;
        let end = pages.read(end_at..pages.len())?;
        let at: [u64; END_NUMBERS] = std::array::from_fn(|index| u64_at(&end, index * 8));
        let [
            tags,
            words,
            heads,
            norms,
            roles,
            questions,
            seconds,
            record_refs,
            runs,
            names,
            names_end,
            turns,
        ] = at;
        let turns = u32::try_from(turns).map_err(|_| broken("too many turns"))?;
        let in_order = at[..END_NUMBERS - 1].is_sorted();
        let columns = [
            (norms, roles, 1),
            (roles, questions, 1),
            (questions, seconds, 1),
            (seconds, record_refs, 4),
            (record_refs, runs, RECORD_REF_BYTES as u64),
        ];
        let fit = columns.iter().all(|(from, to, width)| to.wrapping_sub(*from) == width * u64::from(turns));
        if !in_order || names_end != end_at || !fit {
            return Err(broken("its parts do not fit"));
        }
        let rest = pages.read(runs..names_end)?;
        let (run_bytes, name_bytes) = rest.split_at((names - runs) as usize);
        Ok(Segment {
            words: Dictionary::open(pages.clone(), pages.read(heads..norms)?, words, 0, tags)?,
            runs: runs_of(run_bytes, turns)?,
            roles: names_of(name_bytes)?,
            turns,
            record_refs_at: record_refs,
            norms: Column::new(pages.clone(), norms, turns),
            role_of: Column::new(pages.clone(), roles, turns),
            questions: Column::new(pages.clone(), questions, turns),
            seconds: Column::new(pages.clone(), seconds, turns),
            pages,
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.pages.len()
    }

    pub(crate) fn list(&self, entry: &TermEntry) -> IndexResult<PostingList> {
        PostingList::new(
            self.pages.read(entry.list.clone())?,
            entry.count,
            self.pages.clone(),
            entry.tags.clone(),
        )
    }

    /// The tags of a word as they were written, for a merge.
    pub(crate) fn raw_tags(&self, entry: &TermEntry) -> IndexResult<Bytes> {
        self.pages.read(entry.tags.clone())
    }

    /// Returns the run of a record.
    pub(crate) fn run_of(&self, doc: u32) -> Option<usize> {
        self.runs.partition_point(|run| run.first <= doc).checked_sub(1)
    }

    /// Returns the encoded length of every record; see [`norm_of`](crate::query::score::norm_of).
    pub(crate) fn norms(&self) -> IndexResult<&[u8]> {
        self.norms.whole()
    }

    /// Returns the encoded length of a record; the longest beyond the end, where a damaged list may lead.
    #[inline]
    pub(crate) fn norm(&self, doc: u32) -> IndexResult<u8> {
        Ok(self.norms.get(doc)?.map_or(u8::MAX, |[norm]| norm))
    }

    /// The role of each turn, as its place among the `roles`.
    pub(crate) fn role_of(&self) -> IndexResult<&[u8]> {
        self.role_of.whole()
    }

    /// Returns for each record 1 if it ends in a question, else 0.
    pub(crate) fn questions(&self) -> IndexResult<&[u8]> {
        self.questions.whole()
    }

    /// Returns the times of all records.
    pub(crate) fn seconds(&self) -> IndexResult<Seconds<'_>> {
        self.seconds.whole().map(Seconds)
    }

    /// Returns the time of a record, in seconds since 1970.
    #[inline]
    pub(crate) fn second(&self, doc: u32) -> IndexResult<u32> {
        Ok(self.seconds.get(doc)?.map_or(0, u32::from_le_bytes))
    }

    /// Returns the place of a record in its stream.
    pub(crate) fn record_ref(&self, doc: u32) -> IndexResult<RecordRef> {
        if doc >= self.turns {
            return Err(broken("there is no such turn"));
        }
        // With its neighbours, which are often asked for next: all of one question that fit equally well are compared.
        let first = doc / RECORD_REFS_AT_ONCE * RECORD_REFS_AT_ONCE;
        let end = first.saturating_add(RECORD_REFS_AT_ONCE).min(self.turns);
        let at = |doc: u32| self.record_refs_at + u64::from(doc) * RECORD_REF_BYTES as u64;
        let bytes = self.pages.read(at(first)..at(end))?;
        let at = (doc - first) as usize * RECORD_REF_BYTES;
        let (offset, seq) = (u64_at(&bytes, at) & RECORD_REF_MAX, u64_at(&bytes, at + 4) >> 16);
        Ok(RecordRef { offset, seq, crc: u32_at(&bytes, at + 12) })
    }

    pub(crate) fn record_refs(&self) -> IndexResult<Bytes> {
        self.pages
            .read(self.record_refs_at..self.record_refs_at + u64::from(self.turns) * RECORD_REF_BYTES as u64)
    }
}

/// The times of all records, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds<'a>(&'a [u8]);

impl Seconds<'_> {
    #[inline]
    pub(crate) fn of(self, doc: u32) -> u32 {
        u32_at(self.0, doc as usize * 4)
    }
}

pub(crate) fn put_record_ref(out: &mut Vec<u8>, record: RecordRef) {
    // Six bytes each: a number beyond that is no number of a record that anybody wrote, and leads nowhere.
    out.extend_from_slice(&record.offset.min(RECORD_REF_MAX).to_le_bytes()[..6]);
    out.extend_from_slice(&record.seq.min(RECORD_REF_MAX).to_le_bytes()[..6]);
    out.extend_from_slice(&record.crc.to_le_bytes());
}

fn runs_of(bytes: &[u8], turns: u32) -> IndexResult<Vec<Run>> {
    let mut numbers = VarintReader::new(bytes);
    let mut runs = Vec::new();
    let mut first = 0_u32;
    while !numbers.is_at_end() {
        let count = numbers.next_u32()?;
        let (session, echo) = (numbers.next()?, numbers.next_u32()?.min(count));
        // A damaged number is none that a run begins or ends with.
        let before = numbers.next()?.min(u64::MAX - u64::from(u32::MAX));
        let run = Run { first, count, session, echo, before };
        first =
            first.checked_add(count).filter(|end| *end <= turns).ok_or_else(|| broken("runs do not fit"))?;
        runs.push(run);
    }
    if first == turns { Ok(runs) } else { Err(broken("runs do not fit")) }
}

fn names_of(bytes: &[u8]) -> IndexResult<Vec<String>> {
    let mut numbers = VarintReader::new(bytes);
    let mut names = Vec::new();
    while !numbers.is_at_end() {
        names.push(numbers.text()?.to_owned());
    }
    Ok(names)
}

const RECORD_REF_MAX: u64 = (1 << 48) - 1;
/// The number of entries that fill a page.
const RECORD_REFS_AT_ONCE: u32 = (PAGE_BYTES / RECORD_REF_BYTES) as u32;
const END_NUMBERS: usize = 12;
const END_BYTES: usize = END_NUMBERS * 8;

/// Values of `N` bytes each, one behind the other.
#[derive(Debug)]
pub(crate) struct Column<const N: usize> {
    pages: Pages,
    begin: u64,
    end: u64,
    /// The part of each page that belongs to the column, once it was read.
    parts: Vec<OnceLock<Bytes>>,
    whole: OnceLock<Bytes>,
}

impl<const N: usize> Column<N> {
    /// The values of so many turns, from there on.
    pub(crate) fn new(pages: Pages, begin: u64, turns: u32) -> Column<N> {
        let end = begin + N as u64 * u64::from(turns);
        let parts = end.div_ceil(PAGE_BYTES as u64).saturating_sub(begin / PAGE_BYTES as u64);
        let parts = (0..parts).map(|_| OnceLock::new()).collect();
        Column { pages, begin, end, parts, whole: OnceLock::new() }
    }

    /// Returns the value of a turn; `None` if there is no such turn.
    #[inline]
    pub(crate) fn get(&self, doc: u32) -> IndexResult<Option<[u8; N]>> {
        let at = self.begin + N as u64 * u64::from(doc);
        let page = at / PAGE_BYTES as u64;
        let slot = self.parts.get((page - self.begin / PAGE_BYTES as u64) as usize);
        let Some(slot) = slot.filter(|_| at + N as u64 <= self.end) else { return Ok(None) };
        let start = (page * PAGE_BYTES as u64).max(self.begin);
        let part = if let Some(part) = slot.get() {
            part
        } else {
            let part = self.pages.read(start..((page + 1) * PAGE_BYTES as u64).min(self.end))?;
            slot.get_or_init(|| part)
        };
        match part.get((at - start) as usize..).and_then(<[u8]>::first_chunk) {
            Some(value) => Ok(Some(*value)),
            // Across two pages.
            None => self.pages.read(at..at + N as u64).map(|value| value.first_chunk().copied()),
        }
    }

    /// Returns the whole column.
    pub(crate) fn whole(&self) -> IndexResult<&[u8]> {
        if self.whole.get().is_none() {
            let _ = self.whole.set(self.pages.read(self.begin..self.end)?);
        }
        self.whole.get().map(|bytes| &**bytes).ok_or_else(|| broken("a column was not read"))
    }
}
