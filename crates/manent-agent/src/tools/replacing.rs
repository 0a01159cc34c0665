//! A file made anew: as a whole or not at all, whenever the power fails or the disk is full.
//!
//! The new content is written beside the file, brought to the disk, and takes the file's name in one step. What is
//! there then is the old content or the new one. What is there must still be what was shown to whoever allowed it.

use std::io;
use std::path::Path;

use manent::log::fs::{Access, Disk, Shape};
use manent::log::{AtomicFile, CommitSync};

use super::error::ToolError;
use super::workspace::{ResolvedPath, Workspace, system};
use crate::protected::{Protection, protection};

/// Refuses what cannot be written, or should not be, and notes in `spot` if a person must allow this one change.
pub(super) fn check(workspace: &Workspace, spot: &mut ResolvedPath) -> Result<(), ToolError> {
    let unfit = |why: &str| Err(ToolError::Unfit { path: spot.shown.clone(), why: why.to_owned() });
    // The user's next `git`, editor or agent executes what stands there, outside of any sandbox.
    spot.once_because = match protection(workspace.disk(), workspace.root(), &spot.real) {
        Some(Protection::Repository) => {
            return unfit(
                "belongs to a repository, or would make one, and is never written by tools; run git commands",
            );
        }
        Some(Protection::Name) => Some("other programs obey this file without asking you"),
        None => None,
    };
    match spot.info {
        Some(info) if info.shape == Shape::Directory => unfit("is a directory; give the path of a file"),
        Some(info) if info.shape != Shape::File => unfit("is no file that can be written"),
        Some(info) if info.mode & OWNER_WRITES == 0 => unfit("is read-only; leave it, or ask the user"),
        _ => Ok(()),
    }
}

/// Puts `after` in the place of `before`; of nothing, if there was no file.
pub(super) fn replace(
    workspace: &Workspace,
    spot: &ResolvedPath,
    before: Option<&[u8]>,
    after: &[u8],
) -> Result<(), ToolError> {
    let mut now = workspace.again(spot)?;
    check(workspace, &mut now)?;
    // Whoever allowed it must have been told why it was asked.
    if now.once_because != spot.once_because {
        return Err(changed(spot));
    }
    let is_same = match (before, now.info) {
        (None, None) => true,
        (Some(before), Some(_)) => workspace.read(&now)? == before,
        _ => false,
    };
    if !is_same {
        return Err(changed(spot));
    }
    let disk = workspace.disk();
    let failed = |e: io::Error| ToolError::System {
        what: "write",
        path: spot.shown.clone(),
        why: format!("{e}; the file is as it was"),
    };
    let Some(dir) = spot.real.parent() else { return Err(failed(io::ErrorKind::InvalidInput.into())) };
    let dir_mode = make_dirs(disk, dir).map_err(failed)?;
    // Like its directory, as a umask would have it: what all may see there, all may see in the file.
    let mode = now.info.map_or(dir_mode & NEW_FILE_MODE, |info| info.mode & MODE);
    let mut file = AtomicFile::create(disk, &spot.real).map_err(failed)?.with_sync(CommitSync::File);
    file.write_all(after).map_err(failed)?;
    file.set_mode(mode).map_err(failed)?;
    file.sync().map_err(failed)?;
    workspace.again(spot)?;
    let committed = if before.is_some() { file.commit() } else { file.commit_new() };
    committed.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => changed(spot),
        _ => failed(e),
    })?;
    // Apart from the rest, because the change is made: it must not be told as one that failed.
    disk.sync_dir(dir)
        .map_err(|e| system("make sure that a power cut does not undo the change of", &spot.shown, &e))
}

fn changed(spot: &ResolvedPath) -> ToolError {
    let why = "changed since this was prepared, and was left as it is; read it again".to_owned();
    ToolError::Unfit { path: spot.shown.clone(), why }
}

/// Makes the directories that are missing, with the rights of the one they are in; gives those of the last.
fn make_dirs(disk: &dyn Disk, dir: &Path) -> io::Result<u32> {
    let mut missing: Vec<&Path> = Vec::new();
    let mut there = dir;
    let mode = loop {
        match disk.inspect(there) {
            Ok(info) if info.shape == Shape::Directory => break info.mode & MODE,
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => missing.push(there),
            Err(e) => return Err(e),
        }
        there = there.parent().ok_or(io::ErrorKind::NotFound)?;
    };
    if !missing.is_empty() {
        disk.create_dir_all(dir)?;
        for made in missing {
            disk.open(made, Access::Directory)?.set_mode(mode)?;
        }
    }
    Ok(mode)
}

const OWNER_WRITES: u32 = 0o200;
const MODE: u32 = 0o777;
const NEW_FILE_MODE: u32 = 0o666;
