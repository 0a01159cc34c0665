//! A summary without a model: requests, decisions, and the names of everything that matters, quoted.
//!
//! A conversation must not lose its file paths, numbers, identifiers, decisions and open tasks. Each sentence is worth
//! the things it names that are not yet in the summary, more if the user said it or if it decides something, and costs
//! its length. The best sentences are taken until their share of the budget is used up, and put back into their order.
//! A thing counts by who named it and how often: a thing that only a tool put out, once, is mostly noise. The rest of
//! the budget names things that could not be quoted, a number with the words next to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt::Write as _;

use crate::tokens::Tokens;

/// A turn, or a line of an earlier summary.
pub(super) struct Line<'a> {
    /// The number of the record; 0 for a line of the earlier summary.
    pub(super) seq: u64,
    pub(super) role: &'a str,
    pub(super) text: &'a str,
}

/// Scores how much of what matters in the lines a summary names.
pub(super) fn coverage(lines: &[Line<'_>], summary: &str, tokens: Tokens) -> u64 {
    let sentences = all_sentences(lines, tokens);
    let named = importance(lines, &sentences);
    named.into_iter().filter(|(name, _)| summary.contains(name)).map(|(_, counts)| counts).sum()
}

/// A summary that takes at most so many tokens.
pub(super) fn extract(lines: &[Line<'_>], budget: u64, tokens: Tokens) -> String {
    let sentences = all_sentences(lines, tokens);
    let mut open = importance(lines, &sentences);
    let mut left = budget * QUOTED_PERCENT / 100;
    let mut taken = vec![false; sentences.len()];
    // What a sentence is worth only falls as others are taken: one that is still worth more than any other was before
    // is the best.
    let mut heap: BinaryHeap<(u64, Reverse<usize>)> =
        sentences.iter().enumerate().map(|(at, sentence)| (sentence.worth(&open), Reverse(at))).collect();
    while let Some((_, Reverse(at))) = heap.pop() {
        let (sentence, worth) = (&sentences[at], sentences[at].worth(&open));
        if heap.peek().is_some_and(|(next, _)| *next > worth) {
            heap.push((worth, Reverse(at)));
            continue;
        }
        if worth > 0 && sentence.cost <= left {
            taken[at] = true;
            left -= sentence.cost;
            for thing in &sentence.things {
                open.remove(thing.name);
            }
        }
    }
    let mut out = quoted(lines, &sentences, &taken);
    let used = tokens.count(&out);
    name_the_rest(&sentences, &mut open, budget.saturating_sub(used), tokens, &mut out);
    out
}

fn all_sentences<'a>(lines: &[Line<'a>], tokens: Tokens) -> Vec<Sentence<'a>> {
    let mut sentences = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        for text in sentences_of(line) {
            sentences.push(Sentence::new(number, line, text, tokens));
        }
    }
    sentences
}

struct Sentence<'a> {
    /// The line that it stands in.
    line: usize,
    text: &'a str,
    things: Vec<Thing<'a>>,
    /// The value of the sentence besides the things it names.
    weight: u64,
    cost: u64,
}

/// A thing with a name.
struct Thing<'a> {
    name: &'a str,
    /// The name, or a number with the words beside it.
    shown: &'a str,
}

impl<'a> Sentence<'a> {
    fn new(number: usize, line: &Line<'a>, text: &'a str, tokens: Tokens) -> Sentence<'a> {
        let lower = text.to_lowercase();
        let cues = CUES.iter().filter(|cue| lower.contains(*cue)).count().min(CUES_MAX) as u64;
        let weight = match (line.seq, line.role) {
            (0, _) => SUMMARY_WEIGHT,
            (_, "tool") => 0,
            (_, "user") => USER_WEIGHT + cues * CUE_WEIGHT,
            _ => cues * CUE_WEIGHT,
        };
        Sentence {
            line: number,
            text,
            things: things_in(text),
            weight,
            cost: tokens.count(text) + SENTENCE_TOKENS,
        }
    }

    /// Returns the value of what the sentence names or decides and no taken sentence does, relative to its length.
    fn worth(&self, open: &HashMap<&str, u64>) -> u64 {
        let new: u64 = self.things.iter().filter_map(|thing| open.get(thing.name)).sum();
        (new + self.weight) * 1_000_000 / (self.cost + SHORT_TOKENS)
    }
}

/// Weighs each thing by who named it and in how many turns.
fn importance<'a>(lines: &[Line<'_>], sentences: &[Sentence<'a>]) -> HashMap<&'a str, u64> {
    let mut named: HashMap<&str, (u64, u64, usize)> = HashMap::new();
    for sentence in sentences {
        let line = &lines[sentence.line];
        let by = match line.role {
            _ if line.seq == 0 => NAMED_BY_MODEL,
            "user" => NAMED_BY_USER,
            "tool" => NAMED_BY_TOOL,
            _ => NAMED_BY_MODEL,
        };
        for thing in &sentence.things {
            let (most, turns, last) = named.entry(thing.name).or_insert((0, 0, usize::MAX));
            *most = (*most).max(by);
            *turns += u64::from(*last != sentence.line);
            *last = sentence.line;
        }
    }
    let counts = |(most, turns, _): (u64, u64, usize)| most * (2 + turns.min(TURNS_COUNTED)) / 3;
    named.into_iter().map(|(name, seen)| (name, counts(seen))).collect()
}

/// The sentences that were taken, by turn.
fn quoted(lines: &[Line<'_>], sentences: &[Sentence<'_>], taken: &[bool]) -> String {
    let (mut out, mut last) = (String::new(), usize::MAX);
    for (sentence, _) in sentences.iter().zip(taken).filter(|(_, taken)| **taken) {
        let line = &lines[sentence.line];
        let _ = match (line.seq, sentence.line == last) {
            // What stood in a summary before has its number already.
            (0, _) => write!(out, "\n{}", sentence.text),
            (_, true) => write!(out, " … {}", sentence.text),
            (seq, false) => write!(out, "\n#{seq} {}: {}", line.role, sentence.text),
        };
        last = sentence.line;
    }
    out.trim_start().to_owned()
}

/// Names things that no taken sentence names, the most important first, as far as there is room.
fn name_the_rest<'a>(
    sentences: &[Sentence<'a>],
    open: &mut HashMap<&'a str, u64>,
    budget: u64,
    tokens: Tokens,
    out: &mut String,
) {
    let mut things: Vec<(u64, usize, &Thing<'_>)> = Vec::new();
    for thing in sentences.iter().flat_map(|sentence| &sentence.things) {
        if let Some(counts) = open.remove(thing.name) {
            things.push((counts, things.len(), thing));
        }
    }
    things.sort_by_key(|(counts, order, _)| (Reverse(*counts), *order));
    let (mut named, mut used) = (Vec::new(), SENTENCE_TOKENS * 2);
    for (_, order, thing) in things {
        let cost = tokens.count(thing.shown) + NAME_TOKENS;
        if used + cost <= budget {
            used += cost;
            named.push((order, thing.shown));
        }
    }
    named.sort_unstable();
    if !named.is_empty() {
        let named: Vec<&str> = named.into_iter().map(|(_, shown)| shown).collect();
        let _ = write!(out, "\nAlso named: {}", named.join("; "));
    }
}

/// Splits a line into sentences of bounded length; the lines of a summary stay as they are.
fn sentences_of<'a>(line: &Line<'a>) -> Vec<&'a str> {
    let max = if line.role == "user" { USER_BYTES_MAX } else { SENTENCE_BYTES_MAX };
    let mut sentences = Vec::new();
    for text in line.text.lines().map(str::trim) {
        if line.seq == 0 {
            sentences.push(text);
            continue;
        }
        let mut rest = text;
        while !rest.is_empty() {
            let (sentence, left) = rest.split_at(end_of_sentence(rest, max));
            sentences.push(sentence.trim());
            rest = left.trim_start();
        }
    }
    sentences.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    sentences
}

/// Returns the end of the first sentence; a long one ends at its clauses.
fn end_of_sentence(text: &str, max: usize) -> usize {
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if c.is_whitespace() {
            let ends = matches!(before, '.' | '!' | '?' | ';' | '。');
            let ends_clause = at >= max / 2 && matches!(before, ',' | ':' | '—' | '–' | '-' | ')');
            if ends || ends_clause || at >= max {
                return at;
            }
        } else if at >= max * 2 {
            return at;
        }
        before = c;
    }
    text.len()
}

/// Paths, numbers, identifiers and addresses: what is lost if it is not written down.
fn things_in(text: &str) -> Vec<Thing<'_>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut things: Vec<Thing<'_>> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let name = bare(word);
        if !is_thing(name) || things.iter().any(|known| known.name == name) {
            continue;
        }
        let is_number = name.bytes().filter(u8::is_ascii_alphabetic).count() < 3;
        let shown = if is_number { with_neighbours(text, &words, at) } else { name };
        things.push(Thing { name, shown });
    }
    things
}

/// A word without what stands around it.
fn bare(word: &str) -> &str {
    let around = |c: char| "\"'`,;()[]{}<>|*.:!?=„“”’".contains(c);
    word.trim_matches(around)
}

/// A number with the word before it and the word behind it: alone it says nothing.
fn with_neighbours<'a>(text: &'a str, words: &[&'a str], at: usize) -> &'a str {
    let place = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let start = if at > 0 { place(words[at - 1]) } else { place(words[at]) };
    let end = words.get(at + 1).map_or(place(words[at]) + words[at].len(), |next| place(next) + next.len());
    bare(text.get(start..end).unwrap_or(words[at]))
}

fn is_thing(word: &str) -> bool {
    if !(2..=THING_BYTES_MAX).contains(&word.len()) {
        return false;
    }
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let inner = word.get(1..).unwrap_or_default();
    let is_path =
        word.contains('/') || word.split_once('.').is_some_and(|(a, b)| !a.is_empty() && b.len() > 1);
    let is_joined =
        inner.contains('_') || inner.contains("::") || inner.contains('@') || word.starts_with("--");
    let is_mixed =
        inner.bytes().any(|b| b.is_ascii_uppercase()) && word.bytes().any(|b| b.is_ascii_lowercase());
    let is_name =
        word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-' || b.is_ascii_digit());
    digits > 0 || is_path || is_joined || is_mixed || is_name
}

/// Beginnings of words of decisions, tasks and failures.
const CUES: [&str; 34] = [
    "decid", "agree", "we will", "let's", "must", "should", "todo", "next", "need", "plan", "instead",
    "never", "always", "prefer", "fix", "fail", "error", "because", "block", "open", "remember", "until",
    "deadline", "chose", "switch", "keep", "don't", "do not", "wait for", "remaini", "still", "we take",
    "leave", "please",
];
const CUES_MAX: usize = 3;
/// Weights, in hundredths.
const CUE_WEIGHT: u64 = 120;
const USER_WEIGHT: u64 = 250;
const SUMMARY_WEIGHT: u64 = 300;
const NAMED_BY_USER: u64 = 200;
const NAMED_BY_MODEL: u64 = 120;
const NAMED_BY_TOOL: u64 = 12;
/// Being named in more turns than these makes nothing more important.
const TURNS_COUNTED: u64 = 4;
/// Short sentences are not that much better than long ones.
const SHORT_TOKENS: u64 = 6;
/// The tokens of a sentence besides its text.
const SENTENCE_TOKENS: u64 = 3;
/// The tokens of a name besides the name.
const NAME_TOKENS: u64 = 2;
/// The rest is for names alone.
const QUOTED_PERCENT: u64 = 70;
const SENTENCE_BYTES_MAX: usize = 160;
const USER_BYTES_MAX: usize = 300;
const THING_BYTES_MAX: usize = 120;
