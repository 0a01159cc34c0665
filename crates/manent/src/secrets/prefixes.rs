//! A fast search for any of several words. Most texts hold nothing that looks like a credential, and finding that out
//! this way takes less time than compiling the expressions that would find one.

use std::ops::Range;

/// Words of three bytes and more, in whatever case.
#[derive(Debug)]
pub(super) struct Prefixes {
    words: Vec<&'static str>,
    /// A bit for whatever three bytes one of them begins with, and for a few others.
    threes: Box<[u64; SLOTS / 64]>,
}

/// The comparison of letter case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Exact,
    Any,
}

impl Prefixes {
    pub(super) fn of(words: impl IntoIterator<Item = &'static str>, case: Case) -> Prefixes {
        let mut starts = Prefixes { words: words.into_iter().collect(), threes: Box::new([0; SLOTS / 64]) };
        for word in &starts.words {
            // Each of the three as it is, or as a capital, or as a small letter.
            for cases in 0..27_u32 {
                let as_cased = |at: u32, byte: u8| match cases / 3_u32.pow(at) % 3 {
                    1 if case == Case::Any => byte.to_ascii_lowercase(),
                    2 if case == Case::Any => byte.to_ascii_uppercase(),
                    _ => byte,
                };
                let bytes = word.bytes().take(3).zip(0..).map(|(byte, at)| as_cased(at, byte));
                let slot = slot_of(bytes.fold(0, |three, byte| three << 8 | u32::from(byte)));
                starts.threes[slot / 64] |= 1 << (slot % 64);
            }
        }
        starts
    }

    /// Returns true if one of the words occurs at a place that `is_one` accepts.
    pub(super) fn any(&self, text: &str, is_one: impl Fn(Range<usize>) -> bool) -> bool {
        let bytes = text.as_bytes();
        let stands = |word: &str, at: usize| {
            let end = at + word.len();
            bytes.get(at..end).is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()))
                && is_one(at..end)
        };
        let mut three = 0;
        bytes.iter().enumerate().any(|(last, byte)| {
            three = (three << 8 | u32::from(*byte)) & 0x00FF_FFFF;
            let slot = slot_of(three);
            self.threes[slot / 64] >> (slot % 64) & 1 == 1
                && last >= 2
                && self.words.iter().any(|word| stands(word, last - 2))
        })
    }
}

#[inline]
fn slot_of(three: u32) -> usize {
    usize::from((three.wrapping_mul(0x9E37_79B1) >> 16) as u16)
}

const SLOTS: usize = 1 << 16;
