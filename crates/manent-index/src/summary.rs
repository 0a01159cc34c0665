//! What a list of sessions shows of each.

use crate::catalogue::Row;
use manent_store::{Place, SessionKey, StreamId};

/// One line of a list of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Which session it is.
    pub id: StreamId,
    /// In the trash: where it was before.
    pub from: Place,
    /// The title that was set, or the first thing the user said, shortened.
    pub title: String,
    /// How many turns there are, those that a fork shares with its parent included.
    pub turns: u64,
    /// About how many tokens its turns have.
    pub tokens: u64,
    /// When it began, in milliseconds since 1970: as its first record says, else as its file does.
    pub created_ms: i64,
    /// When it was last written, in milliseconds since 1970: as its last record says, else as its file does.
    pub updated_ms: i64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether any of it cannot be read.
    pub damaged: bool,
    /// Why none of it, or nothing more of it, can be read.
    pub unread: Option<String>,
    /// It is shorter than it once was: how many bytes it had, and the number of its last record then.
    pub once: Option<(u64, u64)>,
}

impl Summary {
    pub(crate) fn of(row: &Row) -> Option<Summary> {
        let key = SessionKey::new(row.key.as_str()).ok()?;
        Some(Summary {
            id: StreamId::session(row.place(), &key, row.id.as_str()),
            from: row.from(),
            title: row.title().to_owned(),
            turns: row.turns + row.shared_turns,
            tokens: row.tokens + row.shared_tokens,
            created_ms: row.created_ms,
            updated_ms: row.updated_ms,
            bytes: row.bytes,
            damaged: row.damaged || row.torn,
            unread: (!row.unreadable.is_empty()).then(|| row.unreadable.clone()),
            once: (row.once_seq > 0).then_some((row.once_bytes, row.once_seq)),
        })
    }
}

/// The first line of a text, at most so many characters.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

const TITLE_CHARS_MAX: usize = 60;
