//! The kernel: actors with bounded mailboxes, one for each live conversation, and some that all of them share.
//!
//! An actor owns its state and takes one message after the other. Whoever sends waits while a mailbox is full; whoever
//! asks waits for the reply as long as it said. An actor that panics loses the message it was at, is begun anew with
//! the next one, and is given up when it panics too often; nothing else is touched by that. What was acknowledged is in
//! the log, and an actor that is begun anew reads it there.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Kernel`]: opening conversations, ending all of them |
//! | `mailbox.rs` | mailboxes, asking, being begun anew |
//! | `conversation.rs` | [`Conversation`]: one conversation, asked from anywhere |
//! | `turn.rs` | from a question to the end of its answer |
//! | `hearing.rs` | asking a model, and telling what comes |
//! | `calling.rs` | the calls of an answer: decided on, made, kept |
//! | `saying.rs` | a reply as the log has it |
//! | `models.rs` | the actor that asks models |
//! | `tooling.rs` | the actor that works with tools |
//! | `skilled.rs` | the actor of the skills |
//! | `invoked.rs` | the runs of skills: begun, ended |
//! | `memory.rs` | the actor of the memory: what is chosen, and what is written |
//! | `consolidating.rs` | the actor that makes memory of what was said, while nobody waits |
//! | `reviewing.rs` | the actor that looks back on what skills did, now and then |

mod calling;
mod consolidating;
mod conversation;
mod hearing;
mod invoked;
mod mailbox;
mod memory;
mod models;
mod reviewing;
mod saying;
mod skilled;
mod tooling;
mod turn;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manent::context::Limits;
use manent::tokens::Tokens;
use manent::{SessionKey, Store};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use crate::config::Config;
use crate::providers::Model;

pub use calling::{Approval, Calling, Toolbox, Word};
pub use conversation::{Conversation, Hearing};
pub use invoked::CHAT_PHASE;
pub use mailbox::KernelError;
pub use reviewing::{Review, Reviewed};
pub use turn::{Answered, Event, TurnError};

use calling::Hands;
use consolidating::Consolidating;
use memory::Memory;
use models::Models;
use reviewing::Reviewing;

/// What runs conversations.
#[derive(Debug, Clone)]
pub struct Kernel {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    shared: Arc<Shared>,
    open: Mutex<HashMap<SessionKey, Conversation>>,
    consolidating: Option<Consolidating>,
    reviewing: Option<Reviewing>,
}

/// What all conversations share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) runtime: Handle,
    pub(crate) store: Store,
    pub(crate) model: Model,
    pub(crate) limits: Limits,
    /// What a model is told before anything else.
    pub(crate) system: String,
    /// What may be put in of what is remembered, in tokens.
    pub(crate) memory_tokens: u64,
    pub(crate) config: Config,
    models: Models,
    memory: Memory,
    /// Nothing: models are told of no tools.
    hands: Option<Hands>,
}

impl Kernel {
    /// Begins with a store and a model, on a runtime.
    pub fn start(runtime: &Handle, store: Store, model: Model, config: Config, system: String) -> Kernel {
        Kernel::start_with(runtime, store, model, config, system, None)
    }

    /// As [`Kernel::start`], with tools.
    pub fn start_with(
        runtime: &Handle,
        store: Store,
        model: Model,
        config: Config,
        system: String,
        tools: Option<Toolbox>,
    ) -> Kernel {
        // The vocabulary takes a tenth of a second to load: better now than before the first answer.
        runtime.spawn_blocking(|| Tokens::default().count(""));
        let limits = within_window(config.limits, &model);
        let memory_tokens = limits.max_tokens * MEMORY_PERCENT / 100;
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            models: Models::open(runtime, model.clone(), config.background_timeout),
            memory: Memory::open(runtime, &store),
            hands: tools.map(|toolbox| Hands::open(runtime, store.clone(), toolbox)),
            store,
            model,
            limits,
            system,
            memory_tokens,
            config,
        });
        let consolidating = Consolidating::start(&shared);
        let reviewing = Reviewing::start(&shared);
        Kernel { core: Arc::new(Core { shared, open: Mutex::default(), consolidating, reviewing }) }
    }

    /// The conversation of a key: the one that is open, or a new one that goes on where the log ends.
    pub fn conversation(&self, key: &SessionKey) -> Conversation {
        let mut open = self.core.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, conversation| conversation.is_alive());
        let begin = || Conversation::begin(&self.core.shared, key.clone(), self.core.consolidating.clone());
        open.entry(key.clone()).or_insert_with(begin).clone()
    }

    /// The model that answers.
    pub fn model(&self) -> &Model {
        &self.core.shared.model
    }

    /// Returns the tools of all conversations and what they may do, or `None` if models are told of no tools.
    pub fn toolbox(&self) -> Option<&Toolbox> {
        self.core.shared.hands.as_ref().map(|hands| &*hands.toolbox)
    }

    /// How large contexts may grow: what is configured, and no more than the model can read.
    pub fn limits(&self) -> Limits {
        self.core.shared.limits
    }

    /// What comes of looking back on what skills did, from now on; nothing if it is off. Whoever does not listen loses
    /// the oldest.
    pub fn reviews(&self) -> Option<broadcast::Receiver<Reviewed>> {
        self.core.reviewing.as_ref().map(Reviewing::listen)
    }

    /// Ends everything: questions that are being answered come to their end, what is left to consolidate is looked at,
    /// as long as there is time. What is not done by then is done next time: the journal knows.
    pub async fn end(self, within: Duration) {
        // Nobody waits for this one: what it was at is done next time.
        if let Some(reviewing) = &self.core.reviewing {
            reviewing.end();
        }
        let open: Vec<Conversation> = {
            let mut open = self.core.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.drain().map(|(_, conversation)| conversation).collect()
        };
        let ending = async {
            for conversation in open {
                conversation.end().await;
            }
            if let Some(consolidating) = &self.core.consolidating {
                consolidating.end().await;
            }
        };
        let _ = tokio::time::timeout(within, ending).await;
    }
}

/// A context that the model cannot read is too large, whatever is configured.
fn within_window(limits: Limits, model: &Model) -> Limits {
    let Some(window) = model.window() else { return limits };
    let room = window.saturating_sub(crate::model_selection::ANSWER_TOKENS).max(window / 2);
    Limits { max_tokens: limits.max_tokens.min(room), ..limits }
}

/// How much of a context what is remembered may take.
const MEMORY_PERCENT: u64 = 8;
