//! The file made anew, without what was forgotten.
//!
//! It is written beside the old one, under the old one's lease, synced, and renamed over it. Until that rename the old
//! file counts, from it on the new one; what a crash leaves in between is removed by the next writer. Ids stay; the
//! header says from which number on new ones are given.
//!
//! Another program's file stays one: its lines as they stand, ours without number and checksum, so that what that
//! program appends later is not taken for damage.

use std::io;
use std::path::PathBuf;

use manent_log::frame::{self, Reason};
use manent_log::fs::{Access, Disk, DiskFile, copy_range};
use manent_log::{AtomicFile, Body, Damage, Entry, FileKind, Item, Log, Reader};

use super::Core;
use super::active::Active;
use super::effect::Effect;
use super::item::{ID_MAX, tombstone};
use super::writing::{header, header_number, unfinished};
use crate::error::{Error, Result, io_error};
use crate::sync::lock;
use crate::turn::Record;

/// What a compaction did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compacted {
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

/// Makes the file anew. The caller holds its lease, `log`.
pub(super) fn compact(core: &Core, log: &Log, next_id: u64) -> Result<Compacted> {
    let disk = &core.room.disk;
    let look = || disk.inspect(&core.path).map_err(io_error("inspect", &core.path));
    let before = look()?;
    let (bytes_before, active) = (before.len, core.active()?);
    let next_id = next_id.max(active.highest_id.saturating_add(1));
    let ever = log.header_line().and_then(|line| header_number(&line, "dropped")).unwrap_or(0);
    let dropped = active.counts.forgotten as u64;
    if dropped == 0 || log.is_new() {
        // Whoever compacted it may have died before the index was told.
        core.searched.index().forget(&core.searched)?;
        return Ok(Compacted {
            dropped_ever: ever,
            bytes_before,
            bytes_after: bytes_before,
            ..Compacted::default()
        });
    }
    if log.kind() != FileKind::Native
        && let Some(pid) = disk.opened_by(&core.path)
    {
        let why = format!("another program (pid {pid}) has it open and may write to it; close it there");
        return Err(Error::Io { action: "compact", path: core.path.clone(), source: io::Error::other(why) });
    }
    remove_leftover(core)?;
    let mut copy = DamageCopy { disk: &**disk, path: set_damage_aside(core, &active)? };
    let old = disk.open(&core.path, Access::Read).map_err(io_error("read", &core.path))?;
    let new = write_new(core, &active, log.kind(), next_id, ever + dropped)?;
    let bytes_after = disk.inspect(new.temporary_path()).map_err(io_error("inspect", &core.path))?.len;
    // Words of what was forgotten; whatever happens from here on, none is left there.
    core.searched.index().start_anew();
    if look()? != before {
        return Err(Error::MemoryChanges { path: core.path.clone() });
    }
    let damaged = copy.path.take();
    let held = new.rename_with(|new| disk.rename(new, &core.path).map_err(io_error("rename", new)))?;
    take_along(&*old, before.len, &*held).map_err(io_error("write", &core.path))?;
    disk.sync_dir(&core.room.dir).map_err(io_error("sync the directory", &core.room.dir))?;
    *lock(&core.loaded) = None;
    core.searched.index().forget(&core.searched)?;
    Ok(Compacted { dropped, dropped_ever: ever + dropped, bytes_before, bytes_after, damaged })
}

/// What a program that knows nothing of our lease wrote in the last instant comes along.
fn take_along(old: &dyn DiskFile, from: u64, new: &dyn DiskFile) -> io::Result<()> {
    let len = old.state()?.len;
    if len > from {
        copy_range(old, from, len - from, new)?;
        new.sync()?;
    }
    Ok(())
}

/// A copy of what cannot be read, removed if the compaction fails: then it is still in the file too.
struct DamageCopy<'a> {
    disk: &'a dyn Disk,
    path: Option<PathBuf>,
}

impl Drop for DamageCopy<'_> {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = self.disk.remove(path);
        }
    }
}

/// Removes what a compaction that was interrupted has left: it may hold what is forgotten since.
pub(super) fn remove_leftover(core: &Core) -> Result<()> {
    let path = unfinished(core);
    match core.room.disk.remove(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path)(e)),
        _ => Ok(()),
    }
}

/// Writes and syncs the new file, and locks it: nobody else may have its lease before its name is durable.
fn write_new<'a>(
    core: &'a Core,
    active: &Active,
    kind: FileKind,
    next_id: u64,
    ever: u64,
) -> Result<AtomicFile<'a>> {
    let (mut kept, mut highest) = (0, 0);
    each_kept(core, active, |entry| {
        kept += 1;
        highest = highest.max(Effect::of(entry).id.filter(|id| *id <= ID_MAX).unwrap_or(0));
        Ok(())
    })?;
    // Other programs count on from the highest id that they find; one that was forgotten must not be given again.
    let last_id = next_id.saturating_sub(1).min(ID_MAX);
    let mark = (highest < last_id).then(|| tombstone(last_id, last_id));
    let native = kind == FileKind::Native;
    let path = unfinished(core);
    // Under the name that `remove_leftover` looks for.
    let mut file = AtomicFile::create_as(&*core.room.disk, &core.path, path.clone())
        .map_err(io_error("create", &path))?;
    file.lock()?;
    let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(io_error("write", &path));
    let mut buffer = Vec::new();
    if native {
        let at_seq = kept + 1 + u64::from(mark.is_some());
        buffer.extend_from_slice(&frame::line(0, &header(&core.app, next_id, at_seq, ever)));
    }
    let mut seq = 0;
    each_kept(core, active, |entry| {
        seq += 1;
        push_line(&mut buffer, native.then_some(seq), entry);
        if buffer.len() > BLOCK_BYTES {
            put(&buffer)?;
            buffer.clear();
        }
        Ok(())
    })?;
    if let Some(mark) = mark {
        let line = frame::line(seq + 1, &mark);
        let entry = Entry { seq: seq + 1, offset: 0, bytes: line.trim_ascii_end(), verified: true };
        push_line(&mut buffer, native.then_some(seq + 1), &entry);
    }
    put(&buffer)?;
    file.sync().map_err(io_error("sync", &path))?;
    Ok(file)
}

/// One line of the new file: with a number and a checksum if it is ours.
fn push_line(buffer: &mut Vec<u8>, seq: Option<u64>, entry: &Entry<'_>) {
    match seq {
        Some(seq) => {
            let record = Body::parse(entry.bytes).ok().map(|body| frame::line(seq, &body));
            if let Some(line) = record.filter(|line| line.len() < frame::RECORD_BYTES_MAX) {
                return buffer.extend_from_slice(&line);
            }
            // Another program's line that can be no record stays what it is.
            buffer.extend_from_slice(entry.bytes);
        }
        None if entry.verified => {
            buffer.push(b'{');
            buffer.extend_from_slice(frame::body_of(entry.bytes));
            buffer.push(b'}');
        }
        None => buffer.extend_from_slice(entry.bytes),
    }
    buffer.push(b'\n');
}

/// The lines that stay, in their order, without a header of ours.
fn each_kept(core: &Core, active: &Active, mut take: impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
    let mut reader = Reader::open(&core.room.disk, &core.path)?;
    while let Some(item) = reader.next()? {
        let Item::Entry(entry) = item else { continue };
        let is_header = entry.verified && entry.seq == 0;
        if !is_header && !is_note(&entry) && active.keeps(&entry) {
            take(&entry)?;
        }
    }
    Ok(())
}

/// A note that damage was seen: the damage stays behind, and so does the note.
fn is_note(entry: &Entry<'_>) -> bool {
    entry.verified && Record::of(entry).is_some_and(|record| record.kind().as_deref() == Some("gap"))
}

/// Copies what cannot be read beside the file, before it goes.
fn set_damage_aside(core: &Core, active: &Active) -> Result<Option<PathBuf>> {
    // A record out of its order can be read; it stays or goes as any other.
    let is_lost = |damage: &&Damage| damage.length > 0 && damage.reason != Reason::OutOfOrder;
    let ranges: Vec<&Damage> = active.damage.iter().chain(&active.torn).filter(is_lost).collect();
    if ranges.is_empty() {
        return Ok(None);
    }
    let disk = &core.room.disk;
    let mut name = core.path.clone().into_os_string();
    name.push(format!(".damaged-{}", uuid::Uuid::now_v7().simple()));
    let copy = PathBuf::from(name);
    let from = disk.open(&core.path, Access::Read).map_err(io_error("read", &core.path))?;
    let to = disk.open(&copy, Access::CreateNew).map_err(io_error("create", &copy))?;
    let copied = ranges
        .iter()
        .try_for_each(|damage| copy_range(&*from, damage.offset, damage.length, &*to))
        .and_then(|()| to.sync());
    if let Err(e) = copied {
        // A part of it helps nobody, and on a full disk it is in the way.
        let _ = disk.remove(&copy);
        return Err(io_error("set damaged lines aside in", &copy)(e));
    }
    disk.sync_dir(&core.room.dir).map_err(io_error("sync the directory", &core.room.dir))?;
    Ok(Some(copy))
}

const BLOCK_BYTES: usize = 256 << 10;
