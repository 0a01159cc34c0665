//! Reads sessions for the index: what was appended since last time, or everything where that cannot be told.

use std::collections::VecDeque;

use manent_log::{End, Entry, Item};

use manent_store::{Detail, Filter, Place, Position, StreamId, StreamStat, Version, Which};

use crate::error::{Error, Result};
use crate::store::Store;
use crate::stream::{Records, Start};
use crate::summary::shorten;
use crate::tokens;
use crate::turn::Record;
use manent_store::clock;

use super::batch::Changed;
use super::builder::{Builder, Said};
use super::catalogue::{Mark, Row};
use super::related::NEIGHBOURS;
use super::segment::Spot;
use super::speech::speech;
use super::sweep::Index;

/// Takes turns in and gives segments out, each of a size that fits in memory.
pub(crate) struct Intake<'a> {
    builder: Builder,
    /// How much memory a segment may take while it is made.
    memory_max: usize,
    /// Where finished segments go.
    give: &'a mut dyn FnMut(Vec<u8>) -> Result<()>,
    /// The turns before the next one, for which they are neighbours.
    before: VecDeque<Before>,
    /// The run of this session was begun.
    begun: bool,
}

#[derive(Default)]
struct Before {
    role: String,
    second: u32,
    spot: Spot,
    text: String,
}

impl<'a> Intake<'a> {
    pub(crate) fn new(memory_max: usize, give: &'a mut dyn FnMut(Vec<u8>) -> Result<()>) -> Intake<'a> {
        Intake { builder: Builder::default(), memory_max, give, before: VecDeque::new(), begun: false }
    }

    fn begin_session(&mut self) {
        self.before.clear();
        self.begun = false;
    }

    /// A turn that was taken in before: only its neighbours need it.
    fn remember(&mut self, role: &str, second: u32, spot: Spot, text: &str) {
        // The oldest makes room, and lends its memory.
        let full = self.before.len() >= NEIGHBOURS;
        let mut before = if full { self.before.pop_front() } else { None }.unwrap_or_default();
        role.clone_into(&mut before.role);
        text.clone_into(&mut before.text);
        (before.second, before.spot) = (second, spot);
        self.before.push_back(before);
    }

    fn take(&mut self, number: u64, role: &str, second: u32, spot: Spot, text: &str) -> Result<()> {
        if !self.begun {
            self.begun = true;
            self.builder.begin_run(number, self.before.len() as u32);
            for before in &self.before {
                let said = Said { role: &before.role, second: before.second, spot: before.spot };
                self.builder.add(said, &before.text);
            }
        }
        self.builder.add(Said { role, second, spot }, text);
        self.remember(role, second, spot, text);
        if self.builder.memory() > self.memory_max {
            self.finish()?;
        }
        Ok(())
    }

    /// Gives out what is left.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.begun = false;
        let builder = std::mem::take(&mut self.builder);
        if builder.is_empty() { Ok(()) } else { (self.give)(builder.finish()) }
    }
}

/// Reads a session that changed. `old` is what was known of it; `number` marks
/// its turns if it must be read anew.
///
/// What cannot be read is a row too, which says so. An error is about the index, not about the session.
pub(crate) fn gather(
    store: &Store,
    changed: &Changed,
    listed: &StreamStat,
    old: Option<&Row>,
    number: u64,
    intake: &mut Intake<'_>,
) -> Result<Row> {
    intake.begin_session();
    let mut row = Row {
        place: place_number(listed.id.place),
        from: place_number(listed.from),
        name: changed.name.clone(),
        key: listed.id.key.as_str().to_owned(),
        id: listed.id.id.clone(),
        version: changed.version,
        bytes: changed.bytes,
        number,
        ..Row::default()
    };
    // The only stream of a space has another id each time it is replaced, and is meant whatever that is by now.
    let is_single = listed.id.space.single_key().is_some();
    let at = if is_single { StreamId::single(listed.id.space) } else { listed.id.clone() };
    let (index, modified_ms) = (store.index(), listed.modified_ms);
    let mut gathering = Gathering { index, intake, modified_ms, taken: false, sought: None, trouble: None };
    // A key leads to one file. Another one that would be its session too is read by nobody.
    if changed.place == Place::Live && row.id.is_empty() {
        let read = live_outside(store, &listed.id.key)?;
        if read.is_some_and(|read| read.name != changed.name) {
            SHADOWED.clone_into(&mut row.unreadable);
            row.version = Version::UNKNOWN;
            return Ok(row);
        }
    }
    let read = match old {
        Some(old) if old.last.is_set && old.unreadable.is_empty() && only_grew(old, changed) => {
            gathering.go_on(store, &at, old, &mut row)
        }
        _ => Ok(false),
    };
    let read = match read {
        Ok(true) => Ok(()),
        Ok(false) => {
            // What was remembered of it is no longer so.
            gathering.intake.begin_session();
            gathering.read_all(store, &at, old, &mut row)
        }
        Err(e) => Err(e),
    };
    let taken = gathering.taken;
    match (read, gathering.trouble) {
        (_, Some(trouble)) => Err(trouble),
        (Ok(()), None) => Ok(row),
        // Not settled: whatever is in the way may go away without the stream changing.
        (Err(e), None) => {
            if let Some(old) = old.filter(|_| !taken) {
                // What was read of it before can still be found.
                let Row { name, place, from, version, bytes, .. } = row;
                row = Row { place, from, name, version, bytes, ..old.clone() };
            }
            row.unreadable = e.to_string();
            row.version = Version::UNKNOWN;
            if row.updated.is_empty() {
                (row.created_ms, row.updated_ms) = (listed.modified_ms, listed.modified_ms);
            }
            Ok(row)
        }
    }
}

/// Whether all that was read of a session before can be trusted to stand where it stood, if its last record does.
///
/// Another program may change anything in its own files. Ours only grow: one that changed without growing was changed
/// by something else, unless it was just moved, or was looked at again because its time stamp was not settled. A file
/// that another one took the place of (a copy that was restored, say) is read as a whole.
fn only_grew(old: &Row, changed: &Changed) -> bool {
    let moved = old.place() != changed.place || old.name != changed.name;
    old.native && !old.doubtful && (moved || changed.grew)
}

/// The live stream of a key as it is seen without opening it.
pub(crate) fn live_outside(store: &Store, key: &manent_store::SessionKey) -> Result<Option<StreamStat>> {
    let filter = Filter::new(store.index().space(), Place::Live, Which::Key(key));
    Ok(store.streams().list(&Filter { detail: Detail::Outside, ..filter })?.into_iter().next())
}

struct Gathering<'a, 'b> {
    index: &'a Index,
    intake: &'a mut Intake<'b>,
    modified_ms: i64,
    /// Something was taken in.
    taken: bool,
    /// The last record that was read before, until it is met again.
    sought: Option<Mark>,
    /// The index could not be written: not the session's fault.
    trouble: Option<Error>,
}

impl Gathering<'_, '_> {
    /// Reads what was appended. False: the session is not what it was, and must be read as a whole.
    fn go_on(&mut self, store: &Store, at: &StreamId, old: &Row, row: &mut Row) -> Result<bool> {
        let from = old.recent.first().copied().unwrap_or(old.last);
        let start = Start::At { position: Position::new(from.offset), seq: from.seq };
        let mut records = store.records(at, start, None)?;
        let parent = records.meta().and_then(|meta| meta.parent.clone());
        if parent.as_ref().map_or("", |parent| &parent.id) != old.parent {
            return Ok(false);
        }
        // From the last turns to the last record, nothing may have changed.
        let mut here = Mark::default();
        while here != old.last {
            match records.next()? {
                Some(Item::Entry(entry)) => {
                    here = mark(&entry);
                    if entry.seq > old.last.seq || (entry.seq == from.seq && here != from) {
                        return Ok(false);
                    }
                    if old.recent.contains(&here) {
                        self.remember(&entry);
                    }
                }
                Some(Item::Damage(_)) if here.is_set => {}
                _ => return Ok(false),
            }
        }
        let Row { place, from, name, key, id, version, bytes, .. } = std::mem::take(row);
        *row = Row { place, from, name, key, id, version, bytes, ..old.clone() };
        self.read_on(&mut records, row)?;
        Ok(true)
    }

    fn remember(&mut self, entry: &Entry<'_>) {
        if let Some(record) = Record::of(entry) {
            let role = self.index.spoken(&record).unwrap_or_default();
            let second = second_of(&record).unwrap_or_else(|| seconds(self.modified_ms));
            self.intake.remember(&role, second, spot(entry), &speech(&record));
        }
    }

    fn read_all(&mut self, store: &Store, at: &StreamId, old: Option<&Row>, row: &mut Row) -> Result<()> {
        let mut records = store.records(at, Start::First, None)?;
        let parent = records.meta().and_then(|meta| meta.parent.clone());
        row.headed = records.meta().is_some();
        // The disk may not have given the header when it was asked whose session this is.
        if let Some(meta) = records.meta().filter(|_| row.id.is_empty() && at.place == Place::Live) {
            row.id.clone_from(&meta.id);
        }
        if let Some(parent) = parent {
            (row.parent, row.upto, row.lineage) = (parent.id, parent.upto, 0);
            Self::read_shared(store, at, row)?;
        }
        self.sought = old.filter(|old| old.native && old.last.is_set && old.id == row.id).map(|old| old.last);
        self.read_on(&mut records, row)?;
        // Ours only grow. One that no longer has the last record that was read has lost it.
        if let Some(old) = old.filter(|_| row.native) {
            (row.once_bytes, row.once_seq) = (old.once_bytes, old.once_seq);
            if let Some(lost) = self.sought.take().filter(|lost| lost.seq >= row.once_seq)
                && !is_set_aside(store, at, old, records.end())?
            {
                (row.once_bytes, row.once_seq) = (old.bytes.max(lost.offset), lost.seq);
            }
        }
        Ok(())
    }

    /// Counts what a fork shares with its parent. It is found where the parent is.
    fn read_shared(store: &Store, at: &StreamId, row: &mut Row) -> Result<()> {
        let mut shared = store.read(at, Start::First)?;
        while let Some(item) = shared.next()? {
            match item {
                Item::Damage(_) => row.damaged = true,
                Item::Entry(entry) if entry.seq > row.upto => break,
                Item::Entry(entry) => {
                    let Some(record) = Record::of(&entry) else { continue };
                    note(&record, row);
                    if record.is_turn() {
                        row.shared_turns += 1;
                        row.shared_tokens += tokens::estimate(&speech(&record));
                    }
                }
            }
        }
        Ok(())
    }

    fn read_on(&mut self, records: &mut Records, row: &mut Row) -> Result<()> {
        // A turn that does not say when it was said is as old as what was written before it.
        let mut second =
            if row.updated.is_empty() { seconds(self.modified_ms) } else { seconds(row.updated_ms) };
        while let Some(item) = records.next()? {
            let entry = match item {
                Item::Entry(entry) => entry,
                Item::Damage(_) => {
                    row.damaged = true;
                    continue;
                }
            };
            // A line without a checksum is another program's, which may change it.
            let ours = if row.last.is_set { row.native } else { entry.seq == 0 };
            row.native = ours && entry.verified;
            row.last = mark(&entry);
            if self.sought.is_some_and(|sought| sought.seq == entry.seq && sought.crc == row.last.crc) {
                self.sought = None;
            }
            let Some(record) = Record::of(&entry) else { continue };
            second = note(&record, row).map_or(second, seconds);
            let Some(role) = self.index.spoken(&record) else { continue };
            let text = speech(&record);
            row.turns += 1;
            row.tokens += tokens::estimate(&text);
            if row.recent.len() >= NEIGHBOURS {
                row.recent.remove(0);
            }
            row.recent.push(row.last);
            self.taken = true;
            let spot = Spot { offset: entry.offset, seq: entry.seq, crc: row.last.crc };
            if let Err(e) = self.intake.take(row.number, &role, second, spot, &text) {
                self.trouble = Some(e);
                return Ok(());
            }
        }
        row.torn = matches!(records.end(), End::Torn(_));
        if row.updated.is_empty() || row.updated_ms == 0 {
            row.updated_ms = self.modified_ms;
        }
        if row.created.is_empty() {
            row.created_ms = self.modified_ms;
        }
        Ok(())
    }
}

/// Whether the last record that was read of a session, and that is no longer there, stands in its torn end, or in what
/// was set aside of that since. Then it is named there, and did not vanish without a trace.
pub(crate) fn is_set_aside(store: &Store, at: &StreamId, old: &Row, end: End) -> Result<bool> {
    let Mark { offset, seq, .. } = old.last;
    match end {
        End::Torn(torn) if torn.offset <= offset && offset - torn.offset < torn.length => Ok(true),
        _ => match store.streams().maintenance() {
            None => Ok(false),
            Some(maintenance) => {
                Ok(maintenance.was_set_aside(at, Position::new(offset), seq, old.read_at)?)
            }
        },
    }
}

/// What a list shows of the session, as far as this record changes it. Gives when the record was written, if it says.
fn note(record: &Record<'_>, row: &mut Row) -> Option<i64> {
    let ts = record.ts();
    let ms = ts.as_deref().and_then(clock::parse_ms);
    if let Some(ts) = ts {
        if row.created.is_empty() {
            row.created = ts.clone().into_owned();
            row.created_ms = ms.unwrap_or(row.created_ms);
        }
        row.updated.clear();
        row.updated.push_str(&ts);
        row.updated_ms = ms.unwrap_or(row.updated_ms);
    }
    if record.is_turn() {
        if row.said.is_empty() && record.role().as_deref() == Some("user") {
            row.said = shorten(&record.content());
        }
    } else if record.kind().as_deref() == Some("title") {
        // An empty title takes back the one before it.
        row.given = record.string("title").map(|title| shorten(&title)).unwrap_or_default();
    }
    ms
}

fn mark(entry: &Entry<'_>) -> Mark {
    Mark { offset: entry.offset, seq: entry.seq, crc: crc32c::crc32c(entry.bytes), is_set: true }
}

fn spot(entry: &Entry<'_>) -> Spot {
    Spot { offset: entry.offset, seq: entry.seq, crc: crc32c::crc32c(entry.bytes) }
}

fn second_of(record: &Record<'_>) -> Option<u32> {
    record.ts().and_then(|ts| clock::parse_ms(&ts)).map(seconds)
}

/// In what a segment has room for: 1970 to 2106.
pub(crate) fn seconds(ms: i64) -> u32 {
    u32::try_from((ms.div_euclid(1000)).max(0)).unwrap_or(u32::MAX)
}

pub(crate) fn place_number(place: Place) -> u8 {
    Place::ALL.iter().position(|other| *other == place).unwrap_or_default() as u8
}

/// Why a session is not read.
const SHADOWED: &str = "another file of the same key is read in its place; give one of them another name";
