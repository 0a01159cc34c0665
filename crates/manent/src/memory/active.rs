//! The active items: the memory file, folded line by line, and a cache of the result.
//!
//! Only the position of each item is kept, not its text, which is read when somebody asks. A line acts on the lines
//! before it and on nothing else: a tombstone for an id that is not there does nothing, even if an item with that id
//! comes later. [`MemoryCache`] keeps the folded state between calls and reads only what was appended since.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use manent_log::{Damage, Entry, FileChange, LogEnd, LogItem, frame};
use manent_store::{
    ChangeKind, Cursor, KnownStreams, ListDetail, Place, Position, Seek, Selector, StreamFilter, StreamId,
    StreamReader, StreamStat, Streams, Target, Version,
};

use super::item::{ID_MAX, Item, Kind};
use super::operation::{LineEffect, Operation};
use crate::error::{Result, if_found};
use crate::turn::Record;

/// The place of an item in the file, and what is known of it without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) id: u64,
    pub(crate) at_ms: i64,
    offset: u64,
    length: u32,
    pub(crate) kind: Kind,
    forgotten: bool,
}

/// The state of the memory after some number of lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveItems {
    items: Option<Arc<dyn StreamReader>>,
    /// Every item, in the order of the file.
    slots: Vec<Slot>,
    /// The slots of each id that are not forgotten. `None` while ids rise from slot to slot, as they do in files that
    /// we write: then an id is found without a map.
    by_id: Option<HashMap<u64, Vec<u32>>>,
    /// False while times and ids rise from slot to slot.
    is_unordered: bool,
    newest_first: OnceLock<Vec<u32>>,
    /// Slots that replace an item, and which.
    replaces: HashMap<u32, u64>,
    /// Ids that are replaced, and by how many items that are not forgotten.
    hidden: HashMap<u64, u32>,
    /// The highest id that was given to anything.
    pub(crate) highest_id: u64,
    /// The time of the last line that said one.
    last_ms: i64,
    /// Ids of lines that only another version understands.
    unknown: HashSet<u64>,
    pub(crate) counts: Counts,
    pub(crate) damage: Vec<Damage>,
    /// Bytes at the end that cannot be read, and that somebody may be writing at this moment.
    pub(crate) torn: Option<Damage>,
    /// The number of ids that may have been lost with unreadable bytes since the highest readable id.
    lost_ids: u64,
}

/// The numbers of items and lines in a memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Items that are neither forgotten nor replaced.
    pub active: usize,
    /// Items that are forgotten and still in the file.
    pub forgotten: usize,
    /// Items that a newer one replaces.
    pub replaced: usize,
    /// Lines that another version may understand.
    pub unknown: usize,
    /// Ids that more than one item has.
    pub double_ids: usize,
}

impl ActiveItems {
    pub(crate) fn new(items: Arc<dyn StreamReader>, bytes: u64) -> ActiveItems {
        let slots = Vec::with_capacity((bytes / ITEM_BYTES) as usize);
        ActiveItems { items: Some(items), slots, ..ActiveItems::default() }
    }

    /// Returns the lowest id that nothing can have, as far as the file tells.
    pub(crate) fn free_id(&self) -> u64 {
        let torn = self.torn.map_or(0, |torn| ids_within(torn.length));
        self.highest_id.saturating_add(1).saturating_add(self.lost_ids).saturating_add(torn)
    }

    /// Returns true if both are states of one file that was read once and then only read on, or list the same items at
    /// the same places.
    pub(crate) fn agrees_with(&self, other: &ActiveItems) -> bool {
        let is_of_same_load = match (&self.items, &other.items) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_of_same_load || self.slots == other.slots
    }

    /// Takes in the next line.
    pub(crate) fn take(&mut self, entry: &Entry<'_>) {
        let effect = LineEffect::of(entry);
        self.last_ms = effect.at_ms.unwrap_or(self.last_ms);
        // An id beyond the valid range must not use up those that are left.
        if let Some(id) = effect.id.filter(|id| *id <= ID_MAX && *id > self.highest_id) {
            (self.highest_id, self.lost_ids) = (id, 0);
        }
        match (effect.operation, effect.id) {
            (Operation::Remember(kind, replaced), Some(id)) => {
                let slot = Slot {
                    id,
                    at_ms: self.last_ms,
                    offset: entry.offset,
                    length: entry.bytes.len() as u32,
                    kind,
                    forgotten: false,
                };
                // Newer names older; anything else could hide items from each other in a circle.
                self.add(slot, replaced.filter(|replaced| *replaced < id));
            }
            (Operation::Forget(target), _) => self.forget(target),
            (Operation::Other, Some(id)) if entry.seq > 0 => {
                self.counts.unknown += 1;
                self.unknown.insert(id);
            }
            _ => {}
        }
    }

    pub(crate) fn take_damage(&mut self, damage: Damage) {
        if damage.length > 0 {
            self.lost_ids = self.lost_ids.saturating_add(ids_within(damage.length));
        }
        self.damage.push(damage);
    }

    fn add(&mut self, slot: Slot, replaced: Option<u64>) {
        let number = self.slots.len() as u32;
        if let Some(last) = self.slots.last() {
            if self.by_id.is_none() && slot.id <= last.id {
                let live = (0..).zip(&self.slots).filter(|(_, slot)| !slot.forgotten);
                self.by_id = Some(live.map(|(number, slot)| (slot.id, vec![number])).collect());
            }
            self.is_unordered |= (last.at_ms, last.id) >= (slot.at_ms, slot.id);
        }
        if let Some(by_id) = &mut self.by_id {
            let same = by_id.entry(slot.id).or_default();
            self.counts.double_ids += usize::from(same.len() == 1);
            same.push(number);
        }
        self.newest_first.take();
        self.slots.push(slot);
        // Another program may have written the replacement before the item.
        let hidden = self.hidden.contains_key(&slot.id);
        *(if hidden { &mut self.counts.replaced } else { &mut self.counts.active }) += 1;
        if let Some(replaced) = replaced {
            self.replaces.insert(number, replaced);
            let replacers = self.hidden.entry(replaced).or_default();
            *replacers += 1;
            if *replacers == 1 {
                self.count_as_hidden(replaced, true);
            }
        }
    }

    fn forget(&mut self, target: u64) {
        // Forgotten items are not found again, so that forgetting them twice does nothing.
        let numbers = self.live_with(target).into_owned();
        self.by_id.as_mut().and_then(|by_id| by_id.remove(&target));
        self.counts.double_ids -= usize::from(numbers.len() > 1);
        let hidden = self.hidden.contains_key(&target);
        for number in numbers {
            self.newest_first.take();
            self.slots[number as usize].forgotten = true;
            self.counts.forgotten += 1;
            *(if hidden { &mut self.counts.replaced } else { &mut self.counts.active }) -= 1;
            let Some(replaced) = self.replaces.get(&number).copied() else { continue };
            if let Some(replacers) = self.hidden.get_mut(&replaced) {
                *replacers -= 1;
                if *replacers == 0 {
                    self.hidden.remove(&replaced);
                    self.count_as_hidden(replaced, false);
                }
            }
        }
    }

    /// Counts the items of an id as replaced, or no longer so.
    fn count_as_hidden(&mut self, id: u64, hidden: bool) {
        self.newest_first.take();
        let live = self.live_with(id).len();
        let Counts { active, replaced, .. } = &mut self.counts;
        let (from, to) = if hidden { (active, replaced) } else { (replaced, active) };
        *from -= live;
        *to += live;
    }

    /// The slots of an id that are not forgotten.
    fn live_with(&self, id: u64) -> Cow<'_, [u32]> {
        if let Some(by_id) = &self.by_id {
            return Cow::Borrowed(by_id.get(&id).map_or(&[], Vec::as_slice));
        }
        let found = self.slots.binary_search_by_key(&id, |slot| slot.id).ok();
        Cow::Owned(found.filter(|at| !self.slots[*at].forgotten).map(|at| at as u32).into_iter().collect())
    }

    fn is_active(&self, slot: &Slot) -> bool {
        !slot.forgotten && !self.hidden.contains_key(&slot.id)
    }

    /// The active items, newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &Slot> {
        let order = self.newest_first.get_or_init(|| {
            let mut order: Vec<u32> =
                (0..).zip(&self.slots).filter(|(_, s)| self.is_active(s)).map(|(n, _)| n).collect();
            order.reverse();
            if self.is_unordered {
                let key = |number: &u32| {
                    let slot = &self.slots[*number as usize];
                    std::cmp::Reverse((slot.at_ms, slot.id, *number))
                };
                order.sort_unstable_by_key(key);
            }
            order
        });
        order.iter().map(|number| &self.slots[*number as usize])
    }

    /// The items that newer ones replace, newest first.
    pub(crate) fn replaced(&self) -> Vec<&Slot> {
        let is_replaced = |slot: &&Slot| !slot.forgotten && self.hidden.contains_key(&slot.id);
        let mut slots: Vec<&Slot> = self.slots.iter().filter(is_replaced).collect();
        slots.sort_by_key(|slot| std::cmp::Reverse((slot.at_ms, slot.id, slot.offset)));
        slots
    }

    /// The items of an id that are not forgotten: one, or several in other programs' files. And whether they are
    /// active.
    pub(crate) fn with_id(&self, id: u64) -> (Vec<Slot>, bool) {
        let slots = self.live_with(id).iter().map(|number| self.slots[*number as usize]).collect();
        (slots, !self.hidden.contains_key(&id))
    }

    /// The items that an item replaces directly, and that are there.
    pub(crate) fn replaced_by(&self, id: u64) -> Vec<u64> {
        let of = |number: &u32| self.replaces.get(number).copied();
        let mut replaced: Vec<u64> = self.live_with(id).iter().filter_map(of).collect();
        replaced.retain(|id| !self.live_with(*id).is_empty());
        replaced
    }

    /// The items that replace an item, and are not forgotten.
    pub(crate) fn replacers_of(&self, id: u64) -> Vec<u64> {
        let by = |(number, replaced): (&u32, &u64)| {
            let slot = &self.slots[*number as usize];
            (*replaced == id && !slot.forgotten).then_some(slot.id)
        };
        let mut ids: Vec<u64> = self.replaces.iter().filter_map(by).collect();
        ids.sort_unstable();
        ids
    }

    /// The active item whose line begins here.
    pub(crate) fn at_offset(&self, offset: u64) -> Option<&Slot> {
        let at = self.slots.binary_search_by_key(&offset, |slot| slot.offset).ok()?;
        Some(&self.slots[at]).filter(|slot| self.is_active(slot))
    }

    /// Returns true if compaction keeps a line: all but forgotten items, and the records that forgot them.
    pub(crate) fn keeps(&self, entry: &Entry<'_>) -> bool {
        let effect = LineEffect::of(entry);
        match effect.operation {
            Operation::Remember(..) => {
                let found = self.slots.binary_search_by_key(&entry.offset, |slot| slot.offset);
                found.is_ok_and(|at| !self.slots[at].forgotten)
            }
            // What it forgot may be of a kind that only a newer version knows, and stays.
            Operation::Forget(target) => self.unknown.contains(&target) || effect.id == Some(self.highest_id),
            Operation::Other => true,
        }
    }

    /// Reads an item. Returns `None` if the file was changed in place since it was loaded.
    pub(crate) fn item(&self, slot: &Slot) -> Result<Option<Item>> {
        let Some(items) = &self.items else { return Ok(None) };
        let length = slot.length as usize;
        let Some(mut bytes) = items.line_at(Position::new(slot.offset), length)? else { return Ok(None) };
        if bytes.len() < length {
            return Ok(None);
        }
        // Two records on one line: what follows the first is another item.
        bytes.truncate(length);
        let verified = frame::verify(&bytes);
        let entry = Entry {
            seq: verified.unwrap_or(0),
            offset: slot.offset,
            bytes: &bytes,
            verified: verified.is_some(),
        };
        let item = Record::of(&entry).and_then(|record| Item::of(&record, slot.at_ms));
        Ok(item.filter(|item| item.id == slot.id))
    }
}

/// Returns an upper bound on the ids lost in so many unreadable bytes, from the shortest line that takes an id.
pub(crate) fn ids_within(bytes: u64) -> u64 {
    1 + bytes / LINE_BYTES_MIN
}

/// The length of the shortest line of ours that takes an id, rounded down.
const LINE_BYTES_MIN: u64 = 64;
/// The least size of an item, to reserve memory for the slots at once.
const ITEM_BYTES: u64 = 192;

/// A stream that was read to its end.
#[derive(Debug)]
pub(super) struct MemoryCache {
    reader: Box<dyn StreamReader>,
    pub(super) active: Arc<ActiveItems>,
    /// The name of the stream, and its version before the last of it was read.
    name: String,
    version: Version,
}

impl MemoryCache {
    /// Reads all of it; `None` if there is nothing.
    pub(super) fn read(streams: &dyn Streams, id: &StreamId) -> Result<Option<MemoryCache>> {
        loop {
            let Some(mut reader) = if_found(streams.open(Target::Id(id)))? else { return Ok(None) };
            // Items have a reader of their own, which lives as long as this state of the stream is used.
            let Some(items) = if_found(streams.open(Target::Id(id)))? else { continue };
            if items.identity() != reader.identity() {
                continue;
            }
            let Some(StreamStat { bytes, name, .. }) = look(streams, id)? else { return Ok(None) };
            reader.seek(Seek::First)?;
            let active = Arc::new(ActiveItems::new(items.into(), bytes));
            let mut cache = MemoryCache { reader, active, name, version: Version::UNKNOWN };
            cache.read_on(streams, id)?;
            return Ok(Some(cache));
        }
    }

    /// Reads what was added. Returns false if the stream is another one, or may have changed in place, and must be read
    /// again.
    pub(super) fn catch_up(&mut self, streams: &dyn Streams, id: &StreamId) -> Result<bool> {
        let changes = streams.changes(id.space, &*self, &Cursor::default())?;
        let is_native = self.reader.is_native()?;
        match changes.streams.first().map(|change| change.kind) {
            None => Ok(true),
            // Ours only grow. Another program may change anything in its file.
            Some(ChangeKind::Appended(_)) if is_native => match self.reader.poll()? {
                FileChange::None => Ok(true),
                FileChange::Grew => {
                    self.read_on(streams, id)?;
                    Ok(true)
                }
                FileChange::Truncated | FileChange::Replaced => Ok(false),
            },
            Some(_) => Ok(false),
        }
    }

    fn read_on(&mut self, streams: &dyn Streams, id: &StreamId) -> Result<()> {
        self.version = look(streams, id)?.map_or(Version::UNKNOWN, |stat| stat.version);
        let active = Arc::make_mut(&mut self.active);
        while let Some(item) = self.reader.next()? {
            match item {
                LogItem::Entry(entry) => active.take(&entry),
                LogItem::Damage(damage) => active.take_damage(damage),
            }
        }
        active.torn = match self.reader.end() {
            LogEnd::Torn(torn) => Some(torn),
            LogEnd::Clean => None,
        };
        Ok(())
    }
}

impl KnownStreams for MemoryCache {
    fn each(&self, take: &mut dyn FnMut(Place, &str, Version)) {
        take(Place::Live, &self.name, self.version);
    }

    fn version(&self, place: Place, name: &str) -> Option<Version> {
        (place == Place::Live && name == self.name).then_some(self.version)
    }
}

/// Looks at the stream without opening it; `None` if there is none.
pub(super) fn look(streams: &dyn Streams, id: &StreamId) -> Result<Option<StreamStat>> {
    let filter = StreamFilter::new(id.space, Place::Live, Selector::Key(&id.key));
    Ok(streams.list(&StreamFilter { detail: ListDetail::Outside, ..filter })?.into_iter().next())
}
