//! What is new, changed or gone since the index last looked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use manent_log::fs::Settling;

use crate::backend::{Changes, Place, Sight, Stamp, Watching, Which};
use crate::clock;
use crate::error::Error;
use crate::key::SessionKey;
use crate::store::Store;
use crate::threads::share;

use super::batch::Changed;
use super::catalogue::Row;
use super::damage::Read;
use super::rows::RowRef;
use super::shelf::Kept;
use super::state::{Known, Snapshot};
use super::stopped::Stopped;

/// What is new or changed since last time, and what is gone.
pub(crate) type Differences = (Vec<Changed>, Vec<Arc<Row>>);

/// What a look at every stream brought.
pub(crate) struct Surveyed {
    pub(crate) differences: Differences,
    note: Vec<u64>,
    swept_ms: i64,
    news_bytes: u64,
}

/// The differences, where somebody tells of them; nothing: every stream must be looked at.
pub(crate) fn heard(
    known: &Known,
    snapshot: Option<&Snapshot>,
    watching: &mut Option<Box<dyn Watching>>,
    was_asked: &mut bool,
    store: &Store,
) -> Read<Option<Differences>> {
    // What could not be read may be readable now, without having changed.
    let all_read = snapshot.is_some_and(|snapshot| snapshot.all_read);
    if let Some(watch) = watching {
        match watch.changes() {
            Changes::These(names) if known.is_swept && all_read => {
                let told = told(&known.rows, names, store.backend().settling())?;
                // What went may be elsewhere by now, without anybody having told of that yet.
                if told.1.is_empty() {
                    return Ok(Some(told));
                }
            }
            // Everything is looked at now, also what changed until here.
            Changes::These(_) => {}
            Changes::Unknown => *watching = None,
        }
    }
    // First the watch, then the look: nothing falls in between. Whoever asks once needs none.
    if watching.is_none() && *was_asked {
        *watching = store.backend().watch();
    }
    *was_asked = true;
    Ok(None)
}

/// What to do while every stream is looked at.
pub(crate) enum Meanwhile<'a> {
    Wait,
    /// To use what was known before. If nothing changed, that is what is known now.
    Use(&'a mut dyn FnMut(&Arc<Snapshot>)),
}

/// Looks at every stream, and lets somebody use what was known before meanwhile, if that takes long.
pub(crate) fn survey_while(
    known: &Known,
    snapshot: &mut Option<Arc<Snapshot>>,
    store: &Store,
    meanwhile: Meanwhile<'_>,
) -> Result<Surveyed, Stopped> {
    match meanwhile {
        Meanwhile::Use(use_it) if known.rows.len() >= MANY_ROWS => std::thread::scope(|scope| {
            let looking = share(scope, || survey(known, store));
            use_it(snapshot.get_or_insert_with(|| Arc::new(known.snapshot())));
            looking.finish().unwrap_or_else(|_| Err(Error::Index("a thread of it died".to_owned()).into()))
        }),
        _ => survey(known, store),
    }
}

/// Looks at every stream.
pub(crate) fn survey(known: &Known, store: &Store) -> Result<Surveyed, Stopped> {
    let mut seen = Vec::with_capacity(known.rows.len());
    for row in &known.rows {
        seen.push((row.place(), row.name()?));
    }
    let swept_ms = clock::now_ms();
    let news_bytes = store.index().kept().map_or(0, Kept::news_bytes);
    let settling = store.backend().settling();
    let survey = store.backend().survey(&seen, &known.note)?;
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    for ((row, (place, name)), stamp) in known.rows.iter().zip(seen).zip(survey.stamps) {
        match stamp {
            None => gone.push(row.row()?),
            Some(stamp) if stamp.is_still(row.stamp(), settling) => {}
            Some(stamp) => {
                let sight = Sight { place, name: name.to_owned(), stamp };
                changed.push(Changed { sight, old: Some(row.row()?) });
            }
        }
    }
    changed.extend(survey.others.into_iter().map(|sight| Changed { sight, old: None }));
    Ok(Surveyed { differences: (changed, gone), note: survey.note, swept_ms, news_bytes })
}

impl Surveyed {
    /// Notes when the look was, and gives what it brought.
    pub(crate) fn noted_in(self, known: &mut Known) -> Differences {
        (known.note, known.swept_ms, known.news_bytes) = (self.note, self.swept_ms, self.news_bytes);
        self.differences
    }
}

/// Whether every session that is known is still where it was.
pub(crate) fn is_all_there(known: &Known, store: &Store) -> Result<bool, Stopped> {
    let mut seen = Vec::with_capacity(known.rows.len());
    for row in &known.rows {
        seen.push((row.place(), row.name()?));
    }
    let survey = store.backend().survey(&seen, &known.note)?;
    Ok(survey.stamps.iter().all(Option::is_some))
}

/// What is new or changed among the streams of which a watch told, and what is gone.
fn told(
    rows: &[RowRef],
    names: Vec<(Place, String, Option<Stamp>)>,
    settling: Settling,
) -> Read<Differences> {
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    // The last word on a name counts.
    for (place, name, stamp) in names.into_iter().rev() {
        if !seen.insert((place, name.clone())) {
            continue;
        }
        let is_it = |row: &&RowRef| row.place() == place && row.name().is_ok_and(|other| other == name);
        let old = rows.iter().find(is_it);
        match (stamp, old) {
            (Some(stamp), Some(old)) if stamp.is_still(old.stamp(), settling) => {}
            (Some(stamp), old) => {
                let old = old.map(RowRef::row).transpose()?;
                changed.push(Changed { sight: Sight { place, name, stamp }, old });
            }
            (None, Some(old)) => gone.push(old.row()?),
            (None, None) => {}
        }
    }
    Ok((changed, gone))
}

/// Drops the rows of files that are not sessions of their own: what interrupted packing left beside the plain file, and
/// an archived file all of whose records the live session of its id holds, as the backend tells. An archived session of
/// which another program restored an older copy is one. Returns whether any row was dropped.
pub(crate) fn drop_copies(rows: &mut Vec<RowRef>, store: &Store) -> Result<bool, Stopped> {
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
        kept.push(!is_second_form && (!is_live || is_listed_in_archive(store, &key, &id)?));
    }
    let before = rows.len();
    let mut kept = kept.into_iter();
    rows.retain(|_| kept.next().unwrap_or(true));
    Ok(rows.len() < before)
}

fn is_listed_in_archive(store: &Store, key: &str, id: &str) -> Result<bool, Stopped> {
    let Ok(key) = SessionKey::new(key) else { return Ok(true) };
    let listed = store.backend().list(Place::Archive, Which::Key(&key))?;
    Ok(listed.iter().any(|listed| listed.address.id == id))
}

/// What a list shows of a fork depends on what it was forked from. Where that was read anew, so must the fork be.
/// False: some must.
pub(crate) fn settle_forks(rows: &mut [RowRef]) -> Read<bool> {
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
            row.doubtful = true;
            row.stamp.changed_ns = Stamp::UNSETTLED_NS;
        }
        row.lineage = now;
        *slot = row.into();
    }
    Ok(settled)
}

/// How many sessions a fork may descend from; beyond that nobody looks.
const LINEAGE_MAX: usize = 64;
/// To look at so many takes longer than to begin a thread.
const MANY_ROWS: usize = 1000;
