//! Reads sessions for the index: what was appended since last time, or everything where that cannot be told.

use std::collections::VecDeque;

use manent_log::{Entry, LogEnd, LogItem};

use manent_store::{Place, Position, Seek, StreamId, StreamReader, StreamStat, Version, clock};

use crate::corpus::{Content, Corpus, Document};
use crate::error::{Error, Result};
use crate::summary::shorten;

use crate::batch::Changed;
use crate::builder::{Builder, Said};
use crate::catalogue::{Mark, Row};
use crate::related::NEIGHBOURS;
use crate::segment::RecordRef;

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
    spot: RecordRef,
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
    fn remember(&mut self, role: &str, second: u32, spot: RecordRef, text: &str) {
        // The oldest makes room, and lends its memory.
        let full = self.before.len() >= NEIGHBOURS;
        let mut before = if full { self.before.pop_front() } else { None }.unwrap_or_default();
        role.clone_into(&mut before.role);
        text.clone_into(&mut before.text);
        (before.second, before.spot) = (second, spot);
        self.before.push_back(before);
    }

    fn take(&mut self, number: u64, role: &str, second: u32, spot: RecordRef, text: &str) -> Result<()> {
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

/// Reads a stream that changed. `old` is what was known of it; `number` marks its records if it must be read anew.
///
/// A stream that cannot be read has a row too, which says so. An error is about the index, not about the stream.
pub(crate) fn ingest(
    corpus: &dyn Corpus,
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
    let modified_ms = listed.modified_ms;
    let mut gathering = Gathering { corpus, intake, modified_ms, taken: false, sought: None, trouble: None };
    // A key leads to one file. Another file that would be the stream of that key too is not read.
    if changed.place == Place::Live && row.id.is_empty() {
        let read = corpus.live_outside(&listed.id.key)?;
        if read.is_some_and(|read| read.name != changed.name) {
            SHADOWED.clone_into(&mut row.unreadable);
            row.version = Version::UNKNOWN;
            return Ok(row);
        }
    }
    let read = match old {
        Some(old) if old.last.is_set && old.unreadable.is_empty() && only_grew(old, changed) => {
            gathering.go_on(&at, old, &mut row)
        }
        _ => Ok(false),
    };
    let read = match read {
        Ok(true) => Ok(()),
        Ok(false) => {
            // The neighbours that were remembered of it are outdated.
            gathering.intake.begin_session();
            gathering.read_all(&at, old, &mut row)
        }
        Err(e) => Err(e),
    };
    let taken = gathering.taken;
    match (read, gathering.trouble) {
        (_, Some(trouble)) => Err(trouble),
        (Ok(()), None) => Ok(row),
        // Not settled: the obstacle may go away without the stream changing.
        (Err(e), None) => {
            if let Some(old) = old.filter(|_| !taken) {
                // The part that was read before can still be found.
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

/// Returns whether all that was read of a stream before can be trusted to stand where it stood, if its last record
/// does.
///
/// Another program may change anything in its own files. Ours only grow: one that changed without growing was changed
/// by something else, unless it was just moved, or was looked at again because its time stamp was not settled. A file
/// that another one took the place of (a copy that was restored, say) is read as a whole.
fn only_grew(old: &Row, changed: &Changed) -> bool {
    let moved = old.place() != changed.place || old.name != changed.name;
    old.native && !old.stale && (moved || changed.grew)
}

struct Gathering<'a, 'b> {
    corpus: &'a dyn Corpus,
    intake: &'a mut Intake<'b>,
    modified_ms: i64,
    /// Something was taken in.
    taken: bool,
    /// The last record that was read before, until it is met again.
    sought: Option<Mark>,
    /// The index could not be written: not the stream's fault.
    trouble: Option<Error>,
}

impl Gathering<'_, '_> {
    /// Reads what was appended. Returns false if the stream is not what it was, and must be read as a whole.
    fn go_on(&mut self, at: &StreamId, old: &Row, row: &mut Row) -> Result<bool> {
        let from = old.recent.first().copied().unwrap_or(old.last);
        let seek = Seek::Position { position: Position::new(from.offset), seq: from.seq };
        let mut records = self.corpus.open_at(at, seek)?;
        let parent = self.corpus.origin_of(&*records).and_then(|origin| origin.parent);
        if parent.as_ref().map_or("", |(id, _)| id) != old.parent {
            return Ok(false);
        }
        // From the last searched records to the last record, nothing may have changed.
        let mut here = Mark::default();
        while here != old.last {
            match records.next()? {
                Some(LogItem::Entry(entry)) => {
                    here = mark(&entry);
                    if entry.seq > old.last.seq || (entry.seq == from.seq && here != from) {
                        return Ok(false);
                    }
                    if old.recent.contains(&here) {
                        self.remember(&entry);
                    }
                }
                Some(LogItem::Damage(_)) if here.is_set => {}
                _ => return Ok(false),
            }
        }
        let Row { place, from, name, key, id, version, bytes, .. } = std::mem::take(row);
        *row = Row { place, from, name, key, id, version, bytes, ..old.clone() };
        self.read_on(&mut *records, row)?;
        Ok(true)
    }

    fn remember(&mut self, entry: &Entry<'_>) {
        if let Some(document) = self.corpus.document(entry) {
            let written_ms = document.ts.as_deref().and_then(clock::parse_ms);
            let second = seconds(written_ms.unwrap_or(self.modified_ms));
            if let Some((role, text)) = document.searched() {
                self.intake.remember(&role, second, record_ref(entry), &text);
            }
        }
    }

    fn read_all(&mut self, at: &StreamId, old: Option<&Row>, row: &mut Row) -> Result<()> {
        let mut records = self.corpus.open_at(at, Seek::First)?;
        let origin = self.corpus.origin_of(&*records);
        row.headed = origin.is_some();
        // The disk may not have given the header when it was asked whose stream this is.
        if let Some(origin) = origin.as_ref().filter(|_| row.id.is_empty() && at.place == Place::Live) {
            row.id.clone_from(&origin.id);
        }
        if let Some(parent) = origin.and_then(|origin| origin.parent) {
            (row.parent, row.upto) = parent;
            row.lineage = 0;
            self.read_shared(at, row)?;
        }
        self.sought = old.filter(|old| old.native && old.last.is_set && old.id == row.id).map(|old| old.last);
        self.read_on(&mut *records, row)?;
        // Ours only grow. One that no longer has the last record that was read has lost it.
        if let Some(old) = old.filter(|_| row.native) {
            (row.once_bytes, row.once_seq) = (old.once_bytes, old.once_seq);
            if let Some(lost) = self.sought.take().filter(|lost| lost.seq >= row.once_seq)
                && !is_set_aside(self.corpus, at, old, records.end())?
            {
                (row.once_bytes, row.once_seq) = (old.bytes.max(lost.offset), lost.seq);
            }
        }
        Ok(())
    }

    /// Counts the records that a fork shares with its parent. They are found in the parent.
    fn read_shared(&self, at: &StreamId, row: &mut Row) -> Result<()> {
        let corpus = self.corpus;
        corpus.shared(at, row.upto, &mut |item| {
            let entry = match item {
                LogItem::Entry(entry) => entry,
                LogItem::Damage(_) => {
                    row.damaged = true;
                    return;
                }
            };
            let Some(document) = corpus.document(&entry) else { return };
            note(corpus, &entry, &document, row);
            if let Some((_, text)) = document.searched() {
                row.shared_turns += 1;
                row.shared_tokens += estimated_tokens(&text);
            }
        })?;
        Ok(())
    }

    fn read_on(&mut self, records: &mut dyn StreamReader, row: &mut Row) -> Result<()> {
        // A record that does not say when it was written is as old as the one before it.
        let mut second =
            if row.updated.is_empty() { seconds(self.modified_ms) } else { seconds(row.updated_ms) };
        while let Some(item) = records.next()? {
            let entry = match item {
                LogItem::Entry(entry) => entry,
                LogItem::Damage(_) => {
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
            let Some(document) = self.corpus.document(&entry) else { continue };
            second = note(self.corpus, &entry, &document, row).map_or(second, seconds);
            let Some((role, text)) = document.searched() else { continue };
            row.turns += 1;
            row.tokens += estimated_tokens(&text);
            if row.recent.len() >= NEIGHBOURS {
                row.recent.remove(0);
            }
            row.recent.push(row.last);
            self.taken = true;
            let spot = RecordRef { offset: entry.offset, seq: entry.seq, crc: row.last.crc };
            if let Err(e) = self.intake.take(row.number, &role, second, spot, &text) {
                self.trouble = Some(e);
                return Ok(());
            }
        }
        row.torn = matches!(records.end(), LogEnd::Torn(_));
        if row.updated.is_empty() || row.updated_ms == 0 {
            row.updated_ms = self.modified_ms;
        }
        if row.created.is_empty() {
            row.created_ms = self.modified_ms;
        }
        Ok(())
    }
}

/// Returns whether the last record that was read of a stream, and that is no longer there, stands in its torn end, or
/// in what was set aside of that since. Then it is named there, and did not vanish without a trace.
pub(crate) fn is_set_aside(corpus: &dyn Corpus, at: &StreamId, old: &Row, end: LogEnd) -> Result<bool> {
    let Mark { offset, seq, .. } = old.last;
    match end {
        LogEnd::Torn(torn) if torn.offset <= offset && offset - torn.offset < torn.length => Ok(true),
        _ => Ok(corpus.was_set_aside(at, Position::new(offset), seq, old.read_at)?),
    }
}

/// Updates the parts of a row that a list shows by one record, and returns when the record was written, if it says.
fn note(corpus: &dyn Corpus, entry: &Entry<'_>, document: &Document<'_>, row: &mut Row) -> Option<i64> {
    let ms = document.ts.as_deref().and_then(clock::parse_ms);
    if let Some(ts) = &document.ts {
        if row.created.is_empty() {
            row.created = ts.clone().into_owned();
            row.created_ms = ms.unwrap_or(row.created_ms);
        }
        row.updated.clear();
        row.updated.push_str(ts);
        row.updated_ms = ms.unwrap_or(row.updated_ms);
    }
    match &document.content {
        Content::Text { .. } if row.said.is_empty() => {
            row.said = corpus.opening(entry).map(|text| shorten(&text)).unwrap_or_default();
        }
        Content::Title(title) => row.given = shorten(title),
        Content::Text { .. } | Content::Other => {}
    }
    ms
}

/// Returns about how many tokens a text has: four bytes each.
fn estimated_tokens(text: &str) -> u64 {
    text.len().div_ceil(4) as u64
}

fn mark(entry: &Entry<'_>) -> Mark {
    Mark { offset: entry.offset, seq: entry.seq, crc: crc32c::crc32c(entry.bytes), is_set: true }
}

fn record_ref(entry: &Entry<'_>) -> RecordRef {
    RecordRef { offset: entry.offset, seq: entry.seq, crc: crc32c::crc32c(entry.bytes) }
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
