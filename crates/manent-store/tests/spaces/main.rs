//! What every space keeps on a disk that breaks: one suite for sessions, runs, memory, inbox, journal and ledger.
//!
//! | file | about |
//! |---|---|
//! | `scene.rs` | helpers: stores on the simulated disk, records, what a space holds |
//! | `crashes.rs` | a crash or an error at every disk operation of everything that changes a stream |
//! | `lives.rs` | random lives of a stream that two processes use, compared with the model of `manent-sim` |
//! | `threads.rs` | histories of threads that append and read at once, with a power cut in the middle |
//!
//! `MANENT_SPACE_SEED=n` lives one life and prints its trace if it fails; `MANENT_SPACE_SEEDS=n` sets how many are
//! lived in each space, and `MANENT_SPACE_FIRST=n` where to begin.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod crashes;
mod lives;
mod scene;
mod threads;
