//! Members of somebody else's JSON that are read if they are what they should be, and else passed over: a count that is
//! a string must not cost an answer.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The name and the arguments of a call.
#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(default, deserialize_with = "text")]
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// Text: a string, or the texts of a list of parts.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let part = |part: &Value| match part {
        Value::String(text) => Some(text.clone()),
        part => part.get("text").and_then(Value::as_str).map(str::to_owned),
    };
    Ok(match Value::deserialize(from)? {
        Value::String(text) => text,
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => String::new(),
    })
}

/// A number of tokens.
pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(from)?.as_u64())
}

/// The arguments of a call, or a piece of them: the content of a string, or the text of anything else.
pub(super) fn arguments(raw: Option<&RawValue>) -> String {
    match raw.map(RawValue::get) {
        None | Some("null") => String::new(),
        Some(raw) => serde_json::from_str::<String>(raw).unwrap_or_else(|_| raw.to_owned()),
    }
}
