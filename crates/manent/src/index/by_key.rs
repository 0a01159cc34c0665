//! The rows of a catalogue file by their key: for whoever asks for one session after the other.

use std::collections::HashMap;

use super::catalogue::Row;
use super::rows::Filed;
use super::shelf::{Edition, Kept};

/// Where the rows of each key are, in one edition of the catalogue.
#[derive(Debug)]
pub(crate) struct ByKey {
    edition: Edition,
    filed: Filed,
    rows: HashMap<String, Vec<usize>, foldhash::fast::RandomState>,
}

impl ByKey {
    /// Of the catalogue that is there now; nothing if there is none that can be read.
    pub(crate) fn open(kept: &Kept) -> Option<ByKey> {
        let edition = kept.edition()?;
        let (_, filed) = kept.catalogue().ok().flatten()?;
        let mut rows: HashMap<String, Vec<usize>, foldhash::fast::RandomState> = HashMap::default();
        for at in 0..filed.len() {
            if let Ok(row) = filed.row(at) {
                rows.entry(row.key).or_default().push(at);
            }
        }
        Some(ByKey { edition, filed, rows })
    }

    pub(crate) fn is_of(&self, kept: &Kept) -> bool {
        kept.edition() == Some(self.edition)
    }

    /// The first row of a key that is meant.
    pub(crate) fn find(&self, key: &str, is_it: impl Fn(&Row) -> bool) -> Option<Row> {
        let rows = self.rows.get(key)?.iter();
        rows.filter_map(|at| self.filed.row(*at).ok()).find(is_it)
    }
}
