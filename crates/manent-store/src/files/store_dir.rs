//! The directories of a store: which file a stream is in; making, checking and syncing directories; listing the streams
//! of each place by the names of their files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Access, DirEntry, Disk, DiskFile, PathInfo, Settling, Shape, read_fully};
use manent_log::{FileLock, FileSystemTrust, LockMode, Log, Options, Reader};

use super::MARK;
use super::changes::{AMONG_LIVE, version};
use super::locks::lock_dir;
use super::names::{FileForm, Layout, StoredName, fixed_files, is_packed, may_be_file_of};
use super::writer::FileLease;
use crate::error::{Error, Exposure, Result, io_error};
use crate::header::HeaderNames;
use crate::key::SessionKey;
use crate::pack;
use crate::streams::{Place, Selector, Space, StreamHeader, StreamId, StreamStat};

/// The disk and the directories of a store. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct StoreDir {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) layout: Arc<Layout>,
    pub(super) trust: FileSystemTrust,
    /// The least time that the right to move streams is waited for.
    pub(super) lock_wait_min: Duration,
}

/// A file that exists.
#[derive(Debug, Clone)]
pub(super) struct StreamFile {
    pub(super) path: PathBuf,
    pub(super) form: FileForm,
}

impl StoreDir {
    pub(super) fn name(&self) -> String {
        self.layout.home.display().to_string()
    }

    /// Returns whether streams of this space can be kept here.
    pub(super) fn supports(&self, space: Space) -> bool {
        space == Space::Sessions || !self.layout.is_flat()
    }

    /// Returns whether there can be such a stream here.
    pub(super) fn may_hold(&self, at: &StreamId) -> bool {
        self.supports(at.space) && at.space.has_key(&at.key) && at.space.places().contains(&at.place)
    }

    /// Returns the path of a live stream, whether it exists or not; an error where the disk does not say what is there.
    /// To guess would begin a second stream of the key beside the first.
    pub(super) fn find_live(&self, space: Space, key: &SessionKey, mark: &str) -> Result<PathBuf> {
        Ok(self.look_for_live(space, key, mark)?.0)
    }

    /// Does what [`StoreDir::find_live`] does, and returns the metadata of the file, if there is one, too.
    pub(super) fn look_for_live(
        &self,
        space: Space,
        key: &SessionKey,
        mark: &str,
    ) -> Result<(PathBuf, Option<PathInfo>)> {
        let dir = self.layout.dir(space, Place::Live);
        let named = |name: String| dir.join(name + mark);
        let canonical = named(key.file_name());
        let found = self.file_at(&canonical)?;
        if found.is_some_and(|info| info.len > 0) {
            return Ok((canonical, found));
        }
        // Another program may have used the key as the file's name, as it is.
        let plain = key.plain_file_name().filter(|name| SessionKey::of_file_name(name).as_ref() == Some(key));
        let plain = plain.map(named).filter(|path| *path != canonical);
        if let Some(plain) = plain
            && let Some(info) = self.file_at(&plain)?
        {
            return Ok((plain, Some(info)));
        }
        Ok((canonical, found))
    }

    /// Returns the file of a stream.
    pub(super) fn locate(&self, at: &StreamId) -> Result<StreamFile> {
        if !self.may_hold(at) {
            return Err(self.not_found(at));
        }
        let mut candidates = Vec::with_capacity(3);
        match (at.place, at.id.as_str()) {
            (Place::Live, id) => {
                let path = self.find_live(at.space, &at.key, "")?;
                // The stream that is meant may have been put away, and another of its key begun.
                if id.is_empty() || self.id_at(&path)? == id {
                    candidates.push((path, FileForm::Plain));
                }
            }
            (Place::Archive, "") => {
                candidates.push((self.find_live(at.space, &at.key, MARK)?, FileForm::Marked));
            }
            (place, _) => {
                for stored in self.stored_in(place, Selector::Id(&at.id))? {
                    if stored.id == at.id && self.key_of(&stored, place).as_ref() == Some(&at.key) {
                        candidates.push((self.layout.dir(at.space, place).join(stored.name()), stored.form));
                    }
                }
                // Where both are there, packing was interrupted, and the plain one is whole.
                candidates.sort_by_key(|(_, form)| *form != FileForm::Plain);
            }
        }
        for (path, form) in candidates {
            if self.file_at(&path)?.is_some() {
                return Ok(StreamFile { path, form });
            }
        }
        Err(self.not_found(at))
    }

    pub(super) fn not_found(&self, at: &StreamId) -> Error {
        Error::not_found(at, &self.name())
    }

    /// Opens a reader of a file. A packed one reads as what it holds.
    pub(super) fn reader(&self, path: &Path) -> Result<Reader> {
        Ok(Reader::open_with(&self.disk, path, |file| unpacked(path, file))?)
    }

    /// Opens a file for reading. A packed one reads as what it holds.
    pub(super) fn open_unpacked(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        unpacked(path, self.disk.open(path, Access::Read)?)
    }

    /// Returns what the header of a file names; `None` if it has no header of ours. Of another program's file one line
    /// is read and no more.
    pub(super) fn names_at(&self, path: &Path) -> Result<Option<HeaderNames>> {
        Ok(self.reader(path)?.header_line()?.and_then(|line| HeaderNames::of_line(&line)))
    }

    /// Returns the id in the header of a file; empty if there is none.
    pub(super) fn id_at(&self, path: &Path) -> Result<String> {
        match self.names_at(path) {
            Ok(names) => Ok(names.map(|names| names.id).unwrap_or_default()),
            Err(e) if e.is_not_found() => Ok(String::new()),
            Err(e) => Err(e),
        }
    }

    /// Reads the header of a file, and refuses one that names another stream.
    pub(super) fn check_key(&self, key: &SessionKey, path: &Path) -> Result<Option<HeaderNames>> {
        right_key(key, path, self.names_at(path)?)
    }

    /// Takes the lease of the live file of a key.
    pub(super) fn open_log(
        &self,
        space: Space,
        key: &SessionKey,
        new: Option<StreamHeader>,
        wait: Duration,
    ) -> Result<FileLease> {
        let (id, header) = new.map_or((String::new(), None), |header| (header.id, Some(header.body)));
        let options = Options { header, wait, trust: self.trust, ..Options::default() };
        let (log, path) = loop {
            let path = self.find_live(space, key, "")?;
            let log = match Log::open(&self.disk, &path, &options) {
                Err(manent_log::Error::NotFound { .. }) if options.header.is_none() => {
                    return Err(self.not_found(&StreamId::live_in(space, key)));
                }
                opened => opened?,
            };
            // While we waited, another program's session of this key may have come back under its own name.
            if !log.is_new() || self.find_live(space, key, "")? == path {
                break (log, path);
            }
        };
        // Of the file that is held, and without opening it again: what the path leads to is another question.
        let names = log.header_line().and_then(|entry| HeaderNames::of_entry(&entry));
        let id = match right_key(key, &path, names)? {
            Some(names) => names.id,
            None if log.is_new() => id,
            None => String::new(),
        };
        Ok(FileLease { log, id: id.into() })
    }

    pub(super) fn file_at(&self, path: &Path) -> Result<Option<PathInfo>> {
        match self.disk.inspect(path) {
            Ok(info) => Ok(Some(info)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error("inspect", path)(e)),
        }
    }

    pub(super) fn settling(&self) -> Settling {
        Settling::begin(&*self.disk, &self.layout.sessions)
    }

    /// Takes the right to move streams of a space.
    pub(super) fn lock_moves(&self, space: Space, mode: LockMode, wait: Duration) -> Result<FileLock> {
        let dir = if space == Space::Runs { &self.layout.runs } else { &self.layout.sessions };
        // Others hold it for a few renames, so a caller who wants no waiting means writers, not this.
        lock_dir(&*self.disk, dir, mode, wait.max(self.lock_wait_min))
    }

    /// Makes a directory of the store, unless others could put or change files there.
    pub(super) fn make_dir(&self, dir: &Path) -> Result<()> {
        self.refuse_exposed(&self.layout.home)?;
        if *dir != self.layout.sessions && *dir != self.layout.runs {
            self.refuse_link(dir)?;
        }
        self.disk.create_dir_all(dir).map_err(io_error("create", dir))?;
        self.refuse_exposed(&self.layout.home)?;
        self.refuse_exposed(dir)
    }

    /// Makes the archive or the trash, and its name durable, whoever made it: what is moved into a directory is lost
    /// with it.
    pub(super) fn make_durable_dir(&self, dir: &Path) -> Result<()> {
        self.make_dir(dir)?;
        self.sync_dir(&self.layout.home)
    }

    /// Refuses archive and trash that are links: what is put away stays in the store.
    pub(super) fn refuse_link(&self, dir: &Path) -> Result<()> {
        if self.file_at(dir)?.is_some_and(|info| info.shape == Shape::Link) {
            let why = "it is a symbolic link, which is not followed here; put a directory in its place";
            return Err(io_error("use", dir)(io::Error::other(why)));
        }
        Ok(())
    }

    /// Makes the names in a directory of the store durable.
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir).map_err(io_error("sync the directory", dir))
    }

    /// Makes all names of a space durable, in every place.
    pub(super) fn sync_places(&self, space: Space) -> Result<()> {
        for place in space.places() {
            match self.sync_dir(self.layout.dir(space, *place)) {
                Err(e) if e.is_not_found() => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Refuses a directory in which others could put or change files. One that does not exist yet is fine.
    pub(super) fn refuse_exposed(&self, dir: &Path) -> Result<()> {
        let real = match self.disk.resolve(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            resolved => resolved.map_err(io_error("open", dir))?,
        };
        let info = self.disk.inspect(&real).map_err(io_error("inspect", dir))?;
        let exposed = |why| Err(Error::Exposed { path: dir.to_owned(), why });
        if info.mode & 0o002 != 0 {
            return exposed(Exposure::Everybody);
        }
        if !self.disk.is_own(info.owner) {
            return exposed(Exposure::OwnedBy(info.owner));
        }
        Ok(())
    }
}

/// Reads a packed file as what it holds, and any other as it is.
fn unpacked(path: &Path, file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
    if is_packed(path) { pack::open(file) } else { Ok(file) }
}

/// Refuses a file whose header names another stream.
pub(super) fn right_key(
    key: &SessionKey,
    path: &Path,
    names: Option<HeaderNames>,
) -> Result<Option<HeaderNames>> {
    match names {
        Some(names) if names.key != key.as_str() && !names.key.is_empty() => {
            Err(Error::WrongKey { path: path.to_owned(), key: key.to_string(), found: names.key })
        }
        other => Ok(other),
    }
}

/// Listing.
impl StoreDir {
    /// The stream in a file of this name.
    pub(super) fn named(&self, space: Space, place: Place, name: &str) -> Result<Option<StreamStat>> {
        match place {
            _ if !may_be_file_of(space, name.strip_prefix(AMONG_LIVE).unwrap_or(name)) => Ok(None),
            Place::Live => self.live_named(space, name, None),
            place => match (name.strip_prefix(AMONG_LIVE), StoredName::parse(name)) {
                (Some(name), _) => self.marked_named(name),
                (None, Some(stored)) => self.stored_named(stored, place),
                (None, None) => Ok(None),
            },
        }
    }

    /// The streams that are archived or in the trash.
    pub(super) fn put_away(&self, place: Place, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        let mut all = self.stored(place, which)?;
        if place != Place::Archive {
            return Ok(all);
        }
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
        Ok(archived)
    }

    pub(super) fn live(&self, space: Space, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        if let Selector::Key(key) = which {
            let path = self.find_live(space, key, "")?;
            let Some(info) = self.file_at(&path)?.filter(was_written) else { return Ok(Vec::new()) };
            let id = match self.names_at(&path) {
                // Archived or removed between our two looks.
                Err(e) if e.is_not_found() => return Ok(Vec::new()),
                Err(e) if e.is_refusal() => return Err(e),
                names => names.ok().flatten().map(|names| names.id).unwrap_or_default(),
            };
            let id = StreamId { id, ..StreamId::live_in(space, key) };
            return Ok(vec![stat(id, &path, info, self.settling())]);
        }
        let mut all = Vec::new();
        let id = if let Selector::Id(id) = which { Some(id) } else { None };
        for name in self.file_names(space, Place::Live)? {
            all.extend(self.live_named(space, &name, id)?);
        }
        Ok(all)
    }

    /// The live streams by the names of their files: only where a name was shortened is the file opened.
    pub(super) fn live_outside(&self, space: Space) -> Result<Vec<StreamStat>> {
        let dir = self.layout.dir(space, Place::Live);
        let names = self.file_names(space, Place::Live)?;
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
            all.push(stat(StreamId::live_in(space, &key), Path::new(name), info, settling));
        }
        Ok(all)
    }

    /// The live stream in a file; `None` if it is not one, or not one whose id begins with `id`.
    fn live_named(&self, space: Space, name: &str, id: Option<&str>) -> Result<Option<StreamStat>> {
        let Some(by_name) = SessionKey::of_file_name(name) else { return Ok(None) };
        let path = self.layout.dir(space, Place::Live).join(name);
        // Gone since it was listed: another process archived or removed it.
        let Some(info) = self.file_at(&path)?.filter(was_written) else { return Ok(None) };
        let names = match self.names_at(&path) {
            // Archived or removed between our two looks.
            Err(e) if e.is_not_found() => return Ok(None),
            // Where the id decides, a disk that does not answer is not a header that says nothing.
            Err(e) if id.is_some() && e.is_refusal() => return Err(e),
            // One that cannot be read hides no other.
            names => names.ok().flatten(),
        };
        let HeaderNames { id: own_id, key } = names.unwrap_or_default();
        if id.is_some_and(|id| !own_id.starts_with(id)) {
            return Ok(None);
        }
        let by_header = SessionKey::new(key).ok().filter(|key| *key != by_name);
        Ok(Some(match by_header {
            // A long key is only in the header.
            Some(key) if self.find_live(space, &key, "")? == path => {
                stat(StreamId { id: own_id, ..StreamId::live_in(space, &key) }, &path, info, self.settling())
            }
            header_key => {
                let id = StreamId { id: own_id, ..StreamId::live_in(space, &by_name) };
                StreamStat { header_key, ..stat(id, &path, info, self.settling()) }
            }
        }))
    }

    fn stored(&self, place: Place, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        let mut all: HashMap<StreamId, StreamStat> = HashMap::new();
        for stored in self.stored_in(place, which)? {
            let plain = stored.form == FileForm::Plain;
            let Some(found) = self.stored_named(stored, place)? else { continue };
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

    /// Returns true if the live session of the same key holds all that an archived one does, at the same offsets. Where
    /// it does not, another program restored an older copy of it, and neither file may hide the other. The ends are
    /// compared: each record there carries its number and its checksum.
    fn is_in_live(&self, archived: &StreamId) -> Result<bool> {
        let path = match self.locate(archived) {
            // Moved since it was listed: it is the live one now.
            Err(e) if e.is_not_found() => return Ok(true),
            file => file?.path,
        };
        let live_path = self.find_live(Space::Sessions, &archived.key, "")?;
        let compare = || -> io::Result<bool> {
            let old = match self.open_unpacked(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
                old => old?,
            };
            let live = self.open_unpacked(&live_path)?;
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
    pub(super) fn stored_named(&self, stored: StoredName, place: Place) -> Result<Option<StreamStat>> {
        let path = self.layout.dir(Space::Sessions, place).join(stored.name());
        let Some(info) = self.file_at(&path)? else { return Ok(None) };
        let Some(key) = self.key_of(&stored, place) else { return Ok(None) };
        // What was archived goes to the trash in another form than what was live.
        let was_live = place == Place::Trash && stored.form == FileForm::Plain;
        let from = if was_live { Place::Live } else { Place::Archive };
        let id = StreamId::session(place, &key, stored.id);
        Ok(Some(StreamStat { from, ..stat(id, &path, info, self.settling()) }))
    }

    /// Returns the sessions that another program archived by renaming.
    fn marked(&self, which: Selector<'_>) -> Result<Vec<StreamStat>> {
        let mut all = Vec::new();
        if matches!(which, Selector::Id(_)) {
            return Ok(all);
        }
        for name in self.file_names(Space::Sessions, Place::Live)? {
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
            ..stat(StreamId::session(Place::Archive, &key, ""), &path, info, self.settling())
        };
        Ok(self.file_at(&path)?.map(stat))
    }

    /// Returns the names of the regular files in which streams of a space and place may be.
    pub(super) fn file_names(&self, space: Space, place: Place) -> Result<Vec<String>> {
        if let Some(files) = fixed_files(space) {
            return Ok(files);
        }
        let entries = self.entries(self.layout.dir(space, place))?;
        let files = entries.into_iter().filter(|entry| entry.shape == Shape::File);
        Ok(files.filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// Returns the entries of a directory; none if it was not made yet.
    pub(super) fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        match self.disk.list(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(io_error("list", dir)),
        }
    }

    /// Files in archive or trash, by their names.
    pub(super) fn stored_in(&self, place: Place, which: Selector<'_>) -> Result<Vec<StoredName>> {
        let dir = self.layout.dir(Space::Sessions, place);
        self.refuse_link(dir)?;
        let entries = self.entries(dir)?;
        let wanted = |stored: &StoredName| match which {
            Selector::Id(id) => stored.id.starts_with(id),
            Selector::All | Selector::Key(_) | Selector::Name(_) => true,
        };
        let names = entries.iter().filter(|entry| entry.shape == Shape::File);
        Ok(names.filter_map(|e| StoredName::parse(e.name.to_str()?)).filter(wanted).collect())
    }

    /// The key of a file in archive or trash: by its name, or where that was shortened, by its header.
    pub(super) fn key_of(&self, stored: &StoredName, place: Place) -> Option<SessionKey> {
        let by_name = stored.key()?;
        if by_name.file_name() == format!("{}{}", stored.stem, FileForm::Plain.suffix())
            || !stored.stem.contains('~')
        {
            return Some(by_name);
        }
        let names =
            self.names_at(&self.layout.dir(Space::Sessions, place).join(stored.name())).ok().flatten();
        Some(names.and_then(|names| SessionKey::new(names.key).ok()).unwrap_or(by_name))
    }
}

/// Returns the entry of a file in a list. `settling` is of before the file was looked at.
pub(super) fn stat(id: StreamId, path: &Path, info: PathInfo, settling: Settling) -> StreamStat {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (version, from) = (version(&info, settling), id.place);
    StreamStat { id, name, version, bytes: info.len, modified_ms: info.modified_ms, from, header_key: None }
}

/// So much of the ends of two files is compared.
const COMPARED_BYTES: u64 = 64 * 1024;

/// Returns false for the empty file that a crash leaves of a session that was never written.
fn was_written(info: &PathInfo) -> bool {
    // What is no file at all has no length, and says what it is when it is read.
    info.len > 0 || info.shape != Shape::File
}
