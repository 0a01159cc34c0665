//! The events of an answer: each has a little more of it in a JSON object; the last is `[DONE]`.

use serde::Deserialize;
use serde_json::Value;

use super::parts::{CallAssembler, CallDelta};
use crate::providers::answer::ReplyBuilder;
use crate::providers::error::ModelError;
use crate::providers::events::{SseEvent, SseParser};
use crate::providers::http::{More, ResponseStream};
use crate::providers::lines::LINE_BYTES_MAX;
use crate::providers::server_errors::ErrorReport;
use crate::providers::{OnEvent, Reply, TokenUsage, loose};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, deserialize_with = "loose::text")]
    model: String,
    #[serde(default, deserialize_with = "loose::text")]
    object: String,
    #[serde(default, deserialize_with = "loose::text")]
    message: String,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, deserialize_with = "loose::count")]
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Said<'a>>,
    /// In place of `delta`, where the answer comes as a whole.
    #[serde(borrow)]
    message: Option<Said<'a>>,
    #[serde(default, deserialize_with = "loose::text")]
    finish_reason: String,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(default, deserialize_with = "loose::text")]
    content: String,
    #[serde(default, deserialize_with = "loose::text")]
    reasoning_content: String,
    #[serde(default, deserialize_with = "loose::text")]
    reasoning: String,
    /// In place of `content`, where the model declines.
    #[serde(default, deserialize_with = "loose::text")]
    refusal: String,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default, deserialize_with = "loose::count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "loose::count")]
    completion_tokens: Option<u64>,
}

/// Reads an answer to its end.
pub(super) async fn read(mut stream: ResponseStream, on: OnEvent<'_>) -> Result<Reply, ModelError> {
    let mut reading =
        Reading { answer: ReplyBuilder::new(&stream, on), parts: CallAssembler::default(), finish: None };
    let mut events = SseParser::new();
    if let Some(begun) = sniff(&mut stream, &mut events).await? {
        return reading.take_whole(begun, &mut stream).await;
    }
    loop {
        while let Some(event) = events.take_event().map_err(|e| stream.peer.bad_line(e))? {
            match reading.take(&event)? {
                Taken::Done => return reading.close(),
                Taken::More => stream.progress(&reading.answer),
                Taken::Nothing => {}
                Taken::Unreadable => return Err(stream.peer.broken()),
            }
        }
        if reading.finish.is_some() {
            stream.expect_end();
        }
        match stream.fill(&mut events.lines).await {
            Ok(More::Yes) => {}
            Ok(More::No) => break,
            // It said why it ended; the rest would have been counts.
            Err(_) if reading.finish.is_some() => return reading.close(),
            Err(error) => return Err(error),
        }
    }
    // A last event without an end counts if it is whole; if not, it was cut.
    if let Ok(Some(event)) = events.take_rest()
        && reading.take(&event)? == Taken::Done
    {
        return reading.close();
    }
    if reading.finish.is_some() { reading.close() } else { Err(stream.peer.ended()) }
}

/// Looks at the first byte: some servers answer with plain JSON although a stream was asked for. Gives what came of it
/// if it is that.
async fn sniff(stream: &mut ResponseStream, events: &mut SseParser) -> Result<Option<Vec<u8>>, ModelError> {
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let more = stream.append_to(&mut begun).await?;
        let text = begun.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&begun).trim_ascii_start();
        let is_half_mark = BYTE_ORDER_MARK.starts_with(&begun);
        match text.first().filter(|_| !is_half_mark) {
            Some(b'{') => return Ok(Some(text.to_vec())),
            // A page, perhaps of a proxy that wants somebody to sign in.
            Some(b'<') => return Err(stream.peer.broken()),
            None if more == More::Yes && begun.len() <= LINE_BYTES_MAX => {}
            _ => {
                events.lines.push(&begun);
                return Ok(None);
            }
        }
    }
}

/// The meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Part of the answer.
    More,
    /// None of our business.
    Nothing,
    /// The end.
    Done,
    Unreadable,
}

struct Reading<'a> {
    answer: ReplyBuilder<'a>,
    parts: CallAssembler,
    /// The finish reason, once the server has sent one.
    finish: Option<String>,
}

impl Reading<'_> {
    fn take(&mut self, event: &SseEvent) -> Result<Taken, ModelError> {
        let data = event.data.trim();
        if event.name == "error" {
            return Err(self.answer.peer.failed(&ErrorReport::read(data.as_bytes())));
        }
        if data == "[DONE]" {
            return Ok(Taken::Done);
        }
        if data.is_empty() {
            return Ok(Taken::Nothing);
        }
        match parse(data) {
            Some(chunk) => self.take_chunk(&chunk),
            // Kinds of events that we do not know may say what they want.
            None if !matches!(event.name.as_str(), "" | "message") => Ok(Taken::Nothing),
            None => Ok(Taken::Unreadable),
        }
    }

    fn take_chunk(&mut self, chunk: &Chunk<'_>) -> Result<Taken, ModelError> {
        if let Some(error) = &chunk.error {
            return Err(self.answer.peer.failed(&ErrorReport::of(error)));
        }
        if chunk.object == "error" {
            return Err(self.answer.peer.failed(&ErrorReport::of(&Value::from(chunk.message.as_str()))));
        }
        self.answer.name_model(&chunk.model);
        if let Some(counts) = &chunk.usage {
            self.answer.reply.usage = TokenUsage {
                input: counts.prompt_tokens.filter(|read| *read > 0),
                output: counts.completion_tokens,
            };
        }
        // One answer was asked for; of several, the first counts.
        let first = chunk.choices.iter().flatten().find(|choice| choice.index.unwrap_or(0) == 0);
        let Some(choice) = first else { return Ok(Taken::Nothing) };
        if let Some(said) = choice.delta.as_ref().or(choice.message.as_ref()) {
            self.take_said(said)?;
        }
        if !choice.finish_reason.is_empty() {
            self.finish = Some(choice.finish_reason.clone());
        }
        Ok(Taken::More)
    }

    fn take_said(&mut self, said: &Said<'_>) -> Result<(), ModelError> {
        // Some send the same under both names.
        let is_first = !said.reasoning_content.is_empty();
        self.answer.think(if is_first { &said.reasoning_content } else { &said.reasoning })?;
        self.answer.say(&said.content)?;
        self.answer.say(&said.refusal)?;
        for part in said.tool_calls.iter().flatten() {
            self.parts.add(part, &mut self.answer)?;
        }
        Ok(())
    }

    /// An answer in one piece.
    async fn take_whole(mut self, begun: Vec<u8>, stream: &mut ResponseStream) -> Result<Reply, ModelError> {
        let whole = stream.whole(begun).await?;
        let text = std::str::from_utf8(&whole).map_err(|_| stream.peer.broken())?;
        let chunk = parse(text).ok_or_else(|| stream.peer.broken())?;
        match self.take_chunk(&chunk)? {
            Taken::More => self.close(),
            _ => Err(stream.peer.broken()),
        }
    }

    fn close(mut self) -> Result<Reply, ModelError> {
        self.parts.tell(&mut self.answer)?;
        Ok(self.answer.finish(self.finish.as_deref()))
    }
}

fn parse(data: &str) -> Option<Chunk<'_>> {
    // An array would be taken for an object without names.
    if data.trim_start().starts_with('{') { serde_json::from_str(data).ok() } else { None }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
