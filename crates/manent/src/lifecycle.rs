//! Archive, unarchive, delete, restore, purge.
//!
//! Each of them holds the right to move sessions, so that no fork is made of a session that is just being purged, and
//! leaves either what was or what was to be, also when it dies half way.

use std::time::{Duration, Instant};

use crate::backend::{Address, Listed, Place, Progress, Start, Which};
use crate::error::{Error, Result};
use crate::key::SessionKey;
use crate::meta::{self, Meta, Parent};
use crate::store::Store;
use manent_log::Item;

/// What a purge did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// What is gone.
    pub removed: Vec<Address>,
    /// Forks that shared records with what is gone, and hold a copy of them now.
    pub forks: Vec<Address>,
    /// Keys of which nothing is left, and whose runs are gone too.
    pub runs: Vec<SessionKey>,
    /// Whether the report of runs that was kept is gone too, because it may have shown them.
    pub report: bool,
}

impl Store {
    /// Archives a session: it leaves the list of live ones, is packed, and can be read as before. The next record of
    /// its key begins a new session. One that is archived but was not packed, because that was interrupted, is packed
    /// now.
    pub fn archive(&self, at: &Address, progress: Progress<'_>) -> Result<Address> {
        let archived = match at.place {
            Place::Live => self.moving(|| self.backend().relocate(at, Place::Archive, Duration::ZERO))?,
            Place::Archive => at.clone(),
            Place::Trash => {
                return Err(not_live(at, "`manent restore` brings it back"));
            }
        };
        match self.patiently(|| self.backend().condense(&archived, progress)) {
            Ok(()) => Ok(archived),
            Err(e) => Err(Error::NotPacked { id: archived.id, source: Box::new(e) }),
        }
    }

    /// Makes an archived session live again. A live one of the same key is in the way.
    pub fn unarchive(&self, at: &Address) -> Result<Address> {
        self.index().written(self, &at.key);
        self.moving(|| match at.place {
            Place::Archive => self.backend().relocate(at, Place::Live, Duration::ZERO),
            Place::Live => Ok(at.clone()),
            Place::Trash => Err(not_live(at, "`manent restore` brings it back")),
        })
    }

    /// Moves a session to the trash, where it stays until somebody purges it.
    pub fn delete(&self, at: &Address) -> Result<Address> {
        if at.place == Place::Archive {
            // In the trash, an archive is known by being packed. One that was interrupted in that is finished first.
            self.patiently(|| self.backend().condense(at, &mut |_, _| {}))?;
        }
        self.moving(|| self.backend().relocate(at, Place::Trash, Duration::ZERO))
    }

    /// Brings a session back from the trash to where it was.
    pub fn restore(&self, trashed: &Listed) -> Result<Address> {
        self.index().written(self, &trashed.address.key);
        self.moving(|| self.backend().relocate(&trashed.address, trashed.from, Duration::ZERO))
    }

    /// Removes sessions for good. Forks of them get a copy of what they share, and are named; `with_forks` removes them
    /// too, and theirs. Where no session of a key is left, its runs go with the last one: they tell what was said.
    pub fn purge(&self, sessions: &[Address], with_forks: bool) -> Result<Purged> {
        let mut purged = Purged::default();
        self.moving(|| self.purge_now(sessions, with_forks, &mut purged))?;
        self.index().forget(self)?;
        Ok(purged)
    }

    /// What is done already, in an earlier try, is not done again.
    fn purge_now(&self, sessions: &[Address], with_forks: bool, purged: &mut Purged) -> Result<()> {
        let everything = self.everything()?;
        let mut doomed: Vec<Address> = sessions.iter().map(|at| by_its_id(at, &everything)).collect();
        let mut at = 0;
        while let Some(session) = doomed.get(at).cloned() {
            at += 1;
            for Kin { address: fork, .. } in everything.iter().filter(|kin| kin.shares_with(&session)) {
                if doomed.contains(fork) {
                    continue;
                }
                if with_forks {
                    doomed.push(fork.clone());
                } else if !purged.forks.contains(fork) {
                    purged.forks.push(fork.clone());
                }
            }
        }
        purged.forks.retain(|fork| !doomed.contains(fork));
        // What stays is made whole before anything goes.
        for fork in &purged.forks {
            self.make_independent(fork, &doomed)?;
        }
        // Before the sessions: as long as one of these is there, whoever purges it again takes the runs along.
        self.purge_runs(&doomed, &everything, purged)?;
        self.index().announce_purge(&doomed);
        for session in forks_first(doomed, &everything) {
            if !purged.removed.contains(&session) {
                self.backend().delete(&session, Duration::ZERO)?;
                purged.removed.push(session);
            }
        }
        Ok(())
    }

    /// Removes the runs of keys that nothing is left of.
    fn purge_runs(&self, doomed: &[Address], everything: &[Kin], purged: &mut Purged) -> Result<()> {
        let runs = match self.runs() {
            Err(Error::NoRoom { .. }) => return Ok(()),
            runs => runs?,
        };
        // Nothing goes if one of them is being written: then it stays, and so do its runs.
        for at in doomed.iter().filter(|at| at.place == Place::Live) {
            match self.backend().lease(&at.key, None, Duration::ZERO) {
                Err(e) if is_held(&e) => return Err(e),
                // What cannot be written can be removed.
                _ => {}
            }
        }
        for Address { key, .. } in doomed {
            let stays = |kin: &Kin| kin.address.key == *key && !doomed.contains(&kin.address);
            if everything.iter().any(stays) || runs.log(key)?.is_none() {
                continue;
            }
            // Before the runs, for the same reason.
            purged.report |= self.reports()?.forget()?;
            if runs.purge_within(key, Duration::ZERO)? {
                purged.runs.push(key.clone());
            }
        }
        Ok(())
    }

    /// Removes the runs of a key for good, and the report that is kept, which may show them. Its sessions, if it has
    /// any, are left alone.
    pub fn purge_runs_of(&self, key: &SessionKey) -> Result<Purged> {
        let runs = self.runs()?;
        let mut purged = Purged::default();
        self.moving(|| {
            if runs.log(key)?.is_some() {
                purged.report |= self.reports()?.forget()?;
                if runs.purge_within(key, Duration::ZERO)? {
                    purged.runs.push(key.clone());
                }
            }
            Ok(())
        })?;
        Ok(purged)
    }

    /// Does something with the right to move sessions. For a session that somebody writes it waits without that right:
    /// the others may go on moving theirs, and whoever packs it can finish.
    fn moving<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        self.patiently(|| {
            let _right = self.backend().exclusive(self.wait())?;
            act()
        })
    }

    /// Does something again and again as long as somebody holds the session, but no longer than we are to wait.
    fn patiently<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        // Nothing: longer than any clock runs.
        let deadline = Instant::now().checked_add(self.wait());
        let in_time = || deadline.is_none_or(|deadline| Instant::now() + PAUSE < deadline);
        loop {
            match act() {
                Err(e) if is_held(&e) && in_time() => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
    }

    /// Copies into a fork what it shares with sessions that are going to be removed.
    fn make_independent(&self, fork: &Address, doomed: &[Address]) -> Result<()> {
        loop {
            let mut records = self.backend().read(fork, Start::Header, None)?;
            let Some(parent) = records.meta().and_then(|meta| meta.parent.clone()) else { return Ok(()) };
            let Some(Item::Entry(header)) = records.next()? else { return Ok(()) };
            let Some(address) = doomed.iter().find(|doomed| is_parent(Some(&parent), doomed)) else {
                return Ok(());
            };
            let line = String::from_utf8_lossy(header.bytes).into_owned();
            let above = self.backend().read(address, Start::Header, None)?;
            let above = above.meta().and_then(|meta| meta.parent.clone());
            // Where the record at which it was forked lies above the parent, the parent's own records are not shared.
            let header = meta::with_parent(&line, above.as_ref(), &parent.id);
            self.backend().absorb(fork, &header, address, parent.upto, Duration::ZERO)?;
        }
    }

    /// Every session, with what it shares with others. One whose header is damaged is no fork that we could help; one
    /// of which the disk says nothing may be, and then nothing is removed.
    fn everything(&self) -> Result<Vec<Kin>> {
        let mut all = Vec::new();
        for place in Place::ALL {
            for listed in self.backend().list(place, Which::All)? {
                let read = self.backend().read(&listed.address, Start::Header, None);
                let meta = match read {
                    Err(e) if e.is_refusal() => return Err(e),
                    read => read.ok().and_then(|records| records.meta().cloned()),
                };
                let mut address = listed.address;
                if let Some(meta) = &meta
                    && address.id.is_empty()
                {
                    address.id.clone_from(&meta.id);
                }
                let Meta { parent, copied, .. } = meta.unwrap_or_default();
                all.push(Kin { address, parent, copied });
            }
        }
        Ok(all)
    }
}

/// A session, and whose records it has or needs.
struct Kin {
    address: Address,
    parent: Option<Parent>,
    /// Ids of sessions of which it holds a copy, because they were purged, or were going to be.
    copied: Vec<String>,
}

impl Kin {
    fn shares_with(&self, session: &Address) -> bool {
        let copied = !session.id.is_empty() && self.copied.contains(&session.id);
        self.address != *session && (copied || is_parent(self.parent.as_ref(), session))
    }
}

/// A session may have been named by its key alone; its forks know it by its id.
fn by_its_id(at: &Address, everything: &[Kin]) -> Address {
    let same = |kin: &&Kin| kin.address.place == at.place && kin.address.key == at.key && at.id.is_empty();
    everything.iter().find(same).map_or_else(|| at.clone(), |kin| kin.address.clone())
}

/// Puts forks before what they were forked from: whatever is left by a crash can be read.
fn forks_first(mut doomed: Vec<Address>, everything: &[Kin]) -> Vec<Address> {
    let mut ordered = Vec::with_capacity(doomed.len());
    while !doomed.is_empty() {
        let needed = |session: &Address| {
            let mut forks = everything.iter().filter(|kin| is_parent(kin.parent.as_ref(), session));
            forks.any(|kin| kin.address != *session && doomed.contains(&kin.address))
        };
        // Headers made by hand may go round in a circle; then any is as good.
        let free = doomed.iter().position(|session| !needed(session)).unwrap_or(0);
        ordered.push(doomed.remove(free));
    }
    ordered
}

fn is_parent(parent: Option<&Parent>, session: &Address) -> bool {
    parent.is_some_and(|parent| !parent.id.is_empty() && parent.id == session.id)
}

fn is_held(error: &Error) -> bool {
    matches!(error.root(), Error::Log(log) if matches!(log.root(), manent_log::Error::Held { .. }))
}

fn not_live(at: &Address, hint: &'static str) -> Error {
    Error::NotLive { key: at.key.to_string(), place: at.place, hint }
}

const PAUSE: Duration = Duration::from_millis(10);
