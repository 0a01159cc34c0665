//! Finds the repositories and protected names of a workspace.
//!
//! The walk lists every directory once, breadth first and with several threads, follows no symbolic link, and looks at
//! the attributes only of what it finds. Directories that Git ignores are searched for repositories alone, and only up
//! to [`IGNORED_ENTRIES_MAX`] entries of all of them together: they hold what tools install and build, and can be far
//! larger than the rest.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use manent::backend::threads::parallel_map;
use manent::log::RealDisk;
use manent::log::fs::{Disk, read_whole};
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::state::{EntryStat, RawPath};
use crate::protected::{GIT, RepositoryMarks, is_git, is_protected};

/// The result of a walk. Paths are absolute.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct ProtectedEntries {
    /// Entries called `.git`.
    pub(super) repositories: BTreeMap<RawPath, EntryStat>,
    /// Directories that are repositories by what they hold.
    pub(super) bare: BTreeMap<RawPath, EntryStat>,
    /// Protected names at the root of the workspace and of repositories.
    pub(super) names: BTreeMap<RawPath, EntryStat>,
    /// Directories with some of the entries that make a repository.
    pub(super) marks: BTreeMap<RawPath, RepositoryMarks>,
    /// Directories that could not be searched, and why.
    pub(super) unsearched: BTreeMap<RawPath, String>,
    /// Set if ignored directories held more entries than are searched.
    pub(super) is_bounded: bool,
}

impl ProtectedEntries {
    pub(super) fn all(&self) -> impl Iterator<Item = (&RawPath, &EntryStat)> {
        self.repositories.iter().chain(&self.bare).chain(&self.names)
    }
}

/// The directories that Git ignores, by the `.gitignore` files of the workspace.
///
/// They are read by the walk before a command and stay as they are for the one after it, so that a command cannot have
/// a directory left out by ignoring it.
#[derive(Debug, Default)]
pub(super) struct IgnoreRules {
    by_directory: HashMap<PathBuf, Vec<Gitignore>>,
}

impl IgnoreRules {
    fn read(&mut self, dir: &Path, file: &Path) {
        // A file that is no plain text of a reasonable size ignores nothing, so that everything is searched.
        let Ok(bytes) = read_whole(&RealDisk, file, IGNORE_FILE_BYTES_MAX) else { return };
        let mut builder = GitignoreBuilder::new(dir);
        for line in String::from_utf8_lossy(&bytes).lines() {
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build() {
            self.by_directory.entry(dir.to_owned()).or_default().push(rules);
        }
    }

    fn ignores(&self, dir: &Path, root: &Path) -> bool {
        if self.by_directory.is_empty() {
            return false;
        }
        let above = dir.ancestors().skip(1).take_while(|above| above.starts_with(root));
        let rules = above.filter_map(|above| self.by_directory.get(above)).flatten();
        // The nearest rule that says something decides.
        let said = rules.map(|rules| rules.matched(dir, true)).find(|said| !said.is_none());
        said.is_some_and(|said| said.is_ignore())
    }
}

/// The purpose of a walk.
pub(super) enum Purpose<'a> {
    /// The walk before a command: reads the ignore rules, and does not look into repositories.
    Before(&'a mut IgnoreRules),
    /// The walk after a command: also searches what has become a repository since, and opens what was closed to us.
    After { rules: &'a IgnoreRules, before: &'a ProtectedEntries },
}

/// Searches a workspace, but for what is hidden from commands.
pub(super) fn search(root: &Path, hidden: &HashSet<PathBuf>, purpose: Purpose<'_>) -> ProtectedEntries {
    search_up_to(IGNORED_ENTRIES_MAX, root, hidden, purpose)
}

fn search_up_to(
    ignored_max: usize,
    root: &Path,
    hidden: &HashSet<PathBuf>,
    mut purpose: Purpose<'_>,
) -> ProtectedEntries {
    let mut found = ProtectedEntries::default();
    let mut ignored_entries = 0;
    let mut level = vec![Directory { path: root.to_owned(), is_ignored: false }];
    while !level.is_empty() {
        let mut next = Vec::new();
        for chunk in level.chunks(DIRECTORIES_AT_ONCE) {
            let mut listed = list_all(chunk);
            for (directory, listing) in chunk.iter().zip(&mut listed) {
                if directory.is_ignored && ignored_entries >= ignored_max {
                    found.is_bounded = true;
                    continue;
                }
                let listing = match std::mem::replace(listing, Err(Errno::NOENT)) {
                    Err(Errno::ACCESS) => reopen(&directory.path, &purpose),
                    listing => listing,
                };
                match listing {
                    Ok(listing) => {
                        if directory.is_ignored {
                            ignored_entries += listing.entries;
                        }
                        take(&mut found, directory, listing, root, &mut purpose, &mut next);
                    }
                    // Gone, or no directory any more.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(e) => {
                        let why = std::io::Error::from(e).to_string();
                        found.unsearched.insert(RawPath(directory.path.clone()), why);
                    }
                }
            }
        }
        next.retain(|directory| !hidden.contains(&directory.path));
        level = next;
    }
    found
}

struct Directory {
    path: PathBuf,
    is_ignored: bool,
}

/// The relevant entries of one directory.
#[derive(Default)]
struct Listing {
    entries: usize,
    directories: Vec<OsString>,
    git: Vec<OsString>,
    names: Vec<OsString>,
    marks: RepositoryMarks,
    has_ignore_file: bool,
}

fn take(
    found: &mut ProtectedEntries,
    directory: &Directory,
    listing: Listing,
    root: &Path,
    purpose: &mut Purpose<'_>,
    next: &mut Vec<Directory>,
) {
    let dir = &directory.path;
    let is_ignored = directory.is_ignored;
    let see = |path: &Path| RealDisk.inspect(path).ok().map(|info| EntryStat::of(&info, is_ignored));
    let is_known = match purpose {
        Purpose::Before(_) => true,
        Purpose::After { before, .. } => before.bare.contains_key(dir.as_path()),
    };
    // The workspace itself cannot be one when the command begins, whatever its entries are called.
    if listing.marks.is_repository() && !(is_known && dir == root) {
        if let Some(seen) = see(dir) {
            found.bare.insert(RawPath(dir.clone()), seen);
        }
        // Read-only as a whole. What has become one since the command began is searched like any other directory.
        if is_known {
            return;
        }
    } else if !listing.marks.is_empty() {
        found.marks.insert(RawPath(dir.clone()), listing.marks);
    }
    for name in &listing.git {
        let path = dir.join(name);
        if let Some(seen) = see(&path) {
            found.repositories.insert(RawPath(path), seen);
        }
    }
    if let Purpose::Before(rules) = purpose
        && !is_ignored
    {
        if listing.has_ignore_file {
            rules.read(dir, &dir.join(IGNORE_FILE));
        }
        if !listing.git.is_empty() {
            rules.read(dir, &dir.join(GIT).join("info/exclude"));
        }
    }
    let is_root = !is_ignored && (dir == root || !listing.git.is_empty());
    for name in listing.names.iter().filter(|_| is_root) {
        let path = dir.join(name);
        if let Some(seen) = see(&path) {
            found.names.insert(RawPath(path), seen);
        }
    }
    let rules: &IgnoreRules = match purpose {
        Purpose::Before(rules) => rules,
        Purpose::After { rules, .. } => rules,
    };
    for name in listing.directories {
        // What is protected is read-only or compared as a whole.
        if is_git(&name) || (is_root && is_protected(&name)) {
            continue;
        }
        let path = dir.join(name);
        let is_ignored = is_ignored || rules.ignores(&path, root);
        next.push(Directory { path, is_ignored });
    }
}

/// Lists directories, by several threads where that pays.
fn list_all(directories: &[Directory]) -> Vec<Result<Listing, Errno>> {
    let threads_max = if directories.len() < DIRECTORIES_ALONE_MAX { 1 } else { THREADS_MAX };
    parallel_map(directories, threads_max, |directory| list(&directory.path))
        .unwrap_or_else(|_| directories.iter().map(|_| Err(Errno::IO)).collect())
}

fn list(dir: &Path) -> Result<Listing, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty())?;
    let mut listing = Listing::default();
    // Four system calls for most directories; an ordinary `Dir` makes twice as many.
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(&fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        listing.entries += 1;
        listing.marks.add(name);
        if is_git(name) {
            listing.git.push(name.to_owned());
        } else if is_protected(name) {
            listing.names.push(name.to_owned());
        }
        listing.has_ignore_file |= name == IGNORE_FILE;
        let is_directory = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => {
                let stat = rustix::fs::statat(&fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
                stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
            }
            _ => false,
        };
        if is_directory {
            listing.directories.push(name.to_owned());
        }
    }
    Ok(listing)
}

/// Lists a directory that the command may have closed to keep us out: it is opened again for its owner.
fn reopen(dir: &Path, purpose: &Purpose<'_>) -> Result<Listing, Errno> {
    let Purpose::After { before, .. } = purpose else { return Err(Errno::ACCESS) };
    if before.unsearched.contains_key(dir) {
        return Err(Errno::ACCESS);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty())?;
    super::quarantine::open_for_owner(&fd)?;
    list(dir)
}

const IGNORE_FILE: &str = ".gitignore";
/// The longest list of ignored names that is used: a longer one takes long to compile.
const IGNORE_FILE_BYTES_MAX: u64 = 64 << 10;
/// The number of entries of ignored directories that are searched.
pub(super) const IGNORED_ENTRIES_MAX: usize = 100_000;
const THREADS_MAX: usize = 4;
const LISTING_BYTES: usize = 8 << 10;
/// The number of directories that one thread lists faster than a second one starts.
const DIRECTORIES_ALONE_MAX: usize = 64;
const DIRECTORIES_AT_ONCE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path, found: &BTreeMap<RawPath, EntryStat>) -> Vec<String> {
        found.keys().map(|path| path.0.strip_prefix(root).unwrap().display().to_string()).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test lays out the disk")]
    fn ignored_directories_are_searched_for_repositories_alone_up_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for dir in [".git/info", "built/a/.git", "built/b/c/.git", "kept/a/.git", "listed/.git"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        std::fs::write(root.join(".gitignore"), "/built/\n").unwrap();
        std::fs::write(root.join(".git/info/exclude"), "listed\n").unwrap();
        for name in ["AGENTS.md", "built/a/AGENTS.md", "kept/a/AGENTS.md", "kept/AGENTS.md"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        let mut rules = IgnoreRules::default();
        let found = search(&root, &HashSet::new(), Purpose::Before(&mut rules));
        let repositories = [".git", "built/a/.git", "built/b/c/.git", "kept/a/.git", "listed/.git"];
        assert_eq!(names(&root, &found.repositories), repositories);
        assert_eq!(names(&root, &found.names), ["AGENTS.md", "kept/a/AGENTS.md"]);
        assert!(!found.is_bounded);
        // A command cannot have a directory left out by ignoring it afterwards.
        std::fs::write(root.join(".gitignore"), "*\n").unwrap();
        let after = Purpose::After { rules: &rules, before: &found };
        let bounded = search_up_to(2, &root, &HashSet::new(), after);
        assert!(bounded.is_bounded);
        assert!(names(&root, &bounded.repositories).contains(&"kept/a/.git".to_owned()), "{bounded:?}");
        assert!(!names(&root, &bounded.repositories).contains(&"built/b/c/.git".to_owned()), "{bounded:?}");
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_written_and_read() {
        for bytes in [&b"/a/b"[..], b"/a/\xff\n\"", b""] {
            let path = RawPath(OsStr::from_bytes(bytes).into());
            let text = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RawPath>(&text).unwrap(), path);
        }
    }
}
