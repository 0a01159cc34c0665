//! The kernel: actors for what owns state, one for each live conversation, and async functions for the rest.
//!
//! An actor owns its state and takes one command after another from a bounded mailbox. Senders wait while it is
//! full, and for a reply. An actor that panics loses the command it was at, is restarted with the next
//! one, and is given up if it panics too often; nothing else is touched. What was acknowledged is in the log, where a
//! restarted actor reads it. Calls of models and tools, and writes to the memory, own no state: they are functions with
//! a limit on how many run at once, and a time limit.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Kernel`]: opening conversations, ending all of them |
//! | `actor.rs` | the generic actor: mailbox, supervision, restart; the queue for blocking work |
//! | `conversation.rs` | [`Conversation`]: the handle of a conversation, and its actor, from a question to its answer |
//! | `model_call.rs` | calls of models, and events of their answers |
//! | `tool_runner.rs` | calls of tools: decided on, run, recorded |
//! | `skill_runs.rs` | skills as a tool, and the record of their runs |
//! | `memory.rs` | selecting from the memory, and writing to it |
//! | `consolidation.rs` | the actor that makes memory of what was said, while nobody waits |
//! | `retro_worker.rs` | the task that reports on what skills did, now and then |

mod actor;
mod consolidation;
mod conversation;
mod memory;
mod model_call;
mod retro_worker;
mod skill_runs;
mod tool_runner;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manent::context::Limits;
use manent::tokens::Tokens;
use manent::{SessionKey, Store};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use crate::config::Config;
use crate::model_tasks::ModelTasks;
use crate::providers::{Model, ModelError, Reply, Request};

pub use actor::KernelError;
pub use conversation::{Answer, AnswerStream, Conversation, Event, TurnError};
pub use retro_worker::{RetroEvent, RetroReport};
pub use skill_runs::CHAT_PHASE;
pub use tool_runner::{Approval, ApprovalReply, CallStyle, Toolbox};

use consolidation::ConsolidationActor;
use memory::KernelMemory;
use model_call::ModelCalls;
use retro_worker::RetroWorker;
use tool_runner::ToolRunner;

/// Runs conversations. Clones are the same kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    shared: Arc<Shared>,
    open: Mutex<HashMap<SessionKey, Conversation>>,
    consolidation: Option<ConsolidationActor>,
    retro: Option<RetroWorker>,
}

/// The state that all conversations share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) runtime: Handle,
    pub(crate) store: Store,
    pub(crate) model: Model,
    pub(crate) limits: Limits,
    /// The system text.
    pub(crate) system: String,
    /// The limit for remembered items in a context, in tokens.
    pub(crate) memory_tokens: u64,
    pub(crate) config: Config,
    models: Arc<ModelCalls>,
    memory: KernelMemory,
    /// The tools; `None` if models are told of none.
    tools: Option<ToolRunner>,
}

impl Shared {
    /// Returns true if the record itself answers, and no model.
    fn is_recall(&self) -> bool {
        matches!(self.model, Model::Recall(_))
    }

    /// Returns the model for the tasks of the library. `ask` asks it, and waits.
    fn model_tasks<'a>(&self, ask: impl FnMut(&Request) -> Result<Reply, ModelError> + 'a) -> ModelTasks<'a> {
        let window = self.model.window().unwrap_or(self.limits.max_tokens);
        ModelTasks::new(self.model.name(), window, ask)
    }
}

impl Kernel {
    /// Starts a kernel on a runtime, with a store and a model. Without `tools`, models are told of none.
    pub fn start(
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
            models: ModelCalls::new(model.clone(), config.background_timeout),
            memory: KernelMemory::new(runtime, &store),
            tools: tools.map(|toolbox| ToolRunner::new(store.clone(), toolbox)),
            store,
            model,
            limits,
            system,
            memory_tokens,
            config,
        });
        let consolidation = ConsolidationActor::start(&shared);
        let retro = RetroWorker::start(&shared);
        Kernel { core: Arc::new(Core { shared, open: Mutex::default(), consolidation, retro }) }
    }

    /// Returns the conversation of a key: the one that is open, or a new one that goes on where the log ends.
    pub fn conversation(&self, key: &SessionKey) -> Conversation {
        let mut open = self.core.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, conversation| conversation.is_alive());
        let begin = || Conversation::begin(&self.core.shared, key.clone(), self.core.consolidation.clone());
        open.entry(key.clone()).or_insert_with(begin).clone()
    }

    /// Returns the model that answers.
    pub fn model(&self) -> &Model {
        &self.core.shared.model
    }

    /// Returns the tools of all conversations and what they may do, or `None` if models are told of no tools.
    pub fn toolbox(&self) -> Option<&Toolbox> {
        self.core.shared.tools.as_ref().map(|runner| &*runner.toolbox)
    }

    /// Returns the limits of contexts: as configured, and no more than the model can read.
    pub fn limits(&self) -> Limits {
        self.core.shared.limits
    }

    /// Subscribes to the events of the scheduled reports; `None` if they are off. A subscriber that falls behind loses
    /// the oldest.
    pub fn retro_events(&self) -> Option<broadcast::Receiver<RetroEvent>> {
        self.core.retro.as_ref().map(|retro| retro.events.subscribe())
    }

    /// Ends everything: questions that are being answered come to their end, what is left to consolidate is looked at,
    /// as long as there is time. What is not done by then is done next time: the journal knows.
    pub async fn end(self, within: Duration) {
        // The report is not waited for: the next kernel makes it.
        if let Some(retro) = &self.core.retro {
            retro.stop();
        }
        let open = std::mem::take(&mut *self.core.open.lock().unwrap_or_else(PoisonError::into_inner));
        let ending = async {
            for conversation in open.into_values() {
                conversation.end().await;
            }
            if let Some(consolidation) = &self.core.consolidation {
                consolidation.end().await;
            }
        };
        let _ = tokio::time::timeout(within, ending).await;
    }
}

/// Lowers the limits to what the model can read, whatever is configured.
fn within_window(limits: Limits, model: &Model) -> Limits {
    let Some(window) = model.window() else { return limits };
    let room = window.saturating_sub(crate::model_selection::ANSWER_TOKENS).max(window / 2);
    Limits { max_tokens: limits.max_tokens.min(room), ..limits }
}

/// The share of a context that remembered items may take.
const MEMORY_PERCENT: u64 = 8;
