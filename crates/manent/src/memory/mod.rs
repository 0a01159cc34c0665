//! Memory across sessions: facts, preferences and context that outlive a conversation, each with where it came from.
//!
//! One log, `memory.jsonl`, beside the sessions. An item is a line; forgetting one is another line; what is active is
//! what the lines say, taken in order. Nothing is changed in place. The file is read by anybody at any time, and
//! written by one at a time, who holds its lease.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Memory`]: listing, searching, adding, forgetting |
//! | `item.rs` | an item, its kind, its source, and its line in the file |
//! | `operation.rs` | the effect of a line, found without parsing its text |
//! | `active.rs` | the active items: the lines, folded; the cache of them |
//! | `writer.rs` | [`MemoryWriter`]: the lease, the next id, compaction |
//! | `select.rs` | a selection for a question and a budget, as data for a model |
//! | `provenance.rs` | the evidence that items rest on |
//! | `audit.rs` | duplicates, contradictions, secrets, items that nobody needs |

mod active;
mod audit;
mod item;
mod operation;
mod provenance;
mod select;
mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use manent_index::{Index, Query, Snippet};
use manent_log::VerifyReport;
use manent_store::sync::lock;
use manent_store::{Repaired, Space, StreamId, Streams, clock};

use crate::error::{Error, Result};
use crate::search::{RecordCorpus, index_of};
use crate::store::Store;
use crate::turn::Record;

use active::{ActiveItems, MemoryCache, Slot};

pub use active::Counts;
pub use audit::{Audit, Pair, Rate};
pub use item::{Item, ItemError, Kind, NewItem, Source, SourceKind};
pub use provenance::{ItemHistory, Provenance, RecallStats, SourceTurn};
pub use select::Selection;
pub use writer::{Forgotten, MemoryCompaction, MemoryWriter};

pub(crate) use audit::Relation;
use writer::NextId;

/// The memory of a store: items that are remembered across sessions.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use manent::Store;
/// use manent::memory::{Kind, NewItem};
///
/// let memory = Store::open(dir.path())?.memory()?;
/// let item = memory.add(&NewItem::new(Kind::Pref, "answers in French"))?;
/// assert_eq!(memory.items(&Default::default())?[0].content, "answers in French");
/// memory.forget(&[item.id])?;
/// assert!(memory.items(&Default::default())?.is_empty());
/// # Ok(()) }
/// ```
///
/// Clones share everything, and so do the memories of clones of one store.
#[derive(Debug, Clone)]
pub struct Memory {
    store: Store,
    core: Arc<MemoryCore>,
}

/// The state that all memories of one store share.
#[derive(Debug)]
pub(crate) struct MemoryCore {
    id: StreamId,
    /// The file, for messages.
    path: PathBuf,
    wait: Duration,
    app: String,
    cache: Mutex<Option<MemoryCache>>,
    /// The number that the next item gets, as the last writer of this process left it.
    next: Mutex<Option<NextId>>,
    streams: Arc<dyn Streams>,
    /// The index of this stream.
    index: Arc<Index>,
}

/// The memories of one store, each made by whoever asks first.
#[derive(Debug, Default)]
struct MemoryCores {
    memory: OnceLock<Arc<MemoryCore>>,
    inbox: OnceLock<Arc<MemoryCore>>,
}

/// A selection of items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these kinds; none: of every kind.
    pub kinds: Vec<Kind>,
    /// The tags that an item has all of.
    pub tags: Vec<String>,
    /// The sources that an item comes from one of; none: from anybody.
    pub who: Vec<SourceKind>,
    /// The key of the session that an item comes from.
    pub session: Option<String>,
    /// The time before which an item is too old, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Older than this.
    pub until_ms: Option<i64>,
    /// Select replaced items instead of active ones.
    pub replaced: bool,
}

impl Filter {
    fn takes_slot(&self, slot: &Slot) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&slot.kind))
            && self.since_ms.is_none_or(|since| slot.at_ms >= since)
            && self.until_ms.is_none_or(|until| slot.at_ms < until)
    }

    fn takes(&self, item: &Item) -> bool {
        self.tags.iter().all(|tag| item.tags.contains(tag))
            && (self.who.is_empty() || self.who.contains(&item.source.who))
            && self.session.as_ref().is_none_or(|session| item.source.session.as_ref() == Some(session))
    }
}

impl Store {
    /// Returns the memory of this store.
    pub fn memory(&self) -> Result<Memory> {
        self.items_in(Space::Memory)
    }

    /// Returns the inbox: proposed items that wait for somebody to accept them, in a stream of their own. No context is
    /// made of them.
    pub fn inbox(&self) -> Result<Memory> {
        self.items_in(Space::Inbox)
    }

    fn items_in(&self, space: Space) -> Result<Memory> {
        self.check_supports(space)?;
        let cores = self.extension(MemoryCores::default);
        let core = if space == Space::Inbox { &cores.inbox } else { &cores.memory };
        let core = core.get_or_init(|| Arc::new(MemoryCore::new(space, self))).clone();
        Ok(Memory { store: self.clone(), core })
    }
}

impl MemoryCore {
    fn new(space: Space, store: &Store) -> MemoryCore {
        let id = StreamId::single(space);
        let name = || format!("{} of {}", space.word(), store.streams().name()).into();
        let streams = store.shared_streams().clone();
        let corpus = RecordCorpus::alone(streams.clone(), space, store.wait(), kind_of_item);
        MemoryCore {
            path: store.streams().path(&id).unwrap_or_else(name),
            wait: store.wait(),
            app: store.app().to_owned(),
            cache: Mutex::default(),
            next: Mutex::default(),
            index: index_of(corpus, store.blobs(), space.word(), store.wait()),
            streams,
            id,
        }
    }

    fn streams(&self) -> &dyn Streams {
        &*self.streams
    }

    /// Returns the active items of the stream as it is now.
    fn active(&self) -> Result<Arc<ActiveItems>> {
        let mut cache = lock(&self.cache);
        if let Some(cached) = cache.as_mut()
            && cached.catch_up(self.streams(), &self.id)?
        {
            return Ok(cached.active.clone());
        }
        *cache = MemoryCache::read(self.streams(), &self.id)?;
        Ok(cache.as_ref().map(|cached| cached.active.clone()).unwrap_or_default())
    }

    /// Answers from what the file says. `ask` gives nothing where a line is not what was loaded: the file was changed
    /// in place, by something that is not ours, and is loaded again.
    fn ask<T>(&self, mut ask: impl FnMut(&ActiveItems) -> Result<Option<T>>) -> Result<T> {
        for _ in 0..TRIES {
            let active = self.active()?;
            if let Some(answer) = ask(&active)? {
                return Ok(answer);
            }
            *lock(&self.cache) = None;
        }
        Err(Error::MemoryChanges { path: self.path.clone() })
    }
}

impl Memory {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.core.path
    }

    /// The active items that are wanted, newest first.
    pub fn items(&self, filter: &Filter) -> Result<Vec<Item>> {
        self.newest(filter, usize::MAX)
    }
    /// The newest of the items that [`Memory::items`] returns, at most so many.
    fn newest(&self, filter: &Filter, limit: usize) -> Result<Vec<Item>> {
        self.core.ask(|active| {
            let mut items = Vec::new();
            let whole = each(active, filter, |item| {
                items.push(item);
                items.len() < limit
            })?;
            Ok(whole.then_some(items))
        })
    }

    /// Gives the items that [`Memory::items`] returns one at a time, until `take` returns false. For memories of any
    /// size.
    pub fn each(&self, filter: &Filter, mut take: impl FnMut(Item) -> bool) -> Result<()> {
        let active = self.core.active()?;
        if each(&active, filter, &mut take)? {
            return Ok(());
        }
        *lock(&self.core.cache) = None;
        Err(Error::MemoryChanges { path: self.core.path.clone() })
    }

    /// The item of an id that is not forgotten, also if it is replaced. Several where another program gave an id
    /// twice.
    pub fn get(&self, id: u64) -> Result<Vec<Item>> {
        self.core.ask(|active| read(active, &active.with_id(id).0))
    }

    /// Returns true if items of an id are active: present, not forgotten, not replaced.
    pub fn is_active(&self, id: u64) -> Result<bool> {
        let (slots, visible) = self.core.active()?.with_id(id);
        Ok(visible && !slots.is_empty())
    }

    /// The items that replace an item, oldest first.
    pub fn replacers_of(&self, id: u64) -> Result<Vec<u64>> {
        Ok(self.core.active()?.replacers_of(id))
    }

    /// Returns the numbers of items and lines.
    pub fn counts(&self) -> Result<Counts> {
        Ok(self.core.active()?.counts)
    }

    /// Places in the file that cannot be read.
    pub fn damage(&self) -> Result<Vec<manent_log::Damage>> {
        Ok(self.core.active()?.damage.clone())
    }

    /// Takes the right to write, waiting for another writer at most `wait`, and keeps it until the [`MemoryWriter`] is
    /// dropped.
    ///
    /// If it is held elsewhere, that is [`Error::MemoryHeld`].
    pub fn writer(&self, wait: Duration) -> Result<MemoryWriter<'_>> {
        MemoryWriter::open(&self.core, wait)
    }

    /// Remembers something. When it returns, the item survives power loss. Waits for another writer as long as the
    /// store does.
    pub fn add(&self, item: &NewItem) -> Result<Item> {
        item.check()?;
        self.writer(self.core.wait)?.add(item)
    }

    /// Makes everything that is remembered survive power loss, whatever became of earlier syncs: for whoever found
    /// something there and says that it is kept.
    pub(crate) fn keep(&self) -> Result<()> {
        self.writer(self.core.wait)?.keep()
    }

    /// Forgets items. When it returns, that survives power loss. All of them must be there, or none is forgotten.
    pub fn forget(&self, ids: &[u64]) -> Result<Forgotten> {
        // Without a file there is nothing to hold, and none is made.
        writer::expect_there(&*self.core.active()?, ids)?;
        self.writer(self.core.wait)?.forget(ids)
    }

    /// Rewrites the file without what was forgotten.
    pub fn compact(&self) -> Result<MemoryCompaction> {
        if active::look(self.core.streams(), &self.core.id)?.is_none() {
            // Something that is not a stream may stand in its place.
            self.core.active()?;
            return Ok(MemoryCompaction::default());
        }
        self.writer(self.core.wait)?.compact()
    }

    /// Checks every byte of the file. Returns `None` if there is none.
    pub fn verify(&self) -> Result<Option<VerifyReport>> {
        self.store.verify_stream(&self.core.id)
    }

    /// Sets a torn end aside, and acknowledges damage. A sound file is not written to.
    pub fn repair(&self) -> Result<Repaired> {
        if !self.store.is_damaged(&self.core.id)? {
            return Ok(Repaired::default());
        }
        self.writer(self.core.wait)?.repair(&clock::now())
    }
}

/// Gives the items that match a filter. Returns false if the file is not what was loaded.
fn each(active: &ActiveItems, filter: &Filter, mut take: impl FnMut(Item) -> bool) -> Result<bool> {
    let (newest, replaced) =
        if filter.replaced { (None, Some(active.replaced())) } else { (Some(active.newest()), None) };
    let slots = newest.into_iter().flatten().chain(replaced.into_iter().flatten());
    for slot in slots.filter(|slot| filter.takes_slot(slot)) {
        let Some(item) = active.item(slot)? else { return Ok(false) };
        if filter.takes(&item) && !take(item) {
            break;
        }
    }
    Ok(true)
}

fn read(active: &ActiveItems, slots: &[Slot]) -> Result<Option<Vec<Item>>> {
    slots.iter().map(|slot| active.item(slot)).collect()
}

/// Returns the kind of an item, under which it is searched.
fn kind_of_item<'a>(record: &Record<'a>) -> Option<Cow<'a, str>> {
    let kind = Kind::of_word(&record.kind()?)?;
    record.member("id")?.parse::<u64>().ok()?;
    Some(Cow::Borrowed(kind.word()))
}

/// The number of attempts at reading a file that others change meanwhile.
const TRIES: u32 = 16;

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryHits {
    /// The best, best first.
    pub hits: Vec<MemoryHit>,
    /// The number of all items that match, if it was counted.
    pub total: Option<u64>,
    /// True if no item held all the words, so that these hold only some of them.
    pub related: bool,
}

/// An item that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryHit {
    /// The item.
    pub item: Item,
    /// The text around the match.
    pub snippet: Snippet,
    /// The relevance: higher is better. Scores are comparable only within one result.
    pub score: f32,
}

impl Memory {
    /// Finds active items, the best first. A role that a query asks for is a kind here: `role:pref`.
    ///
    /// What is forgotten or replaced is not found, from the moment on at which it is.
    pub fn search(&self, query: &Query, limit: usize) -> Result<MemoryHits> {
        self.core.ask(|active| self.search_once(active, query, limit))
    }

    /// Searches once. Returns `None` if the file changed meanwhile.
    fn search_once(&self, active: &ActiveItems, query: &Query, limit: usize) -> Result<Option<MemoryHits>> {
        let is_active = |offset: u64| active.at_offset(offset).is_some();
        let found = self.core.index.search(query, limit, &mut |_, _| {}, Some(&is_active))?;
        // There is one file: what cannot be read of it is not nothing.
        if let Some((_, why)) = found.unread.first() {
            let why = format!("{} could not be searched: {why}", self.core.path.display());
            return Err(manent_index::Error::Index(why).into());
        }
        let now = self.core.active()?;
        // What was only added meanwhile moved nothing: the answer is that of the moment in which we looked. Another
        // program's file that changed a moment ago is read anew each time, and says the same unless it changed again.
        if !active.agrees_with(&now) {
            return Ok(None);
        }
        let mut hits = Vec::with_capacity(found.hits.len());
        for hit in found.hits {
            // Forgotten meanwhile: what is found is so from the moment on at which it is.
            let Some(slot) = now.at_offset(hit.position.raw()) else { continue };
            let Some(item) = now.item(slot)? else { return Ok(None) };
            hits.push(MemoryHit { item, snippet: hit.snippet, score: hit.score });
        }
        Ok(Some(MemoryHits { hits, total: found.total, related: found.related }))
    }
}
