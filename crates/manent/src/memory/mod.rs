//! Memory across sessions: facts, preferences and context that outlive a conversation, each with where it came from.
//!
//! One log, `memory.jsonl`, beside the sessions. An item is a line; forgetting one is another line; what is active is
//! what the lines say, taken in order. Nothing is changed in place. The file is read by anybody at any time, and
//! written by one at a time, who holds its lease.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Memory`]: listing, finding one, adding, forgetting |
//! | `item.rs` | an item, its kind, its source; the lines of it |
//! | `operation.rs` | what a line does, found without reading its text |
//! | `active.rs` | which items are active: the lines, folded |
//! | `cache.rs` | the file as it was last read, and what was added since |
//! | `writer.rs` | holding the lease; which number comes next |
//! | `compact.rs` | the file made anew, without what was forgotten |
//! | `found.rs` | searching it, with the index that sessions have |
//! | `select.rs` | what of it fits a question and a budget, as data for a model |
//! | `provenance.rs` | whether what an item rests on is where it says |
//! | `audit.rs`, `comparison.rs` | how good it is: duplicates, contradictions, secrets, what nobody needs |

mod active;

mod audit;
mod cache;
mod compact;
mod comparison;
mod found;
mod item;
mod operation;
mod provenance;
mod select;
mod writer;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use manent_log::VerifyReport;
use manent_store::sync::lock;
use manent_store::{Repaired, Space, StreamId, Streams};

use crate::error::{Error, Result};
use crate::search::{RecordCorpus, index_of};
use crate::store::Store;
use crate::turn::Record;
use manent_index::Index;
use manent_store::clock;

pub use active::Counts;
use active::{Active, Slot};
pub use audit::{Audit, Pair, Rate};
use cache::MemoryCache;
pub use compact::MemoryCompaction;
pub(crate) use comparison::Relation;
pub use found::{MemoryHit, MemoryHits};
pub use item::{Item, ItemError, Kind, NewItem, Source, SourceKind};
pub use provenance::{ItemHistory, Provenance, RecallStats, SourceTurn};
pub use select::Selection;
use writer::NextId;
pub use writer::{Forgotten, MemoryWriter};

/// What is remembered across sessions.
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
    core: Arc<Core>,
}

/// What all memories of one store share.
#[derive(Debug)]
pub(crate) struct Core {
    id: StreamId,
    /// The file, for messages.
    path: PathBuf,
    wait: Duration,
    app: String,
    loaded: Mutex<Option<MemoryCache>>,
    /// The number that the next item gets, as the last writer of this process left it.
    next: Mutex<Option<NextId>>,
    streams: Arc<dyn Streams>,
    /// The index of this stream.
    index: Arc<Index>,
}

/// The memories of one store, each made by whoever asks first.
#[derive(Debug, Default)]
struct Cores {
    memory: OnceLock<Arc<Core>>,
    inbox: OnceLock<Arc<Core>>,
}

/// Which items are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these kinds; none: of every kind.
    pub kinds: Vec<Kind>,
    /// With all of these tags.
    pub tags: Vec<String>,
    /// From any of these; none: from anybody.
    pub who: Vec<SourceKind>,
    /// From the session of this key.
    pub session: Option<String>,
    /// Not older than this, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Older than this.
    pub until_ms: Option<i64>,
    /// Those that newer ones replace, instead of the active ones.
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
    /// What is remembered across sessions.
    pub fn memory(&self) -> Result<Memory> {
        self.items_in(Space::Memory)
    }

    /// What was proposed to be remembered, and waits for somebody to accept it: items like those of the memory, in a
    /// stream of their own. No context is made of them.
    pub fn inbox(&self) -> Result<Memory> {
        self.items_in(Space::Inbox)
    }

    fn items_in(&self, space: Space) -> Result<Memory> {
        self.check_supports(space)?;
        let cores = self.extension(Cores::default);
        let core = if space == Space::Inbox { &cores.inbox } else { &cores.memory };
        let core = core.get_or_init(|| Arc::new(Core::new(space, self))).clone();
        Ok(Memory { store: self.clone(), core })
    }
}

impl Core {
    fn new(space: Space, store: &Store) -> Core {
        let id = StreamId::single(space);
        let name = || format!("{} of {}", space.word(), store.streams().name()).into();
        let streams = store.shared_streams().clone();
        let corpus = RecordCorpus::alone(streams.clone(), space, store.wait(), kind_of_item);
        Core {
            path: store.streams().path(&id).unwrap_or_else(name),
            wait: store.wait(),
            app: store.app().to_owned(),
            loaded: Mutex::default(),
            next: Mutex::default(),
            index: index_of(corpus, store.blobs(), space.word(), store.wait()),
            streams,
            id,
        }
    }

    fn streams(&self) -> &dyn Streams {
        &*self.streams
    }

    /// What the stream says now.
    fn active(&self) -> Result<Arc<Active>> {
        let mut loaded = lock(&self.loaded);
        if let Some(known) = loaded.as_mut()
            && known.catch_up(self.streams(), &self.id)?
        {
            return Ok(known.active());
        }
        *loaded = MemoryCache::read(self.streams(), &self.id)?;
        Ok(loaded.as_ref().map_or_else(|| Arc::new(Active::new(None, 0)), MemoryCache::active))
    }

    /// Answers from what the file says. `ask` gives nothing where a line is not what was loaded: the file was changed
    /// in place, by something that is not ours, and is loaded again.
    fn ask<T>(&self, mut ask: impl FnMut(&Active) -> Result<Option<T>>) -> Result<T> {
        for _ in 0..TRIES {
            let active = self.active()?;
            if let Some(answer) = ask(&active)? {
                return Ok(answer);
            }
            *lock(&self.loaded) = None;
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
        self.core.ask(|active| {
            let mut items = Vec::new();
            let whole = each(active, filter, |item| {
                items.push(item);
                true
            })?;
            Ok(whole.then_some(items))
        })
    }

    /// As [`Memory::items`], one at a time, until `take` says false. For memories of any size.
    pub fn each(&self, filter: &Filter, mut take: impl FnMut(Item) -> bool) -> Result<()> {
        let active = self.core.active()?;
        if each(&active, filter, &mut take)? {
            return Ok(());
        }
        *lock(&self.core.loaded) = None;
        Err(Error::MemoryChanges { path: self.core.path.clone() })
    }

    /// The item of an id that is not forgotten, also if it is replaced. Several where another program gave an id
    /// twice.
    pub fn get(&self, id: u64) -> Result<Vec<Item>> {
        self.core.ask(|active| read(active, &active.with_id(id).0))
    }

    /// Whether items of an id are active: there, not forgotten, not replaced.
    pub fn is_active(&self, id: u64) -> Result<bool> {
        let (slots, visible) = self.core.active()?.with_id(id);
        Ok(visible && !slots.is_empty())
    }

    /// The items that replace an item, oldest first.
    pub fn replacers_of(&self, id: u64) -> Result<Vec<u64>> {
        Ok(self.core.active()?.replacers_of(id))
    }

    /// How many items there are.
    pub fn counts(&self) -> Result<Counts> {
        Ok(self.core.active()?.counts)
    }

    /// Places in the file that cannot be read.
    pub fn damage(&self) -> Result<Vec<manent_log::Damage>> {
        Ok(self.core.active()?.damage.clone())
    }

    /// Takes the right to write, waiting for another writer at most `wait`, and keeps it until the [`MemoryWriter`] is dropped.
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
        if cache::look(self.core.streams(), &self.core.id)?.is_none() {
            // Something that is not a stream may stand in its place.
            self.core.active()?;
            return Ok(MemoryCompaction::default());
        }
        self.writer(self.core.wait)?.compact()
    }

    /// Checks every byte of the file; nothing if there is none.
    pub fn verify(&self) -> Result<Option<VerifyReport>> {
        self.store.verify_stream(&self.core.id)
    }

    /// Sets a torn end aside, and acknowledges damage. Nothing is written where nothing is wrong.
    pub fn repair(&self) -> Result<Repaired> {
        if !self.store.is_damaged(&self.core.id)? {
            return Ok(Repaired::default());
        }
        self.writer(self.core.wait)?.repair(&clock::now())
    }
}

/// Gives the items that are wanted. False: the file is not what was loaded.
fn each(active: &Active, filter: &Filter, mut take: impl FnMut(Item) -> bool) -> Result<bool> {
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

fn read(active: &Active, slots: &[Slot]) -> Result<Option<Vec<Item>>> {
    slots.iter().map(|slot| active.item(slot)).collect()
}

/// Returns the kind of an item, under which it is searched.
fn kind_of_item<'a>(record: &Record<'a>) -> Option<Cow<'a, str>> {
    let kind = Kind::of_word(&record.kind()?)?;
    record.member("id")?.parse::<u64>().ok()?;
    Some(Cow::Borrowed(kind.word()))
}

/// How often the file may change under somebody who reads it.
const TRIES: u32 = 16;
