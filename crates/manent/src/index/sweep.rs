//! Brings the index up to what the logs say.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use manent_store::sync::lock;
use manent_store::{Progress, SessionKey, Space, Version};

use crate::error::{Error, Result};
use crate::store::{Background, Store};
use crate::turn::Record;

use super::background::Written;
use super::batch::{BATCH_BYTES, Changed, Moved, SAVE_BYTES, in_batches, read_batch};
use super::by_key::ByKey;
use super::changes::{Differences, Meanwhile, drop_copies, is_all_there, settle_forks, survey, survey_while};
use super::damage::Broken;
use super::gone::{Leaving, Present, drop_gone, known_by_id, replace_rows};
use super::index_dir::{IndexDir, Writing};
use super::listing::IndexState;
use super::news::Noted;
use super::related::Reach;
use super::state::{Known, Snapshot};
use super::stopped::Stopped;
use super::subject::{Losses, Subject};

/// The index of a store, shared by all that use it in this process.
#[derive(Debug)]
pub(crate) struct Index {
    kept: Option<IndexDir>,
    pub(super) state: Mutex<State>,
    /// What this process purges.
    pub(super) purged: Mutex<Vec<Leaving>>,
    noted: Noted,
    appends: Written,
    /// The streams it is about.
    space: Space,
    background: Background,
    /// How long another process that writes the index is waited for. It may be stopped: then memory must do.
    wait: Duration,
    subject: Subject,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Nothing: the disk was not looked at yet, or what is there is broken.
    pub(super) known: Option<Known>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// What the catalogue on the disk says, for whoever asks for single sessions before anything is known.
    pub(super) by_key: Option<ByKey>,
    saved_at: Option<Instant>,
    /// Why the last attempt to save failed.
    unsaved_because: Option<String>,
}

/// How much trouble to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Save {
    /// When enough has come together.
    Sometimes,
    /// Whatever has changed, now; it is an error if that cannot be done.
    Now,
    /// As that, and where nothing changed too: what somebody who died has left goes with it.
    Anyway,
}

/// How often it was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    /// It can be tried again.
    Early,
    /// Whoever changes the store or the index all the time keeps nobody from an answer: what was read must do, and need
    /// not be saved.
    Last,
}

impl Index {
    pub(crate) fn new(
        space: Space,
        kept: Option<IndexDir>,
        background: Background,
        wait: Duration,
        subject: Subject,
    ) -> Index {
        let (state, noted, appends) = (Mutex::default(), Noted::default(), Written::default());
        Index { kept, state, purged: Mutex::default(), noted, appends, space, background, wait, subject }
    }

    /// Returns the space of the streams it is about.
    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// Whose words a record is; nothing if it is not found.
    pub(crate) fn spoken<'a>(&self, record: &Record<'a>) -> Option<Cow<'a, str>> {
        (self.subject.spoken)(record)
    }

    /// What a record is taken together with.
    pub(crate) fn reach(&self) -> Reach {
        self.subject.reach
    }

    pub(crate) fn losses(&self) -> Losses {
        self.subject.losses
    }

    pub(crate) fn kept(&self) -> Option<&IndexDir> {
        self.kept.as_ref()
    }

    pub(crate) fn appends(&self) -> &Written {
        &self.appends
    }

    /// Notes that a session was written.
    pub(crate) fn written(&self, store: &Store, key: &SessionKey) {
        if let Some(kept) = &self.kept {
            self.noted.written(kept, key);
            if self.background == Background::Allowed {
                self.appends.count(store);
            }
        }
    }

    /// What the segments take.
    pub(crate) fn bytes(&self) -> u64 {
        let state = lock(&self.state);
        state.known.iter().flat_map(|known| &known.segments).map(|held| held.segment.bytes()).sum()
    }

    /// How what is on the disk compares with what is there.
    pub(crate) fn state_on_disk(&self, store: &Store) -> Result<IndexState> {
        let Some(kept) = &self.kept else { return Ok(IndexState::default()) };
        let mut told = IndexState { dir: kept.dir(), ..IndexState::default() };
        let looked = Known::load(kept).map(|known| {
            told.sessions = known.rows.len();
            told.bytes = known.segments.iter().map(|held| held.segment.bytes()).sum();
            told.written_ms = known.edition.map(super::index_dir::Edition::written_ms);
            survey(&known, store, false)
        });
        match looked {
            Err(broken) => told.broken = Some(broken.to_string()),
            Ok(compared) => {
                let (changed, gone) = compared.map_err(Stopped::into_error)?.differences;
                told.behind = changed.len() + gone.len();
            }
        }
        Ok(told)
    }

    /// Reads what changed since last time, and gives what is known now.
    pub(crate) fn refresh(&self, store: &Store, save: Save, progress: Progress<'_>) -> Result<Arc<Snapshot>> {
        self.refresh_while(store, save, progress, Meanwhile::Wait)
    }

    /// As [`Index::refresh`]; does something with what was known before, while every stream is looked at.
    pub(crate) fn refresh_while(
        &self,
        store: &Store,
        save: Save,
        progress: Progress<'_>,
        mut meanwhile: Meanwhile<'_>,
    ) -> Result<Arc<Snapshot>> {
        let mut state = lock(&self.state);
        for left in (0..TRIES).rev() {
            let this = if left > 0 { Try::Early } else { Try::Last };
            self.load(&mut state);
            let meanwhile = std::mem::replace(&mut meanwhile, Meanwhile::Wait);
            let looked = look(&mut state, store, meanwhile);
            match looked.and_then(|found| self.sweep(&mut state, store, save, this, found, &mut *progress)) {
                Ok(()) => {
                    let State { known, snapshot, .. } = &mut *state;
                    let known = known.get_or_insert_default();
                    return Ok(snapshot.get_or_insert_with(|| Arc::new(known.snapshot())).clone());
                }
                Err(Stopped::Outdated) => state.known = None,
                Err(Stopped::Unsettled) => {}
                Err(Stopped::Broken(_)) => self.discard(&mut state),
                Err(Stopped::Failed(e)) => return Err(e),
            }
            state.snapshot = None;
        }
        Err(Error::Index("it changes faster than it can be read; try again".to_owned()))
    }

    /// Forgets everything, on the disk too: something in it is wrong.
    pub(crate) fn start_anew(&self) {
        self.discard(&mut lock(&self.state));
    }

    /// Removes what is gone from the disk, at once. Where that cannot be done, all of the index goes: it can be made
    /// anew, and what was purged must not be found in it.
    pub(crate) fn forget(&self, store: &Store) -> Result<()> {
        let Some(kept) = &self.kept else { return Ok(()) };
        // Whoever writes now may have read it before. Whoever begins later looks first whether everything is there.
        if !kept.wait_for_writer(self.wait).map_err(|e| Error::Index(e.to_string()))? {
            return Err(Error::Index(BEING_WRITTEN.to_owned()));
        }
        if kept.is_empty()? {
            lock(&self.state).known = None;
            // Whoever emptied it may have died before that was sure to last.
            return kept.sync().map_err(|e| Error::Index(e.to_string()));
        }
        let Err(e) = self.refresh(store, Save::Anyway, &mut |_, _| {}) else {
            lock(&self.purged).clear();
            return Ok(());
        };
        let mut state = lock(&self.state);
        (state.known, state.snapshot) = (None, None);
        match kept.write(Duration::ZERO) {
            Ok(Some(_writing)) => kept.clear().map_err(|_| e),
            // Where others can write, none of us does: there is nobody to wait for.
            Err(_) if !kept.is_ours().unwrap_or(true) => kept.clear().map_err(|_| e),
            _ => Err(e),
        }
    }

    /// Marks sessions as not read, because their records are not where they were.
    pub(crate) fn doubt(&self, numbers: &[u64]) {
        let mut state = lock(&self.state);
        state.snapshot = None;
        let Some(known) = &mut state.known else { return };
        // Nobody tells of a change that was told before: look at everything.
        known.is_swept = false;
        for slot in &mut known.rows {
            if numbers.contains(&slot.number())
                && let Ok(row) = slot.row()
            {
                let mut row = Arc::unwrap_or_clone(row);
                row.doubtful = true;
                row.version = Version::UNKNOWN;
                *slot = row.into();
            }
        }
    }

    fn discard(&self, state: &mut State) {
        let edition = self.kept.as_ref().and_then(IndexDir::edition);
        (state.known, state.snapshot) = (Some(Known { edition, ..Known::default() }), None);
        if let Some(kept) = &self.kept
            // Where there is nothing, nothing is made, not even the store.
            && !kept.is_empty().unwrap_or(false)
            && let Ok(Some(_writing)) = kept.write(self.wait)
            // Whoever wrote while we waited has mended it.
            && kept.edition() == edition
            && let Err(e) = kept.clear()
        {
            state.unsaved_because = Some(e.to_string());
        }
    }

    /// Takes over what another process put on the disk.
    fn load(&self, state: &mut State) {
        let Some(kept) = &self.kept else {
            state.known.get_or_insert_default();
            return;
        };
        let edition = kept.edition();
        if state.known.as_ref().is_some_and(|known| known.edition == edition) {
            return;
        }
        // Removed by hand, or a first look: what is in memory is as good as ever.
        if edition.is_none() && state.known.is_some() {
            return;
        }
        for _ in 0..TRIES {
            match Known::load(kept) {
                Ok(known) => {
                    (state.known, state.snapshot) = (Some(known), None);
                    return;
                }
                // Another process replaced it between our looks.
                Err(_) if kept.edition() != edition => {}
                Err(_) => break,
            }
        }
        self.discard(state);
    }

    fn sweep(
        &self,
        state: &mut State,
        store: &Store,
        save: Save,
        this: Try,
        (changed, gone): Differences,
        progress: Progress<'_>,
    ) -> std::result::Result<(), Stopped> {
        if changed.is_empty() && gone.is_empty() {
            let known = state.known.get_or_insert_default();
            known.is_swept = true;
            self.settle_gone(known, store, &Present::default())?;
            return self.save(state, store, save, this);
        }
        state.snapshot = None;
        let total: u64 = changed.iter().map(Changed::unread_bytes).sum();
        // Whoever has much to do does it on the disk, and alone.
        let much = total >= SAVE_BYTES && (save, this) != (Save::Sometimes, Try::Last);
        let writing = if much { self.begin_writing(state, self.wait)? } else { None };
        let known = state.known.get_or_insert_default();
        known.is_swept = false;
        // Until everything was read, nobody may believe that nothing else came.
        let cursor = std::mem::take(&mut known.cursor);
        let moved: Moved = Mutex::new(known_by_id(&known.gone, &gone).collect());
        let (mut done, mut lost, mut found) = (0, false, Present::default());
        for batch in in_batches(changed) {
            let bytes: u64 = batch.iter().map(Changed::unread_bytes).sum();
            let onto = self.kept.as_ref().filter(|_| writing.is_some());
            let mut tell = |now: u64| progress(done + now, total);
            let read = read_batch(store, &batch, &moved, known.next_number, onto, &mut tell)?;
            known.next_number = read.next_number;
            lost |= read.lost;
            replace_rows(known, &batch, read.rows, &mut found)?;
            known.segments.extend(read.segments);
            known.unsaved_bytes += bytes;
            known.unsaved_rows += batch.len();
            done += bytes;
            if let (Some(kept), true) = (&self.kept, writing.is_some() && bytes >= BATCH_BYTES) {
                // A step that need not be done again if somebody kills us. If it fails, the last one says so.
                let _ = known.save(kept);
            }
        }
        drop_gone(known, &gone);
        let has_copies = drop_copies(&mut known.rows, store)?;
        let settled = settle_forks(&mut known.rows)? && !lost;
        if settled {
            self.settle_gone(known, store, &found)?;
        }
        known.is_swept = settled && !has_copies;
        if !has_copies {
            // Copies have no rows, and count as soon as the others go: they are looked for every time.
            known.cursor = cursor;
        }
        if !settled && this == Try::Early {
            return Err(Stopped::Unsettled);
        }
        // Whoever purged what is gone may have written a new catalogue since ours was loaded.
        if !known.gone.is_empty() && this == Try::Early && self.is_outdated(known) {
            return Err(Stopped::Outdated);
        }
        if let (Some(kept), Some(writing)) = (&self.kept, writing) {
            return write_down(state, store, kept, &writing, save);
        }
        self.save(state, store, save, this)
    }

    fn is_outdated(&self, known: &Known) -> bool {
        let edition = self.kept.as_ref().and_then(IndexDir::edition);
        edition.is_some() && edition != known.edition
    }

    /// Takes the right to write. Nothing if another process has it, or the disk does not let us: then everything is
    /// done in memory.
    fn begin_writing(
        &self,
        state: &mut State,
        wait: Duration,
    ) -> std::result::Result<Option<Writing>, Stopped> {
        let Some(kept) = &self.kept else { return Ok(None) };
        match kept.write(wait) {
            Ok(Some(writing)) => {
                let edition = state.known.as_ref().and_then(|known| known.edition);
                // Somebody else was here first, and has perhaps done the work.
                match kept.edition() {
                    Some(now) if edition != Some(now) => return Err(Stopped::Outdated),
                    Some(_) => {}
                    // Removed by hand, perhaps with its segments: what we hold open is written again.
                    None => state.known.iter_mut().for_each(Known::forget_names),
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

    fn save(
        &self,
        state: &mut State,
        store: &Store,
        save: Save,
        this: Try,
    ) -> std::result::Result<(), Stopped> {
        let (Some(kept), Some(known)) = (&self.kept, &state.known) else { return Ok(()) };
        let just_now = state.saved_at.is_some_and(|at| at.elapsed() < SAVE_PAUSE);
        let wanted = match save {
            Save::Anyway => true,
            Save::Now => known.unsaved_rows > 0 || known.has_strays || known.holds_gone(),
            Save::Sometimes if this == Try::Last => false,
            Save::Sometimes => {
                let small = known.rows.len() <= SMALL_STORE_ROWS && known.unsaved_rows > 0;
                let soon = (small || known.has_strays) && !just_now;
                // Written once more when the directories have come to rest: until then, every process lists them.
                let at_rest = !known.saved_cursor.is_settled() && known.cursor.is_settled() && !just_now;
                let gone = known.unsaved_rows > 0 && known.holds_gone();
                known.unsaved_bytes >= SAVE_BYTES || soon || at_rest || gone
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
        write_down(state, store, kept, &writing, save)
    }
}

/// Finds out what changed.
fn look(
    state: &mut State,
    store: &Store,
    meanwhile: Meanwhile<'_>,
) -> std::result::Result<Differences, Stopped> {
    let State { known, snapshot, .. } = state;
    let known = known.get_or_insert_default();
    Ok(survey_while(known, snapshot, store, meanwhile)?.noted_in(known))
}

/// Saves what is known, unless something of it is gone: whoever purged it was told that none of it comes back, and did
/// not wait for us unless we were writing already.
fn write_down(
    state: &mut State,
    store: &Store,
    kept: &IndexDir,
    _writing: &Writing,
    save: Save,
) -> std::result::Result<(), Stopped> {
    let known = state.known.get_or_insert_default();
    if !is_all_there(known, store)? {
        known.is_swept = false;
        return Err(Stopped::Unsettled);
    }
    let saved = known.save(kept);
    note_saved(state, saved, save)
}

/// A save that failed changes no answer: everything is still in memory.
fn note_saved(
    state: &mut State,
    saved: std::result::Result<(), Broken>,
    save: Save,
) -> std::result::Result<(), Stopped> {
    state.snapshot = None;
    state.saved_at = Some(Instant::now());
    match saved {
        Ok(()) => {
            state.unsaved_because = None;
            Ok(())
        }
        Err(Broken::Wrong(why)) => Err(Stopped::Broken(why)),
        Err(Broken::Disk(e)) if save != Save::Sometimes => Err(Error::Index(e.to_string()).into()),
        Err(Broken::Disk(e)) => {
            state.unsaved_because = Some(e.to_string());
            Ok(())
        }
    }
}

/// Why it could not be written.
const BEING_WRITTEN: &str = "another process is writing it";
/// How often to begin again when other processes write the index meanwhile.
pub(super) const TRIES: u32 = 5;
/// A catalogue of so few rows is written in a moment: it is kept up with every change.
const SMALL_STORE_ROWS: usize = 2000;
/// But not with every question.
const SAVE_PAUSE: Duration = Duration::from_secs(2);
