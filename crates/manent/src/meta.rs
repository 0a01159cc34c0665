//! The headers of streams: the id and key of a session, its writer, and the session it was forked from.

use manent_log::{Body, Entry};
use serde_json::value::RawValue;

use manent_store::{KeyParts, SessionKey, StreamHeader};

use crate::store::StoreOptions;
use crate::turn::Record;
use manent_store::clock;

/// The contents of a session's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meta {
    /// The session's id; empty in other programs' files.
    pub id: String,
    /// The session's key.
    pub key: String,
    /// The parts that the key was made of, if it was made of parts.
    pub parts: Option<KeyParts>,
    /// The session that this one was forked from.
    pub parent: Option<Parent>,
    /// Ids of sessions that it was forked from and of which it holds a copy, because they were purged.
    pub copied: Vec<String>,
}

/// The session that a fork continues, up to one of its records.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Parent {
    /// The other session's id.
    pub id: String,
    /// The key of the other session when it was forked.
    #[serde(default)]
    pub key: String,
    /// The last record that is shared.
    pub upto: u64,
    /// The checksum of that record: a number can be used again after a power cut, a record cannot.
    #[serde(default)]
    pub crc: String,
}

impl Meta {
    /// Reads the line of a header; `None` if this is not one of ours. Each member is looked at on its own, so that one
    /// of another shape, written by somebody newer, hides no other.
    pub(crate) fn of_line(line: &[u8]) -> Option<Meta> {
        let record = Record::of(&Entry { seq: 0, offset: 0, bytes: line, verified: true })?;
        let members = manent_log::members_of(record.member("meta")?)?;
        let json = |name: &str| members.iter().rfind(|(n, _)| n == name).map(|(_, json)| *json);
        let string = |name: &str| json(name).and_then(|json| serde_json::from_str::<String>(json).ok());
        let parts = string("channel").map(|channel| KeyParts {
            channel,
            room: string("room"),
            thread: string("thread"),
            sender: string("sender"),
        });
        Some(Meta {
            id: string("id").unwrap_or_default(),
            key: string("key").unwrap_or_default(),
            parts,
            parent: json("parent").and_then(|json| serde_json::from_str(json).ok()),
            copied: json("copied").and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default(),
        })
    }
}

/// Makes the header of a new session.
pub(crate) fn session_header(
    options: &StoreOptions,
    key: &SessionKey,
    parent: Option<&Parent>,
) -> StreamHeader {
    new_header(|meta| {
        meta.string("key", key.as_str());
        if let Some(KeyParts { channel, room, thread, sender }) = key.parts() {
            meta.string("channel", channel);
            add_texts(meta, &[("room", room), ("thread", thread), ("sender", sender)]);
        }
        meta.string("app", &options.app);
        add_texts(meta, &[("cwd", &options.cwd)]);
        if let Some(parent) = parent {
            add_json(meta, "parent", parent);
        }
    })
}

/// Makes the header of a new stream, with an id of its own. `fill` adds the other members of its `meta`.
pub(crate) fn new_header(fill: impl FnOnce(&mut Body)) -> StreamHeader {
    let id = uuid::Uuid::now_v7().to_string();
    let mut meta = Body::new();
    meta.number("format", manent_log::FORMAT).string("id", &id);
    fill(&mut meta);
    let mut body = Body::new();
    body.string("ts", &clock::now()).object("meta", &meta);
    StreamHeader { id, body }
}

/// Adds those of the members that have a text.
pub(crate) fn add_texts(body: &mut Body, members: &[(&str, &Option<String>)]) {
    for (name, text) in members {
        if let Some(text) = text {
            body.string(name, text);
        }
    }
}

/// The same header with another parent, or none, which notes that the records of `copied` are in the session itself
/// now; every other member stays as it stands.
pub(crate) fn with_parent(line: &str, parent: Option<&Parent>, copied: &str) -> Body {
    let mut body = Body::new();
    for (name, json) in manent_log::members_of(line).unwrap_or_default() {
        if name != "meta" {
            push(&mut body, &name, json);
            continue;
        }
        let mut meta = Body::new();
        let mut ids: Vec<String> = Vec::new();
        for (name, json) in manent_log::members_of(json).unwrap_or_default() {
            match name.as_ref() {
                "parent" => {}
                "copied" => ids = serde_json::from_str(json).unwrap_or_default(),
                _ => push(&mut meta, &name, json),
            }
        }
        if let Some(parent) = parent {
            add_json(&mut meta, "parent", parent);
        }
        ids.push(copied.to_owned());
        add_json(&mut meta, "copied", &ids);
        body.object("meta", &meta);
    }
    body
}

/// Adds a member that serializes without fail: numbers, texts and lists of them.
pub(crate) fn add_json(body: &mut Body, name: &str, value: &impl serde::Serialize) {
    if let Ok(raw) = serde_json::value::to_raw_value(value) {
        body.json(name, &raw);
    }
}

fn push(body: &mut Body, name: &str, json: &str) {
    if let Ok(raw) = serde_json::from_str::<&RawValue>(json) {
        body.json(name, raw);
    }
}
