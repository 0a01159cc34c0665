//! A request as Ollama wants it.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Ollama;
use crate::providers::error::ModelError;
use crate::providers::{Message, Request, logged};

#[derive(Serialize)]
struct Chat<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<Value>,
    options: Options,
}

#[derive(Serialize)]
struct Options {
    /// Always: what the server takes by itself differs by version and machine, and it cuts off what is longer.
    num_ctx: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
}

#[derive(Serialize)]
struct Call {
    function: Function,
}

#[derive(Serialize)]
struct Function {
    name: String,
    arguments: Box<RawValue>,
}

/// The body of a request to chat.
pub(super) fn chat(ollama: &Ollama, request: &Request) -> Result<String, ModelError> {
    let tools = request.sendable_tools()?;
    let names = logged::names(&request.messages)?;
    let messages = request.messages.iter().map(|message| said(message, &names)).collect::<Result<_, _>>()?;
    let chat = Chat {
        model: &ollama.model,
        stream: true,
        messages,
        tools,
        format: request.format.as_ref(),
        think: request.think,
        keep_alive: ollama.keep_alive.as_deref().map(keep_alive),
        options: Options {
            num_ctx: ollama.window,
            num_predict: request.max_tokens,
            temperature: request.temperature,
            seed: request.seed,
        },
    };
    serde_json::to_string(&chat).map_err(|_| ModelError::Unsendable { what: "it cannot be written as JSON" })
}

/// A number is seconds; as a string it would need a unit.
pub(super) fn keep_alive(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

fn said<'a>(message: &'a Message, names: &'a HashMap<String, String>) -> Result<Said<'a>, ModelError> {
    let call = |call: logged::RecordedCall| Call {
        function: Function { name: call.name, arguments: call.arguments },
    };
    // Results are known by their tool, not by their call.
    let asked = || message.tool_call_id.as_ref().and_then(|id| names.get(id)).map(String::as_str);
    let tool_name = if message.role == "tool" { message.name.as_deref().or_else(asked) } else { None };
    Ok(Said {
        role: &message.role,
        content: &message.content,
        tool_calls: logged::calls(message)?.into_iter().map(call).collect(),
        tool_name,
    })
}
