//! What a list of sessions shows of each: counted from its records, because nothing else is the truth.

use manent_log::{End, Item, Reader};

use crate::key::SessionKey;
use crate::store::{Listed, Result, Store};
use crate::turn::Record;

/// One line of a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its key.
    pub key: SessionKey,
    /// Its id; empty in other programs' files.
    pub id: String,
    /// The title that was set, or the first thing the user said, shortened.
    pub title: String,
    /// How many turns there are.
    pub turns: u64,
    /// When it began, as its first record says.
    pub created: Option<String>,
    /// When it was last written, as its last record says.
    pub updated: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether any of it cannot be read.
    pub damaged: bool,
}

impl Store {
    /// Reads a session through and counts what is in it.
    pub fn summary(&self, listed: &Listed) -> Result<Summary> {
        let mut reader = Reader::open(self.disk(), &listed.path)?;
        let mut summary = Summary {
            key: listed.key.clone(),
            id: String::new(),
            title: String::new(),
            turns: 0,
            created: None,
            updated: None,
            bytes: listed.bytes,
            damaged: false,
        };
        let mut titled = false;
        while let Some(item) = reader.next()? {
            let Item::Entry(entry) = item else {
                summary.damaged = true;
                continue;
            };
            let Some(record) = Record::of(&entry) else { continue };
            if let Some(ts) = record.ts() {
                summary.created.get_or_insert_with(|| ts.clone().into_owned());
                replace(&mut summary.updated, &ts);
            }
            if record.is_turn() {
                summary.turns += 1;
                if !titled && record.role().as_deref() == Some("user") {
                    summary.title = shorten(&record.content());
                    titled = true;
                }
            } else if entry.seq == 0 {
                summary.id = id_of(&record);
            } else if record.kind().as_deref() == Some("title") {
                summary.title = record.string("title").map(|t| shorten(&t)).unwrap_or_default();
                titled = true;
            }
        }
        summary.damaged |= matches!(reader.end(), End::Torn(_));
        Ok(summary)
    }
}

fn id_of(header: &Record<'_>) -> String {
    let meta = header.member("meta").and_then(|json| serde_json::from_str::<crate::Meta>(json).ok());
    meta.map(|meta| meta.id).unwrap_or_default()
}

/// Keeps the memory of the old value: this happens for every record.
fn replace(slot: &mut Option<String>, value: &str) {
    let text = slot.get_or_insert_default();
    text.clear();
    text.push_str(value);
}

/// The first line of a text, at most so many characters.
fn shorten(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

const TITLE_CHARS_MAX: usize = 60;
