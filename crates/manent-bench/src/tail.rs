//! The last 50 turns of a long session, and opening it to write: what resuming costs, however long the session is.
//!
//! The cost must be that of the tail, not of the file, so the same is done with a session ten times as long. `again`
//! is a server that has done it before; `first` is a process that starts, reads and ends, whose first call also pays
//! for touching code and memory for the first time.

use crate::child::Task;
use crate::load::SESSION_BYTES;
use crate::measure::{interleaved, median};
use crate::row::{Goal, Row};
use crate::session::{self, BenchSession};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("tail")?;
    let twin = dir.join("naive.jsonl");
    let home = dir.join("store");
    let made = session::make(&home, "long", SESSION_BYTES, Some(&twin))?;
    let mut firsts = Vec::new();
    let [again, naive] = interleaved(
        bench.rounds(15),
        [
            &mut || {
                let outcome = Task::tail(&made).in_child()?;
                firsts.push(outcome.first_us);
                Ok(outcome.again_us)
            },
            &mut || Ok(Task::naive(&twin).in_child()?.first_us),
        ],
    )?;
    let peer = "lines() + serde_json of all";
    let mut rows = vec![
        Row::new("last 50 turns of 100 MB", again, "us", peer, naive, Goal::FasterBy(2000.0)),
        Row::new("the same, first call of a process", median(firsts), "us", peer, naive, Goal::Inform),
    ];
    if bench.effort == Effort::Full {
        rows.extend(by_length(bench, &made)?);
    }
    Ok(rows)
}

/// The same on a session ten times as long, and opening it next to a short one.
fn by_length(bench: &Bench, long: &BenchSession) -> Result<Vec<Row>> {
    let short = session::make(&long.home, "short", 1_000_000, None)?;
    let longest = session::make(&long.home, "longest", 10 * SESSION_BYTES, None)?;
    let (mut first_longest, mut first_short) = (Vec::new(), Vec::new());
    let again = |task: Task| -> Result<f64> { Ok(task.in_child()?.again_us) };
    let opened = |task: Task, firsts: &mut Vec<f64>| -> Result<f64> {
        let outcome = task.in_child()?;
        firsts.push(outcome.first_us);
        Ok(outcome.again_us)
    };
    let [tail_longest, tail_long, open_longest, open_short] = interleaved(
        bench.rounds(31),
        [
            &mut || again(Task::tail(&longest)),
            &mut || again(Task::tail(long)),
            &mut || opened(Task::open(&longest), &mut first_longest),
            &mut || opened(Task::open(&short), &mut first_short),
        ],
    )?;
    let (first_longest, first_short) = (median(first_longest), median(first_short));
    Ok(vec![
        Row::new("last 50 turns of 1 GB", tail_longest, "us", "of 100 MB", tail_long, Goal::Within(1.5)),
        Row::new("open a writer on 1 GB", open_longest, "us", "on 1 MB", open_short, Goal::Within(1.5)),
        Row::new(
            "the same, first call of a process",
            first_longest,
            "us",
            "on 1 MB",
            first_short,
            Goal::Inform,
        ),
    ])
}
