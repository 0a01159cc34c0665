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
}

impl Turns {
    pub(crate) fn new(seed: u64) -> Turns {
        Turns { random: Random(seed), number: 0, lexicon: Vec::new() }
    }

    /// Text that compresses about as real text does.
    pub(crate) fn varied(seed: u64) -> Turns {
        let mut random = Random(seed);
        let mut word = || -> String {
            let syllables = 1 + random.below(4);
            (0..syllables).map(|_| SYLLABLES[random.below(SYLLABLES.len())]).collect()
        };
        let lexicon = (0..LEXICON_WORDS).map(|_| word()).collect();
        Turns { random, number: 0, lexicon }
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
        Turn { ts, role, content: self.text(content_bytes) }
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
        // Log-normal: the two parameters give median and mean, and p99 then comes out as it was measured.
        let bytes =
            (CONTENT_BYTES_MEDIAN * (SIGMA * self.random.normal()).exp()).clamp(1.0, CONTENT_BYTES_MAX);
        #[expect(clippy::cast_sign_loss, reason = "clamped to at least 1")]
        Some(self.turn(bytes as usize))
    }
}

/// How many bytes of a text a JSON string must escape.
pub(crate) fn escapes_in(text: &str) -> usize {
    text.bytes().filter(|b| matches!(b, b'"' | b'\\' | 0..=0x1F)).count()
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
