//! The lines of an answer: each is a JSON object with a little more of it; the last says that it is done.

use serde::Deserialize;
use serde_json::Value;

use crate::providers::answer::ReplyBuilder;
use crate::providers::error::ModelError;
use crate::providers::http::{More, ResponseStream};
use crate::providers::lines::{LineEnding, LineSplitter};
use crate::providers::loose::{self, Function};
use crate::providers::server_errors::ErrorReport;
use crate::providers::{OnEvent, Reply, TokenUsage};

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default, deserialize_with = "loose::text")]
    model: String,
    #[serde(borrow)]
    message: Option<Said<'a>>,
    done: Option<bool>,
    #[serde(default, deserialize_with = "loose::text")]
    done_reason: String,
    #[serde(default, deserialize_with = "loose::count")]
    prompt_eval_count: Option<u64>,
    #[serde(default, deserialize_with = "loose::count")]
    eval_count: Option<u64>,
    /// Comes under status 200 too, and then nothing else comes.
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(default, deserialize_with = "loose::text")]
    content: String,
    #[serde(default, deserialize_with = "loose::text")]
    thinking: String,
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

/// Reads an answer to its end.
pub(super) async fn read(mut stream: ResponseStream, on: OnEvent<'_>) -> Result<Reply, ModelError> {
    let mut answer = ReplyBuilder::new(&stream, on);
    let mut lines = LineSplitter::new(LineEnding::Lf);
    loop {
        while let Some(line) = lines.take_line().map_err(|e| stream.peer.bad_line(e))? {
            if line.trim().is_empty() {
                continue;
            }
            let line = parse(line).ok_or_else(|| stream.peer.broken())?;
            if take(&mut answer, &line)? == More::No {
                return Ok(answer.finish(Some(&line.done_reason)));
            }
            stream.progress(&answer);
        }
        if stream.fill(&mut lines).await? == More::No {
            break;
        }
    }
    // A last line without an end counts if it is whole; if not, it was cut.
    let rest = lines.take_rest().ok().flatten().and_then(parse);
    let line = rest.ok_or_else(|| stream.peer.ended())?;
    match take(&mut answer, &line)? {
        More::No => Ok(answer.finish(Some(&line.done_reason))),
        More::Yes => Err(stream.peer.ended()),
    }
}

fn parse(line: &str) -> Option<Line<'_>> {
    // An array would be taken for an object without names.
    if line.trim_start().starts_with('{') { serde_json::from_str(line).ok() } else { None }
}

fn take(answer: &mut ReplyBuilder<'_>, line: &Line<'_>) -> Result<More, ModelError> {
    if let Some(error) = &line.error {
        return Err(answer.peer.failed(&ErrorReport::of(error)));
    }
    answer.name_model(&line.model);
    if let Some(said) = &line.message {
        answer.think(&said.thinking)?;
        answer.say(&said.content)?;
        for call in said.tool_calls.iter().flatten() {
            // The interface has no ids; ours tell the calls apart.
            answer.call("", &call.function.name, loose::arguments(call.function.arguments))?;
        }
    }
    if line.done != Some(true) {
        return Ok(More::Yes);
    }
    answer.reply.usage =
        TokenUsage { input: line.prompt_eval_count.filter(|read| *read > 0), output: line.eval_count };
    Ok(More::No)
}
