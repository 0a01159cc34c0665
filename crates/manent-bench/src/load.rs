//! A whole session of 100 MB: into memory, and streamed past.
//!
//! Every measurement is a process of its own with a warm page cache, on one thread. Ours verifies every checksum,
//! keeps time, number and other members of each turn, and reads its own, longer lines; the naive load keeps role and
//! text only and reads its own file.

use crate::child::{Outcome, Task};
use crate::measure::{interleaved, median};
use crate::row::{Goal, Row};
use crate::{Bench, Result, session};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("load")?;
    let twin = dir.join("naive.jsonl");
    let made = session::make(&dir.join("store"), "load", SESSION_BYTES, Some(&twin))?;
    eprintln!("{}", made.describe());

    let (mut loads, mut naives, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    let measured = |task: Task, outcomes: &mut Vec<Outcome>, text_bytes: u64| -> Result<f64> {
        let outcome = task.in_child()?;
        if outcome.turns != made.turns || outcome.text_bytes < text_bytes {
            return Err(format!("{task:?} did not read what was written: {outcome:?}").into());
        }
        outcomes.push(outcome.clone());
        Ok(outcome.first_us / 1e3)
    };
    let [load, naive, stream] = interleaved(
        bench.rounds(21),
        [
            &mut || measured(Task::load(&made), &mut loads, made.text_bytes),
            &mut || measured(Task::naive(&twin), &mut naives, made.text_bytes),
            &mut || measured(Task::stream(&made), &mut streams, made.text_bytes),
        ],
    )?;
    let of = |outcomes: &[Outcome], value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
    let (load_peak, load_walk) = (of(&loads, grown_mb), of(&loads, |o| o.walk_us / 1e3));
    let file_mb = made.bytes as f64 / 1e6;
    let peer = "lines() + serde_json";
    Ok(vec![
        Row::new("load 100 MB, decoded", load, "ms", peer, naive, Goal::FasterBy(3.0)),
        Row::new(
            "then read every text",
            load_walk,
            "ms",
            peer,
            of(&naives, |o| o.walk_us / 1e3),
            Goal::Inform,
        ),
        Row::new("load 100 MB, peak memory", load_peak, "MB", "size of the file", file_mb, Goal::Within(1.1)),
        Row::new("load 100 MB, peak memory", load_peak, "MB", peer, of(&naives, grown_mb), Goal::Inform),
        Row::new("stream 100 MB, verified", stream, "ms", peer, naive, Goal::FasterBy(5.0)),
        Row::new(
            "stream 100 MB, peak memory",
            of(&streams, |o| o.peak_bytes as f64 / 1e6),
            "MB",
            "a budget of 16 MiB",
            STREAM_BUDGET_MB,
            Goal::Within(1.0),
        ),
    ])
}

/// Returns the peak growth of the resident set while reading, in megabytes.
fn grown_mb(outcome: &Outcome) -> f64 {
    outcome.peak_bytes.saturating_sub(outcome.before_bytes) as f64 / 1e6
}

/// With lines of 1.1 KB this is the 100,000 turns of a long working week.
pub(crate) const SESSION_BYTES: u64 = 110_000_000;
const STREAM_BUDGET_MB: f64 = 16.0 * 1.048_576;
