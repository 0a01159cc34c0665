//! Markdown as it is shown, in whatever pieces it comes.

use super::*;

/// Renders a whole text at once, with styles written in brackets.
fn shown(text: &str) -> String {
    let mut markdown = Markdown::default();
    let bytes = markdown.push(text) + &markdown.finish();
    let mut out = String::new();
    let mut rest = bytes.as_str();
    while let Some(at) = rest.find('\u{1b}') {
        let end = rest[at..].find('m').unwrap() + at + 1;
        out.push_str(&rest[..at]);
        out.push_str(match &rest[at..end] {
            "\u{1b}[0m" => "⟩",
            "\u{1b}[1m" => "⟨b ",
            "\u{1b}[3m" => "⟨i ",
            "\u{1b}[2m" => "⟨dim ",
            "\u{1b}[4m" => "⟨u ",
            "\u{1b}[9m" => "⟨s ",
            "\u{1b}[36m" => "⟨c ",
            other => panic!("{other:?}"),
        });
        rest = &rest[end..];
    }
    out + rest
}

fn plain(text: &str) -> String {
    let mut out = String::new();
    for part in text.split('\u{1b}') {
        match part.strip_prefix('[') {
            Some(part) if !out.is_empty() || text.starts_with('\u{1b}') => {
                out.push_str(part.split_once('m').unwrap().1);
            }
            _ => out.push_str(part),
        }
    }
    out
}

#[test]
fn marks_are_styled_and_gone() {
    for (text, wanted) in [
        ("plain text", "plain text"),
        ("a **bold** word", "a ⟨b bold⟩ word"),
        ("__bold__ *italic* _too_", "⟨b bold⟩ ⟨i italic⟩ ⟨i too⟩"),
        ("~~gone~~ ~ about ~5", "⟨s gone⟩ ~ about ~5"),
        ("run `ls **x**` now", "run ⟨c ls **x**⟩ now"),
        ("`` a`b `` c", "⟨c  a`b ⟩ c"),
        ("# Title", "⟨b ⟨u Title⟩"),
        ("### Sub `x` and *y*", "⟨b Sub ⟩⟨b ⟨c x⟩⟨b  and ⟩⟨b ⟨i y⟩"),
        ("#hash and ####### seven", "#hash and ####### seven"),
        ("- one\n  * two\n+ three", "⟨b • ⟩one\n  ⟨b • ⟩two\n⟨b • ⟩three"),
        ("1. one\n2. **two**", "1. one\n2. ⟨b two⟩"),
        ("> quoted *so*\n>> twice\n>", "⟨dim │ ⟩quoted ⟨i so⟩\n⟨dim │ │ ⟩twice\n⟨dim │ ⟩"),
        ("> - in a quote", "⟨dim │ ⟩⟨b • ⟩in a quote"),
        ("[text](http://a/b) [x] [y](no end", "⟨u text⟩⟨dim  (http://a/b)⟩ [x] [y](no end"),
        ("[http://a](http://a)!", "⟨u http://a⟩!"),
        ("| a | **b** |\n|---|---|", "| a | **b** |\n|---|---|"),
        ("---\n***\n___", "---\n***\n___"),
        ("**a *b* c**", "⟨b a ⟩⟨b ⟨i b⟩⟨b  c⟩"),
        ("***both***", "⟨b ⟨i both⟩"),
    ] {
        assert_eq!(shown(text), wanted, "{text:?}");
    }
}

#[test]
fn code_is_left_alone_until_its_own_fence() {
    let text = "see:\n```rust\nlet **x** = 1; // # no\n\n  ``\n```\nafter *it*";
    let wanted = "see:\n⟨dim ```rust⟩\n⟨c let **x** = 1; // # no⟩\n\n⟨c   ``⟩\n⟨dim ```⟩\nafter ⟨i it⟩";
    assert_eq!(shown(text), wanted);
    let text = "````md\n```\nx\n```\n````\n~~~\ny";
    let wanted = "⟨dim ````md⟩\n⟨c ```⟩\n⟨c x⟩\n⟨c ```⟩\n⟨dim ````⟩\n⟨dim ~~~⟩\n⟨c y⟩";
    assert_eq!(shown(text), wanted);
    assert_eq!(shown("```x``` in a line"), "⟨c x⟩ in a line");
    assert_eq!(shown("  ```\n  in a list\n  ```\nz"), "  ⟨dim ```⟩\n⟨c   in a list⟩\n⟨dim   ```⟩\nz");
}

#[test]
fn what_is_no_mark_is_shown_as_it_was_written() {
    for text in [
        "2 * 3 * 4 and 2*3*4",
        "snake_case_name and __init__x",
        "an **open mark",
        "an `open tick\nand the next line",
        "*",
        "**",
        "a * b",
        r"not \*italic\* and \",
        "**** four",
        "[link](with blank)",
        "a ] b [ c",
        "-- dash -\n-",
        "#",
        "``",
        "\t\t",
        "",
        "\n\n",
    ] {
        assert_eq!(shown(text), text);
    }
    let long = format!("a *{} b", "x".repeat(1000));
    assert_eq!(shown(&long), long);
}

#[test]
fn somebody_who_reads_along_does_not_wait_for_a_mark_that_never_closes() {
    let mut markdown = Markdown::default();
    assert_eq!(markdown.push("a "), "a ");
    assert_eq!(markdown.push("*b c"), "", "it may be italic");
    assert!(!markdown.push(&" x".repeat(HELD_CHARS_MAX / 2)).is_empty(), "it is not");
    let mut markdown = Markdown::default();
    assert_eq!(markdown.push("an ordinary line is shown at once"), "an ordinary line is shown at once");
}

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

const PARTS: [&str; 36] = [
    "*",
    "**",
    "***",
    "_",
    "__",
    "`",
    "``",
    "```",
    "~~~",
    "~~",
    "#",
    "# ",
    "> ",
    ">",
    "- ",
    "* ",
    "[",
    "](",
    ")",
    "|",
    "\n",
    "\n\n",
    " ",
    "  ",
    "word",
    "two words",
    "日本",
    "é",
    "\\",
    "1. ",
    "http://x",
    "rust",
    "•",
    "│",
    "x*y",
    "\t",
];

#[test]
fn any_split_gives_the_same_and_loses_nothing_but_marks() {
    let mut dice = Dice(7);
    for round in 0..3000 {
        let text: String = (0..dice.roll(40)).map(|_| PARTS[dice.roll(PARTS.len())]).collect();
        let mut whole = Markdown::default();
        let wanted = whole.push(&text) + &whole.finish();
        let mut pieces = Markdown::default();
        let (mut got, mut rest) = (String::new(), text.as_str());
        while !rest.is_empty() {
            let chars = 1 + dice.roll(5);
            let at = rest.char_indices().nth(chars).map_or(rest.len(), |(at, _)| at);
            got += &pieces.push(&rest[..at]);
            rest = &rest[at..];
        }
        got += &pieces.finish();
        assert_eq!(got, wanted, "round {round}: {text:?}");
        assert!(!wanted.ends_with("\u{1b}[0m\u{1b}[0m"), "{wanted:?}");

        // What is no mark comes through, in its order, and so does every line.
        let is_mark = |c: &char| "*_`~#>-[]()•│".contains(*c) || c.is_whitespace();
        let letters = |text: &str| text.chars().filter(|c| !is_mark(c)).collect::<String>();
        let shown = plain(&wanted);
        assert_eq!(letters(&shown), letters(&text), "round {round}: {text:?}");
        assert_eq!(shown.matches('\n').count(), text.matches('\n').count(), "round {round}: {text:?}");
        let open = wanted.matches('\u{1b}').count() - wanted.matches("\u{1b}[0m").count();
        assert!(open >= wanted.matches("\u{1b}[0m").count(), "{wanted:?}");
    }
}

#[test]
fn hostile_text_takes_time_by_its_length() {
    for text in ["*a ".repeat(100_000), "`".repeat(300_000), "[".repeat(300_000), "**a `b ".repeat(50_000)] {
        let mut markdown = Markdown::default();
        let shown = markdown.push(&text) + &markdown.finish();
        assert_eq!(plain(&shown).chars().filter(|c| *c == 'a').count(), text.matches('a').count());
    }
}
