//! A file that a command writes for its user: whole or not at all, and in the place of another only if that is wanted.

use std::io;
use std::path::{Path, PathBuf};

use manent::log::fs::{Disk, Shape};
use manent::log::{AtomicFile, RealDisk};

use crate::exit::Failure;

/// An [`AtomicFile`] with a buffer and messages for the user.
pub(crate) struct NewFile {
    path: PathBuf,
    file: AtomicFile<'static>,
    waiting: Vec<u8>,
    force: bool,
}

impl NewFile {
    pub(crate) fn begin(path: &Path, force: bool) -> Result<NewFile, Failure> {
        match RealDisk.inspect(path) {
            Ok(info) if info.shape == Shape::Directory => {
                return Err(Failure::usage(format!("{} is a directory; name a file in it", path.display())));
            }
            Ok(_) if !force => return Err(in_the_way(path)),
            _ => {}
        }
        if path.file_name().is_none() {
            return Err(Failure::usage(format!("{} is no name of a file", path.display())));
        }
        let file = AtomicFile::create(&RealDisk, path).map_err(|e| {
            let hint = "name a file in a directory that you can write to";
            Failure::failed(format!("cannot write {}: {e}; {hint}", path.display()))
        })?;
        Ok(NewFile { path: path.to_owned(), file, waiting: Vec::new(), force })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.waiting);
        self.waiting.clear();
        written
    }

    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.flush().map_err(|e| self.failed(&e))?;
        let NewFile { path, file, force, .. } = self;
        let committed = if force { file.commit() } else { file.commit_new() };
        committed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => in_the_way(&path),
            _ => failed(&path, &e),
        })
    }

    pub(crate) fn failed(&self, e: &io::Error) -> Failure {
        failed(&self.path, e)
    }
}

fn failed(path: &Path, e: &io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {e}; nothing was written there", path.display()))
}

fn in_the_way(path: &Path) -> Failure {
    let hint = "take another name, or replace it with --force";
    Failure::conflict(format!("{} is there already; {hint}", path.display()))
}

const WRITE_BYTES: usize = 64 << 10;
