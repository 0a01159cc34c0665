//! The inbox: proposed items, until a person accepts or rejects them.

use std::collections::HashSet;

use super::Consolidation;
use super::step::compare;
use crate::error::{Error, Result};
use crate::memory::{Item, Memory, NewItem, Source, SourceKind};

/// A proposal that a person accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The number of the proposal in the inbox.
    pub proposed: u64,
    /// The new item; `None` if it was known already.
    pub item: Option<Item>,
}

impl Consolidation {
    /// Remembers what waits in the inbox. What it contradicts is replaced: a person says so, and it is that person's
    /// from now on, whoever proposed it. All of it must be there, or none is accepted. A crash in between leaves the
    /// rest where it is; what was taken is known by then.
    pub fn accept(&self, ids: &[u64]) -> Result<Vec<Accepted>> {
        let (memory, inbox) = (self.store.memory()?, self.store.inbox()?);
        self.proposals(ids)?;
        // From here on nobody else accepts or rejects.
        let mut writer = inbox.writer(self.store.wait())?;
        let mut accepted = Vec::new();
        for (id, proposals) in self.proposals(ids)? {
            for proposal in proposals {
                accepted.push(Accepted { proposed: id, item: remember(&memory, proposal)? });
            }
            writer.forget(&[id])?;
        }
        writer.compact()?;
        Ok(accepted)
    }

    /// Returns the proposals with these numbers, each once. All of them must be there.
    fn proposals(&self, ids: &[u64]) -> Result<Vec<(u64, Vec<Item>)>> {
        let inbox = self.store.inbox()?;
        let (mut proposals, mut seen) = (Vec::new(), HashSet::new());
        for id in ids.iter().filter(|id| seen.insert(**id)) {
            let items = inbox.get(*id)?;
            if items.is_empty() {
                return Err(Error::NotProposed { id: *id });
            }
            proposals.push((*id, items));
        }
        Ok(proposals)
    }

    /// Throws away what waits in the inbox. All of it must be there, or none is.
    pub fn reject(&self, ids: &[u64]) -> Result<()> {
        let inbox = self.store.inbox()?;
        inbox.forget(ids).map_err(|error| match error {
            Error::NoItem { id } => Error::NotProposed { id },
            other => other,
        })?;
        // What a person did not want is not kept.
        inbox.compact().map(drop)
    }
}

/// Remembers a proposal. Returns `None` if it is known already.
fn remember(memory: &Memory, proposal: Item) -> Result<Option<Item>> {
    let found = compare(memory, &proposal.content)?;
    if found.is_known {
        // It goes from the inbox now: where it was found it must stay.
        memory.keep()?;
        return Ok(None);
    }
    let Item { kind, content, tags, source, .. } = proposal;
    let source = Source { who: SourceKind::User, ..source };
    memory.add(&NewItem { kind, content, tags, source, replaces: found.contradicts() }).map(Some)
}
