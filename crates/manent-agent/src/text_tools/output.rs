//! Collects the text, the calls and the problems of an answer while it is parsed.
//!
//! Text that was shown is never taken back. So what may still become a call waits here: the space before it, and an
//! unmarked call until it is clear whether the answer ends with it.

use std::sync::Arc;

use super::ParsedAnswer;
use super::calls::{ParsedCall, Reject};
use crate::providers::ToolCall;

#[derive(Debug, Default)]
pub(super) struct AnswerOutput {
    /// The names of the tools that may be called.
    pub(super) tools: Arc<[String]>,
    text: String,
    /// The number of bytes of `text` that were shown.
    shown: usize,
    /// Space that is written only if text follows, or at the end.
    space: String,
    /// Set where a block was taken out: whether there was a line end around it.
    gap: Option<bool>,
    /// Unmarked calls behind which nothing else came yet.
    waiting: Vec<UnmarkedCalls>,
    waiting_bytes: usize,
    calls: Vec<ParsedCall>,
    has_marked_calls: bool,
    problem: Option<String>,
    /// A problem that counts only if there are no marked calls, as the text was perhaps not meant as a call.
    doubt: Option<String>,
}

#[derive(Debug)]
struct UnmarkedCalls {
    space_before: String,
    raw: String,
    calls: Vec<ParsedCall>,
}

impl AnswerOutput {
    pub(super) fn new(tools: Arc<[String]>) -> AnswerOutput {
        AnswerOutput { tools, ..AnswerOutput::default() }
    }

    pub(super) fn put_text(&mut self, text: &str) {
        text.chars().for_each(|c| self.put(c));
    }

    pub(super) fn put(&mut self, c: char) {
        if !c.is_whitespace() {
            self.release_waiting();
            self.write_space();
            self.text.push(c);
        } else if let Some(has_line_end) = &mut self.gap {
            *has_line_end |= c == '\n';
        } else {
            self.space.push(c);
            if self.space.len() > SPACE_MAX && self.waiting.is_empty() {
                self.write_space();
            }
        }
    }

    /// Takes a marked block: its calls, or the reason why there are none.
    pub(super) fn marked(&mut self, raw: &str, calls: Result<Vec<ParsedCall>, Reject>) {
        if calls == Err(Reject::NotACall) {
            return self.put_text(raw);
        }
        self.accept_waiting();
        match calls {
            Ok(calls) => {
                self.has_marked_calls = true;
                self.add(calls);
            }
            Err(Reject::Malformed(why)) => {
                self.problem.get_or_insert(why);
            }
            Err(Reject::NotACall) => {}
        }
        self.take_out();
    }

    /// Takes JSON that stands without marks. A call in it counts if nothing but calls follows.
    pub(super) fn unmarked(&mut self, raw: String, calls: Result<Vec<ParsedCall>, Reject>) {
        match calls {
            Ok(calls) => {
                self.waiting_bytes += raw.len();
                self.waiting.push(UnmarkedCalls {
                    space_before: std::mem::take(&mut self.space),
                    raw,
                    calls,
                });
                if self.waiting_bytes > HOLD_MAX {
                    self.release_waiting();
                }
            }
            Err(reject) => {
                self.put_text(&raw);
                if let Reject::Malformed(why) = reject {
                    self.doubt.get_or_insert(why);
                }
            }
        }
    }

    /// Notes that calls are expected, so that the model is asked again if there are none.
    pub(super) fn expect_calls(&mut self) {
        self.doubt
            .get_or_insert("a fence that is marked as a call has no call that can be understood".to_owned());
    }

    /// Takes a separator. Returns true if it stands right behind an unmarked call and so belongs to it.
    pub(super) fn separate(&mut self, c: char) -> bool {
        match self.waiting.last_mut() {
            Some(last) if self.space.is_empty() && !last.raw.ends_with([',', ';']) => {
                last.raw.push(c);
                true
            }
            _ => false,
        }
    }

    /// Takes a closing mark. Returns true if it belongs to a call: to one that just ended, or to an unmarked one whose
    /// opening mark the server swallowed.
    pub(super) fn end_mark(&mut self) -> bool {
        if self.waiting.is_empty() {
            return self.gap.is_some();
        }
        self.accept_waiting();
        self.has_marked_calls = true;
        true
    }

    /// Returns true if there is neither text nor a call so far.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_text() && self.waiting.is_empty() && self.gap.is_none()
    }

    pub(super) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    pub(super) fn ends_with(&self, text: &str) -> bool {
        self.text.ends_with(text)
    }

    /// Returns the text that can be shown and was not returned before.
    pub(super) fn take_shown(&mut self) -> String {
        let shown = self.text[self.shown..].to_owned();
        self.shown = self.text.len();
        shown
    }

    /// Ends the answer, and returns the text that was not shown yet and the whole.
    pub(super) fn finish(mut self) -> (String, ParsedAnswer) {
        self.accept_waiting();
        if self.gap.is_none() {
            self.write_space();
        }
        let shown = self.take_shown();
        let problem = self.problem.or(if self.has_marked_calls { None } else { self.doubt });
        let calls = self.calls.into_iter().enumerate().map(|(at, call)| with_id(at, call)).collect();
        (shown, ParsedAnswer { text: self.text, calls, problem })
    }

    /// Returns the calls if there is nothing else, for a fence that may hold calls.
    pub(super) fn into_calls(mut self) -> Result<Vec<ParsedCall>, Reject> {
        self.accept_waiting();
        if !self.has_text() && self.problem.is_none() && !self.calls.is_empty() {
            return Ok(self.calls);
        }
        Err(self.doubt.map_or(Reject::NotACall, Reject::Malformed))
    }

    fn write_space(&mut self) {
        match self.gap.take() {
            Some(has_line_end) if self.has_text() => {
                self.text.push_str(if has_line_end { "\n\n" } else { " " });
            }
            _ => self.text.push_str(&self.space),
        }
        self.space.clear();
    }

    fn take_out(&mut self) {
        let has_line_end = self.space.contains('\n') || self.gap == Some(true);
        self.space.clear();
        self.gap = Some(has_line_end);
    }

    /// Takes what waits as calls, because nothing else came.
    fn accept_waiting(&mut self) {
        self.waiting_bytes = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            let after = std::mem::replace(&mut self.space, waiting.space_before);
            self.take_out();
            self.gap = Some(self.gap == Some(true) || after.contains('\n'));
            self.add(waiting.calls);
        }
    }

    /// Takes what waits as text, because something else came.
    fn release_waiting(&mut self) {
        self.waiting_bytes = 0;
        if self.waiting.is_empty() {
            return;
        }
        let after = std::mem::take(&mut self.space);
        for waiting in std::mem::take(&mut self.waiting) {
            self.space = waiting.space_before;
            self.write_space();
            self.text.push_str(&waiting.raw);
            if let Some(call) = waiting.calls.first() {
                self.doubt.get_or_insert(format!(
                    "there is JSON that looks like a call of {}, but text follows it, so it was not run",
                    call.name
                ));
            }
        }
        self.space = after;
    }

    fn add(&mut self, calls: Vec<ParsedCall>) {
        let room = CALLS_MAX - self.calls.len();
        if calls.len() > room {
            self.problem.get_or_insert(format!("only the first {CALLS_MAX} calls were taken"));
        }
        self.calls.extend(calls.into_iter().take(room));
    }
}

/// Gives a call an id that is the same whenever the answer is parsed, and that every server accepts: nine letters and
/// digits. It begins with the place of the call, so that no two calls of an answer have the same.
fn with_id(at: usize, call: ParsedCall) -> ToolCall {
    let mut hash = blake3::Hasher::new();
    hash.update(&(at as u64).to_le_bytes());
    hash.update(&(call.name.len() as u64).to_le_bytes());
    hash.update(call.name.as_bytes());
    hash.update(call.arguments.as_bytes());
    let digit = |at: usize| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[at % 36]);
    let hash = hash.finalize();
    let id = [at / 36, at].into_iter().chain(hash.as_bytes().iter().take(7).map(|byte| usize::from(*byte)));
    ToolCall { id: id.map(digit).collect(), name: call.name, arguments: call.arguments }
}

/// The number of bytes that wait at most before it is clear what they are. A file that is written fits.
pub(super) const HOLD_MAX: usize = 1 << 20;
/// No model means to call more at once.
const CALLS_MAX: usize = 128;
const SPACE_MAX: usize = 1024;
