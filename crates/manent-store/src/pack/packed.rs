//! Reading a packed file as if it were plain.
//!
//! The frames decompressed last are kept, so a pass over the file decompresses each frame once, forwards or
//! backwards, and the end of a file costs its last frames. Memory is bounded by the size of a frame, whatever
//! the file says. A frame that is damaged reads as NULs, and an end that is lost as one NUL: the engine knows
//! both as damage, and gives all that stands around it.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

use manent_log::fs::{DiskFile, FileId, FileState, read_exactly};
use zstd::bulk::Decompressor;

use super::table::{Table, TableEnd, WHAT_TO_DO, packed_bytes_max};
use super::{FRAME_BYTES_MAX, invalid, unsupported};

/// A packed file, read as what it holds.
#[derive(Debug)]
pub(super) struct Packed {
    file: Box<dyn DiskFile>,
    pub(super) table: Table,
    on_damage: OnDamage,
    cache: Mutex<FrameCache>,
}

/// Selects what a reader gets where a frame cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDamage {
    /// A line of NULs, as long as what the frame held. The engine calls that damage, with its place, and
    /// reads on behind it.
    Nuls,
    /// An error: what is copied must not become worse than it is.
    Error,
}

/// The frames decompressed last, the newest at the end.
///
/// The frames that were unpacked last. There is more than one, because a reader that goes backwards takes blocks that
/// lie across a border and needs the frames on both sides by turns; and because whoever wants the last turns first
/// looks for them backwards and then reads them forwards.
struct FrameCache {
    unpacker: Unpacker,
    frames: Vec<CachedFrame>,
}

/// A frame, decompressed.
struct CachedFrame {
    number: usize,
    bytes: Vec<u8>,
}

impl fmt::Debug for FrameCache {
    /// Says nothing of what it holds: that is content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameCache").finish_non_exhaustive()
    }
}

impl Packed {
    /// Looks at the seek table. No frame is decompressed before one is read.
    pub(super) fn open(file: Box<dyn DiskFile>) -> io::Result<Packed> {
        let table = Table::read(&*file)?;
        let cache = FrameCache { unpacker: Unpacker::new()?, frames: Vec::new() };
        Ok(Packed { file, table, on_damage: OnDamage::Nuls, cache: Mutex::new(cache) })
    }

    /// Decompresses one frame from the file, whatever is kept. Damage is an error.
    pub(super) fn unpack(
        &self,
        unpacker: &mut Unpacker,
        number: usize,
        plain: &mut Vec<u8>,
    ) -> io::Result<()> {
        match unpacker.unpack(&*self.file, &self.table, number, plain)? {
            FrameState::Whole => Ok(()),
            FrameState::Damaged => Err(damaged(&self.table, number)),
        }
    }

    /// An error if not all that was packed is there.
    pub(super) fn refuse_lost_end(&self) -> io::Result<()> {
        match self.table.ending {
            TableEnd::Whole => Ok(()),
            TableEnd::Lost => Err(invalid(format!(
                "its end is lost: only the first {} bytes of the plain file are there; {WHAT_TO_DO}",
                self.table.plain_len()
            ))),
        }
    }

    /// Length of the plain file. Where its end is lost, one more, for a NUL: without that byte a file of
    /// which records are missing would look whole, with it the engine finds a torn end.
    fn len(&self) -> u64 {
        self.table.plain_len() + u64::from(self.table.ending == TableEnd::Lost)
    }

    #[cfg(test)]
    pub(super) fn unpacked_so_far(&self) -> usize {
        self.cache.lock().expect("no reader panics").unpacker.unpacked
    }

    #[cfg(test)]
    pub(super) fn kept_bytes(&self) -> usize {
        self.cache.lock().expect("no reader panics").held()
    }
}

/// Opens a packed file to be copied: it reads as what it holds, and damage in it is an error.
pub(crate) fn open_strict(file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
    let packed = Packed { on_damage: OnDamage::Error, ..Packed::open(file)? };
    packed.refuse_lost_end()?;
    Ok(Box::new(packed))
}

impl FrameCache {
    /// The bytes of a frame, decompressed unless they are here already.
    fn frame(
        &mut self,
        file: &dyn DiskFile,
        table: &Table,
        number: usize,
        on_damage: OnDamage,
    ) -> io::Result<&[u8]> {
        let frame = if let Some(at) = self.frames.iter().position(|frame| frame.number == number) {
            self.frames.remove(at)
        } else {
            let place = table.plain(number);
            let mut bytes = self.make_room((place.end - place.start) as usize);
            match (self.unpacker.unpack(file, table, number, &mut bytes)?, on_damage) {
                (FrameState::Whole, _) => {}
                (FrameState::Damaged, OnDamage::Nuls) => fill_with_nuls(&mut bytes),
                (FrameState::Damaged, OnDamage::Error) => return Err(damaged(table, number)),
            }
            CachedFrame { number, bytes }
        };
        self.frames.push(frame);
        Ok(self.frames.last().map_or(&[], |frame| &frame.bytes))
    }

    /// Lets go of the oldest frames until there is room for so many bytes, and gives a buffer for them: the
    /// last one that was let go if it fits, because fresh memory costs as much as filling it.
    fn make_room(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = Vec::new();
        while self.frames.len() >= CACHED_FRAMES_MAX || self.held() + bytes > CACHED_BYTES_MAX {
            if self.frames.is_empty() {
                break;
            }
            buffer = self.frames.remove(0).bytes;
        }
        let fits = buffer.capacity() >= bytes && self.held() + buffer.capacity() <= CACHED_BYTES_MAX;
        if fits { buffer } else { Vec::with_capacity(bytes) }
    }

    fn held(&self) -> usize {
        self.frames.iter().map(|frame| frame.bytes.capacity()).sum()
    }
}

/// Fills in for a frame that cannot be decompressed. A newline ends it, as it ended the frame, or the first
/// line of the next frame would be a part of the damage.
fn fill_with_nuls(bytes: &mut [u8]) {
    bytes.fill(0);
    if let [_, .., last] = bytes {
        *last = b'\n';
    }
}

fn damaged(table: &Table, number: usize) -> io::Error {
    let (packed, plain) = (table.packed(number), table.plain(number));
    invalid(format!(
        "the frame at byte {} is damaged (bytes {} to {} of the plain file); {WHAT_TO_DO}",
        packed.start, plain.start, plain.end
    ))
}

/// The outcome of decompressing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameState {
    Whole,
    Damaged,
}

/// The context and buffer for decompressing, kept from frame to frame.
pub(super) struct Unpacker {
    context: Decompressor<'static>,
    packed: Vec<u8>,
    #[cfg(test)]
    unpacked: usize,
}

impl Unpacker {
    pub(super) fn new() -> io::Result<Unpacker> {
        Ok(Unpacker {
            context: Decompressor::new()?,
            packed: Vec::new(),
            #[cfg(test)]
            unpacked: 0,
        })
    }

    /// Decompresses a frame into `plain`, which then has exactly the length that the table says: a frame that
    /// holds more is stopped there. An error is the disk's.
    fn unpack(
        &mut self,
        file: &dyn DiskFile,
        table: &Table,
        number: usize,
        plain: &mut Vec<u8>,
    ) -> io::Result<FrameState> {
        #[cfg(test)]
        {
            self.unpacked += 1;
        }
        let (packed_at, plain_at) = (table.packed(number), table.plain(number));
        let packed_bytes = (packed_at.end - packed_at.start) as usize;
        let plain_bytes = (plain_at.end - plain_at.start) as usize;
        debug_assert!(packed_bytes <= packed_bytes_max(), "the table was checked");
        self.packed.resize(packed_bytes, 0);
        read_exactly(file, &mut self.packed, packed_at.start)?;
        plain.resize(plain_bytes, 0);
        let whole = has_checksum(&self.packed)
            && self.context.decompress_to_buffer(&self.packed, &mut plain[..]).ok() == Some(plain_bytes);
        Ok(if whole { FrameState::Whole } else { FrameState::Damaged })
    }
}

/// Returns true if a frame says that it ends with a checksum of its content. One without it could be wrong and
/// unpack.
fn has_checksum(frame: &[u8]) -> bool {
    frame.starts_with(&FRAME_MAGIC) && frame.get(FRAME_MAGIC.len()).is_some_and(|flags| flags & 4 != 0)
}

impl DiskFile for Packed {
    /// Ends short at the end of a frame.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if buffer.is_empty() || offset >= self.len() {
            return Ok(0);
        }
        let Some(number) = self.table.frame_at(offset) else {
            buffer[0] = 0;
            return Ok(1);
        };
        // Whoever panicked with the lock left only frames that are whole.
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = cache.frame(&*self.file, &self.table, number, self.on_damage)?;
        let rest = &frame[(offset - self.table.plain(number).start) as usize..];
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn append(&self, _bytes: &[u8]) -> io::Result<usize> {
        Err(unsupported())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(unsupported())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// The length is that of the plain file.
    fn state(&self) -> io::Result<FileState> {
        Ok(FileState { len: self.len(), ..self.file.state()? })
    }

    fn id(&self) -> io::Result<FileId> {
        self.file.id()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn try_lock_shared(&self) -> io::Result<bool> {
        self.file.try_lock_shared()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn lock_holder(&self) -> Option<u32> {
        self.file.lock_holder()
    }
}

/// The limit of the cache: two of the largest frames, or all the small ones at the end of a file.
const CACHED_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
const CACHED_FRAMES_MAX: usize = 32;
const FRAME_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
