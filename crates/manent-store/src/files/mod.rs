//! The default backend: one plain JSONL file for each stream, in the directories of a store.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Files`], and the seam it implements |
//! | `names.rs` | directories and file names |
//! | `store_dir.rs` | which file a stream is in; listing; making, checking and syncing directories |
//! | `changes.rs` | which streams changed since a caller looked |
//! | `reader.rs` | one file that is read |
//! | `writer.rs` | one file whose lease is held; appending through a bounded number of open files |
//! | `moves.rs` | archive, trash, restore, delete, pack, unpack, replace |
//! | `locks.rs` | the locks that these take |

mod changes;
mod locks;
mod moves;
mod names;
mod reader;
mod store_dir;
mod writer;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::frame::DamageReason;
use manent_log::fs::{Access, Disk, Shape, read_fully};
use manent_log::{
    Body, Damage, DamageFinding, FileSystemTrust, KeyRule, LogKeys, Reach, Reader, RealDisk, TailState,
    VerifyReport,
};

use memchr::memmem::Finder;

use crate::blobs::FileBlobs;
use crate::error::{Error, Result, io_error};
use crate::header::HeaderNames;
use crate::key::SessionKey;
use crate::pack;
use crate::streams::{
    AppendOptions, Changes, Cursor, IfMissing, KnownStreams, ListDetail, Lock, LockMode, LockName,
    Maintenance, NewHeader, Place, Position, ProgressFn, Receipt, Repaired, ScanTime, Selector, Space,
    StreamFilter, StreamHeader, StreamId, StreamParts, StreamReader, StreamStat, StreamWriter, Streams,
    Target,
};
use crate::sync::lock;
use locks::{NamedLock, STORE_WAIT_MIN, lock_file};
pub use names::is_plain_id;
use names::{FileForm, Layout, fixed_files, may_be_file_of};
use reader::FileReader;
use store_dir::{StoreDir, StreamFile, right_key, stat};
use writer::{FileWriter, WriteAccess, WriterPool};

/// Streams as files in a directory.
#[derive(Debug)]
pub struct Files {
    dir: StoreDir,
    writers: Arc<WriterPool>,
    /// The directories of a space were checked, and their names made durable. Once for each store that is opened.
    prepared: AtomicBool,
    prepared_runs: AtomicBool,
    /// A file was seen that has other names too: a write under one of those is not reported by a watch.
    has_linked: AtomicBool,
    watched: Mutex<HashMap<Space, changes::WatchState>>,
    tokens: AtomicU64,
}

impl Files {
    /// Opens the files in a directory of this machine. Nothing is created before something is written.
    pub fn open(home: impl Into<PathBuf>) -> Result<Files> {
        Files::open_on(RealDisk::shared(), home.into())
    }

    /// Opens the files in a directory as [`Files::open`] does, on any disk.
    ///
    /// A directory that holds session files itself and has no `sessions` in it is a flat store of another program, and
    /// is used as it is. It stays one when its last file was archived: we make `sessions` before anything else.
    pub fn open_on(disk: Arc<dyn Disk>, home: PathBuf) -> Result<Files> {
        let flat = match disk.inspect(&home.join("sessions")) {
            Ok(_) => false,
            // Anything else must not be taken for a flat store: its files would be looked for and put elsewhere.
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("open the store", &home)(e));
            }
            Err(_) => match disk.list(&home) {
                Ok(entries) => entries.iter().any(|entry| {
                    let name = entry.name.to_str().unwrap_or_default();
                    let file = name.strip_suffix(MARK).unwrap_or(name);
                    let is_beside =
                        |space| fixed_files(space).is_some_and(|files| files.iter().any(|f| f == name));
                    let is_session =
                        SessionKey::of_file_name(file).is_some() && !Space::ALL.into_iter().any(is_beside);
                    is_session || matches!(name, "archive" | "trash")
                }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => false,
                Err(e) => return Err(io_error("open the store", &home)(e)),
            },
        };
        let dir = StoreDir {
            disk,
            layout: Arc::new(Layout::new(home, flat)),
            trust: FileSystemTrust::LocalOnly,
            lock_wait_min: STORE_WAIT_MIN,
        };
        Ok(Files {
            dir,
            writers: Arc::new(WriterPool::new(OPEN_FILES_MAX)),
            prepared: AtomicBool::new(false),
            prepared_runs: AtomicBool::new(false),
            has_linked: AtomicBool::new(false),
            watched: Mutex::default(),
            tokens: AtomicU64::new(0),
        })
    }

    /// Sets which file systems to trust.
    #[must_use]
    pub fn trusting(mut self, trust: FileSystemTrust) -> Files {
        self.dir.trust = trust;
        self
    }

    /// Sets how many files [`Streams::append`] keeps open, at most.
    #[must_use]
    pub fn keeping_open(mut self, files: usize) -> Files {
        self.writers = Arc::new(WriterPool::new(files.max(1)));
        self
    }

    /// Sets how long somebody who moves sessions is waited for at least. For tests in which one thread plays all
    /// processes, so that nothing changes while it waits.
    #[doc(hidden)]
    #[must_use]
    pub fn waiting_for_movers(mut self, at_least: Duration) -> Files {
        self.dir.lock_wait_min = at_least;
        self
    }

    /// Returns the directory of the store.
    pub fn home(&self) -> &Path {
        &self.dir.layout.home
    }

    /// Returns where derived data may be kept beside the streams; `None` in a directory of another program, where
    /// nothing of ours but sessions belongs.
    pub fn blobs(&self) -> Option<FileBlobs> {
        let own = !self.dir.layout.is_flat();
        own.then(|| FileBlobs::within(self.dir.disk.clone(), self.dir.layout.home.clone()))
    }

    /// Returns a directory of the same disk as a place for derived data.
    pub fn blobs_in(&self, dir: PathBuf) -> FileBlobs {
        FileBlobs::new(self.dir.disk.clone(), dir)
    }

    /// Returns the file of a live session, whether it exists or not.
    pub fn live_path(&self, key: &SessionKey) -> PathBuf {
        self.live_path_in(Space::Sessions, key)
    }

    fn live_path_in(&self, space: Space, key: &SessionKey) -> PathBuf {
        let guess = |_| self.dir.layout.dir(space, Place::Live).join(key.file_name());
        self.dir.find_live(space, key, "").unwrap_or_else(guess)
    }

    /// Makes the directories of a space, refuses to write where others could, and makes the directories' names durable:
    /// whoever made them may have died before that.
    fn prepare(&self, space: Space) -> Result<()> {
        if !self.dir.supports(space) {
            return Err(Error::Unsupported { store: self.dir.name(), space });
        }
        if !self.prepared.load(Ordering::Relaxed) {
            self.dir.make_dir(&self.dir.layout.sessions)?;
            for dir in [&self.dir.layout.home, &self.dir.layout.sessions] {
                self.sync_above(dir)?;
            }
            self.prepared.store(true, Ordering::Relaxed);
        }
        if space == Space::Runs && !self.prepared_runs.load(Ordering::Relaxed) {
            self.dir.make_dir(&self.dir.layout.runs)?;
            self.sync_above(&self.dir.layout.runs)?;
            self.prepared_runs.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Checks the key of a stream that is to be written, and calls [`Files::prepare`].
    fn prepare_for(&self, id: &StreamId) -> Result<()> {
        if self.dir.supports(id.space) {
            id.check_key()?;
        }
        self.prepare(id.space)
    }

    fn sync_above(&self, dir: &Path) -> Result<()> {
        let above = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        match self.dir.disk.sync_dir(above) {
            // A directory that we may not read is not ours to sync; nor did we make anything in it.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced.map_err(io_error("sync the directory", above)),
        }
    }

    fn lease_live(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<FileWriter> {
        let key = (id.space, id.key.clone());
        let mut lease = if let Some(lease) = self.writers.lease(&key) {
            lease
        } else {
            let new = match missing {
                IfMissing::Create(new) => Some(new()),
                IfMissing::Refuse => None,
            };
            self.dir.open_log(id.space, &id.key, new, wait)?
        };
        if !id.id.is_empty() && *lease.id != *id.id {
            return Err(self.dir.not_found(id));
        }
        lease.log.use_keys(&self.writers.keys(&self.dir, &key), &lease.id);
        let file = StreamFile { path: lease.log.path().to_owned(), form: FileForm::Plain };
        if let Some(leftover) = moves::replacement(&file.path, id) {
            // Whoever died while replacing it may have left what was forgotten since.
            moves::remove(&self.dir, &leftover)?;
        }
        let at = StreamId { id: lease.id.to_string(), ..id.clone() };
        let (dir, writers) = (self.dir.clone(), self.writers.clone());
        Ok(FileWriter { dir, writers, at, file, access: WriteAccess::Append(Some(Box::new(lease))) })
    }

    /// Opens the file at a path for reading; `None` if it is another stream than the one that is meant.
    fn open_at(&self, path: &Path, at: &StreamId) -> Result<Option<FileReader>> {
        let reader = self.dir.reader(path)?;
        // Through the same open file: the header of one and the records of another would mix two streams, or a fork's
        // with its parent's.
        let header = reader.header_line()?;
        let names = header.as_deref().and_then(HeaderNames::of_line);
        // The stream that is meant may have been put away, and another of its key begun.
        let id = names.as_ref().map_or("", |names| &names.id);
        if at.place == Place::Live && !at.id.is_empty() && id != at.id {
            return Ok(None);
        }
        let id = right_key(&at.key, path, names)?.unwrap_or_default().id;
        Ok(Some(FileReader::with_header(reader, header, id)))
    }
}

impl Streams for Files {
    fn name(&self) -> String {
        self.dir.name()
    }

    fn supports(&self, space: Space) -> bool {
        self.dir.supports(space)
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        let id = match at {
            Target::Id(id) => id,
            Target::Name { space, place, name } => {
                let file = changes::file_name(name);
                let among = if name == file { place } else { Place::Live };
                let is_here = self.dir.supports(space) && space.places().contains(&place);
                if !is_here || !may_be_file_of(space, file) {
                    return Err(Error::no_name(space, place, name, &self.dir.name()));
                }
                let reader = self.dir.reader(&self.dir.layout.dir(space, among).join(file))?;
                return Ok(Box::new(FileReader::new(reader)));
            }
        };
        if !self.dir.may_hold(id) {
            return Err(self.dir.not_found(id));
        }
        let mut tries = 0;
        loop {
            let path = match id.place {
                // Whether it is the one that is meant shows when it is open.
                Place::Live => match self.dir.look_for_live(id.space, &id.key, "")? {
                    (path, Some(_)) => path,
                    (_, None) => return Err(self.dir.not_found(id)),
                },
                Place::Archive | Place::Trash => self.dir.locate(id)?.path,
            };
            match self.open_at(&path, id) {
                // Packed, unpacked, rewritten or moved between our look and our open: look again.
                Err(e) if e.is_not_found() && tries < LOOKS_MAX => tries += 1,
                Ok(None) => return Err(self.dir.not_found(id)),
                Ok(Some(reader)) => return Ok(Box::new(reader)),
                Err(e) => return Err(e),
            }
        }
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        self.prepare_for(id)?;
        let needs = match id.place {
            Place::Live => match self.lease_live(id, missing, wait) {
                // Written by a newer version: not to be appended to, but it can be replaced as a whole.
                Err(Error::Log(manent_log::Error::Newer { needs, .. }))
                    if matches!(missing, IfMissing::Refuse) =>
                {
                    Some(needs)
                }
                leased => return Ok(Box::new(leased?)),
            },
            Place::Archive | Place::Trash => None,
        };
        let file = self.dir.locate(id)?;
        let lock = lock_file(&*self.dir.disk, &file.path, wait)?;
        let len = lock.file().state().map_err(io_error("inspect", &file.path))?.len;
        let own_id = self.dir.names_at(&file.path)?.map(|names| names.id).unwrap_or_default();
        let (dir, writers) = (self.dir.clone(), self.writers.clone());
        let access = WriteAccess::ReplaceOnly { _held: lock, len, id: own_id.into(), needs };
        Ok(Box::new(FileWriter { dir, writers, at: id.clone(), file, access }))
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        id.check_live()?;
        self.prepare_for(id)?;
        self.prefetch_keys(id, how.keys)?;
        if !id.id.is_empty() {
            return self.lease_live(id, IfMissing::Refuse, how.wait)?.append(records, how);
        }
        self.writers.append(&self.dir, &(id.space, id.key.clone()), new, records, how)
    }

    fn prefetch_keys(&self, id: &StreamId, rule: &KeyRule) -> Result<()> {
        if rule.reach != Reach::Whole || !self.dir.may_hold(id) {
            return Ok(());
        }
        let shared = self.writers.keys(&self.dir, &(id.space, id.key.clone()));
        let mut keys = LogKeys::lock(&shared);
        if !keys.is_unread(rule) {
            return Ok(());
        }
        self.writers.bound_keys();
        let path = self.dir.find_live(id.space, &id.key, "")?;
        let reader = match Reader::open(&self.dir.disk, &path) {
            Err(manent_log::Error::NotFound { .. }) => return Ok(()),
            reader => reader?,
        };
        let names = reader.header_line()?.as_deref().and_then(HeaderNames::of_line);
        Ok(keys.read(rule, &names.unwrap_or_default().id.into(), reader)?)
    }

    fn list(&self, filter: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        let StreamFilter { space, place, which, detail, newest: _ } = *filter;
        let is_other_key = matches!(which, Selector::Key(key) if !space.has_key(key));
        if !self.dir.supports(space) || !space.places().contains(&place) || is_other_key {
            return Ok(Vec::new());
        }
        let all = match (which, detail) {
            (Selector::Name(name), _) => self.dir.named(space, place, name)?.into_iter().collect(),
            (Selector::All, ListDetail::Outside) if place == Place::Live => self.dir.live_outside(space)?,
            (Selector::Key(key), ListDetail::Outside) if place == Place::Live => {
                let (path, info) = self.dir.look_for_live(space, key, "")?;
                let info = info.filter(|info| info.shape == Shape::File && info.len > 0);
                let id = StreamId::live_in(space, key);
                info.map(|info| stat(id, &path, info, self.dir.settling())).into_iter().collect()
            }
            _ if place == Place::Live => self.dir.live(space, which)?,
            _ => self.dir.put_away(place, which)?,
        };
        Ok(filter.arrange(all))
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes> {
        if !self.dir.supports(space) {
            return Ok(Changes::default());
        }
        // Taken out for the time of the look, so that nobody waits for it. Whoever looks at the same time looks at
        // everything, and the state of the last of them stays.
        let mut state = lock(&self.watched).remove(&space).unwrap_or_default();
        let changes = self.changes_since(space, known, since, &mut state);
        lock(&self.watched).insert(space, state);
        changes
    }

    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()> {
        self.prepare_for(id)?;
        moves::create(&self.dir, id, header, parts)
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        if to == Place::Live {
            self.prepare(id.space)?;
        }
        moves::relocate(&self.dir, id, to, wait)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        moves::delete(&self.dir, id, wait)
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        let path = self.dir.locate(id)?.path;
        let file = self.dir.disk.open(&path, Access::Read).map_err(io_error("open", &path))?;
        file.sync().map_err(io_error("sync", &path))?;
        self.dir.sync_dir(path.parent().unwrap_or(&self.dir.layout.sessions))
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        let (LockName::Moves(space) | LockName::Named(space, _)) = name;
        self.prepare(space)?;
        Ok(match name {
            LockName::Moves(space) => Box::new(self.dir.lock_moves(space, mode, wait)?),
            LockName::Named(space, name) => {
                let path = self.dir.layout.dir(space, Place::Live).join(name);
                Box::new(NamedLock::take(&self.dir.disk, &path, mode, wait)?)
            }
        })
    }

    fn is_trustworthy(&self, id: &StreamId) -> Result<bool> {
        let path = self.dir.find_live(id.space, &id.key, "")?;
        let info = self.dir.file_at(&path)?;
        Ok(info.is_none_or(|info| {
            info.shape == Shape::File && self.dir.disk.is_own(info.owner) && info.mode & 0o022 == 0
        }))
    }

    /// Searches the bytes of the file as they are, without reading records. That is many times faster, for a caller
    /// that seldom finds what it looks for.
    fn may_contain(&self, id: &StreamId, bytes: &[u8]) -> Result<bool> {
        let (path, found) = self.dir.look_for_live(id.space, &id.key, "")?;
        let Some(info) = found else { return Ok(false) };
        let file = match self.dir.disk.open(&path, Access::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(io_error("open", &path))?,
        };
        let finder = Finder::new(bytes);
        let mut block = vec![0; BLOCK_BYTES.min(info.len as usize) + bytes.len()];
        // The end of the block before: the bytes may begin there.
        let mut carried = 0;
        let mut offset = 0;
        loop {
            let read = read_fully(&*file, &mut block[carried..], offset).map_err(io_error("read", &path))?;
            let filled = carried + read;
            if finder.find(&block[..filled]).is_some() {
                return Ok(true);
            }
            if filled < block.len() {
                return Ok(false);
            }
            offset += read as u64;
            let from = filled - bytes.len().saturating_sub(1);
            block.copy_within(from..filled, 0);
            carried = filled - from;
        }
    }

    fn path(&self, id: &StreamId) -> Option<PathBuf> {
        Some(self.live_path_in(id.space, &id.key))
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

impl Maintenance for Files {
    fn verify(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<VerifyReport> {
        let StreamFile { path, form } = self.dir.locate(id)?;
        let all = self.dir.file_at(&path)?.map_or(0, |info| info.len);
        let mut report =
            manent_log::verify_reader(self.dir.reader(&path)?, |offset| progress(offset, all.max(offset)))?;
        if form == FileForm::Packed {
            let file = self.dir.disk.open(&path, Access::Read).map_err(io_error("read", &path))?;
            if !pack::has_sound_table(&*file).map_err(io_error("read", &path))? {
                let damage =
                    Damage { offset: 0, length: 0, reason: DamageReason::ArchiveTable, lines: 0, seq: 0 };
                report.damage.insert(0, DamageFinding { damage, acknowledged: false });
            }
        }
        Ok(report)
    }

    fn repair(&self, id: &StreamId, ts: &str, wait: Duration) -> Result<Repaired> {
        let path = self.dir.find_live(id.space, &id.key, "")?;
        self.dir.check_key(&id.key, &path)?;
        let report = manent_log::verify(&self.dir.disk, &path)?;
        // A sound stream is not even opened for writing. One with bytes in flight is: its writer decides what they
        // are.
        if report.is_sound() && report.tail == TailState::Clean {
            return Ok(Repaired::default());
        }
        self.prepare(id.space)?;
        let mut writer = self.lease_live(id, IfMissing::Refuse, wait)?;
        let acknowledged = writer.acknowledge(ts)?;
        Ok(Repaired { set_aside: writer.set_aside().cloned(), acknowledged })
    }

    fn pack(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<()> {
        moves::condense(&self.dir, id, progress)
    }

    fn was_set_aside(&self, id: &StreamId, position: Position, seq: u64, since: ScanTime) -> Result<bool> {
        moves::is_set_aside(&self.dir, id, position.raw(), seq, since)
    }

    fn obstructed(&self, space: Space) -> Result<Vec<SessionKey>> {
        if !matches!(space, Space::Sessions | Space::Runs) {
            return Ok(Vec::new());
        }
        let dir = self.dir.layout.dir(space, Place::Live);
        let mut keys = Vec::new();
        for entry in self.dir.entries(dir)?.into_iter().filter(|entry| entry.shape != Shape::File) {
            let key = entry.name.to_str().and_then(SessionKey::of_file_name);
            // Where the key leads to another file, this one is in nobody's place.
            if let Some(key) = key
                && self.dir.find_live(space, &key, "")? == dir.join(&entry.name)
            {
                keys.push(key);
            }
        }
        Ok(keys)
    }
}

/// The suffix that another program puts behind the name of a file that it archived.
const MARK: &str = ".archived";
/// Half of what many systems allow a process, so that the program has some left for itself.
const OPEN_FILES_MAX: usize = 256;
const LOOKS_MAX: u32 = 8;
/// The size of a block that fits into the cache of a processor, so that it is searched where it was just read to.
const BLOCK_BYTES: usize = 256 << 10;
