//! Stores where the system starts no threads: what many threads would do, the calling one does.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use manent::backend::threads::without_threads;
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
