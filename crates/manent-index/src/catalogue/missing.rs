//! Sessions that vanished without a move of ours, remembered by the catalogue until somebody acknowledges the loss.
//!
//! A session that is archived, deleted, restored or forked keeps its id, and is found by it wherever it went. One that
//! is purged is announced first, in a file beside the catalogue ([`PendingPurge`]), so that a purge that crashed, or
//! that another process is in the middle of, is not taken for a loss. All other sessions that are gone vanished: their
//! log was removed, emptied or replaced by something else.

use std::collections::HashSet;
use std::sync::Arc;

use manent_store::sync::lock;
use manent_store::{ListDetail, Place, Position, Selector, SessionKey, StreamId};
use serde::{Deserialize, Serialize};

use crate::catalogue::{Row, RowRef};
use crate::corpus::{Corpus, LossPolicy};
use crate::error::{IndexResult, Result};
use crate::pages::{VarintReader, put, put_text};
use crate::query::search::stream_of;
use crate::refresh::changes::survey;
use crate::refresh::index_dir::IndexDir;
use crate::refresh::ingest::ChangedStream;
use crate::refresh::loaded::LoadedIndex;
use crate::refresh::{Index, RefreshResult, Save, TRIES, if_usable};
use crate::segment::RecordRef;

/// A session that the catalogue once read, and that is nowhere any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSession {
    /// The place, key and id of the session.
    pub id: StreamId,
    /// The length in bytes when it was last seen.
    pub bytes: u64,
    /// The number of its last record then.
    pub last_seq: u64,
    /// The session was a log of ours, which nobody else may remove. Other programs may remove their own files.
    pub ours: bool,
}

/// A session that is gone, as the catalogue remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LostSession {
    /// The row that a copy of the session which comes back is compared with. It is `native` if the log was ours.
    row: Row,
    last: RecordRef,
    /// The session was looked for everywhere, while nothing moved.
    sure: bool,
    /// A command mentioned it.
    reported: bool,
    /// A file without a readable header is in its place, and may be the session. Not saved: the file is looked at
    /// before the loss is sure.
    replaced: bool,
}

impl LostSession {
    /// Returns `None` if no record of the session was ever read.
    fn of(row: &Row) -> Option<LostSession> {
        let Row { place, bytes, last, .. } = *row;
        let (name, key, id) = (row.name.clone(), row.key.clone(), row.id.clone());
        let native = row.native || row.headed;
        // All of a copy is read.
        let row = Row { place, name, key, id, bytes, last, native, stale: true, ..Row::default() };
        Some(LostSession { row, last: last?, sure: false, reported: false, replaced: false })
    }

    fn is_ours(&self) -> bool {
        self.row.native
    }

    /// Returns the place and the name under which the session was known.
    pub(crate) fn name(&self) -> (Place, &str) {
        (self.row.place(), &self.row.name)
    }

    pub(crate) fn is_of(&self, key: &SessionKey) -> bool {
        self.row.key == key.as_str()
    }

    fn missing(&self) -> Option<MissingSession> {
        let id = stream_of(&self.row)?;
        Some(MissingSession { id, bytes: self.row.bytes, last_seq: self.last.seq, ours: self.is_ours() })
    }

    /// Returns true if the last record is still in its place: then only the header is damaged, which is reported
    /// elsewhere. What the disk does not give may be there.
    fn lies_there(&self, corpus: &dyn Corpus) -> bool {
        if !self.replaced {
            return false;
        }
        match corpus.line_at(self.row.place(), &self.row.name, Position::new(self.last.offset)) {
            Ok(line) => line.is_some_and(|line| crc32c::crc32c(&line) == self.last.crc),
            Err(e) => e.is_refusal(),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let flags = [self.is_ours(), self.sure, self.reported];
        let flags = flags.iter().rev().fold(0, |all, flag| all << 1 | u64::from(*flag));
        let RecordRef { offset, seq, crc } = self.last;
        for number in [u64::from(self.row.place), flags, self.row.bytes, offset, seq, u64::from(crc)] {
            put(out, number);
        }
        for text in [&self.row.name, &self.row.key, &self.row.id] {
            put_text(out, text);
        }
    }

    pub(crate) fn take(from: &mut VarintReader<'_>) -> IndexResult<LostSession> {
        let (place, flags, bytes) = (from.next()? as u8, from.next()?, from.next()?);
        let last = from.record_ref()?;
        let flag = |at: u32| flags >> at & 1 == 1;
        let (native, sure, reported) = (flag(0), flag(1), flag(2));
        let (name, key, id) = (from.text()?.to_owned(), from.text()?.to_owned(), from.text()?.to_owned());
        let row =
            Row { place, name, key, id, bytes, last: Some(last), native, stale: true, ..Row::default() };
        Ok(LostSession { row, last, sure, reported, replaced: false })
    }
}

/// A session that is about to be purged, as a line of a file beside the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingPurge {
    key: String,
    id: String,
}

impl PendingPurge {
    /// Returns true if `row` is of this session.
    pub(crate) fn is_row(&self, row: &Row) -> bool {
        if self.id.is_empty() { row.id.is_empty() && self.key == row.key } else { self.id == row.id }
    }
}

/// The sessions that are there.
#[derive(Debug, Default)]
pub(crate) struct PresentSessions {
    ids: HashSet<String>,
    keys: HashSet<String>,
}

impl PresentSessions {
    fn note_rows<'a>(&mut self, rows: impl IntoIterator<Item = &'a RowRef>) -> IndexResult<()> {
        for row in rows {
            let row = row.row()?;
            self.note(&row.id, &row.key);
        }
        Ok(())
    }

    fn note(&mut self, id: &str, key: &str) {
        self.ids.insert(id.to_owned());
        self.keys.insert(key.to_owned());
    }

    /// Returns whether a lost session is there. Ours are known by their ids, wherever they go. Of another program's,
    /// any session of the key will do: it has no id while it is live, or one that cannot be a name, and gets one when
    /// it is put away.
    fn holds(&self, gone: &LostSession) -> bool {
        let is_name = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let by_id = gone.is_ours() && is_name(&gone.row.id);
        if by_id { self.ids.contains(&gone.row.id) } else { self.keys.contains(&gone.row.key) }
    }
}

/// Returns the rows of sessions that vanished earlier or just now, by their ids, to go on from if they are found
/// elsewhere.
pub(crate) fn known_by_id(
    gone: &[LostSession],
    went: &[Arc<Row>],
) -> impl Iterator<Item = (String, Arc<Row>)> {
    let rows = gone.iter().map(|gone| Arc::new(gone.row.clone())).chain(went.iter().cloned());
    rows.filter(|row| !row.id.is_empty()).map(|row| (row.id.clone(), row))
}

/// Puts rows that were read in the place of those that were known, and remembers the sessions in whose files others
/// were found. Until a session was read again, what was known of it stays: its turns are in the segments.
pub(crate) fn replace_rows(
    loaded: &mut LoadedIndex,
    batch: &[ChangedStream],
    rows: Vec<RowRef>,
    found: &mut PresentSessions,
) -> IndexResult<()> {
    let olds = || batch.iter().filter_map(|changed| changed.old.as_ref());
    let done_with: HashSet<u64> = olds().map(|old| old.number).collect();
    loaded.rows.retain(|row| !done_with.contains(&row.number()));
    if !done_with.is_empty() {
        let (mut present, mut others) = (PresentSessions::default(), HashSet::new());
        for row in &rows {
            let row = row.row()?;
            present.note(&row.id, &row.key);
            if !row.id.is_empty() {
                others.insert((row.place, row.name.clone()));
            }
        }
        let replaced = olds().filter_map(|old| {
            let gone = LostSession::of(old)?;
            let by_other = others.contains(&(gone.row.place, gone.row.name.clone()));
            Some(LostSession { replaced: !by_other, ..gone })
        });
        loaded.gone.extend(replaced.filter(|gone| !present.holds(gone)));
    }
    found.note_rows(&rows)?;
    loaded.rows.extend(rows);
    Ok(())
}

/// Takes out the rows of sessions that are not where they were, and remembers these.
pub(crate) fn drop_gone(loaded: &mut LoadedIndex, gone: &[Arc<Row>]) {
    let names: HashSet<(Place, &str)> = gone.iter().map(|row| (row.place(), row.name.as_str())).collect();
    loaded.rows.retain(|row| row.name().is_ok_and(|name| !names.contains(&(row.place(), name))));
    loaded.gone.extend(gone.iter().filter_map(|row| LostSession::of(row)));
    loaded.unsaved_rows += gone.len();
}

/// Takes out the rows of streams that others stand in the place of, and remembers these.
pub(crate) fn drop_replaced(loaded: &mut LoadedIndex, replaced: &[Arc<Row>]) {
    let numbers: HashSet<u64> = replaced.iter().map(|row| row.number).collect();
    loaded.rows.retain(|row| !numbers.contains(&row.number()));
    let lost = replaced.iter().filter_map(|row| LostSession::of(row));
    loaded.gone.extend(lost.map(|gone| LostSession { replaced: true, ..gone }));
    loaded.unsaved_rows += replaced.len();
}

impl Index {
    /// Decides which of the sessions that went are lost, when everything was looked at. `found`: what was read in this
    /// refresh.
    pub(crate) fn settle_gone(&self, loaded: &mut LoadedIndex, found: &PresentSessions) -> IndexResult<()> {
        if self.corpus.losses() == LossPolicy::Ignored {
            loaded.gone.clear();
        }
        if loaded.gone.is_empty() {
            return Ok(());
        }
        let before = loaded.gone.clone();
        // One that was restored and purged, while nobody looked, is no longer a loss.
        self.drop_purges(&mut loaded.gone);
        loaded.gone.retain(|gone| !found.holds(gone));
        if loaded.gone.iter().any(|gone| !gone.sure) {
            let mut present = PresentSessions::default();
            present.note_rows(&loaded.rows)?;
            loaded.gone.retain(|gone| gone.sure || !(present.holds(gone) || gone.lies_there(&*self.corpus)));
            loaded.gone.iter_mut().for_each(|gone| gone.sure = true);
            drop_repeated(&mut loaded.gone);
        }
        loaded.unsaved_rows += usize::from(loaded.gone != before);
        Ok(())
    }

    /// Drops the sessions that are being purged, by this or another process.
    pub(crate) fn drop_purges(&self, gone: &mut Vec<LostSession>) {
        let mut purges = self.dir.as_ref().map(IndexDir::purges).unwrap_or_default();
        purges.extend(lock(&self.purged).iter().cloned());
        gone.retain(|gone| !purges.iter().any(|purge| purge.is_row(&gone.row)));
    }

    /// Announces a purge, before anything is removed. A disk that is full does not hinder it: then a crash makes it
    /// look like a loss.
    pub fn announce_purge(&self, sessions: &[StreamId]) {
        let pending = |at: &StreamId| PendingPurge { key: at.key.as_str().to_owned(), id: at.id.clone() };
        let purges: Vec<PendingPurge> = sessions.iter().map(pending).collect();
        if let Some(dir) = self.dir.as_ref() {
            let _ = dir.add_purges(&purges);
        }
        lock(&self.purged).extend(purges);
    }

    /// The sessions that the catalogue once read and that are nowhere now. Nothing is changed, and no record is read.
    fn lost(&self) -> RefreshResult<Vec<LostSession>> {
        let state = lock(&self.state);
        let mut lost = Vec::new();
        for _ in 0..TRIES {
            let from_disk;
            let edition = self.dir.as_ref().and_then(IndexDir::edition);
            let loaded = match (&state.loaded, self.dir.as_ref()) {
                (Some(loaded), _) if edition.is_none() || loaded.edition == edition => loaded,
                (_, Some(dir)) => {
                    from_disk = LoadedIndex::load(dir)?;
                    &from_disk
                }
                (_, None) => return Ok(Vec::new()),
            };
            let settled;
            (lost, settled) = self.lost_of(loaded)?;
            // Somebody who purges may have finished between our looks.
            if settled && self.dir.as_ref().and_then(IndexDir::edition) == edition {
                break;
            }
        }
        Ok(lost)
    }

    /// Returns the lost sessions of an index, and false if sessions moved meanwhile.
    fn lost_of(&self, loaded: &LoadedIndex) -> RefreshResult<(Vec<LostSession>, bool)> {
        let (changed, went) = survey(loaded, &*self.corpus, self.dir.as_ref(), false)?.differences;
        let olds = changed.iter().filter_map(|changed| changed.old.as_ref());
        let stale: HashSet<u64> = olds.clone().chain(&went).map(|row| row.number).collect();
        let mut lost = loaded.gone.clone();
        lost.extend(went.iter().filter_map(|row| LostSession::of(row)));
        let (mut present, mut settled) = (PresentSessions::default(), true);
        let is_any = !lost.is_empty() || olds.clone().any(|row| LostSession::of(row).is_some());
        for changed in changed.iter().filter(|_| is_any) {
            let gone = changed.old.as_ref().and_then(|row| LostSession::of(row));
            let listed = changed.identify(&*self.corpus)?;
            let is_headed = listed.as_ref().is_some_and(|listed| !listed.id.id.is_empty());
            lost.extend(gone.map(|gone| LostSession { replaced: !is_headed, ..gone }));
            match listed {
                Some(listed) => present.note(&listed.id.id, listed.id.key.as_str()),
                None => settled = false,
            }
        }
        lost.retain(|gone| !present.holds(gone));
        if lost.is_empty() {
            return Ok((lost, settled));
        }
        present.note_rows(loaded.rows.iter().filter(|row| !stale.contains(&row.number())))?;
        self.drop_purges(&mut lost);
        lost.retain(|gone| !(present.holds(gone) || gone.lies_there(&*self.corpus)));
        drop_repeated(&mut lost);
        Ok((lost, settled))
    }

    /// Sessions that the catalogue once read, and that are nowhere now although no purge removed them: their logs were
    /// removed, emptied, or replaced by something else. Only what the catalogue knows can be missed: after
    /// [`Index::reindex`], nothing is.
    pub fn missing(&self) -> Result<Vec<MissingSession>> {
        Ok(if_usable(self.lost())?.iter().flatten().filter_map(LostSession::missing).collect())
    }

    /// Acknowledges missing sessions, so that they are no longer reported, and returns them.
    pub fn acknowledge_missing(&self, which: Selector<'_>) -> Result<Vec<MissingSession>> {
        let is_meant = |key: &str, id: &str| match which {
            Selector::All => true,
            Selector::Key(wanted) => wanted.as_str() == key,
            Selector::Id(begin) => id.starts_with(begin),
            Selector::Name(_) => false,
        };
        // Without anything missing, nothing is read or written.
        if !self.missing()?.iter().any(|missing| is_meant(missing.id.key.as_str(), &missing.id.id)) {
            return Ok(Vec::new());
        }
        self.refresh(Save::Sometimes, &mut |_, _| {})?;
        let mut state = lock(&self.state);
        let loaded = state.loaded.get_or_insert_default();
        let (meant, others) = std::mem::take(&mut loaded.gone)
            .into_iter()
            .partition(|gone| is_meant(&gone.row.key, &gone.row.id));
        loaded.gone = others;
        let meant: Vec<LostSession> = meant;
        loaded.unsaved_rows += meant.len();
        state.generation += 1;
        drop(state);
        if !meant.is_empty() {
            self.refresh(Save::Now, &mut |_, _| {})?;
        }
        Ok(meant.iter().filter_map(LostSession::missing).collect())
    }

    /// Returns the missing sessions of ours that the last search or list came upon and that were never returned by
    /// this before, by any process.
    pub fn newly_missing(&self) -> Vec<MissingSession> {
        let mut state = lock(&self.state);
        let Some(loaded) = &mut state.loaded else { return Vec::new() };
        let is_new = |gone: &&mut LostSession| gone.is_ours() && gone.sure && !gone.reported;
        let mut new = Vec::new();
        for gone in loaded.gone.iter_mut().filter(is_new) {
            gone.reported = true;
            new.push(gone.clone());
        }
        loaded.unsaved_rows += new.len();
        state.generation += 1;
        drop(state);
        if !new.is_empty() {
            // If this cannot be saved, the next command reports the losses again.
            let _ = self.refresh(Save::Now, &mut |_, _| {});
        }
        new.iter().filter_map(LostSession::missing).collect()
    }

    /// Looks for the missing sessions that [`Index::newly_missing`] would return after a search or a list, for a
    /// program that does neither. Compares names and time stamps; records are read only if a session is missing.
    pub fn look_for_newly_missing(&self) -> Result<Vec<MissingSession>> {
        if !if_usable(self.lost())?.iter().flatten().any(|gone| gone.is_ours() && !gone.reported) {
            return Ok(Vec::new());
        }
        self.refresh(Save::Sometimes, &mut |_, _| {})?;
        Ok(self.newly_missing())
    }

    /// A live session of a key that the catalogue knows, and that is nowhere now. Asks for one key alone, so that it
    /// can be asked whenever a session is begun or not found.
    pub fn missing_of(&self, key: &SessionKey) -> Result<Option<MissingSession>> {
        let (rows, gone) = self.noted_of(key);
        let mut gone: Vec<LostSession> = gone.into_iter().filter(LostSession::is_ours).collect();
        let live = self.corpus.live_outside(key)?;
        let has_header = self.corpus.list(Place::Live, Selector::Key(key), ListDetail::Header)?;
        let has_header = has_header.iter().any(|listed| !listed.id.id.is_empty());
        let is_replaced = |row: &Row| !has_header && live.as_ref().is_some_and(|live| live.name == row.name);
        let rows = rows.iter().filter(|row| row.native || row.headed);
        let lost = |row: &Row| Some(LostSession { replaced: is_replaced(row), ..LostSession::of(row)? });
        gone.extend(rows.filter_map(lost));
        if gone.is_empty() {
            return Ok(None);
        }
        self.drop_purges(&mut gone);
        let mut present = PresentSessions::default();
        for place in Place::ALL {
            for listed in self.corpus.list(place, Selector::Key(key), ListDetail::Header)? {
                present.note(&listed.id.id, key.as_str());
            }
        }
        gone.retain(|gone| !(present.holds(gone) || gone.lies_there(&*self.corpus)));
        Ok(gone.iter().find_map(LostSession::missing))
    }
}

/// Keeps the last word on each, and of other programs' sessions only so many.
fn drop_repeated(gone: &mut Vec<LostSession>) {
    let mut seen = HashSet::new();
    let mut foreign = 0;
    gone.reverse();
    gone.retain(|gone| {
        foreign += usize::from(!gone.is_ours());
        let is_new = seen.insert((gone.row.place, gone.row.name.clone(), gone.row.id.clone()));
        is_new && (gone.is_ours() || foreign <= FOREIGN_MAX)
    });
    gone.reverse();
}

/// Other programs remove their sessions as they like, and for ever.
const FOREIGN_MAX: usize = 1000;
