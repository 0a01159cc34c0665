//! `run_command`: a line of shell, run by whoever runs commands here.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::arguments::{Parameter, ParameterType, ToolSpec};
use super::error::ToolError;
use super::{
    CallSubject, CommandRequest, GitPermissions, Job, PreparedCall, Shell, ToolEffect, ToolResult, Tools,
    text,
};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "run_command",
    effect: ToolEffect::Run,
    about: "Run a shell command in the workspace. It has no input and no network.",
    parameters: &[
        Parameter::required("command", ParameterType::Text, "One line of shell"),
        Parameter::optional(
            "timeout_s",
            ParameterType::Number { max: TIMEOUT_MAX_S },
            "Seconds until it is ended",
        ),
        Parameter::optional(
            "writable_git",
            ParameterType::Truth,
            "Let git write commits and branches; the user is asked each time",
        ),
        Parameter::optional(
            "new_repo",
            ParameterType::Truth,
            "Keep new repositories and protected files such as AGENTS.md; the user is asked each time",
        ),
    ],
    prepare,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    timeout_s: Option<u64>,
    #[serde(default)]
    writable_git: bool,
    #[serde(default)]
    new_repo: bool,
}

struct RunCommandJob {
    shell: Arc<dyn Shell>,
    command: String,
    timeout: Duration,
    extras: GitPermissions,
}

fn prepare(tools: &Tools, raw: &str) -> Result<PreparedCall, ToolError> {
    let Some(shell) = &tools.shell else { return Err(tools.no_such(SPEC.name)) };
    let Arguments { command, timeout_s, writable_git, new_repo } = SPEC.read(raw)?;
    if command.trim().is_empty() || command.contains('\0') {
        return Err(SPEC.wrong("\"command\" is no command".to_owned()));
    }
    if command.len() > COMMAND_BYTES_MAX {
        return Err(SPEC.wrong(format!("\"command\" has {} bytes; write a file and run that", command.len())));
    }
    let timeout = Duration::from_secs(timeout_s.unwrap_or(TIMEOUT_S).max(1));
    let extras = GitPermissions { writable_git, new_repo };
    let once_because = once_because(extras);
    let what = text::what("run", &command);
    let subject = CallSubject::Command(command.clone());
    let job = RunCommandJob { shell: Arc::clone(shell), command, timeout, extras };
    Ok(PreparedCall { once_because, ..SPEC.prepared(subject, what, job) })
}

fn once_because(extras: GitPermissions) -> Option<&'static str> {
    match extras {
        GitPermissions { writable_git: true, new_repo: true } => Some(
            "it wants to write commits into .git, and to leave new repositories or protected files behind",
        ),
        GitPermissions { writable_git: true, .. } => Some("it wants to write commits into .git"),
        GitPermissions { new_repo: true, .. } => {
            Some("it wants to leave new repositories or protected files behind")
        }
        GitPermissions { .. } => None,
    }
}

impl Job for RunCommandJob {
    /// Returns the whole command where the line for a person does not hold it, because a person must see what he
    /// allows.
    fn preview(&self) -> Result<Option<String>, ToolError> {
        let is_short = self.command.len() <= text::WHAT_CHARS && !self.command.contains(char::is_control);
        Ok((!is_short).then(|| self.command.clone()))
    }

    fn run(&self, stop: &dyn Fn() -> bool) -> Result<ToolResult, ToolError> {
        let order = CommandRequest { command: &self.command, timeout: self.timeout, extras: self.extras };
        let ran = self
            .shell
            .run(&order, stop)
            .map_err(|why| ToolError::Refused(format!("the command could not be run: {why}")))?;
        let mut content = text::end(&ran.output);
        let seconds = ran.duration.as_secs_f64();
        let _ = writeln!(content, "[{}, {seconds:.1} s]", ran.ended);
        for note in &ran.notes {
            let _ = writeln!(content, "[sandbox: {}]", text::one_line_excerpt(note, NOTE_CHARS_MAX));
        }
        let (exit_code, sandbox) = (ran.exit_code, Some(ran.sandbox));
        Ok(ToolResult { failed: exit_code != Some(0), exit_code, sandbox, ..ToolResult::of(content) })
    }
}

const NOTE_CHARS_MAX: usize = 1000;
const TIMEOUT_S: u64 = 120;
const TIMEOUT_MAX_S: u64 = 600;
const COMMAND_BYTES_MAX: usize = 32 << 10;
