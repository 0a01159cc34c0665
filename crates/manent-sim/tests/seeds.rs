//! Thousands of lives of a log on a disk that breaks.
//!
//! `MANENT_SIM_SEED=n` lives one life and prints its trace if it fails; `MANENT_SIM_SEEDS=1000000` is the deep mode;
//! `MANENT_SIM_FIRST=n` starts elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use manent_sim::life::{Stats, live};
use manent_sim::seeds::live_all;

fn number(name: &str) -> Option<u64> {
    manent_sim::seeds::number(name).unwrap()
}

#[test]
fn no_acknowledged_record_is_lost_or_altered_in_any_life() {
    let (first, count) = match number("MANENT_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (number("MANENT_SIM_FIRST").unwrap_or(0), number("MANENT_SIM_SEEDS").unwrap_or(2_000)),
    };
    let described = |seed| live(seed).map_err(|trouble| trouble.to_string());
    let (total, troubles) = live_all(first, count, described, Stats::add);
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
            ("unknown outcomes", total.unknown),
            ("records found again by their key", total.found_again),
            ("records appended again by their key", total.appended_again),
            ("panics", total.panics),
            ("shared commits", total.shared),
            ("shared commits that failed", total.shared_failed),
        ] {
            assert!(seen * 200 >= count, "only {seen} {what} in {count} lives");
        }
    }
}
