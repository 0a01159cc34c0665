//! Markdown on a terminal, while it comes: a machine that takes one character after the other, so that it gives the
//! same whatever the pieces are in which a model speaks.
//!
//! The renderer styles what stands on a line and changes nothing of the text but the marks that it styles: `**bold**`
//! is bold without its stars. What may be a mark is held back until it is one; if it is none by the end of the line, or
//! by [`HELD_CHARS_MAX`] characters, it is shown as it was written. Lines are broken by the terminal. Rows of tables
//! and lines of code are left alone.
//!
//! The text has come through `term`: no character of it drives the terminal.

use std::fmt::Write;

use anstyle::{AnsiColor, Effects, Style};

use crate::term::FAINT;

/// The renderer: a state machine over characters.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    state: LineState,
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

/// The part of a line that the next character belongs to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// The beginning, which tells what kind of line it is.
    #[default]
    Start,
    /// Text with marks.
    Text,
    /// A row of a table, which is shown as it is.
    Row,
    /// The line that opens a block of code.
    Opening,
    /// The beginning of a line of code.
    CodeStart(Fence),
    /// The rest of a line of code.
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

    /// Ends the text: returns what was held back, and leaves no style on.
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
            (self.state, self.base, self.before) =
                (fence.map_or(LineState::Start, LineState::CodeStart), Style::new(), None);
            return;
        }
        self.held.push(c);
        match self.state {
            LineState::Start => self.start(c),
            LineState::Text => self.text(More::MayCome),
            LineState::Row => self.show_held(Style::new()),
            LineState::Opening => {
                if self.held.chars().count() > HELD_CHARS_MAX {
                    self.state = LineState::Text;
                    self.text(More::MayCome);
                }
            }
            LineState::CodeStart(fence) => {
                let rest = self.held.trim_start_matches(' ');
                let marks = rest.trim_start_matches(fence.mark);
                let may_close = marks.trim().is_empty() && self.held.len() <= HELD_CHARS_MAX;
                if !may_close {
                    self.state = LineState::Code(fence);
                    self.show_held(CODE);
                }
            }
            LineState::Code(_) => self.show_held(CODE),
        }
    }

    /// Handles a character at the beginning of a line. `held` has all of the line but the indentation, which was shown.
    fn start(&mut self, c: char) {
        let first = self.held.chars().next().unwrap_or(c);
        match (first, c) {
            (' ' | '\t', _) => self.show_held(Style::new()),
            ('|', _) => {
                self.state = LineState::Row;
                self.show_held(Style::new());
            }
            ('>', '>') if self.held.len() == 1 => {
                self.held.clear();
                self.write("│ ", FAINT);
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
                self.state = LineState::Text;
            }
            ('-' | '+' | '*', ' ') if self.held.len() == 2 => {
                self.held.clear();
                self.write("• ", BULLET);
                self.state = LineState::Text;
            }
            ('-' | '+', _) | ('*', '*') if self.held.len() == 1 => {}
            ('`' | '~', _) if c == first => {}
            ('`' | '~', _)
                if self.held.chars().take_while(|mark| *mark == first).count() >= FENCE_MARKS_MIN =>
            {
                self.state = LineState::Opening;
            }
            _ => {
                self.state = LineState::Text;
                self.text(More::MayCome);
            }
        }
    }

    /// Shows what is known of the text that is held back.
    fn text(&mut self, more: More) {
        let held = std::mem::take(&mut self.held);
        let shown = self.spans(&held, self.before, more, self.base);
        self.before = held[..shown].chars().next_back().or(self.before);
        held[shown..].clone_into(&mut self.held);
    }

    /// Shows a text from its beginning on, as far as can be said what it is. Returns the length of that beginning in
    /// bytes; the rest may become a mark.
    fn spans(&mut self, text: &str, mut before: Option<char>, more: More, style: Style) -> usize {
        let (mut at, mut plain_from) = (0, 0);
        while at < text.len() {
            let rest = &text[at..];
            // A reader does not wait for ever for the end of a mark.
            let more = if rest.chars().nth(HELD_CHARS_MAX).is_some() { More::Never } else { more };
            let bytes = match mark(rest, before, more) {
                Mark::Open => break,
                Mark::None(bytes) => bytes,
                Mark::Closed { kind, effects, inside, address, behind } => {
                    self.write(&text[plain_from..at], style);
                    let (inside, effects) = (&rest[inside.0..inside.1], style.get_effects() | effects);
                    match kind {
                        // Emphasised text may hold other marks.
                        SpanKind::Text => {
                            self.spans(inside, None, More::Never, style.effects(effects));
                        }
                        SpanKind::Code => self.write(inside, CODE.effects(effects)),
                        SpanKind::Link => self.write(inside, style.effects(effects)),
                    }
                    if let Some((from, to)) = address {
                        self.write(&format!(" ({})", &rest[from..to]), FAINT);
                    }
                    plain_from = at + behind;
                    behind
                }
            };
            before = rest[..bytes].chars().next_back();
            at += bytes;
        }
        self.write(&text[plain_from..at], style);
        at
    }

    /// Shows what is still held back. Returns the fence of the block of code that the next line is in.
    fn end_line(&mut self) -> Option<Fence> {
        match self.state {
            LineState::CodeStart(fence) if closes(&self.held, fence) => {
                self.show_held(FAINT);
                None
            }
            LineState::CodeStart(fence) | LineState::Code(fence) => {
                self.show_held(CODE);
                Some(fence)
            }
            LineState::Start | LineState::Opening => {
                let mark = self.held.chars().next().unwrap_or(' ');
                let count = self.held.chars().take_while(|c| *c == mark).count();
                let opens = matches!(mark, '`' | '~') && count >= FENCE_MARKS_MIN;
                if opens && !self.held[count..].contains('`') {
                    self.show_held(FAINT);
                    return Some(Fence { mark, count });
                }
                if mark == '>' {
                    // The bar of the quote was shown.
                    self.held.remove(0);
                }
                self.text(More::Never);
                None
            }
            LineState::Text | LineState::Row => {
                self.text(More::Never);
                None
            }
        }
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

// Marks within a line: bold, italic, struck out, code, links.

/// The kind of text inside a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Text,
    Code,
    Link,
}

/// Tells whether more of the line may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    MayCome,
    Never,
}

/// The result of looking for a mark at the front of a text.
enum Mark {
    /// A mark, the text inside it, and the offset of the text behind it.
    Closed {
        kind: SpanKind,
        effects: Effects,
        inside: (usize, usize),
        address: Option<(usize, usize)>,
        behind: usize,
    },
    /// No mark: so many bytes are shown as they are.
    None(usize),
    /// Not known yet.
    Open,
}

fn mark(text: &str, before: Option<char>, more: More) -> Mark {
    let Some(first) = text.chars().next() else { return Mark::Open };
    match first {
        '`' => code(text, more),
        '*' | '_' | '~' => emphasis(text, first, before, more),
        '[' => link(text, more),
        '\\' => match text[1..].chars().next() {
            None if more == More::MayCome => Mark::Open,
            None => Mark::None(1),
            Some(next) => Mark::None(1 + next.len_utf8()),
        },
        _ => Mark::None(first.len_utf8()),
    }
}

/// Counts the characters `of` at the front. Returns `None` if more of them may come.
fn run(text: &str, of: char, more: More) -> Option<usize> {
    let count = text.chars().take_while(|c| *c == of).count();
    (count < text.len() || more == More::Never).then_some(count)
}

fn open_or(more: More, bytes: usize) -> Mark {
    if more == More::MayCome { Mark::Open } else { Mark::None(bytes) }
}

fn code(text: &str, more: More) -> Mark {
    let Some(count) = run(text, '`', more) else { return Mark::Open };
    let mut at = count;
    while let Some(found) = text[at..].find('`') {
        at += found;
        let Some(closing) = run(&text[at..], '`', more) else { return Mark::Open };
        if closing == count {
            return closed(SpanKind::Code, Effects::new(), count, at);
        }
        at += closing;
    }
    open_or(more, count)
}

fn emphasis(text: &str, of: char, before: Option<char>, more: More) -> Mark {
    let Some(count) = run(text, of, more) else { return Mark::Open };
    let Some(effects) = effects_of(of, count) else { return Mark::None(count) };
    let in_word = before.is_some_and(char::is_alphanumeric) && (of == '_' || count == 1);
    let next = text[count..].chars().next();
    if in_word || next.is_none_or(char::is_whitespace) {
        return Mark::None(count);
    }
    let mut at = count;
    while let Some(c) = text[at..].chars().next() {
        if c == '`' {
            match code(&text[at..], more) {
                Mark::Closed { behind, .. } => at += behind,
                Mark::None(bytes) => at += bytes,
                Mark::Open => return Mark::Open,
            }
            continue;
        }
        if c == '\\' {
            at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
            continue;
        }
        if c != of {
            at += c.len_utf8();
            continue;
        }
        let Some(closing) = run(&text[at..], of, more) else { return Mark::Open };
        let after = text[at + closing..].chars().next();
        let is_behind_word = text[..at].chars().next_back().is_some_and(|c| !c.is_whitespace());
        let ends_word = after.is_none_or(|c| !c.is_alphanumeric()) || (of != '_' && count > 1);
        if closing == count && is_behind_word && ends_word {
            return closed(SpanKind::Text, effects, count, at);
        }
        at += closing;
    }
    open_or(more, count)
}

/// Returns a mark of `count` characters before and behind the text that ends at `end`.
fn closed(kind: SpanKind, effects: Effects, count: usize, end: usize) -> Mark {
    Mark::Closed { kind, effects, inside: (count, end), address: None, behind: end + count }
}

fn effects_of(of: char, count: usize) -> Option<Effects> {
    match (of, count) {
        ('~', 2) => Some(Effects::STRIKETHROUGH),
        ('~', _) => None,
        (_, 1) => Some(Effects::ITALIC),
        (_, 2) => Some(Effects::BOLD),
        (_, 3) => Some(Effects::BOLD | Effects::ITALIC),
        _ => None,
    }
}

/// `[text](address)`: the text, and behind it the address, which would else be lost.
fn link(text: &str, more: More) -> Mark {
    let Some(end) = text.find(']') else { return open_or(more, 1) };
    let Some(next) = text[end + 1..].chars().next() else { return open_or(more, 1) };
    if next != '(' || end == 1 || text[1..end].contains('[') {
        return Mark::None(1);
    }
    let from = end + 2;
    // One that would be shown half is none; a blank stands in no address.
    let Some(length) = text[from..].find([')', ' ']) else { return open_or(more, 1) };
    let to = from + length;
    if text.as_bytes()[to] == b' ' || length == 0 {
        return Mark::None(1);
    }
    let address = (text[1..end] != text[from..to]).then_some((from, to));
    let (kind, effects) = (SpanKind::Link, Effects::UNDERLINE);
    Mark::Closed { kind, effects, inside: (1, end), address, behind: to + 1 }
}

const CODE: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const BULLET: Style = Style::new().bold();
const HEADING_MARKS_MAX: usize = 6;
const FENCE_MARKS_MIN: usize = 3;
/// Text that has not become a mark after this many characters is shown as it is, so that nobody waits for ever.
const HELD_CHARS_MAX: usize = 240;

#[cfg(test)]
mod tests;
