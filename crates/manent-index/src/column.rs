//! One value for every turn of a segment, read page by page as turns are asked for: a question that finds twenty turns
//! among a million looks at few of them.

use std::sync::OnceLock;

use crate::damage::{IndexResult, broken};
use crate::pages::{Bytes, PAGE_BYTES, Pages};

/// Values of `N` bytes each, one behind the other.
#[derive(Debug)]
pub(crate) struct Column<const N: usize> {
    pages: Pages,
    begin: u64,
    end: u64,
    /// What was read of each page that it touches.
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

    /// The value of a turn; nothing if there is no such turn.
    #[inline]
    pub(crate) fn get(&self, doc: u32) -> IndexResult<Option<[u8; N]>> {
        let at = self.begin + N as u64 * u64::from(doc);
        let number = (at / PAGE_BYTES as u64 - self.begin / PAGE_BYTES as u64) as usize;
        if let Some(part) = self.parts.get(number).and_then(OnceLock::get)
            && let Some(value) =
                part.get((at - self.start_of(number)) as usize..).and_then(<[u8]>::first_chunk)
        {
            return Ok(Some(*value));
        }
        self.get_first(at, number)
    }

    /// As [`Column::get`], of a page that was not read, or of two.
    #[cold]
    fn get_first(&self, at: u64, number: usize) -> IndexResult<Option<[u8; N]>> {
        if at + N as u64 > self.end {
            return Ok(None);
        }
        let start = self.start_of(number);
        let page_end = (start / PAGE_BYTES as u64 + 1) * PAGE_BYTES as u64;
        let part = self.pages.read(start..page_end.min(self.end))?;
        let value = part.get((at - start) as usize..).and_then(<[u8]>::first_chunk).copied();
        if let Some(slot) = self.parts.get(number) {
            let _ = slot.set(part);
        }
        match value {
            Some(value) => Ok(Some(value)),
            None => self.pages.read(at..at + N as u64).map(|value| value.first_chunk().copied()),
        }
    }

    fn start_of(&self, part: usize) -> u64 {
        ((self.begin / PAGE_BYTES as u64 + part as u64) * PAGE_BYTES as u64).max(self.begin)
    }

    /// All of them, for whoever looks at every turn.
    pub(crate) fn whole(&self) -> IndexResult<&[u8]> {
        if self.whole.get().is_none() {
            let _ = self.whole.set(self.pages.read(self.begin..self.end)?);
        }
        self.whole.get().map(|bytes| &**bytes).ok_or_else(|| broken("a column was not read"))
    }
}
