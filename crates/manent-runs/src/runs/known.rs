//! Which runs were met while a log is read: each counts once, and one that was begun may have come to its end.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use super::Run;

/// Gives runs their names. Clones give the same ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Namer {
    hasher: RandomState,
}

/// What a run is known by, as hashes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    id: Option<u64>,
    /// By the key of whoever records.
    key: Option<u64>,
    /// Its id; or where it stands, for want of one.
    beginning: u64,
}

/// Which runs were met.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Begun and not ended: where they stand.
    open: HashMap<u64, u64, foldhash::fast::RandomState>,
    /// By the key of whoever records: which of these it is.
    open_keys: HashMap<u64, u64, foldhash::fast::RandomState>,
    ended: HashSet<u64, foldhash::fast::RandomState>,
}

/// As what something is known. An id and a key may be the same word.
#[derive(Debug, Clone, Copy, Hash)]
enum As {
    Run,
    Key,
    Place(u64),
}

impl Namer {
    pub(crate) fn names(&self, run: &Run<'_>) -> Names {
        let hash = |what: As, id: &str| (!id.is_empty()).then(|| self.hasher.hash_one((what, id)));
        let id = hash(As::Run, &run.run_id);
        let beginning = id.unwrap_or_else(|| self.hasher.hash_one(As::Place(run.seq)));
        Names { id, key: hash(As::Key, &run.idempotency_key), beginning }
    }
}

impl Known {
    /// A run was begun, by the record of this number.
    pub(crate) fn begun(&mut self, names: Names, seq: u64) {
        if [Some(names.beginning), names.key].into_iter().flatten().any(|id| self.ended.contains(&id)) {
            return;
        }
        self.open.entry(names.beginning).or_insert(seq);
        if let Some(key) = names.key {
            self.open_keys.entry(key).or_insert(names.beginning);
        }
    }

    /// A run came to its end. False: it is known already.
    pub(crate) fn ended(&mut self, names: Names) -> bool {
        let by_key = names.key.and_then(|key| self.open_keys.remove(&key));
        for begun in [names.id, by_key].into_iter().flatten() {
            self.open.remove(&begun);
        }
        // Both are noted, and one that was met is enough.
        [names.id, names.key].into_iter().flatten().filter(|id| !self.ended.insert(*id)).count() == 0
    }

    /// Whether this is the record of the beginning of a run that did not end.
    pub(crate) fn is_open(&self, names: Names, seq: u64) -> bool {
        self.open.get(&names.beginning) == Some(&seq)
    }

    /// The number of the first record of a run that did not end.
    pub(crate) fn first_open(&self) -> Option<u64> {
        self.open.values().copied().min()
    }
}
