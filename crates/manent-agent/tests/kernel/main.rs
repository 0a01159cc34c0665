//! The kernel against a server that says what a test wants: what is kept, what is sent, and what survives.
//!
//! | file | about |
//! |---|---|
//! | `scene.rs` | a store, a server, a kernel, and what the log says |
//! | `turns.rs` | from a question to its answer: kept before it is sent, kept before it counts |
//! | `exact.rs` | what a server got is what the log says that it got, whatever happened in between |
//! | `troubles.rs` | servers that break off, stall, refuse; whoever stops an answer |
//! | `compaction.rs` | contexts that grow too large |
//! | `background.rs` | memory that is made while nobody waits |
//! | `reviews.rs` | looking back on what skills did, on a schedule |
//! | `tools.rs` | tools: what is called, by whose word, and what is kept of it |
//! | `hands.rs` | tools that panic, never end, or want the same at once |
//! | `without_memory.rs` | a memory that is slow or cannot be read |
//! | `panics.rs` | every part that others wait for panics at every call in turn |
//! | `hooked.rs` | a disk with a hook before every operation |
//! | `reads.rs` | how often the log is read for one answer |
//! | `crowd.rs` | many conversations at once, and two kernels on one store |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "what tools do to files is looked at from outside")]

mod background;
mod compaction;
mod crowd;
mod exact;
mod hands;
mod hooked;
mod panics;
mod reads;
mod reviews;
mod scene;
mod tools;
mod troubles;
mod turns;
mod without_memory;
