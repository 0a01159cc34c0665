//! Many threads, one log: group commit gives each its own number, and readers see whole records only.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manent_log::frame::RECORD_BYTES_MAX;
use manent_log::{Body, Commit, Durability, Error, Expect, GroupCommit, LogEnd, LogReceipt, SharedLog};

use crate::support::{ReadItem, Scene, damages, seqs, turn};

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
    let receipts: BTreeMap<u64, (LogReceipt, String)> = std::thread::scope(|scope| {
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
    assert_eq!((damages(&got), end), (vec![], LogEnd::Clean));
    for got in got.iter().skip(1) {
        let ReadItem::Entry { seq, offset, bytes, verified: true } = got else { panic!("{got:?}") };
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
            let got = ReadItem::of(&item);
            let ReadItem::Entry { seq, bytes, verified: true, .. } = &got else { panic!("{got:?}") };
            assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok());
            seen.push(*seq);
        }
        if last_round {
            assert_eq!(reader.end(), LogEnd::Clean);
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

/// A target that takes records, and panics or forgets its receipts when it is told to.
#[derive(Debug, Default)]
struct Target {
    taken: Vec<String>,
    next: Act,
    abandoned: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Act {
    #[default]
    Commit,
    Panic,
    GiveNoReceipts,
}

impl Commit for Target {
    type Receipt = usize;
    type Error = Error;
    type Context<'a> = ();

    fn commit(
        &mut self,
        (): (),
        bodies: &[Body],
        _: Durability,
        _: Expect,
    ) -> manent_log::Result<Vec<usize>> {
        match std::mem::take(&mut self.next) {
            Act::Panic => panic!("the commit panics"),
            Act::GiveNoReceipts => return Ok(Vec::new()),
            Act::Commit => {}
        }
        let first = self.taken.len();
        self.taken.extend(bodies.iter().map(|body| body.as_str().to_owned()));
        Ok((first..self.taken.len()).collect())
    }

    fn abandon(&mut self) -> Error {
        self.abandoned += 1;
        Error::Unknown { path: "target".into(), why: "it was abandoned".to_owned() }
    }
}

/// The outcomes of threads that commit in one batch, the leader first. `None`: the thread panicked.
fn one_batch(group: &GroupCommit<Target>, act: Act, threads: usize) -> Vec<Option<Result<usize, Error>>> {
    std::thread::scope(|scope| {
        // As long as the target is held, all join the batch of the first.
        let mut target = group.lock();
        target.next = act;
        let joined: Vec<_> = (0..threads)
            .map(|nth| {
                let thread = scope.spawn(|| group.append_with((), turn("x"), Durability::Group));
                while group.waiting() <= nth {
                    std::thread::yield_now();
                }
                thread
            })
            .collect();
        drop(target);
        joined.into_iter().map(|thread| thread.join().ok()).collect()
    })
}

/// A group commit whose leader panicked left everyone else waiting for ever.
#[test]
fn everyone_in_a_group_gets_an_error_when_its_leader_panics() {
    let group = GroupCommit::new(Target::default());
    for threads in [1, 2, 8] {
        let got = one_batch(&group, Act::Panic, threads);
        assert!(got[0].is_none(), "the panic goes on in the thread in which it began");
        for member in &got[1..] {
            let Some(Err(error)) = member else { panic!("{member:?}") };
            assert!(error.is_unknown(), "{error}");
        }
        assert_eq!(group.waiting(), 0, "nobody joins a batch that has ended");
        let got = one_batch(&group, Act::Commit, threads);
        assert!(got.iter().all(|got| matches!(got, Some(Ok(_)))), "{got:?}");
    }
    assert_eq!(group.lock().taken.len(), 1 + 2 + 8);
    assert!(group.lock().abandoned >= 3, "the target was told each time");
}

#[test]
fn target_is_told_of_a_panic_in_a_commit_of_ones_own_and_of_one_that_held_it() {
    let group = GroupCommit::new(Target::default());
    for durability in [Durability::Sync, Durability::Flush] {
        group.lock().next = Act::Panic;
        let panicked =
            std::panic::catch_unwind(AssertUnwindSafe(|| group.append_with((), turn("x"), durability)));
        assert!(panicked.is_err());
        let before = group.lock().abandoned;
        assert!(before > 0);
        let held = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _target = group.lock();
            panic!("while it is held");
        }));
        assert!(held.is_err());
        assert_eq!(group.lock().abandoned, before + 1);
        group.append_with((), turn("x"), durability).unwrap();
    }
    assert_eq!(group.into_inner().taken.len(), 2);
}

#[test]
fn commit_without_receipts_is_unknown_to_everyone() {
    let group = GroupCommit::new(Target::default());
    for got in one_batch(&group, Act::GiveNoReceipts, 3) {
        let Some(Err(error)) = got else { panic!("{got:?}") };
        assert!(error.is_unknown(), "{error}");
    }
    group.lock().next = Act::GiveNoReceipts;
    let error = group.append_with((), turn("x"), Durability::Sync).unwrap_err();
    assert!(error.is_unknown(), "{error}");
}
