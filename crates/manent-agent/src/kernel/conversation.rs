//! A conversation, as a handle that can be asked from anywhere. Its actor holds the lease of the session from a
//! question to the end of the answer.

use std::sync::Arc;

use manent::SessionKey;
use tokio::sync::{mpsc, oneshot, watch};

use super::Shared;
use super::actor::{Inbox, KernelError, Mailbox};
use super::consolidation::ConsolidationActor;
use super::turn::{Answer, ConversationActor, Event, TurnError};

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
    Ask {
        question: String,
        events: mpsc::Sender<Event>,
        stop: watch::Receiver<bool>,
        reply: oneshot::Sender<Result<Answer, TurnError>>,
    },
    End(oneshot::Sender<()>),
}

impl Conversation {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        key: SessionKey,
        consolidation: Option<ConsolidationActor>,
    ) -> Conversation {
        let (shared, of) = (shared.clone(), key.clone());
        let mailbox = Mailbox::start(&shared.runtime.clone(), "the conversation", move |inbox| {
            serve(inbox, ConversationActor::new(shared.clone(), of.clone()), consolidation.clone())
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
        let question = question.into();
        self.mailbox.send(Command::Ask { question, events: sender, stop: stopped, reply }).await?;
        Ok(AnswerStream { events, answer, stop })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.mailbox.is_open()
    }

    pub(super) async fn end(&self) {
        // It ends when what was asked before is answered.
        let _ = self.mailbox.ask(Command::End, None).await;
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
        self.answer.await.unwrap_or(Err(TurnError::Kernel(KernelError::Broke { actor: "the conversation" })))
    }
}

async fn serve(
    inbox: Inbox<Command>,
    mut actor: ConversationActor,
    consolidation: Option<ConsolidationActor>,
) {
    let mut inbox = inbox.lock().await;
    while let Some(command) = inbox.recv().await {
        match command {
            Command::Ask { question, events, stop, reply } => {
                let answer = actor.answer(&question, &events, stop).await;
                let is_answered = answer.is_ok();
                let _ = reply.send(answer);
                // The listener is told that nothing more comes.
                drop(events);
                if let Some(consolidation) = consolidation.as_ref().filter(|_| is_answered) {
                    consolidation.answered(actor.key());
                }
            }
            Command::End(done) => {
                if let Some(consolidation) = &consolidation {
                    consolidation.ended(actor.key()).await;
                }
                let _ = done.send(());
                return;
            }
        }
    }
}

/// Whoever does not listen holds up the answer, not the memory.
const EVENTS_MAX: usize = 64;
