//! The parser of an answer, one character at a time: text is shown at once, what may be a call waits.
//!
//! Every decision depends on the characters alone and never on how they were split into pieces, so an answer that is
//! streamed and the same answer as a whole are parsed alike. What waited and turns out to be text is not looked at
//! again: that makes the work linear.

use std::sync::Arc;

use super::ParsedAnswer;
use super::block::{Block, Step};
use super::calls::{self, CallContext};
use super::lenient_json::Scanner;
use super::marks::{MarkMatch, match_mark};
use super::output::{AnswerOutput, HOLD_MAX};

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
#[derive(Debug)]
pub struct AnswerParser {
    output: AnswerOutput,
    state: State,
    /// Characters of the current state that may turn out to be text.
    held: String,
    line: LineContext,
    /// True for the content of a fence, in which there are no fences.
    is_nested: bool,
}

#[derive(Debug)]
enum State {
    Text,
    /// The first line of a fence is held.
    FenceStart,
    Fence(Box<Fence>),
    /// The beginning of a mark is held. True if it begins the line.
    Mark(bool),
    Block(Box<Block>),
    /// JSON without marks is held. True once its first key is one that calls have.
    Json(Scanner, bool),
    /// The model reasons; what it writes there is not a call.
    Think,
    /// The model goes on with results that it made up: all that follows rests on them and is dropped.
    MadeUp,
}

impl AnswerParser {
    /// Makes a parser for the answer of a model that was told of `tools`.
    pub fn new(tools: &[&str]) -> AnswerParser {
        AnswerParser::with_tools(tools.iter().map(|name| (*name).to_owned()).collect())
    }

    fn with_tools(tools: Arc<[String]>) -> AnswerParser {
        let output = AnswerOutput::new(tools);
        let line = LineContext::default();
        AnswerParser { output, state: State::Text, held: String::new(), line, is_nested: false }
    }

    /// Takes the next piece of the answer, and returns the text that can be shown now.
    pub fn feed(&mut self, piece: &str) -> String {
        for c in piece.chars() {
            // The character that ends something may begin something else.
            while !self.push(c) {}
        }
        self.output.take_shown()
    }

    /// Ends the answer. Returns the text that was not shown yet, and the whole answer.
    pub fn finish(mut self) -> (String, ParsedAnswer) {
        self.end();
        self.output.finish()
    }

    fn end(&mut self) {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text | State::Think | State::MadeUp => {}
            State::FenceStart | State::Mark(_) | State::Json(_, false) => {
                self.output.put_text(&held);
            }
            State::Fence(fence) => fence.end(&mut self.output),
            State::Block(block) => {
                let ended = block.finish(&self.output.tools);
                self.output.marked(&ended.raw, ended.calls);
                self.output.put_text(&ended.rest);
            }
            State::Json(_, true) => self.json_ended(held),
        }
    }

    /// Takes one character. Returns false if it must be pushed again in the new state.
    fn push(&mut self, c: char) -> bool {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => self.text(c),
            State::MadeUp => {
                self.state = State::MadeUp;
                true
            }
            State::FenceStart => self.fence_start(c),
            State::Fence(mut fence) => {
                if fence.is_end(c) {
                    fence.end(&mut self.output);
                    self.output.put(c);
                } else {
                    fence.push(c, &mut self.output);
                    self.state = State::Fence(fence);
                }
                true
            }
            State::Mark(is_line_start) => self.mark(c, is_line_start),
            State::Block(mut block) => match block.push(c, &self.output.tools) {
                Step::More => {
                    self.state = State::Block(block);
                    true
                }
                Step::NotACall => {
                    self.put_plain(&block.into_raw());
                    false
                }
                Step::Ended(ended) => {
                    self.output.marked(&ended.raw, ended.calls);
                    self.line = LineContext {
                        has_text: true,
                        has_prose: true,
                        before: '>',
                        ..LineContext::default()
                    };
                    self.put(&ended.rest);
                    ended.is_consumed
                }
            },
            State::Json(scanner, is_likely) => self.json(c, scanner, is_likely),
            State::Think => {
                self.output.put(c);
                if c != '>' || !self.output.ends_with("</think>") {
                    self.state = State::Think;
                }
                true
            }
        }
    }

    fn text(&mut self, c: char) -> bool {
        if c != '`' {
            self.line.settle();
        }
        let is_free = self.line.is_free() && c != '\n';
        let is_line_start = is_free && !self.line.has_text;
        let state = match c {
            // Also far to the right and in a list, so that nothing inside of the fence counts by itself.
            '`' | '~' if !self.line.is_plain && !self.line.has_prose && !self.is_nested => State::FenceStart,
            '{' if is_line_start => State::Json(Scanner::after(c), false),
            '<' | '[' if is_free && !self.line.is_quoted() => State::Mark(is_line_start),
            ',' | ';' if is_line_start && self.output.separate(c) => return true,
            _ => {
                self.line.is_plain |= c == '>' && is_line_start;
                self.output.put(c);
                self.line.push(c);
                return true;
            }
        };
        self.hold(c, state);
        true
    }

    fn hold(&mut self, c: char, state: State) {
        self.held.push(c);
        self.state = state;
    }

    fn put(&mut self, text: &str) {
        for c in text.chars() {
            self.output.put(c);
            self.line.push(c);
        }
    }

    /// Puts text in which no call is looked for, nor in the rest of its line.
    fn put_plain(&mut self, text: &str) {
        self.put(text);
        self.line.is_plain |= self.line.has_text;
    }

    fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.put(&held);
    }

    fn fence_start(&mut self, c: char) -> bool {
        let mark = if self.held.starts_with('~') { '~' } else { '`' };
        let count = self.held.len() - self.held.trim_start_matches(mark).len();
        if c == mark && count == self.held.len() && count < FENCE_MARKS_MAX {
            self.hold(c, State::FenceStart);
            return true;
        }
        if count < 3 || (c == '`' && mark == '`') {
            // Code within the line.
            self.release();
            self.line.is_plain |= count >= 3;
            return false;
        }
        self.hold(c, State::FenceStart);
        if c != '\n' && self.held.len() <= INFO_MAX {
            return true;
        }
        let first_line = std::mem::take(&mut self.held);
        let is_code = std::mem::take(&mut self.line).indent >= CODE_INDENT;
        let mut fence = Fence { mark, count, line: String::new(), is_text: c != '\n', candidate: None };
        let language = first_line[count..].trim();
        let is_tool = TOOL_LANGUAGES.contains(&language);
        if c == '\n' && !is_code && (is_tool || DATA_LANGUAGES.contains(&language)) {
            let mut inner = AnswerParser::with_tools(self.output.tools.clone());
            inner.is_nested = true;
            if is_tool {
                inner.output.expect_calls();
            }
            fence.candidate = Some((first_line, inner));
        } else {
            self.output.put_text(&first_line);
        }
        self.state = State::Fence(Box::new(fence));
        true
    }

    fn mark(&mut self, c: char, is_line_start: bool) -> bool {
        self.held.push(c);
        match match_mark(&self.held) {
            MarkMatch::Partial => self.state = State::Mark(is_line_start),
            MarkMatch::Open(pair) => {
                let block = Block::open(std::mem::take(&mut self.held), pair);
                self.state = State::Block(Box::new(block));
            }
            MarkMatch::Close if self.output.end_mark() => {
                self.held.clear();
                self.line.before = '>';
            }
            MarkMatch::ToolResult if self.output.end_mark() => {
                self.held.clear();
                self.state = State::MadeUp;
            }
            MarkMatch::Think if self.output.is_empty() => {
                self.release();
                self.state = State::Think;
            }
            MarkMatch::Close | MarkMatch::ToolResult | MarkMatch::Think => self.release(),
            MarkMatch::Nothing => {
                self.held.pop();
                if is_line_start && self.held == "[" {
                    self.state = State::Json(Scanner::after('['), false);
                } else {
                    self.release();
                }
                return false;
            }
        }
        true
    }

    fn json(&mut self, c: char, mut scanner: Scanner, is_likely: bool) -> bool {
        let is_likely = is_likely || (c == ':' && calls::is_first_key(&self.held));
        let is_key = c.is_alphanumeric() || c.is_whitespace() || matches!(c, '_' | '"' | '\'' | '{' | '[');
        let max = if is_likely { HOLD_MAX } else { FIRST_KEY_MAX };
        if self.held.len() > max || (!is_likely && !is_key) {
            let held = std::mem::take(&mut self.held);
            self.put_plain(&held);
            return false;
        }
        scanner.push(c);
        let is_whole = scanner.depth == 0;
        self.hold(c, State::Json(scanner, is_likely));
        if is_whole {
            self.state = State::Text;
            let held = std::mem::take(&mut self.held);
            self.json_ended(held);
            self.line = LineContext::default();
        }
        true
    }

    fn json_ended(&mut self, held: String) {
        let calls = calls::from_json(&held, CallContext::Unmarked, &self.output.tools);
        self.output.unmarked(held, calls);
    }
}

/// A fenced block of Markdown, whose content is shown as it is unless it is nothing but calls.
#[derive(Debug)]
struct Fence {
    mark: char,
    /// The number of marks that opened it.
    count: usize,
    /// The current line while it may be the closing one.
    line: String,
    /// True once the current line cannot be the closing one.
    is_text: bool,
    /// The fence so far and the parser of its content, while it may be nothing but calls.
    candidate: Option<(String, AnswerParser)>,
}

impl Fence {
    /// Returns true if the fence ends before `c`.
    fn is_end(&self, c: char) -> bool {
        c == '\n' && self.is_closing_line()
    }

    fn is_closing_line(&self) -> bool {
        let line = self.line.trim();
        !self.is_text && line.len() >= self.count && line.chars().all(|c| c == self.mark)
    }

    fn push(&mut self, c: char, output: &mut AnswerOutput) {
        self.is_text |= !c.is_whitespace() && c != self.mark;
        self.line.push(c);
        let line = if c == '\n' || self.is_text { std::mem::take(&mut self.line) } else { String::new() };
        self.is_text &= c != '\n';
        let Some((raw, inner)) = &mut self.candidate else { return output.put(c) };
        raw.push(c);
        inner.feed(&line);
        if (inner.output.has_text() || raw.len() > HOLD_MAX)
            && let Some((raw, inner)) = self.candidate.take()
        {
            output.unmarked(raw, inner.output.into_calls().and(Err(calls::Reject::NotACall)));
        }
    }

    /// Ends the fence, behind its closing line or with the answer.
    fn end(mut self, output: &mut AnswerOutput) {
        let is_closed = self.is_closing_line();
        if let Some((raw, mut inner)) = self.candidate.take() {
            if !is_closed {
                inner.feed(&self.line);
            }
            inner.end();
            output.unmarked(raw, inner.output.into_calls());
        }
    }
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

/// The languages of fences that may hold calls; nothing in a fence of another language counts.
const DATA_LANGUAGES: [&str; 4] = ["", "json", "JSON", "xml"];
/// The languages of fences that have no other purpose.
const TOOL_LANGUAGES: [&str; 5] = ["tool", "tool_call", "tool_calls", "tool_code", "function_call"];
/// The indentation that makes a line code in Markdown.
const CODE_INDENT: usize = 4;
const FENCE_MARKS_MAX: usize = 16;
const INFO_MAX: usize = 96;
/// The number of bytes within which a call shows its first key.
const FIRST_KEY_MAX: usize = 256;
