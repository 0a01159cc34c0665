//! The report that is kept: the latest one, as a page and as JSON, in `retro/` in the home of the store.
//!
//! When it was made and what it saw stands in the JSON, and nowhere else: so all processes have one schedule, which
//! outlives them. Each file is written whole or not at all. Whoever makes a report holds a lock on the directory;
//! whoever puts it in its place, or removes runs, holds the right to move sessions, so that no report comes back that
//! shows what was purged meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent_log::fs::{Shape, read_whole};
use manent_log::{AtomicFile, Disk};
use serde::Deserialize;
use serde_json::json;

use super::narrative::Narrative;
use super::report::{Report, time};
use crate::backend::{Backend, Exclusive, Listed, Room};
use crate::clock;
use crate::error::{Error, Result, io_error};
use crate::files::Files;
use crate::store::Store;

/// The report of a store that is kept.
#[derive(Debug, Clone)]
pub struct Reports {
    pub(super) store: Store,
    room: Room,
    dir: PathBuf,
}

/// When the last report was made, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// What runs there were, in a word: see [`Sight`].
    pub(super) saw: String,
}

/// What is read again of a report.
#[derive(Deserialize)]
struct Kept {
    made: Made,
    statements: Vec<Said>,
}

#[derive(Deserialize)]
struct Made {
    at: String,
    saw: String,
}

/// A statement of it.
#[derive(Deserialize)]
pub(super) struct Said {
    pub(super) topic: String,
    pub(super) text: String,
    pub(super) about: String,
}

/// The runs as they are seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight(Vec<Listed>);

impl Sight {
    pub(super) fn of(store: &Store) -> Result<Sight> {
        Ok(Sight(store.runs()?.sessions()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|listed| listed.bytes == 0)
    }

    /// Another one whenever a log came, grew or went.
    pub(super) fn word(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for Listed { address, bytes, modified_ms, .. } in &self.0 {
            let key = address.key.as_str();
            hasher.update(
                format!("{}:{key}{}:{} {bytes} {modified_ms}\n", key.len(), address.id.len(), address.id)
                    .as_bytes(),
            );
        }
        hasher.finalize().to_hex()[..SAW_CHARS].to_owned()
    }

    /// Whether all of these logs are still there. They only grow.
    fn is_in(&self, now: &Sight) -> bool {
        let there = |seen: &Listed| {
            let mut same = now.0.iter().filter(|listed| listed.address == seen.address);
            same.any(|listed| listed.bytes >= seen.bytes)
        };
        self.0.iter().all(there)
    }
}

impl Store {
    /// The report that is kept of the runs.
    pub fn reports(&self) -> Result<Reports> {
        let room = self.backend().room().ok_or_else(|| Error::NoRoom { store: self.backend().name() })?;
        Ok(Reports { store: self.clone(), dir: room.dir.join(DIR), room })
    }
}

impl Reports {
    /// The directory, whether it exists or not.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The page, whether it exists or not.
    pub fn page(&self) -> PathBuf {
        self.dir.join(PAGE)
    }

    /// When the last one was made. Nothing: never, as far as anybody can tell; a file that is damaged, of another
    /// program or somebody else's tells nothing.
    pub fn last(&self) -> Option<Last> {
        let Made { at, saw } = self.read()?.made;
        Some(Last { at_ms: clock::parse_ms(&at)?, saw })
    }

    /// What it says.
    pub(super) fn said(&self) -> Vec<Said> {
        self.read().map(|kept| kept.statements).unwrap_or_default()
    }

    fn read(&self) -> Option<Kept> {
        let path = self.dir.join(DATA);
        let info = self.room.disk.inspect(&path).ok()?;
        if info.shape != Shape::File || !self.room.disk.is_own(info.owner) || info.len > BYTES_MAX {
            return None;
        }
        let bytes = read_whole(&*self.room.disk, &path, BYTES_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.room.disk
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> u64 {
        let looked = self.room.disk.look(&self.dir, &[PAGE, DATA]).unwrap_or_default();
        looked.into_iter().flatten().map(|info| info.len).sum()
    }

    /// Removes what is kept, as when runs go that it may show. False: there was nothing.
    ///
    /// A report that is just being made of runs that are gone by then is not kept, if the right to move sessions is
    /// held from here until they are gone.
    pub(crate) fn forget(&self) -> Result<bool> {
        let gone = self.remove(|name| [PAGE, DATA, TOLD].contains(&name) || is_temporary(name))?;
        if gone > 0 {
            self.room.disk.sync_dir(&self.dir).map_err(io_error("sync the directory", &self.dir))?;
        }
        Ok(gone > 0)
    }

    /// The right to make a report, until it is dropped or this process ends; nothing if somebody else has it. It is not
    /// waited for.
    pub(super) fn take(&self) -> Result<Option<Box<dyn Exclusive>>> {
        self.store.backend().make_room()?;
        if self.room.disk.inspect(&self.dir).is_ok_and(|info| info.shape == Shape::Link) {
            let why = "it is a symbolic link, which is not followed here; put a directory in its place";
            return Err(io_error("use", &self.dir)(io::Error::other(why)));
        }
        let files =
            Files::flat_on(self.room.disk.clone(), self.dir.clone()).waiting_for_movers(Duration::ZERO);
        match files.exclusive(Duration::ZERO) {
            Err(Error::Busy { .. }) => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// Keeps a report in the place of the one before, with the right to make it. False: runs that it was made of are
    /// gone, and nothing was written.
    pub(super) fn keep(
        &self,
        report: &Report,
        narrative: Option<&Narrative>,
        saw: &Sight,
        at_ms: i64,
    ) -> Result<bool> {
        let page = report.to_html(narrative);
        let mut value = report.to_json(narrative);
        value["made"] = json!({"at": time(at_ms), "saw": saw.word()});
        let data = format!("{value}\n");
        if data.len() as u64 > BYTES_MAX {
            let why = format!("the report has {} bytes, more than are read again", data.len());
            return Err(io_error("write", &self.dir.join(DATA))(io::Error::other(why)));
        }
        let _right = self.store.backend().exclusive(self.store.wait())?;
        if !saw.is_in(&Sight::of(&self.store)?) {
            return Ok(false);
        }
        // What somebody left who died while writing.
        self.remove(is_temporary)?;
        let files = [self.write(PAGE, page.as_bytes())?, self.write(DATA, data.as_bytes())?];
        // The JSON last, and only when the page cannot be lost any more: it says that there is a new one.
        for file in files {
            file.put()?;
        }
        Ok(true)
    }

    /// Writes a file beside its place, and makes it survive power loss there.
    pub(super) fn write(&self, name: &'static str, bytes: &[u8]) -> Result<Beside<'_>> {
        let place = self.dir.join(name);
        let mut file = AtomicFile::create(self.disk(), &place).map_err(io_error("create", &place))?;
        file.write_all(bytes).map_err(io_error("write", &place))?;
        file.sync().map_err(io_error("sync", &place))?;
        Ok(Beside { file, place })
    }

    /// Removes files of certain names, and says how many there were. What lies behind a link is not ours, and no
    /// directory is.
    fn remove(&self, is_meant: impl Fn(&str) -> bool) -> Result<usize> {
        let is_ours = match self.room.disk.inspect(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            looked => looked.map_err(io_error("inspect", &self.dir))?.shape == Shape::Directory,
        };
        if !is_ours {
            return Ok(0);
        }
        let entries = self.room.disk.list(&self.dir).map_err(io_error("list", &self.dir))?;
        let files = entries.iter().filter(|entry| entry.shape != Shape::Directory);
        let mut gone = 0;
        for name in files.filter_map(|entry| entry.name.to_str()).filter(|name| is_meant(name)) {
            let path = self.dir.join(name);
            match self.room.disk.remove(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                removed => {
                    removed.map_err(io_error("remove", &path))?;
                    gone += 1;
                }
            }
        }
        Ok(gone)
    }
}

/// A file that is complete and synced, and not yet in its place.
pub(super) struct Beside<'a> {
    file: AtomicFile<'a>,
    place: PathBuf,
}

impl Beside<'_> {
    /// Puts it in its place, so that a power cut cannot undo it.
    pub(super) fn put(self) -> Result<()> {
        self.file.commit().map_err(io_error("replace", &self.place))
    }
}

fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(TEMPORARY)
}

/// In the home of the store.
const DIR: &str = "retro";
const PAGE: &str = "latest.html";
const DATA: &str = "latest.json";
/// What of it was told.
pub(super) const TOLD: &str = "told";
const TEMPORARY: &str = ".tmp";
/// No report is as long: its tables are bounded.
const BYTES_MAX: u64 = 64 << 20;
const SAW_CHARS: usize = 32;
