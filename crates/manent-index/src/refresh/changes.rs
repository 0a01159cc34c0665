//! Finds the streams that are new, changed or gone since the last refresh, and settles rows that depend on others.

use std::collections::HashMap;
use std::sync::Arc;

use manent_store::{
    ChangeKind, Cursor, KnownStreams, ListDetail, Place, Selector, SessionKey, StreamChange, StreamState,
    Version, clock,
};

use crate::catalogue::{Row, RowRef};
use crate::corpus::Corpus;
use crate::error::IndexResult;
use crate::refresh::RefreshResult;
use crate::refresh::index_dir::IndexDir;
use crate::refresh::ingest::ChangedStream;
use crate::refresh::loaded::LoadedIndex;

/// The streams that are new or changed since the last refresh, and the rows of those that are gone.
pub(crate) type Differences = (Vec<ChangedStream>, Vec<Arc<Row>>);

/// The result of comparing the index with the streams.
pub(crate) struct Survey {
    pub(crate) differences: Differences,
    pub(crate) cursor: Cursor,
    pub(crate) checked_ms: i64,
    pub(crate) written_log_bytes: u64,
}

/// The rows that are known, as a backend compares them with its streams.
struct KnownRows<'a> {
    rows: &'a [RowRef],
    /// Streams that the backend does not report may be taken for unchanged.
    is_complete: bool,
}

impl KnownStreams for KnownRows<'_> {
    fn each(&self, take: &mut dyn FnMut(Place, &str, Version)) {
        for row in self.rows {
            // A name that cannot be read is noticed by whoever reads the row.
            if let Ok(name) = row.name() {
                take(row.place(), name, row.version());
            }
        }
    }

    fn version(&self, place: Place, name: &str) -> Option<Version> {
        row_of(self.rows, place, name).map(RowRef::version)
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl Survey {
    /// Returns the number of bytes that are to be read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.differences.0.iter().map(ChangedStream::unread_bytes).sum()
    }
}

/// Compares the known rows with the streams. `all_read` says that every row is of a stream that could be read: one that
/// could not may be readable now, without having changed.
pub(crate) fn survey(
    loaded: &LoadedIndex,
    corpus: &dyn Corpus,
    dir: Option<&IndexDir>,
    all_read: bool,
) -> RefreshResult<Survey> {
    let checked_ms = clock::now_ms();
    let written_log_bytes = dir.map_or(0, IndexDir::written_log_bytes);
    // What could not be read may be readable now, without having changed.
    let looked = KnownRows { rows: &loaded.rows, is_complete: loaded.is_checked && all_read };
    let answer = corpus.changes(&looked, &loaded.cursor)?;
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    if !answer.streams.is_empty() {
        // A map of all names costs more than a few searches through the rows.
        let by_name = if answer.streams.len() > FEW_CHANGES { Some(by_name(&loaded.rows)?) } else { None };
        for change in answer.streams {
            let old = match &by_name {
                Some(rows) => rows.get(&(change.place, change.name.as_str())).copied(),
                None => row_of(&loaded.rows, change.place, &change.name),
            };
            let old = old.map(RowRef::row).transpose()?;
            match change.kind.state() {
                None => gone.extend(old),
                Some(StreamState { version, bytes }) => changed.push(ChangedStream {
                    place: change.place,
                    name: change.name,
                    version,
                    bytes,
                    seen_at: answer.moment,
                    grew: matches!(change.kind, ChangeKind::Appended(_)),
                    old,
                }),
            }
        }
    }
    Ok(Survey { differences: (changed, gone), cursor: answer.cursor, checked_ms, written_log_bytes })
}

fn row_of<'a>(rows: &'a [RowRef], place: Place, name: &str) -> Option<&'a RowRef> {
    rows.iter().find(|row| row.place() == place && row.name().is_ok_and(|other| other == name))
}

type RowsByName<'a> = HashMap<(Place, &'a str), &'a RowRef, foldhash::fast::RandomState>;

fn by_name(rows: &[RowRef]) -> IndexResult<RowsByName<'_>> {
    rows.iter().map(|row| Ok(((row.place(), row.name()?), row))).collect()
}

/// Returns true if every known stream is still where it was.
pub(crate) fn is_all_there(loaded: &mut LoadedIndex, corpus: &dyn Corpus) -> RefreshResult<bool> {
    Ok(!recheck(loaded, corpus)?.iter().any(|change| change.kind == ChangeKind::Gone))
}

/// Compares the rows with the streams once more, just before they are written.
///
/// Streams whose version is unknown need no look of their own here: what counts is whether they are gone, which a
/// backend that watches its streams reports. So its answer is taken as complete, and no directory is listed while the
/// right to write is held.
pub(crate) fn recheck(loaded: &mut LoadedIndex, corpus: &dyn Corpus) -> RefreshResult<Vec<StreamChange>> {
    let rows = KnownRows { rows: &loaded.rows, is_complete: true };
    let changes = corpus.changes(&rows, &loaded.cursor)?;
    if changes.streams.is_empty() {
        loaded.cursor = changes.cursor;
    }
    Ok(changes.streams)
}

/// Drops the rows of files that are not sessions of their own: what interrupted packing left beside the plain file, and
/// an archived file all of whose records the live session of its id holds, as the backend tells. An archived session of
/// which another program restored an older copy is one. Returns whether any row was dropped.
pub(crate) fn drop_copies(rows: &mut Vec<RowRef>, corpus: &dyn Corpus) -> RefreshResult<bool> {
    if rows.iter().all(|row| row.place() == Place::Live) {
        return Ok(false);
    }
    // Copies that somebody made by hand have another key than their header says, and are not meant.
    let mut shortest: HashMap<(Place, String, String), usize> = HashMap::new();
    let mut all = Vec::with_capacity(rows.len());
    for row in &*rows {
        let (whole, len) = (row.row()?, row.name()?.len());
        let session = (row.place(), whole.key.clone(), whole.id.clone());
        if !whole.id.is_empty() {
            shortest.entry(session.clone()).and_modify(|best| *best = len.min(*best)).or_insert(len);
        }
        all.push((session, len));
    }
    let mut kept = Vec::with_capacity(all.len());
    for (session, len) in all {
        let is_second_form = shortest.get(&session).is_some_and(|best| *best < len);
        let (place, key, id) = session;
        let is_live =
            place == Place::Archive && shortest.contains_key(&(Place::Live, key.clone(), id.clone()));
        kept.push(!is_second_form && (!is_live || is_listed_in_archive(corpus, &key, &id)?));
    }
    let before = rows.len();
    let mut kept = kept.into_iter();
    rows.retain(|_| kept.next().unwrap_or(true));
    Ok(rows.len() < before)
}

fn is_listed_in_archive(corpus: &dyn Corpus, key: &str, id: &str) -> RefreshResult<bool> {
    let Ok(key) = SessionKey::new(key) else { return Ok(true) };
    let listed = corpus.list(Place::Archive, Selector::Key(&key), ListDetail::Header)?;
    Ok(listed.iter().any(|listed| listed.id.id == id))
}

/// Marks forks whose parent was read anew as stale, because a list shows records of the parent as theirs. Returns
/// false if any fork must be read again.
pub(crate) fn settle_forks(rows: &mut [RowRef]) -> IndexResult<bool> {
    if !rows.iter().any(RowRef::is_fork) {
        return Ok(true);
    }
    let mut by_id: HashMap<String, (u8, u64, String)> = HashMap::new();
    for row in &*rows {
        let row = row.row()?;
        // Other programs' sessions have no ids, and no forks that share records with them.
        if row.id.is_empty() {
            continue;
        }
        // Of several files with one id, the one that is read for its forks: live before archived before deleted.
        let is_nearer = by_id.get(&row.id).is_none_or(|(place, ..)| row.place < *place);
        if is_nearer {
            by_id.insert(row.id.clone(), (row.place, row.number, row.parent.clone()));
        }
    }
    let lineage = |parent: &str| {
        let (mut id, mut lineage) = (parent, 1_u64);
        // Headers made by hand may go round in a circle.
        for _ in 0..LINEAGE_MAX {
            let Some((_, number, parent)) = by_id.get(id) else { break };
            lineage = lineage.wrapping_mul(31).wrapping_add(number + 1);
            id = parent;
        }
        lineage
    };
    let mut settled = true;
    for slot in rows.iter_mut().filter(|row| row.is_fork()) {
        let row = slot.row()?;
        let now = lineage(&row.parent);
        if row.lineage == now {
            continue;
        }
        let mut row = Arc::unwrap_or_clone(row);
        if row.lineage != 0 {
            settled = false;
            row.stale = true;
            row.version = Version::UNKNOWN;
        }
        row.lineage = now;
        *slot = row.into();
    }
    Ok(settled)
}

/// The number of changes up to which their rows are looked for one by one.
const FEW_CHANGES: usize = 8;
/// The maximum number of ancestors of a fork that are compared.
const LINEAGE_MAX: usize = 64;
