//! The model that a command asks, and waiting for its answer.

use std::time::Duration;

use manent::Store;
use manent_agent::config::Config;
use manent_agent::model_selection::{SelectedModel, select_model};
use manent_agent::model_tasks::ModelTasks;
use manent_agent::providers::Model;
use tokio::runtime::{Builder, Runtime};

use crate::args::ModelChoice;
use crate::context::Context;
use crate::exit::Failure;

/// The model that answers a command, and the runtime that waits for its answers.
pub(crate) struct BlockingModel {
    runtime: Runtime,
    model: Model,
    /// The time that one answer may take.
    timeout: Duration,
    /// The reason why it is not the model that was configured.
    pub(crate) why: Option<String>,
}

impl BlockingModel {
    pub(crate) fn choose(config: &Config, store: &Store) -> Result<BlockingModel, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let SelectedModel { model, why } = select(&runtime, config, store)?;
        Ok(BlockingModel { runtime, model, timeout: config.background_timeout, why })
    }

    /// Returns false if no model was found, so that only the record itself could answer.
    pub(crate) fn is_model(&self) -> bool {
        !matches!(self.model, Model::Recall(_))
    }

    /// Returns the model in the form in which the library asks it.
    pub(crate) fn asking(&self) -> ModelTasks<'_> {
        let window = self.model.window().unwrap_or(WINDOW);
        ModelTasks::new(self.model.name(), window, |request| {
            self.runtime.block_on(self.model.ask_within(request, self.timeout))
        })
    }
}

/// Returns the model that the configuration selects.
pub(crate) fn select(runtime: &Runtime, config: &Config, store: &Store) -> Result<SelectedModel, Failure> {
    let api_key = std::env::var(&config.openai_key_env).ok();
    Ok(runtime.block_on(select_model(config, store, api_key.as_deref()))?)
}

impl Context<'_> {
    /// Returns the configuration with the model and provider that were typed.
    pub(crate) fn config_with(&self, choice: &ModelChoice) -> Result<Config, Failure> {
        let mut config = self.config()?;
        for (name, value) in [("agent.model", &choice.model), ("agent.provider", &choice.provider)] {
            if let Some(value) = value {
                config.set_flag(name, value).map_err(|e| Failure::usage(e.to_string()))?;
            }
        }
        Ok(config)
    }
}

/// The context window of servers that do not report one, in tokens.
const WINDOW: u64 = 4096;
