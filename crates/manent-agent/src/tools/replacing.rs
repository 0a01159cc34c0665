//! A file made anew: as a whole or not at all, whenever the power fails or the disk is full.
//!
//! The new content is written beside the file, brought to the disk, and takes the file's name in one step. What is
//! there then is the old content or the new one. What is there must still be what was shown to whoever allowed it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use manent::log::fs::{Access, Disk, DiskFile, Shape, write_fully};

use super::error::ToolError;
use super::workspace::{Spot, Workspace, system};
use crate::protected::{Protection, protection};

/// Refuses what cannot be written, or should not be, and notes in `spot` if a person must allow this one change.
pub(super) fn check(workspace: &Workspace, spot: &mut Spot) -> Result<(), ToolError> {
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
    spot: &Spot,
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
    let (file, beside) = create_beside(disk, dir).map_err(failed)?;
    let written = fill(&*file, after, mode).map_err(failed).and_then(|()| {
        workspace.again(spot)?;
        let renamed = match before {
            Some(_) => disk.rename(&beside, &spot.real),
            None => disk.rename_new(&beside, &spot.real),
        };
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => changed(spot),
            _ => failed(e),
        })
    });
    if let Err(e) = written {
        // What cannot be removed now is only in the way: the file is as it was.
        let _ = disk.remove(&beside);
        return Err(e);
    }
    disk.sync_dir(dir)
        .map_err(|e| system("make sure that a power cut does not undo the change of", &spot.shown, &e))
}

fn changed(spot: &Spot) -> ToolError {
    let why = "changed since this was prepared, and was left as it is; read it again".to_owned();
    ToolError::Unfit { path: spot.shown.clone(), why }
}

fn fill(file: &dyn DiskFile, bytes: &[u8], mode: u32) -> io::Result<()> {
    write_fully(file, bytes).map_err(|(_, e)| e)?;
    file.set_mode(mode)?;
    file.sync()
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

/// A new file in a directory, under a name that nobody else has.
fn create_beside(disk: &dyn Disk, dir: &Path) -> io::Result<(Box<dyn DiskFile>, PathBuf)> {
    for _ in 0..TRIES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = dir.join(format!(".manent-{}-{number}.tmp", std::process::id()));
        match disk.open(&path, Access::CreateNew) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, path)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

static NEXT: AtomicU64 = AtomicU64::new(0);
const TRIES: u32 = 100;
const OWNER_WRITES: u32 = 0o200;
const MODE: u32 = 0o777;
const NEW_FILE_MODE: u32 = 0o666;
