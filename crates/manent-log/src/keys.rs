//! Keys under which records are known, so that an append whose outcome is unknown can be tried again.
//!
//! A [`KeyRule`] says which keys a line has and how far back keys count. A [`KeyIndex`] holds where the records with
//! these keys lie, and [`sort_out`] decides which bodies of an append are written. Every backend uses the three; what
//! is special about files is in `log/keys.rs`.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use crate::body::{self, Body, idempotency_key};
use crate::reader::Entry;

/// The number of records at the end of a log among which [`KeyRule::IDEMPOTENCY`] looks for a key, at least.
pub const KEY_RECORDS: usize = 1000;

/// Calls a function with each key of a line.
pub type KeysOf = fn(&Entry<'_>, &mut dyn FnMut(&[u8]));

/// Says under which keys records are known, and how far back keys count.
#[derive(Debug, Clone, Copy)]
pub struct KeyRule {
    name: &'static str,
    reach: Reach,
    keys_of: KeysOf,
    bodies: BodyKeys,
}

/// How far back keys count.
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

/// Where the keys of a body come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKeys {
    /// From the line that the body becomes.
    Line,
    /// From [`Body::key`], without reading the body.
    Given,
}

impl KeyRule {
    /// The key that a body was given with [`Body::idempotent`], among the last [`KEY_RECORDS`] records. Lines of other
    /// programs have no key. A body without a key is never taken for a record that is there.
    pub const IDEMPOTENCY: KeyRule = KeyRule {
        name: "idempotency_key",
        reach: Reach::Last(KEY_RECORDS),
        keys_of: key_of_member,
        bodies: BodyKeys::Given,
    };

    /// Makes a rule. What is derived by it is kept between calls under `name`, so rules of the same name derive the
    /// same keys.
    ///
    /// `keys_of` depends on the members of a line alone, without `seq` and `crc`, which a record that is about to be
    /// appended does not have yet. It is called for lines of other programs too, which are not verified. Keys are kept
    /// in memory as they are, so a function hashes what may be long.
    pub const fn new(name: &'static str, reach: Reach, keys_of: KeysOf) -> KeyRule {
        KeyRule { name, reach, keys_of, bodies: BodyKeys::Line }
    }

    /// Returns what tells this rule from others.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns how far back keys count.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Calls `add` with each key of a line.
    pub fn keys_of(&self, line: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
        (self.keys_of)(line, add);
    }

    /// Returns whether a line has this key.
    pub fn has_key(&self, line: &Entry<'_>, key: &[u8]) -> bool {
        let mut found = false;
        self.keys_of(line, &mut |one| found |= one == key);
        found
    }

    /// Returns whether a body may have keys, without deriving them.
    pub(crate) fn may_have_keys(&self, body: &Body) -> bool {
        self.bodies == BodyKeys::Line || body.key().is_some()
    }

    fn keys_of_body(&self, body: &Body, add: &mut dyn FnMut(&[u8])) {
        match self.bodies {
            BodyKeys::Given => body.key().into_iter().for_each(|key| add(key.as_bytes())),
            BodyKeys::Line => {
                let line = [b"{", body.as_bytes(), b"}"].concat();
                self.keys_of(&Entry { seq: 1, offset: 0, bytes: &line, verified: true }, add);
            }
        }
    }

    /// Calls `add` with each key of a record that was appended: the body, and the line that it became.
    fn keys_of_appended(&self, body: &Body, line: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
        match self.bodies {
            BodyKeys::Given if !body::may_hide_a_key(body) => self.keys_of_body(body, add),
            BodyKeys::Given | BodyKeys::Line => self.keys_of(line, add),
        }
    }
}

/// Returns the key of a record of ours: another program's line is not ours to give a receipt for.
fn key_of_member(line: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
    if let Some(key) = Some(line).filter(|line| line.verified).and_then(|line| idempotency_key(line.bytes)) {
        add(key.as_bytes());
    }
}

/// Number and place of a record: an offset in a file, a position elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// The record's number.
    pub seq: u64,
    /// Where it lies.
    pub offset: u64,
}

/// The places of the records of one stream, by their keys under one rule.
#[derive(Debug, Default)]
pub struct KeyIndex {
    rule: Option<KeyRule>,
    first: HashMap<Box<[u8]>, RecordPlace>,
    /// The last record of a key that several have.
    last: HashMap<Box<[u8]>, RecordPlace>,
    /// Everything before this offset or position was read.
    upto: u64,
}

impl KeyIndex {
    /// Makes an empty index for a rule.
    pub fn new(rule: &KeyRule) -> KeyIndex {
        KeyIndex { rule: Some(*rule), ..KeyIndex::default() }
    }

    /// Returns whether what is here was derived by this rule and is not more than its reach is worth: an index of the
    /// last records forgets nothing by itself, so it is made anew when it holds several times as many.
    pub fn serves(&self, rule: &KeyRule) -> bool {
        let is_small = match rule.reach {
            Reach::Last(records) => self.first.len() <= records.saturating_mul(INDEX_TIMES_MAX),
            Reach::Whole => true,
        };
        is_small && self.rule.is_some_and(|own| own.name == rule.name)
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the record with a key.
    pub fn find(&self, key: &[u8], which: Occurrence) -> Option<RecordPlace> {
        let last = if which == Occurrence::Last { self.last.get(key) } else { None };
        last.or_else(|| self.first.get(key)).copied()
    }

    /// Returns the offset or position up to which the stream was read.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// Says up to which offset or position the stream was read.
    pub fn read_to(&mut self, upto: u64) {
        self.upto = upto;
    }

    /// Adds the keys of a line behind those that are here. A header has none.
    pub fn add(&mut self, line: &Entry<'_>) {
        let Some(rule) = self.rule.filter(|_| line.seq > 0) else { return };
        rule.keys_of(line, &mut |key| self.add_key(key, line));
    }

    /// Adds the keys of a record that was appended.
    pub(crate) fn add_appended(&mut self, body: &Body, line: &Entry<'_>) {
        let Some(rule) = self.rule else { return };
        rule.keys_of_appended(body, line, &mut |key| self.add_key(key, line));
    }

    fn add_key(&mut self, key: &[u8], line: &Entry<'_>) {
        let place = RecordPlace { seq: line.seq, offset: line.offset };
        match self.first.entry(key.into()) {
            Slot::Vacant(slot) => drop(slot.insert(place)),
            Slot::Occupied(slot) if *slot.get() == place => {}
            Slot::Occupied(slot) => drop(self.last.insert(slot.key().clone(), place)),
        }
    }

    /// Adds the keys of a line that stands before all of those that are here.
    pub(crate) fn add_before(&mut self, line: &Entry<'_>) {
        let Some(rule) = self.rule.filter(|_| line.seq > 0) else { return };
        let place = RecordPlace { seq: line.seq, offset: line.offset };
        rule.keys_of(line, &mut |key| {
            if let Some(later) = self.first.insert(key.into(), place).filter(|later| *later != place) {
                self.last.entry(key.into()).or_insert(later);
            }
        });
    }
}

/// What becomes of one body of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// There is a record with one of its keys, at this place.
    Known(RecordPlace),
    /// It is this one of those that are written.
    Written(usize),
}

/// Decides what becomes of each body of an append, given where records with keys lie; and which bodies are written. Of
/// several with one key only the first is.
pub fn sort_out<'b, E>(
    rule: &KeyRule,
    bodies: &'b [Body],
    mut find: impl FnMut(&[u8]) -> Result<Option<RecordPlace>, E>,
) -> Result<(Vec<Fate>, Vec<&'b Body>), E> {
    let mut written: Vec<&Body> = Vec::new();
    let mut written_keys: HashMap<Box<[u8]>, usize> = HashMap::new();
    let mut fates = Vec::with_capacity(bodies.len());
    for body in bodies {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        rule.keys_of_body(body, &mut |key| keys.push(key.into()));
        let mut known = None;
        for key in &keys {
            known = find(key)?;
            if known.is_some() {
                break;
            }
        }
        let earlier = || keys.iter().find_map(|key| written_keys.get(key)).copied();
        let fate = match known {
            Some(place) => Fate::Known(place),
            None => Fate::Written(earlier().unwrap_or(written.len())),
        };
        if fate == Fate::Written(written.len()) {
            for key in keys {
                written_keys.entry(key).or_insert(written.len());
            }
            written.push(body);
        }
        fates.push(fate);
    }
    Ok((fates, written))
}

/// An index of the last records is read again when it holds so many times as many keys as records count.
const INDEX_TIMES_MAX: usize = 4;
