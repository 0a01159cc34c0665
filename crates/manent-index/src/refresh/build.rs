//! Builds: refreshes that read much, as the first one of a store does, without a lock that others wait for.
//!
//! A build works on a copy of the rows and holds neither [`Index::state`] nor the right to write the index while it
//! reads. What it holds says only that a build is under way: other threads of the process that want the full answer
//! wait for it, other processes for a bounded time. Searches that take a partial answer, and purges, go on.
//!
//! The right to write is taken for single writes: for each finished segment, for a step of the catalogue, and at the
//! end. What was purged since it was read must not be written then. So each write first checks that the streams are
//! still there, and a catalogue that another process replaced meanwhile is gone on from, if nothing but a purge changed
//! it ([`rebased`]).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use manent_store::sync::lock;
use manent_store::{ChangeKind, Cursor, ListDetail, Lock, ProgressFn, Selector, Version};

use crate::catalogue::missing::{PresentSessions, drop_gone, drop_replaced, known_by_id, replace_rows};
use crate::catalogue::{Row, RowRef};
use crate::corpus::Corpus;
use crate::error::{Error, IndexResult, Result};
use crate::refresh::changes::{Survey, recheck};
use crate::refresh::ingest::{
    BATCH_BYTES, ChangedStream, MovedStreams, SAVE_BYTES, Spill, grouped, read_batch,
};
use crate::refresh::loaded::{LoadedIndex, SegmentHandle};
use crate::refresh::{
    Attempt, BEING_WRITTEN, Index, MUCH_BYTES, PartialIndex, ReadingGuard, RefreshError, RefreshResult, Save,
    State,
};

/// The right to build, of one thread of a process, until it is dropped.
pub(super) struct BuildTurn<'a> {
    _thread: MutexGuard<'a, ()>,
    _process: Option<Lock>,
    /// False if another process builds, and for so long that it is not waited for: its build is the one to be saved.
    may_save: bool,
}

/// A build that is under way.
struct Build<'a> {
    index: &'a Index,
    may_save: bool,
    /// The index that the build goes on from, and its [`State::generation`].
    base: LoadedIndex,
    generation: u64,
    /// The index with everything that was read.
    work: LoadedIndex,
    changed: Vec<ChangedStream>,
    gone: Vec<Arc<Row>>,
    cursor: Cursor,
    total_bytes: u64,
    found: PresentSessions,
    /// True if streams were not where they were expected, and may be elsewhere.
    lost: bool,
}

impl Index {
    /// Waits until no other thread of this process builds, and for a bounded time until no other process does.
    pub(super) fn take_turn(&self) -> BuildTurn<'_> {
        let thread = lock(&self.building);
        let process = self.dir.as_ref().map(|dir| dir.lock_build(self.wait));
        // Where the lock cannot be had because the disk does not let us write, a save fails in its own words.
        let may_save = !matches!(process, None | Some(Ok(None)));
        BuildTurn { _thread: thread, _process: process.and_then(std::io::Result::ok).flatten(), may_save }
    }

    /// Reads what a survey reported while `state` is free for others, and puts the result there.
    pub(super) fn build<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        (save, this): (Save, Attempt),
        survey: Survey,
        turn: &BuildTurn<'_>,
        progress: ProgressFn<'_>,
    ) -> (MutexGuard<'a, State>, RefreshResult<()>) {
        let generation = state.generation;
        let loaded = state.loaded.get_or_insert_default();
        // What was reported now is not reported again: others have to look at everything until it is read.
        loaded.is_checked = false;
        let total_bytes = survey.unread_bytes();
        let base = loaded.clone();
        let mut work = loaded.clone();
        (work.checked_ms, work.written_log_bytes) = (survey.checked_ms, survey.written_log_bytes);
        // Until everything was read, the cursor would hide what else came.
        work.cursor = Cursor::default();
        let (changed, gone) = survey.differences;
        let mut build = Build {
            index: self,
            may_save: turn.may_save,
            base,
            generation,
            work,
            changed,
            gone,
            cursor: survey.cursor,
            total_bytes,
            found: PresentSessions::default(),
            lost: false,
        };
        let _reading = (total_bytes >= MUCH_BYTES).then(|| {
            *lock(&self.reading) = Some(PartialIndex::new(&build.work, total_bytes));
            ReadingGuard(self)
        });
        drop(state);
        let read = build.read(progress);
        let mut state = lock(&self.state);
        let outcome = read.and_then(|()| build.finish(&mut state, save, this));
        if outcome.is_err()
            && let Some(loaded) = &mut state.loaded
        {
            // Segments that were put on the disk already.
            loaded.has_strays = true;
        }
        (state, outcome)
    }

    /// Removes from the disk what is gone, and what this process purges, without reading anything: what changed is read
    /// by whoever searches next.
    pub(super) fn forget_known(&self, state: &mut State, gone: &[Arc<Row>]) -> RefreshResult<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let Some(_writing) = self.begin_writing(state, self.wait)? else {
            let why = state.unsaved_because.clone().unwrap_or_else(|| BEING_WRITTEN.to_owned());
            return Err(Error::Index(why).into());
        };
        state.generation += 1;
        state.snapshot = None;
        let loaded = state.loaded.get_or_insert_default();
        loaded.is_checked = false;
        loaded.cursor = Cursor::default();
        drop_gone(loaded, gone);
        let purged = lock(&self.purged).clone();
        let mut rows = Vec::with_capacity(loaded.rows.len());
        for slot in loaded.rows.drain(..) {
            // A new stream may have the name of one that was purged, and is not gone.
            let row = slot.row()?;
            if !purged.iter().any(|purge| purge.is_row(&row)) {
                rows.push(slot);
            }
        }
        loaded.rows = rows;
        self.drop_purges(&mut loaded.gone);
        if dir.edition().is_none() {
            // Nothing counts yet. What a build has put aside is gone on from in memory.
            let cleared = dir.tidy(&[]).and_then(|()| dir.sync());
            return cleared.map_err(|e| Error::Index(e.to_string()).into());
        }
        let saved = loaded.save(dir);
        state.note_saved(saved, Save::Anyway)
    }
}

impl Build<'_> {
    /// Reads all streams that changed.
    fn read(&mut self, progress: ProgressFn<'_>) -> RefreshResult<()> {
        let index = self.index;
        let moved: MovedStreams = Mutex::new(known_by_id(&self.work.gone, &self.gone).collect());
        let spill = index.dir.as_ref().map(|dir| Spill::new(dir, index.wait));
        let (mut done, total) = (0, self.total_bytes);
        let changed = std::mem::take(&mut self.changed);
        for batch in grouped(changed, ChangedStream::unread_bytes, |bytes, _| bytes < BATCH_BYTES) {
            let bytes: u64 = batch.iter().map(ChangedStream::unread_bytes).sum();
            let mut tell = |now: u64| {
                index.note_read(done + now);
                progress(done + now, total);
            };
            let publish = |rows: &[RowRef], segment: &SegmentHandle| index.note_segment(rows, segment);
            let next = self.work.next_number;
            let read = read_batch(&*index.corpus, &batch, &moved, next, spill.as_ref(), &publish, &mut tell)?;
            self.work.next_number = read.next_number;
            self.lost |= read.lost;
            replace_rows(&mut self.work, &batch, read.rows, &mut self.found)?;
            self.work.segments.extend(read.segments);
            self.work.unsaved_bytes += bytes;
            self.work.unsaved_rows += batch.len();
            done += bytes;
            if self.may_save && bytes >= BATCH_BYTES {
                // A step that need not be done again if somebody kills us. If it fails, the last one says so.
                let _ = self.save_step();
            }
        }
        Ok(())
    }

    /// Saves what was read so far, unless somebody else is writing.
    fn save_step(&mut self) -> RefreshResult<()> {
        let Some(dir) = &self.index.dir else { return Ok(()) };
        let Ok(Some(_writing)) = dir.write(self.index.wait) else { return Ok(()) };
        if dir.edition().is_some_and(|now| self.work.edition != Some(now)) {
            let now = LoadedIndex::load(dir)?;
            let Some((work, skipped)) = rebased(&self.base, &self.work, &now)? else { return Ok(()) };
            (self.work, self.lost) = (work, self.lost || skipped);
        }
        self.lost |= self.drop_changed()?;
        self.work.forget_removed_names(dir)?;
        self.work.save(dir)?;
        self.base = self.work.clone();
        Ok(())
    }

    /// Puts what was read in the place of what was known, and saves it.
    fn finish(mut self, state: &mut State, save: Save, this: Attempt) -> RefreshResult<()> {
        let index = self.index;
        index.load(state);
        let is_wanted = self.may_save && (save, this) != (Save::Sometimes, Attempt::Last);
        let mut writing = None;
        if let Some(dir) = index.dir.as_ref().filter(|_| is_wanted) {
            match dir.write(index.wait) {
                Ok(lock) => writing = lock,
                Err(e) => state.unsaved_because = Some(e.to_string()),
            }
            // With the right to write, the catalogue stays what it is.
            if writing.is_some() && state.loaded.as_ref().is_some_and(|loaded| index.is_outdated(loaded)) {
                index.load(state);
            }
        }
        let generation = state.generation;
        let now = state.loaded.get_or_insert_default();
        if now.edition != self.base.edition || generation != self.generation {
            match rebased(&self.base, &self.work, now)? {
                Some((work, skipped)) => {
                    (self.work, self.cursor) = (work, Cursor::default());
                    self.lost |= skipped;
                    let numbers: HashSet<u64> = self.work.rows.iter().map(RowRef::number).collect();
                    self.gone.retain(|row| numbers.contains(&row.number));
                }
                // The answer is made of what was read, which need not be saved.
                None if this == Attempt::Last => writing = None,
                None => return Err(RefreshError::Outdated),
            }
        }
        let cursor = std::mem::take(&mut self.cursor);
        let settled = index.settle(&mut self.work, &self.gone, &self.found, self.lost, cursor)?;
        let changed = if writing.is_some() { self.drop_changed()? } else { false };
        let is_settled = settled && !changed;
        if !is_settled {
            self.work.is_checked = false;
            index.drop_purges(&mut self.work.gone);
        }
        let saved = match (&index.dir, &writing) {
            (Some(dir), Some(_)) => {
                Some(self.work.forget_removed_names(dir).and_then(|()| self.work.save(dir)))
            }
            _ => None,
        };
        state.generation += 1;
        state.snapshot = None;
        state.loaded = Some(self.work);
        match saved {
            Some(saved) => state.note_saved(saved, save)?,
            None if save == Save::Now && index.dir.is_some() => {
                let why = state.unsaved_because.clone().unwrap_or_else(|| BEING_WRITTEN.to_owned());
                return Err(Error::Index(why).into());
            }
            None => {}
        }
        if changed || (!settled && this == Attempt::Early) { Err(RefreshError::Unsettled) } else { Ok(()) }
    }

    /// Takes out the rows of streams that went or became others since they were read, because they may have been
    /// purged. Returns whether there were any.
    ///
    /// A row that no catalogue had is not remembered as lost: nobody else knows of it.
    fn drop_changed(&mut self) -> RefreshResult<bool> {
        let corpus = &*self.index.corpus;
        let changes = recheck(&mut self.work, corpus)?;
        let expected: HashSet<u64> = self.gone.iter().map(|row| row.number).collect();
        let by_name: HashMap<_, _> = changes
            .iter()
            .filter(|change| !matches!(change.kind, ChangeKind::New(_)))
            .map(|change| ((change.place, change.name.as_str()), change))
            .collect();
        let (mut went, mut replaced, mut unknown) = (Vec::new(), Vec::new(), HashSet::new());
        for slot in self.work.rows.iter().filter(|_| !by_name.is_empty()) {
            let Some(change) = by_name.get(&(slot.place(), slot.name()?)) else { continue };
            let row = slot.row()?;
            let is_gone = match change.kind {
                ChangeKind::Gone => true,
                ChangeKind::Rewritten(_) => row.version != Version::UNKNOWN,
                ChangeKind::Appended(_) | ChangeKind::New(_) => is_another(corpus, &row)?,
            };
            if !is_gone || expected.contains(&row.number) {
                continue;
            }
            if row.number >= self.base.next_number {
                unknown.insert(row.number);
            } else if change.kind == ChangeKind::Gone {
                went.push(row);
            } else {
                replaced.push(row);
            }
        }
        let is_any = !(went.is_empty() && replaced.is_empty() && unknown.is_empty());
        drop_gone(&mut self.work, &went);
        drop_replaced(&mut self.work, &replaced);
        self.work.rows.retain(|row| !unknown.contains(&row.number()));
        if is_any {
            // A stream without a row is new, which only a look at everything finds.
            self.work.cursor = Cursor::default();
            self.work.is_checked = false;
        }
        Ok(is_any)
    }
}

/// Returns whether the stream that has the name of a row is another one than was read.
fn is_another(corpus: &dyn Corpus, row: &Row) -> Result<bool> {
    if row.id.is_empty() {
        return Ok(false);
    }
    let listed = corpus.list(row.place(), Selector::Name(&row.name), ListDetail::Header)?;
    Ok(listed.first().is_none_or(|listed| listed.id.id != row.id))
}

/// Puts what a build read of `base` onto `now`, which another process or thread has made of `base` meanwhile. Also
/// returns whether some of it was left out, because `now` lacks what it belongs to.
///
/// `None` if that cannot be done: `now` has rows that `base` had not, so that both may use one number for two streams.
/// A purge only takes rows away.
fn rebased(
    base: &LoadedIndex,
    work: &LoadedIndex,
    now: &LoadedIndex,
) -> IndexResult<Option<(LoadedIndex, bool)>> {
    let of_base: HashMap<u64, &RowRef> = base.rows.iter().map(|row| (row.number(), row)).collect();
    let is_same = |one: &RowRef, other: &RowRef| -> IndexResult<bool> {
        let is_place = one.place() == other.place() && one.name()? == other.name()?;
        // A row that a search found to be stale is still that row.
        let versions = [one.version(), other.version()];
        Ok(is_place && (versions[0] == versions[1] || versions.contains(&Version::UNKNOWN)))
    };
    if now.next_number > base.next_number {
        return Ok(None);
    }
    let (mut numbers, mut names) = (HashSet::new(), HashSet::new());
    for row in &now.rows {
        match of_base.get(&row.number()) {
            Some(known) if is_same(row, known)? => {}
            _ => return Ok(None),
        }
        numbers.insert(row.number());
        names.insert((row.place(), row.name()?));
    }
    let mut dropped_names = HashSet::new();
    for row in &base.rows {
        let name = (row.place(), row.name()?);
        if !names.contains(&name) {
            dropped_names.insert(name);
        }
    }
    let (mut read, mut skipped) = (Vec::new(), false);
    for row in &work.rows {
        if let Some(known) = of_base.get(&row.number())
            && is_same(row, known)?
        {
            continue;
        }
        // The records that were read before belong to a row that was taken away.
        let is_orphan = row.number() < base.next_number && !numbers.contains(&row.number());
        if is_orphan || dropped_names.contains(&(row.place(), row.name()?)) {
            skipped = true;
        } else {
            read.push(row.clone());
        }
    }
    let mut read_names = HashSet::new();
    for row in &read {
        read_names.insert((row.place(), row.name()?));
    }
    let read_numbers: HashSet<u64> = read.iter().map(RowRef::number).collect();
    let mut result = LoadedIndex { next_number: work.next_number, ..now.clone() };
    let mut rows = Vec::with_capacity(now.rows.len() + read.len());
    for row in &now.rows {
        if !read_numbers.contains(&row.number()) && !read_names.contains(&(row.place(), row.name()?)) {
            rows.push(row.clone());
        }
    }
    rows.extend(read.iter().cloned());
    result.rows = rows;
    let is_of_base = |handle: &&SegmentHandle| {
        base.segments.iter().any(|known| Arc::ptr_eq(&known.segment, &handle.segment))
    };
    result.segments.extend(work.segments.iter().filter(|handle| !is_of_base(handle)).cloned());
    let new_gone = work.gone.iter().filter(|gone| !base.gone.contains(gone));
    result.gone.extend(new_gone.filter(|gone| names.contains(&gone.name())).cloned());
    (result.unsaved_bytes, result.unsaved_rows) = (work.unsaved_bytes, work.unsaved_rows);
    (result.checked_ms, result.written_log_bytes) = (work.checked_ms, work.written_log_bytes);
    result.cursor = Cursor::default();
    Ok(Some((result, skipped)))
}

/// The number of unread bytes from which on reading is a build.
pub(super) const BUILD_BYTES: u64 = SAVE_BYTES;
