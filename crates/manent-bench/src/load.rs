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

    let (mut load_peaks, mut stream_peaks, mut naive_peaks) = (Vec::new(), Vec::new(), Vec::new());
    let measured = |task: Task, peaks: &mut Vec<f64>, text_bytes: Option<u64>| -> Result<f64> {
        let outcome = task.in_child()?;
        if outcome.turns != made.turns || text_bytes.is_some_and(|bytes| bytes != outcome.text_bytes) {
            return Err(format!("{task:?} did not read what was written: {outcome:?}").into());
        }
        peaks.push(grown_mb(&outcome));
        Ok(outcome.first_us / 1e3)
    };
    let [load, naive, stream] = interleaved(
        bench.rounds(21),
        [
            &mut || measured(Task::load(&made), &mut load_peaks, Some(made.text_bytes)),
            &mut || measured(Task::naive(&twin), &mut naive_peaks, Some(made.text_bytes)),
            &mut || measured(Task::stream(&made), &mut stream_peaks, None),
        ],
    )?;
    let file_mb = made.bytes as f64 / 1e6;
    let load_peak = median(load_peaks);
    Ok(vec![
        Row::new("load 100 MB, decoded", load, "ms", "lines() + serde_json", naive, Goal::FasterBy(3.0)),
        Row::new("load 100 MB, peak memory", load_peak, "MB", "size of the file", file_mb, Goal::Within(1.1)),
        Row::new(
            "load 100 MB, peak memory",
            load_peak,
            "MB",
            "lines() + serde_json",
            median(naive_peaks),
            Goal::Inform,
        ),
        Row::new("stream 100 MB, verified", stream, "ms", "lines() + serde_json", naive, Goal::FasterBy(5.0)),
        Row::new(
            "stream 100 MB, peak memory",
            median(stream_peaks),
            "MB",
            "a budget of 16 MiB",
            STREAM_BUDGET_MB,
            Goal::Within(1.0),
        ),
    ])
}

/// What reading added to the resident set at its peak.
pub(crate) fn grown_mb(outcome: &Outcome) -> f64 {
    outcome.peak_bytes.saturating_sub(outcome.before_bytes) as f64 / 1e6
}

/// With lines of 1.1 KB this is the 100,000 turns of a long working week.
pub(crate) const SESSION_BYTES: u64 = 110_000_000;
const STREAM_BUDGET_MB: f64 = 16.0 * 1.048_576;
