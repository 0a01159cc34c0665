//! Blobs that are kept in memory: for tests, and for stores that keep nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::Durability;

use crate::blobs::{Blob, BlobStat, Blobs};
use crate::streams::{Lock, LockMode, Version, now_ms};
use crate::sync::lock;
use crate::thread_locks::ThreadLocks;

/// Blobs that are gone with the last `Arc` of this.
#[derive(Default)]
pub struct InMemoryBlobs {
    state: Mutex<State>,
    locks: Arc<ThreadLocks>,
}

#[derive(Default)]
struct State {
    folders: BTreeSet<String>,
    blobs: BTreeMap<String, MemoryBlob>,
    /// How many blobs were put or appended to.
    changes: u64,
}

/// One state of a blob.
#[derive(Clone)]
struct MemoryBlob {
    bytes: Arc<[u8]>,
    version: Version,
    modified_ms: i64,
}

impl InMemoryBlobs {
    /// Makes an empty place for blobs.
    pub fn new() -> InMemoryBlobs {
        InMemoryBlobs::default()
    }
}

impl State {
    fn set(&mut self, name: &str, bytes: Arc<[u8]>) -> io::Result<()> {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !self.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.changes += 1;
        let version = Version::new([self.changes, 0, 0, 0, 0]);
        self.blobs.insert(name.to_owned(), MemoryBlob { bytes, version, modified_ms: now_ms() });
        Ok(())
    }
}

impl Blobs for InMemoryBlobs {
    fn name(&self, folder: &str) -> String {
        format!("memory/{folder}")
    }

    fn open(&self, name: &str) -> io::Result<Option<Box<dyn Blob>>> {
        Ok(lock(&self.state).blobs.get(name).map(|blob| Box::new(blob.clone()) as Box<dyn Blob>))
    }

    fn stat(&self, name: &str) -> io::Result<Option<BlobStat>> {
        let stat = |blob: &MemoryBlob| BlobStat {
            version: blob.version,
            bytes: blob.len(),
            modified_ms: blob.modified_ms,
            is_own: true,
        };
        Ok(lock(&self.state).blobs.get(name).map(stat))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        lock(&self.state).set(name, bytes.into())
    }

    fn put_all(&self, blobs: &[(&str, &[u8])]) -> io::Result<()> {
        let mut state = lock(&self.state);
        blobs.iter().try_for_each(|(name, bytes)| state.set(name, (*bytes).into()))
    }

    fn append(&self, name: &str, bytes: &[u8], _durability: Durability) -> io::Result<()> {
        let mut state = lock(&self.state);
        let before = state.blobs.get(name).map(|blob| blob.bytes.to_vec()).unwrap_or_default();
        state.set(name, [&before, bytes].concat().into())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let inside = |name: &String| match name.rsplit_once('/') {
            Some((of, name)) => (of == folder).then(|| name.to_owned()),
            None => folder.is_empty().then(|| name.clone()),
        };
        Ok(lock(&self.state).blobs.keys().filter_map(inside).collect())
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        lock(&self.state).blobs.remove(name);
        Ok(())
    }

    fn sync(&self, _folder: &str) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, folder: &str, name: &str, wait: Duration) -> io::Result<Option<Lock>> {
        lock(&self.state).folders.insert(folder.to_owned());
        let held = self.locks.take(&format!("{folder}/{name}"), LockMode::Exclusive, wait);
        Ok(held.map(|held| Box::new(held) as Lock))
    }

    fn wait_for(&self, folder: &str, name: &str, wait: Duration) -> io::Result<bool> {
        Ok(self.locks.wait_until_free(&format!("{folder}/{name}"), wait))
    }

    fn is_trustworthy(&self, folder: &str) -> io::Result<bool> {
        if lock(&self.state).folders.contains(folder) {
            Ok(true)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

impl fmt::Debug for InMemoryBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryBlobs").finish_non_exhaustive()
    }
}

impl Blob for MemoryBlob {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn version(&self) -> Version {
        self.version
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl fmt::Debug for MemoryBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBlob").field("version", &self.version).finish_non_exhaustive()
    }
}
