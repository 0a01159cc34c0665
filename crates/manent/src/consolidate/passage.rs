//! The passage of a session that is looked at in one step: what the user said in it, and what happened.
//!
//! Only the user's own words are evidence. System text, what was remembered, what tools put out, what a model said and
//! what was summed up are none.

use std::fmt::Write as _;

use manent_log::{Entry, LogItem};

use super::sentences::{Sentence, sentences};
use crate::context::normalized_role;
use crate::error::Result;
use crate::reading::crc_of;
use crate::store::Store;
use crate::stream::Start;
use crate::tokens;
use crate::turn::Record;
use manent_store::StreamId;

/// What is looked at in one step.
#[derive(Debug, Default)]
pub(super) struct Passage {
    /// The first and the last record.
    pub(super) turns: (u64, u64),
    /// By what the last one is known: a number alone may come to mean another record.
    pub(super) end: String,
    /// When the last turn was said, as it says.
    pub(super) ts: String,
    /// What the user said.
    pub(super) said: Vec<UserTurn>,
    /// Who said what, in short.
    pub(super) told: Vec<(u64, String, String)>,
    /// There are turns behind it.
    pub(super) more: bool,
}

/// What the user said in a turn.
#[derive(Debug, Default)]
pub(super) struct UserTurn {
    pub(super) seq: u64,
    /// When, as it says.
    pub(super) ts: String,
    pub(super) sentences: Vec<Sentence>,
}

/// A turn, as it is shown.
#[derive(Debug, Default)]
struct Shown {
    sentences: Vec<Sentence>,
    text: String,
    tokens: u64,
}

impl Passage {
    /// Reads from one record to another, or as much as takes so many tokens. Nothing: no turn is there.
    pub(super) fn read(
        store: &Store,
        at: &StreamId,
        (first, upto): (u64, u64),
        max_tokens: u64,
    ) -> Result<Option<Passage>> {
        let mut reader = match store.read(at, Start::Seq(first)) {
            Err(e) if e.is_not_found() => return Ok(None),
            reader => reader?,
        };
        let (mut passage, mut taken) = (Passage { turns: (first, 0), ..Passage::default() }, 0_u64);
        while let Some(item) = reader.next()? {
            let LogItem::Entry(entry) = item else { continue };
            if entry.seq < first {
                continue;
            }
            let Some(record) = Record::of(&entry).filter(Record::is_turn) else { continue };
            let role = record.role().unwrap_or_default();
            let speaker = normalized_role(&role);
            let shown = Shown::of(entry.seq, speaker, &record, max_tokens);
            taken = taken.saturating_add(shown.tokens);
            // Better between two questions than within an answer; but an answer of any length must end somewhere.
            let is_full = taken > max_tokens || (speaker == "user" && taken > max_tokens / 2);
            if entry.seq > upto || (is_full && passage.turns.1 > 0) {
                passage.more = true;
                break;
            }
            passage.turns.1 = entry.seq;
            passage.end = mark_of(&entry);
            passage.ts = record.ts().unwrap_or_default().into_owned();
            passage.take(entry.seq, speaker, shown);
        }
        Ok((passage.turns.1 > 0).then_some(passage))
    }

    fn take(&mut self, seq: u64, speaker: &str, shown: Shown) {
        if !shown.sentences.is_empty() {
            self.said.push(UserTurn { seq, ts: self.ts.clone(), sentences: shown.sentences });
        }
        if !shown.text.trim().is_empty() {
            self.told.push((seq, speaker.to_owned(), shown.text));
        }
    }

    /// Who said what, for a model that sums it up.
    pub(super) fn transcript(&self) -> String {
        self.told.iter().map(|(_, speaker, text)| transcribed(speaker, text)).collect()
    }

    /// What the user said, a turn a line of JSON: nothing in it can be taken for anything else.
    pub(super) fn evidence(&self) -> String {
        let said = self.told.iter().filter(|(_, speaker, _)| speaker == "user");
        said.map(|(seq, _, text)| evident(*seq, text)).collect()
    }
}

impl Shown {
    fn of(seq: u64, speaker: &str, record: &Record<'_>, max_tokens: u64) -> Shown {
        let sentences = if speaker == "user" { sentences(&record.said()) } else { Vec::new() };
        let whole = match speaker {
            "user" => sentences.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n"),
            "assistant" => record.said().into_owned(),
            // What a tool was is enough: what it put out is nobody's word.
            "tool" => record.string("name").unwrap_or_default().into_owned(),
            _ => String::new(),
        };
        let mut clip = CLIP_BYTES;
        loop {
            let text = clipped(&whole, clip);
            let mut tokens = tokens::estimate(&transcribed(speaker, &text)) + 1;
            if speaker == "user" {
                // What is escaped takes more.
                tokens = tokens.max(tokens::estimate(&evident(seq, &text)) + 1);
            }
            if tokens <= max_tokens || clip <= CLIP_BYTES_MIN {
                return Shown { sentences, text, tokens };
            }
            clip /= 2;
        }
    }
}

fn transcribed(speaker: &str, text: &str) -> String {
    let mut out = String::new();
    let _ = match speaker {
        "tool" => writeln!(out, "tool: {text} was called"),
        _ => writeln!(out, "{speaker}: {}", text.trim()),
    };
    out
}

fn evident(seq: u64, text: &str) -> String {
    format!("{}\n", serde_json::json!({"turn": seq, "said": text}))
}

/// By what a record is known again: its checksum; one of another program's has none, and is known by its bytes.
pub(super) fn mark_of(entry: &Entry<'_>) -> String {
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

/// What of a turn is shown to a model.
const CLIP_BYTES: usize = 4 << 10;
/// Less than this shows nothing.
const CLIP_BYTES_MIN: usize = 64;
const MARK_CHARS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_is_shown_in_part() {
        let long = clipped(&"é".repeat(10_000), CLIP_BYTES);
        assert!(long.len() < CLIP_BYTES + 32, "{}", long.len());
    }
}
