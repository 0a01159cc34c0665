//! Thousands of lives of a log on a disk that breaks.
//!
//! `MANENT_SIM_SEED=n` lives one life and prints its trace if it fails; `MANENT_SIM_SEEDS=1000000` is the deep mode;
//! `MANENT_SIM_FIRST=n` starts elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use manent_sim::life::{Stats, live};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[test]
fn no_acknowledged_record_is_lost_or_altered_in_any_life() {
    let (first, count) = match number("MANENT_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (number("MANENT_SIM_FIRST").unwrap_or(0), number("MANENT_SIM_SEEDS").unwrap_or(2_000)),
    };
    let next = AtomicU64::new(first);
    let total = Mutex::new(Stats::default());
    let troubles = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count || troubles.lock().unwrap().len() >= 3 {
                        break;
                    }
                    match live(seed) {
                        Ok(stats) => total.lock().unwrap().add(&stats),
                        Err(trouble) => troubles.lock().unwrap().push(trouble),
                    }
                }
            });
        }
    });
    let (troubles, total) = (troubles.into_inner().unwrap(), total.into_inner().unwrap());
    for trouble in &troubles {
        eprintln!("{trouble}");
    }
    eprintln!("{count} lives: {total:?}");
    assert!(
        troubles.is_empty(),
        "{} lives broke a promise; the commands that replay them are above",
        troubles.len()
    );
    if count >= 1_000 {
        // A simulator that no longer reaches its faults proves nothing.
        for (what, seen) in [
            ("crashes", total.crashes),
            ("crashes in recovery", total.crashes_in_recovery),
            ("torn ends set aside", total.set_aside),
            ("poisoned handles", total.poisoned),
            ("refused appends", total.refused),
            ("damaged places", total.damaged_places),
            ("rests", total.rests),
        ] {
            assert!(seen * 200 >= count, "only {seen} {what} in {count} lives");
        }
    }
}
