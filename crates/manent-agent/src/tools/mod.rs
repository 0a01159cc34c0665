//! Tools: what a model can do, as it asks for it, within what it may.
//!
//! A call goes through four steps. [`Tools::prepare`] reads its arguments with goodwill and finds what it is about, and
//! has changed and shown nothing yet. [`crate::policy::ToolPolicy::decide`] says whether it may be done.
//! [`PreparedCall::preview`] shows a person what would change. [`PreparedCall::run`] does that and nothing else: a file
//! that changed since it was shown is left as it is.
//!
//! Files are those of the workspace, behind all links, and never those that are hidden. All that a model gets back is
//! bounded, whatever a file holds, and every refusal says what would be right.
//!
//! A command ([`Shell`]) can read whatever lies in the workspace, so a rule about files binds only the tools for files.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Tools`], [`PreparedCall`], [`ToolResult`]; [`Shell`], who runs commands |
//! | `arguments.rs` | the members of a call: their schema, and reading them |
//! | `workspace.rs` | which files there are for a model |
//! | `file_edit.rs` | the change of a file: shown as a diff, then applied as a whole or not at all |
//! | `text.rs` | bytes as text, and no more of it than a model can take |
//! | `read_file.rs` … `remember.rs` | one tool each |
//! | `error.rs` | [`ToolError`] |

mod arguments;
mod edit_file;
mod error;
mod file_edit;
mod read_file;
mod recall;
mod remember;
mod run_command;
mod search_files;
mod text;
mod workspace;
mod write_file;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use manent::log::fs::Disk;
use manent::{SessionKey, Store};

use crate::providers::ToolCall;
use arguments::ToolSpec;
use workspace::Workspace;

pub use error::ToolError;
pub(crate) use file_edit::unified_diff;
pub(crate) use recall::{remembered, time_of};
pub use remember::{MemorySink, RememberOutcome};
pub(crate) use text::{beginning, collapse_whitespace, one_line_excerpt};
pub(crate) use workspace::glob;

/// The environment of the tools.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The directory whose files a model may see and change.
    pub workspace: PathBuf,
    /// Paths that tools must not use, wherever they lie: the home of the store, keys.
    pub hidden: Vec<PathBuf>,
    /// The store that `recall` searches.
    pub store: Store,
    /// The writer behind `remember`; a [`Store`] works.
    pub keeper: Arc<dyn MemorySink>,
    /// The session in which tools are called.
    pub session: SessionKey,
    /// The runner of commands. Without one, models are not offered `run_command`.
    pub shell: Option<Arc<dyn Shell>>,
}

/// Runs commands, in a sandbox.
pub trait Shell: fmt::Debug + Send + Sync {
    /// Runs a line of shell in the workspace and waits for its end; ends it when the time is over, or when `stop` says
    /// true. An error says why it could not be run at all.
    fn run(&self, order: &CommandRequest<'_>, stop: &dyn Fn() -> bool) -> Result<CommandResult, String>;
}

/// A command that is to be run.
#[derive(Debug, Clone, Copy)]
pub struct CommandRequest<'a> {
    /// A line of shell.
    pub command: &'a str,
    /// The time after which the command is ended.
    pub timeout: Duration,
    /// Additional permissions for this one command.
    pub extras: GitPermissions,
}

/// Permissions on repositories that a person granted for one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GitPermissions {
    /// Make commits and branches in the repository of the workspace.
    pub writable_git: bool,
    /// Leave new repositories and protected files behind.
    pub new_repo: bool,
}

/// A command that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// The output, cut to the limit of the shell.
    pub output: String,
    /// The exit code, if the command ended by itself.
    pub exit_code: Option<i32>,
    /// The end of the command in words: `exit code 1`, `killed: out of time`.
    pub ended: String,
    /// The sandbox in which the command ran.
    pub sandbox: String,
    /// The time it took.
    pub duration: Duration,
    /// Notes on changes that were undone, in sentences.
    pub notes: Vec<String>,
}

/// The effect of a tool, which decides whether a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolEffect {
    /// Reads only.
    Read,
    /// Changes files.
    Write,
    /// Runs a command.
    Run,
    /// Adds to the memory.
    Record,
}

/// The object of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallSubject {
    /// A file or directory: its path from the workspace, behind all links.
    Path(String),
    /// A line of shell.
    Command(String),
    /// The record.
    Record,
}

/// A call that can be made.
pub struct PreparedCall {
    /// The tool.
    pub tool: &'static str,
    /// The effect of the call.
    pub effect: ToolEffect,
    /// The object of the call.
    pub subject: CallSubject,
    /// The same for a person, in one line: `edit src/main.rs`.
    pub what: String,
    /// The reason why only a person can allow the call, each time; `None` if rules and earlier approvals count.
    pub once_because: Option<&'static str>,
    job: Box<dyn Job>,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The text for the model.
    pub content: String,
    /// True if the call did not do what was asked.
    pub failed: bool,
    /// The exit code of a command that ended by itself.
    pub exit_code: Option<i32>,
    /// The sandbox in which a command ran.
    pub sandbox: Option<String>,
    /// The time it took.
    pub duration: Duration,
}

/// The work of one call.
trait Job: Send + Sync {
    /// Describes the change that the call would make; `None` if it makes none.
    fn preview(&self) -> Result<Option<String>, ToolError> {
        Ok(None)
    }

    fn run(&self, stop: &dyn Fn() -> bool) -> Result<ToolResult, ToolError>;
}

impl ToolResult {
    /// Returns the result of a call that succeeded.
    fn of(content: impl Into<String>) -> ToolResult {
        let (failed, duration) = (false, Duration::ZERO);
        ToolResult { content: content.into(), failed, exit_code: None, sandbox: None, duration }
    }
}

/// The tools that there are.
#[derive(Debug, Clone)]
pub struct Tools {
    workspace: Arc<Workspace>,
    store: Store,
    keeper: Arc<dyn MemorySink>,
    session: SessionKey,
    shell: Option<Arc<dyn Shell>>,
}

impl Tools {
    /// Tools for a workspace, which must be there.
    pub fn new(surroundings: ToolContext) -> Result<Tools, ToolError> {
        let ToolContext { disk, workspace, hidden, store, keeper, session, shell } = surroundings;
        let workspace = Arc::new(Workspace::new(disk, &workspace, hidden)?);
        Ok(Tools { workspace, store, keeper, session, shell })
    }

    /// The same, without the files that match any of these patterns: see
    /// [`crate::policy::PolicyRules::unreadable`].
    pub fn without(self, patterns: &[String]) -> Result<Tools, ToolError> {
        Ok(Tools { workspace: Arc::new(self.workspace.without(patterns)?), ..self })
    }

    /// The workspace, behind all links.
    pub fn workspace(&self) -> &std::path::Path {
        self.workspace.root()
    }

    /// Returns the schemas of the tools for a model: a JSON array of `{"type":"function","function":{…}}`.
    pub fn schemas(&self) -> String {
        let schemas: Vec<_> = self.specs().map(ToolSpec::schema).collect();
        serde_json::Value::Array(schemas).to_string()
    }

    /// Reads a call. Nothing is changed, and nothing of a file is given away: whoever may not make the call has
    /// learned from it at most which names there are.
    pub fn prepare(&self, call: &ToolCall) -> Result<PreparedCall, ToolError> {
        match self.specs().find(|spec| spec.name == call.name) {
            Some(spec) => (spec.prepare)(self, &call.arguments),
            None => Err(self.no_such(&call.name)),
        }
    }

    fn specs(&self) -> impl Iterator<Item = &'static ToolSpec> {
        let has_shell = self.shell.is_some();
        SPECS.iter().copied().filter(move |spec| has_shell || spec.name != run_command::SPEC.name)
    }

    fn no_such(&self, name: &str) -> ToolError {
        let names: Vec<&str> = self.specs().map(|spec| spec.name).collect();
        ToolError::NoSuchTool {
            name: text::excerpt(name),
            nearest: arguments::nearest(name, names.iter().copied()).map(str::to_owned),
            all: names.join(", "),
        }
    }
}

/// The names of all tools.
pub fn names() -> impl Iterator<Item = &'static str> {
    SPECS.iter().map(|spec| spec.name)
}

/// Returns the effect of a tool, or `None` if there is no such tool.
pub fn effect_of(name: &str) -> Option<ToolEffect> {
    SPECS.iter().find(|spec| spec.name == name).map(|spec| spec.effect)
}

impl PreparedCall {
    /// Returns the change that the call would make, as a unified diff or in words; `None` if it makes none. An error is
    /// passed to the model: the call cannot be made, and no person need be asked.
    pub fn preview(&self) -> Result<Option<String>, ToolError> {
        self.job.preview()
    }

    /// Makes the call. `stop` is asked now and then; once it says true, the call ends as soon as it can.
    pub fn run(self, stop: &dyn Fn() -> bool) -> ToolResult {
        let start = Instant::now();
        let ran = if stop() { Err(ToolError::Stopped) } else { self.job.run(stop) };
        let result = ran.unwrap_or_else(|e| ToolResult { failed: true, ..ToolResult::of(e.to_string()) });
        ToolResult { duration: start.elapsed(), ..result }
    }
}

impl fmt::Debug for PreparedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCall")
            .field("effect", &self.effect)
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

const SPECS: [&ToolSpec; 7] = [
    &read_file::SPEC,
    &write_file::SPEC,
    &edit_file::SPEC,
    &search_files::SPEC,
    &run_command::SPEC,
    &recall::SPEC,
    &remember::SPEC,
];
