//! What stands between the marks of a call and is not simply JSON: a name and then JSON, a call as in Python, elements.

use serde_json::Value;

use super::loose::{End, Loose, Step, values};
use super::shape::{self, Care, Meant, No};
use super::tags;

/// The calls in the inside of a marked block.
pub(super) fn read(text: &str, known: &[String], end: End) -> Result<Vec<Meant>, No> {
    let text = unfenced(text.trim());
    if text.starts_with(['{', '[']) {
        return match values(text, end) {
            Ok(found) => json(&found, known, Care::Marked),
            // Templates with doubled brackets teach some models to double theirs.
            Err(_) if text.starts_with("{{") => match values(&text[1..], end) {
                Ok(found) => json(&found, known, Care::Marked),
                Err(why) => Err(no_json(text, known, why)),
            },
            Err(why) if text.starts_with('{') || !text.contains('(') => Err(no_json(text, known, why)),
            Err(_) => named(text, known, end),
        };
    }
    if ELEMENTS.iter().any(|element| text.contains(element)) {
        return elements(text, known, end);
    }
    named(text, known, end)
}

/// The calls in values.
pub(super) fn json(found: &[String], known: &[String], care: Care) -> Result<Vec<Meant>, No> {
    let mut calls = Vec::new();
    for value in found {
        calls.extend(shape::calls(value, known, care)?);
    }
    if calls.is_empty() { Err(No::Other) } else { Ok(calls) }
}

/// Says that something is no JSON, and which tool it seems to be for.
pub(super) fn no_json(text: &str, known: &[String], why: &str) -> No {
    No::Trouble(match tool_in(text, known) {
        Some(name) => format!("the call of {name} is no JSON: {why}"),
        None => format!("a call is no JSON: {why}"),
    })
}

/// The first of the tools whose name stands alone near the beginning.
pub(super) fn tool_in<'a>(text: &str, known: &'a [String]) -> Option<&'a String> {
    let near = text.char_indices().nth(NEAR).map_or(text, |(at, _)| &text[..at]);
    near.split(|c| !is_name(c)).find_map(|word| known.iter().find(|name| *name == word))
}

/// Without the fence that some put inside of the marks.
fn unfenced(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("```") else { return text };
    let rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_end();
    rest.strip_suffix("```").unwrap_or(rest).trim()
}

/// `name{…}`, `name … {…}`, `name(key=value)`, one or several, or a name alone.
fn named(text: &str, known: &[String], end: End) -> Result<Vec<Meant>, No> {
    let mut calls = Vec::new();
    let mut chars = text.char_indices();
    let mut from = 0;
    while let Some((at, c)) = chars.next() {
        if c != '{' && c != '(' {
            continue;
        }
        let head = &text[std::mem::replace(&mut from, at + 1)..at];
        let names = |word: &&str| shape::resolve(word, known, Care::Unmarked).is_ok();
        let mut words =
            head.split(|c| !is_name(c) && !matches!(c, '.' | ':')).filter(|word| !word.is_empty());
        let name = if c == '(' { words.next_back().filter(names) } else { words.rfind(names) };
        let Some(name) = name else {
            if c == '(' {
                continue;
            }
            return Err(No::Trouble("a call names no tool that there is".to_owned()));
        };
        let mut loose = if c == '(' { Loose::call() } else { Loose::new() };
        let mut step = if c == '{' { loose.push(c) } else { Step::More };
        while step == Step::More {
            let Some((at, c)) = chars.next() else { break };
            step = loose.push(c);
            from = at + c.len_utf8();
        }
        let arguments = match step {
            Step::Done => loose.into_json(),
            Step::More => loose.close(end).map_err(|why| no_json(name, known, why))?,
            Step::Bad(why) => return Err(no_json(name, known, why)),
        };
        calls.push(shape::named(name, &arguments, known)?);
    }
    if calls.is_empty() {
        calls.push(shape::named(text.trim(), "{}", known)?);
    }
    Ok(calls)
}

/// A call while its elements are read.
#[derive(Default)]
struct Elements {
    name: Option<String>,
    members: Vec<(String, Value)>,
    /// Arguments as JSON.
    object: Option<String>,
}

impl Elements {
    fn end(self, known: &[String], calls: &mut Vec<Meant>) -> Result<(), No> {
        let Some(name) = self.name else {
            let is_empty = self.members.is_empty() && self.object.is_none();
            return if is_empty { Ok(()) } else { Err(No::Trouble("a call has no name".to_owned())) };
        };
        let object = self.object.unwrap_or_else(|| {
            Value::Object(self.members.into_iter().collect::<serde_json::Map<_, _>>()).to_string()
        });
        calls.push(shape::named(&name, &object, known)?);
        Ok(())
    }
}

/// `<function=name><parameter=key>value</parameter></function>` and its relatives.
fn elements(text: &str, known: &[String], end: End) -> Result<Vec<Meant>, No> {
    let mut calls = Vec::new();
    let head = text.split('<').next().unwrap_or_default().trim();
    let mut now = Elements { name: (!head.is_empty()).then(|| head.to_owned()), ..Elements::default() };
    let mut rest = &text[text.find('<').unwrap_or(text.len())..];
    while let Some(tag) = next_tag(&mut rest) {
        let word = tag.split(|c: char| !is_name(c)).next().unwrap_or_default();
        let given = tags::attribute(&tag[word.len()..]);
        match (word, given) {
            ("function" | "invoke" | "tool" | "tool_call" | "tool_use", Some(name)) => {
                std::mem::take(&mut now).end(known, &mut calls)?;
                now.name = Some(name);
                if rest.trim_start().starts_with('{') {
                    let json = rest.split("</").next().unwrap_or_default();
                    now.object = Some(object(json, known, end)?);
                    rest = &rest[json.len()..];
                }
            }
            ("parameter" | "param" | "argument" | "arg", Some(key)) => {
                now.members.push((key, typed(until(&mut rest, word)?)));
            }
            ("arg_key", None) => {
                let key = until(&mut rest, word)?.trim().to_owned();
                if next_tag(&mut rest) != Some("arg_value") {
                    return Err(No::Trouble(format!("the argument {} has no value", short(&key))));
                }
                now.members.push((key, typed(until(&mut rest, "arg_value")?)));
            }
            ("name" | "tool_name" | "function_name" | "function", None) => {
                if now.name.is_some() {
                    std::mem::take(&mut now).end(known, &mut calls)?;
                }
                now.name = Some(until(&mut rest, word)?.trim().to_owned());
            }
            ("arguments" | "parameters" | "args" | "params" | "input", None) => {
                let inside = until(&mut rest, word)?;
                if inside.trim().starts_with('{') {
                    now.object = Some(object(inside, known, end)?);
                } else {
                    now.members.extend(children(inside)?);
                }
            }
            _ => {}
        }
    }
    now.end(known, &mut calls)?;
    if calls.is_empty() {
        Err(No::Trouble("a call names no tool that there is".to_owned()))
    } else {
        Ok(calls)
    }
}

fn object(text: &str, known: &[String], end: End) -> Result<String, No> {
    let mut found = values(text, end).map_err(|why| no_json(text, known, why))?;
    found.pop().ok_or(No::Other)
}

/// `<key>value</key>`, several.
fn children(text: &str) -> Result<Vec<(String, Value)>, No> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some(tag) = next_tag(&mut rest) {
        let word = tag.split(|c: char| !is_name(c)).next().unwrap_or_default();
        let key = tags::attribute(&tag[word.len()..]).unwrap_or_else(|| word.to_owned());
        found.push((key, typed(until(&mut rest, word)?)));
    }
    Ok(found)
}

/// The inside of the next opening tag; closing ones are passed over.
fn next_tag<'a>(rest: &mut &'a str) -> Option<&'a str> {
    loop {
        let (_, after) = rest.split_once('<')?;
        let (tag, behind) = after.split_once('>')?;
        *rest = behind;
        if tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Some(tag);
        }
    }
}

/// What stands before the end of an element.
fn until<'a>(rest: &mut &'a str, word: &str) -> Result<&'a str, No> {
    let missing = || No::Trouble(format!("the element {} of a call has no end", short(word)));
    let (inside, behind) = rest.split_once(&format!("</{word}>")).ok_or_else(missing)?;
    *rest = behind;
    Ok(inside)
}

/// A value that has no quotes. Numbers and truth are what they look like; all else is text, also what looks like JSON:
/// it may be the content of a file.
fn typed(text: &str) -> Value {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    match text.trim() {
        "true" | "True" => Value::Bool(true),
        "false" | "False" => Value::Bool(false),
        plain => match serde_json::from_str::<serde_json::Number>(plain) {
            Ok(number) if number.to_string() == plain => Value::Number(number),
            _ => Value::from(text),
        },
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| is_name(*c)).take(40).collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// How far into a block a name is looked for when only a sentence needs it.
const NEAR: usize = 400;
const ELEMENTS: [&str; 8] =
    ["<parameter", "<param ", "<arg_key>", "<name>", "<tool_name>", "<function", "<invoke", "<arguments>"];
