//! Inodes and names: which directory entry leads to which content, now and after a power cut.
//!
//! Content belongs to an inode, names belong to directories, as on a real disk; so a synced file whose name
//! was not synced is lost, and a synced name can lead to an empty file. A path is a list of plain names from
//! one root: `/a/b`, `a/b` and `./a/b` are the same file.
//!
//! The invariant: an inode lives as long as a handle, a live name, a durable name or a pending change can
//! lead to it. Then its number may be used again, as on ext4.
//!
//! What it does not do: count operations, inject faults, hold locks, follow symbolic links (there are none).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::changes::{Edit, NamesCut, Pending};
use crate::clock::Clock;
use crate::pages::{CutStyle, Pages};
use crate::rng::Rng;

pub(crate) type Ino = u64;
pub(crate) type Names = BTreeMap<OsString, Ino>;

/// All inodes and the changes of names that are not durable.
#[derive(Debug)]
pub(crate) struct Tree {
    inodes: BTreeMap<Ino, Inode>,
    pending: Pending,
    /// Numbers below the highest that nobody uses.
    free: Vec<Ino>,
    /// The time stamp of what changes now.
    pub(crate) stamp_ns: i64,
}

#[derive(Debug)]
pub(crate) struct Inode {
    body: Body,
    /// Number of live names. The root has one although nobody wrote it.
    pub(crate) links: u64,
    handles: u64,
    pub(crate) modified_ns: i64,
    pub(crate) changed_ns: i64,
}

#[derive(Debug)]
enum Body {
    File(Pages),
    Directory { live: Names, durable: Names },
}

impl Tree {
    pub(crate) fn new() -> Self {
        let root = Inode { links: 1, ..Inode::new(Body::directory()) };
        let (inodes, stamp_ns) = (BTreeMap::from([(ROOT, root)]), Clock::default().stamp_ns());
        Self { inodes, pending: Pending::default(), free: Vec::new(), stamp_ns }
    }

    /// All that has a name, as it is seen now, under the same numbers; durable, and open nowhere.
    pub(crate) fn settled(&self) -> Self {
        let (inodes, stamp_ns) = (BTreeMap::new(), self.stamp_ns);
        let mut tree = Self { inodes, pending: Pending::default(), free: self.free.clone(), stamp_ns };
        for (&ino, inode) in &self.inodes {
            let body = match &inode.body {
                Body::File(pages) => Body::File(Pages::durable(pages.bytes().to_vec())),
                Body::Directory { live, .. } => Body::Directory { live: live.clone(), durable: live.clone() },
            };
            tree.inodes.insert(ino, Inode { body, links: inode.links, handles: 0, ..*inode });
        }
        tree.collect();
        tree
    }

    /// Returns the inode that a path leads to.
    pub(crate) fn resolve(&self, path: &Path) -> io::Result<Ino> {
        // The parent of `log` is the empty path, which no system call accepts.
        if path.as_os_str().is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.walk(&components(path))
    }

    pub(crate) fn inode(&self, ino: Ino) -> &Inode {
        &self.inodes[&ino]
    }

    pub(crate) fn inode_mut(&mut self, ino: Ino) -> &mut Inode {
        let inode = self.inodes.get_mut(&ino);
        let Some(inode) = inode else { unreachable!("an inode lives as long as something leads to it") };
        inode
    }

    /// The names in a directory.
    pub(crate) fn names(&self, dir: Ino) -> io::Result<&Names> {
        match &self.inode(dir).body {
            Body::Directory { live, .. } => Ok(live),
            Body::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// The content of a file.
    pub(crate) fn pages(&self, ino: Ino) -> io::Result<&Pages> {
        match &self.inode(ino).body {
            Body::File(pages) => Ok(pages),
            Body::Directory { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    /// The content of a file, to be changed.
    pub(crate) fn pages_mut(&mut self, ino: Ino) -> io::Result<&mut Pages> {
        match &mut self.inode_mut(ino).body {
            Body::File(pages) => Ok(pages),
            Body::Directory { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(crate) fn create_file(&mut self, path: &Path) -> io::Result<Ino> {
        let (dir, name) = self.entry(path)?;
        if self.names(dir)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Ok(self.create(dir, name, Body::File(Pages::default())))
    }

    /// Makes a directory and its missing parents, but no more than `count_max` directories.
    pub(crate) fn create_dirs(&mut self, path: &Path, count_max: u64) -> io::Result<()> {
        let mut dir = ROOT;
        let mut created = 0;
        for name in components(path) {
            dir = match self.names(dir)?.get(name) {
                Some(&child) => child,
                None if created == count_max => return Ok(()),
                None => {
                    created += 1;
                    self.create(dir, name, Body::directory())
                }
            };
        }
        self.names(dir).map(|_| ())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_dir, from_name) = self.entry(from)?;
        let ino = self.resolve(from)?;
        let (to_dir, to_name) = self.entry(to)?;
        let over = self.names(to_dir)?.get(to_name).copied();
        if over == Some(ino) {
            return Ok(());
        }
        let moves_dir = self.names(ino).is_ok();
        if moves_dir && self.within(ino, to_dir) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        match over.map(|over| self.names(over)) {
            Some(Ok(_)) if !moves_dir => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Ok(names)) if !names.is_empty() => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            Some(Err(not_a_directory)) if moves_dir => return Err(not_a_directory),
            _ => {}
        }
        self.change(vec![Edit::new(from_dir, from_name, None), Edit::new(to_dir, to_name, Some(ino))]);
        Ok(())
    }

    /// Renames to a name that leads nowhere yet.
    pub(crate) fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.resolve(from)?;
        match self.resolve(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => self.rename(from, to),
        }
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.entry(path)?;
        self.pages(self.resolve(path)?)?;
        self.change(vec![Edit::new(dir, name, None)]);
        Ok(())
    }

    /// Removes a directory that is empty.
    pub(crate) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.entry(path)?;
        if !self.names(self.resolve(path)?)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.change(vec![Edit::new(dir, name, None)]);
        Ok(())
    }

    /// Makes the changes of a directory durable; a rename waits for its other directory.
    pub(crate) fn sync_dir(&mut self, dir: Ino) -> io::Result<()> {
        self.names(dir)?;
        let edits = self.pending.sync_dir(dir);
        self.write_down(edits);
        Ok(())
    }

    /// Makes the path and the directories above it durable, for tests that lay out a disk by hand.
    pub(crate) fn settle_path(&mut self, path: &Path) {
        let names = components(path);
        for (depth, name) in names.iter().enumerate() {
            if let Ok(dir) = self.walk(&names[..depth]) {
                let edits = self.pending.settle_entry(dir, name);
                self.write_down(edits);
            }
        }
    }

    /// A handle to the inode was opened.
    pub(crate) fn hold(&mut self, ino: Ino) {
        self.inode_mut(ino).handles += 1;
    }

    /// A handle to the inode was closed.
    pub(crate) fn release(&mut self, ino: Ino) {
        let inode = self.inode_mut(ino);
        assert!(inode.handles > 0, "a handle is closed once");
        inode.handles -= 1;
        if inode.handles == 0 && inode.links == 0 {
            self.collect();
        }
    }

    /// All handles are gone with their processes.
    pub(crate) fn release_all(&mut self) {
        for inode in self.inodes.values_mut() {
            inode.handles = 0;
        }
        self.collect();
    }

    /// The power fails. Says in words what became of names and content.
    pub(crate) fn cut(&mut self, forced: Option<CutStyle>, rng: &mut Rng) -> String {
        let style = NamesCut::pick(rng);
        let mut report = format!("power cut: {} changes of names {style:?}", self.pending.len());
        let edits = self.pending.cut(style, rng);
        self.write_down(edits);
        for inode in self.inodes.values_mut() {
            inode.links = 0;
            if let Body::Directory { live, durable } = &mut inode.body {
                // What it was like at this time nobody has seen.
                (inode.modified_ns, inode.changed_ns) = (self.stamp_ns, self.stamp_ns);
                live.clone_from(durable);
            }
        }
        self.release_all();
        self.count_links();
        // In half of the cuts one style holds for all files, so that "nothing at all was lost" is not rare.
        let common = forced.or_else(|| rng.chance(1, 2).then(|| CutStyle::pick(rng)));
        for (ino, inode) in &mut self.inodes {
            if let Body::File(pages) = &mut inode.body {
                let style = common.unwrap_or_else(|| CutStyle::pick(rng));
                let before = pages.bytes().len();
                pages.cut(style, rng);
                let after = pages.bytes().len();
                // Writing to a string cannot fail.
                let _ = write!(report, "; inode {ino} {style:?} {before} -> {after} B");
            }
        }
        report
    }

    /// Clean pages are reclaimed, which shows what a failed sync has lost.
    pub(crate) fn drop_clean(&mut self) {
        for inode in self.inodes.values_mut() {
            if let Body::File(pages) = &mut inode.body {
                pages.drop_clean();
            }
        }
    }

    /// Bytes of all files that have a name or a handle.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.inodes.values().filter(|inode| inode.links + inode.handles > 0).map(Inode::len).sum()
    }

    /// Absolute paths of all files, sorted.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut todo = vec![(ROOT, PathBuf::from("/"))];
        while let Some((ino, path)) = todo.pop() {
            match self.names(ino) {
                Ok(names) => todo.extend(names.iter().map(|(name, &child)| (child, path.join(name)))),
                Err(_) => files.push(path),
            }
        }
        files.sort();
        files
    }

    fn walk(&self, names: &[&OsStr]) -> io::Result<Ino> {
        names.iter().try_fold(ROOT, |dir, &name| {
            self.names(dir)?.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    /// The directory and the name that a path's last component stands for. The name need not exist.
    fn entry<'a>(&self, path: &'a Path) -> io::Result<(Ino, &'a OsStr)> {
        let mut names = components(path);
        let root =
            if path.as_os_str().is_empty() { io::ErrorKind::NotFound } else { io::ErrorKind::IsADirectory };
        let name = names.pop().ok_or(root)?;
        let dir = self.walk(&names)?;
        self.names(dir).map(|_| (dir, name))
    }

    fn create(&mut self, dir: Ino, name: &OsStr, body: Body) -> Ino {
        let ino = self.free.pop().unwrap_or(ROOT + self.inodes.len() as u64);
        let (modified_ns, changed_ns) = (self.stamp_ns, self.stamp_ns);
        let taken = self.inodes.insert(ino, Inode { modified_ns, changed_ns, ..Inode::new(body) });
        assert!(taken.is_none(), "numbers below the highest are in use or free");
        self.change(vec![Edit::new(dir, name, Some(ino))]);
        ino
    }

    /// Applies a change to the live names and remembers it until it is durable.
    fn change(&mut self, edits: Vec<Edit>) {
        let stamp_ns = self.stamp_ns;
        for edit in &edits {
            let dir = self.inode_mut(edit.dir);
            (dir.modified_ns, dir.changed_ns) = (stamp_ns, stamp_ns);
            let Body::Directory { live, .. } = &mut self.inode_mut(edit.dir).body else {
                unreachable!("only directories have entries")
            };
            if let Some(before) = apply(live, edit) {
                let before = self.inode_mut(before);
                (before.links, before.changed_ns) = (before.links - 1, stamp_ns);
            }
            if let Some(to) = edit.to {
                let to = self.inode_mut(to);
                (to.links, to.changed_ns) = (to.links + 1, stamp_ns);
            }
        }
        self.pending.push(edits);
    }

    /// Applies edits to the durable names.
    fn write_down(&mut self, edits: Vec<Edit>) {
        let mut replaces = false;
        for edit in edits {
            let Body::Directory { durable, .. } = &mut self.inode_mut(edit.dir).body else {
                unreachable!("only directories have entries")
            };
            replaces |= apply(durable, &edit).is_some();
        }
        if replaces {
            self.collect();
        }
    }

    /// Returns true if `dir` is `top` or lies somewhere below it.
    fn within(&self, top: Ino, dir: Ino) -> bool {
        top == dir || self.names(top).is_ok_and(|names| names.values().any(|&child| self.within(child, dir)))
    }

    /// Counts the names anew, from what the root leads to.
    fn count_links(&mut self) {
        let mut todo = vec![ROOT];
        while let Some(ino) = todo.pop() {
            let inode = self.inode_mut(ino);
            inode.links += 1;
            if let Body::Directory { live, .. } = &inode.body {
                todo.extend(live.values());
            }
        }
    }

    /// Forgets inodes that nothing can lead to any more.
    fn collect(&mut self) {
        let held = self.inodes.iter().filter(|(_, inode)| inode.handles > 0).map(|(&ino, _)| ino);
        let edited = self.pending.edits().flat_map(|edit| [Some(edit.dir), edit.to]).flatten();
        let mut todo: Vec<Ino> = held.chain(edited).chain([ROOT]).collect();
        let mut reached = BTreeSet::new();
        while let Some(ino) = todo.pop() {
            if !reached.insert(ino) {
                continue;
            }
            if let Body::Directory { live, durable } = &self.inode(ino).body {
                todo.extend(live.values().chain(durable.values()));
            }
        }
        let free = &mut self.free;
        self.inodes.retain(|ino, _| {
            let keep = reached.contains(ino);
            if !keep {
                free.push(*ino);
            }
            keep
        });
    }
}

impl Inode {
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.body, Body::File(_))
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.body {
            Body::File(pages) => pages.bytes().len() as u64,
            Body::Directory { .. } => 0,
        }
    }

    fn new(body: Body) -> Self {
        Self { body, links: 0, handles: 0, modified_ns: 0, changed_ns: 0 }
    }
}

impl Body {
    fn directory() -> Self {
        Self::Directory { live: Names::new(), durable: Names::new() }
    }
}

/// Does an edit; gives what the name led to before.
fn apply(names: &mut Names, edit: &Edit) -> Option<Ino> {
    match edit.to {
        Some(ino) => names.insert(edit.name.clone(), ino),
        None => names.remove(&edit.name),
    }
}

/// The one spelling of a path that has no detours.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    absolute.extend(components(path));
    absolute
}

fn components(path: &Path) -> Vec<&OsStr> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
        }
    }
    names
}

const ROOT: Ino = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
        result.err().map(|e| e.kind())
    }

    #[test]
    fn paths_are_plain_components_from_one_root() {
        let mut tree = Tree::new();
        tree.create_dirs(Path::new("/a/b"), u64::MAX).unwrap();
        let ino = tree.create_file(Path::new("a/b/f")).unwrap();
        for path in ["/a/b/f", "./a/b/f", "a//b/../b/f"] {
            assert_eq!(tree.resolve(Path::new(path)).unwrap(), ino, "{path}");
        }
        assert_eq!(tree.resolve(Path::new(".")).unwrap(), ROOT);
        assert_eq!(kind(tree.resolve(Path::new(""))), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(tree.resolve(Path::new("/a/c"))), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(tree.resolve(Path::new("/a/b/f/g"))), Some(io::ErrorKind::NotADirectory));
        assert_eq!(kind(tree.create_dirs(Path::new("/a/b/f"), 9)), Some(io::ErrorKind::NotADirectory));
        assert_eq!(tree.files(), [Path::new("/a/b/f")]);
    }

    #[test]
    fn renames_refuse_what_a_real_disk_refuses() {
        let mut tree = Tree::new();
        tree.create_dirs(Path::new("/a/b"), u64::MAX).unwrap();
        let ino = tree.create_file(Path::new("/f")).unwrap();
        let mut rename = |from: &str, to: &str| kind(tree.rename(Path::new(from), Path::new(to)));
        assert_eq!(rename("/f", "/a"), Some(io::ErrorKind::IsADirectory));
        assert_eq!(rename("/a", "/f"), Some(io::ErrorKind::NotADirectory));
        assert_eq!(rename("/a", "/a/b/c"), Some(io::ErrorKind::InvalidInput));
        assert_eq!(rename("/none", "/g"), Some(io::ErrorKind::NotFound));
        assert_eq!(rename("/f", "/none/g"), Some(io::ErrorKind::NotFound));
        assert_eq!(rename("/f", "/f"), None);
        assert_eq!(rename("/f", "/a/b/f"), None);
        assert_eq!(tree.resolve(Path::new("/a/b/f")).unwrap(), ino);
        assert_eq!(kind(tree.remove(Path::new("/a"))), Some(io::ErrorKind::IsADirectory));
        let mut rename_new = |from: &str, to: &str| kind(tree.rename_new(Path::new(from), Path::new(to)));
        for to in ["/a", "/a/b", "/a/b/f", "/"] {
            assert_eq!(rename_new("/a/b/f", to), Some(io::ErrorKind::AlreadyExists), "{to}");
        }
        assert_eq!(rename_new("/none", "/a"), Some(io::ErrorKind::NotFound));
        assert_eq!(rename_new("/a", "/a/b/c"), Some(io::ErrorKind::InvalidInput));
        assert_eq!(rename_new("/a/b/f", "/f"), None);
    }

    #[test]
    fn an_inode_lives_until_its_removal_is_durable_and_its_number_is_used_again() {
        let mut tree = Tree::new();
        let path = Path::new("/f");
        let old = tree.create_file(path).unwrap();
        tree.sync_dir(ROOT).unwrap();
        tree.hold(old);
        tree.remove(path).unwrap();
        assert_eq!(tree.inode(old).links, 0);
        assert_ne!(tree.create_file(path).unwrap(), old, "the power may still fail");
        tree.sync_dir(ROOT).unwrap();
        assert_ne!(tree.create_file(Path::new("/g")).unwrap(), old, "a handle is open");
        tree.release(old);
        assert_eq!(tree.create_file(Path::new("/h")).unwrap(), old);
        tree.remove(Path::new("/h")).unwrap();
        tree.sync_dir(ROOT).unwrap();
        assert_eq!(tree.create_file(Path::new("/i")).unwrap(), old, "no handle was open");
    }

    #[test]
    fn a_directory_is_lost_with_its_content_if_its_own_name_was_not_synced() {
        let mut lost = 0;
        for seed in 0..200 {
            let mut tree = Tree::new();
            tree.create_dirs(Path::new("/d"), u64::MAX).unwrap();
            tree.create_file(Path::new("/d/f")).unwrap();
            tree.sync_dir(tree.resolve(Path::new("/d")).unwrap()).unwrap();
            tree.cut(None, &mut Rng::new(seed));
            let left = tree.files();
            assert!(left.is_empty() || left == [Path::new("/d/f")]);
            lost += usize::from(left.is_empty());
        }
        assert!((50..150).contains(&lost), "{lost} of 200");
    }
}
