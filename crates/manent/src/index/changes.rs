//! What is new, changed or gone since the index last looked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::backend::{Changes, Place, Sight, Stamp, Watching};
use crate::clock;
use crate::store::Store;

use super::batch::Changed;
use super::catalogue::Row;
use super::damage::Read;
use super::rows::RowRef;
use super::shelf::Kept;
use super::state::Known;
use super::stopped::Stopped;

/// What is new or changed since last time, and what is gone.
pub(crate) fn changes(
    known: &mut Known,
    watching: &mut Option<Box<dyn Watching>>,
    was_asked: &mut bool,
    store: &Store,
) -> Result<(Vec<Changed>, Vec<Arc<Row>>), Stopped> {
    // What could not be read may be readable now, without having changed.
    let all_read = !known.rows.iter().any(RowRef::is_unread);
    if let Some(watch) = watching {
        match watch.changes() {
            Changes::These(names) if known.is_swept && all_read => return Ok(told(&known.rows, names)?),
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
    survey(known, store)
}

/// Looks at every stream.
pub(crate) fn survey(known: &mut Known, store: &Store) -> Result<(Vec<Changed>, Vec<Arc<Row>>), Stopped> {
    let mut seen = Vec::with_capacity(known.rows.len());
    for row in &known.rows {
        seen.push((row.place(), row.name()?));
    }
    let swept_ms = clock::now_ms();
    let news_bytes = store.index().kept().map_or(0, Kept::news_bytes);
    let survey = store.backend().survey(&seen, &known.note)?;
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    for ((row, (place, name)), stamp) in known.rows.iter().zip(seen).zip(survey.stamps) {
        match stamp {
            None => gone.push(row.row()?),
            Some(stamp) if stamp == row.stamp() => {}
            Some(stamp) => {
                let sight = Sight { place, name: name.to_owned(), stamp };
                changed.push(Changed { sight, old: Some(row.row()?) });
            }
        }
    }
    changed.extend(survey.others.into_iter().map(|sight| Changed { sight, old: None }));
    (known.note, known.swept_ms, known.news_bytes) = (survey.note, swept_ms, news_bytes);
    Ok((changed, gone))
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
fn told(rows: &[RowRef], names: Vec<(Place, String, Option<Stamp>)>) -> Read<(Vec<Changed>, Vec<Arc<Row>>)> {
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
            (Some(stamp), Some(old)) if old.stamp() == stamp => {}
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

/// Where a crash left a session twice: live and in the archive, or there packed and plain. The live one is the session,
/// or the plain one. Tells whether there were any.
pub(crate) fn drop_copies(rows: &mut Vec<RowRef>) -> Read<bool> {
    if rows.iter().all(|row| row.place() != Place::Archive) {
        return Ok(false);
    }
    // Copies that somebody made by hand have another key than their header says, and are not meant.
    let mut best: HashMap<(String, String), (Place, usize)> = HashMap::new();
    let mut all = Vec::with_capacity(rows.len());
    for row in &*rows {
        let (whole, rank) = (row.row()?, (row.place(), row.name()?.len()));
        let session = (whole.key.clone(), whole.id.clone());
        if !whole.id.is_empty() && row.place() != Place::Trash {
            best.entry(session.clone()).and_modify(|best| *best = rank.min(*best)).or_insert(rank);
        }
        all.push((session, rank));
    }
    let before = rows.len();
    let mut all = all.into_iter();
    rows.retain(|row| {
        let Some((session, rank)) = all.next() else { return true };
        row.place() != Place::Archive || best.get(&session).is_none_or(|best| *best == rank)
    });
    Ok(rows.len() < before)
}

/// What a list shows of a fork depends on what it was forked from. Where that was read anew, so must the fork be.
/// False: some must.
pub(crate) fn settle_forks(rows: &mut [RowRef]) -> Read<bool> {
    if !rows.iter().any(RowRef::is_fork) {
        return Ok(true);
    }
    let mut by_id: HashMap<String, (u64, String)> = HashMap::new();
    for row in &*rows {
        let row = row.row()?;
        // Other programs' sessions have no ids, and no forks that share records with them.
        if !row.id.is_empty() {
            by_id.insert(row.id.clone(), (row.number, row.parent.clone()));
        }
    }
    let lineage = |parent: &str| {
        let (mut id, mut lineage) = (parent, 1_u64);
        // Headers made by hand may go round in a circle.
        for _ in 0..LINEAGE_MAX {
            let Some((number, parent)) = by_id.get(id) else { break };
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
            row.stamp.changed_ns = i64::MIN;
        }
        row.lineage = now;
        *slot = row.into();
    }
    Ok(settled)
}

/// How many sessions a fork may descend from; beyond that nobody looks.
const LINEAGE_MAX: usize = 64;
