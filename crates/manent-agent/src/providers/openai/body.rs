//! A request as servers like OpenAI's want it.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::providers::error::ModelError;
use crate::providers::{Message, Request, logged};

/// Whose rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Everybody's who took over the interface.
    Common,
    /// OpenAI's own: what is not known is refused.
    Strict,
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    messages: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_template_kwargs: Option<Template>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// The switch for reasoning on servers that run open models.
#[derive(Serialize)]
struct Template {
    enable_thinking: bool,
}

#[derive(Serialize)]
struct Format<'a> {
    r#type: &'static str,
    json_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'static str,
    schema: &'a Value,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    /// JSON in a string.
    arguments: String,
}

/// The body of a request to chat.
pub(super) fn chat(model: &str, request: &Request, dialect: Dialect) -> Result<String, ModelError> {
    let (common, strict) = match dialect {
        Dialect::Common => (request.max_tokens, None),
        Dialect::Strict => (None, request.max_tokens),
    };
    let format = |schema| Format { r#type: "json_schema", json_schema: Schema { name: "answer", schema } };
    let think = request.think.filter(|_| dialect == Dialect::Common);
    let asked = Asked {
        model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        tools: request.sendable_tools()?,
        messages: request.messages.iter().map(said).collect::<Result<_, _>>()?,
        response_format: request.format.as_ref().map(format),
        max_tokens: common,
        max_completion_tokens: strict,
        temperature: request.temperature,
        seed: request.seed,
        chat_template_kwargs: think.map(|think| Template { enable_thinking: think }),
    };
    serde_json::to_string(&asked).map_err(|_| ModelError::Unsendable { what: "it cannot be written as JSON" })
}

fn said(message: &Message) -> Result<Said<'_>, ModelError> {
    let call = |call: logged::RecordedCall| Call {
        id: call.id,
        r#type: "function",
        function: Function { name: call.name, arguments: call.arguments.get().to_owned() },
    };
    Ok(Said {
        role: &message.role,
        content: &message.content,
        tool_calls: logged::calls(message)?.into_iter().map(call).collect(),
        tool_call_id: message.tool_call_id.as_deref(),
    })
}
