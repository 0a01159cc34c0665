//! Reads the runs of a store: rows go to a spool, and what choosing among them needs stays in memory.
//!
//! Logs are read, and rows made of them, on several threads. A thread takes a whole log at a time, because only the
//! first of two records of one run counts, and which is the first is known only in the order of the log. Rows go to the
//! spool as they are made.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use manent::Store;
use manent::similarity::Signature;
use manent_store::sync::lock;
use manent_store::threads::{processors, with_helpers};
use manent_store::{Place, SessionKey, StreamStat};

use super::draft::{AttemptVerdict, Draft, RowOrigin, drafts, is_wanted};
use super::output_dir::OutputDir;
use super::quote::{MemoryIds, QuoteReader, memory_ids};
use super::row_builder::{DatasetRow, RowBuilder};
use super::split::{NodeKind, SplitGroups};
use super::spool::{Spool, SpoolSlot};
use super::{DatasetCounts, DatasetResult, Progress, Recipe, SkipReason};
use crate::runs::{Run, Runs, bare};

/// The rows of all runs, and their counts.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The rows in the order of the logs, and of the runs in each.
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
    /// The place among the signatures; [`NO_SIGNATURE`] if the row has none.
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
    let mut sources: Vec<LogSource> = (0..)
        .zip(&listed)
        .map(|(number, listed)| {
            let session = listed.id.key.clone();
            let node = groups.node(NodeKind::Session, session.as_str());
            LogSource { number, node, session, bytes: listed.bytes }
        })
        .collect();
    sources.sort_by_key(|source| Reverse(source.bytes));
    let read_bytes = sources.iter().map(|source| source.bytes).sum();
    let gathered = Gathered {
        rows: Vec::new(),
        signatures: Vec::new(),
        spool: Spool::new(out)?,
        groups,
        counts: DatasetCounts::default(),
        read_bytes,
        sources: listed.into_iter().map(|listed| SourceLog { listed, records: None }).collect(),
        quoted: BTreeMap::new(),
        times: None,
    };
    let (report, done) = (Mutex::new(&mut *progress), AtomicU64::new(0));
    let add_read = |bytes| {
        done.fetch_add(bytes, Ordering::Relaxed);
        // A thread does not wait while another one reports. The sum is read under the lock, so that it never falls.
        if let Ok(mut report) = report.try_lock() {
            report(done.load(Ordering::Relaxed), read_bytes * 2);
        }
    };
    let workers = Workers {
        store,
        runs: &runs,
        recipe,
        sources,
        deleted: deleted(store)?,
        memory_ids: memory_ids(store, recipe)?,
        gathered: gathered.into(),
        next: AtomicUsize::new(0),
        add_read: &add_read,
        stopped: AtomicBool::new(false),
    };
    let work = || Worker::new(&workers).work();
    with_helpers(processors(THREADS_MAX), work, work)?.into_iter().collect::<DatasetResult<()>>()?;
    let mut gathered = workers.gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
    progress(read_bytes, read_bytes * 2);
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
    pub(super) fn add(&mut self, row: DatasetRow) -> DatasetResult<()> {
        let slot = self.spool.put(&row)?;
        let RowOrigin { source, seq, at_ms, order, node } = row.origin;
        if let Some(at) = at_ms {
            widen(self.times.get_or_insert((at, at)), (at, at));
        }
        widen(self.sources[source as usize].records.get_or_insert((seq, seq)), (seq, seq));
        for (session, range) in row.quoted {
            widen(self.quoted.entry(session).or_insert(range), range);
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

fn widen<T: Ord + Copy>(range: &mut (T, T), by: (T, T)) {
    *range = (range.0.min(by.0), range.1.max(by.1));
}

pub(super) const NO_SIGNATURE: u32 = u32::MAX;

/// A log of runs that is to be read.
#[derive(Debug)]
struct LogSource {
    number: u32,
    session: SessionKey,
    /// The node of the session among the groups of the split.
    node: u32,
    bytes: u64,
}

/// State that the threads share.
struct Workers<'a> {
    store: &'a Store,
    runs: &'a Runs,
    recipe: &'a Recipe,
    /// The logs in the order in which they are taken: the largest first, so that no thread is left alone with one at
    /// the end.
    sources: Vec<LogSource>,
    /// The keys of sessions that are in the trash, and of which there is no other.
    deleted: HashSet<String>,
    /// The items of the memory; `None` if no prompt may hold any.
    memory_ids: Option<MemoryIds>,
    gathered: Mutex<Gathered>,
    /// The next of the sources.
    next: AtomicUsize,
    /// Adds to the bytes that all threads have read, and reports the progress.
    add_read: &'a (dyn Fn(u64) + Sync),
    /// True once a thread failed: the others stop.
    stopped: AtomicBool,
}

/// The work of one thread, with the caches that it keeps from log to log.
struct Worker<'a> {
    shared: &'a Workers<'a>,
    quotes: QuoteReader<'a>,
    builder: RowBuilder,
    /// Bytes of the log that are not counted as read yet, and bytes that are, and not reported.
    uncounted: u64,
    unreported: u64,
    /// Drafts that wait until what they quote is looked up, and their size.
    drafts: Vec<Draft>,
    draft_bytes: usize,
    /// The number of drafts that the log gave so far.
    order: u32,
    /// The project and the session that runs of the log were last joined to: mostly those of the next run.
    joined: [String; 2],
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Workers<'a>) -> Worker<'a> {
        Worker {
            shared,
            quotes: QuoteReader::new(shared.store, shared.memory_ids.clone()),
            builder: RowBuilder::default(),
            uncounted: 0,
            unreported: 0,
            drafts: Vec::new(),
            draft_bytes: 0,
            order: 0,
            joined: Default::default(),
        }
    }

    /// Takes logs until there is none left, or another thread failed.
    fn work(mut self) -> DatasetResult<()> {
        while !self.shared.stopped.load(Ordering::Relaxed)
            && let Some(source) = self.shared.sources.get(self.shared.next.fetch_add(1, Ordering::Relaxed))
        {
            self.read(source).inspect_err(|_| self.shared.stopped.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    }

    fn read(&mut self, source: &LogSource) -> DatasetResult<()> {
        let shared = self.shared;
        (self.order, self.joined, self.uncounted) = (0, Default::default(), source.bytes);
        let mut taken = Ok(());
        let seen = shared.runs.each(&source.session, |run| {
            taken = self.take(run, source);
            self.count_read(run.line.len() as u64);
            let is_over = taken.is_err() || shared.stopped.load(Ordering::Relaxed);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        taken?;
        self.make_rows()?;
        // Lines that are no runs, and damage.
        self.count_read(self.uncounted);
        lock(&shared.gathered).counts.unreadable += seen.others + seen.damage.len() as u64;
        Ok(())
    }

    /// Counts bytes of the log as read, at most as many as it was listed with: it may have grown since.
    fn count_read(&mut self, bytes: u64) {
        let bytes = bytes.min(self.uncounted);
        self.uncounted -= bytes;
        self.unreported += bytes;
        if self.unreported >= REPORT_BYTES {
            (self.shared.add_read)(std::mem::take(&mut self.unreported));
        }
    }

    fn take(&mut self, run: &Run<'_>, source: &LogSource) -> DatasetResult<()> {
        let shared = self.shared;
        let attempts = run.attempts.len() as u64;
        self.join(run, source.node);
        let is_deleted = |session: &str| shared.deleted.contains(session);
        let refused = if is_deleted(source.session.as_str()) || is_deleted(&run.session_id) {
            Some(SkipReason::Deleted)
        } else {
            (!is_wanted(run, shared.recipe)).then_some(SkipReason::Filtered)
        };
        lock(&shared.gathered).counts.add_run(attempts, refused);
        if refused.is_some() {
            return Ok(());
        }
        drafts(run, shared.recipe, |draft| {
            match draft {
                Ok(draft) => {
                    self.draft_bytes += draft.bytes();
                    self.order += 1;
                    let LogSource { number, node, .. } = *source;
                    let origin = RowOrigin { source: number, node, order: self.order, ..draft.origin };
                    self.drafts.push(Draft { origin, ..draft });
                }
                Err(why) => lock(&shared.gathered).counts.leave_out(why),
            }
            if self.drafts.len() >= DRAFTS_MAX || self.draft_bytes >= DRAFTS_BYTES {
                self.make_rows()?;
            }
            Ok(())
        })
    }

    /// Puts whatever may share content into one group, also what the filters leave out: they must not move a group from
    /// one side of the split to the other.
    fn join(&mut self, run: &Run<'_>, session: u32) {
        let names = [(NodeKind::Project, bare(&run.project_root)), (NodeKind::Session, &*run.session_id)];
        for ((kind, name), last) in names.into_iter().zip(&mut self.joined) {
            if !name.is_empty() && name != last {
                lock(&self.shared.gathered).groups.join_named(session, kind, name);
                name.clone_into(last);
            }
        }
        let passages = run.attempts.iter().flat_map(|attempt| [&attempt.prompt_ref, &attempt.output_ref]);
        for passage in passages.flatten() {
            lock(&self.shared.gathered).groups.join_named(session, NodeKind::Session, &passage.session);
        }
    }

    /// Looks up what the drafts quote, and makes rows of them.
    fn make_rows(&mut self) -> DatasetResult<()> {
        self.draft_bytes = 0;
        let shared = self.shared;
        let mut drafts = std::mem::take(&mut self.drafts);
        while !drafts.is_empty() {
            let mut left_out = Vec::new();
            let (whole, rest) = self.quotes.look_up(drafts, DRAFTS_BYTES, &mut left_out)?;
            drafts = rest;
            let rows: Vec<_> =
                whole.into_iter().map(|draft| self.builder.row(draft, shared.recipe.format)).collect();
            let mut gathered = lock(&shared.gathered);
            for why in left_out {
                gathered.counts.leave_out(why);
            }
            for row in rows {
                match row {
                    Ok(row) => gathered.add(row)?,
                    Err(why) => gathered.counts.leave_out(why),
                }
            }
        }
        Ok(())
    }
}

const THREADS_MAX: usize = 4;
/// The drafts that are looked up together.
const DRAFTS_MAX: usize = 2048;
const DRAFTS_BYTES: usize = 1 << 20;
/// A thread that has read so many bytes reports them: about a thousand times in a second.
const REPORT_BYTES: u64 = 128 << 10;
