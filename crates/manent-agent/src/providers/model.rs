//! The model that answers, with any kind of provider.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::error::ModelError;
use super::ollama::Ollama;
use super::openai::OpenAi;
use super::recall::{self, Recall};
use super::{Capabilities, Reply, ReplyEvent, Request};

/// A model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Model {
    /// A model on a server of Ollama.
    Ollama(Ollama),
    /// A model on a server with the interface of OpenAI.
    OpenAi(OpenAi),
    /// No model: the record itself answers.
    Recall(Recall),
    /// Any other client.
    Other(Arc<dyn ModelClient>),
}

/// A client of a model that this crate does not know: of another interface, or in the same process.
///
/// A panic of the client is an error of the answer, and the pieces that came before it are kept.
pub trait ModelClient: fmt::Debug + Send + Sync {
    /// Returns what the model is called.
    fn name(&self) -> &str;

    /// Returns how many tokens prompt and answer may take together, where that is known.
    fn window(&self) -> Option<u64> {
        None
    }

    /// Asks, and tells what comes. Dropping the future cancels the request. The limits of [`super::RetryPolicy`] are
    /// the client's to keep.
    fn chat<'a>(
        &'a self,
        request: &'a Request,
        on: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Pin<Box<dyn Future<Output = Result<Reply, ModelError>> + Send + 'a>>;
}

impl Model {
    /// Asks, and tells what comes while it comes. To cancel, drop the future: the connection is closed.
    pub async fn chat(
        &self,
        request: &Request,
        on: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<Reply, ModelError> {
        match self {
            Model::Ollama(model) => model.chat(request, on).await,
            Model::OpenAi(model) => model.chat(request, on).await,
            Model::Recall(record) => record.chat(request, on).await,
            Model::Other(client) => client.chat(request, on).await,
        }
    }

    /// Asks for an answer that nobody reads as it comes, and that must be whole within this time, tries included.
    pub async fn ask_within(&self, request: &Request, within: Duration) -> Result<Reply, ModelError> {
        let asked = tokio::time::timeout(within, self.chat(request, &mut |_| {})).await;
        asked.unwrap_or(Err(ModelError::OutOfTime { after: within }))
    }

    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        match self {
            Model::Ollama(model) => model.name(),
            Model::OpenAi(model) => model.name(),
            Model::Recall(_) => recall::NAME,
            Model::Other(client) => client.name(),
        }
    }

    /// Returns the number of tokens that prompt and answer may take together, if that is known without asking the
    /// server.
    pub fn window(&self) -> Option<u64> {
        match self {
            Model::Ollama(model) => Some(model.window()),
            Model::OpenAi(model) => model.window(),
            Model::Recall(_) => None,
            Model::Other(client) => client.window(),
        }
    }

    /// Asks the server for the capabilities of the model.
    pub async fn capabilities(&self) -> Result<Capabilities, ModelError> {
        match self {
            Model::Ollama(model) => model.capabilities().await,
            Model::OpenAi(model) => model.capabilities().await,
            Model::Recall(_) | Model::Other(_) => Ok(Capabilities::default()),
        }
    }

    /// Returns true if the model can be given tools. If the server does not report it, servers with OpenAI's interface
    /// are assumed to support them; Ollama drops tools for models that were not trained for them.
    pub async fn calls_tools(&self) -> bool {
        let told = self.capabilities().await.ok().and_then(|capabilities| capabilities.tools);
        told.unwrap_or(matches!(self, Model::OpenAi(_)))
    }

    /// The models that its server has.
    pub async fn models(&self) -> Result<Vec<String>, ModelError> {
        match self {
            Model::Ollama(model) => model.models().await,
            Model::OpenAi(model) => model.models().await,
            Model::Recall(_) | Model::Other(_) => Ok(vec![self.name().to_owned()]),
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
