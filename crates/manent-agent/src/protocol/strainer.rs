//! The reader, one character at a time: what is text is given at once, what may be a call waits.
//!
//! Every decision depends on the characters alone and never on how they were split into pieces, so an answer that is
//! streamed and the same answer as a whole are read alike. What was held and turns out to be text is given as it is and
//! not looked at again: that makes the work linear.

use super::Heard;
use super::block::{Block, Ended, Out};
use super::fence::{Closing, Fence, Fenced, Language, doubtful, language};
use super::loose::{End, Loose, Step};
use super::shape::{self, Care, Meant, No};
use super::sink::{HOLD_MAX, Sink};
use super::tags::{Look, Tag, look};

/// Reads an answer while it comes.
///
/// ```
/// use manent_agent::protocol::Strainer;
///
/// let mut strainer = Strainer::new(&["read_file"]);
/// assert_eq!(strainer.feed("I look.\n<tool"), "I look.");
/// assert_eq!(strainer.feed("_call>{\"name\":\"read_file\",\"arguments\":{\"path\":\"a\"}}"), "");
/// let (rest, heard) = strainer.finish();
/// assert_eq!((rest.as_str(), heard.text.as_str()), ("", "I look."));
/// assert_eq!(heard.calls[0].arguments, r#"{"path":"a"}"#);
/// ```
#[derive(Debug)]
pub struct Strainer {
    sink: Sink,
    state: State,
    held: String,
    line: Line,
    /// How many blocks this is inside of.
    depth: u8,
}

#[derive(Debug)]
enum State {
    Prose,
    /// Marks of a fence at the beginning of a line are held.
    Ticks,
    /// The line of a fence is held.
    Info(usize),
    /// A fence in which nothing counts.
    Plain(Closing),
    Fence(Box<Fence>),
    /// The beginning of a mark is held; whether only space stands before it.
    Mark(bool),
    Block(Box<Block>),
    /// JSON without any mark is held; whether its first key was looked at.
    Bare(Box<Loose>, bool),
    /// The model thinks aloud: the end of that so far.
    Think(String),
    /// The model goes on with results that it made up: whatever follows rests on them.
    Deaf,
}

/// What stands before a character in its line.
#[derive(Debug)]
struct Line {
    /// Only space.
    is_blank: bool,
    /// Only space and the mark of a list.
    is_item: bool,
    indent: usize,
    /// Nothing counts until its end.
    is_plain: bool,
    /// The marks that code within the line began with, and those that were just read.
    code: usize,
    ticks: usize,
    before: char,
}

impl Default for Line {
    fn default() -> Line {
        Line { is_blank: true, is_item: true, indent: 0, is_plain: false, code: 0, ticks: 0, before: '\n' }
    }
}

impl Line {
    fn push(&mut self, c: char) {
        if c == '\n' {
            // Code may go on in the next line, but not in the next paragraph.
            self.settle();
            let code = if self.is_blank || self.is_plain { 0 } else { self.code };
            *self = Line { code, ..Line::default() };
            return;
        }
        if c == '`' {
            self.ticks += 1;
        } else {
            self.settle();
        }
        if !c.is_whitespace() {
            self.is_blank = false;
            self.is_item &= matches!(c, '-' | '*' | '+' | '.' | ')') || c.is_ascii_digit();
        } else if self.is_blank {
            self.indent += if c == '\t' { CODE_INDENT } else { 1 };
        }
        self.before = c;
    }

    fn settle(&mut self) {
        let ticks = std::mem::take(&mut self.ticks);
        if self.code == 0 {
            self.code = ticks;
        } else if self.code == ticks {
            self.code = 0;
        }
    }

    /// Whether something can begin here.
    fn is_free(&self) -> bool {
        !self.is_plain && (self.code == 0 || self.is_blank) && self.indent < CODE_INDENT
    }

    fn is_quoted(&self) -> bool {
        matches!(self.before, '"' | '\'' | '“' | '‘' | '„' | '«' | '\\' | '`')
    }
}

impl Strainer {
    /// For an answer of a model that was told of these tools.
    pub fn new(known: &[&str]) -> Strainer {
        Strainer::within(known.iter().map(|name| (*name).to_owned()).collect(), 0)
    }

    fn within(known: Vec<String>, depth: u8) -> Strainer {
        let sink = Sink::new(known);
        Strainer { sink, state: State::Prose, held: String::new(), line: Line::default(), depth }
    }

    /// Takes more of the answer, and gives what of it can be shown.
    pub fn feed(&mut self, piece: &str) -> String {
        for c in piece.chars() {
            // A character that ends something may begin something.
            while !self.push(c) {}
        }
        self.sink.take_shown()
    }

    /// The answer is over: what was not shown yet, and all of it. What was shown, put together, is its text.
    pub fn finish(mut self) -> (String, Heard) {
        self.end();
        self.sink.finish()
    }

    fn end(&mut self) {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Prose | State::Plain(_) | State::Think(_) | State::Deaf => {}
            State::Ticks | State::Info(_) | State::Mark(_) => self.sink.text(&held),
            State::Fence(fence) => fence.finish(&mut self.sink, self.depth),
            State::Block(block) => {
                let ended = block.finish(&self.sink.known);
                self.sink.marked(&ended.raw, ended.verdict);
                self.sink.text(&ended.tail);
            }
            State::Bare(loose, is_likely) => match loose.close(End::Open) {
                Ok(json) if is_likely => self.bare(held, &json),
                Err(why) if is_likely => self.no_json(&held, why),
                _ => self.sink.text(&held),
            },
        }
    }

    /// Whether the character was used up.
    fn push(&mut self, c: char) -> bool {
        match std::mem::replace(&mut self.state, State::Prose) {
            State::Prose => self.prose(c),
            State::Deaf => {
                self.state = State::Deaf;
                true
            }
            State::Ticks => self.ticks(c),
            State::Info(count) => self.info(c, count),
            State::Plain(mut closing) => {
                self.sink.put(c);
                if !closing.push(c) {
                    self.state = State::Plain(closing);
                }
                true
            }
            State::Fence(mut fence) => {
                match fence.push(c, &mut self.sink, self.depth) {
                    Fenced::More => self.state = State::Fence(fence),
                    Fenced::Plain(raw, closing) => {
                        self.sink.text(&raw);
                        self.state = State::Plain(closing);
                    }
                    Fenced::Ended => {}
                }
                true
            }
            State::Mark(is_first) => self.mark(c, is_first),
            State::Block(mut block) => match block.push(c, &self.sink.known) {
                Out::More => {
                    self.state = State::Block(block);
                    true
                }
                Out::Text(raw) => {
                    self.plain(&raw);
                    false
                }
                Out::Ended(ended) => self.ended(*ended),
            },
            State::Bare(loose, is_likely) => self.json(c, loose, is_likely),
            State::Think(mut end) => {
                self.sink.put(c);
                if !THOUGHT[end.len()..].starts_with(c) {
                    end.clear();
                }
                if THOUGHT[end.len()..].starts_with(c) {
                    end.push(c);
                }
                if end != THOUGHT {
                    self.state = State::Think(end);
                }
                true
            }
        }
    }

    fn prose(&mut self, c: char) -> bool {
        if c != '`' {
            self.line.settle();
        }
        let is_free = self.line.is_free() && c != '\n';
        let is_first = is_free && self.line.is_blank;
        match c {
            // Also far to the right and in a list, so that nothing of what is inside counts by itself.
            '`' | '~' if !self.line.is_plain && self.line.is_item && self.depth == 0 => {
                self.hold(c, State::Ticks);
                return true;
            }
            '>' if is_first => self.line.is_plain = true,
            '{' if is_first => {
                let mut loose = Loose::new();
                loose.push(c);
                self.hold(c, State::Bare(Box::new(loose), false));
                return true;
            }
            '<' | '[' if is_free && !self.line.is_quoted() => {
                self.hold(c, State::Mark(is_first));
                return true;
            }
            ',' | ';' if is_first && self.sink.separate(c) => return true,
            _ => {}
        }
        self.sink.put(c);
        self.line.push(c);
        true
    }

    fn hold(&mut self, c: char, state: State) {
        self.held.push(c);
        self.state = state;
    }

    /// What was held is text.
    fn release(&mut self) {
        for c in std::mem::take(&mut self.held).chars() {
            self.sink.put(c);
            self.line.push(c);
        }
    }

    /// A text in which nothing counts, also not in the rest of its line.
    fn plain(&mut self, text: &str) {
        for c in text.chars() {
            self.sink.put(c);
            self.line.push(c);
        }
        self.line.is_plain |= !self.line.is_blank;
    }

    fn ticks(&mut self, c: char) -> bool {
        if self.held.starts_with(c) && self.held.len() < TICKS_MAX {
            self.hold(c, State::Ticks);
            return true;
        }
        if self.held.len() >= 3 && !self.held.starts_with(c) {
            self.state = State::Info(self.held.len());
            return false;
        }
        let is_line = self.held.len() >= 3;
        self.release();
        self.line.is_plain |= is_line;
        false
    }

    fn info(&mut self, c: char, count: usize) -> bool {
        let mark = if self.held.starts_with('~') { '~' } else { '`' };
        if c == '`' && mark == '`' {
            // Code within a line.
            self.release();
            self.line.is_plain = true;
            return false;
        }
        self.held.push(c);
        let language = language(&self.held[count..]);
        if c != '\n' && self.held.len() <= INFO_MAX {
            self.state = State::Info(count);
            return true;
        }
        let closing = Closing::new(mark, count);
        let held = std::mem::take(&mut self.held);
        let is_code = std::mem::take(&mut self.line).indent >= CODE_INDENT;
        if c == '\n' && language != Language::Other && !is_code {
            self.state = State::Fence(Box::new(Fence::new(held, language, closing)));
            return true;
        }
        self.sink.text(&held);
        // What is left of a very long first line cannot close the fence.
        let mut closing = closing;
        if c != '\n' {
            closing.push('x');
        }
        self.state = State::Plain(closing);
        true
    }

    fn mark(&mut self, c: char, is_first: bool) -> bool {
        self.held.push(c);
        match look(&self.held) {
            Look::More => {
                self.state = State::Mark(is_first);
                true
            }
            Look::Is(Tag::Open { family, name }) => {
                let raw = std::mem::take(&mut self.held);
                self.state = State::Block(Box::new(Block::open(raw, family, name)));
                true
            }
            Look::Is(Tag::Close(_)) => {
                if self.sink.end_mark() {
                    self.held.clear();
                    self.line.before = '>';
                } else {
                    self.release();
                }
                true
            }
            Look::Is(Tag::Result) => {
                if self.sink.end_mark() {
                    self.held.clear();
                    self.state = State::Deaf;
                } else {
                    self.release();
                }
                true
            }
            Look::Is(Tag::Think) => {
                let is_begin = self.sink.is_untouched();
                self.release();
                if is_begin {
                    self.state = State::Think(String::new());
                }
                true
            }
            Look::No => {
                self.held.pop();
                if is_first && self.held.starts_with('[') {
                    self.array();
                } else {
                    self.release();
                }
                false
            }
        }
    }

    /// What began like a mark may be an array.
    fn array(&mut self) {
        let mut loose = Loose::new();
        let is_bad = self.held.chars().any(|c| matches!(loose.push(c), Step::Bad(_) | Step::Done));
        if is_bad {
            self.release();
        } else {
            self.state = State::Bare(Box::new(loose), false);
        }
    }

    fn json(&mut self, c: char, mut loose: Box<Loose>, is_likely: bool) -> bool {
        let is_likely = match is_likely {
            false if c == ':' && shape::is_first_key(&self.held) => true,
            false if c == ':' || self.held.len() > FIRST_MAX => {
                self.let_go();
                return false;
            }
            is_likely => is_likely,
        };
        match loose.push(c) {
            Step::More if self.held.len() < HOLD_MAX => self.hold(c, State::Bare(loose, is_likely)),
            Step::Done if is_likely => {
                self.held.push(c);
                let held = std::mem::take(&mut self.held);
                self.bare(held, &loose.into_json());
                self.line = Line::default();
            }
            Step::Bad(why) if is_likely => {
                if let No::Trouble(why) = doubtful(&self.held, &self.sink.known, why) {
                    self.sink.doubt(why);
                }
                self.let_go();
                return false;
            }
            _ => {
                self.let_go();
                return false;
            }
        }
        true
    }

    /// JSON that is none of ours.
    fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.plain(&held);
    }

    fn bare(&mut self, held: String, json: &str) {
        match shape::calls(json, &self.sink.known, Care::Unmarked) {
            Ok(calls) if !calls.is_empty() => self.sink.unmarked(held, calls),
            Ok(_) | Err(No::Other) => self.sink.text(&held),
            Err(No::Trouble(why)) => {
                self.sink.text(&held);
                self.sink.doubt(why);
            }
        }
    }

    fn no_json(&mut self, held: &str, why: &str) {
        if let No::Trouble(why) = doubtful(held, &self.sink.known, why) {
            self.sink.doubt(why);
        }
        self.sink.text(held);
    }

    fn ended(&mut self, ended: Ended) -> bool {
        self.sink.marked(&ended.raw, ended.verdict);
        self.line = Line { is_blank: false, is_item: false, before: '>', ..Line::default() };
        for c in ended.tail.chars() {
            self.sink.put(c);
            self.line.push(c);
        }
        if ended.is_made_up && self.sink.end_mark() {
            self.state = State::Deaf;
        }
        if let Some(next) = ended.next {
            self.state = State::Block(Box::new(next));
        }
        !ended.is_again
    }
}

/// The calls of a text that has nothing else.
pub(super) fn calls_only(text: &str, known: &[String]) -> Option<Vec<Meant>> {
    let mut strainer = Strainer::within(known.to_vec(), 1);
    strainer.feed(text);
    strainer.end();
    strainer.sink.into_meant()
}

/// Code in Markdown is a line that begins with so many spaces.
const CODE_INDENT: usize = 4;
const TICKS_MAX: usize = 16;
const INFO_MAX: usize = 96;
const FIRST_MAX: usize = 256;
const THOUGHT: &str = "</think>";
