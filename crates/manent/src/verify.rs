//! Checks sessions while other processes move and remove them.
//!
//! Listing a session and opening it are two steps. A session that is archived, deleted, restored or purged between the
//! two is not damaged: it is looked for again by its id, and only a session that is nowhere counts as removed. A check
//! of the whole store lists again until a listing brings nothing new, because a session that moves while the places
//! are listed one after the other may be seen in none of them.

use std::collections::{HashSet, VecDeque};

use manent_log::VerifyReport;

use manent_store::{Place, ProgressFn, Space, StreamId, StreamStat, Version};

use crate::error::{Error, Result};
use crate::reader::find_with_id;
use crate::store::{LOOKS, Store};

/// A check of every session of a store. See [`Store::verify_all`].
#[derive(Debug)]
pub struct VerifyAll {
    store: Store,
    todo: VecDeque<StreamStat>,
    /// Errors of places that could not be listed, not given yet.
    failed: VecDeque<Error>,
    /// The addresses at which a session was checked, or was looked for.
    done: HashSet<StreamId>,
    listings: u32,
}

/// The outcome of checking one session.
#[derive(Debug)]
pub struct Verified {
    /// The session, at the address where it was found last.
    pub listed: StreamStat,
    /// The result of the check; `None` if the session was removed after it had been listed.
    pub outcome: Result<Option<VerifyReport>>,
}

impl Store {
    /// Starts a check of every session of the store.
    pub fn verify_all(&self) -> VerifyAll {
        VerifyAll {
            store: self.clone(),
            todo: VecDeque::new(),
            failed: VecDeque::new(),
            done: HashSet::new(),
            listings: 0,
        }
    }

    /// Checks a session as [`Store::verify`] does, following it if others move it meanwhile. Returns the address at
    /// which it was checked, or `None` if the session was removed.
    pub fn verify_moving(
        &self,
        at: &StreamId,
        progress: ProgressFn<'_>,
    ) -> Result<Option<(StreamId, VerifyReport)>> {
        let mut at = at.clone();
        for _ in 0..MOVES_MAX {
            match self.verify(&at, &mut *progress) {
                Err(e) if e.is_not_found() => {}
                report => return report.map(|report| Some((at, report))),
            }
            match self.find_again(&at)? {
                Some(now) => at = now,
                None => return Ok(None),
            }
        }
        Err(manent_store::Error::Busy { path: self.streams().name().into(), pid: None }.into())
    }

    /// Returns whether there is anything to repair in a stream of any space. Only memory and consolidation ask.
    #[cfg(feature = "search")]
    pub(crate) fn is_damaged(&self, id: &StreamId) -> Result<bool> {
        let is_damaged =
            |report: VerifyReport| !report.is_sound() || report.tail != manent_log::TailState::Clean;
        Ok(self.verify_stream(id)?.is_some_and(is_damaged))
    }

    /// Returns where a session is now that is no longer where it was seen.
    fn find_again(&self, at: &StreamId) -> Result<Option<StreamId>> {
        for _ in 0..LOOKS {
            let found = match at.id.as_str() {
                // A file of another program has no id, and is the same session only as long as it has the same name.
                "" => self.list_of(at.place, &at.key)?.into_iter().map(|listed| listed.id).find(|a| a == at),
                id => find_with_id(self.streams(), Some(&at.key), id)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

impl VerifyAll {
    /// Checks the next session. `None`: all were checked. An error is about a place that cannot be listed; the sessions
    /// of the other places are checked all the same.
    pub fn next(&mut self, progress: ProgressFn<'_>) -> Option<Result<Verified>> {
        loop {
            if let Some(error) = self.failed.pop_front() {
                return Some(Err(error));
            }
            let Some(mut listed) = self.todo.pop_front() else {
                if !self.list() {
                    return None;
                }
                continue;
            };
            // Moved from one place to the next while these were listed, it stands in the list twice.
            if !self.done.insert(listed.id.clone()) {
                continue;
            }
            let outcome = match self.store.verify_moving(&listed.id, progress) {
                Ok(Some((now, report))) => {
                    self.done.insert(now.clone());
                    listed.id = now;
                    Ok(Some(report))
                }
                Ok(None) => Ok(None),
                Err(e) => Err(e),
            };
            return Some(Ok(Verified { listed, outcome }));
        }
    }

    /// Lists every place again. Returns false if that brought nothing that was not checked before.
    fn list(&mut self) -> bool {
        let is_first = self.listings == 0;
        if self.listings >= LISTINGS_MAX {
            return false;
        }
        self.listings += 1;
        for place in Place::ALL {
            let listed = match self.store.list(place) {
                Ok(listed) => listed,
                // Told once: a place that could not be listed is no reason to go on for ever.
                Err(e) => {
                    self.failed.extend(is_first.then_some(e));
                    continue;
                }
            };
            let mut listed: Vec<StreamStat> =
                listed.into_iter().filter(|listed| !self.done.contains(&listed.id)).collect();
            if place == Place::Live {
                listed.extend(self.obstructed(is_first));
            }
            listed.sort_by(|a, b| (&a.id.key, &a.id.id).cmp(&(&b.id.key, &b.id.id)));
            self.todo.extend(listed);
        }
        !self.todo.is_empty() || !self.failed.is_empty()
    }

    /// The keys that lead to something that can be no log, such as a directory. A list of sessions passes over them; a
    /// check names them.
    fn obstructed(&mut self, is_first: bool) -> Vec<StreamStat> {
        let keys = match self.store.obstructed(Space::Sessions) {
            Ok(keys) => keys,
            Err(e) => {
                self.failed.extend(is_first.then_some(e));
                return Vec::new();
            }
        };
        let addresses = keys.into_iter().map(|key| StreamId::live(&key));
        let addresses = addresses.filter(|address| !self.done.contains(address));
        let listed = |id: StreamId| {
            let (name, from) = (String::new(), id.place);
            let (version, header_key) = (Version::UNKNOWN, None);
            StreamStat { id, name, version, bytes: 0, modified_ms: 0, from, header_key }
        };
        addresses.map(listed).collect()
    }
}

/// The number of moves after which a session is no longer followed.
const MOVES_MAX: u32 = 16;
/// The number of listings after which a check ends even if sessions are still created or moved.
const LISTINGS_MAX: u32 = 8;
