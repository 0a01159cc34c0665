//! Fenced blocks: which of them may hold calls, and where they end.

use super::body;
use super::loose::{End, values};
use super::shape::{self, Care, Meant, No};
use super::sink::{HOLD_MAX, Sink};
use super::strainer;
use super::tags::{Look, Tag, look};

/// What the word behind a fence says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    /// Calls stand here.
    Tool,
    /// A call may stand here, or anything else.
    Data,
    /// Nothing counts.
    Other,
}

pub(super) fn language(info: &str) -> Language {
    match info.trim() {
        "tool" | "tools" | "tool_call" | "tool_calls" | "tool_code" | "tool_use" | "function_call"
        | "function" | "functions" => Language::Tool,
        "" | "json" | "JSON" | "jsonc" | "json5" | "xml" => Language::Data,
        _ => Language::Other,
    }
}

/// Looks for the line that ends a fence.
#[derive(Debug, Clone)]
pub(super) struct Closing {
    mark: char,
    count: usize,
    run: usize,
    is_other: bool,
    is_spaced: bool,
}

impl Closing {
    pub(super) fn new(mark: char, count: usize) -> Closing {
        Closing { mark, count, run: 0, is_other: false, is_spaced: false }
    }

    fn is_closed(&self) -> bool {
        !self.is_other && self.run >= self.count
    }

    /// Takes a character. Whether the fence ended with it.
    pub(super) fn push(&mut self, c: char) -> bool {
        if c == '\n' {
            let is_closed = self.is_closed();
            (self.run, self.is_other, self.is_spaced) = (0, false, false);
            return is_closed;
        }
        if c.is_whitespace() {
            self.is_spaced |= self.run > 0;
        } else if c == self.mark && !self.is_spaced {
            self.run += 1;
        } else {
            self.is_other = true;
        }
        false
    }
}

/// A fence that may hold calls.
#[derive(Debug)]
pub(super) struct Fence {
    raw: String,
    language: Language,
    closing: Closing,
    /// Where the inside begins, and the line that is read.
    from: usize,
    line: usize,
    /// Where the first character of the inside stands, while it is not clear whether it may be a call.
    first: First,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    None,
    Json,
    Mark(usize),
    Likely,
}

/// What became of a fence.
#[derive(Debug)]
pub(super) enum Fenced {
    More,
    /// It is ordinary: all of it is text, and it goes on.
    Plain(String, Closing),
    /// It ended with this line end.
    Ended,
}

impl Fence {
    /// `raw` is the first line with its end.
    pub(super) fn new(raw: String, language: Language, closing: Closing) -> Fence {
        let first = if language == Language::Tool { First::Likely } else { First::None };
        Fence { from: raw.len(), line: raw.len(), raw, language, closing, first }
    }

    pub(super) fn push(&mut self, c: char, sink: &mut Sink, depth: u8) -> Fenced {
        if self.closing.push(c) {
            self.end(sink, depth);
            sink.put(c);
            return Fenced::Ended;
        }
        self.raw.push(c);
        if c == '\n' {
            self.line = self.raw.len();
        }
        let is_long = self.raw.len() > HOLD_MAX;
        if is_long && self.language == Language::Tool {
            sink.trouble("a block of calls is too long");
        }
        if is_long || !self.is_likely(c) {
            return Fenced::Plain(std::mem::take(&mut self.raw), self.closing.clone());
        }
        Fenced::More
    }

    /// No more comes.
    pub(super) fn finish(mut self, sink: &mut Sink, depth: u8) {
        self.end(sink, depth);
    }

    fn is_likely(&mut self, c: char) -> bool {
        let inside = self.raw.len() - self.from;
        match self.first {
            First::Likely => true,
            First::None => {
                self.first = match c {
                    c if c.is_whitespace() => First::None,
                    '{' | '[' => First::Json,
                    '<' => First::Mark(self.raw.len() - 1),
                    _ => return false,
                };
                inside <= FIRST_MAX
            }
            First::Json if c == ':' => {
                self.first = First::Likely;
                shape::is_first_key(&self.raw[self.from..self.raw.len() - 1])
            }
            First::Json => inside <= FIRST_MAX,
            First::Mark(at) => match look(&self.raw[at..]) {
                Look::More => true,
                Look::Is(Tag::Open { .. }) => {
                    self.first = First::Likely;
                    true
                }
                _ => false,
            },
        }
    }

    fn end(&mut self, sink: &mut Sink, depth: u8) {
        let is_closed = self.is_last_line_mark();
        let (end, to) = if is_closed { (End::Closed, self.line) } else { (End::Open, self.raw.len()) };
        let raw = std::mem::take(&mut self.raw);
        let inside = raw[self.from.min(to)..to].trim();
        if self.language == Language::Tool {
            return sink.marked(&raw, tool(inside, &sink.known, end));
        }
        match data(inside, &sink.known, end, depth) {
            Ok(calls) => sink.unmarked(raw, calls),
            Err(No::Other) => sink.text(&raw),
            Err(No::Trouble(why)) => {
                sink.text(&raw);
                sink.doubt(why);
            }
        }
    }

    /// The state of the last line is gone once its end was read.
    fn is_last_line_mark(&self) -> bool {
        let line = self.raw[self.line..].trim();
        line.chars().count() >= self.closing.count && line.chars().all(|c| c == self.closing.mark)
    }
}

fn tool(inside: &str, known: &[String], end: End) -> Result<Vec<Meant>, No> {
    if inside.is_empty() {
        return Err(No::Other);
    }
    if inside.starts_with('<')
        && let Some(calls) = strainer::calls_only(inside, known)
    {
        return Ok(calls);
    }
    body::read(inside, known, end)
}

fn data(inside: &str, known: &[String], end: End, depth: u8) -> Result<Vec<Meant>, No> {
    if inside.starts_with('<') {
        if depth > 0 {
            return Err(No::Other);
        }
        return strainer::calls_only(inside, known).ok_or(No::Other);
    }
    if !inside.starts_with(['{', '[']) {
        return Err(No::Other);
    }
    match values(inside, end) {
        Ok(found) => body::json(&found, known, Care::Unmarked),
        Err(why) => Err(doubtful(inside, known, why)),
    }
}

/// What is no JSON and begins like a call of a tool that there is.
pub(super) fn doubtful(text: &str, known: &[String], why: &str) -> No {
    match body::tool_in(text, known) {
        Some(_) => body::no_json(text, known, why),
        None => No::Other,
    }
}

/// A call shows its first key within so many bytes.
const FIRST_MAX: usize = 256;
