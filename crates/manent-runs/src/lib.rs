//! Runs of skills: recording what skills did, looking back on it, and turning it into training data.
//!
//! A run is one use of a skill, with every attempt at it. [`Runs`] records runs in a store, one log for each session
//! key in [`Space::Runs`](manent::Space::Runs), and reads them back. [`retrospective`] computes what the runs of a
//! period say about skills and models, and [`dataset`] makes data sets of attempts that somebody checked.
//!
//! # Layout
//!
//! | file | about |
//! |---|---|
//! | `runs/` | [`Runs`]: recording, reading and judging runs |
//! | `retrospective/` | [`retrospective::Report`]: what runs say about skills and models |
//! | `dataset/` | [`dataset::Recipe`]: data to train models on, made of runs |
//! | `error.rs` | [`Error`]: what can go wrong |

pub mod dataset;
mod error;
pub mod retrospective;
mod runs;

pub use error::{Error, Result};
pub use runs::{
    Attempt, EntryError, INTERRUPTED, NOT_CHECKED, NOT_RUN, NewAttempt, NewEntry, NewRun, NewVerdict, Oddity,
    ReadSummary, RecordRange, Run, RunEnd, RunLock, RunName, RunReceipt, RunRecord, Runs, StartedRun, Status,
    Verdict, VerdictReceipt, VerdictRef,
};
