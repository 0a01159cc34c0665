//! Bytes as text, and no more of it than a model can take.

use std::fmt::Write as _;

/// Lines that a model gets, up to a number of them and of bytes.
#[derive(Default)]
pub(super) struct TextPage {
    pub(super) text: String,
    lines: usize,
    full: bool,
}

impl TextPage {
    /// Adds a line if there is room. False: there is none, and will be none.
    pub(super) fn push(&mut self, line: &str) -> bool {
        self.full |= self.lines >= LINES_MAX || self.text.len() + line.len() + 1 > BYTES_MAX;
        if !self.full {
            self.text.push_str(line);
            self.text.push('\n');
            self.lines += 1;
        }
        !self.full
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Adds a remark in brackets, for which there is always room.
    pub(super) fn note(&mut self, note: &str) {
        let _ = writeln!(self.text, "[{note}]");
    }
}

/// A text from its beginning, with a note of what was cut.
pub(crate) fn beginning(text: &str) -> String {
    let mut page = TextPage::default();
    let mut cut = 0;
    for line in text.lines() {
        if cut > 0 || !page.push(&cut_line(line, LINE_CHARS_MAX)) {
            cut += 1;
        }
    }
    if cut > 0 {
        page.note(&format!("{cut} more lines"));
    }
    page.text
}

/// The end of a text, where results and errors are, with a note of what was cut.
pub(super) fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut bytes = 0;
    let fits = |line: &&&str| {
        bytes += line.len().min(LINE_CHARS_MAX * CHAR_BYTES_MAX) + 1;
        bytes <= BYTES_MAX
    };
    let kept = lines.iter().rev().take(LINES_MAX).take_while(fits).count();
    let mut out = String::new();
    if kept < lines.len() {
        let _ = writeln!(out, "[{} lines before these left out]", lines.len() - kept);
    }
    for line in &lines[lines.len() - kept..] {
        out.push_str(&cut_line(line, LINE_CHARS_MAX));
        out.push('\n');
    }
    out
}

/// A line of at most so many characters; what is cut is counted.
pub(super) fn cut_line(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}… [{} bytes more]", &line[..end], line.len() - end),
        None => line.to_owned(),
    }
}

/// Returns the beginning of a text for an error message, in one line.
pub(super) fn excerpt(text: &str) -> String {
    one_line_excerpt(text, SHOWN_CHARS)
}

/// Returns the description of a call, in one line for a person: names of files may contain line breaks.
pub(super) fn what(verb: &str, subject: &str) -> String {
    format!("{verb} {}", one_line_excerpt(subject, WHAT_CHARS))
}

/// Replaces each run of blanks and line breaks by one blank.
pub(crate) fn collapse_whitespace(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a text as one line of at most `chars_max` characters, with `…` where it was cut. Control characters are
/// replaced, and not escaped as for a terminal: the line goes to models and into records.
pub(crate) fn one_line_excerpt(text: &str, chars_max: usize) -> String {
    // More than can be shown need not be looked at.
    let head: String = text.chars().take(chars_max * 4 + 1).collect();
    let line = collapse_whitespace(&head);
    let line: String = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if head.len() < text.len() => format!("{line}…"),
        None => line,
    }
}

/// Returns the kind of a file that is not UTF-8 text, judged by its first bytes.
pub(super) fn binary(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Some("UTF-16 text");
    }
    let head = &head[..head.len().min(HEAD_BYTES)];
    memchr::memchr(0, head).map(|_| "a binary file")
}

/// The number of bytes by which text and binary files are told apart.
pub(super) const HEAD_BYTES: usize = 8 << 10;
pub(super) const LINES_MAX: usize = 2000;
pub(super) const BYTES_MAX: usize = 50 << 10;
pub(super) const LINE_CHARS_MAX: usize = 2000;
pub(super) const CHAR_BYTES_MAX: usize = 4;
pub(super) const WHAT_CHARS: usize = 200;
const SHOWN_CHARS: usize = 120;
