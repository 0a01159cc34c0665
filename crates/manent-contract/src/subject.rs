//! Helpers of the checks: making records, reading them back, and messages that say what differs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use manent_log::{
    Body, Damage, Durability, Expect, FORMAT, FileChange, LogItem, VerifyReport, frame, members_of,
};
use manent_store::{
    AppendOptions, Error, HeaderNames, IfMissing, Lock, LockMode, LockName, Place, Position, Receipt,
    Replaced, Result, Seek, Selector, SessionKey, Space, StreamFilter, StreamHeader, StreamId, StreamPart,
    StreamReader, StreamStat, StreamWriter, Streams, Target,
};

use crate::Make;

/// A wait that no check reaches. It is never measured.
pub(crate) const LONG: Duration = Duration::from_mins(2);
/// The time that records and acknowledgements carry.
pub(crate) const TS: &str = "2026-01-02T03:04:05.678Z";

/// The backend under test, and the space in which a check works.
pub(crate) struct Subject {
    pub(crate) streams: Arc<dyn Streams>,
    pub(crate) space: Space,
}

/// A record or a line as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadLine {
    pub(crate) seq: u64,
    pub(crate) position: u64,
    pub(crate) line: String,
    pub(crate) verified: bool,
}

impl ReadLine {
    /// Returns the member `content`.
    pub(crate) fn text(&self) -> String {
        let members = members_of(&self.line).expect("a JSON object");
        let content = members.iter().find(|(name, _)| name == "content").map(|(_, json)| *json);
        content.map_or_else(String::new, |json| serde_json::from_str(json).expect("a string"))
    }

    pub(crate) fn position(&self) -> Position {
        Position::new(self.position)
    }
}

/// The stream that a fork continues.
#[derive(Debug, Clone)]
pub(crate) struct Parent {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) upto: u64,
}

pub(crate) fn key(text: &str) -> SessionKey {
    SessionKey::new(text).expect("a key")
}

/// Makes a turn: a record with a role.
pub(crate) fn turn(text: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", TS).string("role", "user").string("content", text);
    body
}

/// Makes a record without a role.
pub(crate) fn note(text: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", TS).string("kind", "note").string("content", text);
    body
}

/// Makes a record with an idempotency key.
pub(crate) fn keyed(by: &str, text: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", TS).string("role", "user").idempotent(by);
    body.string("content", text);
    body
}

/// Says how to append under a lease.
pub(crate) fn how(durability: Durability, expect: Expect) -> AppendOptions<'static> {
    AppendOptions { expect, ..AppendOptions::new(durability) }
}

/// Returns whether a line is a turn.
pub(crate) fn is_turn(line: &[u8]) -> bool {
    let members = std::str::from_utf8(line).ok().and_then(members_of);
    members.is_some_and(|members| members.iter().any(|(name, _)| name == "role"))
}

/// Seeks the last turns.
pub(crate) fn tail(count: u64, before: Option<u64>) -> Seek<'static> {
    Seek::Last { count, before, matches: &is_turn }
}

pub(crate) fn header(key: &SessionKey) -> StreamHeader {
    header_of_fork(key, None)
}

pub(crate) fn header_of_fork(key: &SessionKey, parent: Option<&Parent>) -> StreamHeader {
    let id = new_id();
    StreamHeader { body: header_body(&id, key.as_str(), parent), id }
}

/// Makes the members of a header.
pub(crate) fn header_body(id: &str, key: &str, parent: Option<&Parent>) -> Body {
    let mut meta = Body::new();
    meta.number("format", FORMAT).string("id", id).string("key", key);
    if let Some(parent) = parent {
        let mut of = Body::new();
        of.string("id", &parent.id).string("key", &parent.key).number("upto", parent.upto);
        meta.object("parent", &of);
    }
    let mut body = Body::new();
    body.string("ts", TS).object("meta", &meta);
    body
}

/// Makes an id that no other stream of this process has.
fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("01a1e14d-2382-722e-bd10-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the line of a record as a file would hold it, without the newline.
pub(crate) fn line(seq: u64, body: &Body) -> String {
    let mut line = String::from_utf8(frame::line(seq, body)).expect("a body is UTF-8");
    line.pop();
    line
}

/// Returns the next number that a conflict names, or `None` if the error is another one.
pub(crate) fn conflict(error: &Error) -> Option<u64> {
    match error.log() {
        Some(manent_log::Error::Conflict { next, .. }) => Some(*next),
        _ => None,
    }
}

pub(crate) fn is_too_large(error: &Error) -> bool {
    matches!(error.log(), Some(manent_log::Error::TooLarge { .. }))
}

#[track_caller]
fn assert_error<T>(outcome: Result<T>, is_wanted: impl Fn(&Error) -> bool, wanted: &str, what: &str) {
    match outcome {
        Err(e) if is_wanted(&e) => {}
        Err(e) => panic!("{what}: wanted {wanted}, found: {e}"),
        Ok(_) => panic!("{what}: wanted {wanted}, but it was done"),
    }
}

#[track_caller]
pub(crate) fn assert_held<T>(outcome: Result<T>, what: &str) {
    assert_error(outcome, Error::is_held, "manent_log::Error::Held", what);
}

#[track_caller]
pub(crate) fn assert_not_found<T>(outcome: Result<T>, what: &str) {
    assert_error(outcome, Error::is_not_found, "Error::NotFound", what);
}

#[track_caller]
pub(crate) fn assert_busy<T>(outcome: Result<T>, what: &str) {
    assert_error(outcome, |e| matches!(e.root(), Error::Busy { .. }), "Error::Busy", what);
}

#[track_caller]
pub(crate) fn assert_unsupported<T>(outcome: Result<T>, what: &str) {
    assert_error(outcome, |e| matches!(e.root(), Error::Unsupported { .. }), "Error::Unsupported", what);
}

#[track_caller]
pub(crate) fn assert_not_live<T>(outcome: Result<T>, what: &str) {
    assert_error(outcome, |e| matches!(e.root(), Error::NotLive { .. }), "Error::NotLive", what);
}

#[track_caller]
pub(crate) fn assert_in_the_way<T>(outcome: Result<T>, wanted: Place, what: &str) {
    let is_wanted = |e: &Error| matches!(e.root(), Error::InTheWay { place, .. } if *place == wanted);
    assert_error(outcome, is_wanted, &format!("Error::InTheWay with {wanted:?}"), what);
}

/// Reads the records that are there now. Lines of other programs and damage fail.
#[track_caller]
pub(crate) fn rest_of(reader: &mut dyn StreamReader) -> Vec<ReadLine> {
    let all = lines_of(reader);
    for seen in &all {
        assert!(seen.verified, "the checksum of record {} was not found to hold", seen.seq);
        let carried = frame::verify(seen.line.as_bytes());
        assert_eq!(carried, Some(seen.seq), "a line that carries its own number");
    }
    all
}

/// Reads the records and the lines of other programs that are there now. Damage fails.
#[track_caller]
pub(crate) fn lines_of(reader: &mut dyn StreamReader) -> Vec<ReadLine> {
    let mut all = Vec::new();
    while let Some(item) = reader.next().expect("reading goes on") {
        match item {
            LogItem::Entry(entry) => {
                let line = String::from_utf8(entry.bytes.to_vec()).expect("a line of UTF-8");
                let (seq, position) = (entry.seq, entry.offset);
                all.push(ReadLine { seq, position, line, verified: entry.verified });
            }
            LogItem::Damage(damage) => panic!("nothing was damaged, but {damage:?} was read"),
        }
    }
    assert!(reader.item().is_none(), "at the end there is no item");
    all
}

pub(crate) fn numbers(seen: &[ReadLine]) -> Vec<u64> {
    seen.iter().map(|seen| seen.seq).collect()
}

pub(crate) fn lines(seen: &[ReadLine]) -> Vec<String> {
    seen.iter().map(|seen| seen.line.clone()).collect()
}

/// Gives other threads time to come to where they wait. Nothing depends on it; without it, less would be tried.
pub(crate) fn let_others_run() {
    std::thread::sleep(Duration::from_millis(20));
}

pub(crate) fn records(bodies: &[Body]) -> impl Iterator<Item = Result<StreamPart>> {
    records_from(1, bodies)
}

pub(crate) fn records_from(first: u64, bodies: &[Body]) -> impl Iterator<Item = Result<StreamPart>> {
    (first..).zip(bodies).map(|(seq, body)| Ok(StreamPart::Record { seq, body: body.clone() }))
}

impl Subject {
    /// Makes an empty backend and works in its sessions.
    pub(crate) fn new(make: Make<'_>) -> Subject {
        Subject::within(make, Space::Sessions)
    }

    /// Makes an empty backend and works in a space of it.
    pub(crate) fn within(make: Make<'_>, space: Space) -> Subject {
        Subject { streams: make(), space }
    }

    /// Returns a key of the space.
    pub(crate) fn work(&self) -> SessionKey {
        self.keys(1).remove(0)
    }

    /// Returns another key of the space, or `None` if it has only one.
    pub(crate) fn other(&self) -> Option<SessionKey> {
        self.keys(2).into_iter().nth(1)
    }

    /// Returns keys of the space: as many as asked for, or all that it can have.
    pub(crate) fn keys(&self, count: usize) -> Vec<SessionKey> {
        match self.space.fixed_keys() {
            Some(keys) => keys.iter().take(count).map(|text| key(text)).collect(),
            None => {
                (0..count).map(|n| if n == 0 { key("work") } else { key(&format!("work {n}")) }).collect()
            }
        }
    }

    /// Names the live stream of a key in the space.
    pub(crate) fn at(&self, key: &SessionKey) -> StreamId {
        StreamId::live_in(self.space, key)
    }

    pub(crate) fn append(&self, key: &SessionKey, bodies: &[Body], expect: Expect) -> Result<Vec<Receipt>> {
        self.append_with(
            key,
            bodies,
            AppendOptions { expect, wait: LONG, ..AppendOptions::new(Durability::Flush) },
        )
    }

    pub(crate) fn append_with(
        &self,
        key: &SessionKey,
        bodies: &[Body],
        how: AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        self.streams.append(&self.at(key), &|| header(key), bodies, &how)
    }

    /// Appends a turn.
    #[track_caller]
    pub(crate) fn say(&self, key: &SessionKey, text: &str) -> Receipt {
        let receipts = self.append(key, &[turn(text)], Expect::Any).expect("the record is taken");
        assert_eq!(receipts.len(), 1, "one receipt for one record");
        receipts[0].clone()
    }

    /// Takes the lease of a live stream, which is begun where it is missing.
    pub(crate) fn lease(&self, key: &SessionKey, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        self.streams.lease(&self.at(key), IfMissing::Create(&|| header(key)), wait)
    }

    /// Takes the lease of a stream that exists.
    pub(crate) fn lease_existing(&self, at: &StreamId, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        self.streams.lease(at, IfMissing::Refuse, wait)
    }

    /// Takes the right to move streams.
    pub(crate) fn moving(&self) -> Lock {
        let name = LockName::Moves(self.space);
        self.streams.lock(name, LockMode::Exclusive, LONG).expect("the right to move streams")
    }

    #[track_caller]
    pub(crate) fn relocate(&self, at: &StreamId, to: Place) -> StreamId {
        self.try_relocate(at, to).expect("the stream is moved")
    }

    pub(crate) fn try_relocate(&self, at: &StreamId, to: Place) -> Result<StreamId> {
        let _moving = self.moving();
        self.streams.relocate(at, to, LONG)
    }

    pub(crate) fn delete(&self, at: &StreamId) -> Result<()> {
        let _moving = self.moving();
        self.streams.delete(at, LONG)
    }

    pub(crate) fn create(&self, key: &SessionKey, header: &StreamHeader, bodies: &[Body]) -> Result<()> {
        let first = manent_log::Header::parse(&frame::line(0, &header.body)).first_seq;
        let _moving = self.moving();
        self.streams.create(&self.at(key), header, &mut records_from(first, bodies))
    }

    /// Replaces a stream as a whole.
    pub(crate) fn replace(
        &self,
        at: &StreamId,
        header: Option<&Body>,
        parts: Vec<StreamPart>,
    ) -> Result<Replaced> {
        self.replace_without(at, header, parts, &[])
    }

    pub(crate) fn replace_without(
        &self,
        at: &StreamId,
        header: Option<&Body>,
        parts: Vec<StreamPart>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let _moving = self.moving();
        let writer = self.lease_existing(at, LONG)?;
        writer.replace(header, &mut parts.into_iter().map(Ok), left_out)
    }

    #[track_caller]
    pub(crate) fn open(&self, at: &StreamId, seek: Seek<'_>) -> Box<dyn StreamReader> {
        self.open_counting(at, seek).0
    }

    /// Opens a stream and returns how many of the lines that the seek asked for are missing.
    #[track_caller]
    pub(crate) fn open_counting(&self, at: &StreamId, seek: Seek<'_>) -> (Box<dyn StreamReader>, u64) {
        let mut reader = self.streams.open(Target::Id(at)).expect("the stream is opened");
        let missing = reader.seek(seek).expect("the reader is moved");
        (reader, missing)
    }

    #[track_caller]
    pub(crate) fn read(&self, at: &StreamId, seek: Seek<'_>, until: Option<u64>) -> Vec<ReadLine> {
        let mut reader = self.open(at, seek);
        if let Some(until) = until {
            reader.end_at(until);
        }
        rest_of(&mut *reader)
    }

    /// Reads all of a stream, the header first.
    #[track_caller]
    pub(crate) fn all(&self, at: &StreamId) -> Vec<ReadLine> {
        let all = self.read(at, Seek::First, None);
        assert_eq!(all.first().map(|seen| seen.seq), Some(0), "a stream begins with its header");
        all
    }

    /// Reads all of a stream that may hold lines of other programs.
    #[track_caller]
    pub(crate) fn all_lines(&self, at: &StreamId) -> Vec<ReadLine> {
        lines_of(&mut *self.open(at, Seek::First))
    }

    /// Reads the texts of all records behind the header, whose numbers have no gap.
    #[track_caller]
    pub(crate) fn texts(&self, at: &StreamId) -> Vec<String> {
        let records = &self.all(at)[1..];
        let first = records.first().map_or(1, |seen| seen.seq);
        let wanted: Vec<u64> = (first..first + records.len() as u64).collect();
        assert_eq!(numbers(records), wanted, "numbers without a gap");
        records.iter().map(ReadLine::text).collect()
    }

    /// Reads the texts of the live stream of a key.
    #[track_caller]
    pub(crate) fn live_texts(&self, key: &SessionKey) -> Vec<String> {
        self.texts(&self.at(key))
    }

    /// Returns the name of the live stream of a key, with its id.
    #[track_caller]
    pub(crate) fn live(&self, key: &SessionKey) -> StreamId {
        let mut listed = self.list(Place::Live, Selector::Key(key));
        assert_eq!(listed.len(), 1, "one live stream of the key {key:?}");
        listed.remove(0).id
    }

    #[track_caller]
    pub(crate) fn list(&self, place: Place, which: Selector<'_>) -> Vec<StreamStat> {
        self.filter(&StreamFilter::new(self.space, place, which))
    }

    #[track_caller]
    pub(crate) fn filter(&self, filter: &StreamFilter<'_>) -> Vec<StreamStat> {
        self.streams.list(filter).expect("a list")
    }

    /// Returns how many streams of the space are in each place.
    #[track_caller]
    pub(crate) fn counts(&self) -> [usize; 3] {
        Place::ALL.map(|place| self.list(place, Selector::All).len())
    }

    /// Returns the places in which a list of everything shows a stream with this id.
    #[track_caller]
    pub(crate) fn places_of(&self, id: &str) -> Vec<Place> {
        let in_place = |place: Place| {
            let all = self.list(place, Selector::All).into_iter();
            all.filter(|stat| stat.id.id == id).map(move |stat| {
                assert_eq!(stat.id.place, place, "a list shows what is in its place");
                place
            })
        };
        Place::ALL.into_iter().flat_map(in_place).collect()
    }

    /// Returns the id, key and fork point that a header gives.
    #[track_caller]
    pub(crate) fn names(reader: &dyn StreamReader) -> (HeaderNames, u64) {
        let line = reader.header().expect("a header");
        let names = HeaderNames::of_line(line).expect("names in the header");
        (names, manent_log::Header::parse(line).first_seq)
    }

    #[track_caller]
    pub(crate) fn poll(reader: &dyn StreamReader) -> FileChange {
        reader.poll().expect("the stream is looked at")
    }

    /// Packs a stream, where the backend can.
    #[track_caller]
    pub(crate) fn pack(&self, at: &StreamId) {
        if let Some(maintenance) = self.streams.maintenance() {
            maintenance.pack(at, &mut |done, all| assert!(done <= all)).expect("packed");
        }
    }

    /// Checks every byte of a stream, where the backend can, and finds it sound.
    #[track_caller]
    pub(crate) fn assert_sound(&self, at: &StreamId) -> Option<VerifyReport> {
        let maintenance = self.streams.maintenance()?;
        let report = maintenance.verify(at, &mut |_, _| {}).expect("checked");
        assert!(report.is_sound() && report.damage.is_empty(), "{report:?}");
        Some(report)
    }
}
