//! The files of an index.
//!
//! ```text
//! catalogue        which segments count, and a row for every session; replaced as a whole
//! <uuid>.words     a segment; never changed
//! news             sessions that were written recently, in large stores
//! leaving          sessions that are being purged
//! lock             held by the process that writes the index, for one write at a time
//! ```
//!
//! The lock of the directory itself is held by the process that builds much of the index.
//!
//! A segment is valid as soon as the catalogue names it. Segments that the catalogue does not name are left from a
//! process that died, and the next write removes them.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent_log::Durability;
use manent_store::{Blob, Blobs, Lock, SessionKey, Version};

use crate::catalogue::missing::PendingPurge;
use crate::catalogue::{self, CatalogueFile, CatalogueHead, Row, SegmentFile};
use crate::error::{Error, IndexResult, Result, broken};
use crate::pages::{self, Pages};
use crate::segment::Segment;

/// The folder of blobs in which an index is stored.
#[derive(Debug, Clone)]
pub struct IndexDir {
    blobs: Arc<dyn Blobs>,
    folder: String,
}

/// Tells one catalogue from the next, as long as the catalogue is held open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edition {
    version: Version,
    bytes: u64,
    /// The time at which it was written, in milliseconds since 1970.
    pub(crate) written_ms: i64,
}

impl IndexDir {
    /// Names a folder of blobs for an index.
    pub fn new(blobs: Arc<dyn Blobs>, folder: impl Into<String>) -> IndexDir {
        IndexDir { blobs, folder: folder.into() }
    }

    /// Returns the directory, for people; `None` where the index is not in files.
    pub(crate) fn dir(&self) -> Option<PathBuf> {
        self.blobs.path(&self.folder)
    }

    fn name(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    /// Returns the edition of the catalogue on the disk.
    pub(crate) fn edition(&self) -> Option<Edition> {
        let stat = self.blobs.stat(&self.name(CATALOGUE)).ok()??;
        Some(Edition { version: stat.version, bytes: stat.bytes, written_ms: stat.modified_ms })
    }

    /// Returns the edition and the open catalogue: while that is open, its file number is not used for another one.
    pub(crate) fn hold_edition(&self) -> (Option<Edition>, Option<Arc<dyn Blob>>) {
        let blob = self.blobs.open(&self.name(CATALOGUE)).ok().flatten();
        let blob: Option<Arc<dyn Blob>> = blob.map(Arc::from);
        let held = blob.as_ref().map(|blob| blob.version());
        let is_held = |edition: &Edition| held.is_none_or(|held| held == edition.version);
        (self.edition().filter(is_held), blob)
    }

    /// Returns the length of the catalogue in bytes, or 0 if there is none.
    pub(crate) fn catalogue_bytes(&self) -> u64 {
        self.edition().map_or(0, |edition| edition.bytes)
    }

    /// Reads the JSON lines of a blob, without those that are not valid, and returns the length that was read.
    fn lines<T: serde::de::DeserializeOwned>(&self, name: &str) -> IndexResult<(Vec<T>, u64)> {
        let Some(blob) = self.blobs.open(&self.name(name))? else { return Ok((Vec::new(), 0)) };
        let mut bytes = vec![0; blob.len().min(LINES_BYTES_MAX) as usize];
        pages::fill(&*blob, &mut bytes, 0)?;
        let lines = bytes.split(|byte| *byte == b'\n');
        Ok((lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(), bytes.len() as u64))
    }

    /// Returns the length of a blob in bytes, or 0 if there is none.
    fn lines_bytes(&self, name: &str) -> u64 {
        self.blobs.stat(&self.name(name)).ok().flatten().map_or(0, |stat| stat.bytes)
    }

    /// Appends a line to the list of recently written sessions.
    pub(crate) fn add_recent(&self, line: &[u8]) -> io::Result<()> {
        self.blobs.append(&self.name(RECENT), line, Durability::Flush)
    }

    /// Returns the sessions that were written since all streams were last compared, each once.
    pub(crate) fn recent(&self) -> IndexResult<Vec<SessionKey>> {
        let (keys, _) = self.lines::<String>(RECENT)?;
        let mut seen = HashSet::new();
        let keys = keys.into_iter().filter_map(|key| SessionKey::new(key).ok());
        Ok(keys.filter(|key| seen.insert(key.clone())).collect())
    }

    /// Returns the length of the list of recently written sessions in bytes.
    pub(crate) fn written_log_bytes(&self) -> u64 {
        self.lines_bytes(RECENT)
    }

    /// Removes the list of recently written sessions if it still has this length: all streams were compared since.
    pub(crate) fn drop_recent(&self, bytes: u64) {
        if bytes > 0 && self.written_log_bytes() == bytes {
            let _ = self.remove(RECENT);
        }
    }

    /// Notes sessions that are going to be purged, durably: if the purge is cut off, nobody takes them for lost.
    pub(crate) fn add_purges(&self, purges: &[PendingPurge]) -> io::Result<()> {
        // Without a catalogue, nobody knows of them.
        if self.edition().is_none() || !self.is_ours()? {
            return Ok(());
        }
        let mut lines = Vec::new();
        for purge in purges {
            serde_json::to_writer(&mut lines, purge)?;
            lines.push(b'\n');
        }
        self.blobs.append(&self.name(PURGES), &lines, Durability::Sync)?;
        self.blobs.sync(&self.folder)
    }

    /// Returns the sessions that are being purged.
    pub(crate) fn purges(&self) -> Vec<PendingPurge> {
        self.lines(PURGES).map(|(purges, _)| purges).unwrap_or_default()
    }

    /// Removes the list of pending purges once the catalogue has a row of none of them.
    pub(crate) fn drop_purges(&self, rows: &[Arc<Row>]) {
        let Ok((purges, bytes)) = self.lines::<PendingPurge>(PURGES) else { return };
        let is_known = |purge: &PendingPurge| rows.iter().any(|row| purge.is_row(row));
        if bytes > 0 && !purges.iter().any(is_known) && self.lines_bytes(PURGES) == bytes {
            let _ = self.remove(PURGES);
        }
    }

    /// Returns true if no other user can write the folder, so that its contents can be trusted.
    pub(crate) fn is_ours(&self) -> io::Result<bool> {
        self.blobs.is_trustworthy(&self.folder)
    }

    /// Opens the catalogue; `None` if there is none.
    pub(crate) fn catalogue(&self) -> IndexResult<Option<(CatalogueHead, CatalogueFile)>> {
        match self.is_ours() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
            Ok(false) => return Err(broken("others can write it")),
            Ok(true) => {}
        }
        match self.blobs.open(&self.name(CATALOGUE))? {
            None => Ok(None),
            Some(blob) => catalogue::decode(Pages::open(blob)?).map(Some),
        }
    }

    pub(crate) fn segment(&self, named: &SegmentFile) -> IndexResult<Segment> {
        // A name is a file beside the catalogue and nothing else.
        if named.name.contains(['/', '\0']) || !named.name.ends_with(SEGMENT) {
            return Err(broken("a segment has no name"));
        }
        match self.blobs.open(&self.name(&named.name))? {
            None => Err(io::Error::from(io::ErrorKind::NotFound).into()),
            Some(blob) => Segment::open(Pages::open(blob)?),
        }
    }

    /// Takes the right to write the index, until the lock is dropped; `None` if another process has it for as long as
    /// that.
    pub(crate) fn write(&self, wait: Duration) -> io::Result<Option<Lock>> {
        let lock = self.blobs.lock(&self.folder, LOCK, wait)?;
        if !self.is_ours()? {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can write the directory"));
        }
        Ok(lock)
    }

    /// Takes the lock of the process that builds much of the index, which keeps nobody from writing; `None` if another
    /// process has it for as long as that.
    pub(crate) fn lock_build(&self, wait: Duration) -> io::Result<Option<Lock>> {
        self.blobs.lock(&self.folder, "", wait)
    }

    /// Waits until no process writes the index. Returns false if that takes longer than `wait`. Creates nothing.
    pub(crate) fn wait_for_writer(&self, wait: Duration) -> io::Result<bool> {
        self.blobs.wait_for(&self.folder, LOCK, wait)
    }

    /// Puts a segment on the disk. It counts when a catalogue names it. The bytes are sealed for it, and are as they
    /// were afterwards.
    pub(crate) fn put_segment(&self, bytes: &mut Vec<u8>) -> io::Result<SegmentFile> {
        let name = format!("{}{SEGMENT}", uuid::Uuid::now_v7().simple());
        let len = bytes.len();
        let put = self.put(&name, bytes);
        bytes.truncate(len);
        put.map(|()| SegmentFile { name, bytes: len as u64 })
    }

    /// Replaces the catalogue, and removes what the new one does not name.
    pub(crate) fn put_catalogue(&self, mut bytes: Vec<u8>, segments: &[SegmentFile]) -> io::Result<()> {
        self.put(CATALOGUE, &mut bytes)?;
        self.tidy(segments)?;
        self.blobs.sync(&self.folder)
    }

    fn put(&self, name: &str, bytes: &mut Vec<u8>) -> io::Result<()> {
        pages::seal(bytes);
        self.blobs.put(&self.name(name), bytes)
    }

    /// Removes the files of interrupted writes, except those that `segments` names.
    pub(crate) fn tidy(&self, segments: &[SegmentFile]) -> io::Result<()> {
        self.strays(segments)?.iter().try_for_each(|name| self.remove(name))
    }

    /// Lists files of ours that the catalogue does not name: a process is writing them, or died while writing them.
    pub(crate) fn strays(&self, segments: &[SegmentFile]) -> io::Result<Vec<String>> {
        let is_stray = |name: &String| {
            let ours = name.ends_with(SEGMENT) || name.ends_with(UNFINISHED);
            ours && !segments.iter().any(|segment| segment.name == *name)
        };
        Ok(self.blobs.list(&self.folder)?.into_iter().filter(is_stray).collect())
    }

    /// Returns the names of all files.
    pub(crate) fn names(&self) -> io::Result<HashSet<String>> {
        Ok(self.blobs.list(&self.folder)?.into_iter().collect())
    }

    /// Returns true if there is nothing but the lock.
    pub(crate) fn is_empty(&self) -> Result<bool> {
        let names = self.blobs.list(&self.folder).map_err(|e| Error::Index(e.to_string()))?;
        Ok(names.iter().all(|name| name == LOCK))
    }

    /// Makes removals durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.blobs.sync(&self.folder)
    }

    /// Removes everything but the lock.
    pub(crate) fn clear(&self) -> io::Result<()> {
        // First the catalogue: segments without one count for nothing.
        self.remove(CATALOGUE)?;
        self.remove(RECENT)?;
        self.remove(PURGES)?;
        self.tidy(&[])?;
        self.blobs.sync(&self.folder)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.blobs.delete(&self.name(name))
    }
}

const CATALOGUE: &str = "catalogue";
const LOCK: &str = "lock";
const RECENT: &str = "news";
const PURGES: &str = "leaving";
/// The number of bytes that are read of a blob of lines.
const LINES_BYTES_MAX: u64 = 1024 * 1024;
const SEGMENT: &str = ".words";
/// The suffix of the files that an interrupted [`Blobs::put`] leaves.
const UNFINISHED: &str = ".tmp";
