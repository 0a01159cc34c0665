//! Text from a record on its way to a terminal.
//!
//! A transcript is hostile input: it can hold escape sequences that retitle the window, write the clipboard, hide
//! text or reverse it. Whatever comes out of here holds no character that a terminal would obey or that would make
//! the reader see something else than what is there. What is taken out is shown as `\u{1b}`.

use std::borrow::Cow;
use std::ops::Range;

use anstyle::{AnsiColor, Style};
pub(crate) use manent_runs::retrospective::thousands as count;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Makes text of several lines safe: newlines and tabs stay.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    replaced(text, |c| obeyed(c) && !matches!(c, '\n' | '\t'), |c| c.escape_unicode().to_string())
}

/// Makes text safe that must stay on its line: a key, a title, a role, a path.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    replaced(text, obeyed, |c| c.escape_unicode().to_string())
}

/// Makes a line of JSON safe: the same value, with everything a terminal might obey written as JSON escapes.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    replaced(text, obeyed, |c| match c {
        // Valid JSON has these only between its tokens.
        '\t' | '\n' | '\r' => " ".to_owned(),
        c => c
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect::<Vec<_>>()
            .concat(),
    })
}

/// Replaces the characters of a text that are not wanted there.
fn replaced(text: &str, unwanted: impl Fn(char) -> bool, by: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.chars().any(&unwanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if unwanted(c) { out.push_str(&by(c)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Returns true if a terminal, or the reader's eye, might take the character for a command.
fn obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Marks, embeddings, overrides and isolates of writing direction.
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
            // Line and paragraph separators, which some terminals break at.
            | '\u{2028}' | '\u{2029}'
            // Invisible: zero-width space and no-break space, word joiner and its kin, interlinear marks.
            | '\u{200B}' | '\u{FEFF}' | '\u{2060}'..='\u{2064}' | '\u{206A}'..='\u{206F}' | '\u{FFF9}'..='\u{FFFB}'
            // Tags: a second, invisible ASCII.
            | '\u{E0000}'..='\u{E007F}')
}

/// Cuts a line to a width in columns, with an ellipsis where something is missing.
pub(crate) fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let start: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < columns
        })
        .collect();
    Cow::Owned(format!("{start}…"))
}

/// Returns a line with blanks behind it, up to a width in columns.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Returns the style of a role, which is the same everywhere.
pub(crate) fn role_style(role: &str) -> Style {
    let color = match role {
        "user" => AnsiColor::Green,
        "assistant" => AnsiColor::Cyan,
        "tool" => AnsiColor::Yellow,
        "system" => AnsiColor::Magenta,
        _ => AnsiColor::Blue,
    };
    bold(color)
}

/// Returns the style of a line of a diff.
pub(crate) fn diff_style(line: &str) -> Style {
    let color = match line.bytes().next() {
        Some(b'+') => Some(AnsiColor::Green),
        Some(b'-') => Some(AnsiColor::Red),
        _ => None,
    };
    Style::new().fg_color(color.map(Into::into))
}

/// Returns a bold style in a colour, for words that say how something is.
pub(crate) const fn bold(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(color))).bold()
}

/// The style of words that a search was for.
pub(crate) const MARK: Style = bold(AnsiColor::Red);
/// The style of text that is less important than the rest.
pub(crate) const FAINT: Style = Style::new().dimmed();

/// Returns a number of bytes as a person reads it: `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let value = bytes as f64;
    match bytes {
        ..=1023 => format!("{bytes} B"),
        1024..=1_048_575 => format!("{:.1} KiB", value / 1024.0),
        1_048_576..=1_073_741_823 => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format!("{:.1} GiB", value / 1_073_741_824.0),
    }
}

/// Returns a number of things: `1 turn`, `12,345 turns`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Returns numbers with a separator between them.
pub(crate) fn numbers(numbers: &[u64], separator: &str) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(separator)
}

/// Returns the first `chars` characters of a text as one line, with one blank between its words, and escaped for a
/// terminal. A cut is not marked: [`fit`] does that, for a width in columns.
pub(crate) fn escaped_beginning(text: &str, chars: usize) -> String {
    let start: String = text.chars().take(chars).collect();
    line(&start.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

/// Returns a word quoted for a shell. Characters that a terminal would obey are escaped.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    if text.chars().all(plain) && !text.is_empty() {
        return line(text).into_owned();
    }
    format!("'{}'", line(text).replace('\'', r"'\''"))
}

/// Splits text into marked and unmarked pieces, cut to a width so that the first mark can be seen. The pieces are safe
/// for a terminal.
pub(crate) fn marked(text: &str, marks: &[Range<usize>], columns: usize) -> Vec<(bool, String)> {
    let mut cells: Vec<(bool, Cow<'_, str>)> = Vec::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_marked = marks.iter().any(|mark| mark.contains(&at));
        let shown =
            if matches!(c, '\n' | '\t' | '\r') { " ".into() } else { line(&text[at..at + c.len_utf8()]) };
        cells.push((is_marked, shown));
    }
    let shown = window(&cells, columns);
    let mut pieces: Vec<(bool, String)> = Vec::new();
    let mut push = |is_marked: bool, text: &str| match pieces.last_mut() {
        Some((same, piece)) if *same == is_marked => piece.push_str(text),
        _ => pieces.push((is_marked, text.to_owned())),
    };
    if shown.start > 0 {
        push(false, "…");
    }
    for (is_marked, text) in &cells[shown.clone()] {
        push(*is_marked, text);
    }
    if shown.end < cells.len() {
        push(false, "…");
    }
    pieces
}

/// Returns the range of cells that fit into `columns`, with the first marked cell among them.
fn window(cells: &[(bool, Cow<'_, str>)], columns: usize) -> Range<usize> {
    let width = |cell: &(bool, Cow<'_, str>)| cell.1.width();
    let all: usize = cells.iter().map(width).sum();
    if all <= columns {
        return 0..cells.len();
    }
    let first = cells.iter().position(|cell| cell.0).unwrap_or(0);
    // A third of the columns shows what stands before the mark, and more if the text behind it is short.
    let behind: usize = cells[first..].iter().map(width).sum();
    let mut lead = (columns / 3).max(columns.saturating_sub(behind + 1));
    let mut start = first;
    while start > 0 && width(&cells[start - 1]) < lead {
        start -= 1;
        lead -= width(&cells[start]);
    }
    let mut room = columns.saturating_sub(usize::from(start > 0));
    let rest: usize = cells[start..].iter().map(width).sum();
    if rest > room {
        room = room.saturating_sub(1);
    }
    let fits = |cell: &&(bool, Cow<'_, str>)| {
        let fits = width(cell) <= room;
        room = room.saturating_sub(width(cell));
        fits
    };
    let count = cells[start..].iter().take_while(fits).count();
    start..start + count
}

/// Returns a duration in few characters: `2.5 min`.
pub(crate) fn lasting(ms: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", ms / unit, ms % unit * 10 / unit);
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{} s", tenths(1000)),
        60_000..3_600_000 => format!("{} min", tenths(60_000)),
        _ => format!("{} h", tenths(3_600_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_comes_through() {
        let hostile = [
            "\x1b]0;title\x07",
            "\x1b]52;c;AAAA\x07",
            "\x1b]8;;http://x\x1b\\",
            "\x1b[2J",
            "\x1bP+q\x1b\\",
            "\x1b_x\x1b\\",
            "\u{9b}31m",
            "\u{9d}0;x\u{9c}",
            "over\rprint",
            "bell\x07",
            "\u{202e}evil",
            "\u{2066}x",
            "\u{e0041}tag",
            "\u{200b}",
            "del\u{7f}",
            "nul\0",
            "back\x08",
        ];
        for text in hostile {
            for shown in [block(text), line(text), json(text)] {
                assert!(!shown.chars().any(obeyed), "{text:?} became {shown:?}");
            }
        }
        assert_eq!(line("a\x1bb"), "a\\u{1b}b");
        assert_eq!(block("two\n\tlines"), "two\n\tlines");
        assert_eq!(line("two\nlines"), "two\\u{a}lines");
    }

    #[test]
    fn json_for_a_terminal_is_the_same_value() {
        let text = serde_json::to_string("\u{9b}31m \u{202e} \u{e0041} é").expect("a string");
        let shown = json(&text);
        assert_ne!(shown, text);
        let (a, b): (String, String) =
            (serde_json::from_str(&text).expect("valid"), serde_json::from_str(&shown).expect("valid"));
        assert_eq!(a, b);
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in ["plain", "café", "日本語", "👩\u{200d}👧", "a\u{301}"] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn lines_are_cut_to_columns_not_bytes() {
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn marks_are_seen_whatever_is_cut_away() {
        let show = |text: &str, mark: Range<usize>, columns: usize| -> String {
            let pieces = marked(text, &[mark], columns);
            let text = pieces
                .iter()
                .map(|(is_marked, text)| if *is_marked { format!("[{text}]") } else { text.clone() });
            text.collect()
        };
        assert_eq!(show("buy milk today", 4..8, 80), "buy [milk] today");
        let long = format!("{} milk {}", "before ".repeat(20).trim(), "after ".repeat(20).trim());
        let at = long.find("milk").expect("it is there");
        let shown = show(&long, at..at + 4, 30);
        assert_eq!(shown, "…e before [milk] after after af…");
        assert_eq!(shown.width(), 30 + 2, "as wide as there is room, and the brackets");
        let end = long.len() - 5;
        assert_eq!(show(&long, end..end + 5, 20), "… after after [after]");
        assert_eq!(show(&long, 0..6, 20), "[before] before befor…");
        assert_eq!(show("日本語 日本語 milk", 20..24, 9), "…語 [milk]");
    }

    #[test]
    fn marks_are_not_confused_by_what_is_escaped() {
        let text = "a\u{1b}[31m milk\u{202e} b\nc";
        let at = text.find("milk").expect("it is there");
        let pieces = marked(text, std::slice::from_ref(&(at..at + 4)), 80);
        let plain = |text: &str| (false, text.to_owned());
        let wanted = [plain(r"a\u{1b}[31m "), (true, "milk".to_owned()), plain(r"\u{202e} b c")];
        assert_eq!(pieces, wanted);
        for columns in 0..20 {
            marked(text, &[at..at + 4, 3..900, 0..0], columns);
        }
    }

    #[test]
    fn numbers_and_words_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(shell_word("telegram:alice"), "telegram:alice");
        assert_eq!(shell_word("it's a key"), r"'it'\''s a key'");
        assert_eq!(shell_word("$(rm)"), "'$(rm)'");
    }
}
