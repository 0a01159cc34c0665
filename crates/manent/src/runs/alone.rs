//! Being the only one at work on a run: an flock on a small file beside the logs.
//!
//! The log cannot be locked for that long, because others record to it meanwhile. The kernel lets go of the lock when
//! its holder dies, however it dies, so that the file may be left behind and means nothing: only the lock does.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent_log::fs::{Access, Disk, DiskFile};

use super::Runs;
use crate::backend::Backend;
use crate::error::{Error, Result, io_error};
use crate::key::SessionKey;

/// The right to be the only one at work on a run, until it is dropped.
#[derive(Debug)]
pub struct Alone {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl Runs {
    /// Makes sure that nobody else is at work on the run of this key, in any process: whoever asks meanwhile is told
    /// [`Error::Running`] at once. Take it before [`Runs::begin`], and keep it until the end is recorded.
    pub fn alone(&self, session: &SessionKey, idempotency_key: &str) -> Result<Alone> {
        self.core.home.make_room()?;
        self.core.files.make_room()?;
        // Both may be of any length, and hold anything.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(session.as_str().len() as u64).to_le_bytes());
        let hash = hasher.update(session.as_str().as_bytes()).update(idempotency_key.as_bytes()).finalize();
        let name = format!("{}{MARK}", &hash.to_hex()[..HASH_DIGITS]);
        let (disk, path) = (self.core.disk.clone(), self.core.files.home().join(name));
        loop {
            let file = open(&*disk, &path)?;
            if !file.try_lock().map_err(io_error("lock", &path))? {
                return Err(Error::Running { pid: file.lock_holder() });
            }
            // Whoever was at work may have ended between our open and our lock, and taken the file away.
            if leads_to(&*disk, &path, &*file)? {
                return Ok(Alone { disk, path, file });
            }
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // While it is held: afterwards it may be somebody else's. One that stays is in nobody's way.
        if leads_to(&*self.disk, &self.path, &*self.file).unwrap_or(false) {
            let _ = self.disk.remove(&self.path);
        }
    }
}

fn open(disk: &dyn Disk, path: &Path) -> Result<Box<dyn DiskFile>> {
    loop {
        match disk.open(path, Access::Append) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            opened => return opened.map_err(io_error("open", path)),
        }
        match disk.open(path, Access::CreateNew) {
            // Another one was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map_err(io_error("create", path)),
        }
    }
}

fn leads_to(disk: &dyn Disk, path: &Path, file: &dyn DiskFile) -> Result<bool> {
    let id = file.id().map_err(io_error("inspect", path))?;
    match disk.inspect(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        looked => Ok(looked.map_err(io_error("inspect", path))?.id == id),
    }
}

/// Behind the names of such files. No log is called so.
const MARK: &str = ".running";
const HASH_DIGITS: usize = 32;
