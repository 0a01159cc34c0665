//! Finds the streams that changed, without opening any.
//!
//! A stream is known by the identity of its file, its length and the time of its last change, which are the words of a
//! [`Version`]. A time counts only once it is settled ([`Settling`]): a version whose time is not settled equals no
//! other. The words of a [`Cursor`] are, for each place, the identity and time of its directory, so that a directory
//! in which no name came or went is not listed again; and a token. A caller who gives back the token of the last answer
//! gets what the kernel reported since (inotify), and nothing is looked at that did not change.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use manent_log::LockMode;
use manent_log::fs::{Disk, FileId, FileSystem, PathInfo, Settling, Shape, Watch};

use super::locks::{LOOK_WAIT_MAX, lock_dir};
use super::names::{FileForm, Layout, StoredName, may_be_file_of};
use super::store_dir::StoreDir;
use super::{Files, MARK};
use crate::error::{Result, io_error};
use crate::key::SessionKey;
use crate::streams::{
    ChangeKind, Changes, Cursor, KnownStreams, Place, ScanTime, Space, StreamChange, StreamState, Version,
};

/// The state of the watch on one space, for the next call of `changes`.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    watch: Option<DirWatch>,
    /// The token of the last answer; 0 if the next call must look at everything.
    token: u64,
    was_used: bool,
}

/// Makes the version of a file that was looked at, for a look that began at that time.
pub(super) fn version(info: &PathInfo, settling: Settling) -> Version {
    // A version that is not settled carries the time of the look, so that no later one equals it.
    let unsettled =
        if settling.is_settled(info.changed_ns) { 0 } else { settling.now_ns().cast_unsigned().max(1) };
    let FileId { device, inode } = info.id;
    Version::new([device, inode, info.len, info.changed_ns.cast_unsigned(), unsettled])
}

/// Returns when a look began.
fn moment(settling: Settling) -> ScanTime {
    ScanTime::new(settling.now_ns())
}

/// Compares a file that was known with what it is now; `None` if it is the same.
fn compare(known: Version, now: Version, bytes: u64) -> Option<ChangeKind> {
    let seen = StreamState { version: now, bytes };
    if known == now && now.words()[4] == 0 {
        return None;
    }
    let ([k_device, k_inode, k_bytes, _, unsettled], [device, inode, ..]) = (known.words(), now.words());
    // What is known only from within a tick may have grown without its time showing it.
    let grew = bytes > k_bytes || (bytes == k_bytes && unsettled != 0);
    let is_same = (k_device, k_inode) == (device, inode) && known != Version::UNKNOWN;
    Some(if is_same && grew { ChangeKind::Appended(seen) } else { ChangeKind::Rewritten(seen) })
}

impl Files {
    pub(super) fn changes_since(
        &self,
        space: Space,
        known: &dyn KnownStreams,
        since: &Cursor,
        state: &mut WatchState,
    ) -> Result<Changes> {
        let (token, note) = since.words().split_last().map_or((0, &[][..]), |(token, note)| (*token, note));
        let cursor = |note: &[u64], token: u64| Cursor::new([note, &[token]].concat());
        if let Some(watch) = &mut state.watch {
            match watch.changed() {
                Some(names) if token == state.token && token != 0 && known.is_complete() => {
                    let settling = self.dir.settling();
                    let streams = changes_of(known, names, settling);
                    // What went may be elsewhere by now, and the event of that not be here yet.
                    if !streams.iter().any(|change| change.kind == ChangeKind::Gone) {
                        state.token = self.next_token();
                        let cursor = cursor(note, state.token);
                        return Ok(Changes { moment: moment(settling), streams, cursor });
                    }
                }
                // Everything is looked at now, also what changed until here.
                Some(_) => {}
                None => state.watch = None,
            }
        }
        // The events of the kernel are used up: should the look fail, the next one must be at everything too.
        state.token = 0;
        // First the watch, then the look: nothing falls in between. Whoever asks once needs none, and looking at one
        // file costs no more than listening.
        if state.watch.is_none() && state.was_used && space.single_key().is_none() {
            state.watch = self.watch(space);
        }
        state.was_used = true;
        let changes = self.look_at_all(space, known, note)?;
        state.token = self.next_token();
        Ok(Changes { cursor: cursor(changes.cursor.words(), state.token), ..changes })
    }

    /// Makes a token that no other process makes.
    fn next_token(&self) -> u64 {
        let count = self.tokens.fetch_add(1, Ordering::Relaxed);
        RandomState::new().hash_one(count).clamp(1, Cursor::UNSETTLED - 1)
    }

    fn look_at_all(&self, space: Space, known: &dyn KnownStreams, note: &[u64]) -> Result<Changes> {
        let settling = self.dir.settling();
        let before = self.dir.dir_notes(space, settling)?;
        let changes = self.look_once(space, known, note, settling)?;
        if !may_have_moved(&before, &self.dir.dir_notes(space, settling)?) {
            return Ok(changes);
        }
        // Places are looked at one after the other: what was moved meanwhile may have been seen nowhere. Nobody of ours
        // moves anything as long as we have the lock; without it, two looks must do.
        let (sessions, wait) = (&self.dir.layout.sessions, self.dir.lock_wait_min.min(LOOK_WAIT_MAX));
        let _still = lock_dir(&*self.dir.disk, sessions, LockMode::Exclusive, wait).ok();
        self.look_once(space, known, note, settling)
    }

    fn look_once(
        &self,
        space: Space,
        known: &dyn KnownStreams,
        note: &[u64],
        settling: Settling,
    ) -> Result<Changes> {
        let mut seen: Vec<(Place, String, Version)> = Vec::new();
        known.each(&mut |place, name, version| seen.push((place, name.to_owned(), version)));
        let mut streams = Vec::new();
        let mut notes = Vec::new();
        for (number, place) in space.places().iter().copied().enumerate() {
            let dir = self.dir.layout.dir(space, place);
            if place != Place::Live {
                self.dir.refuse_link(dir)?;
            }
            // Looked at first: what is made after this look changes it.
            let now = self.dir.dir_note(dir, settling)?;
            let quiet = note.get(number * 2..number * 2 + 2) == Some(&now) && now != UNSETTLED;
            let here: Vec<&(Place, String, Version)> =
                seen.iter().filter(|(p, name, _)| is_in(*p, name, place)).collect();
            let mut names: Vec<&str> = Vec::with_capacity(here.len());
            names.extend(here.iter().map(|(_, name, _)| file_name(name)));
            let listed = if quiet { Vec::new() } else { self.dir.file_names(space, place)? };
            if !listed.is_empty() {
                let others: HashSet<&str> = names.iter().copied().collect();
                names.extend(listed.iter().map(String::as_str).filter(|name| !others.contains(name)));
            }
            let infos = match self.dir.disk.look(dir, &names) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => vec![None; names.len()],
                looked => looked.map_err(io_error("list", dir))?,
            };
            let written = |info: &Option<PathInfo>| {
                info.filter(|info| info.shape == Shape::File && info.len > 0)
                    .map(|info| StreamState { version: version(&info, settling), bytes: info.len })
            };
            if infos.iter().flatten().any(|info| info.links > 1 && info.shape == Shape::File) {
                self.has_linked.store(true, Ordering::Relaxed);
            }
            for ((known_place, name, known), info) in here.iter().zip(&infos) {
                let kind = match written(info) {
                    None => Some(ChangeKind::Gone),
                    Some(seen) => compare(*known, seen.version, seen.bytes),
                };
                streams.extend(kind.map(|kind| StreamChange {
                    place: *known_place,
                    name: name.clone(),
                    kind,
                }));
            }
            let others = names[here.len()..].iter().zip(&infos[here.len()..]);
            let others: Vec<_> = others.filter_map(|(name, info)| Some((*name, written(info)?))).collect();
            if !others.is_empty() {
                let there = names.iter().zip(&infos).filter(|(_, info)| info.is_some());
                let there = there.map(|(name, _)| *name).collect();
                streams.extend(new_streams(space, place, others, &there));
            }
            // What is empty is not a stream yet, and nothing but its length will tell when it is.
            let mut all = names.iter().zip(&infos);
            let empty = all
                .any(|(name, info)| info.is_some_and(|info| info.len == 0) && is_stream(space, place, name));
            notes.extend(if empty { UNSETTLED } else { now });
        }
        Ok(Changes { moment: moment(settling), streams, cursor: Cursor::new(notes) })
    }

    /// Begins to watch the directories of a space; `None` if that cannot be done. Only on disks of this machine: what
    /// another one writes to a disk that both share is not reported.
    fn watch(&self, space: Space) -> Option<DirWatch> {
        let live = self.dir.layout.dir(space, Place::Live).to_owned();
        let is_local = self.dir.disk.file_system(&live).ok()? == FileSystem::Local;
        if !is_local || self.has_linked.load(Ordering::Relaxed) {
            return None;
        }
        let mut dirs = vec![live.clone()];
        let home = self.dir.layout.home.clone();
        let others = space.places().iter().map(|place| self.dir.layout.dir(space, *place).to_owned());
        for dir in std::iter::once(home).chain(others) {
            if !dirs.contains(&dir) && self.dir.disk.inspect(&dir).is_ok() {
                dirs.push(dir);
            }
        }
        let paths: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        let ids = ids_of(&*self.dir.disk, &dirs)?;
        let watch = self.dir.disk.watch(&paths).ok().flatten()?;
        let (disk, layout) = (self.dir.disk.clone(), self.dir.layout.clone());
        Some(DirWatch { disk, layout, space, watch, dirs, ids })
    }
}

impl StoreDir {
    /// The notes of the directories of all places.
    fn dir_notes(&self, space: Space, settling: Settling) -> Result<Vec<[u64; 2]>> {
        space.places().iter().map(|place| self.dir_note(self.layout.dir(space, *place), settling)).collect()
    }

    /// Two numbers that are others as soon as a name is made, renamed or removed in a directory; [`UNSETTLED`] if it
    /// may change again without that.
    fn dir_note(&self, dir: &Path, settling: Settling) -> Result<[u64; 2]> {
        let Some(info) = self.file_at(dir)? else { return Ok([0, 0]) };
        // The time of a link says nothing of the directory behind it.
        let is_known = info.shape == Shape::Directory && settling.is_settled(info.changed_ns);
        Ok(if is_known { [info.id.inode, info.changed_ns.cast_unsigned()] } else { UNSETTLED })
    }
}

/// Makes changes of the names that the kernel reported, with what each leads to now.
fn changes_of(
    known: &dyn KnownStreams,
    names: Vec<(Place, String, Option<PathInfo>)>,
    settling: Settling,
) -> Vec<StreamChange> {
    let mut last: HashMap<(Place, String), Option<PathInfo>> = HashMap::new();
    for (place, name, info) in names {
        last.insert((place, name), info);
    }
    let change = |((place, name), info): ((Place, String), Option<PathInfo>)| {
        let was = known.version(place, &name);
        let kind = match (info, was) {
            (None, None) => return None,
            (None, Some(_)) => ChangeKind::Gone,
            (Some(info), None) => {
                ChangeKind::New(StreamState { version: version(&info, settling), bytes: info.len })
            }
            (Some(info), Some(was)) => compare(was, version(&info, settling), info.len)?,
        };
        Some(StreamChange { place, name, kind })
    };
    last.into_iter().filter_map(change).collect()
}

/// Returns true if a stream may have gone from one place to another between two looks at their directories: it changes
/// both.
fn may_have_moved(before: &[[u64; 2]], after: &[[u64; 2]]) -> bool {
    let changed = before.iter().zip(after).filter(|(before, after)| before != after || **after == UNSETTLED);
    changed.count() > 1
}

/// Returns true if a stream that was seen lies in the directory of a place.
fn is_in(place: Place, name: &str, dir: Place) -> bool {
    if name.starts_with(AMONG_LIVE) { dir == Place::Live } else { place == dir }
}

/// The name of the file of a stream that was seen.
pub(super) fn file_name(name: &str) -> &str {
    name.strip_prefix(AMONG_LIVE).unwrap_or(name)
}

/// Returns true if a file of this name is one of a stream.
fn is_stream(space: Space, dir: Place, name: &str) -> bool {
    if dir == Place::Live {
        named_among_live(space, name).is_some()
    } else {
        StoredName::parse(name).is_some()
    }
}

/// A file in the directory of the live streams, by its name: where it counts as being, and what it is called there.
/// One that another program archived by renaming is not in the archive's directory, where the same name may be.
fn named_among_live(space: Space, name: &str) -> Option<(Place, String)> {
    let stem = if space == Space::Sessions { name.strip_suffix(MARK) } else { None };
    SessionKey::of_file_name(stem.unwrap_or(name))?;
    Some(match stem {
        Some(_) => (Place::Archive, format!("{AMONG_LIVE}{name}")),
        None => (Place::Live, name.to_owned()),
    })
}

/// The prefix of names of archived files among the live ones. No name of a file holds a slash.
pub(super) const AMONG_LIVE: &str = "sessions/";

/// Returns the new streams among the files of a directory. `there`: the names of all files in it.
fn new_streams(
    space: Space,
    dir: Place,
    files: Vec<(&str, StreamState)>,
    there: &HashSet<&str>,
) -> Vec<StreamChange> {
    if dir == Place::Live {
        let among = |(name, seen): (&str, StreamState)| {
            let (place, name) = named_among_live(space, name)?;
            Some(StreamChange { place, name, kind: ChangeKind::New(seen) })
        };
        return files.into_iter().filter_map(among).collect();
    }
    // Where packing was interrupted, two files are one session, and the plain one is it.
    let is_double = |stored: &StoredName| {
        stored.form == FileForm::Packed
            && there.contains(StoredName { form: FileForm::Plain, ..stored.clone() }.name().as_str())
    };
    let is_one = |stored: StoredName| stored.key().is_some() && !is_double(&stored);
    let stored = files.into_iter().filter(|(name, _)| StoredName::parse(name).is_some_and(is_one));
    stored
        .map(|(name, seen)| StreamChange { place: dir, name: name.to_owned(), kind: ChangeKind::New(seen) })
        .collect()
}

/// The note of a directory that must be listed again.
const UNSETTLED: [u64; 2] = [0, Cursor::UNSETTLED];

/// A watch on the directories of a space.
#[derive(Debug)]
struct DirWatch {
    disk: Arc<dyn Disk>,
    layout: Arc<Layout>,
    space: Space,
    watch: Box<dyn Watch>,
    /// The directories that are watched; the first is that of the live streams.
    dirs: Vec<PathBuf>,
    /// The identities of the directories when the watch began.
    ids: Vec<FileId>,
}

impl DirWatch {
    /// Returns the streams that changed since this was last called, with what each is now, in the order of the changes.
    /// `None` if anything may have changed.
    fn changed(&mut self) -> Option<Vec<(Place, String, Option<PathInfo>)>> {
        let names = self.watch.changed().ok()??;
        // What is watched may have been moved away with a directory above it, and another put in its place.
        if ids_of(&*self.disk, &self.dirs).as_ref() != Some(&self.ids) {
            return None;
        }
        let live = self.layout.dir(self.space, Place::Live);
        let mut changed = Vec::new();
        for (dir, name) in names {
            let in_live = dir == 0;
            let Some(name) = name.to_str() else { continue };
            let stream =
                named_among_live(self.space, name).filter(|_| in_live && may_be_file_of(self.space, name));
            if let Some((place, called)) = stream {
                let info = match self.disk.inspect(&live.join(name)) {
                    Ok(info) if info.shape == Shape::File && info.links > 1 => return None,
                    Ok(info) if info.shape == Shape::File && info.len > 0 => Some(info),
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return None,
                    _ => None,
                };
                changed.push((place, called, info));
            } else if self.concerns(dir, name) {
                return None;
            }
        }
        Some(changed)
    }

    /// Returns true if a name says that streams came or went elsewhere: in archive or trash, or one of these
    /// directories itself.
    fn concerns(&self, dir: usize, name: &str) -> bool {
        let Some(dir) = self.dirs.get(dir) else { return true };
        let path = dir.join(name);
        let places = self.space.places().iter().map(|place| self.layout.dir(self.space, *place));
        let itself = places.into_iter().any(|place| place == path);
        let live = self.layout.dir(self.space, Place::Live);
        itself || (*dir != self.layout.home && dir != live && StoredName::parse(name).is_some())
    }
}

/// Returns the identities of directories, through whatever links they are reached.
fn ids_of(disk: &dyn Disk, dirs: &[PathBuf]) -> Option<Vec<FileId>> {
    dirs.iter().map(|dir| disk.inspect(&dir.join(".")).ok().map(|info| info.id)).collect()
}
