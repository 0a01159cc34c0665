//! Lists of sessions, counts over the store, and the state of the index, all from the catalogue.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use manent_log::LogItem;
use manent_store::{Place, ProgressFn, Seek, SessionKey, StreamId};

use crate::catalogue::{Row, RowRef};
use crate::corpus::StreamOrigin;
use crate::error::{Error, IndexResult, Result};
use crate::query::search::stream_of;
use crate::refresh::ingest::is_set_aside;
use crate::refresh::loaded::Snapshot;
use crate::refresh::{Index, IndexProgress, Save};

/// Some sessions of a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The sessions, the one that was written last first.
    pub sessions: Vec<Summary>,
    /// The number of all sessions in this place.
    pub total: usize,
    /// The time at which all of them were last looked at, in milliseconds since 1970; `None` if that was just now.
    pub as_of_ms: Option<i64>,
    /// The progress of the index, if the list does not cover everything; see [`Index::sessions_so_far`].
    pub partial: Option<IndexProgress>,
}

/// Counts over a whole store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// The counts of each place.
    pub places: Vec<(Place, PlaceStats)>,
    /// Turns on each day, by the number of days since 1970.
    pub turns_by_day: BTreeMap<i64, u64>,
    /// Sessions begun on each day.
    pub sessions_by_day: BTreeMap<i64, u64>,
    /// The number of turns of each role.
    pub turns_by_role: BTreeMap<String, u64>,
    /// Every session, the largest first.
    pub largest: Vec<Summary>,
    /// The size of the index in bytes.
    pub index_bytes: u64,
}

/// The counts of one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlaceStats {
    /// Sessions.
    pub sessions: u64,
    /// Their own turns.
    pub turns: u64,
    /// The estimated number of tokens of these.
    pub tokens: u64,
    /// Bytes on the disk.
    pub bytes: u64,
}

/// The contents of an index that was built anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReindexReport {
    /// Sessions.
    pub sessions: u64,
    /// Turns.
    pub turns: u64,
    /// Bytes of the logs that were read.
    pub log_bytes: u64,
    /// Bytes that the index takes.
    pub index_bytes: u64,
}

/// The state of an index on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexState {
    /// The directory; `None` if the index is not in files.
    pub dir: Option<PathBuf>,
    /// The reason why the files cannot be used, if so. The next search builds the index again.
    pub broken: Option<String>,
    /// The number of sessions that it knows.
    pub sessions: usize,
    /// The number of sessions that changed, came or went since it was written.
    pub behind: usize,
    /// Bytes that it takes.
    pub bytes: u64,
    /// The time at which it was written, in milliseconds since 1970; `None` if never.
    pub written_ms: Option<i64>,
}

impl Index {
    /// Lists the streams of a place, the one that was written last first: at most `limit`, none last written before
    /// `since_ms`. Every stream is looked at first, and what changed is read; `progress` tells how far that is.
    pub fn sessions(
        &self,
        place: Place,
        since_ms: Option<i64>,
        limit: usize,
        progress: ProgressFn<'_>,
    ) -> Result<Listing> {
        self.ask(progress, |snapshot| listing_of(snapshot, place, since_ms, limit))
    }

    /// Lists streams like [`Index::sessions`], without waiting for a thread that reads much: what is known so far,
    /// marked by [`Listing::partial`].
    pub fn sessions_so_far(
        self: &Arc<Self>,
        place: Place,
        since_ms: Option<i64>,
        limit: usize,
    ) -> Result<Listing> {
        if let Some((snapshot, so_far)) = self.known_so_far()
            && let Ok(listing) = listing_of(&snapshot, place, since_ms, limit)
        {
            return Ok(Listing { partial: Some(so_far), ..listing });
        }
        self.sessions(place, since_ms, limit, &mut |_, _| {})
    }

    /// Asks what is known. Where something in it turns out to be broken, it is made anew and asked again.
    fn ask<T>(&self, progress: ProgressFn<'_>, ask: impl Fn(&Snapshot) -> IndexResult<T>) -> Result<T> {
        let snapshot = self.refresh(Save::Sometimes, &mut *progress)?;
        if let Ok(answer) = ask(&snapshot) {
            return Ok(answer);
        }
        self.start_anew();
        let snapshot = self.refresh(Save::Sometimes, progress)?;
        ask(&snapshot).map_err(|broken| Error::Index(broken.to_string()))
    }

    /// Counts what the store holds.
    pub fn stats(&self, progress: ProgressFn<'_>) -> Result<StoreStats> {
        let stats = self.ask(progress, stats_of)?;
        Ok(StoreStats { index_bytes: self.bytes(), ..stats })
    }

    /// Makes the index anew from the logs.
    pub fn reindex(&self, progress: ProgressFn<'_>) -> Result<ReindexReport> {
        self.start_anew();
        let snapshot = self.refresh(Save::Now, progress)?;
        let mut made = ReindexReport { index_bytes: self.bytes(), ..ReindexReport::default() };
        for row in all_rows(&snapshot).map_err(|broken| Error::Index(broken.to_string()))? {
            made.sessions += 1;
            made.turns += row.turns;
            made.log_bytes += row.bytes;
        }
        Ok(made)
    }

    /// Returns the length in bytes that a session had when it was last seen with an end that it lacks now, and the
    /// number of its last record then. Only what was noted before is asked for: the index is not refreshed.
    pub fn once(&self, at: &StreamId) -> Result<Option<(u64, u64)>> {
        let Some(row) = self.noted(at) else { return Ok(None) };
        // By its key alone, another may be meant than was noted: one that was begun since.
        let is_other = |origin: StreamOrigin| at.id.is_empty() && origin.id != row.id;
        let header = self.corpus.open_at(at, Seek::Header)?;
        if self.corpus.origin_of(&*header).is_some_and(is_other) {
            return Ok(None);
        }
        if row.once_seq > 0 {
            return Ok(Some((row.once_bytes, row.once_seq)));
        }
        let Some(last) = row.last.filter(|_| row.native) else { return Ok(None) };
        // By its number: in a fork that was given a copy of what it shares, it lies elsewhere now.
        let mut records = self.corpus.open_at(at, Seek::Seq(last.seq))?;
        while let Some(item) = records.next()? {
            if let LogItem::Entry(entry) = item {
                if entry.seq == last.seq && crc32c::crc32c(entry.bytes) == last.crc {
                    return Ok(None);
                }
                break;
            }
        }
        let is_set_aside = is_set_aside(&*self.corpus, at, &row, records.end())?;
        Ok((!is_set_aside).then_some((row.bytes, last.seq)))
    }
}

fn listing_of(
    snapshot: &Snapshot,
    place: Place,
    since_ms: Option<i64>,
    limit: usize,
) -> IndexResult<Listing> {
    let here: Vec<&RowRef> = snapshot.rows.iter().filter(|row| row.place() == place).collect();
    Ok(Listing { sessions: page(&here, since_ms, limit)?, total: here.len(), ..Listing::default() })
}

/// Counts what the store holds, except the size of the index.
fn stats_of(snapshot: &Snapshot) -> IndexResult<StoreStats> {
    let mut stats = StoreStats::default();
    let rows = all_rows(snapshot)?;
    for place in Place::ALL {
        let mut share = PlaceStats::default();
        for row in rows.iter().filter(|row| row.place() == place) {
            share.sessions += 1;
            share.turns = share.turns.saturating_add(row.turns);
            share.tokens = share.tokens.saturating_add(row.tokens);
            share.bytes = share.bytes.saturating_add(row.bytes);
            *stats.sessions_by_day.entry(row.created_ms.div_euclid(DAY_MS)).or_default() += 1;
        }
        stats.places.push((place, share));
    }
    count_turns(snapshot, &mut stats)?;
    stats.largest = rows.iter().filter_map(|row| Summary::of(row)).collect();
    stats.largest.sort_by(|a, b| (b.bytes, &a.id.key).cmp(&(a.bytes, &b.id.key)));
    Ok(stats)
}

fn count_turns(snapshot: &Snapshot, stats: &mut StoreStats) -> IndexResult<()> {
    for view in &snapshot.views {
        let (seconds, roles) = (view.segment.seconds()?, view.segment.role_of()?);
        let mut by_role = vec![0_u64; view.segment.roles.len()];
        for doc in (0..view.segment.turns).filter(|doc| !view.is_dead(*doc)) {
            *stats.turns_by_day.entry(i64::from(seconds.of(doc)) / DAY_SECONDS).or_default() += 1;
            if let Some(count) = roles.get(doc as usize).and_then(|role| by_role.get_mut(usize::from(*role)))
            {
                *count += 1;
            }
        }
        for (role, count) in view.segment.roles.iter().zip(by_role) {
            *stats.turns_by_role.entry(role.clone()).or_default() += count;
        }
    }
    Ok(())
}

fn all_rows(snapshot: &Snapshot) -> IndexResult<Vec<Arc<Row>>> {
    snapshot.rows.iter().map(RowRef::row).collect()
}

/// Returns the rows that were written last, of which only as many are read as are wanted.
pub(crate) fn page(rows: &[&RowRef], since_ms: Option<i64>, limit: usize) -> IndexResult<Vec<Summary>> {
    let mut wanted: Vec<&RowRef> =
        rows.iter().copied().filter(|row| since_ms.is_none_or(|ms| row.updated_ms() >= ms)).collect();
    if limit < wanted.len() {
        // All that were written as late as the last that fits: their order needs more than the time.
        let mut times: Vec<i64> = wanted.iter().map(|row| row.updated_ms()).collect();
        let (_, oldest, _) = times.select_nth_unstable_by(limit, |a, b| b.cmp(a));
        let oldest = *oldest;
        wanted.retain(|row| row.updated_ms() >= oldest);
    }
    let mut read = wanted.into_iter().map(RowRef::row).collect::<IndexResult<Vec<_>>>()?;
    read.sort_by(|a, b| (b.updated_ms, &a.key, &b.id).cmp(&(a.updated_ms, &b.key, &a.id)));
    read.truncate(limit);
    Ok(read.iter().filter_map(|row| Summary::of(row)).collect())
}

/// Sessions that cannot be read.
pub(crate) fn unread(snapshot: &Snapshot) -> IndexResult<Vec<(StreamId, String)>> {
    let mut unread = Vec::new();
    for row in snapshot.rows.iter().filter(|row| !snapshot.all_read && row.is_unread()) {
        let row = row.row()?;
        unread.extend(stream_of(&row).map(|id| (id, row.unreadable.clone())));
    }
    Ok(unread)
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const DAY_SECONDS: i64 = DAY_MS / 1000;

/// One line of a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The id of the session.
    pub id: StreamId,
    /// In the trash: where it was before.
    pub from: Place,
    /// The title that was set, or the first thing the user said, shortened.
    pub title: String,
    /// The number of turns, including those that a fork shares with its parent.
    pub turns: u64,
    /// The estimated number of tokens of its turns.
    pub tokens: u64,
    /// The time of the first record, else of the file, in milliseconds since 1970.
    pub created_ms: i64,
    /// The time of the last record, else of the file, in milliseconds since 1970.
    pub updated_ms: i64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// True if some of it cannot be read.
    pub damaged: bool,
    /// The reason why it, or anything more of it, cannot be read.
    pub unread: Option<String>,
    /// The length in bytes and the number of the last record that it once had, if it is shorter now.
    pub once: Option<(u64, u64)>,
}

impl Summary {
    pub(crate) fn of(row: &Row) -> Option<Summary> {
        let key = SessionKey::new(row.key.as_str()).ok()?;
        Some(Summary {
            id: StreamId::session(row.place(), &key, row.id.as_str()),
            from: row.from(),
            title: row.title().to_owned(),
            turns: row.turns + row.shared_turns,
            tokens: row.tokens + row.shared_tokens,
            created_ms: row.created_ms,
            updated_ms: row.updated_ms,
            bytes: row.bytes,
            damaged: row.damaged || row.torn,
            unread: (!row.unreadable.is_empty()).then(|| row.unreadable.clone()),
            once: (row.once_seq > 0).then_some((row.once_bytes, row.once_seq)),
        })
    }
}

/// The first line of a text, at most so many characters.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

const TITLE_CHARS_MAX: usize = 60;
