//! The parser of an answer: text is shown at once, what may be a call waits.
//!
//! Characters that wait are parsed again when their number has grown by a quarter, which makes the work linear. Every
//! decision depends on the characters alone and never on how they were split into pieces, so an answer that is streamed
//! and the same answer as a whole are parsed alike. Text that was shown is never taken back.

use super::ParsedAnswer;
use super::block::{HOLD_MAX, parse_block};
use super::calls::{self, CallContext, Calls, Reject};
use super::lenient_json::Scanner;
use super::marks::{MarkMatch, match_mark};
use crate::providers::ToolCall;

/// Parses an answer while it is streamed.
///
/// ```
/// use manent_agent::text_tools::AnswerParser;
///
/// let mut parser = AnswerParser::new(&["read_file"]);
/// assert_eq!(parser.feed("I look.\n<tool"), "I look.");
/// assert_eq!(parser.feed("_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}"), "");
/// let (rest, answer) = parser.finish();
/// assert_eq!((rest.as_str(), answer.text.as_str()), ("", "I look."));
/// assert_eq!(answer.calls[0].arguments, r#"{"path":"a"}"#);
/// ```
#[derive(Debug, Default)]
pub struct AnswerParser {
    /// The names of the tools that may be called.
    tools: Vec<String>,
    /// Characters that are not decided on.
    pending: String,
    /// The length of `pending` at which it is parsed again.
    parse_at: usize,
    state: State,
    line: LineContext,
    text: String,
    /// The number of bytes of `text` that were shown.
    shown: usize,
    /// Space that is written only if text follows, or at the end.
    space: String,
    /// Set where a block was taken out: whether there was a line end around it.
    gap: Option<bool>,
    calls: Vec<ToolCall>,
    has_marked_calls: bool,
    problem: Option<String>,
    /// A problem that counts only if there are no marked calls, as the text was perhaps not meant as a call.
    doubt: Option<String>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Text,
    /// A fenced block of Markdown, which is text.
    Fence(Fence),
    /// The model reasons; what it writes there is not a call.
    Think,
    /// The model goes on with results that it made up: all that follows rests on them and is dropped.
    MadeUp,
}

#[derive(Debug)]
struct Fence {
    mark: char,
    /// The number of marks that opened the fence.
    count: usize,
    /// The current line.
    line: String,
    /// The offset of the content in the text.
    start: usize,
    /// One of [`LANGUAGES`]; `None` if nothing in the fence can be meant as a call.
    language: Option<&'static str>,
}

impl Fence {
    fn is_closed(&self) -> bool {
        let line = self.line.trim();
        line.len() >= self.count && line.chars().all(|c| c == self.mark)
    }
}

impl AnswerParser {
    /// Makes a parser for the answer of a model that was told of `tools`.
    pub fn new(tools: &[impl AsRef<str>]) -> AnswerParser {
        let tools = tools.iter().map(|name| name.as_ref().to_owned()).collect();
        AnswerParser { tools, ..AnswerParser::default() }
    }

    /// Takes the next piece of the answer, and returns the text that can be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        self.pending.push_str(piece);
        if self.pending.len() >= self.parse_at {
            self.advance(false);
        }
        self.take_shown()
    }

    /// Ends the answer. Returns the text that was not shown yet, and the whole answer.
    pub fn finish(mut self) -> (String, ParsedAnswer) {
        self.advance(true);
        self.leave_fence();
        if self.gap.is_none() {
            self.write_space();
        }
        let shown = self.take_shown();
        let problem = self.problem.or(if self.has_marked_calls { None } else { self.doubt });
        self.calls.iter_mut().enumerate().for_each(|(at, call)| call.id = call_id(at, call));
        (shown, ParsedAnswer { text: self.text, calls: self.calls, problem })
    }

    fn take_shown(&mut self) -> String {
        let shown = self.text[self.shown..].to_owned();
        self.shown = self.text.len();
        shown
    }

    /// Decides on the pending characters, as far as that is possible.
    fn advance(&mut self, is_end: bool) {
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_str();
        while let Some(c) = rest.chars().next()
            && let Some(len) = self.step(c, rest, is_end)
        {
            rest = &rest[len..];
        }
        rest.clone_into(&mut self.pending);
        self.parse_at = rest.len() + rest.len() / 4 + 1;
    }

    /// Decides on the beginning of `rest`, whose first character is `c`. Returns its length, or `None` if more is
    /// needed.
    fn step(&mut self, c: char, rest: &str, is_end: bool) -> Option<usize> {
        match &mut self.state {
            State::Text => return self.text(c, rest, is_end),
            State::MadeUp => return Some(rest.len()),
            State::Fence(fence) => {
                fence.line.push(c);
                if c == '\n' && fence.is_closed() {
                    self.leave_fence();
                } else if c == '\n' {
                    fence.line.clear();
                }
                self.put(c);
            }
            State::Think => {
                self.put(c);
                if c == '>' && self.text.ends_with("</think>") {
                    self.state = State::Text;
                }
            }
        }
        Some(c.len_utf8())
    }

    fn text(&mut self, c: char, rest: &str, is_end: bool) -> Option<usize> {
        if c != '`' {
            self.line.settle();
        }
        let is_free = self.line.is_free() && c != '\n';
        let is_line_start = is_free && !self.line.has_text;
        match c {
            // Also far to the right and in a list, so that nothing inside of the fence counts by itself.
            '`' | '~' if !self.line.is_plain && !self.line.has_prose => self.fence(rest, is_end),
            '{' if is_line_start => self.unmarked(rest, is_end),
            '<' | '[' if is_free && !self.line.is_quoted() => self.mark(rest, is_line_start, is_end),
            'A' if is_line_start => self.mark(rest, is_line_start, is_end),
            _ => {
                self.line.is_plain |= c == '>' && is_line_start;
                Some(self.put_line(&rest[..c.len_utf8()]))
            }
        }
    }

    fn fence(&mut self, rest: &str, is_end: bool) -> Option<usize> {
        let mark = if rest.starts_with('~') { '~' } else { '`' };
        let count = rest.chars().take_while(|c| *c == mark).take(FENCE_MARKS_MAX).count();
        let first = &rest[..rest.floor_char_boundary(FIRST_LINE_MAX)];
        let info = &first[count..];
        let end = info.find(|c| c == '\n' || (c == '`' && mark == '`'));
        if !is_end && first.len() == rest.len() && end.is_none() && (count >= 3 || info.is_empty()) {
            return None;
        }
        let is_within_line = end.is_some_and(|end| info[end..].starts_with('`'));
        if count < 3 || is_within_line {
            // Code within the line.
            let len = self.put_line(&first[..count]);
            self.line.is_plain |= count >= 3;
            return Some(len);
        }
        let is_code = std::mem::take(&mut self.line).indent >= CODE_INDENT;
        let (first, line) = match end {
            Some(end) => (&first[..count + end], ""),
            None => (first, first),
        };
        let written = first[count..].trim();
        let language = LANGUAGES.iter().copied().find(|language| *language == written && !is_code);
        first.chars().for_each(|c| self.put(c));
        self.state =
            State::Fence(Fence { mark, count, line: line.to_owned(), start: self.text.len(), language });
        Some(first.len())
    }

    /// Goes on behind a fence. Calls in it are not made, as it may be an example, but the model is asked.
    fn leave_fence(&mut self) {
        let state = std::mem::take(&mut self.state);
        let State::Fence(Fence { language: Some(language), start, mark, .. }) = state else { return };
        let content = self.text[start..].trim_end_matches(mark).trim();
        let parsed = match match_mark(content) {
            (MarkMatch::Open { open, close }, _) => parse_block(content, (open, close), true, &self.tools),
            _ => json_value(content, true, &self.tools),
        };
        let doubt = match parsed {
            Some((_, Ok(calls))) => calls
                .first()
                .map(|call| format!("there is a call of {} in a fence, so it was not run", call.name)),
            Some((_, Err(Reject::Malformed(why)))) => Some(why),
            _ => TOOL_LANGUAGES.contains(&language).then(|| NO_CALL_IN_FENCE.to_owned()),
        };
        self.doubt = self.doubt.take().or(doubt);
    }

    fn mark(&mut self, rest: &str, is_line_start: bool, is_end: bool) -> Option<usize> {
        match match_mark(rest) {
            (MarkMatch::Partial, _) if !is_end => None,
            (MarkMatch::Open { open, close }, _) => {
                let (len, calls) = parse_block(rest, (open, close), is_end, &self.tools)?;
                match calls {
                    Err(Reject::NotACall) => return Some(self.put_plain(&rest[..len])),
                    Ok(calls) => {
                        self.has_marked_calls = true;
                        self.add(calls);
                    }
                    Err(Reject::Malformed(why)) => {
                        self.problem.get_or_insert(why);
                    }
                }
                self.take_out();
                self.line = LineContext { has_text: true, has_prose: true, ..LineContext::default() };
                Some(len)
            }
            (MarkMatch::Close, len) if self.gap.is_some() => Some(len),
            (MarkMatch::ToolResult, len) if self.gap.is_some() => {
                self.state = State::MadeUp;
                Some(len)
            }
            (MarkMatch::Think, len) if self.text.is_empty() && self.gap.is_none() => {
                self.state = State::Think;
                Some(self.put_line(&rest[..len]))
            }
            _ if is_line_start && rest.starts_with('[') => self.unmarked(rest, is_end),
            (_, len) => Some(self.put_line(&rest[..len.max(1)])),
        }
    }

    /// Takes JSON without marks: calls, if nothing but calls follows up to a mark or the end.
    fn unmarked(&mut self, text: &str, is_end: bool) -> Option<usize> {
        let near = &text[..text.floor_char_boundary(HOLD_MAX)];
        let is_too_long = near.len() < text.len();
        let is_end = is_end || is_too_long;
        let (mut calls, mut end) = (Vec::new(), 0);
        let doubt = loop {
            let rest = near[end..].trim_start();
            let is_done = match match_mark(rest) {
                (MarkMatch::Partial, _) if !is_end => return None,
                (MarkMatch::Open { .. } | MarkMatch::Close | MarkMatch::ToolResult, _) => !calls.is_empty(),
                _ => rest.is_empty() && !is_too_long,
            };
            if is_done {
                self.add(calls);
                self.take_out();
                self.line = LineContext::default();
                return Some(end);
            }
            if !rest.starts_with(['{', '[']) {
                break None;
            }
            let (len, found) = json_value(rest, is_end, &self.tools)?;
            end = near.len() - rest[len..].trim_start_matches([',', ';']).len();
            match found {
                Ok(found) => calls.extend(found),
                Err(Reject::Malformed(why)) => break Some(why),
                Err(Reject::NotACall) => break None,
            }
        };
        let follows = calls.first().map(|call| {
            let name = &call.name;
            format!("there is JSON that looks like a call of {name}, but text follows it, so it was not run")
        });
        self.doubt = self.doubt.take().or(follows).or(doubt);
        Some(self.put_plain(&text[..end]))
    }

    fn put(&mut self, c: char) {
        if !c.is_whitespace() {
            self.write_space();
            self.text.push(c);
        } else if let Some(has_line_end) = &mut self.gap {
            *has_line_end |= c == '\n';
        } else {
            self.space.push(c);
        }
    }

    /// Puts text that counts for the context of the line.
    fn put_line(&mut self, text: &str) -> usize {
        for c in text.chars() {
            self.put(c);
            self.line.push(c);
        }
        text.len()
    }

    /// Puts text in which no call is looked for, nor in the rest of its line.
    fn put_plain(&mut self, text: &str) -> usize {
        self.put_line(text);
        self.line.is_plain |= self.line.has_text;
        text.len()
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

    fn add(&mut self, calls: Vec<ToolCall>) {
        let room = CALLS_MAX - self.calls.len();
        if calls.len() > room {
            self.problem.get_or_insert(format!("only the first {CALLS_MAX} calls were taken"));
        }
        self.calls.extend(calls.into_iter().take(room));
    }
}

/// Parses the JSON at the beginning of `text`. Returns its length and its calls, or `None` if it goes on. If its first
/// key shows that it is not a call, the length is that of the key.
fn json_value(text: &str, is_end: bool, tools: &[String]) -> Option<(usize, Calls)> {
    let head = &text[..text.floor_char_boundary(FIRST_KEY_MAX)];
    let is_key =
        |c: char| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '_' | '"' | '\'' | '{' | '[');
    match head.find(|c| !is_key(c)) {
        Some(at) if head[at..].starts_with(':') && calls::is_first_key(&head[..at]) => {}
        None if head.len() == text.len() && !is_end => return None,
        at => return Some((at.unwrap_or(head.len()), Err(Reject::NotACall))),
    }
    let mut scanner = Scanner::default();
    let end = text.char_indices().find_map(|(at, c)| {
        scanner.push(c);
        (scanner.depth == 0).then_some(at + c.len_utf8())
    });
    let end = end.or(is_end.then_some(text.len()))?;
    Some((end, calls::from_json(&text[..end], CallContext::Unmarked, tools)))
}

/// The context that the current line gives to its next character.
#[derive(Debug, Default)]
struct LineContext {
    /// True after anything but space.
    has_text: bool,
    /// True after anything but space and the mark of a list.
    has_prose: bool,
    indent: usize,
    /// True if no call is looked for until the end of the line.
    is_plain: bool,
    /// The number of ticks that opened code within the line, or 0.
    code: usize,
    /// The number of ticks just read.
    ticks: usize,
    /// The last character.
    before: char,
}

impl LineContext {
    fn push(&mut self, c: char) {
        if c == '\n' {
            // Code may go on in the next line, but not in the next paragraph.
            self.settle();
            let code = if !self.has_text || self.is_plain { 0 } else { self.code };
            *self = LineContext { code, ..LineContext::default() };
            return;
        }
        if c == '`' {
            self.ticks += 1;
        } else {
            self.settle();
        }
        if !c.is_whitespace() {
            self.has_text = true;
            self.has_prose |= !matches!(c, '-' | '*' | '+' | '.' | ')') && !c.is_ascii_digit();
        } else if !self.has_text {
            self.indent += if c == '\t' { CODE_INDENT } else { 1 };
        }
        self.before = c;
    }

    /// Opens or closes code within the line by the ticks just read.
    fn settle(&mut self) {
        let ticks = std::mem::take(&mut self.ticks);
        if self.code == 0 {
            self.code = ticks;
        } else if self.code == ticks {
            self.code = 0;
        }
    }

    /// Returns true if a call can begin here.
    fn is_free(&self) -> bool {
        !self.is_plain && (self.code == 0 || !self.has_text) && self.indent < CODE_INDENT
    }

    fn is_quoted(&self) -> bool {
        matches!(self.before, '"' | '\'' | '“' | '‘' | '„' | '«' | '\\' | '`')
    }
}

/// Makes an id that is the same whenever the answer is parsed, and that every server accepts: nine letters and digits.
/// It begins with the place of the call, so that no two calls of an answer have the same.
fn call_id(at: usize, call: &ToolCall) -> String {
    let hash = blake3::hash(format!("{}\n{}", call.name, call.arguments).as_bytes());
    format!("{at:03}{}", &hash.to_hex()[..6])
}

/// The languages of fences in which a model may have written a call that it means; in others it cites.
const LANGUAGES: &[&str] =
    &["", "json", "JSON", "xml", "tool", "tool_call", "tool_calls", "tool_code", "function_call"];
/// The languages of fences that have no other purpose.
const TOOL_LANGUAGES: &[&str] = LANGUAGES.split_at(4).1;
const NO_CALL_IN_FENCE: &str = "a fence that is marked as a call has no call that can be understood";
/// The indentation that makes a line code in Markdown.
const CODE_INDENT: usize = 4;
const FENCE_MARKS_MAX: usize = 16;
/// The number of bytes of the first line of a fence.
const FIRST_LINE_MAX: usize = 96;
/// The number of bytes within which a call shows its first key.
const FIRST_KEY_MAX: usize = 256;
/// No model means to call more at once.
const CALLS_MAX: usize = 128;
