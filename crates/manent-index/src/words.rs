//! Text to terms: the one place that says what a word is, for what is indexed and for what is looked up alike.
//!
//! A word is a run of letters and digits; everything else separates. A term is the word as people type it when they
//! search: lower case, without accents. Scripts that write no spaces give one term a character, so that any part of
//! a sentence is found as a phrase. Terms are bounded, or one line of base64 would be a term of a megabyte.

use std::ops::Range;

use unicode_normalization::char::compose;

use letters::{Class, class, fold, full_width, is_whole};

mod letters;
mod stems;
#[cfg(test)]
mod tests;

pub(crate) use stems::stem_prefix;
pub use stems::{is_stop, stem};

/// No term is longer. A longer word is kept as its head and a hash of the whole.
pub(crate) const TERM_BYTES_MAX: usize = 64;
/// A longer prefix must be cut to this at a character boundary before it is looked up: so much is left of a word that
/// was too long for a term, whatever its characters are.
pub(crate) const PREFIX_BYTES_MAX: usize = HEAD_BYTES - 3;

/// What is kept in clear of a word that is too long, cut down to a character boundary.
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

    /// Whatever begins with a character beyond ASCII; returns where it ends.
    fn wide(&mut self, text: &str, start: usize, each: &mut impl FnMut(&str, Range<usize>)) -> usize {
        let Some(c) = char_at(text, start) else { return start + 1 };
        match class(c) {
            Class::Gap | Class::Mark => start + c.len_utf8(),
            Class::Alone => alone(text, start, c, each),
            Class::Word => self.word(text, start, each),
        }
    }

    /// A word that is not all ASCII.
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

const GAP: u8 = 0;
const PLAIN: u8 = 1;
const UPPER: u8 = 2;
const WIDE: u8 = 4;

/// What each byte is: most text is ASCII, and never needs a look into the tables of Unicode.
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
