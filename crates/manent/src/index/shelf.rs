//! The files of the index on a disk.
//!
//! ```text
//! catalogue        which segments count, and a row for every session; replaced as a whole
//! <uuid>.words     a segment; never changed
//! news             who was written since, in large stores
//! leaving          sessions that are being purged
//! lock             held by whoever writes here, for as long as that lives
//! ```
//!
//! A segment counts as soon as a catalogue that names it is there. What no catalogue names is left from somebody who
//! died, and goes with the next write.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Access, DiskFile, FileId, Shape, read_fully, write_fully};
use manent_log::{AtomicFile, CommitSync, FileLock, LockMode};

use crate::backend::Shelf;
use crate::error::{Error, Result};
use crate::key::SessionKey;

use super::catalogue::{self, Head, Named, Row};
use super::damage::{Read, broken};
use super::gone::Leaving;
use super::pages::{self, Pages};
use super::rows::Filed;
use super::segment::Segment;

/// Where an index is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    shelf: Shelf,
}

/// Tells one catalogue file from the next, as long as the file is held open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edition {
    file: FileId,
    bytes: u64,
    changed_ns: i64,
}

impl Edition {
    /// When it was written, in milliseconds since 1970.
    pub(crate) fn written_ms(self) -> i64 {
        self.changed_ns / 1_000_000
    }
}

/// The right to write the index, until it is dropped.
#[derive(Debug)]
pub(crate) struct Writing {
    _lock: FileLock,
}

impl Kept {
    pub(crate) fn new(shelf: Shelf) -> Kept {
        Kept { shelf }
    }

    pub(crate) fn dir(&self) -> &std::path::Path {
        &self.shelf.dir
    }

    fn path(&self, name: &str) -> PathBuf {
        self.shelf.dir.join(name)
    }

    /// Which catalogue is there.
    pub(crate) fn edition(&self) -> Option<Edition> {
        let info = self.shelf.disk.inspect(&self.path(CATALOGUE)).ok()?;
        Some(Edition { file: info.id, bytes: info.len, changed_ns: info.changed_ns })
    }

    /// As [`Kept::edition`], with the file held open: until it is closed, no other file gets its number, and no other
    /// catalogue can be taken for this one, however coarse the time stamps are.
    pub(crate) fn hold_edition(&self) -> (Option<Edition>, Option<Box<dyn DiskFile>>) {
        let file = self.shelf.disk.open(&self.path(CATALOGUE), Access::Read).ok();
        let held = file.as_ref().and_then(|file| file.id().ok());
        let is_held = |edition: &Edition| held.is_none_or(|held| held == edition.file);
        (self.edition().filter(is_held), file)
    }

    /// How long the catalogue is; 0 if there is none.
    pub(crate) fn catalogue_bytes(&self) -> u64 {
        self.edition().map_or(0, |edition| edition.bytes)
    }

    /// Adds lines to the news or to what is leaving.
    fn add_lines(&self, name: &str, lines: &[u8]) -> io::Result<Box<dyn DiskFile>> {
        let path = self.path(name);
        let file = match self.shelf.disk.open(&path, Access::Append) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.shelf.disk.open(&path, Access::CreateNew)?
            }
            opened => opened?,
        };
        write_fully(&*file, lines).map_err(|(_, e)| e)?;
        Ok(file)
    }

    /// The lines of such a file, as far as they can be read, and their length.
    fn lines<T: serde::de::DeserializeOwned>(&self, name: &str) -> io::Result<(Vec<T>, u64)> {
        let file = match self.shelf.disk.open(&self.path(name), Access::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            opened => opened?,
        };
        let mut bytes = vec![0; file.state()?.len.min(LINES_BYTES_MAX) as usize];
        let len = read_fully(&*file, &mut bytes, 0)?;
        let lines = bytes[..len].split(|byte| *byte == b'\n');
        Ok((lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(), len as u64))
    }

    /// How long such a file is.
    fn lines_bytes(&self, name: &str) -> u64 {
        self.shelf.disk.inspect(&self.path(name)).map_or(0, |info| info.len)
    }

    /// Adds a line to the news.
    pub(crate) fn add_news(&self, line: &[u8]) -> io::Result<()> {
        self.add_lines(NEWS, line).map(|_| ())
    }

    /// The sessions that were written since everything was last looked at, each once.
    pub(crate) fn news(&self) -> io::Result<Vec<SessionKey>> {
        let (keys, _) = self.lines::<String>(NEWS)?;
        let mut seen = HashSet::new();
        let keys = keys.into_iter().filter_map(|key| SessionKey::new(key).ok());
        Ok(keys.filter(|key| seen.insert(key.clone())).collect())
    }

    /// How long the news are.
    pub(crate) fn news_bytes(&self) -> u64 {
        self.lines_bytes(NEWS)
    }

    /// Removes the news if nothing was added to them: everything was looked at since.
    pub(crate) fn drop_news(&self, bytes: u64) {
        if bytes > 0 && self.news_bytes() == bytes {
            let _ = self.remove(NEWS);
        }
    }

    /// Notes sessions that are going to be purged, durably: if the purge is cut off, nobody takes them for lost.
    pub(crate) fn add_leaving(&self, leaving: &[Leaving]) -> io::Result<()> {
        // Without a catalogue, nobody knows of them.
        if self.edition().is_none() || !self.is_ours()? {
            return Ok(());
        }
        let mut lines = Vec::new();
        for leaving in leaving {
            serde_json::to_writer(&mut lines, leaving)?;
            lines.push(b'\n');
        }
        self.add_lines(LEAVING, &lines)?.sync()?;
        self.shelf.disk.sync_dir(&self.shelf.dir)
    }

    /// The sessions that are being purged.
    pub(crate) fn leaving(&self) -> Vec<Leaving> {
        self.lines(LEAVING).map(|(leaving, _)| leaving).unwrap_or_default()
    }

    /// Forgets them once the catalogue no longer knows any of them.
    pub(crate) fn drop_leaving(&self, rows: &[Arc<Row>]) {
        let Ok((leaving, bytes)) = self.lines::<Leaving>(LEAVING) else { return };
        let is_known = |leaving: &Leaving| rows.iter().any(|row| leaving.is_row(row));
        if bytes > 0 && !leaving.iter().any(is_known) && self.lines_bytes(LEAVING) == bytes {
            let _ = self.remove(LEAVING);
        }
    }

    /// Whether what is there may be believed: a directory of ours that nobody else can write.
    pub(crate) fn is_ours(&self) -> io::Result<bool> {
        let info = self.shelf.disk.inspect(&self.shelf.dir)?;
        Ok(info.shape == Shape::Directory && self.shelf.disk.is_own(info.owner) && info.mode & 0o022 == 0)
    }

    /// Opens the catalogue; nothing if there is none.
    pub(crate) fn catalogue(&self) -> Read<Option<(Head, Filed)>> {
        match self.is_ours() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
            Ok(false) => return Err(broken("others can write it")),
            Ok(true) => {}
        }
        match self.shelf.disk.open(&self.path(CATALOGUE), Access::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e.into()),
            Ok(file) => catalogue::decode(Pages::open(file)?).map(Some),
        }
    }

    pub(crate) fn segment(&self, named: &Named) -> Read<Segment> {
        // A name is a file beside the catalogue and nothing else.
        if named.name.contains(['/', '\0']) || !named.name.ends_with(SEGMENT) {
            return Err(broken("a segment has no name"));
        }
        Segment::open(Pages::open(self.shelf.disk.open(&self.path(&named.name), Access::Read)?)?)
    }

    /// Takes the right to write; nothing if another process has it for as long as that.
    pub(crate) fn write(&self, wait: Duration) -> io::Result<Option<Writing>> {
        self.refuse_others_store()?;
        if let Some(within) = &self.shelf.within {
            self.shelf.disk.inspect(within)?;
        }
        self.shelf.disk.create_dir_all(&self.shelf.dir)?;
        if !self.is_ours()? {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can write the directory"));
        }
        let path = self.path(LOCK);
        match self.shelf.disk.open(&path, Access::CreateNew) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let lock = FileLock::acquire(&*self.shelf.disk, &path, Access::Append, LockMode::Exclusive, wait);
        Ok(unless_held(lock)?.map(|lock| Writing { _lock: lock }))
    }

    /// Waits for whoever is writing. False: that takes longer than we wait. Nothing is made for it.
    pub(crate) fn wait_for_writer(&self, wait: Duration) -> io::Result<bool> {
        let path = self.path(LOCK);
        // Where it is not, or cannot be written, nobody writes.
        let Ok(file) = self.shelf.disk.open(&path, Access::Append) else { return Ok(true) };
        Ok(unless_held(FileLock::acquire_open(file, &path, LockMode::Exclusive, wait))?.is_some())
    }

    /// Refuses to put anything into another user's directory: its owner could never write there again.
    fn refuse_others_store(&self) -> io::Result<()> {
        let Some(above) = self.shelf.dir.parent() else { return Ok(()) };
        let owner = self.shelf.disk.resolve(above).and_then(|above| self.shelf.disk.inspect(&above));
        match owner {
            Ok(info) if !self.shelf.disk.is_own(info.owner) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, "the store belongs to another user"))
            }
            _ => Ok(()),
        }
    }

    /// Puts a segment on the disk. It counts when a catalogue names it. The bytes are sealed for it, and are as they
    /// were afterwards.
    pub(crate) fn put_segment(&self, bytes: &mut Vec<u8>) -> io::Result<Named> {
        let name = format!("{}{SEGMENT}", uuid::Uuid::now_v7().simple());
        let len = bytes.len();
        let put = self.put(&name, bytes);
        bytes.truncate(len);
        put.map(|()| Named { name, bytes: len as u64 })
    }

    /// Replaces the catalogue, and removes what the new one does not name.
    pub(crate) fn put_catalogue(&self, mut bytes: Vec<u8>, segments: &[Named]) -> io::Result<()> {
        let file = AtomicFile::create(&*self.shelf.disk, &self.path(CATALOGUE))?;
        let mut file = file.with_sync(CommitSync::File);
        pages::seal(&mut bytes);
        file.write_all(&bytes)?;
        file.commit()?;
        self.tidy(segments)?;
        self.shelf.disk.sync_dir(&self.shelf.dir)
    }

    fn put(&self, name: &str, bytes: &mut Vec<u8>) -> io::Result<()> {
        let path = self.path(name);
        let file = self.shelf.disk.open(&path, Access::CreateNew)?;
        pages::seal(bytes);
        let written = write_fully(&*file, bytes).map_err(|(_, e)| e);
        let written = written.and_then(|()| file.sync());
        if written.is_err() {
            // What was begun takes room that may be wanted for better.
            let _ = self.shelf.disk.remove(&path);
        }
        written
    }

    /// Removes what is left from others, but for what is named.
    pub(crate) fn tidy(&self, segments: &[Named]) -> io::Result<()> {
        self.strays(segments)?.iter().try_for_each(|name| self.remove(name))
    }

    /// What is there of ours and not named: somebody is writing it, or died while writing it.
    pub(crate) fn strays(&self, segments: &[Named]) -> io::Result<Vec<String>> {
        let names = self.shelf.disk.list(&self.shelf.dir)?.into_iter();
        let is_stray = |name: &String| {
            let ours = name.ends_with(SEGMENT) || name.ends_with(UNFINISHED);
            ours && !segments.iter().any(|segment| segment.name == *name)
        };
        Ok(names.filter_map(|entry| entry.name.into_string().ok()).filter(is_stray).collect())
    }

    /// Whether nothing is there.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        if self.is_link() {
            return Ok(true);
        }
        match self.shelf.disk.list(&self.shelf.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            // Something else of that name, in which nothing of ours can be.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(true),
            Err(e) => Err(Error::Index(e.to_string())),
            Ok(names) => Ok(names.iter().all(|entry| entry.name == LOCK)),
        }
    }

    /// Makes what was removed stay so.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match self.shelf.disk.sync_dir(&self.shelf.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            _ if self.is_link() => Ok(()),
            synced => synced,
        }
    }

    /// A link is not followed: what is behind it was never ours, and stays.
    fn is_link(&self) -> bool {
        self.shelf.disk.inspect(&self.shelf.dir).is_ok_and(|info| info.shape == Shape::Link)
    }

    /// Removes everything but the lock.
    pub(crate) fn clear(&self) -> io::Result<()> {
        if self.is_link() {
            return Ok(());
        }
        // First the catalogue: segments without one count for nothing.
        self.remove(CATALOGUE)?;
        self.remove(NEWS)?;
        self.remove(LEAVING)?;
        match self.tidy(&[]) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
            Ok(()) => self.shelf.disk.sync_dir(&self.shelf.dir),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.shelf.disk.remove(&self.path(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// Returns `None` for a lock that somebody else held for as long as it was waited for.
fn unless_held(lock: manent_log::Result<FileLock>) -> io::Result<Option<FileLock>> {
    match lock {
        Err(manent_log::Error::Held { .. }) => Ok(None),
        lock => Ok(Some(lock?)),
    }
}

const CATALOGUE: &str = "catalogue";
const LOCK: &str = "lock";
const NEWS: &str = "news";
const LEAVING: &str = "leaving";
/// Nobody reads more of news or of what is leaving.
const LINES_BYTES_MAX: u64 = 1024 * 1024;
const SEGMENT: &str = ".words";
const UNFINISHED: &str = ".tmp";
