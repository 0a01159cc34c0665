//! The default backend: one plain JSONL file for each session, in a directory.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | which file is meant; reading |
//! | `lists.rs` | what is there |
//! | `dirs.rs` | the directories: made, checked, and made durable |
//! | `mention.rs` | whether a word stands in a file |
//! | `streams.rs` | one file being written, one being read |
//! | `names.rs` | directories and file names |
//! | `writers.rs` | appending through a bounded number of open files |
//! | `moves.rs` | archive, trash, restore, delete: what changes where a session is |
//! | `forms.rs` | what changes the form of a file: packing, unpacking, forks, copies |
//! | `hold.rs` | the locks that both take |

mod dirs;
mod forms;
mod hold;
mod lists;
mod mention;
mod moves;
mod names;
mod streams;
mod survey;
mod writers;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use manent_log::frame::Reason;
use manent_log::fs::{Access, Disk, PathInfo, Settling};
use manent_log::{Body, Entry, Found, Log, Options, Reader, RealDisk, Report, TailState, Trust};

use crate::backend::{
    Address, Backend, Exclusive, Header, Lease, Listed, NewHeader, Place, Position, Progress, Receipt,
    Records, Repaired, Room, Shelf, Sight, Start, Survey, Terms, Watching, Which,
};
use crate::error::{Among, Error, Result, io_error};
use crate::key::SessionKey;
use crate::meta::Meta;
use crate::pack::{self, Unpacking};
use crate::reading::break_at;
use crate::turn::is_turn;
use hold::{STORE_WAIT_MIN, StoreLock};
pub(crate) use names::is_plain_id;
use names::{BESIDE, Form, Layout};
use streams::{FileLease, FileRecords};
use writers::Writers;

/// Sessions as files in a directory.
#[derive(Debug)]
pub struct Files {
    disk: Arc<dyn Disk>,
    /// The same disk, on which packed files read as what they hold.
    reading: Arc<dyn Disk>,
    layout: Layout,
    trust: Trust,
    /// The directories were checked, and their names made durable. Once for each store that is opened.
    prepared: AtomicBool,
    writers: Writers,
    /// A file was seen that has other names too: whoever writes it under one of those is not heard.
    has_linked: AtomicBool,
    /// How long the lock of the store is waited for at least.
    store_wait_min: Duration,
}

/// A file that exists.
#[derive(Debug, Clone)]
struct Spot {
    path: PathBuf,
    form: Form,
}

impl Files {
    /// The files in a directory of this machine. Nothing is created before something is written.
    pub fn open(home: impl Into<PathBuf>) -> Result<Files> {
        Files::open_on(RealDisk::shared(), home.into())
    }

    /// As [`Files::open`], on any disk.
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
                    let file = name.strip_suffix(".archived").unwrap_or(name);
                    let is_session = SessionKey::of_file_name(file).is_some() && !BESIDE.contains(&name);
                    is_session || matches!(name, "archive" | "trash")
                }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => false,
                Err(e) => return Err(io_error("open the store", &home)(e)),
            },
        };
        Ok(Files::laid_out(disk, Layout::new(home, flat)))
    }

    /// Files that lie in the directory itself, whatever else is there.
    pub(crate) fn flat_on(disk: Arc<dyn Disk>, dir: PathBuf) -> Files {
        Files::laid_out(disk, Layout::new(dir, true))
    }

    fn laid_out(disk: Arc<dyn Disk>, layout: Layout) -> Files {
        Files {
            reading: Arc::new(Unpacking(disk.clone())),
            disk,
            layout,
            trust: Trust::LocalOnly,
            prepared: AtomicBool::new(false),
            writers: Writers::new(OPEN_FILES_MAX),
            has_linked: AtomicBool::new(false),
            store_wait_min: STORE_WAIT_MIN,
        }
    }

    /// Which file systems to trust.
    #[must_use]
    pub fn trusting(mut self, trust: Trust) -> Files {
        self.trust = trust;
        self
    }

    /// How many files [`Backend::append`] keeps open, at most.
    #[must_use]
    pub fn keeping_open(mut self, files: usize) -> Files {
        self.writers = Writers::new(files.max(1));
        self
    }

    /// For tests in which one thread plays all processes, so that nothing changes while it waits: how long somebody who
    /// moves sessions is waited for at least.
    #[doc(hidden)]
    #[must_use]
    pub fn waiting_for_movers(mut self, at_least: Duration) -> Files {
        self.store_wait_min = at_least;
        self
    }

    /// The directory of the store.
    pub fn home(&self) -> &Path {
        &self.layout.home
    }

    /// The file of a live session, whether it exists or not.
    pub fn live_path(&self, key: &SessionKey) -> PathBuf {
        self.find_live(key, "").unwrap_or_else(|_| self.layout.sessions.join(key.file_name()))
    }

    /// As [`Files::live_path`]; an error where the disk does not say what is there. To guess would begin a second
    /// session of the key beside the first.
    fn find_live(&self, key: &SessionKey, mark: &str) -> Result<PathBuf> {
        Ok(self.look_for_live(key, mark)?.0)
    }

    /// As [`Files::find_live`], with what is there.
    fn look_for_live(&self, key: &SessionKey, mark: &str) -> Result<(PathBuf, Option<PathInfo>)> {
        let named = |name: String| self.layout.sessions.join(name + mark);
        let canonical = named(key.file_name());
        let found = self.file_at(&canonical)?;
        if found.is_some_and(|info| info.len > 0) {
            return Ok((canonical, found));
        }
        // Another program may have used the key as the file's name, as it is.
        let plain = key.plain_file_name().filter(|name| SessionKey::of_file_name(name).as_ref() == Some(key));
        let plain = plain.map(named).filter(|path| *path != canonical);
        if let Some(plain) = plain
            && let Some(info) = self.file_at(&plain)?
        {
            return Ok((plain, Some(info)));
        }
        Ok((canonical, found))
    }

    /// The file that an address leads to.
    fn locate(&self, at: &Address) -> Result<Spot> {
        let mut candidates = Vec::with_capacity(3);
        match (at.place, at.id.as_str()) {
            (Place::Live, id) => {
                let path = self.find_live(&at.key, "")?;
                // The session that is meant may have been put away, and another of its key begun.
                if id.is_empty() || self.id_at(&path)? == id {
                    candidates.push((path, Form::Plain));
                }
            }
            (Place::Archive, "") => {
                candidates.push((self.find_live(&at.key, MARK)?, Form::Marked));
            }
            (place, _) => {
                for kept in self.kept_in(place, Which::Id(&at.id))? {
                    if kept.id == at.id && self.key_of(&kept, place).as_ref() == Some(&at.key) {
                        candidates.push((self.layout.dir(place).join(kept.name()), kept.form));
                    }
                }
                // Where both are there, packing was interrupted, and the plain one is whole.
                candidates.sort_by_key(|(_, form)| *form != Form::Plain);
            }
        }
        for (path, form) in candidates {
            match self.disk.inspect(&path) {
                Ok(_) => return Ok(Spot { path, form }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("inspect", &path)(e)),
            }
        }
        Err(self.not_found(at))
    }

    fn not_found(&self, at: &Address) -> Error {
        Error::NotFound { name: at.name(), among: Among::Place(at.place), store: self.name() }
    }

    fn meta_at(&self, path: &Path) -> Result<Option<Meta>> {
        meta_of(&Reader::open_small(&self.reading, path)?)
    }

    /// The id in the header of a file; empty if there is none.
    fn id_at(&self, path: &Path) -> Result<String> {
        match self.meta_at(path) {
            Ok(meta) => Ok(meta.map(|meta| meta.id).unwrap_or_default()),
            Err(e) if e.is_not_found() => Ok(String::new()),
            Err(e) => Err(e),
        }
    }

    /// Takes the lease of the live file of a key.
    fn open_log(&self, key: &SessionKey, new: Option<Header>, wait: Duration) -> Result<FileLease> {
        let (id, header) = new.map_or((String::new(), None), |header| (header.id, Some(header.body)));
        let options = Options { header, wait, trust: self.trust, ..Options::default() };
        let (log, path) = loop {
            let path = self.find_live(key, "")?;
            let log = match Log::open(&self.disk, &path, &options) {
                Err(manent_log::Error::NotFound { .. }) if options.header.is_none() => {
                    return Err(self.not_found(&Address::live(key)));
                }
                opened => opened?,
            };
            // While we waited, another program's session of this key may have come back under its own name.
            if !log.is_new() || self.find_live(key, "")? == path {
                break (log, path);
            }
        };
        // Of the file that is held, and without opening it again: what the path leads to is another question.
        let id = match right_key(key, &path, log.header_line().and_then(|entry| Meta::of(&entry)))? {
            Some(meta) => meta.id,
            None if log.is_new() => id,
            None => String::new(),
        };
        Ok(FileLease { log, id: id.into() })
    }

    fn file_at(&self, path: &Path) -> Result<Option<PathInfo>> {
        match self.disk.inspect(path) {
            Ok(info) => Ok(Some(info)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error("inspect", path)(e)),
        }
    }
}

impl Backend for Files {
    fn name(&self) -> String {
        self.layout.home.display().to_string()
    }

    fn lease(&self, key: &SessionKey, new: Option<NewHeader<'_>>, wait: Duration) -> Result<Box<dyn Lease>> {
        self.prepare()?;
        Ok(Box::new(self.open_log(key, new.map(|new| new()), wait)?))
    }

    fn append(
        &self,
        key: &SessionKey,
        new: NewHeader<'_>,
        bodies: &[Body],
        terms: &Terms,
    ) -> Result<Vec<Receipt>> {
        self.prepare()?;
        self.writers.append(self, key, new, bodies, terms)
    }

    fn read(&self, at: &Address, start: Start, until: Option<u64>) -> Result<Box<dyn Records>> {
        let mut tries = 0;
        loop {
            let path = match at.place {
                // Whether it is the one that is meant shows when it is open.
                Place::Live => match self.look_for_live(&at.key, "")? {
                    (path, Some(_)) => path,
                    (_, None) => return Err(self.not_found(at)),
                },
                Place::Archive | Place::Trash => self.locate(at)?.path,
            };
            match self.read_at(&path, at, start, until) {
                // Packed, unpacked, rewritten or moved between our look and our open: look again.
                Err(e) if e.is_not_found() && tries < LOOKS_MAX => tries += 1,
                Ok(None) => return Err(self.not_found(at)),
                Ok(Some(records)) => return Ok(records),
                Err(e) => return Err(e),
            }
        }
    }

    fn list(&self, place: Place, which: Which<'_>) -> Result<Vec<Listed>> {
        self.listed_in(place, which)
    }

    fn recent(&self, count: usize) -> Result<Vec<Listed>> {
        self.live_by_time(count)
    }

    fn obstructed(&self) -> Result<Vec<SessionKey>> {
        self.obstructed_keys()
    }

    fn survey(&self, seen: &[(Place, &str)], note: &[u64]) -> Result<Survey> {
        self.survey_all(seen, note)
    }

    fn settling(&self) -> Settling {
        self.settling_now()
    }

    fn identify(&self, sight: &Sight) -> Result<Option<Listed>> {
        self.identify_seen(sight)
    }

    fn sight(&self, key: &SessionKey) -> Result<Option<Sight>> {
        self.live_sight(key)
    }

    fn line(&self, place: Place, name: &str, position: Position) -> Result<Option<Vec<u8>>> {
        self.line_of(place, name, position)
    }

    fn watch(&self) -> Option<Box<dyn Watching>> {
        self.watch_all()
    }

    fn shelf(&self) -> Option<Shelf> {
        self.own_shelf()
    }

    fn room(&self) -> Option<Room> {
        // A flat store is a directory of another program's: what we put there would be a session of that program.
        let own = self.layout.sessions != self.layout.home;
        own.then(|| Room { disk: self.disk.clone(), dir: self.layout.home.clone(), trust: self.trust })
    }

    fn make_room(&self) -> Result<()> {
        self.prepare()
    }

    fn exclusive(&self, wait: Duration) -> Result<Box<dyn Exclusive>> {
        self.prepare()?;
        Ok(Box::new(StoreLock::take(self, wait)?))
    }

    fn create(
        &self,
        key: &SessionKey,
        header: &Header,
        records: &mut dyn Iterator<Item = Result<Body>>,
    ) -> Result<()> {
        self.prepare()?;
        forms::create(self, key, header, records)
    }

    fn relocate(&self, at: &Address, to: Place, wait: Duration) -> Result<Address> {
        moves::relocate(self, at, to, wait)
    }

    fn condense(&self, at: &Address, progress: Progress<'_>) -> Result<()> {
        forms::condense(self, at, progress)
    }

    fn absorb(
        &self,
        fork: &Address,
        header: &Body,
        parent: &Address,
        upto: u64,
        wait: Duration,
    ) -> Result<()> {
        forms::absorb(self, fork, header, parent, upto, wait)
    }

    fn is_set_aside(&self, at: &Address, position: Position, seq: u64, since_ns: i64) -> Result<bool> {
        moves::is_set_aside(self, at, position.raw(), seq, since_ns)
    }

    fn delete(&self, at: &Address, wait: Duration) -> Result<()> {
        moves::delete(self, at, wait)
    }

    fn settle(&self, at: &Address) -> Result<()> {
        let path = self.locate(at)?.path;
        let file = self.disk.open(&path, Access::Read).map_err(io_error("open", &path))?;
        file.sync().map_err(io_error("sync", &path))?;
        self.sync_dir(path.parent().unwrap_or(&self.layout.sessions))
    }

    fn verify(&self, at: &Address, progress: Progress<'_>) -> Result<Report> {
        let Spot { path, form } = self.locate(at)?;
        let all = self.file_at(&path)?.map_or(0, |info| info.len);
        let mut report =
            manent_log::verify_with(&self.reading, &path, |offset| progress(offset, all.max(offset)))?;
        if form == Form::Packed {
            let file = self.disk.open(&path, Access::Read).map_err(io_error("read", &path))?;
            if !pack::has_sound_table(&*file).map_err(io_error("read", &path))? {
                let damage = break_at(0, Reason::ArchiveTable);
                report.damage.insert(0, Found { damage, acknowledged: false });
            }
        }
        Ok(report)
    }

    fn repair(&self, key: &SessionKey, ts: &str, wait: Duration) -> Result<Repaired> {
        let path = self.find_live(key, "")?;
        self.check_key(key, &path)?;
        let report = manent_log::verify(&self.disk, &path)?;
        // A sound session is not even opened for writing. One with bytes in flight is: its writer decides what they
        // are.
        if report.is_sound() && report.tail == TailState::Clean {
            return Ok(Repaired::default());
        }
        self.prepare()?;
        let mut lease = self.open_log(key, None, wait)?;
        let acknowledged = manent_log::acknowledge_gaps(&mut lease.log, ts)?;
        Ok(Repaired { set_aside: lease.log.set_aside().cloned(), acknowledged })
    }
}

impl Files {
    /// Nothing: it is another session than the one that is meant.
    fn read_at(
        &self,
        path: &Path,
        at: &Address,
        start: Start,
        until: Option<u64>,
    ) -> Result<Option<Box<dyn Records>>> {
        let disk = &self.reading;
        let (mut reader, missing) = match start {
            Start::Header => (Reader::open_small(disk, path)?, 0),
            Start::First => (Reader::open(disk, path)?, 0),
            Start::Seq(seq) => (Reader::open_from(disk, path, seq)?, 0),
            Start::At { position, seq } => (Reader::open_at(disk, path, position.raw(), seq)?, 0),
            Start::Tail { count, before } => Reader::open_last(disk, path, before, count, is_turn)?,
        };
        // Through the same open file: the header of one and the records of another would mix two sessions, or a fork's
        // with its parent's.
        let meta = meta_of(&reader)?;
        // The session that is meant may have been put away, and another of its key begun.
        let id = meta.as_ref().map_or("", |meta| &meta.id);
        if at.place == Place::Live && !at.id.is_empty() && id != at.id {
            return Ok(None);
        }
        let meta = right_key(&at.key, path, meta)?;
        if let Some(seq) = until {
            reader.end_at(seq);
        }
        let from_seq = if let Start::Seq(seq) = start { seq } else { 0 };
        Ok(Some(Box::new(FileRecords { reader, meta, missing, from_seq })))
    }
}

/// What the header of a log says. Of another program's file, which has none, one line is read and no more.
fn meta_of(reader: &Reader) -> Result<Option<Meta>> {
    let header = reader.header_line()?;
    Ok(header.and_then(|line| Meta::of(&Entry { seq: 0, offset: 0, bytes: &line, verified: true })))
}

/// Refuses a file whose header names another session.
fn right_key(key: &SessionKey, path: &Path, meta: Option<Meta>) -> Result<Option<Meta>> {
    match meta {
        Some(meta) if meta.key != key.as_str() && !meta.key.is_empty() => {
            Err(Error::WrongKey { path: path.to_owned(), key: key.to_string(), found: meta.key })
        }
        other => Ok(other),
    }
}

/// What another program puts behind the name of a file that it archived.
const MARK: &str = ".archived";
/// Half of what many systems allow a process, so that the program has some left for itself.
const OPEN_FILES_MAX: usize = 256;
const LOOKS_MAX: u32 = 8;
