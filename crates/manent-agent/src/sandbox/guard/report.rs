//! Collects what was undone after a command, as sentences for whoever gets its result.

use std::io;
use std::path::{Path, PathBuf};

use super::quarantine::MoveResult;

/// Something that was undone after a command, or that whoever gets its result should know.
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
    /// Something protected was changed, and was put back.
    Changed,
    /// Something could not be undone.
    Trouble,
    /// Something is not protected as well as usual, because there is too much of it.
    Limit,
}

/// Collects what was undone and what could not be.
#[derive(Debug)]
pub(super) struct GuardReport {
    workspace: PathBuf,
    appeared: Vec<String>,
    changed: Vec<String>,
    objects: Vec<String>,
    troubles: Vec<String>,
    notes: Vec<String>,
}

impl GuardReport {
    pub(super) fn new(workspace: &Path) -> GuardReport {
        GuardReport {
            workspace: workspace.to_owned(),
            appeared: Vec::new(),
            changed: Vec::new(),
            objects: Vec::new(),
            troubles: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Something new was moved away.
    pub(super) fn added(&mut self, path: &Path, moved: &MoveResult) {
        let told = format!("{} appeared during the command and was {}", self.shown(path), to(moved));
        self.appeared.push(told);
    }

    /// Something protected was changed, and what the command made of it was moved away.
    pub(super) fn changed(&mut self, path: &Path, moved: &MoveResult) {
        let told = format!("the command changed {}; its version was {}", self.shown(path), to(moved));
        self.changed.push(told);
    }

    /// Something protected is as it was again.
    pub(super) fn put_back(&mut self, path: &Path) {
        let told = format!("{} was put back as it was before the command", self.shown(path));
        self.changed.push(told);
    }

    /// An object of Git is not what it was, and there is no copy.
    pub(super) fn object_changed(&mut self, path: &Path) {
        self.objects.push(self.shown(path));
    }

    pub(super) fn trouble(&mut self, path: &Path, what: &str, why: &io::Error) {
        let told = format!(
            "{} could not {what}: {why}; look at it before you use Git or an editor there",
            self.shown(path)
        );
        self.troubles.push(told);
    }

    /// Something differs, but was changed after the command.
    pub(super) fn later(&mut self, path: &Path) {
        let told = format!("{} was changed later, and left as it is; look at it", self.shown(path));
        self.troubles.push(told);
    }

    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The path from the workspace.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.workspace).unwrap_or(path).display().to_string()
    }

    /// All of them; of very many of a kind, the first and a count.
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
        let kinds = [
            (Cause::Trouble, self.troubles),
            (Cause::Appeared, self.appeared),
            (Cause::Changed, self.changed),
            (Cause::Limit, self.notes),
        ];
        for (cause, texts) in kinds {
            let more = texts.len().saturating_sub(TEXTS_MAX);
            let rest = (more > 0).then(|| format!("and {more} more like this"));
            all.extend(texts.into_iter().take(TEXTS_MAX).chain(rest).map(|text| GuardNote { cause, text }));
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
