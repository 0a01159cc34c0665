//! The retrospective on runs of which the truth is known: what is said is right, and no more is said than is known.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "tests lay files out as other programs do")]
#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "the numbers are small")]

mod formats;
mod lessons;
mod nulls;
mod planted;
mod report_store;
mod report_store_crashes;
mod retired_lessons;
mod robustness;
mod world;
