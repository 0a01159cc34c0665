//! A conversation: its handle, and its actor, which goes from a question to the end of its answer.
//!
//! | step | when it is done |
//! |---|---|
//! | the lease of the session is taken | nobody else writes it until the answer is at its end |
//! | the question is appended | it survives power loss, before any model is asked |
//! | remembered items that fit are selected, and noted | the log says what will be sent; without a memory, nothing is |
//! | if the context is too large, it is compacted | the user is told, with numbers |
//! | the context is made from the log and sent | |
//! | pieces of the answer are sent as events | |
//! | the answer is appended | it survives power loss, before it counts as done |
//! | if it calls tools, each is decided on, run, and its result appended; then the model is asked again | |
//! | if it called a skill, the end of that run is recorded | its begin was, before the model got the instructions |
//!
//! A stop, or a server that breaks off, keeps what came so far, marked as interrupted. All that reads and writes the
//! session before the first request is one job on a blocking thread, with the memory read beside it.

use std::sync::Arc;

use manent::context::{CompactedContext, Context, PromptConfig, Summariser};
use manent::memory::Selection;
use manent::tokens::Tokens;
use manent::{NewTurn, Receipt, RecordError, Session, SessionKey, turn};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};

use super::Shared;
use super::actor::{Inbox, KernelError, Mailbox};
use super::consolidation::ConsolidationActor;
use super::model_call::{AnswerEnd, ModelAnswer, Urgency};
use super::skill_runs::AnswerRuns;
use super::tool_runner::{self, Approval, CallStyle};
use crate::providers::{ModelError, Reply, Request, ToolCall};
use crate::text_tools;
use crate::tools::Tools;

/// A conversation that can be asked from anywhere. Clones are the same conversation.
#[derive(Debug, Clone)]
pub struct Conversation {
    key: SessionKey,
    mailbox: Mailbox<Command>,
}

/// An answer that is being made: its events, its end, and the means to stop it.
#[derive(Debug)]
pub struct AnswerStream {
    events: mpsc::Receiver<Event>,
    answer: oneshot::Receiver<Result<Answer, TurnError>>,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
enum Command {
    Ask { question: String, listener: Listener, reply: oneshot::Sender<Result<Answer, TurnError>> },
    End(oneshot::Sender<()>),
}

/// The kernel's end of an [`AnswerStream`]: events go to it, and a stop comes from it.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Listener {
    /// Sends an event, and waits while too many are unread. An event that nobody reads any more is dropped.
    pub(super) async fn send(&self, event: Event) {
        let _ = self.events.send(event).await;
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }
}

impl Conversation {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        key: SessionKey,
        consolidation: Option<ConsolidationActor>,
    ) -> Conversation {
        let (shared, session) = (shared.clone(), key.clone());
        let mailbox = Mailbox::start(&shared.runtime.clone(), NAME, move |inbox| {
            // Without a workspace there are no tools; a conversation goes on without them.
            let tools = shared.tools.as_ref().and_then(|runner| {
                runner.toolbox.tools(&shared.store, Arc::new(shared.memory.clone()), &session).ok()
            });
            let (shared, key, consolidation) = (shared.clone(), session.clone(), consolidation.clone());
            ConversationActor { shared, key, consolidation, tokens: Tokens::default(), tools }.serve(inbox)
        });
        Conversation { key, mailbox }
    }

    /// Returns the key of the session.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Asks, and returns the answer as a stream of events.
    pub async fn ask(&self, question: impl Into<String>) -> Result<AnswerStream, KernelError> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (stop, stopped) = watch::channel(false);
        let (reply, answer) = oneshot::channel();
        let listener = Listener { events: sender, stop: stopped };
        self.mailbox.send(Command::Ask { question: question.into(), listener, reply }).await?;
        Ok(AnswerStream { events, answer, stop })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.mailbox.is_open()
    }

    pub(super) async fn end(&self) {
        // It ends when what was asked before is answered.
        let _ = self.mailbox.ask(Command::End).await;
    }
}

impl AnswerStream {
    /// Returns the next event, or `None` when the answer is at its end.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Stops the answer. What came so far is kept, and marked.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
    }

    /// Waits for the end of the answer and passes over all events until then.
    pub async fn end(mut self) -> Result<Answer, TurnError> {
        while self.events.recv().await.is_some() {}
        self.answer.await.unwrap_or(Err(TurnError::Kernel(KernelError::Broke { actor: NAME })))
    }
}

/// An event while an answer is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The question is in the log.
    QuestionSaved {
        /// The number of its record.
        seq: u64,
    },
    /// The context was too large, and is smaller now.
    Compacted(CompactedContext),
    /// The context is sent.
    Sending {
        /// The size of the context.
        tokens: u64,
    },
    /// Text of the answer.
    Text(String),
    /// Text of the model's reasoning.
    Thinking(String),
    /// The server is asked again.
    Retry {
        /// The pause before, in milliseconds.
        after_ms: u64,
        /// The reason.
        why: String,
    },
    /// A tool is at work.
    ToolStarted {
        /// The call in one line: `edit src/main.rs`.
        what: String,
    },
    /// A tool is done.
    ToolFinished {
        /// The name of the tool.
        name: String,
        /// True if it did not do what was asked.
        failed: bool,
    },
    /// A model wants to do something that a person must allow.
    Approve(Approval),
    /// A note for the user.
    Note(String),
}

/// An answer that is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The number of its record; `None` for an empty answer, which is not kept.
    pub seq: Option<u64>,
    /// The text.
    pub text: String,
    /// The name of the model.
    pub model: String,
    /// True if it was stopped.
    pub stopped: bool,
    /// The size of the context in tokens, as we count.
    pub tokens: u64,
}

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The store refused. If the question was not kept, nobody was asked.
    #[error("{0}")]
    Store(#[from] manent::Error),
    /// The model did not answer. The question is in the log, and so is what came.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// A model that calls tools for ever.
    #[error(
        "the model called tools {most} times in a row without an answer; ask again, and say what it should do"
    )]
    Rounds {
        /// The number of calls in a row.
        most: u32,
    },
    /// A part of the kernel broke.
    #[error("{0}")]
    Kernel(#[from] KernelError),
}

/// The actor of a conversation.
struct ConversationActor {
    shared: Arc<Shared>,
    key: SessionKey,
    consolidation: Option<ConsolidationActor>,
    /// The counter of tokens, corrected by what the server counts.
    tokens: Tokens,
    tools: Option<Tools>,
}

/// The question that is being answered.
struct Turn<'a> {
    question: &'a str,
    listener: &'a Listener,
    runs: AnswerRuns,
}

impl ConversationActor {
    async fn serve(mut self, inbox: Inbox<Command>) {
        let mut inbox = inbox.lock().await;
        while let Some(command) = inbox.recv().await {
            match command {
                Command::Ask { question, listener, reply } => {
                    let answer = self.answer(&question, &listener).await;
                    let is_answered = answer.is_ok();
                    let _ = reply.send(answer);
                    // Ends the stream of events.
                    drop(listener);
                    if let Some(consolidation) = self.consolidation.as_ref().filter(|_| is_answered) {
                        consolidation.answered(&self.key);
                    }
                }
                Command::End(done) => {
                    if let Some(consolidation) = &self.consolidation {
                        consolidation.ended(&self.key).await;
                    }
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    async fn answer(&mut self, question: &str, listener: &Listener) -> Result<Answer, TurnError> {
        let (session, context) = self.begin(question.to_owned(), listener.clone()).await?;
        let runs = AnswerRuns::new(self.key.clone(), session.id().to_owned());
        let mut turn = Turn { question, listener, runs };
        let answer = self.rounds(session, context, &mut turn).await;
        if let Some(runner) = &self.shared.tools {
            turn.runs.end(&runner.skill_runs, &answer, listener).await;
        }
        answer
    }

    /// Takes the lease, appends the question, notes the configuration of the prompt, and makes the context.
    async fn begin(&self, question: String, listener: Listener) -> Result<(Session, Context), TurnError> {
        let (shared, key, tokens) = (self.shared.clone(), self.key.clone(), self.tokens);
        let tools = shared.tools.as_ref().zip(self.tools.as_ref());
        let config = PromptConfig {
            system: Some(shared.system.clone()),
            model: Some(shared.model.name().to_owned()),
            protocol: tools.map(|(runner, _)| runner.toolbox.calling.word().to_owned()),
            tools: tools.map(|(runner, tools)| runner.schemas(tools)),
            ..PromptConfig::default()
        };
        // The record itself reads no system text, and remembers by searching.
        let selecting = shared.memory.clone().select(question.clone(), shared.memory_tokens);
        let selecting = (!shared.is_recall()).then(|| tokio::spawn(selecting));
        blocking(move || {
            let mut session = shared.store.session(&key)?;
            let receipt = session.append(turn("user", question))?;
            let _ = listener.events.blocking_send(Event::QuestionSaved { seq: receipt.seq });
            if let Some(selecting) = selecting {
                let selected = shared.runtime.block_on(selecting).unwrap_or_else(|e| Err(e.to_string()));
                let selection = selected.unwrap_or_else(|why| {
                    let note =
                        format!("nothing remembered is used for this answer, because of the memory: {why}");
                    let _ = listener.events.blocking_send(Event::Note(note));
                    Selection::default()
                });
                session.set_context(&config.remembering(&selection))?;
            }
            let context = fitting_context(&shared, &mut session, tokens, &listener)?;
            Ok((session, context))
        })
        .await
    }

    /// Asks the model, and runs the calls of its answers, until it calls no more.
    async fn rounds(
        &mut self,
        mut session: Session,
        mut context: Context,
        turn: &mut Turn<'_>,
    ) -> Result<Answer, TurnError> {
        let mut was_unclear = false;
        for round in 1..=ROUNDS_MAX {
            turn.listener.send(Event::Sending { tokens: context.tokens }).await;
            let request = Request::from(&context);
            let style = self.shared.tools.as_ref().map_or(CallStyle::Native, |tools| tools.toolbox.calling);
            let answer = self.shared.models.stream(&request, style, turn.listener).await;
            self.count(&answer.reply, &context, turn.listener).await;
            let record = answer_record(&answer, context.tokens).map_err(manent::Error::from)?;
            let ModelAnswer { reply, end, unclear } = answer;
            let mut seq = None;
            if let Some(record) = record {
                let receipt;
                (session, receipt) = append(session, record).await?;
                turn.runs.wrote(receipt.seq, reply.usage);
                seq = Some(receipt.seq);
            }
            let stopped = match end {
                AnswerEnd::Whole => false,
                AnswerEnd::Stopped => true,
                AnswerEnd::Broken(error) => return Err(error.into()),
            };
            let repair = unclear.filter(|_| !was_unclear);
            if stopped || (reply.calls.is_empty() && repair.is_none()) {
                let Reply { text, model, .. } = reply;
                return Ok(Answer { seq, text, model, stopped, tokens: context.tokens });
            }
            was_unclear = repair.is_some();
            for call in &reply.calls {
                // A call that was not made has no result; the context says so.
                if turn.listener.is_stopped() {
                    break;
                }
                session = self.call(session, call, turn).await?;
            }
            let repair =
                repair.map(|unclear| manent::turn("system", text_tools::repair_prompt(&unclear.problem)));
            let (shared, tokens, listener) = (self.shared.clone(), self.tokens, turn.listener.clone());
            (session, context) = blocking(move || {
                if let Some(repair) = repair {
                    session.append(repair)?;
                }
                // After the last round nothing is sent, so nothing is compacted for it.
                if round < ROUNDS_MAX {
                    context = fitting_context(&shared, &mut session, tokens, &listener)?;
                }
                Ok((session, context))
            })
            .await?;
        }
        Err(TurnError::Rounds { most: ROUNDS_MAX })
    }

    /// Runs a call, and appends its result as soon as it is there.
    async fn call(
        &self,
        session: Session,
        call: &ToolCall,
        turn: &mut Turn<'_>,
    ) -> Result<Session, TurnError> {
        let (mut outcome, mut is_run) = (tool_runner::no_tools(call), false);
        if let (Some(runner), Some(tools)) = (&self.shared.tools, &self.tools) {
            outcome = runner.run(tools, call, turn.listener).await;
            if let Some(skill) = &outcome.skill {
                is_run = turn.runs.begin(&runner.skill_runs, skill, turn.question, turn.listener).await;
            }
        }
        let finished = Event::ToolFinished { name: call.name.clone(), failed: outcome.result.failed };
        turn.listener.send(finished).await;
        let record = tool_runner::result_record(call, &outcome).map_err(manent::Error::from)?;
        let (session, receipt) = append(session, record).await?;
        if is_run {
            turn.runs.instructed(receipt.seq);
        }
        Ok(session)
    }

    /// Corrects our count of tokens by the server's. If the server read less than it was given, the user is told.
    async fn count(&mut self, reply: &Reply, context: &Context, listener: &Listener) {
        match (reply.truncated, reply.usage.input) {
            (Some(cut), _) => {
                let note = format!(
                    "the server read only {} of some {} tokens: what came first was cut off; set a larger window, or \
                     a smaller agent.max_context_tokens",
                    cut.read, cut.counted
                );
                listener.send(Event::Note(note)).await;
            }
            // A server that counts only what is new to it is not believed.
            (None, Some(read)) if read.saturating_mul(2) >= context.tokens => {
                self.tokens = self.tokens.corrected(read, context.tokens);
            }
            _ => {}
        }
    }
}

/// Returns the context of a session, and compacts the session before if that is too large. Blocks.
fn fitting_context(
    shared: &Shared,
    session: &mut Session,
    tokens: Tokens,
    listener: &Listener,
) -> manent::Result<Context> {
    let context = session.context(tokens)?;
    if shared.is_recall() || shared.limits.exceeded_by(&context).is_none() {
        return Ok(context);
    }
    let mut tasks = shared.model_tasks(|request| {
        shared.runtime.block_on(shared.models.ask_unless_stopped(request, Urgency::Awaited, &listener.stop))
    });
    let summariser: &mut dyn Summariser = &mut tasks;
    let compacted = session.compact(tokens, shared.limits, false, Some(summariser))?;
    if let Some(compacted) = compacted {
        // A stop undoes the compaction too: the next question gets the summary it would have had.
        if listener.is_stopped() {
            session.undo_compaction()?;
        } else {
            let _ = listener.events.blocking_send(Event::Compacted(compacted));
        }
    }
    session.context(tokens)
}

async fn append(mut session: Session, record: NewTurn) -> Result<(Session, Receipt), TurnError> {
    blocking(move || session.append(record).map(|receipt| (session, receipt))).await
}

/// Runs work that waits for a disk on a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, manent::Error> + Send + 'static,
) -> Result<T, TurnError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(KernelError::Broke { actor: "the store" }.into()),
    }
}

/// Makes the record of an answer, unless it is empty. `counted` is the size of its context in tokens, as we count.
fn answer_record(answer: &ModelAnswer, counted: u64) -> Result<Option<NewTurn>, RecordError> {
    let reply = &answer.reply;
    // Text with a call that was not understood is not lost: it is the answer, or stands beside what was called.
    let written = answer.unclear.as_ref().map(|unclear| unclear.written.as_str());
    let text = written.filter(|_| reply.calls.is_empty()).unwrap_or(&reply.text);
    if text.is_empty() && reply.thinking.is_empty() && reply.calls.is_empty() {
        return Ok(None);
    }
    let mut record = turn("assistant", text).string("model", &reply.model);
    let counted = Some(counted).filter(|counted| *counted > 0);
    let usage = [("input", reply.usage.input), ("output", reply.usage.output), ("counted", counted)];
    let usage: Map<String, Value> =
        usage.into_iter().filter_map(|(name, n)| Some((name.to_owned(), json!(n?)))).collect();
    if !usage.is_empty() {
        record = record.json("usage", &Value::Object(usage).to_string())?;
    }
    if !reply.thinking.is_empty() {
        record = record.string("thinking", &reply.thinking);
    }
    if !reply.calls.is_empty() {
        // Arguments that are not JSON are kept as a string.
        let calls = reply.calls.iter().map(|call| {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
            json!({"id": call.id, "name": call.name, "arguments": arguments})
        });
        record = record.json("tool_calls", &Value::Array(calls.collect()).to_string())?;
    }
    match &answer.end {
        AnswerEnd::Whole => {}
        AnswerEnd::Stopped => record = record.string("interrupted", "stopped"),
        AnswerEnd::Broken(_) => record = record.string("interrupted", "broken"),
    }
    if let Some(written) = written.filter(|_| !reply.calls.is_empty()) {
        record = record.string("written", written);
    }
    Ok(Some(record))
}

const NAME: &str = "the conversation";
/// The number of unread events at which the answer waits, so that a slow listener takes no memory.
const EVENTS_MAX: usize = 64;
/// A model that calls more often than this without an answer goes round in circles.
const ROUNDS_MAX: u32 = 40;
