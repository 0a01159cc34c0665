//! Archive, unarchive, delete, restore, purge.
//!
//! Each of them holds the right to move sessions, so that no fork is made of a session that is just being purged, and
//! leaves either what was or what was to be, also when it dies half way. What a purge removes of other spaces and of
//! derived blobs is told by [`Space`]; this file knows no space but that of sessions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manent_log::LogItem;
use manent_store::{
    Blobs, IfMissing, InMemoryBlobs, LockMode, LockName, Place, ProgressFn, Selector, SessionKey, Space,
    StreamFilter, StreamId, StreamPart, StreamStat, is_temporary,
};

use crate::error::{Error, Result, io_error};
use crate::meta::{self, Meta, Parent};
use crate::reader::Start;
use crate::store::Store;

/// The outcome of a purge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// The sessions that are gone.
    pub removed: Vec<StreamId>,
    /// Forks that shared records with what is gone, and hold a copy of them now.
    pub forks: Vec<StreamId>,
    /// Streams of other spaces, such as runs, that went with the last session of their key.
    pub companions: Vec<StreamId>,
    /// The spaces whose derived blobs were removed too, because they may have shown the companions.
    pub derived: Vec<Space>,
}

impl Store {
    /// Archives a session: it leaves the list of live ones, is packed, and can be read as before. The next record of
    /// its key begins a new session. One that is archived but was not packed, because that was interrupted, is packed
    /// now.
    #[cfg(feature = "archive")]
    pub fn archive(&self, at: &StreamId, progress: ProgressFn<'_>) -> Result<StreamId> {
        let archived = match at.place {
            Place::Live => self.with_move_lock(Space::Sessions, || self.relocate(at, Place::Archive))?,
            Place::Archive => at.clone(),
            Place::Trash => return Err(not_live(at)),
        };
        match self.retry_while_held(|| self.pack(&archived, progress)) {
            Ok(()) => Ok(archived),
            Err(e) => Err(Error::NotPacked { id: archived.id, source: Box::new(e) }),
        }
    }

    /// Makes an archived session live again. A live one of the same key is in the way.
    pub fn unarchive(&self, at: &StreamId) -> Result<StreamId> {
        self.index().note_written(&at.key);
        self.with_move_lock(Space::Sessions, || match at.place {
            Place::Archive => self.relocate(at, Place::Live),
            Place::Live => Ok(at.clone()),
            Place::Trash => Err(not_live(at)),
        })
    }

    /// Moves a session to the trash, where it stays until somebody purges it.
    pub fn delete(&self, at: &StreamId) -> Result<StreamId> {
        if at.place == Place::Archive {
            // In the trash, an archive is known by being packed. One that was interrupted in that is finished first.
            self.retry_while_held(|| self.pack(at, &mut |_, _| {}))?;
        }
        self.with_move_lock(Space::Sessions, || self.relocate(at, Place::Trash))
    }

    /// Brings a session back from the trash to where it was.
    pub fn restore(&self, trashed: &StreamStat) -> Result<StreamId> {
        self.index().note_written(&trashed.id.key);
        self.with_move_lock(Space::Sessions, || self.relocate(&trashed.id, trashed.from))
    }

    /// Removes sessions for good. Forks of them get a copy of what they share, and are named; `with_forks` removes them
    /// too, and theirs. Where no session of a key is left, the streams of other spaces that belong to the sessions of
    /// that key ([`Space::belongs_to_sessions`]) go with the last one: they tell what was said.
    ///
    /// These companions go first, so that a purge that is interrupted can be repeated. The right to move streams is
    /// held for one space at a time.
    pub fn purge(&self, sessions: &[StreamId], with_forks: bool) -> Result<Purged> {
        let mut purged = Purged::default();
        // Keys whose companions are gone. One that is begun while its session is removed stays.
        let mut cleared = Vec::new();
        while let Some(keys) = self.with_move_lock(Space::Sessions, || {
            self.purge_sessions(sessions, with_forks, &cleared, &mut purged)
        })? {
            for key in keys {
                self.remove_companions(&key, &mut purged)?;
                cleared.push(key);
            }
        }
        self.index().forget()?;
        Ok(purged)
    }

    /// Removes what other spaces keep about a key for good, and the blobs that may show it. The sessions of the key, if
    /// it has any, are left alone.
    pub fn purge_companions(&self, key: &SessionKey) -> Result<Purged> {
        let mut purged = Purged::default();
        self.remove_companions(key, &mut purged)?;
        Ok(purged)
    }

    /// Removes the sessions, with the right to move sessions held, and returns `None`. Where companions have to go
    /// first, removes nothing and returns their keys. Does not repeat what an earlier attempt has done.
    fn purge_sessions(
        &self,
        sessions: &[StreamId],
        with_forks: bool,
        cleared: &[SessionKey],
        purged: &mut Purged,
    ) -> Result<Option<Vec<SessionKey>>> {
        let everything = self.everything()?;
        let mut doomed: Vec<StreamId> = sessions.iter().map(|at| with_its_id(at, &everything)).collect();
        let mut at = 0;
        while let Some(session) = doomed.get(at).cloned() {
            at += 1;
            for Relative { id: fork, .. } in everything.iter().filter(|kin| kin.shares_with(&session)) {
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
        if self.companion_spaces().next().is_some() {
            self.check_unwritten(&doomed)?;
        }
        let keys = self.keys_with_companions(&doomed, &everything, cleared)?;
        if !keys.is_empty() {
            return Ok(Some(keys));
        }
        self.index().announce_purge(&doomed);
        for session in forks_first(doomed, &everything) {
            if !purged.removed.contains(&session) {
                self.streams().delete(&session, Duration::ZERO)?;
                purged.removed.push(session);
            }
        }
        Ok(None)
    }

    /// Refuses a purge of sessions one of which is being written: then it stays, and so does what is kept about it.
    fn check_unwritten(&self, doomed: &[StreamId]) -> Result<()> {
        for at in doomed.iter().filter(|at| at.place == Place::Live) {
            match self.streams().lease(&StreamId::live(&at.key), IfMissing::Refuse, Duration::ZERO) {
                Err(e) if e.is_held() => return Err(e.into()),
                // What cannot be written can be removed.
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the keys of which no session stays and other spaces keep a stream, without those that are cleared.
    fn keys_with_companions(
        &self,
        doomed: &[StreamId],
        everything: &[Relative],
        cleared: &[SessionKey],
    ) -> Result<Vec<SessionKey>> {
        let mut keys = Vec::new();
        for StreamId { key, .. } in doomed {
            let stays = |kin: &Relative| kin.id.key == *key && !doomed.contains(&kin.id);
            if keys.contains(key) || cleared.contains(key) || everything.iter().any(stays) {
                continue;
            }
            for space in self.companion_spaces() {
                if !keys.contains(key) && self.has_stream(space, key)? {
                    keys.push(key.clone());
                }
            }
        }
        Ok(keys)
    }

    fn companion_spaces(&self) -> impl Iterator<Item = Space> {
        let spaces = Space::ALL.into_iter().filter(|space| space.belongs_to_sessions());
        spaces.filter(|space| self.streams().supports(*space))
    }

    fn has_stream(&self, space: Space, key: &SessionKey) -> Result<bool> {
        let filter = StreamFilter::new(space, Place::Live, Selector::Key(key));
        Ok(!self.streams().list(&filter)?.is_empty())
    }

    /// Removes the companions of a key, and before each of them the blobs that may show it.
    fn remove_companions(&self, key: &SessionKey, purged: &mut Purged) -> Result<()> {
        for space in self.companion_spaces() {
            if !self.has_stream(space, key)? {
                continue;
            }
            self.with_move_lock(space, || {
                if self.remove_derived(space)? && !purged.derived.contains(&space) {
                    purged.derived.push(space);
                }
                let companion = StreamId::live_in(space, key);
                match self.streams().delete(&companion, Duration::ZERO) {
                    Err(e) if e.is_not_found() => {}
                    deleted => {
                        deleted?;
                        purged.companions.push(companion);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Removes the blobs that are derived from streams of a space, with the right to move these streams held. Returns
    /// whether there were any.
    fn remove_derived(&self, space: Space) -> Result<bool> {
        let Some(derived) = space.derived_blobs() else { return Ok(false) };
        let (blobs, folder) = (self.derived_blobs(), derived.folder);
        let failed = |e: std::io::Error| io_error("remove", Path::new(&blobs.name(folder)))(e);
        let mut names = blobs.list(folder).map_err(failed)?;
        // Others may have put something there.
        names.retain(|name| is_temporary(name) || derived.names.contains(&name.as_str()));
        for name in &names {
            blobs.delete(&format!("{folder}/{name}")).map_err(failed)?;
        }
        if !names.is_empty() {
            blobs.sync(folder).map_err(failed)?;
        }
        Ok(!names.is_empty())
    }

    /// Returns where blobs that are derived from streams are kept ([`Space::derived_blobs`]): with other derived data,
    /// or in memory.
    pub fn derived_blobs(&self) -> Arc<dyn Blobs> {
        match self.blobs() {
            Some(blobs) => blobs.clone(),
            None => self.extension(InMemoryBlobs::default),
        }
    }

    fn relocate(&self, at: &StreamId, to: Place) -> Result<StreamId> {
        Ok(self.streams().relocate(at, to, Duration::ZERO)?)
    }

    /// Packs an archived session, where the backend can.
    fn pack(&self, at: &StreamId, progress: ProgressFn<'_>) -> Result<()> {
        self.streams().maintenance().map_or(Ok(()), |maintenance| Ok(maintenance.pack(at, progress)?))
    }

    /// Runs `act` with the right to move streams of a space. While a stream has a writer, it waits without that right,
    /// so that others can be moved and a pack can finish.
    fn with_move_lock<T>(&self, space: Space, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        self.retry_while_held(|| {
            let moves = LockName::Moves(space);
            let _right = self.streams().lock(moves, LockMode::Exclusive, self.wait())?;
            act()
        })
    }

    /// Repeats `act` while another writer has the session, for as long as the store waits.
    fn retry_while_held<T>(&self, mut act: impl FnMut() -> Result<T>) -> Result<T> {
        // `None` is a time beyond the range of the clock.
        let deadline = Instant::now().checked_add(self.wait());
        let in_time = || deadline.is_none_or(|deadline| Instant::now() + PAUSE < deadline);
        loop {
            match act() {
                Err(e) if e.is_held() && in_time() => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
    }

    /// Copies into a fork what it shares with sessions that are going to be removed.
    fn make_independent(&self, fork: &StreamId, doomed: &[StreamId]) -> Result<()> {
        loop {
            let mut records = self.records(fork, Start::Header)?;
            let Some(parent) = records.meta().and_then(|meta| meta.parent.clone()) else { return Ok(()) };
            let Some(LogItem::Entry(header)) = records.next()? else { return Ok(()) };
            let Some(address) = doomed.iter().find(|doomed| is_parent(Some(&parent), doomed)) else {
                return Ok(());
            };
            let line = String::from_utf8_lossy(header.bytes).into_owned();
            let above = self.records(address, Start::Header)?;
            let above = above.meta().and_then(|meta| meta.parent.clone());
            // Where the record at which it was forked lies above the parent, the parent's own records are not shared.
            let header = meta::with_parent(&line, above.as_ref(), &parent.id);
            let parts = [
                StreamPart::Lines { of: address.clone(), upto: Some(parent.upto) },
                StreamPart::Lines { of: fork.clone(), upto: None },
            ];
            let writer = self.streams().lease(fork, IfMissing::Refuse, Duration::ZERO)?;
            writer.replace(Some(&header), &mut parts.into_iter().map(Ok), &[])?;
        }
    }

    /// Every session, with what it shares with others. One whose header is damaged is no fork that we could help; one
    /// of which the disk says nothing may be, and then nothing is removed.
    fn everything(&self) -> Result<Vec<Relative>> {
        let mut all = Vec::new();
        for place in Place::ALL {
            for listed in self.list(place)? {
                let read = self.records(&listed.id, Start::Header);
                let meta = match read {
                    Err(e) if e.is_refusal() => return Err(e),
                    read => read.ok().and_then(|records| records.meta().cloned()),
                };
                let mut id = listed.id;
                if let Some(meta) = &meta
                    && id.id.is_empty()
                {
                    id.id.clone_from(&meta.id);
                }
                let Meta { parent, copied, .. } = meta.unwrap_or_default();
                all.push(Relative { id, parent, copied });
            }
        }
        Ok(all)
    }
}

/// A session, and whose records it has or needs.
struct Relative {
    id: StreamId,
    parent: Option<Parent>,
    /// Ids of sessions of which it holds a copy, because they were purged, or were going to be.
    copied: Vec<String>,
}

impl Relative {
    fn shares_with(&self, session: &StreamId) -> bool {
        let copied = !session.id.is_empty() && self.copied.contains(&session.id);
        self.id != *session && (copied || is_parent(self.parent.as_ref(), session))
    }
}

/// A session may have been named by its key alone; its forks know it by its id.
fn with_its_id(at: &StreamId, everything: &[Relative]) -> StreamId {
    let same = |kin: &&Relative| kin.id.place == at.place && kin.id.key == at.key && at.id.is_empty();
    everything.iter().find(same).map_or_else(|| at.clone(), |kin| kin.id.clone())
}

/// Puts forks before what they were forked from: whatever is left by a crash can be read.
fn forks_first(mut doomed: Vec<StreamId>, everything: &[Relative]) -> Vec<StreamId> {
    let mut ordered = Vec::with_capacity(doomed.len());
    while !doomed.is_empty() {
        let needed = |session: &StreamId| {
            let mut forks = everything.iter().filter(|kin| is_parent(kin.parent.as_ref(), session));
            forks.any(|kin| kin.id != *session && doomed.contains(&kin.id))
        };
        // Headers made by hand may go round in a circle; then any is as good.
        let free = doomed.iter().position(|session| !needed(session)).unwrap_or(0);
        ordered.push(doomed.remove(free));
    }
    ordered
}

fn is_parent(parent: Option<&Parent>, session: &StreamId) -> bool {
    parent.is_some_and(|parent| !parent.id.is_empty() && parent.id == session.id)
}

fn not_live(at: &StreamId) -> Error {
    manent_store::Error::NotLive { key: at.key.to_string(), place: at.place }.into()
}

const PAUSE: Duration = Duration::from_millis(10);
