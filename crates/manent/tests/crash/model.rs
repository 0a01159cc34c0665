//! What a store may show, given what was promised and what happened since.
//!
//! Sessions are known by their ids. What was acknowledged is certain; what a crash interrupted may have happened or
//! not; and what was seen after a kill may still be taken back by a power cut, because nobody was told of it.

use std::collections::{BTreeMap, BTreeSet};

use manent::{Place, SessionKey};
use manent_sim::CrashKind;

use super::state::{Seen, State};

pub(crate) type Records = Vec<(u64, String)>;

/// One session.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) key: SessionKey,
    pub(crate) place: Place,
    pub(crate) records: Records,
    /// Other places where a crash may leave the session.
    places: BTreeSet<Place>,
    /// The number of records that must be there.
    promised: usize,
    /// True if the session may be missing: it was not acknowledged, or is being purged.
    optional: bool,
    /// A record that was being appended.
    maybe: Option<String>,
}

/// The expectation.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) sessions: BTreeMap<String, Known>,
    /// Sessions that were being made.
    maybe: Vec<(SessionKey, Records)>,
    /// Sessions that are gone, and may come back with a power cut.
    ghosts: BTreeMap<String, Known>,
}

impl Model {
    /// The live session of a key.
    fn live(&mut self, key: &SessionKey) -> Option<&mut Known> {
        self.sessions.values_mut().find(|known| known.place == Place::Live && known.key == *key)
    }

    /// A session was made, with these records, and the maker was told.
    pub(crate) fn made(&mut self, id: &str, key: &SessionKey, records: Records) {
        let known = Known {
            key: key.clone(),
            place: Place::Live,
            promised: records.len(),
            records,
            places: BTreeSet::from([Place::Live]),
            optional: false,
            maybe: None,
        };
        self.sessions.insert(id.to_owned(), known);
    }

    /// A record was acknowledged, and with it all before it.
    pub(crate) fn appended(
        &mut self,
        id: &str,
        key: &SessionKey,
        seq: u64,
        text: &str,
    ) -> Result<(), String> {
        let Some(known) = self.sessions.get_mut(id) else {
            if self.live(key).is_some() || seq != 1 {
                return Err(format!("record {seq} of {key} went to a session that nobody knows, {id}"));
            }
            self.made(id, key, vec![(seq, text.to_owned())]);
            return Ok(());
        };
        let next = known.records.last().map_or(1, |(last, _)| last + 1);
        if known.place != Place::Live || known.key != *key || seq != next {
            return Err(format!("record {seq} of {key} went to {known:?}"));
        }
        known.records.push((seq, text.to_owned()));
        known.promised = known.records.len();
        known.optional = false;
        Ok(())
    }

    /// An append was interrupted.
    pub(crate) fn perhaps_appended(&mut self, key: &SessionKey, text: &str) {
        match self.live(key) {
            Some(known) => known.maybe = Some(text.to_owned()),
            None => self.maybe.push((key.clone(), vec![(1, text.to_owned())])),
        }
    }

    pub(crate) fn moved(&mut self, id: &str, to: Place) {
        if let Some(known) = self.sessions.get_mut(id) {
            (known.place, known.places) = (to, BTreeSet::from([to]));
        }
    }

    pub(crate) fn perhaps_moved(&mut self, id: &str, to: Place) {
        if let Some(known) = self.sessions.get_mut(id) {
            known.places.insert(to);
        }
    }

    pub(crate) fn purged(&mut self, id: &str) {
        self.sessions.remove(id);
    }

    pub(crate) fn perhaps_purged(&mut self, id: &str) {
        if let Some(known) = self.sessions.get_mut(id) {
            known.optional = true;
        }
    }

    pub(crate) fn perhaps_made(&mut self, key: &SessionKey, records: Records) {
        self.maybe.push((key.clone(), records));
    }

    /// Clears the uncertainty: since the last check only acknowledged changes were made.
    pub(crate) fn check(&self, now: &State) -> Result<(), String> {
        let seen = by_id(now)?;
        for (id, known) in &self.sessions {
            let there = seen.get(id.as_str());
            if !there.is_some_and(|s| s.place() == known.place && s.records == known.records) {
                return Err(format!("{id} should be {known:?}, and is {there:?}"));
            }
        }
        match seen.keys().find(|id| !self.sessions.contains_key(**id)) {
            Some(id) => Err(format!("where does {id} come from?")),
            None => Ok(()),
        }
    }

    /// After a crash: compares, and takes what is there as the new truth.
    pub(crate) fn adopt(&mut self, now: &State, kind: CrashKind) -> Result<(), String> {
        let mut seen = by_id(now)?;
        if kind == CrashKind::Power {
            self.sessions.append(&mut self.ghosts);
        }
        let all = std::mem::take(&mut self.sessions);
        for (id, mut known) in all {
            let Some(there) = seen.remove(id.as_str()) else {
                if !known.optional {
                    return Err(format!("{id} is gone: {known:?}"));
                }
                // What was removed and not synced, a power cut brings back.
                if kind == CrashKind::Kill {
                    self.ghosts.insert(id, known);
                }
                continue;
            };
            known.compare(there).map_err(|what| format!("{id} {what}: {known:?}, and is {there:?}"))?;
            known.settle(there, kind);
            self.sessions.insert(id, known);
        }
        for (id, there) in seen {
            // Of the first append to a session, only the header may be left. A fork is whole.
            let is = |records: &Records| {
                *records == there.records || records.len() == 1 && there.records.is_empty()
            };
            let known = self.maybe.iter().any(|(key, records)| key == there.key() && is(records));
            if !known {
                return Err(format!("where does {id} come from? {there:?}"));
            }
            self.made(id, there.key(), there.records.clone());
            if let Some(known) = self.sessions.get_mut(id).filter(|_| kind == CrashKind::Kill) {
                (known.promised, known.optional) = (0, true);
            }
        }
        if kind == CrashKind::Power {
            self.maybe.clear();
        }
        Ok(())
    }
}

impl Known {
    fn compare(&self, there: &Seen) -> Result<(), &'static str> {
        let mut most = self.records.clone();
        let next = most.last().map_or(1, |(last, _)| last + 1);
        most.extend(self.maybe.iter().map(|text| (next, text.clone())));
        if *there.key() != self.key || !self.places.contains(&there.place()) {
            return Err("is where it was never to be");
        }
        if !most.starts_with(&there.records) {
            return Err("holds what nobody said");
        }
        if there.records.len() < self.promised {
            return Err("has lost what was promised");
        }
        Ok(())
    }

    fn settle(&mut self, there: &Seen, kind: CrashKind) {
        self.place = there.place();
        self.records.clone_from(&there.records);
        self.maybe = None;
        if kind == CrashKind::Power {
            self.places = BTreeSet::from([self.place]);
            self.promised = self.records.len();
            self.optional = false;
        }
    }
}

fn by_id(now: &State) -> Result<BTreeMap<&str, &Seen>, String> {
    let mut seen: BTreeMap<&str, &Seen> = BTreeMap::new();
    for there in &now.0 {
        let id = there.listed.id.id.as_str();
        if there.damage > 0 {
            return Err(format!("{id} is damaged: {there:?}"));
        }
        // The torn beginning of a session that was never acknowledged.
        if id.is_empty() && there.records.is_empty() {
            continue;
        }
        if let Some(twice) = seen.insert(id, there) {
            return Err(format!("{id} is there twice: {there:?} {twice:?}"));
        }
    }
    Ok(seen)
}
