//! Collects what was undone after a command, as sentences for whoever gets its result.

use std::io;
use std::path::{Path, PathBuf};

use super::quarantine::MoveResult;

/// A note on a command: a change that was undone, or a fact that the reader of its result should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardNote {
    /// The kind of the note.
    pub cause: Cause,
    /// A sentence for a person or a model. It may contain names of files, as they are.
    pub text: String,
}

/// The kind of a [`GuardNote`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A repository or a protected name appeared, and was moved to the quarantine.
    Appeared,
    /// A protected path was changed, and was put back.
    Changed,
    /// A change could not be undone.
    Trouble,
    /// Protection is weaker than usual, because there are too many files.
    Limit,
}

/// Collects what was undone and what could not be.
#[derive(Debug)]
pub(super) struct GuardReport {
    workspace: PathBuf,
    notes: Vec<GuardNote>,
    objects: Vec<String>,
}

impl GuardReport {
    pub(super) fn new(workspace: &Path) -> GuardReport {
        GuardReport { workspace: workspace.to_owned(), notes: Vec::new(), objects: Vec::new() }
    }

    /// Notes that something new was moved away.
    pub(super) fn added(&mut self, path: &Path, moved: &MoveResult) {
        let text = format!("{} appeared during the command and was {}", self.relative_path(path), to(moved));
        self.note(Cause::Appeared, text);
    }

    /// Notes that something protected was changed, and that the version of the command was moved away.
    pub(super) fn changed(&mut self, path: &Path, moved: &MoveResult) {
        let text = format!("the command changed {}; its version was {}", self.relative_path(path), to(moved));
        self.note(Cause::Changed, text);
    }

    /// Notes that something protected was restored.
    pub(super) fn put_back(&mut self, path: &Path) {
        let text = format!("{} was put back as it was before the command", self.relative_path(path));
        self.note(Cause::Changed, text);
    }

    /// Notes that an object of Git was changed, of which there is no copy.
    pub(super) fn object_changed(&mut self, path: &Path) {
        self.objects.push(self.relative_path(path));
    }

    pub(super) fn trouble(&mut self, path: &Path, what: &str, why: &io::Error) {
        let text = format!(
            "{} could not {what}: {why}; look at it before you use Git or an editor there",
            self.relative_path(path)
        );
        self.note(Cause::Trouble, text);
    }

    /// Notes that something differs, but was changed after the command.
    pub(super) fn later(&mut self, path: &Path) {
        let text = format!("{} was changed later, and left as it is; look at it", self.relative_path(path));
        self.note(Cause::Trouble, text);
    }

    pub(super) fn note(&mut self, cause: Cause, text: String) {
        self.notes.push(GuardNote { cause, text });
    }

    /// Returns a path relative to the workspace, for notes.
    pub(super) fn relative_path(&self, path: &Path) -> String {
        path.strip_prefix(&self.workspace).unwrap_or(path).display().to_string()
    }

    /// Returns the notes; of very many of a kind, the first and a count.
    pub(super) fn into_notes(self) -> Vec<GuardNote> {
        let mut all = Vec::new();
        if let Some(first) = self.objects.first() {
            let count = self.objects.len();
            let text = format!(
                "the command changed or removed {count} Git objects, of which there is no copy (the first is {first}); \
                 `git fsck` tells what is missing"
            );
            all.push(GuardNote { cause: Cause::Trouble, text });
        }
        for cause in [Cause::Trouble, Cause::Appeared, Cause::Changed, Cause::Limit] {
            let of_kind = self.notes.iter().filter(|note| note.cause == cause);
            let more = of_kind.clone().count().saturating_sub(TEXTS_MAX);
            all.extend(of_kind.take(TEXTS_MAX).cloned());
            if more > 0 {
                all.push(GuardNote { cause, text: format!("and {more} more like this") });
            }
        }
        all
    }
}

fn to(moved: &MoveResult) -> String {
    match moved {
        MoveResult::To(path) => format!("moved to {}", path.display()),
        MoveResult::Renamed(path, why) => {
            format!("renamed to {}, because it could not be moved to the quarantine: {why}", path.display())
        }
    }
}

const TEXTS_MAX: usize = 20;
