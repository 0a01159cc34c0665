//! A block that begins with the opening mark of a call, while it is streamed.

use super::calls::{self, ParsedCall, Reject};
use super::lenient_json::Scanner;
use super::marks::{MarkMatch, MarkPair, match_mark};
use super::output::HOLD_MAX;

#[derive(Debug)]
pub(super) struct Block {
    raw: String,
    pair: &'static MarkPair,
    mode: Mode,
    /// The tool, where the opening tag names it.
    name: Option<String>,
    /// The offset in `raw` at which the body begins.
    body: usize,
    /// True if a fence stands around the JSON in the body.
    is_fenced: bool,
}

#[derive(Debug)]
enum Mode {
    /// Inside of an opening tag such as `<function=name>`.
    Tag,
    /// Before the body.
    Start,
    /// In what may be a mark inside of the mark, from this offset.
    Nested(usize),
    /// In the first word of a body that begins with the name of the tool.
    Name,
    /// Behind that name: arguments or the closing mark follow.
    Named,
    Json(Scanner),
    /// Behind JSON that is whole, which ends at this offset.
    AfterJson(usize),
    /// In XML, or in a body that is not understood: only the closing mark ends it.
    Opaque,
}

/// The effect of one character on a block.
#[derive(Debug)]
pub(super) enum Step {
    More,
    /// The block is text. The character was not consumed.
    NotACall,
    Ended(Box<EndedBlock>),
}

#[derive(Debug)]
pub(super) struct EndedBlock {
    pub(super) raw: String,
    pub(super) calls: Result<Vec<ParsedCall>, Reject>,
    /// Text that came behind the block.
    pub(super) rest: String,
    /// True if the last character belongs to the block; otherwise it must be pushed again.
    pub(super) is_consumed: bool,
}

impl Block {
    /// Opens a block with `raw`, the opening mark.
    pub(super) fn open(raw: String, pair: &'static MarkPair) -> Block {
        let mode = if pair.is_tag() { Mode::Tag } else { Mode::Start };
        Block { body: raw.len(), raw, pair, mode, name: None, is_fenced: false }
    }

    pub(super) fn into_raw(self) -> String {
        self.raw
    }

    pub(super) fn push(&mut self, c: char, tools: &[String]) -> Step {
        if self.raw.len() > HOLD_MAX {
            return self.ended(Err(Reject::Malformed("a call is too long".to_owned())), "", false);
        }
        match &mut self.mode {
            Mode::Tag | Mode::Name if self.raw.len() - self.body > NAME_MAX => return Step::NotACall,
            Mode::Tag if matches!(c, '\n' | '<') => return Step::NotACall,
            Mode::Tag if c == '>' => {
                self.name = calls::tag_name(&self.raw[self.body..]).map(str::to_owned);
                if self.name.is_none() && self.pair.open != "<tool_call " {
                    return Step::NotACall;
                }
                self.body = self.raw.len() + 1;
                self.mode = Mode::Start;
            }
            Mode::Start => match c {
                '{' | '[' => self.mode = Mode::Json(Scanner::after(c)),
                '<' if self.name.is_some() => self.mode = Mode::Opaque,
                '<' => self.mode = Mode::Nested(self.raw.len()),
                c if c.is_whitespace() => {}
                c if self.name.is_none() && (calls::is_name(c) || c == '`') => self.mode = Mode::Name,
                _ => return Step::NotACall,
            },
            Mode::Name if calls::is_name(c) || c == '`' => {}
            Mode::Name => {
                let word = self.raw[self.body..].trim();
                if calls::known(word, tools).is_err() && !matches!(word, "function" | "```" | "```json") {
                    return Step::NotACall;
                }
                self.mode = Mode::Named;
                return self.push(c, tools);
            }
            Mode::Named if c == '{' || (c == '(' && self.raw.ends_with(calls::is_name)) => {
                let head = &self.raw[self.body..];
                let is_xml = head.contains("<arg_key>");
                self.is_fenced = head.contains("```");
                self.mode = if is_xml { Mode::Opaque } else { Mode::Json(Scanner::after(c)) };
            }
            Mode::Json(scanner) => {
                scanner.push(c);
                if scanner.depth == 0 {
                    self.mode = Mode::AfterJson(self.raw.len() + c.len_utf8());
                }
            }
            // Separators, a bracket too many, and the end of the fence around the JSON.
            Mode::AfterJson(end) if matches!(c, '}' | ']' | ',' | ';') || (c == '`' && self.is_fenced) => {
                *end = self.raw.len() + 1;
            }
            Mode::AfterJson(_) if c == '{' => self.mode = Mode::Json(Scanner::after(c)),
            Mode::AfterJson(end) if !c.is_whitespace() => {
                // A closing mark, the next call, or text. A closing mark that the server swallowed is not missed.
                let rest = self.raw.split_off(*end);
                let calls = self.calls(self.raw.len(), tools);
                return self.ended(calls, &rest, false);
            }
            Mode::Tag | Mode::Nested(_) | Mode::Named | Mode::AfterJson(_) | Mode::Opaque => {}
        }
        self.raw.push(c);
        self.after_push(c, tools)
    }

    /// Looks for a mark that ends with the character just pushed.
    fn after_push(&mut self, c: char, tools: &[String]) -> Step {
        match &self.mode {
            Mode::Nested(from) => match match_mark(&self.raw[*from..]) {
                MarkMatch::Partial => {}
                // A list of calls: the inner mark counts, and the closing mark of the list is dropped behind it.
                MarkMatch::Open(pair) => {
                    let raw = std::mem::take(&mut self.raw);
                    *self = Block::open(raw, pair);
                }
                MarkMatch::Close => return self.ended(Err(Reject::NotACall), "", true),
                _ => self.mode = Mode::Opaque,
            },
            Mode::Json(scanner) if scanner.is_in_string() => {}
            Mode::Named | Mode::Opaque | Mode::Json(_)
                if self.pair.close.ends_with(c) && self.raw.ends_with(self.pair.close) =>
            {
                let calls = self.calls(self.raw.len() - self.pair.close.len(), tools);
                return self.ended(calls, "", true);
            }
            _ => {}
        }
        Step::More
    }

    /// Ends the block together with the answer.
    pub(super) fn finish(mut self, tools: &[String]) -> EndedBlock {
        let mut end = self.raw.len();
        let calls = match self.mode {
            Mode::Tag | Mode::Start | Mode::Nested(_) => Err(Reject::NotACall),
            Mode::Name if calls::known(&self.raw[self.body..], tools).is_err() => Err(Reject::NotACall),
            Mode::Name | Mode::Named => Err(Reject::Malformed("a call is cut off".to_owned())),
            Mode::AfterJson(json_end) => {
                end = json_end;
                self.calls(end, tools)
            }
            // A string that was never closed may have hidden the closing mark.
            Mode::Json(_) => match self.raw[self.body..].find(self.pair.close) {
                Some(at) => {
                    end = self.body + at + self.pair.close.len();
                    self.calls(self.body + at, tools)
                }
                None => self.calls(end, tools),
            },
            Mode::Opaque => self.calls(end, tools),
        };
        let rest = self.raw.split_off(end);
        EndedBlock { raw: self.raw, calls, rest, is_consumed: true }
    }

    fn calls(&self, end: usize, tools: &[String]) -> Result<Vec<ParsedCall>, Reject> {
        calls::from_body(&self.raw[self.body..end], self.name.as_deref(), tools)
    }

    fn ended(&mut self, calls: Result<Vec<ParsedCall>, Reject>, rest: &str, is_consumed: bool) -> Step {
        let raw = std::mem::take(&mut self.raw);
        Step::Ended(Box::new(EndedBlock { raw, calls, rest: rest.to_owned(), is_consumed }))
    }
}

/// The number of bytes of a name, or of the attributes of an opening tag.
const NAME_MAX: usize = 160;
