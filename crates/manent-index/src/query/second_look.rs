//! The second look at the best records of a plain question, with their texts: words that stand together, records that
//! say the same, and records that belong to one passage.

use std::collections::HashMap;

use crate::corpus::ScoreScope;
use crate::query::question::Question;
use crate::query::ranking::{NEIGHBOURS, Nearby};
use crate::query::score::{self, Scored};
use crate::query::snippet::Matcher;
use crate::words::{Words, ends_in_question};

/// The number of records whose texts are read for a question, however few hits are asked for.
pub(crate) const SECOND_LOOK: usize = 200;

/// A record that was read for a question.
#[derive(Debug)]
pub(crate) struct LookedAt {
    pub(crate) scored: Scored,
    /// The factor of its date and its role, which is in its score.
    pub(crate) factor: f32,
    /// Its encoded length.
    pub(crate) norm: u8,
    /// The number of its stream, and its place among the records of that.
    pub(crate) stream: u64,
    pub(crate) ordinal: u64,
    pub(crate) role: String,
    pub(crate) fit: TextFit,
}

/// The result of comparing a text with a question.
#[derive(Debug, Default)]
pub(crate) struct TextFit {
    /// For each pair of terms of the question, whether they stand together in the text.
    pairs: Vec<bool>,
    /// The text has all terms of the question.
    pub(crate) has_all: bool,
    /// The text has what the question asks for: a time, a number or a name.
    has_answer: bool,
    ends_in_question: bool,
}

impl TextFit {
    pub(crate) fn of(text: &str, question: &Question, weights: &[f32], matcher: &Matcher) -> TextFit {
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
        TextFit {
            pairs,
            has_all: last.iter().zip(weights).all(|(last, weight)| last.is_some() || *weight == 0.0),
            has_answer: question.asks_for.is_in(text),
            ends_in_question: ends_in_question(text),
        }
    }
}

/// Returns the scores of records after the second look. Pairs of terms that stand together count as one term more, with
/// the evidence of neighbours that were looked at as well.
pub(crate) fn rescored(
    looked_at: &[LookedAt],
    question: &Question,
    weights: &[f32],
    scope: ScoreScope,
) -> Vec<Scored> {
    let places: HashMap<(u64, u64), &LookedAt> =
        looked_at.iter().map(|one| ((one.stream, one.ordinal), one)).collect();
    let rescore = |one: &LookedAt| {
        let neighbour = |ordinal: Option<u64>| match scope {
            ScoreScope::Conversation => places.get(&(one.stream, ordinal?)).copied(),
            ScoreScope::Alone => None,
        };
        let before: [Option<&LookedAt>; NEIGHBOURS] =
            std::array::from_fn(|back| neighbour(one.ordinal.checked_sub(back as u64 + 1)));
        let after = neighbour(one.ordinal.checked_add(1));
        let mut bonus = 0.0;
        for (pair, (first, second)) in question.pairs.iter().enumerate() {
            let evidence = |of: Option<&LookedAt>| match of {
                Some(of) if of.fit.pairs[pair] => score::saturation(1, of.norm),
                _ => 0.0,
            };
            let nearby = Nearby {
                own: evidence(Some(one)),
                before: before.map(evidence),
                before_asks: before[0].is_some_and(|before| before.fit.ends_in_question),
                after: evidence(after),
                after_replies: after.is_some_and(|after| after.role != one.role),
                session: 0.0,
            };
            bonus += PAIR * weights[*first].min(weights[*second]) * nearby.together(one.norm).sqrt();
        }
        let answer = if one.fit.has_answer { HAS_ANSWER } else { 1.0 };
        Scored { score: (one.scored.score + bonus * one.factor) * answer, ..one.scored }
    };
    looked_at.iter().map(rescore).collect()
}

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

/// The weight of two terms that stand together, compared with the lighter of the two.
const PAIR: f32 = 0.5;
/// The factor of a text that has what the question asks for.
const HAS_ANSWER: f32 = 1.15;
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
        let words: Vec<String> = (0..300).map(|n| format!("word{n}")).collect();
        let long = words.join(" ");
        assert!(repeats("Restart the build, please.", "restart the build please"));
        assert!(repeats(&long, &format!("{long} and one more")));
        assert!(!repeats("The sprint ends on May 3", "The sprint ends on May 10"), "the date was moved");
        assert!(!repeats("restart the build", "restart the server and then the build"));
        assert!(!repeats(&long, &long.replace("word", "other")));
        assert!(repeats("", ""));
    }

    fn looked_at(ordinal: u64, role: &str, fit: TextFit) -> LookedAt {
        let scored = Scored { score: 1.0, second: 0, segment: 0, doc: ordinal as u32 };
        LookedAt { scored, factor: 1.0, norm: 10, stream: 1, ordinal, role: role.to_owned(), fit }
    }

    #[test]
    fn words_that_stand_together_add_to_a_score_and_to_that_of_neighbours() {
        let question = Question::new(&Query::parse("colour of the kitchen tiles", 0).unwrap());
        let weights = vec![2.0; question.terms.len()];
        let matcher = Matcher::of_question(&question, &weights);
        let fit = |text: &str| TextFit::of(text, &question, &weights, &matcher);
        let texts =
            ["the kitchen tiles are grey", "good", "tiles for the bath, and much later for the kitchen"];
        let all: Vec<LookedAt> = (0..).zip(texts).map(|(n, text)| looked_at(n, "user", fit(text))).collect();
        let scores =
            |scope| rescored(&all, &question, &weights, scope).iter().map(|s| s.score).collect::<Vec<_>>();
        let together = scores(ScoreScope::Conversation);
        assert!(together[0] > together[1] && together[1] >= together[2] && together[2] > 1.0, "{together:?}");
        assert_eq!(scores(ScoreScope::Alone)[1..], [1.0, 1.0]);
        assert!(fit("Which colour? Kitchen tiles").has_all && !fit("kitchen tiles").has_all);
    }
}
