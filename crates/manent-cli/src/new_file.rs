//! A file that a command writes for its user: whole or not at all, and in the place of another only if that is wanted.

use std::io;
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::{Access, Disk, DiskFile, Shape, write_fully};

use crate::exit::{Exit, Failure};

/// A file that is there when it is whole.
pub(crate) struct NewFile {
    path: PathBuf,
    dir: PathBuf,
    beside: PathBuf,
    file: Box<dyn DiskFile>,
    waiting: Vec<u8>,
    force: bool,
    done: bool,
}

impl NewFile {
    pub(crate) fn begin(path: &Path, force: bool) -> Result<NewFile, Failure> {
        let failed = |e: io::Error| {
            let hint = "name a file in a directory that you can write to";
            Failure::new(Exit::Failed, format!("cannot write {}: {e}; {hint}", path.display()))
        };
        match RealDisk.inspect(path) {
            Ok(info) if info.shape == Shape::Directory => {
                let why = format!("{} is a directory; name a file in it", path.display());
                return Err(Failure::new(Exit::Usage, why));
            }
            Ok(_) if !force => return Err(in_the_way(path)),
            _ => {}
        }
        let (Some(name), Some(dir)) = (path.file_name(), path.parent()) else {
            return Err(Failure::new(Exit::Usage, format!("{} is no name of a file", path.display())));
        };
        let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir.to_owned() };
        let mut beside_name = std::ffi::OsString::from(".");
        beside_name.push(name);
        beside_name.push(format!(".{}.new", std::process::id()));
        let beside = dir.join(beside_name);
        let file = RealDisk.open(&beside, Access::CreateNew).map_err(failed)?;
        Ok(NewFile { path: path.to_owned(), dir, beside, file, waiting: Vec::new(), force, done: false })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = write_fully(&*self.file, &self.waiting).map_err(|(_, e)| e);
        self.waiting.clear();
        written
    }

    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.flush().and_then(|()| self.file.sync()).map_err(|e| self.failed(&e))?;
        let renamed = if self.force {
            RealDisk.rename(&self.beside, &self.path)
        } else {
            RealDisk.rename_new(&self.beside, &self.path)
        };
        match renamed {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(in_the_way(&self.path)),
            renamed => renamed.map_err(|e| self.failed(&e))?,
        }
        self.done = true;
        RealDisk.sync_dir(&self.dir).map_err(|e| self.failed(&e))
    }

    pub(crate) fn failed(&self, e: &io::Error) -> Failure {
        Failure::new(
            Exit::Failed,
            format!("cannot write {}: {e}; nothing was written there", self.path.display()),
        )
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.done {
            let _ = RealDisk.remove(&self.beside);
        }
    }
}

fn in_the_way(path: &Path) -> Failure {
    let hint = "take another name, or replace it with --force";
    Failure::new(Exit::Conflict, format!("{} is there already; {hint}", path.display()))
}

const WRITE_BYTES: usize = 64 << 10;
