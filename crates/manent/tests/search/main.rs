//! Search against a brute-force oracle: no answer ever misses or invents a turn, whatever happened to the index.
//!
//! | file | about |
//! |---|---|
//! | `oracle.rs` | every turn of a store, read from its logs; what a question asks for, word by word |
//! | `check.rs` | compares an answer with the oracle, and with that of an index made anew |
//! | `without_index.rs` | a backend on which no index is kept and nothing is watched |
//! | `lives.rs`, `actions.rs`, `by_hand.rs` | random stores, and whatever programs and people do to their files |
//! | `scenes.rs`, `crashes.rs` | a simulated disk that crashes, fails and fills up |
//! | `builds.rs` | a build of much, with another process or a crash in the middle of it |
//! | `clocks.rs`, `vanishing.rs` | coarse time stamps, clocks that jump, old times; logs that vanish |
//! | `failing.rs` | a disk on which everything works but the index |
//! | `corrupt_index.rs` | every byte of an index changed, every file of it cut short |
//! | `unusual_stores.rs` | stores as nobody would make them on purpose |
//! | `shorter.rs`, `lost.rs` | a log that lost its end, or vanished |
//! | `threads.rs` | many at once |
//! | `many_sessions.rs` | a store of more than a thousand sessions |
//!
//! `MANENT_SEARCH_LIVES=n` lives n lives, `MANENT_SEARCH_SEED=n` lives one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::similar_names,
    clippy::cast_possible_wrap,
    reason = "a test may"
)]
#![allow(clippy::disallowed_methods, reason = "tests do to files what people and other programs do")]

mod actions;
mod builds;
mod by_hand;
mod check;
mod clocks;
mod corrupt_index;
mod crashes;
mod failing;
mod lives;
mod lost;
mod many_sessions;
mod oracle;
mod scenes;
mod shorter;
mod threads;
mod unusual_stores;
mod vanishing;
mod without_index;

fn number(name: &str) -> Option<u64> {
    manent_sim::seeds::number(name).unwrap()
}

fn key(text: &str) -> manent::SessionKey {
    manent::SessionKey::new(text).unwrap()
}

/// The time at which all queries are asked: 2026-11-15T18:07:00Z.
const NOW_MS: i64 = 1_794_766_020_000;
