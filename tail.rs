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
