//! A plain question, taken apart: the words that tell something, identifiers, dates, and whose words are asked for.

use std::ops::Range;

use crate::english::{frequency, is_stop, root};
use crate::query::Query;
use crate::query::answer_kind::AnswerKind;
use crate::query::dates::{DateSpan, dates_in};
use crate::words::{Words, is_spaceless, parts_of};

/// A plain question, as it is ranked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Question {
    /// The terms, each once, in the order in which they were typed.
    pub(crate) terms: Vec<QuestionTerm>,
    /// Terms that follow each other in the question, as indexes into `terms`.
    pub(crate) pairs: Vec<(usize, usize)>,
    pub(crate) dates: Vec<DateSpan>,
    /// Selects whose turns are asked for.
    pub(crate) speaker: Speaker,
    /// Half of the words or more are common English words, so that the others can be weighted by that language.
    pub(crate) is_english: bool,
    pub(crate) asks_for: AnswerKind,
}

/// A term of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionTerm {
    pub(crate) kind: TermKind,
    /// The term is part of a date, which the time of a turn answers.
    pub(crate) of_date: bool,
}

/// The words that a term of a question stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TermKind {
    /// All words with a root.
    Root(String),
    /// Words in a row, exactly as they are: an identifier, or two characters of a script without spaces.
    Sequence(Vec<String>),
}

/// Selects the speaker whose turns a question is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// Nobody in particular.
    #[default]
    Anybody,
    /// The person who asks: `When does my sprint end?`
    Asker,
    /// The assistant: `What did you recommend?`
    Assistant,
}

impl Question {
    pub(crate) fn new(query: &Query) -> Question {
        let typed = TypedWords::of(&query.typed);
        let flat: Vec<String> = typed.words.iter().map(|word| word.text.clone()).collect();
        let (dates, of_date) = dates_in(&flat, query.asked_ms);
        let tells = |at: usize| !is_stop(&flat[at]) || of_date[at];
        let all_stop = (0..flat.len()).all(|at| !tells(at));
        let mut question = Question {
            dates,
            speaker: Speaker::of(&flat),
            is_english: is_english(&flat),
            asks_for: AnswerKind::of(&flat),
            ..Question::default()
        };
        let mut before = None;
        for (at, word) in typed.words.iter().enumerate() {
            let sequence = typed.sequences.iter().find(|sequence| sequence.start == at);
            if let Some(range) = sequence.filter(|range| all_stop || (*range).clone().any(&tells)) {
                let row = flat[range.clone()].to_vec();
                question.add(TermKind::Sequence(row), range.clone().all(|at| of_date[at]));
            }
            // The characters of a script without spaces count in pairs, unless one stands alone.
            if word.is_in_spaceless_row || !(all_stop || tells(at)) {
                continue;
            }
            let term = question.add(TermKind::Root(root(&word.text).into_owned()), of_date[at]);
            if let Some(before) = before.replace(term).filter(|before| *before != term) {
                question.pairs.push((before, term));
            }
            for part in &word.parts {
                if !is_stop(part) {
                    question.add(TermKind::Root(root(part).into_owned()), of_date[at]);
                }
            }
        }
        question.pairs.sort_unstable();
        question.pairs.dedup();
        question
    }

    /// Adds a term unless it is there, and returns its index.
    fn add(&mut self, kind: TermKind, of_date: bool) -> usize {
        let known = self.terms.iter().position(|term| term.kind == kind);
        known.unwrap_or_else(|| {
            self.terms.push(QuestionTerm { kind, of_date });
            self.terms.len() - 1
        })
    }
}

impl Speaker {
    fn of(words: &[String]) -> Speaker {
        let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        if has(&["you", "your"]) && has(&SAYING) {
            Speaker::Assistant
        } else if has(&["i", "my", "me", "mine", "we", "our", "us"]) {
            Speaker::Asker
        } else {
            Speaker::Anybody
        }
    }
}

/// Verbs that ask for what the assistant said, after `you`.
const SAYING: [&str; 31] = [
    "advice",
    "advise",
    "advised",
    "answer",
    "answered",
    "explain",
    "explained",
    "gave",
    "give",
    "list",
    "listed",
    "mention",
    "mentioned",
    "propose",
    "proposed",
    "recommend",
    "recommendation",
    "recommendations",
    "recommended",
    "said",
    "say",
    "suggest",
    "suggested",
    "suggestion",
    "suggestions",
    "tell",
    "told",
    "warn",
    "warned",
    "write",
    "wrote",
];

/// Returns whether half of the words or more are common English ones.
fn is_english(words: &[String]) -> bool {
    let common = words.iter().filter(|word| is_stop(word) || frequency(&root(word)).is_some()).count();
    common * 2 >= words.len()
}

/// The words that were typed, and which of them stand together as one.
#[derive(Default)]
struct TypedWords {
    words: Vec<TypedWord>,
    /// Ranges of words that were typed as one identifier, and pairs of characters of scripts without spaces.
    sequences: Vec<Range<usize>>,
}

struct TypedWord {
    text: String,
    /// The parts of `camelCase`.
    parts: Vec<String>,
    is_in_spaceless_row: bool,
}

impl TypedWords {
    fn of(typed: &[String]) -> TypedWords {
        let mut all = TypedWords::default();
        let mut splitter = Words::default();
        for text in typed {
            let first = all.words.len();
            let mut gaps = Vec::new();
            let mut end = 0;
            splitter.split(text, |term, range| {
                gaps.push(text[end..range.start].to_owned());
                end = range.end;
                let mut parts = Vec::new();
                parts_of(&text[range.clone()], |part, _| parts.push(part.to_owned()));
                let is_in_spaceless_row = text[range].starts_with(is_spaceless);
                all.words.push(TypedWord { text: term.to_owned(), parts, is_in_spaceless_row });
            });
            all.note_sequences(first, &gaps);
        }
        all
    }

    /// Notes which words of one item, from `first` on, belong together. `gaps` has the text before each.
    fn note_sequences(&mut self, first: usize, gaps: &[String]) {
        let end = self.words.len();
        if self.words[first..].iter().any(|word| word.is_in_spaceless_row) {
            for at in first..end {
                let joins = |at: usize| {
                    self.words[at].is_in_spaceless_row
                        && self.words[at + 1].is_in_spaceless_row
                        && gaps[at + 1 - first].is_empty()
                };
                if at + 1 < end && joins(at) {
                    self.sequences.push(at..at + 2);
                } else if at == first || !joins(at - 1) {
                    self.words[at].is_in_spaceless_row = false;
                }
            }
            return;
        }
        let joins = |gap: &String| !gap.is_empty() && gap.chars().all(|c| JOINING.contains(c));
        let mut start = first;
        for at in first + 1..=end {
            if at < end && joins(&gaps[at - first]) {
                continue;
            }
            if at - start > 1 {
                self.sequences.push(start..at.min(start + SEQUENCE_MAX));
            }
            start = at;
        }
    }
}

/// Characters that join the words of an identifier, a path, a version or an option. An apostrophe is none of them.
const JOINING: &str = "_-./\\:@#=+$~";
/// The number of words of an identifier that are looked for in a row.
const SEQUENCE_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Question {
        Question::new(&Query::parse(text, 1_794_766_020_000).unwrap())
    }

    fn terms(text: &str) -> Vec<String> {
        let show = |term: QuestionTerm| match term.kind {
            TermKind::Root(root) => root,
            TermKind::Sequence(row) => row.join("+"),
        };
        of(text).terms.into_iter().map(show).collect()
    }

    #[test]
    fn questions_are_searched_by_the_roots_of_their_telling_words() {
        assert_eq!(terms("When did Caroline go to the support groups?"), ["carolin", "support", "group"]);
        assert_eq!(terms("What's Anna's budget, Anna?"), ["anna", "budget"]);
        assert_eq!(terms("what was it?"), ["what", "was", "it"], "nothing else was typed");
        assert_eq!(of("tile colour kitchen").pairs, [(0, 1), (1, 2)]);
    }

    #[test]
    fn identifiers_are_searched_whole_and_by_their_parts() {
        assert_eq!(
            terms("where is parse_header_line used"),
            ["parse+header+line", "pars", "header", "line", "use"]
        );
        assert_eq!(
            terms("retryBackoff src/main.rs"),
            ["retrybackoff", "retri", "backoff", "src+main+rs", "src", "main", "rs"]
        );
        assert_eq!(terms("--no-verify v2.14.1"), ["no+verify", "verifi", "v2+14+1", "v2", "14", "1"]);
        assert_eq!(
            terms("\u{4f1a}\u{8bae}\u{8bb0}\u{5f55}"),
            ["\u{4f1a}+\u{8bae}", "\u{8bae}+\u{8bb0}", "\u{8bb0}+\u{5f55}"]
        );
        assert_eq!(terms("\u{4f1a}"), ["\u{4f1a}"], "one character alone");
    }

    #[test]
    fn speakers_are_told_by_who_is_addressed() {
        assert_eq!(of("what did you recommend for the tiles?").speaker, Speaker::Assistant);
        assert_eq!(of("when does my sprint end?").speaker, Speaker::Asker);
        assert_eq!(of("cause of the flaky test").speaker, Speaker::Anybody);
    }

    #[test]
    fn weights_of_english_are_for_english_questions() {
        assert!(of("what was the cause of the outage?").is_english);
        assert!(!of("wann kommt der Elektriker wegen Sicherungskasten").is_english);
    }
}
