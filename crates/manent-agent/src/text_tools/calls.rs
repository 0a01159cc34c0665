//! From the body of a call, as JSON or as XML, to the name of a tool and its arguments.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::lenient_json::values;
use crate::providers::ToolCall;

/// The strictness with which JSON is taken for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallContext {
    /// Text between marks, where only calls stand: arguments may be missing.
    Marked,
    /// Plain text, where JSON may be an example or data: the arguments must be there, and nothing else.
    Unmarked,
}

/// The reason why a text is not a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reject {
    /// The text is something else.
    NotACall,
    /// The text was meant as a call. A sentence for the model.
    Malformed(String),
}

/// Calls whose ids are not made yet.
pub(super) type Calls = Result<Vec<ToolCall>, Reject>;

/// Returns the calls in the body of a marked block. `name` is the tool that the opening tag names.
///
/// A body is JSON, or a name, whatever the template puts behind it, and JSON or XML arguments.
pub(super) fn from_body(text: &str, name: Option<&str>, tools: &[String]) -> Calls {
    let text = text.trim();
    if name.is_none() && text.starts_with(['{', '[']) {
        return from_json(text, CallContext::Marked, tools);
    }
    let first_word = || text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    let (name, rest) = name.map_or_else(first_word, |name| (name, text));
    if name.is_empty() {
        return Err(Reject::Malformed("a call names no tool".to_owned()));
    }
    let name = find_tool(name, tools).map_err(Reject::Malformed)?;
    let rest = rest.trim_start();
    if !rest.is_empty() && !rest.starts_with(['{', '<', '[', '`']) {
        return Err(Reject::Malformed(format!("the call of {name} is neither JSON nor XML")));
    }
    let is_xml = ["<parameter", "<arg_key>"].iter().any(|tag| rest.contains(tag));
    let arguments = match rest.find('{') {
        Some(at) if !is_xml => values(&rest[at..]).map_err(|error| malformed(name, &error))?.concat(),
        _ => xml_arguments(rest)?,
    };
    Ok(vec![new_call(name, &arguments)?])
}

/// Returns the calls in JSON. All of its values must be calls.
pub(super) fn from_json(text: &str, context: CallContext, tools: &[String]) -> Calls {
    let found = values(text).map_err(|error| match (tool_in(text, tools), context) {
        (Some(name), _) => malformed(name, &error),
        (None, CallContext::Marked) => Reject::Malformed(format!("a call is not valid JSON: {error}")),
        (None, CallContext::Unmarked) => Reject::NotACall,
    })?;
    let calls = from_value(&format!("[{}]", found.join(",")), context, tools)?;
    if calls.is_empty() { Err(Reject::NotACall) } else { Ok(calls) }
}

/// Returns true if `text` begins an object, or an array of objects, with a key that calls have. It ends before a colon.
pub(super) fn is_first_key(text: &str) -> bool {
    let text = text.trim_start().trim_start_matches('[').trim_start();
    let Some(key) = text.strip_prefix('{') else { return false };
    let key = key.trim().trim_matches(['"', '\'']);
    KEYS.iter().any(|keys| keys.contains(&key))
}

/// Returns the tool that `name` means. Kimi and others write `functions.name:0`.
pub(super) fn find_tool<'a>(name: &str, tools: &'a [String]) -> Result<&'a str, String> {
    let name = name.trim();
    let bare = name.strip_prefix("functions.").unwrap_or(name);
    let bare = bare.split_once(':').map_or(bare, |(bare, _)| bare);
    if let Some(tool) = tools.iter().find(|tool| *tool == name || *tool == bare) {
        return Ok(tool);
    }
    let shown: String = name.chars().filter(|c| is_name(*c)).take(NAME_MAX).collect();
    let others = tools[..tools.len().min(TOOLS_SHOWN_MAX)].join(", ");
    Err(if others.is_empty() {
        format!("there is no tool \"{shown}\", and no other one")
    } else {
        format!("there is no tool \"{shown}\"; the tools are {others}")
    })
}

/// Returns true for the characters of a name as templates write it.
pub(super) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

/// Returns the name in the rest of an opening tag: `=name`, `name="name"` or, behind `<function=`, `name`.
pub(super) fn tag_name(rest: &str) -> Option<&str> {
    let value = rest.split_once("name=").map_or(rest.trim_start_matches('='), |(_, value)| value).trim();
    let name = match value.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next()?,
        None => value,
    };
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

fn malformed(name: &str, error: &str) -> Reject {
    Reject::Malformed(format!("the call of {name} is not valid JSON: {error}"))
}

/// Returns the first tool whose name stands alone near the beginning, to tell the model which call is meant.
fn tool_in<'a>(text: &str, tools: &'a [String]) -> Option<&'a String> {
    let near = text.char_indices().nth(NEAR).map_or(text, |(at, _)| &text[..at]);
    near.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
        .find_map(|word| tools.iter().find(|tool| *tool == word))
}

/// Returns the calls in a value of strict JSON: a call, a list of calls, or an object around them.
fn from_value(json: &str, context: CallContext, tools: &[String]) -> Calls {
    let bad = |why: &str| match context {
        CallContext::Marked => Reject::Malformed(why.to_owned()),
        CallContext::Unmarked => Reject::NotACall,
    };
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) {
        let items: Result<Vec<_>, _> =
            items.iter().map(|item| from_value(item.get(), context, tools)).collect();
        return items.map(|calls| calls.concat());
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json)
        .map_err(|_| bad("a call is not a JSON object with a name and arguments"))?;
    let is_known_key = |key: &String| KEYS.iter().any(|keys| keys.contains(&key.as_str()));
    if !members.keys().all(is_known_key) {
        return Err(bad("a call has other keys than \"name\" and \"arguments\""));
    }
    let wrapper = WRAPPERS.iter().find_map(|key| members.get(*key));
    if let Some(inner) = wrapper.filter(|inner| inner.get().starts_with(['{', '['])) {
        return from_value(inner.get(), context, tools);
    }
    let name = NAMES.iter().find_map(|key| serde_json::from_str::<String>(members.get(*key)?.get()).ok());
    let name = name.ok_or_else(|| bad("a call has no name"))?;
    let name = find_tool(&name, tools).map_err(|why| bad(&why))?;
    let arguments = ARGUMENTS.iter().find_map(|key| members.get(*key));
    if context == CallContext::Unmarked && arguments.is_none() {
        return Err(Reject::NotACall);
    }
    Ok(vec![new_call(name, arguments.map_or("", |arguments| arguments.get()))?])
}

/// Makes a call whose arguments are an object; some templates put them into a string.
fn new_call(name: &str, arguments: &str) -> Result<ToolCall, Reject> {
    let bad = |why: &str| Reject::Malformed(format!("the arguments of {name} are not a JSON object: {why}"));
    let mut arguments = match serde_json::from_str::<String>(arguments) {
        Ok(inside) => values(&inside).map_err(|error| bad(&error))?.concat(),
        Err(_) => arguments.to_owned(),
    };
    if arguments.is_empty() || arguments == "null" {
        "{}".clone_into(&mut arguments);
    }
    // Half of a pair of escapes passes for a string until somebody reads it.
    serde_json::from_str::<Map<String, Value>>(&arguments).map_err(|error| bad(&error.to_string()))?;
    Ok(ToolCall { id: String::new(), name: name.to_owned(), arguments })
}

/// Returns the arguments in `<parameter=key>value</parameter>`, `<parameter name="key">` and `<arg_key>`, as JSON.
fn xml_arguments(text: &str) -> Result<String, Reject> {
    let mut arguments = Map::new();
    let mut rest = text;
    while let Some((tag, behind)) = rest.split_once('<').and_then(|(_, after)| after.split_once('>')) {
        rest = behind;
        if let Some(key) = tag.strip_prefix("parameter").and_then(tag_name) {
            let value = until(&mut rest, "</parameter>")?;
            arguments.insert(key.to_owned(), xml_value(value));
        } else if tag == "arg_key" {
            let key = until(&mut rest, "</arg_key>")?;
            until(&mut rest, "<arg_value>")?;
            let value = until(&mut rest, "</arg_value>")?;
            arguments.insert(key.trim().to_owned(), xml_value(value));
        }
    }
    Ok(Value::Object(arguments).to_string())
}

fn until<'a>(rest: &mut &'a str, end: &str) -> Result<&'a str, Reject> {
    let missing = || Reject::Malformed(format!("an argument of a call has no {end}"));
    let (inside, behind) = rest.split_once(end).ok_or_else(missing)?;
    *rest = behind;
    Ok(inside)
}

/// Returns a value that has no quotes: a number or a boolean if it looks like one, otherwise text. What looks like JSON
/// is text too, as it may be the content of a file.
fn xml_value(text: &str) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    match text.trim() {
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        plain => match serde_json::from_str::<Number>(plain) {
            Ok(number) if number.to_string() == plain => Value::Number(number),
            _ => Value::from(text),
        },
    }
}

const NAMES: [&str; 4] = ["name", "tool_name", "tool", "function"];
const ARGUMENTS: [&str; 4] = ["arguments", "parameters", "args", "input"];
/// Keys that calls have besides and that say nothing.
const IGNORED: [&str; 5] = ["id", "type", "index", "call_id", "tool_call_id"];
/// Keys around a call, or around a list of calls.
const WRAPPERS: [&str; 4] = ["tool_calls", "tool_call", "function_call", "function"];
const KEYS: [&[&str]; 4] = [&NAMES, &ARGUMENTS, &IGNORED, &WRAPPERS];
const NAME_MAX: usize = 64;
const TOOLS_SHOWN_MAX: usize = 32;
/// The number of characters in which a name is looked for when only a message needs it.
const NEAR: usize = 400;
