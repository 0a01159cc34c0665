//! An answer while it is made: what came so far, told as it comes.

use super::error::{MAX_ANSWER_BYTES, ModelError, NAME_CHARS_MAX, sanitize};
use super::http::ResponseStream;
use super::retry::random;
use super::server_errors::ServerErrors;
use super::{FinishReason, OnEvent, Reply, ReplyEvent, ToolCall, Truncated};

/// A [`Reply`] under construction. The events reported so far are always a prefix of the finished reply.
pub(super) struct ReplyBuilder<'a> {
    pub(super) reply: Reply,
    pub(super) server_errors: ServerErrors,
    on: OnEvent<'a>,
    bytes: usize,
    bytes_max: usize,
}

impl<'a> ReplyBuilder<'a> {
    pub(super) fn new(stream: &ResponseStream, on: OnEvent<'a>) -> ReplyBuilder<'a> {
        let reply =
            Reply { tries: stream.tries, model: stream.server_errors.model.clone(), ..Reply::default() };
        ReplyBuilder {
            reply,
            server_errors: stream.server_errors.clone(),
            on,
            bytes: 0,
            bytes_max: stream.answer_bytes(),
        }
    }

    /// More text.
    pub(super) fn say(&mut self, text: &str) -> Result<(), ModelError> {
        self.grow(text.len())?;
        if !text.is_empty() {
            self.reply.text.push_str(text);
            (self.on)(ReplyEvent::Text(text));
        }
        Ok(())
    }

    /// More thoughts.
    pub(super) fn think(&mut self, text: &str) -> Result<(), ModelError> {
        self.grow(text.len())?;
        if !text.is_empty() {
            self.reply.thinking.push_str(text);
            (self.on)(ReplyEvent::Thinking(text));
        }
        Ok(())
    }

    /// Adds a call, whose bytes were counted by [`ReplyBuilder::grow`]. Without an id of its own, or with one that
    /// another call has, it gets a new one.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: String) -> Result<(), ModelError> {
        if self.reply.calls.len() == CALLS_MAX {
            return Err(self.too_many_calls());
        }
        let mut id = id.to_owned();
        while id.is_empty() || self.reply.calls.iter().any(|call| call.id == id) {
            id = new_id(random());
        }
        let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
        let call = ToolCall { id, name: name.to_owned(), arguments };
        (self.on)(ReplyEvent::Call(&call));
        self.reply.calls.push(call);
        Ok(())
    }

    /// Returns true once any part of the reply has arrived.
    pub(super) fn is_begun(&self) -> bool {
        self.bytes > 0
    }

    /// Counts so many more bytes; an error if the answer is too long with them.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err(self.server_errors.too_large(self.bytes_max, Some(MAX_ANSWER_BYTES)));
        }
        Ok(())
    }

    /// The error of an answer with more than [`CALLS_MAX`] calls.
    pub(super) fn too_many_calls(&self) -> ModelError {
        self.server_errors.too_large(self.bytes_max, None)
    }

    /// Records the name by which the server calls the model.
    pub(super) fn name_model(&mut self, name: &str) {
        if !name.is_empty() {
            self.reply.model = sanitize(name, NAME_CHARS_MAX);
        }
    }

    /// Finishes the reply, with the finish reason that the server gave, if it gave one.
    pub(super) fn finish(mut self, reason: Option<&str>) -> Reply {
        self.reply.finish = match reason {
            // Some servers say `stop` although they wait for results.
            None | Some("" | "stop") if !self.reply.calls.is_empty() => FinishReason::Calls,
            None | Some("" | "stop" | "eos" | "end_turn") => FinishReason::Stop,
            Some("length" | "max_tokens") => FinishReason::Length,
            Some("tool_calls" | "function_call" | "tool_use") => FinishReason::Calls,
            Some(other) => FinishReason::Other(sanitize(other, NAME_CHARS_MAX)),
        };
        self.reply
    }
}

/// Detects a server that silently dropped part of the prompt.
///
/// It tells only how much it read, by a vocabulary of its own, and some leave out of that what they still had from the
/// last request. So it counts only if there was cause to drop something: more than the window by our count, or nearly.
pub(super) fn truncated(counted: u64, read: Option<u64>, window: Option<u64>) -> Option<Truncated> {
    let read = read.filter(|read| *read > 0 && counted > 0)?;
    let is_clearly_less = match window {
        Some(window) if counted > window => read < tenths(counted, 9),
        Some(window) if counted >= tenths(window, 8) => read < tenths(counted, 7),
        Some(_) => false,
        // Any vocabulary needs more than half of what another one needs.
        None => counted >= UNKNOWN_WINDOW_MIN && read < tenths(counted, 5),
    };
    is_clearly_less.then_some(Truncated { counted, read })
}

fn tenths(of: u64, tenths: u64) -> u64 {
    (u128::from(of) * u128::from(tenths) / 10) as u64
}

/// Nine letters and digits: the only form that every server takes back in a later request.
fn new_id(mut random: u64) -> String {
    let letter = |_| {
        let letter = LETTERS[(random % LETTERS.len() as u64) as usize];
        random /= LETTERS.len() as u64;
        char::from(letter)
    };
    (0..9).map(letter).collect()
}

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// The most calls in one answer: more are a model that goes round in circles.
pub(super) const CALLS_MAX: usize = 1024;
/// No server has a smaller window.
const UNKNOWN_WINDOW_MIN: u64 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_loss_is_an_alarm() {
        let is_cut = |counted, read, window| truncated(counted, read, window).is_some();
        for (counted, read, window) in [
            (10_000, Some(4_096), Some(8_192)),
            (9_000, Some(8_000), Some(8_192)),
            (8_000, Some(4_096), Some(8_192)),
            (20_000, Some(4_096), None),
            (u64::MAX, Some(1), Some(1)),
        ] {
            assert!(is_cut(counted, read, window), "{counted} {read:?} {window:?}");
        }
        for (counted, read, window) in [
            (10_000, Some(9_900), Some(8_192)),
            (8_000, Some(6_000), Some(8_192)),
            (8_000, Some(9_000), Some(8_192)),
            (1_000, Some(3), Some(8_192)),
            (10_000, Some(0), Some(8_192)),
            (10_000, None, Some(8_192)),
            (0, Some(10), Some(8_192)),
            (20_000, Some(12_000), None),
            (1_000, Some(12), None),
            (u64::MAX, Some(u64::MAX), Some(u64::MAX)),
        ] {
            assert!(!is_cut(counted, read, window), "{counted} {read:?} {window:?}");
        }
    }

    #[test]
    fn ids_are_nine_letters_or_digits() {
        for seed in [0, 1, u64::MAX, random(), random()] {
            let id = new_id(seed);
            assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
        }
        assert_ne!(new_id(random()), new_id(random()));
    }
}
