//! What a reader of hits would see wrong, or would see though nobody should.

use std::ops::Range;

use super::{Matcher, SNIPPET_CHARS, Snippet};
use crate::query::Query;
use crate::query::question::Question;

fn matcher(query: &str) -> Matcher {
    Matcher::of_query(&Query::parse(query, 0).expect(query))
}

fn stems(words: &str) -> Matcher {
    let question = Question::new(&Query::of_question(words).expect(words));
    Matcher::of_question(&question, &vec![1.0; question.terms.len()])
}

fn snippet(text: &str, matcher: &Matcher, chars_max: usize) -> Snippet {
    super::snippet(text, matcher, chars_max, &credentials)
}

/// Finds the credentials of these tests: a key block, words that begin like tokens, and values of passwords.
fn credentials(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (begin, end) in [("-----BEGIN", "-----END RSA PRIVATE KEY-----"), ("ghp_", " "), ("sk-", " ")] {
        for (at, _) in text.match_indices(begin) {
            let rest = &text[at..];
            let is_block = end.starts_with('-');
            let len = rest.find(end).map_or(rest.len(), |len| if is_block { len + end.len() } else { len });
            found.push(at..at + len);
        }
    }
    for (begin, end) in [("password=", ' '), ("://me:", '@')] {
        for (at, _) in text.match_indices(begin) {
            let value = at + begin.len();
            found.push(value..text[value..].find(end).map_or(text.len(), |len| value + len));
        }
    }
    // A block without its beginning, as where a text is cut: lines of nothing but its characters.
    for (at, line) in text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some((*at - line.len(), line))
    }) {
        let line = line.trim_end();
        if line.len() > 40 && line.bytes().all(|b| b.is_ascii_alphanumeric()) {
            found.push(at..at + line.len());
        }
    }
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by(|later, earlier| {
        let overlaps = later.start < earlier.end;
        if overlaps {
            earlier.end = earlier.end.max(later.end);
        }
        overlaps
    });
    found
}

/// The snippet with its marks in brackets.
fn marked(text: &str, matcher: &Matcher, chars_max: usize) -> String {
    let Snippet { mut text, marks } = snippet(text, matcher, chars_max);
    for mark in marks.iter().rev() {
        text.insert(mark.end, ']');
        text.insert(mark.start, '[');
    }
    text
}

/// `count` words that no query looks for.
fn filler(count: usize) -> String {
    vec!["lorem ipsum dolor"; count.div_ceil(3)].join(" ")
}

#[test]
fn a_text_matches_as_the_query_says() {
    let text = "The Café's menu: foo_bar, src/main.rs and 数据库。Data bases migrated, a b a b c.";
    let yes = [
        "cafe menu",
        "MENU café",
        "foo_bar",
        "\"main rs\"",
        "数据",
        "据库",
        "migrat*",
        "\"data bas*\"",
        "\"a b c\"",
        "cafe -draft",
        "nothing OR menu",
        "\"a b a b c\"",
        "the -\"menu cafe\"",
        "role:user",
        "menu -men",
        "cafe's",
    ];
    for query in yes {
        assert!(matcher(query).times(text).is_some(), "{query}");
    }
    let no = [
        "cafe draft",
        "foobar",
        "\"rs main\"",
        "库数",
        "migrat",
        "\"bases data\"",
        "cafe -menu",
        "menu -migr*",
        "x OR y",
        "\"a c\"",
        "menu -\"foo bar\"",
        "\"data b\"",
        "-menu role:user",
        "\"main rs an\"",
        "\"b b\"",
    ];
    for query in no {
        assert!(matcher(query).times(text).is_none(), "{query}");
    }
    assert!(stems("migration database").times(text).is_some(), "any of the stems");
    assert!(stems("migraine").times(text).is_none());
    assert!(matcher("x").times("").is_none() && matcher("-x role:user").times("").is_some());
}

/// Phrases that overlap themselves are found by every rotation of their words.
#[test]
fn phrases_that_repeat_themselves_are_found() {
    let words = ["a", "b", "ab"];
    for code in 0..3_u32.pow(6) {
        let text: Vec<&str> = (0..6).map(|at| words[(code / 3_u32.pow(at) % 3) as usize]).collect();
        for phrase in ["a b a", "a a b", "a a a", "b a b a", "a b a a b", "ab a ab"] {
            let wanted: Vec<&str> = phrase.split(' ').collect();
            let exact = text.windows(wanted.len()).any(|part| part == wanted);
            assert_eq!(
                matcher(&format!("\"{phrase}\"")).times(&text.join(" ")).is_some(),
                exact,
                "{phrase} in {text:?}"
            );
            let (last, before) = wanted.split_last().expect("words");
            let begun = text
                .windows(wanted.len())
                .any(|part| part.starts_with(before) && part[before.len()].starts_with(last));
            assert_eq!(
                matcher(&format!("\"{phrase}*\"")).times(&text.join(" ")).is_some(),
                begun,
                "{phrase}* in {text:?}"
            );
        }
    }
}

#[test]
fn what_was_looked_for_is_marked_as_it_stands_in_the_text() {
    let cases = [
        ("The Café is open", "cafe", "The [Café] is open"),
        ("see foo_bar and FOO-BAR", "foo_bar", "see [foo_bar] and [FOO-BAR]"),
        ("migrating migrations", "migrat*", "[migrating] [migrations]"),
        ("使用数据库时", "数据", "使用[数据]库时"),
        ("a b, c", "\"a b\" c", "[a b], [c]"),
        ("a a a", "\"a a\"", "[a a a]"),
        ("one two", "two -three", "one [two]"),
        ("one", "role:user", "one"),
        ("", "x", ""),
    ];
    for (text, query, expected) in cases {
        assert_eq!(marked(text, &matcher(query), SNIPPET_CHARS), expected);
    }
    assert_eq!(marked("It migrated data", &stems("migration"), 160), "It [migrated] data");
}

#[test]
fn a_snippet_is_one_line_of_whole_words() {
    let text = format!("{}\n\n\tneedle\0\u{1b}[2J\r\n    {}", filler(300), filler(300));
    let shown = marked(&text, &matcher("needle"), 60);
    assert_eq!(shown, "…dolor lorem ipsum dolor [needle] [2J lorem ipsum dolor…");
    for chars in 1..200 {
        let Snippet { text: shown, marks } = snippet(&text, &matcher("needle"), chars);
        assert!(shown.chars().count() <= chars + 2, "{chars}: {shown}");
        assert!(!shown.contains(char::is_control) && !shown.contains("  "), "{shown:?}");
        let whole = |word: &str| ["lorem", "ipsum", "dolor", "needle", "[2J"].contains(&word);
        assert!(chars < 40 || shown.trim_matches('…').split(' ').all(whole), "{chars}: {shown}");
        assert!(chars < 6 || shown[marks[0].clone()] == *"needle", "{chars}: {shown}");
    }
    assert_eq!(
        marked("  short\ntext  ", &matcher("text"), 160),
        "short [text]",
        "nothing is cut, nothing is dotted"
    );
}

#[test]
fn without_a_match_the_beginning_is_shown() {
    let text = format!("\n Begin here {}", filler(200));
    let shown = snippet(&text, &matcher("absent"), 30);
    assert_eq!(shown, Snippet { text: "Begin here lorem ipsum dolor…".to_owned(), marks: Vec::new() });
}

/// A word of the query may stand anywhere; where the most of it stands together is what someone looks for.
#[test]
fn the_densest_group_of_matches_is_shown() {
    let gap = filler(100);
    let text = format!("apple {gap} pear apple {gap} apple and a pear and a plum {gap} pear pear pear");
    assert!(marked(&text, &matcher("apple pear plum"), 60).contains("[apple] and a [pear] and a [plum]"));
    let text = format!("red {gap} red red {gap} red fox {gap} \"red hot fox\"");
    assert!(
        marked(&text, &matcher("red \"hot fox\""), 40).contains("[red] [hot fox]"),
        "a phrase before words"
    );
    let text = format!("fox. On a red day {gap} red fox {gap} fox x x x red");
    assert!(
        marked(&text, &stems("red fox"), 60).contains("[red] [fox]"),
        "words in a row before words apart"
    );
    assert!(marked(&format!("a {gap} a a {gap}"), &matcher("a"), 40).contains("[a] [a]"), "many before few");
}

#[test]
fn secrets_are_not_shown() {
    let key = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2));
    let text = format!("needle token {key} needle password=hunter2 https://me:hunter2@host");
    let shown = marked(&text, &matcher("needle"), 200);
    assert_eq!(shown, "[needle] token [secret] [needle] password=[secret] https://me:[secret]@host");
    assert_eq!(
        marked(&text, &matcher("hunter2"), 200).matches("hunter2").count(),
        0,
        "not even when asked for"
    );
}

/// A key that the snippet's end would cut in two must not show its half, wherever the cut is.
#[test]
fn no_part_of_a_secret_that_is_cut_is_shown() {
    let lines = vec!["Zk9xQ7wL3mB5vN1cR8tY2uI6oP4aS0dFgHjKlQwErTyUiOpAsDfGhJkLzXcVbNm1"; 30].join("\n");
    let block = format!("-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----");
    let key = format!("sk-{}", "a1B2c3D4e5F6g7H8i9J0".repeat(8));
    for secret in [&block, &key] {
        for gap in (0..400).step_by(3) {
            let space = "é ".repeat(gap / 2);
            for text in [
                format!("{space}needle {space}{secret}"),
                format!("{secret} {space}needle{space}"),
                format!("{}needle {space}{secret}", filler(5000)),
                format!("{secret} {space}needle{}", filler(5000)),
            ] {
                let shown = snippet(&text, &matcher("needle"), 160).text;
                let lines = secret.split(['\n', ' ']).filter(|line| line.len() > 12);
                for part in lines.flat_map(|line| [&line[..6], &line[line.len() - 6..]]) {
                    assert!(!shown.contains(part), "{part} in {shown}");
                }
            }
        }
    }
    // A match inside of the key: its place is shown, and nothing of it.
    let shown = snippet(&format!("{} {block} after", filler(3000)), &matcher("Zk9xQ7*"), 60);
    assert!(
        shown.text.contains("[secret]") && !shown.text.contains("Zk9x") && shown.marks.is_empty(),
        "{shown:?}"
    );
}

/// Marks are used to cut the text: each must be on character boundaries, in order, and whatever is asked of what.
#[test]
fn marks_fit_the_text_whatever_it_is() {
    let texts = [
        "naïve 数据库 🦀👩\u{200d}👧 e\u{301}a ".repeat(200),
        " \t\n\0".repeat(3000) + "a" + &" ".repeat(20_000) + "b a",
        "é".repeat(5000) + " a b " + &"数".repeat(5000),
        "a ".repeat(5000),
        "\u{301}\u{301} a".repeat(500),
        format!("a password=x1y2z3 {} b", "b password=x1y2z3 ".repeat(400)),
    ];
    for text in &texts {
        for query in ["a", "a b", "\"a b\"", "naive OR 数据", "\"a b a\"", "a*", "x1y2z3 OR b", "库 a -zz"]
        {
            for chars in [1, 2, 9, 40, 160, 100_000] {
                let Snippet { text: shown, marks } = snippet(text, &matcher(query), chars);
                let mut end = 0;
                for mark in marks {
                    assert!(mark.start >= end && mark.start < mark.end, "{query} {chars} {shown}");
                    assert!(
                        shown.get(mark.clone()).is_some_and(|marked| !marked.contains("x1y2z3")),
                        "{shown}"
                    );
                    end = mark.end;
                }
                assert!(shown.chars().count() <= chars.max(8) + 2, "{query} {chars} {shown}");
            }
        }
    }
}

/// Megabytes of one word, asked for as a phrase of a thousand of it: squared, this would take days.
#[test]
fn a_huge_text_of_matches_is_read_once() {
    let text = "数".repeat(1 << 20);
    let phrase = matcher(&"数".repeat(1300));
    assert!(phrase.times(&text).is_some());
    let shown = snippet(&text, &phrase, 160);
    assert_eq!(shown.marks.len(), 1);
    let text = "a ".repeat(1 << 20);
    assert_eq!(snippet(&text, &matcher("a OR \"a a\" OR \"a a a\""), 20).text, "…a a a a a a a a a a…");
    let text = format!("a{}b", " ".repeat(4 << 20));
    assert_eq!(snippet(&text, &matcher("\"a b\""), 20).text, "a…");
}
