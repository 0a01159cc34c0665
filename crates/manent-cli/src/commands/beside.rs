//! The logs that stand beside the sessions: they are checked and repaired like any.

use std::path::Path;

use manent::consolidate::Consolidation;
use manent::log::Report;
use manent::{Error, Memory, Repaired, Store};

/// A log beside the sessions.
pub(super) enum Beside {
    Memory(Memory),
    Inbox(Memory),
    Journal(Consolidation),
}

impl Beside {
    /// Those of a store; one that holds only another program's sessions has none.
    pub(super) fn all(store: &Store) -> Result<Vec<Beside>, Error> {
        let memory = match store.memory() {
            Err(Error::NoRoom { .. }) => return Ok(Vec::new()),
            memory => memory?,
        };
        Ok(vec![
            Beside::Memory(memory),
            Beside::Inbox(store.inbox()?),
            Beside::Journal(store.consolidation()?),
        ])
    }

    /// The word in JSON.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Beside::Memory(_) => "memory",
            Beside::Inbox(_) => "inbox",
            Beside::Journal(_) => "consolidation",
        }
    }

    /// For people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Beside::Memory(_) => "the memory",
            Beside::Inbox(_) => "the inbox",
            Beside::Journal(_) => "the journal of consolidation",
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Beside::Memory(items) | Beside::Inbox(items) => items.path(),
            Beside::Journal(journal) => journal.path(),
        }
    }

    /// Nothing: there is none.
    pub(super) fn verify(&self) -> Result<Option<Report>, Error> {
        match self {
            Beside::Memory(items) | Beside::Inbox(items) => items.verify(),
            Beside::Journal(journal) => journal.verify(),
        }
    }

    pub(super) fn repair(&self) -> Result<Repaired, Error> {
        match self {
            Beside::Memory(items) | Beside::Inbox(items) => items.repair(),
            Beside::Journal(journal) => journal.repair(),
        }
    }
}
