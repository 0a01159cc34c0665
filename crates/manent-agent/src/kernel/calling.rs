//! The calls of an answer: each is decided on, made, and its result kept, one after the other.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manent::log::fs::Disk;
use manent::{NewTurn, RecordError, SessionKey, Store, turn};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::hearing::stopped;
use super::turn::Event;
use crate::policy::{Answer, Asking, Grant, Policy, Verdict};
use crate::providers::Call;
use crate::skills::{Caller, Skill, Skills};
use crate::tools::{Done, Prepared, Shell, Surroundings, ToolError, Tools};

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
    pub policy: Mutex<Policy>,
    /// Whether somebody can be asked.
    pub asking: Asking,
    /// Files that no tool reads, by rules.
    pub unreadable: Vec<String>,
    /// What models can be taught by files.
    pub skills: Skills,
}

impl Toolbox {
    /// The tools of one conversation.
    pub(super) fn tools(&self, store: &Store, session: &SessionKey) -> Result<Tools, ToolError> {
        let surroundings = Surroundings {
            disk: self.disk.clone(),
            workspace: self.workspace.clone(),
            hidden: self.hidden.clone(),
            store: store.clone(),
            session: session.clone(),
            shell: self.shell.clone(),
        };
        Tools::new(surroundings)?.without(&self.unreadable)
    }
}

/// What a model is told of all tools, and of the one that brings skills.
pub(super) fn schemas(toolbox: &Toolbox, tools: &Tools) -> String {
    let names: Vec<&str> = toolbox.skills.callable().map(Skill::name).collect();
    let all = tools.schemas();
    if names.is_empty() {
        return all;
    }
    let skill = json!({"type": "function", "function": {
        "name": USE_SKILL,
        "description": "Read how to do something that a skill is about, before doing it.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "enum": names, "description": "The skill"}},
            "required": ["name"],
            "additionalProperties": false,
        },
    }});
    let Ok(mut list) = serde_json::from_str::<Vec<Value>>(&all) else { return all };
    list.push(skill);
    Value::Array(list).to_string()
}

/// Gives the text of a skill.
fn use_skill(toolbox: &Toolbox, call: &Call) -> Made {
    let given = serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
    let name = given.get("name").and_then(Value::as_str).unwrap_or_default();
    let skill = toolbox.skills.call(name, Caller::Model).and_then(Skill::activate);
    match skill {
        Ok(skill) => {
            let decision =
                format!("allowed: skill {} ({})", skill.name, &skill.hash[..skill.hash.len().min(16)]);
            let mut made = refused(skill.text, &decision);
            made.done.failed = false;
            made
        }
        Err(error) => refused(error.to_string(), "refused: no such skill"),
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
    /// Words with which commands may begin that are allowed with it.
    pub beginning: Option<Vec<String>>,
    reply: Arc<Mutex<Option<oneshot::Sender<Word>>>>,
}

/// What a person says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Yes, for so long and so much.
    Yes(Answer, Grant),
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
    pub(super) done: Done,
    pub(super) decision: String,
}

/// Decides on a call and makes it.
pub(super) async fn make(
    toolbox: &Arc<Toolbox>,
    tools: &Tools,
    call: &Call,
    events: &mpsc::Sender<Event>,
    stop: &mut watch::Receiver<bool>,
) -> Made {
    if call.name == USE_SKILL {
        let (toolbox, call) = (toolbox.clone(), call.clone());
        let made = blocking(move || use_skill(&toolbox, &call)).await;
        return made.unwrap_or_else(|| refused(BROKE.to_owned(), "refused: it broke"));
    }
    let (preparing, given) = (tools.clone(), call.clone());
    let prepared = blocking(move || preparing.prepare(&given)).await;
    let prepared = match prepared {
        Some(Ok(prepared)) => prepared,
        Some(Err(error)) => return refused(error.to_string(), "refused: the call is not right"),
        None => return refused(BROKE.to_owned(), "refused: it broke"),
    };
    let (prepared, decision) = match decide(toolbox, prepared, events, stop).await {
        Ok(allowed) => allowed,
        Err(made) => return made,
    };
    let _ = events.send(Event::Calling { what: prepared.what.clone() }).await;
    let told_to_stop = stop.clone();
    let made = blocking(move || prepared.run(&|| *told_to_stop.borrow())).await;
    match made {
        Some(done) => Made { done, decision },
        None => refused(BROKE.to_owned(), &decision),
    }
}

/// Whether it may be made; where a person must say, that person is asked.
async fn decide(
    toolbox: &Arc<Toolbox>,
    prepared: Prepared,
    events: &mpsc::Sender<Event>,
    stop: &mut watch::Receiver<bool>,
) -> Result<(Prepared, String), Made> {
    let decision = lock(&toolbox.policy).decide(&prepared, toolbox.asking);
    match decision.verdict {
        Verdict::Allow => return Ok((prepared, format!("allowed: {}", decision.why))),
        Verdict::Deny => {
            let told = format!("not allowed: {}", decision.why);
            return Err(refused(told, &format!("denied: {}", decision.why)));
        }
        Verdict::Ask => {}
    }
    let shown = blocking(move || {
        let preview = prepared.preview();
        (prepared, preview)
    });
    let Some((prepared, preview)) = shown.await else {
        return Err(refused(BROKE.to_owned(), "refused: it broke"));
    };
    let preview = preview.map_err(|e| refused(e.to_string(), "refused: the call is not right"))?;
    let (reply, word) = oneshot::channel();
    let approval = Approval {
        what: prepared.what.clone(),
        why: decision.why,
        preview,
        beginning: Policy::beginning_of(&prepared),
        reply: Arc::new(Mutex::new(Some(reply))),
    };
    let _ = events.send(Event::Approve(approval)).await;
    let word = tokio::select! {
        word = word => word.unwrap_or(Word::No(None)),
        () = stopped(stop) => Word::No(Some("it was stopped".to_owned())),
    };
    match word {
        Word::Yes(answer, grant) => {
            let kept = lock(&toolbox.policy).remember(&prepared, answer, &grant);
            if let Err(error) = kept {
                let _ = events.send(Event::Note(format!("that was allowed this time only: {error}"))).await;
            }
            Ok((prepared, "allowed by the user".to_owned()))
        }
        Word::No(why) => {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            Err(refused(format!("the user did not allow it{why}"), "denied by the user"))
        }
    }
}

/// The turn of a result.
pub(super) fn result(call: &Call, made: &Made) -> Result<NewTurn, RecordError> {
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
pub(super) fn none(call: &Call) -> Made {
    refused(
        format!("there is no tool {:?} here, nor any other: answer without one", call.name),
        "refused: no tools",
    )
}

fn refused(content: String, decision: &str) -> Made {
    let done = Done { content, failed: true, exit_code: None, sandbox: None, duration: Duration::ZERO };
    Made { done, decision: decision.to_owned() }
}

/// Nothing: it panicked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Its results stay in a context as they are: a compaction knows them by their name.
const USE_SKILL: &str = "use_skill";
const BROKE: &str = "the tool broke off; its outcome is unknown: look before doing it again";
