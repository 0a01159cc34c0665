//! What is there: the sessions of each place, by the names of their files.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use manent_log::fs::{Access, DirEntry, PathInfo, Shape, read_fully};

use super::names::{Form, Kept};
use super::{Files, MARK, right_key};
use crate::backend::{Address, Listed, Place, Which, newest_first};
use crate::error::{Result, io_error};
use crate::key::SessionKey;
use crate::meta::Meta;

impl Files {
    pub(super) fn listed_in(&self, place: Place, which: Which<'_>) -> Result<Vec<Listed>> {
        let mut all = match place {
            Place::Live => return self.live(which),
            place => self.kept(place, which)?,
        };
        if place == Place::Archive {
            all.extend(self.marked(which)?);
            // What an interrupted move left of a session that is live: the live one is the session.
            let mut archived = Vec::with_capacity(all.len());
            for listed in all {
                let live = self.live(Which::Key(&listed.address.key))?;
                let is_live = live.iter().any(|live| live.address.id == listed.address.id);
                if listed.address.id.is_empty() || !is_live || !self.is_in_live(&listed.address)? {
                    archived.push(listed);
                }
            }
            return Ok(archived);
        }
        Ok(all)
    }

    fn live(&self, which: Which<'_>) -> Result<Vec<Listed>> {
        if let Which::Key(key) = which {
            let path = self.find_live(key, "")?;
            let Some(info) = self.file_at(&path)?.filter(was_written) else { return Ok(Vec::new()) };
            let id = match self.meta_at(&path) {
                // Archived or removed between our two looks.
                Err(e) if e.is_not_found() => return Ok(Vec::new()),
                Err(e) if e.is_refusal() => return Err(e),
                told => told.ok().flatten().map(|meta| meta.id).unwrap_or_default(),
            };
            return Ok(vec![listed(Place::Live, key.clone(), id, info)]);
        }
        let mut all = Vec::new();
        let id = if let Which::Id(id) = which { Some(id) } else { None };
        for name in self.session_names()? {
            all.extend(self.live_named(&name, id)?);
        }
        Ok(all)
    }

    /// The live sessions that changed last, by the names of their files: only where a name was shortened is the file
    /// opened.
    pub(super) fn live_by_time(&self, count: usize) -> Result<Vec<Listed>> {
        let dir = &self.layout.sessions;
        let names = self.session_names()?;
        let (names, keys): (Vec<&str>, Vec<SessionKey>) =
            names.iter().filter_map(|name| Some((name.as_str(), SessionKey::of_file_name(name)?))).unzip();
        let infos = match self.disk.look(dir, &names) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            infos => infos.map_err(io_error("list", dir))?,
        };
        let mut all = Vec::with_capacity(names.len());
        for ((name, key), info) in names.iter().zip(keys).zip(infos) {
            // Gone since it was listed, or never written.
            let Some(info) = info.filter(was_written) else { continue };
            if SessionKey::may_be_shortened(name) {
                all.extend(self.live_named(name, None)?);
            } else {
                all.push(listed(Place::Live, key, String::new(), info));
            }
        }
        newest_first(&mut all);
        all.truncate(count);
        Ok(all)
    }

    /// The live session in a file; nothing if it is none, or not one whose id begins with `id`.
    pub(super) fn live_named(&self, name: &str, id: Option<&str>) -> Result<Option<Listed>> {
        let Some(by_name) = SessionKey::of_file_name(name) else { return Ok(None) };
        let path = self.layout.sessions.join(name);
        // Gone since it was listed: another process archived or removed it.
        let Some(info) = self.file_at(&path)?.filter(was_written) else { return Ok(None) };
        let meta = match id {
            None => match self.meta_at(&path) {
                // Archived or removed between our two looks.
                Err(e) if e.is_not_found() => return Ok(None),
                // One that cannot be read hides no other.
                told => told.ok().flatten(),
            },
            Some(_) => self.told_by(&path)?,
        };
        let meta = meta.unwrap_or_default();
        if id.is_some_and(|id| !meta.id.starts_with(id)) {
            return Ok(None);
        }
        let by_header = SessionKey::new(meta.key).ok().filter(|key| *key != by_name);
        Ok(Some(match by_header {
            // A long key is only in the header.
            Some(key) if self.find_live(&key, "")? == path => listed(Place::Live, key, meta.id, info),
            says => Listed { says, ..listed(Place::Live, by_name, meta.id, info) },
        }))
    }

    fn kept(&self, place: Place, which: Which<'_>) -> Result<Vec<Listed>> {
        let mut all: HashMap<Address, Listed> = HashMap::new();
        for kept in self.kept_in(place, which)? {
            let plain = kept.form == Form::Plain;
            let Some(found) = self.kept_named(kept, place)? else { continue };
            if matches!(which, Which::Key(wanted) if *wanted != found.address.key) {
                continue;
            }
            // Packing was interrupted: one session, and the plain file is it.
            if plain || !all.contains_key(&found.address) {
                all.insert(found.address.clone(), found);
            }
        }
        Ok(all.into_values().collect())
    }

    /// Whether the live session of the same key holds all that an archived one does, at the same offsets. Where it does
    /// not, another program restored an older copy of it, and neither file may hide the other. The ends are compared:
    /// each record there carries its number and its checksum.
    fn is_in_live(&self, archived: &Address) -> Result<bool> {
        let path = match self.locate(archived) {
            // Moved since it was listed: it is the live one now.
            Err(e) if e.is_not_found() => return Ok(true),
            spot => spot?.path,
        };
        let live_path = self.find_live(&archived.key, "")?;
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
    pub(super) fn kept_named(&self, kept: Kept, place: Place) -> Result<Option<Listed>> {
        let path = self.layout.dir(place).join(kept.name());
        let Some(info) = self.file_at(&path)? else { return Ok(None) };
        let Some(key) = self.key_of(&kept, place) else { return Ok(None) };
        // What was archived goes to the trash in another form than what was live.
        let was_live = place == Place::Trash && kept.form == Form::Plain;
        let from = if was_live { Place::Live } else { Place::Archive };
        Ok(Some(Listed { from, ..listed(place, key, kept.id, info) }))
    }

    /// What another program archived by renaming.
    fn marked(&self, which: Which<'_>) -> Result<Vec<Listed>> {
        let mut all = Vec::new();
        if matches!(which, Which::Id(_)) {
            return Ok(all);
        }
        for name in self.session_names()? {
            let found = self.marked_named(&name)?;
            all.extend(found.filter(|found| !matches!(which, Which::Key(key) if *key != found.address.key)));
        }
        Ok(all)
    }

    pub(super) fn marked_named(&self, name: &str) -> Result<Option<Listed>> {
        let Some(key) = name.strip_suffix(MARK).and_then(SessionKey::of_file_name) else { return Ok(None) };
        let info = self.file_at(&self.layout.sessions.join(name))?;
        Ok(info.map(|info| listed(Place::Archive, key, String::new(), info)))
    }

    /// What a header says, where the answer decides something: then a disk that does not answer is no header that says
    /// nothing.
    fn told_by(&self, path: &Path) -> Result<Option<Meta>> {
        match self.meta_at(path) {
            Err(e) if e.is_refusal() => Err(e),
            told => Ok(told.ok().flatten()),
        }
    }

    /// Reads the header of a file, and refuses one that names another session.
    pub(super) fn check_key(&self, key: &SessionKey, path: &Path) -> Result<Option<Meta>> {
        right_key(key, path, self.meta_at(path)?)
    }

    /// The names of regular files among the live sessions.
    fn session_names(&self) -> Result<Vec<String>> {
        let files = self.entries(&self.layout.sessions)?.into_iter().filter(|e| e.shape == Shape::File);
        Ok(files.filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// The keys of names that would be those of live sessions, and are not those of regular files.
    pub(super) fn obstructed_keys(&self) -> Result<Vec<SessionKey>> {
        let dir = &self.layout.sessions;
        let mut keys = Vec::new();
        for entry in self.entries(dir)?.into_iter().filter(|entry| entry.shape != Shape::File) {
            let key = entry.name.to_str().and_then(SessionKey::of_file_name);
            // Where the key leads to another file, this one is in nobody's place.
            if let Some(key) = key
                && self.find_live(&key, "")? == dir.join(&entry.name)
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
    pub(super) fn kept_in(&self, place: Place, which: Which<'_>) -> Result<Vec<Kept>> {
        let dir = self.layout.dir(place);
        self.refuse_link(dir)?;
        let entries = self.entries(dir)?;
        let wanted = |kept: &Kept| match which {
            Which::Id(id) => kept.id.starts_with(id),
            Which::All | Which::Key(_) => true,
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
        let meta = self.meta_at(&self.layout.dir(place).join(kept.name())).ok().flatten();
        Some(meta.and_then(|meta| SessionKey::new(meta.key).ok()).unwrap_or(by_name))
    }
}

/// So much of the ends of two files is compared.
const COMPARED_BYTES: u64 = 64 * 1024;

/// What a crash left of a session that was never written is none.
fn was_written(info: &PathInfo) -> bool {
    // What is no file at all has no length, and says what it is when it is read.
    info.len > 0 || info.shape != Shape::File
}

fn listed(place: Place, key: SessionKey, id: String, info: PathInfo) -> Listed {
    let address = Address { place, key, id };
    Listed { address, bytes: info.len, modified_ms: info.modified_ms, from: place, says: None }
}
