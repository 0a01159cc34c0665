//! Calls of tools as the log has them, for servers that want them otherwise, and the body of a request with them.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::ModelError;
use super::lenient_json::{self, Function};
use super::{Message, Request};

/// A call in an earlier answer. Serialized, it is the `function` of a call without the id.
#[derive(Debug, Serialize)]
pub(crate) struct RecordedCall {
    #[serde(skip)]
    pub(crate) id: String,
    pub(crate) name: String,
    /// A JSON object, always: servers refuse the whole conversation for a call that has anything else.
    pub(crate) arguments: Box<RawValue>,
}

/// The calls of a message.
pub(crate) fn calls(message: &Message) -> Result<Vec<RecordedCall>, ModelError> {
    let Some(json) = message.tool_calls.as_deref() else { return Ok(Vec::new()) };
    let unreadable = |_| ModelError::Unsendable(BAD_CALLS);
    let written: Vec<Written<'_>> = serde_json::from_str(json).map_err(unreadable)?;
    written.into_iter().enumerate().map(|(at, call)| call.read(at).map_err(unreadable)).collect()
}

/// The tool of each call of a conversation, by the id of the call.
pub(crate) fn names(messages: &[Message]) -> Result<HashMap<String, String>, ModelError> {
    let mut names = HashMap::new();
    for message in messages {
        names.extend(calls(message)?.into_iter().map(|call| (call.id, call.name)));
    }
    Ok(names)
}

#[derive(Serialize)]
struct ChatBody<'a, C> {
    #[serde(flatten)]
    settings: Value,
    messages: Vec<SentMessage<'a, C>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct SentMessage<'a, C> {
    role: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<C>,
    #[serde(flatten)]
    more: Value,
}

/// The body of a request to chat: `settings`, the messages and the tools. Servers differ in the form of a `call` and in
/// `more` members of a message; of `settings` and `more`, members that are null are left out.
pub(super) fn chat_body<C: Serialize>(
    request: &Request,
    settings: Value,
    call: impl Fn(RecordedCall) -> C,
    more: impl Fn(&Message) -> Value,
) -> Result<String, ModelError> {
    let tools = request.sendable_tools()?;
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        let tool_calls = calls(message)?.into_iter().map(&call).collect();
        let more = without_nulls(more(message));
        messages.push(SentMessage { role: &message.role, content: &message.content, tool_calls, more });
    }
    let body = ChatBody { settings: without_nulls(settings), messages, tools };
    serde_json::to_string(&body).map_err(|_| ModelError::Unsendable("it cannot be written as JSON"))
}

/// The object without its members that are null; objects inside stay as they are.
pub(super) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// A call as written by this program, or in the format of OpenAI, which most other programs use.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(default, deserialize_with = "lenient_json::text")]
    id: String,
    #[serde(default, deserialize_with = "lenient_json::text")]
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

impl Written<'_> {
    fn read(self, at: usize) -> Result<RecordedCall, serde_json::Error> {
        let function = self.function.unwrap_or(Function { name: self.name, arguments: self.arguments });
        // A call without an id is known by its place, here as in a context.
        let id = if self.id.is_empty() { format!("call-{at}") } else { self.id };
        let arguments = RawValue::from_string(object(&lenient_json::arguments(function.arguments)))?;
        Ok(RecordedCall { id, name: function.name, arguments })
    }
}

/// Returns the arguments that a model wrote as an object, whatever they are.
fn object(arguments: &str) -> String {
    let arguments = arguments.trim();
    if arguments.is_empty() {
        return "{}".to_owned();
    }
    let is_json = serde_json::from_str::<IgnoredAny>(arguments).is_ok();
    if is_json && arguments.starts_with('{') {
        return arguments.to_owned();
    }
    let value = if is_json { arguments.to_owned() } else { Value::from(arguments).to_string() };
    format!("{{\"arguments\":{value}}}")
}

const BAD_CALLS: &str = "calls of tools in an earlier answer cannot be read as a JSON array; undo that turn";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<(String, String, String)> {
        let message = Message { tool_calls: Some(json.to_owned()), ..Message::new("assistant", "") };
        let calls = calls(&message).unwrap();
        calls.into_iter().map(|call| (call.id, call.name, call.arguments.get().to_owned())).collect()
    }

    #[test]
    fn arguments_are_an_object_whatever_was_written() {
        let arguments =
            |written: &str| read(&format!(r#"[{{"name":"x","arguments":{written}}}]"#))[0].2.clone();
        assert_eq!(arguments(r#"{"z":1,"a":2}"#), r#"{"z":1,"a":2}"#, "in its order");
        assert_eq!(arguments(r#""{\"a\":1}""#), r#"{"a":1}"#);
        assert_eq!(arguments(r#""""#), "{}");
        assert_eq!(arguments("null"), "{}");
        assert_eq!(arguments("[1]"), r#"{"arguments":[1]}"#);
        assert_eq!(arguments(r#""{\"a\":""#), r#"{"arguments":"{\"a\":"}"#);
    }

    #[test]
    fn calls_of_other_programs_are_read_and_nonsense_is_named() {
        let calls =
            read(r#"[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},{"name":"y"}]"#);
        assert_eq!((calls[0].0.as_str(), calls[0].1.as_str()), ("a", "x"));
        assert_eq!((calls[1].0.as_str(), calls[1].1.as_str()), ("call-1", "y"));
        let message = Message { tool_calls: Some("{}".to_owned()), ..Message::default() };
        assert!(matches!(super::calls(&message), Err(ModelError::Unsendable { .. })));
    }
}
