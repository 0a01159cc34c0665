//! The calls of an answer: each is decided on, made, and its result kept, one after the other.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manent::log::fs::Disk;
use manent::{NewTurn, RecordError, SessionKey, Store, turn};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::hearing::stopped;
use super::invoked::Invocation;
use super::mailbox::KernelError;
use super::skilled::{self, Given, Skilled, USE_SKILL};
use super::tooling::Tooling;
use super::turn::Event;
use crate::policy::{ApprovalScope, Approver, Grant, Permission, Prefix, ToolPolicy};
use crate::providers::ToolCall;
use crate::skills::Skills;
use crate::tools::{MemorySink, PreparedCall, Shell, ToolContext, ToolError, ToolResult, Tools, beginning};

/// The tools of all conversations, and what they may.
#[derive(Debug)]
pub struct Toolbox {
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// The directory whose files a model may see and change.
    pub workspace: PathBuf,
    /// What it may not, wherever it lies.
    pub hidden: Vec<PathBuf>,
    /// Who runs commands; nothing: none are run.
    pub shell: Option<Arc<dyn Shell>>,
    /// What may be done.
    pub policy: Mutex<ToolPolicy>,
    /// Whether somebody can be asked.
    pub asking: Approver,
    /// Files that no tool reads, by rules.
    pub unreadable: Vec<String>,
    /// What models can be taught by files.
    pub skills: Skills,
    /// How the model calls them.
    pub calling: Calling,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calling {
    /// Its server knows of tools.
    Native,
    /// By text, as [`crate::text_tools`] teaches.
    Text,
}

impl Calling {
    /// The word in records.
    pub fn word(self) -> &'static str {
        match self {
            Calling::Native => "native",
            Calling::Text => "text",
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
        let surroundings = ToolContext {
            disk: self.disk.clone(),
            workspace: self.workspace.clone(),
            hidden: self.hidden.clone(),
            store: store.clone(),
            keeper,
            session: session.clone(),
            shell: self.shell.clone(),
        };
        Tools::new(surroundings)?.without(&self.unreadable)
    }
}

/// A toolbox, and who works with it.
#[derive(Debug)]
pub(super) struct Hands {
    pub(super) toolbox: Arc<Toolbox>,
    tooling: Tooling,
    pub(super) skilled: Skilled,
}

impl Hands {
    pub(super) fn open(runtime: &Handle, store: Store, toolbox: Toolbox) -> Hands {
        let toolbox = Arc::new(toolbox);
        let (tooling, skilled) = (Tooling::open(runtime), Skilled::open(runtime, store, toolbox.clone()));
        Hands { toolbox, tooling, skilled }
    }

    /// What a model is told of all tools, and of the one that brings skills.
    pub(super) fn schemas(&self, tools: &Tools) -> String {
        let all = tools.schemas();
        let Some(skill) = skilled::schema(&self.toolbox.skills) else { return all };
        let Ok(mut list) = serde_json::from_str::<Vec<Value>>(&all) else { return all };
        list.push(skill);
        Value::Array(list).to_string()
    }

    /// Decides on a call and makes it.
    pub(super) async fn make(
        &self,
        tools: &Tools,
        call: &ToolCall,
        events: &mpsc::Sender<Event>,
        stop: &mut watch::Receiver<bool>,
    ) -> Made {
        if call.name == USE_SKILL {
            return self.use_skill(call).await;
        }
        let prepared = match self.tooling.prepare(tools.clone(), call.clone()).await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(error)) => return refused(error.to_string(), "refused: the call is not right"),
            Err(error) => return broke(error, "refused: it broke"),
        };
        let (prepared, decision) = match self.decide(prepared, events, stop).await {
            Ok(allowed) => allowed,
            Err(made) => return made,
        };
        let _ = events.send(Event::Calling { what: prepared.what.clone() }).await;
        match self.tooling.run(prepared, stop).await {
            Ok(done) => Made { done, decision, invocation: None },
            Err(error) => broke(error, &decision),
        }
    }

    /// Gives the text of a skill, or a file of it.
    async fn use_skill(&self, call: &ToolCall) -> Made {
        let wanted = skilled::wanted(&call.arguments);
        let name = wanted.skill.clone();
        let mut invocation = None;
        let (content, hash) = match self.skilled.give(wanted).await {
            Ok(Ok(Given::Instructions(skill))) => {
                invocation = Some(Invocation { skill: skill.name, hash: skill.hash.clone() });
                (skill.text, skill.hash)
            }
            Ok(Ok(Given::File(file))) => (beginning(&String::from_utf8_lossy(&file.bytes)), file.hash),
            Ok(Err(error)) => return refused(error.to_string(), "refused: no such skill"),
            Err(error) => return broke(error, "refused: it broke"),
        };
        let decision = format!("allowed: skill {name} ({})", &hash[..hash.len().min(16)]);
        let mut made = refused(content, &decision);
        (made.done.failed, made.invocation) = (false, invocation);
        made
    }

    /// Whether it may be made; where a person must say, that person is asked.
    async fn decide(
        &self,
        prepared: PreparedCall,
        events: &mpsc::Sender<Event>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<(PreparedCall, String), Made> {
        let decision = lock(&self.toolbox.policy).decide(&prepared, self.toolbox.asking);
        match decision.verdict {
            Permission::Allow => return Ok((prepared, format!("allowed: {}", decision.why))),
            Permission::Deny => {
                let told = format!("not allowed: {}", decision.why);
                return Err(refused(told, &format!("denied: {}", decision.why)));
            }
            Permission::Ask => {}
        }
        let shown = self.tooling.preview(prepared).await;
        let (prepared, preview) = shown.map_err(|error| broke(error, "refused: it broke"))?;
        let preview = preview.map_err(|e| refused(e.to_string(), "refused: the call is not right"))?;
        let (reply, word) = oneshot::channel();
        let approval = Approval {
            what: prepared.what.clone(),
            why: decision.why,
            preview,
            prefix: ToolPolicy::prefix_of(&prepared).filter(|_| prepared.once_because.is_none()),
            is_for_once: prepared.once_because.is_some(),
            reply: Arc::new(Mutex::new(Some(reply))),
        };
        let _ = events.send(Event::Approve(approval)).await;
        let word = tokio::select! {
            word = word => word.unwrap_or(Word::No(None)),
            () = stopped(stop) => Word::No(Some("it was stopped".to_owned())),
        };
        match word {
            Word::Yes(answer, grant) => {
                let kept = lock(&self.toolbox.policy).remember(&prepared, answer, &grant);
                if let Err(error) = kept {
                    let note = format!("that was allowed this time only: {error}");
                    let _ = events.send(Event::Note(note)).await;
                }
                Ok((prepared, "allowed by the user".to_owned()))
            }
            Word::No(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Err(refused(format!("the user did not allow it{why}"), "denied by the user"))
            }
        }
    }
}

/// Something that a model wants to do and a person must allow.
#[derive(Clone)]
pub struct Approval {
    /// In one line: `edit src/main.rs`.
    pub what: String,
    /// Why it is asked.
    pub why: String,
    /// What would change.
    pub preview: Option<String>,
    /// The prefix that can be allowed with it; `None`: only the very same can be.
    pub prefix: Option<Prefix>,
    /// Whether a yes counts for this one time only, whatever is answered.
    pub is_for_once: bool,
    reply: Arc<Mutex<Option<oneshot::Sender<Word>>>>,
}

/// What a person says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Yes, for so long and so much.
    Yes(ApprovalScope, Grant),
    /// No, with what the model is to be told, if anything.
    No(Option<String>),
}

impl Approval {
    /// Says it. The first word counts; without one, it is no.
    pub fn answer(&self, word: Word) {
        if let Some(reply) = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = reply.send(word);
        }
    }
}

impl fmt::Debug for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Approval").field("what", &self.what).finish_non_exhaustive()
    }
}

impl PartialEq for Approval {
    fn eq(&self, other: &Approval) -> bool {
        Arc::ptr_eq(&self.reply, &other.reply)
    }
}

impl Eq for Approval {}

/// What came of a call, and by whose decision.
pub(super) struct Made {
    pub(super) done: ToolResult,
    pub(super) decision: String,
    /// The instructions of a skill were given.
    pub(super) invocation: Option<Invocation>,
}

/// The turn of a result.
pub(super) fn result(call: &ToolCall, made: &Made) -> Result<NewTurn, RecordError> {
    let done = &made.done;
    let ms = u64::try_from(done.duration.as_millis()).unwrap_or(u64::MAX);
    let mut said = turn("tool", &done.content)
        .string("tool_call_id", &call.id)
        .string("name", &call.name)
        .json("duration_ms", &ms.to_string())?
        .string("decision", &made.decision);
    if done.failed {
        said = said.json("failed", "true")?;
    }
    if let Some(code) = done.exit_code {
        said = said.json("exit_code", &code.to_string())?;
    }
    if let Some(sandbox) = &done.sandbox {
        said = said.string("sandbox", sandbox);
    }
    Ok(said)
}

/// There are no tools.
pub(super) fn none(call: &ToolCall) -> Made {
    refused(
        format!("there is no tool {:?} here, nor any other: answer without one", call.name),
        "refused: no tools",
    )
}

fn refused(content: String, decision: &str) -> Made {
    let done = ToolResult { content, failed: true, exit_code: None, sandbox: None, duration: Duration::ZERO };
    Made { done, decision: decision.to_owned(), invocation: None }
}

/// It panicked, or does not end.
fn broke(error: KernelError, decision: &str) -> Made {
    let content = match error {
        KernelError::Late { .. } => LATE,
        KernelError::Broke { .. } => BROKE,
    };
    refused(content.to_owned(), decision)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const BROKE: &str = "the tool broke off; its outcome is unknown: look before doing it again";
const LATE: &str = "the tool does not come to an end, and was left alone; its outcome is unknown: look before doing \
                    it again";
