//! [`MemoryWriter`]: the lease of the memory, the next id, and compaction.
//!
//! Compaction replaces the stream as a whole under its lease: until then the old one counts, from then on the new one.
//! Ids stay; the header says from which number on new ones are given. Another program's file stays one: its lines are
//! copied as they are, and ours without number and checksum, so that what that program appends later is not taken for
//! damage.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent_log::frame::{self, DamageReason};
use manent_log::{Body, Damage, Durability, Entry, Expect, KeyRule, LogItem, Occurrence, SetAside};
use manent_store::sync::lock;
use manent_store::{
    AppendOptions, IfMissing, Position, Repaired, Seek, StreamHeader, StreamPart, StreamReader, StreamWriter,
    Target, clock,
};

use super::MemoryCore;
use super::active::{ActiveItems, ids_within, look};
use super::item::{ID_MAX, Item, ItemError, NewItem, tombstone};
use super::operation::LineEffect;
use crate::error::{Error, Result, io_error};
use crate::meta::new_header;
use crate::turn::Record;

/// The right to write the memory, until it is dropped. See [`Memory::writer`](super::Memory::writer).
#[derive(Debug)]
pub struct MemoryWriter<'a> {
    core: &'a MemoryCore,
    /// `None` once it was released.
    writer: Option<Box<dyn StreamWriter>>,
    /// The id that comes next, or `UNKNOWN`.
    next_id: u64,
}

/// The id that comes next in a stream, for as long as the next record gets this number.
#[derive(Debug)]
pub(super) struct NextId {
    stream: Arc<str>,
    next_seq: u64,
    item: u64,
}

/// The outcome of forgetting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// The items that are forgotten now.
    pub ids: Vec<u64>,
    /// Items that one of these had replaced, and that are active again.
    pub active_again: Vec<u64>,
}

impl<'a> MemoryWriter<'a> {
    pub(super) fn open(core: &'a MemoryCore, wait: Duration) -> Result<MemoryWriter<'a>> {
        let make = || header(&core.app, 1, 1, 0);
        let writer = core.streams().lease(&core.id, IfMissing::Create(&make), wait).map_err(memory_held)?;
        let last = lock(&core.next).take();
        let is_current = |next: &NextId| {
            let is_same = *next.stream == **writer.id() && !next.stream.is_empty();
            is_same && next.next_seq == writer.next_seq() && writer.set_aside().is_none()
        };
        let next_id = last.filter(is_current).map_or(UNKNOWN, |next| next.item);
        let mut memory_writer = MemoryWriter { core, writer: Some(writer), next_id };
        if next_id == UNKNOWN {
            memory_writer.recount_ids()?;
        }
        Ok(memory_writer)
    }

    /// Remembers something. When it returns, the item survives power loss.
    pub fn add(&mut self, item: &NewItem) -> Result<Item> {
        self.add_with(item, Durability::Sync)
    }

    /// Remembers something with the given durability.
    pub fn add_with(&mut self, item: &NewItem, durability: Durability) -> Result<Item> {
        item.check()?;
        if let Some(replaced) = item.replaces {
            let active = self.core.active()?;
            let (slots, visible) = active.with_id(replaced);
            if slots.is_empty() {
                return Err(Error::NoItem { id: replaced });
            }
            if !visible {
                let by = active.replacers_of(replaced).last().copied().unwrap_or_default();
                return Err(Error::Replaced { id: replaced, by });
            }
        }
        let ts = clock::now();
        // A key of its own for each call: the same text remembered again is another item.
        let key = uuid::Uuid::now_v7().to_string();
        let make = |id, _| item.body(id, &ts, &key);
        let (seq, id) = match self.append(1, durability, make) {
            // Whatever becomes of the second try, it is unknown what became of the first.
            Err(e) if e.is_unknown() => self.append_again(&key, durability, make).map_err(|_| e)?,
            appended => appended?,
        };
        let line = frame::line(seq, &make(id, 0));
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
        Ok(item.written(id, ts, line))
    }

    /// Tries an append again of which it is unknown whether its record is there.
    fn append_again(
        &mut self,
        key: &str,
        durability: Durability,
        make: impl Fn(u64, usize) -> Body,
    ) -> Result<(u64, u64)> {
        let id = self.next_id;
        // Given back before it is taken again.
        self.writer = None;
        let mut reopened = MemoryWriter::open(self.core, self.core.wait)?;
        (self.writer, self.next_id) = (reopened.writer.take(), reopened.next_id);
        let Some(writer) = &mut self.writer else { return self.append(1, durability, make) };
        match writer.find(&KeyRule::IDEMPOTENCY, key.as_bytes(), Occurrence::First)? {
            Some(found) => {
                writer.keep_from(Position::new(found.offset))?;
                Ok((found.seq, id))
            }
            None => self.append(1, durability, make),
        }
    }

    /// Makes everything in the file survive power loss, whatever became of earlier syncs. Of another program's file
    /// nothing is written again.
    pub(crate) fn keep(&mut self) -> Result<()> {
        match self.writer.as_mut() {
            Some(writer) if writer.is_native() && !writer.is_new() => Ok(writer.keep_from(Position::new(0))?),
            _ => Ok(()),
        }
    }

    /// Forgets items. All of them must be there, or none is forgotten.
    pub fn forget(&mut self, ids: &[u64]) -> Result<Forgotten> {
        let mut wanted = ids.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let active = self.core.active()?;
        expect_there(&active, &wanted)?;
        let mut active_again: Vec<u64> = wanted.iter().flat_map(|id| active.replaced_by(*id)).collect();
        // While the old state is in use, the new one would be a copy of all of it.
        drop(active);
        self.append(wanted.len(), Durability::Sync, |id, nth| tombstone(id, wanted[nth]))?;
        let now = self.core.active()?;
        active_again.sort_unstable();
        active_again.dedup();
        active_again.retain(|id| {
            let (slots, visible) = now.with_id(*id);
            visible && !slots.is_empty()
        });
        Ok(Forgotten { ids: wanted, active_again })
    }

    /// Rewrites the file without what was forgotten.
    pub fn compact(mut self) -> Result<MemoryCompaction> {
        let Some(writer) = self.writer.take() else { return Ok(MemoryCompaction::default()) };
        let core = self.core;
        let bytes_before = look(core.streams(), &core.id)?.map_or(0, |stat| stat.bytes);
        let active = core.active()?;
        let next_id = self.next_id.max(active.highest_id.saturating_add(1));
        let dropped_before = writer.header().and_then(|line| header_number(&line, "dropped")).unwrap_or(0);
        let dropped = active.counts.forgotten as u64;
        if dropped == 0 || writer.is_new() {
            drop(writer);
            // An earlier compaction may have died before it cleared the index.
            core.index.forget()?;
            return Ok(MemoryCompaction {
                dropped_ever: dropped_before,
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
            highest = highest.max(LineEffect::of(&entry).id.filter(|id| *id <= ID_MAX).unwrap_or(0));
        }
        // Other programs count on from the highest id that they find; one that was forgotten must not be given again.
        let last_id = next_id.saturating_sub(1).min(ID_MAX);
        let mark = (highest < last_id).then(|| tombstone(last_id, last_id));
        let at_seq = kept + 1 + u64::from(mark.is_some());
        let header = is_native.then(|| header(&core.app, next_id, at_seq, dropped_before + dropped).body);
        let left_out = lost_ranges(&active);
        let lines = KeptLines::open(core, &active)?;
        let mut parts = NewParts { lines, mark, is_native, seq: 0 };
        // Words of what was forgotten; whatever happens from here on, none is left there.
        core.index.start_anew();
        let replaced = writer.replace(header.as_ref(), &mut parts, &left_out).map_err(|e| match e {
            e if e.is_conflict() => Error::MemoryChanges { path: core.path.clone() },
            e => e.into(),
        })?;
        *lock(&core.cache) = None;
        core.index.forget()?;
        let (bytes_after, damaged) = (replaced.bytes, replaced.set_aside);
        Ok(MemoryCompaction {
            dropped,
            dropped_ever: dropped_before + dropped,
            bytes_before,
            bytes_after,
            damaged,
        })
    }

    pub(super) fn repair(mut self, ts: &str) -> Result<Repaired> {
        let set_aside = self.set_aside().cloned();
        let acknowledged = match self.writer.as_mut() {
            Some(writer) => writer.acknowledge(ts)?,
            None => Vec::new(),
        };
        Ok(Repaired { set_aside, acknowledged })
    }

    /// Returns the torn end that opening the file had to cut off after a crash, and the place where it is kept.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.writer.as_ref().and_then(|writer| writer.set_aside())
    }

    /// Appends records, each made with its id. Returns the number of the first record, and its id.
    fn append(
        &mut self,
        count: usize,
        durability: Durability,
        make: impl Fn(u64, usize) -> Body,
    ) -> Result<(u64, u64)> {
        for _ in 0..super::TRIES {
            if self.next_id == UNKNOWN {
                self.recount_ids()?;
            }
            let end = self.next_id.saturating_add(count as u64);
            if end > ID_MAX + 1 {
                return Err(ItemError::NoMoreIds.into());
            }
            let bodies: Vec<Body> = (self.next_id..end).zip(0..).map(|(id, nth)| make(id, nth)).collect();
            let gone = || manent_log::Error::Gone { path: self.core.path.clone(), how: "let go" };
            let writer = self.writer.as_mut().ok_or_else(gone)?;
            let options =
                AppendOptions { expect: Expect::Seq(writer.next_seq()), ..AppendOptions::new(durability) };
            match writer.append(&bodies, &options) {
                // Another program wrote without the lease, and may have taken the id.
                Err(e) if e.is_conflict() => self.next_id = UNKNOWN,
                receipts => {
                    let seq = receipts?.first().map_or(0, |receipt| receipt.seq);
                    return Ok((seq, std::mem::replace(&mut self.next_id, end)));
                }
            }
        }
        Err(Error::MemoryChanges { path: self.core.path.clone() })
    }

    /// Determines the next id again. If that fails it stays unknown, because the old one may be taken.
    fn recount_ids(&mut self) -> Result<()> {
        self.next_id = UNKNOWN;
        self.next_id = self.find_next_id()?;
        Ok(())
    }

    /// The id that comes next: higher than any that was ever given out.
    ///
    /// In a file of ours every record takes at most one id, and ids rise: the last record that can be read tells, and
    /// each that stands behind it and cannot be read may have taken one more. So only the end of the file is read. What
    /// was forgotten and is gone from the file is counted in its header.
    fn find_next_id(&self) -> Result<u64> {
        let Some(writer) = &self.writer else { return Ok(1) };
        let set_aside = writer.set_aside_bytes()?.into_iter().map(ids_within);
        let set_aside = set_aside.fold(0, u64::saturating_add);
        if !writer.is_native() {
            return Ok(self.core.active()?.free_id().saturating_add(set_aside));
        }
        let next_seq = writer.next_seq();
        let mut next = writer.header().map_or(1, |header| floor_of(&header, next_seq));
        if writer.is_new() {
            return Ok(next);
        }
        // The last record of ours with an id, and what stands behind it: another program's line tells only of itself.
        let mut reader = self.core.streams().open(Target::Id(&self.core.id))?;
        let is_ours = |line: &[u8]| {
            let seq = frame::verify(line).unwrap_or(0);
            let entry = Entry { seq, offset: 0, bytes: line, verified: seq > 0 };
            seq > 0 && LineEffect::of(&entry).id.is_some_and(|id| id <= ID_MAX)
        };
        reader.seek(Seek::Last { count: 1, before: None, matches: &is_ours })?;
        while let Some(found) = reader.next()? {
            let LogItem::Entry(entry) = found else { continue };
            if let Some(id) = LineEffect::of(&entry).id.filter(|id| *id <= ID_MAX && entry.seq > 0) {
                next = next.max(id.saturating_add(next_seq.saturating_sub(entry.seq).max(1)));
            }
        }
        Ok(next.saturating_add(set_aside))
    }
}

/// Checks that all of these items exist.
pub(super) fn expect_there(active: &ActiveItems, ids: &[u64]) -> Result<()> {
    let missing = ids.iter().find(|id| active.with_id(**id).0.is_empty());
    missing.map_or(Ok(()), |id| Err(Error::NoItem { id: *id }))
}

impl Drop for MemoryWriter<'_> {
    fn drop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        if writer.is_finished() || writer.is_new() || self.next_id == UNKNOWN {
            return;
        }
        let (stream, next_seq) = (writer.id().clone(), writer.next_seq());
        *lock(&self.core.next) = Some(NextId { stream, next_seq, item: self.next_id });
    }
}

/// Makes the header of a memory in which the record `at_seq` is the first to get an id of at least `next_id`.
fn header(app: &str, next_id: u64, at_seq: u64, dropped: u64) -> StreamHeader {
    new_header(|meta| {
        meta.string("kind", "memory").string("app", app).number("next_id", next_id).number("at_seq", at_seq);
        if dropped > 0 {
            meta.number("dropped", dropped);
        }
    })
}

/// Returns the lowest id of the record `next_seq`, as far as the header tells.
fn floor_of(header: &Entry<'_>, next_seq: u64) -> u64 {
    let number = |name| header_number(header, name);
    let (floor, at_seq) = (number("next_id").unwrap_or(1), number("at_seq").unwrap_or(1));
    floor.saturating_add(next_seq.saturating_sub(at_seq)).max(1)
}

/// A number in the header.
pub(super) fn header_number(header: &Entry<'_>, name: &str) -> Option<u64> {
    let meta = Record::of(header)?.member("meta")?;
    let members = manent_log::members_of(meta)?;
    members.iter().rfind(|(n, _)| n == name).and_then(|(_, json)| json.parse().ok())
}

/// Turns a lease that is held elsewhere into [`Error::MemoryHeld`].
fn memory_held(error: manent_store::Error) -> Error {
    match error.log() {
        Some(manent_log::Error::Held { pid, .. }) => Error::MemoryHeld { pid: *pid },
        _ => error.into(),
    }
}

/// Stands for an id that is not known. No item has this id.
const UNKNOWN: u64 = 0;

/// The outcome of a compaction.
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
    /// The file that keeps the bytes that could not be read.
    pub damaged: Option<PathBuf>,
}

/// The lines that stay, in their order, without a header of ours.
struct KeptLines {
    reader: Box<dyn StreamReader>,
    active: Arc<ActiveItems>,
}

impl KeptLines {
    fn open(core: &MemoryCore, active: &Arc<ActiveItems>) -> Result<KeptLines> {
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

/// Returns the unreadable ranges, which are set aside before they go.
fn lost_ranges(active: &ActiveItems) -> Vec<Damage> {
    // A record out of its order can be read; it stays or goes as any other.
    let is_lost = |damage: &&Damage| damage.length > 0 && damage.reason != DamageReason::OutOfOrder;
    active.damage.iter().chain(&active.torn).filter(is_lost).copied().collect()
}
