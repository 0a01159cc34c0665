//! Skills in conversations: the tool that gives a model their instructions and files, and the record of their runs.
//!
//! The begin of a run is recorded before the model gets the instructions, its end when the answer is at its end. A
//! process that dies in between leaves a run whose outcome is unknown.

use std::time::{Duration, Instant};

use manent::{SessionKey, Store};
use manent_runs::{INTERRUPTED, NewAttempt, NewRun, RecordRange, RunEnd, Runs, StartedRun, Status};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::actor::JobQueue;
use super::conversation::{Answer, Event, Listener, TurnError};
use crate::providers::TokenUsage;
use crate::skills::{Caller, Skill, SkillError, Skills};
use crate::tools::{beginning, one_line_excerpt};

/// The instructions of a skill, or one of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SkillText {
    pub(super) skill: String,
    pub(super) hash: String,
    pub(super) text: String,
    /// True for the instructions: with them a run begins.
    pub(super) is_instructions: bool,
}

/// Reads what a call of [`USE_SKILL`] asks for.
pub(super) fn read_skill(skills: &Skills, arguments: &str) -> Result<SkillText, SkillError> {
    let arguments = serde_json::from_str::<Value>(arguments).unwrap_or_default();
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, file) = (text("name"), text("file"));
    let skill = skills.call(name, Caller::Model)?;
    let is_instructions = file.is_empty();
    let (hash, text) = if is_instructions {
        let activation = skill.activate()?;
        (activation.hash, activation.text)
    } else {
        let file = skill.file(file)?;
        (file.hash, beginning(&String::from_utf8_lossy(&file.bytes)))
    };
    Ok(SkillText { skill: name.to_owned(), hash, text, is_instructions })
}

/// Returns the schema of the tool that gives skills, or `None` if there are none.
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

/// Records runs of skills, one record after another.
#[derive(Debug)]
pub(super) struct SkillRuns {
    store: Store,
    project_root: String,
    writes: JobQueue,
}

impl SkillRuns {
    pub(super) fn new(store: Store, project_root: String) -> SkillRuns {
        SkillRuns { store, project_root, writes: JobQueue::new("the skills", 1) }
    }

    /// Writes to the runs. The error says why that was not done.
    async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(Runs) -> manent_runs::Result<T> + Send + 'static,
    ) -> Result<Option<T>, String> {
        let store = self.store.clone();
        let job = move || match Runs::open(&store) {
            Ok(runs) => write(runs).map(Some),
            // A store of another program's sessions has no place for them.
            Err(e) if e.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        };
        self.writes.run(WRITE_WITHIN, job).await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
    }
}

/// The runs of skills in one answer.
#[derive(Debug)]
pub(super) struct AnswerRuns {
    session: SessionKey,
    session_id: String,
    open: Vec<OpenRun>,
    /// The last record that the model wrote.
    last: Option<u64>,
    usage: TokenUsage,
}

#[derive(Debug)]
struct OpenRun {
    started: StartedRun,
    begun: Instant,
    /// The number of the record with the instructions.
    instructions: u64,
}

impl AnswerRuns {
    pub(super) fn new(session: SessionKey, session_id: String) -> AnswerRuns {
        AnswerRuns { session, session_id, open: Vec::new(), last: None, usage: TokenUsage::default() }
    }

    /// Notes that the model wrote record `seq`.
    pub(super) fn wrote(&mut self, seq: u64, usage: TokenUsage) {
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
        self.last = Some(seq);
        self.usage = TokenUsage {
            input: sum(self.usage.input, usage.input),
            output: sum(self.usage.output, usage.output),
        };
    }

    /// Records the begin of a run, before the model gets the instructions. Returns true if one began: a model that
    /// reads the same instructions twice for one question is at one run.
    pub(super) async fn begin(
        &mut self,
        runs: &SkillRuns,
        skill: &SkillText,
        question: &str,
        listener: &Listener,
    ) -> bool {
        if self.open.iter().any(|open| open.started.run.skill == skill.skill) {
            return false;
        }
        let run = NewRun {
            skill: skill.skill.clone(),
            skill_hash: skill.hash.clone(),
            phase: CHAT_PHASE.to_owned(),
            project_root: runs.project_root.clone(),
            input: to_raw_value(&json!({"question": question})).ok(),
            ..NewRun::default()
        };
        let session = self.session.clone();
        let started = runs.write(move |runs| runs.begin(&session, run)).await;
        if let Err(error) = &started {
            let note = format!("the run of the skill {} is not recorded: {error}", skill.skill);
            listener.send(Event::Note(note)).await;
        }
        let Ok(Some(started)) = started else { return false };
        self.open.push(OpenRun { started, begun: Instant::now(), instructions: 0 });
        true
    }

    /// Notes that the instructions of the run that began last are record `seq`.
    pub(super) fn instructed(&mut self, seq: u64) {
        if let Some(open) = self.open.last_mut() {
            open.instructions = seq;
        }
    }

    /// Records the ends of all runs.
    pub(super) async fn end(self, runs: &SkillRuns, answer: &Result<Answer, TurnError>, listener: &Listener) {
        for open in &self.open {
            let (started, end) = (open.started.clone(), self.run_end(open, answer));
            if let Err(error) = runs.write(move |runs| runs.finish(&started, &end).map(drop)).await {
                let skill = &open.started.run.skill;
                let note = format!("how the run of the skill {skill} ended is not recorded: {error}");
                listener.send(Event::Note(note)).await;
            }
        }
    }

    fn run_end(&self, open: &OpenRun, answer: &Result<Answer, TurnError>) -> RunEnd {
        let (status, error_class) = match answer {
            Ok(answer) if answer.stopped => (Status::Unknown, INTERRUPTED),
            Ok(_) => (Status::Success, ""),
            Err(TurnError::Model(_)) => (Status::Failure, "model"),
            Err(TurnError::Rounds { .. }) => (Status::Failure, "rounds"),
            Err(TurnError::Store(_)) => (Status::Failure, "store"),
            Err(TurnError::Kernel(_)) => (Status::Failure, "kernel"),
        };
        let passage = |first, last| RecordRange {
            session: self.session.to_string(),
            id: self.session_id.clone(),
            seq: (first, last),
        };
        let answer = answer.as_ref().ok();
        let model = answer.map(|answer| answer.model.clone()).unwrap_or_default();
        let usage = json!({"input": self.usage.input, "output": self.usage.output});
        let wrote = self.last.filter(|last| *last > open.instructions);
        let attempt = NewAttempt {
            model: model.clone(),
            output_summary: answer.map(|a| one_line_excerpt(&a.text, SUMMARY_CHARS)).unwrap_or_default(),
            // The prompt is the whole context up to the instructions.
            prompt_ref: Some(passage(1, open.instructions)),
            output_ref: wrote.map(|last| passage(open.instructions + 1, last)),
            usage: to_raw_value(&usage).ok(),
            error_class: error_class.to_owned(),
            duration: Some(open.begun.elapsed()),
            ..NewAttempt::default()
        };
        RunEnd { attempts: vec![attempt], status, model_used: model, duration: open.begun.elapsed() }
    }
}

/// The phase of runs of skills in conversations.
pub const CHAT_PHASE: &str = "chat";
/// The results of this tool stay in a context as they are: a compaction knows them by its name.
pub(super) const USE_SKILL: &str = "use_skill";
const WRITE_WITHIN: Duration = Duration::from_secs(30);
const SUMMARY_CHARS: usize = 400;
