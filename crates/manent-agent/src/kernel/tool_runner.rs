//! The tools of all conversations, and their calls: each is prepared, decided on, and run.
//!
//! Preparing, previewing and running block, and go to a queue with so many places; a call that waits for a person takes
//! none of them. A tool that panics ends one call. One that does not end is waited for no longer than a limit, or than
//! a stop and some seconds; then its outcome is unknown, and the conversation goes on.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manent::log::fs::Disk;
use manent::{NewTurn, RecordError, SessionKey, Store, turn};
use serde_json::Value;
use tokio::sync::mpsc;

use super::actor::{JobQueue, KernelError};
use super::conversation::{Event, Listener};
use super::model_call::stopped;
use super::skill_runs::{self, SkillRuns, SkillText, USE_SKILL};
use crate::policy::{ApprovalScope, Approver, Grant, Permission, Prefix, ToolPolicy};
use crate::providers::ToolCall;
use crate::skills::Skills;
use crate::tools::{MemorySink, PreparedCall, Shell, ToolContext, ToolEffect, ToolError, ToolResult, Tools};

/// The tools of all conversations, and their limits.
#[derive(Debug)]
pub struct Toolbox {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The directory whose files a model may see and change.
    pub workspace: PathBuf,
    /// Paths that models never see, inside of the workspace or not.
    pub hidden: Vec<PathBuf>,
    /// The shell that runs commands; without one, none are run.
    pub shell: Option<Arc<dyn Shell>>,
    /// Permissions.
    pub policy: Mutex<ToolPolicy>,
    /// Tells if a person can be asked for permission.
    pub asking: Approver,
    /// Patterns of files that no tool reads.
    pub unreadable: Vec<String>,
    /// Skills that models may call.
    pub skills: Skills,
    /// The way in which the model calls tools.
    pub calling: CallStyle,
}

/// The way in which a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStyle {
    /// Calls go through the interface of the model's server.
    Native,
    /// Calls are text, which [`crate::text_tools`] reads.
    Text,
}

impl CallStyle {
    /// The word in records.
    pub fn word(self) -> &'static str {
        match self {
            CallStyle::Native => "native",
            CallStyle::Text => "text",
        }
    }
}

impl Toolbox {
    /// The tools of one conversation.
    pub(super) fn tools(
        &self,
        store: &Store,
        keeper: Arc<dyn MemorySink>,
        session: &SessionKey,
    ) -> Result<Tools, ToolError> {
        let context = ToolContext {
            disk: self.disk.clone(),
            workspace: self.workspace.clone(),
            hidden: self.hidden.clone(),
            store: store.clone(),
            keeper,
            session: session.clone(),
            shell: self.shell.clone(),
        };
        Tools::new(context)?.without(&self.unreadable)
    }
}

/// Runs calls of tools.
#[derive(Debug)]
pub(super) struct ToolRunner {
    pub(super) toolbox: Arc<Toolbox>,
    pub(super) skill_runs: SkillRuns,
    calls: JobQueue,
}

impl ToolRunner {
    pub(super) fn new(store: Store, toolbox: Toolbox) -> ToolRunner {
        let skill_runs = SkillRuns::new(store, toolbox.workspace.to_string_lossy().into_owned());
        ToolRunner { toolbox: Arc::new(toolbox), skill_runs, calls: JobQueue::new(NAME, CALLS_MAX) }
    }

    /// Returns the schemas of all tools, with the one that gives skills.
    pub(super) fn schemas(&self, tools: &Tools) -> String {
        let all = tools.schemas();
        let Some(skill) = skill_runs::schema(&self.toolbox.skills) else { return all };
        let Ok(mut list) = serde_json::from_str::<Vec<Value>>(&all) else { return all };
        list.push(skill);
        Value::Array(list).to_string()
    }

    /// Decides on a call and runs it.
    pub(super) async fn run(&self, tools: &Tools, call: &ToolCall, listener: &Listener) -> ToolOutcome {
        let outcome = match call.name.as_str() {
            USE_SKILL => self.use_skill(call).await,
            _ => self.run_tool(tools, call, listener).await,
        };
        outcome.unwrap_or_else(|refused| refused)
    }

    /// Runs a tool. The error is the outcome of a call that was not run, or whose result is unknown.
    async fn run_tool(
        &self,
        tools: &Tools,
        call: &ToolCall,
        listener: &Listener,
    ) -> Result<ToolOutcome, ToolOutcome> {
        let (tools, call) = (tools.clone(), call.clone());
        let prepared = self.look(move || tools.prepare(&call), "refused: the call is not right").await?;
        let (prepared, decision) = self.decide(prepared, listener).await?;
        listener.send(Event::ToolStarted { what: prepared.what.clone() }).await;
        let within = if prepared.effect == ToolEffect::Run { COMMAND_WITHIN } else { RUN_WITHIN };
        // Not the listener: a tool that never ends would keep the stream of events open.
        let stop = listener.stop.clone();
        let stopped_for_long = async {
            stopped(&listener.stop).await;
            tokio::time::sleep(STOP_WITHIN).await;
        };
        let done = tokio::select! {
            done = self.calls.run(within, move || prepared.run(&|| *stop.borrow())) => done,
            // The tool has got the stop flag too, so that its thread mostly ends soon after.
            () = stopped_for_long => Err(KernelError::Late { actor: NAME, after: STOP_WITHIN }),
        };
        let result = done.map_err(|error| broke(error, &decision))?;
        Ok(ToolOutcome { result, decision, skill: None })
    }

    /// Runs a job that changes nothing. An error refuses the call, with this decision if it is the job's.
    async fn look<T: Send + 'static, E: Display + Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, E> + Send + 'static,
        decision: &str,
    ) -> Result<T, ToolOutcome> {
        let done =
            self.calls.run(LOOK_WITHIN, job).await.map_err(|error| broke(error, "refused: it broke"))?;
        done.map_err(|error| refused(error.to_string(), decision))
    }

    /// Gives the instructions of a skill, or a file of it.
    async fn use_skill(&self, call: &ToolCall) -> Result<ToolOutcome, ToolOutcome> {
        let (toolbox, arguments) = (self.toolbox.clone(), call.arguments.clone());
        let reading = move || skill_runs::read_skill(&toolbox.skills, &arguments);
        let skill = self.look(reading, "refused: no such skill").await?;
        let decision =
            format!("allowed: skill {} ({})", skill.skill, &skill.hash[..skill.hash.len().min(16)]);
        let mut outcome = refused(skill.text.clone(), &decision);
        outcome.result.failed = false;
        outcome.skill = Some(skill).filter(|skill| skill.is_instructions);
        Ok(outcome)
    }

    /// Decides whether a call may be run. Where a person must allow it, that person is asked.
    async fn decide(
        &self,
        prepared: PreparedCall,
        listener: &Listener,
    ) -> Result<(PreparedCall, String), ToolOutcome> {
        let decision = lock(&self.toolbox.policy).decide(&prepared, self.toolbox.asking);
        match decision.permission {
            Permission::Allow => return Ok((prepared, format!("allowed: {}", decision.why))),
            Permission::Deny => {
                let content = format!("not allowed: {}", decision.why);
                return Err(refused(content, &format!("denied: {}", decision.why)));
            }
            Permission::Ask => {}
        }
        let previewing = move || prepared.preview().map(|preview| (prepared, preview));
        let (prepared, preview) = self.look(previewing, "refused: the call is not right").await?;
        let (reply, mut receiver) = mpsc::channel(1);
        let approval = Approval {
            what: prepared.what.clone(),
            why: decision.why,
            preview,
            prefix: ToolPolicy::prefix_of(&prepared).filter(|_| prepared.once_because.is_none()),
            is_for_once: prepared.once_because.is_some(),
            reply,
        };
        listener.send(Event::Approve(approval)).await;
        let replied = tokio::select! {
            replied = receiver.recv() => replied.unwrap_or(ApprovalReply::No(None)),
            () = stopped(&listener.stop) => ApprovalReply::No(Some("it was stopped".to_owned())),
        };
        match replied {
            ApprovalReply::Yes(answer, grant) => {
                let remembered = lock(&self.toolbox.policy).remember(&prepared, answer, &grant);
                if let Err(error) = remembered {
                    let note = format!("that was allowed this time only: {error}");
                    listener.send(Event::Note(note)).await;
                }
                Ok((prepared, "allowed by the user".to_owned()))
            }
            ApprovalReply::No(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Err(refused(format!("the user did not allow it{why}"), "denied by the user"))
            }
        }
    }
}

/// A call that a model wants to make and a person must allow.
#[derive(Debug, Clone)]
pub struct Approval {
    /// The call in one line: `edit src/main.rs`.
    pub what: String,
    /// The reason for asking.
    pub why: String,
    /// The change that the call would make.
    pub preview: Option<String>,
    /// The prefix that can be allowed with it; `None`: only the very same can be.
    pub prefix: Option<Prefix>,
    /// True if permission counts for this call only, whatever is replied.
    pub is_for_once: bool,
    reply: mpsc::Sender<ApprovalReply>,
}

/// The reply of a person to an [`Approval`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalReply {
    /// Allows the call, and more like it as far as the scope and the grant go.
    Yes(ApprovalScope, Grant),
    /// Refuses the call, with the reason for the model, if there is one.
    No(Option<String>),
}

impl Approval {
    /// Replies. The first reply counts; if all clones are dropped without one, the call is refused.
    pub fn answer(&self, reply: ApprovalReply) {
        let _ = self.reply.try_send(reply);
    }
}

/// The result of a call, and the decision on it.
pub(super) struct ToolOutcome {
    pub(super) result: ToolResult,
    pub(super) decision: String,
    /// The skill whose instructions were given.
    pub(super) skill: Option<SkillText>,
}

/// Makes the record of a result.
pub(super) fn result_record(call: &ToolCall, outcome: &ToolOutcome) -> Result<NewTurn, RecordError> {
    let result = &outcome.result;
    let ms = u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX);
    let mut record = turn("tool", &result.content)
        .string("tool_call_id", &call.id)
        .string("name", &call.name)
        .json("duration_ms", &ms.to_string())?
        .string("decision", &outcome.decision);
    if result.failed {
        record = record.json("failed", "true")?;
    }
    if let Some(code) = result.exit_code {
        record = record.json("exit_code", &code.to_string())?;
    }
    if let Some(sandbox) = &result.sandbox {
        record = record.string("sandbox", sandbox);
    }
    Ok(record)
}

/// Returns the outcome of a call where there are no tools.
pub(super) fn no_tools(call: &ToolCall) -> ToolOutcome {
    refused(
        format!("there is no tool {:?} here, nor any other: answer without one", call.name),
        "refused: no tools",
    )
}

fn refused(content: String, decision: &str) -> ToolOutcome {
    let result =
        ToolResult { content, failed: true, exit_code: None, sandbox: None, duration: Duration::ZERO };
    ToolOutcome { result, decision: decision.to_owned(), skill: None }
}

/// Returns the outcome of a call that panicked, or does not end.
fn broke(error: KernelError, decision: &str) -> ToolOutcome {
    let content = if matches!(error, KernelError::Late { .. }) { LATE } else { BROKE };
    refused(content.to_owned(), decision)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const BROKE: &str = "the tool broke off; its outcome is unknown: look before doing it again";
const LATE: &str = "the tool does not come to an end, and was left alone; its outcome is unknown: look before doing \
                    it again";
const NAME: &str = "the tool";
/// The number of calls that run at once; more wait.
const CALLS_MAX: usize = 32;
/// Bounds a file system that hangs.
const LOOK_WITHIN: Duration = Duration::from_secs(30);
const RUN_WITHIN: Duration = Duration::from_mins(2);
/// Commands have a limit of their own, at most ten minutes.
const COMMAND_WITHIN: Duration = Duration::from_mins(11);
const STOP_WITHIN: Duration = Duration::from_secs(3);
