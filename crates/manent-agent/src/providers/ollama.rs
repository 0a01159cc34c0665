//! The native interface of Ollama.
//!
//! The OpenAI-compatible interface of Ollama is not used: it cannot set the size of the context, and silently cuts
//! longer prompts.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::error::ModelError;
use super::http::{Connection, ResponseStream};
use super::lenient_json::{self, Function};
use super::reply_builder::{ReplyBuilder, truncated};
use super::server::ServerConfig;
use super::server_errors::ErrorReport;
use super::sse::{LineEnding, LineSplitter};
use super::{Capabilities, Message, OnEvent, Reply, Request, TokenUsage, address, chat_request};

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
        &self.connection.server_errors.url
    }

    /// Returns the number of tokens that prompt and answer may take together.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Asks, and tells what comes. To cancel, drop the future.
    pub async fn chat(&self, request: &Request, on: OnEvent<'_>) -> Result<Reply, ModelError> {
        let body = chat_body(self, request)?;
        let stream = self.connection.ask("api/chat", body, request, on, self.models()).await?;
        let mut reply = read_reply(stream, on).await?;
        reply.truncated = truncated(request.counted, reply.usage.input, Some(self.window));
        Ok(reply)
    }

    /// Asks the server for the capabilities of the model.
    pub async fn capabilities(&self) -> Result<Capabilities, ModelError> {
        let limit = self.connection.retry_policy.between;
        let body = json!({ "model": self.model });
        let shown: Shown = self.connection.fetch("api/show", Some(body), limit).await?;
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
        let limit = self.connection.retry_policy.between;
        let tags: Tags = self.connection.fetch("api/tags", None, limit).await?;
        Ok(tags.models.into_iter().map(|model| model.name).collect())
    }

    /// The version of the server: a quick way to see whether it is there.
    pub async fn version(&self) -> Result<String, ModelError> {
        let limit = self.connection.retry_policy.probe;
        let version: Version = self.connection.fetch("api/version", None, limit).await?;
        Ok(version.version)
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

// The request.

/// The body of a request to chat.
fn chat_body(ollama: &Ollama, request: &Request) -> Result<String, ModelError> {
    let names = chat_request::names(&request.messages)?;
    // The window always: what the server takes by itself differs by version and machine, and it cuts off what is
    // longer.
    let options = chat_request::without_nulls(json!({
        "num_ctx": ollama.window,
        "num_predict": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }));
    let settings = json!({
        "model": ollama.model,
        "stream": true,
        "format": request.format,
        "think": request.think,
        "keep_alive": ollama.keep_alive.as_deref().map(keep_alive_value),
        "options": options,
    });
    let call = |call| HashMap::from([("function", call)]);
    // Results are known by their tool, not by their call.
    let tool_name = |message: &Message| {
        let asked = || message.tool_call_id.as_ref().and_then(|id| names.get(id));
        let name = message.name.as_ref().or_else(asked).filter(|_| message.role == "tool");
        json!({ "tool_name": name })
    };
    chat_request::chat_body(request, settings, call, tool_name)
}

/// A number is seconds; as a string it would need a unit.
fn keep_alive_value(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

// The answer: each line is a JSON object with a little more of it; the last says that it is done.

#[derive(Deserialize)]
struct ReplyLine<'a> {
    #[serde(default, deserialize_with = "lenient_json::text")]
    model: String,
    #[serde(borrow)]
    message: Option<ReplyMessage<'a>>,
    done: Option<bool>,
    #[serde(default, deserialize_with = "lenient_json::text")]
    done_reason: String,
    #[serde(default, deserialize_with = "lenient_json::count")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "lenient_json::count")]
    eval_count: Option<u64>,
    /// The error of the server. It comes under status 200 too, and then nothing else comes.
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ReplyMessage<'a> {
    #[serde(default, deserialize_with = "lenient_json::text")]
    content: String,
    #[serde(default, deserialize_with = "lenient_json::text")]
    thinking: String,
    #[serde(borrow)]
    tool_calls: Option<Vec<ReplyCall<'a>>>,
}

#[derive(Deserialize)]
struct ReplyCall<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

/// Reads an answer to its end.
async fn read_reply(mut stream: ResponseStream, on: OnEvent<'_>) -> Result<Reply, ModelError> {
    let mut answer = ReplyBuilder::new(&stream, on);
    let mut lines = LineSplitter::new(LineEnding::Lf);
    loop {
        while let Some(line) = lines.take_line().map_err(|e| stream.server_errors.bad_line(e))? {
            if line.trim().is_empty() {
                continue;
            }
            let line = parse_line(line).ok_or_else(|| stream.server_errors.broken())?;
            if take_line(&mut answer, &line)? {
                return Ok(answer.finish(Some(&line.done_reason)));
            }
            stream.progress(&answer);
        }
        match stream.chunk().await? {
            Some(bytes) => lines.push(&bytes),
            None => break,
        }
    }
    // A last line without an end counts if it is whole; if not, it was cut.
    let rest = lines.take_rest().ok().flatten().and_then(parse_line);
    let line = rest.ok_or_else(|| stream.server_errors.ended())?;
    let is_done = take_line(&mut answer, &line)?;
    if is_done { Ok(answer.finish(Some(&line.done_reason))) } else { Err(stream.server_errors.ended()) }
}

fn parse_line(line: &str) -> Option<ReplyLine<'_>> {
    // An array would be taken for an object without names.
    if line.trim_start().starts_with('{') { serde_json::from_str(line).ok() } else { None }
}

/// Adds a line to the reply. Returns true if it is the last one.
fn take_line(answer: &mut ReplyBuilder<'_>, line: &ReplyLine<'_>) -> Result<bool, ModelError> {
    if let Some(error) = &line.error {
        return Err(answer.server_errors.failed(&ErrorReport::of(error)));
    }
    answer.name_model(&line.model);
    if let Some(said) = &line.message {
        answer.think(&said.thinking)?;
        answer.say(&said.content)?;
        for call in said.tool_calls.iter().flatten() {
            // The interface has no ids; ours tell the calls apart.
            let (name, arguments) = (&call.function.name, lenient_json::arguments(call.function.arguments));
            answer.grow(name.len() + arguments.len())?;
            answer.call("", name, arguments)?;
        }
    }
    if line.done != Some(true) {
        return Ok(false);
    }
    answer.reply.usage =
        TokenUsage { input: line.prompt_eval_count.filter(|read| *read > 0), output: line.eval_count };
    Ok(true)
}

const PORT: u16 = 11434;
