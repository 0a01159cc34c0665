//! Archive, unarchive, delete, restore, purge and fork on a disk that breaks: whatever happens in the middle of them,
//! a session is where it was or where it was to be, whole, and nowhere twice.
//!
//! | file | about |
//! |---|---|
//! | `scenes.rs` | what the store holds before |
//! | `state.rs` | what a store shows, in a form that can be compared |
//! | `ops.rs` | the operations, and the cases they are tried on |
//! | `sweep.rs` | a crash or an error at every disk operation of each case, and again in the repetition |
//! | `pairs.rs` | two processes: all of one's operation at every point of the other's |
//! | `verifying.rs` | a check of the whole store while another process moves its sessions |
//! | `lives.rs`, `model.rs` | long random lives of several processes, with crashes |
//!
//! `MANENT_CRASH_SEEDS=n` tries n seeds at each disk operation, `MANENT_LIVES=n` lives n lives, `MANENT_LIFE_SEED=n`
//! lives one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may"
)]

mod lives;
mod model;
mod ops;
mod pairs;
mod scenes;
mod state;
mod sweep;
mod verify;

fn number(name: &str) -> Option<u64> {
    manent_sim::seeds::number(name).unwrap()
}
