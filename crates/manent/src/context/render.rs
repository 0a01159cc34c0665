//! The fold from records to messages.
//!
//! A machine with four states reads turns in order. What providers refuse never leaves it: a call without a result, a
//! result without a call, two questions in a row. What had to be added is marked as such, to the model and in
//! [`Origin`]; the log is not touched.
//!
//! | state | user | assistant | tool result |
//! |---|---|---|---|
//! | start: nothing was said | asked | answered, or calling | given as a note |
//! | asked: a question waits | *unanswered* is put in between | answered, or calling | given as a note |
//! | answered | asked | answered, or calling | given as a note |
//! | calling: results are awaited | *interrupted* for each missing one | the same | taken; then answered |
//!
//! At the end, results that are missing are put in, and a question that waits stays the last message.

use super::Context;
use super::records::{Compaction, ContextRecord, ContextTurn, PromptConfig};
use crate::tokens::Tokens;

/// A message as a model is given it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text.
    pub content: String,
    /// Tool calls as the log has them: `[{"id":…,"name":…,"arguments":{…}}]`.
    pub tool_calls: Option<String>,
    /// The call that a tool result answers.
    pub tool_call_id: Option<String>,
    /// The tool that a result comes from.
    pub name: Option<String>,
    /// The place in the session that the message was made from.
    pub origin: Origin,
    /// The number of tokens it takes; 0 if it was not counted.
    pub tokens: u64,
}

impl Message {
    /// Makes a message that no log holds and whose tokens are not counted.
    pub fn new(role: &str, content: impl Into<String>) -> Message {
        Message { role: role.to_owned(), content: content.into(), ..Message::default() }
    }
}

/// The place in a session that a message was made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// A message without a place: it was written for a single request.
    #[default]
    Request,
    /// The system text that a `context` record gives.
    System,
    /// The block of remembered items.
    Memory,
    /// The summary of what was said before, from the `compaction` record of this number.
    Summary(u64),
    /// A turn as it was said.
    Turn(u64),
    /// The result of a tool, of which only the place is given.
    Pruned(u64),
    /// A result whose call is not in the context.
    Stray(u64),
    /// In place of a result that never came, for a call of this record.
    Interrupted(u64),
    /// In place of an answer that never came, to this record.
    Unanswered(u64),
    /// In place of something that cannot be read, at this offset.
    Gap(u64),
}

/// Returns the standard name of a role, for which other programs write `human`, `model` or `function`.
pub fn normalized_role(role: &str) -> &str {
    match role {
        "human" => "user",
        "model" | "ai" | "bot" => "assistant",
        "function" | "toolResult" | "tool_result" => "tool",
        "developer" => "system",
        other => other,
    }
}

/// `held` is used up: what was said is in the messages then.
pub(super) fn render(
    records: Vec<ContextRecord>,
    compaction: Option<&Compaction>,
    config: Option<&PromptConfig>,
    tokens: Tokens,
) -> Context {
    let messages = Vec::with_capacity(records.len());
    let mut machine = Machine { messages, tokens, compaction, ..Machine::default() };
    if let Some(config) = config {
        machine.put_text("system", config.system.as_deref(), Origin::System);
        // After the system text and apart from it: what was remembered is data.
        machine.put_text("user", config.memory.as_deref(), Origin::Memory);
    }
    if let Some(compaction) = compaction.filter(|compaction| !compaction.summary.is_empty()) {
        let text = format!("{SUMMARY}{}", compaction.summary);
        machine.put_text("user", Some(&text), Origin::Summary(compaction.seq));
    }
    for records in records {
        match records {
            ContextRecord::Turn(turn) => machine.take(turn),
            ContextRecord::Gap(damage) => {
                machine.gaps += 1;
                let lines = damage.lines.max(1);
                let text =
                    format!("[{lines} lines of this conversation are damaged and cannot be shown here]");
                machine.interrupt();
                machine.put_text("user", Some(&text), Origin::Gap(damage.offset));
            }
            _ => {}
        }
    }
    machine.finish(config)
}

/// The state of the machine: what it expects next.
#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    /// The question of this record waits for an answer.
    Asked(u64),
    Answered,
    /// Calls of this record wait for their results.
    Calling(u64, Vec<String>),
}

#[derive(Default)]
struct Machine<'a> {
    state: State,
    messages: Vec<Message>,
    tokens: Tokens,
    compaction: Option<&'a Compaction>,
    first_seq: Option<u64>,
    gaps: u64,
}

impl Machine<'_> {
    fn take(&mut self, turn: ContextTurn) {
        self.first_seq.get_or_insert(turn.seq);
        match normalized_role(&turn.role) {
            "tool" => self.take_result(turn),
            "assistant" => {
                self.interrupt();
                self.state = State::Answered;
                let calls = turn.calls.map(|(json, ids)| {
                    self.state = State::Calling(turn.seq, ids);
                    json
                });
                self.put(Message {
                    tool_calls: calls,
                    ..message("assistant", turn.content, Origin::Turn(turn.seq))
                });
            }
            "system" => {
                self.interrupt();
                self.put(message("system", turn.content, Origin::Turn(turn.seq)));
            }
            // An unknown role counts as the user.
            _ => {
                self.interrupt();
                if let State::Asked(seq) = self.state {
                    self.put(message("assistant", UNANSWERED, Origin::Unanswered(seq)));
                }
                self.state = State::Asked(turn.seq);
                self.put(message("user", turn.content, Origin::Turn(turn.seq)));
            }
        }
    }

    fn take_result(&mut self, turn: ContextTurn) {
        let awaited = match &mut self.state {
            State::Calling(_, waiting) => {
                // Without an id, results come in the order of their calls.
                let at = match &turn.answers {
                    Some(id) => waiting.iter().position(|call| call == id),
                    None => (!waiting.is_empty()).then_some(0),
                };
                at.map(|at| waiting.remove(at))
            }
            _ => None,
        };
        let Some(call) = awaited else {
            let name = turn.name.as_deref().unwrap_or("a tool");
            let text = format!("[result of {name}, whose call is not shown]\n{}", turn.content);
            self.interrupt();
            self.put(message("user", text, Origin::Stray(turn.seq)));
            return;
        };
        let is_pruned = self.compaction.is_some_and(|compaction| compaction.pruned.contains(&turn.seq));
        let (text, origin) = if is_pruned {
            (pruned(&turn), Origin::Pruned(turn.seq))
        } else {
            (turn.content, Origin::Turn(turn.seq))
        };
        self.put(Message { tool_call_id: Some(call), name: turn.name, ..message("tool", text, origin) });
        if matches!(&self.state, State::Calling(_, waiting) if waiting.is_empty()) {
            self.state = State::Answered;
        }
    }

    /// Puts in the results that never came.
    fn interrupt(&mut self) {
        let State::Calling(seq, waiting) = &mut self.state else { return };
        let (seq, waiting) = (*seq, std::mem::take(waiting));
        for call in waiting {
            let interrupted = message("tool", INTERRUPTED, Origin::Interrupted(seq));
            self.put(Message { tool_call_id: Some(call), ..interrupted });
        }
        self.state = State::Answered;
    }

    fn put_text(&mut self, role: &str, text: Option<&str>, origin: Origin) {
        if let Some(text) = text {
            self.put(message(role, text, origin));
        }
    }

    fn put(&mut self, mut message: Message) {
        let calls = message.tool_calls.as_deref().map_or(0, |calls| self.tokens.count(calls));
        message.tokens = self.tokens.count(&message.content) + calls + MESSAGE_TOKENS;
        self.messages.push(message);
    }

    fn finish(mut self, config: Option<&PromptConfig>) -> Context {
        self.interrupt();
        let tools = config.and_then(|config| config.tools.clone());
        let tools_tokens = tools.as_deref().map_or(0, |tools| self.tokens.count(tools));
        Context {
            tokens: self.messages.iter().map(|message| message.tokens).sum::<u64>() + tools_tokens,
            unanswered: matches!(self.state, State::Asked(_)),
            messages: self.messages,
            tools,
            tools_tokens,
            model: config.and_then(|config| config.model.clone()),
            protocol: config.and_then(|config| config.protocol.clone()),
            first_seq: self.first_seq,
            last_seq: 0,
            compaction: self.compaction.map(|compaction| compaction.seq),
            gaps: self.gaps,
        }
    }
}

fn message(role: &str, content: impl Into<String>, origin: Origin) -> Message {
    Message { origin, ..Message::new(role, content) }
}

/// Returns the text that stands for a pruned result.
fn pruned(turn: &ContextTurn) -> String {
    format!(
        "[{} bytes of output left out here; they are record {} of this session]",
        turn.content.len(),
        turn.seq
    )
}

const SUMMARY: &str = "[Summary of the earlier part of this conversation, which is not shown. It is a record of what \
    was said and done, not a request.]\n";
const INTERRUPTED: &str = "[interrupted; the outcome is unknown: look before doing it again]";
const UNANSWERED: &str = "[interrupted before an answer was given]";
/// The tokens of a message besides its text: its role and its end.
const MESSAGE_TOKENS: u64 = 4;
