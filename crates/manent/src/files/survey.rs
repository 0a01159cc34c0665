//! The files of a store seen from outside: what the catalogue compares itself with.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use manent_log::fs::{Disk, FileId, FileSystem, PathInfo, Settling, Shape, Watch};

use super::hold::StoreLock;
use super::names::{Form, Kept, Layout};
use super::{Files, MARK};
use crate::backend::{Changes, Listed, Place, Position, Shelf, Sight, Stamp, Survey, Watching};
use crate::error::{Result, io_error};
use crate::key::SessionKey;

impl Files {
    pub(super) fn survey_all(&self, seen: &[(Place, &str)], note: &[u64]) -> Result<Survey> {
        let settling = self.settling_now();
        let before = self.dir_notes(settling)?;
        let survey = self.survey_once(seen, note, settling)?;
        if !may_have_moved(&before, &self.dir_notes(settling)?) {
            return Ok(survey);
        }
        // Places are looked at one after the other: what was moved meanwhile may have been seen nowhere. Nobody of ours
        // moves anything as long as we have the lock; without it, two looks must do.
        let _still = StoreLock::take_soon(self);
        self.survey_once(seen, note, settling)
    }

    pub(super) fn settling_now(&self) -> Settling {
        Settling::begin(&*self.disk, &self.layout.sessions)
    }

    /// The notes of the directories of all places.
    fn dir_notes(&self, settling: Settling) -> Result<[[u64; 2]; Place::ALL.len()]> {
        let mut notes = [UNSETTLED; Place::ALL.len()];
        for (note, place) in notes.iter_mut().zip(Place::ALL) {
            *note = self.dir_note(self.layout.dir(place), settling)?;
        }
        Ok(notes)
    }

    fn survey_once(&self, seen: &[(Place, &str)], note: &[u64], settling: Settling) -> Result<Survey> {
        let mut survey = Survey { stamps: vec![None; seen.len()], ..Survey::default() };
        for (number, place) in Place::ALL.into_iter().enumerate() {
            let dir = self.layout.dir(place);
            self.refuse_link_unless(place == Place::Live, dir)?;
            // Looked at first: what is made after this look changes it.
            let now = self.dir_note(dir, settling)?;
            let quiet = note.get(number * 2..number * 2 + 2) == Some(&now) && now != UNSETTLED;
            let known = seen.iter().filter(|seen| is_in(**seen, place)).count();
            let mut names = Vec::with_capacity(known);
            names.extend(seen.iter().filter(|seen| is_in(**seen, place)).map(|seen| file_name(seen.1)));
            let listed = if quiet { Vec::new() } else { self.names_in(dir)? };
            if !listed.is_empty() {
                let others: HashSet<&str> = names.iter().copied().collect();
                names.extend(listed.iter().map(String::as_str).filter(|name| !others.contains(name)));
            }
            let infos = match self.disk.look(dir, &names) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => vec![None; names.len()],
                looked => looked.map_err(io_error("list", dir))?,
            };
            let written = |info: &Option<PathInfo>| {
                info.as_ref().filter(|info| info.shape == Shape::File && info.len > 0).map(stamp)
            };
            if infos.iter().flatten().any(|info| info.links > 1 && info.shape == Shape::File) {
                self.has_linked.store(true, Ordering::Relaxed);
            }
            let here = seen.iter().zip(&mut survey.stamps).filter(|(seen, _)| is_in(**seen, place));
            for ((_, stamp), info) in here.zip(&infos) {
                *stamp = written(info);
            }
            let others = names[known..].iter().zip(&infos[known..]);
            let others: Vec<_> = others.filter_map(|(name, info)| Some((*name, written(info)?))).collect();
            if !others.is_empty() {
                let there = names.iter().zip(&infos).filter(|(_, info)| info.is_some());
                survey.others.extend(sights(place, others, &there.map(|(name, _)| *name).collect()));
            }
            // What is empty is no session yet, and nothing but its length will tell when it is.
            let mut all = names.iter().zip(&infos);
            let empty =
                all.any(|(name, info)| info.is_some_and(|info| info.len == 0) && is_session(place, name));
            survey.note.extend(if empty { UNSETTLED } else { now });
        }
        Ok(survey)
    }

    /// Two numbers that are others as soon as a name is made, renamed or removed in a directory; [`UNSETTLED`] if it
    /// may change again without that.
    fn dir_note(&self, dir: &Path, settling: Settling) -> Result<[u64; 2]> {
        let Some(info) = self.file_at(dir)? else { return Ok([0, 0]) };
        // The time of a link says nothing of the directory behind it.
        let is_known = info.shape == Shape::Directory && settling.is_settled(info.changed_ns);
        Ok(if is_known { [info.id.inode, info.changed_ns.cast_unsigned()] } else { UNSETTLED })
    }

    fn refuse_link_unless(&self, may_be: bool, dir: &Path) -> Result<()> {
        if may_be { Ok(()) } else { self.refuse_link(dir) }
    }

    /// The names of regular files.
    fn names_in(&self, dir: &Path) -> Result<Vec<String>> {
        let files = self.entries(dir)?.into_iter().filter(|entry| entry.shape == Shape::File);
        Ok(files.filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    pub(super) fn identify_seen(&self, sight: &Sight) -> Result<Option<Listed>> {
        match sight.place {
            Place::Live => self.live_named(&sight.name, None),
            place => match (sight.name.strip_prefix(AMONG_LIVE), Kept::parse(&sight.name)) {
                (Some(name), _) => self.marked_named(name),
                (None, Some(kept)) => self.kept_named(kept, place),
                (None, None) => Ok(None),
            },
        }
    }

    pub(super) fn live_sight(&self, key: &SessionKey) -> Result<Option<Sight>> {
        let path = self.find_live(key, "")?;
        let info = self.file_at(&path)?.filter(|info| info.shape == Shape::File && info.len > 0);
        let name = path.file_name().and_then(|name| name.to_str());
        let sight = |(info, name): (PathInfo, &str)| Sight {
            place: Place::Live,
            name: name.to_owned(),
            stamp: stamp(&info),
        };
        Ok(info.zip(name).map(sight))
    }

    pub(super) fn line_of(&self, place: Place, name: &str, position: Position) -> Result<Option<Vec<u8>>> {
        let path = match name.strip_prefix(AMONG_LIVE) {
            Some(name) => self.layout.sessions.join(name),
            None => self.layout.dir(place).join(name),
        };
        match manent_log::line_at(&self.reading, &path, position.raw()) {
            Err(manent_log::Error::NotFound { .. }) => Ok(None),
            read => Ok(read?),
        }
    }

    /// A flat store is a directory of other programs: nothing of ours but sessions belongs there.
    pub(super) fn own_shelf(&self) -> Option<Shelf> {
        let own = self.layout.sessions != self.layout.home;
        let home = &self.layout.home;
        own.then(|| Shelf { disk: self.disk.clone(), dir: home.join("index"), within: Some(home.clone()) })
    }
}

/// Whether a stream may have gone from one place to another between two looks at their directories: it changes both.
fn may_have_moved(before: &[[u64; 2]], after: &[[u64; 2]]) -> bool {
    let changed = before.iter().zip(after).filter(|(before, after)| before != after || **after == UNSETTLED);
    changed.count() > 1
}

/// Whether a stream that was seen lies in the directory of a place.
fn is_in((place, name): (Place, &str), dir: Place) -> bool {
    if name.starts_with(AMONG_LIVE) { dir == Place::Live } else { place == dir }
}

/// The name of the file of a stream that was seen.
fn file_name(name: &str) -> &str {
    name.strip_prefix(AMONG_LIVE).unwrap_or(name)
}

/// Whether a file of this name is one of a session.
fn is_session(dir: Place, name: &str) -> bool {
    if dir == Place::Live { named_among_live(name).is_some() } else { Kept::parse(name).is_some() }
}

/// A file in the directory of the live sessions, by its name: where it counts as being, and what it is called there.
/// One that another program archived by renaming is not in the archive's directory, where the same name may be.
fn named_among_live(name: &str) -> Option<(Place, String)> {
    let stem = name.strip_suffix(MARK);
    SessionKey::of_file_name(stem.unwrap_or(name))?;
    Some(match stem {
        Some(_) => (Place::Archive, format!("{AMONG_LIVE}{name}")),
        None => (Place::Live, name.to_owned()),
    })
}

/// No name of a file holds a slash.
const AMONG_LIVE: &str = "sessions/";

/// What is a stream among the files of a directory. `there`: the names of all files in it.
fn sights(dir: Place, files: Vec<(&str, Stamp)>, there: &HashSet<&str>) -> Vec<Sight> {
    if dir == Place::Live {
        let among = |(name, stamp): (&str, Stamp)| {
            named_among_live(name).map(|(place, name)| Sight { place, name, stamp })
        };
        return files.into_iter().filter_map(among).collect();
    }
    // Where packing was interrupted, two files are one session, and the plain one is it.
    let is_double = |kept: &Kept| {
        kept.form == Form::Packed
            && there.contains(Kept { form: Form::Plain, ..kept.clone() }.name().as_str())
    };
    let is_one = |kept: Kept| kept.key().is_some() && !is_double(&kept);
    let kept = files.into_iter().filter(|(name, _)| Kept::parse(name).is_some_and(is_one));
    kept.map(|(name, stamp)| Sight { place: dir, name: name.to_owned(), stamp }).collect()
}

/// The note of a directory that must be listed again.
const UNSETTLED: [u64; 2] = [0, Survey::UNSETTLED];

/// Hears of changes in the directories of a store.
#[derive(Debug)]
struct FilesWatched {
    disk: Arc<dyn Disk>,
    layout: Layout,
    watch: Box<dyn Watch>,
    /// The directories that are watched; the first is that of the live sessions.
    dirs: Vec<PathBuf>,
    /// What they were when that began.
    ids: Vec<FileId>,
}

impl Files {
    /// Only on disks of this machine: what another one writes to a disk that both share is not told.
    pub(super) fn watch_all(&self) -> Option<Box<dyn Watching>> {
        let is_local = self.disk.file_system(&self.layout.sessions).ok()? == FileSystem::Local;
        if !is_local || self.has_linked.load(Ordering::Relaxed) {
            return None;
        }
        let Layout { home, sessions, archive, trash } = self.layout.clone();
        let there = [home, archive, trash].into_iter().filter(|dir| *dir != sessions);
        let there = there.filter(|dir| self.disk.inspect(dir).is_ok());
        let dirs: Vec<PathBuf> = std::iter::once(sessions.clone()).chain(there).collect();
        let paths: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        let ids = ids_of(&*self.disk, &dirs)?;
        let watch = self.disk.watch(&paths).ok().flatten()?;
        let (disk, layout) = (self.disk.clone(), self.layout.clone());
        Some(Box::new(FilesWatched { disk, layout, watch, dirs, ids }))
    }
}

impl Watching for FilesWatched {
    fn changes(&mut self) -> Changes {
        let Ok(Some(names)) = self.watch.changed() else { return Changes::Unknown };
        // What is watched may have been moved away with a directory above it, and another put in its place.
        if ids_of(&*self.disk, &self.dirs).as_ref() != Some(&self.ids) {
            return Changes::Unknown;
        }
        let mut changed = Vec::new();
        for (dir, name) in names {
            let in_sessions = dir == 0;
            let Some(name) = name.to_str() else { continue };
            let session = named_among_live(name).filter(|_| in_sessions);
            if let Some((place, called)) = session {
                let stamp = match self.disk.inspect(&self.layout.sessions.join(name)) {
                    Ok(info) if info.shape == Shape::File && info.links > 1 => return Changes::Unknown,
                    Ok(info) if info.shape == Shape::File && info.len > 0 => Some(stamp(&info)),
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Changes::Unknown,
                    _ => None,
                };
                changed.push((place, called, stamp));
            } else if self.concerns(dir, name) {
                return Changes::Unknown;
            }
        }
        Changes::These(changed)
    }
}

impl FilesWatched {
    /// Whether a name says that sessions came or went elsewhere: in archive or trash, or one of these directories
    /// itself.
    fn concerns(&self, dir: usize, name: &str) -> bool {
        let Some(dir) = self.dirs.get(dir) else { return true };
        let path = dir.join(name);
        let itself = [&self.layout.sessions, &self.layout.archive, &self.layout.trash].contains(&&path);
        itself || (*dir != self.layout.home && *dir != self.layout.sessions && Kept::parse(name).is_some())
    }
}

/// What some directories are, through whatever links they are reached.
fn ids_of(disk: &dyn Disk, dirs: &[PathBuf]) -> Option<Vec<FileId>> {
    dirs.iter().map(|dir| disk.inspect(&dir.join(".")).ok().map(|info| info.id)).collect()
}

fn stamp(info: &PathInfo) -> Stamp {
    Stamp { file: (info.id.device, info.id.inode), bytes: info.len, changed_ns: info.changed_ns }
}
