//! A block that begins with a mark, while it comes.

use super::body;
use super::loose::{End, Loose, Step};
use super::shape::{self, Care, Meant, No};
use super::sink::HOLD_MAX;
use super::tags::{Look, Tag, look};

/// A block while it comes.
#[derive(Debug)]
pub(super) struct Block {
    raw: String,
    mode: Mode,
    family: String,
    name: Option<String>,
    /// Where its inside begins.
    from: usize,
    found: Vec<String>,
    /// Where the last mark inside of it begins.
    mark: Option<usize>,
}

#[derive(Debug)]
enum Mode {
    /// Nothing but space came.
    Start,
    /// A mark right at the beginning.
    Mark,
    /// A word, from here.
    Word(usize),
    Json(Box<Loose>),
    /// Behind JSON, from here: an end mark, more JSON, or something else.
    After(usize),
    /// The same, in a mark that begins there.
    AfterMark(usize, usize),
    /// Anything until the end mark.
    Raw,
}

/// What became of a block.
#[derive(Debug)]
pub(super) enum Out {
    More,
    /// It is none. All of it is text; the character is still to be read.
    Text(String),
    Ended(Box<Ended>),
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) raw: String,
    pub(super) verdict: Result<Vec<Meant>, No>,
    /// What came behind it and is not part of it.
    pub(super) tail: String,
    /// The character is still to be read.
    pub(super) is_again: bool,
    pub(super) next: Option<Block>,
    /// The model goes on with a result that it made up.
    pub(super) is_made_up: bool,
}

impl Block {
    /// `raw` is the mark.
    pub(super) fn open(raw: String, family: String, name: Option<String>) -> Block {
        // With a name in the mark, the mark belongs to the inside.
        let from = if name.is_some() { 0 } else { raw.len() };
        Block { raw, mode: Mode::Start, family, name, from, found: Vec::new(), mark: None }
    }

    pub(super) fn push(&mut self, c: char, known: &[String]) -> Out {
        if self.raw.len() > HOLD_MAX {
            let verdict = Err(No::Trouble("a call is too long".to_owned()));
            return self.ended(verdict, String::new(), true);
        }
        match std::mem::replace(&mut self.mode, Mode::Raw) {
            Mode::Start => self.start(c),
            Mode::Mark => self.start_mark(c, known),
            Mode::Word(from) if is_word(c) && self.raw.len() - from < WORD_MAX => {
                self.keep(c, Mode::Word(from))
            }
            Mode::Word(from) => {
                let word = &self.raw[from..];
                let is_tool = shape::resolve(word, known, Care::Unmarked).is_ok() || word == "function";
                if is_tool && self.name.is_none() { self.raw(c, known) } else { self.refuse() }
            }
            Mode::Json(mut loose) => {
                self.raw.push(c);
                match loose.push(c) {
                    Step::More => self.mode = Mode::Json(loose),
                    Step::Done => {
                        self.found.push(loose.into_json());
                        self.mode = Mode::After(self.raw.len());
                    }
                    Step::Bad(_) => {
                        self.mark = (c == '<' || c == '[').then(|| self.raw.len() - 1);
                    }
                }
                Out::More
            }
            Mode::After(from) => self.after(c, from, known),
            Mode::AfterMark(from, mark) => self.after_mark(c, from, mark, known),
            Mode::Raw => self.raw(c, known),
        }
    }

    /// No more comes.
    pub(super) fn finish(mut self, known: &[String]) -> Ended {
        let mut raw = std::mem::take(&mut self.raw);
        let mut tail = String::new();
        let verdict = match std::mem::replace(&mut self.mode, Mode::Raw) {
            Mode::Start | Mode::Mark => Err(No::Other),
            Mode::Word(from) => match shape::resolve(&raw[from..], known, Care::Unmarked) {
                Ok(_) => Err(No::Trouble(CUT.to_owned())),
                Err(_) => Err(No::Other),
            },
            Mode::Json(loose) => self.cut(*loose, &raw, known, &mut tail),
            Mode::After(from) | Mode::AfterMark(from, _) => {
                tail = raw.split_off(from);
                self.verdict(known)
            }
            Mode::Raw => body::read(&raw[self.from..], known, End::Open),
        };
        Ended { raw, verdict, tail, is_again: false, next: None, is_made_up: false }
    }

    fn keep(&mut self, c: char, mode: Mode) -> Out {
        self.raw.push(c);
        self.mode = mode;
        Out::More
    }

    fn refuse(&mut self) -> Out {
        Out::Text(std::mem::take(&mut self.raw))
    }

    fn start(&mut self, c: char) -> Out {
        match c {
            '{' | '[' => {
                let mut loose = Loose::new();
                loose.push(c);
                self.keep(c, Mode::Json(Box::new(loose)))
            }
            '<' => {
                self.mark = Some(self.raw.len());
                self.keep(c, Mode::Mark)
            }
            '`' => self.keep(c, Mode::Raw),
            c if c.is_whitespace() => self.keep(c, Mode::Start),
            c if is_word(c) => self.keep(c, Mode::Word(self.raw.len())),
            _ => self.refuse(),
        }
    }

    fn start_mark(&mut self, c: char, known: &[String]) -> Out {
        self.raw.push(c);
        match look(&self.raw[self.mark.unwrap_or(0)..]) {
            Look::More => self.mode = Mode::Mark,
            // A wrapper around several.
            Look::Is(Tag::Open { family, name: None }) if self.name.is_none() => {
                self.family = family;
                self.from = self.raw.len();
                self.mode = Mode::Start;
            }
            Look::Is(Tag::Close(_)) => {
                let verdict = match &self.name {
                    Some(name) => shape::named(name, "{}", known).map(|call| vec![call]),
                    None => Err(No::Other),
                };
                return self.ended(verdict, String::new(), false);
            }
            Look::Is(_) | Look::No => {}
        }
        Out::More
    }

    fn raw(&mut self, c: char, known: &[String]) -> Out {
        self.raw.push(c);
        match (c, self.mark) {
            ('<' | '[', _) => self.mark = Some(self.raw.len() - 1),
            ('>' | ']', Some(mark)) => {
                if let Look::Is(Tag::Close(family)) = look(&self.raw[mark..])
                    && family.trim_end_matches('s') == self.family.trim_end_matches('s')
                {
                    let verdict = body::read(&self.raw[self.from..mark], known, End::Closed);
                    return self.ended(verdict, String::new(), false);
                }
            }
            _ => {}
        }
        Out::More
    }

    fn after(&mut self, c: char, from: usize, known: &[String]) -> Out {
        match c {
            '{' => self.start(c),
            '<' | '[' => {
                let mark = self.raw.len();
                self.keep(c, Mode::AfterMark(from, mark))
            }
            // One bracket too many is a slip.
            '}' | ']' | ',' | ';' => {
                self.raw.push(c);
                self.mode = Mode::After(self.raw.len());
                Out::More
            }
            c if c.is_whitespace() => self.keep(c, Mode::After(from)),
            _ => {
                let tail = self.raw[from..].to_owned();
                let verdict = self.verdict(known);
                self.ended(verdict, tail, true)
            }
        }
    }

    fn after_mark(&mut self, c: char, from: usize, mark: usize, known: &[String]) -> Out {
        self.raw.push(c);
        let seen = look(&self.raw[mark..]);
        if seen == Look::More {
            self.mode = Mode::AfterMark(from, mark);
            return Out::More;
        }
        let verdict = self.verdict(known);
        match seen {
            Look::Is(Tag::Close(_)) => self.ended(verdict, String::new(), false),
            Look::Is(Tag::Open { family, name }) => {
                let next = Some(Block::open(self.raw.split_off(mark), family, name));
                let tail = self.raw[from..].to_owned();
                let mut ended = self.ending(verdict, tail, false);
                ended.next = next;
                Out::Ended(ended)
            }
            Look::Is(Tag::Result) => {
                let mut ended = self.ending(verdict, String::new(), false);
                ended.is_made_up = true;
                Out::Ended(ended)
            }
            _ => {
                // The character may begin something itself.
                self.raw.pop();
                let tail = self.raw[from..].to_owned();
                self.ended(verdict, tail, true)
            }
        }
    }

    fn verdict(&self, known: &[String]) -> Result<Vec<Meant>, No> {
        match &self.name {
            Some(name) => {
                let arguments = self.found.first().map_or("{}", String::as_str);
                shape::named(name, arguments, known).map(|call| vec![call])
            }
            None => body::json(&self.found, known, Care::Marked),
        }
    }

    /// It ends inside of JSON.
    fn cut(
        &mut self,
        loose: Loose,
        raw: &str,
        known: &[String],
        tail: &mut String,
    ) -> Result<Vec<Meant>, No> {
        let why = match loose.close(End::Open) {
            Ok(json) => {
                // With nothing but a name, the arguments may be what is missing.
                let is_whole =
                    self.name.is_some() || shape::calls(&json, known, Care::Unmarked) != Err(No::Other);
                self.found.push(json);
                if is_whole {
                    return self.verdict(known);
                }
                CUT
            }
            Err(why) => why,
        };
        // A string that was never closed may have swallowed the end mark.
        let mark = format!("</{}>", self.family);
        if let Some((inside, rest)) = raw[self.from..].split_once(&mark)
            && self.name.is_none()
            && !rest.contains(&mark)
            && let Ok(calls) = body::read(inside, known, End::Closed)
        {
            rest.clone_into(tail);
            return Ok(calls);
        }
        Err(body::no_json(&raw[self.from..], known, why))
    }

    fn ended(&mut self, verdict: Result<Vec<Meant>, No>, tail: String, is_again: bool) -> Out {
        Out::Ended(self.ending(verdict, tail, is_again))
    }

    fn ending(&mut self, verdict: Result<Vec<Meant>, No>, tail: String, is_again: bool) -> Box<Ended> {
        let mut raw = std::mem::take(&mut self.raw);
        raw.truncate(raw.len() - tail.len());
        Box::new(Ended { raw, verdict, tail, is_again, next: None, is_made_up: false })
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':')
}

const WORD_MAX: usize = 128;
const CUT: &str = "a call is cut off";
