//! Keeps the index near the streams while a program writes them: a thread that reads, now and then, what was appended.
//!
//! No caller waits for it and no answer needs it: a search catches up first. The thread only makes that short. A
//! program that writes a little and ends never starts it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::refresh::{Index, Save};

/// Says whether an index may start a thread that keeps it near the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// A thread may be started.
    Allowed,
    /// No thread is started: everything is done by the thread that asks.
    Never,
}

/// Counts the writes of this process.
#[derive(Debug, Default)]
pub(crate) struct Written {
    records: AtomicU64,
}

impl Written {
    /// Counts a write, and starts the thread with the [`ENOUGH`]th.
    pub(crate) fn count(&self, index: &Arc<Index>) {
        if self.records.fetch_add(1, Ordering::Relaxed) + 1 == ENOUGH {
            let index = Arc::downgrade(index);
            // Without a thread, the next search does it.
            let _ =
                std::thread::Builder::new().name("manent-index".to_owned()).spawn(move || keep_up(&index));
        }
    }

    fn so_far(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }
}

/// Refreshes the index until the program has dropped it.
fn keep_up(index: &Weak<Index>) {
    let mut read = 0;
    loop {
        std::thread::sleep(PAUSE);
        let Some(index) = index.upgrade() else { return };
        let written = index.appends().so_far();
        if written != read {
            // An error is told to the next caller that searches.
            let _ = index.refresh(Save::Sometimes, &mut |_, _| {});
            read = written;
        }
    }
}

/// A process that wrote so often is one that stays.
const ENOUGH: u64 = 100;
const PAUSE: Duration = Duration::from_secs(2);
