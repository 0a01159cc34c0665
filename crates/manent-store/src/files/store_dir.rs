//! The directories of a store: which file a stream is in, and making, checking and syncing directories.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Disk, PathInfo, Settling, Shape};
use manent_log::{FileSystemTrust, LockMode, Log, Options, Reader};

use super::MARK;
use super::hold::DirLock;
use super::names::{Form, Layout};
use super::writers::FileLease;
use crate::error::{Error, Result, io_error};
use crate::header::HeaderNames;
use crate::key::SessionKey;
use crate::streams::{Place, Selector, Space, StreamHeader, StreamId};

/// The disk and the directories of a store. Clones are cheap.
#[derive(Debug, Clone)]
pub(super) struct StoreDir {
    pub(super) disk: Arc<dyn Disk>,
    /// The same disk, on which packed files read as what they hold.
    pub(super) reading: Arc<dyn Disk>,
    pub(super) layout: Arc<Layout>,
    pub(super) trust: FileSystemTrust,
    /// How long the right to move streams is waited for at least.
    pub(super) lock_wait_min: Duration,
}

/// A file that exists.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) path: PathBuf,
    pub(super) form: Form,
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

    /// As [`StoreDir::find_live`], with what is there.
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
    pub(super) fn locate(&self, at: &StreamId) -> Result<Spot> {
        if !self.may_hold(at) {
            return Err(self.not_found(at));
        }
        let mut candidates = Vec::with_capacity(3);
        match (at.place, at.id.as_str()) {
            (Place::Live, id) => {
                let path = self.find_live(at.space, &at.key, "")?;
                // The stream that is meant may have been put away, and another of its key begun.
                if id.is_empty() || self.id_at(&path)? == id {
                    candidates.push((path, Form::Plain));
                }
            }
            (Place::Archive, "") => {
                candidates.push((self.find_live(at.space, &at.key, MARK)?, Form::Marked));
            }
            (place, _) => {
                for kept in self.kept_in(place, Selector::Id(&at.id))? {
                    if kept.id == at.id && self.key_of(&kept, place).as_ref() == Some(&at.key) {
                        candidates.push((self.layout.dir(at.space, place).join(kept.name()), kept.form));
                    }
                }
                // Where both are there, packing was interrupted, and the plain one is whole.
                candidates.sort_by_key(|(_, form)| *form != Form::Plain);
            }
        }
        for (path, form) in candidates {
            match self.disk.inspect(&path) {
                Ok(_) => return Ok(Spot { path, form }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("inspect", &path)(e)),
            }
        }
        Err(self.not_found(at))
    }

    pub(super) fn not_found(&self, at: &StreamId) -> Error {
        Error::not_found(at, &self.name())
    }

    /// Returns what the header of a file names; `None` if it has no header of ours.
    pub(super) fn names_at(&self, path: &Path) -> Result<Option<HeaderNames>> {
        names_of(&Reader::open_small(&self.reading, path)?)
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
    pub(super) fn lock_moves(&self, space: Space, wait: Duration) -> Result<DirLock> {
        // Others hold it for a few renames, so a caller who wants no waiting means writers, not this.
        DirLock::take(&*self.disk, self.moves_dir(space), LockMode::Exclusive, wait.max(self.lock_wait_min))
    }

    /// Returns the directory whose lock is the right to move streams of a space.
    pub(super) fn moves_dir(&self, space: Space) -> &Path {
        if space == Space::Runs { &self.layout.runs } else { &self.layout.sessions }
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
        let exposed = |why: String, hint| Err(Error::Exposed { path: dir.to_owned(), why, hint });
        if info.mode & 0o002 != 0 {
            return exposed("everybody may write there".into(), "take that right away with chmod o-w");
        }
        if !self.disk.is_own(info.owner) {
            let why = format!("it belongs to user {}", info.owner);
            return exposed(why, "run as that user, or choose another directory");
        }
        Ok(())
    }
}

/// Returns what the header of a log names. Of another program's file, which has none, one line is read and no more.
pub(super) fn names_of(reader: &Reader) -> Result<Option<HeaderNames>> {
    Ok(reader.header_line()?.and_then(|line| HeaderNames::of_line(&line)))
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
