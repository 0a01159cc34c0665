//! Keys under which records are known, so that an append whose outcome is unknown can be tried again.
//!
//! A [`KeyRule`] says which keys a line has and how far back keys count. A [`KeyIndex`] holds where the records with
//! these keys lie, and [`deduplicate`] decides which bodies of an append are written. Every backend uses the three;
//! what is special about files is in `log/keys.rs`.

use std::collections::HashMap;

use crate::body::{self, Body, idempotency_key};
use crate::reader::Entry;

/// The number of records at the end of a log among which [`KeyRule::IDEMPOTENCY`] looks for a key, at least.
pub const KEY_RECORDS: usize = 1000;

/// Says under which keys records are known, and how far back keys count.
#[derive(Debug, Clone, Copy)]
pub struct KeyRule {
    /// Tells the rule from others. What is derived by a rule is kept between calls under its name.
    pub name: &'static str,
    /// The distance from the end within which keys count.
    pub reach: Reach,
    /// Derives the keys. It depends on the members of the line alone, without `seq`
    /// and `crc`, which a record that is about to be appended does not have yet. Lines of other programs, which are not
    /// verified, may have keys too. Keys are kept in memory as they are, so that what may be long is hashed.
    pub keys_of: KeysOf,
}

/// Calls a function with each key of a line.
pub type KeysOf = fn(&Entry<'_>, &mut dyn FnMut(&[u8]));

/// The distance from the end of a stream within which keys count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Among so many records at the end of a stream, or more.
    Last(usize),
    /// In the whole stream.
    Whole,
}

/// Selects one of several records with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurrence {
    /// The one that stands first, within reach.
    First,
    /// The one that stands last.
    Last,
}

impl KeyRule {
    /// The key that a body was given with [`Body::idempotent`], among the last [`KEY_RECORDS`] records. A body without
    /// one is never taken for a record that is there, and lines of other programs have none: they are not ours to give
    /// a receipt for.
    pub const IDEMPOTENCY: KeyRule = KeyRule {
        name: "idempotency_key",
        reach: Reach::Last(KEY_RECORDS),
        keys_of: |line, add| {
            let key = if line.verified { idempotency_key(line.bytes) } else { None };
            if let Some(key) = key {
                add(key.as_bytes());
            }
        },
    };

    /// Returns whether this is [`KeyRule::IDEMPOTENCY`], by which a body tells its key without being read.
    pub fn is_idempotency(&self) -> bool {
        self.name == KeyRule::IDEMPOTENCY.name
    }

    /// Returns the keys by which a body is looked for.
    fn keys_of_body(&self, body: &Body) -> Vec<Box<[u8]>> {
        if self.is_idempotency() {
            return body.key().map(|key| key.as_bytes().into()).into_iter().collect();
        }
        let line = [b"{", body.as_bytes(), b"}"].concat();
        let mut keys = Vec::new();
        let line = Entry { seq: 1, offset: 0, bytes: &line, verified: true };
        (self.keys_of)(&line, &mut |key| keys.push(key.into()));
        keys
    }
}

/// Number and place of a record: its offset in a file, its position elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// The record's number.
    pub seq: u64,
    /// The offset at which it begins.
    pub offset: u64,
}

/// The places of the records of one stream, by their keys under one rule. The default is an index of no rule.
#[derive(Debug, Default)]
pub struct KeyIndex {
    rule: Option<KeyRule>,
    /// The first and the last record of each key.
    places: HashMap<Box<[u8]>, [RecordPlace; 2]>,
    /// The offset or position before which everything was read.
    pub upto: u64,
}

impl KeyIndex {
    /// Makes an empty index for a rule.
    pub fn new(rule: &KeyRule) -> KeyIndex {
        KeyIndex { rule: Some(*rule), ..KeyIndex::default() }
    }

    /// Returns whether this is the index of a rule, and not much larger than its reach: keys are never forgotten one by
    /// one.
    pub fn serves(&self, rule: &KeyRule) -> bool {
        let max = match rule.reach {
            Reach::Last(records) => records.saturating_mul(4),
            Reach::Whole => usize::MAX,
        };
        self.key_count() <= max && self.rule.is_some_and(|own| own.name == rule.name)
    }

    /// Returns the number of keys.
    pub fn key_count(&self) -> usize {
        self.places.len()
    }

    /// Returns the record with a key.
    pub fn find(&self, key: &[u8], which: Occurrence) -> Option<RecordPlace> {
        self.places.get(key).map(|places| places[usize::from(which == Occurrence::Last)])
    }

    /// Adds the keys of a line that stands behind all others. A header has none. [`KeyIndex::upto`] is left to the
    /// caller.
    pub fn add(&mut self, line: &Entry<'_>) {
        if let Some(rule) = self.rule.filter(|_| line.seq > 0) {
            (rule.keys_of)(line, &mut |key| self.add_key(key, line));
        }
    }

    /// Adds the keys of a record that was just made of a body.
    pub(crate) fn add_appended(&mut self, body: &Body, line: &Entry<'_>) {
        if !self.rule.is_some_and(|rule| rule.is_idempotency()) || body::may_hide_a_key(body) {
            self.add(line);
        } else if let Some(key) = body.key() {
            self.add_key(key.as_bytes(), line);
        }
    }

    fn add_key(&mut self, key: &[u8], line: &Entry<'_>) {
        let place = RecordPlace { seq: line.seq, offset: line.offset };
        self.places.entry(key.into()).or_insert([place; 2])[1] = place;
    }
}

/// The decision on one body of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupOutcome {
    /// There is a record with one of its keys, at this place.
    Known(RecordPlace),
    /// The body is written, as this one of those that are.
    Written(usize),
}

/// Decides what becomes of each body of an append, given where records with keys lie; and which bodies are written. Of
/// several with one key only the first is.
pub fn deduplicate<'b, E>(
    rule: &KeyRule,
    bodies: &'b [Body],
    mut find: impl FnMut(&[u8]) -> Result<Option<RecordPlace>, E>,
) -> Result<(Vec<DedupOutcome>, Vec<&'b Body>), E> {
    let mut written: Vec<&Body> = Vec::new();
    let mut written_keys: HashMap<Box<[u8]>, usize> = HashMap::new();
    let mut outcomes = Vec::with_capacity(bodies.len());
    for body in bodies {
        let keys = rule.keys_of_body(body);
        if let Some(place) = keys.iter().find_map(|key| find(key).transpose()) {
            outcomes.push(DedupOutcome::Known(place?));
            continue;
        }
        let nth = keys.iter().find_map(|key| written_keys.get(key)).copied().unwrap_or(written.len());
        if nth == written.len() {
            written.push(body);
            written_keys.extend(keys.into_iter().map(|key| (key, nth)));
        }
        outcomes.push(DedupOutcome::Written(nth));
    }
    Ok((outcomes, written))
}
