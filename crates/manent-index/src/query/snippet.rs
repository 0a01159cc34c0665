//! Snippets: the words around the densest group of matches in a text, on one line, without secrets.
//!
//! A text can have megabytes and any content. One pass finds the place, splitting words as the index does
//! ([`Matcher`]); everything else looks at a few kilobytes around it.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::corpus::REDACTED;
use crate::english::{forms_of, root, stem_prefix};
use crate::query::question::{Question, TermKind};
use crate::query::{Clause, Phrase, Query};
use crate::words::{Words, parts_of};

/// The default length of a snippet in characters.
pub const SNIPPET_CHARS: usize = 160;

/// However much someone asks for: a snippet is no way to read a text.
const CHARS_MAX: usize = 10_000;
/// So much of a group of matches is looked at: a phrase can have any number of blanks between its words.
const CORE_BYTES_MAX: usize = 16 << 10;
/// The number of bytes around the shown part that are searched for secrets, so that none is cut in two unseen.
const SECRET_BYTES_MAX: usize = 16 << 10;
/// The number of characters of a word that may be left out to end at its boundary. A longer word is cut.
const WORD_CHARS_MAX: usize = 24;

/// Finds the parts of a text that are not shown; see [`Corpus::redactions`](crate::Corpus::redactions).
pub(crate) type Redactions<'a> = &'a dyn Fn(&str) -> Vec<Range<usize>>;

/// A part of a text, on one line.
///
/// Blanks and control characters are single spaces, `…` says where something is left out, and likely credentials are
/// [`REDACTED`]. It may still hold characters that change how a terminal writes, as any text may.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text.
    pub text: String,
    /// The matches: byte ranges in the text, in order, that do not overlap.
    pub marks: Vec<Range<usize>>,
}

/// Cuts about so many characters out of a text, around what was looked for; its beginning if there is nothing of it.
pub(crate) fn snippet(
    text: &str,
    matcher: &Matcher,
    chars_max: usize,
    redactions: Redactions<'_>,
) -> Snippet {
    let chars_max = chars_max.clamp(1, CHARS_MAX);
    let core = densest(text, matcher, chars_max);
    // Where it is not all blanks or secrets, a little around it is enough to fill a snippet.
    let mut line = Line::around(text, &core, 2 * chars_max, redactions);
    if !line.is_enough(&core, chars_max) {
        line = Line::around(text, &core, 4 * chars_max + 1024, redactions);
    }
    let (shown, core) = line.fill(&core, chars_max);
    let shown = line.whole_words(shown, &core);
    let mut snippet = Snippet::default();
    if line.is_cut_before(text, shown.start) {
        snippet.text.push('…');
    }
    let (shown_at, shift) = (line.at(shown.start), snippet.text.len());
    snippet.text.push_str(&line.text[shown_at..line.at(shown.end)]);
    if line.is_cut_after(text, shown.end) {
        snippet.text.push('…');
    }
    matcher.find(&text[line.raw.clone()], |_, found| {
        let raw = line.raw.start + found.start..line.raw.start + found.end;
        // A word that the line cuts is none.
        let is_cut = (raw.start == line.raw.start && raw.start > 0)
            || (raw.end == line.raw.end && raw.end < text.len());
        if !is_cut && let Some(mark) = line.mark(&raw, &shown) {
            snippet.marks.push(mark.start - shown_at + shift..mark.end - shown_at + shift);
        }
    });
    snippet.marks.sort_unstable_by_key(|mark| (mark.start, mark.end));
    snippet.marks.dedup_by(|next, kept| {
        let overlaps = next.start < kept.end;
        if overlaps {
            kept.end = kept.end.max(next.end);
        }
        overlaps
    });
    snippet
}

/// The bytes from the first to the last match of the best group that fits.
fn densest(text: &str, matcher: &Matcher, chars_max: usize) -> Range<usize> {
    let chars = text.chars().count().max(1);
    // As many bytes as so many characters have in this text, on average.
    let bytes_max = (chars_max as u64 * text.len() as u64).div_ceil(chars as u64) as usize;
    let mut group = Group { counts: vec![0; matcher.patterns.len()], ..Group::default() };
    let mut best = (Score::default(), 0..0);
    matcher.find(text, |pattern, range| {
        group.push(pattern, matcher.worth(pattern), range);
        group.shorten(bytes_max, matcher);
        if group.score > best.0 {
            best = (group.score, group.range());
        }
    });
    best.1
}

/// The quality of a group of matches: different patterns first, then adjacent matches, then many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// What all different patterns in it are worth together; see [`Matcher::worth`].
    different: usize,
    in_a_row: usize,
    all: usize,
}

/// Matches that are near each other.
#[derive(Debug, Default)]
struct Group {
    matches: VecDeque<Hit>,
    /// The number of matches of each pattern.
    counts: Vec<usize>,
    score: Score,
}

#[derive(Debug)]
struct Hit {
    pattern: usize,
    range: Range<usize>,
    /// The match follows the one before it, with at most a space or a sign between.
    follows: bool,
}

impl Group {
    fn push(&mut self, pattern: usize, worth: usize, range: Range<usize>) {
        let last =
            self.matches.back().filter(|last| last.pattern != pattern && last.range.end <= range.start);
        let follows = last.is_some_and(|last| range.start - last.range.end <= 2);
        self.matches.push_back(Hit { pattern, range, follows });
        self.counts[pattern] += 1;
        self.score.all += 1;
        self.score.in_a_row += usize::from(follows);
        self.score.different += if self.counts[pattern] == 1 { worth } else { 0 };
    }

    /// Drops what is too far behind, and, for a question, what stands in the group again. The newest stays, however
    /// long it is.
    fn shorten(&mut self, bytes_max: usize, matcher: &Matcher) {
        let is_again = |group: &Group| {
            !matcher.weights.is_empty()
                && group.matches.front().is_some_and(|first| group.counts[first.pattern] > 1)
        };
        while self.matches.len() > 1 && (self.range().len() > bytes_max || is_again(self)) {
            let Some(first) = self.matches.pop_front() else { break };
            self.counts[first.pattern] -= 1;
            self.score.all -= 1;
            let is_last = self.counts[first.pattern] == 0;
            self.score.different -= if is_last { matcher.worth(first.pattern) } else { 0 };
            if let Some(next) = self.matches.front_mut() {
                self.score.in_a_row -= usize::from(std::mem::take(&mut next.follows));
            }
        }
    }

    fn range(&self) -> Range<usize> {
        match (self.matches.front(), self.matches.back()) {
            (Some(first), Some(last)) => first.range.start.min(last.range.start)..last.range.end,
            _ => 0..0,
        }
    }
}

/// A part of a text as it can be shown: on one line and without secrets, and where everything in it comes from.
struct Line {
    text: String,
    /// Every character of the line; a secret is one.
    pieces: Vec<Piece>,
    /// The range of the part in the whole text.
    raw: Range<usize>,
    /// The length of the whole text.
    text_len: usize,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    /// The offset in the whole text.
    raw: usize,
    /// The offset in the line.
    at: usize,
    /// The number of characters that it shows.
    chars: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Char,
    Secret,
}

impl Line {
    /// The part of a text that reaches so many bytes beyond a core.
    fn around(text: &str, core: &Range<usize>, reach: usize, redactions: Redactions<'_>) -> Line {
        let core_end = core.end.min(core.start + CORE_BYTES_MAX);
        let start = text.floor_char_boundary(core.start.saturating_sub(reach));
        let end = text.ceil_char_boundary((core_end + reach).min(text.len()));
        let near = text.floor_char_boundary(start.saturating_sub(SECRET_BYTES_MAX));
        let near_end = text.ceil_char_boundary((end + SECRET_BYTES_MAX).min(text.len()));
        let hidden =
            redactions(&text[near..near_end]).into_iter().map(|range| near + range.start..near + range.end);
        let (shown, pieces) = (String::with_capacity(end - start), Vec::with_capacity(end - start));
        let mut line = Line { text: shown, pieces, raw: start..end, text_len: text.len() };
        let mut at = start;
        for secret in hidden.filter(|secret| secret.end > start && secret.start < end) {
            line.push_text(text, at..secret.start.max(at));
            line.push(secret.start.max(at), Kind::Secret, REDACTED);
            at = secret.end.min(end);
        }
        line.push_text(text, at..end);
        line
    }

    fn push_text(&mut self, text: &str, range: Range<usize>) {
        for (at, c) in text[range.clone()].char_indices() {
            if !c.is_whitespace() && !c.is_control() {
                self.push(range.start + at, Kind::Char, c.encode_utf8(&mut [0; 4]));
            } else if self.pieces.last().is_none_or(|last| last.kind != Kind::Space) {
                self.push(range.start + at, Kind::Space, " ");
            }
        }
    }

    fn push(&mut self, raw: usize, kind: Kind, shown: &str) {
        self.pieces.push(Piece { raw, at: self.text.len(), chars: shown.chars().count(), kind });
        self.text.push_str(shown);
    }

    /// Returns the offset of a piece in the line, or the end of the line for the one after the last.
    fn at(&self, piece: usize) -> usize {
        self.pieces.get(piece).map_or(self.text.len(), |piece| piece.at)
    }

    /// The piece that holds a place in the whole text.
    fn piece_of(&self, raw: usize) -> usize {
        self.pieces.partition_point(|piece| piece.raw <= raw).saturating_sub(1)
    }

    /// Returns true if the line has enough text on both sides, or all that there is.
    fn is_enough(&self, core: &Range<usize>, chars_max: usize) -> bool {
        let (shown, _) = self.fill(core, chars_max);
        (shown.start > 0 || self.raw.start == 0)
            && (shown.end < self.pieces.len() || self.raw.end == self.text_len)
    }

    /// The pieces for which there is room, the core and on both sides of it; and those of the core.
    fn fill(&self, core: &Range<usize>, chars_max: usize) -> (Range<usize>, Range<usize>) {
        let mut start = self.piece_of(core.start).min(self.pieces.len());
        let mut end = start;
        let mut room = chars_max;
        while end < self.pieces.len()
            && self.pieces[end].raw < core.end
            && take(&mut room, self.pieces[end].chars)
        {
            end += 1;
        }
        let (first, last) = (start, end);
        // Half of the room before it, all that is left behind it, and if there is still some, again before it.
        let mut before = room / 2;
        room -= before;
        while start > 0 && take(&mut before, self.pieces[start - 1].chars) {
            start -= 1;
        }
        room += before;
        while end < self.pieces.len() && take(&mut room, self.pieces[end].chars) {
            end += 1;
        }
        while start > 0 && take(&mut room, self.pieces[start - 1].chars) {
            start -= 1;
        }
        (start..end, first..last)
    }

    /// Leaves out parts of words at both ends, and blanks, but nothing of the core.
    fn whole_words(&self, shown: Range<usize>, core: &Range<usize>) -> Range<usize> {
        let is_space = |piece: usize| self.pieces.get(piece).is_some_and(|piece| piece.kind == Kind::Space);
        let Range { mut start, mut end } = shown;
        let cut_before = if start == 0 { self.raw.start > 0 } else { !is_space(start - 1) };
        if cut_before {
            let near = start..core.start.min(start + WORD_CHARS_MAX);
            start = near.clone().find(|piece| is_space(*piece)).unwrap_or(start);
        }
        let cut_after = if end == self.pieces.len() { self.raw.end < self.text_len } else { !is_space(end) };
        if cut_after {
            let near = core.end.max(end.saturating_sub(WORD_CHARS_MAX))..end;
            end = near.rev().find(|piece| is_space(*piece)).unwrap_or(end);
        }
        while start < end && is_space(start) {
            start += 1;
        }
        while end > start && is_space(end - 1) {
            end -= 1;
        }
        start..end
    }

    fn is_cut_before(&self, text: &str, piece: usize) -> bool {
        let raw = self.pieces.get(piece).map_or(self.raw.start, |piece| piece.raw);
        text[..raw].contains(is_shown)
    }

    fn is_cut_after(&self, text: &str, piece: usize) -> bool {
        self.pieces.get(piece).is_some_and(|piece| text[piece.raw..].contains(is_shown))
            || text[self.raw.end..].contains(is_shown)
    }

    /// Returns the range of a match in the line, if it is shown and not part of a secret.
    fn mark(&self, raw: &Range<usize>, shown: &Range<usize>) -> Option<Range<usize>> {
        let first = self.piece_of(raw.start);
        let end = self.pieces.partition_point(|piece| piece.raw < raw.end);
        let (first, end) = (first.max(shown.start), end.min(shown.end));
        let pieces = self.pieces.get(first..end)?;
        let hidden = pieces.iter().any(|piece| piece.kind == Kind::Secret);
        (!pieces.is_empty() && !hidden).then(|| self.at(first)..self.at(end))
    }
}

fn is_shown(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

/// Takes so much off, if there is so much.
fn take(room: &mut usize, chars: usize) -> bool {
    let left = room.checked_sub(chars);
    *room = left.unwrap_or(*room);
    left.is_some()
}

/// The patterns of a query, prepared to be found in any number of texts.
#[derive(Debug)]
pub(crate) struct Matcher {
    patterns: Vec<Pattern>,
    /// The number of clauses that must be satisfied.
    clauses: usize,
    /// Every term that stands in a pattern as it is.
    terms: HashMap<String, usize, foldhash::fast::RandomState>,
    /// The irregular forms of the roots that are looked for, and the pattern of each.
    forms: HashMap<&'static str, usize, foldhash::fast::RandomState>,
    /// The first bytes of whatever is looked for: most words of a text begin otherwise.
    first_bytes: Vec<bool>,
    /// The weight of each pattern in a snippet; empty if all are worth the same.
    weights: Vec<f32>,
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
    /// Any word with this root.
    Root(String),
}

impl Tail {
    fn accepts(&self, term: &str) -> bool {
        match self {
            Tail::None => false,
            Tail::Prefix(start) => term.starts_with(start),
            // A form that does not begin like its root is irregular, and listed among the terms.
            Tail::Root(same) => term.starts_with(stem_prefix(same)) && root(term) == **same,
        }
    }
}

impl Pattern {
    /// Returns the number of terms.
    fn length(&self) -> usize {
        self.body.len() + usize::from(!matches!(self.tail, Tail::None))
    }

    /// Advances the number of matched terms of the body by one more term (Knuth, Morris and Pratt).
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

    /// Returns what a pattern is worth in a snippet: its weight in the ranking, or else the number of its terms.
    fn worth(&self, pattern: usize) -> usize {
        match self.weights.get(pattern) {
            #[expect(clippy::cast_sign_loss, reason = "no weight is below 0")]
            Some(weight) => (weight * 64.0) as usize,
            None => self.patterns[pattern].length(),
        }
    }

    /// Finds the terms of a question: pattern `n` is term `n` of the question. A term without weight is not looked for.
    pub(crate) fn of_question(question: &Question, weights: &[f32]) -> Matcher {
        let mut matcher = Matcher { clauses: 1, weights: weights.to_vec(), ..Matcher::empty() };
        for (term, weight) in question.terms.iter().zip(weights) {
            let clause = (*weight > 0.0).then_some(0);
            match &term.kind {
                TermKind::Sequence(terms) => {
                    matcher.add_phrase(&Phrase { terms: terms.clone(), prefix: false }, clause);
                }
                TermKind::Root(same) => {
                    matcher.first_byte(stem_prefix(same));
                    for form in forms_of(same) {
                        matcher.first_byte(form);
                        matcher.forms.insert(form, matcher.patterns.len());
                    }
                    let tail = Tail::Root(same.clone());
                    matcher.patterns.push(Pattern { clause, body: Vec::new(), fallback: vec![0], tail });
                }
            }
        }
        matcher
    }

    /// Counts the occurrences of each required clause in a text. Returns `None` if one is missing, or anything is there
    /// that must not occur.
    pub(crate) fn times(&self, text: &str) -> Option<Vec<u32>> {
        let mut times = vec![0_u32; self.clauses];
        let mut excluded = false;
        self.run(text, |pattern, _, _| match self.patterns[pattern].clause {
            Some(clause) => times[clause] = times[clause].saturating_add(1),
            None => excluded = true,
        });
        (!excluded && times.iter().all(|times| *times > 0)).then_some(times)
    }

    /// Calls `found` with every place where something stands that was looked for, and which pattern it is.
    pub(super) fn find(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
        if self.clauses > 0 {
            self.run(text, |pattern, range, _| {
                if self.patterns[pattern].clause.is_some() {
                    found(pattern, range);
                }
            });
        }
    }

    /// Calls `found` with the pattern of every match, and the number of its last word in the text.
    pub(super) fn find_words(&self, text: &str, mut found: impl FnMut(usize, usize)) {
        self.run(text, |pattern, _, word| found(pattern, word));
    }

    fn empty() -> Matcher {
        Matcher {
            patterns: Vec::new(),
            clauses: 0,
            terms: HashMap::default(),
            forms: HashMap::default(),
            first_bytes: vec![false; 256],
            weights: Vec::new(),
        }
    }

    fn add_phrase(&mut self, phrase: &Phrase, clause: Option<usize>) {
        let exact = phrase.terms.len() - usize::from(phrase.prefix);
        let mut body = Vec::new();
        for term in &phrase.terms[..exact] {
            self.first_byte(term);
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

    fn run(&self, text: &str, mut found: impl FnMut(usize, Range<usize>, usize)) {
        if self.patterns.is_empty() {
            return;
        }
        let longest = self.patterns.iter().map(Pattern::length).max().unwrap_or(1);
        let mut states = vec![0; self.patterns.len()];
        let mut any_begun = false;
        // Where the last words began, the newest last.
        let mut starts: VecDeque<usize> = VecDeque::with_capacity(longest + 1);
        let mut words = 0;
        Words::default().split(text, |term, range| {
            words += 1;
            if longest > 1 {
                starts.push_back(range.start);
                if starts.len() > longest {
                    starts.pop_front();
                }
            }
            let word = &text[range.clone()];
            parts_of(word, |part, within| {
                self.find_part(part, |at| {
                    found(at, range.start + within.start..range.start + within.end, words);
                });
            });
            let known = term.bytes().next().is_some_and(|byte| self.first_bytes[usize::from(byte)]);
            if !known && !any_begun {
                return;
            }
            let number = if known { self.terms.get(term).copied() } else { None };
            let form = if known { self.forms.get(term).copied() } else { None };
            any_begun = false;
            for (at, (pattern, state)) in self.patterns.iter().zip(&mut states).enumerate() {
                let whole_body = *state == pattern.body.len();
                let ends_here = whole_body && (pattern.tail.accepts(term) || form == Some(at));
                if !pattern.body.is_empty() {
                    *state = pattern.step(*state, number);
                    any_begun |= *state > 0;
                }
                if ends_here || (matches!(pattern.tail, Tail::None) && *state == pattern.body.len()) {
                    let first =
                        starts.len().checked_sub(pattern.length()).and_then(|first| starts.get(first));
                    found(at, first.copied().unwrap_or(range.start)..range.end, words);
                }
            }
        });
    }

    /// Calls `found` with every pattern of one word that a part of a word in `camelCase` matches.
    fn find_part(&self, part: &str, mut found: impl FnMut(usize)) {
        let number = self.terms.get(part);
        for (at, pattern) in self.patterns.iter().enumerate() {
            let is_it = match pattern.tail {
                Tail::None => pattern.body.len() == 1 && number == pattern.body.first(),
                _ => pattern.body.is_empty() && pattern.tail.accepts(part),
            };
            if is_it {
                found(at);
            }
        }
    }
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
