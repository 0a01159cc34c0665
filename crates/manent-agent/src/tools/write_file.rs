//! `write_file`: a file with a content, new or instead of an old one.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use super::arguments::{Argument, ArgumentType, Need, ToolSpec};
use super::change::FileEdit;
use super::error::ToolError;
use super::workspace::{FILE_BYTES_MAX, ResolvedPath, Workspace};
use super::{CallSubject, Job, Output, PreparedCall, ToolEffect, replacing, text};

pub(super) const NAME: &str = "write_file";
pub(super) const SPEC: ToolSpec = ToolSpec {
    name: NAME,
    about: "Make a file, or replace all of it. To change a part, use edit_file.",
    members: &[
        Argument {
            name: "path",
            form: ArgumentType::Text,
            need: Need::Needed,
            about: "Path from the workspace",
        },
        Argument {
            name: "content",
            form: ArgumentType::Text,
            need: Need::Needed,
            about: "The whole content",
        },
    ],
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    content: String,
}

struct Writing {
    workspace: Arc<Workspace>,
    spot: ResolvedPath,
    content: String,
    /// Found out once: what is done is what was shown.
    change: OnceLock<Result<FileEdit, ToolError>>,
}

pub(super) fn prepare(workspace: &Arc<Workspace>, raw: &str) -> Result<PreparedCall, ToolError> {
    let Arguments { path, content } = SPEC.read(raw)?;
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(SPEC.wrong(format!("\"content\" has {} bytes; write less", content.len())));
    }
    let mut spot = workspace.spot(&path)?;
    replacing::check(workspace, &mut spot)?;
    let what = text::what(if spot.info.is_some() { "replace" } else { "make" }, &spot.shown);
    let subject = CallSubject::Path(spot.shown.clone());
    let once_because = spot.once_because;
    let job = Writing { workspace: Arc::clone(workspace), spot, content, change: OnceLock::new() };
    Ok(PreparedCall {
        tool: NAME,
        effect: ToolEffect::Write,
        subject,
        what,
        once_because,
        job: Box::new(job),
    })
}

impl Writing {
    fn change(&self) -> Result<&FileEdit, ToolError> {
        self.change.get_or_init(|| self.find_change()).as_ref().map_err(Clone::clone)
    }

    fn find_change(&self) -> Result<FileEdit, ToolError> {
        let before = self.spot.info.map(|_| self.workspace.read(&self.spot)).transpose()?;
        let (lines, bytes) = (self.content.lines().count(), self.content.len());
        let verb = if before.is_some() { "replaced" } else { "made" };
        let told = format!("{verb} {}: {lines} lines, {bytes} bytes", self.spot.shown);
        Ok(FileEdit { before, after: self.content.clone().into_bytes(), told })
    }
}

impl Job for Writing {
    fn preview(&self) -> Result<Option<String>, ToolError> {
        let change = self.change()?;
        if change.before.as_deref() == Some(&*change.after) {
            return Ok(Some(format!("{}: nothing changes\n", self.spot.shown)));
        }
        Ok(Some(change.shown(&self.spot.shown)))
    }

    fn run(&self, _: &dyn Fn() -> bool) -> Result<Output, ToolError> {
        let change = self.change()?;
        change.apply(&self.workspace, &self.spot)?;
        Ok(Output::of(change.told.clone()))
    }
}
