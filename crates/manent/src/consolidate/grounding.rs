//! The check that the user said what a model claims.
//!
//! A model only points at words of the user. The whole sentence with those words is remembered, so that no cut can
//! reverse its meaning. The model's own wording is used only if it says exactly the same in the third person.
//!
//! A summary of a passage must not name anything that nobody named, and must not negate what was affirmed or affirm
//! what was negated. The latter is a guess: a negation applies to the next word that carries meaning. A wrong guess
//! costs only words, because the passage is then quoted instead of summed up.

use std::collections::{HashMap, HashSet};

use manent_index::english::{is_stop, stem};
use manent_index::words::Words;

use super::passage::Passage;
use crate::memory::Kind;

/// A fact that a model wants to be remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) kind: Kind,
    pub(super) content: String,
    pub(super) quote: String,
}

/// A fact that the user said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroundedClaim {
    pub(super) kind: Kind,
    pub(super) content: String,
    /// The user's words as they stand in the turn.
    pub(super) quote: String,
    /// The turn, when it was said, as that says, and which of its sentences.
    pub(super) seq: u64,
    pub(super) ts: String,
    pub(super) nth: u64,
}

words! {
    /// The reason why a claim was not remembered.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Refusal {
        /// The user did not say what is quoted.
        NotSaid = "not said by the user",
        /// The quote is a question.
        Question = "a question",
        /// The quote says too little, or too much, for one thing to remember.
        NoStatement = "no statement",
        /// The claim or its quote looks like a credential.
        Secret = "looks like a secret",
        /// The claim is remembered already, or was.
        Known = "known already",
        /// The user contradicted the claim later, and that is remembered.
        Outdated = "said otherwise later",
    }
}

/// Finds the words of the user that a claim rests on, and makes of them what is remembered.
pub(super) fn ground(claim: &Claim, passage: &Passage) -> Result<GroundedClaim, Refusal> {
    let QuoteLocation { seq, ts, nth, quote } = find(&claim.quote, passage).ok_or(Refusal::NotSaid)?;
    if quote.contains(['?', '？', '؟']) {
        return Err(Refusal::Question);
    }
    let (mut words, mut meaning) = (0, 0);
    Words::default().split(&quote, |term, _| {
        words += 1;
        meaning += usize::from(!is_stop(term));
    });
    if words < WORDS_MIN || meaning == 0 || quote.len() > QUOTE_BYTES_MAX {
        return Err(Refusal::NoStatement);
    }
    let content = claim.content.split_whitespace().collect::<Vec<_>>().join(" ");
    let content = if is_same_statement(&quote, &content) { content } else { format!("{SAID}{quote}") };
    if [&quote, &claim.content, &content].into_iter().any(|text| !crate::secrets(text).is_empty()) {
        return Err(Refusal::Secret);
    }
    Ok(GroundedClaim { kind: claim.kind, content, quote, seq, ts: ts.to_owned(), nth })
}

/// The place of a quote in a passage.
struct QuoteLocation<'a> {
    seq: u64,
    ts: &'a str,
    nth: u64,
    quote: String,
}

/// The sentence of the user that holds a quote, or else the sentences over which it goes.
fn find<'a>(quote: &str, passage: &'a Passage) -> Option<QuoteLocation<'a>> {
    let trimmed = quote.trim().trim_matches(['"', '“', '”', '«', '»', '\'', '`']);
    let plain = trimmed.split_whitespace().collect::<Vec<_>>().join(" ");
    if plain.is_empty() || plain.len() > QUOTE_BYTES_MAX * SENTENCES_TOGETHER {
        return None;
    }
    (1..=SENTENCES_TOGETHER).find_map(|together| {
        passage.user_turns.iter().find_map(|turn| {
            let mut starts = turn.sentences.windows(together).enumerate();
            starts.find_map(|(nth, some)| {
                if !some.iter().skip(1).all(|sentence| sentence.follows) {
                    return None;
                }
                let texts: Vec<&str> = some.iter().map(|sentence| sentence.text.as_str()).collect();
                let joined = texts.join(" ");
                let location = QuoteLocation { seq: turn.seq, ts: &turn.ts, nth: nth as u64, quote: joined };
                location.quote.contains(&plain).then_some(location)
            })
        })
    })
}

/// Returns true if `text` says the same as a sentence of the user, in the third person. The user stands in place of
/// "I", and their verb has the third person's ending. Nothing else may differ: one sign more or less can be another
/// thing (C and C++), and another ending another time ("I lived there").
fn is_same_statement(sentence: &str, text: &str) -> bool {
    let (said, claimed) = (user_words(sentence), claim_words(text));
    // "They" means the user only if the user was named before.
    let first = claimed.iter().find(|(word, _)| matches!(word.as_str(), ME | MY));
    if !first.is_some_and(|(_, is_user)| *is_user) || said.len() != claimed.len() {
        return false;
    }
    let mut verb_is_next = false;
    for (word, (other, _)) in said.iter().zip(&claimed) {
        let is_verb = std::mem::take(&mut verb_is_next);
        if word == other {
            verb_is_next = word == ME;
        } else if !(is_verb && is_third_person(word, other)) {
            return false;
        }
    }
    true
}

/// The words of a text as they stand, without the sign at its end, and whatever letter it begins with.
fn plain_words(text: &str) -> Vec<String> {
    let text = text.trim_end_matches(['.', '!']).replace('’', "'");
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    if let Some(first) = words.first_mut() {
        let mut chars = first.chars();
        *first = chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default();
    }
    words
}

fn user_words(sentence: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in plain_words(sentence) {
        match word.as_str() {
            "I" | "i" | "me" => words.push(ME.to_owned()),
            "my" => words.push(MY.to_owned()),
            "I'm" | "i'm" => words.extend([ME.to_owned(), "am".to_owned()]),
            "I've" | "i've" => words.extend([ME.to_owned(), "have".to_owned()]),
            _ => words.push(word),
        }
    }
    words
}

/// Returns the words of a summary with the user's names replaced, each with a flag that is true if it named the user.
fn claim_words(text: &str) -> Vec<(String, bool)> {
    let mut words: Vec<(String, bool)> = Vec::new();
    for word in plain_words(text) {
        let (word, is_user) = match word.as_str() {
            "user" | "User" => (ME.to_owned(), true),
            "user's" | "User's" => (MY.to_owned(), true),
            "they" | "them" => (ME.to_owned(), false),
            "their" => (MY.to_owned(), false),
            _ => (word, false),
        };
        if is_user && words.last().is_some_and(|(before, _)| before == "the") {
            words.pop();
        }
        words.push((word, is_user));
    }
    words
}

/// Returns true if `other` is the third person of `verb`.
fn is_third_person(verb: &str, other: &str) -> bool {
    let special =
        [("am", "is"), ("have", "has"), ("do", "does"), ("don't", "doesn't"), ("haven't", "hasn't")];
    let ending = |with: &str| other.strip_suffix(with) == Some(verb);
    special.contains(&(verb, other))
        || ending("s")
        || ending("es")
        || verb.strip_suffix('y').is_some_and(|stem| other.strip_suffix("ies") == Some(stem))
}

/// Returns true if a summary names only what was named in the transcript, is mostly about it, and does not say the
/// opposite.
pub(super) fn is_about(summary: &str, transcript: &str) -> bool {
    let mut stems = HashSet::new();
    Words::default().split(transcript, |term, _| {
        stems.insert(stem(term).into_owned());
    });
    let (mut all, mut found, mut invented) = (0_usize, 0_usize, false);
    Words::default().split(summary, |term, range| {
        let shown = &summary[range];
        // At the beginning of a sentence any word may be a name, so a word that was not said counts as one.
        let is_name = shown.chars().any(|c| c.is_numeric() || c.is_uppercase());
        let stem = stem(term);
        if is_stop(term) || TELLING.contains(&stem.as_ref()) {
            return;
        }
        let is_known = stems.contains(stem.as_ref());
        all += 1;
        found += usize::from(is_known);
        invented |= is_name && !is_known;
    });
    all > 0 && !invented && found * 100 >= all * ABOUT_PERCENT && !reverses_meaning(summary, transcript)
}

/// The text before the words of the user, where they are remembered as they were said.
pub(super) const SAID: &str = "The user said: ";
/// Placeholders for the speaker, and for what is the speaker's.
const ME: &str = "\u{1}";
const MY: &str = "\u{2}";
/// Stems of words that tell of a conversation rather than of its subject. Without them, of summaries that repeat one of
/// the 1,663 sentences of users in tests/quality behind "The user mentioned …", 343 are accepted instead of 1,638.
const TELLING: [&str; 19] = [
    "user", "assist", "ask", "said", "discuss", "convers", "talk", "want", "answer", "tool", "session",
    "explain", "mention", "share", "told", "request", "help", "use", "call",
];
/// A statement has a subject, a verb and something else.
const WORDS_MIN: usize = 3;
const QUOTE_BYTES_MAX: usize = 400;
/// A quote that goes over more sentences is no quote of one thing.
const SENTENCES_TOGETHER: usize = 3;
/// The share of meaningful words of a summary that must have been said, in percent.
const ABOUT_PERCENT: usize = 60;

/// The ways in which a word was used.
#[derive(Debug, Clone, Copy, Default)]
struct WordUse {
    affirmed: bool,
    negated: bool,
}

/// Returns true if a text negates a word that was only ever affirmed, or affirms one that was only ever negated.
pub(super) fn reverses_meaning(summary: &str, transcript: &str) -> bool {
    let mut uses: HashMap<String, WordUse> = HashMap::new();
    let mut was_negated = false;
    each_word(transcript, |word, is_negated| {
        let word_use = uses.entry(word.to_owned()).or_default();
        // A negation may mean the second word behind it: "does not eat meat" negates "meat".
        word_use.negated |= is_negated || was_negated;
        word_use.affirmed |= !is_negated;
        was_negated = is_negated;
    });
    let mut is_reversed = false;
    each_word(summary, |word, is_negated| {
        // `is_about` judges words that were not said.
        is_reversed |=
            uses.get(word).is_some_and(|seen| if is_negated { !seen.negated } else { !seen.affirmed });
    });
    is_reversed
}

/// Gives the stem of every word that carries meaning, and whether it is negated.
fn each_word(text: &str, mut each: impl FnMut(&str, bool)) {
    let (mut is_negated, mut last) = (false, 0);
    Words::default().split(text, |term, range| {
        // A negation ends with its sentence.
        is_negated &= !text[last..range.start].contains(['.', '!', '?', '\n', ';', ',', ':']);
        last = range.end;
        let is_rest = term == "t" && text[..range.start].ends_with(['\'', '’']);
        if is_rest || NEGATIONS.contains(&term) {
            is_negated = true;
        } else if !is_stop(term) {
            each(&stem(term), is_negated);
            is_negated = false;
        }
    });
}

/// Words that negate the next word that carries meaning. Of the 136 sentences of users in tests/quality that hold one,
/// 108 are recognized as reversed when it is left out, and none of all 1,663 is taken for the opposite of itself.
const NEGATIONS: [&str; 14] = [
    "not", "no", "never", "cannot", "without", "neither", "nor", "nicht", "kein", "keine", "keinen", "ohne",
    "pas", "sans",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(turns: &[&str]) -> Passage {
        let turns = (1..).zip(turns).map(|(seq, text)| {
            let sentences = super::super::passage::sentences(text);
            super::super::passage::UserTurn { seq, ts: String::new(), sentences }
        });
        Passage { user_turns: turns.collect(), ..Passage::default() }
    }

    fn grounded(turn: &str, content: &str, quote: &str) -> Result<String, Refusal> {
        let claim = Claim { kind: Kind::Fact, content: content.into(), quote: quote.into() };
        ground(&claim, &passage(&["hello there", turn])).map(|grounded| grounded.content)
    }

    #[test]
    fn the_same_in_the_third_person_is_taken() {
        for (said, content) in [
            ("I live in Lyon.", "The user lives in Lyon"),
            ("I'm allergic to nuts", "User is allergic to nuts."),
            ("My name is Anna", "The user's name is Anna"),
            ("I have two dogs", "user has two dogs"),
            ("I don't eat meat", "The user doesn't eat meat"),
            ("I prefer tabs over spaces", "The user prefers tabs over spaces"),
            ("I like my dog", "The user likes their dog"),
            ("My wife loves me", "The user's wife loves them"),
        ] {
            assert_eq!(grounded(said, content, said), Ok(content.to_owned()), "{said}");
        }
    }

    #[test]
    fn anything_else_is_remembered_as_it_was_said() {
        for (said, content, quote) in [
            ("My brother lives in Lyon.", "The user lives in Lyon", "lives in Lyon"),
            ("She lives in Lyon.", "The user lives in Lyon", "lives in Lyon"),
            ("I don't live in Lyon.", "The user lives in Lyon", "live in Lyon"),
            ("If I lived in Lyon, I would walk.", "The user lives in Lyon", "lived in Lyon"),
            ("I prefer spaces over tabs", "The user prefers tabs over spaces", "spaces over tabs"),
            ("I hate mornings", "The user likes mornings", "I hate mornings"),
            ("the office is in Lyon", "The user's office is in Lyon", "office is in Lyon"),
            ("the office is in Lyon", "The office is in Lyon", "office is in Lyon"),
            ("I like long walks", "2026-01-01T00:00:00Z", "I like long walks"),
            ("I worked at Acme", "The user works at Acme", "I worked at Acme"),
            ("I like C", "The user likes C++", "I like C"),
            ("My budget is 500", "The user's budget is -500", "budget is 500"),
            ("My boss hates me", "Boss the user hates", "boss hates"),
            ("I am hated", "The user hated", "I am hated"),
            ("I love my dog", "They love the user's dog", "love my dog"),
            ("I need glass", "The user need glasses", "I need glass"),
            ("I live in Lyon", "The user lives in L\u{443}on", "I live in Lyon"),
            ("I live in Lyon", "The user lives in Lyon\u{202e}", "I live in Lyon"),
            ("I live in Lyon", "The user lives in Ly\u{200b}on", "I live in Lyon"),
            ("I like long walks", "", "long walks"),
        ] {
            assert_eq!(grounded(said, content, quote), Ok(format!("{SAID}{said}")), "{content}");
        }
    }

    #[test]
    fn what_was_not_said_is_nothing() {
        for (said, quote, why) in [
            ("thanks!", "I live in Lyon", Refusal::NotSaid),
            ("I live in Lyon", "I live in Lyon, France", Refusal::NotSaid),
            ("I live in Lyon", "", Refusal::NotSaid),
            ("I live in Lyon", "  \" ", Refusal::NotSaid),
            ("do I live in Lyon?", "I live in Lyon", Refusal::Question),
            ("thanks!", "thanks", Refusal::NoStatement),
            ("it is so", "it is so", Refusal::NoStatement),
            ("my key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "my key is", Refusal::Secret),
        ] {
            assert_eq!(grounded(said, "The user lives in Lyon", quote), Err(why), "{said} / {quote}");
        }
        assert_eq!(grounded("> I live in Lyon", "x", "I live in Lyon"), Err(Refusal::NotSaid), "quoted");
    }

    #[test]
    fn a_quote_may_go_over_sentences() {
        let said = "I moved. I live in Lyon now.";
        assert_eq!(grounded(said, "x", "I moved. I live in Lyon"), Ok(format!("{SAID}{said}")));
        let said = "Hello there. How are you today? I live in Lyon.";
        assert_eq!(
            grounded(said, "x", "live in Lyon"),
            Ok(format!("{SAID}I live in Lyon.")),
            "no more than that"
        );
        let parted = "I moved.\n> so they say\nI live in Lyon.";
        assert_eq!(grounded(parted, "x", "I moved. I live in Lyon."), Err(Refusal::NotSaid));
    }

    #[test]
    fn a_day_is_told_with_what_was_named() {
        let transcript = "user: how do I bake bread with rye flour\nassistant: mix 300 g with water\n";
        assert!(is_about(
            "The user asked how to bake rye bread and got a mix of 300 g and water.",
            transcript
        ));
        assert!(!is_about("The user asked how to bake bread at 250 degrees.", transcript));
        assert!(!is_about("The user asked Anna how to bake bread.", transcript));
        assert!(!is_about("Anna baked bread with rye flour and water.", transcript));
        assert!(!is_about("The user asked an iPhone how to bake bread.", transcript));
        assert!(!is_about("Many interesting topics were explored in depth today.", transcript));
        assert!(!is_about("The user asked how not to bake rye bread.", transcript));
        assert!(!is_about("", transcript));
    }
}

#[cfg(test)]
mod negation_tests {
    use super::*;

    #[test]
    fn what_turns_a_statement_round_is_found() {
        for (said, told) in [
            ("user: I do not eat meat\n", "The user eats meat."),
            ("user: I don't eat meat\n", "The user eats meat."),
            ("user: I can’t drive\n", "The user can drive."),
            ("user: I eat meat\n", "The user does not eat meat."),
            ("user: the build never passed on Fridays\n", "The build passed on Fridays."),
            ("user: deploy without downtime\n", "The user deployed with downtime."),
            ("user: ich esse kein Fleisch\n", "The user wants Fleisch."),
        ] {
            assert!(reverses_meaning(told, said), "{said} / {told}");
        }
    }

    #[test]
    fn what_says_the_same_is_not() {
        for (said, told) in [
            ("user: I do not eat meat\n", "The user does not eat meat."),
            ("user: I don't eat meat\n", "The user never eats meat."),
            ("user: I eat meat. No, wait: I do not eat meat any more\n", "The user eats no meat, or does."),
            (
                "user: can you fix the parser\nassistant: No. The parser is fine\n",
                "The user asked about a parser.",
            ),
            ("user: bake bread\n", "The user asked how to bake bread, and did not say which."),
            ("user: I can't find the bug\n", "The user could not find the bug."),
            ("", "Nothing was said."),
        ] {
            assert!(!reverses_meaning(told, said), "{said} / {told}");
        }
    }
}
