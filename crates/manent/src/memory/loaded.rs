//! The file as it was last read, and what was added since.

use std::path::Path;
use std::sync::Arc;

use manent_log::fs::{Access, Disk, PathInfo, Settling};
use manent_log::{Change, End, FileKind, Item, Reader};

use super::active::Active;
use crate::error::{Result, io_error};

/// A file that was read to its end.
#[derive(Debug)]
pub(super) struct Loaded {
    reader: Reader,
    active: Arc<Active>,
    /// What the file looked like from outside before all of it was read; nothing if it grew meanwhile.
    looked: Option<PathInfo>,
    /// Whether every change since then shows in that.
    settled: bool,
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
            let mut loaded = Loaded { reader, active, looked: None, settled: false };
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
        let is_native = self.reader.kind() == Some(FileKind::Native);
        // Ours only grow: one of the same length is the same. Another program may change a byte within a tick of the
        // clock.
        if self.looked == Some(now) && (self.settled || is_native) {
            return Ok(true);
        }
        if now.id != self.reader.file_id() {
            // Compacted since. The old file may have grown before that, and tells nothing of the new one.
            return Ok(false);
        }
        match self.reader.change()? {
            // Ours only grow. Another program may change anything in its file.
            Change::Grew if is_native => {
                self.read_on(disk, path)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn read_on(&mut self, disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
        let settling = Settling::begin(&**disk, path);
        let before = disk.inspect(path).ok();
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
        self.looked = before.filter(whole);
        self.settled = self.looked.is_some_and(|info| settling.is_settled(info.changed_ns));
        Ok(())
    }
}
