//! Names whose content other programs execute or obey: repositories, hooks, settings of editors and of agents.
//!
//! A command in the sandbox and a tool for files can change the workspace, and a person's next `git status`, `cd` or
//! editor runs outside of any sandbox. Whatever these programs execute without being asked is therefore protected:
//! Git's own directories at any depth, and [`PROTECTED_NAMES`] at the root of the workspace and of every repository.
//!
//! Names are compared without regard to ASCII case, because a file system may ignore it.

use std::ffi::OsStr;
use std::path::Path;

use manent::log::fs::{Disk, Shape};
use serde::{Deserialize, Serialize};

/// Names that are protected at the root of the workspace and at the root of each repository in it (a directory that
/// holds `.git`). [`GIT`] itself is protected at any depth.
pub const PROTECTED_NAMES: [&str; 17] = [
    ".hg",
    ".jj",
    ".envrc",
    ".husky",
    ".pre-commit-config.yaml",
    ".vscode",
    ".idea",
    ".zed",
    ".cursor",
    ".claude",
    ".codex",
    ".gemini",
    ".agents",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
];

/// The directory of a repository, or the file that names one. Protected at any depth.
pub const GIT: &str = ".git";

/// Returns whether `name` is that of a repository.
pub(crate) fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(GIT)
}

/// Returns whether `name` is protected at the root of a workspace or repository.
pub(crate) fn is_protected(name: &OsStr) -> bool {
    PROTECTED_NAMES.iter().any(|protected| name.eq_ignore_ascii_case(protected))
}

/// The entries of a directory by which Git recognises a repository without a work tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RepositoryMarks(u8);

impl RepositoryMarks {
    /// The names that are looked for. With `commondir`, Git looks for objects and refs where that file says.
    pub(crate) const NAMES: [&'static str; 4] = ["HEAD", "objects", "refs", "commondir"];

    /// Takes note of an entry, if it is one of them.
    pub(crate) fn add(&mut self, name: &OsStr) {
        if let Some(at) = RepositoryMarks::NAMES.iter().position(|mark| name.eq_ignore_ascii_case(mark)) {
            self.0 |= 1 << at;
        }
    }

    /// Returns whether `name` is among the entries that were noted.
    pub(crate) fn has(self, name: &OsStr) -> bool {
        let mut one = RepositoryMarks::default();
        one.add(name);
        one.0 != 0 && self.0 & one.0 == one.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether Git takes a directory with these entries for a repository, whatever they are.
    pub(crate) fn is_repository(self) -> bool {
        let has = |name: &str| self.has(name.as_ref());
        has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
    }

    /// Looks at a directory. What cannot be looked at is not there.
    pub(crate) fn of(disk: &dyn Disk, dir: &Path) -> RepositoryMarks {
        let mut marks = RepositoryMarks::default();
        for name in RepositoryMarks::NAMES {
            if disk.inspect(&dir.join(name)).is_ok() {
                marks.add(name.as_ref());
            }
        }
        marks
    }
}

/// The protection of a file from tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Part of a repository, or would make one: never written.
    Repository,
    /// Protected by its name, or the target of a protected link: a person approves each change.
    Name,
}

/// Returns what protects `path`, which lies in the workspace `root`; both without symbolic links.
pub(crate) fn protection(disk: &dyn Disk, root: &Path, path: &Path) -> Option<Protection> {
    let inside = path.strip_prefix(root).ok()?;
    let mut dir = root.to_owned();
    let mut protection = None;
    for name in inside {
        let mut marks = RepositoryMarks::of(disk, &dir);
        marks.add(name);
        if is_git(name) || marks.is_repository() {
            return Some(Protection::Repository);
        }
        if dir == root || disk.inspect(&dir.join(GIT)).is_ok() {
            let is_target = |protected: &str| {
                let link = dir.join(protected);
                let is_link = disk.inspect(&link).is_ok_and(|info| info.shape == Shape::Link);
                is_link && disk.resolve(&link).is_ok_and(|target| path.starts_with(target))
            };
            if is_protected(name) || PROTECTED_NAMES.iter().any(|name| is_target(name)) {
                protection = Some(Protection::Name);
            }
        }
        dir.push(name);
    }
    protection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_head_with_objects_and_refs_or_with_commondir() {
        let is_repository = |names: &[&str]| {
            let mut marks = RepositoryMarks::default();
            for name in names {
                marks.add(name.as_ref());
            }
            marks.is_repository()
        };
        assert!(is_repository(&["HEAD", "objects", "refs", "src"]));
        assert!(is_repository(&["HEAD", "commondir"]));
        assert!(is_repository(&["head", "Objects", "REFS"]), "a file system may ignore case");
        for names in [&["HEAD", "objects"][..], &["objects", "refs"], &["HEAD"], &["commondir", "refs"], &[]]
        {
            assert!(!is_repository(names), "{names:?}");
        }
    }
}
