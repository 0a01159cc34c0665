//! The file as it was last read, and what was added since.

use std::path::Path;
use std::sync::Arc;

use manent_log::fs::{Access, Disk, PathInfo};
use manent_log::{Change, End, FileKind, Item, Reader};

use super::active::Active;
use crate::error::{Result, io_error};

/// A file that was read to its end.
#[derive(Debug)]
pub(super) struct Loaded {
    reader: Reader,
    active: Arc<Active>,
    /// What the file looked like from outside when all of it was read; nothing if that cannot be told.
    looked: Option<PathInfo>,
}

impl Loaded {
    /// Reads all of it; nothing if there is no file.
    pub(super) fn read(disk: &Arc<dyn Disk>, path: &Path) -> Result<Option<Loaded>> {
        loop {
            let reader = match Reader::open(disk, path) {
                Err(manent_log::Error::NotFound { .. }) => return Ok(None),
                reader => reader?,
            };
            // Items are read through a handle of their own, for as long as somebody has this state of the file.
            let file = match disk.open(path, Access::Read) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.map_err(io_error("read", path))?,
            };
            if file.id().map_err(io_error("inspect", path))? != reader.file_id() {
                continue;
            }
            let bytes = file.state().map_err(io_error("inspect", path))?.len;
            let active = Arc::new(Active::new(Some(file.into()), bytes));
            let mut loaded = Loaded { reader, active, looked: None };
            loaded.read_on(disk, path)?;
            return Ok(Some(loaded));
        }
    }

    pub(super) fn active(&self) -> Arc<Active> {
        self.active.clone()
    }

    /// Reads what was added. False: the file is another one, or may have changed in place, and must be read anew.
    pub(super) fn catch_up(&mut self, disk: &Arc<dyn Disk>, path: &Path) -> Result<bool> {
        let Ok(now) = disk.inspect(path) else { return Ok(false) };
        if self.looked == Some(now) {
            return Ok(true);
        }
        if now.id != self.reader.file_id() {
            // Compacted since. The old file may have grown before that, and tells nothing of the new one.
            return Ok(false);
        }
        match self.reader.change()? {
            // Ours only grow. Another program may change anything in its file.
            Change::Grew if self.reader.kind() == Some(FileKind::Native) => {
                self.read_on(disk, path)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn read_on(&mut self, disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
        let active = Arc::make_mut(&mut self.active);
        while let Some(item) = self.reader.next()? {
            match item {
                Item::Entry(entry) => active.take(&entry),
                Item::Damage(damage) => active.take_damage(damage),
            }
        }
        active.torn = match self.reader.end() {
            End::Torn(torn) => Some(torn),
            End::Clean => None,
        };
        let whole = |info: &PathInfo| info.id == self.reader.file_id() && info.len == self.reader.read_to();
        self.looked = disk.inspect(path).ok().filter(whole);
        Ok(())
    }
}
