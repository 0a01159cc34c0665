//! Writing: the lease of one file, and appending to thousands of streams through a bounded number of open files.
//!
//! Each stream that was appended to lately keeps its file open, but not its lease: that is held only while a record is
//! written, so that another process can write in between. Taking it again costs a few system calls where opening the
//! file anew costs a look at its end. When there are too many open files, the one unused for longest is closed; the
//! caller sees nothing of it. Threads that append to one stream at a time share syncs.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::fs::{Access, DiskFile, FileId, copy_range};
use manent_log::{
    Body, Commit, Damage, Durability, Entry, Expect, FileKind, FileLock, GroupCommit, KeyRule, KeyedLine,
    Log, LogKeys, LogReceipt, Occurrence, RestingLog, SetAside, SharedKeys,
};

use super::moves;
use super::store_dir::{StoreDir, StreamFile};
use crate::error::{Error, Result, io_error};
use crate::key::SessionKey;
use crate::streams::{
    AppendOptions, NewHeader, Place, Position, Receipt, Replaced, Space, StreamId, StreamParts, StreamWriter,
};
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
        let receipt = |LogReceipt { seq, offset, durability }| Receipt {
            id: self.id.clone(),
            seq,
            position: Position::new(offset),
            durability,
        };
        Ok(receipts.into_iter().map(receipt).collect())
    }
}

/// A live stream, whatever its id.
pub(super) type StreamKey = (Space, SessionKey);

/// The open files.
#[derive(Debug)]
pub(super) struct WriterPool {
    max: usize,
    slots: Mutex<HashMap<StreamKey, Arc<PoolSlot>>>,
    clock: AtomicU64,
    /// Sessions whose file's name is known to survive power loss, with the file it led to then, and its id: a fork that
    /// was made independent is another file, whose name may be as new as that; and a system uses a file's number again.
    durable: Mutex<HashMap<StreamKey, (FileId, Arc<str>)>>,
}

/// One session that is being appended to.
#[derive(Debug)]
struct PoolSlot {
    used: AtomicU64,
    /// The keys of its records, whether its file is open or not.
    keys: SharedKeys,
    group: GroupCommit<PooledWriter>,
}

/// The writing end of one session. Without a file it has not been opened yet, or an error closed it.
#[derive(Debug)]
struct PooledWriter {
    file: Option<(RestingLog, Arc<str>)>,
    /// The path for messages, if a commit does not come back.
    path: PathBuf,
}

/// One append, for whoever leads a commit.
#[derive(Clone, Copy)]
struct AppendCall<'a> {
    dir: &'a StoreDir,
    writers: &'a WriterPool,
    key: &'a StreamKey,
    new: NewHeader<'a>,
    wait: Duration,
    keys: &'a SharedKeys,
    rule: &'a KeyRule,
}

impl WriterPool {
    pub(super) fn new(max: usize) -> WriterPool {
        WriterPool { max, slots: Mutex::default(), clock: AtomicU64::new(0), durable: Mutex::default() }
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
        let call = AppendCall { dir, writers: self, key, new, wait, keys: &slot.keys, rule };
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
        let slots: Vec<Arc<PoolSlot>> = lock(&self.slots).values().cloned().collect();
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
    fn slot(&self, dir: &StoreDir, key: &StreamKey) -> Arc<PoolSlot> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(key) {
            slot.used.store(now, Ordering::Relaxed);
            return slot.clone();
        }
        let closed = if slots.len() < self.max { Vec::new() } else { self.make_room(&mut slots) };
        let path = dir.layout.dir(key.0, Place::Live).join(key.1.file_name());
        let writer = PooledWriter { file: None, path };
        let (used, group) = (AtomicU64::new(now), GroupCommit::new(writer));
        let slot = Arc::new(PoolSlot { used, keys: SharedKeys::default(), group });
        slots.insert(key.clone(), slot.clone());
        drop(slots);
        // Closing a file takes its time, and nobody else need wait for it.
        drop(closed);
        slot
    }

    /// Takes out an eighth of the slots: to find the oldest one all are looked at, while every other thread
    /// waits.
    fn make_room(&self, slots: &mut HashMap<StreamKey, Arc<PoolSlot>>) -> Vec<Arc<PoolSlot>> {
        // One that somebody is appending to stays: its file is open either way.
        let is_idle = |slot: &Arc<PoolSlot>| Arc::strong_count(slot) == 1;
        let used = |slot: &Arc<PoolSlot>| slot.used.load(Ordering::Relaxed);
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

impl Commit for PooledWriter {
    type Receipt = Receipt;
    type Error = Error;
    type Context<'a> = AppendCall<'a>;

    fn commit(
        &mut self,
        call: AppendCall<'_>,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        let AppendCall { dir, writers, key, new, wait, keys, rule } = call;
        let mut lease = if let Some(lease) = wake(self.file.take())? {
            lease
        } else {
            let mut lease = dir.open_log(key.0, &key.1, Some(new()), wait)?;
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

/// The number of keys that are kept in memory: some hundred megabytes.
const KEYS_MAX: usize = 1_000_000;
/// The number of durable names that are kept in memory: some ten megabytes.
const DURABLE_NAMES_MAX: usize = 100_000;

/// The right to write one file.
#[derive(Debug)]
pub(super) struct FileWriter {
    pub(super) dir: StoreDir,
    pub(super) writers: Arc<WriterPool>,
    pub(super) at: StreamId,
    pub(super) file: StreamFile,
    pub(super) access: WriteAccess,
}

/// The access of a writer to its file, and the lock that keeps others off it.
#[derive(Debug)]
pub(super) enum WriteAccess {
    /// A live file, ready to be appended to. `None` once it was given back.
    Append(Option<Box<FileLease>>),
    /// A file that is only read and replaced: in archive or trash, or written by a newer version, which needs that.
    ReplaceOnly { _held: FileLock, len: u64, id: Arc<str>, needs: Option<String> },
}

impl FileWriter {
    fn lease(&self) -> Option<&FileLease> {
        match &self.access {
            WriteAccess::Append(lease) => lease.as_deref(),
            WriteAccess::ReplaceOnly { .. } => None,
        }
    }

    fn live(&mut self) -> Result<&mut FileLease> {
        let (key, place) = (&self.at.key, self.at.place);
        match &mut self.access {
            WriteAccess::Append(Some(lease)) => Ok(lease),
            WriteAccess::ReplaceOnly { needs: Some(needs), .. } => {
                let (path, needs) = (self.file.path.clone(), needs.clone());
                Err(manent_log::Error::Newer { path, needs }.into())
            }
            WriteAccess::Append(None) | WriteAccess::ReplaceOnly { .. } => {
                Err(Error::NotLive { key: key.to_string(), place })
            }
        }
    }

    /// Copies ranges of the file beside it, and makes the copy durable. Removed again if anything fails: a part of it
    /// helps nobody, and on a full disk it is in the way.
    fn set_ranges_aside(&self, ranges: &[Damage]) -> Result<Option<PathBuf>> {
        if ranges.is_empty() {
            return Ok(None);
        }
        let (disk, path) = (&self.dir.disk, &self.file.path);
        let mut name = path.clone().into_os_string();
        name.push(format!(".damaged-{}", uuid::Uuid::now_v7().simple()));
        let copy = PathBuf::from(name);
        let from = disk.open(path, Access::Read).map_err(io_error("read", path))?;
        let to = disk.open(&copy, Access::CreateNew).map_err(io_error("create", &copy))?;
        let copied = ranges
            .iter()
            .try_for_each(|damage| copy_range(&*from, damage.offset, damage.length, &*to))
            .and_then(|()| to.sync())
            .and_then(|()| disk.sync_dir(path.parent().unwrap_or(&self.dir.layout.home)));
        if let Err(e) = copied {
            let _ = disk.remove(&copy);
            return Err(io_error("set damaged lines aside in", &copy)(e));
        }
        Ok(Some(copy))
    }

    fn replace_held(
        &self,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let (disk, path) = (&self.dir.disk, &self.file.path);
        let old = disk.open(path, Access::Read).map_err(io_error("read", path))?;
        // The length is that of the lease: the caller may not have seen what another program wrote since it was taken.
        let len = match &self.access {
            WriteAccess::Append(lease) => lease.as_ref().map_or(0, |lease| lease.log.end_offset()),
            WriteAccess::ReplaceOnly { len, .. } => *len,
        };
        let unchanged = || {
            if old.state().map_err(io_error("inspect", path))?.len == len {
                return Ok(());
            }
            let next = self.next_seq();
            Err(manent_log::Error::Conflict { path: path.clone(), expected: next, next: next + 1 }.into())
        };
        unchanged()?;
        let copy = self.set_ranges_aside(left_out)?;
        let replaced = moves::replace(&self.dir, &self.at, &self.file, header, parts, unchanged);
        let (bytes, new) = replaced.inspect_err(|_| {
            if let Some(copy) = &copy {
                let _ = disk.remove(copy);
            }
        })?;
        take_along(&*old, len, &*new).map_err(io_error("write", path))?;
        self.dir.sync_dir(path.parent().unwrap_or(&self.dir.layout.home))?;
        Ok(Replaced { bytes, set_aside: copy })
    }
}

/// Copies what a program without our lease wrote to the old file in the last instant.
fn take_along(old: &dyn DiskFile, from: u64, new: &dyn DiskFile) -> io::Result<()> {
    let len = old.state()?.len;
    if len > from {
        copy_range(old, from, len - from, new)?;
        new.sync()?;
    }
    Ok(())
}

impl StreamWriter for FileWriter {
    fn append(&mut self, bodies: &[Body], how: &AppendOptions<'_>) -> Result<Vec<Receipt>> {
        self.live()?.append(bodies, how.durability, how.expect, how.keys)
    }

    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        Ok(self.live()?.log.find(rule, key, which)?)
    }

    fn keep_from(&mut self, position: Position) -> Result<()> {
        Ok(self.live()?.log.keep_from(position.raw())?)
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let mut writer = self;
        let replaced = writer.replace_held(header, parts, left_out);
        // The file that is held is not the stream's any more, or may not be: it is not kept open.
        if let WriteAccess::Append(lease) = &mut writer.access {
            drop(lease.take());
        }
        replaced
    }

    fn acknowledge(&mut self, ts: &str) -> Result<Vec<Damage>> {
        Ok(manent_log::acknowledge_gaps(&mut self.live()?.log, ts)?)
    }

    fn next_seq(&self) -> u64 {
        self.lease().map_or(0, |lease| lease.log.next_seq())
    }

    fn id(&self) -> &Arc<str> {
        static NONE: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "".into());
        match &self.access {
            WriteAccess::Append(lease) => lease.as_ref().map_or(&NONE, |lease| &lease.id),
            WriteAccess::ReplaceOnly { id, .. } => id,
        }
    }

    fn header(&self) -> Option<Entry<'_>> {
        self.lease().and_then(|lease| lease.log.header_line())
    }

    fn is_new(&self) -> bool {
        self.lease().is_some_and(|lease| lease.log.is_new())
    }

    fn is_native(&self) -> bool {
        self.lease().is_some_and(|lease| lease.log.kind() == FileKind::Native)
    }

    fn is_finished(&self) -> bool {
        self.lease().is_none_or(|lease| lease.log.poisoned().is_some())
    }

    fn set_aside(&self) -> Option<&SetAside> {
        self.lease().and_then(|lease| lease.log.set_aside())
    }

    fn set_aside_bytes(&self) -> Result<Vec<u64>> {
        moves::torn_at_end(&self.dir, &self.file.path)
    }

    fn opened_by(&self) -> Option<u32> {
        self.dir.disk.opened_by(&self.file.path)
    }

    fn names(&self) -> Result<u64> {
        self.lease().map_or(Ok(1), |lease| Ok(lease.log.names()?))
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        let WriteAccess::Append(lease) = &mut self.access else { return };
        let Some(lease) = lease.take() else { return };
        if self.at.place != Place::Live || lease.log.poisoned().is_some() || lease.log.is_new() {
            return;
        }
        self.writers.rest(&self.dir, &(self.at.space, self.at.key.clone()), *lease);
    }
}

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
