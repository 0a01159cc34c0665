//! Snapshots of skills: every file of a skill's directory as it was read once, to be compared, stored, and given to a
//! model from.
//!
//! A snapshot holds what a change could hide in: the content of every file, whether it is executable, and where links
//! lead. Only `.git` directories are left out. What cannot be read as a whole (too large, too many files, not a file)
//! cannot be compared, and so cannot be trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use manent::log::fs::{Access, Disk, Shape};
use serde::{Deserialize, Serialize};

use super::skill::SkillOrigin;
use super::skill_files::{FileListing, SkillFileInfo};
use crate::hex;
use crate::tools::unified_diff;

/// The files of one skill by their paths from its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillSnapshot(BTreeMap<String, SnapshotEntry>);

/// One file, or one link and the file behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SnapshotEntry {
    /// The permission bits that make something else of a file: to execute it, and as whom.
    mode: u32,
    pub(super) bytes: u64,
    /// BLAKE3 in hexadecimal; empty if there is no file.
    pub(super) hash: String,
    /// The target of a link: relative to the directory of the skill, or absolute if it lies outside of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
    /// `None` if it is too long to be given to a model, or lies outside of the skill.
    #[serde(flatten)]
    pub(super) content: Option<FileContent>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileContent {
    Text(String),
    #[serde(rename = "hex", with = "hex")]
    Binary(Vec<u8>),
}

impl FileContent {
    fn of(bytes: Vec<u8>) -> FileContent {
        String::from_utf8(bytes).map_or_else(|e| FileContent::Binary(e.into_bytes()), FileContent::Text)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            FileContent::Text(text) => text.as_bytes(),
            FileContent::Binary(bytes) => bytes,
        }
    }
}

impl SnapshotEntry {
    /// Returns whether it is a link that leads out of the directory of the skill.
    pub(super) fn leads_out(&self) -> bool {
        self.link.as_ref().is_some_and(|link| Path::new(link).is_absolute())
    }
}

/// One file that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDifference {
    /// The path from the directory of the skill.
    pub path: String,
    /// `added`, `changed` or `removed`.
    pub word: &'static str,
    /// A unified diff, or sizes and hashes of what is not text. As it is in the files: to be made safe for terminals.
    pub shown: String,
}

impl SkillSnapshot {
    /// Reads all files of a directory. `room` is what may still be read, in bytes. An error says what cannot be
    /// compared. Of a skill of the user, the content of files behind links that lead out of it is kept, too: the user
    /// may keep them anywhere. Of a project's only the hash is: it must not have the user's files copied by a link.
    pub(super) fn take(
        disk: &dyn Disk,
        dir: &Path,
        origin: SkillOrigin,
        room: &mut u64,
    ) -> Result<SkillSnapshot, String> {
        let mut files = BTreeMap::new();
        let mut left = vec![(dir.to_owned(), String::new(), 0)];
        while let Some((at, prefix, depth)) = left.pop() {
            let entries = disk.list(&at).map_err(|e| format!("{} cannot be listed: {e}", at.display()))?;
            for entry in entries {
                let Some(name) = entry.name.to_str() else {
                    return Err(format!("the name of a file in {} is not UTF-8", at.display()));
                };
                let (path, full) = (format!("{prefix}{name}"), at.join(name));
                if files.len() + left.len() > FILES_MAX {
                    return Err(format!("it has more than {FILES_MAX} files"));
                }
                match entry.shape {
                    Shape::Directory if name == ".git" => {}
                    Shape::Directory if depth == DEPTH_MAX => {
                        return Err(format!("it is deeper than {DEPTH_MAX} directories"));
                    }
                    Shape::Directory => left.push((full, format!("{path}/"), depth + 1)),
                    Shape::File => drop(files.insert(path, read(disk, &full, room)?)),
                    Shape::Link => drop(files.insert(path, read_link(disk, dir, &full, origin, room)?)),
                    Shape::Special => return Err(format!("{} is not a file", full.display())),
                }
            }
        }
        Ok(SkillSnapshot(files))
    }

    pub(super) fn get(&self, path: &str) -> Option<&SnapshotEntry> {
        self.0.get(path)
    }

    /// Lists the files as a model is told of them.
    pub(super) fn listing(&self, except: &str, most: usize) -> FileListing {
        let is_told = |path: &str, entry: &SnapshotEntry| {
            path != except
                && !entry.hash.is_empty()
                && !entry.leads_out()
                && !path.split('/').any(|part| super::skill_files::is_passed_over(part.as_ref()))
        };
        let told = self.0.iter().filter(|(path, entry)| is_told(path, entry));
        let mut files: Vec<SkillFileInfo> =
            told.map(|(path, entry)| SkillFileInfo { path: path.clone(), bytes: entry.bytes }).collect();
        let more = files.len() > most;
        files.truncate(most);
        FileListing { files, more }
    }

    /// Returns what differs from an earlier snapshot, by path.
    pub fn differences(&self, before: &SkillSnapshot) -> Vec<FileDifference> {
        let differing = differing(&before.0, &self.0).into_iter();
        let describe = |path: &String| describe_difference(path, before.0.get(path), self.0.get(path));
        differing
            .map(|(path, word)| FileDifference { path: path.clone(), word, shown: describe(path) })
            .collect()
    }

    /// Says in a few words what differs from an earlier snapshot: `SKILL.md changed, run.sh added`.
    pub(super) fn summary(&self, before: &SkillSnapshot) -> String {
        let all = differing(&before.0, &self.0);
        let mut words: Vec<String> =
            all.iter().take(SUMMARY_MAX).map(|(path, word)| format!("{path} {word}")).collect();
        if all.len() > SUMMARY_MAX {
            words.push(format!("{} more", all.len() - SUMMARY_MAX));
        }
        words.join(", ")
    }
}

/// Returns the keys whose values differ, in order, each with `added`, `changed` or `removed`.
pub(super) fn differing<'a, T: PartialEq>(
    before: &'a BTreeMap<String, T>,
    now: &'a BTreeMap<String, T>,
) -> Vec<(&'a String, &'static str)> {
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let word = |key: &'a String| match (before.get(key), now.get(key)) {
        (Some(old), Some(new)) if old == new => None,
        (Some(_), Some(_)) => Some((key, "changed")),
        (None, _) => Some((key, "added")),
        (_, None) => Some((key, "removed")),
    };
    keys.into_iter().filter_map(word).collect()
}

fn read(disk: &dyn Disk, path: &Path, room: &mut u64) -> Result<SnapshotEntry, String> {
    let unreadable = |e: io::Error| format!("{} cannot be read: {e}", path.display());
    let mode = disk.inspect(path).map_err(unreadable)?.mode & TELLING_BITS;
    let file = disk.open(path, Access::Read).map_err(unreadable)?;
    let (mut hash, mut content, mut bytes) = (blake3::Hasher::new(), Vec::new(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let got = file.read_at(&mut buffer, bytes).map_err(unreadable)?;
        if got == 0 {
            break;
        }
        bytes += got as u64;
        // As it is read, not as it is said to be: it may grow meanwhile.
        *room = room.checked_sub(got as u64).ok_or_else(|| {
            format!(
                "it is too large: at {} the limit of {ROOM_BYTES} bytes for a folder is reached",
                path.display()
            )
        })?;
        hash.update(&buffer[..got]);
        if bytes <= KEPT_BYTES_MAX {
            content.extend_from_slice(&buffer[..got]);
        }
    }
    let content = (bytes <= KEPT_BYTES_MAX).then(|| FileContent::of(content));
    Ok(SnapshotEntry { mode, bytes, hash: hash.finalize().to_hex().to_string(), link: None, content })
}

fn read_link(
    disk: &dyn Disk,
    dir: &Path,
    path: &Path,
    origin: SkillOrigin,
    room: &mut u64,
) -> Result<SnapshotEntry, String> {
    let nothing = |link: String| SnapshotEntry { link: Some(link), ..SnapshotEntry::default() };
    let Ok(real) = disk.resolve(path) else { return Ok(nothing("(leads nowhere)".to_owned())) };
    let Some(link) = real.strip_prefix(dir).unwrap_or(&real).to_str().map(str::to_owned) else {
        return Err(format!("{} leads to a name that is not UTF-8", path.display()));
    };
    let is_inside = real.starts_with(dir);
    match disk.inspect(&real).map(|info| info.shape) {
        Ok(Shape::File) => {
            let file = read(disk, &real, room)?;
            let content = file.content.filter(|_| is_inside || origin != SkillOrigin::Project);
            Ok(SnapshotEntry { link: Some(link), content, ..file })
        }
        // What lies in it is in the snapshot by itself.
        Ok(Shape::Directory) if is_inside => Ok(nothing(link)),
        Ok(Shape::Directory) => Err(format!(
            "{} is a link to a directory outside of the skill, whose files cannot be compared; put the directory \
             itself there",
            path.display()
        )),
        _ => Ok(nothing(link)),
    }
}

/// Shows one file that differs.
fn describe_difference(path: &str, old: Option<&SnapshotEntry>, new: Option<&SnapshotEntry>) -> String {
    let mut text = String::new();
    let what = |entry: Option<&SnapshotEntry>, of: fn(&SnapshotEntry) -> String| {
        entry.map_or_else(|| "nothing".to_owned(), of)
    };
    let link = |entry: &SnapshotEntry| {
        entry.link.as_ref().map_or_else(|| "no link".to_owned(), |to| format!("a link to {to}"))
    };
    let mode = |entry: &SnapshotEntry| format!("mode {:o}", entry.mode);
    if old.and_then(|old| old.link.as_ref()) != new.and_then(|new| new.link.as_ref()) {
        let _ = writeln!(text, "{path}: {} before, {} now", what(old, link), what(new, link));
    }
    let modes = (old.map_or(0, |old| old.mode), new.map_or(0, |new| new.mode));
    if modes.0 != modes.1 {
        let _ = writeln!(text, "{path}: {} before, {} now", what(old, mode), what(new, mode));
    }
    if old.map(|old| &old.hash) == new.map(|new| &new.hash) {
        return text;
    }
    let content = |entry: &SnapshotEntry| match &entry.content {
        Some(FileContent::Text(text)) if !text.contains('\0') => Ok(text.clone()),
        _ => Err(()),
    };
    if let (Ok(old), Ok(new)) = (old.map(content).transpose(), new.map(content).transpose()) {
        let new = new.unwrap_or_default();
        text.push_str(&unified_diff(path, old.as_ref().map(String::as_bytes), new.as_bytes()));
        return text;
    }
    let size = |entry: &SnapshotEntry| {
        format!("{} bytes ({})", entry.bytes, entry.hash.get(..16).unwrap_or("no file"))
    };
    let _ = writeln!(text, "{path}: not text, {} before, {} now", what(old, size), what(new, size));
    text
}

/// The number of bytes that are read of all skills of a folder.
pub(super) const ROOM_BYTES: u64 = 64 << 20;
/// The longest file that a model is given, or that a diff is made of.
const KEPT_BYTES_MAX: u64 = super::document::FILE_BYTES_MAX;
const FILES_MAX: usize = 2000;
const DEPTH_MAX: usize = 12;
const SUMMARY_MAX: usize = 4;
const BUFFER_BYTES: usize = 64 << 10;
/// Execute bits, and those that change as whom.
const TELLING_BITS: u32 = 0o7111;
