//! Whether what is told of something turns it round: says what was denied, or denies what was said.
//!
//! A guess, and one that may be wrong: the word that a *not* is about is the next one that carries meaning. Whoever is
//! taken to turn something round has it quoted instead, so that a wrong guess costs nothing but some words.

use std::collections::HashMap;

use manent_index::words::{Words, is_stop, stem};

/// How a word was used.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    said: bool,
    denied: bool,
}

/// Whether a text denies a word that was only ever said, or says one that was only ever denied.
pub(super) fn turns_round(told: &str, transcript: &str) -> bool {
    let mut uses: HashMap<String, Uses> = HashMap::new();
    let mut was_denied = false;
    each_word(transcript, |word, is_denied| {
        let known = uses.entry(word.to_owned()).or_default();
        // Who does not eat meat eats no meat: what stands behind may be what is meant.
        known.denied |= is_denied || was_denied;
        known.said |= !is_denied;
        was_denied = is_denied;
    });
    let mut turned = false;
    each_word(told, |word, is_denied| {
        turned |= match uses.get(word) {
            Some(Uses { said, denied }) => {
                if is_denied {
                    !denied
                } else {
                    !said
                }
            }
            // A word that nobody used is another question.
            None => false,
        };
    });
    turned
}

/// Gives the stem of every word that carries meaning, and whether it is denied.
fn each_word(text: &str, mut each: impl FnMut(&str, bool)) {
    let (mut is_denied, mut last) = (false, 0);
    Words::default().split(text, |term, place| {
        // A sentence that ends takes its denials with it.
        is_denied &= !text[last..place.start].contains(['.', '!', '?', '\n', ';', ',', ':']);
        last = place.end;
        let is_rest = term == "t" && text[..place.start].ends_with(['\'', '’']);
        if is_rest || DENIALS.contains(&term) {
            is_denied = true;
        } else if !is_stop(term) {
            each(&stem(term), is_denied);
            is_denied = false;
        }
    });
}

/// Words that deny what stands behind them.
const DENIALS: [&str; 14] = [
    "not", "no", "never", "cannot", "without", "neither", "nor", "nicht", "kein", "keine", "keinen", "ohne",
    "pas", "sans",
];

#[cfg(test)]
mod tests {
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
            assert!(turns_round(told, said), "{said} / {told}");
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
            assert!(!turns_round(told, said), "{said} / {told}");
        }
    }
}
