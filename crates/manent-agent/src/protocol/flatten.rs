//! A request with native tools, as plain messages.

use super::teach::teach;
use crate::providers::logged::{self, Logged};
use crate::providers::{Message, Request};

/// The same request for a server that knows no tools: they are explained in the system text, calls are blocks in the
/// text of the assistant, results are blocks in a message of the user. The same request gives the same bytes.
///
/// Messages of one role in a row become one, since the templates of many small models refuse anything but user and
/// assistant in turn. System messages at the beginning become one; later ones stay where they are. What cannot be sent
/// natively either (schemas or calls that are no JSON, tools together with a format) is left as it is, so that whoever
/// sends it names it.
pub fn flatten(request: &Request) -> Request {
    let mut flat = request.clone();
    let has_schemas = |tools: &String| serde_json::from_str::<Vec<serde::de::IgnoredAny>>(tools).is_ok();
    if request.tools.as_ref().is_some_and(|tools| request.format.is_some() || !has_schemas(tools)) {
        return flat;
    }
    let Ok(names) = logged::names(&request.messages) else { return flat };
    let taught = request.tools.as_deref().map(teach).unwrap_or_default();
    flat.tools = None;
    flat.messages = Vec::with_capacity(request.messages.len() + 1);
    let system = request.messages.iter().take_while(|message| message.role == "system");
    let system: Vec<&str> = system.map(|message| message.content.as_str()).collect();
    let rest = &request.messages[system.len()..];
    let parts: Vec<&str> =
        system.into_iter().chain([taught.as_str()]).filter(|part| !part.is_empty()).collect();
    if !parts.is_empty() {
        flat.messages.push(Message::new("system", parts.join("\n\n")));
    }
    for message in rest {
        let plain = match message.role.as_str() {
            "tool" => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let name = message.name.as_deref().or_else(|| names.get(id).map(String::as_str));
                Message::new("user", result(name.unwrap_or("tool"), id, &message.content))
            }
            "assistant" => Message::new("assistant", said(message)),
            role => Message::new(role, message.content.clone()),
        };
        match flat.messages.last_mut() {
            Some(last) if last.role == plain.role && plain.role != "system" => {
                let gap =
                    if message.role == "tool" && last.content.ends_with(RESULT_END) { "\n" } else { "\n\n" };
                last.content.push_str(gap);
                last.content.push_str(&plain.content);
            }
            _ => flat.messages.push(plain),
        }
    }
    flat
}

fn said(message: &Message) -> String {
    let calls = logged::calls(message).unwrap_or_default();
    let mut text = message.content.clone();
    for call in &calls {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&block(call));
    }
    text
}

fn block(call: &Logged) -> String {
    // In JSON, a slash may have a backslash: so no argument can look like the end of the block.
    let arguments = call.arguments.get().replace("</", "<\\/");
    let name = serde_json::Value::from(call.name.as_str());
    format!("<tool_call>\n{{\"name\":{name},\"arguments\":{arguments}}}\n</tool_call>")
}

fn result(name: &str, id: &str, content: &str) -> String {
    format!("<tool_result name=\"{}\" id=\"{}\">\n{}\n{RESULT_END}", word(name), word(id), harmless(content))
}

/// As the value of an attribute.
fn word(text: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    text.chars().map(|c| if fits(c) { c } else { '_' }).take(WORD_MAX).collect()
}

/// The content of a result in which nothing is a mark: neither ours, so that no content ends its block or begins
/// another, nor one of a chat template (`<|im_end|>`), which some servers obey wherever it stands.
fn harmless(content: &str) -> String {
    let mut text = String::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = rest.find('<') {
        let (before, from) = rest.split_at(at + 1);
        text.push_str(before);
        if is_mark(from) {
            text.push('\\');
        }
        rest = from;
    }
    text.push_str(rest);
    text
}

/// Whether a mark goes on like this behind its `<`.
fn is_mark(from: &str) -> bool {
    if from.starts_with(['|', '｜']) {
        return true;
    }
    // A model reads generously: space, backslashes and capitals make no difference to it. But never look far.
    let near = from.chars().take(NEAR).filter(|c| !c.is_whitespace() && !matches!(c, '/' | '\\'));
    let near: String = near.flat_map(char::to_lowercase).take(LONGEST).collect();
    ["tool_", "toolcall", "function=", "function_", "invoke"].iter().any(|mark| near.starts_with(mark))
}

const RESULT_END: &str = "</tool_result>";
const WORD_MAX: usize = 64;
const NEAR: usize = 32;
const LONGEST: usize = 9;
