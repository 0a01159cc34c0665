//! The kernel against a scripted model server: records in the log, requests to the server, and what survives failures.
//!
//! | file | about |
//! |---|---|
//! | `fixture.rs` | a store, a server, a kernel, and readers of the log |
//! | `hooked_disk.rs` | a disk with a hook before every operation |
//! | `turns.rs` | from a question to its answer: both are in the log before the next step |
//! | `sent_requests.rs` | every request to the server is what the log says that was sent |
//! | `model_failures.rs` | servers that break off, stall or refuse, and answers that are stopped |
//! | `compaction.rs` | contexts that grow too large |
//! | `consolidation.rs` | memory that is made in the background |
//! | `retrospective.rs` | scheduled reports on runs of skills |
//! | `tools.rs` | calls of tools: permission, execution, records |
//! | `tool_failures.rs` | tools that panic, never end, or write the same at once |
//! | `without_memory.rs` | a memory that is slow or cannot be read |
//! | `panics.rs` | every part that others wait for panics at every call in turn |
//! | `log_reads.rs` | the number of times that the log is read for one answer |
//! | `concurrency.rs` | many conversations at once, and two kernels on one store |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "what tools do to files is looked at from outside")]

mod compaction;
mod concurrency;
mod consolidation;
mod fixture;
mod hooked_disk;
mod log_reads;
mod model_failures;
mod panics;
mod retrospective;
mod sent_requests;
mod tool_failures;
mod tools;
mod turns;
mod without_memory;
