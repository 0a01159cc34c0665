//! The passage of a session that one step looks at, and the user's own sentences in it.
//!
//! Only the user's own words are evidence: not system text, remembered items, tool output, answers of a model or
//! summaries, and in a turn of the user not what is quoted, fenced or inserted by a program.
//!
//! A sentence is cut only where it surely ends: one that is too long is merely refused, but half of one may say the
//! opposite of the whole. So a line that continues in the next one is not a sentence, nor is text between two quotation
//! marks, and an abbreviation ends nothing.

use manent_index::english::is_stop;
use manent_index::words::Words;
use manent_log::{Entry, LogItem};
use manent_store::StreamId;

use crate::context::normalized_role;
use crate::error::{Result, if_found};
use crate::reader::{Start, crc_of};
use crate::store::Store;
use crate::tokens;
use crate::turn::Record;

/// The part of a session that one step looks at.
#[derive(Debug, Default)]
pub(super) struct Passage {
    /// The first and the last record.
    pub(super) turns: (u64, u64),
    /// The mark of the last one: its number alone may come to mean another record.
    pub(super) end: String,
    /// The time of the last turn, as its record says.
    pub(super) ts: String,
    /// The turns of the user.
    pub(super) user_turns: Vec<UserTurn>,
    /// The number, speaker and clipped text of every turn.
    pub(super) lines: Vec<(u64, String, String)>,
    /// There are turns behind it.
    pub(super) more: bool,
}

/// The user's own sentences in one turn.
#[derive(Debug, Default)]
pub(super) struct UserTurn {
    pub(super) seq: u64,
    /// The time of the turn, as its record says.
    pub(super) ts: String,
    pub(super) sentences: Vec<Sentence>,
}

/// A turn, as it is shown.
#[derive(Debug, Default)]
struct ShownTurn {
    sentences: Vec<Sentence>,
    text: String,
    tokens: u64,
}

impl Passage {
    /// Reads the records from `first` to `upto`, or as many as fit into `max_tokens`. Returns `None` if there is no
    /// turn.
    pub(super) fn read(
        store: &Store,
        at: &StreamId,
        (first, upto): (u64, u64),
        max_tokens: u64,
    ) -> Result<Option<Passage>> {
        let Some(mut reader) = if_found(store.read(at, Start::Seq(first)))? else { return Ok(None) };
        let (mut passage, mut taken) = (Passage { turns: (first, 0), ..Passage::default() }, 0_u64);
        while let Some(item) = reader.next()? {
            let LogItem::Entry(entry) = item else { continue };
            if entry.seq < first {
                continue;
            }
            let Some(record) = Record::of(&entry).filter(Record::is_turn) else { continue };
            let role = record.role().unwrap_or_default();
            let speaker = normalized_role(&role);
            let shown = ShownTurn::of(entry.seq, speaker, &record, max_tokens);
            taken = taken.saturating_add(shown.tokens);
            // Better between two questions than within an answer; but an answer of any length must end somewhere.
            let is_full = taken > max_tokens || (speaker == "user" && taken > max_tokens / 2);
            if entry.seq > upto || (is_full && passage.turns.1 > 0) {
                passage.more = true;
                break;
            }
            passage.turns.1 = entry.seq;
            passage.end = record_mark(&entry);
            passage.ts = record.ts().unwrap_or_default().into_owned();
            passage.take(entry.seq, speaker, shown);
        }
        Ok((passage.turns.1 > 0).then_some(passage))
    }

    fn take(&mut self, seq: u64, speaker: &str, shown: ShownTurn) {
        if !shown.sentences.is_empty() {
            self.user_turns.push(UserTurn { seq, ts: self.ts.clone(), sentences: shown.sentences });
        }
        if !shown.text.trim().is_empty() {
            self.lines.push((seq, speaker.to_owned(), shown.text));
        }
    }

    /// Returns the turns as text, for a model that sums them up.
    pub(super) fn transcript(&self) -> String {
        self.lines.iter().map(|(_, speaker, text)| transcript_line(speaker, text)).collect()
    }

    /// Returns the turns of the user, each as one line of JSON, so that no text can be taken for something else.
    pub(super) fn evidence(&self) -> String {
        let of_user = self.lines.iter().filter(|(_, speaker, _)| speaker == "user");
        of_user.map(|(seq, _, text)| evidence_line(*seq, text)).collect()
    }
}

impl ShownTurn {
    fn of(seq: u64, speaker: &str, record: &Record<'_>, max_tokens: u64) -> ShownTurn {
        let sentences = if speaker == "user" { sentences(&record.spoken_text()) } else { Vec::new() };
        let whole = match speaker {
            "user" => sentences.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n"),
            "assistant" => record.spoken_text().into_owned(),
            // The name of a tool is enough: its output is not a statement of anybody.
            "tool" => record.string("name").unwrap_or_default().into_owned(),
            _ => String::new(),
        };
        let mut clip = CLIP_BYTES;
        loop {
            let text = clipped(&whole, clip);
            let mut tokens = tokens::estimate(&transcript_line(speaker, &text)) + 1;
            if speaker == "user" {
                // What is escaped takes more.
                tokens = tokens.max(tokens::estimate(&evidence_line(seq, &text)) + 1);
            }
            if tokens <= max_tokens || clip <= CLIP_BYTES_MIN {
                return ShownTurn { sentences, text, tokens };
            }
            clip /= 2;
        }
    }
}

fn transcript_line(speaker: &str, text: &str) -> String {
    match speaker {
        "tool" => format!("tool: {text} was called\n"),
        _ => format!("{speaker}: {}\n", text.trim()),
    }
}

fn evidence_line(seq: u64, text: &str) -> String {
    format!("{}\n", serde_json::json!({"turn": seq, "said": text}))
}

/// Returns a mark by which a record is recognised: its checksum, or the hash of a record that has none.
pub(super) fn record_mark(entry: &Entry<'_>) -> String {
    let crc = crc_of(entry);
    if crc.is_empty() { blake3::hash(entry.bytes).to_hex().as_str()[..MARK_CHARS].to_owned() } else { crc }
}

/// A text that is not too long: its beginning and its end.
fn clipped(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(bytes * 2 / 3);
    let tail = text.ceil_char_boundary(text.len() - bytes / 3);
    format!("{} […] {}", &text[..head], &text[tail..])
}

/// The number of bytes of a turn that a model is shown.
const CLIP_BYTES: usize = 4 << 10;
/// The length below which a part of a text shows nothing.
const CLIP_BYTES_MIN: usize = 64;
const MARK_CHARS: usize = 16;

/// A sentence of the user, with single blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) text: String,
    /// True if only blanks stand between this sentence and the one before.
    pub(super) follows: bool,
}

/// The user's own sentences in what the user said.
pub(super) fn sentences(text: &str) -> Vec<Sentence> {
    let mut own = SentenceSplitter::default();
    let (mut fence, mut block) = (None, None::<&str>);
    for line in text.lines() {
        if own.found.len() >= SENTENCES_MAX {
            break;
        }
        let line = line.trim();
        if let Some(end) = block {
            if line.contains(end) {
                block = None;
            }
            continue;
        }
        if let Some(open) = fence {
            if closes(open, line) {
                fence = None;
            }
            continue;
        }
        fence = opened(line);
        if let Some((begin, end)) = PUT_IN.iter().find(|(begin, _)| line.contains(begin)) {
            if !line.rsplit(begin).next().is_some_and(|rest| rest.contains(end)) {
                block = Some(end);
            }
            own.cut();
        } else if fence.is_some() || line.starts_with('>') || line.len() > LINE_BYTES_MAX {
            own.cut();
        } else {
            own.take(line);
        }
    }
    own.end();
    own.found.truncate(SENTENCES_MAX);
    own.found
}

#[derive(Default)]
struct SentenceSplitter<'a> {
    found: Vec<Sentence>,
    /// Lines that belong together.
    lines: String,
    last: &'a str,
    /// True if text that is not the user's stands before what comes next.
    is_cut: bool,
}

impl<'a> SentenceSplitter<'a> {
    fn take(&mut self, line: &'a str) {
        if line.is_empty() {
            return self.end();
        }
        if !self.lines.is_empty() && !continues(self.last, line) {
            self.end();
        }
        if !self.lines.is_empty() {
            self.lines.push(' ');
        }
        self.lines.push_str(line);
        self.last = line;
    }

    fn cut(&mut self) {
        self.end();
        self.is_cut = true;
    }

    fn end(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let (mut start, mut quoted) = (0, false);
        let mut chars = lines.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            quoted = match c {
                '"' => !quoted,
                '“' | '„' | '«' => true,
                '”' | '»' => false,
                _ => quoted,
            };
            let ends = match c {
                '。' | '！' | '？' => !quoted,
                '.' | '!' | '?' => {
                    let ends = chars.peek().is_none_or(|(_, next)| next.is_whitespace() || *next == ')');
                    ends && !quoted && !(c == '.' && is_abbreviated(&lines[start..at]))
                }
                _ => false,
            };
            if ends {
                self.push(&lines[start..at + c.len_utf8()]);
                start = at + c.len_utf8();
            }
        }
        self.push(&lines[start..]);
    }

    fn push(&mut self, sentence: &str) {
        let text = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().any(char::is_alphanumeric) {
            let follows = !self.found.is_empty() && !self.is_cut;
            self.found.push(Sentence { text, follows });
            self.is_cut = false;
        } else if !text.is_empty() {
            self.is_cut = true;
        }
    }
}

/// Returns true if a sentence continues from one line into the next.
fn continues(line: &str, next: &str) -> bool {
    let is_item = next.starts_with(['-', '*', '•', '#'])
        || next.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['.', ')'])
            && next.starts_with(|c: char| c.is_ascii_digit());
    if is_item || line.trim_end_matches(['"', ')', '”', '»']).ends_with(['.', '!', '?', '。', '！', '？'])
    {
        return false;
    }
    let mut last_is_stop = false;
    Words::default().split(line, |term, _| last_is_stop = is_stop(term));
    let small = |line: &str| line.chars().next().is_some_and(char::is_lowercase);
    // A lower-case line continues the one before, unless the user writes everything in lower case.
    last_is_stop
        || line.ends_with([',', ':', ';', '-', '(', '–'])
        || line.chars().count() >= WRAPPED_CHARS
        || (small(next) && !small(line))
}

/// Returns true if the full stop behind a text belongs to an abbreviation.
fn is_abbreviated(text: &str) -> bool {
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    let letters = word.chars().all(|c| c.is_alphabetic() || c == '.');
    let inner = letters && word.contains('.');
    let initial = word.chars().count() == 1 && letters;
    inner || initial || ABBREVIATED.iter().any(|short| short.eq_ignore_ascii_case(word))
}

/// The fence that a line opens: its sign, and how many of them.
fn opened(line: &str) -> Option<(char, usize)> {
    let sign = line.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
    let count = line.chars().take_while(|c| *c == sign).count();
    (count >= FENCE_MIN).then_some((sign, count))
}

fn closes((sign, count): (char, usize), line: &str) -> bool {
    opened(line).is_some_and(|(other, more)| other == sign && more >= count)
        && line.chars().all(|c| c == sign)
}

/// Markers around text that programs put into a turn of the user.
const PUT_IN: [(&str, &str); 4] = [
    ("<memory>", "</memory>"),
    ("<system-reminder>", "</system-reminder>"),
    ("<environment_context>", "</environment_context>"),
    ("<user_instructions>", "</user_instructions>"),
];
/// The length of a line above which it is not a person's sentence.
const LINE_BYTES_MAX: usize = 4 << 10;
/// A turn with more sentences was pasted.
const SENTENCES_MAX: usize = 200;
/// Lines of this length may have been wrapped by a program.
const WRAPPED_CHARS: usize = 40;
const FENCE_MIN: usize = 3;
/// Abbreviations, whose full stop ends no sentence. They are rare, 3 in the 653 turns of users in tests/quality, but
/// half a sentence may say the opposite of the whole.
const ABBREVIATED: [&str; 12] =
    ["mr", "mrs", "ms", "dr", "st", "prof", "vs", "etc", "approx", "ca", "bzw", "resp"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_is_shown_in_part() {
        let long = clipped(&"é".repeat(10_000), CLIP_BYTES);
        assert!(long.len() < CLIP_BYTES + 32, "{}", long.len());
    }
}

#[cfg(test)]
mod sentence_tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        sentences(text).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn only_own_words_are_evidence() {
        let text = "I live in Lyon.  My cat\tis Tom!\n> I live in Berlin\n```\nI am a log\n```\n<memory>\nlikes \
                    tea\n</memory>\nv1.2 is out. Really?";
        assert_eq!(
            texts(text),
            ["I live in Lyon.", "My cat is Tom!", "v1.2 is out.", "Really?"],
            "not what is quoted, fenced or put in"
        );
        assert_eq!(texts("<memory>x</memory>\nI am here"), ["I am here"]);
        assert_eq!(texts("```\nnever closed\nI am a log"), Vec::<String>::new());
        assert_eq!(texts("````\n```\nI am a log\n```\n````\nI am here"), ["I am here"], "a fence in a fence");
        assert_eq!(texts("```\n```rust\nI am a log\n```"), Vec::<String>::new());
        assert_eq!(texts("我住在里昂。你好！"), ["我住在里昂。", "你好！"]);
        assert_eq!(texts(" ... \n--"), Vec::<String>::new());
    }

    #[test]
    fn what_goes_on_is_not_cut() {
        for whole in [
            "I don't think that\nI live in Lyon.",
            "I would never\nlive in the city of Lyon",
            "it is a common mistake to believe of all people\nI live in Lyon",
            "It is false that e.g. I live in Lyon.",
            "I never met Dr. Who in Lyon.",
            "She told me \"I moved. I live in Lyon now. Come!\"",
            "She told me “I moved. I live in Lyon now.” and left",
            "Wrong:\nI live in Lyon",
        ] {
            assert_eq!(texts(whole), [whole.replace('\n', " ")]);
        }
        assert_eq!(texts("i live in lyon\ni like tea"), ["i live in lyon", "i like tea"]);
        assert_eq!(texts("I live in Lyon\n- I like tea\n2) My cat is Tom").len(), 3);
    }

    #[test]
    fn what_stands_between_is_known() {
        let follows = |text: &str| sentences(text).iter().map(|one| one.follows).collect::<Vec<_>>();
        assert_eq!(follows("I moved. I live here.\n\nReally."), [false, true, true]);
        assert_eq!(follows("I moved.\n> no\nI live here."), [false, false]);
        assert_eq!(follows("I moved. ... I live here."), [false, false]);
    }
}
