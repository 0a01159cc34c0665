//! What changes the form of a session's file: packing, unpacking, making one as a whole, ending a fork's dependence.
//!
//! All work the same way: a temporary file is written, synced and checked, and then renamed into place. Until that
//! rename the old file counts, from it on the new one does; what is left over from a crash in between is either a
//! temporary file, or a second form of the same session, of which the plain one counts.

use std::io;
use std::path::Path;
use std::time::Duration;

use manent_log::fs::{Access, DiskFile, read_fully};
use manent_log::{AtomicFile, Body, Durability, Expect, FileLock, Item, Log, Options, Reader};

use super::hold::{StoreLock, lock_file};
use super::moves::{self, Guard};
use super::names::{Form, packed_beside, temporary};
use super::{Files, Spot};
use crate::backend::{Address, Header, Place, Progress};
use crate::error::{Error, Result, io_error};
use crate::key::SessionKey;
use crate::pack::{self, Packed};

/// Makes a live session as a whole. See [`crate::backend::Backend::create`].
pub(super) fn create(
    files: &Files,
    key: &SessionKey,
    header: &Header,
    records: &mut dyn Iterator<Item = Result<Body>>,
) -> Result<()> {
    let in_the_way = || Error::InTheWay {
        key: key.to_string(),
        place: Place::Live,
        hint: "choose another key, or archive that session first",
    };
    let target = files.find_live(key, "")?;
    if files.file_at(&target)?.is_some_and(|info| info.len > 0) {
        return Err(in_the_way());
    }
    let path = temporary(&files.layout.sessions, &header.id);
    let options = Options { header: Some(header.body.clone()), trust: files.trust, ..Options::default() };
    // The log makes the file and holds its lock, so that nobody takes it for a leftover.
    let mut log = Log::open(&files.disk, &path, &options)?;
    let mut temp = AtomicFile::adopt(&*files.disk, &target, path).map_err(io_error("open", &target))?;
    let mut batch = Vec::new();
    let mut bytes = 0;
    loop {
        let record = records.next().transpose()?;
        let done = record.is_none();
        if let Some(body) = record {
            bytes += body.as_bytes().len();
            batch.push(body);
        }
        if done || bytes > COPY_BLOCK_BYTES {
            log.append_batch(&batch, Durability::Flush, Expect::Any)?;
            batch.clear();
            bytes = 0;
        }
        if done {
            break;
        }
    }
    log.write_header(Durability::Flush)?;
    temp.sync().map_err(io_error("sync", &target))?;
    temp.rename_with(|path| moves::claim(files, path, &target, in_the_way))?;
    files.sync_dir(&files.layout.sessions)
}

/// Packs an archived session that is still plain; nothing to do for any other.
pub(super) fn condense(files: &Files, at: &Address, progress: Progress<'_>) -> Result<()> {
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
fn pack_at(files: &Files, spot: &Spot, progress: Progress<'_>) -> Result<bool> {
    let held = lock_file(&*files.disk, &spot.path, Duration::ZERO)?;
    moves::sweep(files, &files.layout.archive)?;
    refuse_if_open_elsewhere(files, &spot.path)?;
    pack_held(files, spot, &held, progress)
}

/// A program that knows nothing of our lease may have its file open, and would go on writing to one that is gone. Such
/// a file stays plain, where nothing that is written to it is lost. Our own writers need the lease, which we hold.
fn refuse_if_open_elsewhere(files: &Files, path: &Path) -> Result<()> {
    if files.meta_at(path)?.is_some_and(|meta| !meta.id.is_empty()) {
        return Ok(());
    }
    let Some(pid) = files.disk.opened_by(path) else { return Ok(()) };
    let why = format!("another program (pid {pid}) has it open and may write to it; close it there");
    Err(Error::Io { action: "pack", path: path.to_owned(), source: io::Error::other(why) })
}

/// As [`pack_at`], of a file that is held.
fn pack_held(files: &Files, spot: &Spot, held: &FileLock, progress: Progress<'_>) -> Result<bool> {
    let dir = &files.layout.archive;
    let len = held.file().state().map_err(io_error("inspect", &spot.path))?.len;
    let packed = packed_beside(&spot.path);
    let mut temp = AtomicFile::create_locked(&*files.disk, &packed)?;
    pack_into(files, held.file(), len, &mut temp, progress)?;
    let _store = StoreLock::take(files, Duration::ZERO)?;
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
    files: &Files,
    plain: &dyn DiskFile,
    len: u64,
    target: &mut AtomicFile<'_>,
    progress: Progress<'_>,
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
pub(super) fn unpack(files: &Files, spot: &Spot, wait: Duration) -> Result<(Spot, Guard)> {
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

/// Rewrites a fork so that it stands on its own. See [`crate::backend::Backend::absorb`].
pub(super) fn absorb(
    files: &Files,
    fork: &Address,
    header: &Body,
    parent: &Address,
    upto: u64,
    wait: Duration,
) -> Result<()> {
    let spot = files.locate(fork)?;
    let _guard = moves::guard(files, &spot, fork.place, wait)?;
    let mut target = AtomicFile::create_locked(&*files.disk, &spot.path)?;
    let line = manent_log::frame::line(0, header);
    target.write_all(&line).map_err(io_error("write", &spot.path))?;
    let parent_path = files.locate(parent)?.path;
    copy(files, &parent_path, &mut target, Some(upto))?;
    copy(files, &spot.path, &mut target, None)?;
    target.sync().map_err(io_error("sync", &spot.path))?;
    if spot.form == Form::Packed {
        let mut packed = AtomicFile::create_locked(&*files.disk, &spot.path)?;
        let len = target.file().state().map_err(io_error("inspect", &spot.path))?.len;
        pack_into(files, target.file(), len, &mut packed, &mut |_, _| {})?;
        packed.commit().map_err(io_error("replace", &spot.path))
    } else {
        target.commit().map_err(io_error("replace", &spot.path))
    }
}

/// Copies what stands behind the header, up to and with the record `upto`, as it stands: damage too.
fn copy(files: &Files, from: &Path, to: &mut AtomicFile<'_>, upto: Option<u64>) -> Result<()> {
    let mut reader = Reader::open_small(&files.reading, from)?;
    let start = match reader.next()? {
        Some(Item::Entry(entry)) if entry.seq == 0 && entry.verified => {
            entry.offset + entry.bytes.len() as u64 + 1
        }
        _ => 0,
    };
    // A frame that is damaged would be copied as NULs, and what it was made of would be gone with the original.
    let source = pack::open_strict(&*files.disk, from).map_err(io_error("read", from))?;
    let mut end = source.state().map_err(io_error("inspect", from))?.len;
    if let Some(upto) = upto {
        let mut reader = Reader::open_from(&files.reading, from, upto)?;
        if let Some(Item::Entry(entry)) = reader.next()? {
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
