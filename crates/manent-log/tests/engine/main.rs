//! The engine from outside: what a user of the log would lose if one of these tests failed.
//!
//! One binary, one module a subject, all on the real disk. The crash cases R1 to R20 are those of `docs/RECOVERY.md`;
//! numbers like "fault 37" are those of the acceptance list the engine is built against.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests play the crash, the other program and the vandal: they reach around the engine's door"
)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing step fails the test")]

mod appending;
mod damage;
mod files;
mod foreign;
mod group_commit;
mod header_only;
mod lease;
mod python_classify;
mod python_verify;
mod reading;
mod real_disk;
mod recovery;
mod resting;
mod support;
