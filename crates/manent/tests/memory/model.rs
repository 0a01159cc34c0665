//! What the memory must say: lines, and what they mean, without any cleverness.

use std::collections::BTreeMap;

/// An item, as the model knows it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) id: u64,
    pub(crate) word: String,
    pub(crate) at_ms: i64,
    pub(crate) replaces: Option<u64>,
    pub(crate) forgotten: bool,
}

/// All that was ever acknowledged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) items: Vec<Known>,
    /// No id that is given from now on may be as low as this.
    pub(crate) highest: u64,
    /// Words of items that were compacted away.
    pub(crate) gone: Vec<String>,
    dropped_ids: u64,
}

impl Model {
    pub(crate) fn add(&mut self, id: u64, word: &str, at_ms: i64, replaces: Option<u64>) {
        let replaces = replaces.filter(|replaced| *replaced < id);
        self.items.push(Known { id, word: word.to_owned(), at_ms, replaces, forgotten: false });
        self.highest = self.highest.max(id);
    }

    /// Gives how many were there.
    pub(crate) fn forget(&mut self, id: u64) -> usize {
        let live = self.items.iter_mut().filter(|item| item.id == id && !item.forgotten);
        live.map(|item| item.forgotten = true).count()
    }

    pub(crate) fn compact(&mut self) -> u64 {
        let before = self.items.len() as u64;
        self.gone.extend(self.items.iter().filter(|item| item.forgotten).map(|item| item.word.clone()));
        self.items.retain(|item| !item.forgotten);
        self.dropped_ids += before - self.items.len() as u64;
        before - self.items.len() as u64
    }

    pub(crate) fn is_there(&self, id: u64) -> bool {
        self.items.iter().any(|item| item.id == id && !item.forgotten)
    }

    pub(crate) fn is_replaced(&self, id: u64) -> bool {
        self.items.iter().any(|item| item.replaces == Some(id) && !item.forgotten)
    }

    fn order(&self, wanted: impl Fn(&Known) -> bool) -> Vec<&Known> {
        let mut items: Vec<(usize, &Known)> =
            self.items.iter().enumerate().filter(|(_, item)| !item.forgotten && wanted(item)).collect();
        items.sort_by_key(|(nth, item)| std::cmp::Reverse((item.at_ms, item.id, *nth)));
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// The active items, newest first.
    pub(crate) fn active(&self) -> Vec<&Known> {
        self.order(|item| !self.is_replaced(item.id))
    }

    pub(crate) fn replaced(&self) -> Vec<&Known> {
        self.order(|item| self.is_replaced(item.id))
    }

    pub(crate) fn forgotten(&self) -> usize {
        self.items.iter().filter(|item| item.forgotten).count()
    }

    pub(crate) fn double_ids(&self) -> usize {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for item in self.items.iter().filter(|item| !item.forgotten) {
            *times.entry(item.id).or_default() += 1;
        }
        times.values().filter(|times| **times > 1).count()
    }
}
