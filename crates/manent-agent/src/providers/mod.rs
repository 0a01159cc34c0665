//! Clients of models.
//!
//! There are three providers: Ollama by its native interface, any server with OpenAI's chat completions, and
//! [`Recall`], which is not a model but answers from the store when no model is available. All take the same
//! [`Request`], report the same [`ReplyEvent`]s while the answer arrives, and return the same [`Reply`] or
//! [`ModelError`].
//!
//! To cancel a request, drop its future: the connection is closed, and the server stops. Everything that arrived until
//! then has been reported as events.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs`, `model.rs` | [`Request`], [`Reply`]; [`Model`], which dispatches to a provider |
//! | `ollama.rs`, `openai.rs` | the two interfaces: building a request, reading an answer |
//! | `recall.rs` | [`Recall`]: answers from the store |
//! | `server.rs`, `address.rs`, `retry.rs` | the configuration of a server: address, key, time limits and retries |
//! | `http.rs` | sending requests, retrying, time limits |
//! | `sse.rs`, `lenient_json.rs` | bytes to lines and events; tolerant reading of JSON members |
//! | `reply_builder.rs` | a reply while it arrives |
//! | `chat_request.rs` | tool calls as the log has them |
//! | `server_errors.rs`, `error.rs` | the error reports of servers, and [`ModelError`] |

mod address;
pub(crate) mod chat_request;
mod error;
mod http;
mod lenient_json;
mod model;
mod ollama;
mod openai;
mod recall;
mod reply_builder;
mod retry;
mod server;
mod server_errors;
mod sse;

use manent::context;
pub use manent::context::Message;
use serde_json::Value;
use serde_json::value::RawValue;

pub use error::ModelError;
pub use model::{Model, ModelClient};
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use recall::{NAME as RECALL, Recall};
pub use retry::RetryPolicy;
pub use server::ServerConfig;

/// Receives the pieces of an answer.
type OnEvent<'a> = &'a mut (dyn FnMut(ReplyEvent<'_>) + Send);

/// A request to a model.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The messages in their order.
    pub messages: Vec<Message>,
    /// The schemas of the tools: a JSON array of `{"type":"function","function":{…}}`. Never together with `format`.
    pub tools: Option<String>,
    /// A JSON schema that the answer must follow. Servers do their best; whoever asks checks.
    pub format: Option<Value>,
    /// Enables or disables thinking before the answer; `None` leaves that to the model.
    pub think: Option<bool>,
    /// The longest answer, in tokens.
    pub max_tokens: Option<u64>,
    /// The sampling temperature; `None` leaves it to the server.
    pub temperature: Option<f64>,
    /// The same seed and the same request give the same answer, where a server can do that.
    pub seed: Option<u64>,
    /// The size of the request in tokens by our own count, used to detect a server that drops part of it. Zero if it
    /// was not counted.
    pub counted: u64,
}

impl From<&context::Context> for Request {
    fn from(context: &context::Context) -> Request {
        Request {
            messages: context.messages.clone(),
            tools: context.tools.clone(),
            counted: context.tokens,
            ..Request::default()
        }
    }
}

impl Request {
    /// The schemas of the tools, if there are any. Together with a format they are refused: servers then follow the
    /// format, call no tool, and do not say so.
    fn sendable_tools(&self) -> Result<Option<&RawValue>, ModelError> {
        let Some(tools) = &self.tools else { return Ok(None) };
        let unreadable = |_| ModelError::Unsendable("the tools are no JSON array; correct their schemas");
        // Some servers refuse an empty list.
        if serde_json::from_str::<Vec<&RawValue>>(tools).map_err(unreadable)?.is_empty() {
            return Ok(None);
        }
        if self.format.is_some() {
            return Err(ModelError::Unsendable("it has both tools and a format; ask for one of them"));
        }
        serde_json::from_str(tools).map(Some).map_err(unreadable)
    }
}

/// A piece of an answer that is being made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyEvent<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// Text of the model's reasoning.
    Thinking(&'a str),
    /// A tool is called.
    Call(&'a ToolCall),
    /// The server could not answer just now, and is asked again after so many milliseconds.
    Again {
        /// The delay in milliseconds.
        after_ms: u64,
        /// The reason, for display.
        why: &'a str,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The id that the server gave, or one of ours where it gave none; unique in its reply.
    pub id: String,
    /// The tool.
    pub name: String,
    /// JSON, mostly an object; whatever the model made of it.
    pub arguments: String,
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The text of the answer.
    pub text: String,
    /// The reasoning before the answer, if the server reports it separately.
    pub thinking: String,
    /// Tools that are called.
    pub calls: Vec<ToolCall>,
    /// The token counts of the server.
    pub usage: TokenUsage,
    /// The reason why the answer ended.
    pub finish: FinishReason,
    /// The model, as the server calls it.
    pub model: String,
    /// The server read less than it was given.
    pub truncated: Option<Truncated>,
    /// The number of requests it took, retries included.
    pub tries: u32,
}

/// Token counts as reported by a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// The size of the prompt.
    pub input: Option<u64>,
    /// The size of the answer.
    pub output: Option<u64>,
}

/// The reason why an answer ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// The model was done.
    #[default]
    Stop,
    /// The answer reached the maximum length.
    Length,
    /// The model waits for results of tool calls.
    Calls,
    /// The server says something else.
    Other(String),
}

/// A server that cut off what it was given, and did not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated {
    /// The size of the request by our own count.
    pub counted: u64,
    /// The size that the server reports to have read.
    pub read: u64,
}

/// The capabilities of a model. `None` where the server does not report them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Support for tool calls.
    pub tools: Option<bool>,
    /// Support for reasoning before the answer.
    pub thinking: Option<bool>,
    /// Support for images.
    pub vision: Option<bool>,
    /// The most tokens that it was made for, or that its server allows.
    pub window: Option<u64>,
}
