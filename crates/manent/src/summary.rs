//! What a list of sessions shows of each: counted from its records, because nothing else is the truth.

use manent_log::{End, Item};

use crate::backend::{Address, Listed, Start};
use crate::error::Result;
use crate::store::Store;
use crate::turn::Record;

/// One line of a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Which session it is.
    pub address: Address,
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
        let mut reader = self.read(&listed.address, Start::First)?;
        let mut summary = Summary {
            address: listed.address.clone(),
            title: String::new(),
            turns: 0,
            created: None,
            updated: None,
            bytes: listed.bytes,
            damaged: false,
        };
        let mut said = None;
        let mut given = String::new();
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
                if said.is_none() && record.role().as_deref() == Some("user") {
                    said = Some(shorten(&record.content()));
                }
            } else if record.kind().as_deref() == Some("title") {
                given = record.string("title").map(|t| shorten(&t)).unwrap_or_default();
            }
        }
        // An empty title takes back the one before it.
        summary.title = if given.is_empty() { said.unwrap_or_default() } else { given };
        summary.damaged |= matches!(reader.end(), End::Torn(_));
        Ok(summary)
    }
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
