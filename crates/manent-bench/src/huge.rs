//! A session of 10 GB, larger than most machines would hold in memory: only when it is asked for.
//!
//! Resuming it must neither take long nor much memory. The last 50 turns are compared with those of a session of
//! 1 MB; the memory is that of the whole process, program included.

use crate::child::Task;
use crate::measure::{interleaved, median};
use crate::row::{Goal, Row};
use crate::{Bench, Result, session};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let home = bench.place("huge")?.join("store");
    let short = session::make(&home, "short", 1_000_000, None)?;
    let huge = session::make(&home, "huge", 10_000_000_000, None)?;
    eprintln!("{}", huge.describe());
    let (mut firsts, mut peaks) = (Vec::new(), Vec::new());
    let [ours, peer] = interleaved(
        bench.rounds(15),
        [
            &mut || {
                let outcome = Task::tail(&huge).in_child()?;
                firsts.push(outcome.first_us);
                peaks.push(outcome.peak_bytes as f64 / 1e6);
                Ok(outcome.again_us)
            },
            &mut || Ok(Task::tail(&short).in_child()?.again_us),
        ],
    )?;
    Ok(vec![
        Row::new("last 50 turns of 10 GB", ours, "us", "of 1 MB", peer, Goal::Within(1.5)),
        Row::new(
            "the same, first call of a process",
            median(firsts),
            "us",
            "of 1 MB, again",
            peer,
            Goal::Inform,
        ),
        Row::new(
            "last 50 turns of 10 GB, peak memory",
            median(peaks),
            "MB",
            "a budget of 64 MiB",
            64.0 * 1.048_576,
            Goal::Within(1.0),
        ),
    ])
}
