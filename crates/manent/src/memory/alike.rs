//! Which items say the same, nearly the same, or the opposite. Without a model: by their words alone.
//!
//! Near duplicates are found by what their sets of words share (min-wise hashing picks the candidates, so that a
//! million items need not be compared with a million others; each candidate is then compared in full). Contradictions
//! are guesses, and called so: the same words once with a negation and once without; the same sentence with other
//! numbers; the same sentence up to its last word. What a day brought is compared with what that day brought alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use manent_index::words::{Words, is_stop, stem};

/// What is compared of an item.
#[derive(Debug)]
pub(super) struct Traits {
    pub(super) id: u64,
    /// Of the words in their order, accents and case aside.
    exact: u64,
    /// The words that carry meaning, sorted, without negations.
    words: Vec<u32>,
    negated: bool,
    /// Of the sentence with its numbers left out, and of the numbers, if it has any.
    numbers: Option<(u64, u64)>,
    /// Of the sentence without its last word, and of that word, where such a sentence can be true of one word only.
    ending: Option<(u64, u64)>,
}

impl Traits {
    /// Of what is only true of a day, that day: it is compared with what the same day brought.
    pub(super) fn of(id: u64, content: &str, day: Option<i64>) -> Traits {
        let seed = day.map_or(SEED, |day| mix(SEED, day.cast_unsigned()));
        let (mut exact, mut words, mut negated) = (seed, Vec::new(), false);
        let (mut frame, mut numbers, mut has_numbers) = (seed, SEED, false);
        let mut told: Vec<u64> = Vec::new();
        let (mut single, mut said_of, mut before) = (false, false, String::new());
        Words::default().split(content, |term, _| {
            exact = mix(exact, hash(term));
            if NEGATIONS.contains(&term) {
                negated = !negated;
                return;
            }
            // "ticket 12 is open" and "ticket 13 is open" are about two things; "the port is 12" and "13" about one.
            if said_of && term.bytes().any(|byte| byte.is_ascii_digit()) {
                numbers = mix(numbers, hash(term));
                has_numbers = true;
            } else {
                frame = mix(frame, hash(term));
            }
            let stem = stem(term);
            single |= SINGLE.contains(&stem.as_ref()) || SINGLE_WITH.contains(&(before.as_str(), term));
            before.clear();
            before.push_str(&stem);
            if is_stop(term) {
                said_of |= !told.is_empty();
                return;
            }
            told.push(mix(seed, hash(&stem)));
            words.push(mix(seed, hash(&stem)) as u32);
        });
        words.sort_unstable();
        words.dedup();
        let ending = match told.split_last() {
            Some((last, before)) if before.len() >= 2 || (single && !before.is_empty()) => (before.len()
                < LONG_SENTENCE)
                .then(|| (before.iter().fold(SEED, |all, one| mix(all, *one)), *last)),
            _ => None,
        };
        let ending = ending.filter(|_| single);
        Traits { id, exact, words, negated, numbers: has_numbers.then_some((frame, numbers)), ending }
    }
}

/// Items that have something to do with each other.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// Items that say what an older one says, to the letter: both.
    pub(super) same: Vec<(u64, u64)>,
    /// Nearly.
    pub(super) near: Vec<(u64, u64)>,
    /// Items that may contradict each other.
    pub(super) against: Vec<(u64, u64)>,
}

/// What two texts have to do with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// They say the same, to the letter.
    Same,
    /// Nearly.
    Near,
    /// They may contradict each other.
    Against,
    None,
}

impl Likeness {
    /// Of an older text and a newer one.
    pub(crate) fn of(older: &str, newer: &str) -> Likeness {
        let alike = compare(&[Traits::of(1, older, None), Traits::of(2, newer, None)]);
        match alike {
            Alike { same, .. } if !same.is_empty() => Likeness::Same,
            Alike { against, .. } if !against.is_empty() => Likeness::Against,
            Alike { near, .. } if !near.is_empty() => Likeness::Near,
            _ => Likeness::None,
        }
    }
}

/// Compares all with all.
pub(super) fn compare(items: &[Traits]) -> Alike {
    let mut alike = Alike::default();
    let mut first_of: HashMap<u64, usize> = HashMap::with_capacity(items.len());
    let mut distinct = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match first_of.entry(item.exact) {
            Entry::Occupied(first) => alike.same.push((items[*first.get()].id, item.id)),
            Entry::Vacant(slot) => {
                slot.insert(at);
                distinct.push(item);
            }
        }
    }
    nearly(&distinct, &mut alike);
    by_key(&distinct, |item| item.numbers, &mut alike.against);
    by_key(&distinct, |item| item.ending, &mut alike.against);
    for pairs in [&mut alike.near, &mut alike.against] {
        pairs.sort_unstable();
        pairs.dedup();
    }
    // What differs in a number or in its last word is no duplicate.
    let against = &alike.against;
    alike.near.retain(|pair| against.binary_search(pair).is_err());
    alike
}

/// Items that share a key and differ in what goes with it. Each is compared with the last one before it.
fn by_key(items: &[&Traits], key: impl Fn(&Traits) -> Option<(u64, u64)>, pairs: &mut Vec<(u64, u64)>) {
    let mut last: HashMap<u64, (u64, u64)> = HashMap::new();
    for item in items {
        let Some((frame, value)) = key(item) else { continue };
        if let Some((other, id)) = last.insert(frame, (value, item.id))
            && other != value
        {
            pairs.push(ordered(id, item.id));
        }
    }
}

/// Items whose words are nearly the same: duplicates, or the opposite of each other.
fn nearly(items: &[&Traits], alike: &mut Alike) {
    let mut buckets: HashMap<(usize, u64), Vec<usize>> = HashMap::new();
    for (at, item) in items.iter().enumerate().filter(|(_, item)| item.words.len() >= WORDS_MIN) {
        let mut compared = Vec::new();
        for (band, key) in signature(&item.words).chunks(BAND_ROWS).enumerate() {
            let key = key.iter().fold(SEED, |all, row| mix(all, *row));
            let bucket = buckets.entry((band, key)).or_default();
            for other in bucket.iter().filter(|other| !compared.contains(*other)) {
                let shared = shared_percent(&items[*other].words, &item.words);
                let pair = ordered(items[*other].id, item.id);
                if items[*other].negated != item.negated && shared >= OPPOSITE {
                    alike.against.push(pair);
                } else if shared >= NEAR {
                    alike.near.push(pair);
                }
            }
            compared.extend_from_slice(bucket);
            // Of many that are alike, comparing with some of them is enough to be found.
            if bucket.len() < BUCKET_MAX {
                bucket.push(at);
            }
        }
    }
}

/// For each of many orders of all words, the first word of the set.
fn signature(words: &[u32]) -> [u64; BANDS * BAND_ROWS] {
    std::array::from_fn(|row| {
        let salt = mix(SEED, row as u64);
        words.iter().map(|word| mix(salt, u64::from(*word))).min().unwrap_or(0)
    })
}

/// How much of two sets is in both, of what is in either, in percent.
fn shared_percent(a: &[u32], b: &[u32]) -> usize {
    let (mut at, mut other, mut shared) = (0, 0, 0_usize);
    while let (Some(x), Some(y)) = (a.get(at), b.get(other)) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => at += 1,
            std::cmp::Ordering::Greater => other += 1,
            std::cmp::Ordering::Equal => {
                shared += 1;
                at += 1;
                other += 1;
            }
        }
    }
    shared * 100 / (a.len() + b.len() - shared).max(1)
}

fn ordered(a: u64, b: u64) -> (u64, u64) {
    (a.min(b), a.max(b))
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(SEED, |all, byte| mix(all, u64::from(byte)))
}

fn mix(all: u64, one: u64) -> u64 {
    let x = (all ^ one).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 29)
}

const SEED: u64 = 0x243F_6A88_85A3_08D3;
const BANDS: usize = 8;
const BAND_ROWS: usize = 4;
const BUCKET_MAX: usize = 32;
/// Fewer words than these tell nothing.
const WORDS_MIN: usize = 2;
/// What two items share that say nearly the same, in percent.
const NEAR: usize = 80;
/// What two items share of which one denies the other, in percent.
const OPPOSITE: usize = 75;
/// In a longer sentence the last word is not what it is about.
const LONG_SENTENCE: usize = 8;
/// Words that turn a sentence round; the last ones are what is left of contractions.
const NEGATIONS: [&str; 14] = [
    "not", "no", "never", "don", "doesn", "isn", "won", "aren", "wasn", "didn", "dislikes", "nicht", "kein",
    "pas",
];
/// Stems of words that say of one thing at a time.
const SINGLE: [&str; 14] = [
    "name", "call", "born", "birthday", "port", "version", "deadlin", "password", "editor", "favourit",
    "favorit", "default", "timezon", "main",
];
/// Those that do so with the word behind them alone: one lives in one place, and with many.
const SINGLE_WITH: [(&str, &str); 5] =
    [("live", "in"), ("live", "at"), ("work", "at"), ("work", "for"), ("work", "as")];

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(texts: &[&str]) -> Alike {
        compare(&(1..).zip(texts).map(|(id, text)| Traits::of(id, text, None)).collect::<Vec<_>>())
    }

    #[test]
    fn the_same_in_other_letters_is_the_same() {
        let alike = compared(&["Tabs, not spaces.", "tabs not spaces", "something else entirely"]);
        assert_eq!(alike.same, [(1, 2)]);
        assert!(alike.near.is_empty() && alike.against.is_empty(), "{alike:?}");
    }

    #[test]
    fn nearly_the_same_is_found_in_a_crowd() {
        let mut texts: Vec<String> =
            (0..500).map(|n| format!("note {n}: topic{n} about thing{n} and place{n}")).collect();
        texts.push("the deploy script needs the staging credentials before it runs on friday evening".into());
        texts.push("deploy script needs staging credentials before it runs on a friday evening".into());
        let alike = compared(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(alike.near, [(501, 502)]);
        assert!(alike.same.is_empty());
    }

    #[test]
    fn opposites_are_guessed() {
        for (a, b) in [
            ("the user likes long answers", "the user does not like long answers"),
            ("the API listens on port 8080", "the API listens on port 9090"),
            ("Anna lives in Lyon", "Anna lives in Berlin"),
            ("budget is 300 euro per month", "budget is 500 euro per month"),
        ] {
            assert_eq!(compared(&[a, "nothing of the kind was said", b]).against, [(1, 3)], "{a} / {b}");
        }
        for (a, b) in [
            ("likes tea", "likes walks"),
            ("the build takes long", "the tests take long"),
            ("Anna lives in Lyon", "Ben lives in Berlin"),
        ] {
            assert!(compared(&[a, b]).against.is_empty(), "{a} / {b}");
        }
    }

    #[test]
    fn a_million_of_one_kind_is_no_trouble() {
        let items: Vec<Traits> = (0..50_000)
            .map(|n| Traits::of(n, &format!("alpha is beta gamma delta epsilon {n}"), None))
            .collect();
        let alike = compare(&items);
        assert!(!alike.against.is_empty());
    }
}
