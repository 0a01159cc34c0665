//! The rows of a catalogue file by their key: for whoever asks for one session after the other.

use std::collections::HashMap;

use crate::catalogue::Row;
use crate::gone::Gone;
use crate::index_dir::{Edition, IndexDir};
use crate::rows::Filed;

/// Where the rows of each key are, in one edition of the catalogue.
#[derive(Debug)]
pub(crate) struct ByKey {
    edition: Edition,
    filed: Filed,
    rows: HashMap<String, Vec<usize>, foldhash::fast::RandomState>,
    gone: Vec<Gone>,
}

impl ByKey {
    /// Of the catalogue that is there now; nothing if there is none that can be read.
    pub(crate) fn open(kept: &IndexDir) -> Option<ByKey> {
        let edition = kept.edition()?;
        let (head, filed) = kept.catalogue().ok().flatten()?;
        let mut rows: HashMap<String, Vec<usize>, foldhash::fast::RandomState> = HashMap::default();
        for at in 0..filed.len() {
            if let Ok(row) = filed.row(at) {
                rows.entry(row.key).or_default().push(at);
            }
        }
        Some(ByKey { edition, filed, rows, gone: head.gone })
    }

    pub(crate) fn is_of(&self, kept: &IndexDir) -> bool {
        kept.edition() == Some(self.edition)
    }

    /// The rows of a key.
    pub(crate) fn rows(&self, key: &str) -> impl Iterator<Item = Row> {
        let rows = self.rows.get(key).into_iter().flatten();
        rows.filter_map(|at| self.filed.row(*at).ok())
    }

    /// The sessions that are gone.
    pub(crate) fn gone(&self) -> &[Gone] {
        &self.gone
    }
}
