//! Appending to thousands of sessions through a bounded number of open files.
//!
//! Each session that was appended to lately keeps its file open, but not its lease: that is held only while a record is
//! written, so that another process can write in between. Taking it again costs a few system calls where opening the
//! file anew costs a look at its end. When there are too many open files, the one unused for longest is closed; the
//! caller sees nothing of it. Threads that append to one session at a time share syncs.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::fs::FileId;
use manent_log::{
    Body, Commit, Durability, Expect, GroupCommit, KeyRule, Log, LogKeys, RestingLog, SharedKeys,
};

use super::store_dir::StoreDir;
use crate::error::{Error, Result};
use crate::key::SessionKey;
use crate::streams::{AppendOptions, NewHeader, Place, Position, Receipt, Space};
use crate::sync::lock;

/// A live file whose lease is held.
#[derive(Debug)]
pub(super) struct FileLease {
    pub(super) log: Log,
    /// The id in its header; empty in another program's file.
    pub(super) id: Arc<str>,
}

impl FileLease {
    pub(super) fn append(
        &mut self,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
        rule: &KeyRule,
    ) -> Result<Vec<Receipt>> {
        let receipts = self.log.append_by(rule, bodies, durability, expect)?;
        Ok(receipts.into_iter().map(|receipt| self.receipt(receipt)).collect())
    }

    fn receipt(&self, receipt: manent_log::LogReceipt) -> Receipt {
        let manent_log::LogReceipt { seq, offset, durability } = receipt;
        Receipt { id: self.id.clone(), seq, position: Position::new(offset), durability }
    }
}

/// A live stream, whatever its id.
pub(super) type StreamKey = (Space, SessionKey);

/// The open files.
#[derive(Debug)]
pub(super) struct Writers {
    max: usize,
    slots: Mutex<HashMap<StreamKey, Arc<Slot>>>,
    clock: AtomicU64,
    /// Sessions whose file's name is known to survive power loss, with the file it led to then, and its id: a fork that
    /// was made independent is another file, whose name may be as new as that; and a system uses a file's number again.
    durable: Mutex<HashMap<StreamKey, (FileId, Arc<str>)>>,
}

/// One session that is being appended to.
#[derive(Debug)]
struct Slot {
    used: AtomicU64,
    /// The keys of its records, whether its file is open or not.
    keys: SharedKeys,
    group: GroupCommit<Writer>,
}

/// The writing end of one session. Without a file it has not been opened yet, or an error closed it.
#[derive(Debug)]
struct Writer {
    file: Option<(RestingLog, Arc<str>)>,
    /// For messages, if a commit does not come back.
    path: PathBuf,
}

/// One append, for whoever leads a commit.
#[derive(Debug, Clone, Copy)]
struct Call<'a> {
    dir: &'a StoreDir,
    writers: &'a Writers,
    key: &'a StreamKey,
    new: Shut<'a>,
    wait: Duration,
    keys: &'a SharedKeys,
    rule: &'a KeyRule,
}

/// A header's maker, which has nothing to print.
#[derive(Clone, Copy)]
struct Shut<'a>(NewHeader<'a>);

impl std::fmt::Debug for Shut<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a header")
    }
}

impl Writers {
    pub(super) fn new(max: usize) -> Writers {
        Writers { max, slots: Mutex::default(), clock: AtomicU64::new(0), durable: Mutex::default() }
    }

    pub(super) fn append(
        &self,
        dir: &StoreDir,
        key: &StreamKey,
        new: NewHeader<'_>,
        bodies: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        let slot = self.slot(dir, key);
        let AppendOptions { durability, expect, wait, keys: rule } = *how;
        let call = Call { dir, writers: self, key, new: Shut(new), wait, keys: &slot.keys, rule };
        // Whoever leads a batch commits it by one rule, so only records of the usual one share a batch.
        let is_shared = expect == Expect::Any && durability == Durability::Group && rule.is_idempotency();
        match bodies {
            [one] if is_shared => Ok(vec![slot.group.append_with(call, one.clone(), durability)?]),
            several => slot.group.lock().commit(call, several, durability, expect),
        }
    }

    /// Takes the lease of a file that is open here; `None` if it is not, or if it is no longer the stream's file.
    pub(super) fn lease(&self, key: &StreamKey) -> Option<FileLease> {
        let slot = lock(&self.slots).get(key).cloned();
        let resting = slot.and_then(|slot| slot.group.lock().file.take());
        // Another program may have rewritten its file since, or the handle may be of no use any more: open it anew.
        wake(resting).unwrap_or(None)
    }

    /// Returns the keys of a stream, which outlive the handles of its file.
    pub(super) fn keys(&self, dir: &StoreDir, key: &StreamKey) -> SharedKeys {
        self.slot(dir, key).keys.clone()
    }

    /// Forgets all keys, where there are too many. Those that somebody uses just now stay.
    pub(super) fn bound_keys(&self) {
        let slots: Vec<Arc<Slot>> = lock(&self.slots).values().cloned().collect();
        let mut all: Vec<_> = slots.iter().filter_map(|slot| slot.keys.try_lock().ok()).collect();
        if all.iter().map(|keys| keys.key_count()).sum::<usize>() > KEYS_MAX {
            for keys in &mut all {
                **keys = LogKeys::default();
            }
        }
    }

    /// Keeps the file of a lease open, without the lease.
    pub(super) fn rest(&self, dir: &StoreDir, key: &StreamKey, lease: FileLease) {
        let FileLease { log, id } = lease;
        let resting = log.rest().ok();
        let slot = self.slot(dir, key);
        let mut writer = slot.group.lock();
        if writer.file.is_none() {
            writer.file = resting.map(|log| (log, id));
        }
    }

    /// The slot of a session; a new one if it has none, for which those unused for longest go.
    fn slot(&self, dir: &StoreDir, key: &StreamKey) -> Arc<Slot> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(key) {
            slot.used.store(now, Ordering::Relaxed);
            return slot.clone();
        }
        let closed = if slots.len() < self.max { Vec::new() } else { self.make_room(&mut slots) };
        let path = dir.layout.dir(key.0, Place::Live).join(key.1.file_name());
        let writer = Writer { file: None, path };
        let (used, group) = (AtomicU64::new(now), GroupCommit::new(writer));
        let slot = Arc::new(Slot { used, keys: SharedKeys::default(), group });
        slots.insert(key.clone(), slot.clone());
        drop(slots);
        // Closing a file takes its time, and nobody else need wait for it.
        drop(closed);
        slot
    }

    /// Takes out an eighth of the slots: to find the oldest one all are looked at, while every other thread
    /// waits.
    fn make_room(&self, slots: &mut HashMap<StreamKey, Arc<Slot>>) -> Vec<Arc<Slot>> {
        // One that somebody is appending to stays: its file is open either way.
        let is_idle = |slot: &Arc<Slot>| Arc::strong_count(slot) == 1;
        let used = |slot: &Arc<Slot>| slot.used.load(Ordering::Relaxed);
        let mut ages: Vec<u64> = slots.values().filter(|slot| is_idle(slot)).map(used).collect();
        let last = (self.max / 8).clamp(1, ages.len().max(1)) - 1;
        if ages.is_empty() {
            return Vec::new();
        }
        let (_, newest, _) = ages.select_nth_unstable(last);
        let gone = slots.extract_if(|_, slot| is_idle(slot) && used(slot) <= *newest);
        gone.map(|(_, slot)| slot).collect()
    }

    pub(super) fn name_is_durable(&self, key: &StreamKey, lease: &FileLease) -> bool {
        let known = lock(&self.durable).get(key).cloned();
        known.is_some_and(|(file, id)| file == lease.log.file_id() && id == lease.id && !id.is_empty())
    }

    pub(super) fn remember_durable(&self, key: &StreamKey, lease: &FileLease) {
        let mut durable = lock(&self.durable);
        let now = (lease.log.file_id(), lease.id.clone());
        if durable.get(key) != Some(&now) {
            if durable.len() >= DURABLE_NAMES_MAX {
                durable.clear();
            }
            durable.insert(key.clone(), now);
        }
    }
}

impl Commit for Writer {
    type Receipt = Receipt;
    type Error = Error;
    type Context<'a> = Call<'a>;

    fn commit(
        &mut self,
        call: Call<'_>,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        let Call { dir, writers, key, new, wait, keys, rule } = call;
        let mut lease = if let Some(lease) = wake(self.file.take())? {
            lease
        } else {
            let mut lease = dir.open_log(key.0, &key.1, Some((new.0)()), wait)?;
            if writers.name_is_durable(key, &lease) {
                lease.log.trust_name();
            }
            lease
        };
        lease.log.use_keys(keys, &lease.id);
        // Whatever fails closes the file: the next append opens it anew, and looks at its end.
        let receipts = lease.append(bodies, durability, expect, rule)?;
        if durability != Durability::Flush {
            writers.remember_durable(key, &lease);
        }
        let id = lease.id;
        self.file = lease.log.rest().ok().map(|log| (log, id));
        Ok(receipts)
    }

    /// The file was taken out for the commit, and closed by the panic: the next append opens it anew.
    fn abandon(&mut self) -> Error {
        self.file = None;
        let why = "a panic broke off a commit".to_owned();
        manent_log::Error::Unknown { path: self.path.clone(), why }.into()
    }
}

/// Takes the lease of a file again. `None` if there is no open file, if it is no longer the stream's (somebody archived
/// or deleted that, so that the next append begins a new one), or if somebody else holds it.
fn wake(file: Option<(RestingLog, Arc<str>)>) -> Result<Option<FileLease>> {
    let Some((resting, id)) = file else { return Ok(None) };
    match resting.wake(Duration::ZERO) {
        Ok(log) => Ok(Some(FileLease { log, id })),
        // Held: perhaps by whoever replaces or packs the stream that was archived meanwhile, and not by a writer.
        // Whoever opens the file anew finds out, and waits for the right one.
        Err(manent_log::Error::Gone { .. } | manent_log::Error::Held { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Some hundred megabytes.
const KEYS_MAX: usize = 1_000_000;
/// Some ten megabytes.
const DURABLE_NAMES_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use crate::streams::{Seek, StreamHeader, StreamId, Streams, Target};

    #[test]
    fn more_streams_than_open_files_are_all_written_and_few_stay_open() {
        let dir = tempfile::tempdir().unwrap();
        let header = || {
            let mut body = Body::new();
            body.json("meta", serde_json::from_str(r#"{"format":1,"id":"x"}"#).unwrap());
            StreamHeader { id: "x".to_owned(), body }
        };
        for max in [1, 2, 20] {
            let files = Files::open(dir.path().join(max.to_string())).unwrap().keeping_open(max);
            let keys: Vec<SessionKey> =
                (0..50).map(|n| SessionKey::new(format!("key-{n}")).unwrap()).collect();
            for seq in 1..=2 {
                for key in &keys {
                    let mut body = Body::new();
                    body.string("role", "user").string("content", "x");
                    let how =
                        AppendOptions { expect: Expect::Seq(seq), ..AppendOptions::new(Durability::Flush) };
                    files.append(&StreamId::live(key), &header, &[body], &how).unwrap();
                    let slots = lock(&files.writers.slots);
                    let is_open = slots.contains_key(&(Space::Sessions, key.clone()));
                    assert!(slots.len() <= max && is_open, "{} of {max}", slots.len());
                }
            }
            let recent = lock(&files.writers.slots).len();
            assert!(recent > max / 2, "only the oldest ones go: {recent} of {max}");
            for key in &keys {
                let mut reader = files.open(Target::Id(&StreamId::live(key))).unwrap();
                reader.seek(Seek::First).unwrap();
                let mut records = 0;
                while reader.advance().unwrap() {
                    records += 1;
                }
                assert_eq!(records, 3, "a header and two turns of {key:?}");
            }
        }
    }
}
