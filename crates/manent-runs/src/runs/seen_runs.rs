//! The runs that were met while a log is read: each counts once, and one that was begun may have come to its end.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;

use foldhash::fast;
use foldhash::quality::RandomState;

use super::Run;

/// The runs that were met. Ids and keys are kept as hashes, because there may be many, and long ones.
#[derive(Debug, Default)]
pub(super) struct SeenRuns {
    hasher: RandomState,
    /// Runs that were begun and did not end, with the numbers of their records.
    open: HashMap<u64, u64, fast::RandomState>,
    /// Idempotency keys of runs in `open`.
    open_keys: HashMap<u64, u64, fast::RandomState>,
    ended: HashSet<u64, fast::RandomState>,
}

/// The hashes under which a run is known.
struct RunHashes {
    id: Option<u64>,
    idempotency_key: Option<u64>,
    /// The hash of the id, or of the number of the record if there is no id.
    start: u64,
}

/// Keeps an id apart from a key of the same text.
#[derive(Hash)]
enum Sense {
    Id,
    Key,
    Seq(u64),
}

impl SeenRuns {
    fn hashes(&self, run: &Run<'_>) -> RunHashes {
        let hash = |sense: Sense, id: &str| (!id.is_empty()).then(|| self.hasher.hash_one((sense, id)));
        let id = hash(Sense::Id, &run.run_id);
        let start = id.unwrap_or_else(|| self.hasher.hash_one(Sense::Seq(run.seq)));
        RunHashes { id, idempotency_key: hash(Sense::Key, &run.idempotency_key), start }
    }

    /// Notes the beginning of a run.
    pub(super) fn begin(&mut self, run: &Run<'_>) {
        let RunHashes { idempotency_key, start, .. } = self.hashes(run);
        if self.ended.contains(&start) || idempotency_key.is_some_and(|key| self.ended.contains(&key)) {
            return;
        }
        self.open.entry(start).or_insert(run.seq);
        if let Some(key) = idempotency_key {
            self.open_keys.entry(key).or_insert(start);
        }
    }

    /// Notes the end of a run. Returns false if it had ended before, by its id or by its key.
    pub(super) fn end(&mut self, run: &Run<'_>) -> bool {
        let RunHashes { id, idempotency_key, .. } = self.hashes(run);
        let by_key = idempotency_key.and_then(|key| self.open_keys.remove(&key));
        for start in [id, by_key].into_iter().flatten() {
            self.open.remove(&start);
        }
        // Both are noted, also where the first was met before.
        [id, idempotency_key].into_iter().flatten().filter(|hash| !self.ended.insert(*hash)).count() == 0
    }

    /// Returns true if this is the record by which a run began that did not end.
    pub(super) fn is_open(&self, run: &Run<'_>) -> bool {
        self.open.get(&self.hashes(run).start) == Some(&run.seq)
    }

    /// Returns the number of the first record of a run that did not end.
    pub(super) fn first_open(&self) -> Option<u64> {
        self.open.values().copied().min()
    }
}
