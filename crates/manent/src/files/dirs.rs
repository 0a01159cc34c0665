//! The directories of a store: made, checked, and made durable.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

use manent_log::fs::Shape;

use super::Files;
use crate::backend::Place;
use crate::error::{Error, Result, io_error};

impl Files {
    /// Makes the directories, refuses to write where others could, and makes the directories' names durable: whoever
    /// made them may have died before that.
    pub(super) fn prepare(&self) -> Result<()> {
        if self.prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.make_dir(&self.layout.sessions)?;
        for dir in [&self.layout.home, &self.layout.sessions] {
            let above = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match self.disk.sync_dir(above) {
                // A directory that we may not read is not ours to sync; nor did we make anything in it.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced.map_err(io_error("sync the directory", above))?,
            }
        }
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes a directory of the store, unless others could put or change files there.
    pub(super) fn make_dir(&self, dir: &Path) -> Result<()> {
        self.refuse_exposed(&self.layout.home)?;
        if *dir != self.layout.sessions {
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

    /// Makes all names of the store durable, wherever there are any.
    pub(super) fn sync_places(&self) -> Result<()> {
        for place in Place::ALL {
            match self.sync_dir(self.layout.dir(place)) {
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
            return exposed(why, "run as that user, or choose another --home");
        }
        Ok(())
    }
}
