//! A server of Ollama, by its own interface.
//!
//! Its interface like OpenAI's has no way to say how long a prompt may be, and cuts off what is longer without a word.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Ollama`]: chat, embeddings, what there is |
//! | `body.rs` | a request as Ollama wants it |
//! | `reading.rs` | the lines of an answer |

mod body;
mod reading;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::answer::truncated;
use super::error::ModelError;
use super::http::Connection;
use super::server::ServerConfig;
use super::{Capabilities, OnEvent, Reply, Request, address};

/// A model on a server of Ollama.
#[derive(Debug, Clone)]
pub struct Ollama {
    connection: Connection,
    model: String,
    window: u64,
    keep_alive: Option<String>,
}

impl Ollama {
    /// A model on a server, with a window of [`Ollama::WINDOW`]. Nothing is sent yet.
    pub fn new(server: &ServerConfig, model: &str) -> Result<Ollama, ModelError> {
        let connection = Connection::new(address::read(&server.url, Some(PORT))?, server, model)?;
        Ok(Ollama { connection, model: model.to_owned(), window: Ollama::WINDOW, keep_alive: None })
    }

    /// The window if none is chosen: twice what the server takes by itself, and small enough for most machines.
    pub const WINDOW: u64 = 8192;

    /// The default address of a server.
    pub const URL: &'static str = "http://127.0.0.1:11434";

    /// The same, with another window: how many tokens prompt and answer may take together. It is sent with each
    /// request. Another one makes the server load the model again, so choose once.
    #[must_use]
    pub fn with_window(self, window: u64) -> Ollama {
        Ollama { window, ..self }
    }

    /// The same, with how long the server keeps the model in memory afterwards: `30m`, or seconds, or `-1` for ever.
    #[must_use]
    pub fn with_keep_alive(self, keep_alive: &str) -> Ollama {
        Ollama { keep_alive: Some(keep_alive.to_owned()), ..self }
    }

    /// The model.
    pub fn name(&self) -> &str {
        &self.model
    }

    /// The server, without a password.
    pub fn url(&self) -> &str {
        &self.connection.peer.url
    }

    /// Returns the number of tokens that prompt and answer may take together.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Asks, and tells what comes. To cancel, drop the future.
    pub async fn chat(&self, request: &Request, on: OnEvent<'_>) -> Result<Reply, ModelError> {
        let body = body::chat(self, request)?;
        let stream = self.connection.ask_for("api/chat", body, request, on, self.models()).await?;
        let mut reply = reading::read(stream, on).await?;
        reply.truncated = truncated(request.counted, reply.usage.input, Some(self.window));
        Ok(reply)
    }

    /// Asks the server for the capabilities of the model.
    pub async fn capabilities(&self) -> Result<Capabilities, ModelError> {
        let shown: Shown = self.fetch("api/show", Some(&json!({ "model": self.model }))).await?;
        let can = |what: &str| shown.capabilities.as_ref().map(|all| all.iter().any(|one| one == what));
        Ok(Capabilities {
            tools: can("tools"),
            thinking: can("thinking"),
            vision: can("vision"),
            window: window_in(&shown.model_info.unwrap_or_default()),
        })
    }

    /// The models that the server has.
    pub async fn models(&self) -> Result<Vec<String>, ModelError> {
        let tags: Tags = self.fetch("api/tags", None).await?;
        Ok(tags.models.into_iter().map(|model| model.name).collect())
    }

    /// A vector for each text.
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut body = json!({ "model": self.model, "input": texts });
        if let Some(keep_alive) = &self.keep_alive {
            body["keep_alive"] = body::keep_alive(keep_alive);
        }
        let mut silent = |_: super::ReplyEvent<'_>| {};
        let mut stream = self.connection.ask("api/embed", body.to_string(), &mut silent).await?;
        let embedded: Embedded = self.parse(&stream.whole(Vec::new()).await?)?;
        let length = embedded.embeddings.first().map_or(0, Vec::len);
        let is_whole = embedded.embeddings.len() == texts.len()
            && embedded.embeddings.iter().all(|vector| vector.len() == length && length > 0);
        if is_whole { Ok(embedded.embeddings) } else { Err(self.connection.peer.broken()) }
    }

    /// The version of the server: a quick way to see whether it is there.
    pub async fn version(&self) -> Result<String, ModelError> {
        let limit = self.connection.patience.probe;
        let version: Version = self.parse(&self.connection.fetch("api/version", None, limit).await?)?;
        Ok(version.version)
    }

    async fn fetch<T: DeserializeOwned>(&self, path: &str, body: Option<&Value>) -> Result<T, ModelError> {
        let limit = self.connection.patience.between;
        self.parse(&self.connection.fetch(path, body.map(Value::to_string), limit).await?)
    }

    fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ModelError> {
        serde_json::from_slice(body).map_err(|_| self.connection.peer.broken())
    }
}

#[derive(Deserialize)]
struct Shown {
    capabilities: Option<Vec<String>>,
    model_info: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default)]
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

#[derive(Deserialize)]
struct Embedded {
    embeddings: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

/// The longest context that the model was made for. It is named after the kind of the model; a model of several parts
/// has several.
fn window_in(info: &Map<String, Value>) -> Option<u64> {
    let kind = info.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let window = info.get(&format!("{kind}.context_length")).and_then(Value::as_u64);
    let any =
        || info.iter().filter(|(name, _)| name.ends_with(".context_length")).find_map(|(_, n)| n.as_u64());
    window.or_else(any)
}

const PORT: u16 = 11434;
