//! JSON as models write it, made strict character by character.
//!
//! What can be meant in one way only is mended: other quotes, keys without quotes, commas at the end, comments,
//! Python's words, line ends inside strings. What can be meant in two ways is refused, because a mended command
//! would be run.

/// What a character led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    More,
    Done,
    Bad(&'static str),
}

/// What came before the end, for [`Loose::close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A closing tag or fence: the model meant to be done.
    Closed,
    /// Nothing: it may have been cut off.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    /// `name(key=value)`, an object that ends with `)`.
    Paren,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    kind: Kind,
    is_empty: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    Value,
    Key,
    Colon,
    After,
    Str(Str),
    /// A word without quotes: where it begins in the output.
    Word(usize),
    /// The first of the two characters that begin a comment.
    Slash,
    LineComment,
    /// Whether the last character was a star.
    BlockComment(bool),
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Str {
    ends: [char; 2],
    escape: Escape,
    /// Nothing in it could be the end of something else that was forgotten.
    is_simple: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Escape {
    No,
    Yes,
    Unicode(String),
}

/// One JSON value while it comes.
#[derive(Debug, Clone)]
pub(super) struct Loose {
    out: String,
    stack: Vec<Frame>,
    mode: Mode,
    /// What goes on after a comment.
    back: Option<Mode>,
    is_key: bool,
}

impl Loose {
    pub(super) fn new() -> Loose {
        Loose { out: String::new(), stack: Vec::new(), mode: Mode::Value, back: None, is_key: false }
    }

    /// The arguments of `name(`, whose bracket was read.
    pub(super) fn call() -> Loose {
        let mut loose = Loose::new();
        loose.open(Kind::Paren);
        loose
    }

    /// Takes the next character.
    pub(super) fn push(&mut self, c: char) -> Step {
        match &self.mode {
            Mode::Done => Step::Done,
            Mode::Str(_) => self.push_string(c),
            Mode::Word(from) => {
                let from = *from;
                if is_word(c) {
                    self.out.push(c);
                    return if self.out.len() - from > WORD_MAX { Step::Bad(BAD_WORD) } else { Step::More };
                }
                match self.end_word(from) {
                    Ok(()) => self.push(c),
                    Err(why) => Step::Bad(why),
                }
            }
            Mode::Slash => {
                self.mode = match c {
                    '/' => Mode::LineComment,
                    '*' => Mode::BlockComment(false),
                    _ => return Step::Bad(BAD_CHAR),
                };
                Step::More
            }
            Mode::LineComment if c == '\n' => self.resume(),
            Mode::LineComment => Step::More,
            Mode::BlockComment(true) if c == '/' => self.resume(),
            Mode::BlockComment(_) => {
                self.mode = Mode::BlockComment(c == '*');
                Step::More
            }
            Mode::Value | Mode::Key | Mode::Colon | Mode::After => self.push_between(c),
        }
    }

    /// What it is in strict JSON, once it is done.
    pub(super) fn into_json(self) -> String {
        self.out
    }

    /// No more comes. What is open is closed if that can be meant in one way only.
    pub(super) fn close(mut self, end: End) -> Result<String, &'static str> {
        match &self.mode {
            Mode::Done => return Ok(self.out),
            Mode::Word(from) => {
                // A number may have gone on.
                if end == End::Open && !self.out.ends_with(char::is_alphabetic) {
                    return Err(CUT);
                }
                self.end_word(*from)?;
            }
            Mode::Str(string) => {
                let is_clear = string.is_simple && string.escape == Escape::No && !self.is_key;
                if end == End::Open || !is_clear {
                    return Err("it ends inside a string");
                }
                self.out.push('"');
                self.mode = Mode::After;
            }
            _ => {}
        }
        if matches!(self.mode, Mode::Colon | Mode::Slash | Mode::BlockComment(_))
            || (self.mode == Mode::Value && !self.is_in_array())
        {
            return Err("a value is missing at its end");
        }
        // One bracket too few is a slip at the end; more of them missing mean that something was cut off.
        if end == End::Open && self.stack.len() > 1 {
            return Err(CUT);
        }
        while let Some(frame) = self.stack.pop() {
            self.out.push(if frame.kind == Kind::Array { ']' } else { '}' });
        }
        Ok(self.out)
    }

    fn is_in_array(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.kind == Kind::Array)
    }

    fn resume(&mut self) -> Step {
        self.mode = self.back.take().unwrap_or(Mode::After);
        Step::More
    }

    fn push_between(&mut self, c: char) -> Step {
        if c.is_whitespace() || c == '\u{feff}' {
            return Step::More;
        }
        if c == '/' || c == '#' {
            let mode = if c == '/' { Mode::Slash } else { Mode::LineComment };
            self.back = Some(std::mem::replace(&mut self.mode, mode));
            return Step::More;
        }
        match self.mode {
            Mode::Colon if matches!(c, ':' | '=') => {
                self.out.push(':');
                self.mode = Mode::Value;
                Step::More
            }
            Mode::After if c == ',' => {
                self.mode = if self.is_in_array() { Mode::Value } else { Mode::Key };
                Step::More
            }
            Mode::After | Mode::Key if matches!(c, '}' | ']' | ')') => self.shut(c),
            Mode::Value if c == ']' && self.is_in_array() => self.shut(c),
            Mode::Key => self.begin(c, true),
            Mode::Value => self.begin(c, false),
            Mode::After => {
                Step::Bad("a comma or a bracket is missing, or a quote inside a string has no backslash")
            }
            _ => Step::Bad(BAD_CHAR),
        }
    }

    fn begin(&mut self, c: char, is_key: bool) -> Step {
        // After a colon there is a value already begun; elsewhere this is the next member.
        if (is_key || self.is_in_array())
            && let Some(frame) = self.stack.last_mut()
            && !std::mem::replace(&mut frame.is_empty, false)
        {
            self.out.push(',');
        }
        self.is_key = is_key;
        let ends = match c {
            '"' | '\'' => [c, c],
            '“' | '”' | '„' => ['”', '“'],
            '‘' | '’' => ['’', '‘'],
            '{' | '[' if !is_key => {
                if self.stack.len() == DEPTH_MAX {
                    return Step::Bad("it is nested too deep");
                }
                self.open(if c == '{' { Kind::Object } else { Kind::Array });
                return Step::More;
            }
            c if is_word(c) => {
                self.mode = Mode::Word(self.out.len());
                self.out.push(c);
                return Step::More;
            }
            _ => return Step::Bad(BAD_CHAR),
        };
        self.out.push('"');
        self.mode = Mode::Str(Str { ends, escape: Escape::No, is_simple: true });
        Step::More
    }

    fn open(&mut self, kind: Kind) {
        self.out.push(if kind == Kind::Array { '[' } else { '{' });
        self.mode = if kind == Kind::Array { Mode::Value } else { Mode::Key };
        self.stack.push(Frame { kind, is_empty: true });
    }

    fn shut(&mut self, c: char) -> Step {
        let (kind, close) = match c {
            '}' => (Kind::Object, '}'),
            ')' => (Kind::Paren, '}'),
            _ => (Kind::Array, ']'),
        };
        if self.stack.pop().is_none_or(|frame| frame.kind != kind) {
            return Step::Bad("its brackets do not match");
        }
        self.out.push(close);
        if self.stack.is_empty() {
            self.mode = Mode::Done;
            return Step::Done;
        }
        self.mode = Mode::After;
        Step::More
    }

    fn push_string(&mut self, c: char) -> Step {
        let Mode::Str(string) = &mut self.mode else { return Step::More };
        match &mut string.escape {
            Escape::No if c == '\\' => string.escape = Escape::Yes,
            Escape::No if string.ends.contains(&c) => {
                self.out.push('"');
                self.mode = if self.is_key { Mode::Colon } else { Mode::After };
            }
            Escape::No => {
                string.is_simple &= !matches!(c, '{' | '}' | '[' | ']' | ',' | ':' | '"' | '\n');
                write_char(&mut self.out, c);
            }
            Escape::Yes => {
                string.escape = Escape::No;
                match c {
                    '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => self.out.extend(['\\', c]),
                    'u' => string.escape = Escape::Unicode(String::new()),
                    c if string.ends.contains(&c) || c == '\'' => write_char(&mut self.out, c),
                    // Mostly a regular expression or a path: the backslash is meant.
                    c => {
                        self.out.push_str("\\\\");
                        write_char(&mut self.out, c);
                    }
                }
            }
            Escape::Unicode(digits) if c.is_ascii_hexdigit() => {
                digits.push(c);
                if digits.len() == 4 {
                    self.out.push_str("\\u");
                    self.out.push_str(digits);
                    string.escape = Escape::No;
                }
            }
            Escape::Unicode(digits) => {
                self.out.push_str("\\\\u");
                self.out.push_str(digits);
                string.escape = Escape::No;
                return self.push_string(c);
            }
        }
        Step::More
    }

    fn end_word(&mut self, from: usize) -> Result<(), &'static str> {
        let word = self.out.split_off(from);
        if self.is_key {
            if !word.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                return Err(BAD_WORD);
            }
            self.out.push('"');
            self.out.push_str(&word);
            self.out.push('"');
            self.mode = Mode::Colon;
            return Ok(());
        }
        let value = match word.as_str() {
            "true" | "True" => "true",
            "false" | "False" => "false",
            "null" | "None" => "null",
            word if serde_json::from_str::<serde_json::Number>(word).is_ok() => word,
            _ => return Err(BAD_WORD),
        };
        self.out.push_str(value);
        self.mode = Mode::After;
        if self.stack.is_empty() { Err("it is no object") } else { Ok(()) }
    }
}

/// The values in a text that has nothing else but separators; or why it cannot be read.
pub(super) fn values(text: &str, end: End) -> Result<Vec<String>, &'static str> {
    let mut found = Vec::new();
    let mut now: Option<Loose> = None;
    for c in text.chars() {
        let Some(loose) = &mut now else {
            match c {
                '{' | '[' => {
                    let mut loose = Loose::new();
                    loose.push(c);
                    now = Some(loose);
                }
                // One bracket too many is a slip, once something was whole.
                '}' | ']' if !found.is_empty() => {}
                c if c.is_whitespace() || matches!(c, ',' | ';') => {}
                _ => return Err("there is something else around it"),
            }
            continue;
        };
        match loose.push(c) {
            Step::More => {}
            Step::Bad(why) => return Err(why),
            Step::Done => found.extend(now.take().map(Loose::into_json)),
        }
    }
    if let Some(loose) = now {
        found.push(loose.close(end)?);
    }
    Ok(found)
}

fn write_char(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c < ' ' => {
            out.push_str("\\u00");
            out.extend(
                [c as u32 >> 4, c as u32 & 15].into_iter().filter_map(|digit| char::from_digit(digit, 16)),
            );
        }
        c => out.push(c),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$')
}

const DEPTH_MAX: usize = 64;
const WORD_MAX: usize = 256;
const CUT: &str = "it is cut off";
const BAD_CHAR: &str = "there is a character that JSON does not have there";
const BAD_WORD: &str = "there is a word without quotes";

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(text: &str) -> Result<String, &'static str> {
        values(text, End::Closed).map(|found| found.join(" "))
    }

    #[test]
    fn what_is_clear_is_mended() {
        for (loose, json) in [
            (r#"{"a": [1, -2.5e3, true, null]}"#, r#"{"a":[1,-2.5e3,true,null]}"#),
            ("{'a': 'it is', b: “c”,}", r#"{"a":"it is","b":"c"}"#),
            ("{\"a\": True, // yes\n /* no */ \"b\": None, # end\n}", r#"{"a":true,"b":null}"#),
            ("{\"a\": \"x\ny\tz\"}", r#"{"a":"x\ny\tz"}"#),
            (r#"{"a": "\d+\.\u12 \u00e9 \" \/"}"#, r#"{"a":"\\d+\\.\\u12 \u00e9 \" \/"}"#),
            (r#"{"a": {"b": [1, 2"#, r#"{"a":{"b":[1,2]}}"#),
            (r#"{"a": "x.txt"#, r#"{"a":"x.txt"}"#),
            (r#"{"a":1}} {"b":2}; [3,]"#, r#"{"a":1} {"b":2} [3]"#),
            ("{}", "{}"),
            ("{\"a\":\"\u{1}\"}", "{\"a\":\"\\u0001\"}"),
        ] {
            let found = strict(loose).unwrap();
            assert_eq!(found, json, "{loose}");
        }
    }

    #[test]
    fn what_is_not_clear_is_refused() {
        for text in [
            r#"{"a": "say "hi" now"}"#,
            r#"{"a": 1 "b": 2}"#,
            r#"{"a": "x}}"#,
            r#"{"a": ..."#,
            r#"{"a": word}"#,
            r#"{"a":}"#,
            r#"{"a": [1}"#,
            r#"{"a" 1}"#,
            "{1: 2}",
            "{{",
            "text",
        ] {
            assert!(strict(text).is_err(), "{text}");
        }
        assert_eq!(values(r#"{"a":{"b":1}"#, End::Open).unwrap(), [r#"{"a":{"b":1}}"#]);
        assert!(values(r#"{"a":{"b":1"#, End::Open).is_err());
        assert!(values(r#"{"a":1"#, End::Open).is_err(), "a number may go on");
    }
}
