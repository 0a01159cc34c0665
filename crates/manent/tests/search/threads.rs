//! Many at once: threads that append and search on one store, others that search and index anew on stores of their own.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use manent::{Durability, Expect, Place, Store, turn};

use manent_sim::seeds::in_time;

use super::check::{ALL, search};
use super::key;
use super::oracle::Ask;

/// Turns for which there is a receipt, by session and number. Each says its name, and `common`.
#[derive(Default)]
struct Said {
    all: Mutex<BTreeSet<(String, u64)>>,
}

impl Said {
    fn now(&self) -> BTreeSet<(String, u64)> {
        self.all.lock().unwrap().clone()
    }

    fn append(&self, store: &Store, session: &str, text: &str) -> u64 {
        let body = turn("user", format!("common {text}")).into();
        let receipts = store.append_with(&key(session), &[body], Durability::Flush, Expect::Any).unwrap();
        let seq = receipts[0].seq;
        assert!(self.all.lock().unwrap().insert((session.to_owned(), seq)), "{session} {seq} twice");
        seq
    }

    /// All that was said before the question is in the answer, once.
    fn expect_found(&self, store: &Store, who: &str) -> usize {
        let before = self.now();
        let found = search(store, &Ask::word("common"), ALL).unwrap();
        let hits: Vec<(String, u64)> =
            found.hits.iter().map(|hit| (hit.id.key.to_string(), hit.seq)).collect();
        let set: BTreeSet<(String, u64)> = hits.iter().cloned().collect();
        assert_eq!(set.len(), hits.len(), "{who}: found twice");
        let missed: Vec<_> = before.difference(&set).collect();
        assert!(missed.is_empty(), "{who}: missed {missed:?} of {}", before.len());
        hits.len()
    }
}

fn appends(store: &Store, said: &Said, thread: usize, rounds: usize) {
    for round in 0..rounds {
        let word = format!("w{thread}x{round}");
        let session = format!("session {}", (thread + round) % 3);
        let seq = said.append(store, &session, &word);
        let found = search(store, &Ask::word(&word), 10).unwrap();
        let hits: Vec<_> = found.hits.iter().map(|hit| (hit.id.key.to_string(), hit.seq)).collect();
        assert_eq!((found.related, hits), (false, vec![(session, seq)]), "{word}, just said");
        if round % 8 == 0 {
            said.expect_found(store, "a writer");
        }
    }
}

/// Until the writers are done.
fn searches(home: &Path, said: &Said, done: &AtomicBool) -> usize {
    let mut store = Store::open(home).unwrap();
    let mut looks = 0;
    while !done.load(Ordering::Relaxed) {
        said.expect_found(&store, "another program");
        looks += 1;
        if looks % 20 == 0 {
            store = Store::open(home).unwrap();
        }
    }
    looks
}

#[test]
fn whoever_searches_after_a_receipt_finds_the_turn() {
    in_time(|| {
        let dir = tempfile::tempdir().unwrap();
        let (home, said, done) = (dir.path(), Said::default(), AtomicBool::new(false));
        let store = Store::open(home).unwrap();
        let looks = std::thread::scope(|scope| {
            let other = scope.spawn(|| searches(home, &said, &done));
            let anew = scope.spawn(|| {
                let store = Store::open(home).unwrap();
                let mut times = 0;
                while !done.load(Ordering::Relaxed) {
                    // Others write it too, and whoever wants to write it for certain may be told so.
                    times += u32::from(store.reindex(&mut |_, _| {}).is_ok());
                }
                times
            });
            let writers: Vec<_> = (0..4)
                .map(|thread| {
                    let (store, said) = (&store, &said);
                    scope.spawn(move || appends(store, said, thread, 40))
                })
                .collect();
            let died =
                writers.into_iter().map(std::thread::ScopedJoinHandle::join).filter(Result::is_err).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(died, 0, "writers died");
            (other.join().unwrap(), anew.join().unwrap())
        });
        assert!(looks.0 > 0 && looks.1 > 0, "{looks:?}");
        for store in [&store, &Store::open(home).unwrap()] {
            assert_eq!(said.expect_found(store, "afterwards"), 160);
        }
    })
    .unwrap();
}

/// A session that is put away and brought back all the time is found wherever it is.
#[test]
fn a_session_that_moves_all_the_time_is_found() {
    in_time(|| {
        let dir = tempfile::tempdir().unwrap();
        let (home, said, done) = (dir.path(), Said::default(), AtomicBool::new(false));
        let store = Store::open(home).unwrap();
        for n in 0..20 {
            said.append(&store, "moving", &format!("m{n}"));
            said.append(&store, "resting", &format!("r{n}"));
        }
        let moves = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                let store = Store::open(home).unwrap();
                let mut at = store.find_in(Place::Live, &key("moving")).unwrap().id;
                while !done.load(Ordering::Relaxed) {
                    at = store.archive(&at, &mut |_, _| {}).unwrap();
                    at = store.unarchive(&at).unwrap();
                    moves.fetch_add(2, Ordering::Relaxed);
                }
            });
            let searcher = scope.spawn(|| {
                for n in 0..60 {
                    said.expect_found(&store, "the same program");
                    said.append(&store, "resting", &format!("s{n}"));
                }
                let other = Store::open(home).unwrap();
                for _ in 0..60 {
                    said.expect_found(&other, "another program");
                }
            });
            let searched = searcher.join();
            done.store(true, Ordering::Relaxed);
            mover.join().unwrap();
            searched.unwrap();
        });
        assert!(moves.load(Ordering::Relaxed) > 10);
    })
    .unwrap();
}
