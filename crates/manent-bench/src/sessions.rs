//! A server with thousands of sessions: 64 threads that append to all of them by turns, each record on the
//! disk.
//!
//! No two threads meet in a session, so no two records share a file's sync, and there are far more sessions
//! than files kept open, so nearly every append opens its file anew: the worst case for the store. What is
//! left to gain is that the kernel runs many syncs at a time. The peer is one thread that appends to one
//! session; beside it, 64 threads that only open, write, sync and close show what the machine has to give.
//! Costs are microseconds a record, over all threads. The number of open files must stay bounded, however
//! many sessions there are.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use manent::{Body, Durability, Expect, SessionKey, Store, turn_body};

use crate::append::{CONTENT_BYTES, written_lines};
use crate::data::Turns;
use crate::measure::{interleaved, micros_each};
use crate::row::{Goal, Row};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("sessions")?;
    let (count, name) = match bench.effort {
        Effort::Quick => (1_000, "1,000 sessions, 64 threads, Group"),
        Effort::Full => (10_000, "10,000 sessions, 64 threads, Group"),
    };
    let turns = Turns::of_one_size(7, 64, CONTENT_BYTES);
    let bodies: Vec<Body> = turns.iter().map(|t| turn_body(&t.ts, t.role, &t.content)).collect();
    let keys =
        (0..count).map(|n| Ok(SessionKey::new(format!("user-{n:05}"))?)).collect::<Result<Vec<_>>>()?;
    // By another store, as if the server had been started since; the round that warms up makes the names
    // known again.
    let before = Store::open(dir.join("store"))?;
    for key in &keys {
        before.append_with(key, &bodies[..1], Durability::Flush, Expect::Any)?;
    }
    drop(before);
    rustix::fs::syncfs(std::fs::File::open(&dir)?)?;

    let store = Store::open(dir.join("store"))?;
    let alone = SessionKey::new("alone")?;
    let mut most_open = 0;
    let lines = written_lines(&dir, &turns)?;
    let bare_files = bare_files(&dir.join("bare"), count)?;
    let [many, one, bare] = interleaved(
        bench.rounds(9),
        [
            &mut || {
                let (cost, open) = by_turns(count, |n| {
                    append(&store, &keys[n], &bodies[n % bodies.len()], Durability::Group)
                })?;
                most_open = most_open.max(open);
                Ok(cost)
            },
            &mut || {
                let mut bodies = bodies.iter().cycle().take(ALONE_RECORDS);
                micros_each(ALONE_RECORDS, || {
                    bodies.try_for_each(|body| append(&store, &alone, body, Durability::Sync))
                })
            },
            &mut || {
                let append = |n: usize| bare(&bare_files[n], &lines[n % lines.len()]);
                by_turns(count, append).map(|(cost, _)| cost)
            },
        ],
    )?;
    let files = most_open as f64;
    Ok(vec![
        Row::new(name, many, "us", "one session, one thread, Sync", one, Goal::FasterBy(8.0)),
        Row::new(name, many, "us", "bare open + write + fdatasync, 64 threads", bare, Goal::Inform),
        Row::new("the same, open files", files, "files", "a budget of 512", 512.0, Goal::Within(1.0)),
    ])
}

/// Appends one record to each of `count` sessions, every thread taking the next one, and counts open files
/// meanwhile.
fn by_turns(count: usize, append: impl Fn(usize) -> Result<()> + Sync) -> Result<(f64, usize)> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let barrier = Barrier::new(THREADS + 1);
    let work = || -> Result<()> {
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                n if n < count => append(n)?,
                _ => return Ok(()),
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let worked = work();
                    done.fetch_add(1, Ordering::Relaxed);
                    worked
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let mut most_open = 0;
        while done.load(Ordering::Relaxed) < THREADS {
            most_open = most_open.max(std::fs::read_dir("/proc/self/fd")?.count());
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok((start.elapsed().as_secs_f64() * 1e6 / count as f64, most_open))
    })
}

fn append(store: &Store, key: &SessionKey, body: &Body, durability: Durability) -> Result<()> {
    store.append_with(key, std::slice::from_ref(body), durability, Expect::Any)?;
    Ok(())
}

/// Files for the bare append, as many as there are sessions.
fn bare_files(dir: &Path, count: usize) -> Result<Vec<PathBuf>> {
    std::fs::create_dir(dir)?;
    let paths: Vec<PathBuf> = (0..count).map(|n| dir.join(format!("user-{n:05}.jsonl"))).collect();
    for path in &paths {
        std::fs::write(path, b"{}\n")?;
    }
    rustix::fs::syncfs(std::fs::File::open(dir)?)?;
    Ok(paths)
}

fn bare(path: &Path, line: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(line)?;
    file.sync_data()?;
    Ok(())
}

const THREADS: usize = 64;
const ALONE_RECORDS: usize = 100;
/// Often enough to see a peak, and seldom enough not to be felt.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);
