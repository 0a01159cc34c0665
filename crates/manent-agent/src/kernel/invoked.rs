//! The runs of skills: when a model is given the instructions of one, that a run begins is recorded first; when the
//! answer is at its end, how it ended. A process that dies in between leaves a run whose outcome is unknown.

use std::time::Instant;

use manent::SessionKey;
use manent_runs::{INTERRUPTED, NewAttempt, NewRun, RecordRange, RunEnd, StartedRun, Status};
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;

use super::calling::Hands;
use super::turn::{Answered, Event, TurnError};
use crate::providers::TokenUsage;
use crate::tools::one_line;

/// A skill whose instructions were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) skill: String,
    pub(super) hash: String,
}

/// The runs of one answer.
#[derive(Debug)]
pub(super) struct Invoked {
    session: SessionKey,
    session_id: String,
    open: Vec<Open>,
    /// The last record that the model wrote.
    last: Option<u64>,
    usage: TokenUsage,
}

#[derive(Debug)]
struct Open {
    started: StartedRun,
    begun: Instant,
    /// The record with the instructions.
    told: u64,
}

impl Invoked {
    pub(super) fn new(session: SessionKey, session_id: String) -> Invoked {
        let (open, last, usage) = (Vec::new(), None, TokenUsage::default());
        Invoked { session, session_id, open, last, usage }
    }

    /// A model wrote something.
    pub(super) fn wrote(&mut self, seq: u64, usage: TokenUsage) {
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
        self.last = Some(seq);
        self.usage = TokenUsage {
            input: sum(self.usage.input, usage.input),
            output: sum(self.usage.output, usage.output),
        };
    }

    /// Records that a run begins, before the model is told how to do it. One that reads the same instructions twice
    /// for one question is at one run.
    pub(super) async fn begin(
        &mut self,
        hands: &Hands,
        invocation: &Invocation,
        question: &str,
        events: &mpsc::Sender<Event>,
    ) -> bool {
        let is_same = |open: &Open| open.started.skill() == invocation.skill;
        if self.open.iter().any(is_same) {
            return false;
        }
        let run = NewRun {
            skill: invocation.skill.clone(),
            skill_hash: invocation.hash.clone(),
            phase: CHAT_PHASE.to_owned(),
            project_root: hands.toolbox.workspace.to_string_lossy().into_owned(),
            input: to_raw_value(&json!({"question": question})).ok(),
            ..NewRun::default()
        };
        match hands.skilled.begin(self.session.clone(), run).await {
            Ok(Some(started)) => {
                self.open.push(Open { started, begun: Instant::now(), told: 0 });
                true
            }
            // A store of another program's sessions has no place for them.
            Ok(None) => false,
            Err(error) => {
                let note = format!("the run of the skill {} is not recorded: {error}", invocation.skill);
                let _ = events.send(Event::Note(note)).await;
                false
            }
        }
    }

    /// The instructions of the run that was begun last are in the log.
    pub(super) fn told(&mut self, seq: u64) {
        if let Some(open) = self.open.last_mut() {
            open.told = seq;
        }
    }

    /// Records how all of them ended.
    pub(super) async fn end(
        self,
        hands: &Hands,
        answered: &Result<Answered, TurnError>,
        events: &mpsc::Sender<Event>,
    ) {
        for open in &self.open {
            let ended = self.ended(open, answered);
            if let Err(error) = hands.skilled.finish(open.started.clone(), ended).await {
                let skill = open.started.skill();
                let note = format!("how the run of the skill {skill} ended is not recorded: {error}");
                let _ = events.send(Event::Note(note)).await;
            }
        }
    }

    fn ended(&self, open: &Open, answered: &Result<Answered, TurnError>) -> RunEnd {
        let (status, error_class) = match answered {
            Ok(answered) if answered.stopped => (Status::Unknown, INTERRUPTED),
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
        let answered = answered.as_ref().ok();
        let model = answered.map(|answered| answered.model.clone()).unwrap_or_default();
        let usage = json!({"input": self.usage.input, "output": self.usage.output});
        let wrote = self.last.filter(|last| *last > open.told);
        let attempt = NewAttempt {
            model: model.clone(),
            output_summary: answered.map(|a| one_line(&a.text, SUMMARY_CHARS)).unwrap_or_default(),
            // All that it saw: the context up to the instructions, from wherever that began.
            prompt_ref: Some(passage(1, open.told)),
            output_ref: wrote.map(|last| passage(open.told + 1, last)),
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
const SUMMARY_CHARS: usize = 400;
