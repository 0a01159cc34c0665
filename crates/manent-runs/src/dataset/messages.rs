//! Writes messages as each format wants them. The result is the members of a JSON array without its brackets, so that a
//! prompt and an answer are put together by a comma.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::clean::Cleaner;
use super::draft::{ChatMessage, Role};
use super::{DatasetFormat, SkipReason};

/// A call of a tool.
#[derive(Debug)]
struct Call {
    id: String,
    name: String,
    /// A JSON object.
    arguments: String,
}

/// Messages as a format writes them.
#[derive(Debug, Default)]
pub(super) struct FormattedMessages {
    /// The members of the array.
    pub(super) members: String,
    /// The system text, where it stands apart.
    pub(super) system: Option<String>,
    /// Texts beside calls, for which there is no place.
    pub(super) beside_calls: u64,
}

/// A part of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowPart {
    Prompt,
    Answer,
}

/// Writes messages, cleaned.
pub(super) fn format_messages(
    said: &[ChatMessage],
    part: RowPart,
    format: DatasetFormat,
    cleaner: &mut Cleaner,
) -> Result<FormattedMessages, SkipReason> {
    match format {
        DatasetFormat::ShareGpt => conversations(said, part, cleaner),
        DatasetFormat::OpenAi | DatasetFormat::TrlSft | DatasetFormat::TrlDpo | DatasetFormat::Kto => {
            let mut shaped = FormattedMessages::default();
            for one in said {
                if !shaped.members.is_empty() {
                    shaped.members.push(',');
                }
                message(one, part, format, cleaner, &mut shaped.members)?;
            }
            Ok(shaped)
        }
    }
}

fn message(
    said: &ChatMessage,
    part: RowPart,
    format: DatasetFormat,
    cleaner: &mut Cleaner,
    out: &mut String,
) -> Result<(), SkipReason> {
    let _ = write!(out, "{{\"role\":\"{}\",\"content\":", said.role.word());
    push_string(out, &cleaner.text(&said.content));
    if let Some(calls) = &said.calls {
        out.push_str(",\"tool_calls\":[");
        for (at, call) in calls_in(calls, cleaner)?.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            out.push_str("{\"id\":");
            push_string(out, &call.id);
            out.push_str(",\"type\":\"function\",\"function\":{\"name\":");
            push_string(out, &call.name);
            // As a text: loaders make one type of all objects in a column, and fill each with the members of others.
            out.push_str(",\"arguments\":");
            push_string(out, &call.arguments);
            out.push_str("}}");
        }
        out.push(']');
    }
    if said.role == Role::Tool {
        out.push_str(",\"tool_call_id\":");
        push_string(out, &cleaner.text(said.call_id.as_deref().unwrap_or_default()));
        if let Some(name) = said.name.as_deref().filter(|_| format != DatasetFormat::OpenAi) {
            out.push_str(",\"name\":");
            push_string(out, &cleaner.text(name));
        }
    }
    // Earlier answers are what the model saw, not what it shall learn: one of them may be the failure.
    if format == DatasetFormat::OpenAi && part == RowPart::Prompt && said.role == Role::Assistant {
        out.push_str(",\"weight\":0");
    }
    out.push('}');
    Ok(())
}

/// Turns of a human and turns of a model, by turns: LLaMA-Factory passes over what is not so.
fn conversations(
    said: &[ChatMessage],
    part: RowPart,
    cleaner: &mut Cleaner,
) -> Result<FormattedMessages, SkipReason> {
    let mut shaped = FormattedMessages::default();
    let mut turns: Vec<(&str, String)> = Vec::new();
    for one in said {
        let text = cleaner.text(&one.content).into_owned();
        if one.role == Role::System && turns.is_empty() {
            match &mut shaped.system {
                Some(system) => *system = format!("{system}\n\n{text}"),
                None => shaped.system = Some(text),
            }
            continue;
        }
        let (from, value) = match (&one.calls, one.role) {
            (Some(calls), _) => {
                shaped.beside_calls += u64::from(!text.trim().is_empty());
                ("function_call", function_calls(&calls_in(calls, cleaner)?))
            }
            (None, Role::Assistant) => ("gpt", text),
            (None, Role::Tool) => ("observation", text),
            (None, Role::User | Role::System) => ("human", text),
        };
        let is_model = |from: &str| matches!(from, "gpt" | "function_call");
        match turns.last_mut() {
            Some((last, told)) if is_model(last) == is_model(from) => {
                if *last == "function_call" || from == "function_call" {
                    // Calls are read as JSON: nothing can stand beside them.
                    shaped.beside_calls += 1;
                    if from == "function_call" {
                        (*last, *told) = (from, value);
                    }
                } else {
                    let _ = write!(told, "\n\n{value}");
                }
            }
            _ => turns.push((from, value)),
        }
    }
    let begins_well = turns.first().is_some_and(|(from, _)| (part == RowPart::Prompt) == (*from == "human"));
    if !begins_well {
        return Err(SkipReason::OddShape);
    }
    for (at, (from, value)) in turns.iter().enumerate() {
        shaped.members.push_str(if at == 0 { "" } else { "," });
        let _ = write!(shaped.members, "{{\"from\":\"{from}\",\"value\":");
        push_string(&mut shaped.members, value);
        shaped.members.push('}');
    }
    Ok(shaped)
}

/// A list of names and arguments, which stands in a text as JSON: here arguments are objects.
fn function_calls(calls: &[Call]) -> String {
    let mut out = String::from("[");
    for (at, call) in calls.iter().enumerate() {
        out.push_str(if at == 0 { "{\"name\":" } else { ",{\"name\":" });
        push_string(&mut out, &call.name);
        let _ = write!(out, ",\"arguments\":{}}}", call.arguments);
    }
    out.push(']');
    out
}

/// Calls as we write them, or as OpenAI does.
fn calls_in(json: &str, cleaner: &mut Cleaner) -> Result<Vec<Call>, SkipReason> {
    let list: Vec<Value> = read(json).ok_or(SkipReason::OddShape)?;
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let mut calls = Vec::with_capacity(list.len());
    for (at, call) in list.into_iter().enumerate() {
        let (function, names) = match &call["function"] {
            Value::Null => (&call, &["arguments", "input", "args"][..]),
            function => (function, &["arguments"][..]),
        };
        let name = text(&function["name"]).ok_or(SkipReason::OddShape)?;
        let id = text(&call["id"]).unwrap_or_else(|| format!("call-{at}"));
        let arguments = names.iter().find_map(|name| function.get(name)).cloned().unwrap_or_default();
        calls.push(Call {
            id: cleaner.text(&id).into_owned(),
            name: cleaner.text(&name).into_owned(),
            arguments: arguments_of(arguments, cleaner),
        });
    }
    Ok(calls)
}

/// Arguments as the text of a JSON object, whatever the model made of them.
fn arguments_of(arguments: Value, cleaner: &mut Cleaner) -> String {
    let mut value = match arguments {
        Value::String(text) if text.trim().is_empty() => json!({}),
        Value::String(text) => read(&text).unwrap_or(Value::String(text)),
        Value::Null => json!({}),
        other => other,
    };
    cleaner.value(&mut value);
    if !value.is_object() {
        value = json!({ "arguments": value });
    }
    value.to_string()
}

/// The schemas of tools as OpenAI and TRL want them; an error if they are no list of tools.
pub(super) fn tools(json: &str, cleaner: &mut Cleaner) -> Result<String, SkipReason> {
    let list: Vec<Value> = read(json).ok_or(SkipReason::OddShape)?;
    let mut tools = Vec::with_capacity(list.len());
    for tool in list {
        let mut function = match tool {
            Value::Object(mut tool) => tool.remove("function").unwrap_or(Value::Object(tool)),
            _ => return Err(SkipReason::OddShape),
        };
        let members = function.as_object_mut().ok_or(SkipReason::OddShape)?;
        members.remove("type");
        if let Some(schema) = members.remove("input_schema") {
            members.entry("parameters").or_insert(schema);
        }
        if members.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(SkipReason::OddShape);
        }
        cleaner.value(&mut function);
        tools.push(json!({"type": "function", "function": function}));
    }
    Ok(Value::Array(tools).to_string())
}

/// The input of a run as messages: a text, a conversation, or whatever JSON it is.
pub(super) fn messages_of_input(input: &str) -> Vec<ChatMessage> {
    let value: Value = read(input).unwrap_or_default();
    let user = |content: &str| vec![ChatMessage::new(Role::User, content)];
    match &value {
        Value::String(text) => user(text),
        value => conversation(value.get("messages").unwrap_or(value)).unwrap_or_else(|| user(input)),
    }
}

/// A list of messages with roles and texts; nothing if it is anything else.
fn conversation(list: &Value) -> Option<Vec<ChatMessage>> {
    let list = list.as_array().filter(|list| !list.is_empty())?;
    let text = |message: &Value, name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
    list.iter()
        .map(|message| {
            let role = Role::parse(manent::context::normalized_role(message.get("role")?.as_str()?))?;
            let calls =
                message.get("tool_calls").filter(|calls| calls.as_array().is_some_and(|c| !c.is_empty()));
            Some(ChatMessage {
                role,
                content: text(message, "content").or_else(|| calls.map(|_| String::new()))?,
                calls: calls.map(Value::to_string),
                call_id: text(message, "tool_call_id"),
                name: text(message, "name"),
            })
        })
        .collect()
}

/// Reads JSON. Half a pair of surrogates, which is JSON and no text, becomes the sign for what cannot be shown.
pub(super) fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Option<T> {
    if let Ok(value) = serde_json::from_str(json) {
        return Some(value);
    }
    serde_json::from_str(&manent_log::without_lone_surrogates(json)).ok()
}

/// Appends a text as a JSON string.
pub(super) fn push_string(out: &mut String, text: &str) {
    // A string always has a JSON form.
    let _ = serde_json::to_string(text).map(|json| out.push_str(&json));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_pair_of_surrogates_is_replaced_and_nothing_else() {
        let text: String = read(r#""a\ud800b\\ud800\ud83d\ude00""#).unwrap();
        assert_eq!(text, "a\u{fffd}b\\ud800😀");
        assert!(read::<Value>("{\"a\":").is_none());
    }

    #[test]
    fn a_text_is_written_as_it_is_read() {
        for text in ["", "a\"b\\c", "\0\x1f\n\r\t\u{7f}\u{2028}é😀", "\\u0041"] {
            let mut out = String::new();
            push_string(&mut out, text);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn arguments_are_the_text_of_an_object_whatever_was_written() {
        let arguments = |value: Value| arguments_of(value, &mut Cleaner::default());
        assert_eq!(arguments(json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(arguments(json!("{\"a\":1}")), r#"{"a":1}"#);
        assert_eq!(arguments(Value::Null), "{}");
        assert_eq!(arguments(json!("{\"a\":")), r#"{"arguments":"{\"a\":"}"#);
        assert_eq!(arguments(json!([1])), r#"{"arguments":[1]}"#);
    }
}
