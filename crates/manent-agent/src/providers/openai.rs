//! OpenAI's chat completions, which OpenAI, llama.cpp, vLLM, LM Studio and most hosted services offer.

use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ModelError;
use super::http::{Connection, ResponseStream};
use super::lenient_json::{self, Function};
use super::reply_builder::{CALLS_MAX, ReplyBuilder, truncated};
use super::server::ServerConfig;
use super::server_errors::ErrorReport;
use super::sse::{LINE_BYTES_MAX, SseEvent, SseParser};
use super::{Capabilities, OnEvent, Reply, Request, TokenUsage, address, chat_request};

/// A model on a server that speaks like OpenAI's.
#[derive(Debug, Clone)]
pub struct OpenAi {
    connection: Connection,
    model: String,
    window: Option<u64>,
}

impl OpenAi {
    /// A model on a server, whose address may end with `/v1` or not. Nothing is sent yet.
    pub fn new(server: &ServerConfig, model: &str) -> Result<OpenAi, ModelError> {
        let base = address::with_version(address::read(&server.url, None)?);
        let connection = Connection::new(base, server, model)?;
        Ok(OpenAi { connection, model: model.to_owned(), window: None })
    }

    /// The same, with what the server's window is known to be. It is not sent: the interface has no place for it.
    #[must_use]
    pub fn with_window(self, window: u64) -> OpenAi {
        OpenAi { window: Some(window), ..self }
    }

    /// The model.
    pub fn name(&self) -> &str {
        &self.model
    }

    /// The server, without a password.
    pub fn url(&self) -> &str {
        &self.connection.server_errors.url
    }

    /// Returns the number of tokens that prompt and answer may take together, if that is known.
    pub fn window(&self) -> Option<u64> {
        self.window
    }

    /// Asks, and tells what comes. To cancel, drop the future.
    pub async fn chat(&self, request: &Request, on: OnEvent<'_>) -> Result<Reply, ModelError> {
        let body = chat_body(&self.model, request, self.dialect())?;
        let stream = self.connection.ask("chat/completions", body, request, on, self.models()).await?;
        let mut reply = read_reply(stream, on).await?;
        reply.truncated = truncated(request.counted, reply.usage.input, self.window);
        Ok(reply)
    }

    /// Asks the server for the capabilities of the model; most servers report only the window.
    pub async fn capabilities(&self) -> Result<Capabilities, ModelError> {
        let listed = self.list().await?;
        let is_own = |model: &&Value| model.get("id").and_then(Value::as_str) == Some(&self.model);
        // A server with one model answers with it, whatever it is called.
        let only = || listed.first().filter(|_| listed.len() == 1);
        let Some(own) = listed.iter().find(is_own).or_else(only) else {
            return Ok(Capabilities { window: self.window, ..Capabilities::default() });
        };
        // Each server has its own name for it.
        let names =
            ["/max_model_len", "/context_length", "/context_window", "/max_context_length", "/meta/n_ctx"];
        let told = names.into_iter().find_map(|name| own.pointer(name)?.as_u64());
        Ok(Capabilities { window: self.window.or(told), ..Capabilities::default() })
    }

    /// The models that the server has.
    pub async fn models(&self) -> Result<Vec<String>, ModelError> {
        let id = |model: &Value| model.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(self.list().await?.iter().filter_map(id).collect())
    }

    async fn list(&self) -> Result<Vec<Value>, ModelError> {
        let listed: Listed =
            self.connection.fetch("models", None, self.connection.retry_policy.between).await?;
        Ok(listed.data)
    }

    /// OpenAI's own servers refuse what others need, and the other way round.
    fn dialect(&self) -> Dialect {
        let host = self.connection.host();
        let is_theirs = host == "openai.com" || host.ends_with(".openai.com");
        if is_theirs { Dialect::Strict } else { Dialect::Common }
    }
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Value>,
}

// The request.

/// The rules of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// The rules of servers that took over the interface.
    Common,
    /// OpenAI's own: what is not known is refused.
    Strict,
}

/// The body of a request to chat.
fn chat_body(model: &str, request: &Request, dialect: Dialect) -> Result<String, ModelError> {
    let max_tokens = match dialect {
        Dialect::Common => "max_tokens",
        Dialect::Strict => "max_completion_tokens",
    };
    let format = |schema: &Value| {
        let json_schema = json!({ "name": "answer", "schema": schema });
        json!({ "type": "json_schema", "json_schema": json_schema })
    };
    // The switch for reasoning on servers that run open models.
    let think = request.think.filter(|_| dialect == Dialect::Common);
    let settings = json!({
        "model": model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "response_format": request.format.as_ref().map(format),
        max_tokens: request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "chat_template_kwargs": think.map(|think| json!({ "enable_thinking": think })),
    });
    // The arguments are JSON in a string.
    let call = |call: chat_request::RecordedCall| {
        let function = json!({ "name": call.name, "arguments": call.arguments.get() });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    chat_request::chat_body(
        request,
        settings,
        call,
        |message| json!({ "tool_call_id": message.tool_call_id }),
    )
}

// The answer: each event is a JSON object with a little more of it; the last is `[DONE]`.

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, deserialize_with = "lenient_json::text")]
    model: String,
    #[serde(default, deserialize_with = "lenient_json::text")]
    object: String,
    #[serde(default, deserialize_with = "lenient_json::text")]
    message: String,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Counts>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, deserialize_with = "lenient_json::count")]
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<MessageDelta<'a>>,
    /// The message in place of `delta`, where the answer comes as a whole.
    #[serde(borrow)]
    message: Option<MessageDelta<'a>>,
    #[serde(default, deserialize_with = "lenient_json::text")]
    finish_reason: String,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(default, deserialize_with = "lenient_json::text")]
    content: String,
    #[serde(default, deserialize_with = "lenient_json::text")]
    reasoning_content: String,
    #[serde(default, deserialize_with = "lenient_json::text")]
    reasoning: String,
    /// The text in place of `content`, where the model declines.
    #[serde(default, deserialize_with = "lenient_json::text")]
    refusal: String,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default, deserialize_with = "lenient_json::count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient_json::count")]
    completion_tokens: Option<u64>,
}

/// Reads an answer to its end.
async fn read_reply(mut stream: ResponseStream, on: OnEvent<'_>) -> Result<Reply, ModelError> {
    let mut reading =
        ReplyReader { answer: ReplyBuilder::new(&stream, on), parts: CallAssembler::default(), finish: None };
    let mut events = SseParser::new();
    if let Some(begun) = sniff(&mut stream, &mut events).await? {
        return reading.take_whole(begun, &mut stream).await;
    }
    loop {
        while let Some(event) = events.take_event().map_err(|e| stream.server_errors.bad_line(e))? {
            match reading.take(&event)? {
                EventKind::Done => return reading.close(),
                EventKind::More => stream.progress(&reading.answer),
                EventKind::Nothing => {}
                EventKind::Unreadable => return Err(stream.server_errors.broken()),
            }
        }
        if reading.finish.is_some() {
            stream.expect_end();
        }
        match stream.chunk().await {
            Ok(Some(bytes)) => events.lines.push(&bytes),
            Ok(None) => break,
            // The answer is complete: only token counts can follow its finish reason.
            Err(_) if reading.finish.is_some() => return reading.close(),
            Err(error) => return Err(error),
        }
    }
    // A last event without an end counts if it is whole; if not, it was cut.
    if let Ok(Some(event)) = events.take_rest()
        && reading.take(&event)? == EventKind::Done
    {
        return reading.close();
    }
    if reading.finish.is_some() { reading.close() } else { Err(stream.server_errors.ended()) }
}

/// Looks at the first byte: some servers answer with plain JSON although a stream was asked for. Gives what came of it
/// if it is that.
async fn sniff(stream: &mut ResponseStream, events: &mut SseParser) -> Result<Option<Vec<u8>>, ModelError> {
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let chunk = stream.chunk().await?;
        begun.extend_from_slice(chunk.as_deref().unwrap_or_default());
        let text = begun.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&begun).trim_ascii_start();
        let is_half_mark = BYTE_ORDER_MARK.starts_with(&begun);
        match text.first().filter(|_| !is_half_mark) {
            Some(b'{') => return Ok(Some(text.to_vec())),
            // A page, perhaps of a proxy that wants somebody to sign in.
            Some(b'<') => return Err(stream.server_errors.broken()),
            None if chunk.is_some() && begun.len() <= LINE_BYTES_MAX => {}
            _ => {
                events.lines.push(&begun);
                return Ok(None);
            }
        }
    }
}

/// The meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    /// Part of the answer.
    More,
    /// None of our business.
    Nothing,
    /// The end.
    Done,
    Unreadable,
}

struct ReplyReader<'a> {
    answer: ReplyBuilder<'a>,
    parts: CallAssembler,
    /// The finish reason, once the server has sent one.
    finish: Option<String>,
}

impl ReplyReader<'_> {
    fn take(&mut self, event: &SseEvent) -> Result<EventKind, ModelError> {
        let data = event.data.trim();
        if event.name == "error" {
            return Err(self.answer.server_errors.failed(&ErrorReport::read(data.as_bytes())));
        }
        if data == "[DONE]" {
            return Ok(EventKind::Done);
        }
        if data.is_empty() {
            return Ok(EventKind::Nothing);
        }
        match parse_chunk(data) {
            Some(chunk) => self.take_chunk(&chunk),
            // Kinds of events that we do not know may say what they want.
            None if !matches!(event.name.as_str(), "" | "message") => Ok(EventKind::Nothing),
            None => Ok(EventKind::Unreadable),
        }
    }

    fn take_chunk(&mut self, chunk: &Chunk<'_>) -> Result<EventKind, ModelError> {
        if let Some(error) = &chunk.error {
            return Err(self.answer.server_errors.failed(&ErrorReport::of(error)));
        }
        if chunk.object == "error" {
            return Err(self
                .answer
                .server_errors
                .failed(&ErrorReport::of(&Value::from(chunk.message.as_str()))));
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
        let Some(choice) = first else { return Ok(EventKind::Nothing) };
        if let Some(said) = choice.delta.as_ref().or(choice.message.as_ref()) {
            self.take_said(said)?;
        }
        if !choice.finish_reason.is_empty() {
            self.finish = Some(choice.finish_reason.clone());
        }
        Ok(EventKind::More)
    }

    fn take_said(&mut self, said: &MessageDelta<'_>) -> Result<(), ModelError> {
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
        let text = std::str::from_utf8(&whole).map_err(|_| stream.server_errors.broken())?;
        let chunk = parse_chunk(text).ok_or_else(|| stream.server_errors.broken())?;
        match self.take_chunk(&chunk)? {
            EventKind::More => self.close(),
            _ => Err(stream.server_errors.broken()),
        }
    }

    fn close(mut self) -> Result<Reply, ModelError> {
        self.parts.tell(&mut self.answer)?;
        Ok(self.answer.finish(self.finish.as_deref()))
    }
}

fn parse_chunk(data: &str) -> Option<Chunk<'_>> {
    // An array would be taken for an object without names.
    if data.trim_start().starts_with('{') { serde_json::from_str(data).ok() } else { None }
}

// Tool calls arrive in parts. The rule is one index for each call, its id and name in the first part, and then pieces
// of the arguments. Some servers leave out the index, give each call the index 0, repeat the id with each piece, or
// send calls whole.

/// A part of a call as it comes.
#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default, deserialize_with = "lenient_json::count")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient_json::text")]
    id: String,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

/// A call that may not be whole yet.
#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// The calls so far.
#[derive(Debug, Default)]
struct CallAssembler(Vec<PartialCall>);

impl CallAssembler {
    /// Adds a part of a call.
    fn add(&mut self, part: &CallDelta<'_>, answer: &mut ReplyBuilder<'_>) -> Result<(), ModelError> {
        let name = part.function.as_ref().map_or("", |function| function.name.as_str());
        let piece = lenient_json::arguments(part.function.as_ref().and_then(|function| function.arguments));
        answer.grow(part.id.len() + name.len() + piece.len())?;
        let at = match self.find(part, name) {
            Some(at) => at,
            None if self.0.len() == CALLS_MAX => return Err(answer.too_many_calls()),
            None => {
                self.0.push(PartialCall { index: part.index, ..PartialCall::default() });
                self.0.len() - 1
            }
        };
        let open = &mut self.0[at];
        if open.id.is_empty() {
            open.id.clone_from(&part.id);
        }
        // Names come whole, mostly; a piece of one comes before any argument, and is not the name once more.
        if open.name != name && open.arguments.is_empty() {
            open.name.push_str(name);
        }
        open.arguments.push_str(&piece);
        Ok(())
    }

    /// The call that a part belongs to; none if it begins a new one.
    fn find(&self, part: &CallDelta<'_>, name: &str) -> Option<usize> {
        let last = self.0.len().checked_sub(1);
        if let Some(index) = part.index {
            let at = self.0.iter().rposition(|open| open.index == Some(index))?;
            let is_another = !part.id.is_empty() && !self.0[at].id.is_empty() && part.id != self.0[at].id;
            // With another id and a name of its own it is another call, whatever its number.
            return (!is_another || name.is_empty()).then_some(at);
        }
        if !part.id.is_empty() {
            return self.0.iter().rposition(|open| open.id == part.id);
        }
        if name.is_empty() { last } else { None }
    }

    /// Gives the calls to `answer`. They are complete at the end of the stream, and not before.
    fn tell(self, answer: &mut ReplyBuilder<'_>) -> Result<(), ModelError> {
        for open in self.0 {
            if !(open.id.is_empty() && open.name.is_empty() && open.arguments.is_empty()) {
                answer.call(&open.id, &open.name, open.arguments)?;
            }
        }
        Ok(())
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
