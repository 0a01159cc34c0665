//! One file that is being read.

use manent_log::fs::FileId;
use manent_log::{Change, End, FileKind, Item, Reader};

use crate::error::Result;
use crate::streams::{Position, Seek, StreamReader};

/// Reads one file through one open handle.
#[derive(Debug)]
pub(super) struct FileReader {
    reader: Reader,
    header: Option<Vec<u8>>,
    id: String,
    /// Nothing smaller is given: where this number is not there yet, the reader itself goes on at the end.
    from_seq: u64,
}

impl FileReader {
    pub(super) fn new(reader: Reader, header: Option<Vec<u8>>, id: String) -> FileReader {
        FileReader { reader, header, id, from_seq: 0 }
    }
}

impl StreamReader for FileReader {
    fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn seek(&mut self, to: Seek<'_>) -> Result<u64> {
        self.from_seq = 0;
        match to {
            Seek::Header => self.reader.seek_header(),
            Seek::First => self.reader.seek_start(),
            Seek::Seq(seq) => {
                self.from_seq = seq;
                self.reader.seek_seq(seq)?;
            }
            Seek::Position { position, seq } => self.reader.seek_offset(position.raw(), seq)?,
            Seek::Last { count, before, matches } => {
                return Ok(self.reader.seek_last(before, count, matches)?);
            }
        }
        Ok(0)
    }

    fn end_at(&mut self, seq: u64) {
        self.reader.end_at(seq);
    }

    fn advance(&mut self) -> Result<bool> {
        while self.reader.advance()? {
            let early = matches!(self.reader.item(), Some(Item::Entry(entry)) if entry.seq < self.from_seq);
            if !early {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn item(&self) -> Option<Item<'_>> {
        self.reader.item()
    }

    fn line_at(&self, position: Position, bytes: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.reader.line_at(position.raw(), bytes)?)
    }

    fn end(&self) -> End {
        self.reader.end()
    }

    fn poll(&self) -> Result<Change> {
        Ok(self.reader.change()?)
    }

    fn identity(&self) -> [u64; 2] {
        let FileId { device, inode } = self.reader.file_id();
        [device, inode]
    }

    fn is_native(&self) -> Result<bool> {
        // Whose file it is shows when its first line is read, which a reader that was moved may not have done.
        Ok(self.reader.kind().map_or(self.header.is_some(), |kind| kind == FileKind::Native))
    }
}
