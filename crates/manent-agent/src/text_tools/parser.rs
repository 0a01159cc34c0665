//! The parser of an answer: text is shown at once, what may be a call waits.
//!
//! What waits is looked at again when it has grown by a quarter, which makes the work linear. Every decision depends on
//! the characters alone and never on how they were split into pieces, so an answer that is streamed and the same answer
//! as a whole are parsed alike. Text that was shown is never taken back.

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
    held: String,
    /// The length of `held` at which it is looked at again.
    look_at: usize,
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
    /// A fenced block of Markdown that is text, and its current line.
    Fence(Fence, String),
    /// The model reasons; what it writes there is not a call.
    Think,
    /// The model goes on with results that it made up: all that follows rests on them and is dropped.
    MadeUp,
}

/// The marks that opened a fence.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: char,
    count: usize,
}

impl Fence {
    /// Returns the marks at the beginning of a line, which are a fence if there are three or more.
    fn at(line: &str) -> Fence {
        let mark = if line.starts_with('~') { '~' } else { '`' };
        Fence { mark, count: line.chars().take_while(|c| *c == mark).take(FENCE_MARKS_MAX).count() }
    }

    fn is_closed_by(self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.count && line.chars().all(|c| c == self.mark)
    }

    /// Returns the beginning and the end of the line that closes the fence.
    fn closing_line(self, text: &str, is_end: bool) -> Option<(usize, usize)> {
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if (is_end || line.ends_with('\n')) && self.is_closed_by(line) {
                return Some((at, at + line.trim_end().len()));
            }
            at += line.len();
        }
        None
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
        self.held.push_str(piece);
        if self.held.len() >= self.look_at {
            self.advance(false);
        }
        self.take_shown()
    }

    /// Ends the answer. Returns the text that was not shown yet, and the whole answer.
    pub fn finish(mut self) -> (String, ParsedAnswer) {
        self.advance(true);
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

    /// Decides on what is held, as far as that is possible.
    fn advance(&mut self, is_end: bool) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        while let Some(c) = rest.chars().next()
            && let Some(len) = self.step(c, rest, is_end)
        {
            rest = &rest[len..];
        }
        rest.clone_into(&mut self.held);
        self.look_at = rest.len() + rest.len() / 4 + 1;
    }

    /// Decides on the beginning of `rest`, whose first character is `c`. Returns its length, or `None` if more is
    /// needed.
    fn step(&mut self, c: char, rest: &str, is_end: bool) -> Option<usize> {
        match &mut self.state {
            State::Text => return self.text(c, rest, is_end),
            State::MadeUp => return Some(rest.len()),
            State::Fence(fence, line) => {
                line.push(c);
                if c == '\n' && fence.is_closed_by(line) {
                    self.state = State::Text;
                } else if c == '\n' {
                    line.clear();
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
            _ => {
                self.line.is_plain |= c == '>' && is_line_start;
                Some(self.put_line(&rest[..c.len_utf8()]))
            }
        }
    }

    fn fence(&mut self, rest: &str, is_end: bool) -> Option<usize> {
        let fence = Fence::at(rest);
        let first = &rest[..rest.floor_char_boundary(FIRST_LINE_MAX)];
        let info = &first[fence.count..];
        let end = info.find(|c| c == '\n' || (c == '`' && fence.mark == '`'));
        if !is_end && first.len() == rest.len() && end.is_none() && (fence.count >= 3 || info.is_empty()) {
            return None;
        }
        let is_within_line = end.is_some_and(|end| info[end..].starts_with('`'));
        if fence.count < 3 || is_within_line {
            // Code within the line.
            let len = self.put_line(&first[..fence.count]);
            self.line.is_plain |= fence.count >= 3;
            return Some(len);
        }
        let is_code = std::mem::take(&mut self.line).indent >= CODE_INDENT;
        let language = info[..end.unwrap_or(info.len())].trim();
        if end.is_some() && !is_code && LANGUAGES.contains(&language) {
            return self.unmarked(rest, is_end);
        }
        let len = end.map_or(first.len(), |end| fence.count + end + 1);
        self.open_fence(fence, &first[..len]);
        Some(len)
    }

    /// Opens a fence that is text.
    fn open_fence(&mut self, fence: Fence, first_line: &str) {
        self.put_text(first_line);
        let line = if first_line.ends_with('\n') { "" } else { first_line };
        self.state = State::Fence(fence, line.to_owned());
        self.line = LineContext::default();
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

    /// Takes JSON without marks, perhaps in fences: calls, if nothing but calls follows up to a mark or the end.
    fn unmarked(&mut self, rest: &str, is_end: bool) -> Option<usize> {
        let mut calls = Vec::new();
        let refused = match unmarked_calls(rest, is_end, &self.tools, &mut calls)? {
            Ok(len) => {
                self.add(calls);
                self.take_out();
                self.line = LineContext::default();
                return Some(len);
            }
            Err(refused) => refused,
        };
        let follows = calls.first().map(|call| {
            let name = &call.name;
            format!("there is JSON that looks like a call of {name}, but text follows it, so it was not run")
        });
        if let Some(doubt) = follows.or(refused.doubt) {
            self.doubt.get_or_insert(doubt);
        }
        if let Some((fence, at)) = refused.fence {
            let first_line = rest[at..].split_inclusive('\n').next().unwrap_or_default();
            self.put_text(&rest[..at]);
            self.open_fence(fence, first_line);
            return Some(at + first_line.len());
        }
        if refused.is_plain {
            return Some(self.put_plain(&rest[..refused.len]));
        }
        self.put_text(&rest[..refused.len]);
        self.line = LineContext::default();
        Some(refused.len)
    }

    fn put_text(&mut self, text: &str) {
        text.chars().for_each(|c| self.put(c));
    }

    fn put(&mut self, c: char) {
        if !c.is_whitespace() {
            self.write_space();
            self.text.push(c);
        } else if let Some(has_line_end) = &mut self.gap {
            *has_line_end |= c == '\n';
        } else {
            self.space.push(c);
            if self.space.len() > SPACE_MAX {
                self.write_space();
            }
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

/// JSON without marks that is text.
#[derive(Debug, Default)]
struct Refused {
    /// The number of bytes that are text.
    len: usize,
    /// The fence that is open there, and the offset of its first line: all that is in it is text.
    fence: Option<(Fence, usize)>,
    /// True if the rest of the line is text too.
    is_plain: bool,
    doubt: Option<String>,
}

/// Collects the calls at the beginning of `text`, up to a mark or the end. Returns their length, or the reason why they
/// are text, or `None` if that depends on what follows.
fn unmarked_calls(
    text: &str,
    is_end: bool,
    tools: &[String],
    calls: &mut Vec<ToolCall>,
) -> Option<Result<usize, Refused>> {
    let near = &text[..text.floor_char_boundary(HOLD_MAX)];
    let is_end = is_end || near.len() < text.len();
    let (mut end, mut limit, mut doubt) = (0, near.len(), None);
    // The open fence, the offset behind its closing line, and the number of calls before it.
    let (mut fence, mut closing, mut before_fence) = (None::<(Fence, usize)>, None, 0);
    let refused = |len, fence, is_plain, doubt| Some(Err(Refused { len, fence, is_plain, doubt }));
    loop {
        let rest = near[end..limit].trim_start();
        let at = limit - rest.len();
        if rest.is_empty() && calls.len() > before_fence {
            if let Some(behind) = closing.take() {
                (end, limit, fence) = (behind, near.len(), None);
                continue;
            }
            if is_end && near.len() == text.len() {
                return Some(Ok(end));
            }
        }
        let is_end = is_end || closing.is_some();
        match fence {
            // This may become the closing line.
            Some((open, _)) if !is_end && rest.trim_end().chars().all(|c| c == open.mark) => return None,
            None if rest.starts_with(['`', '~']) => {
                let line_end = rest.find('\n').or(is_end.then_some(rest.len()))?;
                let opened = Fence::at(rest);
                let language = rest[opened.count..line_end].trim();
                if opened.count < 3 || !LANGUAGES.contains(&language) {
                    return refused(at, None, false, doubt);
                }
                if TOOL_LANGUAGES.contains(&language) {
                    doubt = Some(NO_CALL_IN_FENCE.to_owned());
                }
                (fence, before_fence) = (Some((opened, at)), calls.len());
                end = near.len().min(at + line_end + 1);
                if let Some((start, behind)) = opened.closing_line(&near[end..], is_end) {
                    (limit, closing) = (end + start, Some(end + behind));
                }
                continue;
            }
            _ => {}
        }
        let (len, found) = match match_mark(rest) {
            (MarkMatch::Partial, _) if !is_end => return None,
            (MarkMatch::Open { open, close }, _) if fence.is_some() => {
                parse_block(rest, (open, close), is_end, tools)?
            }
            (MarkMatch::Close, len) if fence.is_some() => (len, Ok(Vec::new())),
            (MarkMatch::Open { .. } | MarkMatch::Close | MarkMatch::ToolResult, _) if !calls.is_empty() => {
                return Some(Ok(end));
            }
            _ if rest.starts_with(['{', '[']) => match json_value(rest, is_end, tools)? {
                Ok(found) => found,
                Err(len) => return refused(at + len, fence, true, doubt),
            },
            _ => return refused(at, fence, false, doubt),
        };
        match found {
            Ok(found) => calls.extend(found),
            Err(reject) => {
                if let Reject::Malformed(why) = reject {
                    doubt = Some(why);
                }
                return refused(at + len, fence, false, doubt);
            }
        }
        end = limit - rest[len..].trim_start_matches([',', ';']).len();
    }
}

/// Parses the JSON at the beginning of `text`. Returns its length and its calls, or the number of bytes that show that
/// it is not a call, or `None` if it goes on.
fn json_value(text: &str, is_end: bool, tools: &[String]) -> Option<Result<(usize, Calls), usize>> {
    let head = &text[..text.floor_char_boundary(FIRST_KEY_MAX)];
    let is_key =
        |c: char| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '_' | '"' | '\'' | '{' | '[');
    match head.find(|c| !is_key(c)) {
        Some(at) if head[at..].starts_with(':') && calls::is_first_key(&head[..at]) => {}
        None if head.len() == text.len() && !is_end => return None,
        at => return Some(Err(at.unwrap_or(head.len()))),
    }
    let mut scanner = Scanner::default();
    let end = text.char_indices().find_map(|(at, c)| {
        scanner.push(c);
        (scanner.depth == 0).then_some(at + c.len_utf8())
    });
    let end = end.or(is_end.then_some(text.len()))?;
    Some(Ok((end, calls::from_json(&text[..end], CallContext::Unmarked, tools))))
}

/// The context that the current line gives to its next character.
#[derive(Debug, Default)]
struct LineContext {
    /// Anything but space came.
    has_text: bool,
    /// Anything but space and the mark of a list came.
    has_prose: bool,
    indent: usize,
    /// No call is looked for until the end of the line.
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
    let mut hash = blake3::Hasher::new();
    hash.update(&(at as u64).to_le_bytes());
    hash.update(&(call.name.len() as u64).to_le_bytes());
    hash.update(call.name.as_bytes());
    hash.update(call.arguments.as_bytes());
    let digit = |at: usize| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[at % 36]);
    let hash = hash.finalize();
    let id = [at / 36, at].into_iter().chain(hash.as_bytes().iter().take(7).map(|byte| usize::from(*byte)));
    id.map(digit).collect()
}

/// The languages of fences that may hold calls; nothing in a fence of another language counts.
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
const SPACE_MAX: usize = 1024;
