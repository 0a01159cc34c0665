//! Text to terms: the definition of a word, for indexing and for queries alike.
//!
//! A word is a run of letters and digits; everything else separates. A term is the word as people type it when they
//! search: lower case, without accents. Scripts that write no spaces give one term a character, so that any part of a
//! sentence is found as a phrase. Terms are bounded, or one line of base64 would be a term of a megabyte.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::OnceLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};

/// The maximum length of a term. A longer word becomes its head and a hash of the whole.
pub(crate) const TERM_BYTES_MAX: usize = 64;
/// A longer prefix must be cut to this at a character boundary before it is looked up: so much is left of a word that
/// was too long for a term, whatever its characters are.
pub(crate) const PREFIX_BYTES_MAX: usize = HEAD_BYTES - 3;

/// The bytes of a word that is too long which stay readable, cut down to a character boundary.
const HEAD_BYTES: usize = 40;
/// A buffer that one huge word has blown up is given back.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Splits texts into terms; reuse one, for its buffers.
#[derive(Debug, Default)]
pub struct Words {
    folded: String,
}

impl Words {
    /// Calls `each` with every term of a text and the bytes it was made of, in order: the n-th call is position n.
    pub fn split(&mut self, text: &str, mut each: impl FnMut(&str, Range<usize>)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let start = at;
            match KINDS[usize::from(byte)] {
                GAP => {
                    at += 1;
                    continue;
                }
                WIDE => {
                    at = self.wide(text, start, &mut each);
                    continue;
                }
                _ => {}
            }
            let mut kinds = 0;
            while let Some(&byte) = bytes.get(at) {
                let kind = KINDS[usize::from(byte)];
                if kind & (PLAIN | UPPER) == 0 {
                    break;
                }
                kinds |= kind;
                at += 1;
            }
            let goes_on = char_at(text, at).is_some_and(|c| !c.is_ascii() && class(c).is_inside());
            if goes_on {
                at = self.word(text, start, &mut each);
            } else if kinds & UPPER == 0 && at - start <= TERM_BYTES_MAX {
                each(&text[start..at], start..at);
            } else {
                self.folded.clear();
                self.folded.push_str(&text[start..at]);
                self.folded.make_ascii_lowercase();
                self.give(start..at, &mut each);
            }
        }
    }

    /// Splits off whatever begins with a character beyond ASCII, and returns where it ends.
    fn wide(&mut self, text: &str, start: usize, each: &mut impl FnMut(&str, Range<usize>)) -> usize {
        let Some(c) = char_at(text, start) else { return start + 1 };
        match class(c) {
            Class::Gap | Class::Mark => start + c.len_utf8(),
            Class::Alone => alone(text, start, c, each),
            Class::Word => self.word(text, start, each),
        }
    }

    /// Splits off a word that is not all ASCII, and returns where it ends.
    fn word(&mut self, text: &str, start: usize, each: &mut impl FnMut(&str, Range<usize>)) -> usize {
        self.folded.clear();
        let mut end = start;
        for c in text[start..].chars() {
            if c.is_ascii_alphanumeric() {
                self.folded.push(c.to_ascii_lowercase());
            } else if class(c).is_inside() {
                fold(c, &mut self.folded);
            } else {
                break;
            }
            end += c.len_utf8();
        }
        self.give(start..end, each);
        end
    }

    /// Gives the folded word, as a term of bounded length.
    fn give(&mut self, range: Range<usize>, each: &mut impl FnMut(&str, Range<usize>)) {
        if self.folded.len() > TERM_BYTES_MAX {
            let hash = blake3::hash(self.folded.as_bytes());
            self.folded.truncate(self.folded.floor_char_boundary(HEAD_BYTES));
            self.folded.push_str(&hash.to_hex()[..16]);
        }
        // A word of nothing but signs that are folded away is none.
        if !self.folded.is_empty() {
            each(&self.folded, range);
        }
        self.folded.shrink_to(BUFFER_BYTES_MAX);
    }
}

/// Returns whether a text ends in a question, whatever closes it.
pub(crate) fn ends_in_question(text: &str) -> bool {
    let end = text.trim_end_matches(|c: char| {
        c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '*' | '_' | '”' | '’')
    });
    end.ends_with(['?', '？', '؟'])
}

/// Calls `each` with every part of a word that is written as `camelCase`, in lower case, and the bytes it was made of.
/// Calls nothing for a word that is written in one piece, and for what looks like an encoding rather than a name.
pub(crate) fn parts_of(word: &str, mut each: impl FnMut(&str, Range<usize>)) {
    let bytes = word.as_bytes();
    let Some((_, behind)) = bytes.split_first() else { return };
    if !behind.iter().any(u8::is_ascii_uppercase) || bytes.len() > TERM_BYTES_MAX || !word.is_ascii() {
        return;
    }
    // A part begins at a capital behind a small letter or digit, and at the last capital before a small letter.
    let begins = |at: &usize| {
        bytes[*at].is_ascii_uppercase()
            && (!bytes[at - 1].is_ascii_uppercase() || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase))
    };
    let starts: Vec<usize> = (1..bytes.len()).filter(begins).collect();
    if starts.is_empty() || starts.len() >= PARTS_MAX {
        return;
    }
    let mut start = 0;
    for end in starts.into_iter().chain([bytes.len()]) {
        if end - start > 1 {
            each(&word[start..end].to_ascii_lowercase(), start..end);
        }
        start = end;
    }
}

/// A word with more capitals in it is no name that somebody thought of.
const PARTS_MAX: usize = 7;

const GAP: u8 = 0;
const PLAIN: u8 = 1;
const UPPER: u8 = 2;
const WIDE: u8 = 4;

/// The kind of each byte: most text is ASCII and needs no lookup in the tables of Unicode.
static KINDS: [u8; 256] = {
    let mut kinds = [GAP; 256];
    let mut byte = 0_u8;
    loop {
        kinds[byte as usize] = match byte {
            b'a'..=b'z' | b'0'..=b'9' => PLAIN,
            b'A'..=b'Z' => UPPER,
            0x80.. => WIDE,
            _ => GAP,
        };
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};

/// A character of a script without spaces, with whatever combines with it; returns where it ends.
fn alone(text: &str, start: usize, first: char, each: &mut impl FnMut(&str, Range<usize>)) -> usize {
    let mut whole = full_width(first);
    let mut end = start + first.len_utf8();
    for c in text[end..].chars() {
        // Texts from some systems hold the parts of a syllable instead of the syllable.
        let part = if matches!(c, 'ﾞ' | 'ﾟ') { full_width(c) } else { c };
        if c.is_ascii() || is_whole(c) {
            break;
        } else if let Some(joined) = compose(whole, part) {
            whole = joined;
        } else if class(c) != Class::Mark {
            break;
        }
        end += c.len_utf8();
    }
    each(whole.encode_utf8(&mut [0; 4]), start..end);
    end
}

fn char_at(text: &str, at: usize) -> Option<char> {
    text[at..].chars().next()
}

/// The properties of a character in the tables of Unicode.
struct Letter {
    class: Class,
    /// The characters it folds to, filled up with zeros; `None` if there are more than two.
    folded: Option<[char; 2]>,
}

/// Every character of one or two bytes: all of Latin, Greek, Cyrillic, Hebrew and Arabic. The tables of Unicode take
/// ten times as long.
static SHORT: [OnceLock<Vec<Letter>>; 16] = [const { OnceLock::new() }; 16];
/// So many are looked up at once: few texts have letters of more than one or two scripts.
const SHORT_EACH: usize = 0x80;

/// Returns the entry of a character in [`SHORT`], or `None` for a character of three or four bytes.
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

/// Returns true if the script of a character does not put spaces between words.
pub(crate) fn is_spaceless(c: char) -> bool {
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

/// Returns true if a character is of a script without spaces and does not decompose or combine: nearly all of them.
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
