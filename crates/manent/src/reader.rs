//! [`Reader`]: the records of a session, and of the sessions it was forked from.
//!
//! A fork holds only its own records. A [`Reader`] puts them behind those of its parent, up to the record at which it
//! was forked, and so on back to the first: the caller sees one session. A parent that is gone, or that no longer holds
//! that record, is reported as damage and hides nothing of the rest.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use manent_log::frame::DamageReason;
use manent_log::{Damage, Entry, FileChange, LogEnd, LogItem};
use manent_store::{
    Place, Position, Seek, Selector, SessionKey, StreamFilter, StreamId, StreamReader, Streams, Target,
};

use crate::error::{Result, if_found};
use crate::meta::{Meta, Parent};
use crate::store::{LOOKS, Store};
use crate::turn::is_turn;

/// The records of a session, in order.
///
/// It takes no lock and changes nothing. At the end it may be asked again: it goes on where the session has grown.
#[derive(Debug, Default)]
pub struct Reader {
    /// The streams still to be read, oldest first. The last is the session itself.
    parts: VecDeque<Part>,
    /// Damage between two parts, told in place of a record.
    broken: Option<Damage>,
    /// Damage to tell before anything else.
    first: VecDeque<Damage>,
    /// A session that does not exist yet: it is looked for again when more is asked for.
    awaited: Option<(Store, SessionKey, Start)>,
}

#[derive(Debug)]
struct Part {
    records: Records,
    /// The fork point at which the next part continues; `None` for the session itself.
    until: Option<Parent>,
    /// True once that record was given.
    done: bool,
}

/// A change of a session that is being followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// There is more to read.
    More,
    /// The session did not change before the timeout.
    Nothing,
    /// The session is shorter than what was read: acknowledged records are gone.
    Truncated,
    /// The session was archived, deleted or replaced.
    Replaced,
}

impl Reader {
    /// Returns the next record or damage, or `None` at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "it lends its buffer and can fail, which Iterator cannot say"
    )]
    pub fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        Ok(if self.advance()? { self.item() } else { None })
    }

    /// Moves to the next record or damage, which [`Reader::item`] then returns. Returns false if there is none.
    pub fn advance(&mut self) -> Result<bool> {
        if self.parts.is_empty()
            && let Some((store, key, start)) = &self.awaited
            && store.exists(key)?
        {
            *self = store.stream(key, *start)?;
        }
        self.broken = self.first.pop_front();
        if self.broken.is_some() {
            return Ok(true);
        }
        while let Some(part) = self.parts.front_mut() {
            let Some(parent) = &part.until else { return Ok(part.records.reader.advance()?) };
            if part.done {
                self.parts.pop_front();
                continue;
            }
            let found = part.records.reader.advance()?;
            match part.records.reader.item().filter(|_| found) {
                // The header of a parent says nothing about the session that is read.
                Some(LogItem::Entry(entry)) if entry.seq == 0 && entry.verified => continue,
                Some(LogItem::Entry(entry)) if entry.seq == parent.upto => {
                    part.done = true;
                    if crc_of(&entry) != parent.crc {
                        self.broken = Some(damage_at(parent.upto, DamageReason::OtherParent));
                    }
                }
                Some(_) => {}
                // It ends before the record at which the fork goes on: it is another one than it was.
                None => {
                    part.done = true;
                    self.broken = Some(damage_at(parent.upto, DamageReason::OtherParent));
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns the record or damage that [`Reader::advance`] moved to.
    pub fn item(&self) -> Option<LogItem<'_>> {
        match self.broken {
            Some(damage) => Some(LogItem::Damage(damage)),
            None => self.parts.front()?.records.reader.item(),
        }
    }

    /// Returns how the session ended when [`Reader::advance`] last found nothing.
    pub fn end(&self) -> LogEnd {
        self.parts.back().map_or(LogEnd::Clean, |part| part.records.reader.end())
    }

    /// Returns the header of the session, or `None` if another program wrote the session.
    pub fn meta(&self) -> Option<&Meta> {
        self.parts.back()?.records.meta()
    }

    /// Waits until there is more to read, at most so long.
    pub fn wait(&self, timeout: Duration) -> Result<Growth> {
        // Nothing: longer than any clock runs.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // Before every look: a torn end is always worth another, but not at once.
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            std::thread::sleep(left.map_or(LOOK_AGAIN_AFTER, |left| left.min(LOOK_AGAIN_AFTER)));
            match self.change()? {
                FileChange::Grew => return Ok(Growth::More),
                FileChange::Truncated => return Ok(Growth::Truncated),
                FileChange::Replaced => return Ok(Growth::Replaced),
                FileChange::None if left.is_some_and(|left| left <= LOOK_AGAIN_AFTER) => {
                    return Ok(Growth::Nothing);
                }
                FileChange::None => {}
            }
        }
    }

    /// Moves to another place, through the open handle unless the session is a fork.
    pub(crate) fn restart(&mut self, store: &Store, at: &StreamId, start: Start) -> Result<()> {
        match self.parts.make_contiguous() {
            [part] if part.records.meta().is_none_or(|meta| meta.parent.is_none()) => {
                self.broken = None;
                part.records.reader.seek(start.seek())?;
            }
            _ => *self = store.read(at, start)?,
        }
        Ok(())
    }

    /// Returns what became of the session since it was read to its end.
    fn change(&self) -> Result<FileChange> {
        match (self.parts.back(), &self.awaited) {
            (Some(part), _) => Ok(part.records.reader.poll()?),
            (None, Some((store, key, _))) if store.exists(key)? => Ok(FileChange::Grew),
            (None, _) => Ok(FileChange::None),
        }
    }

    /// A reader of a session that does not exist yet.
    pub(crate) fn awaiting(store: Store, key: SessionKey, start: Start) -> Reader {
        Reader { awaited: Some((store, key, start)), ..Reader::default() }
    }
}

impl Store {
    /// Opens a session for reading, wherever it is.
    pub fn read(&self, at: &StreamId, start: Start) -> Result<Reader> {
        read(self.streams(), at, start)
    }
}

/// Opens a session for reading, and through it what it was forked from.
pub(crate) fn read(streams: &dyn Streams, at: &StreamId, start: Start) -> Result<Reader> {
    // The parent may be moved during the lookup, or be replaced by a copy of its records and removed.
    for _ in 1..LOOKS {
        match read_once(streams, at, start) {
            Ok(reader) if reader.first.is_empty() => return Ok(reader),
            Err(e) if e.is_not_found() => {}
            Err(e) => return Err(e),
            Ok(_) => {}
        }
    }
    read_once(streams, at, start)
}

fn read_once(streams: &dyn Streams, at: &StreamId, start: Start) -> Result<Reader> {
    let mut records = Records::open(streams, Target::Id(at), start, None)?;
    let mut reader = Reader::default();
    let mut until: Option<Parent> = None;
    loop {
        let parent = records.meta().and_then(|meta| meta.parent.clone());
        let missing = records.missing;
        reader.parts.push_front(Part { records, until: until.take(), done: false });
        let Some(parent) = parent else { break };
        let start = match start {
            Start::First => start,
            Start::Seq(seq) if seq <= parent.upto => start,
            Start::Tail { .. } if missing > 0 => {
                Start::Tail { count: missing, before: Some(parent.upto.saturating_add(1)) }
            }
            Start::Header | Start::Seq(_) | Start::At { .. } | Start::Tail { .. } => break,
        };
        // Numbers shrink from fork to parent, so that no chain of headers made by hand goes round in a circle.
        let earlier = reader.parts.front().and_then(|part| part.until.as_ref());
        let sane = earlier.is_none_or(|child| parent.upto < child.upto);
        let found = if sane { read_parent(streams, &parent, start)? } else { None };
        let Some(above) = found else {
            reader.first.push_back(damage_at(parent.upto, DamageReason::NoParent));
            break;
        };
        records = above;
        until = Some(parent);
    }
    Ok(reader)
}

/// Opens what a session was forked from; `None` if it is not there, or was moved between our look and our open.
fn read_parent(streams: &dyn Streams, parent: &Parent, start: Start) -> Result<Option<Records>> {
    let Some(address) = find_parent(streams, parent)? else { return Ok(None) };
    if_found(Records::open(streams, Target::Id(&address), start, Some(parent.upto)))
}

/// Finds the session that another one was forked from.
pub(crate) fn find_parent(streams: &dyn Streams, parent: &Parent) -> Result<Option<StreamId>> {
    if parent.id.is_empty() {
        return Ok(None);
    }
    find_with_id(streams, SessionKey::new(parent.key.as_str()).ok().as_ref(), &parent.id)
}

/// Finds the session with this id. The live one of its key is looked at first, where that is known.
pub(crate) fn find_with_id(
    streams: &dyn Streams,
    key: Option<&SessionKey>,
    id: &str,
) -> Result<Option<StreamId>> {
    let mut looks = Vec::with_capacity(4);
    looks.extend(key.map(|key| (Place::Live, Selector::Key(key))));
    looks.extend(Place::ALL.iter().skip(1).map(|place| (*place, Selector::Id(id))));
    // Last, because it looks into every live file: it was renamed by hand.
    looks.push((Place::Live, Selector::Id(id)));
    for (place, which) in looks {
        let found = streams.list(&StreamFilter::sessions(place, which))?;
        if let Some(listed) = found.into_iter().find(|listed| listed.id.id == id) {
            return Ok(Some(listed.id));
        }
    }
    Ok(None)
}

/// The checksum by which a fork knows the record at which it was forked.
pub(crate) fn crc_of(entry: &Entry<'_>) -> String {
    let digits = entry.bytes.len().checked_sub(10).and_then(|at| entry.bytes.get(at..at + 8));
    digits.filter(|_| entry.verified).map(|d| String::from_utf8_lossy(d).into_owned()).unwrap_or_default()
}

/// Damage that is nowhere in the session's own file.
pub(crate) fn damage_at(seq: u64, reason: DamageReason) -> Damage {
    Damage { offset: 0, length: 0, reason, lines: 0, seq }
}

const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The place to begin to read a session at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The header; the caller wants little more than that.
    Header,
    /// Everything.
    First,
    /// The first record with at least this number; 0 is the header. One that is not there yet is waited for: nothing
    /// smaller is given when the session grows.
    Seq(u64),
    /// The record that lay at this position and had this number. For a caller that read there before: where the
    /// session is another one by now, what comes first is something else, or damage, or nothing.
    At {
        /// The position it had.
        position: Position,
        /// The number of the record.
        seq: u64,
    },
    /// The last `count` turns (records with a role) before the number `before`, and everything between and behind
    /// them. With a count of 0, what begins at `before`, or what comes later. Where there are fewer turns, everything
    /// from the header on.
    Tail {
        /// The number of turns.
        count: u64,
        /// Only records with a smaller number count.
        before: Option<u64>,
    },
}

impl Start {
    fn seek(self) -> Seek<'static> {
        match self {
            Start::Header => Seek::Header,
            Start::First => Seek::First,
            Start::Seq(seq) => Seek::Seq(seq),
            Start::At { position, seq } => Seek::Position { position, seq },
            Start::Tail { count, before } => Seek::Last { count, before, matches: &is_turn },
        }
    }
}

/// The records of one stream, without what it was forked from.
#[derive(Debug)]
pub(crate) struct Records {
    reader: Box<dyn StreamReader>,
    meta: Option<Meta>,
    /// The number of turns that [`Start::Tail`] asked for and that were not there.
    missing: u64,
}

impl Records {
    /// Opens a stream and moves to where to begin; ends with the record `until`, or with the stream.
    pub(crate) fn open(
        streams: &dyn Streams,
        at: Target<'_>,
        start: Start,
        until: Option<u64>,
    ) -> Result<Records> {
        let mut reader = streams.open(at)?;
        let missing = reader.seek(start.seek())?;
        if let Some(seq) = until {
            reader.end_at(seq);
        }
        let meta = reader.header().and_then(Meta::of_line);
        Ok(Records { reader, meta, missing })
    }

    /// Moves to the next record or damage and returns it.
    pub(crate) fn next(&mut self) -> Result<Option<LogItem<'_>>> {
        Ok(self.reader.next()?)
    }

    /// Returns what the header says; `None` if the stream is another program's.
    pub(crate) fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }
}

impl Store {
    /// Opens a stream of a session and moves to where to begin.
    pub(crate) fn records(&self, at: &StreamId, start: Start) -> Result<Records> {
        Records::open(self.streams(), Target::Id(at), start, None)
    }
}
