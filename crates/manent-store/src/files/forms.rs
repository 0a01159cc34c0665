//! What changes the form of a session's file: packing, unpacking, making one as a whole, ending a fork's dependence.
//!
//! All work the same way: a temporary file is written, synced and checked, and then renamed into place. Until that
//! rename the old file counts, from it on the new one does; what is left over from a crash in between is either a
//! temporary file, or a second form of the same session, of which the plain one counts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent_log::fs::{Access, DiskFile, read_fully};
use manent_log::{AtomicFile, Body, FileLock, LogItem, Reader, frame};

use super::hold::lock_file;
use super::moves::{self, Guard};
use super::names::{Form, packed_beside};
use super::store_dir::{Spot, StoreDir};
use crate::error::{Error, Result, io_error};
use crate::pack::{self, Packed};
use crate::streams::{Place, ProgressFn, Space, StreamHeader, StreamId, StreamPart, StreamParts};

/// Makes a live stream as a whole. See [`crate::Streams::create`].
pub(super) fn create(
    files: &StoreDir,
    id: &StreamId,
    header: &StreamHeader,
    parts: StreamParts<'_>,
) -> Result<()> {
    let in_the_way = || Error::InTheWay {
        key: id.key.to_string(),
        place: Place::Live,
        hint: "choose another key, or archive that session first",
    };
    let dir = files.layout.dir(id.space, Place::Live);
    let target = files.find_live(id.space, &id.key, "")?;
    if files.file_at(&target)?.is_some_and(|info| info.len > 0) {
        return Err(in_the_way());
    }
    let mut temp = AtomicFile::create_locked(&*files.disk, &target)?;
    write_parts(files, &mut temp, &target, Some(&header.body), parts)?;
    temp.sync().map_err(io_error("sync", &target))?;
    temp.rename_with(|path| moves::claim(files, path, &target, in_the_way))?;
    files.sync_dir(dir)
}

/// Writes a header and parts to a new file.
pub(super) fn write_parts(
    files: &StoreDir,
    to: &mut AtomicFile<'_>,
    to_path: &Path,
    header: Option<&Body>,
    parts: StreamParts<'_>,
) -> Result<()> {
    let failed = |e: io::Error| io_error("write", to_path)(e);
    let mut buffer = Vec::new();
    if let Some(header) = header {
        header.check_size()?;
        buffer.extend_from_slice(&frame::line(0, header));
    }
    for part in parts {
        match part? {
            StreamPart::Record { seq, body } => {
                body.check_size()?;
                if seq > frame::SEQ_MAX {
                    let path = to_path.to_owned();
                    return Err(manent_log::Error::Full { path, max: frame::SEQ_MAX }.into());
                }
                buffer.extend_from_slice(&frame::line(seq, &body));
            }
            StreamPart::Line(line) => {
                buffer.extend_from_slice(&line);
                buffer.push(b'\n');
            }
            StreamPart::Lines { of, upto } => {
                to.write_all(&buffer).map_err(failed)?;
                buffer.clear();
                copy(files, &files.locate(&of)?.path, to, upto)?;
            }
        }
        if buffer.len() > COPY_BLOCK_BYTES {
            to.write_all(&buffer).map_err(failed)?;
            buffer.clear();
        }
    }
    to.write_all(&buffer).map_err(failed)
}

/// Packs an archived session that is still plain; nothing to do for any other.
pub(super) fn condense(files: &StoreDir, at: &StreamId, progress: ProgressFn<'_>) -> Result<()> {
    for _ in 0..PACKINGS_MAX {
        let spot = files.locate(at)?;
        if at.place != Place::Archive || spot.form != Form::Plain {
            return Ok(());
        }
        match pack_at(files, &spot, &mut *progress) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // Packed or moved by somebody else between our look and our open: look again.
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
        }
    }
    // Somebody who has the file open writes into it all the time. It is archived, and stays as it is.
    let why =
        io::Error::other("another program keeps writing to it; close that program, then archive it again");
    Err(Error::Io { action: "pack", path: files.locate(at)?.path, source: why })
}

/// Whether it is packed now; not, if it grew meanwhile.
fn pack_at(files: &StoreDir, spot: &Spot, progress: ProgressFn<'_>) -> Result<bool> {
    let held = lock_file(&*files.disk, &spot.path, Duration::ZERO)?;
    moves::sweep(files, &files.layout.archive)?;
    refuse_if_open_elsewhere(files, &spot.path)?;
    pack_held(files, spot, &held, progress)
}

/// A program that knows nothing of our lease may have its file open, and would go on writing to one that is gone. Such
/// a file stays plain, where nothing that is written to it is lost. Our own writers need the lease, which we hold.
fn refuse_if_open_elsewhere(files: &StoreDir, path: &Path) -> Result<()> {
    if files.names_at(path)?.is_some_and(|names| !names.id.is_empty()) {
        return Ok(());
    }
    let Some(pid) = files.disk.opened_by(path) else { return Ok(()) };
    let why = format!("another program (pid {pid}) has it open and may write to it; close it there");
    Err(Error::Io { action: "pack", path: path.to_owned(), source: io::Error::other(why) })
}

/// As [`pack_at`], of a file that is held.
fn pack_held(files: &StoreDir, spot: &Spot, held: &FileLock, progress: ProgressFn<'_>) -> Result<bool> {
    let dir = &files.layout.archive;
    let len = held.file().state().map_err(io_error("inspect", &spot.path))?.len;
    let packed = packed_beside(&spot.path);
    let mut temp = AtomicFile::create_locked(&*files.disk, &packed)?;
    pack_into(files, held.file(), len, &mut temp, progress)?;
    let _store = files.lock_moves(Space::Sessions, Duration::ZERO)?;
    if held.file().state().map_err(io_error("inspect", &spot.path))?.len != len {
        return Ok(false);
    }
    let _lock =
        temp.rename_with(|path| files.disk.rename(path, &packed).map_err(io_error("rename", path)))?;
    files.sync_dir(dir)?;
    moves::remove(files, &spot.path)?;
    files.sync_dir(dir)?;
    Ok(true)
}

/// Packs a plain file into a new one, and reads it back: only what was compared byte for byte counts as packed.
fn pack_into(
    files: &StoreDir,
    plain: &dyn DiskFile,
    len: u64,
    target: &mut AtomicFile<'_>,
    progress: ProgressFn<'_>,
) -> Result<()> {
    let path = target.temporary_path().to_owned();
    pack::pack(plain, len, target.file(), &mut |done| progress(done / 2, len))
        .map_err(io_error("pack", &path))?;
    target.sync().map_err(io_error("sync", &path))?;
    let read = files.disk.open(&path, Access::Read).map_err(io_error("read", &path))?;
    let packed = Packed::open(read).map_err(io_error("read", &path))?;
    pack::compare(&packed, plain, len, &mut |done| progress(len / 2 + done / 2, len))
        .map_err(io_error("check", &path))
}

/// Makes a packed file plain, in its own directory.
pub(super) fn unpack(files: &StoreDir, spot: &Spot, wait: Duration) -> Result<(Spot, Guard)> {
    let held = lock_file(&*files.disk, &spot.path, wait)?;
    let dir = spot.path.parent().unwrap_or(&files.layout.archive);
    moves::sweep(files, dir)?;
    // Without `.zst` it ends as a plain one does.
    let plain = spot.path.with_extension("");
    let mut target = AtomicFile::create_locked(&*files.disk, &plain)?;
    let read = files.disk.open(&spot.path, Access::Read).map_err(io_error("read", &spot.path))?;
    // A disk that is full or fails is not a damaged archive.
    let damaged = |source: io::Error| match source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            Error::Archive { path: spot.path.clone(), source }
        }
        _ => io_error("unpack", &spot.path)(source),
    };
    Packed::open(read).and_then(|packed| packed.unpack_into(target.file())).map_err(damaged)?;
    target.sync().map_err(io_error("sync", &plain))?;
    let locked =
        target.rename_with(|path| files.disk.rename_new(path, &plain).map_err(io_error("rename", path)))?;
    files.sync_dir(dir)?;
    moves::remove(files, &spot.path)?;
    files.sync_dir(dir)?;
    drop(held);
    Ok((Spot { path: plain, form: Form::Plain }, Guard::Lock(locked)))
}

/// Replaces a file that is held by a header and parts, in the form it has. Returns the new length of what it holds,
/// and the new file with its lock, which nobody else may have before its name is durable.
pub(super) fn replace(
    files: &StoreDir,
    at: &StreamId,
    spot: &Spot,
    header: Option<&Body>,
    parts: StreamParts<'_>,
    before_rename: impl FnOnce() -> Result<()>,
) -> Result<(u64, Box<dyn DiskFile>)> {
    let mut target = match replacement(&spot.path, at) {
        Some(temporary) => {
            let file = AtomicFile::create_as(&*files.disk, &spot.path, temporary);
            let mut file = file.map_err(io_error("create", &spot.path))?;
            file.lock()?;
            file
        }
        None => AtomicFile::create_locked(&*files.disk, &spot.path)?,
    };
    write_parts(files, &mut target, &spot.path, header, parts)?;
    target.sync().map_err(io_error("sync", &spot.path))?;
    let len = target.file().state().map_err(io_error("inspect", &spot.path))?.len;
    before_rename()?;
    let rename = |path: &Path| files.disk.rename(path, &spot.path).map_err(io_error("rename", path));
    if spot.form == Form::Packed {
        let mut packed = AtomicFile::create_locked(&*files.disk, &spot.path)?;
        pack_into(files, target.file(), len, &mut packed, &mut |_, _| {})?;
        return Ok((len, packed.rename_with(rename)?));
    }
    Ok((len, target.rename_with(rename)?))
}

/// The name under which the replacement of the only stream of a space is written; `None` for any other. It is always
/// the same, so that the next writer can remove what a crash left: it may hold what was forgotten since.
pub(super) fn replacement(path: &Path, at: &StreamId) -> Option<PathBuf> {
    at.space.single_key()?;
    let mut name = path.to_owned().into_os_string();
    name.push(".new");
    Some(PathBuf::from(name))
}

/// Copies what stands behind the header, up to and with the record `upto`, as it stands: damage too.
fn copy(files: &StoreDir, from: &Path, to: &mut AtomicFile<'_>, upto: Option<u64>) -> Result<()> {
    let mut reader = Reader::open_small(&files.reading, from)?;
    let start = match reader.next()? {
        Some(LogItem::Entry(entry)) if entry.seq == 0 && entry.verified => {
            entry.offset + entry.bytes.len() as u64 + 1
        }
        _ => 0,
    };
    // A frame that is damaged would be copied as NULs, and what it was made of would be gone with the original.
    let source = pack::open_strict(&*files.disk, from).map_err(io_error("read", from))?;
    let mut end = source.state().map_err(io_error("inspect", from))?.len;
    if let Some(upto) = upto {
        let mut reader = Reader::open_from(&files.reading, from, upto)?;
        if let Some(LogItem::Entry(entry)) = reader.next()? {
            // Where there is no such record, what stands before the next one is all there is.
            let shared = if entry.seq > upto { 0 } else { entry.bytes.len() as u64 };
            end = end.min(entry.offset + shared);
        }
    }
    let mut block = vec![0; COPY_BLOCK_BYTES];
    let (mut at, mut last) = (start, b'\n');
    while at < end {
        let want = (end - at).min(block.len() as u64) as usize;
        let n = read_fully(&*source, &mut block[..want], at).map_err(io_error("read", from))?;
        if n == 0 {
            break;
        }
        to.write_all(&block[..n]).map_err(io_error("write", to.temporary_path()))?;
        (at, last) = (at + n as u64, block[n - 1]);
    }
    if last != b'\n' {
        to.write_all(b"\n").map_err(io_error("write", to.temporary_path()))?;
    }
    Ok(())
}

const COPY_BLOCK_BYTES: usize = 1 << 20;
const PACKINGS_MAX: u32 = 3;
