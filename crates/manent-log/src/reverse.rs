//! Reading a log from its end: the newest entry first, at the cost of what is read.
//!
//! It gives the same entries as a forward reader, in reverse; `pieces.rs` judges the lines for both.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::frame::DamageReason;
use crate::fs::DiskFile;
use crate::lines::LinesBack;
use crate::pieces::{self, Piece, PieceKind};
use crate::reader::{Damage, Entry, LogItem};
use crate::tail::{self, FileOrigin, LogTail};

/// A backward reader: the newest entry first.
#[derive(Debug)]
pub struct ReverseReader<'f> {
    file: &'f dyn DiskFile,
    path: PathBuf,
    lines: LinesBack,
    pub(crate) origin: Option<FileOrigin>,
    queue: Vec<Piece>,
    pending: Option<Damage>,
    /// The number of the line that follows the one to be given next.
    pub(crate) next_seq: u64,
    pub(crate) end_offset: u64,
}

impl<'f> ReverseReader<'f> {
    /// Reads an open log from its end on, before anything torn. `path` is for messages.
    pub fn new(file: &'f dyn DiskFile, path: &Path) -> Result<ReverseReader<'f>> {
        let LogTail { origin, good_end, good_seq, .. } = tail::inspect(file, path)?;
        Ok(ReverseReader::at(file, path, origin, good_end, good_seq))
    }

    /// Reads from a place where an entry ends and the next has the number `next_seq`.
    pub(crate) fn before(
        file: &'f dyn DiskFile,
        path: &Path,
        offset: u64,
        next_seq: u64,
    ) -> Result<ReverseReader<'f>> {
        Ok(ReverseReader::at(file, path, tail::detect(file, path)?, offset, next_seq))
    }

    fn at(
        file: &'f dyn DiskFile,
        path: &Path,
        origin: Option<FileOrigin>,
        end_offset: u64,
        next_seq: u64,
    ) -> ReverseReader<'f> {
        let (path, lines) = (path.to_owned(), LinesBack::new(end_offset));
        ReverseReader { file, path, lines, origin, queue: Vec::new(), pending: None, next_seq, end_offset }
    }

    /// Returns the entry or damage before the one returned last; `None` at the beginning.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends its buffer and can fail, which Iterator cannot say"
    )]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        let Some(kind) = self.origin.as_ref().map(|o| o.kind) else { return Ok(None) };
        loop {
            if self.queue.is_empty() {
                let read = self.lines.next(self.file).map_err(Error::io("read", &self.path))?;
                let Some(line) = read else { return Ok(self.pending.take().map(LogItem::Damage)) };
                pieces::of_line(&line, self.lines.bytes(line.range.clone()), kind, &mut self.queue);
                continue;
            }
            let Some(piece) = self.queue.last().cloned() else { continue };
            if let PieceKind::Damaged(reason) = piece.kind {
                self.queue.pop();
                self.hold(&piece, reason);
                continue;
            }
            if let Some(damage) = self.pending.take() {
                return Ok(Some(LogItem::Damage(damage)));
            }
            self.queue.pop();
            let (seq, verified) = match piece.kind {
                PieceKind::Record { seq } => (seq, true),
                _ => (self.next_seq.saturating_sub(1), false),
            };
            self.next_seq = seq;
            let bytes = self.lines.bytes(piece.range);
            return Ok(Some(LogItem::Entry(Entry { seq, offset: piece.offset, bytes, verified })));
        }
    }

    fn hold(&mut self, piece: &Piece, reason: DamageReason) {
        self.next_seq = self.next_seq.saturating_sub(1);
        let end = self.pending.map_or(piece.end, |pending| pending.offset + pending.length);
        let lines = self.pending.map_or(0, |pending| pending.lines) + 1;
        let (offset, seq) = (piece.offset, self.next_seq);
        self.pending = Some(Damage { offset, length: end - offset, reason, lines, seq });
    }
}
