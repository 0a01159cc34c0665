//! A list of decisions in the store: one line of JSON each, only ever added to.
//!
//! What it says opens doors, so one that others may write, or that cannot be read, is not believed.

use std::io;
use std::path::Path;

use manent::log::fs::{Access, Disk, Shape, read_whole, write_fully};
use serde_json::Value;

/// The lines of a list; none if there is no file. A line that cannot be read (a torn end) is passed over.
///
/// An error says what is wrong with the file, and what to do: `may be written by others; …`.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<Value>, String> {
    let info = match disk.inspect(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        looked => looked.map_err(|e| format!("cannot be looked at: {e}"))?,
    };
    if info.shape != Shape::File {
        return Err("is no file; remove it".to_owned());
    }
    if !disk.is_own(info.owner) || info.mode & OTHERS_WRITE != 0 {
        return Err("may be written by others; make it your own, with `chmod 600`".to_owned());
    }
    let bytes = read_whole(disk, path, BYTES_MAX).map_err(|e| match e.kind() {
        io::ErrorKind::FileTooLarge => format!("has {} bytes; remove it and decide anew", info.len),
        _ => format!("cannot be read: {e}"),
    })?;
    let lines = bytes.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Adds a line, so that it outlives a power cut.
pub(crate) fn add(disk: &dyn Disk, store: &Path, path: &Path, line: &Value) -> io::Result<()> {
    // What nobody would believe afterwards is not worth noting.
    read(disk, path).map_err(|why| io::Error::other(format!("it {why}")))?;
    disk.create_dir_all(store)?;
    let (file, is_new) = match disk.open(path, Access::CreateNew) {
        Ok(file) => (file, true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => (disk.open(path, Access::Append)?, false),
        Err(e) => return Err(e),
    };
    // What a crash tore off must not swallow this line. An empty line decides nothing.
    let before = if is_new { "" } else { "\n" };
    write_fully(&*file, format!("{before}{line}\n").as_bytes()).map_err(|(_, e)| e)?;
    file.sync()?;
    disk.sync_dir(store)
}

const OTHERS_WRITE: u32 = 0o022;
const BYTES_MAX: u64 = 4 << 20;
