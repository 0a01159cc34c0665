//! The audit of a memory: duplicates, contradictions, items without evidence, secrets, items that nobody needs.
//!
//! Items are compared by their words, without a model. Near duplicates share most of their words: [`MinHash`]
//! signatures pick the candidates, so that a million items need not be compared with a million others, and each
//! candidate is then compared in full. Contradictions are guesses, and reported as such: the same words once with a
//! negation and once without, the same sentence with other numbers, or the same sentence up to its last word. Items of
//! kind `daily` are compared only with items of the same day.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use manent_index::english::{is_stop, stem};
use manent_index::words::Words;

use super::provenance::Provenance;
use super::{Counts, Filter, Kind, Memory};
use crate::error::Result;
use crate::secrets::secrets;
use crate::similarity::{MinHash, mix};

/// The findings of an audit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audit {
    /// The numbers of items and lines in the file.
    pub counts: Counts,
    /// Lines that cannot be read.
    pub damaged: u64,
    /// Items that repeat an older one, to the letter.
    pub same: Rate,
    /// Items that nearly do.
    pub near: Rate,
    /// Items that do not rest on the word of a person: no quote, or one that is not where it should be.
    pub ungrounded: Rate,
    /// Items among the ungrounded whose quote was said by a model or a tool.
    pub not_said_by_user: Rate,
    /// Items that look like credentials.
    pub secret: Rate,
    /// Items that were never put into a context.
    pub never_recalled: Rate,
    /// Items that may contradict another one.
    pub contradictory: Rate,
    /// Items to which any of this applies, but for not having been recalled.
    pub flawed: Rate,
    /// Pairs of items that repeat each other; only some if there are very many.
    pub same_pairs: Vec<Pair>,
    /// Pairs of near duplicates.
    pub near_pairs: Vec<Pair>,
    /// Pairs that may contradict each other.
    pub contradictions: Vec<Pair>,
}

/// The number and share of items with a flaw, and the ids of some of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rate {
    /// The number of items.
    pub items: usize,
    /// The share of all active items, between 0 and 1.
    pub rate: f64,
    /// Their ids, newest first.
    pub ids: Vec<u64>,
}

/// Two items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The one with the lower id.
    pub older: u64,
    /// The other.
    pub newer: u64,
}

impl Memory {
    /// Looks at every active item.
    pub fn audit(&self) -> Result<Audit> {
        let recalls = self.recalls()?;
        let mut seen: Vec<(Fingerprint, Flaws)> = Vec::new();
        let mut failed = None;
        self.each(&Filter::default(), |item| {
            let provenance = match self.provenance(&item.source) {
                Ok(provenance) => provenance,
                Err(e) => {
                    failed = Some(e);
                    return false;
                }
            };
            let day = (item.kind == Kind::Daily).then(|| item.at_ms.div_euclid(DAY_MS));
            let flaws = Flaws {
                ungrounded: !provenance.is_grounded(),
                by_others: matches!(provenance, Provenance::Quoted { .. }) && !provenance.is_grounded(),
                secret: !secrets(&item.content).is_empty(),
                unrecalled: !recalls.contains_key(&item.id),
                ..Flaws::default()
            };
            seen.push((Fingerprint::new(item.id, &item.content, day), flaws));
            true
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        let mut audit = judge(seen);
        audit.counts = self.counts()?;
        audit.damaged = self.damage()?.iter().map(|damage| damage.lines.max(1)).sum();
        Ok(audit)
    }
}

/// `seen` is newest first.
#[expect(clippy::cast_precision_loss, reason = "a rate, to be read by people")]
fn judge(seen: Vec<(Fingerprint, Flaws)>) -> Audit {
    let all = seen.len();
    let mut flaws: HashMap<u64, Flaws> = HashMap::new();
    let mut order = Vec::with_capacity(all);
    let mut fingerprints = Vec::with_capacity(all);
    for (fingerprint, flaw) in seen {
        order.push(fingerprint.id);
        flaws.insert(fingerprint.id, flaw);
        fingerprints.push(fingerprint);
    }
    // Oldest first: of two that say the same, the newer one repeats the older.
    fingerprints.reverse();
    let related = compare(&fingerprints);
    let mut mark = |id: u64, set: fn(&mut Flaws)| set(flaws.entry(id).or_default());
    related.same.iter().for_each(|(_, newer)| mark(*newer, |flaw| flaw.same = true));
    related.near.iter().for_each(|(_, newer)| mark(*newer, |flaw| flaw.near = true));
    for (a, b) in &related.contradictory {
        mark(*a, |flaw| flaw.contradictory = true);
        mark(*b, |flaw| flaw.contradictory = true);
    }
    let rate = |has: fn(&Flaws) -> bool| {
        let with = order.iter().filter(|id| flaws.get(*id).is_some_and(has));
        let items = with.clone().count();
        let rate = if all == 0 { 0.0 } else { items as f64 / all as f64 };
        Rate { items, rate, ids: with.take(EXAMPLES_MAX).copied().collect() }
    };
    Audit {
        counts: Counts::default(),
        damaged: 0,
        same: rate(|flaw| flaw.same),
        near: rate(|flaw| flaw.near),
        ungrounded: rate(|flaw| flaw.ungrounded),
        not_said_by_user: rate(|flaw| flaw.by_others),
        secret: rate(|flaw| flaw.secret),
        never_recalled: rate(|flaw| flaw.unrecalled),
        contradictory: rate(|flaw| flaw.contradictory),
        flawed: rate(|flaw| flaw.same || flaw.near || flaw.ungrounded || flaw.secret || flaw.contradictory),
        same_pairs: pairs(&related.same),
        near_pairs: pairs(&related.near),
        contradictions: pairs(&related.contradictory),
    }
}

#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one question, and they are asked one by one")]
struct Flaws {
    same: bool,
    near: bool,
    ungrounded: bool,
    by_others: bool,
    secret: bool,
    unrecalled: bool,
    contradictory: bool,
}

fn pairs(ids: &[(u64, u64)]) -> Vec<Pair> {
    ids.iter().take(EXAMPLES_MAX).map(|(older, newer)| Pair { older: *older, newer: *newer }).collect()
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// The number of ids and pairs that an audit names.
const EXAMPLES_MAX: usize = 100;

/// The properties of an item's text that are compared.
#[derive(Debug)]
pub(super) struct Fingerprint {
    pub(super) id: u64,
    /// A hash of the words in their order, without accents and case.
    exact: u64,
    /// Hashes of the stems that carry meaning, sorted, without negations.
    words: Vec<u32>,
    negated: bool,
    /// Hashes of the sentence without its numbers and of the numbers, if it has any.
    numbers: Option<(u64, u64)>,
    /// Hashes of the sentence without its last word and of that word, where only one such word can be true.
    ending: Option<(u64, u64)>,
}

impl Fingerprint {
    /// Computes the fingerprint of a text. Texts with different `day`s have nothing in common.
    pub(super) fn new(id: u64, content: &str, day: Option<i64>) -> Fingerprint {
        let seed = day.map_or(SEED, |day| combine(SEED, day.cast_unsigned()));
        let (mut exact, mut words, mut negated) = (seed, Vec::new(), false);
        let (mut frame, mut numbers, mut has_numbers) = (seed, SEED, false);
        let mut stems: Vec<u64> = Vec::new();
        let (mut single, mut is_predicate, mut before) = (false, false, String::new());
        Words::default().split(content, |term, _| {
            exact = combine(exact, hash(term));
            if NEGATIONS.contains(&term) {
                negated = !negated;
                return;
            }
            // "ticket 12 is open" and "ticket 13 is open" are about two things; "the port is 12" and "13" about one.
            if is_predicate && term.bytes().any(|byte| byte.is_ascii_digit()) {
                numbers = combine(numbers, hash(term));
                has_numbers = true;
            } else {
                frame = combine(frame, hash(term));
            }
            let stem = stem(term);
            single |= SINGLE.contains(&stem.as_ref()) || SINGLE_WITH.contains(&(before.as_str(), term));
            before.clear();
            before.push_str(&stem);
            if is_stop(term) {
                is_predicate |= !stems.is_empty();
                return;
            }
            stems.push(combine(seed, hash(&stem)));
            words.push(combine(seed, hash(&stem)) as u32);
        });
        words.sort_unstable();
        words.dedup();
        let ending = stems.split_last().filter(|(_, before)| single && !before.is_empty());
        let ending = ending.filter(|(_, before)| before.len() < LONG_SENTENCE);
        let ending = ending.map(|(last, before)| (before.iter().copied().fold(SEED, combine), *last));
        Fingerprint { id, exact, words, negated, numbers: has_numbers.then_some((frame, numbers)), ending }
    }
}

/// Pairs of related items, the older id first.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) same: Vec<(u64, u64)>,
    pub(super) near: Vec<(u64, u64)>,
    pub(super) contradictory: Vec<(u64, u64)>,
}

/// The relation of two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    Same,
    Near,
    /// They may contradict each other.
    Contradictory,
    Unrelated,
}

impl Relation {
    pub(crate) fn between(older: &str, newer: &str) -> Relation {
        match compare(&[Fingerprint::new(1, older, None), Fingerprint::new(2, newer, None)]) {
            Comparison { same, .. } if !same.is_empty() => Relation::Same,
            Comparison { contradictory, .. } if !contradictory.is_empty() => Relation::Contradictory,
            Comparison { near, .. } if !near.is_empty() => Relation::Near,
            _ => Relation::Unrelated,
        }
    }
}

/// Finds the related pairs among all items.
pub(super) fn compare(items: &[Fingerprint]) -> Comparison {
    let mut found = Comparison::default();
    let mut first_of: HashMap<u64, u64> = HashMap::with_capacity(items.len());
    let mut distinct = Vec::with_capacity(items.len());
    for item in items {
        match first_of.entry(item.exact) {
            Entry::Occupied(first) => found.same.push((*first.get(), item.id)),
            Entry::Vacant(slot) => {
                slot.insert(item.id);
                distinct.push(item);
            }
        }
    }
    compare_words(&distinct, &mut found);
    pair_by_key(&distinct, |item| item.numbers, &mut found.contradictory);
    pair_by_key(&distinct, |item| item.ending, &mut found.contradictory);
    for pairs in [&mut found.near, &mut found.contradictory] {
        pairs.sort_unstable();
        pairs.dedup();
    }
    // Two texts that differ in a number or in their last word are not duplicates.
    let contradictory = &found.contradictory;
    found.near.retain(|pair| contradictory.binary_search(pair).is_err());
    found
}

/// Pairs items that share a key but not its value. Each is compared with the last one before it.
fn pair_by_key(
    items: &[&Fingerprint],
    key: impl Fn(&Fingerprint) -> Option<(u64, u64)>,
    pairs: &mut Vec<(u64, u64)>,
) {
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

/// Finds items that share most of their words: near duplicates, or the negation of each other.
fn compare_words(items: &[&Fingerprint], found: &mut Comparison) {
    let mut buckets: HashMap<(usize, u32), Vec<usize>> = HashMap::new();
    for (at, item) in items.iter().enumerate().filter(|(_, item)| item.words.len() >= WORDS_MIN) {
        let mut set = MinHash::default();
        item.words.iter().for_each(|word| set.insert(u64::from(*word)));
        let mut compared = Vec::new();
        for band in set.signature().bands().enumerate() {
            let bucket = buckets.entry(band).or_default();
            for other in bucket.iter().filter(|other| !compared.contains(*other)) {
                let shared = shared_percent(&items[*other].words, &item.words);
                let pair = ordered(items[*other].id, item.id);
                if items[*other].negated != item.negated && shared >= OPPOSITE {
                    found.contradictory.push(pair);
                } else if shared >= NEAR {
                    found.near.push(pair);
                }
            }
            compared.extend_from_slice(bucket);
            // In a crowd of similar items, comparing with some of them is enough to be found.
            if bucket.len() < BUCKET_MAX {
                bucket.push(at);
            }
        }
    }
}

/// Returns the Jaccard similarity of two sorted sets, in percent.
fn shared_percent(a: &[u32], b: &[u32]) -> usize {
    let shared = a.iter().filter(|word| b.binary_search(word).is_ok()).count();
    shared * 100 / (a.len() + b.len() - shared).max(1)
}

fn ordered(a: u64, b: u64) -> (u64, u64) {
    (a.min(b), a.max(b))
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(SEED, |all, byte| combine(all, u64::from(byte)))
}

fn combine(all: u64, one: u64) -> u64 {
    mix(all.rotate_left(5) ^ one)
}

const SEED: u64 = 0x243F_6A88_85A3_08D3;
const BUCKET_MAX: usize = 32;
/// Texts with fewer words are not compared by words: a single common word says nothing.
const WORDS_MIN: usize = 2;
/// The similarity of near duplicates, in percent.
const NEAR: usize = 80;
/// The similarity from which a negation in only one of two texts counts as a contradiction, in percent.
const OPPOSITE: usize = 75;
/// In a longer sentence the last word is not what it is about.
const LONG_SENTENCE: usize = 8;
/// Words that make an item the opposite of the same item without them. Those like "don" are what the word splitter
/// leaves of contractions, and "dislikes" negates without a word of its own. `consolidate/grounding.rs` has another
/// list, because it looks for the word that is negated: there "don't" is read by its `'t`, and "without", "neither" and
/// "nor" count, which negate a part of an item and do not make two items contradict each other. That list was measured
/// for its purpose; one for both would change which contradictions are reported.
const NEGATIONS: [&str; 14] = [
    "not", "no", "never", "don", "doesn", "isn", "won", "aren", "wasn", "didn", "dislikes", "nicht", "kein",
    "pas",
];
/// Stems of words whose complement can have only one value at a time.
const SINGLE: [&str; 14] = [
    "name", "call", "born", "birthday", "port", "version", "deadlin", "password", "editor", "favourit",
    "favorit", "default", "timezon", "main",
];
/// Stems that do so only together with the next word: people live in one place, but with many others.
const SINGLE_WITH: [(&str, &str); 5] =
    [("live", "in"), ("live", "at"), ("work", "at"), ("work", "for"), ("work", "as")];

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(texts: &[&str]) -> Comparison {
        compare(&(1..).zip(texts).map(|(id, text)| Fingerprint::new(id, text, None)).collect::<Vec<_>>())
    }

    #[test]
    fn the_same_in_other_letters_is_the_same() {
        let found = compared(&["Tabs, not spaces.", "tabs not spaces", "something else entirely"]);
        assert_eq!(found.same, [(1, 2)]);
        assert!(found.near.is_empty() && found.contradictory.is_empty(), "{found:?}");
    }

    #[test]
    fn nearly_the_same_is_found_in_a_crowd() {
        let mut texts: Vec<String> =
            (0..500).map(|n| format!("note {n}: topic{n} about thing{n} and place{n}")).collect();
        texts.push("the deploy script needs the staging credentials before it runs on friday evening".into());
        texts.push("deploy script needs staging credentials before it runs on a friday evening".into());
        let found = compared(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(found.near, [(501, 502)]);
        assert!(found.same.is_empty());
    }

    #[test]
    fn opposites_are_guessed() {
        for (a, b) in [
            ("the user likes long answers", "the user does not like long answers"),
            ("the API listens on port 8080", "the API listens on port 9090"),
            ("Anna lives in Lyon", "Anna lives in Berlin"),
            ("budget is 300 euro per month", "budget is 500 euro per month"),
        ] {
            assert_eq!(
                compared(&[a, "nothing of the kind was said", b]).contradictory,
                [(1, 3)],
                "{a} / {b}"
            );
        }
        for (a, b) in [
            ("likes tea", "likes walks"),
            ("the build takes long", "the tests take long"),
            ("Anna lives in Lyon", "Ben lives in Berlin"),
        ] {
            assert!(compared(&[a, b]).contradictory.is_empty(), "{a} / {b}");
        }
    }

    #[test]
    fn a_million_of_one_kind_is_no_trouble() {
        let items: Vec<Fingerprint> = (0..50_000)
            .map(|n| Fingerprint::new(n, &format!("alpha is beta gamma delta epsilon {n}"), None))
            .collect();
        let found = compare(&items);
        assert!(!found.contradictory.is_empty());
    }
}
