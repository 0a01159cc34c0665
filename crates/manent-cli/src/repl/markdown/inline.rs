//! Marks within a line: bold, italic, struck out, code, links.

use anstyle::{Effects, Style};

use super::{CODE, HELD_CHARS_MAX};
use crate::term;

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    kind: SpanKind,
    /// Bold, italic, struck out or underlined.
    effects: Effects,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Text,
    Code,
    Link,
    /// The address of a link.
    Address,
}

impl Span {
    /// Returns the style of this part on a line of style `base`.
    pub(super) fn over(&self, base: Style) -> Style {
        let style = match self.kind {
            SpanKind::Address => return term::FAINT,
            SpanKind::Code => CODE.effects(base.get_effects()),
            SpanKind::Text | SpanKind::Link => base,
        };
        style.effects(style.get_effects() | self.effects)
    }
}

/// The beginning of a text, as far as its marks are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) spans: Vec<Span>,
    /// The length of that beginning in bytes; the rest may become a mark.
    pub(super) bytes: usize,
}

/// Tells whether more of the line may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
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
    /// That cannot be said yet.
    Open,
}

/// Reads a text from its beginning on, as far as can be said what it is.
pub(super) fn known(text: &str, before: Option<char>, more: More) -> Known {
    let mut known = Known::default();
    let (mut before, mut plain_from) = (before, 0);
    while known.bytes < text.len() {
        let rest = &text[known.bytes..];
        // Whoever reads along does not wait for ever.
        let more = if rest.chars().nth(HELD_CHARS_MAX).is_some() { More::Never } else { more };
        match mark(rest, before, more) {
            Mark::Open => break,
            Mark::None(bytes) => {
                before = rest[..bytes].chars().next_back();
                known.bytes += bytes;
            }
            Mark::Closed { kind, effects, inside, address, behind } => {
                known.push(&text[plain_from..known.bytes], SpanKind::Text, Effects::new());
                known.within(&rest[inside.0..inside.1], kind, effects);
                if let Some((from, to)) = address {
                    known.push(&format!(" ({})", &rest[from..to]), SpanKind::Address, Effects::new());
                }
                before = rest[..behind].chars().next_back();
                known.bytes += behind;
                plain_from = known.bytes;
            }
        }
    }
    known.push(&text[plain_from..known.bytes], SpanKind::Text, Effects::new());
    known
}

impl Known {
    fn push(&mut self, text: &str, kind: SpanKind, effects: Effects) {
        if !text.is_empty() {
            self.spans.push(Span { text: text.to_owned(), kind, effects });
        }
    }

    /// Adds text that stands within marks, and that may hold other marks unless it is code or a link.
    fn within(&mut self, text: &str, kind: SpanKind, effects: Effects) {
        if kind != SpanKind::Text {
            return self.push(text, kind, effects);
        }
        for span in known(text, None, More::Never).spans {
            self.push(&span.text, span.kind, effects | span.effects);
        }
    }
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
