//! An item of the memory: its text, its kind, its time, and its source.

use std::fmt;
use std::str::FromStr;

use manent_log::Body;
use serde_json::Value;

use crate::error::Result;
use crate::meta::{add_json, add_texts};
use crate::turn::Record;
use manent_store::clock;

words! {
    /// The kind of an item.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Kind {
        /// A statement that is true.
        Fact = "fact",
        /// A preference.
        Pref = "pref",
        /// A matter in progress: a project, a plan, a task.
        Context = "context",
        /// A summary of a part of a day.
        Daily = "daily",
    }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Fact, Kind::Pref, Kind::Context, Kind::Daily];

    pub(crate) fn of_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Kind {
    type Err = ItemError;

    fn from_str(word: &str) -> std::result::Result<Kind, ItemError> {
        Kind::of_word(word).ok_or_else(|| ItemError::Kind(word.chars().take(SHOWN_CHARS).collect()))
    }
}

/// The kind of source that asked for an item to be remembered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceKind {
    /// A person, in so many words.
    User,
    /// A model, which took it from a conversation.
    Model,
    /// Another program's file.
    Import,
    /// Whatever another program wrote there; empty if it wrote nothing.
    Other(String),
}

impl SourceKind {
    /// The word that stands in the file.
    pub fn word(&self) -> &str {
        match self {
            SourceKind::User => "user",
            SourceKind::Model => "model",
            SourceKind::Import => "import",
            SourceKind::Other(word) => word,
        }
    }

    fn of_word(word: &str) -> SourceKind {
        let known = [SourceKind::User, SourceKind::Model, SourceKind::Import];
        known.into_iter().find(|who| who.word() == word).unwrap_or_else(|| SourceKind::Other(word.to_owned()))
    }
}

impl FromStr for SourceKind {
    type Err = ItemError;

    fn from_str(word: &str) -> std::result::Result<SourceKind, ItemError> {
        match SourceKind::of_word(word) {
            SourceKind::Other(word) => Err(ItemError::SourceKind(word.chars().take(SHOWN_CHARS).collect())),
            known => Ok(known),
        }
    }
}

/// The origin of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The kind of the source.
    pub who: SourceKind,
    /// The key of the session in which it was said.
    pub session: Option<String>,
    /// The id of that session: a key can come to mean another one.
    pub session_id: Option<String>,
    /// The first and the last record of the passage.
    pub seqs: Option<(u64, u64)>,
    /// The words that it rests on, as they stand in one of those records.
    pub quote: Option<String>,
    /// The model that took it from there.
    pub model: Option<String>,
    /// The hash of the instructions that the model had.
    pub prompt: Option<String>,
}

impl Source {
    /// A source that tells nothing but who.
    pub fn by(who: SourceKind) -> Source {
        Source { who, session: None, session_id: None, seqs: None, quote: None, model: None, prompt: None }
    }

    /// Reads the source of an item, also of other programs; members of another shape are ignored.
    fn of_json(json: Option<&str>) -> Source {
        let value: Value = json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        if let Value::String(word) = &value {
            return Source::by(SourceKind::of_word(word));
        }
        let string = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let seqs = value.get("turns").and_then(|seq| {
            let at = |n: usize| seq.get(n).and_then(Value::as_u64);
            match seq.as_u64() {
                Some(one) => Some((one, one)),
                None => at(0).map(|first| (first, at(1).unwrap_or(first).max(first))),
            }
        });
        Source {
            who: SourceKind::of_word(&string("who").unwrap_or_default()),
            session: string("session"),
            session_id: string("session_id"),
            seqs,
            quote: string("quote"),
            model: string("model"),
            prompt: string("prompt"),
        }
    }

    fn body(&self) -> Body {
        let mut body = Body::new();
        body.string("who", self.who.word());
        add_texts(
            &mut body,
            &[
                ("session", &self.session),
                ("session_id", &self.session_id),
                ("quote", &self.quote),
                ("model", &self.model),
                ("prompt", &self.prompt),
            ],
        );
        if let Some(seqs) = self.seqs {
            add_json(&mut body, "turns", &seqs);
        }
        body
    }
}

/// An item to be remembered.
///
/// ```
/// use manent::memory::{Kind, NewItem};
/// let item = NewItem::new(Kind::Pref, "tabs, not spaces").tag("style");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewItem {
    /// The kind of the item.
    pub kind: Kind,
    /// The text to remember.
    pub content: String,
    /// Labels.
    pub tags: Vec<String>,
    /// The origin of the item.
    pub source: Source,
    /// The item that this one replaces, if any: that one stays, hidden, until this one is forgotten.
    pub replaces: Option<u64>,
}

impl NewItem {
    /// Makes an item of what the user said.
    pub fn new(kind: Kind, content: impl Into<String>) -> NewItem {
        let source = Source::by(SourceKind::User);
        NewItem { kind, content: content.into(), tags: Vec::new(), source, replaces: None }
    }

    /// Adds a label.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> NewItem {
        self.tags.push(tag.into());
        self
    }

    /// Sets the source.
    #[must_use]
    pub fn from(mut self, source: Source) -> NewItem {
        self.source = source;
        self
    }

    /// Instead of another item.
    #[must_use]
    pub fn replacing(mut self, id: u64) -> NewItem {
        self.replaces = Some(id);
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.content.trim().is_empty() {
            return Err(ItemError::Empty.into());
        }
        for tag in &self.tags {
            let chars = tag.chars().count();
            if tag.trim().is_empty() || chars > TAG_CHARS_MAX || tag.chars().any(char::is_control) {
                return Err(ItemError::Tag(tag.chars().take(SHOWN_CHARS).collect()).into());
            }
        }
        if let SourceKind::Other(word) = &self.source.who {
            return Err(ItemError::SourceKind(word.chars().take(SHOWN_CHARS).collect()).into());
        }
        Ok(())
    }

    /// The record of it. What decides about other items stands first, the text last: see `operation.rs`.
    pub(crate) fn body(&self, id: u64, ts: &str, key: &str) -> Body {
        let mut body = begun(self.kind.word(), id, ts);
        if let Some(replaced) = self.replaces {
            body.number("replaces", replaced);
        }
        if !self.tags.is_empty() {
            add_json(&mut body, "tags", &self.tags);
        }
        body.idempotent(key).object("source", &self.source.body()).string("content", &self.content);
        body
    }

    /// The item as it stands in the file now.
    pub(crate) fn written(&self, id: u64, ts: String, line: String) -> Item {
        Item {
            id,
            kind: self.kind,
            content: self.content.clone(),
            tags: self.tags.clone(),
            source: self.source.clone(),
            at_ms: clock::parse_ms(&ts).unwrap_or_default(),
            ts,
            replaces: self.replaces,
            line,
        }
    }
}

/// The record that an item is forgotten.
pub(crate) fn tombstone(id: u64, target: u64) -> Body {
    let mut body = begun(FORGET, id, &clock::now());
    body.number("target", target);
    body
}

fn begun(kind: &str, id: u64, ts: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", ts).string("kind", kind).number("id", id);
    body
}

/// An item that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The number of the item, which is never given to another.
    pub id: u64,
    /// The kind of the item.
    pub kind: Kind,
    /// The remembered text.
    pub content: String,
    /// Labels.
    pub tags: Vec<String>,
    /// The origin of the item.
    pub source: Source,
    /// The time of writing, as the record says; empty if it does not.
    pub ts: String,
    /// The same, in milliseconds since 1970; where the record does not say, that of the one before.
    pub at_ms: i64,
    /// The item that it replaces.
    pub replaces: Option<u64>,
    /// The record as it stands in the file.
    pub line: String,
}

impl Item {
    /// Reads a line. Returns `None` if it is not an item of a known kind.
    pub(crate) fn of(record: &Record<'_>, at_ms: i64) -> Option<Item> {
        let tags = match record.parse("tags") {
            Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            Some(Value::String(tag)) => vec![tag],
            _ => Vec::new(),
        };
        Some(Item {
            id: record.parse("id")?,
            kind: Kind::of_word(&record.kind()?)?,
            content: record.content().into_owned(),
            tags,
            source: Source::of_json(record.member("source")),
            ts: record.ts().unwrap_or_default().into_owned(),
            at_ms,
            replaces: record.parse("replaces"),
            line: record.line().to_owned(),
        })
    }
}

/// The reason why something cannot be remembered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemError {
    /// There is no text.
    #[error("there is nothing to remember: the text is empty")]
    Empty,
    /// The word names no kind.
    #[error("{0:?} is no kind of memory; there are fact, pref, context and daily")]
    Kind(String),
    /// A tag that is no label.
    #[error(
        "the tag {0:?} is no label: one to {TAG_CHARS_MAX} characters, none of them a line break or the like"
    )]
    Tag(String),
    /// The word names no kind of source.
    #[error("{0:?} is nobody to remember things for; there are user, model and import")]
    SourceKind(String),
    /// The words are not in the passage.
    #[error("the quote is not in {0}; nothing was remembered: quote what was said, to the letter")]
    Quote(String),
    /// All numbers are taken.
    #[error(
        "the memory has given out its last number ({ID_MAX}); nothing more can be remembered in this file"
    )]
    NoMoreIds,
}

/// The kind of a record that forgets another.
pub(crate) const FORGET: &str = "forget";
/// The highest id that is given out: other programs read numbers as floating point.
pub(crate) const ID_MAX: u64 = (1 << 53) - 1;
const TAG_CHARS_MAX: usize = 100;
/// The number of characters of a refused text that a message shows.
const SHOWN_CHARS: usize = 40;
