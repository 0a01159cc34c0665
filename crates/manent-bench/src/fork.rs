//! A fork of a long session next to one of a short one: branching off must not cost what the conversation is
//! long.
//!
//! Both end on the disk, so most of the cost is the waiting for it. The session is on the disk before: what a
//! fork has to sync of it is nothing.

use std::cell::Cell;
use std::path::Path;

use manent::{SessionKey, Store, StreamId};

use crate::load::SESSION_BYTES;
use crate::measure::{interleaved, micros_each};
use crate::row::{Goal, Row};
use crate::{Bench, Effort, Result, session};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let home = bench.place("fork")?.join("store");
    let (bytes, name) = match bench.effort {
        Effort::Quick => (SESSION_BYTES, "fork of 100 MB"),
        Effort::Full => (10 * SESSION_BYTES, "fork of 1 GB"),
    };
    let store = Store::open(&home)?;
    let short = made(&store, &home, "short", 1_000_000)?;
    let long = made(&store, &home, "long", bytes)?;
    let forks = Cell::new(0);
    let fork = |at: &StreamId| -> Result<f64> {
        forks.set(forks.get() + 1);
        let key = SessionKey::new(format!("fork-{:06}", forks.get()))?;
        micros_each(1, || {
            let forked = store.fork(at, None, &key)?;
            if forked.copied { Err("the records were copied".into()) } else { Ok(()) }
        })
    };
    let [long, short] = interleaved(bench.rounds(301), [&mut || fork(&long), &mut || fork(&short)])?;
    Ok(vec![Row::new(name, long, "us", "of 1 MB", short, Goal::Within(1.5))])
}

fn made(store: &Store, home: &Path, name: &str, bytes: u64) -> Result<StreamId> {
    let made = session::make(home, name, bytes, None)?;
    Ok(store.find(&made.key)?.id)
}
