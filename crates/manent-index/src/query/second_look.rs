//! The second look at the best records of a plain question, with their texts: words that stand together, records that
//! say the same, and records that belong to one passage.

use crate::query::question::Question;
use crate::query::score;
use crate::query::snippet::Matcher;
use crate::words::Words;

/// The number of records whose texts are read for a question, however few hits are asked for.
pub(crate) const SECOND_LOOK: usize = 200;

/// What the text of a record says about a question.
#[derive(Debug, Default)]
pub(crate) struct TextFit {
    /// For each pair of terms of the question, whether they stand together in the text.
    pub(crate) pairs: Vec<bool>,
    /// The text has all terms that any record has.
    pub(crate) has_all: bool,
    /// The text has what a question of its kind asks for: a time, a number or a name.
    pub(crate) has_kind: bool,
}

/// Looks at a text for a question.
pub(crate) fn fit(text: &str, question: &Question, weights: &[f32], matcher: &Matcher) -> TextFit {
    // For each term, the word at which it was last met.
    let mut last = vec![None; weights.len()];
    let mut pairs = vec![false; question.pairs.len()];
    matcher.find_words(text, |term, word| {
        last[term] = Some(word);
        for (is_near, (first, second)) in pairs.iter_mut().zip(&question.pairs) {
            let other = if term == *first { *second } else { *first };
            let is_part = term == *first || term == *second;
            *is_near |= is_part && last[other].is_some_and(|other| word - other <= NEAR_WORDS);
        }
    });
    let has_all = last.iter().zip(weights).all(|(last, weight)| last.is_some() || *weight == 0.0);
    TextFit { pairs, has_all, has_kind: question.kind.is_in(text) }
}

/// What a question asks for, as far as its first words tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    #[default]
    Anything,
    Time,
    Number,
    Name,
}

impl AnswerKind {
    pub(crate) fn of(words: &[String]) -> AnswerKind {
        let at = |n: usize| words.get(n).map_or("", String::as_str);
        match at(0) {
            "when" => AnswerKind::Time,
            "how" if ["many", "much", "long", "often", "old"].contains(&at(1)) => AnswerKind::Number,
            "who" | "where" | "which" => AnswerKind::Name,
            _ if words.iter().any(|word| word == "name") => AnswerKind::Name,
            _ => AnswerKind::Anything,
        }
    }

    fn is_in(self, text: &str) -> bool {
        match self {
            AnswerKind::Anything => false,
            AnswerKind::Time => text.split(|c: char| !c.is_alphanumeric()).any(|word| TIMES.contains(&word.to_lowercase().as_str()) || word.len() == 4 && word.parse::<u16>().is_ok_and(|y| (1900..2100).contains(&y))),
            AnswerKind::Number => text.split(|c: char| !c.is_alphanumeric()).any(|word| word.bytes().any(|b| b.is_ascii_digit()) || NUMBERS.contains(&word.to_lowercase().as_str())),
            AnswerKind::Name => {
                let mut mid = false;
                let mut found = false;
                for word in text.split_whitespace() {
                    found |= mid && word.starts_with(char::is_uppercase) && !matches!(word.trim_matches(|c: char| !c.is_alphanumeric()), "I" | "I\'m" | "I\'ve" | "I\'ll" | "I\'d");
                    mid = !word.ends_with(['.', '!', '?', ':', '"']);
                }
                found
            }
        }
    }
}

const NUMBERS: [&str; 24] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "once", "twice", "dozen", "couple", "few", "several", "half", "hundred", "thousand", "million", "daily", "weekly"];
const TIMES: [&str; 46] = ["yesterday", "today", "tomorrow", "tonight", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december", "week", "weeks", "month", "months", "year", "years", "day", "days", "weekend", "ago", "last", "next", "recently", "morning", "evening", "night", "hour", "hours", "summer", "winter", "spring", "fall", "soon"];

/// A sample of what a text says, to tell whether another says the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sketch {
    /// The smallest hashes of all short sequences of words.
    hashes: Vec<u64>,
    /// The numbers in a short text, which make all the difference: a date that was moved is news.
    numbers: Vec<String>,
    words: usize,
}

impl Sketch {
    pub(crate) fn of(text: &str) -> Sketch {
        let (mut hashes, mut numbers, mut words) = (Vec::new(), Vec::new(), 0);
        let mut row: [u64; ROW] = [0; ROW];
        Words::default().split(text, |term, _| {
            row.rotate_left(1);
            row[ROW - 1] = hash(term.bytes().map(u64::from));
            words += 1;
            hashes.push(hash(row.iter().copied()));
            if words <= SHORT_WORDS && term.bytes().any(|byte| byte.is_ascii_digit()) {
                numbers.push(term.to_owned());
            }
        });
        if words > SHORT_WORDS {
            numbers.clear();
        }
        hashes.sort_unstable();
        hashes.dedup();
        hashes.truncate(SAMPLE);
        Sketch { hashes, numbers, words }
    }

    /// Returns whether two texts say nearly the same: four of five sequences of words are in both.
    pub(crate) fn repeats(&self, other: &Sketch) -> bool {
        let (short, long) = (self.words.min(other.words), self.words.max(other.words));
        if self.numbers != other.numbers || short * 5 < long * 4 {
            return false;
        }
        // The smallest hashes of the two together are a random sample of both.
        let (mut a, mut b) = (self.hashes.as_slice(), other.hashes.as_slice());
        let (mut both, mut seen) = (0, 0);
        while let (Some(first), Some(second)) = (a.first(), b.first()) {
            if seen == SAMPLE {
                break;
            }
            seen += 1;
            both += usize::from(first == second);
            a = if first <= second { &a[1..] } else { a };
            b = if second <= first { &b[1..] } else { b };
        }
        let left = (a.len() + b.len()).min(SAMPLE - seen);
        both * 5 >= (seen + left) * 4
    }
}

/// Mixes numbers into one, in order (FNV-1a over words).
fn hash(numbers: impl Iterator<Item = u64>) -> u64 {
    let mixed = numbers.fold(0xcbf2_9ce4_8422_2325, |hash: u64, number| {
        (hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    });
    (mixed ^ mixed >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Two words of a question stand together in a text if they are no further apart.
const NEAR_WORDS: usize = 3;
/// The number of words in a sequence.
const ROW: usize = 3;
/// The number of hashes that are kept of a text.
const SAMPLE: usize = 64;
/// In a text of so many words, every number counts.
const SHORT_WORDS: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;

    fn repeats(a: &str, b: &str) -> bool {
        Sketch::of(a).repeats(&Sketch::of(b))
    }

    #[test]
    fn texts_that_say_the_same_are_told_from_news() {
        let long = (0..300).map(|n| format!("word{n} ")).collect::<String>();
        assert!(repeats("Restart the build, please.", "restart the build please"));
        assert!(repeats(&long, &format!("{long} and one more")));
        assert!(!repeats("The sprint ends on May 3", "The sprint ends on May 10"), "the date was moved");
        assert!(!repeats("restart the build", "restart the server and then the build"));
        assert!(!repeats(&long, &long.replace("word", "other")));
        assert!(repeats("", ""));
    }

    #[test]
    fn words_that_stand_together_add_to_a_score() {
        let question = Question::new(&Query::parse("colour of the kitchen tiles", 0).unwrap());
        let weights = vec![2.0; question.terms.len()];
        let matcher = Matcher::of_question(&question, &weights);
        let fit = |text: &str| fit(text, &question, &weights, &matcher, 10);
        let (near, far) = (fit("the kitchen tiles are grey"), fit("tiles for the bath, and later for the kitchen"));
        assert!(near.bonus > 0.0 && far.bonus == 0.0 && !near.has_all);
        assert!(fit("Which colour? Kitchen tiles").has_all);
        assert!(fit("tile, kitchen").bonus > 0.0, "in whatever order");
    }
}
