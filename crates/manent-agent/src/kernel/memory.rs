//! The memory of all conversations: items that fit a question are selected, and what a conversation wants remembered is
//! written, one item after another, so that two conversations that learn the same thing at once write it once.
//!
//! A conversation goes on without a memory that is slow or cannot be read: it is waited for only shortly, and its
//! errors are reported and end no answer.

use std::time::Duration;

use manent::Store;
use manent::memory::{NewItem, Selection};
use tokio::runtime::Handle;

use super::actor::{JobQueue, KernelError};
use crate::tools::{MemorySink, RememberOutcome};

#[derive(Debug, Clone)]
pub(super) struct KernelMemory {
    store: Store,
    runtime: Handle,
    reads: JobQueue,
    writes: JobQueue,
}

impl KernelMemory {
    pub(super) fn new(runtime: &Handle, store: &Store) -> KernelMemory {
        let (reads, writes) = (JobQueue::new(NAME, READS_MAX), JobQueue::new(NAME, 1));
        KernelMemory { store: store.clone(), runtime: runtime.clone(), reads, writes }
    }

    /// Selects the items that fit `question` and take no more than so many tokens. The error says why that cannot be
    /// done now.
    pub(super) async fn select(self, question: String, tokens: u64) -> Result<Selection, String> {
        let job = move || match self.store.memory() {
            Ok(memory) => memory.select(&question, tokens),
            // A store of another program's sessions has none.
            Err(e) if e.is_unsupported() => Ok(Selection::default()),
            Err(error) => Err(error),
        };
        match self.reads.run(SELECT_WITHIN, job).await {
            Ok(selected) => selected.map_err(|e| e.to_string()),
            Err(KernelError::Late { after, .. }) => Err(format!(
                "it took longer than {} s to read; see what keeps the disk busy",
                after.as_secs()
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl MemorySink for KernelMemory {
    /// Writes an item. Called by a tool, on a blocking thread.
    fn keep(&self, item: &NewItem) -> Result<RememberOutcome, String> {
        let (store, item) = (self.store.clone(), item.clone());
        let writing = self.writes.run(WRITE_WITHIN, move || store.keep(&item));
        // After a timeout the item may still be written, so the error leaves the outcome open.
        self.runtime.block_on(writing).map_err(|e| format!("{e}; it is not known whether it was kept"))?
    }
}

const NAME: &str = "the memory";
/// Readers do not wait for each other; but a disk that hangs must not take all threads.
const READS_MAX: usize = 16;
/// A person waits for this before every answer: long enough to read a large memory once from a slow disk, and short
/// enough not to be taken for a hang.
const SELECT_WITHIN: Duration = Duration::from_secs(3);
/// The time for a write: longer than any writer of the memory is waited for.
const WRITE_WITHIN: Duration = Duration::from_secs(30);
