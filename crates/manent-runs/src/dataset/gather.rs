//! Reads all runs and spools the rows that may be wanted, in several threads. What comes of it depends on the logs, and
//! not on which thread was first.

use std::collections::{BTreeMap, HashSet};
use std::thread;
use std::time::Duration;

use manent::Store;
use manent_store::{Place as Where, StreamStat};

use super::alike::Signature;
use super::crew::Crew;
use super::draft::{Origin, Verdict};
use super::place::Place;
use super::quote::{Quoted, Quotes, remembered};
use super::row::Row;
use super::rows_of::{Desk, Finished, Hand};
use super::split::{Groups, Kind};
use super::spool::{Slot, Spool};
use super::{DatasetCounts, DatasetResult, Progress, Recipe};
use crate::runs::{Namer, Runs};

/// What was gathered.
#[derive(Debug)]
pub(super) struct Gathered {
    /// In the order of the logs, and of the runs in each.
    pub(super) rows: Vec<Kept>,
    pub(super) signatures: Vec<Signature>,
    pub(super) spool: Spool,
    pub(super) groups: Groups,
    pub(super) counts: DatasetCounts,
    pub(super) sources: Vec<Source>,
    /// What was quoted of which sessions.
    pub(super) quoted: BTreeMap<(String, String), (u64, u64)>,
    /// When the first and the last run were that gave rows.
    pub(super) times: Option<(i64, i64)>,
    /// The work of reading: writing is counted behind it.
    pub(super) read_bytes: u64,
}

/// What is kept in memory of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) prompt_hash: [u64; 2],
    pub(super) hash: u64,
    pub(super) slot: Slot,
    pub(super) node: u32,
    pub(super) source: u32,
    pub(super) model: u32,
    /// Among the signatures; [`NO_SIGNATURE`] if it has none.
    pub(super) signature: u32,
    pub(super) verdict: Verdict,
    pub(super) is_repair: bool,
}

/// A row in the spool, of which it is not known yet whether its run counts.
#[derive(Debug)]
pub(super) struct Pending {
    origin: Origin,
    kept: Kept,
    signature: Option<Signature>,
    counts: Counted,
    quoted: Vec<Quoted>,
}

impl Pending {
    /// Its place among the rows of its batch.
    pub(super) fn order(&self) -> u32 {
        self.origin.order
    }
}

/// What was counted while a row was made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    pub(super) secrets: u64,
    pub(super) homes: u64,
    pub(super) beside_calls: u64,
    pub(super) from_summary: bool,
    pub(super) memory_left_out: bool,
}

/// A log of runs.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) listed: StreamStat,
    /// Its first and its last run that gave a row.
    pub(super) records: Option<(u64, u64)>,
}

/// Reads all runs of a store.
pub(super) fn gather(
    store: &Store,
    recipe: &Recipe,
    place: &Place,
    progress: Progress<'_>,
) -> DatasetResult<Gathered> {
    let runs = Runs::open(store)?;
    let listed = runs.sessions()?;
    let deleted = deleted(store)?;
    let mut groups = Groups::default();
    let sources: Vec<_> = listed
        .iter()
        .map(|listed| {
            let key = listed.id.key.clone();
            let node = groups.node(Kind::Session, key.as_str());
            (key, node)
        })
        .collect();
    let read_bytes: u64 = listed.iter().map(|listed| listed.bytes).sum();
    let gathered = Gathered {
        rows: Vec::new(),
        signatures: Vec::new(),
        spool: Spool::new(place)?,
        groups,
        counts: DatasetCounts::default(),
        sources: listed.into_iter().map(|listed| Source { listed, records: None }).collect(),
        quoted: BTreeMap::new(),
        times: None,
        read_bytes,
    };
    let crew = Crew::new(sources.len());
    let desk = Desk {
        runs: &runs,
        recipe,
        sources: &sources,
        deleted: &deleted,
        namer: Namer::default(),
        gathered: gathered.into(),
    };
    let remembered = remembered(store, recipe)?;
    thread::scope(|scope| {
        let caller = thread::current();
        let hand = || Hand::new(&desk, &crew, Quotes::new(store, remembered.clone()));
        let mut hands = Vec::new();
        for _ in 0..threads() {
            let (hand, caller) = (hand(), caller.clone());
            let work = move || {
                hand.work();
                caller.unpark();
            };
            // As many as the system gives.
            hands.extend(thread::Builder::new().spawn_scoped(scope, work));
        }
        if hands.is_empty() {
            hand().work();
        }
        while !hands.iter().all(thread::ScopedJoinHandle::is_finished) {
            progress(crew.read_bytes().min(read_bytes), read_bytes * 2);
            thread::park_timeout(TELL_EVERY);
        }
        for hand in hands {
            // One that died has stopped the crew.
            drop(hand.join());
        }
    });
    crew.outcome()?;
    let mut gathered = desk.gathered.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Each log's are in order already.
    gathered.rows.sort_by_key(|row| row.source);
    Ok(gathered)
}

/// The keys of sessions that are in the trash, and of which there is no other.
fn deleted(store: &Store) -> crate::Result<HashSet<String>> {
    let mut keys = HashSet::new();
    for listed in store.list(Where::Trash)? {
        match store.find(&listed.id.key) {
            Err(e) if e.is_not_found() => {
                keys.insert(listed.id.key.to_string());
            }
            found => drop(found?),
        }
    }
    Ok(keys)
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).clamp(1, THREADS_MAX)
}

impl Gathered {
    /// Puts a row where it waits.
    pub(super) fn spool(&mut self, row: Row) -> DatasetResult<Pending> {
        let slot = self.spool.put(&row)?;
        let kept = Kept {
            prompt_hash: [row.prompt_hash as u64, (row.prompt_hash >> 64) as u64],
            hash: row.hash,
            slot,
            node: row.origin.node,
            source: row.origin.source,
            model: row.model,
            signature: NO_SIGNATURE,
            verdict: row.verdict,
            is_repair: row.is_repair,
        };
        let Row { origin, signature, counts, quoted, .. } = row;
        Ok(Pending { origin, kept, signature, counts, quoted })
    }

    /// Keeps what came of a batch: of each of its runs it is known by now whether it counts.
    pub(super) fn keep(&mut self, source: u32, finished: Finished, counts: &[bool]) {
        let is_one = |run: u32| counts.get(run as usize).is_some_and(|counts| *counts);
        self.counts.unreadable += finished.others;
        for (met, _) in finished.runs.iter().zip(counts).filter(|(_, counts)| **counts) {
            self.counts.runs += 1;
            self.counts.attempts += met.attempts;
        }
        for (_, why, count) in finished.left_out.into_iter().filter(|(run, ..)| is_one(*run)) {
            *self.counts.left_out.entry(why).or_default() += count;
        }
        for Pending { origin, mut kept, signature, counts, quoted } in finished.rows {
            let Origin { run, seq, .. } = origin;
            if !is_one(run) {
                continue;
            }
            if let Some(at) = finished.runs[run as usize].at_ms {
                widen(&mut self.times, (at, at));
            }
            widen(&mut self.sources[source as usize].records, (seq, seq));
            for (session, range) in quoted {
                let known = self.quoted.entry(session).or_insert(range);
                *known = (known.0.min(range.0), known.1.max(range.1));
            }
            self.counts.secrets += counts.secrets;
            self.counts.homes += counts.homes;
            self.counts.beside_calls += counts.beside_calls;
            self.counts.from_summaries += u64::from(counts.from_summary);
            self.counts.memory_left_out += u64::from(counts.memory_left_out);
            if let Some(signature) = signature {
                kept.signature = self.signatures.len() as u32;
                self.signatures.push(signature);
            }
            self.rows.push(kept);
        }
    }
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, by: (T, T)) {
    let known = range.get_or_insert(by);
    *known = (known.0.min(by.0), known.1.max(by.1));
}

pub(super) const NO_SIGNATURE: u32 = u32::MAX;
const THREADS_MAX: usize = 4;
const TELL_EVERY: Duration = Duration::from_millis(50);
