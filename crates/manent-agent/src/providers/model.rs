//! Whoever answers, of whatever kind.

use super::error::ModelError;
use super::ollama::Ollama;
use super::openai::OpenAi;
use super::recall::{self, Recall};
use super::{Abilities, Piece, Reply, Request};

/// A model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Model {
    /// On a server of Ollama.
    Ollama(Ollama),
    /// On any server that speaks like OpenAI's.
    OpenAi(OpenAi),
    /// None: the record itself.
    Recall(Recall),
}

impl Model {
    /// Asks, and tells what comes while it comes. To cancel, drop the future: the connection is closed.
    pub async fn chat(
        &self,
        request: &Request,
        on: &mut (dyn FnMut(Piece<'_>) + Send),
    ) -> Result<Reply, ModelError> {
        match self {
            Model::Ollama(model) => model.chat(request, on).await,
            Model::OpenAi(model) => model.chat(request, on).await,
            Model::Recall(record) => record.chat(request, on).await,
        }
    }

    /// What the model is called.
    pub fn name(&self) -> &str {
        match self {
            Model::Ollama(model) => model.name(),
            Model::OpenAi(model) => model.name(),
            Model::Recall(_) => recall::NAME,
        }
    }

    /// How many tokens prompt and answer may take together, where that is known without asking.
    pub fn window(&self) -> Option<u64> {
        match self {
            Model::Ollama(model) => Some(model.window()),
            Model::OpenAi(model) => model.window(),
            Model::Recall(_) => None,
        }
    }

    /// What the model can do, as far as its server tells.
    pub async fn abilities(&self) -> Result<Abilities, ModelError> {
        match self {
            Model::Ollama(model) => model.abilities().await,
            Model::OpenAi(model) => model.abilities().await,
            Model::Recall(_) => Ok(Abilities::default()),
        }
    }

    /// Whether its server knows of calls of tools. Where it does not tell, servers like OpenAI's mostly do, and Ollama
    /// leaves them out for models that were not made for it.
    pub async fn calls_tools(&self) -> bool {
        let told = self.abilities().await.ok().and_then(|abilities| abilities.tools);
        told.unwrap_or(matches!(self, Model::OpenAi(_)))
    }

    /// The models that its server has.
    pub async fn models(&self) -> Result<Vec<String>, ModelError> {
        match self {
            Model::Ollama(model) => model.models().await,
            Model::OpenAi(model) => model.models().await,
            Model::Recall(_) => Ok(vec![recall::NAME.to_owned()]),
        }
    }
}

impl From<Ollama> for Model {
    fn from(model: Ollama) -> Model {
        Model::Ollama(model)
    }
}

impl From<OpenAi> for Model {
    fn from(model: OpenAi) -> Model {
        Model::OpenAi(model)
    }
}

impl From<Recall> for Model {
    fn from(record: Recall) -> Model {
        Model::Recall(record)
    }
}
