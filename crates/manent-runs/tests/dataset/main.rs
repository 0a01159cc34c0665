//! Data sets: they hold what they should, load where they are meant to, and leak nothing.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing step fails the test")]
#![expect(clippy::disallowed_methods, reason = "the tests play the other program and the vandal")]

mod crashes;
mod determinism;
mod hostile;
mod leaks;
mod output_dir;
mod pairs;
mod progress;
mod prompts;
mod scene;
mod schema;
mod split;
mod verdicts;
