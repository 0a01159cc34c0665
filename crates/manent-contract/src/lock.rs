//! Checks of locks: by name and for moving streams, shared and exclusive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use manent_store::{Lock, LockMode, LockName, Result, Space};

use crate::Make;
use crate::subject::{LONG, Subject, assert_busy, let_others_run};

const NAME: &str = "contract.lock";
const SHORT: Duration = Duration::from_millis(30);

impl Subject {
    fn lock(&self, name: &str, mode: LockMode, wait: Duration) -> Result<Lock> {
        self.streams.lock(LockName::Named(self.space, name), mode, wait)
    }
}

/// An exclusive lock has one holder; whoever does not wait is told that it is busy. Other names are other locks.
pub fn exclusive_lock_has_one_holder(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    for _ in 0..3 {
        let held = subject.lock(NAME, LockMode::Exclusive, Duration::ZERO).expect("nobody holds it");
        for mode in [LockMode::Exclusive, LockMode::Shared] {
            assert_busy(subject.lock(NAME, mode, Duration::ZERO), "a second holder");
            assert_busy(subject.lock(NAME, mode, SHORT), "a second holder, after a wait in vain");
        }
        drop(subject.lock("another.lock", LockMode::Exclusive, Duration::ZERO).expect("another name"));
        subject.say(&subject.work(), "writing needs no lock");
        drop(held);
    }
    assert_eq!(subject.counts(), [1, 0, 0], "a lock is not a stream");
}

/// Shared holders hold a lock together, and keep out whoever wants it alone until the last of them is done.
pub fn shared_lock_has_many_holders(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let first = subject.lock(NAME, LockMode::Shared, Duration::ZERO).expect("nobody holds it");
    let second = subject.lock(NAME, LockMode::Shared, Duration::ZERO).expect("shared with the first");
    assert_busy(subject.lock(NAME, LockMode::Exclusive, Duration::ZERO), "alone, beside two");
    drop(first);
    let third = subject.lock(NAME, LockMode::Shared, Duration::ZERO).expect("shared with the second");
    assert_busy(subject.lock(NAME, LockMode::Exclusive, SHORT), "alone, beside two");
    drop(second);
    assert_busy(subject.lock(NAME, LockMode::Exclusive, Duration::ZERO), "alone, beside one");
    drop(third);
    let alone = subject.lock(NAME, LockMode::Exclusive, Duration::ZERO).expect("all are done");
    assert_busy(subject.lock(NAME, LockMode::Shared, Duration::ZERO), "beside one that is alone");
    drop(alone);
    drop(subject.lock(NAME, LockMode::Shared, Duration::ZERO).expect("free again"));
}

/// Whoever waits for a lock gets it when its holder is done, and not before, also if the holder panics.
pub fn lock_is_waited_for(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let held = subject.lock(NAME, mode, LONG).expect("a lock");
        let done = AtomicBool::new(false);
        let inside = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _lock = subject.lock(NAME, LockMode::Exclusive, LONG).expect("a lock, after a wait");
                    assert!(done.load(Ordering::SeqCst), "two held the lock");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two held the lock");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
            let_others_run();
            done.store(true, Ordering::SeqCst);
            drop(held);
        });
    }
    thread::scope(|scope| {
        let died = scope.spawn(|| {
            let _lock = subject.lock(NAME, LockMode::Exclusive, LONG).expect("a lock");
            // A panic that prints nothing.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(died.join().is_err(), "it panicked");
    });
    drop(subject.lock(NAME, LockMode::Exclusive, Duration::ZERO).expect("it ended with its holder"));
}

/// Whoever waits sees within 100 ms that a lock is free. A busy machine may take longer now and then, so one round of
/// many must do.
pub fn freed_lock_is_seen_soon(make: Make<'_>) {
    let subject = Subject::new(make);
    let delay = || {
        let held = subject.lock(NAME, LockMode::Exclusive, LONG).expect("a lock");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let lock = subject.lock(NAME, LockMode::Exclusive, LONG).expect("a lock, after a wait");
                let at = Instant::now();
                drop(lock);
                at
            });
            // Long enough for a backend that waits longer and longer.
            thread::sleep(Duration::from_millis(300));
            let freed = Instant::now();
            drop(held);
            waiting.join().expect("no panic").saturating_duration_since(freed)
        })
    };
    let shortest = (0..20).map(|_| delay()).find(|delay| *delay <= Duration::from_millis(100));
    assert!(shortest.is_some(), "a free lock was seen after more than 100 ms, twenty times");
}

/// The right to move streams has one holder, or many shared ones; whoever comes second waits. Nobody needs it to write
/// or to read.
pub fn moves_lock_has_one_holder(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let name = LockName::Moves(space);
    let shared = || subject.streams.lock(name, LockMode::Shared, LONG).expect("the right to move streams");
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let first = subject.streams.lock(name, mode, LONG).expect("the right to move streams");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _second = subject.moving();
                    assert!(done.load(Ordering::SeqCst), "two had the right to move streams");
                });
            }
            let_others_run();
            subject.say(&work, "writing needs no such right");
            assert!(!subject.live_texts(&work).is_empty());
            drop(subject.lease(&work, LONG).expect("a lease"));
            done.store(true, Ordering::SeqCst);
            drop(first);
        });
    }
    let both = [shared(), shared()];
    drop(both);
    drop(subject.moving());
}
