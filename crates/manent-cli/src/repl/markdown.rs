//! Markdown on a terminal, while it comes: a machine that takes one character after the other, so that it gives the
//! same whatever the pieces are in which a model speaks.
//!
//! It styles what stands on a line and changes nothing of the text but the marks that it styles: `**bold**` is bold
//! without its stars. What may be a mark is held back until it is one; if it is none by the end of the line, or by
//! [`HELD_CHARS_MAX`] characters, it is shown as it was written. Lines are broken by the terminal. Rows of tables and
//! lines of code are left alone.
//!
//! What goes in has come through `term`: no character of it drives the terminal.

mod inline;

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

/// The machine.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    at: At,
    /// Characters that may be a mark, held back until that is known.
    held: String,
    /// The last character that was shown on this line.
    before: Option<char>,
    /// The style of the whole line: headings are bold.
    base: Style,
    /// The style that the terminal was last set to.
    now: Style,
    out: String,
}

/// The position of the next character on its line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum At {
    /// At its beginning, where one sees what kind of line it is.
    #[default]
    Start,
    /// In its text.
    Text,
    /// In a line that is shown as it is.
    Row,
    /// In the line that opens a block of code.
    Opening,
    /// At the beginning of a line of code.
    CodeStart(Fence),
    /// In a line of code.
    Code(Fence),
}

/// The marks that close a block of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    count: usize,
}

impl Markdown {
    /// Takes more of the text, and returns what can be shown of it.
    pub(super) fn push(&mut self, text: &str) -> String {
        for c in text.chars() {
            self.take(c);
        }
        std::mem::take(&mut self.out)
    }

    /// The text is at its end, or something else is to be shown: what was held back, and no style is left on.
    pub(super) fn finish(&mut self) -> String {
        self.end_line();
        self.style(Style::new());
        *self = Markdown { out: std::mem::take(&mut self.out), ..Markdown::default() };
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, c: char) {
        if c == '\n' {
            let fence = self.end_line();
            self.style(Style::new());
            self.out.push('\n');
            (self.at, self.base, self.before) = (fence.map_or(At::Start, At::CodeStart), Style::new(), None);
            return;
        }
        self.held.push(c);
        match self.at {
            At::Start => self.start(c),
            At::Text => self.text(),
            At::Row => self.show_held(Style::new()),
            At::Opening => {
                if self.held.chars().count() > HELD_CHARS_MAX {
                    self.at = At::Text;
                    self.text();
                }
            }
            At::CodeStart(fence) => {
                let rest = self.held.trim_start_matches(' ');
                let marks = rest.trim_start_matches(fence.mark);
                let may_close = marks.trim().is_empty() && self.held.len() <= HELD_CHARS_MAX;
                if !may_close {
                    self.at = At::Code(fence);
                    self.show_held(CODE);
                }
            }
            At::Code(_) => self.show_held(CODE),
        }
    }

    /// At the beginning of a line: `held` has all of it but what was shown of its indentation.
    fn start(&mut self, c: char) {
        let first = self.held.chars().next().unwrap_or(c);
        match (first, c) {
            (' ' | '\t', _) => self.show_held(Style::new()),
            ('|', _) => {
                self.at = At::Row;
                self.show_held(Style::new());
            }
            ('>', '>') if self.held.len() == 1 => {
                self.held.clear();
                self.write("│ ", crate::term::FAINT);
                // A quote may hold what any line holds; the blank behind its mark is part of the mark.
                self.held.push('>');
            }
            ('>', ' ') => self.held.clear(),
            ('>', _) => {
                self.held.remove(0);
                self.start(c);
            }
            ('#', '#') if self.held.len() <= HEADING_MARKS_MAX => {}
            ('#', ' ') if self.held.len() > 1 => {
                let is_first = self.held.len() == 2;
                self.base = if is_first { Style::new().bold().underline() } else { Style::new().bold() };
                self.held.clear();
                self.at = At::Text;
            }
            ('-' | '+' | '*', ' ') if self.held.len() == 2 => {
                self.held.clear();
                self.write("• ", BULLET);
                self.at = At::Text;
            }
            ('-' | '+', _) | ('*', '*') if self.held.len() == 1 => {}
            ('`' | '~', _) if c == first => {}
            ('`' | '~', _)
                if self.held.chars().take_while(|mark| *mark == first).count() >= FENCE_MARKS_MIN =>
            {
                self.at = At::Opening;
            }
            _ => {
                self.at = At::Text;
                self.text();
            }
        }
    }

    /// Shows what is known of the text that is held back.
    fn text(&mut self) {
        let known = inline::known(&self.held, self.before, inline::More::MayCome);
        self.spans(known);
    }

    fn spans(&mut self, known: inline::Known) {
        self.before = self.held[..known.bytes].chars().next_back().or(self.before);
        for span in known.spans {
            let style = span.over(self.base);
            self.write(&span.text, style);
        }
        self.held.drain(..known.bytes);
    }

    /// Shows what is still held back. Gives the fence of the block of code in which the next line stands.
    fn end_line(&mut self) -> Option<Fence> {
        match self.at {
            At::CodeStart(fence) if closes(&self.held, fence) => {
                self.show_held(crate::term::FAINT);
                None
            }
            At::CodeStart(fence) | At::Code(fence) => {
                self.show_held(CODE);
                Some(fence)
            }
            At::Start | At::Opening => {
                let mark = self.held.chars().next().unwrap_or(' ');
                let count = self.held.chars().take_while(|c| *c == mark).count();
                let opens = matches!(mark, '`' | '~') && count >= FENCE_MARKS_MIN;
                if opens && !self.held[count..].contains('`') {
                    self.show_held(crate::term::FAINT);
                    return Some(Fence { mark, count });
                }
                if mark == '>' {
                    // Its bar was shown.
                    self.held.remove(0);
                }
                self.end_text();
                None
            }
            At::Text | At::Row => {
                self.end_text();
                None
            }
        }
    }

    fn end_text(&mut self) {
        let known = inline::known(&self.held, self.before, inline::More::Never);
        self.spans(known);
    }

    fn show_held(&mut self, style: Style) {
        let held = std::mem::take(&mut self.held);
        self.write(&held, style);
    }

    fn write(&mut self, text: &str, style: Style) {
        if !text.is_empty() {
            self.style(style);
            self.out.push_str(text);
        }
    }

    fn style(&mut self, style: Style) {
        if style == self.now {
            return;
        }
        if self.now != Style::new() {
            let _ = write!(self.out, "{:#}", self.now);
        }
        let _ = write!(self.out, "{style}");
        self.now = style;
    }
}

fn closes(line: &str, fence: Fence) -> bool {
    let line = line.trim();
    line.chars().count() >= fence.count && line.chars().all(|c| c == fence.mark)
}

const CODE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const BULLET: Style = Style::new().bold();
const HEADING_MARKS_MAX: usize = 6;
const FENCE_MARKS_MIN: usize = 3;
/// Text that has not become a mark after this many characters is shown as it is, so that nobody waits for ever.
const HELD_CHARS_MAX: usize = 240;

#[cfg(test)]
mod tests;
