//! A line of shell, as far as it is understood.
//!
//! Only plain things are: words, quotes, escapes, and simple commands one after another or joined by pipes. Anything
//! else (variables, substitutions, patterns, files written or read, assignments, keywords, functions, jobs, comments)
//! makes a line unclear, and no rule allows an unclear line. That is far less than a shell understands, and on purpose:
//! what is read wrongly here would run.
//!
//! To deny is easier than to allow: an unclear line may run whatever is named in it anywhere.

use super::prefix::{base, runs_others};
use crate::tools::one_line_excerpt;

/// A line, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShellLine {
    /// The simple commands in it, each at least one word.
    pub(super) commands: Vec<Vec<String>>,
    /// The reason why the line is not fully understood, such as `uses a variable`.
    pub(super) unclear: Option<&'static str>,
    /// Pieces of the line that look like words, whatever stands around them.
    pieces: Vec<String>,
}

impl ShellLine {
    pub(super) fn read(text: &str) -> ShellLine {
        let mut reader = Reader { rest: text, ..Reader::default() };
        if text.len() > BYTES_MAX {
            reader.unclear("is very long");
        } else {
            reader.read();
        }
        let mut line = reader.line;
        if line.commands.is_empty() && line.unclear.is_none() {
            line.unclear = Some("is empty");
        }
        for words in &line.commands {
            if line.unclear.is_none() {
                line.unclear = odd_command(words);
            }
        }
        line.pieces = pieces(text);
        line
    }

    /// Returns true if the line runs, or might run, a command that begins with `beginning`: by its path, through
    /// another program, or in a part that is not understood.
    pub(super) fn may_run(&self, beginning: &[String]) -> bool {
        let is_in = |pieces: &[String]| (0..pieces.len()).any(|at| begins(&pieces[at..], beginning));
        let through_another = |words: &[String]| {
            runs_others(words) && is_in(&words.iter().flat_map(|word| pieces(word)).collect::<Vec<_>>())
        };
        (self.unclear.is_some() && is_in(&self.pieces))
            || self.commands.iter().any(|words| begins(words, beginning) || through_another(words))
    }
}

/// Returns true if a command begins with these words; its program may be given by a path.
fn begins(words: &[String], beginning: &[String]) -> bool {
    match (words.split_first(), beginning.split_first()) {
        (Some((program, words)), Some((wanted, beginning))) => {
            (program == wanted || base(program) == wanted) && words.starts_with(beginning)
        }
        _ => false,
    }
}

/// Returns the reason why a simple command is not as simple as it looks.
fn odd_command(words: &[String]) -> Option<&'static str> {
    let first = words.first()?.as_str();
    if KEYWORDS.contains(&first) {
        return Some("has parts that are more than simple commands");
    }
    CHANGERS.contains(&first).then_some("changes what other commands mean")
}

/// Returns the words of a command for a message, in one line.
pub(super) fn display_words(words: &[String]) -> String {
    one_line_excerpt(&words.join(" "), SHOWN_CHARS)
}

/// Returns every piece that could be a word, however it is quoted.
fn pieces(text: &str) -> Vec<String> {
    // Quotes and backslashes inside of a word do not hide it.
    let plain: String = text.chars().take(BYTES_MAX).filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let is_end = |c: char| c.is_whitespace() || c.is_control() || "$`(){}<>;&|!=,".contains(c);
    plain.split(is_end).filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

/// Reads a line from its beginning to its end.
#[derive(Default)]
struct Reader<'a> {
    rest: &'a str,
    line: ShellLine,
    command: Vec<String>,
    word: Word,
}

/// The word under way.
#[derive(Default)]
struct Word {
    text: String,
    /// True once the word has begun, even if it is empty: `''`.
    begun: bool,
    /// True if a part of the word is quoted.
    quoted: bool,
}

impl Reader<'_> {
    fn unclear(&mut self, why: &'static str) {
        self.line.unclear.get_or_insert(why);
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn skip(&mut self, text: &str) -> bool {
        let skipped = self.rest.strip_prefix(text);
        self.rest = skipped.unwrap_or(self.rest);
        skipped.is_some()
    }

    fn read(&mut self) {
        while let Some(c) = self.next() {
            match c {
                ' ' | '\t' => self.end_word(),
                '\n' | ';' => self.end_command(),
                '|' => {
                    if !self.skip("|") && self.skip("&") {
                        self.unclear("uses signs that are not understood");
                    }
                    self.joined();
                }
                '&' if self.skip("&") => self.joined(),
                '&' => self.unclear_command("runs something in the background"),
                '<' | '>' => self.redirection(c),
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '\\' => self.escaped(),
                '$' | '`' => self.unclear_command("uses a variable or a substitution"),
                '(' | ')' | '{' | '}' => {
                    self.unclear_command("has parts that are more than simple commands");
                }
                '*' | '?' | '[' | ']' | '~' | '!' => {
                    self.unclear("uses a pattern or a sign that the shell replaces");
                    self.push(c);
                }
                '#' if !self.word.begun => self.unclear_command("has a comment"),
                '=' => {
                    self.assignment();
                    self.push(c);
                }
                c if c.is_control() || (c.is_whitespace() && !c.is_ascii()) => {
                    self.unclear("has characters that cannot be seen");
                    self.push(c);
                }
                c => self.push(c),
            }
        }
        self.end_command();
    }

    /// A sign that ends the command in a way that is not understood.
    fn unclear_command(&mut self, why: &'static str) {
        self.unclear(why);
        self.end_command();
    }

    fn push(&mut self, c: char) {
        self.word.begun = true;
        self.word.text.push(c);
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.begun {
            self.command.push(word.text);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let command = std::mem::take(&mut self.command);
        if !command.is_empty() {
            self.line.commands.push(command);
        }
    }

    /// Ends a command at `&&`, `||` or `|`, which need a command before and one behind.
    fn joined(&mut self) {
        if self.command.is_empty() && !self.word.begun {
            self.unclear("has signs where a command should be");
        }
        self.end_command();
        if self.rest.trim_start_matches([' ', '\t', '\n']).is_empty() {
            self.unclear("ends in the middle");
        }
    }

    /// A name and `=` before the program sets a variable for it, which can change all that it does.
    fn assignment(&mut self) {
        let name = self.word.text.strip_suffix('+').unwrap_or(&self.word.text);
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if self.command.is_empty() && (is_name || name.is_empty()) {
            self.unclear("sets a variable");
        } else if !self.word.begun {
            self.unclear("uses a pattern or a sign that the shell replaces");
        }
    }

    /// Reads a redirection. Two kinds are understood: one stream into another, and to or from `/dev/null`.
    fn redirection(&mut self, sign: char) {
        // Shells differ in whether more than one digit is the number of a stream or a word.
        let is_digits = !self.word.quoted && self.word.text.bytes().all(|b| b.is_ascii_digit());
        match self.word.text.len() {
            1 if is_digits => self.word = Word::default(),
            2.. if is_digits => self.unclear("uses signs that are not understood"),
            _ => {}
        }
        self.end_word();
        if sign == '>'
            && let Some(target) = self.rest.strip_prefix('&')
            && let Some(rest) = target.strip_prefix(|c: char| c.is_ascii_digit())
            && ends_word(rest)
        {
            self.rest = rest;
            return;
        }
        let target = self.rest.trim_start_matches([' ', '\t']);
        match target.strip_prefix("/dev/null").filter(|rest| ends_word(rest)) {
            Some(rest) => self.rest = rest,
            None => self.unclear("writes to a file or reads from one"),
        }
    }

    fn single_quoted(&mut self) {
        self.word.begun = true;
        self.word.quoted = true;
        let Some(end) = self.rest.find('\'') else {
            self.unclear("has a quote without an end");
            return;
        };
        self.word.text.push_str(&self.rest[..end]);
        self.rest = &self.rest[end + 1..];
    }

    fn double_quoted(&mut self) {
        self.word.begun = true;
        self.word.quoted = true;
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '$' | '`' => {
                    self.unclear("uses a variable or a substitution");
                    self.word.text.push(c);
                }
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => self.word.text.push(c),
                    Some(c) => self.word.text.extend(['\\', c]),
                    None => break,
                },
                c => self.word.text.push(c),
            }
        }
        self.unclear("has a quote without an end");
    }

    fn escaped(&mut self) {
        match self.next() {
            // The line goes on in the next one.
            Some('\n') => {}
            Some(c) => {
                self.word.quoted = true;
                self.push(c);
            }
            None => self.unclear("ends in the middle"),
        }
    }
}

/// Returns true if a word ends at the start of `rest`.
fn ends_word(rest: &str) -> bool {
    rest.chars().next().is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | ';' | '|' | '&'))
}

const BYTES_MAX: usize = 16 << 10;
const SHOWN_CHARS: usize = 100;
/// Words that begin something larger than a simple command.
const KEYWORDS: [&str; 21] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "function", "select", "time", "coproc", "[[", "]]", "{", "!",
];
/// Builtins after which words mean something else, or that run what they are given.
const CHANGERS: [&str; 27] = [
    "alias",
    "unalias",
    "eval",
    "source",
    ".",
    "exec",
    "set",
    "shopt",
    "trap",
    "export",
    "unset",
    "declare",
    "typeset",
    "local",
    "readonly",
    "enable",
    "hash",
    "builtin",
    "command",
    "read",
    "mapfile",
    "readarray",
    "printf",
    "getopts",
    "bind",
    "complete",
    "ulimit",
];

#[cfg(test)]
mod tests;
