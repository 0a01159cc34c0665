//! Finds what else must be protected because something that was found leads there: targets of links, directories that
//! a `.git` file names (`gitdir:`), and those that `commondir` names.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::{Disk, Shape, read_whole};

use super::super::policy::FilesystemView;
use super::walk::ProtectedEntries;
use crate::protected::RepositoryMarks;

/// The paths that must be protected, by the way that is possible. No path in `guarded` lies below another one.
#[derive(Debug, Default)]
pub(super) struct ProtectedPaths {
    /// Files and directories without symbolic links in their path.
    pub(super) guarded: Vec<PathBuf>,
    /// Symbolic links, which cannot be mounted.
    pub(super) links: BTreeSet<PathBuf>,
    /// The missing targets of links: what appears there must not stay.
    pub(super) missing: BTreeSet<PathBuf>,
}

/// Gathers what follows from what was found. What a person opened for this command is left out.
pub(super) fn of(found: &ProtectedEntries, view: &FilesystemView) -> ProtectedPaths {
    let mut places = ProtectedPaths::default();
    let mut all = BTreeSet::new();
    let mut add = |path: PathBuf| {
        if path.starts_with(&view.workspace) && path != view.workspace {
            all.insert(path);
        }
    };
    for (path, seen) in found.all() {
        let real = match seen.form {
            Shape::Link => match follow(&path.0, &view.workspace, &mut places) {
                Some(real) => real,
                None => continue,
            },
            _ => path.0.clone(),
        };
        let is_repository = !found.names.contains_key(path);
        let named = if is_repository { named_by(&real) } else { Vec::new() };
        named.into_iter().for_each(&mut add);
        add(real);
    }
    for path in all {
        let is_below = |above: &PathBuf| path.starts_with(above);
        let is_closed = places.guarded.last().is_some_and(is_below) || view.writable.iter().any(is_below);
        if !is_closed {
            places.guarded.push(path);
        }
    }
    places
}

/// Follows a link step by step, and gives the file or directory at its end.
fn follow(link: &Path, workspace: &Path, places: &mut ProtectedPaths) -> Option<PathBuf> {
    let mut at = link.to_owned();
    for _ in 0..LINKS_MAX {
        if at.starts_with(workspace) {
            places.links.insert(at.clone());
        }
        let target = rustix::fs::readlink(&at, Vec::new()).ok()?.into_bytes();
        let target = at.parent()?.join(std::ffi::OsString::from_vec(target));
        // Its directory behind all links, so that the next step begins at a real place.
        let parent = RealDisk.resolve(target.parent()?).ok()?;
        at = match target.file_name() {
            Some(name) => parent.join(name),
            None => RealDisk.resolve(&target).ok()?,
        };
        match RealDisk.inspect(&at) {
            Ok(info) if info.shape == Shape::Link => {}
            Ok(_) => return Some(at),
            Err(e) if e.kind() == io::ErrorKind::NotFound && at.starts_with(workspace) => {
                places.missing.insert(at);
                return None;
            }
            Err(_) => return None,
        }
    }
    None
}

/// The directories that a repository is spread over, besides its own.
fn named_by(repository: &Path) -> Vec<PathBuf> {
    let mut named = Vec::new();
    let mut dir = repository.to_owned();
    if RealDisk.inspect(repository).is_ok_and(|info| info.shape == Shape::File) {
        let Some(gitdir) = read_path(repository, b"gitdir:") else { return named };
        named.push(gitdir.clone());
        dir = gitdir;
    }
    named.extend(read_path(&dir.join("commondir"), b""));
    named
}

/// The path that stands in a file behind some bytes, from the directory of the file, without symbolic links.
fn read_path(file: &Path, before: &[u8]) -> Option<PathBuf> {
    let bytes = read_whole(&RealDisk, file, PATH_FILE_BYTES_MAX).ok()?;
    let text = bytes.strip_prefix(before)?.trim_ascii();
    RealDisk.resolve(&file.parent()?.join(OsStr::from_bytes(text))).ok()
}

/// Returns whether Git itself makes an entry of this name in its directory.
pub(super) fn is_made_by_git(name: &OsStr) -> bool {
    let mut mark = RepositoryMarks::default();
    mark.add(name);
    let known = MADE_BY_GIT.iter().any(|known| name.eq_ignore_ascii_case(known));
    !mark.is_empty() || known || name.as_bytes().ends_with(b"_HEAD")
}

const MADE_BY_GIT: [&str; 14] = [
    "COMMIT_EDITMSG",
    "branches",
    "config",
    "description",
    "gitdir",
    "hooks",
    "index",
    "info",
    "lfs",
    "logs",
    "modules",
    "packed-refs",
    "shallow",
    "worktrees",
];
const LINKS_MAX: usize = 16;
const PATH_FILE_BYTES_MAX: u64 = 16 << 10;
