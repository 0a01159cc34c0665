//! The actor of the memory: what fits a question is chosen by it, and what a conversation wants remembered is written
//! by it, one item after the other. So two conversations that learn the same thing at once write it once.
//!
//! A conversation goes on without a memory that is slow or cannot be read: it is waited for only shortly, and what goes
//! wrong with it is told and ends no answer.

use std::time::Duration;

use manent::Store;
use manent::memory::{NewItem, Selection};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::mailbox::{KernelError, Letters, Mailbox};
use crate::tools::{MemorySink, RememberOutcome};

/// The address of the actor.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    mailbox: Mailbox<Letter>,
    runtime: Handle,
}

#[derive(Debug)]
enum Letter {
    Select { question: String, tokens: u64, reply: oneshot::Sender<manent::Result<Selection>> },
    Keep { item: Box<NewItem>, reply: oneshot::Sender<Result<RememberOutcome, String>> },
}

impl Memory {
    pub(super) fn open(runtime: &Handle, store: &Store) -> Memory {
        let store = store.clone();
        let mailbox = Mailbox::open(runtime, "the memory", move |letters| serve(letters, store.clone()));
        Memory { mailbox, runtime: runtime.clone() }
    }

    /// Returns what is remembered, fits a question, and takes no more than so many tokens; or why that cannot be told
    /// now.
    pub(super) async fn select(&self, question: String, tokens: u64) -> Result<Selection, String> {
        let letter = |reply| Letter::Select { question, tokens, reply };
        match self.mailbox.ask(letter, Some(SELECT_WITHIN)).await {
            Ok(chosen) => chosen.map_err(|e| e.to_string()),
            Err(KernelError::Late { after, .. }) => Err(format!(
                "it took longer than {} s to read; see what keeps the disk busy",
                after.as_secs()
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl MemorySink for Memory {
    /// Called by a tool, on a thread for what waits.
    fn keep(&self, item: &NewItem) -> Result<RememberOutcome, String> {
        let item = Box::new(item.clone());
        let asked = self.mailbox.ask(|reply| Letter::Keep { item, reply }, Some(KEEP_WITHIN));
        // It may be written after all: whoever asked is not told that it was not.
        self.runtime.block_on(asked).map_err(|e| format!("{e}; it is not known whether it was kept"))?
    }
}

async fn serve(letters: Letters<Letter>, store: Store) {
    let mut letters = letters.lock().await;
    while let Some(letter) = letters.recv().await {
        let store = store.clone();
        let served = tokio::task::spawn_blocking(move || match letter {
            // Whoever asked may have gone on without an answer.
            Letter::Select { reply, .. } if reply.is_closed() => {}
            Letter::Keep { reply, .. } if reply.is_closed() => {}
            Letter::Select { question, tokens, reply } => {
                let _ = reply.send(select(&store, &question, tokens));
            }
            Letter::Keep { item, reply } => {
                let _ = reply.send(store.keep(&item));
            }
        });
        // A panic there is one here: the actor is begun anew.
        if let Err(broken) = served.await
            && broken.is_panic()
        {
            std::panic::resume_unwind(broken.into_panic());
        }
    }
}

fn select(store: &Store, question: &str, tokens: u64) -> manent::Result<Selection> {
    match store.memory() {
        Ok(memory) => memory.select(question, tokens),
        // A store of another program's sessions has none.
        Err(e) if e.is_unsupported() => Ok(Selection::default()),
        Err(error) => Err(error),
    }
}

/// A person waits for this before every answer: long enough to read a large memory once from a slow disk, and short
/// enough not to be taken for a hang.
const SELECT_WITHIN: Duration = Duration::from_secs(3);
/// Longer than any writer of the memory is waited for.
const KEEP_WITHIN: Duration = Duration::from_secs(30);
