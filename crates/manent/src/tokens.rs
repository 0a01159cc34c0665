//! Token counts: one function for everything that triggers, cuts and reports.
//!
//! Exact counts are those of one vocabulary (o200k), which only some models of one maker use; every other model splits
//! text a little differently. So a caller that knows what a provider reported for a prompt corrects the count by that
//! ratio ([`Tokens::corrected`]). The estimate is four bytes a token: no vocabulary, no time, and wrong by up to half;
//! docs/decisions/0035-counting-tokens.md has the errors of both.

use serde::{Deserialize, Serialize};

/// A method of counting tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counting {
    /// Four bytes a token.
    Estimate,
    /// Counts with a vocabulary. The first count of a process loads it, which takes a tenth of a second. Without the
    /// feature `tokens` there is none, and this is [`Counting::Estimate`].
    #[default]
    Exact,
}

/// Counts tokens.
///
/// ```
/// use manent::tokens::{Counting, Tokens};
/// let tokens = Tokens::new(Counting::Exact);
/// assert_eq!(tokens.count("hello world"), 2);
/// // The provider saw 130 where we counted 100: its vocabulary is another one.
/// assert_eq!(tokens.corrected(130, 100).count("hello world"), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    counting: Counting,
    /// The provider's count for 1,000 of our tokens.
    ratio: u64,
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens::new(Counting::default())
    }
}

impl Tokens {
    /// Makes a counter without a correction.
    pub fn new(counting: Counting) -> Tokens {
        Tokens { counting, ratio: WHOLE }
    }

    /// The same, corrected by what a provider reported for a prompt of which we had counted so many. A provider that
    /// reports nonsense (it cut the prompt, or counted other things too) corrects only so far.
    #[must_use]
    pub fn corrected(self, reported: u64, counted: u64) -> Tokens {
        if reported == 0 || counted == 0 {
            return self;
        }
        // What was counted may have been corrected already.
        let ratio = u128::from(self.ratio) * u128::from(reported) / u128::from(counted);
        let ratio = u64::try_from(ratio).unwrap_or(RATIO_MAX).clamp(RATIO_MIN, RATIO_MAX);
        Tokens { ratio, ..self }
    }

    /// Counts the tokens of a text.
    pub fn count(&self, text: &str) -> u64 {
        let count = match self.counting {
            Counting::Estimate => estimate(text),
            Counting::Exact => exact(text),
        };
        if self.ratio == WHOLE { count } else { (count * self.ratio).div_ceil(WHOLE) }
    }
}

/// Estimates the tokens of a text: four bytes each.
pub(crate) fn estimate(text: &str) -> u64 {
    of_bytes(text.len() as u64)
}

/// Estimates the tokens of a text of so many bytes.
pub(crate) fn of_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

#[cfg(not(feature = "tokens"))]
fn exact(text: &str) -> u64 {
    estimate(text)
}

#[cfg(feature = "tokens")]
fn exact(text: &str) -> u64 {
    let Some(vocabulary) = tiktoken::get_encoding(VOCABULARY) else { return estimate(text) };
    // A counter takes for ever for a word of a megabyte, which is no word: such runs are estimated.
    let (mut count, mut start, mut run) = (0, 0, 0);
    let blanks = text.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_whitespace()).map(|(at, _)| at);
    for end in blanks.chain([text.len()]) {
        if end - run > RUN_BYTES_MAX && text[run..end].is_ascii() {
            count += vocabulary.count(&text[start..run]) as u64 + estimate(&text[run..end]);
            start = end;
        }
        run = end + 1;
    }
    count + vocabulary.count(&text[start..]) as u64
}

#[cfg(feature = "tokens")]
const VOCABULARY: &str = "o200k_base";
const WHOLE: u64 = 1000;
/// Vocabularies differ by less than this; what is beyond is no vocabulary.
const RATIO_MIN: u64 = 500;
const RATIO_MAX: u64 = 3000;
/// The length of runs without a blank above which they are base64, minified code, or somebody who means harm.
#[cfg(feature = "tokens")]
const RUN_BYTES_MAX: usize = 16 << 10;

#[cfg(all(test, feature = "tokens"))]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_vocabulary() {
        let exact = Tokens::new(Counting::Exact);
        assert_eq!(exact.count(""), 0);
        assert_eq!(exact.count("The quick brown fox jumps over the lazy dog."), 10);
        assert!(exact.count("我们决定使用新的数据库") < 12);
        assert_eq!(Tokens::new(Counting::Estimate).count("12345"), 2);
    }

    #[test]
    fn a_report_corrects_within_reason() {
        let tokens = Tokens::new(Counting::Estimate);
        let text = "x".repeat(400);
        assert_eq!(tokens.count(&text), 100);
        assert_eq!(tokens.corrected(120, 100).count(&text), 120);
        assert_eq!(
            tokens.corrected(120, 100).corrected(60, 120).count(&text),
            60,
            "of what was counted then"
        );
        assert_eq!(tokens.corrected(10, 100).count(&text), 50, "a prompt that was cut");
        assert_eq!(tokens.corrected(u64::MAX, 1).count(&text), 300);
        assert_eq!(tokens.corrected(0, 100).count(&text), 100);
    }

    #[test]
    fn a_word_of_many_megabytes_is_counted_all_the_same() {
        let tokens = Tokens::new(Counting::Exact);
        let long = "a".repeat(8 << 20);
        let count = tokens.count(&format!("before {long} after"));
        assert!(count > 1_000_000, "{count}");
    }
}
