//! The record of an answer in the log.

use manent::{NewTurn, RecordError, turn};
use serde_json::{Value, json};

use crate::providers::{Reply, ToolCall};

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    /// Complete.
    Whole,
    /// Somebody stopped it.
    Stopped,
    /// The model or its server broke off.
    Broken,
}

/// Makes the record of an answer. `counted` is the size of its context in tokens, as we count.
pub(super) fn answer_record(reply: &Reply, counted: u64, end: AnswerEnd) -> Result<NewTurn, RecordError> {
    let mut record = turn("assistant", &reply.text).string("model", &reply.model);
    let usage = [("input", reply.usage.input), ("output", reply.usage.output)];
    let mut usage: serde_json::Map<String, Value> =
        usage.into_iter().filter_map(|(name, n)| Some((name.to_owned(), json!(n?)))).collect();
    if counted > 0 {
        usage.insert("counted".to_owned(), json!(counted));
    }
    if !usage.is_empty() {
        record = record.json("usage", &Value::Object(usage).to_string())?;
    }
    if !reply.thinking.is_empty() {
        record = record.string("thinking", &reply.thinking);
    }
    if !reply.calls.is_empty() {
        record = record.json("tool_calls", &calls(&reply.calls))?;
    }
    match end {
        AnswerEnd::Whole => {}
        AnswerEnd::Stopped => record = record.string("interrupted", "stopped"),
        AnswerEnd::Broken => record = record.string("interrupted", "broken"),
    }
    Ok(record)
}

/// Returns calls as JSON. Arguments that are not JSON are kept as a string.
fn calls(calls: &[ToolCall]) -> String {
    let each = calls.iter().map(|call| {
        let arguments =
            serde_json::from_str::<Value>(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        json!({"id": call.id, "name": call.name, "arguments": arguments})
    });
    Value::Array(each.collect()).to_string()
}
