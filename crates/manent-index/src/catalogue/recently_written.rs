//! Recently written sessions of a large store, so that a first page is shown before every stream was compared.
//!
//! Comparing a hundred thousand streams takes a quarter of a second, too long for a page of a list. So each of our
//! writers notes once which session it writes, in a file beside the catalogue (`news`). A page shows the rows of the
//! catalogue, refreshed for the sessions that are noted or on the page; what other programs wrote meanwhile is looked
//! for afterwards. In a store of ordinary size nothing is noted and every stream is compared.

use std::collections::HashSet;
use std::sync::Arc;

use manent_store::sync::lock;
use manent_store::{Place, ScanTime, SessionKey, StreamStat};

use crate::catalogue::RowRef;
use crate::catalogue::listing::{Listing, Summary, page};
use crate::corpus::Corpus;
use crate::error::Result;
use crate::refresh::index_dir::IndexDir;
use crate::refresh::ingest::{ChangedStream, MovedStreams, read_batch};
use crate::refresh::{Index, RefreshError, RefreshResult, if_usable};

impl Index {
    /// Notes that a session was written. Nothing that goes wrong here matters: the next look at all streams sees it.
    pub(crate) fn note_recent(&self, dir: &IndexDir, key: &SessionKey) {
        let mut keys = lock(&self.noted);
        if keys.contains(key) {
            return;
        }
        // Once for each session, as long as it is not one after the other without end.
        if keys.len() >= NOTED_MAX {
            keys.clear();
        }
        keys.insert(key.clone());
        if dir.catalogue_bytes() >= LARGE_BYTES
            && let Ok(mut line) = serde_json::to_vec(key.as_str())
        {
            line.push(b'\n');
            let _ = dir.add_recent(&line);
        }
    }
    /// Lists live sessions like [`Index::sessions`], from the catalogue and without looking at every stream. What this
    /// and other processes of ours wrote is there; what other programs wrote since [`Listing::as_of_ms`] may not be.
    /// `None` where the store is not so large that this would help, or where that cannot be told: ask
    /// [`Index::sessions`].
    pub fn sessions_at_once(&self, since_ms: Option<i64>, limit: usize) -> Result<Option<Listing>> {
        let Some(dir) = self.dir.as_ref() else { return Ok(None) };
        if dir.catalogue_bytes() < LARGE_BYTES || limit > PAGE_MAX {
            return Ok(None);
        }
        Ok(if_usable(at_once(&*self.corpus, dir, since_ms, limit))?.flatten())
    }
}

fn at_once(
    corpus: &dyn Corpus,
    dir: &IndexDir,
    since_ms: Option<i64>,
    limit: usize,
) -> RefreshResult<Option<Listing>> {
    let Some((head, filed)) = dir.catalogue()? else { return Ok(None) };
    let filed = Arc::new(filed);
    let mut rows: Vec<RowRef> = (0..filed.len() as u32).map(|at| RowRef::OnDisk(filed.clone(), at)).collect();
    rows.retain(|row| row.place() == Place::Live);
    let mut noted = Vec::new();
    for key in dir.recent()? {
        noted.extend(corpus.live_outside(&key)?);
    }
    if noted.len() > PAGE_MAX {
        return Ok(None);
    }
    bring_up(corpus, &mut rows, noted, head.next_number)?;
    let all: Vec<&RowRef> = rows.iter().collect();
    let shown = page(&all, since_ms, limit)?;
    // What is shown is as it is: one that changed or went behind our back makes a look at everything worth its time.
    for Summary { id, bytes, .. } in &shown {
        let now = corpus.live_outside(&id.key)?;
        if now.is_none_or(|now| now.bytes != *bytes) {
            return Ok(None);
        }
    }
    Ok(Some(Listing { sessions: shown, total: rows.len(), as_of_ms: Some(head.checked_ms), partial: None }))
}

/// Reads what was appended to some sessions.
fn bring_up(
    corpus: &dyn Corpus,
    rows: &mut Vec<RowRef>,
    noted: Vec<StreamStat>,
    next_number: u64,
) -> RefreshResult<()> {
    if noted.is_empty() {
        return Ok(());
    }
    let names: HashSet<&str> = noted.iter().map(|stat| stat.name.as_str()).collect();
    let (mut old, mut others) = (Vec::new(), Vec::with_capacity(rows.len()));
    for row in rows.drain(..) {
        if names.contains(row.name()?) { old.push(row) } else { others.push(row) }
    }
    *rows = others;
    let mut changed = Vec::with_capacity(noted.len());
    for StreamStat { name, version, bytes, .. } in noted {
        let old_row = old.iter().find(|row| row.name().is_ok_and(|other| other == name));
        match old_row {
            Some(row) if version == row.version() => rows.push(row.clone()),
            old_row => {
                let old = old_row.map(RowRef::row).transpose()?;
                // Only writers of ours note sessions, and they only append.
                let grew = old.as_ref().is_some_and(|old| bytes >= old.bytes);
                changed.push(ChangedStream {
                    place: Place::Live,
                    name,
                    version,
                    bytes,
                    seen_at: ScanTime::default(),
                    grew,
                    old,
                });
            }
        }
    }
    let none_moved = MovedStreams::default();
    let read = read_batch(corpus, &changed, &none_moved, next_number, None, &|_, _| {}, &mut |_| {});
    let read = read.map_err(|_| RefreshError::Unsettled)?;
    rows.extend(read.rows);
    Ok(())
}

/// The length of a catalogue of some thousands of rows: below that, looking at every stream takes no time.
pub(crate) const LARGE_BYTES: u64 = 512 * 1024;
/// The largest number of rows of a page.
const PAGE_MAX: usize = 1000;
const NOTED_MAX: usize = 10_000;
