//! The searchable text of a record: its content, and the texts that stand beside it.

use std::borrow::Cow;

use serde_json::Value;

use crate::turn::Record;

/// Returns the text of a record as it is searched and shown: its content, then the texts of its parts and tool calls, a
/// line each.
pub(super) fn searchable_text<'a>(record: &Record<'a>) -> Cow<'a, str> {
    let mut text = record.content();
    // Another program's content may be a list of parts instead of a text.
    if !record.verified()
        && text.starts_with(['[', '{'])
        && record.member("content").is_some_and(|json| json == text)
        && let Ok(value) = serde_json::from_str::<Value>(&text)
    {
        let mut said = String::new();
        add(&value, DEPTH_MAX, &mut said);
        text = Cow::Owned(said);
    }
    // Most turns have nothing but their content; members need not be taken apart to know that.
    if !has_more(record.line()) {
        return text;
    }
    for name in BESIDE {
        let Some(json) = record.member(name) else { continue };
        let Ok(value) = serde_json::from_str::<Value>(json) else { continue };
        add(&value, DEPTH_MAX, text.to_mut());
    }
    text
}

fn has_more(line: &str) -> bool {
    NAMED.iter().any(|name| memchr::memmem::find(line.as_bytes(), name.as_bytes()).is_some())
}

fn add(value: &Value, depth: u32, text: &mut String) {
    match value {
        // Arguments are often JSON within a string.
        Value::String(inner) if depth > 0 && inner.trim_start().starts_with(['{', '[']) => {
            match serde_json::from_str::<Value>(inner) {
                Ok(value) => add(&value, depth - 1, text),
                Err(_) => add_line(inner, text),
            }
        }
        Value::String(line) => add_line(line, text),
        Value::Number(number) => add_line(&number.to_string(), text),
        Value::Array(values) => values.iter().for_each(|value| add(value, depth, text)),
        Value::Object(members) => {
            for (name, value) in members {
                // Media is for eyes and ears; what it is called is not what was said.
                if !UNSAID.contains(&name.as_str()) {
                    add(value, depth, text);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn add_line(line: &str, text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

const BESIDE: [&str; 4] = ["parts", "tool_calls", "name", "thinking"];
const NAMED: [&str; 4] = ["\"parts\":", "\"tool_calls\":", "\"name\":", "\"thinking\":"];
/// Members that hold no words.
const UNSAID: [&str; 7] = ["id", "type", "data", "image_url", "source", "mime_type", "signature"];
/// JSON within strings within JSON, and so on.
const DEPTH_MAX: u32 = 4;
