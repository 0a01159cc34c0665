//! The name of a session, and the file name made from it.
//!
//! A raw string is never a path: only [`SessionKey`] makes one. The mapping is injective (two keys never share a
//! file), bounded (any key fits the file system), case-safe (two keys that differ only in case do not meet on a disk
//! that ignores case) and readable (an ordinary key is its own file name).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// The name of a session.
///
/// ```
/// use manent_store::SessionKey;
/// assert_eq!(SessionKey::new("telegram:alice").unwrap().file_name(), "telegram%3aalice.jsonl");
/// assert!(SessionKey::new("../../etc/passwd").unwrap().file_name().starts_with("..%2f..%2fetc"));
/// assert!(SessionKey::new("").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct SessionKey {
    text: Arc<str>,
    /// The parts that the key was made of; for the header alone, the text tells keys apart.
    parts: Option<Arc<KeyParts>>,
}

impl PartialEq for SessionKey {
    fn eq(&self, other: &SessionKey) -> bool {
        self.text == other.text
    }
}

impl Eq for SessionKey {}

impl Hash for SessionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for SessionKey {
    fn partial_cmp(&self, other: &SessionKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SessionKey {
    fn cmp(&self, other: &SessionKey) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// The parts of a key that comes from a chat: kept apart in the header of a session, and joined so that two
/// different sets of parts never make one key.
///
/// ```
/// use manent_store::KeyParts;
/// let direct = KeyParts { channel: "telegram".into(), sender: Some("alice".into()), ..KeyParts::default() };
/// assert_eq!(direct.key().unwrap().as_str(), "telegram:alice");
/// let room = KeyParts { room: Some("general".into()), thread: Some("42".into()), ..direct };
/// assert_eq!(room.key().unwrap().as_str(), "telegram/general#42:alice");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct KeyParts {
    /// The service on which the conversation takes place: telegram, slack, cli.
    pub channel: String,
    /// The room in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// The thread in the room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The person it is with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
}

impl KeyParts {
    /// The key: `channel/room#thread:sender`, without what is not there. The three signs, and `%`, are escaped inside
    /// of the parts, so that the key can be taken apart again in one way only.
    pub fn key(&self) -> Result<SessionKey, KeyError> {
        let mut key = escape(&self.channel);
        for (sign, part) in [('/', &self.room), ('#', &self.thread), (':', &self.sender)] {
            if let Some(part) = part {
                key.push(sign);
                key.push_str(&escape(part));
            }
        }
        let key = SessionKey::new(key)?;
        Ok(SessionKey { parts: Some(Arc::new(self.clone())), ..key })
    }
}

fn escape(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for c in part.chars() {
        match c {
            '%' | '/' | '#' | ':' => {
                escaped.push('%');
                escaped.extend([c as u8 >> 4, c as u8 & 15].map(|digit| char::from(HEX[usize::from(digit)])));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// A string that cannot be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The empty string.
    #[error("a session key cannot be empty; give it a name, such as 'work'")]
    Empty,
    /// A string with a NUL byte.
    #[error("a session key cannot hold a NUL byte")]
    Nul,
    /// A string over [`KEY_BYTES_MAX`].
    #[error("a session key can have {KEY_BYTES_MAX} bytes, this one has {bytes}")]
    TooLong {
        /// The length of the string, in bytes.
        bytes: usize,
    },
}

impl SessionKey {
    /// Checks a key. Only an empty one, one with NUL, and one over [`KEY_BYTES_MAX`] are refused.
    pub fn new(key: impl Into<String>) -> Result<SessionKey, KeyError> {
        let key = key.into();
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.contains('\0') {
            return Err(KeyError::Nul);
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong { bytes: key.len() });
        }
        Ok(SessionKey { text: key.into(), parts: None })
    }

    /// Makes a key of text that is known to be one: not empty, without NUL, and short.
    pub fn from_static(key: &'static str) -> SessionKey {
        SessionKey { text: key.into(), parts: None }
    }

    /// The key as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the parts that the key was made of, if it was made of parts.
    pub fn parts(&self) -> Option<&KeyParts> {
        self.parts.as_deref()
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{}{SUFFIX}", self.stem())
    }

    /// Returns the plain name, without any encoding, that other programs may have given the file; `None` if that would
    /// not be a plain name.
    pub fn plain_file_name(&self) -> Option<String> {
        let plain = !self.text.contains('/')
            && !matches!(&*self.text, "." | "..")
            && self.text.len() <= STEM_BYTES_MAX;
        plain.then(|| format!("{}{SUFFIX}", self.text))
    }

    /// The key that a file of this name holds, as far as the name tells. The header of a file, where it has one,
    /// knows better.
    pub fn of_file_name(name: &str) -> Option<SessionKey> {
        let stem = name.strip_suffix(SUFFIX)?;
        let decoded = decode(stem).and_then(|key| SessionKey::new(key).ok());
        match decoded {
            Some(key) if key.stem() == stem => Some(key),
            // Not a name we would have made: another program's, which means what it says.
            _ => SessionKey::new(stem).ok(),
        }
    }

    /// Returns true if the key may not be recoverable from the name of its file: it was too long, and was cut.
    pub(crate) fn may_be_shortened(name: &str) -> bool {
        let stem = name.strip_suffix(SUFFIX).unwrap_or(name);
        stem.len() >= STEM_BYTES_MAX - 2 && stem.contains('~')
    }

    fn stem(&self) -> String {
        let mut stem = String::with_capacity(self.text.len());
        for byte in self.text.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
                stem.push(char::from(byte));
            } else {
                stem.push('%');
                stem.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
            }
        }
        if stem.len() > STEM_BYTES_MAX {
            let cut = (0..3).map(|back| STEM_BYTES_MAX - back).find(|at| !splits_escape(&stem, *at));
            stem.truncate(cut.unwrap_or(STEM_BYTES_MAX));
            stem.push('~');
            stem.push_str(&self.hash()[..32]);
        } else if stem.bytes().any(|b| b.is_ascii_uppercase()) || is_reserved(&stem) {
            stem.push('~');
            stem.push_str(&self.hash()[..8]);
        }
        stem
    }

    fn hash(&self) -> String {
        blake3::hash(self.text.as_bytes()).to_hex().to_string()
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Names that mean something else to some file system, whatever stands behind their first dot.
fn is_reserved(stem: &str) -> bool {
    let first = stem.split('.').next().unwrap_or_default();
    let device = matches!(first, "con" | "prn" | "aux" | "nul");
    let numbered =
        matches!(first.as_bytes(), [b'c', b'o', b'm', n] | [b'l', b'p', b't', n] if n.is_ascii_digit());
    device || numbered || matches!(stem, "." | "..")
}

fn splits_escape(stem: &str, at: usize) -> bool {
    stem.as_bytes()[at.saturating_sub(2)..at].contains(&b'%')
}

/// Undoes the percent encoding; `None` if there is an escape we would not have written.
fn decode(stem: &str) -> Option<String> {
    let stem = stem.split_once('~').map_or(stem, |(name, _)| name);
    let mut bytes = Vec::with_capacity(stem.len());
    let mut rest = stem.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = tail else { return None };
        let digit = |b: u8| HEX.iter().position(|h| *h == b);
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

const SUFFIX: &str = ".jsonl";
const HEX: &[u8; 16] = b"0123456789abcdef";
const STEM_BYTES_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn name(key: &str) -> String {
        SessionKey::new(key).expect("a key").file_name()
    }

    #[test]
    fn ordinary_keys_are_their_own_names() {
        assert_eq!(name("20261115-180700-ab3f"), "20261115-180700-ab3f.jsonl");
        assert_eq!(name("a_b.c"), "a_b.c.jsonl");
    }

    #[test]
    fn keys_that_other_stores_mix_up_are_kept_apart_even_where_case_is_ignored() {
        let long = "x".repeat(1000);
        let keys = [
            "a_b",
            "a:b",
            "a/b",
            "a b",
            "A_b",
            "a_B",
            "a%3ab",
            "a~b",
            "con",
            "CON",
            "nul.txt",
            "com1",
            "com10",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "-rf",
            "caf\u{e9}",
            "cafe\u{301}",
            "\u{202e}evil",
            "a\nb",
            &long,
            &format!("{long}y"),
            "K",
            "\u{212a}",
            "a.jsonl",
            "a.jsonl.torn-5-0",
        ];
        let mut seen: HashMap<String, &str> = HashMap::new();
        for key in keys {
            let file = name(key);
            assert!(file.len() <= 255 && !file.contains('/') && !file.contains('\0'), "{file}");
            assert!(file.is_ascii() && !file.chars().any(|c| c.is_ascii_control()), "{file:?}");
            if let Some(other) = seen.insert(file.to_ascii_lowercase(), key) {
                panic!("{key:?} and {other:?} share {file}");
            }
        }
    }

    #[test]
    fn a_name_leads_back_to_its_key() {
        for key in ["telegram:alice", "a b/c", "caf\u{e9}", "Big", "con", "a%3ab", "100%"] {
            let key = SessionKey::new(key).expect("a key");
            assert_eq!(SessionKey::of_file_name(&key.file_name()), Some(key));
        }
        // Other programs' names mean what they say.
        for stem in ["telegram:alice", "a~b", "50%", "Alice", "a%3Ab"] {
            let key = SessionKey::of_file_name(&format!("{stem}.jsonl")).expect("a key");
            assert_eq!(key.as_str(), stem);
        }
        assert_eq!(SessionKey::of_file_name("notes.txt"), None);
    }

    #[test]
    fn different_parts_never_make_one_key() {
        let texts = ["", "x", "y", "x_y", "y_z", "z", "x:y", "x/y", "x#y", "a%3ab", "x%2fy"];
        let options: Vec<Option<String>> =
            std::iter::once(None).chain(texts.iter().map(|t| Some((*t).to_owned()))).collect();
        let mut seen = HashMap::new();
        for channel in texts {
            for room in &options {
                for thread in &options {
                    for sender in &options {
                        let parts = KeyParts {
                            channel: channel.into(),
                            room: room.clone(),
                            thread: thread.clone(),
                            sender: sender.clone(),
                        };
                        let Ok(key) = parts.key() else {
                            assert_eq!(parts, KeyParts::default(), "only nothing at all is refused");
                            continue;
                        };
                        if let Some(other) = seen.insert(key.clone(), parts.clone()) {
                            panic!("{parts:?} and {other:?} both make {key}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn only_three_things_are_refused() {
        assert_eq!(SessionKey::new(""), Err(KeyError::Empty));
        assert_eq!(SessionKey::new("a\0b"), Err(KeyError::Nul));
        assert_eq!(SessionKey::new("x".repeat(1025)), Err(KeyError::TooLong { bytes: 1025 }));
        assert!(SessionKey::new("x".repeat(1024)).is_ok());
    }
}
