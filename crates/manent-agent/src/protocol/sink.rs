//! Where what was read goes: text for the person, calls, trouble.
//!
//! Text that was given away is never taken back, so whatever may still become a call waits here: the space before it,
//! and an unmarked call until it is clear whether the answer ends with it.

use super::Heard;
use super::shape::{Meant, No};
use crate::providers::ToolCall;

/// Text, calls and trouble while they come.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) known: Vec<String>,
    text: String,
    given: usize,
    /// Space that is given only if text follows, or the end.
    space: String,
    /// A block was taken out here; whether there was a line end around it.
    gap: Option<bool>,
    /// Unmarked calls after which nothing else has come yet.
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    calls: Vec<Meant>,
    has_marked: bool,
    trouble: Option<String>,
    /// Of what was not clearly a call; it counts only if nothing was called by marks.
    doubt: Option<String>,
}

#[derive(Debug)]
struct Waiting {
    space: String,
    raw: String,
    calls: Vec<Meant>,
}

impl Sink {
    pub(super) fn new(known: Vec<String>) -> Sink {
        Sink { known, ..Sink::default() }
    }

    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            self.put(c);
        }
    }

    pub(super) fn put(&mut self, c: char) {
        if !c.is_whitespace() {
            self.release();
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

    /// A marked block ended: calls, or why there are none.
    pub(super) fn marked(&mut self, raw: &str, verdict: Result<Vec<Meant>, No>) {
        match verdict {
            Err(No::Other) => return self.text(raw),
            Err(No::Trouble(why)) => {
                self.accept();
                self.trouble.get_or_insert(why);
            }
            Ok(calls) => {
                self.accept();
                self.has_marked = true;
                self.add(calls);
            }
        }
        self.take_out();
    }

    /// Something that is a call if nothing else follows.
    pub(super) fn unmarked(&mut self, raw: String, calls: Vec<Meant>) {
        self.waiting_bytes += raw.len();
        self.waiting.push(Waiting { space: std::mem::take(&mut self.space), raw, calls });
        if self.waiting_bytes > HOLD_MAX {
            self.release();
        }
    }

    /// A separator right behind an unmarked call; whether it was one.
    pub(super) fn separate(&mut self, c: char) -> bool {
        let is_separator = matches!(c, ',' | ';') && self.space.is_empty();
        match self.waiting.last_mut() {
            Some(waiting) if is_separator && !waiting.raw.ends_with([',', ';']) => {
                waiting.raw.push(c);
                true
            }
            _ => false,
        }
    }

    /// An end mark without a beginning: some servers eat the beginning. Whether it belonged to a call.
    pub(super) fn end_mark(&mut self) -> bool {
        if self.waiting.is_empty() {
            return self.gap.is_some();
        }
        self.accept();
        self.has_marked = true;
        true
    }

    pub(super) fn trouble(&mut self, why: impl Into<String>) {
        self.trouble.get_or_insert(why.into());
    }

    pub(super) fn doubt(&mut self, why: impl Into<String>) {
        self.doubt.get_or_insert(why.into());
    }

    /// Whether nothing was said or called.
    pub(super) fn is_untouched(&self) -> bool {
        self.text.is_empty() && self.waiting.is_empty() && self.gap.is_none()
    }

    /// What can be shown since the last time.
    pub(super) fn take_shown(&mut self) -> String {
        let shown = self.text[self.given..].to_owned();
        self.given = self.text.len();
        shown
    }

    /// No more comes: what was not shown yet, and all of it.
    pub(super) fn finish(mut self) -> (String, Heard) {
        self.accept();
        if self.gap.is_none() {
            self.write_space();
        }
        let shown = self.take_shown();
        let trouble = self.trouble.or(if self.has_marked { None } else { self.doubt });
        let calls = self.calls.into_iter().enumerate().map(|(at, meant)| call(at, meant)).collect();
        (shown, Heard { text: self.text, calls, trouble })
    }

    /// The calls alone, for a block inside of another.
    pub(super) fn into_meant(mut self) -> Option<Vec<Meant>> {
        self.accept();
        let is_all = self.text.trim().is_empty() && self.trouble.is_none();
        (is_all && !self.calls.is_empty()).then_some(self.calls)
    }

    fn write_space(&mut self) {
        match self.gap.take() {
            Some(has_line_end) if !self.text.is_empty() => {
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

    /// Nothing else came: what waits are calls.
    fn accept(&mut self) {
        self.waiting_bytes = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            let after = std::mem::replace(&mut self.space, waiting.space);
            self.take_out();
            self.gap = Some(self.gap == Some(true) || after.contains('\n'));
            self.add(waiting.calls);
        }
    }

    /// Something else came: what waits are no calls.
    fn release(&mut self) {
        self.waiting_bytes = 0;
        if self.waiting.is_empty() {
            return;
        }
        let after = std::mem::take(&mut self.space);
        for waiting in std::mem::take(&mut self.waiting) {
            self.space = waiting.space;
            self.write_space();
            self.text.push_str(&waiting.raw);
            if let Some(call) = waiting.calls.first() {
                self.doubt(format!(
                    "there is JSON that looks like a call of {}, but text follows it, so it was not run",
                    call.name
                ));
            }
        }
        self.space = after;
    }

    fn add(&mut self, calls: Vec<Meant>) {
        for call in calls {
            if self.calls.len() == CALLS_MAX {
                return self.trouble(format!("only the first {CALLS_MAX} calls were taken"));
            }
            self.calls.push(call);
        }
    }
}

/// With an id that is the same whenever this is read, and that every server takes back: nine letters and digits.
fn call(at: usize, meant: Meant) -> ToolCall {
    let mut hash = blake3::Hasher::new();
    hash.update(&(at as u64).to_le_bytes());
    hash.update(&(meant.name.len() as u64).to_le_bytes());
    hash.update(meant.name.as_bytes());
    hash.update(meant.arguments.as_bytes());
    let digits = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let place = char::from(digits[at / digits.len() % digits.len()]);
    let place = [place, char::from(digits[at % digits.len()])];
    // The place is in it as it is, so that no two of a reply are the same.
    let letter = |byte: &u8| char::from(digits[usize::from(*byte) % digits.len()]);
    let id = place.into_iter().chain(hash.finalize().as_bytes().iter().take(7).map(letter)).collect();
    ToolCall { id, name: meant.name, arguments: meant.arguments }
}

/// The most that waits before it is clear what it is. A file that is written fits.
pub(super) const HOLD_MAX: usize = 1 << 20;
/// Nobody means to call so many at once.
const CALLS_MAX: usize = 128;
const SPACE_MAX: usize = 1024;
