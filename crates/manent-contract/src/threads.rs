//! Checks with many threads: whatever has a receipt is there, once, in a row without gaps.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use manent_log::{Durability, Expect};

use manent_store::{AppendOptions, Place, Seek, Selector, SessionKey, Space};

use crate::Make;
use crate::subject::{LONG, Subject, conflict, rest_of, turn};

const THREADS: usize = 8;
const RECORDS: usize = 25;

/// Lets every thread append records of its own, and checks that each was read once, where its receipt says.
fn all_at_once(subject: &Subject, keys: &[SessionKey]) {
    let receipts = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for writer in 0..THREADS {
            let receipts = &receipts;
            scope.spawn(move || {
                let durability = [Durability::Group, Durability::Group, Durability::Flush][writer % 3];
                let terms = AppendOptions { wait: LONG, ..AppendOptions::new(durability) };
                for n in 0..RECORDS {
                    let key = &keys[(writer + n) % keys.len()];
                    let text = format!("{writer}/{n}");
                    let bodies = if n % 10 == 9 { vec![turn(&text), turn(&text)] } else { vec![turn(&text)] };
                    let taken = subject.append_with(key, &bodies, terms).expect("taken");
                    assert_eq!(taken.len(), bodies.len(), "a receipt for each record");
                    let taken = taken.into_iter().map(|receipt| ((key.clone(), receipt.seq), text.clone()));
                    receipts.lock().unwrap().extend(taken);
                }
            });
        }
    });
    let receipts = receipts.into_inner().unwrap();
    let count = receipts.len();
    let receipts: BTreeMap<_, _> = receipts.into_iter().collect();
    assert_eq!(receipts.len(), count, "no number was given twice");
    let mut read = 0;
    for key in keys {
        let texts = subject.live_texts(key);
        read += texts.len();
        for (seq, text) in (1..).zip(texts) {
            assert_eq!(receipts.get(&(key.clone(), seq)), Some(&text), "the record that the receipt is for");
        }
        let last_of = |writer: usize| {
            let mine = receipts
                .iter()
                .filter(|((of, _), text)| of == key && text.starts_with(&format!("{writer}/")));
            mine.map(|(_, text)| text.split_once('/').unwrap().1.parse::<usize>().unwrap())
                .collect::<Vec<_>>()
        };
        assert!((0..THREADS).all(|writer| last_of(writer).is_sorted()), "each thread's own in their order");
    }
    assert_eq!(read, count, "nothing is there without a receipt");
}

/// Threads that append to one key, alone and in batches: every receipt's record is there once, numbers have
/// no gap, and each thread's records are in its own order.
pub fn threads_on_one_stream_lose_nothing(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    all_at_once(&subject, &subject.keys(1));
}

/// The same with many keys, each of which all threads append to.
pub fn threads_on_many_streams_lose_nothing(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    all_at_once(&subject, &subject.keys(7));
}

/// Exactly one of several threads that expect the same number at the same time gets it, the others a conflict.
pub fn threads_expecting_one_number_get_it_once(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for seq in 1..=10 {
        let (won, lost) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| match subject.append(&work, &[turn("mine")], Expect::Seq(seq)) {
                    Ok(taken) => {
                        assert_eq!(taken[0].seq, seq);
                        won.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(e) => {
                        assert_eq!(conflict(&e), Some(seq + 1), "wanted a conflict, found: {e}");
                        lost.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((won.into_inner(), lost.into_inner()), (1, 3), "for record {seq}");
    }
    assert_eq!(subject.live_texts(&work).len(), 10);
}

/// Threads that are the first to write a key, each with a header of its own, begin one stream together.
pub fn threads_beginning_a_key_begin_one_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let keys = subject.keys(10);
    for work in &keys {
        let ids = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let receipt = subject.say(work, "one of us");
                    ids.lock().unwrap().push(receipt.id.to_string());
                });
            }
        });
        let live = subject.live(work);
        let ids = ids.into_inner().unwrap();
        assert!(ids.iter().all(|id| *id == live.id), "receipts of {ids:?} for the stream {}", live.id);
        assert_eq!(subject.texts(&live).len(), 4);
    }
    assert_eq!(subject.list(Place::Live, Selector::All).len(), keys.len());
}

/// Whoever reads along while others write sees every record once, whole and in order, and no damage.
pub fn readers_during_writes_see_whole_records(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "0");
    let text = |n: usize| format!("{n} {}", "long ".repeat(n * 37 % 2000));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut reader = subject.open(&subject.at(&work), Seek::Seq(2));
                let mut read = Vec::new();
                while read.len() < 200 {
                    read.extend(rest_of(&mut *reader));
                    thread::yield_now();
                }
                for (n, seen) in read.iter().enumerate() {
                    assert_eq!((seen.seq, seen.text()), (n as u64 + 2, text(n)), "read while it grew");
                }
            });
        }
        for n in 0..200 {
            subject.say(&work, &text(n));
        }
    });
}
