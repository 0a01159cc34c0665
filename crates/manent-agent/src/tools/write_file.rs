//! `write_file`: a file with a content, new or instead of an old one.

use serde::Deserialize;

use super::arguments::{Parameter, ParameterType, ToolSpec};
use super::error::ToolError;
use super::file_edit::{self, FileEdit};
use super::workspace::FILE_BYTES_MAX;
use super::{PreparedCall, ToolEffect, Tools};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "write_file",
    effect: ToolEffect::Write,
    about: "Make a file, or replace all of it. To change a part, use edit_file.",
    parameters: &[
        Parameter::required("path", ParameterType::Text, "Path from the workspace"),
        Parameter::required("content", ParameterType::Text, "The whole content"),
    ],
    prepare,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    content: String,
}

fn prepare(tools: &Tools, raw: &str) -> Result<PreparedCall, ToolError> {
    let Arguments { path, content } = SPEC.read(raw)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(SPEC.wrong(format!("\"content\" has {} bytes; write less", content.len())));
    }
    let file = tools.workspace.resolve(&path)?;
    let verb = if file.info.is_some() { "replace" } else { "make" };
    file_edit::prepare(&SPEC, verb, &tools.workspace, file, move |workspace, file| {
        let before = file.info.map(|_| workspace.read(file)).transpose()?;
        let (lines, bytes) = (content.lines().count(), content.len());
        let verb = if before.is_some() { "replaced" } else { "made" };
        let message = format!("{verb} {}: {lines} lines, {bytes} bytes", file.shown);
        Ok(FileEdit { before, after: content.clone().into_bytes(), message })
    })
}
