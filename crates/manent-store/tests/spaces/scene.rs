//! Stores on the simulated disk, records, and what a space holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use manent_log::{Body, Durability, Entry, FORMAT, KeyRule, LogItem, Reach, frame, members_of};
use manent_sim::SimDisk;
use manent_sim::model::Written;
use manent_store::{
    AppendOptions, Files, Lock, LockMode, LockName, Place, Result, Seek, Selector, SessionKey, Space,
    StreamFilter, StreamHeader, StreamId, StreamStat, Streams, Target,
};

const HOME: &str = "/home/store";

/// Knows every record of a stream by its text.
pub(crate) const TEXTS: KeyRule = KeyRule { name: "texts", reach: Reach::Whole, keys_of: text_of };

fn text_of(line: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
    let members = std::str::from_utf8(line.bytes).ok().and_then(members_of).unwrap_or_default();
    if let Some((_, text)) = members.iter().find(|(name, _)| name == "content") {
        add(text.as_bytes());
    }
}

/// Makes an empty disk.
pub(crate) fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.poke_dir("/home").unwrap();
    disk
}

pub(crate) fn try_open(disk: &SimDisk) -> Result<Files> {
    Ok(Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO))
}

pub(crate) fn open(disk: &SimDisk) -> Files {
    try_open(disk).unwrap()
}

/// Returns the key of the stream that the tests use.
pub(crate) fn key(space: Space) -> SessionKey {
    SessionKey::new(space.fixed_keys().map_or("work", |keys| keys[0])).unwrap()
}

/// Names the live stream that the tests use.
pub(crate) fn at(space: Space) -> StreamId {
    StreamId::live_in(space, &key(space))
}

/// Makes a header with an id that no other has.
pub(crate) fn header(space: Space) -> StreamHeader {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = format!("01a1e14d-2382-722e-bd10-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed));
    let (mut meta, mut body) = (Body::new(), Body::new());
    meta.number("format", FORMAT).string("id", &id).string("key", key(space).as_str());
    body.object("meta", &meta);
    StreamHeader { id, body }
}

pub(crate) fn turn(text: &str) -> Body {
    let mut body = Body::new();
    body.string("role", "user").string("content", text);
    body
}

/// Makes a record with an idempotency key.
pub(crate) fn keyed(by: &str, text: &str) -> Body {
    let mut body = Body::new();
    body.string("role", "user").idempotent(by).string("content", text);
    body
}

/// Appends records that survive power loss.
pub(crate) fn append(files: &Files, space: Space, bodies: &[Body], keys: &KeyRule) -> Result<Vec<u64>> {
    let how = AppendOptions { keys, ..AppendOptions::new(Durability::Sync) };
    let receipts = files.append(&at(space), &|| header(space), bodies, &how)?;
    Ok(receipts.iter().map(|receipt| receipt.seq).collect())
}

/// Takes the right to move, make and remove streams.
pub(crate) fn moves(files: &Files, space: Space) -> Result<Lock> {
    files.lock(LockName::Moves(space), LockMode::Exclusive, Duration::ZERO)
}

/// Returns the streams of a space, in every place.
pub(crate) fn list(files: &Files, space: Space) -> Result<Vec<StreamStat>> {
    let mut all = Vec::new();
    for place in space.places() {
        all.extend(files.list(&StreamFilter::new(space, *place, Selector::All))?);
    }
    Ok(all)
}

/// A stream as it is read: its records, and how many places of it are damaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) records: Vec<Written>,
    pub(crate) damaged: usize,
}

impl Content {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.records.iter().map(|record| text(&record.body)).collect()
    }
}

/// Returns the text of a record.
fn text(body: &[u8]) -> String {
    let object = format!("{{{}}}", std::str::from_utf8(body).unwrap());
    let members = members_of(&object).unwrap();
    let (_, json) = members.iter().find(|(name, _)| name == "content").unwrap();
    serde_json::from_str(json).unwrap()
}

pub(crate) fn read(files: &Files, id: &StreamId) -> Result<Content> {
    let mut content = Content::default();
    let mut reader = files.open(Target::Id(id))?;
    reader.seek(Seek::First)?;
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Damage(_) => content.damaged += 1,
            LogItem::Entry(entry) if entry.seq == 0 => {}
            LogItem::Entry(entry) => {
                content.records.push(Written { seq: entry.seq, body: frame::body_of(entry.bytes).to_vec() });
            }
        }
    }
    Ok(content)
}

/// The streams of a space: where each is, and what it holds.
pub(crate) type State = Vec<(Place, Content)>;

/// Reads the streams of a space. A stream of which a crash left nothing is not there.
pub(crate) fn state(files: &Files, space: Space) -> Result<State> {
    let mut state = State::new();
    for stat in list(files, space)? {
        let content = read(files, &stat.id)?;
        if content != Content::default() || !stat.id.id.is_empty() {
            state.push((stat.id.place, content));
        }
    }
    Ok(state)
}
