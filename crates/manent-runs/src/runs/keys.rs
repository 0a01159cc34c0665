//! Keys under which lines of runs are known, whatever a log holds: ids and keys of entries, and verdicts on attempts.

use manent_log::{Entry, KeyRule, KeyedLine, Occurrence, Reach};
use manent_store::StreamWriter;

use super::entry::RunRecord;
use super::new_entry::{NewEntry, RunEntryKind};
use crate::error::Result;

/// Finds lines of runs by their names, from the first line of a log on.
pub(super) const RUN_KEYS: KeyRule = KeyRule { name: "runs", reach: Reach::Whole, keys_of: names_of };

/// An id or a key, and in what sense: half of a hash that no two share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LineKey([u8; 16]);

fn names_of(entry: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
    let (kind, run) = match RunRecord::of_bytes(entry.seq, entry.bytes) {
        None => return,
        Some(RunRecord::Verdict(verdict)) => {
            return add(&LineKey::verdict(&verdict.run_id, verdict.run_seq, verdict.attempt).0);
        }
        Some(RunRecord::Start(run)) => (RunEntryKind::Start, run),
        Some(RunRecord::Run(run)) => (RunEntryKind::Run, run),
    };
    LineKey::all_of(kind, &run.run_id, &run.idempotency_key).for_each(|name| add(&name.0));
}

impl LineKey {
    fn new(sense: u8, text: &str) -> Option<LineKey> {
        (!text.is_empty()).then(|| LineKey::hashed(sense, text))
    }

    fn hashed(sense: u8, text: &str) -> LineKey {
        let hash = blake3::Hasher::new().update(&[sense]).update(text.as_bytes()).finalize();
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        LineKey(half)
    }

    /// Returns the names under which an entry is known once it is recorded.
    pub(super) fn all_of(
        kind: RunEntryKind,
        run_id: &str,
        key: &str,
    ) -> impl Iterator<Item = LineKey> + use<> {
        let (id, by_key) = match kind {
            RunEntryKind::Start => (STARTED, STARTED_BY_KEY),
            RunEntryKind::Run => (ENDED, ENDED_BY_KEY),
        };
        [LineKey::new(id, run_id), LineKey::new(by_key, key)].into_iter().flatten()
    }

    /// Returns the names under which a run with this id is known: its end, or else its beginning.
    pub(super) fn of_run(run_id: &str) -> Vec<LineKey> {
        [ENDED, STARTED].into_iter().filter_map(|sense| LineKey::new(sense, run_id)).collect()
    }

    /// Returns the name of verdicts on an attempt of a run, which is known by its id or by the number of its record.
    pub(super) fn verdict(run_id: &str, run_seq: Option<u64>, attempt: Option<u64>) -> LineKey {
        let attempt = attempt.map_or_else(String::new, |number| number.to_string());
        match run_seq {
            None => LineKey::hashed(VERDICT, &format!("{attempt}:{run_id}")),
            Some(seq) => LineKey::hashed(VERDICT_BY_SEQ, &format!("{attempt}:{seq}")),
        }
    }

    /// Returns the names that make an entry one that was recorded before. The end of a run is its beginning too.
    pub(super) fn same_as(entry: &NewEntry) -> impl Iterator<Item = LineKey> + use<> {
        let id = if entry.id_is_given { entry.run_id.as_str() } else { "" };
        let key = entry.idempotency_key.as_str();
        let end = LineKey::all_of(RunEntryKind::Run, id, key);
        let start =
            (entry.kind == RunEntryKind::Start).then(|| LineKey::all_of(RunEntryKind::Start, id, key));
        end.chain(start.into_iter().flatten())
    }

    /// Returns the name of the beginning of the run that an entry ends, where only its key tells.
    pub(super) fn beginning_of(entry: &NewEntry) -> Option<LineKey> {
        let is_end = entry.kind == RunEntryKind::Run && entry.run_id.is_empty();
        is_end.then(|| LineKey::new(STARTED_BY_KEY, &entry.idempotency_key)).flatten()
    }

    /// Returns a record that is known by this name.
    pub(super) fn find(self, writer: &mut dyn StreamWriter, which: Occurrence) -> Result<Option<KeyedLine>> {
        Ok(writer.find(&RUN_KEYS, &self.0, which)?)
    }

    /// Returns the first record that is known by one of these names, by the first of them that any record has.
    pub(super) fn find_any(writer: &mut dyn StreamWriter, names: &[LineKey]) -> Result<Option<KeyedLine>> {
        names.iter().find_map(|name| name.find(writer, Occurrence::First).transpose()).transpose()
    }
}

const STARTED: u8 = b's';
const STARTED_BY_KEY: u8 = b't';
const ENDED: u8 = b'r';
const ENDED_BY_KEY: u8 = b'k';
const VERDICT: u8 = b'v';
const VERDICT_BY_SEQ: u8 = b'w';
