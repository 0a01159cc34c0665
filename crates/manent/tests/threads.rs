//! Stores where the system starts no threads: what many threads would do, the calling one does.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use manent::backend::threads::without_threads;
use manent::retrospective::Question;
use manent::runs::NewRun;
use manent::{InMemory, Query, SessionKey, Store, StoreOptions, turn};

#[test]
fn search_of_many_sessions_without_threads_finds_every_turn() {
    let store = Store::on(Arc::new(InMemory::default()), None, StoreOptions::default());
    for number in 0..1100 {
        let key = SessionKey::new(format!("s{number}")).unwrap();
        store.append(&key, turn("user", "alpha")).unwrap();
    }
    let query = Query::parse("alpha", 0).unwrap();
    without_threads(|| {
        for _ in 0..2 {
            assert_eq!(store.search(&query, 1).unwrap().total, Some(1100));
        }
    });
}

#[test]
fn retrospective_without_threads_reads_every_session() {
    let dir = tempfile::tempdir().unwrap();
    let runs = Store::open(dir.path()).unwrap().runs().unwrap();
    for number in 0..4 {
        let run = NewRun { skill: "fix".to_owned(), ..NewRun::default() };
        runs.begin(&SessionKey::new(format!("s{number}")).unwrap(), run).unwrap();
    }
    let question = Question { threads: 4, ..Question::default() };
    let read = AtomicU64::new(0);
    let progress = |_: u64, _: u64| {
        read.fetch_add(1, Ordering::Relaxed);
    };
    without_threads(|| runs.retrospective(&question, &progress)).unwrap();
    assert_eq!(read.into_inner(), 4, "sessions");
}
