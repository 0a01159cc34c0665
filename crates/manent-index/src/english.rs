//! English: stems, irregular forms, stop words, and how common words are.
//!
//! Indexes hold words as they are. Stems are computed when a query asks for them, so that a better stemmer needs no new
//! index. Other languages have neither stems nor stop words here; their words are weighted by the store alone.
//!
//! The tables `english/common_words.txt` and `english/irregular_forms.txt` were written for this project.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use frostem::{Algorithm, Stemmer};

/// Returns the stem of an English word, by Snowball. Numbers, names with digits and other scripts stay as they are.
pub fn stem(term: &str) -> Cow<'_, str> {
    if !term.is_empty() && term.bytes().all(|b| b.is_ascii_lowercase()) {
        Stemmer::new(Algorithm::English).stem(term)
    } else {
        Cow::Borrowed(term)
    }
}

/// Returns a prefix that all words with this stem share: look up the words with it, then compare their stems.
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

/// Returns the root of a word: the stem of its base form. Forms of one word have the same root, irregular ones too.
pub(crate) fn root(word: &str) -> Cow<'_, str> {
    match irregular_forms().get(word) {
        Some(base) => stem(base),
        None => stem(word),
    }
}

/// Returns the irregular forms of the words with a root, which [`stem_prefix`] does not lead to.
pub(crate) fn forms_of(root: &str) -> impl Iterator<Item = &'static str> {
    let prefix = stem_prefix(root);
    irregular_forms()
        .iter()
        .filter(move |(form, base)| {
            base.starts_with(prefix) && !form.starts_with(prefix) && stem(base) == root
        })
        .map(|(form, _)| *form)
}

/// Returns the base of each irregular form.
fn irregular_forms() -> &'static HashMap<&'static str, &'static str> {
    static FORMS: OnceLock<HashMap<&str, &str>> = OnceLock::new();
    FORMS.get_or_init(|| {
        let mut forms = HashMap::new();
        for line in IRREGULAR_FORMS.lines() {
            let mut words = line.split(' ');
            let base = words.next().unwrap_or_default();
            forms.extend(words.map(|form| (form, base)));
        }
        forms
    })
}

/// The frequency of a word in English, by its rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Frequency {
    /// Among the 100 most frequent words.
    Top100,
    /// Up to rank 280, about.
    Top280,
    /// Up to rank 1,060, about.
    Top1000,
    /// Up to rank 3,000, about.
    Top3000,
}

/// Returns the frequency of the most frequent word with a root, or `None` if none of them is among the 3,000 most
/// frequent.
pub(crate) fn frequency(root: &str) -> Option<Frequency> {
    let prefix = stem_prefix(root);
    let words = common_words();
    let first = words.partition_point(|(word, _)| *word < prefix);
    let regular = words[first..].iter().take_while(|(word, _)| word.starts_with(prefix));
    regular.filter(|(word, _)| self::root(word) == root).map(|(_, frequency)| *frequency).min()
}

/// Returns the most frequent words with their frequency, in alphabetical order.
fn common_words() -> &'static [(&'static str, Frequency)] {
    static WORDS: OnceLock<Vec<(&str, Frequency)>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let mut words = Vec::with_capacity(3000);
        let mut frequency = Frequency::Top100;
        for line in COMMON_WORDS.lines() {
            match line {
                "# 1" => frequency = Frequency::Top100,
                "# 2" => frequency = Frequency::Top280,
                "# 3" => frequency = Frequency::Top1000,
                "# 4" => frequency = Frequency::Top3000,
                word => words.push((word, frequency)),
            }
        }
        words.sort_unstable();
        words
    })
}

const COMMON_WORDS: &str = include_str!("english/common_words.txt");
/// A line for each word: its base form, and its irregular forms.
const IRREGULAR_FORMS: &str = include_str!("english/irregular_forms.txt");

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
    fn forms_of_one_word_have_one_root() {
        for forms in [
            ["go", "went", "going"],
            ["buy", "bought", "buying"],
            ["child", "children", "child"],
            ["index", "indices", "indexes"],
            ["run", "runs", "running"],
        ] {
            let roots: Vec<_> = forms.iter().map(|form| root(form)).collect();
            assert!(roots.iter().all(|other| *other == roots[0]), "{forms:?}: {roots:?}");
        }
        assert_ne!(root("left"), root("leave"), "the left side is another word");
    }

    #[test]
    fn every_irregular_form_is_found_from_its_root() {
        for (form, base) in irregular_forms() {
            let root = stem(base);
            let found = form.starts_with(stem_prefix(&root)) || forms_of(&root).any(|other| other == *form);
            assert!(found, "{form} of {base}");
            assert_eq!(self::root(form), root, "{form}");
        }
    }

    #[test]
    fn common_words_come_before_rare_ones() {
        assert_eq!(frequency(&root("the")), Some(Frequency::Top100));
        assert!(frequency(&root("years")).is_some_and(|frequency| frequency <= Frequency::Top280));
        assert!(frequency(&root("people")) < frequency(&root("bridge")));
        assert_eq!(frequency(&root("went")), frequency(&root("going")));
        for rare in ["quetzal", "retrybackoff", "e0382", "x86"] {
            assert_eq!(frequency(&root(rare)), None, "{rare}");
        }
    }

    #[test]
    fn common_words_are_listed_once_and_fill_their_ranks() {
        let words = common_words();
        assert!(words.windows(2).all(|pair| pair[0].0 != pair[1].0));
        assert!(words.iter().all(|(word, _)| word.bytes().all(|b| b.is_ascii_lowercase())));
        for (frequency, ranks) in [
            (Frequency::Top100, 100),
            (Frequency::Top280, 180),
            (Frequency::Top1000, 780),
            (Frequency::Top3000, 1940),
        ] {
            let listed = words.iter().filter(|(_, other)| *other == frequency).count();
            assert!(listed * 10 > ranks * 9 && listed * 10 < ranks * 11, "{frequency:?}: {listed}");
        }
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOPS.is_sorted() && is_stop("the") && !is_stop("database"));
    }
}
