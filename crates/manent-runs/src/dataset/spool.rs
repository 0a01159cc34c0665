//! A temporary file for rows until it is known which of them are wanted. It is written once, and read in about the same
//! order.

use manent_log::fs::{DiskFile, read_fully};

use super::DatasetResult;
use super::output_dir::{OutputDir, OutputFile};
use super::row_builder::DatasetRow;

/// Rows on the disk.
#[derive(Debug)]
pub(super) struct Spool {
    pub(super) file: OutputFile,
    reading: Option<Reading>,
}

#[derive(Debug)]
struct Reading {
    file: Box<dyn DiskFile>,
    block: Vec<u8>,
    at: u64,
}

/// The position of a row: its prompt, its answer and its other members, one behind the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpoolSlot {
    offset: u64,
    lengths: [u32; 3],
}

/// A row as it is read: the prompt, the answer and what stands beside them.
pub(super) type RowPieces = [Vec<u8>; 3];

impl Spool {
    pub(super) fn new(place: &OutputDir) -> DatasetResult<Spool> {
        Ok(Spool { file: place.create(NAME)?, reading: None })
    }

    pub(super) fn put(&mut self, row: &DatasetRow) -> DatasetResult<SpoolSlot> {
        let offset = self.file.bytes;
        let pieces = [&row.prompt, &row.answer, &row.besides];
        for piece in pieces {
            self.file.put(piece.as_bytes())?;
        }
        Ok(SpoolSlot { offset, lengths: pieces.map(|piece| piece.len() as u32) })
    }

    pub(super) fn get(
        &mut self,
        slot: SpoolSlot,
        place: &OutputDir,
        pieces: &mut RowPieces,
    ) -> DatasetResult<()> {
        if self.reading.is_none() {
            self.file.flush()?;
            self.reading = Some(Reading { file: place.open(NAME)?, block: Vec::new(), at: 0 });
        }
        let Some(reading) = &mut self.reading else { return Ok(()) };
        let lengths = slot.lengths.map(|length| length as usize);
        let length: usize = lengths.iter().sum();
        let end = slot.offset + length as u64;
        if slot.offset < reading.at || end > reading.at + reading.block.len() as u64 {
            reading.block.resize(length.max(BLOCK_BYTES), 0);
            let read = read_fully(&*reading.file, &mut reading.block, slot.offset)
                .map_err(|source| place.error(NAME, source))?;
            reading.block.truncate(read);
            reading.at = slot.offset;
        }
        let from = (slot.offset - reading.at) as usize;
        let found = reading.block.get(from..from + length);
        let mut rest = found.ok_or_else(|| place.error(NAME, std::io::ErrorKind::UnexpectedEof.into()))?;
        for (piece, length) in pieces.iter_mut().zip(lengths) {
            let (bytes, behind) = rest.split_at(length);
            piece.clear();
            piece.extend_from_slice(bytes);
            rest = behind;
        }
        Ok(())
    }

    /// Removes the spool when all rows are written.
    pub(super) fn remove(&mut self, place: &OutputDir) -> DatasetResult<()> {
        self.reading = None;
        place.remove(NAME)
    }
}

const NAME: &str = "rows.tmp";
const BLOCK_BYTES: usize = 1 << 20;
