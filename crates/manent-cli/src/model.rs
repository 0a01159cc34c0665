//! The model that a command asks, and waiting for its answer.

use std::time::Duration;

use manent::Store;
use manent_agent::config::{Config, ConfigError};
use manent_agent::model_selection::{SelectedModel, select_model};
use manent_agent::model_tasks::ModelTasks;
use manent_agent::providers::{Model, ModelError};
use tokio::runtime::{Builder, Runtime};

use crate::args::agent::ModelChoice;
use crate::context::Context;
use crate::exit::{Exit, Failure};

/// Whoever answers, and the clockwork that waits for it.
pub(crate) struct Answering {
    runtime: Runtime,
    model: Model,
    /// How long one answer may take: nobody reads it as it comes.
    within: Duration,
    /// Why it is not the model that was wanted.
    pub(crate) why: Option<String>,
}

impl Answering {
    pub(crate) fn choose(config: &Config, store: &Store) -> Result<Answering, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let key = std::env::var(&config.openai_key_env).ok();
        let chosen = runtime.block_on(select_model(config, store, key.as_deref()))?;
        let SelectedModel { model, why } = chosen;
        Ok(Answering { runtime, model, within: config.background_timeout, why })
    }

    /// Whether it is a model at all.
    pub(crate) fn is_model(&self) -> bool {
        !matches!(self.model, Model::Recall(_))
    }

    /// At work for the library.
    pub(crate) fn asking(&self) -> ModelTasks<'_> {
        let window = self.model.window().unwrap_or(WINDOW);
        ModelTasks::new(self.model.name(), window, |request| {
            self.runtime.block_on(self.model.ask_within(request, self.within))
        })
    }
}

impl Context<'_> {
    /// What is set, with what was typed over it.
    pub(crate) fn config_with(&self, choice: &ModelChoice) -> Result<Config, Failure> {
        let mut config = self.config()?;
        for (name, value) in [("agent.model", &choice.model), ("agent.provider", &choice.provider)] {
            if let Some(value) = value {
                config.set_flag(name, value).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
            }
        }
        Ok(config)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Failure {
        Failure::new(Exit::Failed, error.to_string())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::new(Exit::Failed, error.to_string())
    }
}

/// Of servers that do not tell.
const WINDOW: u64 = 4096;
