//! `write_file`: a file with a content, new or instead of an old one.

use std::sync::Arc;

use serde::Deserialize;

use super::arguments::{Argument, ArgumentType, ToolSpec};
use super::error::ToolError;
use super::file_edit::{self, EditJob, FileEdit};
use super::workspace::{FILE_BYTES_MAX, Workspace};
use super::{CallSubject, PreparedCall, ToolEffect, text};

pub(super) const NAME: &str = "write_file";
pub(super) const SPEC: ToolSpec = ToolSpec {
    name: NAME,
    effect: ToolEffect::Write,
    about: "Make a file, or replace all of it. To change a part, use edit_file.",
    arguments: &[
        Argument::required("path", ArgumentType::Text, "Path from the workspace"),
        Argument::required("content", ArgumentType::Text, "The whole content"),
    ],
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    content: String,
}

pub(super) fn prepare(workspace: &Arc<Workspace>, raw: &str) -> Result<PreparedCall, ToolError> {
    let Arguments { path, content } = SPEC.read(raw)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(SPEC.wrong(format!("\"content\" has {} bytes; write less", content.len())));
    }
    let mut spot = workspace.spot(&path)?;
    file_edit::check(workspace, &mut spot)?;
    let what = text::what(if spot.info.is_some() { "replace" } else { "make" }, &spot.shown);
    let subject = CallSubject::Path(spot.shown.clone());
    let once_because = spot.once_because;
    let job = EditJob::new(workspace, spot, move |workspace, file| {
        let before = file.info.map(|_| workspace.read(file)).transpose()?;
        let (lines, bytes) = (content.lines().count(), content.len());
        let verb = if before.is_some() { "replaced" } else { "made" };
        let message = format!("{verb} {}: {lines} lines, {bytes} bytes", file.shown);
        Ok(FileEdit { before, after: content.clone().into_bytes(), message })
    });
    Ok(PreparedCall { once_because, ..SPEC.prepared(subject, what, job) })
}
