//! Many threads, one log: group commit gives each its own number, and readers see whole records only.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manent_log::frame::RECORD_BYTES_MAX;
use manent_log::{Durability, End, Error, Receipt, SharedLog};

use crate::support::{Got, Scene, damages, seqs, turn};

const THREADS: usize = 16;
const EACH: usize = 200;

/// The text of one append, of a length of its own.
fn text(thread: usize, nth: usize) -> String {
    format!("{thread}:{nth}:{}", "s".repeat((thread * 31 + nth * 7) % 500))
}

/// Fault 33. Sixteen threads append, four readers poll: every receipt is right, and nobody ever sees half a record.
#[test]
fn every_thread_gets_a_number_of_its_own_and_readers_see_whole_records_only() {
    let scene = Scene::new();
    let shared = SharedLog::new(scene.open());
    let (start, done) = (Barrier::new(THREADS), AtomicBool::new(false));
    let receipts: BTreeMap<u64, (Receipt, String)> = std::thread::scope(|scope| {
        // One that never rests, and three that look now and then.
        let readers: Vec<_> = [0, 100, 500, 2_000]
            .map(|micros| {
                let (scene, done) = (&scene, &done);
                scope.spawn(move || poll(scene, done, Duration::from_micros(micros)))
            })
            .into();
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (shared, start) = (&shared, &start);
                scope.spawn(move || {
                    start.wait();
                    let append = |nth| {
                        let text = text(thread, nth);
                        (shared.append(turn(&text), Durability::Group).unwrap(), text)
                    };
                    (0..EACH).map(append).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut all = BTreeMap::new();
        for writer in writers {
            let mine = writer.join().unwrap();
            assert!(
                mine.is_sorted_by_key(|(receipt, _)| receipt.seq),
                "a thread's own turns keep their order"
            );
            all.extend(mine.into_iter().map(|(receipt, text)| (receipt.seq, (receipt, text))));
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            let seen = reader.join().unwrap();
            assert_eq!(
                seen,
                (0..=(THREADS * EACH) as u64).collect::<Vec<_>>(),
                "a reader saw each record once"
            );
        }
        all
    });
    let numbers: Vec<u64> = receipts.keys().copied().collect();
    assert_eq!(numbers, (1..=(THREADS * EACH) as u64).collect::<Vec<_>>(), "distinct and without holes");

    let (got, end) = scene.read();
    assert_eq!((damages(&got), end), (vec![], End::Clean));
    for got in got.iter().skip(1) {
        let Got::Entry { seq, offset, bytes, verified: true } = got else { panic!("{got:?}") };
        let (receipt, text) = &receipts[seq];
        assert_eq!((receipt.offset, receipt.durability), (*offset, Durability::Group));
        let line: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(line["content"], text.as_str(), "number {seq} holds what was receipted");
    }
    assert_eq!(shared.into_inner().next_seq(), (THREADS * EACH + 1) as u64);
}

/// Follows the log to its end; the numbers it saw.
fn poll(scene: &Scene, done: &AtomicBool, patience: Duration) -> Vec<u64> {
    let mut reader = scene.reader();
    let mut seen = Vec::new();
    loop {
        let last_round = done.load(Ordering::Acquire);
        while let Some(item) = reader.next().unwrap() {
            let got = Got::of(&item);
            let Got::Entry { seq, bytes, verified: true, .. } = &got else { panic!("{got:?}") };
            assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok());
            seen.push(*seq);
        }
        if last_round {
            assert_eq!(reader.end(), End::Clean);
            return seen;
        }
        if patience.is_zero() {
            std::thread::yield_now();
        } else {
            std::thread::sleep(patience);
        }
    }
}

/// Threads with different wishes: each gets what it asked for, and the numbers stay without holes.
#[test]
fn durabilities_mix_on_one_log() {
    let scene = Scene::new();
    let shared = SharedLog::new(scene.open());
    std::thread::scope(|scope| {
        for durability in [Durability::Flush, Durability::Group, Durability::Sync, Durability::Group] {
            let shared = &shared;
            scope.spawn(move || {
                for _ in 0..25 {
                    let receipt = shared.append(turn("x"), durability).unwrap();
                    assert_eq!(receipt.durability, durability);
                }
            });
        }
    });
    assert_eq!(seqs(&scene.read().0), (0..=100).collect::<Vec<_>>());
}

/// One thread's record that is too large must not fail those that happen to append at the same time.
#[test]
fn a_record_that_is_too_large_fails_only_its_own_thread() {
    let scene = Scene::new();
    let shared = SharedLog::new(scene.open());
    let huge = turn(&"x".repeat(RECORD_BYTES_MAX));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    shared.append(turn("small"), Durability::Group).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let refused = shared.append(huge.clone(), Durability::Group).unwrap_err();
            assert!(matches!(refused.root(), Error::TooLarge { .. }), "{refused}");
        });
    });
    assert_eq!(seqs(&scene.read().0), (0..=80).collect::<Vec<_>>());
}
