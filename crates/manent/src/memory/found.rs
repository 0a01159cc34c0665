//! Searching the memory, with the index and the query language that sessions have.

use super::Memory;
use super::item::Item;
use crate::error::{Error, Result};
use manent_index::{Query, Snippet};
use manent_store::sync::lock;

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryHits {
    /// The best, best first.
    pub hits: Vec<MemoryHit>,
    /// How many items match in all, where that was counted.
    pub total: Option<u64>,
    /// No item held all the words, so these fit the question best, whatever of it they hold.
    pub related: bool,
}

/// An item that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryHit {
    /// The item.
    pub item: Item,
    /// What it says there.
    pub snippet: Snippet,
    /// How well it fits: higher is better, and only comparable within one answer.
    pub score: f32,
}

impl Memory {
    /// Finds active items, the best first. A role that a query asks for is a kind here: `role:pref`.
    ///
    /// What is forgotten or replaced is not found, from the moment on at which it is.
    pub fn search(&self, query: &Query, limit: usize) -> Result<MemoryHits> {
        for _ in 0..super::TRIES {
            if let Some(found) = self.search_once(query, limit)? {
                return Ok(found);
            }
            *lock(&self.core.loaded) = None;
        }
        Err(Error::MemoryChanges { path: self.core.path.clone() })
    }

    /// Nothing: the file changed while it was searched.
    fn search_once(&self, query: &Query, limit: usize) -> Result<Option<MemoryHits>> {
        let active = self.core.active()?;
        let alive = |offset: u64| active.at_offset(offset).is_some();
        let found = self.core.index.search_alive(query, limit, &mut |_, _| {}, Some(&alive))?;
        // There is one file: what cannot be read of it is not nothing.
        if let Some((_, why)) = found.unread.first() {
            let why = format!("{} could not be searched: {why}", self.core.path.display());
            return Err(manent_index::Error::Index(why).into());
        }
        let now = self.core.active()?;
        // What was only added meanwhile moved nothing: the answer is that of the moment in which we looked. Another
        // program's file that changed a moment ago is read anew each time, and says the same unless it changed again.
        if !active.is_of_same_load(&now) && !active.has_same_slots(&now) {
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
