//! English words that differ only in their ending: stems, and the words that carry no meaning of their own.
//!
//! Indexes hold words as they are; stems are made when a query asks for them. So a better stemmer needs no new index.

use std::borrow::Cow;

use frostem::{Algorithm, Stemmer};

/// Returns the stem of an English word, by Snowball. Numbers, names with digits and other scripts stay as they are.
pub fn stem(term: &str) -> Cow<'_, str> {
    if !term.is_empty() && term.bytes().all(|b| b.is_ascii_lowercase()) {
        Stemmer::new(Algorithm::English).stem(term)
    } else {
        Cow::Borrowed(term)
    }
}

/// The beginning that every word with this stem has: look these up, then compare their stems.
///
/// The stemmer mostly cuts, but it also writes a few endings of its own; here these are taken off again.
pub(crate) fn stem_prefix(stem: &str) -> &str {
    match stem.as_bytes() {
        // From `skies`.
        b"sky" => "sk",
        // From `dying`, `lying`, `tying`, `vying`.
        [_, b'i', b'e'] => &stem[..stem.len() - 2],
        // From `hoping` (hope), `flies` (fli), `happiness` (happi).
        _ => {
            let bare = stem.strip_suffix(['e', 'i']).unwrap_or(stem);
            // From `possibility` (possibl).
            match bare {
                "" => stem,
                bare if bare.ends_with("bl") => &bare[..bare.len() - 1],
                bare => bare,
            }
        }
    }
}

/// Returns whether a term is an English stop word: it only connects others, and so would find everything.
pub fn is_stop(term: &str) -> bool {
    STOPS.binary_search(&term).is_ok()
}

/// Sorted. Includes what an apostrophe leaves behind: `don't` is `don` and `t`.
#[rustfmt::skip]
static STOPS: &[&str] = &[
    "a", "about", "again", "ain", "all", "also", "am", "an", "and", "any", "anyone", "anything", "are", "aren",
    "as", "at", "be", "because", "been", "before", "being", "but", "by", "can", "could", "couldn", "d", "did",
    "didn", "do", "does", "doesn", "doing", "don", "done", "each", "either", "else", "etc", "ever", "every", "few",
    "for", "from", "get", "give", "go", "got", "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "her",
    "here", "hers", "herself", "him", "himself", "his", "how", "i", "if", "in", "into", "is", "isn", "it", "its",
    "itself", "just", "ll", "m", "me", "might", "mine", "more", "most", "much", "must", "mustn", "my", "myself",
    "no", "nor", "not", "of", "on", "or", "other", "our", "ours", "ourselves", "out", "own", "please", "re", "s",
    "same", "shall", "shan", "she", "should", "shouldn", "so", "some", "such", "t", "tell", "than", "that", "the",
    "their", "theirs", "them", "themselves", "then", "there", "these", "they", "this", "those", "to", "too", "up",
    "us", "ve", "very", "was", "wasn", "we", "were", "weren", "what", "whatever", "when", "where", "which", "while",
    "who", "whom", "whose", "why", "will", "with", "would", "wouldn", "y", "you", "your", "yours", "yourself",
    "yourselves",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_meaning_share_a_stem() {
        for (a, b) in [
            ("migration", "migrate"),
            ("migrating", "migrations"),
            ("happiness", "happy"),
            ("deployed", "deploying"),
            ("dying", "die"),
            ("possibility", "possible"),
        ] {
            assert_eq!(stem(a), stem(b), "who asks for {a} must find {b}");
        }
    }

    #[test]
    fn numbers_identifiers_and_other_scripts_have_no_stem() {
        for term in ["", "2026", "s3", "utf8", "fussgänger", "данные", "数", "running2"] {
            assert_eq!(stem(term), term, "a cut name would find other names");
        }
    }

    /// A word whose stem does not begin as it does would never be found by its own stem. Every short beginning with
    /// every chain of endings is tried, as the stemmer knows nothing of a word but its letters.
    #[test]
    fn every_word_begins_as_its_stem_says() {
        let letters = "abcdefghiklmnoprstuvxyz";
        let endings = [
            "", "s", "es", "ed", "ing", "ly", "y", "ies", "ied", "e", "er", "able", "ability", "ible",
            "ibility", "ate", "ation", "ational", "ative", "ator", "ize", "izer", "ization", "al", "ality",
            "ally", "alism", "ance", "ancy", "ence", "ency", "ent", "ently", "ful", "fully", "fulness",
            "ical", "icate", "icity", "ic", "ion", "ism", "ist", "ive", "ivity", "iveness", "less", "lessly",
            "ment", "ness", "ogy", "ogist", "ous", "ously", "ousness", "tional", "eed", "eedly", "edly",
            "ingly", "bly", "bling", "bled", "bing", "ning", "ting",
        ];
        let mut word = String::new();
        let mut tried = 0;
        let mut short: Vec<String> = letters.chars().map(String::from).collect();
        for _ in 0..2 {
            let longer = short.iter().flat_map(|s| letters.chars().map(move |c| format!("{s}{c}")));
            short = short.iter().cloned().chain(longer).collect();
        }
        short.sort_unstable();
        short.dedup();
        let longer =
            ["poss", "relat", "commun", "gener", "arsen", "past", "univers", "organ", "hopp", "fizz", "syll"];
        for start in short.iter().map(String::as_str).chain(longer) {
            for first in endings {
                for second in ["", "s", "ed", "ing", "ly", "ity"] {
                    word.clear();
                    word.extend([start, first, second]);
                    let stem = stem(&word);
                    let prefix = stem_prefix(&stem);
                    assert!(word.starts_with(prefix) && !prefix.is_empty(), "{word} has the stem {stem}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 1_000_000, "{tried}");
    }

    #[test]
    fn odd_words_begin_as_their_stems_say() {
        let odd = "skis skies sky dying lying tying vying idly gently ugly early only singly howe atlas cosmos bias \
                   andes news inning innings outing outings canning cannings herring earring evening evenings proceed \
                   exceed succeed proceeded dyed eying hying possibility sensibility ability nobility syllable eerie \
                   cookies ties tied die died movies laziest analyses analysis analyzed caching cached cries tries \
                   flies happily yes yesterday sayings buying bye agreed agreement feed needing seeing hoped hopping \
                   hissing falling egged added odd ebbing erring";
        for word in odd.split_whitespace() {
            let stem = stem(word);
            assert!(word.starts_with(stem_prefix(&stem)), "{word} has the stem {stem}");
            assert!(!stem_prefix(&stem).is_empty(), "{word} would be looked for in the whole dictionary");
        }
    }

    #[test]
    fn questions_are_asked_with_words_that_find_nothing_of_their_own() {
        assert!(STOPS.is_sorted(), "the search is binary");
        for word in "what when did does who how why where which is the s t re ve ll d m".split(' ') {
            assert!(is_stop(word), "{word}");
        }
        for word in ["database", "error", "2026", "don't", "", "数"] {
            assert!(!is_stop(word), "{word:?} must be looked for");
        }
    }
}
