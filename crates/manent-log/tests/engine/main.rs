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
mod beginning;
mod damage;
mod doors;
mod files;
mod foreign;
mod lease;
mod reading;
mod recovery;
mod resting;
mod sharing;
mod support;
mod twin;
mod verifier;
