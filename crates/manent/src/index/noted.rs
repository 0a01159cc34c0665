//! Single sessions as the catalogue last knew them, without looking whether that still holds.

use std::sync::Arc;

use crate::error::Result;
use crate::store::Store;
use manent_store::sync::lock;
use manent_store::{SessionKey, StreamId};

use super::by_key::ByKey;
use super::catalogue::Row;
use super::gone::Gone;
use super::sweep::{Index, Save, State};

impl Index {
    /// The row of a session as it was last written down or read, without looking whether it still holds.
    pub(crate) fn noted(&self, at: &StreamId) -> Option<Row> {
        let mut state = lock(&self.state);
        let is_it = |row: &Row| {
            let known = if at.id.is_empty() { row.place() == at.place } else { row.id == at.id };
            known && row.key == at.key.as_str()
        };
        if let Some(known) = &state.known {
            let mut rows = known.rows.iter().filter_map(|row| row.row().ok());
            return rows.find(|row| is_it(row)).map(Arc::unwrap_or_clone);
        }
        self.by_key(&mut state)?.rows(at.key.as_str()).find(is_it)
    }

    /// The rows of a key, and what is gone of it, as they were last written down or read.
    pub(crate) fn noted_of(&self, key: &SessionKey) -> (Vec<Row>, Vec<Gone>) {
        let mut state = lock(&self.state);
        let of_key = |gone: &[Gone]| gone.iter().filter(|gone| gone.is_of(key)).cloned().collect();
        if let Some(known) = &state.known {
            let rows = known.rows.iter().filter_map(|row| row.row().ok());
            let rows = rows.filter(|row| row.key == key.as_str()).map(Arc::unwrap_or_clone);
            return (rows.collect(), of_key(&known.gone));
        }
        let noted = |by_key: &ByKey| (by_key.rows(key.as_str()).collect(), of_key(by_key.gone()));
        self.by_key(&mut state).map(noted).unwrap_or_default()
    }

    fn by_key<'a>(&self, state: &'a mut State) -> Option<&'a ByKey> {
        let kept = self.kept()?;
        let by_key = state.by_key.take().filter(|by_key| by_key.is_of(kept));
        state.by_key = by_key.or_else(|| ByKey::open(kept));
        state.by_key.as_ref()
    }

    /// Somebody knows that a session lacks its end: from now on it is what it is.
    pub(crate) fn acknowledge(&self, store: &Store, at: &StreamId) -> Result<()> {
        if self.noted(at).is_none() {
            return Ok(());
        }
        self.refresh(store, Save::Sometimes, &mut |_, _| {})?;
        let mut state = lock(&self.state);
        let known = state.known.get_or_insert_default();
        for slot in known.rows.iter_mut().filter(|row| row.place() == at.place) {
            let Ok(row) = slot.row() else { continue };
            if row.once_seq > 0 && row.key == at.key.as_str() && (at.id.is_empty() || row.id == at.id) {
                *slot = Row { once_bytes: 0, once_seq: 0, ..Arc::unwrap_or_clone(row) }.into();
                known.unsaved_rows += 1;
            }
        }
        state.snapshot = None;
        drop(state);
        self.refresh(store, Save::Now, &mut |_, _| {}).map(|_| ())
    }
}
