//! Everything that was read of the runs of a store: the rows in the spool, and what is kept in memory of each.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use manent::Store;
use manent::similarity::Signature;
use manent_store::{Place, StreamStat};

use super::draft::{AttemptVerdict, RowOrigin};
use super::output_dir::OutputDir;
use super::quote::memory_ids;
use super::row_builder::Row;
use super::split::{NodeKind, SplitGroups};
use super::spool::{Spool, SpoolSlot};
use super::workers::{Source, WorkState, Workers};
use super::{DatasetCounts, DatasetResult, Progress, Recipe};
use crate::runs::Runs;

/// Everything that was read.
#[derive(Debug)]
pub(super) struct Gathered {
    /// In the order of the logs, and of the runs in each.
    pub(super) rows: Vec<RowMeta>,
    pub(super) signatures: Vec<Signature>,
    pub(super) spool: Spool,
    pub(super) groups: SplitGroups,
    pub(super) counts: DatasetCounts,
    pub(super) sources: Vec<SourceLog>,
    /// The first and the last record quoted of each session, by its key and its id.
    pub(super) quoted: BTreeMap<(String, String), (u64, u64)>,
    /// The times of the first and the last run that gave rows.
    pub(super) times: Option<(i64, i64)>,
    /// The work of reading: writing is counted behind it.
    pub(super) read_bytes: u64,
}

/// The part of a row that stays in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowMeta {
    pub(super) prompt_hash: [u64; 2],
    pub(super) hash: u64,
    pub(super) slot: SpoolSlot,
    /// The place among the drafts of its log.
    pub(super) order: u32,
    pub(super) node: u32,
    pub(super) source: u32,
    pub(super) model: u32,
    /// Among the signatures; [`NO_SIGNATURE`] if it has none.
    pub(super) signature: u32,
    pub(super) verdict: AttemptVerdict,
    pub(super) is_repair: bool,
}

/// A log of runs.
#[derive(Debug)]
pub(super) struct SourceLog {
    pub(super) listed: StreamStat,
    /// The first and the last run that gave a row.
    pub(super) records: Option<(u64, u64)>,
}

/// Reads all runs of a store. The result depends on the logs, and not on which thread was first.
pub(super) fn gather(
    store: &Store,
    recipe: &Recipe,
    out: &OutputDir,
    progress: Progress<'_>,
) -> DatasetResult<Gathered> {
    let runs = Runs::open(store)?;
    let listed = runs.sessions()?;
    let mut groups = SplitGroups::default();
    let mut sources: Vec<Source> = (0..)
        .zip(&listed)
        .map(|(number, listed)| {
            let session = listed.id.key.clone();
            Source { number, node: groups.node(NodeKind::Session, session.as_str()), session }
        })
        .collect();
    sources.sort_by_key(|source| Reverse(listed[source.number as usize].bytes));
    let gathered = Gathered {
        rows: Vec::new(),
        signatures: Vec::new(),
        spool: Spool::new(out)?,
        groups,
        counts: DatasetCounts::default(),
        read_bytes: listed.iter().map(|listed| listed.bytes).sum(),
        sources: listed.into_iter().map(|listed| SourceLog { listed, records: None }).collect(),
        quoted: BTreeMap::new(),
        times: None,
    };
    let workers = Workers {
        store,
        runs: &runs,
        recipe,
        sources,
        deleted: deleted(store)?,
        memory_ids: memory_ids(store, recipe)?,
        gathered: gathered.into(),
        state: WorkState::default(),
    };
    let mut gathered = workers.run(progress)?;
    gathered.rows.sort_unstable_by_key(|row| (row.source, row.order));
    Ok(gathered)
}

/// The keys of sessions that are in the trash, and of which there is no other.
fn deleted(store: &Store) -> crate::Result<HashSet<String>> {
    let mut keys = HashSet::new();
    for listed in store.list(Place::Trash)? {
        match store.find(&listed.id.key) {
            Err(e) if e.is_not_found() => {
                keys.insert(listed.id.key.to_string());
            }
            found => drop(found?),
        }
    }
    Ok(keys)
}

impl Gathered {
    /// Writes a row to the spool, and keeps what is needed to choose among rows.
    pub(super) fn add(&mut self, row: Row) -> DatasetResult<()> {
        let slot = self.spool.put(&row)?;
        let RowOrigin { source, seq, at_ms, order, node } = row.origin;
        if let Some(at) = at_ms {
            widen(&mut self.times, (at, at));
        }
        widen(&mut self.sources[source as usize].records, (seq, seq));
        for (session, range) in row.quoted {
            let known = self.quoted.entry(session).or_insert(range);
            *known = (known.0.min(range.0), known.1.max(range.1));
        }
        self.counts.secrets += row.secrets;
        self.counts.homes += row.homes;
        self.counts.beside_calls += row.beside_calls;
        self.counts.from_summaries += u64::from(row.from_summary);
        self.counts.memory_left_out += u64::from(row.memory_left_out);
        let signature = row.signature.map_or(NO_SIGNATURE, |signature| {
            self.signatures.push(signature);
            self.signatures.len() as u32 - 1
        });
        self.rows.push(RowMeta {
            prompt_hash: [row.prompt_hash as u64, (row.prompt_hash >> 64) as u64],
            hash: row.hash,
            slot,
            order,
            node,
            source,
            model: row.model,
            signature,
            verdict: row.verdict,
            is_repair: row.is_repair,
        });
        Ok(())
    }
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, by: (T, T)) {
    let known = range.get_or_insert(by);
    *known = (known.0.min(by.0), known.1.max(by.1));
}

pub(super) const NO_SIGNATURE: u32 = u32::MAX;
