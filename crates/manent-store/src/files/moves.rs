//! Changing where a session's file is (archive, trash, restore, delete) and its form (packing, unpacking, replacing
//! it).
//!
//! A move is one rename, which happens wholly or not at all, under the lock of the store and the lock of the file. What
//! comes before it can be repeated, and what comes after it can be missed. A rename that would replace something does
//! not happen. Both directories are synced before the caller hears of success.
//!
//! A change of form writes, syncs and checks a temporary file, and then renames it into place. Until that rename the
//! old file counts, from it on the new one does; what is left over from a crash in between is either a temporary file,
//! or a second form of the same session, of which the plain one counts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent_log::fs::{Access, DiskFile, Settling, read_blocks, read_fully};
use manent_log::{AtomicFile, Body, FileLock, LockMode, Log, LogItem, Options, frame};

use super::MARK;
use super::locks::lock_file;
use super::names::{
    FileForm, StoredName, is_packed, is_plain_id, packed_beside, stem_of, torn_offset, torn_suffix,
};
use super::store_dir::{StoreDir, StreamFile};
use crate::blobs::is_temporary;
use crate::error::{Error, Result, io_error};
use crate::key::SessionKey;
use crate::pack;
use crate::streams::{
    Lock, Place, ProgressFn, ScanTime, Space, StreamHeader, StreamId, StreamPart, StreamParts,
};

/// Brings a session to another place. See [`crate::Streams::relocate`].
pub(super) fn relocate(files: &StoreDir, at: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
    let file = files.locate(at)?;
    at.check_place(to, &files.name())?;
    match (at.place, to) {
        (Place::Live, Place::Archive | Place::Trash) => put_away(files, at, &file, to, wait),
        (Place::Archive, Place::Trash) => throw_away(files, at, &file, wait),
        (Place::Trash, Place::Archive) => bring_back(files, at, &file, wait),
        (Place::Archive | Place::Trash, Place::Live) => revive(files, at, &file, wait),
        (Place::Live, Place::Live) | (Place::Archive, Place::Archive) | (Place::Trash, Place::Trash) => {
            Ok(at.clone())
        }
    }
}

/// Removes a session for good. The file itself goes last: until then the session can be found, and removed again.
pub(super) fn delete(files: &StoreDir, at: &StreamId, wait: Duration) -> Result<()> {
    let file = files.locate(at)?;
    let _guard = guard(files, &file, at.place, wait)?;
    // While we waited for its writer, it may have been moved away by hand and another one begun.
    files.locate(at)?;
    let dir = files.layout.dir(at.space, at.place);
    // Whoever made forks independent of it, or removed them, may have died before that was durable. A power cut must
    // not bring back a fork that needs what is removed here.
    files.sync_places(at.space)?;
    // They move on their own, so an interrupted move left some of them in another place.
    let mut owners = vec![(dir, owner_of(at, &file))];
    if at.space == Space::Sessions {
        owners.push((&files.layout.archive, at.id.clone()));
        owners.push((&files.layout.trash, at.id.clone()));
    }
    for (dir, owner) in owners {
        let copies = torn_copies(files, dir, &owner)?;
        for (name, _) in &copies {
            remove(files, &dir.join(name))?;
        }
        if !copies.is_empty() {
            files.sync_dir(dir)?;
        }
    }
    for place in at.space.places() {
        remove_leftovers(files, files.layout.dir(at.space, *place))?;
    }
    let mut last = file.path.clone();
    if at.place == Place::Archive && file.form == FileForm::Plain {
        // Of an archive that was being packed or unpacked there are two files.
        let packed = packed_beside(&file.path);
        if files.file_at(&packed)?.is_some() {
            remove(files, &file.path)?;
            last = packed;
        }
    }
    remove(files, &last)?;
    files.sync_places(at.space)
}

/// Keeps writers and other movers off a file. A live one is made ready first, so that a torn end is set aside here.
pub(super) fn guard(files: &StoreDir, file: &StreamFile, place: Place, wait: Duration) -> Result<Lock> {
    if place == Place::Live {
        let options = Options { wait, trust: files.trust, ..Options::default() };
        match Log::open(&files.disk, &file.path, &options) {
            Ok(log) => return Ok(Box::new(log)),
            // Written by a newer version: not to be written, but it can be moved as it is.
            Err(manent_log::Error::Newer { .. }) => {}
            // Empty, as a crash before the first record leaves it: there is nothing to make ready.
            Err(manent_log::Error::NotFound { .. }) if files.file_at(&file.path)?.is_some() => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Box::new(lock_file(&*files.disk, &file.path, wait)?))
}

/// Live to archive or trash.
fn put_away(
    files: &StoreDir,
    at: &StreamId,
    file: &StreamFile,
    to: Place,
    wait: Duration,
) -> Result<StreamId> {
    let dir = files.layout.dir(Space::Sessions, to);
    files.make_durable_dir(dir)?;
    let _guard = guard(files, file, Place::Live, wait)?;
    // While we waited for its writer, it may have been moved away by hand and another one begun.
    files.locate(at)?;
    // It may have been named by its key alone.
    let id = files.check_key(&at.key, &file.path)?.map_or_else(|| at.id.clone(), |names| names.id);
    let mut stored = StoredName { stem: stem_of(&file.path), id: name_id(&id), form: FileForm::Plain };
    if to == Place::Archive {
        // A copy of this session is there: this one goes on, the copy makes way, and nothing is thrown away.
        for form in [FileForm::Plain, FileForm::Packed] {
            let copy = StoredName { form, ..stored.clone() };
            if files.file_at(&dir.join(copy.name()))?.is_some() {
                set_aside(files, dir, &copy)?;
            }
        }
    } else if is_taken(files, dir, &stored)? {
        stored.id = new_id();
    }
    // Before the session: their name says whose they are, wherever it is.
    move_torn(files, &files.layout.sessions, &live_name(&file.path), dir, &stored.id)?;
    rename(files, &file.path, &dir.join(stored.name()))?;
    sync_both(files, dir, &files.layout.sessions)?;
    Ok(StreamId { space: Space::Sessions, place: to, key: at.key.clone(), id: stored.id })
}

/// Archive to trash.
fn throw_away(files: &StoreDir, at: &StreamId, file: &StreamFile, wait: Duration) -> Result<StreamId> {
    let dir = &files.layout.trash;
    files.make_durable_dir(dir)?;
    let _guard = guard(files, file, at.place, wait)?;
    drop_second_form(files, file)?;
    let stem = match file.form {
        FileForm::Marked => stem_of(&file.path.with_extension("")),
        _ => stored_at(&file.path).map(|stored| stored.stem).unwrap_or_default(),
    };
    let mut stored = StoredName { stem, id: name_id(&at.id), form: file.form };
    if is_taken(files, dir, &stored)? {
        stored.id = new_id();
    }
    let from = file.path.parent().unwrap_or(&files.layout.archive);
    move_torn(files, &files.layout.archive, &at.id, dir, &stored.id)?;
    rename(files, &file.path, &dir.join(stored.name()))?;
    sync_both(files, dir, from)?;
    Ok(StreamId { space: Space::Sessions, place: Place::Trash, key: at.key.clone(), id: stored.id })
}

/// Trash to archive.
fn bring_back(files: &StoreDir, at: &StreamId, file: &StreamFile, wait: Duration) -> Result<StreamId> {
    let Some(stored) = stored_at(&file.path) else { return Err(files.not_found(at)) };
    let _guard = guard(files, file, at.place, wait)?;
    let (dir, name, id) = match stored.form {
        FileForm::Marked => (&files.layout.sessions, format!("{}.jsonl{MARK}", stored.stem), String::new()),
        FileForm::Plain | FileForm::Packed => (&files.layout.archive, stored.name(), stored.id.clone()),
    };
    files.make_durable_dir(dir)?;
    let target = dir.join(name);
    let in_the_way = || Error::InTheWay {
        key: at.key.to_string(),
        place: Place::Archive,
        hint: "it has the same name or id, and is listed among the archived sessions",
    };
    // One of another form would be taken for what interrupted packing left of this one, and be removed.
    if stored.form != FileForm::Marked && is_taken(files, dir, &stored)? {
        return Err(in_the_way());
    }
    rename_or(files, &file.path, &target, in_the_way)?;
    sync_both(files, dir, &files.layout.trash)?;
    move_torn(files, &files.layout.trash, &stored.id, &files.layout.archive, &stored.id)?;
    Ok(StreamId { space: Space::Sessions, place: Place::Archive, key: at.key.clone(), id })
}

/// Archive or trash to live.
fn revive(files: &StoreDir, at: &StreamId, file: &StreamFile, wait: Duration) -> Result<StreamId> {
    let in_the_way = || Error::InTheWay {
        key: at.key.to_string(),
        place: Place::Live,
        hint: "archive it or give it up first, then try again",
    };
    if !is_free(files, &files.find_live(at.space, &at.key, "")?)? {
        return Err(in_the_way());
    }
    let (file, _guard) = match file.form {
        // First it becomes plain where it is, and only then it moves: at any time there is one file that counts.
        FileForm::Packed => unpack(files, file, wait)?,
        FileForm::Plain | FileForm::Marked => {
            let guard = guard(files, file, at.place, wait)?;
            if at.place == Place::Archive {
                drop_second_form(files, file)?;
            }
            (file.clone(), guard)
        }
    };
    let from = file.path.parent().unwrap_or(&files.layout.archive);
    let (stem, id) = match stored_at(&file.path) {
        Some(stored) if file.form != FileForm::Marked || at.place == Place::Trash => (stored.stem, stored.id),
        _ => (stem_of(&file.path.with_extension("")), String::new()),
    };
    let target = files.layout.sessions.join(format!("{stem}{}", FileForm::Plain.suffix()));
    let _reserved = reserve(files, &at.key, &target, in_the_way)?;
    claim(files, &file.path, &target, in_the_way)?;
    sync_both(files, &files.layout.sessions, from)?;
    if !id.is_empty() {
        move_torn(files, from, &id, &files.layout.sessions, &live_name(&target))?;
    }
    let id = files.names_at(&target)?.map(|names| names.id).unwrap_or_default();
    Ok(StreamId { space: Space::Sessions, place: Place::Live, key: at.key.clone(), id })
}

/// Packing or unpacking an archive was interrupted, and there are two files, of which the plain one counts. Before that
/// one leaves, the other has to go: it would be taken for the session.
fn drop_second_form(files: &StoreDir, file: &StreamFile) -> Result<()> {
    let packed = packed_beside(&file.path);
    if file.form != FileForm::Plain || files.file_at(&packed)?.is_none() {
        return Ok(());
    }
    // Whoever unpacked it may have died before the plain one's name was durable.
    let dir = file.path.parent().unwrap_or(&files.layout.archive);
    files.sync_dir(dir)?;
    remove(files, &packed)?;
    files.sync_dir(dir)
}

/// Returns true if a directory holds a session of this key and id already, in any form: two would be listed as one.
fn is_taken(files: &StoreDir, dir: &Path, stored: &StoredName) -> Result<bool> {
    for form in FileForm::ALL {
        if files.file_at(&dir.join(StoredName { form, ..stored.clone() }.name()))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Renames to where no session may be. What a crash left of one that was never written is no session.
pub(super) fn claim(files: &StoreDir, from: &Path, to: &Path, in_the_way: impl Fn() -> Error) -> Result<()> {
    if files.file_at(to)?.is_some_and(|info| info.len == 0) {
        let empty = lock_file(&*files.disk, to, Duration::ZERO).map_err(|_| in_the_way())?;
        if empty.file().state().is_ok_and(|state| state.len == 0) {
            return files.disk.rename(from, to).map_err(io_error("rename", from));
        }
    }
    rename_or(files, from, to, in_the_way)
}

/// Another program's file may come back under a name that we would not have given it. Until it is there, nobody may
/// begin a session of its key under the name that we would give.
fn reserve(
    files: &StoreDir,
    key: &SessionKey,
    target: &Path,
    in_the_way: impl Fn() -> Error,
) -> Result<Option<Log>> {
    let canonical = files.layout.sessions.join(key.file_name());
    if canonical == target {
        return Ok(None);
    }
    let options = Options { header: Some(Body::new()), trust: files.trust, ..Options::default() };
    match Log::open(&files.disk, &canonical, &options) {
        // Dropped without a record, it leaves no file.
        Ok(log) if log.is_new() => Ok(Some(log)),
        Ok(_) | Err(manent_log::Error::Held { .. }) => Err(in_the_way()),
        Err(e) => Err(e.into()),
    }
}

fn is_free(files: &StoreDir, live: &Path) -> Result<bool> {
    Ok(files.file_at(live)?.is_none_or(|info| info.len == 0))
}

fn rename(files: &StoreDir, from: &Path, to: &Path) -> Result<()> {
    files.disk.rename_new(from, to).map_err(io_error("rename", from))
}

fn rename_or(files: &StoreDir, from: &Path, to: &Path, in_the_way: impl Fn() -> Error) -> Result<()> {
    match files.disk.rename_new(from, to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(in_the_way()),
        renamed => renamed.map_err(io_error("rename", from)),
    }
}

pub(super) fn remove(files: &StoreDir, path: &Path) -> Result<()> {
    match files.disk.remove(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(io_error("remove", path)),
    }
}

/// The new name first: until it is durable, the old one may not go.
fn sync_both(files: &StoreDir, to: &Path, from: &Path) -> Result<()> {
    for dir in [to, from] {
        files.sync_dir(dir)?;
    }
    Ok(())
}

/// Moves a file of the archive to the trash under a new id.
fn set_aside(files: &StoreDir, dir: &Path, copy: &StoredName) -> Result<()> {
    let trash = &files.layout.trash;
    files.make_durable_dir(trash)?;
    let stored = StoredName { id: new_id(), ..copy.clone() };
    rename(files, &dir.join(copy.name()), &trash.join(stored.name()))?;
    sync_both(files, trash, dir)
}

/// Returns the lengths of the torn ends that were cut off a live file where it ends now.
pub(super) fn torn_at_end(files: &StoreDir, path: &Path) -> Result<Vec<u64>> {
    let end = match files.file_at(path)? {
        Some(info) => info.len,
        None => return Ok(Vec::new()),
    };
    let Some(dir) = path.parent() else { return Ok(Vec::new()) };
    let mut lengths = Vec::new();
    for (name, suffix) in torn_copies(files, dir, &live_name(path))? {
        if torn_offset(&suffix) == Some(end) {
            lengths.extend(files.file_at(&dir.join(name))?.map(|info| info.len));
        }
    }
    Ok(lengths)
}

/// The names of torn bytes that were set aside of a session, with what stands behind its owner's name.
fn torn_copies(files: &StoreDir, dir: &Path, owner: &str) -> Result<Vec<(String, String)>> {
    if owner.is_empty() {
        return Ok(Vec::new());
    }
    let entries = files.entries(dir)?;
    let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
    Ok(names
        .filter_map(|name| torn_suffix(&name, owner).map(str::to_owned).map(|rest| (name, rest)))
        .collect())
}

/// Returns true if a record is in torn bytes that were set aside of a session since a time. Older copies are of other
/// records: a number is used again after its record was cut.
pub(super) fn is_set_aside(
    files: &StoreDir,
    at: &StreamId,
    offset: u64,
    seq: u64,
    since: ScanTime,
) -> Result<bool> {
    let file = match files.locate(at) {
        Err(e) if e.is_not_found() => return Ok(false),
        file => file?,
    };
    let dir = file.path.parent().unwrap_or(&files.layout.sessions);
    let begin = format!("{{\"seq\":{seq},");
    for (name, suffix) in torn_copies(files, dir, &owner_of(at, &file))? {
        let Some(from) = torn_offset(&suffix).filter(|from| *from <= offset) else { continue };
        let path = dir.join(name);
        let Some(info) = files.file_at(&path)? else { continue };
        let is_older = Settling::at(since.raw()).is_settled(info.modified_ms.saturating_mul(1_000_000));
        if is_older || offset - from >= info.len {
            continue;
        }
        let copy = files.disk.open(&path, Access::Read).map_err(io_error("open", &path))?;
        let mut bytes = vec![0; begin.len()];
        let read = read_fully(&*copy, &mut bytes, offset - from).map_err(io_error("read", &path))?;
        // A power cut may have left NULs where the record was.
        if begin.as_bytes().starts_with(&bytes[..read]) || bytes[..read].iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn move_torn(files: &StoreDir, from: &Path, owner: &str, to: &Path, new_owner: &str) -> Result<()> {
    let copies = torn_copies(files, from, owner)?;
    for (name, rest) in &copies {
        // A copy of the same place may be there already: then this one gets another last number.
        let free = (0..COPIES_MAX).find_map(|n| {
            let more = if n == 0 { String::new() } else { format!("-{n}") };
            let target = to.join(format!("{new_owner}{rest}{more}"));
            match files.disk.rename_new(&from.join(name), &target) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => None,
                moved => Some(moved.map_err(io_error("rename", &target))),
            }
        });
        free.unwrap_or(Ok(()))?;
    }
    if !copies.is_empty() {
        sync_both(files, to, from)?;
    }
    Ok(())
}

/// Returns the owner under which the torn copies of a session are named: its file's name while it is live, its id
/// afterwards.
fn owner_of(at: &StreamId, file: &StreamFile) -> String {
    match at.place {
        Place::Live => live_name(&file.path),
        Place::Archive | Place::Trash => at.id.clone(),
    }
}

fn live_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn stored_at(path: &Path) -> Option<StoredName> {
    StoredName::parse(path.file_name()?.to_str()?)
}

/// Removes what writers that died left half written in a directory.
pub(super) fn remove_leftovers(files: &StoreDir, dir: &Path) -> Result<()> {
    let Ok(entries) = files.disk.list(dir) else { return Ok(()) };
    for name in entries.iter().filter_map(|entry| entry.name.to_str()).filter(|name| is_temporary(name)) {
        let path = dir.join(name);
        // One that is locked has a writer who lives.
        if let Ok(_lock) = lock_file(&*files.disk, &path, Duration::ZERO) {
            remove(files, &path)?;
        }
    }
    Ok(())
}

/// The id under which a session is put away: its own, or where it has none that can be a name, a new one.
fn name_id(id: &str) -> String {
    if is_plain_id(id) { id.to_owned() } else { new_id() }
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

const COPIES_MAX: u32 = 1000;

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
    temp.rename_with(|path| claim(files, path, &target, in_the_way))?;
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

/// Packs an archived session that is still plain; does nothing to any other.
pub(super) fn condense(files: &StoreDir, at: &StreamId, progress: ProgressFn<'_>) -> Result<()> {
    for _ in 0..PACKINGS_MAX {
        let file = files.locate(at)?;
        if at.place != Place::Archive || file.form != FileForm::Plain {
            return Ok(());
        }
        match pack_at(files, &file, &mut *progress) {
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

/// Packs a file. Returns false if it grew meanwhile, so that it is still plain.
fn pack_at(files: &StoreDir, file: &StreamFile, progress: ProgressFn<'_>) -> Result<bool> {
    let held = lock_file(&*files.disk, &file.path, Duration::ZERO)?;
    remove_leftovers(files, &files.layout.archive)?;
    refuse_if_open_elsewhere(files, &file.path)?;
    pack_held(files, file, &held, progress)
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

/// Packs a file that is locked by the caller. See [`pack_at`].
fn pack_held(files: &StoreDir, file: &StreamFile, held: &FileLock, progress: ProgressFn<'_>) -> Result<bool> {
    let dir = &files.layout.archive;
    let len = held.file().state().map_err(io_error("inspect", &file.path))?.len;
    let packed = packed_beside(&file.path);
    let mut temp = AtomicFile::create_locked(&*files.disk, &packed)?;
    pack_into(files, held.file(), len, &mut temp, progress)?;
    let _store = files.lock_moves(Space::Sessions, LockMode::Exclusive, Duration::ZERO)?;
    if held.file().state().map_err(io_error("inspect", &file.path))?.len != len {
        return Ok(false);
    }
    let _lock =
        temp.rename_with(|path| files.disk.rename(path, &packed).map_err(io_error("rename", path)))?;
    files.sync_dir(dir)?;
    remove(files, &file.path)?;
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
    pack::compare(read, plain, len, &mut |done| progress(len / 2 + done / 2, len))
        .map_err(io_error("check", &path))
}

/// Makes a packed file plain, in its own directory.
pub(super) fn unpack(files: &StoreDir, file: &StreamFile, wait: Duration) -> Result<(StreamFile, Lock)> {
    let held = lock_file(&*files.disk, &file.path, wait)?;
    let dir = file.path.parent().unwrap_or(&files.layout.archive);
    remove_leftovers(files, dir)?;
    // Without `.zst` it ends as a plain one does.
    let plain = file.path.with_extension("");
    let mut target = AtomicFile::create_locked(&*files.disk, &plain)?;
    let read = files.disk.open(&file.path, Access::Read).map_err(io_error("read", &file.path))?;
    // A disk that is full or fails is not a damaged archive.
    let damaged = |source: io::Error| match source.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            Error::Archive { path: file.path.clone(), source }
        }
        _ => io_error("unpack", &file.path)(source),
    };
    pack::unpack_into(read, target.file()).map_err(damaged)?;
    target.sync().map_err(io_error("sync", &plain))?;
    let locked =
        target.rename_with(|path| files.disk.rename_new(path, &plain).map_err(io_error("rename", path)))?;
    files.sync_dir(dir)?;
    remove(files, &file.path)?;
    files.sync_dir(dir)?;
    drop(held);
    Ok((StreamFile { path: plain, form: FileForm::Plain }, Box::new(locked)))
}

/// Replaces a file that is held by a header and parts, in the form it has. Returns the new length of what it holds,
/// and the new file with its lock, which nobody else may have before its name is durable.
pub(super) fn replace(
    files: &StoreDir,
    at: &StreamId,
    file: &StreamFile,
    header: Option<&Body>,
    parts: StreamParts<'_>,
    before_rename: impl FnOnce() -> Result<()>,
) -> Result<(u64, Box<dyn DiskFile>)> {
    let mut target = match replacement(&file.path, at) {
        Some(temporary) => {
            let created = AtomicFile::create_as(&*files.disk, &file.path, temporary);
            let mut created = created.map_err(io_error("create", &file.path))?;
            created.lock()?;
            created
        }
        None => AtomicFile::create_locked(&*files.disk, &file.path)?,
    };
    write_parts(files, &mut target, &file.path, header, parts)?;
    target.sync().map_err(io_error("sync", &file.path))?;
    let len = target.file().state().map_err(io_error("inspect", &file.path))?.len;
    before_rename()?;
    let rename = |path: &Path| files.disk.rename(path, &file.path).map_err(io_error("rename", path));
    if file.form == FileForm::Packed {
        let mut packed = AtomicFile::create_locked(&*files.disk, &file.path)?;
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
    let mut reader = files.reader(from)?;
    reader.seek_header();
    let start = match reader.next()? {
        Some(LogItem::Entry(entry)) if entry.seq == 0 && entry.verified => {
            entry.offset + entry.bytes.len() as u64 + 1
        }
        _ => 0,
    };
    // A frame that is damaged would be copied as NULs, and what it was made of would be gone with the original.
    let source = files.disk.open(from, Access::Read);
    let source = if is_packed(from) { source.and_then(pack::open_strict) } else { source };
    let source = source.map_err(io_error("read", from))?;
    let mut end = source.state().map_err(io_error("inspect", from))?.len;
    if let Some(upto) = upto {
        reader.seek_seq(upto)?;
        if let Some(LogItem::Entry(entry)) = reader.next()? {
            // Where there is no such record, what stands before the next one is all there is.
            let shared = if entry.seq > upto { 0 } else { entry.bytes.len() as u64 };
            end = end.min(entry.offset + shared);
        }
    }
    let (mut last, mut failed) = (b'\n', false);
    let copied = read_blocks(&*source, start..end, |_, bytes| {
        last = bytes.last().copied().unwrap_or(last);
        to.write_all(bytes).inspect_err(|_| failed = true)
    });
    if let Err(e) = copied {
        return Err(if failed {
            io_error("write", to.temporary_path())(e)
        } else {
            io_error("read", from)(e)
        });
    }
    if last != b'\n' {
        to.write_all(b"\n").map_err(io_error("write", to.temporary_path()))?;
    }
    Ok(())
}

const COPY_BLOCK_BYTES: usize = 1 << 20;
const PACKINGS_MAX: u32 = 3;
