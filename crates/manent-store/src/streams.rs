//! [`Streams`]: the interface between Manent and the backend that stores its records.
//!
//! A backend implements [`Streams`]: append-only rows of numbered records, each known by a [`StreamId`]. A backend
//! knows spaces, places, keys, ids, numbers and bytes. It knows nothing of turns, forks, titles, memory items or runs:
//! the crates above make those out of records. [`Files`](crate::Files) is the default backend and
//! [`InMemory`](crate::InMemory) serves tests and programs that keep nothing. The crate `manent-contract` holds the
//! tests that every backend must pass.
//!
//! # Lines
//!
//! A record is read as the line that a file would hold, `{"seq":N,…,"crc":"…"}`, to the byte:
//! [`manent_log::frame::line`] makes the line from a number and a body. A backend keeps these lines, or makes them
//! again from bodies that it kept to the byte. Parsing the JSON and writing it again is not good enough, because the
//! checksum covers the bytes.
//!
//! # Positions, versions and cursors
//!
//! All three are opaque: only the backend that made them can compare them or look inside. A [`Position`] says where a
//! record lies and grows from record to record. A [`Version`] says which state of a stream was seen. A [`Cursor`] says
//! how far a caller of [`Streams::changes`] has heard.
//!
//! # Blocking, atomicity, retries
//!
//! Every method is synchronous and may block on the disk or the network. Only methods with a `wait` block on other
//! holders of a lease or lock, and no longer than that; `Duration::MAX` waits as long as it takes. A method that fails
//! leaves a stream as it was before or as it was to become, also when the process or the machine dies in it. Reading
//! methods may always be retried. For writing methods the error tells:
//!
//! | error | meaning | retry |
//! |---|---|---|
//! | [`manent_log::Error::Held`] | another writer has the stream | yes, later |
//! | [`manent_log::Error::Conflict`] | the record would not get the expected number | after reading what was appended |
//! | [`manent_log::Error::TooLarge`] | a record exceeds [`manent_log::frame::RECORD_BYTES_MAX`] | no |
//! | [`manent_log::Error::Unknown`] | the record may or may not be kept | with the same keys |
//! | [`Error::NotFound`] | there is no such stream | no |
//! | [`Error::InTheWay`] | another stream is where this one was to go | no |
//! | [`Error::Busy`] | somebody holds a lock that excludes this | yes, later |
//! | [`Error::NotLive`] | the stream is only read and replaced where it is | no |
//! | [`Error::NoSuchKey`] | the space has fixed keys, and this is not one of them | no |
//! | [`Error::Unsupported`] | this backend does not keep this space, or not there | no |
//! | [`Error::Backend`] | anything that only this backend knows | depends |
//!
//! # Writing a backend
//!
//! A backend that keeps lines in rows, such as the tables of a database, gets its reader and most of its writer from
//! [`rows`](crate::rows), and leases and locks between threads from [`ThreadLocks`](crate::thread_locks::ThreadLocks).
//! [`KeyIndex`](manent_log::KeyIndex) finds records by their keys; it is kept between appends, so that a stream is read
//! once and then only as far as it grew. [`StreamFilter::takes`], [`StreamFilter::arrange`] and [`compare_streams`]
//! answer [`Streams::list`] and [`Streams::changes`] from a list of everything. [`InMemory`](crate::InMemory) is made
//! of these and is a good place to begin.
//!
//! - A design that works: a name (space, place, key, id) apart from a content (a row of lines). Moving changes the
//!   name, replacing gives the name another content, and a reader keeps its content alive.
//! - Checks of arguments: `append` and `create` call [`StreamId::check_live`] and [`StreamId::check_key`], `lease` with
//!   [`IfMissing::Create`] calls [`StreamId::check_key`], `relocate` calls [`StreamId::check_place`]. A lease of any
//!   other stream that is not there is [`Error::NotFound`], whatever its key and place.
//! - Keys: keep one [`manent_log::KeyIndex`] for each content and rule, bring it up to date with
//!   [`rows::catch_up`](crate::rows::catch_up), decide with [`rows::plan_append`](crate::rows::plan_append), write, and
//!   make the receipts. Bodies that are known are not among the planned lines; make those as durable as asked.
//! - A lease is of a place, a space and a key; outside the live place, of an id too. It can be held for a stream that
//!   does not exist, and then keeps others from creating one or bringing one back.
//! - Whoever moves, replaces or deletes a stream holds its lease meanwhile. Whoever makes a live stream holds the lease
//!   of its key, and does not wait for it.
//! - A reader goes on reading what it opened, wherever that is moved and even when it is replaced or deleted. A
//!   database keeps the rows of such a stream until its last reader is gone.
//! - The header is the record 0. The first record has the number 1, or in a fork the one after `meta.parent.upto` of
//!   the header ([`manent_log::Header::first_seq`]). A line of another program, which carries no number, has the one
//!   after the line before it, or 1.
//! - The live stream of a key can be named without its id. An id that names another stream than the one that is there
//!   finds nothing.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use manent_log::LockMode;
use manent_log::{
    Body, Damage, Durability, Entry, Expect, FileChange, KeyRule, KeyedLine, LogEnd, LogItem, Occurrence,
    SetAside, VerifyReport,
};

use crate::error::{Error, Result};
use crate::key::SessionKey;

/// The kind of records that a stream holds. Each space has its own keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Conversations. The only space whose streams can be archived and deleted to the trash.
    Sessions,
    /// Runs of skills: one stream for each session key.
    Runs,
    /// Items that are remembered: one stream.
    Memory,
    /// Items that wait for somebody to accept them: one stream.
    Inbox,
    /// Progress of consolidation: one stream.
    Journal,
    /// Lists that the agent keeps, such as approvals and trusted folders: one stream for each.
    Ledger,
}

impl Space {
    /// Every space.
    pub const ALL: [Space; 6] =
        [Space::Sessions, Space::Runs, Space::Memory, Space::Inbox, Space::Journal, Space::Ledger];

    /// Returns the keys that streams of this space can have, or `None` if any key will do. Reading a stream of another
    /// key finds nothing, and beginning one is [`Error::NoSuchKey`].
    pub fn fixed_keys(self) -> Option<&'static [&'static str]> {
        match self {
            Space::Sessions | Space::Runs => None,
            Space::Memory => Some(&["memory"]),
            Space::Inbox => Some(&["inbox"]),
            Space::Journal => Some(&["consolidation"]),
            Space::Ledger => Some(&["trusted", "approvals"]),
        }
    }

    /// Returns the key of the only stream of this space, or `None` if a space holds many.
    pub fn single_key(self) -> Option<&'static str> {
        match self.fixed_keys() {
            Some([key]) => Some(key),
            _ => None,
        }
    }

    /// Returns whether a stream of this space can have this key.
    pub fn has_key(self, key: &SessionKey) -> bool {
        self.fixed_keys().is_none_or(|keys| keys.contains(&key.as_str()))
    }

    /// Returns whether a stream of this space belongs to the sessions of its key and tells what was said in them, so
    /// that it is purged with the last of them.
    pub fn belongs_to_sessions(self) -> bool {
        self != Space::Sessions && self.fixed_keys().is_none()
    }

    /// Returns the blobs that are derived from streams of this space and show what they say, or `None` if there are
    /// none. They are removed before a stream of the space is purged, and written only with [`LockName::Moves`] of the
    /// space held, so that none is made of a stream that is just being purged.
    pub const fn derived_blobs(self) -> Option<DerivedBlobs> {
        match self {
            Space::Runs => {
                Some(DerivedBlobs { folder: "retro", names: &["latest.html", "latest.json", "told"] })
            }
            Space::Sessions | Space::Memory | Space::Inbox | Space::Journal | Space::Ledger => None,
        }
    }

    /// Returns the places in which streams of this space can be.
    pub fn places(self) -> &'static [Place] {
        if self == Space::Sessions { &Place::ALL } else { &[Place::Live] }
    }

    /// Returns the word used in messages. Words are distinct and do not change, so that backends may store them.
    pub fn word(self) -> &'static str {
        match self {
            Space::Sessions => "sessions",
            Space::Runs => "runs",
            Space::Memory => "memory",
            Space::Inbox => "inbox",
            Space::Journal => "journal",
            Space::Ledger => "ledger",
        }
    }
}

/// Blobs that are derived from the streams of a space. Other blobs of the same folder are somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DerivedBlobs {
    /// The folder of the blobs.
    pub folder: &'static str,
    /// The names of the blobs in that folder.
    pub names: &'static [&'static str],
}

/// The stage of a stream's life. Streams of spaces other than [`Space::Sessions`] are always live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Being written to. One for each key.
    Live,
    /// Put away; read as before, never appended to. Any number for each key.
    Archive,
    /// Deleted, and kept until somebody empties the trash.
    Trash,
}

impl Place {
    /// All places, in the order in which a session is looked for.
    pub const ALL: [Place; 3] = [Place::Live, Place::Archive, Place::Trash];

    /// Returns the word used in lists. Words are distinct and do not change, so that backends may store them.
    pub fn word(self) -> &'static str {
        match self {
            Place::Live => "live",
            Place::Archive => "archived",
            Place::Trash => "trash",
        }
    }
}

/// Names one stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamId {
    /// The space it belongs to.
    pub space: Space,
    /// The place it is in.
    pub place: Place,
    /// The key of the stream.
    pub key: SessionKey,
    /// The id that the header carries, unless [`Streams::relocate`] had to give the stream another one. Empty in live
    /// streams of other programs, where key and place identify a stream; and where the live stream of a key is meant
    /// whatever its id. Any other id means that very stream: where it is no longer there, nothing is, even if another
    /// stream of the same key is.
    pub id: String,
}

impl StreamId {
    /// Names the live session of a key, whatever its id.
    pub fn live(key: &SessionKey) -> StreamId {
        StreamId::live_in(Space::Sessions, key)
    }

    /// Names the live stream of a key in a space, whatever its id.
    pub fn live_in(space: Space, key: &SessionKey) -> StreamId {
        StreamId { space, place: Place::Live, key: key.clone(), id: String::new() }
    }

    /// Names the session of a key and an id in a place.
    pub fn session(place: Place, key: &SessionKey, id: impl Into<String>) -> StreamId {
        StreamId { space: Space::Sessions, place, key: key.clone(), id: id.into() }
    }

    /// Names the only stream of a space that has one.
    pub fn single(space: Space) -> StreamId {
        let key = SessionKey::from_static(space.single_key().unwrap_or("default"));
        StreamId { space, place: Place::Live, key, id: String::new() }
    }

    /// Returns what to call the stream in messages.
    pub fn name(&self) -> String {
        if self.id.is_empty() { self.key.to_string() } else { format!("@{}", self.id) }
    }

    /// For backends: refuses a key that streams of the space cannot have, with [`Error::NoSuchKey`].
    pub fn check_key(&self) -> Result<()> {
        if self.space.has_key(&self.key) {
            return Ok(());
        }
        Err(Error::NoSuchKey { key: self.key.to_string(), space: self.space })
    }

    /// For backends: refuses to append where a stream is only read and replaced, with [`Error::NotLive`].
    pub fn check_live(&self) -> Result<()> {
        if self.place == Place::Live {
            return Ok(());
        }
        Err(Error::NotLive { key: self.key.to_string(), place: self.place })
    }

    /// For backends: refuses to move a stream to a place that its space does not have, with [`Error::Unsupported`].
    pub fn check_place(&self, to: Place, store: &str) -> Result<()> {
        if self.space.places().contains(&to) {
            return Ok(());
        }
        Err(Error::Unsupported { store: store.to_owned(), space: self.space })
    }
}

/// Selects the stream that [`Streams::open`] opens.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// The stream with this id.
    Id(&'a StreamId),
    /// The stream that [`Streams::changes`] or [`Streams::list`] named so, without checking what its header says.
    Name {
        /// The space of the stream.
        space: Space,
        /// The place it was in.
        place: Place,
        /// The [`StreamStat::name`] of the stream.
        name: &'a str,
    },
}

/// Selects streams of one space and place.
#[derive(Debug, Clone, Copy)]
pub struct StreamFilter<'a> {
    /// The space.
    pub space: Space,
    /// The place.
    pub place: Place,
    /// The streams to select there.
    pub which: Selector<'a>,
    /// The amount of detail to find out about each.
    pub detail: ListDetail,
    /// The largest number of streams to select, those that changed last first; of the same millisecond, the one with
    /// the larger key first. Without a limit, all of them in no order.
    pub newest: Option<usize>,
}

impl<'a> StreamFilter<'a> {
    /// Selects sessions of a place.
    pub fn sessions(place: Place, which: Selector<'a>) -> StreamFilter<'a> {
        StreamFilter::new(Space::Sessions, place, which)
    }

    /// Selects streams of a space and place, with full details.
    pub fn new(space: Space, place: Place, which: Selector<'a>) -> StreamFilter<'a> {
        StreamFilter { space, place, which, detail: ListDetail::Header, newest: None }
    }

    /// For backends: returns whether a stream is among those that are selected.
    pub fn takes(&self, stat: &StreamStat) -> bool {
        let id = &stat.id;
        (id.space, id.place) == (self.space, self.place)
            && match self.which {
                Selector::All => true,
                Selector::Key(key) => id.key == *key,
                Selector::Id(prefix) => id.id.starts_with(prefix),
                Selector::Name(name) => stat.name == name,
            }
    }

    /// For backends: puts the streams that are selected in order, and leaves out those above the limit.
    pub fn arrange(&self, mut all: Vec<StreamStat>) -> Vec<StreamStat> {
        if let Some(count) = self.newest {
            all.sort_unstable_by(|a, b| (b.modified_ms, &b.id.key).cmp(&(a.modified_ms, &a.id.key)));
            all.truncate(count);
        }
        all
    }
}

/// Selects streams of a space and place.
#[derive(Debug, Clone, Copy)]
pub enum Selector<'a> {
    /// Every one.
    All,
    /// The streams of a key.
    Key(&'a SessionKey),
    /// The streams whose id begins so, to the byte. Every id begins with nothing, the empty id too.
    Id(&'a str),
    /// The one with this [`StreamStat::name`].
    Name(&'a str),
}

/// The amount of detail that [`Streams::list`] finds out about each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListDetail {
    /// Everything, which may mean to open each stream.
    Header,
    /// The details that can be told without opening streams: ids and header keys may be left out.
    Outside,
}

/// A stream as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStat {
    /// Names the stream.
    pub id: StreamId,
    /// The backend's own name for it in its place, for [`Target::Name`] and [`Selector::Name`]. No other stream of its
    /// space and place has the same one. It stays while the stream grows and while [`StreamWriter::replace`] keeps its
    /// id; packing may change it. Any text will do: callers do not take it apart.
    pub name: String,
    /// The state it was seen in, as [`Streams::changes`] would give it.
    pub version: Version,
    /// The space it takes, in bytes.
    pub bytes: u64,
    /// The time of its last change, in milliseconds since 1970.
    pub modified_ms: i64,
    /// In the trash: the place it was in before, to which [`Streams::relocate`] can bring it back.
    pub from: Place,
    /// The key that its header gives, where that is another one: the stream was copied or renamed by hand.
    pub header_key: Option<SessionKey>,
}

impl StreamStat {
    /// Returns the state the stream was seen in, as [`Streams::changes`] gives it.
    pub fn state(&self) -> StreamState {
        StreamState { version: self.version, bytes: self.bytes }
    }
}

/// Says where a record lies, as its backend counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// For backends: makes a position.
    pub fn new(raw: u64) -> Position {
        Position(raw)
    }

    /// For backends: returns what a position was made from. For [`Files`](crate::Files), the offset in the file.
    pub fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Says which state of a stream was seen. Callers keep it and give it back to [`Streams::changes`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version([u64; Version::WORDS]);

impl Version {
    /// The number of words that a version is made of.
    pub const WORDS: usize = 5;
    /// A version that no stream has: a caller that knows only this one is always told that the stream was rewritten.
    /// All of its words are 0, so no backend makes such a version; [`compare_streams`] handles it.
    pub const UNKNOWN: Version = Version([0; Version::WORDS]);

    /// For backends, and for callers that kept the words: makes a version.
    pub fn new(words: [u64; Version::WORDS]) -> Version {
        Version(words)
    }

    /// Returns what a version was made from, to be kept.
    pub fn words(self) -> [u64; Version::WORDS] {
        self.0
    }
}

/// Says how far a caller of [`Streams::changes`] has heard. The default cursor has heard nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(Vec<u64>);

impl Cursor {
    /// For backends, and for callers that kept the words: makes a cursor.
    pub fn new(words: Vec<u64>) -> Cursor {
        Cursor(words)
    }

    /// Returns what a cursor was made from, to be kept.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// For backends: a word of this value says that the next call with this cursor has to look at everything.
    pub const UNSETTLED: u64 = u64::MAX;

    /// Returns whether the next call with this cursor can be answered without looking at everything.
    pub fn is_settled(&self) -> bool {
        !self.0.contains(&Cursor::UNSETTLED)
    }
}

/// The streams of one space that a caller of [`Streams::changes`] knows.
pub trait KnownStreams {
    /// Calls `take` for each stream with its place, name and version.
    fn each(&self, take: &mut dyn FnMut(Place, &str, Version));

    /// Returns the version of a stream, or `None` if it is not known.
    fn version(&self, place: Place, name: &str) -> Option<Version>;

    /// Returns whether every version is one that a backend gave. False if some are [`Version::UNKNOWN`]: then a backend
    /// looks at every stream, and not only at those of which it heard.
    fn is_complete(&self) -> bool {
        true
    }
}

/// Says when a backend looked, by its own clock. The default is before every other moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanTime(i64);

impl ScanTime {
    /// For backends, and for callers that kept it: makes a moment.
    pub fn new(raw: i64) -> ScanTime {
        ScanTime(raw)
    }

    /// Returns what a moment was made from, to be kept.
    pub fn raw(self) -> i64 {
        self.0
    }
}

/// The answer of [`Streams::changes`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// The time at which the look at the streams began.
    pub moment: ScanTime,
    /// The streams that are not as they were known. Those that are, are left out.
    pub streams: Vec<StreamChange>,
    /// The cursor for the next call.
    pub cursor: Cursor,
}

/// A stream that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamChange {
    /// The place it is in.
    pub place: Place,
    /// The [`StreamStat::name`] of the stream.
    pub name: String,
    /// The kind of change.
    pub kind: ChangeKind,
}

/// The kind of a change since a stream was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The stream was not known.
    New(StreamState),
    /// The stream is the same and not shorter, so what was read of it may still stand: compare its last record. Where
    /// the last change is so young that a clock does not tell it from the next one, a stream that did not change may be
    /// told of so too, with the same length; a fraction of a second later it is not any more.
    Appended(StreamState),
    /// The stream is another one, or what was read of it may have changed; always where the known version is
    /// [`Version::UNKNOWN`].
    Rewritten(StreamState),
    /// The stream is not there any more. It may be in another place.
    Gone,
}

impl ChangeKind {
    /// Returns the state the stream is in now, or `None` if it is gone.
    pub fn state(self) -> Option<StreamState> {
        match self {
            ChangeKind::New(seen) | ChangeKind::Appended(seen) | ChangeKind::Rewritten(seen) => Some(seen),
            ChangeKind::Gone => None,
        }
    }
}

/// The state of a stream that is about to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The version to keep with what is read after this.
    pub version: Version,
    /// The length in bytes.
    pub bytes: u64,
}

/// For backends that look at all their streams: compares them with what the caller of [`Streams::changes`] knows.
/// `grew` tells of two different versions whether the first became the second by appending.
pub fn compare_streams(
    known: &dyn KnownStreams,
    now: impl IntoIterator<Item = StreamStat>,
    grew: impl Fn(Version, Version) -> bool,
) -> Vec<StreamChange> {
    let seen = |stat: StreamStat| ((stat.id.place, stat.name.clone()), stat.state());
    let mut now: HashMap<(Place, String), StreamState> = now.into_iter().map(seen).collect();
    let mut streams = Vec::new();
    known.each(&mut |place, name, was| {
        let name = name.to_owned();
        let kind = match now.remove(&(place, name.clone())) {
            None => ChangeKind::Gone,
            Some(seen) if seen.version == was => return,
            Some(seen) if was != Version::UNKNOWN && grew(was, seen.version) => ChangeKind::Appended(seen),
            Some(seen) => ChangeKind::Rewritten(seen),
        };
        streams.push(StreamChange { place, name, kind });
    });
    let new = |((place, name), seen)| StreamChange { place, name, kind: ChangeKind::New(seen) };
    streams.extend(now.into_iter().map(new));
    streams
}

/// Proof that a record is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The id of the stream that took it; empty for another program's.
    pub id: Arc<str>,
    /// The record's number.
    pub seq: u64,
    /// The position of the record.
    pub position: Position,
    /// The durability that was reached.
    pub durability: Durability,
}

/// A target of [`StreamReader::seek`].
#[derive(Clone, Copy)]
pub enum Seek<'a> {
    /// The header, for a caller that wants little more than that.
    Header,
    /// The header, to read everything.
    First,
    /// The first record with at least this number; 0 is the header. One that is not there yet is waited for: nothing
    /// smaller is given when the stream grows.
    Seq(u64),
    /// The record that lay at this position and had this number, which the header has not. For a caller that read there
    /// before: where the stream is another one by now, what comes first is something else, or damage, or nothing.
    Position {
        /// The position at which the record lay.
        position: Position,
        /// The number of the record.
        seq: u64,
    },
    /// The last `count` lines that match, of those before the number `before`, and everything between and behind them.
    /// With a count of 0, what begins at `before`, or what comes later. Where fewer lines match, the header.
    Last {
        /// The number of lines.
        count: u64,
        /// Only records with a smaller number count.
        before: Option<u64>,
        /// Tells which lines count.
        matches: &'a dyn Fn(&[u8]) -> bool,
    },
}

impl fmt::Debug for Seek<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seek::Header => f.write_str("Header"),
            Seek::First => f.write_str("First"),
            Seek::Seq(seq) => write!(f, "Seq({seq})"),
            Seek::Position { position, seq } => write!(f, "Position({position}, {seq})"),
            Seek::Last { count, before, .. } => write!(f, "Last({count}, {before:?})"),
        }
    }
}

/// Options of [`Streams::append`] and [`StreamWriter::append`].
#[derive(Debug, Clone, Copy)]
pub struct AppendOptions<'a> {
    /// The durability that the receipt promises.
    pub durability: Durability,
    /// The number the (first) record must get. The first of a new stream gets 1, or that after what a fork shares.
    pub expect: Expect,
    /// The longest wait for another writer. Of no meaning to [`StreamWriter::append`].
    pub wait: Duration,
    /// The keys by which a record is known that is there already, and how far back they count.
    pub keys: &'a KeyRule,
}

impl AppendOptions<'static> {
    /// Expects any number, does not wait for another writer, and knows records by [`KeyRule::IDEMPOTENCY`].
    pub fn new(durability: Durability) -> AppendOptions<'static> {
        AppendOptions { durability, expect: Expect::Any, wait: Duration::ZERO, keys: &KeyRule::IDEMPOTENCY }
    }
}

/// The first line of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHeader {
    /// The stream's id, which the body names too.
    pub id: String,
    /// The members of the header.
    pub body: Body,
}

/// Makes the header of a stream that does not exist yet.
pub type NewHeader<'a> = &'a dyn Fn() -> StreamHeader;

/// Selects what [`Streams::lease`] does where there is no stream.
#[derive(Clone, Copy)]
pub enum IfMissing<'a> {
    /// Begins one with this header, which is written together with the first record: until then there is no stream,
    /// for lists, readers and other writers.
    Create(NewHeader<'a>),
    /// Gives [`Error::NotFound`].
    Refuse,
}

/// A part of a stream that is written as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamPart {
    /// The lines behind the header of a stream, as they stand, damage included: all of them, or up to and with the
    /// record `upto`. It may be the very stream that is replaced, as it was before. A stream that is not there is
    /// [`Error::NotFound`].
    Lines {
        /// The stream to copy from.
        of: StreamId,
        /// The last record to copy.
        upto: Option<u64>,
    },
    /// A record, with this number. A record that is too large is [`manent_log::Error::TooLarge`].
    Record {
        /// The number of the record.
        seq: u64,
        /// The members of the record.
        body: Body,
    },
    /// A line without number and checksum, as another program would write it: a JSON object without a newline. Whatever
    /// else it is will be read as damage.
    Line(Vec<u8>),
}

/// The parts of a stream, in order. They may be read from the same backend while they are asked for.
pub type StreamParts<'a> = &'a mut dyn Iterator<Item = Result<StreamPart>>;

/// Called with the progress of a long piece of work: bytes done, which only grow, and bytes in all.
pub type ProgressFn<'a> = &'a mut dyn FnMut(u64, u64);

/// The outcome of [`Maintenance::repair`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Torn bytes that were cut off the end, and where they are kept.
    pub set_aside: Option<SetAside>,
    /// Damaged places that are acknowledged now.
    pub acknowledged: Vec<Damage>,
}

/// The outcome of [`StreamWriter::replace`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replaced {
    /// The new length of the stream, in bytes: that of its lines, each with a newline, however they are kept.
    pub bytes: u64,
    /// The file in which what was left out is kept; `None` if nothing was, or where it is not kept in a file.
    pub set_aside: Option<PathBuf>,
}

/// Names a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockName<'a> {
    /// The right to move, make and remove streams of a space. [`Streams::create`], [`Streams::relocate`],
    /// [`StreamWriter::replace`] and [`Streams::delete`] are called by whoever holds it. Writing and reading go on.
    /// Others hold it for moments, so a backend may wait longer for it than it was asked to. Those of two spaces may be
    /// one lock, so nobody takes a second one while holding the first: whoever changes two spaces does so one after the
    /// other.
    Moves(Space),
    /// A lock that means what its callers agree on. A name is letters, digits, `.`, `-` and `_`, and does not end with
    /// `.jsonl`. The same name in two spaces may be one lock, so callers choose different ones.
    Named(Space, &'a str),
}

/// A lock that is held until this is dropped. It ends with its holder, however that ends.
pub trait LockGuard: fmt::Debug + Send {}

impl LockGuard for manent_log::FileLock {}
impl LockGuard for manent_log::Log {}
impl LockGuard for Box<dyn manent_log::fs::DiskFile> {}

/// A lock that is held until this is dropped.
pub type Lock = Box<dyn LockGuard>;

/// Reads one stream through one open handle. It takes no lease and changes nothing.
///
/// A new reader stands before the header, as after [`Seek::Header`]. Moving on and looking are separate methods,
/// because an item borrows the reader's buffer.
pub trait StreamReader: fmt::Debug + Send + Sync {
    /// Returns the header line, or `None` where the stream is another program's and has none. May read from the disk.
    fn header(&self) -> Option<&[u8]>;

    /// Returns the id in the header; empty in another program's stream.
    fn id(&self) -> &str;

    /// Moves to another place and returns how many of the lines that [`Seek::Last`] asked for are missing; 0 for every
    /// other place. Ends a limit set with [`StreamReader::end_at`].
    fn seek(&mut self, to: Seek<'_>) -> Result<u64>;

    /// Ends before the first record with a larger number than this, until the next [`StreamReader::seek`]. Does not
    /// move.
    fn end_at(&mut self, seq: u64);

    /// Moves to the next record or damage. Returns false if there is none now; ask again when the stream has grown.
    /// Never waits for one. A line that is being written is not there yet.
    fn advance(&mut self) -> Result<bool>;

    /// Returns what [`StreamReader::advance`] moved to; `None` before it was called, after a seek, and at the end. The
    /// offset of an entry is the number of its [`Position`].
    fn item(&self) -> Option<LogItem<'_>>;

    /// Returns the line at a position as it stands, without its newline, or `None` if the stream ends before that. The
    /// reader stays where it is. For a caller that read there before and compares. `bytes` is how long the caller
    /// believes the line to be: a wrong guess costs another read.
    fn line_at(&self, position: Position, bytes: usize) -> Result<Option<Vec<u8>>>;

    /// Returns how the stream ended when [`StreamReader::advance`] last found nothing: always clean where a record is
    /// there as a whole or not at all.
    fn end(&self) -> LogEnd;

    /// Returns what became of the stream since it was read to its end: `Grew` if there is more to read, also where it
    /// was moved or removed after that; `Replaced` if all is read and the stream is not where it was, was removed or
    /// rewritten, whatever is in its place now; else `None`. What was being read can be read to its end in any case.
    fn poll(&self) -> Result<FileChange>;

    /// Returns what tells this stream from every other one while it is open: two readers of the same name read the same
    /// stream if their identities are equal.
    fn identity(&self) -> [u64; 2];

    /// Returns whether all that is written to the stream is written by Manent, so that it only ever grows. May read
    /// from the disk.
    fn is_native(&self) -> Result<bool>;

    /// Moves to the next record or damage and returns it.
    fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        Ok(if self.advance()? { self.item() } else { None })
    }
}

/// The right to write one stream, and to be the only one, until it is dropped.
pub trait StreamWriter: fmt::Debug + Send {
    /// Appends records in order and returns a receipt for each. Not atomic: a crash may leave the first few of them.
    /// What is refused (a conflict, a record too large) writes none of them and does not end the lease. Where nothing
    /// is appended to a stream that does not exist, it does not begin. In archive and trash it is
    /// [`Error::NotLive`]. A reader sees each record as a whole or not at all.
    ///
    /// `how.expect` is the number that the first body gets; it is checked also where there are no bodies, and not where
    /// the first body is known by a key. A wrong one is [`manent_log::Error::Conflict`].
    ///
    /// A body that has a key under `how.keys` which a record within reach has too, or a body before it in the same
    /// call, is not appended, whatever else it and `how.expect` say: its receipt is that of the first such record,
    /// which is made as durable as asked; [`manent_log::Error::Unknown`] where that cannot be made sure. So an append
    /// whose outcome is unknown may be retried with the same keys. Finding keys may read as much of the stream as the
    /// rule reaches; later calls with the same rule read what others appended meanwhile.
    fn append(&mut self, bodies: &[Body], how: &AppendOptions<'_>) -> Result<Vec<Receipt>>;

    /// Returns a record with a key, as far back as a rule reaches, or `None` if none has it; its offset is the number
    /// of its [`Position`]. May read the stream as [`StreamWriter::append`] does. Changes nothing and may always be
    /// retried; as long as the lease is held and nobody writes around it, the answer stays true. Whoever answers for
    /// the record calls [`StreamWriter::keep_from`] first, unless it is kept. In archive and trash it is
    /// [`Error::NotLive`].
    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>>;

    /// Makes the record at a position, and all behind it, survive power loss, whoever wrote it, and even if a sync of
    /// it failed; [`manent_log::Error::Unknown`] where that cannot be made sure. May block on the disk for as long as
    /// writing all of that takes, and may be retried.
    fn keep_from(&mut self, position: Position) -> Result<()>;

    /// Replaces the whole stream, in the place it is in, by this header and these parts: all of it or nothing. Without
    /// a header the stream becomes one of another program. The ranges in `left_out`, damage that no part repeats, are
    /// kept apart first, in their order; their offsets are positions, and in a row of lines a range has `lines` lines.
    /// Ends the lease, also where it fails; then the stream stays as it was, and an error of a part is given back as it
    /// is. Until it is done, readers and lists see the old stream; afterwards, readers of the old one read it to its
    /// end and [`StreamReader::poll`] gives `Replaced`. What is in place when this returns survives power loss. A live
    /// stream gets the id that the new header gives, and a stream that was put away keeps the one under which it is
    /// kept.
    ///
    /// May block for as long as writing the whole stream takes. Gives [`manent_log::Error::Conflict`] if another
    /// program wrote to the stream since the lease was taken.
    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced>;

    /// Acknowledges the damage of the stream by appending notes of it, at the time `ts`, and returns what was not
    /// acknowledged before. May read the whole stream. Where a backend finds no damage there is nothing to do.
    fn acknowledge(&mut self, ts: &str) -> Result<Vec<Damage>>;

    /// Returns the number that the next record will get, if nobody writes around the lease.
    fn next_seq(&self) -> u64;

    /// Returns the stream's id; empty for another program's.
    fn id(&self) -> &Arc<str>;

    /// Returns the header; `None` in another program's stream, and where nothing was written yet.
    fn header(&self) -> Option<Entry<'_>>;

    /// Returns whether the stream does not exist until the first record is appended.
    fn is_new(&self) -> bool;

    /// Returns whether all of the stream is written by Manent: it begins with a header, or has not begun.
    fn is_native(&self) -> bool;

    /// Returns whether an earlier failure ended this lease: nothing more is appended through it, and an append is
    /// [`manent_log::Error::Poisoned`].
    fn is_finished(&self) -> bool;

    /// Returns what taking the lease had to cut off the end of the stream, and where it is kept. By default `None`.
    fn set_aside(&self) -> Option<&SetAside> {
        None
    }

    /// Returns how many bytes were cut off the end of the stream where it ends now, by this lease or an earlier one. By
    /// default none were.
    fn set_aside_bytes(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// Returns another process that has the stream open without a lease, as far as the system tells. By default `None`.
    fn opened_by(&self) -> Option<u32> {
        None
    }

    /// Returns under how many names the stream can be reached. By default 1.
    fn names(&self) -> Result<u64> {
        Ok(1)
    }
}

/// Checks, repairs and packs streams. Optional: see [`Streams::maintenance`].
pub trait Maintenance {
    /// Checks every byte of a stream. Blocks for as long as reading it takes.
    fn verify(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<VerifyReport>;

    /// Sets a torn end of a live stream aside and acknowledges its damage, at the time `ts`. Nothing is written where
    /// nothing is wrong.
    fn repair(&self, id: &StreamId, ts: &str, wait: Duration) -> Result<Repaired>;

    /// Packs an archived stream; does nothing to any other. May take long, so it is not called with
    /// [`LockName::Moves`] held. Nothing changes for readers.
    fn pack(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<()>;

    /// Returns whether a record that lay at a position and had this number is in a torn end that was set aside since
    /// then.
    fn was_set_aside(&self, id: &StreamId, position: Position, seq: u64, since: ScanTime) -> Result<bool> {
        let _ = (id, position, seq, since);
        Ok(false)
    }

    /// Returns the keys whose live stream cannot be read because something stands in its place that is not a stream,
    /// such as a directory. Lists leave these out.
    fn obstructed(&self, space: Space) -> Result<Vec<SessionKey>> {
        let _ = space;
        Ok(Vec::new())
    }
}

/// A place to keep streams. See the [module](self) for what holds for every method.
pub trait Streams: fmt::Debug + Send + Sync {
    /// Returns what to call this backend in messages: where it is.
    fn name(&self) -> String;

    /// Returns whether streams of this space can be kept here. A directory of another program keeps sessions alone.
    fn supports(&self, space: Space) -> bool;

    /// Opens a stream for reading.
    ///
    /// Gives [`Error::NotFound`] where there is none. A stream that is being moved is found.
    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>>;

    /// Takes the right to write a stream, from other threads as from other processes. Makes its end clean: what a crash
    /// tore is set aside first. In archive and trash, the lease only allows [`StreamWriter::replace`], and a stream
    /// that is missing is never begun, nor is a live one that is named with an id.
    ///
    /// Waits for another holder as long as `wait`, then gives [`manent_log::Error::Held`]. `Duration::ZERO` does not
    /// wait. The header of a new stream is asked for while the lease is held, and may be made by reading the same
    /// backend.
    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>>;

    /// Appends to a live stream, or begins one, holding its lease for no longer than that. Calls from many threads with
    /// [`Durability::Group`] share their syncs. An append of no records writes nothing, but its expectation counts.
    /// What [`StreamWriter::append`] says of keys, expectations, atomicity and retries holds; a stream whose keys count
    /// from its beginning is read before the lease is taken, as [`Streams::prefetch_keys`] does.
    ///
    /// An id in `id` means that very stream: where it is not live, this is [`Error::NotFound`],
    /// and nothing is begun. Streams that were put away are [`Error::NotLive`].
    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>>;

    /// Reads the keys of a live stream, where the rule reaches back to its beginning and they are not known yet, so
    /// that whoever takes the lease next reads only what was appended since. Blocks for as long as reading the stream
    /// takes, and holds no lease meanwhile. Does nothing where there is no stream; never needed, and may always be
    /// retried.
    fn prefetch_keys(&self, id: &StreamId, rule: &KeyRule) -> Result<()> {
        let _ = (id, rule);
        Ok(())
    }

    /// Lists streams. Streams of which nothing was written are left out, and so are those that cannot be opened where
    /// others can. Whoever holds [`LockName::Moves`] sees each stream once; others may see one that is being moved
    /// twice or not at all. In a space that is not supported, in a place that the space does not have, and for a key
    /// that it cannot have, there is nothing, which is no error.
    fn list(&self, which: &StreamFilter<'_>) -> Result<Vec<StreamStat>>;

    /// Compares every stream of a space, in every place, with what the caller knows, without opening any: this is
    /// called before every search. `since` is the cursor of the last call whose answer the caller took in whole;
    /// with the default cursor everything is looked at, and so it is with one that the backend does not know. A backend
    /// that always looks at everything gives back the default cursor. A stream that is known and not there is
    /// [`ChangeKind::Gone`], whatever the cursor.
    ///
    /// A version in the answer is one of before the call returned: whoever reads the stream afterwards sees that state
    /// or a later one, and the next call tells of any change after it. Of two streams that are one (an archive that is
    /// just being packed) only the one that counts is new.
    fn changes(&self, space: Space, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes>;

    /// Makes a live stream with a header and these parts: all of it or nothing; the header alone is a stream too. One
    /// that exists, or for which somebody holds a lease, is [`Error::InTheWay`], at once. The
    /// id is that of the header. Parts are asked for before the stream shows, may be read from this backend, and an
    /// error of one is given back as it is. When this returns, the stream survives power loss.
    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()>;

    /// Brings a session to another place and returns its new name, with the same id unless another stream has it there.
    /// Its writer, if it has one, is waited for. From every place to every other, and to its own, where it just stays;
    /// an archived stream is packed before it goes to the trash. A live stream of the key, or a lease for one, is
    /// [`Error::InTheWay`] of another that is to be live. Other spaces have no places: [`Error::Unsupported`]. Ids are
    /// told apart within a space, place and key. A stream that becomes live has the id of its header again, or none,
    /// whatever id it was put away under.
    ///
    /// Atomic: at any time the stream is in one place. When this returns, the move survives power loss. A stream of
    /// another program has no id while it is live; elsewhere the backend gives it one. Gives
    /// [`manent_log::Error::Held`] where the writer is not done in time.
    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId>;

    /// Removes a stream and everything that was set aside of it, for good. Its writer, if it has one, is waited for,
    /// then it is [`manent_log::Error::Held`]. Atomic, and may be repeated where it was interrupted. Its key is free at
    /// once; whoever reads the stream reads it to its end.
    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()>;

    /// Makes what can be read of a stream survive power loss; what a failed sync left, only
    /// [`StreamWriter::keep_from`] does. Needs no lease, and may block on the disk.
    fn sync(&self, id: &StreamId) -> Result<()>;

    /// Takes a lock, waiting for other holders as long as `wait`, then gives [`Error::Busy`]. A
    /// lock ends with its holder: when the guard is dropped, when the thread panics, when the process dies. Whoever
    /// waits sees within 100 ms that it is free. Locks say nothing about leases. Nobody is promised a turn, so a row of
    /// shared holders can keep out one who wants to be alone.
    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock>;

    /// Returns whether the live stream of an id may be believed: whether nobody but its owner can have written it. By
    /// default true, which is right only where the backend lets nobody else write; a stream that is not there is
    /// believed. What a user allowed is read only from streams for which this is true.
    fn is_trustworthy(&self, id: &StreamId) -> Result<bool> {
        let _ = id;
        Ok(true)
    }

    /// Returns whether these bytes may stand anywhere in a stream. True where that cannot be told faster than by
    /// reading its records; false only if they do not, at this moment, or if there is no such stream. Looks at live
    /// streams only. By default true.
    fn may_contain(&self, id: &StreamId, bytes: &[u8]) -> Result<bool> {
        let _ = (id, bytes);
        Ok(true)
    }

    /// Returns where a live stream lies as a file, whether it exists or not; `None`, the default, where streams are not
    /// files.
    fn path(&self, id: &StreamId) -> Option<PathBuf> {
        let _ = id;
        None
    }

    /// Returns what can check, repair and pack streams here; `None`, the default, if nothing can.
    fn maintenance(&self) -> Option<&dyn Maintenance> {
        None
    }
}
