//! One conversation: its actor owns what is known of it, and holds the lease of its session from a question to the end
//! of the answer.

use std::sync::Arc;

use manent::SessionKey;
use tokio::sync::{mpsc, oneshot, watch};

use super::Shared;
use super::consolidating::Consolidating;
use super::mailbox::{KernelError, Letters, Mailbox};
use super::turn::{Answered, Event, Talk, TurnError};

/// A conversation that can be asked from anywhere. Clones are the same conversation.
#[derive(Debug, Clone)]
pub struct Conversation {
    key: SessionKey,
    mailbox: Mailbox<Letter>,
}

/// An answer that is being made.
#[derive(Debug)]
pub struct Hearing {
    events: mpsc::Receiver<Event>,
    answered: oneshot::Receiver<Result<Answered, TurnError>>,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
enum Letter {
    Ask(Asked),
    End(oneshot::Sender<()>),
}

/// A question on its way.
#[derive(Debug)]
struct Asked {
    question: String,
    events: mpsc::Sender<Event>,
    stop: watch::Receiver<bool>,
    answered: oneshot::Sender<Result<Answered, TurnError>>,
}

impl Conversation {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        key: SessionKey,
        consolidating: Option<Consolidating>,
    ) -> Conversation {
        let (shared, of) = (shared.clone(), key.clone());
        let mailbox = Mailbox::open(&shared.runtime.clone(), "the conversation", move |letters| {
            serve(letters, Talk::new(shared.clone(), of.clone()), consolidating.clone())
        });
        Conversation { key, mailbox }
    }

    /// Its session.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Asks. What comes is heard from the [`Hearing`]; to stop the answer, say so there.
    pub async fn ask(&self, question: impl Into<String>) -> Result<Hearing, KernelError> {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let (stop, stopped) = watch::channel(false);
        let (answered, answer) = oneshot::channel();
        let asked = Asked { question: question.into(), events, stop: stopped, answered };
        self.mailbox.send(Letter::Ask(asked)).await?;
        Ok(Hearing { events: heard, answered: answer, stop })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.mailbox.is_open()
    }

    pub(super) async fn end(&self) {
        // It ends when what was asked before is answered.
        let _ = self.mailbox.ask(Letter::End, None).await;
    }
}

impl Hearing {
    /// What comes next; nothing when the answer is at its end.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Stops the answer. What came so far is kept, and marked.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
    }

    /// How it ended. What comes until then is passed over.
    pub async fn end(mut self) -> Result<Answered, TurnError> {
        while self.events.recv().await.is_some() {}
        self.answered
            .await
            .unwrap_or(Err(TurnError::Kernel(KernelError::Broke { actor: "the conversation" })))
    }
}

async fn serve(letters: Letters<Letter>, mut talk: Talk, consolidating: Option<Consolidating>) {
    let mut letters = letters.lock().await;
    while let Some(letter) = letters.recv().await {
        match letter {
            Letter::Ask(asked) => {
                let answered = talk.answer(&asked.question, &asked.events, asked.stop).await;
                let is_answered = answered.is_ok();
                let _ = asked.answered.send(answered);
                if let Some(consolidating) = consolidating.as_ref().filter(|_| is_answered) {
                    consolidating.answered(talk.key());
                }
            }
            Letter::End(done) => {
                if let Some(consolidating) = &consolidating {
                    consolidating.ended(talk.key()).await;
                }
                let _ = done.send(());
                return;
            }
        }
    }
}

/// Whoever does not listen holds up the answer, not the memory.
const EVENTS_MAX: usize = 64;
