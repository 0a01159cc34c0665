//! Which files there are for a model: those of the workspace, behind all symbolic links, but none that is hidden.
//!
//! A path is followed before it is used, and once more after the file was opened, so that whoever swaps a link
//! meanwhile gains nothing unless he swaps it back in the same moment. Opening itself follows no link. Hard links
//! cannot be told from files.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use manent::log::fs::{Access, Disk, DiskFile, PathInfo, Shape, read_fully};

use super::arguments::nearest;
use super::error::ToolError;
use super::text;

/// The files that a model may use.
#[derive(Debug, Clone)]
pub(super) struct Workspace {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    hidden: Vec<PathBuf>,
    without: GlobSet,
}

/// A place in the workspace.
#[derive(Debug, Clone)]
pub(super) struct ResolvedPath {
    /// The path as it was asked for, from the root of the file system.
    asked: PathBuf,
    /// The path behind all links; of a file that does not exist, the path that it would have.
    pub(super) real: PathBuf,
    /// The same from the workspace, for people and rules.
    pub(super) shown: String,
    /// The attributes of the file, or `None` if it does not exist.
    pub(super) info: Option<PathInfo>,
    /// The reason why a person must approve each change; set by callers that want to change the file.
    pub(super) once_because: Option<&'static str>,
}

impl ResolvedPath {
    /// Returns the error for a file that exists and cannot be used in this way.
    pub(super) fn unfit(&self, why: impl Into<String>) -> ToolError {
        ToolError::Unfit { path: self.shown.clone(), why: why.into() }
    }
}

impl Workspace {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, hidden: Vec<PathBuf>) -> Result<Workspace, ToolError> {
        let unusable = |why: String| ToolError::Unfit { path: dir.display().to_string(), why };
        let root = disk.resolve(dir).map_err(|e| unusable(format!("cannot be a workspace: {e}")))?;
        if !disk.inspect(&root).is_ok_and(|info| info.shape == Shape::Directory) {
            return Err(unusable("cannot be a workspace: it is no directory".to_owned()));
        }
        let workspace = Workspace { disk, root, hidden, without: GlobSet::empty() };
        if workspace.is_hidden(&workspace.root) {
            return Err(unusable("cannot be a workspace: it is hidden from tools".to_owned()));
        }
        Ok(workspace)
    }

    pub(super) fn without(&self, patterns: &[String]) -> Result<Workspace, ToolError> {
        let mut set = GlobSetBuilder::new();
        for pattern in patterns {
            set.add(glob(pattern).map_err(ToolError::Refused)?);
        }
        let without = set.build().map_err(|e| ToolError::Refused(e.to_string()))?;
        Ok(Workspace { without, ..self.clone() })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The place that a path means: a file, a directory, or nothing yet.
    pub(super) fn resolve(&self, path: &str) -> Result<ResolvedPath, ToolError> {
        let shown = text::excerpt(path);
        if path.is_empty() || path.contains('\0') {
            let why = "is no path; give one from the workspace, such as \"src/main.rs\"".to_owned();
            return Err(ToolError::Unfit { path: shown, why });
        }
        self.resolve_at(&self.root.join(path), &shown)
    }

    /// Resolves the path of something that must exist; otherwise like [`Workspace::resolve`].
    pub(super) fn existing(&self, path: &str) -> Result<ResolvedPath, ToolError> {
        let resolved = self.resolve(path)?;
        if resolved.info.is_some() {
            return Ok(resolved);
        }
        let nearest = self.name_like(&resolved);
        Err(ToolError::NoFile { path: text::excerpt(path), nearest })
    }

    /// The same place, looked at again: it must be where it was.
    pub(super) fn again(&self, resolved: &ResolvedPath) -> Result<ResolvedPath, ToolError> {
        let now = self.resolve_at(&resolved.asked, &resolved.shown)?;
        if now.real == resolved.real {
            return Ok(now);
        }
        Err(resolved.unfit("changed while it was used; try again"))
    }

    fn resolve_at(&self, asked: &Path, shown: &str) -> Result<ResolvedPath, ToolError> {
        let system = |e: io::Error| system("look at", shown, &e);
        let (real, info) = match self.disk.resolve(asked) {
            Ok(real) => {
                self.check(&real, shown)?;
                let info = self.disk.inspect(&real).map_err(system)?;
                (real, Some(info))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let real = self.real_place(asked, shown)?;
                self.check(&real, shown)?;
                (real, None)
            }
            Err(e) => return Err(system(e)),
        };
        let from_root = real.strip_prefix(&self.root).unwrap_or(&real).to_string_lossy().into_owned();
        let shown = if from_root.is_empty() { ".".to_owned() } else { from_root };
        Ok(ResolvedPath { asked: asked.to_owned(), real, shown, info, once_because: None })
    }

    /// Returns the location of a file that does not exist yet: the links of the existing part of its path are followed.
    fn real_place(&self, asked: &Path, shown: &str) -> Result<PathBuf, ToolError> {
        let outside = || self.outside(shown);
        let mut there = asked;
        let mut rest = Vec::new();
        loop {
            // A link that leads nowhere must not become a way out.
            if self.disk.inspect(there).is_ok_and(|info| info.shape == Shape::Link) {
                let why = "is, or leads through, a link to nothing; remove the link or use another path";
                return Err(ToolError::Unfit { path: shown.to_owned(), why: why.to_owned() });
            }
            // `..` behind what is not there has no meaning.
            let Some(Component::Normal(name)) = there.components().next_back() else {
                return Err(outside());
            };
            rest.push(name);
            there = there.parent().ok_or_else(outside)?;
            match self.disk.resolve(there) {
                Ok(mut real) => {
                    real.extend(rest.iter().rev());
                    return Ok(real);
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(system("look at", shown, &e)),
            }
        }
    }

    /// Refuses a resolved path that lies outside of the workspace or is hidden.
    fn check(&self, real: &Path, shown: &str) -> Result<(), ToolError> {
        let is_same = self.disk.resolve(&self.root).is_ok_and(|root| root == self.root);
        if !is_same || !real.starts_with(&self.root) {
            return Err(self.outside(shown));
        }
        if self.is_hidden(real) {
            return Err(ToolError::Hidden(shown.to_owned()));
        }
        Ok(())
    }

    fn outside(&self, shown: &str) -> ToolError {
        ToolError::Outside { path: shown.to_owned(), root: self.root.display().to_string() }
    }

    /// Returns true if a resolved path is hidden. Hidden paths are resolved each time, because they may be created,
    /// moved or linked at any time.
    pub(super) fn is_hidden(&self, real: &Path) -> bool {
        let is_in = |hidden: &PathBuf| {
            real.starts_with(hidden) || self.disk.resolve(hidden).is_ok_and(|hidden| real.starts_with(hidden))
        };
        self.hidden.iter().any(is_in)
            || real.strip_prefix(&self.root).is_ok_and(|path| self.without.is_match(path))
    }

    /// Opens a file to read it.
    pub(super) fn open(&self, resolved: &ResolvedPath) -> Result<Box<dyn DiskFile>, ToolError> {
        match resolved.info.map(|info| info.shape) {
            Some(Shape::File) => {}
            Some(Shape::Directory) => {
                return Err(resolved.unfit("is a directory; search_files with a glob lists what is in it"));
            }
            _ => return Err(resolved.unfit("is no file that can be read")),
        }
        let opened = self.disk.open(&resolved.real, Access::Read);
        let file = opened.map_err(|e| system("read", &resolved.shown, &e))?;
        self.again(resolved)?;
        Ok(file)
    }

    /// Reads a file that is not too long.
    pub(super) fn read(&self, resolved: &ResolvedPath) -> Result<Vec<u8>, ToolError> {
        let file = self.open(resolved)?;
        let failed = |e: io::Error| system("read", &resolved.shown, &e);
        let len = file.state().map_err(failed)?.len;
        if len > FILE_BYTES_MAX {
            let why = format!("has {len} bytes, and {FILE_BYTES_MAX} can be changed at most; run a command");
            return Err(resolved.unfit(why));
        }
        let mut bytes = vec![0; len as usize];
        let got = read_fully(&*file, &mut bytes, 0).map_err(failed)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    /// A name beside something that is not there, which may have been meant.
    fn name_like(&self, resolved: &ResolvedPath) -> Option<String> {
        let (dir, name) = (resolved.real.parent()?, resolved.real.file_name()?.to_str()?);
        let names: Vec<String> = self
            .disk
            .list(dir)
            .ok()?
            .into_iter()
            .take(NAMES_MAX)
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| !self.is_hidden(&dir.join(name)))
            .collect();
        let found = nearest(name, names.iter().map(String::as_str))?;
        dir.strip_prefix(&self.root).ok()?.join(found).into_os_string().into_string().ok()
    }
}

/// Returns the error for a failed system call, for a model.
pub(super) fn system(what: &'static str, shown: &str, error: &io::Error) -> ToolError {
    ToolError::System { what, path: shown.to_owned(), why: error.to_string() }
}

/// A pattern for paths from the workspace: `*` stays in a directory, `**` does not.
pub(crate) fn glob(pattern: &str) -> Result<globset::Glob, String> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|e| format!("{:?} is no pattern for paths: {}", text::excerpt(pattern), e.kind()))
}

/// The longest file that is changed or shown as changed.
pub(super) const FILE_BYTES_MAX: u64 = 10 << 20;
/// Names that are looked at for one that may have been meant.
const NAMES_MAX: usize = 5000;
