//! Lines of a file as bytes, forwards and backwards, in memory bounded by the longest record.
//!
//! Only 0x0A ends a line. A line over the limit is never held whole: its place and length are given instead of its
//! bytes. Nothing here judges a line. Files are read, never mapped: a live log can be cut under a mapping, and the
//! process would die of it.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use crate::frame::RECORD_BYTES_MAX;
use crate::fs::{DiskFile, read_exactly};

/// One line: where it stands in the file, and where its bytes are in the buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Offset of its first byte in the file.
    pub(crate) offset: u64,
    /// The bytes in the buffer, without the newline. Empty if the line is too long to be held.
    pub(crate) range: Range<usize>,
    /// The length in the file, without the newline.
    pub(crate) length: u64,
    /// True if a newline ends the line.
    pub(crate) terminated: bool,
}

impl Line {
    pub(crate) fn too_long(&self) -> bool {
        self.length > self.range.len() as u64
    }

    /// Offset of the first byte after the line and its newline.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.length + u64::from(self.terminated)
    }
}

/// Lines from some offset to the end.
#[derive(Debug)]
pub(crate) struct Lines {
    buffer: Buffer,
    /// Bytes read but not given out.
    unread: Range<usize>,
    /// There is no newline in `unread` before this place.
    scanned: usize,
    /// File offset of `unread.start`.
    offset: u64,
    /// The last line was given without its newline. What the file gained since belongs to it and is no line.
    ended: bool,
}

impl Lines {
    pub(crate) fn new(offset: u64, block_bytes: usize) -> Lines {
        Lines { buffer: Buffer::new(block_bytes), unread: 0..0, scanned: 0, offset, ended: false }
    }

    /// Forgets what was read and reads blocks of another size from now on.
    pub(crate) fn set_block_bytes(&mut self, block_bytes: usize) {
        if self.buffer.capacity() != block_bytes {
            self.buffer = Buffer::new(block_bytes);
        }
        self.seek(0);
    }

    /// Forgets what was read and goes on at another offset.
    pub(crate) fn seek(&mut self, offset: u64) {
        self.unread = 0..0;
        self.scanned = 0;
        self.offset = offset;
        self.ended = false;
    }

    /// Forgets what was read and stands at the end of a file of this length, for [`Lines::fill_back`].
    pub(crate) fn stand_at_end(&mut self, len: u64) {
        self.seek(len);
        // A page of the file becomes one of the buffer: the kernel copies such pages fastest.
        let at = self.buffer.capacity() - PAGE + len as usize % PAGE;
        self.unread = at..at;
        self.scanned = at;
    }

    /// Reads the block before what is held. Returns false if there is none, or if too much is held already.
    pub(crate) fn fill_back(&mut self, file: &dyn DiskFile) -> io::Result<bool> {
        let page = PAGE as u64;
        let from = self.offset.saturating_sub(BACK_BLOCK_BYTES as u64) / page * page;
        let block = (self.offset - from) as usize;
        if block == 0 || self.unread.len() + block > HELD_BACK_BYTES_MAX {
            return Ok(false);
        }
        if block > self.unread.start {
            let mut larger = Buffer::new(self.buffer.capacity() * 2);
            let further = larger.capacity() - self.buffer.capacity();
            let moved = self.unread.start + further..self.unread.end + further;
            larger.as_mut_slice()[moved.clone()].copy_from_slice(self.held());
            (self.buffer, self.unread) = (larger, moved);
        }
        let at = self.unread.start - block;
        read_exactly(file, &mut self.buffer.as_mut_slice()[at..at + block], from)?;
        (self.unread.start, self.scanned, self.offset) = (at, at, from);
        Ok(true)
    }

    /// Returns the bytes that were read and not given out.
    pub(crate) fn held(&self) -> &[u8] {
        self.bytes(self.unread.clone())
    }

    /// Passes over what is held before an offset.
    pub(crate) fn pass_to(&mut self, offset: u64) {
        let passed = (offset.saturating_sub(self.offset) as usize).min(self.unread.len());
        self.unread.start += passed;
        self.scanned = self.unread.start;
        self.offset += passed as u64;
    }

    /// Offset of the first byte not given out.
    pub(crate) fn position(&self) -> u64 {
        self.offset
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer.as_slice()[range]
    }

    /// Returns the next line; `None` at the end of the file. A last line without newline is returned as it stands.
    pub(crate) fn next(&mut self, file: &dyn DiskFile) -> io::Result<Option<Line>> {
        if self.ended {
            return Ok(None);
        }
        loop {
            let fresh = &self.buffer.as_slice()[self.scanned..self.unread.end];
            if let Some(at) = memchr::memchr(b'\n', fresh) {
                let end = self.scanned + at;
                if end - self.unread.start > LINE_BYTES_MAX {
                    return self.give_too_long(file).map(Some);
                }
                return Ok(Some(self.give(end, true)));
            }
            self.scanned = self.unread.end;
            if self.unread.len() > LINE_BYTES_MAX {
                return self.give_too_long(file).map(Some);
            }
            if self.fill(file)? == 0 {
                let end = self.unread.end;
                self.ended = !self.unread.is_empty();
                return Ok((!self.unread.is_empty()).then(|| self.give(end, false)));
            }
        }
    }

    fn give(&mut self, end: usize, terminated: bool) -> Line {
        let range = self.unread.start..end;
        let line = Line { offset: self.offset, length: range.len() as u64, range, terminated };
        self.offset = line.end();
        self.unread.start = end + usize::from(terminated);
        self.scanned = self.unread.start;
        line
    }

    /// Passes over a line that does not fit. A run of NULs is cut off as a line of its own, so that a record behind a
    /// hole of any size is still found; anything else ends with its newline.
    fn give_too_long(&mut self, file: &dyn DiskFile) -> io::Result<Line> {
        let is_hole = self.held().first() == Some(&0);
        let (offset, mut length) = (self.offset, 0);
        loop {
            let held = self.held();
            let end = if is_hole { held.iter().position(|b| *b != 0) } else { memchr::memchr(b'\n', held) };
            let terminated = end.is_some() && !is_hole;
            let passed = end.unwrap_or(held.len());
            length += passed as u64;
            self.unread.start += passed + usize::from(terminated);
            self.offset = offset + length + u64::from(terminated);
            self.scanned = self.unread.start;
            if end.is_some() || self.fill(file)? == 0 {
                self.ended = !is_hole && !terminated;
                return Ok(Line { offset, range: 0..0, length, terminated });
            }
        }
    }

    /// Reads more behind `unread`. The bytes land on a 64-byte boundary: with the destination where an allocator
    /// puts it by default, the kernel's copy is several times slower on some processors.
    fn fill(&mut self, file: &dyn DiskFile) -> io::Result<usize> {
        let unread_len = self.unread.len();
        let room_at = |place: usize, capacity: usize| capacity.saturating_sub(place) >= READ_BYTES_MIN;
        if !(self.unread.end.is_multiple_of(ALIGN) && room_at(self.unread.end, self.buffer.capacity())) {
            let place = unread_len.next_multiple_of(ALIGN);
            if !room_at(place, self.buffer.capacity()) {
                self.buffer.grow((self.buffer.capacity() * 2).min(BUFFER_BYTES_MAX));
            }
            self.buffer.as_mut_slice().copy_within(self.unread.clone(), place - unread_len);
            self.scanned = self.scanned - self.unread.start + (place - unread_len);
            self.unread = place - unread_len..place;
        }
        let at = self.unread.end;
        let n = read_once(file, &mut self.buffer.as_mut_slice()[at..], self.offset + unread_len as u64)?;
        self.unread.end += n;
        Ok(n)
    }
}

/// Lines from some offset back to the beginning.
#[derive(Debug)]
pub(crate) struct LinesBack {
    buffer: Vec<u8>,
    /// File offset of the buffer's first byte.
    start: u64,
    /// Bytes of the buffer not given out yet: the first so many.
    unread: usize,
    /// A line that comes next although it is not in the buffer.
    held_back: Option<Line>,
}

impl LinesBack {
    pub(crate) fn new(end: u64) -> LinesBack {
        LinesBack { buffer: Vec::new(), start: end, unread: 0, held_back: None }
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Returns the line before the one returned last; `None` at the beginning of the file.
    pub(crate) fn next(&mut self, file: &dyn DiskFile) -> io::Result<Option<Line>> {
        if let Some(line) = self.held_back.take() {
            return Ok(Some(line));
        }
        loop {
            let terminated = self.unread > 0 && self.buffer[self.unread - 1] == b'\n';
            let end = self.unread - usize::from(terminated);
            let newline = memchr::memrchr(b'\n', &self.buffer[..end]);
            let start = newline.map(|at| at + 1).or((self.start == 0).then_some(0));
            match start {
                None if end > LINE_BYTES_MAX => {
                    let start = line_start(file, self.start)?;
                    return self.give_too_long(file, start, terminated).map(Some);
                }
                None => {}
                Some(_) if self.unread == 0 => return Ok(None),
                Some(start) if end - start > LINE_BYTES_MAX => {
                    let start = self.start + start as u64;
                    return self.give_too_long(file, start, terminated).map(Some);
                }
                Some(start) => return Ok(Some(self.give(start..end, terminated))),
            }
            self.fill(file)?;
        }
    }

    fn give(&mut self, range: Range<usize>, terminated: bool) -> Line {
        self.unread = range.start;
        let offset = self.start + range.start as u64;
        Line { offset, length: range.len() as u64, range, terminated }
    }

    /// A line that does not fit. As forwards, NULs in front of it are a line of their own if that makes the rest fit:
    /// a record behind a hole must not be overlooked, least of all by recovery.
    fn give_too_long(&mut self, file: &dyn DiskFile, start: u64, terminated: bool) -> io::Result<Line> {
        let end = self.start + self.unread as u64 - u64::from(terminated);
        self.start = start;
        self.buffer = Vec::new();
        self.unread = 0;
        let whole = Line { offset: self.start, range: 0..0, length: end - self.start, terminated };
        let text = first_non_nul(file, self.start, end)?;
        if text == self.start || end - text > LINE_BYTES_MAX as u64 {
            return Ok(whole);
        }
        self.held_back = Some(Line { length: text - self.start, terminated: false, ..whole.clone() });
        self.buffer = vec![0; (end - text) as usize];
        read_exactly(file, &mut self.buffer, text)?;
        Ok(Line { offset: text, range: 0..self.buffer.len(), length: end - text, terminated })
    }

    /// Reads the block before the buffer. Blocks double while one line goes on, so that its bytes are moved a
    /// constant number of times.
    fn fill(&mut self, file: &dyn DiskFile) -> io::Result<()> {
        let room = (RECORD_BYTES_MAX + 2).saturating_sub(self.unread).max(BACK_BLOCK_BYTES);
        let block = (self.unread.clamp(BACK_BLOCK_BYTES, room) as u64).min(self.start) as usize;
        let mut longer = vec![0; block + self.unread];
        read_exactly(file, &mut longer[..block], self.start - block as u64)?;
        longer[block..].copy_from_slice(&self.buffer[..self.unread]);
        self.start -= block as u64;
        self.unread += block;
        self.buffer = longer;
        Ok(())
    }
}

/// Returns the offset at which the line begins that goes on at `at`.
fn line_start(file: &dyn DiskFile, mut at: u64) -> io::Result<u64> {
    let mut block = vec![0; BACK_BLOCK_BYTES];
    while at > 0 {
        let from = at.saturating_sub(BACK_BLOCK_BYTES as u64);
        let block = &mut block[..(at - from) as usize];
        read_exactly(file, block, from)?;
        if let Some(newline) = memchr::memrchr(b'\n', block) {
            return Ok(from + newline as u64 + 1);
        }
        at = from;
    }
    Ok(0)
}

/// The first byte in a range that is not NUL, or its end.
fn first_non_nul(file: &dyn DiskFile, start: u64, end: u64) -> io::Result<u64> {
    let mut block = vec![0; BACK_BLOCK_BYTES];
    let mut at = start;
    while at < end {
        let block = &mut block[..(end - at).min(BACK_BLOCK_BYTES as u64) as usize];
        read_exactly(file, block, at)?;
        if let Some(found) = block.iter().position(|b| *b != 0) {
            return Ok(at + found as u64);
        }
        at += block.len() as u64;
    }
    Ok(end)
}

fn read_once(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Bytes on a page boundary, without unsafe code: a little more is allocated, and the start is chosen in it.
#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    skip: usize,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.capacity() == TAIL_BYTES {
            let bytes = std::mem::take(&mut self.bytes);
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(bytes));
        }
    }
}

thread_local! {
    /// The last buffer for a tail that this thread let go of: whoever looks at thousands of logs, one after the other,
    /// would else have the system clear new pages for each.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Buffer {
    fn new(capacity: usize) -> Buffer {
        let spare = if capacity == TAIL_BYTES { SPARE.try_with(Cell::take).ok() } else { None };
        let bytes = spare.filter(|b| b.len() == capacity + PAGE).unwrap_or_else(|| vec![0; capacity + PAGE]);
        let skip = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Buffer { bytes, skip }
    }

    fn capacity(&self) -> usize {
        self.bytes.len().saturating_sub(PAGE)
    }

    fn grow(&mut self, capacity: usize) {
        let mut larger = Buffer::new(capacity);
        larger.as_mut_slice()[..self.capacity()].copy_from_slice(self.as_slice());
        *self = larger;
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[self.skip..self.skip + self.capacity()]
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        let end = self.skip + self.capacity();
        &mut self.bytes[self.skip..end]
    }
}

/// The size of a block when a log is read as a stream.
pub(crate) const STREAM_BLOCK_BYTES: usize = 256 << 10;
/// The least that is read at a time.
pub(crate) const MIN_BLOCK_BYTES: usize = 512;
/// The size of a block where a few records are wanted.
pub(crate) const SMALL_BLOCK_BYTES: usize = 16 << 10;
/// The size of the buffer where the last records are wanted: fifty turns, most of the time.
pub(crate) const TAIL_BYTES: usize = 128 << 10;
/// The length of the tail that is held whole.
const HELD_BACK_BYTES_MAX: usize = 1 << 20;
const BACK_BLOCK_BYTES: usize = 64 << 10;
/// The longest line, without its newline.
const LINE_BYTES_MAX: usize = RECORD_BYTES_MAX - 1;
/// Enough to know that a line is too long, and no more.
const BUFFER_BYTES_MAX: usize = RECORD_BYTES_MAX + STREAM_BLOCK_BYTES;
const READ_BYTES_MIN: usize = 8 << 10;
const ALIGN: usize = 64;
const PAGE: usize = 4096;
