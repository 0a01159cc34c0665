//! The text that is written and read: code and prose as agents exchange it, the same in every run.
//!
//! What a JSON reader or writer costs depends on how often something needs an escape and how long the turns are, so
//! both follow what was measured in real sessions (median turn 715 bytes, mean 1.1 KB, p99 6.2 KB; about 31 escapes a
//! KB; about 1 % of the bytes not ASCII). Lines are drawn at random and their words too, lest the processor learn
//! the text by heart and every parser look better than it is. No file of the machine is read: two machines bench the
//! same bytes.
//!
//! For compression forty words are too few: any few kilobytes of such text would hold all there is to learn.
//! Benches of archives take [`Turns::varied`], half of whose lines are sentences out of thousands of made
//! words, rare and common ones as in a language; packed, it takes about as much room as real sessions do.
//!
//! For search thirty thousand words are too few as well: an index is as large, and a query as dear, as the tail of rare
//! words is long. Benches of search take [`Turns::searched`]: a larger lexicon, words that are seen once and never
//! again, and [`PLANTED`] words whose turns can be counted beforehand. [`Turns::session`] gives them session by
//! session.

use std::collections::HashSet;

/// One turn before it is written.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) ts: String,
    pub(crate) role: &'static str,
    pub(crate) content: String,
}

/// Turns without end, in lengths as sessions have them.
#[derive(Debug)]
pub(crate) struct Turns {
    random: Random,
    number: u64,
    /// The words of sentences, the common ones first. Empty: there are no sentences.
    lexicon: Vec<String>,
    tail: Tail,
}

/// The words of a text beside those of the lexicon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    None,
    /// One in [`FRESH_ONE_IN`] words is made anew, and some turns have [`PLANTED`] ones.
    Long,
}

impl Turns {
    pub(crate) fn new(seed: u64) -> Turns {
        Turns { random: Random(seed), number: 0, lexicon: Vec::new(), tail: Tail::None }
    }

    /// Text that compresses about as real text does.
    pub(crate) fn varied(seed: u64) -> Turns {
        let mut random = Random(seed);
        let mut word = || -> String {
            let syllables = 1 + random.below(4);
            let mut word = String::new();
            random.syllables(syllables, &mut word);
            word
        };
        let lexicon = (0..LEXICON_WORDS).map(|_| word()).collect();
        Turns { random, number: 0, lexicon, tail: Tail::None }
    }

    /// Text whose words are spread as those of a language are: few of them everywhere, many of them once.
    pub(crate) fn searched(seed: u64) -> Turns {
        let mut random = Random(seed);
        let mut known = HashSet::with_capacity(SEARCHED_LEXICON_WORDS);
        let mut lexicon = Vec::with_capacity(SEARCHED_LEXICON_WORDS);
        while lexicon.len() < SEARCHED_LEXICON_WORDS {
            // What is said often is short.
            let syllables_max = match lexicon.len() {
                0..40 => 1,
                40..1_000 => 2,
                1_000..20_000 => 3,
                _ => 5,
            };
            let syllables = 1 + random.below(syllables_max);
            let mut word = String::new();
            random.syllables(syllables, &mut word);
            if known.insert(word.clone()) {
                lexicon.push(word);
            }
        }
        Turns { random, number: 0, lexicon, tail: Tail::Long }
    }

    /// The turns of one session: about [`SESSION_TURNS_MEAN`] of them, begun at any time in two years, some seconds
    /// or minutes apart.
    pub(crate) fn session(&mut self) -> Vec<Turn> {
        let median = SESSION_TURNS_MEAN / (SESSION_SIGMA * SESSION_SIGMA / 2.0).exp();
        let turns =
            (median * (SESSION_SIGMA * self.random.normal()).exp()).clamp(1.0, SESSION_TURNS_MAX).round();
        #[expect(clippy::cast_sign_loss, reason = "clamped to at least 1")]
        let turns = turns as usize;
        self.session_of(turns)
    }

    /// Makes a session of so many turns. See [`Turns::session`].
    pub(crate) fn session_of(&mut self, turns: usize) -> Vec<Turn> {
        let mut at = self.random.below(TWO_YEARS_MS) as u64;
        let mut session = Vec::with_capacity(turns);
        for _ in 0..turns {
            let bytes = self.content_bytes();
            session.push(Turn { ts: time(at), ..self.turn(bytes) });
            at += (TURN_EVERY_MS_MIN + self.random.below(TURN_EVERY_MS_SPREAD)) as u64;
        }
        session
    }

    /// `count` turns of one length each, for benches that compare the cost of one record.
    pub(crate) fn of_one_size(seed: u64, count: usize, content_bytes: usize) -> Vec<Turn> {
        let mut turns = Turns::new(seed);
        (0..count).map(|_| turns.turn(content_bytes)).collect()
    }

    fn turn(&mut self, content_bytes: usize) -> Turn {
        self.number += 1;
        let n = self.number;
        let (h, m, s, ms) = (n / 3600 % 24, n / 60 % 60, n % 60, n * 7 % 1000);
        let ts = format!("2026-11-15T{h:02}:{m:02}:{s:02}.{ms:03}Z");
        let role = ["user", "assistant", "assistant", "tool"][self.random.below(4)];
        let mut content = self.text(content_bytes);
        if self.tail == Tail::Long {
            for planted in PLANTED.iter().filter(|planted| planted.is_in(n)) {
                content.push('\n');
                content.push_str(planted.words);
            }
        }
        Turn { ts, role, content }
    }

    /// Log-normal: the two parameters give median and mean, and p99 then comes out as it was measured.
    fn content_bytes(&mut self) -> usize {
        let bytes =
            (CONTENT_BYTES_MEDIAN * (SIGMA * self.random.normal()).exp()).clamp(1.0, CONTENT_BYTES_MAX);
        #[expect(clippy::cast_sign_loss, reason = "clamped to at least 1")]
        let bytes = bytes as usize;
        bytes
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 120);
        while text.len() < bytes {
            self.line(&mut text);
        }
        let cut = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text
    }

    fn line(&mut self, text: &mut String) {
        if !self.lexicon.is_empty() && self.random.below(2) == 0 {
            return self.sentence(text);
        }
        let pattern = LINES[self.random.below(LINES.len())];
        let mut parts = pattern.split('@');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            text.push_str(WORDS[self.random.below(WORDS.len())]);
            text.push_str(part);
        }
        text.push('\n');
    }

    fn sentence(&mut self, text: &mut String) {
        for n in 0..8 + self.random.below(16) {
            if n > 0 {
                text.push(' ');
            }
            if self.tail == Tail::Long && self.random.below(FRESH_ONE_IN) == 0 {
                self.random.syllables(FRESH_SYLLABLES, text);
                continue;
            }
            // The n-th most common word is n times as rare as the most common one.
            let rank = (self.lexicon.len() as f64).powf(self.random.unit());
            #[expect(clippy::cast_sign_loss, reason = "a power of a number above 1")]
            text.push_str(&self.lexicon[(rank as usize - 1).min(self.lexicon.len() - 1)]);
        }
        text.push_str(".\n");
    }
}

impl Iterator for Turns {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        let bytes = self.content_bytes();
        Some(self.turn(bytes))
    }
}

/// Words put on a line of their own in some turns, and found nowhere else.
#[derive(Debug)]
pub(crate) struct Planted {
    pub(crate) words: &'static str,
    /// The number of the first turn that has them, counted from 1.
    first: u64,
    /// And every so many turns after it.
    every: u64,
}

impl Planted {
    fn is_in(&self, number: u64) -> bool {
        number >= self.first && (number - self.first).is_multiple_of(self.every)
    }

    /// Returns the number of turns that have them, of the first `turns`.
    pub(crate) fn hits(&self, turns: u64) -> u64 {
        if turns < self.first { 0 } else { (turns - self.first) / self.every + 1 }
    }
}

/// The words that a search is measured with. The single words are no others' beginnings either; those of the phrase are
/// common, but stand nowhere else side by side. Common words need no planting: `session` is in more than a quarter of
/// the turns.
pub(crate) const PLANTED: &[Planted] = &[
    Planted { words: "quetzal", first: 700, every: u64::MAX },
    Planted { words: "zugzwang", first: 300, every: 320_000 },
    Planted { words: "sphynx", first: 500, every: 200_000 },
    Planted { words: "jacquard", first: 11, every: 1_583 },
    Planted { words: "unused cache", first: 7, every: 950 },
];

/// Returns the number of bytes of a text that a JSON string must escape.
pub(crate) fn escapes_in(text: &str) -> usize {
    text.bytes().filter(|b| matches!(b, b'"' | b'\\' | 0..=0x1F)).count()
}

/// A time as records write it, in milliseconds since the first of January 2024.
fn time(ms: u64) -> String {
    let (mut year, mut month, mut day) = (2024, 1, ms / DAY_MS);
    loop {
        let days = match month {
            2 if u64::is_multiple_of(year, 4) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if day < days {
            break;
        }
        day -= days;
        month += 1;
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
    let (h, m, s) = (ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year}-{month:02}-{:02}T{h:02}:{m:02}:{s:02}.{:03}Z", day + 1, ms % 1000)
}

/// `SplitMix64`: small, seeded, good enough to draw words.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn syllables(&mut self, count: usize, text: &mut String) {
        for _ in 0..count {
            text.push_str(SYLLABLES[self.below(SYLLABLES.len())]);
        }
    }

    /// A number in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

const CONTENT_BYTES_MEDIAN: f64 = 635.0;
const SIGMA: f64 = 0.93;
const CONTENT_BYTES_MAX: f64 = 60_000.0;

const LEXICON_WORDS: usize = 30_000;

const SEARCHED_LEXICON_WORDS: usize = 150_000;
const FRESH_ONE_IN: usize = 200;
/// Enough that hardly any is made twice.
const FRESH_SYLLABLES: usize = 6;

const SESSION_TURNS_MEAN: f64 = 97.0;
const SESSION_SIGMA: f64 = 1.0;
const SESSION_TURNS_MAX: f64 = 5_000.0;
const DAY_MS: u64 = 24 * 3600 * 1000;
const TWO_YEARS_MS: usize = 2 * 365 * DAY_MS as usize;
const TURN_EVERY_MS_MIN: usize = 800;
const TURN_EVERY_MS_SPREAD: usize = 180_000;

/// `@` stands for a word.
const LINES: &[&str] = &[
    "pub fn @_@(&mut self, @: &@) -> Result<@> {",
    "    let @ = self.@.get(\"@\").unwrap_or(&@);",
    "    if @.is_empty() && !@.contains(@) {",
    "        return Err(Error::@ { path: path.to_owned(), @ });",
    "    }",
    "}",
    "",
    "/// Takes the @ and gives back what the @ of the @ was before it was written.",
    "    for (@, @) in @.iter().zip(&self.@) {",
    "        assert_eq!(@(@), \"@ @\", \"the @ is kept\");",
    "def @_@(self, @, @=None):",
    "    \"\"\"Return the @ for each @ in the @.\"\"\"",
    "    return {\"@\": @, \"@\": [@(x) for x in @]}",
    "\tprintf(\"%s: @ %d\\n\", @, @);",
    "## The @ and the @",
    "- The @ is read once, when the @ opens, and never looked at again.",
    "- `@ --@ \"@\"` writes the @ to the @ and waits until the @ has it.",
    "I looked at the @ in @. It fails because the @ is closed before the @ has been written, so the @ is lost.",
    "You could try to move the @ into the @ and see whether the @ still holds; I would keep the @ as it is.",
    "Le @ a été écrit avant que la @ ne soit fermée \u{2014} voilà pourquoi.",
    "    match @.@() { Some(@) => @, None => continue }",
    "        self.@.push(@ as u64 + @.len());",
    "test @::@::the_@_is_@ ... ok",
    "warning: unused variable: `@` \u{2192} help: prefix it with an underscore",
    "   --> crates/@/src/@.rs:@",
    "import @ from '@/@.js';",
    "const @ = await @.@(`${@}/@`, { method: \"POST\", body: @ });",
    "SELECT @, count(*) FROM @ WHERE @ > ? GROUP BY @ ORDER BY 2 DESC LIMIT 50;",
    "The second run took longer than the first, which had the @ in its cache.",
    "Done: the @ now survives a restart, and the test for it is in tests/@.rs next to the others.",
];

const WORDS: &[&str] = &[
    "session", "record", "buffer", "offset", "index", "path", "header", "reader", "writer", "frame", "batch",
    "lease", "tail", "key", "value", "store", "block", "line", "state", "entry", "cursor", "token", "model",
    "message", "request", "answer", "tool", "result", "file", "digest", "queue", "worker", "limit", "count",
    "größe", "name", "close", "verify", "sync", "page",
];

const SYLLABLES: &[&str] = &[
    "a", "be", "ca", "co", "con", "de", "der", "di", "e", "en", "er", "es", "fa", "for", "ge", "ha", "he",
    "i", "in", "ing", "is", "ka", "la", "le", "li", "lo", "ly", "ma", "ment", "mi", "na", "ne", "ni", "no",
    "o", "on", "or", "pa", "per", "po", "pre", "ra", "re", "ri", "ro", "sa", "se", "si", "so", "sta", "su",
    "ta", "te", "ti", "tion", "to", "tra", "tu", "u", "un", "ver", "vi", "wa", "we",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_words_are_found_as_often_as_was_said() {
        let turns: Vec<Turn> = Turns::searched(1).take(4_000).collect();
        for planted in PLANTED {
            let found = turns.iter().filter(|turn| turn.content.contains(planted.words)).count() as u64;
            assert_eq!(found, planted.hits(4_000), "{}", planted.words);
        }
        let common = turns.iter().filter(|turn| turn.content.contains("session")).count();
        assert!(common > 1_000, "{common} of 4000 turns");
    }

    #[test]
    fn sessions_are_spread_over_two_years() {
        let mut turns = Turns::searched(2);
        let first: Vec<String> = (0..50).map(|_| turns.session()[0].ts.clone()).collect();
        assert!(
            first.iter().any(|ts| ts.starts_with("2024-")) && first.iter().any(|ts| ts.starts_with("2025-"))
        );
        assert_eq!(time(0), "2024-01-01T00:00:00.000Z");
        assert_eq!(time(59 * DAY_MS), "2024-02-29T00:00:00.000Z");
        assert_eq!(time(425 * DAY_MS + 1), "2025-03-01T00:00:00.001Z");
    }
}
