//! What the checks share: making records, reading them back, and saying in words what is not as it should be.

use std::sync::Arc;
use std::time::Duration;

use manent_log::frame;
use manent_log::{Body, Change, Durability, Expect, Item};

use super::Make;
use crate::backend::{
    Address, Backend, Exclusive, Header, Lease, Listed, Place, Receipt, Records, Start, Terms, Which,
};
use crate::error::{Error, Result};
use crate::key::SessionKey;
use crate::meta::{Author, Parent};
use crate::turn::{Record, turn_body};

/// Longer than anything takes; nothing is ever measured with it.
pub(super) const LONG: Duration = Duration::from_mins(2);

/// The backend that is looked at.
pub(super) struct Subject {
    pub(super) backend: Arc<dyn Backend>,
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) seq: u64,
    pub(super) position: u64,
    pub(super) line: String,
}

impl Seen {
    pub(super) fn text(&self) -> String {
        let entry = manent_log::Entry {
            seq: self.seq,
            offset: self.position,
            bytes: self.line.as_bytes(),
            verified: true,
        };
        Record::of(&entry).expect("a line of UTF-8").content().into_owned()
    }
}

pub(super) fn key(text: &str) -> SessionKey {
    SessionKey::new(text).expect("a key")
}

/// A turn.
pub(super) fn said(text: &str) -> Body {
    turn_body("2026-01-02T03:04:05.678Z", "user", text)
}

/// A record that is no turn.
pub(super) fn note(text: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", "2026-01-02T03:04:05.678Z").string("kind", "note").string("content", text);
    body
}

pub(super) fn header(key: &SessionKey) -> Header {
    header_of_fork(key, None)
}

pub(super) fn header_of_fork(key: &SessionKey, parent: Option<&Parent>) -> Header {
    Author { app: "contract", cwd: None }.header(key, parent)
}

/// What a line of a file would be.
pub(super) fn line(seq: u64, body: &Body) -> String {
    let mut line = String::from_utf8(frame::line(seq, body)).expect("a body is UTF-8");
    line.pop();
    line
}

pub(super) fn is_held(error: &Error) -> bool {
    matches!(error.root(), Error::Log(e) if matches!(e.root(), manent_log::Error::Held { .. }))
}

/// What the next number would have been, if the error is a conflict.
pub(super) fn conflict(error: &Error) -> Option<u64> {
    match error.root() {
        Error::Log(e) => match e.root() {
            manent_log::Error::Conflict { next, .. } => Some(*next),
            _ => None,
        },
        _ => None,
    }
}

#[track_caller]
pub(super) fn assert_held<T>(outcome: Result<T>, what: &str) {
    match outcome {
        Err(e) if is_held(&e) => {}
        Err(e) => panic!("{what}: wanted manent_log::Error::Held, found: {e}"),
        Ok(_) => panic!("{what}: wanted manent_log::Error::Held, but it was done"),
    }
}

#[track_caller]
pub(super) fn assert_not_found<T>(outcome: Result<T>, what: &str) {
    match outcome {
        Err(e) if e.is_not_found() => {}
        Err(e) => panic!("{what}: wanted Error::NotFound, found: {e}"),
        Ok(_) => panic!("{what}: wanted Error::NotFound, but it was done"),
    }
}

#[track_caller]
pub(super) fn assert_in_the_way<T>(outcome: Result<T>, wanted: Place, what: &str) {
    match outcome {
        Err(Error::InTheWay { place, .. }) if place == wanted => {}
        Err(e) => panic!("{what}: wanted Error::InTheWay with {wanted:?}, found: {e}"),
        Ok(_) => panic!("{what}: wanted Error::InTheWay with {wanted:?}, but it was done"),
    }
}

/// Reads what is there now.
#[track_caller]
pub(super) fn rest_of(records: &mut dyn Records) -> Vec<Seen> {
    let mut all = Vec::new();
    while let Some(item) = records.next().expect("reading goes on") {
        match item {
            Item::Entry(entry) => {
                assert!(entry.verified, "the checksum of record {} was not found to hold", entry.seq);
                assert_eq!(frame::verify(entry.bytes), Some(entry.seq), "a line that carries its own number");
                let line = String::from_utf8(entry.bytes.to_vec()).expect("a line of UTF-8");
                all.push(Seen { seq: entry.seq, position: entry.offset, line });
            }
            Item::Damage(damage) => panic!("nothing was damaged, but {damage:?} was read"),
        }
    }
    assert!(records.item().is_none(), "at the end there is no item");
    all
}

pub(super) fn numbers(seen: &[Seen]) -> Vec<u64> {
    seen.iter().map(|seen| seen.seq).collect()
}

/// Lets other threads come to where they wait. Nothing depends on it; without it, less would be tried.
pub(super) fn let_others_run() {
    std::thread::sleep(Duration::from_millis(20));
}

impl Subject {
    pub(super) fn new(make: Make<'_>) -> Subject {
        Subject { backend: make() }
    }

    pub(super) fn append(&self, key: &SessionKey, bodies: &[Body], expect: Expect) -> Result<Vec<Receipt>> {
        self.append_on(key, bodies, &Terms { durability: Durability::Flush, expect, wait: LONG })
    }

    pub(super) fn append_on(&self, key: &SessionKey, bodies: &[Body], terms: &Terms) -> Result<Vec<Receipt>> {
        self.backend.append(key, &|| header(key), bodies, terms)
    }

    /// Appends a turn.
    #[track_caller]
    pub(super) fn say(&self, key: &SessionKey, text: &str) -> Receipt {
        let receipts = self.append(key, &[said(text)], Expect::Any).expect("the record is taken");
        assert_eq!(receipts.len(), 1, "one receipt for one record");
        receipts[0].clone()
    }

    pub(super) fn lease(&self, key: &SessionKey, wait: Duration) -> Result<Box<dyn Lease>> {
        self.backend.lease(key, Some(&|| header(key)), wait)
    }

    pub(super) fn moving(&self) -> Box<dyn Exclusive> {
        self.backend.exclusive(LONG).expect("the right to move streams")
    }

    #[track_caller]
    pub(super) fn relocate(&self, at: &Address, to: Place) -> Address {
        self.try_relocate(at, to).expect("the stream is moved")
    }

    pub(super) fn try_relocate(&self, at: &Address, to: Place) -> Result<Address> {
        let _moving = self.moving();
        self.backend.relocate(at, to, LONG)
    }

    pub(super) fn delete(&self, at: &Address) -> Result<()> {
        let _moving = self.moving();
        self.backend.delete(at, LONG)
    }

    pub(super) fn create(&self, key: &SessionKey, header: &Header, bodies: &[Body]) -> Result<()> {
        let _moving = self.moving();
        self.backend.create(key, header, &mut bodies.iter().cloned().map(Ok))
    }

    #[track_caller]
    pub(super) fn open(&self, at: &Address, start: Start) -> Box<dyn Records> {
        self.backend.read(at, start, None).expect("the stream is read")
    }

    #[track_caller]
    pub(super) fn read(&self, at: &Address, start: Start, until: Option<u64>) -> Vec<Seen> {
        rest_of(&mut *self.backend.read(at, start, until).expect("the stream is read"))
    }

    /// All of a stream, the header first.
    #[track_caller]
    pub(super) fn all(&self, at: &Address) -> Vec<Seen> {
        let all = self.read(at, Start::First, None);
        assert_eq!(all.first().map(|seen| seen.seq), Some(0), "a stream begins with its header");
        all
    }

    /// The texts of all records behind the header, whose numbers have no gap.
    #[track_caller]
    pub(super) fn texts(&self, at: &Address) -> Vec<String> {
        let records = &self.all(at)[1..];
        let first = records.first().map_or(1, |seen| seen.seq);
        let wanted: Vec<u64> = (first..first + records.len() as u64).collect();
        assert_eq!(numbers(records), wanted, "numbers without a gap");
        records.iter().map(Seen::text).collect()
    }

    /// The address of the live stream of a key.
    #[track_caller]
    pub(super) fn live(&self, key: &SessionKey) -> Address {
        let mut listed = self.list(Place::Live, Which::Key(key));
        assert_eq!(listed.len(), 1, "one live stream of the key {key:?}");
        listed.remove(0).address
    }

    #[track_caller]
    pub(super) fn list(&self, place: Place, which: Which<'_>) -> Vec<Listed> {
        self.backend.list(place, which).expect("a list")
    }

    /// In which places a list of everything shows a stream with this id.
    #[track_caller]
    pub(super) fn places_of(&self, id: &str) -> Vec<Place> {
        let in_place = |place: Place| {
            let all = self.list(place, Which::All).into_iter();
            all.filter(|listed| listed.address.id == id).map(move |listed| {
                assert_eq!(listed.address.place, place, "a list shows what is in its place");
                place
            })
        };
        Place::ALL.into_iter().flat_map(in_place).collect()
    }

    #[track_caller]
    pub(super) fn change(records: &dyn Records) -> Change {
        records.change().expect("the stream is looked at")
    }
}
