//! Answers as servers give them: those of Ollama, one JSON object a line, and those of servers like OpenAI's, one
//! server-sent event each.

use serde_json::{Value, json};

use super::script::Script;

/// Ollama says a text, a word at a time, each in a chunk of its own.
pub fn ollama(text: &str) -> Script {
    words(text)
        .map(|word| ollama_line(&json!({ "role": "assistant", "content": word })))
        .chain([ollama_done("stop", 11, words(text).count() as u64)])
        .fold(Script::new(), Script::chunk)
}

/// One line of Ollama's, with a message in it.
pub fn ollama_line(message: &Value) -> String {
    line(&json!({ "model": MODEL, "created_at": TIME, "message": message, "done": false }))
}

/// The last line of Ollama's.
pub fn ollama_done(reason: &str, read: u64, written: u64) -> String {
    line(&json!({
        "model": MODEL,
        "created_at": TIME,
        "message": { "role": "assistant", "content": "" },
        "done": true,
        "done_reason": reason,
        "total_duration": 4_935_886_791_u64,
        "load_duration": 534_986_708,
        "prompt_eval_count": read,
        "prompt_eval_duration": 107_345_000,
        "eval_count": written,
        "eval_duration": 4_289_432_000_u64,
    }))
}

/// Ollama says a text and then fails, under the status of a success.
pub fn ollama_error(text: &str, error: &str) -> Script {
    words(text)
        .map(|word| ollama_line(&json!({ "role": "assistant", "content": word })))
        .chain([line(&json!({ "error": error }))])
        .fold(Script::new(), Script::chunk)
}

/// A server like OpenAI's says a text, a word at a time, each in a chunk of its own.
pub fn openai(text: &str) -> Script {
    let begun = openai_event(&json!({ "role": "assistant", "content": "" }), None);
    let events = words(text).map(|word| openai_event(&json!({ "content": word }), None));
    [begun]
        .into_iter()
        .chain(events)
        .chain([openai_event(&json!({}), Some("stop")), openai_usage(11, words(text).count() as u64), done()])
        .fold(Script::new().header("content-type", "text/event-stream"), Script::chunk)
}

/// One event of such a server, with a part of an answer in it.
pub fn openai_event(delta: &Value, finish: Option<&str>) -> String {
    event(&json!({
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 1_770_000_000,
        "model": MODEL,
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
        "usage": null,
    }))
}

/// The event with what was counted: no choices any more.
pub fn openai_usage(read: u64, written: u64) -> String {
    event(&json!({
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 1_770_000_000,
        "model": MODEL,
        "choices": [],
        "usage": { "prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written },
    }))
}

/// The last event of such a server.
pub fn done() -> String {
    "data: [DONE]\n\n".to_owned()
}

/// Any event of such a server.
pub fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A server that has no time, and asks to be asked again after so many seconds.
pub fn busy(status: u16, retry_after: &str) -> Script {
    Script::error(status, r#"{"error":"server busy, please try again"}"#).header("retry-after", retry_after)
}

/// The text in pieces as a model gives them: a word with the blank before it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?.len_utf8();
        let end = rest[first..].find(' ').map_or(rest.len(), |at| first + at);
        let (word, left) = rest.split_at(end);
        rest = left;
        Some(word)
    })
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// The name of the model in these answers.
pub const MODEL: &str = "llama3.2:3b";
const TIME: &str = "2026-03-04T19:22:45.499127Z";
