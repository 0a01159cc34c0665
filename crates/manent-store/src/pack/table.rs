//! The seek table: which bytes of a packed file hold which bytes of the plain one.
//!
//! It is the table of the official "zstd seekable format": a skippable frame at the end of the file, which
//! every zstd decoder passes over. Right before it stands a skippable frame of our own with its checksum.
//!
//! ```text
//! 0x184D2A50   u32, 4  u32                  a skippable frame
//! crc32c       u32                          of all bytes that follow
//! 0x184D2A5E   u32                          a skippable frame
//! length       u32                          of all that follows
//! packed size  u32, plain size  u32         for each frame with data
//! frames       u32, 0  u8, 0x8F92EAB1  u32  the footer
//! ```
//!
//! All numbers are little endian. With the checksum the table is taken at its word, and opening costs nothing
//! but reading it. Without one (another tool made the file, or it is damaged) each size is compared with what
//! the frame itself says; where that fails too, the frames are looked for without the table.
//!
//! In any case the sizes must make up the file to the byte and none may be larger than ours are, so what is
//! held in memory is bounded by what is in the file, and by [`FRAMES_MAX`].
//!
//! Where the table is lost, the frames are found without it: each zstd frame says how long it is, so they can be
//! followed from the beginning of the file to the first one that is not whole. Every byte is looked at once; memory is
//! bounded by the largest frame and, for the places found, by [`FRAMES_MAX`].

use std::io;
use std::ops::Range;

use manent_log::fs::{DiskFile, read_exactly};
use zstd::zstd_safe;

use super::{FRAME_BYTES_MAX, invalid, not_ours};

/// The places of all frames, in both files.
#[derive(Debug)]
pub(super) struct Table {
    places: Vec<FrameRange>,
    pub(super) ending: TableEnd,
}

/// The place of one frame, in both files.
#[derive(Debug)]
struct FrameRange {
    packed: Range<u64>,
    plain: Range<u64>,
}

/// The completeness of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableEnd {
    /// The table has all that was packed.
    Whole,
    /// A table that lost its end: more stood behind the last frame that was found, or may have.
    Lost,
}

/// The degree to which a table that could be read is to be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The checksum of the table holds.
    Checked,
    /// The table has no checksum, or a wrong one, and all frames agree with it.
    Sure,
    /// A table with which all frames agree that can be read, which some cannot.
    Likely,
}

impl Table {
    /// A table without frames.
    pub(super) fn empty() -> Table {
        Table { places: Vec::new(), ending: TableEnd::Whole }
    }

    /// Adds a frame right behind the last one.
    pub(super) fn push(&mut self, packed_bytes: usize, plain_bytes: usize) {
        self.push_at(self.packed_len(), packed_bytes, plain_bytes);
    }

    /// Adds a frame that begins at a place of the packed file.
    fn push_at(&mut self, at: u64, packed_bytes: usize, plain_bytes: usize) {
        let plain = self.plain_len();
        let place =
            FrameRange { packed: at..at + packed_bytes as u64, plain: plain..plain + plain_bytes as u64 };
        self.places.push(place);
    }

    /// Returns the number of frames.
    pub(super) fn frames(&self) -> usize {
        self.places.len()
    }

    /// Length of the plain file, as far as the frames go.
    pub(super) fn plain_len(&self) -> u64 {
        self.places.last().map_or(0, |last| last.plain.end)
    }

    /// Returns the end of the last frame in the packed file.
    fn packed_len(&self) -> u64 {
        self.places.last().map_or(0, |last| last.packed.end)
    }

    /// Returns the range of a frame in the packed file.
    pub(super) fn packed(&self, frame: usize) -> Range<u64> {
        self.places[frame].packed.clone()
    }

    /// Returns the range of a frame's bytes in the plain file.
    pub(super) fn plain(&self, frame: usize) -> Range<u64> {
        self.places[frame].plain.clone()
    }

    /// Returns the frame that holds a byte of the plain file; `None` behind its end.
    pub(super) fn frame_at(&self, offset: u64) -> Option<usize> {
        let frame = self.places.partition_point(|place| place.plain.end <= offset);
        Some(frame).filter(|frame| *frame < self.frames())
    }

    /// The table as it stands in a file, its checksum before it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.seek_table();
        let mut all = Vec::with_capacity(CRC_FRAME_BYTES as usize + bytes.len());
        all.extend(crc_frame(&bytes));
        all.extend(bytes);
        all
    }

    fn seek_table(&self) -> Vec<u8> {
        let length = table_bytes(self.frames()) - HEADER_BYTES;
        let mut bytes = Vec::with_capacity(table_bytes(self.frames()) as usize);
        bytes.extend(SEEK_MAGIC.to_le_bytes());
        bytes.extend((length as u32).to_le_bytes());
        for place in &self.places {
            bytes.extend(((place.packed.end - place.packed.start) as u32).to_le_bytes());
            bytes.extend(((place.plain.end - place.plain.start) as u32).to_le_bytes());
        }
        bytes.extend((self.frames() as u32).to_le_bytes());
        bytes.push(DESCRIPTOR);
        bytes.extend(FOOTER_MAGIC.to_le_bytes());
        bytes
    }

    /// Finds the frames of a packed file: by its table, or by walking over them where that cannot be relied
    /// on.
    pub(super) fn read(file: &dyn DiskFile) -> io::Result<Table> {
        let len = file.state()?.len;
        let by_table = Table::parse(file, len)?;
        if let Ok((table, Proof::Checked | Proof::Sure)) = by_table {
            return Ok(table);
        }
        let walked = walk(file, len)?;
        match by_table {
            // What cannot be asked is damaged, and only the table leads past it; or the table leads astray,
            // and all frames are there.
            Ok((table, _)) if walked.ending == TableEnd::Lost => Ok(table),
            Err(refusal) if walked.frames() == 0 => Err(refusal),
            _ => Ok(walked),
        }
    }

    /// Reads the table at the end of a file. The inner error says why there is none that could be used; the
    /// outer one is the disk's.
    fn parse(file: &dyn DiskFile, len: u64) -> io::Result<Result<(Table, Proof), io::Error>> {
        let mut footer = [0; FOOTER_BYTES as usize];
        let Some(footer_at) = len.checked_sub(FOOTER_BYTES) else { return Ok(Err(not_ours("is too short"))) };
        read_exactly(file, &mut footer, footer_at)?;
        if u32_at(&footer, 5) != Some(FOOTER_MAGIC) {
            return Ok(Err(not_ours("has no seek table at its end")));
        }
        if footer[4] != DESCRIPTOR {
            return Ok(Err(not_ours("has a seek table of another kind")));
        }
        let frames = u32_at(&footer, 0).unwrap_or(u32::MAX) as usize;
        let table_at = len.checked_sub(table_bytes(frames)).filter(|_| frames <= FRAMES_MAX);
        let Some(table_at) = table_at else {
            return Ok(Err(not_ours("claims more frames than it can hold")));
        };

        // Bounded: no longer than the file, and than the table of FRAMES_MAX.
        let crc_at = table_at.saturating_sub(CRC_FRAME_BYTES);
        let mut bytes = vec![0; (len - crc_at) as usize];
        read_exactly(file, &mut bytes, crc_at)?;
        let (before, bytes) = bytes.split_at((table_at - crc_at) as usize);
        let table = match Table::of_bytes(bytes, frames) {
            Ok(table) => table,
            Err(what) => return Ok(Err(not_ours(what))),
        };
        let has_crc_frame = table.packed_len() + CRC_FRAME_BYTES == table_at;
        if !has_crc_frame && table.packed_len() != table_at {
            return Ok(Err(not_ours("has a seek table that does not fit its length")));
        }
        if has_crc_frame && before == crc_frame(bytes) {
            return Ok(Ok((table, Proof::Checked)));
        }
        Ok(table.compare_with_frames(file)?.map(|proof| (table, proof)))
    }

    /// The sizes in the bytes of a seek table.
    fn of_bytes(bytes: &[u8], frames: usize) -> Result<Table, &'static str> {
        let length = (table_bytes(frames) - HEADER_BYTES) as u32;
        if u32_at(bytes, 0) != Some(SEEK_MAGIC) || u32_at(bytes, 4) != Some(length) {
            return Err("has a seek table that does not begin where it should");
        }
        let mut table = Table { places: Vec::with_capacity(frames), ending: TableEnd::Whole };
        let entries = bytes[HEADER_BYTES as usize..].chunks_exact(ENTRY_BYTES as usize);
        for sizes in entries.take(frames) {
            let (packed, plain) = (u32_at(sizes, 0).unwrap_or(0), u32_at(sizes, 4).unwrap_or(0));
            let (packed, plain) = (packed as usize, plain as usize);
            if !(1..=packed_bytes_max()).contains(&packed) || !(1..=FRAME_BYTES_MAX).contains(&plain) {
                return Err("has a seek table with a frame of an impossible size");
            }
            table.push(packed, plain);
        }
        Ok(table)
    }

    /// Asks each frame how long its plain bytes are: one wrong size would shift all that follows it without a
    /// sign. The inner error says which frame contradicts.
    fn compare_with_frames(&self, file: &dyn DiskFile) -> io::Result<Result<Proof, io::Error>> {
        let mut head = [0; FRAME_HEAD_BYTES_MAX];
        let mut proof = Proof::Sure;
        for FrameRange { packed, plain } in &self.places {
            let head = &mut head[..(packed.end - packed.start).min(FRAME_HEAD_BYTES_MAX as u64) as usize];
            read_exactly(file, head, packed.start)?;
            match zstd_safe::get_frame_content_size(head) {
                Err(_) => proof = Proof::Likely,
                Ok(Some(size)) if size == plain.end - plain.start => {}
                Ok(Some(_)) => {
                    let at = packed.start;
                    return Ok(Err(invalid(format!(
                        "the seek table and the frame at byte {at} contradict each other; {WHAT_TO_DO}"
                    ))));
                }
                Ok(None) => return Ok(Err(not_ours("has a frame that does not tell its size"))),
            }
        }
        Ok(Ok(proof))
    }
}

/// Returns true if the table of a packed file is there and its checksum holds. Where it does not, the file can be read
/// all the same, most often; but somebody should know.
pub(crate) fn has_sound_table(file: &dyn DiskFile) -> io::Result<bool> {
    Ok(matches!(Table::parse(file, file.state()?.len)?, Ok((_, Proof::Checked))))
}

/// The skippable frame with the checksum of a seek table.
fn crc_frame(table: &[u8]) -> [u8; CRC_FRAME_BYTES as usize] {
    let mut frame = [0; CRC_FRAME_BYTES as usize];
    let words = [CRC_MAGIC, CRC_BYTES, crc32c::crc32c(table)];
    for (place, word) in frame.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    frame
}

/// Returns true if what ends the file can be the seek table of so many frames, going by its length (its head not
/// counted). That of other tools may have a checksum for each frame.
fn is_table_of(file: &dyn DiskFile, len: u64, length: u32, frames: usize) -> io::Result<bool> {
    let Some(footer_at) = len.checked_sub(FOOTER_BYTES) else { return Ok(false) };
    let mut footer = [0; FOOTER_BYTES as usize];
    read_exactly(file, &mut footer, footer_at)?;
    let entry_bytes = if footer[4] & HAS_CHECKSUMS == 0 { ENTRY_BYTES } else { ENTRY_BYTES + 4 };
    Ok(u64::from(length) == frames as u64 * entry_bytes + FOOTER_BYTES)
}

/// The longest that a frame can become: what cannot be compressed grows a little.
pub(super) fn packed_bytes_max() -> usize {
    zstd_safe::compress_bound(FRAME_BYTES_MAX)
}

/// Length of the whole table, its head and footer included.
fn table_bytes(frames: usize) -> u64 {
    HEADER_BYTES + frames as u64 * ENTRY_BYTES + FOOTER_BYTES
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns as many whole frames as there are from the beginning on.
///
/// The end counts as lost unless a seek table for just as many frames stands there: a file that was cut
/// between two frames has nothing else to tell it from a whole one.
fn walk(file: &dyn DiskFile, len: u64) -> io::Result<Table> {
    let mut table = Table::empty();
    let mut window = Window::new(file, len);
    let mut frames = 0;
    let ending = loop {
        let at = window.at;
        let bytes = window.ahead()?;
        if let Some((magic, length)) = skippable(bytes) {
            let size = HEADER_BYTES + u64::from(length);
            if magic == SEEK_MAGIC {
                let is_it = at + size == len && is_table_of(file, len, length, frames)?;
                break if is_it { TableEnd::Whole } else { TableEnd::Lost };
            }
            if at + size > len {
                break TableEnd::Lost;
            }
            window.pass(size);
            continue;
        }
        let Some((packed, plain)) = frame_sizes(bytes).filter(|_| frames < FRAMES_MAX) else {
            break TableEnd::Lost;
        };
        frames += 1;
        // Some tools end with an empty frame. There is nothing in it to be read.
        if plain > 0 {
            table.push_at(at, packed, plain);
        }
        window.pass(packed as u64);
    };
    table.ending = ending;
    Ok(table)
}

/// Magic and length of a skippable frame.
fn skippable(bytes: &[u8]) -> Option<(u32, u32)> {
    let magic = u32_at(bytes, 0).filter(|magic| magic & !0xF == SKIPPABLE_MAGICS)?;
    Some((magic, u32_at(bytes, 4)?))
}

/// Returns the length of the frame at the beginning of `bytes`, packed and plain; `None` unless it is whole, tells its
/// size, and is no larger than one of ours. That bounds what a hostile one can cost.
fn frame_sizes(bytes: &[u8]) -> Option<(usize, usize)> {
    let plain = zstd_safe::get_frame_content_size(bytes).ok()??;
    let packed = zstd_safe::find_frame_compressed_size(bytes).ok()?;
    (plain <= FRAME_BYTES_MAX as u64 && packed <= packed_bytes_max()).then_some((packed, plain as usize))
}

/// The part of a file that is looked at.
struct Window<'a> {
    file: &'a dyn DiskFile,
    len: u64,
    /// The offset in the file.
    at: u64,
    buffer: Vec<u8>,
    /// The bytes of the buffer from `at` on.
    start: usize,
    end: usize,
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn DiskFile, len: u64) -> Window<'a> {
        // Twice the largest frame: the bytes that are kept when it is filled again are moved about once.
        let capacity = len.min(2 * packed_bytes_max() as u64) as usize;
        Window { file, len, at: 0, buffer: vec![0; capacity], start: 0, end: 0 }
    }

    /// Returns at least as many bytes as the largest frame has, or all up to the end of the file.
    fn ahead(&mut self) -> io::Result<&[u8]> {
        let (held, left) = (self.end - self.start, self.len - self.at);
        if (held as u64) < left.min(packed_bytes_max() as u64) {
            self.buffer.copy_within(self.start..self.end, 0);
            let end = left.min(self.buffer.len() as u64) as usize;
            read_exactly(self.file, &mut self.buffer[held..end], self.at + held as u64)?;
            (self.start, self.end) = (0, end);
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Goes on, at most to the end of the file; what is passed over need not have been looked at.
    fn pass(&mut self, bytes: u64) {
        self.at += bytes;
        self.start += bytes.min((self.end - self.start) as u64) as usize;
    }
}

/// The number of frames of the longest table. As two neighbouring frames are nearly always longer than one may be, this
/// is enough for 511 GiB.
pub(super) const FRAMES_MAX: usize = 1 << 20;
/// A hint about damage, for messages.
pub(super) const WHAT_TO_DO: &str = "take the file from a backup, or save what `zstd -d` can still unpack";

/// The skippable frame that is the seek table.
const SEEK_MAGIC: u32 = 0x184D_2A5E;
/// Magic and length of a skippable frame.
const HEADER_BYTES: u64 = 8;
const FOOTER_MAGIC: u32 = 0x8F92_EAB1;
/// The descriptor of a table without checksums of frames: each frame has its own.
const DESCRIPTOR: u8 = 0;
const HAS_CHECKSUMS: u8 = 0x80;
const ENTRY_BYTES: u64 = 8;
const FOOTER_BYTES: u64 = 9;
const CRC_MAGIC: u32 = 0x184D_2A50;
const CRC_BYTES: u32 = 4;
const CRC_FRAME_BYTES: u64 = HEADER_BYTES + CRC_BYTES as u64;
/// The longest head of a zstd frame.
const FRAME_HEAD_BYTES_MAX: usize = 18;
/// The magic numbers of skippable frames: this and the 15 that follow.
const SKIPPABLE_MAGICS: u32 = 0x184D_2A50;
