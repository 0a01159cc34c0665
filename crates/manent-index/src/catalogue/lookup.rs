//! Looks up single streams in the catalogue, as they were last read, without comparing them with the streams.

use std::collections::HashMap;
use std::sync::Arc;

use manent_store::sync::lock;
use manent_store::{SessionKey, StreamId};

use crate::catalogue::missing::LostSession;
use crate::catalogue::{CatalogueFile, Row};
use crate::error::Result;
use crate::refresh::index_dir::{Edition, IndexDir};
use crate::refresh::loaded::LoadedIndex;
use crate::refresh::{Index, Save};

impl Index {
    /// Returns the row of a stream as it was last written down or read, without looking whether it still holds.
    pub(crate) fn noted(&self, at: &StreamId) -> Option<Row> {
        let is_it = |row: &Row| {
            let is_meant = if at.id.is_empty() { row.place() == at.place } else { row.id == at.id };
            is_meant && row.key == at.key.as_str()
        };
        let in_memory = self.known_now(|loaded| {
            let mut rows = loaded.rows.iter().filter_map(|row| row.row().ok());
            rows.find(|row| is_it(row)).map(Arc::unwrap_or_clone)
        });
        match in_memory {
            Some(row) => row,
            None => self.by_key(|by_key| by_key.rows(at.key.as_str()).find(is_it))?,
        }
    }

    /// Returns the rows of a key, and what is gone of it, as they were last written down or read.
    pub(crate) fn noted_of(&self, key: &SessionKey) -> (Vec<Row>, Vec<LostSession>) {
        let of_key = |gone: &[LostSession]| gone.iter().filter(|gone| gone.is_of(key)).cloned().collect();
        let in_memory = self.known_now(|loaded| {
            let rows = loaded.rows.iter().filter_map(|row| row.row().ok());
            let rows = rows.filter(|row| row.key == key.as_str()).map(Arc::unwrap_or_clone);
            (rows.collect(), of_key(&loaded.gone))
        });
        let on_disk = |by_key: &ByKey| (by_key.rows(key.as_str()).collect(), of_key(&by_key.gone));
        in_memory.or_else(|| self.by_key(on_disk)).unwrap_or_default()
    }

    /// Asks what is in memory. `None` if nothing is, or if a thread reads much, which saves its steps: then the
    /// catalogue on the disk answers.
    fn known_now<T>(&self, ask: impl FnOnce(&LoadedIndex) -> T) -> Option<T> {
        if self.is_reading() {
            return None;
        }
        lock(&self.state).loaded.as_ref().map(ask)
    }

    /// Asks the catalogue on the disk; `None` if there is none that can be read.
    fn by_key<T>(&self, ask: impl FnOnce(&ByKey) -> T) -> Option<T> {
        let dir = self.dir.as_ref()?;
        let mut shared = lock(&self.by_key);
        let is_current = |by_key: &ByKey| dir.edition() == Some(by_key.edition);
        let by_key = shared.take().filter(is_current).or_else(|| ByKey::open(dir));
        *shared = by_key;
        shared.as_ref().map(ask)
    }

    /// Acknowledges that a stream lacks its end: from now on it is what it is.
    pub fn acknowledge(&self, at: &StreamId) -> Result<()> {
        if self.noted(at).is_none() {
            return Ok(());
        }
        self.refresh(Save::Sometimes, &mut |_, _| {})?;
        let mut state = lock(&self.state);
        let loaded = state.loaded.get_or_insert_default();
        for slot in loaded.rows.iter_mut().filter(|row| row.place() == at.place) {
            let Ok(row) = slot.row() else { continue };
            if row.once_seq > 0 && row.key == at.key.as_str() && (at.id.is_empty() || row.id == at.id) {
                *slot = Row { once_bytes: 0, once_seq: 0, ..Arc::unwrap_or_clone(row) }.into();
                loaded.unsaved_rows += 1;
            }
        }
        state.snapshot = None;
        state.generation += 1;
        drop(state);
        self.refresh(Save::Now, &mut |_, _| {}).map(|_| ())
    }
}

/// The rows of one edition of the catalogue, by their keys.
#[derive(Debug)]
pub(crate) struct ByKey {
    edition: Edition,
    filed: CatalogueFile,
    rows: HashMap<String, Vec<usize>, foldhash::fast::RandomState>,
    /// The sessions that are gone.
    gone: Vec<LostSession>,
}

impl ByKey {
    /// Opens the current catalogue; `None` if there is none that can be read.
    pub(crate) fn open(dir: &IndexDir) -> Option<ByKey> {
        let edition = dir.edition()?;
        let (head, filed) = dir.catalogue().ok().flatten()?;
        let mut rows: HashMap<String, Vec<usize>, foldhash::fast::RandomState> = HashMap::default();
        for at in 0..filed.len() {
            if let Ok(row) = filed.row(at) {
                rows.entry(row.key).or_default().push(at);
            }
        }
        Some(ByKey { edition, filed, rows, gone: head.gone })
    }

    /// The rows of a key.
    pub(crate) fn rows(&self, key: &str) -> impl Iterator<Item = Row> {
        let rows = self.rows.get(key).into_iter().flatten();
        rows.filter_map(|at| self.filed.row(*at).ok())
    }
}
