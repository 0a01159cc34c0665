//! The actor of the skills: it gives the text of one that is called, and files of it, and records the runs of them.

use std::sync::Arc;
use std::time::Duration;

use manent::{SessionKey, Store};
use manent_runs::{NewRun, RunEnd, Runs, StartedRun};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::calling::Toolbox;
use super::mailbox::{KernelError, Letters, Mailbox};
use crate::skills::{Activation, Caller, Skill, SkillError, SkillFile, Skills};

/// The address of the actor.
#[derive(Debug, Clone)]
pub(super) struct Skilled {
    mailbox: Mailbox<Letter>,
}

/// What a model wants of a skill.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) skill: String,
    /// A file of it; nothing: its instructions.
    pub(super) file: Option<String>,
}

/// What it gets.
#[derive(Debug)]
pub(super) enum Given {
    Instructions(Activation),
    File(SkillFile),
}

/// A run that could not be recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordingError {
    #[error(transparent)]
    Runs(#[from] manent_runs::Error),
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

#[derive(Debug)]
enum Letter {
    Give {
        wanted: Wanted,
        reply: oneshot::Sender<Result<Given, SkillError>>,
    },
    Begin {
        session: SessionKey,
        run: Box<NewRun>,
        reply: oneshot::Sender<manent_runs::Result<Option<StartedRun>>>,
    },
    Finish {
        started: Box<StartedRun>,
        ended: Box<RunEnd>,
        reply: oneshot::Sender<manent_runs::Result<()>>,
    },
}

impl Skilled {
    pub(super) fn open(runtime: &Handle, store: Store, toolbox: Arc<Toolbox>) -> Skilled {
        let mailbox = Mailbox::open(runtime, "the skills", move |letters| {
            serve(letters, store.clone(), toolbox.clone())
        });
        Skilled { mailbox }
    }

    pub(super) async fn give(&self, wanted: Wanted) -> Result<Result<Given, SkillError>, KernelError> {
        self.mailbox.ask(|reply| Letter::Give { wanted, reply }, Some(WITHIN)).await
    }

    /// Records that a run begins; nothing if the store has no place for runs.
    pub(super) async fn begin(
        &self,
        session: SessionKey,
        run: NewRun,
    ) -> Result<Option<StartedRun>, RecordingError> {
        let run = Box::new(run);
        Ok(self.mailbox.ask(|reply| Letter::Begin { session, run, reply }, Some(WITHIN)).await??)
    }

    /// Records how a run ended.
    pub(super) async fn finish(&self, started: StartedRun, ended: RunEnd) -> Result<(), RecordingError> {
        let (started, ended) = (Box::new(started), Box::new(ended));
        Ok(self.mailbox.ask(|reply| Letter::Finish { started, ended, reply }, Some(WITHIN)).await??)
    }
}

async fn serve(letters: Letters<Letter>, store: Store, toolbox: Arc<Toolbox>) {
    let mut letters = letters.lock().await;
    while let Some(letter) = letters.recv().await {
        let (store, toolbox) = (store.clone(), toolbox.clone());
        let served = tokio::task::spawn_blocking(move || match letter {
            Letter::Give { wanted, reply } => drop(reply.send(give(&toolbox.skills, &wanted))),
            Letter::Begin { session, run, reply } => drop(reply.send(begin(&store, &session, *run))),
            Letter::Finish { started, ended, reply } => {
                let finished = Runs::open(&store).and_then(|runs| runs.finish(&started, &ended).map(drop));
                let _ = reply.send(finished);
            }
        });
        // A panic there is one here: the actor is begun anew.
        if let Err(broken) = served.await
            && broken.is_panic()
        {
            std::panic::resume_unwind(broken.into_panic());
        }
    }
}

fn give(skills: &Skills, wanted: &Wanted) -> Result<Given, SkillError> {
    let skill = skills.call(&wanted.skill, Caller::Model)?;
    match &wanted.file {
        None => skill.activate().map(Given::Instructions),
        Some(path) => skill.file(path).map(Given::File),
    }
}

fn begin(store: &Store, session: &SessionKey, run: NewRun) -> manent_runs::Result<Option<StartedRun>> {
    match Runs::open(store) {
        Ok(runs) => runs.begin(session, run).map(Some),
        Err(e) if e.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a model is told of the tool that brings skills; nothing if there are none.
pub(super) fn schema(skills: &Skills) -> Option<Value> {
    let names: Vec<&str> = skills.callable().map(Skill::name).collect();
    (!names.is_empty()).then(|| {
        json!({"type": "function", "function": {
            "name": USE_SKILL,
            "description": "Read how to do something that a skill is about, before doing it.",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "enum": names, "description": "The skill"},
                    "file": {"type": "string", "description": "One of its files, if its instructions name it"},
                },
                "required": ["name"],
                "additionalProperties": false,
            },
        }})
    })
}

/// What a call of that tool wants.
pub(super) fn wanted(arguments: &str) -> Wanted {
    let given = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    let text = |name: &str| given.get(name).and_then(Value::as_str).map(str::to_owned);
    let file = text("file").filter(|file| !file.is_empty());
    Wanted { skill: text("name").unwrap_or_default(), file }
}

/// Its results stay in a context as they are: a compaction knows them by their name.
pub(super) const USE_SKILL: &str = "use_skill";
const WITHIN: Duration = Duration::from_secs(30);
