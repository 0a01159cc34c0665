//! Posting lists: the records with a word, the number of its occurrences in each, and a tag of each following word.
//!
//! A list of turns is cut into blocks of 128, packed with as many bits as the widest number of the block needs. In
//! front stands, for each block, its last turn, where it begins, and the best it can score: whole blocks are skipped
//! where a turn is looked for, or where nothing in them can be among the best. What is left over behind the last whole
//! block is written as plain numbers.
//!
//! ```text
//! [last turn (4), data offset (4), occurrences before (4), best impact (2), newest day (2)] × blocks
//!                                                                        (only lists of 128 turns and more)
//! [bits of gaps, bits of times, gaps, times - 1] × whole blocks | (2 × gap + (times > 1), times - 1 if so) × rest
//! ```
//!
//! Where exactly a word stands is not written: that alone would take as much room as all the rest. Written apart is,
//! for every occurrence, a [`tag`] of four bits of the word behind it. A phrase is looked for by these tags, which
//! lose none and let a few others through; the text of the turn, which is read anyway to be shown, decides.

use std::ops::Range;

use bitpacking::{BitPacker, BitPacker4x};

use crate::error::{IndexResult, broken};
use crate::pages::{Bytes, Pages, VarintReader, put, u32_at};
use crate::query::score::IMPACT_MAX;

/// Behind the last turn of a list.
pub(crate) const END: u32 = u32::MAX;
pub(crate) const BLOCK: usize = BitPacker4x::BLOCK_LEN;
const SKIP_BYTES: usize = 16;

/// The best that a block can bring.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockBound {
    pub(crate) impact: f32,
    /// The time of its newest record, in seconds since 1970.
    pub(crate) newest: u32,
}

/// Returns the tag of a word: four bits of a hash, stored for each occurrence of the word before it.
pub(crate) fn tag(word: &str) -> u8 {
    (crc32c::crc32c(word.as_bytes()) >> 9) as u8 & 15
}

/// Writes the list of a word; `bound` tells what a turn brings.
pub(crate) fn encode(out: &mut Vec<u8>, docs: &[u32], times: &[u32], bound: impl Fn(u32, u32) -> BlockBound) {
    let mut previous = 0;
    if docs.len() < BLOCK {
        put_rest(out, docs, times, &mut previous);
        return;
    }
    let packer = BitPacker4x::new();
    let mut skips = Vec::with_capacity(docs.len().div_ceil(BLOCK) * SKIP_BYTES);
    let mut data = Vec::new();
    let mut before = 0_u32;
    for (docs, times) in docs.chunks(BLOCK).zip(times.chunks(BLOCK)) {
        let mut best = BlockBound { impact: 0.0, newest: 0 };
        for (doc, times) in docs.iter().zip(times) {
            let one = bound(*doc, *times);
            best = BlockBound { impact: best.impact.max(one.impact), newest: best.newest.max(one.newest) };
        }
        let last = docs.last().copied().unwrap_or_default();
        for number in [last, data.len() as u32, before] {
            skips.extend_from_slice(&number.to_le_bytes());
        }
        skips.extend_from_slice(&rounded_up(best.impact).to_le_bytes());
        skips.extend_from_slice(&u16::try_from(best.newest / DAY_SECONDS).unwrap_or(u16::MAX).to_le_bytes());
        before = before.wrapping_add(times.iter().sum::<u32>());
        if docs.len() == BLOCK {
            pack(&mut data, packer, previous, docs, times);
            previous = last;
        } else {
            put_rest(&mut data, docs, times, &mut previous);
        }
    }
    out.extend_from_slice(&skips);
    out.extend_from_slice(&data);
}

fn pack(data: &mut Vec<u8>, packer: BitPacker4x, previous: u32, docs: &[u32], times: &[u32]) {
    let mut room = [0; 4 * BLOCK];
    let mut more = [0; BLOCK];
    for (more, times) in more.iter_mut().zip(times) {
        *more = times - 1;
    }
    let gap_bits = packer.num_bits_sorted(previous, docs);
    let times_bits = packer.num_bits(&more);
    data.extend_from_slice(&[gap_bits, times_bits]);
    let len = packer.compress_sorted(previous, docs, &mut room, gap_bits);
    data.extend_from_slice(&room[..len]);
    let len = packer.compress(&more, &mut room, times_bits);
    data.extend_from_slice(&room[..len]);
}

fn put_rest(data: &mut Vec<u8>, docs: &[u32], times: &[u32], previous: &mut u32) {
    for (doc, times) in docs.iter().zip(times) {
        // Most words stand in a turn once.
        let often = *times > 1;
        put(data, u64::from(doc - *previous) << 1 | u64::from(often));
        if often {
            put(data, u64::from(times - 1));
        }
        *previous = *doc;
    }
}

/// A bound may promise too much, never too little.
#[expect(clippy::cast_sign_loss, reason = "no impact is below 0")]
fn rounded_up(impact: f32) -> u16 {
    (impact / IMPACT_MAX * f32::from(u16::MAX)).ceil().clamp(0.0, f32::from(u16::MAX)) as u16
}

/// Two tags a byte, the first in the low bits.
pub(crate) fn put_tags(out: &mut Vec<u8>, tags: &[u8]) {
    out.extend(tags.chunks(2).map(|pair| pair[0] | pair.get(1).copied().unwrap_or(0) << 4));
}

/// The tag of an occurrence.
#[inline]
pub(crate) fn tag_at(tags: &[u8], at: usize) -> Option<u8> {
    tags.get(at / 2).map(|pair| if at.is_multiple_of(2) { pair & 15 } else { pair >> 4 })
}

/// The posting list of a word: an iterator over the records with it, in order.
#[derive(Debug)]
pub(crate) struct PostingList {
    bytes: Bytes,
    pages: Pages,
    /// The range of the tags in the file, and their bytes once they were read.
    tags_at: Range<u64>,
    tags: Option<Bytes>,
    count: u32,
    /// The number of the unpacked block.
    block: usize,
    docs: [u32; BLOCK],
    times: [u32; BLOCK],
    filled: usize,
    at: usize,
    /// The occurrences before a record of the block and in the whole block; `None` if they were not added up yet.
    passed: Option<Passed>,
}

#[derive(Debug, Clone, Copy)]
struct Passed {
    before: usize,
    /// The turn in the block.
    at: usize,
    all: usize,
}

impl PostingList {
    /// `count` turns in `bytes`, and their tags in the segment.
    pub(crate) fn new(
        bytes: Bytes,
        count: u32,
        pages: Pages,
        tags_at: Range<u64>,
    ) -> IndexResult<PostingList> {
        let (docs, times) = ([END; BLOCK], [0; BLOCK]);
        let (block, filled, at, tags, passed) = (0, 0, 0, None, None);
        let mut list =
            PostingList { bytes, pages, tags_at, tags, count, block, docs, times, filled, at, passed };
        if list.has_skips() && list.bytes.len() < list.blocks() * SKIP_BYTES {
            return Err(broken("a list is cut short"));
        }
        list.unpack(0)?;
        Ok(list)
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn blocks(&self) -> usize {
        (self.count as usize).div_ceil(BLOCK)
    }

    fn has_skips(&self) -> bool {
        self.count as usize >= BLOCK
    }

    fn skip(&self, block: usize, field: usize) -> u32 {
        u32_at(&self.bytes, block * SKIP_BYTES + field * 4)
    }

    /// Returns the best that a block can bring; `None` where that was not written down.
    pub(crate) fn bound(&self, block: usize) -> Option<BlockBound> {
        if !self.has_skips() {
            return None;
        }
        let both = self.skip(block, 3);
        let impact = f32::from(both as u16) / f32::from(u16::MAX) * IMPACT_MAX;
        let end = (u64::from(both >> 16) + 1) * u64::from(DAY_SECONDS);
        let newest = u32::try_from(end - 1).unwrap_or(u32::MAX);
        Some(BlockBound { impact, newest })
    }

    fn last_of(&self, block: usize) -> u32 {
        if self.has_skips() { self.skip(block, 0) } else { END - 1 }
    }

    /// Makes a block the one that is looked at, standing on its first turn.
    pub(crate) fn unpack(&mut self, block: usize) -> IndexResult<()> {
        self.block = block;
        self.at = 0;
        self.passed = None;
        self.filled = (self.count as usize).saturating_sub(block * BLOCK).min(BLOCK);
        if self.filled == 0 {
            return Ok(());
        }
        let (mut previous, mut begin) = (0, 0);
        if self.has_skips() {
            begin = self.blocks() * SKIP_BYTES + self.skip(block, 1) as usize;
            previous = if block == 0 { 0 } else { self.skip(block - 1, 0) };
        }
        let data = self.bytes.get(begin..).ok_or_else(|| broken("a list is cut short"))?;
        if self.filled < BLOCK {
            let mut numbers = VarintReader::new(data);
            let mut doc = previous;
            for (slot, times) in self.docs.iter_mut().zip(&mut self.times).take(self.filled) {
                let gap = numbers.next()?;
                let next = u64::from(doc).checked_add(gap >> 1).and_then(|doc| u32::try_from(doc).ok());
                doc = next.ok_or_else(|| broken("a list is wrong"))?;
                *slot = doc;
                *times = if gap & 1 == 1 { numbers.next_u32()?.saturating_add(1) } else { 1 };
            }
            return Ok(());
        }
        let (&[gap_bits, times_bits], data) =
            data.split_first_chunk().ok_or_else(|| broken("a list is cut short"))?;
        let (gaps, times) = (usize::from(gap_bits) * BLOCK / 8, usize::from(times_bits) * BLOCK / 8);
        if gap_bits > 32 || times_bits > 32 || data.len() < gaps + times {
            return Err(broken("a list is cut short"));
        }
        let packer = BitPacker4x::new();
        packer.decompress_sorted(previous, &data[..gaps], &mut self.docs, gap_bits);
        packer.decompress(&data[gaps..gaps + times], &mut self.times, times_bits);
        self.times.iter_mut().for_each(|times| *times = times.saturating_add(1));
        Ok(())
    }

    /// The turns of the block that is unpacked, and how often the word stands in each.
    pub(crate) fn unpacked(&self) -> (&[u32], &[u32]) {
        (&self.docs[..self.filled], &self.times[..self.filled])
    }

    #[inline]
    pub(crate) fn doc(&self) -> u32 {
        if self.at < self.filled { self.docs[self.at] } else { END }
    }

    #[inline]
    pub(crate) fn times(&self) -> u32 {
        if self.at < self.filled { self.times[self.at] } else { 0 }
    }

    pub(crate) fn next(&mut self) -> IndexResult<u32> {
        self.at += 1;
        if self.at >= self.filled && self.block + 1 < self.blocks() {
            self.unpack(self.block + 1)?;
        }
        Ok(self.doc())
    }

    /// Goes to the first turn that is not before `target`.
    #[inline]
    pub(crate) fn seek(&mut self, target: u32) -> IndexResult<u32> {
        let filled = self.filled.min(BLOCK);
        if filled == 0 || self.docs[filled - 1] < target {
            return self.seek_far(target);
        }
        // Most targets are near.
        let mut at = self.at;
        while at + NEAR < filled && self.docs[at + NEAR - 1] < target {
            at += NEAR;
        }
        while at < filled && self.docs[at] < target {
            at += 1;
        }
        self.at = at;
        Ok(self.doc())
    }

    #[inline(never)]
    fn seek_far(&mut self, target: u32) -> IndexResult<u32> {
        if !self.seek_block(target)? {
            return Ok(END);
        }
        self.at = self.docs[..self.filled].partition_point(|doc| *doc < target);
        Ok(self.doc())
    }

    /// Unpacks the block in which `target` would stand. Returns false if there is none.
    fn seek_block(&mut self, target: u32) -> IndexResult<bool> {
        let (mut low, blocks) = (self.block + 1, self.blocks());
        // Further in growing steps before halving.
        let mut step = 1;
        while low + step < blocks && self.last_of(low + step) < target {
            low += step;
            step *= 2;
        }
        let mut high = blocks.min(low + step + 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.last_of(middle) < target { low = middle + 1 } else { high = middle }
        }
        if low >= blocks {
            (self.at, self.filled, self.block) = (0, 0, blocks);
            return Ok(false);
        }
        self.unpack(low)?;
        Ok(true)
    }

    /// Counts the occurrences in the current record that are followed by a word with this tag.
    pub(crate) fn followed_by(&mut self, tag: u8) -> IndexResult<u32> {
        let before = if self.has_skips() { self.skip(self.block, 2) as usize } else { 0 };
        let first = before + sum(&self.times[..self.at.min(self.filled)]);
        let times = self.times() as usize;
        tags_among(self.read_tags()?, first, times, tag)
    }

    /// Goes to the next turn, this one included, in which the word is followed by one with this tag, and tells how
    /// often. Much faster than looking at each turn.
    pub(crate) fn seek_followed(&mut self, tag: u8) -> IndexResult<u32> {
        self.read_tags()?;
        while self.at < self.filled {
            let before = if self.has_skips() { self.skip(self.block, 2) as usize } else { 0 };
            let Passed { before: passed, all, .. } = self.pass();
            let times = &self.times[..self.filled];
            let tags = self.tags.as_deref().unwrap_or_default();
            let (first, end) = (before + passed, before + all);
            if end > tags.len() * 2 {
                return Err(broken("tags are missing"));
            }
            // One in sixteen has it: find the occurrence, then the turn that it is in.
            if let Some(found) = find_tag(tags, first..end, tag) {
                let mut begins = first;
                while begins + (times[self.at] as usize) <= found {
                    begins += times[self.at] as usize;
                    self.at += 1;
                }
                return tags_among(tags, begins, times[self.at] as usize, tag);
            }
            self.at = self.filled;
            if self.block + 1 < self.blocks() {
                self.unpack(self.block + 1)?;
            }
        }
        Ok(0)
    }

    /// Adds up how often the word stands before the turn that is looked at, from the one that was looked at before.
    fn pass(&mut self) -> Passed {
        let times = &self.times[..self.filled];
        let last = self.passed.filter(|passed| passed.at <= self.at);
        let last = last.unwrap_or_else(|| Passed { before: 0, at: 0, all: sum(times) });
        let passed = Passed { before: last.before + sum(&times[last.at..self.at]), at: self.at, ..last };
        self.passed = Some(passed);
        passed
    }

    fn read_tags(&mut self) -> IndexResult<&[u8]> {
        if self.tags.is_none() {
            self.tags = Some(self.pages.read(self.tags_at.clone())?);
        }
        Ok(self.tags.as_deref().unwrap_or_default())
    }
}

fn sum(times: &[u32]) -> usize {
    times.iter().map(|times| *times as usize).sum()
}

/// The first of some occurrences that has a tag.
fn find_tag(tags: &[u8], among: Range<usize>, tag: u8) -> Option<usize> {
    const LOW: u64 = 0x7777_7777_7777_7777;
    let pairs = tags.get(among.start / 2..among.end.div_ceil(2))?;
    let wanted = u64::from(tag) * 0x1111_1111_1111_1111;
    // The first byte may hold one that comes before them.
    let mut before = among.start % 2;
    for (at, eight) in pairs.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..eight.len()].copy_from_slice(eight);
        // Sixteen at once: where four bits are all 0, their highest is set here, and nowhere else.
        let differs = u64::from_le_bytes(bytes) ^ wanted;
        let found = !(((differs & LOW) + LOW) | differs | LOW);
        let found = found >> (4 * before) << (4 * before);
        before = 0;
        if found != 0 {
            let occurrence = among.start / 2 * 2 + at * 16 + found.trailing_zeros() as usize / 4;
            return Some(occurrence).filter(|occurrence| *occurrence < among.end);
        }
    }
    None
}

/// Counts the occurrences with a tag among `times` of them, from `first` on.
#[inline]
fn tags_among(tags: &[u8], first: usize, times: usize, tag: u8) -> IndexResult<u32> {
    let mut count = 0;
    for at in first..first + times {
        count += u32::from(tag_at(tags, at).ok_or_else(|| broken("tags are missing"))? == tag);
    }
    Ok(count)
}

const DAY_SECONDS: u32 = 24 * 60 * 60;
const NEAR: usize = 8;
