//! Sessions at rest: compressed files that can still be read from any place.
//!
//! A packed file is a row of independent zstd frames and a table of where they are, in the official "zstd
//! seekable format": `zstd -d` unpacks it as it is, and a reader decompresses only the frames it needs. A
//! frame holds at most 1 MiB of the plain file and ends with a line wherever lines are shorter than that; it
//! carries its size and a checksum. The first frame and the last ones are smaller: they are what is read
//! most. An empty file is packed as a table without frames.
//!
//! | file | about |
//! |---|---|
//! | `pack.rs` | packing, and comparing what was packed with what it was made of |
//! | `table.rs` | the seek table, why its numbers can be relied on, and finding the frames without it |
//! | `packed.rs` | [`Packed`], a packed file read as a plain one |
//!
//! This module syncs, renames and removes nothing: `files/moves.rs` decides when the plain file may go.

mod packed;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Mutex;

use manent_log::fs::{DiskFile, read_exactly, read_fully, write_fully};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::sync::lock;
use crate::threads::{parallel_map, processors};
pub(crate) use packed::open_strict;
use packed::{Packed, Unpacker};
pub(crate) use table::has_sound_table;
use table::{FRAMES_MAX, Table, packed_bytes_max};

/// Opens a packed file, to be read as what it holds.
pub(crate) fn open(file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
    Ok(Box::new(Packed::open(file)?))
}

/// Writes all that a packed file holds to the end of another. Damage is an error, not a hole.
pub(crate) fn unpack_into(file: Box<dyn DiskFile>, target: &dyn DiskFile) -> io::Result<()> {
    let packed = Packed::open(file)?;
    packed.refuse_lost_end()?;
    let (mut unpacker, mut plain) = (Unpacker::new()?, Vec::new());
    for frame in 0..packed.table.frames() {
        packed.unpack(&mut unpacker, frame, &mut plain)?;
        write_fully(target, &plain).map_err(|(_, e)| e)?;
    }
    Ok(())
}

/// Compresses the first `len` bytes of `source` into `target`, which must be empty. Not synced here.
///
/// `progress` is called with the number of bytes of the plain file that are done.
pub(crate) fn pack(
    source: &dyn DiskFile,
    len: u64,
    target: &dyn DiskFile,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    // The table counts from the beginning of the file.
    if target.state()?.len != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file to pack into is not empty"));
    }
    if len > PLAIN_BYTES_MAX {
        let why =
            format!("a session of more than {PLAIN_BYTES_MAX} bytes cannot be packed; leave it as it is");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let mut table = Table::empty();
    // Frames are independent, so several can be compressed at a time; a short file is done before a thread has begun.
    let count = if len < WORKERS_FROM_BYTES { 1 } else { processors(WORKERS_MAX) };
    let workers = (0..count).map(|_| Worker::new(len).map(Mutex::new)).collect::<io::Result<Vec<_>>>()?;
    let mut offset = 0;
    while offset < len {
        // Read here, one after the other; compressed side by side; written here, in order.
        let mut busy = 0;
        while offset < len && busy < workers.len() {
            offset += lock(&workers[busy]).take_frame(source, offset, len)?;
            busy += 1;
        }
        let lengths = parallel_map(&workers[..busy], WORKERS_MAX, |worker| lock(worker).compress())?;
        for (worker, packed_len) in workers.iter().zip(lengths) {
            let (worker, packed_len) = (lock(worker), packed_len?);
            write_fully(target, &worker.packed[..packed_len]).map_err(|(_, e)| e)?;
            table.push(packed_len, worker.plain_len);
        }
        progress(table.plain_len());
    }
    write_fully(target, &table.to_bytes()).map_err(|(_, e)| e)
}

/// Compresses one frame at a time. Each has contexts of its own, which are a few megabytes.
struct Worker {
    fast: Compressor<'static>,
    fine: Compressor<'static>,
    is_fine: bool,
    plain: Vec<u8>,
    plain_len: usize,
    packed: Vec<u8>,
}

impl Worker {
    fn new(len: u64) -> io::Result<Worker> {
        Ok(Worker {
            fast: fast_compressor()?,
            fine: fine_compressor()?,
            is_fine: false,
            plain: vec![0; FRAME_BYTES_MAX.min(len as usize)],
            plain_len: 0,
            packed: vec![0; packed_bytes_max()],
        })
    }

    /// Reads the frame that begins at `offset`, and gives its length.
    fn take_frame(&mut self, source: &dyn DiskFile, offset: u64, len: u64) -> io::Result<u64> {
        self.plain_len = next_frame(source, offset, len, &mut self.plain)?.len();
        self.is_fine = len - offset < FINE_BYTES;
        Ok(self.plain_len as u64)
    }

    /// Compresses the frame that was read, and returns its packed length.
    fn compress(&mut self) -> io::Result<usize> {
        let compressor = if self.is_fine { &mut self.fine } else { &mut self.fast };
        compressor.compress_to_buffer(&self.plain[..self.plain_len], &mut self.packed[..])
    }
}

/// The bytes of the frame that begins at `offset`: whole lines, as many as it may hold.
fn next_frame<'a>(
    source: &dyn DiskFile,
    offset: u64,
    len: u64,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let rest = len - offset;
    let wanted = rest.min(frame_bytes(offset, len) as u64) as usize;
    read_exactly(source, &mut buffer[..wanted], offset)?;
    if wanted as u64 == rest {
        return Ok(&buffer[..wanted]);
    }
    if let Some(newline) = memchr::memrchr(b'\n', &buffer[..wanted]) {
        return Ok(&buffer[..=newline]);
    }
    // A line longer than that: in a frame of its own, if one can hold it.
    let longer = rest.min(FRAME_BYTES_MAX as u64) as usize;
    read_exactly(source, &mut buffer[wanted..longer], offset + wanted as u64)?;
    let newline = memchr::memchr(b'\n', &buffer[wanted..longer]);
    Ok(&buffer[..newline.map_or(longer, |at| wanted + at + 1)])
}

/// Returns the number of bytes that the frame at `offset` should hold at most; only a longer line takes more.
fn frame_bytes(offset: u64, len: u64) -> usize {
    if len <= FRAME_BYTES_MAX as u64 {
        return FRAME_BYTES_MAX;
    }
    if offset == 0 {
        return FIRST_FRAME_BYTES;
    }
    let bytes = ((len - offset) / TAIL_SHARE).min(FRAME_BYTES_MAX as u64) as usize;
    bytes.max(TAIL_FRAME_BYTES)
}

/// Compares a packed file with the first `len` bytes of the plain one. All is read from the file and
/// decompressed.
///
/// Where they differ, the error is [`io::ErrorKind::InvalidData`] and says where.
pub(crate) fn compare(
    packed: Box<dyn DiskFile>,
    plain: &dyn DiskFile,
    len: u64,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let packed = Packed::open(packed)?;
    packed.refuse_lost_end()?;
    let table = &packed.table;
    if table.plain_len() != len {
        let packed_len = table.plain_len();
        return Err(invalid(format!(
            "the packed file holds {packed_len} bytes, the plain one {len}; {AGAIN}"
        )));
    }
    let mut unpacker = Unpacker::new()?;
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for frame in 0..table.frames() {
        let place = table.plain(frame);
        packed.unpack(&mut unpacker, frame, &mut found)?;
        expected.resize(found.len(), 0);
        let n = read_fully(plain, &mut expected, place.start)?;
        if expected[..n] != found[..] {
            let same = found.iter().zip(&expected[..n]).take_while(|(a, b)| a == b).count();
            let at = place.start + same as u64;
            return Err(invalid(format!("the packed file and the plain one differ at byte {at}; {AGAIN}")));
        }
        progress(place.end);
    }
    Ok(())
}

/// Makes the compressor for most of a large file. One context serves all frames: its tables are a few megabytes.
fn fast_compressor() -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(FAST_LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
    compressor.set_parameter(CParameter::ChainLog(CHAIN_LOG))?;
    Ok(compressor)
}

/// Makes the compressor for the end of a file, and for all of a small one.
fn fine_compressor() -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(FINE_LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(compressor)
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A file that was never one of ours, or of which the end is lost: the two cannot be told apart.
fn not_ours(what: &str) -> io::Error {
    invalid(format!(
        "not a packed session, or only a part of one: it {what}; if it is zstd data, `zstd -d` unpacks it"
    ))
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "a packed session cannot be written to; unpack it first")
}

const WORKERS_FROM_BYTES: u64 = 4 << 20;
const WORKERS_MAX: usize = 4;

/// The number of bytes of the plain file that a frame holds at most. Larger frames compress better, smaller ones are
/// read sooner.
pub(crate) const FRAME_BYTES_MAX: usize = 1 << 20;

/// The header is read at every open, and a frame of 1 MiB would take a millisecond for it. As much as the
/// engine reads at once for the first lines.
const FIRST_FRAME_BYTES: usize = 16 << 10;
/// The last turns are what is asked for most. So frames become smaller towards the end: none holds more than
/// this share of what is left, and the last n bytes cost little more than n to read, whatever n is.
const TAIL_SHARE: u64 = 3;
/// Smaller ones would win no time. As much as the engine reads at once when it goes backwards.
const TAIL_FRAME_BYTES: usize = 64 << 10;

/// Two neighbouring frames together are longer than one may be, or they would have been one. That does not
/// hold for the small ones, but there are fewer of those than this.
const PLAIN_BYTES_MAX: u64 = (FRAMES_MAX - SMALL_FRAMES_MAX) as u64 / 2 * FRAME_BYTES_MAX as u64;
const SMALL_FRAMES_MAX: usize = 32;
const AGAIN: &str = "keep the plain one and pack it again";

const FAST_LEVEL: i32 = 3;
/// The size of the tables, larger than the level has by itself: a frame forgets what came before it, so it had better
/// remember all of its own. They cost no time worth naming and win half a percent.
const HASH_LOG: u32 = 19;
const CHAIN_LOG: u32 = 18;
/// The part of the end that is compressed with more effort. It makes up for the small frames there, and costs at
/// most some 70 milliseconds a file.
const FINE_BYTES: u64 = 4 << 20;
const FINE_LEVEL: i32 = 9;
