//! One file being written, and one being read, as the backend's traits want them.

use std::sync::Arc;

use manent_log::{Body, Change, Durability, End, Expect, Item, Log, Reader, SetAside};

use crate::backend::{Lease, Position, Receipt, Records};
use crate::error::Result;
use crate::meta::Meta;

/// The lease on a file, for as long as it lives.
#[derive(Debug)]
pub(super) struct FileLease {
    pub(super) log: Log,
    pub(super) id: Arc<str>,
}

impl FileLease {
    fn receipts(&self, receipts: Vec<manent_log::Receipt>) -> Vec<Receipt> {
        let receipt = |r: manent_log::Receipt| Receipt {
            id: self.id.clone(),
            seq: r.seq,
            position: Position::new(r.offset),
            durability: r.durability,
        };
        receipts.into_iter().map(receipt).collect()
    }
}

impl Lease for FileLease {
    fn append(&mut self, bodies: &[Body], durability: Durability, expect: Expect) -> Result<Vec<Receipt>> {
        let receipts = self.log.append_batch(bodies, durability, expect)?;
        Ok(self.receipts(receipts))
    }

    fn keep_from(&mut self, position: Position) -> Result<()> {
        Ok(self.log.keep_from(position.raw())?)
    }

    fn next_seq(&self) -> u64 {
        self.log.next_seq()
    }

    fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn set_aside(&self) -> Option<&SetAside> {
        self.log.set_aside()
    }

    fn names(&self) -> Result<u64> {
        Ok(self.log.names()?)
    }
}

#[derive(Debug)]
pub(super) struct FileRecords {
    pub(super) reader: Reader,
    pub(super) meta: Option<Meta>,
    pub(super) missing: u64,
    /// Nothing smaller is given: where this number is not there yet, the reader itself goes on at the end.
    pub(super) from_seq: u64,
}

impl Records for FileRecords {
    fn advance(&mut self) -> Result<bool> {
        while self.reader.advance()? {
            let early = matches!(self.reader.item(), Some(Item::Entry(entry)) if entry.seq < self.from_seq);
            if !early {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn item(&self) -> Option<Item<'_>> {
        self.reader.item()
    }

    fn end(&self) -> End {
        self.reader.end()
    }

    fn change(&self) -> Result<Change> {
        Ok(self.reader.change()?)
    }

    fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    fn missing(&self) -> u64 {
        self.missing
    }
}
