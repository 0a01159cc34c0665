//! The change of a file by a tool: computed once, shown as a diff, and applied if the file is still what it was.
//!
//! A file is replaced as a whole or not at all, even if the power fails or the disk is full: the new content is written
//! to a temporary file, synced, and renamed. The file must still have the content that was shown to the person who
//! approved the change.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use manent::log::fs::{Access, Disk, Shape};
use manent::log::{AtomicFile, CommitSync};
use similar::TextDiff;

use super::arguments::ToolSpec;
use super::error::ToolError;
use super::workspace::{ResolvedPath, Workspace, system};
use super::{CallSubject, Job, PreparedCall, ToolResult, text};
use crate::protected::{Protection, protection};

/// The content of a file before and after a change.
#[derive(Debug, Clone)]
pub(super) struct FileEdit {
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
    /// The message to the model after the change.
    pub(super) message: String,
}

/// Computes the edit of a file from its current content.
type ComputeEdit = dyn Fn(&Workspace, &ResolvedPath) -> Result<FileEdit, ToolError> + Send + Sync;

/// A call that changes one file. The edit is computed once, so that what is applied is what was shown.
struct EditJob {
    workspace: Arc<Workspace>,
    file: ResolvedPath,
    compute: Box<ComputeEdit>,
    edit: OnceLock<Result<FileEdit, ToolError>>,
}

/// Prepares the change of a file, which must be one that may be written. `compute` is called when the change is shown
/// or made.
pub(super) fn prepare(
    spec: &ToolSpec,
    verb: &str,
    workspace: &Arc<Workspace>,
    mut file: ResolvedPath,
    compute: impl Fn(&Workspace, &ResolvedPath) -> Result<FileEdit, ToolError> + Send + Sync + 'static,
) -> Result<PreparedCall, ToolError> {
    check(workspace, &mut file)?;
    let what = text::what(verb, &file.shown);
    let (subject, once_because) = (CallSubject::Path(file.shown.clone()), file.once_because);
    let workspace = Arc::clone(workspace);
    let job = EditJob { workspace, file, compute: Box::new(compute), edit: OnceLock::new() };
    Ok(PreparedCall { once_because, ..spec.prepared(subject, what, job) })
}

impl EditJob {
    fn edit(&self) -> Result<&FileEdit, ToolError> {
        let edit = self.edit.get_or_init(|| (self.compute)(&self.workspace, &self.file));
        edit.as_ref().map_err(Clone::clone)
    }
}

impl Job for EditJob {
    fn preview(&self) -> Result<Option<String>, ToolError> {
        let FileEdit { before, after, .. } = self.edit()?;
        if before.as_deref() == Some(after) {
            return Ok(Some(format!("{}: nothing changes\n", self.file.shown)));
        }
        Ok(Some(unified_diff(&self.file.shown, before.as_deref(), after)))
    }

    fn run(&self, _: &dyn Fn() -> bool) -> Result<ToolResult, ToolError> {
        let edit = self.edit()?;
        replace(&self.workspace, &self.file, edit.before.as_deref(), &edit.after)?;
        Ok(ToolResult::of(edit.message.clone()))
    }
}

/// Returns a unified diff of a file before and after, as much of it as anybody reads.
pub(crate) fn unified_diff(path: &str, before: Option<&[u8]>, after: &[u8]) -> String {
    let path = &text::one_line_excerpt(path, text::WHAT_CHARS);
    let from = if before.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let before = before.unwrap_or_default();
    if let Some(what) = text::binary(before).or_else(|| text::binary(after)) {
        return format!("{path}: {what}, {} bytes before, {} after\n", before.len(), after.len());
    }
    let (old, new) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    // A difference that takes longer to find is shown coarser.
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&*old, &*new);
    let shown = diff.unified_diff().context_radius(CONTEXT).header(&from, &format!("b/{path}")).to_string();
    if shown.is_empty() { format!("{path}: an empty file\n") } else { text::beginning(&shown) }
}

/// Refuses what cannot be written, or should not be, and notes in `resolved` if a person must allow this one change.
fn check(workspace: &Workspace, resolved: &mut ResolvedPath) -> Result<(), ToolError> {
    let path = resolved.shown.clone();
    let unfit = |why: &str| Err(ToolError::Unfit { path, why: why.to_owned() });
    // The user's next `git`, editor or agent executes what stands there, outside of any sandbox.
    resolved.once_because = match protection(workspace.disk(), workspace.root(), &resolved.real) {
        Some(Protection::Repository) => {
            return unfit(
                "belongs to a repository, or would make one, and is never written by tools; run git commands",
            );
        }
        Some(Protection::Name) => Some("other programs obey this file without asking you"),
        None => None,
    };
    match resolved.info {
        Some(info) if info.shape == Shape::Directory => unfit("is a directory; give the path of a file"),
        Some(info) if info.shape != Shape::File => unfit("is no file that can be written"),
        Some(info) if info.mode & OWNER_WRITES == 0 => unfit("is read-only; leave it, or ask the user"),
        _ => Ok(()),
    }
}

/// Puts `after` in the place of `before`; of nothing, if there was no file.
fn replace(
    workspace: &Workspace,
    resolved: &ResolvedPath,
    before: Option<&[u8]>,
    after: &[u8],
) -> Result<(), ToolError> {
    let mut now = workspace.again(resolved)?;
    check(workspace, &mut now)?;
    // The person who allowed it must have been told this reason.
    if now.once_because != resolved.once_because {
        return Err(changed(resolved));
    }
    let is_same = match (before, now.info) {
        (None, None) => true,
        (Some(before), Some(_)) => workspace.read(&now)? == before,
        _ => false,
    };
    if !is_same {
        return Err(changed(resolved));
    }
    let disk = workspace.disk();
    let failed = |e: io::Error| ToolError::System {
        what: "write",
        path: resolved.shown.clone(),
        why: format!("{e}; the file is as it was"),
    };
    let Some(dir) = resolved.real.parent() else { return Err(failed(io::ErrorKind::InvalidInput.into())) };
    let dir_mode = make_dirs(disk, dir).map_err(failed)?;
    // Like its directory, as a umask would have it: what all may see there, all may see in the file.
    let mode = now.info.map_or(dir_mode & NEW_FILE_MODE, |info| info.mode & MODE);
    let mut file = AtomicFile::create(disk, &resolved.real).map_err(failed)?.with_sync(CommitSync::File);
    file.write_all(after).map_err(failed)?;
    file.set_mode(mode).map_err(failed)?;
    file.sync().map_err(failed)?;
    workspace.again(resolved)?;
    let committed = if before.is_some() { file.commit() } else { file.commit_new() };
    committed.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => changed(resolved),
        _ => failed(e),
    })?;
    // Apart from the rest, because the change is made: it must not be told as one that failed.
    disk.sync_dir(dir)
        .map_err(|e| system("make sure that a power cut does not undo the change of", &resolved.shown, &e))
}

fn changed(resolved: &ResolvedPath) -> ToolError {
    resolved.unfit("changed since this was prepared, and was left as it is; read it again")
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

const DIFF_TIME: Duration = Duration::from_millis(300);
const CONTEXT: usize = 3;
const OWNER_WRITES: u32 = 0o200;
const MODE: u32 = 0o777;
const NEW_FILE_MODE: u32 = 0o666;
