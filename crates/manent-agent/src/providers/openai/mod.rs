//! Any server with OpenAI's chat completions: theirs, llama.cpp's, vLLM, LM Studio, and most that sell tokens.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`OpenAi`]: chat, what there is |
//! | `body.rs` | a request as these servers want it |
//! | `reading.rs` | the events of an answer |
//! | `parts.rs` | calls of tools, put together from their parts |

mod body;
mod parts;
mod reading;

use serde::Deserialize;
use serde_json::Value;

use super::answer::truncated;
use super::error::ModelError;
use super::http::Connection;
use super::server::ServerConfig;
use super::{Capabilities, OnEvent, Reply, Request, address};

/// A model on a server that speaks like OpenAI's.
#[derive(Debug, Clone)]
pub struct OpenAi {
    connection: Connection,
    model: String,
    window: Option<u64>,
}

impl OpenAi {
    /// A model on a server, whose address may end with `/v1` or not. Nothing is sent yet.
    pub fn new(server: &ServerConfig, model: &str) -> Result<OpenAi, ModelError> {
        let base = address::with_version(address::read(&server.url, None)?);
        let connection = Connection::new(base, server, model)?;
        Ok(OpenAi { connection, model: model.to_owned(), window: None })
    }

    /// The same, with what the server's window is known to be. It is not sent: the interface has no place for it.
    #[must_use]
    pub fn with_window(self, window: u64) -> OpenAi {
        OpenAi { window: Some(window), ..self }
    }

    /// The model.
    pub fn name(&self) -> &str {
        &self.model
    }

    /// The server, without a password.
    pub fn url(&self) -> &str {
        &self.connection.peer.url
    }

    /// Returns the number of tokens that prompt and answer may take together, if that is known.
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    /// Asks, and tells what comes. To cancel, drop the future.
    pub async fn chat(&self, request: &Request, on: OnEvent<'_>) -> Result<Reply, ModelError> {
        let body = body::chat(&self.model, request, self.dialect())?;
        let stream = self.connection.ask_for("chat/completions", body, request, on, self.models()).await?;
        let mut reply = reading::read(stream, on).await?;
        reply.truncated = truncated(request.counted, reply.usage.input, self.window);
        Ok(reply)
    }

    /// Asks the server for the capabilities of the model; most servers report only the window.
    pub async fn capabilities(&self) -> Result<Capabilities, ModelError> {
        let listed = self.list().await?;
        let is_own = |model: &&Value| model.get("id").and_then(Value::as_str) == Some(&self.model);
        // A server with one model answers with it, whatever it is called.
        let only = || listed.first().filter(|_| listed.len() == 1);
        let Some(own) = listed.iter().find(is_own).or_else(only) else {
            return Ok(Capabilities { window: self.window, ..Capabilities::default() });
        };
        // Each server has its own name for it.
        let names =
            ["/max_model_len", "/context_length", "/context_window", "/max_context_length", "/meta/n_ctx"];
        let told = names.into_iter().find_map(|name| own.pointer(name)?.as_u64());
        Ok(Capabilities { window: self.window.or(told), ..Capabilities::default() })
    }

    /// The models that the server has.
    pub async fn models(&self) -> Result<Vec<String>, ModelError> {
        let id = |model: &Value| model.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(self.list().await?.iter().filter_map(id).collect())
    }

    async fn list(&self) -> Result<Vec<Value>, ModelError> {
        let body = self.connection.fetch("models", None, self.connection.patience.between).await?;
        let listed: Listed = serde_json::from_slice(&body).map_err(|_| self.connection.peer.broken())?;
        Ok(listed.data)
    }

    /// OpenAI's own servers refuse what others need, and the other way round.
    fn dialect(&self) -> body::Dialect {
        let host = self.connection.host();
        let is_theirs = host == "openai.com" || host.ends_with(".openai.com");
        if is_theirs { body::Dialect::Strict } else { body::Dialect::Common }
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Value>,
}
