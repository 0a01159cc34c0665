//! From a question to the end of its answer.
//!
//! | step | when it is done |
//! |---|---|
//! | the lease of the session is taken | nobody else writes it until the answer is at its end |
//! | the question is appended | it survives power loss, before any model is asked |
//! | what is remembered and fits is chosen, and noted | the log says what will be sent; without a memory, nothing is |
//! | if the context is too large, it is compacted | the user is told, with numbers |
//! | the context is made from the log and sent | |
//! | pieces of the answer are told as they come | |
//! | the answer is appended | it survives power loss, before it counts as done |
//! | if it calls tools, each is decided on, made, and its result appended; then the model is asked again | |
//! | if it called a skill, how that run ended is recorded | its beginning was, before the model got the instructions |
//!
//! A stop, or a server that breaks off, keeps what came so far, marked as interrupted.

use std::sync::Arc;

use manent::context::{CompactedContext, Context, PromptConfig, Summariser};
use manent::memory::Selection;
use manent::tokens::Tokens;
use manent::{NewTurn, Receipt, Session, SessionKey, turn};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use super::Shared;
use super::calling::{self, Approval, Calling};
use super::hearing::{Said, Unclear, hear, unless_stopped};
use super::invoked::Invoked;
use super::mailbox::KernelError;
use super::saying::{self, Ended};
use crate::model_tasks::ModelTasks;
use crate::providers::{Model, ModelError, Reply, Request, ToolCall};
use crate::text_tools;
use crate::tools::Tools;

/// Something that happens while an answer is made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The question is in the log.
    Kept {
        /// Its number.
        seq: u64,
    },
    /// The context was too large, and is smaller now.
    Compacted(CompactedContext),
    /// What is sent takes so many tokens.
    Sending {
        /// How many.
        tokens: u64,
    },
    /// More of the answer.
    Text(String),
    /// More of what the model thinks before it.
    Thinking(String),
    /// The server is asked again.
    Again {
        /// After so many milliseconds.
        after_ms: u64,
        /// Why.
        why: String,
    },
    /// A tool is at work.
    Calling {
        /// In one line: `edit src/main.rs`.
        what: String,
    },
    /// A tool is done.
    Called {
        /// Which.
        name: String,
        /// It did not do what was asked.
        failed: bool,
    },
    /// A model wants to do something that a person must allow.
    Approve(Approval),
    /// Something that the user should know.
    Note(String),
}

/// An answer that is in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Its number; nothing if nothing was said.
    pub seq: Option<u64>,
    /// What was said.
    pub text: String,
    /// Who said it.
    pub model: String,
    /// It was stopped.
    pub stopped: bool,
    /// What the context took, as we count.
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
        /// How often.
        most: u32,
    },
    /// A part of the kernel broke.
    #[error("{0}")]
    Kernel(#[from] KernelError),
}

/// What the actor of a conversation knows.
pub(super) struct Talk {
    shared: Arc<Shared>,
    key: SessionKey,
    /// Corrected by what the server counts.
    tokens: Tokens,
    tools: Option<Tools>,
}

impl Talk {
    pub(super) fn new(shared: Arc<Shared>, key: SessionKey) -> Talk {
        // Without a workspace there are no tools; a conversation goes on without them.
        let tools = shared
            .hands
            .as_ref()
            .and_then(|hands| hands.toolbox.tools(&shared.store, Arc::new(shared.memory.clone()), &key).ok());
        Talk { shared, key, tokens: Tokens::default(), tools }
    }

    pub(super) fn key(&self) -> &SessionKey {
        &self.key
    }

    pub(super) async fn answer(
        &mut self,
        question: &str,
        events: &mpsc::Sender<Event>,
        stop: watch::Receiver<bool>,
    ) -> Result<Answered, TurnError> {
        let session = self.begin(question.to_owned(), events).await?;
        let mut invoked = Invoked::new(self.key.clone(), session.id().to_owned());
        let answered = self.rounds(session, question, events, stop, &mut invoked).await;
        if let Some(hands) = &self.shared.hands {
            invoked.end(hands, &answered, events).await;
        }
        answered
    }

    /// Asks the model, and makes the calls of its answers, until it calls no more.
    async fn rounds(
        &mut self,
        session: Session,
        question: &str,
        events: &mpsc::Sender<Event>,
        mut stop: watch::Receiver<bool>,
        invoked: &mut Invoked,
    ) -> Result<Answered, TurnError> {
        let mut session = self.set(session, question.to_owned(), events).await?;
        let mut unclear_before = false;
        for _ in 0..ROUNDS_MAX {
            let context;
            (session, context) = self.context(session, events, &stop).await?;
            let _ = events.send(Event::Sending { tokens: context.tokens }).await;
            let request = Request::from(&context);
            let calling = self.shared.hands.as_ref().map_or(Calling::Native, |hands| hands.toolbox.calling);
            let (models, name) = (&self.shared.models, self.shared.model.name());
            let said = hear(models, name, &request, calling, events, &mut stop).await;
            self.count(&said.reply, &context, events).await;
            let Said { reply, ended, error, unclear } = said;
            let receipt;
            (session, receipt) =
                self.keep(session, reply.clone(), unclear.as_ref(), context.tokens, ended).await?;
            if let Some(receipt) = &receipt {
                invoked.wrote(receipt.seq, reply.usage);
            }
            if let Some(error) = error {
                return Err(error.into());
            }
            let repair = unclear.filter(|_| !unclear_before);
            if ended == Ended::Stopped || (reply.calls.is_empty() && repair.is_none()) {
                return Ok(Answered {
                    seq: receipt.map(|receipt| receipt.seq),
                    text: reply.text,
                    model: reply.model,
                    stopped: ended == Ended::Stopped,
                    tokens: context.tokens,
                });
            }
            unclear_before = repair.is_some();
            for call in &reply.calls {
                // What was not made has no result; the context says so.
                if *stop.borrow() {
                    break;
                }
                session = self.call(session, call, question, events, &mut stop, invoked).await?;
            }
            if let Some(unclear) = repair {
                (session, _) =
                    self.say(session, turn("system", text_tools::repair_prompt(&unclear.why))).await?;
            }
        }
        Err(TurnError::Rounds { most: ROUNDS_MAX })
    }

    /// Makes a call, and keeps its result as soon as it is there.
    async fn call(
        &self,
        mut session: Session,
        call: &ToolCall,
        question: &str,
        events: &mpsc::Sender<Event>,
        stop: &mut watch::Receiver<bool>,
        invoked: &mut Invoked,
    ) -> Result<Session, TurnError> {
        let (mut made, mut is_run) = (calling::none(call), false);
        if let (Some(hands), Some(tools)) = (&self.shared.hands, &self.tools) {
            made = hands.make(tools, call, events, stop).await;
            if let Some(invocation) = &made.invocation {
                is_run = invoked.begin(hands, invocation, question, events).await;
            }
        }
        let _ = events.send(Event::Called { name: call.name.clone(), failed: made.done.failed }).await;
        let said = calling::result(call, &made).map_err(manent::Error::from)?;
        let receipt;
        (session, receipt) = self.say(session, said).await?;
        if is_run {
            invoked.told(receipt.seq);
        }
        Ok(session)
    }

    /// Appends a turn.
    async fn say(&self, session: Session, said: NewTurn) -> Result<(Session, Receipt), TurnError> {
        blocking(move || {
            let mut session = session;
            let receipt = session.append(said)?;
            Ok((session, receipt))
        })
        .await
    }

    /// What the server counted corrects what we count; and if it read less than it was given, the user is told.
    async fn count(&mut self, reply: &Reply, context: &Context, events: &mpsc::Sender<Event>) {
        match (reply.truncated, reply.usage.input) {
            (Some(cut), _) => {
                let note = format!(
                    "the server read only {} of some {} tokens: what came first was cut off; set a larger window, or \
                     a smaller agent.max_context_tokens",
                    cut.read, cut.counted
                );
                let _ = events.send(Event::Note(note)).await;
            }
            // One that counts only what is new to it is not believed.
            (None, Some(read)) if read.saturating_mul(2) >= context.tokens => {
                self.tokens = self.tokens.corrected(read, context.tokens);
            }
            _ => {}
        }
    }

    /// Takes the lease, and keeps the question.
    async fn begin(&self, question: String, events: &mpsc::Sender<Event>) -> Result<Session, TurnError> {
        let (shared, key) = (self.shared.clone(), self.key.clone());
        let (session, receipt) = blocking(move || {
            let mut session = shared.store.session(&key)?;
            let receipt = session.append(turn("user", question))?;
            Ok((session, receipt))
        })
        .await?;
        let _ = events.send(Event::Kept { seq: receipt.seq }).await;
        Ok(session)
    }

    /// Notes what is sent besides the turns. Without a memory that can be read, nothing remembered is sent, and the
    /// user is told.
    async fn set(
        &self,
        session: Session,
        question: String,
        events: &mpsc::Sender<Event>,
    ) -> Result<Session, TurnError> {
        // The record itself reads no system text, and remembers by searching.
        if matches!(self.shared.model, Model::Recall(_)) {
            return Ok(session);
        }
        let hands = self.shared.hands.as_ref().zip(self.tools.as_ref());
        let schemas = hands.map(|(hands, tools)| hands.schemas(tools));
        let protocol = hands.map(|(hands, _)| hands.toolbox.calling.word().to_owned());
        let shared = self.shared.clone();
        let chosen = match shared.memory.select(question, shared.memory_tokens).await {
            Ok(chosen) => chosen,
            Err(why) => {
                let note =
                    format!("nothing remembered is used for this answer, because of the memory: {why}");
                let _ = events.send(Event::Note(note)).await;
                Selection::default()
            }
        };
        blocking(move || {
            let mut session = session;
            let setting = PromptConfig {
                system: Some(shared.system.clone()),
                model: Some(shared.model.name().to_owned()),
                protocol,
                tools: schemas,
                ..PromptConfig::default()
            };
            session.set_context(&setting.remembering(&chosen))?;
            Ok(session)
        })
        .await
    }

    /// Makes the context small enough, tells if that was needed, and gives it.
    async fn context(
        &self,
        session: Session,
        events: &mpsc::Sender<Event>,
        stop: &watch::Receiver<bool>,
    ) -> Result<(Session, Context), TurnError> {
        let (shared, tokens, handle) = (self.shared.clone(), self.tokens, Handle::current());
        let stop = stop.clone();
        let (session, compacted, context) = blocking(move || {
            let mut session = session;
            let context = session.context(tokens)?;
            let is_record = matches!(shared.model, Model::Recall(_));
            if is_record || shared.limits.exceeded_by(&context).is_none() {
                return Ok((session, None, context));
            }
            let window = shared.model.window().unwrap_or(shared.limits.max_tokens);
            let mut asking = ModelTasks::new(shared.model.name(), window, |request| {
                handle.block_on(unless_stopped(&shared.models, request, stop.clone()))
            });
            let summariser: &mut dyn Summariser = &mut asking;
            let mut compacted = session.compact(tokens, shared.limits, false, Some(summariser))?;
            // Whoever stops wants the rest undone too: the next question gets the summary it would have had.
            if compacted.is_some() && *stop.borrow() {
                session.undo_compaction()?;
                compacted = None;
            }
            let context = session.context(tokens)?;
            Ok((session, compacted, context))
        })
        .await?;
        if let Some(compacted) = compacted {
            let _ = events.send(Event::Compacted(compacted)).await;
        }
        Ok((session, context))
    }

    /// Keeps the answer, if anything was said.
    async fn keep(
        &self,
        session: Session,
        mut reply: Reply,
        unclear: Option<&Unclear>,
        counted: u64,
        ended: Ended,
    ) -> Result<(Session, Option<Receipt>), TurnError> {
        // What was not understood is not lost: it is the answer, or stands beside what was called.
        let written = unclear.map(|unclear| unclear.written.clone());
        if let Some(written) = written.as_ref().filter(|_| reply.calls.is_empty()) {
            reply.text.clone_from(written);
        }
        let written = written.filter(|_| !reply.calls.is_empty());
        if reply.text.is_empty() && reply.thinking.is_empty() && reply.calls.is_empty() {
            return Ok((session, None));
        }
        blocking(move || {
            let mut session = session;
            let mut said = saying::answer(&reply, counted, ended)?;
            if let Some(written) = &written {
                said = said.string("written", written);
            }
            let receipt = session.append(said)?;
            Ok((session, Some(receipt)))
        })
        .await
    }
}

/// Does what waits for a disk where that hurts nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, manent::Error> + Send + 'static,
) -> Result<T, TurnError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(KernelError::Broke { actor: "the store" }.into()),
    }
}

/// A model that calls more often than this without an answer goes round in circles.
const ROUNDS_MAX: u32 = 40;
