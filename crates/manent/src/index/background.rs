//! Keeps the index near the logs while a program writes them: a thread that reads, now and then, what was appended.
//!
//! Nobody waits for it and no answer needs it: whoever searches catches up first. It only makes that short. A program
//! that writes a little and ends never begins it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::store::{Store, WeakStore};

use super::sweep::Save;

/// What was written by this process, for the thread that reads it.
#[derive(Debug, Default)]
pub(crate) struct Written {
    records: AtomicU64,
}

impl Written {
    /// Counts a write; begins the thread when there were some.
    pub(crate) fn count(&self, store: &Store) {
        if self.records.fetch_add(1, Ordering::Relaxed) + 1 == ENOUGH {
            begin(store);
        }
    }

    fn so_far(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

fn begin(store: &Store) {
    let store = store.downgrade();
    // Without a thread it is done by whoever searches.
    let _ = std::thread::Builder::new().name("manent-index".to_owned()).spawn(move || keep_up(&store));
}

/// Until the program no longer has the store.
fn keep_up(store: &WeakStore) {
    let mut read = 0;
    loop {
        std::thread::sleep(PAUSE);
        let Some(store) = store.upgrade() else { return };
        let written = store.index().appends().so_far();
        if written != read {
            // What fails now is said to whoever asks.
            let _ = store.index().refresh(&store, Save::Sometimes, &mut |_, _| {});
            read = written;
        }
    }
}

/// So many writes of one process: it is one that stays.
const ENOUGH: u64 = 100;
const PAUSE: Duration = Duration::from_secs(2);
