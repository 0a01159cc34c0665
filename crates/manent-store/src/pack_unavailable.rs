//! Stands for `pack.rs` in a build without the feature `archive`: every packed file is an error that says so.

use std::io;

use manent_log::fs::DiskFile;

pub(crate) fn unpack_into(_file: Box<dyn DiskFile>, _target: &dyn DiskFile) -> io::Result<()> {
    Err(unavailable())
}

pub(crate) fn open(_file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
    Err(unavailable())
}

pub(crate) fn open_strict(_file: Box<dyn DiskFile>) -> io::Result<Box<dyn DiskFile>> {
    Err(unavailable())
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
    _packed: Box<dyn DiskFile>,
    _plain: &dyn DiskFile,
    _len: u64,
    _progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    Err(unavailable())
}

fn unavailable() -> io::Error {
    let why = "packed archives are not supported by this build, which lacks the feature `archive`; use one that has it";
    io::Error::new(io::ErrorKind::Unsupported, why)
}
