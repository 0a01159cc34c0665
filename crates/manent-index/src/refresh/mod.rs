//! [`Index`], and its refresh: the one path by which the index catches up with the streams.
//!
//! A refresh loads the index if another process replaced it, compares every row with the streams (`changes.rs`), reads
//! what changed (`ingest.rs`), and saves the result if enough accumulated (`loaded.rs`). It is repeated if streams or
//! index change meanwhile. Where much changed, reading it is a build, which holds no lock that others wait for
//! (`build.rs`).
//!
//! A program that writes much also gets a background thread that refreshes now and then ([`Background`]). No caller
//! waits for it and no answer needs it, because every search refreshes first; it only makes that refresh short.

pub(crate) mod build;
pub(crate) mod changes;
pub(crate) mod index_dir;
pub(crate) mod ingest;
pub(crate) mod loaded;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use manent_store::sync::lock;
use manent_store::{Cursor, Lock, ProgressFn, SessionKey, Version};

use crate::catalogue::listing::IndexState;
use crate::catalogue::lookup::ByKey;
use crate::catalogue::missing::{PendingPurge, PresentSessions, drop_gone, known_by_id, replace_rows};
use crate::catalogue::{Row, RowRef};
use crate::corpus::Corpus;
use crate::error::{Error, IndexDamage, IndexResult, Result};
use crate::refresh::build::BUILD_BYTES;
use crate::refresh::changes::{Survey, drop_copies, is_all_there, settle_forks, survey};
use crate::refresh::index_dir::IndexDir;
use crate::refresh::ingest::{MovedStreams, SAVE_BYTES, read_batch};
use crate::refresh::loaded::{LoadedIndex, SegmentHandle, Snapshot};

/// An index over a [`Corpus`], shared by all that use it in this process.
#[derive(Debug)]
pub struct Index {
    pub(crate) corpus: Arc<dyn Corpus>,
    pub(crate) dir: Option<IndexDir>,
    /// The rows and segments that are known. Not locked while a build reads.
    pub(crate) state: Mutex<State>,
    /// Held by the thread that builds, for as long as that takes.
    building: Mutex<()>,
    /// The part that was read so far, while a thread reads much. Never locked for long.
    reading: Mutex<Option<PartialIndex>>,
    /// The catalogue on the disk, for callers that ask for single streams before anything is loaded.
    pub(crate) by_key: Mutex<Option<ByKey>>,
    /// The streams that this process purges.
    pub(crate) purged: Mutex<Vec<PendingPurge>>,
    /// The sessions that this process noted as written.
    pub(crate) noted: Mutex<HashSet<SessionKey>>,
    /// The number of writes of this process.
    writes: AtomicU64,
    background: Background,
    /// The time to wait for another process that writes the index. It may be stopped, so that afterwards everything is
    /// done in memory.
    wait: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// `None` if the disk was not looked at yet, or if what is there is broken.
    pub(crate) loaded: Option<LoadedIndex>,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    saved_at: Option<Instant>,
    /// The error of the last save.
    unsaved_because: Option<String>,
    /// Counts the changes of `loaded` that a build which is under way must not undo.
    pub(crate) generation: u64,
}

impl State {
    /// Notes the outcome of a save. One that failed changes no answer: everything is still in memory.
    fn note_saved(&mut self, saved: IndexResult<()>, save: Save) -> RefreshResult<()> {
        self.snapshot = None;
        self.saved_at = Some(Instant::now());
        match saved {
            Ok(()) => {
                self.unsaved_because = None;
                Ok(())
            }
            Err(IndexDamage::Wrong(why)) => Err(RefreshError::Damaged(why)),
            Err(IndexDamage::Disk(e)) if save != Save::Sometimes => Err(Error::Index(e.to_string()).into()),
            Err(IndexDamage::Disk(e)) => {
                self.unsaved_because = Some(e.to_string());
                Ok(())
            }
        }
    }
}

/// Selects when a refresh writes the index to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    /// Writes when enough has accumulated.
    Sometimes,
    /// All changes, now; it is an error if that cannot be done.
    Now,
    /// All that is known, now, and also where nothing changed: files that a dead process left go with it. Where much is
    /// to be read, only what is gone is taken out.
    Anyway,
}

/// Selects what a refresh does when the streams changed meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// A failed attempt can be repeated.
    Early,
    /// This is the last try. Programs that change streams or index all the time keep nobody from an answer: it is
    /// made of what was read, which need not be saved.
    Last,
}

/// The progress of a thread that reads much for the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexProgress {
    /// The bytes of streams that were read.
    pub bytes: u64,
    /// The bytes of streams that are to be read in all.
    pub total_bytes: u64,
}

/// The rows and segments that are known while a thread reads much.
#[derive(Debug)]
struct PartialIndex {
    /// The rows from before. Those whose streams were read since are in `rows` too, and do not count here.
    old_rows: Vec<RowRef>,
    rows: Vec<RowRef>,
    segments: Vec<SegmentHandle>,
    so_far: IndexProgress,
}

impl PartialIndex {
    fn new(loaded: &LoadedIndex, total_bytes: u64) -> PartialIndex {
        let (old_rows, segments) = (loaded.rows.clone(), loaded.segments.clone());
        PartialIndex { old_rows, rows: Vec::new(), segments, so_far: IndexProgress { bytes: 0, total_bytes } }
    }

    fn snapshot(&self) -> IndexResult<Snapshot> {
        let mut read = HashSet::new();
        for row in &self.rows {
            read.insert((row.place(), row.name()?));
        }
        let mut rows = self.rows.clone();
        for row in &self.old_rows {
            if !read.contains(&(row.place(), row.name()?)) {
                rows.push(row.clone());
            }
        }
        Ok(Snapshot::new(rows, &self.segments))
    }
}

/// Ends [`Index::reading`] when the thread that reads is done, also by a panic.
struct ReadingGuard<'a>(&'a Index);

impl Drop for ReadingGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.reading) = None;
    }
}

impl Index {
    /// Makes an index over a corpus, kept in `dir`, or in memory without one. `wait` is how long another process that
    /// writes the index is waited for; it may be stopped, so that afterwards everything is done in memory.
    pub fn new(
        corpus: Arc<dyn Corpus>,
        dir: Option<IndexDir>,
        background: Background,
        wait: Duration,
    ) -> Arc<Index> {
        Arc::new(Index {
            corpus,
            dir,
            state: Mutex::default(),
            building: Mutex::default(),
            reading: Mutex::default(),
            by_key: Mutex::default(),
            purged: Mutex::default(),
            noted: Mutex::default(),
            writes: AtomicU64::default(),
            background,
            wait,
        })
    }

    /// Notes that a stream was written by this process. Starts a thread that keeps the index near the streams, if that
    /// is allowed and the process has written enough.
    pub fn note_written(self: &Arc<Self>, key: &SessionKey) {
        if let Some(dir) = &self.dir {
            self.note_recent(dir, key);
            let written = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
            if self.background == Background::Allowed && written == ENOUGH {
                let index = Arc::downgrade(self);
                // Without a thread, the next search catches up.
                let _ = std::thread::Builder::new()
                    .name("manent-index".to_owned())
                    .spawn(move || keep_up(&index));
            }
        }
    }

    /// Returns whether a thread is reading much, so that [`Index::state`] lacks much.
    pub(crate) fn is_reading(&self) -> bool {
        lock(&self.reading).is_some()
    }

    /// Returns what is known now and how far reading is, if a thread reads much; and starts one if much is to be read.
    /// `None` if the index can be refreshed in a moment, or if no thread can be started.
    pub(crate) fn known_so_far(self: &Arc<Self>) -> Option<(Snapshot, IndexProgress)> {
        if let Some(reading) = &*lock(&self.reading) {
            return reading.snapshot().ok().map(|snapshot| (snapshot, reading.so_far));
        }
        let mut state = lock(&self.state);
        self.load(&mut state);
        let loaded = state.loaded.get_or_insert_default();
        let survey = survey(loaded, &*self.corpus, self.dir.as_ref(), false).ok()?;
        let total = survey.unread_bytes();
        if total < MUCH_BYTES {
            return None;
        }
        let reading = PartialIndex::new(loaded, total);
        let snapshot = reading.snapshot().ok()?;
        let so_far = reading.so_far;
        *lock(&self.reading) = Some(reading);
        drop(state);
        let index = Arc::downgrade(self);
        let refresh = move || {
            let Some(index) = index.upgrade() else { return };
            let _done = ReadingGuard(&index);
            // The next caller that asks for everything gets the error.
            let _ = index.refresh(Save::Sometimes, &mut |_, _| {});
        };
        if std::thread::Builder::new().name("manent-index".to_owned()).spawn(refresh).is_err() {
            *lock(&self.reading) = None;
            return None;
        }
        Some((snapshot, so_far))
    }

    /// Returns how many bytes the segments take.
    pub(crate) fn bytes(&self) -> u64 {
        let state = lock(&self.state);
        state.loaded.iter().flat_map(|loaded| &loaded.segments).map(|handle| handle.segment.bytes()).sum()
    }

    /// Compares the index on the disk with the streams. Changes nothing.
    pub fn index_state(&self) -> Result<IndexState> {
        let Some(dir) = &self.dir else { return Ok(IndexState::default()) };
        let mut state = IndexState { dir: dir.dir(), ..IndexState::default() };
        match LoadedIndex::load(dir) {
            Err(broken) => state.broken = Some(broken.to_string()),
            Ok(loaded) => {
                state.sessions = loaded.rows.len();
                state.bytes = loaded.segments.iter().map(|handle| handle.segment.bytes()).sum();
                state.written_ms = loaded.edition.map(|edition| edition.written_ms);
                let survey = survey(&loaded, &*self.corpus, Some(dir), false);
                let (changed, gone) = survey.map_err(RefreshError::into_error)?.differences;
                state.behind = changed.len() + gone.len();
            }
        }
        Ok(state)
    }

    /// Reads what changed since the last refresh, and returns what is known now. Where much changed, this is a build
    /// (`build.rs`).
    pub(crate) fn refresh(&self, save: Save, progress: ProgressFn<'_>) -> Result<Arc<Snapshot>> {
        let mut turn = None;
        let mut left = TRIES;
        while left > 0 {
            let this = if left > 1 { Attempt::Early } else { Attempt::Last };
            let mut state = lock(&self.state);
            self.load(&mut state);
            let all_read = state.snapshot.as_ref().is_some_and(|snapshot| snapshot.all_read);
            let loaded = state.loaded.get_or_insert_default();
            let refreshed = match (survey(loaded, &*self.corpus, self.dir.as_ref(), all_read), &turn) {
                (Err(e), _) => Err(e),
                (Ok(survey), _) if survey.unread_bytes() < BUILD_BYTES => {
                    self.refresh_once(&mut state, save, this, survey, &mut *progress)
                }
                (Ok(survey), _) if save == Save::Anyway => {
                    self.forget_known(&mut state, &survey.differences.1)
                }
                (Ok(survey), Some(turn)) => {
                    let (after, built) = self.build(state, (save, this), survey, turn, &mut *progress);
                    state = after;
                    built
                }
                // Whoever had it before has perhaps read everything.
                (Ok(_), None) => {
                    drop(state);
                    turn = Some(self.take_turn());
                    continue;
                }
            };
            match refreshed {
                Ok(()) => {
                    let State { loaded, snapshot, .. } = &mut *state;
                    let loaded = loaded.get_or_insert_default();
                    let new = || Arc::new(Snapshot::new(loaded.rows.clone(), &loaded.segments));
                    return Ok(snapshot.get_or_insert_with(new).clone());
                }
                Err(RefreshError::Outdated) => state.loaded = None,
                Err(RefreshError::Unsettled) => {}
                Err(RefreshError::Damaged(_)) => self.discard(&mut state),
                Err(RefreshError::Failed(e)) => return Err(e),
            }
            state.snapshot = None;
            left -= 1;
        }
        Err(Error::Index("it changes faster than it can be read; try again".to_owned()))
    }

    /// Forgets everything, on the disk too: something in it is wrong.
    pub fn start_anew(&self) {
        self.discard(&mut lock(&self.state));
    }

    /// Removes what is gone from the disk, at once. Where that cannot be done, all of the index goes: it can be made
    /// anew, and what was purged must not be found in it.
    pub fn forget(&self) -> Result<()> {
        let Some(dir) = &self.dir else { return Ok(()) };
        // Whoever writes now may have read it before. Whoever begins later looks first whether everything is there.
        if !dir.wait_for_writer(self.wait).map_err(|e| Error::Index(e.to_string()))? {
            return Err(Error::Index(BEING_WRITTEN.to_owned()));
        }
        if dir.is_empty()? {
            let mut state = lock(&self.state);
            (state.loaded, state.generation) = (None, state.generation + 1);
            drop(state);
            // Whoever emptied it may have died before that was sure to last.
            return dir.sync().map_err(|e| Error::Index(e.to_string()));
        }
        let Err(e) = self.refresh(Save::Anyway, &mut |_, _| {}) else {
            lock(&self.purged).clear();
            return Ok(());
        };
        let mut state = lock(&self.state);
        (state.loaded, state.snapshot) = (None, None);
        state.generation += 1;
        match dir.write(Duration::ZERO) {
            Ok(Some(_writing)) => dir.clear().map_err(|_| e),
            // Where others can write, none of us does: there is nobody to wait for.
            Err(_) if !dir.is_ours().unwrap_or(true) => dir.clear().map_err(|_| e),
            _ => Err(e),
        }
    }

    /// Marks sessions as not read, because their records are not where they were.
    pub(crate) fn mark_stale(&self, numbers: &[u64]) {
        let mut state = lock(&self.state);
        state.snapshot = None;
        state.generation += 1;
        let Some(loaded) = &mut state.loaded else { return };
        // A change that was reported before is not reported again: look at everything.
        loaded.is_checked = false;
        for slot in &mut loaded.rows {
            if numbers.contains(&slot.number())
                && let Ok(row) = slot.row()
            {
                let mut row = Arc::unwrap_or_clone(row);
                row.stale = true;
                row.version = Version::UNKNOWN;
                *slot = row.into();
            }
        }
    }

    fn discard(&self, state: &mut State) {
        let edition = self.dir.as_ref().and_then(IndexDir::edition);
        state.generation += 1;
        (state.loaded, state.snapshot) = (Some(LoadedIndex { edition, ..LoadedIndex::default() }), None);
        if let Some(dir) = &self.dir
            // Where there is nothing, nothing is made, not even the store.
            && !dir.is_empty().unwrap_or(false)
            && let Ok(Some(_writing)) = dir.write(self.wait)
            // Whoever wrote while we waited has mended it.
            && dir.edition() == edition
            && let Err(e) = dir.clear()
        {
            state.unsaved_because = Some(e.to_string());
        }
    }

    /// Takes over what another process put on the disk.
    fn load(&self, state: &mut State) {
        let Some(dir) = &self.dir else {
            state.loaded.get_or_insert_default();
            return;
        };
        let edition = dir.edition();
        if state.loaded.as_ref().is_some_and(|loaded| loaded.edition == edition) {
            return;
        }
        // Removed by hand, or a first look: what is in memory is as good as ever.
        if edition.is_none() && state.loaded.is_some() {
            return;
        }
        for _ in 0..TRIES {
            match LoadedIndex::load(dir) {
                Ok(loaded) => {
                    (state.loaded, state.snapshot) = (Some(loaded), None);
                    return;
                }
                // Another process replaced it between our looks.
                Err(_) if dir.edition() != edition => {}
                Err(_) => break,
            }
        }
        self.discard(state);
    }

    fn refresh_once(
        &self,
        state: &mut State,
        save: Save,
        this: Attempt,
        survey: Survey,
        progress: ProgressFn<'_>,
    ) -> RefreshResult<()> {
        let total = survey.unread_bytes();
        let Survey { differences: (changed, gone), cursor, checked_ms, written_log_bytes } = survey;
        let loaded = state.loaded.get_or_insert_default();
        (loaded.checked_ms, loaded.written_log_bytes) = (checked_ms, written_log_bytes);
        if changed.is_empty() && gone.is_empty() {
            loaded.cursor = cursor;
            loaded.is_checked = true;
            self.settle_gone(loaded, &PresentSessions::default())?;
            return self.save(state, save, this);
        }
        state.snapshot = None;
        state.generation += 1;
        loaded.is_checked = false;
        // Until everything was read, the cursor would hide what else came.
        loaded.cursor = Cursor::default();
        let moved: MovedStreams = Mutex::new(known_by_id(&loaded.gone, &gone).collect());
        let mut found = PresentSessions::default();
        let mut tell = |now: u64| progress(now, total);
        let next_number = loaded.next_number;
        let read = read_batch(&*self.corpus, &changed, &moved, next_number, None, &|_, _| {}, &mut tell)?;
        loaded.next_number = read.next_number;
        replace_rows(loaded, &changed, read.rows, &mut found)?;
        loaded.segments.extend(read.segments);
        loaded.unsaved_bytes += total;
        loaded.unsaved_rows += changed.len();
        let settled = self.settle(loaded, &gone, &found, read.lost, cursor)?;
        if !settled && this == Attempt::Early {
            return Err(RefreshError::Unsettled);
        }
        // Whoever purged what is gone may have written a new catalogue since ours was loaded.
        if !loaded.gone.is_empty() && this == Attempt::Early && self.is_outdated(loaded) {
            return Err(RefreshError::Outdated);
        }
        self.save(state, save, this)
    }

    /// Settles what depends on all rows, when everything was read. Returns false if some streams must be read again.
    fn settle(
        &self,
        loaded: &mut LoadedIndex,
        gone: &[Arc<Row>],
        found: &PresentSessions,
        lost: bool,
        cursor: Cursor,
    ) -> RefreshResult<bool> {
        drop_gone(loaded, gone);
        let has_copies = drop_copies(&mut loaded.rows, &*self.corpus)?;
        let settled = settle_forks(&mut loaded.rows)? && !lost;
        if settled {
            self.settle_gone(loaded, found)?;
        }
        loaded.is_checked = settled && !has_copies;
        if !has_copies {
            // Copies have no rows, and count as soon as the others go: they are looked for every time.
            loaded.cursor = cursor;
        }
        Ok(settled)
    }

    /// Tells callers that take a partial answer how many bytes were read.
    fn note_read(&self, bytes: u64) {
        if let Some(reading) = &mut *lock(&self.reading) {
            reading.so_far.bytes = reading.so_far.bytes.max(bytes);
        }
    }

    /// Shows a finished segment, and the rows of streams that were read, to callers that take a partial answer.
    fn note_segment(&self, rows: &[RowRef], segment: &SegmentHandle) {
        if let Some(reading) = &mut *lock(&self.reading) {
            reading.rows.extend_from_slice(rows);
            reading.segments.push(segment.clone());
        }
    }

    fn is_outdated(&self, loaded: &LoadedIndex) -> bool {
        let edition = self.dir.as_ref().and_then(IndexDir::edition);
        edition.is_some() && edition != loaded.edition
    }

    /// Takes the right to write. `None` if another process has it, or the disk does not let us: then everything is
    /// done in memory.
    fn begin_writing(&self, state: &mut State, wait: Duration) -> RefreshResult<Option<Lock>> {
        let Some(dir) = &self.dir else { return Ok(None) };
        match dir.write(wait) {
            Ok(Some(writing)) => {
                let edition = state.loaded.as_ref().and_then(|loaded| loaded.edition);
                // Somebody else was here first, and has perhaps done the work.
                match dir.edition() {
                    Some(now) if edition != Some(now) => return Err(RefreshError::Outdated),
                    Some(_) => {}
                    // Removed by hand, perhaps with its segments: what we hold open is written again.
                    None => state.loaded.iter_mut().for_each(LoadedIndex::forget_names),
                }
                Ok(Some(writing))
            }
            Ok(None) => Ok(None),
            Err(e) => {
                state.unsaved_because = Some(e.to_string());
                Ok(None)
            }
        }
    }

    fn save(&self, state: &mut State, save: Save, this: Attempt) -> RefreshResult<()> {
        let (Some(dir), Some(loaded)) = (&self.dir, &state.loaded) else { return Ok(()) };
        let just_now = state.saved_at.is_some_and(|at| at.elapsed() < SAVE_PAUSE);
        let wanted = match save {
            Save::Anyway => true,
            Save::Now => loaded.unsaved_rows > 0 || loaded.has_strays || loaded.holds_gone(),
            Save::Sometimes if this == Attempt::Last => false,
            Save::Sometimes => {
                let small = loaded.rows.len() <= SMALL_STORE_ROWS && loaded.unsaved_rows > 0;
                let soon = (small || loaded.has_strays) && !just_now;
                // Written once more when the directories have come to rest: until then, every process lists them.
                let at_rest = !loaded.saved_cursor.is_settled() && loaded.cursor.is_settled() && !just_now;
                let gone = loaded.unsaved_rows > 0 && loaded.holds_gone();
                loaded.unsaved_bytes >= SAVE_BYTES || soon || at_rest || gone
            }
        };
        if !wanted {
            return Ok(());
        }
        let wait = if save == Save::Sometimes { Duration::ZERO } else { self.wait };
        let Some(writing) = self.begin_writing(state, wait)? else {
            return match (save, &state.unsaved_because) {
                (Save::Sometimes, _) => Ok(()),
                (Save::Now | Save::Anyway, Some(why)) => Err(Error::Index(why.clone()).into()),
                (Save::Now | Save::Anyway, None) => Err(Error::Index(BEING_WRITTEN.to_owned()).into()),
            };
        };
        write_down(state, &*self.corpus, dir, &writing, save)
    }
}

/// Saves what is known, unless something of it is gone: whoever purged it was told that none of it comes back, and did
/// not wait for us unless we were writing already.
fn write_down(
    state: &mut State,
    corpus: &dyn Corpus,
    dir: &IndexDir,
    _writing: &Lock,
    save: Save,
) -> RefreshResult<()> {
    let loaded = state.loaded.get_or_insert_default();
    if !is_all_there(loaded, corpus)? {
        loaded.is_checked = false;
        return Err(RefreshError::Unsettled);
    }
    let saved = loaded.save(dir);
    state.note_saved(saved, save)
}

/// The number of unread bytes from which on reading takes so long that a caller may prefer a partial answer.
const MUCH_BYTES: u64 = 4 * 1024 * 1024;
/// The message for an index that another process is writing.
const BEING_WRITTEN: &str = "another process is writing it";
/// The number of attempts when other processes write the index meanwhile.
pub(crate) const TRIES: u32 = 5;
/// The number of rows up to which a catalogue is written in a moment, so that it is kept up with every change.
const SMALL_STORE_ROWS: usize = 2000;
/// The time between two saves of such a catalogue, so that it is not written with every question.
const SAVE_PAUSE: Duration = Duration::from_secs(2);

/// Says whether an index may start a thread that keeps it near the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// A thread may be started.
    Allowed,
    /// Starts no thread: everything is done by the thread that asks.
    Never,
}

/// Refreshes the index until the program has dropped it.
fn keep_up(index: &Weak<Index>) {
    let mut read = 0;
    loop {
        std::thread::sleep(PAUSE);
        let Some(index) = index.upgrade() else { return };
        let written = index.writes.load(Ordering::Relaxed);
        if written != read {
            // The next caller that searches gets the error.
            let _ = index.refresh(Save::Sometimes, &mut |_, _| {});
            read = written;
        }
    }
}

/// The number of writes that tell a process which stays from one that ends.
const ENOUGH: u64 = 100;
const PAUSE: Duration = Duration::from_secs(2);

/// The result of a step of a refresh.
pub(crate) type RefreshResult<T> = std::result::Result<T, RefreshError>;

/// The reason why a refresh was not completed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefreshError {
    /// Another process wrote a newer index to the disk.
    #[error("another process is writing it")]
    Outdated,
    /// The records that were read change the rows of other streams, which must be read again.
    #[error("another process is writing it")]
    Unsettled,
    /// The files on the disk do not hold what was written.
    #[error("{0}")]
    Damaged(&'static str),
    #[error(transparent)]
    Failed(#[from] Error),
}

impl RefreshError {
    pub(crate) fn into_error(self) -> Error {
        match self {
            RefreshError::Failed(e) => e,
            other => Error::Index(other.to_string()),
        }
    }
}

/// Takes an index that cannot be used for none: it knows nothing, and the next search builds it again.
pub(crate) fn if_usable<T>(result: RefreshResult<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(RefreshError::Failed(e)) => Err(e),
        Err(_) => Ok(None),
    }
}

impl From<manent_store::Error> for RefreshError {
    fn from(e: manent_store::Error) -> RefreshError {
        RefreshError::Failed(e.into())
    }
}

impl From<IndexDamage> for RefreshError {
    fn from(broken: IndexDamage) -> RefreshError {
        match broken {
            IndexDamage::Wrong(why) => RefreshError::Damaged(why),
            // An index that the disk does not give is as good as none.
            IndexDamage::Disk(_) => RefreshError::Damaged("the disk does not give it"),
        }
    }
}
