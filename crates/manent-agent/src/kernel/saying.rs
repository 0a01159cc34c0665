//! A reply as the log has it.

use manent::{NewTurn, RecordError, turn};
use serde_json::{Value, json};

use crate::providers::{Reply, ToolCall};

/// How an answer came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Whole,
    /// Somebody stopped it.
    Stopped,
    /// The model or its server broke off.
    Broken,
}

/// The turn of an answer.
pub(super) fn answer(reply: &Reply, counted: u64, ended: Ended) -> Result<NewTurn, RecordError> {
    let mut said = turn("assistant", &reply.text).string("model", &reply.model);
    let usage = [("input", reply.usage.input), ("output", reply.usage.output)];
    let mut usage: serde_json::Map<String, Value> =
        usage.into_iter().filter_map(|(name, n)| Some((name.to_owned(), json!(n?)))).collect();
    if counted > 0 {
        usage.insert("counted".to_owned(), json!(counted));
    }
    if !usage.is_empty() {
        said = said.json("usage", &Value::Object(usage).to_string())?;
    }
    if !reply.thinking.is_empty() {
        said = said.string("thinking", &reply.thinking);
    }
    if !reply.calls.is_empty() {
        said = said.json("tool_calls", &calls(&reply.calls))?;
    }
    match ended {
        Ended::Whole => {}
        Ended::Stopped => said = said.string("interrupted", "stopped"),
        Ended::Broken => said = said.string("interrupted", "broken"),
    }
    Ok(said)
}

/// Calls as the log has them. Arguments that are no JSON are kept as a string.
fn calls(calls: &[ToolCall]) -> String {
    let each = calls.iter().map(|call| {
        let arguments =
            serde_json::from_str::<Value>(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        json!({"id": call.id, "name": call.name, "arguments": arguments})
    });
    Value::Array(each.collect()).to_string()
}
