//! The arguments of a call: told to a model as a schema, and read with goodwill from whatever it made of that.
//!
//! Small models write numbers as texts, nulls for what they leave out, and objects in quotes. What such a thing means
//! is plain, so it is taken. An unknown member is an error: the model meant something by it.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::ToolError;
use super::{CallSubject, Job, PreparedCall, ToolEffect, Tools, text};

/// A tool as a model is told of it.
pub(super) struct ToolSpec {
    pub(super) name: &'static str,
    pub(super) effect: ToolEffect,
    pub(super) about: &'static str,
    pub(super) parameters: &'static [Parameter],
    /// Reads the arguments of a call.
    pub(super) prepare: fn(&Tools, &str) -> Result<PreparedCall, ToolError>,
}

/// One parameter of a tool.
pub(super) struct Parameter {
    name: &'static str,
    form: ParameterType,
    is_required: bool,
    about: &'static str,
}

impl Parameter {
    pub(super) const fn required(name: &'static str, form: ParameterType, about: &'static str) -> Parameter {
        Parameter { name, form, is_required: true, about }
    }

    pub(super) const fn optional(name: &'static str, form: ParameterType, about: &'static str) -> Parameter {
        Parameter { name, form, is_required: false, about }
    }
}

/// The type of a parameter.
#[derive(Clone, Copy)]
pub(super) enum ParameterType {
    Text,
    Number { max: u64 },
    Truth,
    OneOf(&'static [&'static str]),
}

impl ToolSpec {
    pub(super) fn schema(&self) -> Value {
        let mut properties = Map::new();
        for parameter in self.parameters {
            let mut property = match parameter.form {
                ParameterType::Text => json!({"type": "string"}),
                ParameterType::Number { .. } => json!({"type": "integer"}),
                ParameterType::Truth => json!({"type": "boolean"}),
                ParameterType::OneOf(words) => json!({"type": "string", "enum": words}),
            };
            property["description"] = parameter.about.into();
            properties.insert(parameter.name.to_owned(), property);
        }
        let needed: Vec<&str> = self.parameters.iter().filter(|a| a.is_required).map(|a| a.name).collect();
        json!({"type": "function", "function": {
            "name": self.name,
            "description": self.about,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": needed,
                "additionalProperties": false,
            },
        }})
    }

    /// Reads arguments. `T` has a field for each parameter, and no others.
    pub(super) fn read<T: DeserializeOwned>(&self, raw: &str) -> Result<T, ToolError> {
        let mut given = self.object(raw)?;
        let mut read = Map::new();
        for parameter in self.parameters {
            match given.remove(parameter.name) {
                None | Some(Value::Null) if !parameter.is_required => {}
                None | Some(Value::Null) => {
                    return Err(self.wrong(format!("{:?} is missing", parameter.name)));
                }
                Some(value) => {
                    let value = parameter.form.take(value).map_err(|is| {
                        self.wrong(format!(
                            "{:?} must be {}, and is {is}",
                            parameter.name,
                            parameter.form.words()
                        ))
                    })?;
                    read.insert(parameter.name.to_owned(), value);
                }
            }
        }
        if let Some((name, _)) = given.into_iter().next() {
            let nearest = nearest(&name, self.parameters.iter().map(|m| m.name));
            let meant = nearest.map(|n| format!(", did you mean {n:?}?")).unwrap_or_default();
            return Err(self.wrong(format!("nobody knows {:?}{meant}", text::excerpt(&name))));
        }
        serde_json::from_value(Value::Object(read)).map_err(|e| self.wrong(text::excerpt(&e.to_string())))
    }

    /// Returns the error for wrong arguments, with a description of the right ones.
    pub(super) fn wrong(&self, what: String) -> ToolError {
        let described = |m: &Parameter| {
            let optional = if m.is_required { "" } else { ", may be left out" };
            format!("{:?} ({}{optional})", m.name, m.form.words())
        };
        let takes = self.parameters.iter().map(described).collect::<Vec<_>>().join(", ");
        ToolError::Arguments { tool: self.name, what, takes: format!("a JSON object with {takes}") }
    }

    /// Returns a call of this tool that is ready to be decided on and run.
    pub(super) fn prepared(
        &self,
        subject: CallSubject,
        what: String,
        job: impl Job + 'static,
    ) -> PreparedCall {
        let (tool, effect) = (self.name, self.effect);
        PreparedCall { tool, effect, subject, what, once_because: None, job: Box::new(job) }
    }

    fn object(&self, raw: &str) -> Result<Map<String, Value>, ToolError> {
        if raw.trim().is_empty() {
            return Ok(Map::new());
        }
        let read = |raw: &str| {
            serde_json::from_str::<Value>(raw)
                .map_err(|e| self.wrong(format!("they are no JSON ({})", text::excerpt(&e.to_string()))))
        };
        let value = match read(raw)? {
            // An object in quotes.
            Value::String(inner) if inner.trim_start().starts_with('{') => read(&inner)?,
            value => value,
        };
        match value {
            Value::Object(object) => Ok(object),
            other => Err(self.wrong(format!("they are {}, and no object", kind_of(&other)))),
        }
    }
}

impl ParameterType {
    fn words(self) -> String {
        match self {
            ParameterType::Text => "a string".to_owned(),
            ParameterType::Number { max } => format!("a whole number up to {max}"),
            ParameterType::Truth => "true or false".to_owned(),
            ParameterType::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// The value as it was meant; else what it is.
    fn take(self, value: Value) -> Result<Value, String> {
        match (self, value) {
            (ParameterType::Text, Value::String(text)) => Ok(Value::String(text)),
            (ParameterType::OneOf(words), Value::String(word)) if words.contains(&word.trim()) => {
                Ok(Value::String(word.trim().to_owned()))
            }
            (ParameterType::Truth, Value::Bool(is)) => Ok(Value::Bool(is)),
            (ParameterType::Truth, Value::String(word)) if matches!(word.trim(), "true" | "false") => {
                Ok(Value::Bool(word.trim() == "true"))
            }
            (ParameterType::Number { max }, value) => match whole(&value) {
                Some(number) if number <= max => Ok(number.into()),
                _ => Err(describe_value(&value)),
            },
            (_, value) => Err(describe_value(&value)),
        }
    }
}

fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let float = number.as_f64().filter(|f| f.fract() == 0.0 && (0.0..EXACT_MAX).contains(f))?;
            format!("{float:.0}").parse().ok()
        }),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn describe_value(value: &Value) -> String {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => text::excerpt(&value.to_string()),
        other => kind_of(other).to_owned(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The name that is most like another, if one is like it.
pub(super) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let scored = names.map(|other| (strsim::jaro_winkler(&name, &other.to_lowercase()), other));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= ALIKE).then_some(best.1)
}

/// Longer names are no typing errors.
const NAME_BYTES_MAX: usize = 300;
const ALIKE: f64 = 0.75;
/// Up to here every whole number is exact in a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
