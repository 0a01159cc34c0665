//! The part of a header that a backend reads: the names of its stream.
//!
//! The rest of a header belongs to the crates above. Each member is looked at on its own, so that one of another shape,
//! written by a newer version, hides no other.

use manent_log::{Entry, members_of};

/// The names that a header gives its stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderNames {
    /// The stream's id; empty if the header gives none.
    pub id: String,
    /// The stream's key; empty if the header gives none.
    pub key: String,
}

impl HeaderNames {
    /// Reads the line of a header: one that was verified and has the number 0. Does not check either; for a line that
    /// may not be a header there is [`HeaderNames::of_entry`].
    pub fn of_line(line: &[u8]) -> Option<HeaderNames> {
        let line = std::str::from_utf8(line).ok()?;
        let members = members_of(line)?;
        let meta = members.iter().rfind(|(name, _)| name == "meta").map(|(_, json)| *json)?;
        let members = members_of(meta)?;
        let string = |name: &str| {
            let json = members.iter().rfind(|(n, _)| n == name).map(|(_, json)| *json);
            json.and_then(|json| serde_json::from_str::<String>(json).ok()).unwrap_or_default()
        };
        Some(HeaderNames { id: string("id"), key: string("key") })
    }

    /// Reads an entry; `None` if it is not a header.
    pub fn of_entry(entry: &Entry<'_>) -> Option<HeaderNames> {
        if entry.seq != 0 || !entry.verified { None } else { HeaderNames::of_line(entry.bytes) }
    }
}
