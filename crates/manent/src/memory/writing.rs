//! Holding the lease of the memory; which number comes next.

use std::path::PathBuf;
use std::time::Duration;

use manent_log::{
    Body, Durability, Entry, Expect, FileKind, Item as Found, Log, Options, RestingLog, ReverseReader,
    SetAside, frame,
};

use super::Core;
use super::active::{Active, ids_within};
use super::compact::{self, Compacted};
use super::effect::Effect;
use super::item::{ID_MAX, Item, ItemError, NewItem, tombstone};
use crate::backend::Repaired;
use crate::clock;
use crate::error::{Error, Result, io_error};
use crate::sync::lock;
use crate::turn::Record;

/// The right to write the memory, until it is dropped. See [`Memory::hold`](super::Memory::hold).
#[derive(Debug)]
pub struct Hold<'a> {
    core: &'a Core,
    /// Nothing, once it was let go.
    log: Option<Log>,
    /// The id that comes next, or `UNKNOWN`.
    next_id: u64,
}

/// The log between two writes.
#[derive(Debug)]
pub(super) struct Resting {
    log: RestingLog,
    /// The numbers that would have come next.
    next_seq: u64,
    next_id: u64,
}

/// Records that were appended: the number of the first, and its id.
#[derive(Debug, Clone, Copy)]
struct Appended {
    seq: u64,
    id: u64,
}

/// What forgetting did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// The items that are forgotten now.
    pub ids: Vec<u64>,
    /// Items that one of these had replaced, and that are active again.
    pub active_again: Vec<u64>,
}

impl<'a> Hold<'a> {
    pub(super) fn take(core: &'a Core, wait: Duration) -> Result<Hold<'a>> {
        let hold = Hold::open(core, wait)?;
        // Whoever died while compacting may have left what is going to be forgotten.
        compact::remove_leftover(core)?;
        Ok(hold)
    }

    fn open(core: &'a Core, wait: Duration) -> Result<Hold<'a>> {
        let resting = lock(&core.resting).take();
        if let Some(Resting { log, next_seq, next_id }) = resting {
            match log.wake(wait) {
                Ok(log) if log.poisoned().is_none() => {
                    let same = log.next_seq() == next_seq && log.set_aside().is_none();
                    let mut hold = Hold { core, log: Some(log), next_id };
                    if !same {
                        hold.count_anew()?;
                    }
                    return Ok(hold);
                }
                Err(e @ manent_log::Error::Held { .. }) => return Err(held(e)),
                // Replaced by somebody who compacted it, or no longer to be trusted: open it anew.
                _ => {}
            }
        }
        let header = Some(header(&core.app, 1, 1, 0));
        let options = Options { header, wait, trust: core.room.trust, ..Options::default() };
        let log = Log::open(&core.room.disk, &core.path, &options).map_err(held)?;
        let mut hold = Hold { core, log: Some(log), next_id: UNKNOWN };
        hold.count_anew()?;
        Ok(hold)
    }

    /// Remembers something. When it returns, the item survives power loss.
    pub fn add(&mut self, item: &NewItem) -> Result<Item> {
        self.add_with(item, Durability::Sync)
    }

    /// As [`Hold::add`], as durable as asked.
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
        let Appended { seq, id } = match self.append(1, durability, make) {
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
    ) -> Result<Appended> {
        let id = self.next_id;
        // Closed before it is opened again: the lock is the file's.
        self.log = None;
        let mut anew = Hold::open(self.core, self.core.wait)?;
        (self.log, self.next_id) = (anew.log.take(), anew.next_id);
        let kept = self.log.as_mut().map(|log| log.receipt_of(key, durability)).transpose()?;
        match kept.flatten() {
            Some(receipt) => Ok(Appended { seq: receipt.seq, id }),
            None => self.append(1, durability, make),
        }
    }

    /// Makes everything in the file survive power loss, whatever became of earlier syncs. Of another program's file
    /// nothing is written again.
    pub(crate) fn keep(&mut self) -> Result<()> {
        match self.log.as_mut() {
            Some(log) if log.kind() == FileKind::Native && !log.is_new() => Ok(log.keep_from(0)?),
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
        let mut again: Vec<u64> = wanted.iter().flat_map(|id| active.replaced_by(*id)).collect();
        // Whoever keeps the old state of the file makes the new one a copy of all of it.
        drop(active);
        self.append(wanted.len(), Durability::Sync, |id, nth| tombstone(id, wanted[nth]))?;
        let now = self.core.active()?;
        again.sort_unstable();
        again.dedup();
        again.retain(|id| {
            let (slots, visible) = now.with_id(*id);
            visible && !slots.is_empty()
        });
        Ok(Forgotten { ids: wanted, active_again: again })
    }

    /// Rewrites the file without what was forgotten.
    pub fn compact(mut self) -> Result<Compacted> {
        let Some(log) = self.log.take() else { return Ok(Compacted::default()) };
        compact::compact(self.core, &log, self.next_id)
    }

    pub(super) fn repair(mut self, ts: &str) -> Result<Repaired> {
        let set_aside = self.set_aside().cloned();
        let acknowledged = match self.log.as_mut() {
            Some(log) => manent_log::acknowledge_gaps(log, ts)?,
            None => Vec::new(),
        };
        Ok(Repaired { set_aside, acknowledged })
    }

    /// What taking it had to cut off the end of the file, torn by a crash, and where that is kept.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.log.as_ref().and_then(Log::set_aside)
    }

    /// Appends records, each made with its id.
    fn append(
        &mut self,
        count: usize,
        durability: Durability,
        make: impl Fn(u64, usize) -> Body,
    ) -> Result<Appended> {
        for _ in 0..super::TRIES {
            if self.next_id == UNKNOWN {
                self.count_anew()?;
            }
            let end = self.next_id.saturating_add(count as u64);
            if end > ID_MAX + 1 {
                return Err(ItemError::NoMoreIds.into());
            }
            let bodies: Vec<Body> = (self.next_id..end).zip(0..).map(|(id, nth)| make(id, nth)).collect();
            let gone = || manent_log::Error::Gone { path: self.core.path.clone(), how: "let go" };
            let log = self.log.as_mut().ok_or_else(gone)?;
            match log.append_batch(&bodies, durability, Expect::Seq(log.next_seq())) {
                // Another program wrote without asking, and may have taken the id.
                Err(manent_log::Error::Conflict { .. }) => self.next_id = UNKNOWN,
                receipts => {
                    let seq = receipts?.first().map_or(0, |receipt| receipt.seq);
                    let id = std::mem::replace(&mut self.next_id, end);
                    return Ok(Appended { seq, id });
                }
            }
        }
        Err(Error::MemoryChanges { path: self.core.path.clone() })
    }

    /// Where that fails, the number stays unknown: the old one may be taken.
    fn count_anew(&mut self) -> Result<()> {
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
        let Some(log) = &self.log else { return Ok(1) };
        let set_aside = ids_set_aside(self.core)?;
        if log.kind() != FileKind::Native {
            return Ok(self.core.active()?.free_id().saturating_add(set_aside));
        }
        let next_seq = log.next_seq();
        let mut next = log.header_line().map_or(1, |header| floor_of(&header, next_seq));
        if log.is_new() {
            return Ok(next);
        }
        let mut back = ReverseReader::open(&self.core.room.disk, &self.core.path)?;
        while let Some(found) = back.next()? {
            let Found::Entry(entry) = found else { continue };
            let Some(id) = Effect::of(&entry).id.filter(|id| *id <= ID_MAX && entry.seq > 0) else {
                continue;
            };
            next = next.max(id.saturating_add(next_seq.saturating_sub(entry.seq).max(1)));
            // Another program's line tells only of itself.
            if entry.verified {
                break;
            }
        }
        Ok(next.saturating_add(set_aside))
    }
}

/// How many ids may have been taken by what was cut off the end of the file, torn, since when nothing was written.
///
/// Mostly that was never acknowledged; but a record that was, and rotted, looks the same. A number costs nothing.
fn ids_set_aside(core: &Core) -> Result<u64> {
    let disk = &core.room.disk;
    let end = match disk.inspect(&core.path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        info => info.map_err(io_error("inspect", &core.path))?.len,
    };
    let copies = format!("{}.torn-{end}-", core.file.name());
    let names = disk.list(&core.room.dir).map_err(io_error("list", &core.room.dir))?;
    let mut ids = 0_u64;
    for entry in names.iter().filter(|entry| entry.name.to_string_lossy().starts_with(&copies)) {
        let path = core.room.dir.join(&entry.name);
        let copy = disk.inspect(&path).map_err(io_error("inspect", &path))?;
        ids = ids.saturating_add(ids_within(copy.len));
    }
    Ok(ids)
}

/// All of these items must be there.
pub(super) fn expect_there(active: &Active, ids: &[u64]) -> Result<()> {
    let missing = ids.iter().find(|id| active.with_id(**id).0.is_empty());
    missing.map_or(Ok(()), |id| Err(Error::NoItem { id: *id }))
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let Some(log) = self.log.take() else { return };
        if log.poisoned().is_some() || log.is_new() || self.next_id == UNKNOWN {
            return;
        }
        let next_seq = log.next_seq();
        if let Ok(log) = log.rest() {
            *lock(&self.core.resting) = Some(Resting { log, next_seq, next_id: self.next_id });
        }
    }
}

/// The header of a memory in which the record `at_seq` is the first to get an id of at least `next_id`.
pub(super) fn header(app: &str, next_id: u64, at_seq: u64, dropped: u64) -> Body {
    let mut meta = Body::new();
    meta.number("format", manent_log::FORMAT).string("id", &uuid::Uuid::now_v7().to_string());
    meta.string("kind", "memory").string("app", app).number("next_id", next_id).number("at_seq", at_seq);
    if dropped > 0 {
        meta.number("dropped", dropped);
    }
    let mut body = Body::new();
    body.string("ts", &clock::now()).object("meta", &meta);
    body
}

/// The least id of the record `next_seq`, as far as the header tells.
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

/// A writer elsewhere is told of in the words of the memory.
fn held(error: manent_log::Error) -> Error {
    match error {
        manent_log::Error::Held { pid, .. } => Error::MemoryHeld { pid },
        other => other.into(),
    }
}

/// Where a memory that is being made anew lies until it is whole.
pub(super) fn unfinished(core: &Core) -> PathBuf {
    let mut name = core.path.clone().into_os_string();
    name.push(".new");
    PathBuf::from(name)
}

/// No id is given out that is as low as this.
const UNKNOWN: u64 = 0;
