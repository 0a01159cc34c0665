//! The seam between sessions and where their records lie.
//!
//! A [`Backend`] keeps *streams*: one append-only row of numbered records for each session, in one of three
//! [`Place`]s. It knows keys and ids, numbers and bytes; it knows nothing of turns, forks or titles, which
//! the [`Store`](crate::Store) makes out of them. The default is [`Files`](crate::Files);
//! [`InMemory`](crate::InMemory) is for tests and for programs that want to forget. What every backend must
//! do is written down as tests in `contract.rs`, which anyone who writes another one can run (the cargo
//! feature `contract`).
//!
//! Where a record lies is a [`Position`]: a number that only the backend understands, and that grows from
//! record to record. A file uses offsets, a database would use the record's number. Where it is read, the
//! same number is its [`Entry::offset`](manent_log::Entry).
//!
//! What is read is a line as a file holds it, `{"seq":N,…,"crc":"…"}`, to the byte:
//! [`manent_log::frame::line`] makes it of a number and a body. A backend keeps these lines, or makes them
//! anew from bodies that it kept to the byte; JSON that was taken apart and put together again is not good
//! enough.
//!
//! Callers tell some failures apart, so these are the same everywhere:
//!
//! | what | error |
//! |---|---|
//! | another writer has the stream, and was waited for in vain | [`manent_log::Error::Held`] |
//! | the record would not get the number that was expected | [`manent_log::Error::Conflict`] |
//! | a record is longer than [`manent_log::frame::RECORD_BYTES_MAX`] | [`manent_log::Error::TooLarge`] |
//! | it is unknown whether a record is kept: it may be there | [`manent_log::Error::Unknown`] |
//! | no such stream | [`Error::NotFound`](crate::Error::NotFound) |
//! | a stream where another one was to go | [`Error::InTheWay`](crate::Error::InTheWay) |
//! | somebody else moves streams, and was waited for in vain | [`Error::Busy`](crate::Error::Busy) |
//! | anything that only this backend knows | [`Error::Backend`](crate::Error::Backend) |
//!
//! A wait of any length may be asked for, `Duration::MAX` for as long as it takes.

mod seen;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Disk, Settling};
use manent_log::{Body, Change, Damage, Durability, End, Expect, Item, Report, SetAside, Trust};

use crate::error::Result;
use crate::key::SessionKey;
use crate::meta::Meta;

pub use seen::{Changes, Sight, Stamp, Survey, Watching};

/// Where a stream is in its life.
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
    /// All of them, in the order in which a session is looked for.
    pub const ALL: [Place; 3] = [Place::Live, Place::Archive, Place::Trash];

    /// The word used in lists.
    pub fn word(self) -> &'static str {
        match self {
            Place::Live => "live",
            Place::Archive => "archived",
            Place::Trash => "trash",
        }
    }
}

/// Which stream is meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Where it is.
    pub place: Place,
    /// The session's key.
    pub key: SessionKey,
    /// The session's id. Empty in streams that another program wrote, where key and place must do; and where
    /// the live stream of a key is meant whatever its id. Any other id means that very stream and no other:
    /// where it is no longer there, nothing is, even if another session of the same key is.
    pub id: String,
}

impl Address {
    /// The live stream of a key, whatever its id.
    pub fn live(key: &SessionKey) -> Address {
        Address { place: Place::Live, key: key.clone(), id: String::new() }
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> String {
        if self.id.is_empty() { self.key.to_string() } else { format!("@{}", self.id) }
    }
}

/// Which streams of a place are meant.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Every one.
    All,
    /// Those of a key.
    Key(&'a SessionKey),
    /// Those whose id begins so.
    Id(&'a str),
}

/// A stream as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Which one.
    pub address: Address,
    /// How much room it takes, in bytes.
    pub bytes: u64,
    /// When it last changed, in milliseconds since 1970.
    pub modified_ms: i64,
    /// In the trash: where it was before, and where [`Backend::relocate`] can bring it back to.
    pub from: Place,
    /// The key that its header gives, where that is another one: it was copied or renamed by hand.
    pub says: Option<SessionKey>,
}

/// Where things that are derived from the streams may be kept: lists and indexes, which may be deleted at any time.
#[derive(Debug, Clone)]
pub struct Shelf {
    /// On which disk.
    pub disk: Arc<dyn Disk>,
    /// A directory that is used for nothing else. It need not exist yet.
    pub dir: PathBuf,
    /// A directory that is not made again if it is gone: that of the store.
    pub within: Option<PathBuf>,
}

/// Where a store keeps logs that are no sessions.
#[derive(Debug, Clone)]
pub struct Room {
    /// On which disk.
    pub disk: Arc<dyn Disk>,
    /// The directory of the store.
    pub dir: PathBuf,
    /// Which file systems to trust.
    pub trust: Trust,
}

impl Room {
    /// Checks every byte of a log in it; nothing if there is none.
    pub(crate) fn verify(&self, path: &Path) -> Result<Option<Report>> {
        match manent_log::verify(&self.disk, path) {
            Err(manent_log::Error::NotFound { .. }) => Ok(None),
            report => Ok(Some(report?)),
        }
    }

    /// Whether there is anything to repair in a log of it.
    pub(crate) fn is_hurt(&self, path: &Path) -> Result<bool> {
        let report = self.verify(path)?;
        Ok(report.is_some_and(|report| !report.is_sound() || report.tail != manent_log::TailState::Clean))
    }
}

/// Where a record lies, as its backend counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// For backends: makes a position.
    pub fn new(raw: u64) -> Position {
        Position(raw)
    }

    /// For backends: what a position was made of. For [`Files`](crate::Files), the offset in the file.
    pub fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proof that a record is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The id of the session that took it; empty for another program's.
    pub id: Arc<str>,
    /// The record's number.
    pub seq: u64,
    /// Where it lies.
    pub position: Position,
    /// What it survives.
    pub durability: Durability,
}

/// From where to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From the header on; the caller wants little more than that.
    Header,
    /// Everything.
    First,
    /// From the first record with at least this number; 0 is the header. One that is not there yet is waited
    /// for: nothing smaller is given when the stream grows.
    Seq(u64),
    /// From the record that lay at this position and had this number. For a caller that read there before: where the
    /// stream is another one by now, what comes first is something else, or damage, or nothing.
    At {
        /// Where it lay.
        position: Position,
        /// Its number.
        seq: u64,
    },
    /// The last `count` turns (records with a role) before the number `before`, and everything between and
    /// behind them. With a count of 0, what begins at `before`, or what comes later. [`Records::missing`]
    /// tells how many turns were not there; if any was not, everything is given, from the header on.
    Tail {
        /// How many turns.
        count: u64,
        /// Only records with a smaller number count.
        before: Option<u64>,
    },
}

/// What an append is to be.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// What the receipt promises.
    pub durability: Durability,
    /// The number the (first) record must get. The first of a new stream gets 1, or that after what a fork shares.
    pub expect: Expect,
    /// How long to wait for another writer.
    pub wait: Duration,
}

/// The first line of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The session's id, which the body names too.
    pub id: String,
    /// Its members.
    pub body: Body,
}

/// Makes the header of a stream that does not exist yet.
pub type NewHeader<'a> = &'a dyn Fn() -> Header;

/// Told how much of a long piece of work is done: bytes done, which only grow, and bytes in all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// What `repair` did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Torn bytes that were cut off the end, and where they are kept.
    pub set_aside: Option<SetAside>,
    /// Damaged places that are acknowledged now.
    pub acknowledged: Vec<Damage>,
}

/// The right to write one live stream, and to be the only one, until it is dropped.
pub trait Lease: fmt::Debug + Send {
    /// Appends records in order, and gives a receipt for each. Not atomic: a crash may leave the first few of
    /// them. What is refused (a conflict, a record too large) writes none of them and does not end the lease.
    ///
    /// A body whose key ([`Body::key`]) one of the last [`manent_log::KEY_RECORDS`] records has, or one before it in
    /// the same call, is not appended, whatever else it and `expect` say: its receipt is that of the first, which is
    /// made as durable as asked; [`manent_log::Error::Unknown`] where that cannot be made sure.
    fn append(&mut self, bodies: &[Body], durability: Durability, expect: Expect) -> Result<Vec<Receipt>>;
    /// Makes the record at a position, and all behind it, survive power loss, whoever wrote it, and even if a sync of
    /// it failed; [`manent_log::Error::Unknown`] where that cannot be made sure.
    fn keep_from(&mut self, position: Position) -> Result<()>;
    /// The number that the next record will get, if nobody writes around the lease.
    fn next_seq(&self) -> u64;
    /// The session's id; empty for another program's.
    fn id(&self) -> &Arc<str>;
    /// What taking the lease had to cut off the end of the stream, and where it is kept.
    fn set_aside(&self) -> Option<&SetAside> {
        None
    }
    /// Under how many names the stream can be reached.
    fn names(&self) -> Result<u64> {
        Ok(1)
    }
}

/// Records being read. Going on and looking are apart, because what is looked at is lent.
pub trait Records: fmt::Debug + Send {
    /// Goes to the next record or damage. False: there is none; ask again later, when the stream has grown.
    fn advance(&mut self) -> Result<bool>;
    /// What [`Records::advance`] went to.
    fn item(&self) -> Option<Item<'_>>;
    /// How the stream ended when [`Records::advance`] last found nothing.
    fn end(&self) -> End;
    /// What became of the stream since it was read to its end: `Grew` if there is more to read, also where it
    /// was moved or removed after that; `Replaced` if all is read and the stream is not where it was, was
    /// removed or rewritten, whatever is in its place now; else `None`. What was being read can be read to
    /// its end in any case.
    fn change(&self) -> Result<Change>;
    /// What the header says; nothing if the stream is another program's.
    fn meta(&self) -> Option<&Meta>;
    /// After [`Start::Tail`]: how many of the turns asked for were not there.
    fn missing(&self) -> u64 {
        0
    }
    /// The next record or damage.
    fn next(&mut self) -> Result<Option<Item<'_>>> {
        Ok(if self.advance()? { self.item() } else { None })
    }
}

/// In the order of [`Backend::recent`].
pub(crate) fn newest_first(listed: &mut [Listed]) {
    listed.sort_unstable_by(|a, b| (b.modified_ms, &b.address.key).cmp(&(a.modified_ms, &a.address.key)));
}

/// A place to keep streams.
///
/// Whatever fails leaves the stream as it was before or as it was to become, also when the process or the
/// machine dies: never neither, never a half.
pub trait Backend: fmt::Debug + Send + Sync {
    /// What to call it in messages: where it is.
    fn name(&self) -> String;

    /// Takes the right to write the live stream of a key, from other threads as from other processes. Without
    /// a stream, `new` makes its header, which is written together with the first record: until then there is
    /// no stream, for lists, readers and other writers. Where `new` is not given, that is
    /// [`Error::NotFound`](crate::Error::NotFound).
    fn lease(&self, key: &SessionKey, new: Option<NewHeader<'_>>, wait: Duration) -> Result<Box<dyn Lease>>;

    /// Appends to the live stream of a key, or begins one, holding its lease for no longer than that. Calls
    /// from many threads with [`Durability::Group`] share their syncs. An append of no records writes
    /// nothing, but its expectation counts.
    fn append(
        &self,
        key: &SessionKey,
        new: NewHeader<'_>,
        bodies: &[Body],
        terms: &Terms,
    ) -> Result<Vec<Receipt>>;

    /// Reads a stream, from `start` to the record with the number `until`, or to its end. Takes no lease and
    /// changes nothing.
    fn read(&self, at: &Address, start: Start, until: Option<u64>) -> Result<Box<dyn Records>>;

    /// The streams of a place, in no order. Each is in one place; whoever holds [`Backend::exclusive`] sees
    /// each once.
    fn list(&self, place: Place, which: Which<'_>) -> Result<Vec<Listed>>;

    /// The live streams that changed last, the newest first, at most so many; of the same millisecond, the one with the
    /// larger key first. As [`Backend::list`] gives them, but that what only a header tells (`id`, `says`) may be left
    /// out: whoever wants thousands reads each next, and should not have to open them twice.
    fn recent(&self, count: usize) -> Result<Vec<Listed>> {
        let mut listed = self.list(Place::Live, Which::All)?;
        newest_first(&mut listed);
        listed.truncate(count);
        Ok(listed)
    }

    /// The keys whose live stream cannot be read because something stands in its place that is no stream, such as a
    /// directory. Lists pass over these; a check of everything names them.
    fn obstructed(&self) -> Result<Vec<SessionKey>> {
        Ok(Vec::new())
    }

    /// Every stream in every place, without opening any: this is asked before every search. Streams of which nothing
    /// was written are none; of two that are one (an archive that is just being packed) only the one that counts is
    /// new.
    ///
    /// `seen` are streams that were there at an earlier survey, and `note` is what that one gave (nothing if there
    /// was none): a backend that can tell by it that no others came need not look for others.
    fn survey(&self, seen: &[(Place, &str)], note: &[u64]) -> Result<Survey>;

    /// Which stamps can be relied on at this moment. Asked for before the streams are read that the stamps stand for.
    fn settling(&self) -> Settling {
        Settling::EXACT
    }

    /// What a stream that was seen is; nothing if it is gone.
    fn identify(&self, sight: &Sight) -> Result<Option<Listed>>;

    /// The live stream of a key as it is seen; nothing if there is none.
    fn sight(&self, key: &SessionKey) -> Result<Option<Sight>>;

    /// The line of a stream that was seen which lies at a position, as it stands, without its newline. For a caller
    /// that read there before and compares. Nothing if the stream is gone or ends before that.
    fn line(&self, place: Place, name: &str, position: Position) -> Result<Option<Vec<u8>>>;

    /// Begins to watch all streams for changes, whoever makes them. Nothing if that cannot be done: then
    /// [`Backend::survey`] must do.
    fn watch(&self) -> Option<Box<dyn Watching>> {
        None
    }

    /// Where things that are derived from the streams may be kept; nothing if only in memory.
    fn shelf(&self) -> Option<Shelf> {
        None
    }

    /// Where the store keeps logs that are no sessions; nothing if it keeps sessions alone.
    fn room(&self) -> Option<Room> {
        None
    }

    /// Makes the place that [`Backend::room`] names ready to be written to.
    fn make_room(&self) -> Result<()> {
        Ok(())
    }

    /// Keeps everybody else from moving, making or removing streams until it is dropped; writing and reading
    /// go on. [`Backend::create`], [`Backend::relocate`], [`Backend::absorb`] and [`Backend::delete`] are
    /// called by the one who holds it. Others hold it for moments, so that a backend may wait longer for it
    /// than it was asked to.
    fn exclusive(&self, wait: Duration) -> Result<Box<dyn Exclusive>>;

    /// Makes a live stream with a header and these records, all of it or nothing; the header alone is a
    /// stream too. One that exists, or for which somebody holds a lease, is
    /// [`Error::InTheWay`](crate::Error::InTheWay). The records may be read from this backend while they are
    /// asked for.
    fn create(
        &self,
        key: &SessionKey,
        header: &Header,
        records: &mut dyn Iterator<Item = Result<Body>>,
    ) -> Result<()>;

    /// Brings a stream to another place and gives its new address, with the same id unless another stream has
    /// it there. Its writer, if it has one, is waited for. From every place to every other, and to its own,
    /// where it just stays; an archived stream is condensed before it goes to the trash. A live stream of the
    /// key, or a lease for one, is [`Error::InTheWay`](crate::Error::InTheWay) of another that is to be live.
    fn relocate(&self, at: &Address, to: Place, wait: Duration) -> Result<Address>;

    /// What can be done to an archived stream at leisure (packing it); nothing to do for any other. Not under
    /// [`Backend::exclusive`]: it may take long. Nothing changes for readers.
    fn condense(&self, at: &Address, progress: Progress<'_>) -> Result<()>;

    /// Rewrites a fork, where it is, so that it no longer needs what it was forked from: this header, then
    /// the records of `parent` up to `upto` as they stand, then its own as they stand. Its writer, if it has
    /// one, is waited for.
    fn absorb(
        &self,
        fork: &Address,
        header: &Body,
        parent: &Address,
        upto: u64,
        wait: Duration,
    ) -> Result<()>;

    /// Whether a record that lay at a position and had this number is in what was set aside of a stream (a torn end)
    /// since a time, in nanoseconds since 1970.
    fn is_set_aside(&self, _at: &Address, _position: Position, _seq: u64, _since_ns: i64) -> Result<bool> {
        Ok(false)
    }

    /// Removes a stream and everything that was set aside of it, for good. Its writer, if it has one, is
    /// waited for.
    fn delete(&self, at: &Address, wait: Duration) -> Result<()>;

    /// Makes what can be read of a stream survive power loss; what a failed sync left, only [`Lease::keep_from`] does.
    fn settle(&self, at: &Address) -> Result<()>;

    /// Checks every byte of a stream.
    fn verify(&self, at: &Address, progress: Progress<'_>) -> Result<Report>;

    /// Sets a torn end of a live stream aside and acknowledges its damage, at the time `ts`. Nothing is
    /// written where nothing is wrong.
    fn repair(&self, key: &SessionKey, ts: &str, wait: Duration) -> Result<Repaired>;
}

/// The right to move, make and remove streams. See [`Backend::exclusive`].
pub trait Exclusive: fmt::Debug + Send {}
