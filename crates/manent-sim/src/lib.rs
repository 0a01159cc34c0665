//! A simulated disk with injected faults, on which every crash that the engine must survive takes a microsecond.
//!
//! [`SimDisk`] implements [`manent_log::fs::Disk`] in memory. What it does is decided by one seed and the
//! order of the calls: the same seed and the same calls give the same bytes, the same faults and the same
//! trace, so a failing run is replayed by its seed alone (with threads, only as far as they call in the same
//! order).
//!
//! # Faults that are modelled
//!
//! | fault | where |
//! |---|---|
//! | power cut: unsynced sectors lost, kept, torn, out of order, or NULs | [`CutStyle`] |
//! | power cut: unsynced creations, renames and removals undone, in order or out of it | `changes.rs` |
//! | kill -9: the cache survives, the call under way is done in part | [`Fault::CrashKill`] |
//! | failed sync: told once, its data never written | [`Fault::Fail`], [`SimDisk::drop_caches`] |
//! | a panic in the middle of a call, before or after it was done | [`Fault::PanicBefore`], [`Fault::PanicAfter`] |
//! | clocks that jump, time stamps in whole seconds, files that arrive with times of their own | [`Clock`] |
//! | errors and interruptions of any call, short writes, a full disk | [`Fault`], [`SimDisk::set_capacity`] |
//!
//! Not modelled: a disk that lies about a sync, bits that rot, a sector that is itself half written, and
//! symbolic links. A test that wants rot writes it with [`SimDisk::poke`].
//!
//! # Layout
//!
//! The disk, from the outside inwards:
//!
//! - `disk.rs`: [`SimDisk`], its files, and the ways around the faults that tests need. Start here.
//! - `world.rs`: what all handles share: the operation counter, the crash, locks, capacity.
//! - `clock.rs`: the time, and what of it a time stamp keeps.
//! - `tree.rs`: inodes and directory entries.
//! - `changes.rs`: changes to entries that are not durable yet.
//! - `pages.rs`: the content of one file: the cache and what of it is on the disk.
//! - `faults.rs`: which operation goes wrong, and how.
//! - `trace.rs`: the last operations, for the message of a failed test.
//! - `rng.rs`: the dice.
//!
//! What is lived on it:
//!
//! - `model.rs`: what a log may hold after all that was promised and all that happened.
//! - `life.rs`: the life of a log from one seed: opened, written, broken, opened again, compared with the model.
//! - `seeds.rs`: many lives, of logs or of anything else, on all cores.
//!
//! And a server of models that breaks on purpose too, for those who ask models:
//!
//! - `model_server.rs`: [`model_server::ModelServer`], real sockets on this machine, and what it was asked.
//! - `model_server/script.rs`: what it answers, byte for byte, with pauses, silence and closed connections.
//! - `model_server/replies.rs`: the answers of Ollama and of servers like OpenAI's.

mod changes;
mod clock;
mod disk;
mod faults;
pub mod life;
pub mod model;
pub mod model_server;
mod pages;
mod rng;
pub mod seeds;
mod trace;
mod tree;
mod world;

#[cfg(test)]
mod disk_tests;
#[cfg(test)]
mod lock_tests;

pub use clock::Clock;
pub use disk::SimDisk;
pub use faults::{CrashKind, Errno, Fault, FaultPlan, is_crash};
pub use pages::CutStyle;
pub use rng::Rng;
