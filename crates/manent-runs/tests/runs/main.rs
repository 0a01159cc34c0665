//! Runs: what skills did, kept whatever happens.
//!
//! | file | about |
//! |---|---|
//! | `reading.rs` | what a log of runs says, whoever wrote it |
//! | `recording.rs` | beginning, ending, and entries of other programs; each once |
//! | `judging.rs` | verdicts that are given afterwards, and lines that only look like some |
//! | `crashes.rs` | a simulated disk that crashes, loses power and fails |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may"
)]
#![allow(clippy::disallowed_methods, reason = "tests do to files what people and other programs do")]

mod crashes;
mod judge;
mod reading;
mod record;

use std::ops::ControlFlow;

use manent::SessionKey;
use manent_runs::{Runs, Status};

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

/// The skills of a session's runs, and how they ended.
fn all(runs: &Runs, session: &str) -> Vec<(String, Status)> {
    let mut found = Vec::new();
    runs.each(&key(session), |run| {
        found.push((run.skill.to_string(), run.status));
        ControlFlow::Continue(())
    })
    .unwrap();
    found
}
