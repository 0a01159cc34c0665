//! Bytes that are checked as they are read.
//!
//! A file of the index is read a few kilobytes here and there, and never as a whole. So that a flipped bit or a file
//! cut short cannot make an answer wrong, it is kept in pages, each with a checksum, and no byte is used before its
//! page was checked. The checksums stand behind the pages and are covered by one more.
//!
//! ```text
//! page … page | crc32c of each page (4 bytes each) | MAGIC | length of the pages (8) | crc32c of all behind the pages
//! ```
//!
//! Numbers and texts inside the pages are varints and length-prefixed: [`VarintReader`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use manent_store::Blob;
use manent_store::sync::lock;

use crate::error::{IndexDamage, IndexResult, broken};
use crate::segment::RecordRef;

/// The contents of an index file, in memory or on the disk.
#[derive(Debug, Clone)]
pub(crate) enum Pages {
    /// Bytes in memory, not on a disk (yet).
    Memory(Arc<Vec<u8>>),
    /// On a disk.
    File(Arc<Paged>),
}

#[derive(Debug)]
pub(crate) struct Paged {
    file: Box<dyn Blob>,
    len: u64,
    /// The checksums of the pages, as they stand in the file.
    crcs: Vec<u8>,
    /// Ranges that were read and checked before: in a long-running process, most queries read the same ones again.
    cache: Mutex<PageCache>,
}

#[derive(Debug, Default)]
struct PageCache {
    pieces: HashMap<(u64, u64), Bytes, foldhash::fast::RandomState>,
    bytes: usize,
}

/// Appends the checksums of all pages and the trailer of a file. In place, because the bytes may be many.
pub(crate) fn seal(bytes: &mut Vec<u8>) {
    let len = bytes.len() as u64;
    let crcs: Vec<u32> = bytes.chunks(PAGE_BYTES).map(crc32c::crc32c).collect();
    let behind = bytes.len();
    for crc in crcs {
        bytes.extend_from_slice(&crc.to_le_bytes());
    }
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&len.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[behind..]);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

impl Pages {
    /// Opens a file that [`seal`] made. What stands behind the pages is checked now, the pages when they are read.
    pub(crate) fn open(file: Box<dyn Blob>) -> IndexResult<Pages> {
        let size = file.len();
        let end_at = size.checked_sub(END_BYTES as u64).ok_or_else(|| broken("too short"))?;
        let mut end = [0; END_BYTES];
        fill(&*file, &mut end, end_at)?;
        if &end[..MAGIC.len()] != MAGIC {
            return Err(broken("not made by this version"));
        }
        let len = u64_at(&end, MAGIC.len());
        let pages = len.div_ceil(PAGE_BYTES as u64);
        if pages.checked_mul(4).and_then(|table| table.checked_add(len)) != Some(end_at) {
            return Err(broken("lengths do not agree"));
        }
        let mut crcs = vec![0; (end_at - len) as usize];
        fill(&*file, &mut crcs, len)?;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&crcs), &end[..END_BYTES - 4]);
        if crc != u32_at(&end, END_BYTES - 4) {
            return Err(broken("checksums do not hold"));
        }
        Ok(Pages::File(Arc::new(Paged { file, len, crcs, cache: Mutex::default() })))
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Pages::Memory(bytes) => bytes.len() as u64,
            Pages::File(paged) => paged.len,
        }
    }

    /// Returns the bytes of a range after checking their pages.
    pub(crate) fn read(&self, range: Range<u64>) -> IndexResult<Bytes> {
        if range.start > range.end || range.end > self.len() {
            return Err(broken("points beyond its end"));
        }
        match self {
            Pages::Memory(bytes) => {
                Ok(Bytes { whole: bytes.clone(), range: range.start as usize..range.end as usize })
            }
            Pages::File(paged) => paged.read(range),
        }
    }
}

impl Paged {
    fn read(&self, range: Range<u64>) -> IndexResult<Bytes> {
        let name = (range.start, range.end);
        if let Some(bytes) = lock(&self.cache).pieces.get(&name) {
            return Ok(bytes.clone());
        }
        let bytes = self.read_and_check(range)?;
        let mut cache = lock(&self.cache);
        if cache.bytes + bytes.whole.len() > CACHE_BYTES {
            *cache = PageCache::default();
        }
        if bytes.whole.len() <= CACHE_BYTES / 4 {
            cache.bytes += bytes.whole.len();
            cache.pieces.insert(name, bytes.clone());
        }
        Ok(bytes)
    }

    fn read_and_check(&self, range: Range<u64>) -> IndexResult<Bytes> {
        let first = range.start / PAGE_BYTES as u64;
        let start = first * PAGE_BYTES as u64;
        let end = range.end.next_multiple_of(PAGE_BYTES as u64).min(self.len);
        if range.is_empty() {
            return Ok(Bytes { whole: Arc::default(), range: 0..0 });
        }
        let mut pages = vec![0; (end - start) as usize];
        fill(&*self.file, &mut pages, start)?;
        let sound = pages
            .chunks(PAGE_BYTES)
            .zip(self.crcs[first as usize * 4..].chunks_exact(4))
            .all(|(page, crc)| crc32c::crc32c(page) == u32_at(crc, 0));
        if !sound {
            return Err(broken("a checksum does not hold"));
        }
        let range = (range.start - start) as usize..(range.end - start) as usize;
        Ok(Bytes { whole: Arc::new(pages), range })
    }
}

/// A piece of checked bytes.
#[derive(Debug, Clone)]
pub(crate) struct Bytes {
    whole: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[self.range.clone()]
    }
}

/// Reads exactly as many bytes as the buffer takes.
pub(crate) fn fill(file: &dyn Blob, buffer: &mut [u8], offset: u64) -> IndexResult<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(IndexDamage::Wrong("cut short")),
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Reads a little-endian `u32` at an offset, or 0 beyond the end: callers check the length before.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// Reads a little-endian `u64`; see [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Small enough that one record's whereabouts cost little, large enough that checksums take little room.
pub(crate) const PAGE_BYTES: usize = 8192;
/// The number of bytes of a file that are kept in memory.
const CACHE_BYTES: usize = 2 * 1024 * 1024;
/// Changes with everything that is kept in pages: an index of another version is made anew.
const MAGIC: &[u8; 8] = b"manidx04";
const END_BYTES: usize = MAGIC.len() + 8 + 4;

/// Appends a varint (LEB128): seven bits a byte, the low ones first; the last byte has no high bit.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Reads varints and texts from a byte slice, in order.
#[derive(Debug, Clone)]
pub(crate) struct VarintReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> VarintReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> VarintReader<'a> {
        VarintReader { bytes, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn next(&mut self) -> IndexResult<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.next_long(),
        }
    }

    fn next_long(&mut self) -> IndexResult<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or_else(|| broken("a number is cut short"))?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(broken("a number is too long"))
    }

    pub(crate) fn next_u32(&mut self) -> IndexResult<u32> {
        u32::try_from(self.next()?).map_err(|_| broken("a number is too large"))
    }

    pub(crate) fn record_ref(&mut self) -> IndexResult<RecordRef> {
        Ok(RecordRef { offset: self.next()?, seq: self.next()?, crc: self.next_u32()? })
    }

    pub(crate) fn take(&mut self, len: usize) -> IndexResult<&'a [u8]> {
        let end = self.at.checked_add(len).ok_or_else(|| broken("a length is too large"))?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| broken("cut short"))?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn text(&mut self) -> IndexResult<&'a str> {
        let len = self.next()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| broken("a text is no text"))
    }
}
