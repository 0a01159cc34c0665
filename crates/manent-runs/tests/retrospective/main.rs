//! The retrospective on runs of which the truth is known: what is said is right, and no more is said than is known.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "tests lay files out as other programs do")]
#![allow(clippy::cast_possible_wrap, clippy::cast_sign_loss, reason = "the numbers are small")]

mod kept;
mod kept_crashes;
mod nulls;
mod odd;
mod planted;
mod remembered;
mod retired;
mod told;
mod world;
