//! What would become of a file: shown as a difference, then done, if the file is still what it was.

use std::borrow::Cow;
use std::time::Duration;

use similar::TextDiff;

use super::error::ToolError;
use super::replacing;
use super::text;
use super::workspace::{ResolvedPath, Workspace};

/// A file before and after.
#[derive(Debug, Clone)]
pub(super) struct FileEdit {
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
    /// The message to the model after the change.
    pub(super) told: String,
}

impl FileEdit {
    pub(super) fn apply(&self, workspace: &Workspace, spot: &ResolvedPath) -> Result<(), ToolError> {
        replacing::replace(workspace, spot, self.before.as_deref(), &self.after)
    }

    /// Returns the change as a unified diff, cut to a readable length.
    pub(super) fn shown(&self, path: &str) -> String {
        unified_diff(path, self.before.as_deref(), &self.after)
    }
}

/// Returns a unified diff of a file before and after, as much of it as anybody reads.
pub(crate) fn unified_diff(path: &str, before: Option<&[u8]>, after: &[u8]) -> String {
    let path = &text::one_line(path, text::WHAT_CHARS);
    let from = if before.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let before = before.unwrap_or_default();
    if let Some(what) = text::binary(before).or_else(|| text::binary(after)) {
        return format!("{path}: {what}, {} bytes before, {} after\n", before.len(), after.len());
    }
    let (old, new) = (lossy(before), lossy(after));
    // A difference that takes longer to find is shown coarser.
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&*old, &*new);
    let shown = diff.unified_diff().context_radius(CONTEXT).header(&from, &format!("b/{path}")).to_string();
    if shown.is_empty() { format!("{path}: an empty file\n") } else { text::beginning(&shown) }
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

const DIFF_TIME: Duration = Duration::from_millis(300);
const CONTEXT: usize = 3;
