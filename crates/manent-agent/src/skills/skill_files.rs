//! Files of a skill, and no others.
//!
//! A path from a model or from a skill is taken apart before the disk sees it (no `..`, nothing absolute), and what it
//! leads to is looked at behind all symbolic links: it must lie in the directory of the skill. After opening, the path
//! is followed once more, so that whoever swaps a link meanwhile gains nothing unless he swaps it back in the same
//! moment. Hard links cannot be told from files; no archive and no checkout makes one that leads out.

use std::collections::VecDeque;
use std::io;
use std::path::{Component, Path, PathBuf};

use manent::log::fs::{Access, Disk, Shape, read_fully};

use super::error::SkillError;

/// A file that lies beside a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFileInfo {
    /// The path from the directory of the skill.
    pub path: String,
    /// The length in bytes.
    pub bytes: u64,
}

/// The files of a skill, as far as they are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileListing {
    /// Sorted by path.
    pub files: Vec<SkillFileInfo>,
    /// Set if there are more files, or deeper ones.
    pub more: bool,
}

/// The reason why a file was not read.
pub(super) enum ReadFailure {
    Io(io::Error),
    TooLong(u64),
}

/// Reads a file of at most so many bytes. Not through a symbolic link, and nothing but a regular file.
pub(super) fn read(disk: &dyn Disk, path: &Path, max: u64) -> Result<Vec<u8>, ReadFailure> {
    let file = disk.open(path, Access::Read).map_err(ReadFailure::Io)?;
    let len = file.state().map_err(ReadFailure::Io)?.len;
    if len > max {
        return Err(ReadFailure::TooLong(len));
    }
    // It may grow while it is read.
    let mut bytes = vec![0; len as usize + 1];
    let got = read_fully(&*file, &mut bytes, 0).map_err(ReadFailure::Io)?;
    bytes.truncate(got.min(max as usize));
    Ok(bytes)
}

/// The bytes of a file in `dir`, which is a directory behind all links.
pub(super) fn file(disk: &dyn Disk, dir: &Path, path: &str, max: u64) -> Result<Vec<u8>, SkillError> {
    let outside = || SkillError::Outside(path.to_owned());
    let wanted = dir.join(plain(path).ok_or_else(outside)?);
    let real = follow(disk, dir, &wanted).map_err(|e| refusal(e, path, &wanted))?.ok_or_else(outside)?;
    let bytes = read(disk, &real, max).map_err(|not| match not {
        ReadFailure::Io(e) => refusal(e, path, &wanted),
        ReadFailure::TooLong(bytes) => SkillError::TooLong { path: wanted.clone(), bytes, max },
    })?;
    match follow(disk, dir, &wanted) {
        Ok(Some(again)) if again == real => Ok(bytes),
        _ => Err(outside()),
    }
}

fn refusal(error: io::Error, path: &str, full: &Path) -> SkillError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SkillError::NoFile(path.to_owned()),
        _ => SkillError::Unreadable { path: full.to_owned(), source: error },
    }
}

/// The path if it is made of plain names only.
pub(super) fn plain(path: &str) -> Option<PathBuf> {
    if path.is_empty() || path.contains('\0') {
        return None;
    }
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}

/// Resolves a path, and returns it if it lies in `dir` and `dir` still is where it was.
pub(super) fn follow(disk: &dyn Disk, dir: &Path, path: &Path) -> io::Result<Option<PathBuf>> {
    let real = disk.resolve(path)?;
    let is_same = disk.resolve(dir)? == dir;
    Ok((is_same && real.starts_with(dir)).then_some(real))
}

/// The files of a skill, except the one that is given anyway. A file that cannot be read by [`file`] is not listed.
pub(super) fn list(disk: &dyn Disk, dir: &Path, except: &Path) -> FileListing {
    let mut listing = FileListing::default();
    let mut left = VecDeque::from([(dir.to_owned(), 0)]);
    let mut looked = 0;
    while let Some((at, depth)) = left.pop_front() {
        let Ok(mut entries) = disk.list(&at) else { continue };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            looked += 1;
            if looked > LOOKED_MAX || listing.files.len() >= FILES_MAX {
                listing.more = true;
                listing.files.sort_by(|a, b| a.path.cmp(&b.path));
                return listing;
            }
            let path = at.join(&entry.name);
            match entry.shape {
                _ if path == except || is_passed_over(&entry.name) => {}
                Shape::Directory if depth < DEPTH_MAX => left.push_back((path, depth + 1)),
                Shape::Directory => listing.more = true,
                Shape::File => listing.files.extend(skill_file_info(disk, dir, &path, &path)),
                Shape::Link => {
                    // Directories behind links are not walked: nothing is lost that has no other name.
                    let real = follow(disk, dir, &path).ok().flatten();
                    listing.files.extend(real.and_then(|real| skill_file_info(disk, dir, &path, &real)));
                }
                Shape::Special => {}
            }
        }
    }
    listing.files.sort_by(|a, b| a.path.cmp(&b.path));
    listing
}

fn skill_file_info(disk: &dyn Disk, dir: &Path, path: &Path, real: &Path) -> Option<SkillFileInfo> {
    let info = disk.inspect(real).ok().filter(|info| info.shape == Shape::File)?;
    let name = path.strip_prefix(dir).ok()?.to_str()?;
    Some(SkillFileInfo { path: name.to_owned(), bytes: info.len })
}

/// Returns true for directories that hold no skills and much else.
pub(super) fn is_passed_over(name: &std::ffi::OsStr) -> bool {
    name == ".git" || name == "node_modules"
}

pub(super) const FILES_MAX: usize = 100;
const DEPTH_MAX: usize = 6;
/// Names that are looked at, so that a directory with a million of them costs no more than this.
const LOOKED_MAX: usize = 2000;
