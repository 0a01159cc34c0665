//! Characters: which of them are parts of words, and as what people type them when they search.

use std::sync::OnceLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// What the tables of Unicode say of a character.
struct Letter {
    class: Class,
    /// What it folds to, filled up with zeros. Nothing: it is longer.
    folded: Option<[char; 2]>,
}

/// Every character of one or two bytes: all of Latin, Greek, Cyrillic, Hebrew and Arabic. The tables of Unicode take
/// ten times as long.
static SHORT: [OnceLock<Vec<Letter>>; 16] = [const { OnceLock::new() }; 16];
/// So many are looked up at once: few texts have letters of more than one or two scripts.
const SHORT_EACH: usize = 0x80;

/// What [`SHORT`] says of a character.
fn short(c: char) -> Option<&'static Letter> {
    let part = c as usize / SHORT_EACH;
    SHORT.get(part)?.get_or_init(|| letters_of(part)).get(c as usize % SHORT_EACH)
}

fn letters_of(part: usize) -> Vec<Letter> {
    let letter = |c: char| {
        let mut folded = String::new();
        fold_by_tables(c, &mut folded);
        let mut letters = folded.chars().chain(['\0'; 2]);
        let pair = [letters.next().unwrap_or('\0'), letters.next().unwrap_or('\0')];
        let folded = letters.next().is_none_or(|more| more == '\0').then_some(pair);
        Letter { class: class_by_tables(c), folded }
    };
    let all = (part * SHORT_EACH..(part + 1) * SHORT_EACH).filter_map(|c| char::from_u32(c as u32));
    all.map(letter).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Separates words.
    Gap,
    /// Part of a word.
    Word,
    /// Combines with what is before it; nothing by itself.
    Mark,
    /// A term by itself.
    Alone,
}

impl Class {
    pub(super) fn is_inside(self) -> bool {
        matches!(self, Class::Word | Class::Mark)
    }
}

pub(super) fn class(c: char) -> Class {
    match short(c) {
        Some(letter) => letter.class,
        None if is_whole(c) => Class::Alone,
        None => class_by_tables(c),
    }
}

fn class_by_tables(c: char) -> Class {
    match c {
        // Apostrophes that Unicode calls letters: `donʼt` is to be found as `don't` is.
        '\u{2BB}' | '\u{2BC}' => Class::Gap,
        // Invisible inside words: soft hyphen, joiners of Persian and Indic scripts. And half-width voicing marks.
        '\u{AD}' | '\u{200C}' | '\u{200D}' | '\u{2060}' | 'ﾞ' | 'ﾟ' => Class::Mark,
        c if c.is_alphanumeric() => {
            if is_spaceless(c) {
                Class::Alone
            } else {
                Class::Word
            }
        }
        c if is_combining_mark(c) => Class::Mark,
        _ => Class::Gap,
    }
}

/// Whether the character is of a script that does not put spaces between words.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        // Thai and Lao; Myanmar; Hangul letters; Khmer; Tai scripts.
        '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
        | '\u{1950}'..='\u{19FF}' | '\u{1A20}'..='\u{1AAF}'
        // Iteration marks, kana, Bopomofo, Hangul letters, Han of the basic plane, Yi.
        | '\u{2E80}'..='\u{A4CF}'
        // More Hangul letters, Myanmar and Tai Viet; Hangul syllables; Han for compatibility; half-width kana.
        | '\u{A960}'..='\u{A97F}' | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AADF}' | '\u{AC00}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FFDC}'
        // Tangut and Khitan; old kana; Han beyond the basic plane.
        | '\u{17000}'..='\u{18DFF}' | '\u{1AFF0}'..='\u{1B2FF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Whether the character is of a script without spaces and has no other form nor part: all but a few of a text.
pub(super) fn is_whole(c: char) -> bool {
    matches!(c,
        '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7A3}')
}

/// The one character that a character of a spaceless script is an older or narrower form of, else itself.
pub(super) fn full_width(c: char) -> char {
    if is_whole(c) {
        return c;
    }
    let mut same = std::iter::once(c).nfkc().filter(|part| !matches!(part, '(' | ')'));
    match (same.next(), same.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// Appends a character as people type it when they search.
pub(super) fn fold(c: char, folded: &mut String) {
    match short(c).and_then(|letter| letter.folded) {
        Some(letters) => folded.extend(letters.iter().take_while(|c| **c != '\0')),
        None => fold_by_tables(c, folded),
    }
}

fn fold_by_tables(c: char, folded: &mut String) {
    decompose_compatible(c, |part| {
        for lower in part.to_lowercase() {
            match lower {
                'a'..='z' | '0'..='9' => folded.push(lower),
                // Letters that do not decompose, though everyone without the key types them so.
                'ß' => folded.push_str("ss"),
                'æ' => folded.push_str("ae"),
                'œ' => folded.push_str("oe"),
                'þ' => folded.push_str("th"),
                'ø' => folded.push('o'),
                'ł' => folded.push('l'),
                'đ' | 'ð' => folded.push('d'),
                'ħ' => folded.push('h'),
                'ŧ' => folded.push('t'),
                'ı' => folded.push('i'),
                'ŋ' => folded.push('n'),
                'ς' => folded.push('σ'),
                // Vowel points of Hebrew and Arabic, and the stroke that only stretches a line: letters to Unicode,
                // but mostly not written.
                '\u{345}'
                | '\u{591}'..='\u{5C7}'
                | '\u{610}'..='\u{61A}'
                | '\u{640}'
                | '\u{64B}'..='\u{65F}'
                | '\u{670}'
                | '\u{6D6}'..='\u{6DC}'
                | '\u{6DF}'..='\u{6E8}'
                | '\u{6EA}'..='\u{6ED}' => {}
                // Vowel signs of Indic scripts are letters and stay; accents are not.
                c if class_by_tables(c) == Class::Word => folded.push(c),
                _ => {}
            }
        }
    });
}
