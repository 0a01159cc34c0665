//! JSON that is a call, in the shapes that models give it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::loose::{End, values};

/// A call before it has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meant {
    pub(super) name: String,
    pub(super) arguments: String,
}

/// How much of a call must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// It stands where only calls stand: a slip in the name or missing arguments are forgiven.
    Marked,
    /// It may be an example or data: the name must be right, the arguments there, and nothing else.
    Unmarked,
}

/// Why something is no call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum No {
    /// Just something else.
    Other,
    /// It was meant as one: a sentence.
    Trouble(String),
}

/// The calls in a value; all of an array must be calls.
pub(super) fn calls(json: &str, known: &[String], care: Care) -> Result<Vec<Meant>, No> {
    let mut found = Vec::new();
    collect(json, known, care, WRAPPERS_MAX, &mut found)?;
    Ok(found)
}

/// The call of a tool whose name stands outside of the JSON.
pub(super) fn named(name: &str, json: &str, known: &[String]) -> Result<Meant, No> {
    let name = resolve(name, known, Care::Marked)?;
    let arguments = arguments(&name, json)?;
    Ok(Meant { name, arguments })
}

/// The tool that is meant.
pub(super) fn resolve(name: &str, known: &[String], care: Care) -> Result<String, No> {
    let bare = name.trim();
    let bare = ["functions.", "function.", "default_api.", "tools."]
        .iter()
        .find_map(|prefix| bare.strip_prefix(prefix))
        .unwrap_or(bare);
    // Kimi counts its calls behind the name.
    let bare = match bare.rsplit_once(':') {
        Some((name, count)) if !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => bare,
    };
    if let Some(name) = known.iter().find(|name| *name == bare) {
        return Ok(name.clone());
    }
    if care == Care::Unmarked {
        return Err(No::Other);
    }
    let same = |name: &&String| plain(name) == plain(bare);
    let mut alike = known.iter().filter(same);
    match (alike.next(), alike.next()) {
        (Some(name), None) => Ok(name.clone()),
        _ => Err(No::Trouble(unknown(bare, known))),
    }
}

fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .take(NAME_MAX)
        .collect()
}

fn unknown(name: &str, known: &[String]) -> String {
    let shown: String =
        name.chars().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.')).take(NAME_MAX).collect();
    let names: Vec<&str> = known.iter().take(NAMES_TOLD).map(String::as_str).collect();
    if names.is_empty() {
        return format!("there is no tool \"{shown}\", and no other one");
    }
    format!("there is no tool \"{shown}\"; the tools are {}", names.join(", "))
}

fn collect(json: &str, known: &[String], care: Care, depth: u8, found: &mut Vec<Meant>) -> Result<(), No> {
    let Some(depth) = depth.checked_sub(1) else { return Err(No::Other) };
    if json.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| bad(care, UNREADABLE))?;
        return items.iter().try_for_each(|item| collect(item.get(), known, care, depth, found));
    }
    let Ok(Members(members)) = serde_json::from_str(json) else { return Err(bad(care, UNREADABLE)) };
    if let [(key, value)] = members.as_slice()
        && matches!(key.as_ref(), "tool_calls" | "tool_call" | "function_calls" | "function_call" | "calls")
    {
        return collect(value.get(), known, care, depth, found);
    }
    let nested = |(key, value): &(Cow<'_, str>, &RawValue)| {
        matches!(key.as_ref(), "function" | "tool") && value.get().starts_with('{')
    };
    if let Some((_, value)) = members.iter().find(|member| nested(member)) {
        return collect(value.get(), known, care, depth, found);
    }
    found.push(one(&members, known, care)?);
    Ok(())
}

fn one(members: &[(Cow<'_, str>, &RawValue)], known: &[String], care: Care) -> Result<Meant, No> {
    let by = |keys: &[&str]| {
        let named =
            |key: &&str| members.iter().find(|(own, value)| own == key && value.get().starts_with('"'));
        keys.iter().find_map(named).and_then(|(_, value)| serde_json::from_str::<String>(value.get()).ok())
    };
    let Some(written) = by(&NAMES) else { return Err(bad(care, "a call has no name")) };
    let name = resolve(&written, known, care)?;
    let given = ARGUMENTS.iter().find_map(|key| members.iter().find(|(own, _)| own == key));
    let is_besides = |key: &str| !NAMES.contains(&key) && !BESIDES.contains(&key);
    if let Some((of, value)) = given {
        if care == Care::Unmarked && members.iter().any(|(key, _)| is_besides(key) && key != of) {
            return Err(No::Other);
        }
        return arguments(&name, value.get()).map(|arguments| Meant { name, arguments });
    }
    if care == Care::Unmarked {
        return Err(No::Other);
    }
    // The arguments stand beside the name.
    let mut object = String::from("{");
    for (key, value) in members.iter().filter(|(key, _)| is_besides(key)) {
        if object.len() > 1 {
            object.push(',');
        }
        object.push_str(&serde_json::Value::from(key.as_ref()).to_string());
        object.push(':');
        object.push_str(value.get());
    }
    object.push('}');
    checked(&name, object).map(|arguments| Meant { name, arguments })
}

/// Arguments as an object, whatever they are wrapped in.
fn arguments(name: &str, json: &str) -> Result<String, No> {
    let no = |why: &str| No::Trouble(format!("the arguments of {name} are no JSON object: {why}"));
    match json.as_bytes().first() {
        Some(b'{') => checked(name, json.to_owned()),
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(|_| no(BAD_ESCAPE))?;
            if text.trim().is_empty() {
                return Ok("{}".to_owned());
            }
            let mut inside = values(&text, End::Open).map_err(no)?;
            match inside.pop() {
                Some(object) if inside.is_empty() && object.starts_with('{') => checked(name, object),
                _ => Err(no("there must be one object")),
            }
        }
        Some(b'n') | None => Ok("{}".to_owned()),
        Some(b'[') if json == "[]" => Ok("{}".to_owned()),
        _ => Err(no("it is something else")),
    }
}

/// Half of a pair of escapes passes for a string until somebody reads it.
fn checked(name: &str, object: String) -> Result<String, No> {
    match serde_json::from_str::<serde_json::Value>(&object) {
        Ok(_) => Ok(object),
        Err(_) => Err(No::Trouble(format!("the arguments of {name} are no JSON object: {BAD_ESCAPE}"))),
    }
}

fn bad(care: Care, why: &str) -> No {
    if care == Care::Marked { No::Trouble(why.to_owned()) } else { No::Other }
}

/// The members of an object in their order, each as it was written.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((Cow::Owned(key), value));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Each)
    }
}

/// Whether the first key of an object or of an array of objects is one that a call has. `text` ends before a colon.
pub(super) fn is_first_key(text: &str) -> bool {
    let text = text.trim_start();
    let text = text.strip_prefix('[').unwrap_or(text).trim_start();
    let Some(key) = text.strip_prefix('{') else { return false };
    let key = key.trim().trim_matches(['"', '\'', '“', '”', '‘', '’']);
    NAMES.contains(&key)
        || ARGUMENTS.contains(&key)
        || matches!(
            key,
            "id" | "type" | "tool_calls" | "tool_call" | "function_calls" | "function_call" | "calls"
        )
}

const NAMES: [&str; 7] =
    ["name", "tool", "tool_name", "function", "function_name", "action", "recipient_name"];
const ARGUMENTS: [&str; 9] = [
    "arguments",
    "args",
    "parameters",
    "params",
    "input",
    "tool_input",
    "action_input",
    "tool_args",
    "kwargs",
];
/// What calls have besides.
const BESIDES: [&str; 5] = ["id", "type", "index", "call_id", "tool_call_id"];
const UNREADABLE: &str = "a call is no JSON object with a name and arguments";
const BAD_ESCAPE: &str = "an escape in it is wrong";
const WRAPPERS_MAX: u8 = 5;
const NAME_MAX: usize = 64;
const NAMES_TOLD: usize = 32;
