//! What is there: the sessions of each place, by the names of their files.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use manent_log::fs::{Access, DirEntry, PathInfo, Shape, read_fully};

use super::MARK;
use super::changes::{AMONG_LIVE, version};
use super::names::{Form, Kept, fixed_files, may_be_file_of};
use super::store_dir::StoreDir;
use crate::error::{Result, io_error};
use crate::header::HeaderNames;
use crate::key::SessionKey;
use crate::streams::{ListDetail, Place, Selector, Space, StreamFilter, StreamId, StreamStat};

impl StoreDir {
    pub(super) fn list(&self, filter: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        let StreamFilter { space, place, which, detail, newest: _ } = *filter;
        let is_other_key = matches!(which, Selector::Key(key) if !space.has_key(key));
        if !self.supports(space) || !space.places().contains(&place) || is_other_key {
            return Ok(Vec::new());
        }
        let all = match (which, detail) {
            (Selector::Name(name), _) => self.named(space, place, name)?.into_iter().collect(),
            (Selector::All, ListDetail::Outside) if place == Place::Live => self.live_outside(space)?,
            (Selector::Key(key), ListDetail::Outside) if place == Place::Live => {
                let (path, info) = self.look_for_live(space, key, "")?;
                let info = info.filter(|info| info.shape == Shape::File && info.len > 0);
                info.map(|info| self.stat(space, place, key.clone(), "", &path, info)).into_iter().collect()
            }
            _ if place == Place::Live => self.live(space, which)?,
            _ => self.put_away(place, which)?,
        };
        Ok(filter.arrange(all))
    }

    /// The stream in a file of this name.
    fn named(&self, space: Space, place: Place, name: &str) -> Result<Option<StreamStat>> {
        match place {
            _ if !may_be_file_of(space, name.strip_prefix(AMONG_LIVE).unwrap_or(name)) => Ok(None),
            Place::Live => self.live_named(space, name, None),
            place => match (name.strip_prefix(AMONG_LIVE), Kept::parse(name)) {
                (Some(name), _) => self.marked_named(name),
                (None, Some(kept)) => self.kept_named(kept, place),
                (None, None) => Ok(None),
            },
        }
    }

    fn stat(
        &self,
        space: Space,
        place: Place,
        key: SessionKey,
        id: impl Into<String>,
        path: &Path,
        info: PathInfo,
    ) -> StreamStat {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        StreamStat {
            id: StreamId { space, place, key, id: id.into() },
            name,
            version: version(&info, self.settling()),
            bytes: info.len,
            modified_ms: info.modified_ms,
            from: place,
            header_key: None,
        }
    }

    /// The streams that are archived or in the trash.
    fn put_away(&self, place: Place, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        let mut all = self.kept(place, which)?;
        if place == Place::Archive {
            all.extend(self.marked(which)?);
            // What an interrupted move left of a session that is live: the live one is the session.
            let mut archived = Vec::with_capacity(all.len());
            for listed in all {
                let live = self.live(Space::Sessions, Selector::Key(&listed.id.key))?;
                let is_live = live.iter().any(|live| live.id.id == listed.id.id);
                if listed.id.id.is_empty() || !is_live || !self.is_in_live(&listed.id)? {
                    archived.push(listed);
                }
            }
            return Ok(archived);
        }
        Ok(all)
    }

    fn live(&self, space: Space, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        if let Selector::Key(key) = which {
            let path = self.find_live(space, key, "")?;
            let Some(info) = self.file_at(&path)?.filter(was_written) else { return Ok(Vec::new()) };
            let id = match self.names_at(&path) {
                // Archived or removed between our two looks.
                Err(e) if e.is_not_found() => return Ok(Vec::new()),
                Err(e) if e.is_refusal() => return Err(e),
                told => told.ok().flatten().map(|names| names.id).unwrap_or_default(),
            };
            return Ok(vec![self.stat(space, Place::Live, key.clone(), id, &path, info)]);
        }
        let mut all = Vec::new();
        let id = if let Selector::Id(id) = which { Some(id) } else { None };
        for name in self.live_names(space)? {
            all.extend(self.live_named(space, &name, id)?);
        }
        Ok(all)
    }

    /// The live streams by the names of their files: only where a name was shortened is the file opened.
    fn live_outside(&self, space: Space) -> Result<Vec<StreamStat>> {
        let dir = self.layout.dir(space, Place::Live);
        let names = self.live_names(space)?;
        let (names, keys): (Vec<&str>, Vec<SessionKey>) =
            names.iter().filter_map(|name| Some((name.as_str(), SessionKey::of_file_name(name)?))).unzip();
        let infos = match self.disk.look(dir, &names) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            infos => infos.map_err(io_error("list", dir))?,
        };
        let settling = self.settling();
        let mut all = Vec::with_capacity(names.len());
        for ((name, key), info) in names.iter().zip(keys).zip(infos) {
            // Gone since it was listed, or never written.
            let Some(info) = info.filter(was_written) else { continue };
            if SessionKey::may_be_shortened(name) {
                all.extend(self.live_named(space, name, None)?);
                continue;
            }
            all.push(StreamStat {
                id: StreamId { space, place: Place::Live, key, id: String::new() },
                name: (*name).to_owned(),
                version: version(&info, settling),
                bytes: info.len,
                modified_ms: info.modified_ms,
                from: Place::Live,
                header_key: None,
            });
        }
        Ok(all)
    }

    /// The live stream in a file; `None` if it is not one, or not one whose id begins with `id`.
    fn live_named(&self, space: Space, name: &str, id: Option<&str>) -> Result<Option<StreamStat>> {
        let Some(by_name) = SessionKey::of_file_name(name) else { return Ok(None) };
        let path = self.layout.dir(space, Place::Live).join(name);
        // Gone since it was listed: another process archived or removed it.
        let Some(info) = self.file_at(&path)?.filter(was_written) else { return Ok(None) };
        let names = match id {
            None => match self.names_at(&path) {
                // Archived or removed between our two looks.
                Err(e) if e.is_not_found() => return Ok(None),
                // One that cannot be read hides no other.
                told => told.ok().flatten(),
            },
            Some(_) => self.told_by(&path)?,
        };
        let HeaderNames { id: own_id, key } = names.unwrap_or_default();
        if id.is_some_and(|id| !own_id.starts_with(id)) {
            return Ok(None);
        }
        let by_header = SessionKey::new(key).ok().filter(|key| *key != by_name);
        Ok(Some(match by_header {
            // A long key is only in the header.
            Some(key) if self.find_live(space, &key, "")? == path => {
                self.stat(space, Place::Live, key, own_id, &path, info)
            }
            header_key => {
                let stat = self.stat(space, Place::Live, by_name, own_id, &path, info);
                StreamStat { header_key, ..stat }
            }
        }))
    }

    fn kept(&self, place: Place, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        let mut all: HashMap<StreamId, StreamStat> = HashMap::new();
        for kept in self.kept_in(place, which)? {
            let plain = kept.form == Form::Plain;
            let Some(found) = self.kept_named(kept, place)? else { continue };
            if matches!(which, Selector::Key(wanted) if *wanted != found.id.key) {
                continue;
            }
            // Packing was interrupted: one session, and the plain file is it.
            if plain || !all.contains_key(&found.id) {
                all.insert(found.id.clone(), found);
            }
        }
        Ok(all.into_values().collect())
    }

    /// Whether the live session of the same key holds all that an archived one does, at the same offsets. Where it does
    /// not, another program restored an older copy of it, and neither file may hide the other. The ends are compared:
    /// each record there carries its number and its checksum.
    fn is_in_live(&self, archived: &StreamId) -> Result<bool> {
        let path = match self.locate(archived) {
            // Moved since it was listed: it is the live one now.
            Err(e) if e.is_not_found() => return Ok(true),
            spot => spot?.path,
        };
        let live_path = self.find_live(Space::Sessions, &archived.key, "")?;
        let compare = || -> io::Result<bool> {
            let old = match self.reading.open(&path, Access::Read) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
                old => old?,
            };
            let live = self.reading.open(&live_path, Access::Read)?;
            let (len, live_len) = (old.state()?.len, live.state()?.len);
            if live_len < len {
                return Ok(false);
            }
            let compared = len.min(COMPARED_BYTES);
            let mut ends = [(); 2].map(|()| vec![0; compared as usize]);
            for (file, end) in [old, live].iter().zip(&mut ends) {
                let read = read_fully(&**file, end, len - compared)?;
                end.truncate(read);
            }
            Ok(ends[0] == ends[1])
        };
        match compare() {
            // The archived one is damaged, and whoever reads it is told; or the live one was moved away.
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) => Ok(false),
            compared => compared.map_err(io_error("read", &path)),
        }
    }

    /// The session in a file of archive or trash.
    pub(super) fn kept_named(&self, kept: Kept, place: Place) -> Result<Option<StreamStat>> {
        let path = self.layout.dir(Space::Sessions, place).join(kept.name());
        let Some(info) = self.file_at(&path)? else { return Ok(None) };
        let Some(key) = self.key_of(&kept, place) else { return Ok(None) };
        // What was archived goes to the trash in another form than what was live.
        let was_live = place == Place::Trash && kept.form == Form::Plain;
        let from = if was_live { Place::Live } else { Place::Archive };
        let stat = self.stat(Space::Sessions, place, key, kept.id, &path, info);
        Ok(Some(StreamStat { from, ..stat }))
    }

    /// What another program archived by renaming.
    fn marked(&self, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        let mut all = Vec::new();
        if matches!(which, Selector::Id(_)) {
            return Ok(all);
        }
        for name in self.live_names(Space::Sessions)? {
            let found = self.marked_named(&name)?;
            all.extend(found.filter(|found| !matches!(which, Selector::Key(key) if *key != found.id.key)));
        }
        Ok(all)
    }

    pub(super) fn marked_named(&self, name: &str) -> Result<Option<StreamStat>> {
        let Some(key) = name.strip_suffix(MARK).and_then(SessionKey::of_file_name) else { return Ok(None) };
        let path = self.layout.sessions.join(name);
        let stat = |info: PathInfo| StreamStat {
            name: format!("{AMONG_LIVE}{name}"),
            ..self.stat(Space::Sessions, Place::Archive, key, "", &path, info)
        };
        Ok(self.file_at(&path)?.map(stat))
    }

    /// What a header says, where the answer decides something: then a disk that does not answer is no header that says
    /// nothing.
    fn told_by(&self, path: &Path) -> Result<Option<HeaderNames>> {
        match self.names_at(path) {
            Err(e) if e.is_refusal() => Err(e),
            told => Ok(told.ok().flatten()),
        }
    }

    /// The names of the regular files in which live streams of a space may be.
    fn live_names(&self, space: Space) -> Result<Vec<String>> {
        if let Some(files) = fixed_files(space) {
            return Ok(files);
        }
        let entries = self.entries(self.layout.dir(space, Place::Live))?;
        let files = entries.into_iter().filter(|entry| entry.shape == Shape::File);
        Ok(files.filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// The keys of names that would be those of live sessions, and are not those of regular files.
    pub(super) fn obstructed_keys(&self, space: Space) -> Result<Vec<SessionKey>> {
        if !matches!(space, Space::Sessions | Space::Runs) {
            return Ok(Vec::new());
        }
        let dir = self.layout.dir(space, Place::Live);
        let mut keys = Vec::new();
        for entry in self.entries(dir)?.into_iter().filter(|entry| entry.shape != Shape::File) {
            let key = entry.name.to_str().and_then(SessionKey::of_file_name);
            // Where the key leads to another file, this one is in nobody's place.
            if let Some(key) = key
                && self.find_live(space, &key, "")? == dir.join(&entry.name)
            {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    /// What is in a directory; nothing if it was not made yet.
    pub(super) fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        match self.disk.list(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(io_error("list", dir)),
        }
    }

    /// Files in archive or trash, by their names.
    pub(super) fn kept_in(&self, place: Place, which: Selector<'_>) -> Result<Vec<Kept>> {
        let dir = self.layout.dir(Space::Sessions, place);
        self.refuse_link(dir)?;
        let entries = self.entries(dir)?;
        let wanted = |kept: &Kept| match which {
            Selector::Id(id) => kept.id.starts_with(id),
            Selector::All | Selector::Key(_) | Selector::Name(_) => true,
        };
        let names = entries.iter().filter(|entry| entry.shape == Shape::File);
        Ok(names.filter_map(|e| Kept::parse(e.name.to_str()?)).filter(wanted).collect())
    }

    /// The key of a file in archive or trash: by its name, or where that was shortened, by its header.
    pub(super) fn key_of(&self, kept: &Kept, place: Place) -> Option<SessionKey> {
        let by_name = kept.key()?;
        if by_name.file_name() == format!("{}{}", kept.stem, Form::Plain.suffix()) || !kept.stem.contains('~')
        {
            return Some(by_name);
        }
        let names = self.names_at(&self.layout.dir(Space::Sessions, place).join(kept.name())).ok().flatten();
        Some(names.and_then(|names| SessionKey::new(names.key).ok()).unwrap_or(by_name))
    }
}

/// So much of the ends of two files is compared.
const COMPARED_BYTES: u64 = 64 * 1024;

/// What a crash left of a session that was never written is none.
fn was_written(info: &PathInfo) -> bool {
    // What is no file at all has no length, and says what it is when it is read.
    info.len > 0 || info.shape != Shape::File
}
