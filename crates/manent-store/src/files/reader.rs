//! One file that is being read.

use std::sync::OnceLock;

use manent_log::fs::FileId;
use manent_log::{FileChange, FileKind, LogEnd, LogItem, Reader};

use crate::error::Result;
use crate::header::HeaderNames;
use crate::streams::{Position, Seek, StreamReader};

/// Reads one file through one open handle.
#[derive(Debug)]
pub(super) struct FileReader {
    reader: Reader,
    /// The header line and the id in it, read when somebody asks: a search opens a file for one line of it.
    header: OnceLock<(Option<Vec<u8>>, String)>,
    /// The smallest number that is given: where it is not there yet, the reader itself goes on at the end.
    from_seq: u64,
}

impl FileReader {
    pub(super) fn new(reader: Reader) -> FileReader {
        FileReader { reader, header: OnceLock::new(), from_seq: 0 }
    }

    /// Makes a reader whose header was read already.
    pub(super) fn with_header(reader: Reader, header: Option<Vec<u8>>, id: String) -> FileReader {
        FileReader { header: OnceLock::from((header, id)), ..FileReader::new(reader) }
    }

    fn read_header(&self) -> &(Option<Vec<u8>>, String) {
        self.header.get_or_init(|| {
            // A header that cannot be read is named by whoever reads the records.
            let header = self.reader.header_line().ok().flatten();
            let names = header.as_deref().and_then(HeaderNames::of_line).unwrap_or_default();
            (header, names.id)
        })
    }
}

impl StreamReader for FileReader {
    fn header(&self) -> Option<&[u8]> {
        self.read_header().0.as_deref()
    }

    fn id(&self) -> &str {
        &self.read_header().1
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
            let early =
                matches!(self.reader.item(), Some(LogItem::Entry(entry)) if entry.seq < self.from_seq);
            if !early {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn item(&self) -> Option<LogItem<'_>> {
        self.reader.item()
    }

    fn line_at(&self, position: Position, bytes: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.reader.line_at(position.raw(), bytes)?)
    }

    fn end(&self) -> LogEnd {
        self.reader.end()
    }

    fn poll(&self) -> Result<FileChange> {
        Ok(self.reader.change()?)
    }

    fn identity(&self) -> [u64; 2] {
        let FileId { device, inode } = self.reader.file_id();
        [device, inode]
    }

    fn is_native(&self) -> Result<bool> {
        // Whose file it is shows when its first line is read, which a reader that was moved may not have done.
        let has_header = || self.read_header().0.is_some();
        Ok(self.reader.kind().map_or_else(has_header, |kind| kind == FileKind::Native))
    }
}
