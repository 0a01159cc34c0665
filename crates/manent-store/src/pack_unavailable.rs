//! Stands for `pack.rs` in a build without the feature `archive`: every packed file is an error that says so.

use std::io;
use std::path::Path;

use manent_log::fs::{Access, Disk, DiskFile};

use crate::unpacking::is_packed;

/// A packed file. Without the feature there is none.
#[derive(Debug)]
pub(crate) enum Packed {}

impl Packed {
    pub(crate) fn open(_file: Box<dyn DiskFile>) -> io::Result<Packed> {
        Err(unavailable())
    }

    pub(crate) fn unpack_into(&self, _target: &dyn DiskFile) -> io::Result<()> {
        match *self {}
    }
}

pub(crate) fn open(_file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
    Err(unavailable())
}

pub(crate) fn open_strict(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    if is_packed(path) { Err(unavailable()) } else { disk.open(path, Access::Read) }
}

pub(crate) fn pack(
    _source: &dyn DiskFile,
    _len: u64,
    _target: &dyn DiskFile,
    _progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    Err(unavailable())
}

pub(crate) fn has_sound_table(_file: &dyn DiskFile) -> io::Result<bool> {
    Err(unavailable())
}

pub(crate) fn compare(
    packed: &Packed,
    _plain: &dyn DiskFile,
    _len: u64,
    _progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    match *packed {}
}

fn unavailable() -> io::Error {
    let why = "packed archives are not supported by this build, which lacks the feature `archive`; use one that has it";
    io::Error::new(io::ErrorKind::Unsupported, why)
}
