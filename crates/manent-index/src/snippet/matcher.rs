//! Finds in a text what a query asks for, by the same words as the index: one pass, whatever the text and the query.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::query::{Clause, Phrase, Query};
use crate::words::{Words, stem, stem_prefix};

/// What to find, prepared for any number of texts.
#[derive(Debug)]
pub(crate) struct Matcher {
    patterns: Vec<Pattern>,
    /// How many clauses must be satisfied.
    clauses: usize,
    /// Every term that stands in a pattern as it is.
    terms: HashMap<String, usize>,
    /// The first bytes of whatever is looked for: most words of a text begin otherwise.
    first_bytes: Vec<bool>,
    /// The lengths of the terms, a bit each: most words have another.
    lengths: u64,
}

/// Terms in a row.
#[derive(Debug)]
struct Pattern {
    clause: Option<usize>,
    /// The terms that must stand there as they are, as numbers.
    body: Vec<usize>,
    /// For every length of the body that was found: the longest shorter one whose end was found with it.
    fallback: Vec<usize>,
    tail: Tail,
}

/// The last word of a pattern, where it may be one of several.
#[derive(Debug)]
enum Tail {
    None,
    Prefix(String),
    Stem(String),
}

impl Tail {
    fn accepts(&self, term: &str) -> bool {
        match self {
            Tail::None => false,
            Tail::Prefix(start) => term.starts_with(start),
            Tail::Stem(same) => term.starts_with(stem_prefix(same)) && stem(term) == **same,
        }
    }
}

impl Pattern {
    fn length(&self) -> usize {
        self.body.len() + usize::from(!matches!(self.tail, Tail::None))
    }

    /// How many terms of the body are found with one more (Knuth, Morris and Pratt).
    fn step(&self, mut found: usize, term: Option<usize>) -> usize {
        let Some(term) = term else { return 0 };
        loop {
            if self.body.get(found) == Some(&term) {
                return found + 1;
            }
            if found == 0 {
                return 0;
            }
            found = self.fallback[found];
        }
    }
}

impl Matcher {
    /// Finds what a query asks for, to the letter.
    pub(crate) fn of_query(query: &Query) -> Matcher {
        let mut matcher = Matcher::empty();
        for Clause { any } in &query.must {
            for phrase in any {
                matcher.add_phrase(phrase, Some(matcher.clauses));
            }
            matcher.clauses += 1;
        }
        for phrase in query.not.iter().flat_map(|clause| &clause.any) {
            matcher.add_phrase(phrase, None);
        }
        matcher
    }

    /// Finds words with any of these stems.
    pub(crate) fn of_stems<S: AsRef<str>>(stems: &[S]) -> Matcher {
        let mut matcher = Matcher::empty();
        for same in stems.iter().map(AsRef::as_ref).filter(|stem| !stem.is_empty()) {
            matcher.clauses = 1;
            matcher.first_byte(stem_prefix(same));
            let tail = Tail::Stem(same.to_owned());
            matcher.patterns.push(Pattern { clause: Some(0), body: Vec::new(), fallback: vec![0], tail });
        }
        matcher
    }

    /// How often each clause that must be satisfied is in a text; nothing if one of them is not, or anything is that
    /// must not occur.
    pub(crate) fn times(&self, text: &str) -> Option<Vec<u32>> {
        let mut times = vec![0_u32; self.clauses];
        let mut excluded = false;
        self.run(text, |pattern, _| match self.patterns[pattern].clause {
            Some(clause) => times[clause] = times[clause].saturating_add(1),
            None => excluded = true,
        });
        (!excluded && times.iter().all(|times| *times > 0)).then_some(times)
    }

    /// Calls `found` with every place where something stands that was looked for, and which pattern it is.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
        if self.clauses > 0 {
            self.run(text, |pattern, range| {
                if self.patterns[pattern].clause.is_some() {
                    found(pattern, range);
                }
            });
        }
    }

    /// How many patterns there are.
    pub(super) fn patterns(&self) -> usize {
        self.patterns.len()
    }

    /// How many terms a pattern has.
    pub(super) fn length(&self, pattern: usize) -> usize {
        self.patterns[pattern].length()
    }

    fn empty() -> Matcher {
        Matcher {
            patterns: Vec::new(),
            clauses: 0,
            terms: HashMap::new(),
            first_bytes: vec![false; 256],
            lengths: 0,
        }
    }

    fn add_phrase(&mut self, phrase: &Phrase, clause: Option<usize>) {
        let exact = phrase.terms.len() - usize::from(phrase.prefix);
        let mut body = Vec::new();
        for term in &phrase.terms[..exact] {
            self.first_byte(term);
            self.lengths |= length_bit(term);
            let next = self.terms.len();
            body.push(*self.terms.entry(term.clone()).or_insert(next));
        }
        let tail = match phrase.terms.last() {
            Some(start) if phrase.prefix => {
                self.first_byte(start);
                Tail::Prefix(start.clone())
            }
            _ => Tail::None,
        };
        let fallback = fallback(&body);
        self.patterns.push(Pattern { clause, body, fallback, tail });
    }

    fn first_byte(&mut self, start: &str) {
        match start.bytes().next() {
            Some(byte) => self.first_bytes[usize::from(byte)] = true,
            None => self.first_bytes.fill(true),
        }
    }

    fn run(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
        if self.patterns.is_empty() {
            return;
        }
        let longest = self.patterns.iter().map(Pattern::length).max().unwrap_or(1);
        let mut states = vec![0; self.patterns.len()];
        let mut any_begun = false;
        // Where the last words began, the newest last.
        let mut starts: VecDeque<usize> = VecDeque::with_capacity(longest + 1);
        Words::default().split(text, |term, range| {
            if longest > 1 {
                starts.push_back(range.start);
                if starts.len() > longest {
                    starts.pop_front();
                }
            }
            let known = term.bytes().next().is_some_and(|byte| self.first_bytes[usize::from(byte)]);
            if !known && !any_begun {
                return;
            }
            let may_be = known && self.lengths & length_bit(term) != 0;
            let number = if may_be { self.terms.get(term).copied() } else { None };
            any_begun = false;
            for (at, (pattern, state)) in self.patterns.iter().zip(&mut states).enumerate() {
                let whole_body = *state == pattern.body.len();
                let ends_here = whole_body && pattern.tail.accepts(term);
                if !pattern.body.is_empty() {
                    *state = pattern.step(*state, number);
                    any_begun |= *state > 0;
                }
                if ends_here || (matches!(pattern.tail, Tail::None) && *state == pattern.body.len()) {
                    let first =
                        starts.len().checked_sub(pattern.length()).and_then(|first| starts.get(first));
                    found(at, first.copied().unwrap_or(range.start)..range.end);
                }
            }
        });
    }
}

fn length_bit(term: &str) -> u64 {
    1 << term.len().min(63)
}

/// For every length of a body: the longest proper beginning of it that is also its end.
fn fallback(body: &[usize]) -> Vec<usize> {
    let mut fallback = vec![0; body.len() + 1];
    for length in 2..=body.len() {
        let mut border = fallback[length - 1];
        while border > 0 && body[border] != body[length - 1] {
            border = fallback[border];
        }
        fallback[length] = if body[border] == body[length - 1] { border + 1 } else { 0 };
    }
    fallback
}
