//! What would break for a user if words were split or folded otherwise.

use std::ops::Range;

use super::{HEAD_BYTES, PREFIX_BYTES_MAX, TERM_BYTES_MAX, Words, ends_in_question, parts_of};
use crate::english::{is_stop, stem, stem_prefix};

fn terms(text: &str) -> Vec<String> {
    spans(text).into_iter().map(|(term, _)| term).collect()
}

fn spans(text: &str) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    Words::default().split(text, |term, range| found.push((term.to_owned(), range)));
    found
}

#[test]
fn prose_paths_and_code_fall_into_the_words_people_look_for() {
    assert_eq!(terms("The quick, BROWN fox!"), ["the", "quick", "brown", "fox"]);
    assert_eq!(terms("src/index/words.rs:42"), ["src", "index", "words", "rs", "42"]);
    assert_eq!(terms("let foo_bar = Foo::new();"), ["let", "foo", "bar", "foo", "new"]);
    assert_eq!(terms("don't don’t donʼt"), ["don", "t", "don", "t", "don", "t"]);
    assert_eq!(terms("well-known e2e utf8"), ["well", "known", "e2e", "utf8"]);
    assert_eq!(terms(" \0\t\u{1b}[31m🦀 !!! … "), ["31m"]);
    assert_eq!(terms(""), [""; 0]);
}

/// Highlights are drawn with these ranges, and phrases are found with these positions.
#[test]
fn ranges_point_at_the_word_in_the_text() {
    for text in ["Ünïcode wörds, e\u{301}t 数据库 of ｶﾞ x²", "a é", "é", "naïve—Straße"] {
        let mut end = 0;
        for (term, range) in spans(text) {
            assert!(range.start >= end && range.start < range.end, "in order, none empty");
            end = range.end;
            assert_eq!(terms(&text[range]), [term], "a word alone is the same term");
        }
    }
    assert_eq!(spans("a e\u{301}t b")[1], ("et".to_owned(), 2..6), "a combining accent is inside its word");
}

#[test]
fn words_are_found_without_their_accents_and_forms() {
    let same = [
        ("Café", "cafe"),
        ("cafe\u{301}", "cafe"),
        ("STRASSE Straße STRAẞE", "strasse strasse strasse"),
        ("ﬁle", "file"),
        ("ＡＢＣ１２３", "abc123"),
        ("Øystein Łódź Đorđe Ætna Œuvre Þór", "oystein lodz dorde aetna oeuvre thor"),
        ("İstanbul ılık", "istanbul ilik"),
        ("Ёлка йод", "елка иод"),
        ("ΟΔΥΣΣΕΎΣ Οδυσσεύς", "οδυσσευσ οδυσσευσ"),
        ("ﷺ", "صلى الله عليه وسلم"),
        ("مُحَمَّد محمـــد", "محمد محمد"),
        ("שָׁלוֹם", "שלום"),
        ("𝐁old ⓒ x²", "bold c x2"),
        ("exam\u{ad}ple", "example"),
        ("Tiếng Việt", "tieng viet"),
    ];
    for (text, plain) in same {
        let joined = terms(text).concat();
        assert_eq!(joined, plain.replace(' ', ""), "{text}");
    }
    assert_ne!(terms("का"), terms("की"), "vowel signs make other words");
}

/// Someone looks for a word in the middle of a Chinese sentence, where nothing separates it.
#[test]
fn spaceless_scripts_give_a_term_a_character() {
    assert_eq!(terms("使用SQL数据库"), ["使", "用", "sql", "数", "据", "库"]);
    assert_eq!(terms("データ"), ["デ", "ー", "タ"]);
    assert_eq!(terms("ﾃﾞｰﾀ"), terms("データ"), "half-width is the same");
    assert_eq!(terms("テ\u{3099}ータ"), terms("データ"), "so is text with separate voicing marks");
    assert_eq!(terms("데이터"), ["데", "이", "터"]);
    assert_eq!(terms("\u{1103}\u{1166}"), ["데"], "letters of a syllable are the syllable");
    assert_eq!(terms("\u{1112}\u{1161}\u{11ab}"), ["한"]);
    assert_eq!(terms("ที่"), ["ท", "ี"], "tone marks are dropped, vowels stay");
    assert_eq!(terms("人々〇"), ["人", "々", "〇"]);
    assert_eq!(terms("豈"), ["豈"], "a character for compatibility is the usual one");
    assert_eq!(spans("据库a")[1].1, 3..6);
}

/// A term out of the index, asked for again, must find itself.
#[test]
fn folding_a_term_changes_nothing() {
    for c in '\0'..=char::MAX {
        for term in terms(&format!("a{c}")) {
            assert_eq!(terms(&term).concat(), term, "U+{:X}", u32::from(c));
        }
    }
}

#[test]
fn a_long_word_is_found_whole_and_by_its_beginning() {
    for word in
        ["x".repeat(65), "Ab0".repeat(100), "é".repeat(70), "я".repeat(33), "𐐨".repeat(17), "aя".repeat(50)]
    {
        let [term] = &terms(&word)[..] else { panic!("one word") };
        assert!(term.len() <= TERM_BYTES_MAX);
        assert_eq!(terms(&word.to_uppercase()).concat(), *term, "whole, however it is written");
        assert_ne!(terms(&format!("{word}1")).concat(), *term, "and no other that only begins alike");
        let start = terms(&word.chars().take(14).collect::<String>()).concat();
        let prefix = &start[..start.floor_char_boundary(PREFIX_BYTES_MAX)];
        assert!(term.starts_with(prefix), "by its beginning");
    }
    assert_eq!(terms(&"x".repeat(64)), ["x".repeat(64)]);
    let [long] = &terms(&"x".repeat(65))[..] else { panic!("one word") };
    assert_eq!(long.len(), HEAD_BYTES + 16);
    assert_eq!(
        long, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxa32b4a703f5d61b2",
        "indexes on disk hold these: a change of them is a change of the format"
    );
}

/// A tool's output can be one word of megabytes; its buffer must not stay.
#[test]
fn one_huge_word_leaves_no_huge_buffer() {
    let mut words = Words::default();
    let mut count = 0;
    words.split(&"A".repeat(4 << 20), |_, _| count += 1);
    assert_eq!(count, 1);
    assert!(words.folded.capacity() <= super::BUFFER_BYTES_MAX);
}

#[test]
fn stems_of_whatever_is_a_term_are_made_without_a_panic() {
    for c in '\0'..=char::MAX {
        Words::default().split(&format!("a{c}ing"), |term, _| drop(stem(term).into_owned()));
    }
}

#[test]
fn words_of_one_meaning_share_a_stem() {
    for (a, b) in [
        ("migration", "migrate"),
        ("migrating", "migrations"),
        ("happiness", "happy"),
        ("deployed", "deploying"),
        ("dying", "die"),
        ("possibility", "possible"),
    ] {
        assert_eq!(stem(a), stem(b), "who asks for {a} must find {b}");
    }
}

#[test]
fn numbers_identifiers_and_other_scripts_have_no_stem() {
    for term in ["", "2026", "s3", "utf8", "fussgänger", "данные", "数", "running2"] {
        assert_eq!(stem(term), term, "a cut name would find other names");
    }
}

#[test]
fn parts_of_names_in_camel_case_are_words_of_their_own() {
    let parts = |word: &str| {
        let mut found = Vec::new();
        parts_of(word, |part, range| found.push((part.to_owned(), word[range].to_ascii_lowercase())));
        assert!(found.iter().all(|(part, there)| part == there), "{word}: {found:?}");
        found.into_iter().map(|(part, _)| part).collect::<Vec<_>>()
    };
    assert_eq!(parts("retryBackoff"), ["retry", "backoff"]);
    assert_eq!(parts("HTTPServerError"), ["http", "server", "error"]);
    assert_eq!(parts("utf8ToString"), ["utf8", "to", "string"]);
    assert_eq!(parts("xAxis"), ["axis"], "one letter is no word");
    for whole in ["retry", "Retry", "RETRY", "E0382", "", "x", "aGVsbG8gd29ybGQhIQzZzA", "überGroß"] {
        assert!(parts(whole).is_empty(), "{whole}");
    }
}

#[test]
fn texts_that_end_in_a_question_are_told_from_others() {
    for text in ["Why?", "And so?  \n", "(Is it?)", "\"Really?\"", "**Ready?**", "\u{597d}\u{5417}\u{ff1f}"] {
        assert!(ends_in_question(text), "{text}");
    }
    for text in ["", "No.", "Why? Because.", "?!"] {
        assert!(!ends_in_question(text), "{text}");
    }
}

/// A word whose stem does not begin as it does would never be found by its own stem. Every short beginning with
/// every chain of endings is tried, as the stemmer knows nothing of a word but its letters.
#[test]
fn every_word_begins_as_its_stem_says() {
    let letters = "abcdefghiklmnoprstuvxyz";
    let endings = [
        "", "s", "es", "ed", "ing", "ly", "y", "ies", "ied", "e", "er", "able", "ability", "ible", "ibility",
        "ate", "ation", "ational", "ative", "ator", "ize", "izer", "ization", "al", "ality", "ally", "alism",
        "ance", "ancy", "ence", "ency", "ent", "ently", "ful", "fully", "fulness", "ical", "icate", "icity",
        "ic", "ion", "ism", "ist", "ive", "ivity", "iveness", "less", "lessly", "ment", "ness", "ogy",
        "ogist", "ous", "ously", "ousness", "tional", "eed", "eedly", "edly", "ingly", "bly", "bling",
        "bled", "bing", "ning", "ting",
    ];
    let mut word = String::new();
    let mut tried = 0;
    let mut short: Vec<String> = letters.chars().map(String::from).collect();
    for _ in 0..2 {
        let longer = short.iter().flat_map(|s| letters.chars().map(move |c| format!("{s}{c}")));
        short = short.iter().cloned().chain(longer).collect();
    }
    short.sort_unstable();
    short.dedup();
    let longer =
        ["poss", "relat", "commun", "gener", "arsen", "past", "univers", "organ", "hopp", "fizz", "syll"];
    for start in short.iter().map(String::as_str).chain(longer) {
        for first in endings {
            for second in ["", "s", "ed", "ing", "ly", "ity"] {
                word.clear();
                word.extend([start, first, second]);
                let stem = stem(&word);
                let prefix = stem_prefix(&stem);
                assert!(word.starts_with(prefix) && !prefix.is_empty(), "{word} has the stem {stem}");
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000_000, "{tried}");
}

#[test]
fn odd_words_begin_as_their_stems_say() {
    let odd = "skis skies sky dying lying tying vying idly gently ugly early only singly howe atlas cosmos bias \
               andes news inning innings outing outings canning cannings herring earring evening evenings proceed \
               exceed succeed proceeded dyed eying hying possibility sensibility ability nobility syllable eerie \
               cookies ties tied die died movies laziest analyses analysis analyzed caching cached cries tries \
               flies happily yes yesterday sayings buying bye agreed agreement feed needing seeing hoped hopping \
               hissing falling egged added odd ebbing erring";
    for word in odd.split_whitespace() {
        let stem = stem(word);
        assert!(word.starts_with(stem_prefix(&stem)), "{word} has the stem {stem}");
        assert!(!stem_prefix(&stem).is_empty(), "{word} would be looked for in the whole dictionary");
    }
}

#[test]
fn questions_are_asked_with_words_that_find_nothing_of_their_own() {
    for word in "what when did does who how why where which is the s t re ve ll d m".split(' ') {
        assert!(is_stop(word), "{word}");
    }
    for word in ["database", "error", "2026", "don't", "", "数"] {
        assert!(!is_stop(word), "{word:?} must be looked for");
    }
}
