//! The memory made anew, without what was forgotten.
//!
//! The stream is replaced as a whole under its lease: until then the old one counts, from then on the new one. Ids
//! stay; the header says from which number on new ones are given.
//!
//! Another program's file stays one: its lines as they stand, ours without number and checksum, so that what that
//! program appends later is not taken for damage.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use manent_log::frame::{self, DamageReason};
use manent_log::{Body, Damage, Entry, LogItem};
use manent_store::sync::lock;
use manent_store::{Seek, StreamPart, StreamReader, StreamWriter, Target};

use super::Core;
use super::active::Active;
use super::item::{ID_MAX, tombstone};
use super::operation::Effect;
use super::writer::{header, header_number};
use crate::error::{Error, Result, io_error};
use crate::turn::Record;

/// What a compaction did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryCompaction {
    /// Items that are gone from the file now.
    pub dropped: u64,
    /// Items that went so, in all compactions of this file.
    pub dropped_ever: u64,
    /// Lengths of the file, in bytes.
    pub bytes_before: u64,
    /// After it.
    pub bytes_after: u64,
    /// What could not be read, kept here as it stood.
    pub damaged: Option<PathBuf>,
}

/// Makes the memory anew, under its lease.
pub(super) fn compact(core: &Core, writer: Box<dyn StreamWriter>, next_id: u64) -> Result<MemoryCompaction> {
    let bytes_before = super::cache::look(core.streams(), &core.id)?.map_or(0, |stat| stat.bytes);
    let active = core.active()?;
    let next_id = next_id.max(active.highest_id.saturating_add(1));
    let ever = writer.header().and_then(|line| header_number(&line, "dropped")).unwrap_or(0);
    let dropped = active.counts.forgotten as u64;
    if dropped == 0 || writer.is_new() {
        drop(writer);
        // Whoever compacted it may have died before the index was told.
        core.index.forget()?;
        return Ok(MemoryCompaction {
            dropped_ever: ever,
            bytes_before,
            bytes_after: bytes_before,
            ..MemoryCompaction::default()
        });
    }
    let is_native = writer.is_native();
    if !is_native && let Some(pid) = writer.opened_by() {
        let why = format!("another program (pid {pid}) has it open and may write to it; close it there");
        return Err(io_error("compact", &core.path)(io::Error::other(why)));
    }
    let (mut kept, mut highest) = (0, 0);
    let mut lines = KeptLines::open(core, &active)?;
    while let Some(entry) = lines.next()? {
        kept += 1;
        highest = highest.max(Effect::of(&entry).id.filter(|id| *id <= ID_MAX).unwrap_or(0));
    }
    // Other programs count on from the highest id that they find; one that was forgotten must not be given again.
    let last_id = next_id.saturating_sub(1).min(ID_MAX);
    let mark = (highest < last_id).then(|| tombstone(last_id, last_id));
    let at_seq = kept + 1 + u64::from(mark.is_some());
    let header = is_native.then(|| header(&core.app, next_id, at_seq, ever + dropped).1);
    let left_out = lost_ranges(&active);
    let lines = KeptLines::open(core, &active)?;
    let mut parts = NewParts { lines, mark, is_native, seq: 0 };
    // Words of what was forgotten; whatever happens from here on, none is left there.
    core.index.start_anew();
    let replaced = writer.replace(header.as_ref(), &mut parts, &left_out).map_err(|e| match e {
        e if e.is_conflict() => Error::MemoryChanges { path: core.path.clone() },
        e => e.into(),
    })?;
    *lock(&core.loaded) = None;
    core.index.forget()?;
    let (bytes_after, damaged) = (replaced.bytes, replaced.set_aside);
    Ok(MemoryCompaction { dropped, dropped_ever: ever + dropped, bytes_before, bytes_after, damaged })
}

/// The lines that stay, in their order, without a header of ours.
struct KeptLines {
    reader: Box<dyn StreamReader>,
    active: Arc<Active>,
}

impl KeptLines {
    fn open(core: &Core, active: &Arc<Active>) -> Result<KeptLines> {
        let mut reader = core.streams().open(Target::Id(&core.id))?;
        reader.seek(Seek::First)?;
        Ok(KeptLines { reader, active: active.clone() })
    }

    fn next(&mut self) -> manent_store::Result<Option<Entry<'_>>> {
        while self.reader.advance()? {
            let Some(LogItem::Entry(entry)) = self.reader.item() else { continue };
            let is_header = entry.verified && entry.seq == 0;
            if !is_header && !is_note(&entry) && self.active.keeps(&entry) {
                break;
            }
        }
        Ok(match self.reader.item() {
            Some(LogItem::Entry(entry)) => Some(entry),
            _ => None,
        })
    }
}

/// The parts of the new stream.
struct NewParts {
    lines: KeptLines,
    /// A record that uses up the highest id, behind all others.
    mark: Option<Body>,
    is_native: bool,
    seq: u64,
}

impl Iterator for NewParts {
    type Item = manent_store::Result<StreamPart>;

    fn next(&mut self) -> Option<manent_store::Result<StreamPart>> {
        self.seq += 1;
        let entry = match self.lines.next() {
            Err(e) => return Some(Err(e)),
            Ok(entry) => entry,
        };
        if let Some(entry) = entry {
            return Some(Ok(part_of(self.is_native.then_some(self.seq), &entry)));
        }
        let line = frame::line(self.seq, &self.mark.take()?);
        let entry = Entry { seq: self.seq, offset: 0, bytes: line.trim_ascii_end(), verified: true };
        Some(Ok(part_of(self.is_native.then_some(self.seq), &entry)))
    }
}

/// One line of the new stream: with a number and a checksum if that is ours.
fn part_of(seq: Option<u64>, entry: &Entry<'_>) -> StreamPart {
    match seq {
        Some(seq) => match Body::parse(entry.bytes).ok().filter(|body| body.check_size().is_ok()) {
            Some(body) => StreamPart::Record { seq, body },
            // Another program's line that can be no record stays what it is.
            None => StreamPart::Line(entry.bytes.to_vec()),
        },
        None if entry.verified => StreamPart::Line([b"{", frame::body_of(entry.bytes), b"}"].concat()),
        None => StreamPart::Line(entry.bytes.to_vec()),
    }
}

/// A note that damage was seen: the damage stays behind, and so does the note.
fn is_note(entry: &Entry<'_>) -> bool {
    entry.verified && Record::of(entry).is_some_and(|record| record.kind().as_deref() == Some("gap"))
}

/// What cannot be read, and is kept apart before it goes.
fn lost_ranges(active: &Active) -> Vec<Damage> {
    // A record out of its order can be read; it stays or goes as any other.
    let is_lost = |damage: &&Damage| damage.length > 0 && damage.reason != DamageReason::OutOfOrder;
    active.damage.iter().chain(&active.torn).filter(is_lost).copied().collect()
}
