//! Finding the frames of a packed file without its table.
//!
//! Each zstd frame says how long it is, so they can be followed from the beginning of the file to the first
//! one that is not whole. Every byte is looked at once; memory is bounded by the largest frame and, for the
//! places found, by [`FRAMES_MAX`].

use std::io;

use manent_log::fs::DiskFile;
use zstd::zstd_safe;

use super::FRAME_BYTES_MAX;
use super::table::{
    Ending, FRAMES_MAX, HEADER_BYTES, SEEK_MAGIC, Table, is_table_of, packed_bytes_max, read_exactly, u32_at,
};

/// As many whole frames as there are from the beginning on.
///
/// The end counts as lost unless a seek table for just as many frames stands there: a file that was cut
/// between two frames has nothing else to tell it from a whole one.
pub(super) fn walk(file: &dyn DiskFile, len: u64) -> io::Result<Table> {
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
                break if is_it { Ending::Whole } else { Ending::Lost };
            }
            if at + size > len {
                break Ending::Lost;
            }
            window.pass(size);
            continue;
        }
        let Some((packed, plain)) = frame_sizes(bytes).filter(|_| frames < FRAMES_MAX) else {
            break Ending::Lost;
        };
        frames += 1;
        // Some tools end with an empty frame. There is nothing in it to be read.
        if plain > 0 {
            table.push_at(at, packed, plain);
        }
        window.pass(packed as u64);
    };
    table.set_ending(ending);
    Ok(table)
}

/// Magic and length of a skippable frame.
fn skippable(bytes: &[u8]) -> Option<(u32, u32)> {
    let magic = u32_at(bytes, 0).filter(|magic| magic & !0xF == SKIPPABLE_MAGICS)?;
    Some((magic, u32_at(bytes, 4)?))
}

/// How long the frame at the beginning of `bytes` is, packed and plain; nothing unless it is whole, tells its
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
    /// Where in the file we are.
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

    /// At least as many bytes as the largest frame has, or all up to the end of the file.
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

/// The magic numbers of skippable frames: this and the 15 that follow.
const SKIPPABLE_MAGICS: u32 = 0x184D_2A50;
