//! Remembers what a command must not change where it cannot be kept from changing it, and puts it back afterwards.
//!
//! What a command wrote is moved to the quarantine first, so that nothing is lost. Objects of Git are too many to be
//! copied: their names, sizes and times are compared, and what differs is told. A file for which there is no copy, and
//! which changed, is moved away without a replacement.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::{Disk, PathInfo, Shape, read_whole};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::quarantine::{EntryHandle, Quarantine};
use super::report::GuardReport;
use super::state::{CommandDir, RawPath, StoredShape, now_ns, unique_name};
use crate::protected::RepositoryMarks;

/// A protected path as it was before a command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProtectedCopy {
    /// The location.
    pub(super) path: RawPath,
    extent: AllowedChanges,
    /// The entries below the path, by their paths from there; the path itself is the empty one.
    entries: BTreeMap<RawPath, CopiedEntry>,
    /// Directories of Git objects in it, from there.
    object_stores: Vec<RawPath>,
}

/// The changes that a command may make to something protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AllowedChanges {
    /// No change. There is a copy of each file.
    Nothing,
    /// Changes that commits make. There are no copies, because there are too many repositories.
    NothingUncopied,
    /// Changes that commits make, approved by a person. There is a copy of each other file.
    Commits,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct CopiedEntry {
    id: (u64, u64),
    #[serde(with = "StoredShape")]
    form: Shape,
    mode: u32,
    len: u64,
    links: u64,
    changed_ns: i64,
    /// The target of a symbolic link.
    target: Option<RawPath>,
    /// The number of the copy of its content.
    copy: Option<u64>,
}

/// The class of an entry, which decides whether it may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryClass {
    /// An entry that must stay unchanged.
    Guarded,
    /// An entry that may change, as long as it holds only files and directories: Git would write through a link that a
    /// command left
    /// to wherever that leads.
    Free,
    /// Objects: named by their content, and too many to be copied.
    Objects,
}

/// The references needed to restore something.
pub(super) struct RestoreContext<'a> {
    /// The workspace.
    pub(super) root: &'a Path,
    /// Entries that changed after this time are left alone.
    pub(super) until_ns: i64,
    pub(super) notes: &'a CommandDir,
    pub(super) quarantine: &'a mut Quarantine,
    pub(super) report: &'a mut GuardReport,
}

impl ProtectedCopy {
    /// Takes note of `path`, with copies in `notes` of no more than `bytes_left`.
    pub(super) fn new(
        path: &Path,
        extent: AllowedChanges,
        notes: &mut CommandDir,
        bytes_left: &mut u64,
    ) -> io::Result<ProtectedCopy> {
        let mut kept = ProtectedCopy {
            path: RawPath(path.to_owned()),
            extent,
            entries: BTreeMap::new(),
            object_stores: Vec::new(),
        };
        let (mut entries, object_stores) = scan(path)?;
        kept.object_stores = object_stores;
        let unsettled_since = now_ns() - SETTLED_NS;
        // Links and the like are remembered everywhere, so that those that are new can be told.
        entries.retain(|inside, entry| {
            kept.part(&inside.0) != EntryClass::Free || matches!(entry.form, Shape::Link | Shape::Special)
        });
        for (inside, entry) in &mut entries {
            // By its times alone a change cannot be told that came in the same tick of the clock.
            let is_copied = extent != AllowedChanges::NothingUncopied || entry.changed_ns > unsettled_since;
            let is_small = entry.len <= COPY_BYTES_MAX.min(*bytes_left);
            if entry.form != Shape::File
                || kept.part(&inside.0) != EntryClass::Guarded
                || !is_copied
                || !is_small
            {
                continue;
            }
            if let Ok(bytes) = read_whole(&RealDisk, &kept.at(&inside.0), COPY_BYTES_MAX) {
                entry.copy = Some(notes.copy(&bytes)?);
                *bytes_left = bytes_left.saturating_sub(bytes.len() as u64);
            }
        }
        kept.entries = entries;
        Ok(kept)
    }

    /// The device and inode that it had.
    pub(super) fn id(&self) -> Option<(u64, u64)> {
        self.entries.get(Path::new("")).map(|entry| entry.id)
    }

    fn at(&self, inside: &Path) -> PathBuf {
        if inside.as_os_str().is_empty() { self.path.0.clone() } else { self.path.0.join(inside) }
    }

    fn part(&self, inside: &Path) -> EntryClass {
        let in_store = self.object_stores.iter().find_map(|store| inside.strip_prefix(&store.0).ok());
        let redirects = ["info/alternates", "info/http-alternates"];
        let is_object =
            in_store.is_some_and(|object| !redirects.iter().any(|name| object == Path::new(name)));
        let is_repository = self.object_stores.iter().any(|store| store.0 == Path::new("objects"));
        match self.extent {
            AllowedChanges::Nothing if is_object => EntryClass::Objects,
            AllowedChanges::Nothing => EntryClass::Guarded,
            AllowedChanges::NothingUncopied | AllowedChanges::Commits if !is_repository => {
                EntryClass::Guarded
            }
            AllowedChanges::NothingUncopied | AllowedChanges::Commits => {
                let mut names = inside.iter();
                let (first, is_top) = (names.next().unwrap_or_default(), names.next().is_none());
                let is_own_store = first == "objects" && is_object;
                if is_own_store || is_written_by_commits(first, is_top) {
                    EntryClass::Free
                } else {
                    EntryClass::Guarded
                }
            }
        }
    }

    /// Compares it with what is there now, and puts back what differs.
    pub(super) fn settle(&self, undoing: RestoreContext<'_>) {
        let RestoreContext { root, until_ns, notes, quarantine, report } = undoing;
        let now = match scan(&self.path.0) {
            Ok((now, _)) => now,
            Err(e) if e.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return report.trouble(&self.path.0, "be compared with what it was", &e),
        };
        let mut moved: Vec<&Path> = Vec::new();
        for (inside, entry) in &now {
            if moved.iter().any(|above| inside.0.starts_with(above)) || self.may_be(inside, entry, notes) {
                continue;
            }
            let path = self.at(&inside.0);
            let before = self.entries.get(inside);
            if entry.changed_ns > until_ns {
                self.tell_later(inside, report);
                continue;
            }
            if self.part(&inside.0) == EntryClass::Objects && entry.form == Shape::File {
                report.object_changed(&path);
                continue;
            }
            if let Some(before) = before
                && before.form == Shape::Directory
                && entry.form == Shape::Directory
            {
                let opened = EntryHandle::open(root, &path).and_then(|handle| handle.set_mode(before.mode));
                match opened {
                    Ok(()) => report.put_back(&path),
                    Err(e) => report.trouble(&path, "be given its rights back", &e),
                }
                continue;
            }
            match quarantine.take(&path, &path) {
                Ok(to) if before.is_some() => report.changed(&path, &to),
                Ok(to) => report.added(&path, &to),
                Err(e) => report.trouble(&path, "be moved to the quarantine", &e),
            }
            moved.push(&inside.0);
        }
        for (inside, entry) in &self.entries {
            let is_moved = moved.iter().any(|above| inside.0.starts_with(above));
            let is_gone = !now.contains_key(inside) && self.part(&inside.0) != EntryClass::Free;
            // Its directory tells when.
            let above = inside.0.parent().and_then(|above| now.get(above));
            if is_gone && !is_moved && above.is_some_and(|above| above.changed_ns > until_ns) {
                self.tell_later(inside, report);
            } else if is_moved || is_gone {
                self.put_back(root, inside, entry, notes, report);
            }
        }
    }

    /// Reports an entry that changed after the command, unless Git changes it all the time anyway.
    fn tell_later(&self, inside: &RawPath, report: &mut GuardReport) {
        let mut names = inside.0.iter();
        let (first, is_top) = (names.next().unwrap_or_default(), names.next().is_none());
        if !is_written_by_commits(first, is_top) && self.part(&inside.0) != EntryClass::Objects {
            report.later(&self.at(&inside.0));
        }
    }

    /// Returns true if an entry may be as it is now.
    fn may_be(&self, inside: &RawPath, now: &CopiedEntry, notes: &CommandDir) -> bool {
        let before = self.entries.get(inside);
        let is_plain = matches!(now.form, Shape::File | Shape::Directory);
        match self.part(&inside.0) {
            EntryClass::Free if now.form == Shape::File => true,
            EntryClass::Free if now.form == Shape::Directory && is_in_tree(&inside.0) => true,
            EntryClass::Objects if is_plain => before.is_none_or(|before| before.is_untouched(now)),
            _ => before.is_some_and(|before| self.is_same(inside, before, now, notes)),
        }
    }

    fn is_same(&self, inside: &RawPath, before: &CopiedEntry, now: &CopiedEntry, notes: &CommandDir) -> bool {
        if (before.form, &before.target) != (now.form, &now.target) {
            return false;
        }
        match (before.form, before.copy) {
            (Shape::Link, _) => true,
            (Shape::Directory, _) => before.mode == now.mode,
            (Shape::Special, _) | (_, None) => before.is_untouched(now),
            (Shape::File, Some(copy)) => {
                // One that has got a second name could be changed by it later.
                let is_alike = (before.mode, before.len) == (now.mode, now.len) && now.links <= before.links;
                let read = || read_whole(&RealDisk, &self.at(&inside.0), before.len).ok();
                is_alike && read().is_some_and(|bytes| notes.copied(copy).is_ok_and(|copy| copy == bytes))
            }
        }
    }

    fn put_back(
        &self,
        root: &Path,
        inside: &RawPath,
        entry: &CopiedEntry,
        notes: &CommandDir,
        report: &mut GuardReport,
    ) {
        let path = self.at(&inside.0);
        if self.part(&inside.0) == EntryClass::Objects && entry.form == Shape::File {
            return report.object_changed(&path);
        }
        let parent = path.parent().map_or(Ok(()), |parent| RealDisk.create_dir_all(parent));
        let done = parent.and_then(|()| {
            let handle = EntryHandle::open(root, &path)?;
            match (entry.form, &entry.target, entry.copy) {
                (Shape::Directory, ..) => handle.make_directory(entry.mode),
                (Shape::Link, Some(target), _) => handle.make_link(&target.0),
                (Shape::File, _, Some(copy)) => handle.write(&notes.copied(copy)?, entry.mode),
                _ => Err(io::Error::other("there is no copy of it")),
            }
        });
        match done {
            Ok(()) => report.put_back(&path),
            Err(e) => report.trouble(&path, "be put back", &e),
        }
    }
}

impl CopiedEntry {
    fn of(info: &PathInfo) -> CopiedEntry {
        CopiedEntry {
            id: (info.id.device, info.id.inode),
            form: info.shape,
            mode: info.mode,
            len: info.len,
            links: info.links,
            changed_ns: info.changed_ns,
            target: None,
            copy: None,
        }
    }

    /// Returns true if the entry was not modified: nobody can set back the time of the last change.
    fn is_untouched(&self, now: &CopiedEntry) -> bool {
        if self.form == Shape::Directory {
            return now.form == Shape::Directory;
        }
        (self.id, self.form, self.len, self.changed_ns) == (now.id, now.form, now.len, now.changed_ns)
    }
}

/// Returns whether Git writes an entry of its directory when it makes commits and branches: what a command may change
/// with `--writable .git`. `is_top`: it lies in the directory itself.
fn is_written_by_commits(first: &OsStr, is_top: bool) -> bool {
    let Some(name) = first.to_str() else { return false };
    if COMMIT_TREES.contains(&name) {
        return name != "objects";
    }
    let name = name.strip_suffix(".lock").unwrap_or(name);
    // A split index keeps its larger part in a second file.
    let is_index = name == "index" || name.starts_with("sharedindex.");
    let is_file = is_index || ["HEAD", "packed-refs", "COMMIT_EDITMSG"].contains(&name);
    is_top && (is_file || name.ends_with("_HEAD"))
}

/// Returns whether something is, or lies in, one of the directories that commits write into.
fn is_in_tree(inside: &Path) -> bool {
    inside.iter().next().is_some_and(|first| COMMIT_TREES.iter().any(|tree| first == *tree))
}

type Scanned = (BTreeMap<RawPath, CopiedEntry>, Vec<RawPath>);

/// Looks at `path` and everything in it, and finds the directories of objects.
fn scan(path: &Path) -> io::Result<Scanned> {
    let (mut entries, mut object_stores) = (BTreeMap::new(), Vec::new());
    let mut left = vec![PathBuf::new()];
    while let Some(inside) = left.pop() {
        let at = if inside.as_os_str().is_empty() { path.to_owned() } else { path.join(&inside) };
        let info = match RealDisk.inspect(&at) {
            Ok(info) => info,
            // Gone since it was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound && !inside.as_os_str().is_empty() => continue,
            Err(e) => return Err(e),
        };
        let mut entry = CopiedEntry::of(&info);
        match entry.form {
            Shape::Link => {
                let target = rustix::fs::readlink(&at, Vec::new())?.into_bytes();
                entry.target = Some(RawPath(std::ffi::OsString::from_vec(target).into()));
            }
            Shape::Directory => {
                let mut marks = RepositoryMarks::default();
                for child in RealDisk.list(&at)? {
                    marks.add(&child.name);
                    left.push(inside.join(child.name));
                }
                if marks.is_repository() {
                    object_stores.push(RawPath(inside.join("objects")));
                }
            }
            Shape::File | Shape::Special => {}
        }
        entries.insert(RawPath(inside), entry);
    }
    Ok((entries, object_stores))
}

impl EntryHandle {
    fn make_directory(&self, mode: u32) -> io::Result<()> {
        rustix::fs::mkdirat(&self.dir, &self.name, Mode::RWXU)?;
        self.set_mode(mode)
    }

    fn make_link(&self, target: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.dir, &self.name)?)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())?;
        Ok(rustix::fs::fchmod(fd, Mode::from_raw_mode(mode))?)
    }

    /// Writes a file as a whole or not at all. Not an `AtomicFile`: every step is relative to an open directory,
    /// because a path into the workspace may lead elsewhere since a command ran there.
    fn write(&self, mut bytes: &[u8], mode: u32) -> io::Result<()> {
        let beside = format!(".manent-{}.tmp", unique_name());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &beside, flags, Mode::RUSR | Mode::WUSR)?;
        let written = || -> io::Result<()> {
            while !bytes.is_empty() {
                let n = rustix::io::retry_on_intr(|| rustix::io::write(&fd, bytes))?;
                bytes = &bytes[n..];
            }
            rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))?;
            rustix::fs::fdatasync(&fd)?;
            Ok(rustix::fs::renameat(&self.dir, &beside, &self.dir, &self.name)?)
        };
        let mut written = written;
        written().inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&self.dir, &beside, rustix::fs::AtFlags::empty());
        })
    }
}

/// The directories that commits write into. Of objects, not everything may change.
const COMMIT_TREES: [&str; 3] = ["objects", "refs", "logs"];
/// The longest file of which there is a copy.
const COPY_BYTES_MAX: u64 = 32 << 20;
/// The age from which a time is exact: no file system rounds by more.
const SETTLED_NS: i64 = 3_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_commits_write_is_free() {
        let is_free = |path: &str| {
            let mut names = Path::new(path).iter();
            let first = names.next().unwrap();
            is_written_by_commits(first, names.next().is_none())
        };
        for path in [
            "refs/heads/main",
            "logs/HEAD",
            "index",
            "index.lock",
            "HEAD",
            "HEAD.lock",
            "packed-refs",
            "ORIG_HEAD",
            "MERGE_HEAD",
            "COMMIT_EDITMSG",
        ] {
            assert!(is_free(path), "{path}");
        }
        for path in [
            "config",
            "config.lock",
            "hooks/pre-commit",
            "info/exclude",
            "commondir",
            "gitdir",
            "modules/x/HEAD",
            "worktrees/x/HEAD",
            "X_HEAD/hooks",
            "index/x",
            "description",
            "new",
        ] {
            assert!(!is_free(path), "{path}");
        }
    }
}
