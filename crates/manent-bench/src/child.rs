//! Reading in a fresh process, as a person or an agent that starts would.
//!
//! A process that loads twice finds its memory already there the second time, and its peak tells nothing about one
//! load. So the bench starts itself again for each measurement; the child reads, and says on one line what it took.
//!
//! What is counted: `peak` is the highest resident set of the whole process (`VmHWM`), `before` the resident set when
//! reading began. Resident includes file pages of the program itself, and excludes the page cache that `read` uses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use manent::{LogItem, Reader, Record, SessionKey, Start, Store, Transcript};
use serde::{Deserialize, Serialize};

use crate::machine::{field, kibibytes};
use crate::measure::median;
use crate::session::BenchSession;
use crate::{Result, memory, peers, runs};

/// The task of a child process.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// Loads a session, decoded.
    Load { home: PathBuf, key: String },
    /// Streams a session: number, time, role and line of each record, checksum verified, text left as it is.
    Stream { home: PathBuf, key: String },
    /// Reads the last 50 turns, decoded; then again and again.
    Tail { home: PathBuf, key: String },
    /// Opens a writer and closes it; then again and again.
    Open { home: PathBuf, key: String },
    /// The naive load, of the naive file.
    Naive { path: PathBuf },
    /// Makes the index of a store anew.
    Reindex { home: PathBuf },
    /// Loads a memory.
    Remember { home: PathBuf },
    /// Opens a memory to add something.
    HoldMemory { home: PathBuf },
    /// The naive load of a memory, of the naive file.
    NaiveMemory { path: PathBuf },
    /// Looks back on runs.
    Retro { home: PathBuf },
    /// Makes a data set of runs.
    Train { home: PathBuf },
    /// Reads the bytes of runs.
    BareRuns { home: PathBuf },
    /// The naive look back on runs.
    NaiveRuns { home: PathBuf },
}

/// The result of a child process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The first time, in a process that has done nothing else.
    pub(crate) first_us: f64,
    /// The median of more times in the same process; the same as `first_us` where there is only one.
    pub(crate) again_us: f64,
    /// After a load: looking at every byte of the text once.
    pub(crate) walk_us: f64,
    pub(crate) before_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) turns: u64,
    pub(crate) text_bytes: u64,
}

impl Task {
    pub(crate) fn load(made: &BenchSession) -> Task {
        Task::Load { home: made.home.clone(), key: made.key.to_string() }
    }

    pub(crate) fn stream(made: &BenchSession) -> Task {
        Task::Stream { home: made.home.clone(), key: made.key.to_string() }
    }

    pub(crate) fn tail(made: &BenchSession) -> Task {
        Task::Tail { home: made.home.clone(), key: made.key.to_string() }
    }

    pub(crate) fn open(made: &BenchSession) -> Task {
        Task::Open { home: made.home.clone(), key: made.key.to_string() }
    }

    pub(crate) fn naive(path: &Path) -> Task {
        Task::Naive { path: path.to_owned() }
    }

    pub(crate) fn reindex(home: &Path) -> Task {
        Task::Reindex { home: home.to_owned() }
    }

    /// Does the task in a new process and waits for what it says.
    pub(crate) fn in_child(&self) -> Result<Outcome> {
        let (word, place, key) = match self {
            Task::Load { home, key } => ("load", home, key.as_str()),
            Task::Stream { home, key } => ("stream", home, key.as_str()),
            Task::Tail { home, key } => ("tail", home, key.as_str()),
            Task::Open { home, key } => ("open", home, key.as_str()),
            Task::Naive { path } => ("naive", path, ""),
            Task::Reindex { home } => ("reindex", home, ""),
            Task::Remember { home } => ("remember", home, ""),
            Task::HoldMemory { home } => ("hold-memory", home, ""),
            Task::NaiveMemory { path } => ("naive-memory", path, ""),
            Task::Retro { home } => ("retro", home, ""),
            Task::Train { home } => ("train", home, ""),
            Task::BareRuns { home } => ("bare-runs", home, ""),
            Task::NaiveRuns { home } => ("naive-runs", home, ""),
        };
        let output =
            Command::new(std::env::current_exe()?).args(["--child", word]).arg(place).arg(key).output()?;
        if !output.status.success() {
            return Err(format!("the child failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The other side of [`Task::in_child`].
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> std::result::Result<Task, String> {
        let mut next = || words.next().ok_or("a child needs a task, a place and a key");
        let (task, place, key) = (next()?, PathBuf::from(next()?), next()?);
        match task.as_str() {
            "load" => Ok(Task::Load { home: place, key }),
            "stream" => Ok(Task::Stream { home: place, key }),
            "tail" => Ok(Task::Tail { home: place, key }),
            "open" => Ok(Task::Open { home: place, key }),
            "naive" => Ok(Task::Naive { path: place }),
            "reindex" => Ok(Task::Reindex { home: place }),
            "remember" => Ok(Task::Remember { home: place }),
            "hold-memory" => Ok(Task::HoldMemory { home: place }),
            "naive-memory" => Ok(Task::NaiveMemory { path: place }),
            "retro" => Ok(Task::Retro { home: place }),
            "train" => Ok(Task::Train { home: place }),
            "bare-runs" => Ok(Task::BareRuns { home: place }),
            "naive-runs" => Ok(Task::NaiveRuns { home: place }),
            other => Err(format!("there is no task {other:?}")),
        }
    }
}

/// Runs a task in this process and prints the outcome.
pub(crate) fn run(task: &Task) -> Result<()> {
    let outcome = match task {
        Task::Load { home, key } => {
            loaded(|| load(home, key), |all| walk(all.turns().map(|turn| turn.content)))
        }
        Task::Naive { path } => {
            loaded(|| peers::naive_load(path), |all| walk(all.iter().map(|message| message.content.as_str())))
        }
        Task::Stream { home, key } => once(|| stream(home, key)),
        Task::Reindex { home } => once(|| reindex(home)),
        Task::Remember { home } => once(|| memory::load(home)),
        Task::HoldMemory { home } => once(|| memory::hold(home)),
        Task::Retro { home } => once(|| runs::retro(home)),
        Task::Train { home } => once(|| runs::train(home)),
        Task::BareRuns { home } => once(|| runs::bare(home)),
        Task::NaiveRuns { home } => once(|| runs::naive(home)),
        Task::NaiveMemory { path } => {
            loaded(|| peers::naive_memory(path), |all| walk(all.iter().map(|item| item.content.as_str())))
        }
        Task::Tail { home, key } => {
            let (store, key) = (Store::open(home)?, SessionKey::new(key)?);
            repeated(|| tail(store.stream(&key, TAIL)?))
        }
        Task::Open { home, key } => {
            let (store, key) = (Store::open(home)?, SessionKey::new(key)?);
            repeated(|| open(&store, &key))
        }
    }?;
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// The number of turns, and of bytes of text: proof that both sides read the same.
pub(crate) type TextCount = (u64, u64);

fn once(work: impl FnOnce() -> Result<TextCount>) -> Result<Outcome> {
    let before_bytes = resident("VmRSS");
    let start = Instant::now();
    let (turns, text_bytes) = work()?;
    let first_us = start.elapsed().as_secs_f64() * 1e6;
    let peak_bytes = resident("VmHWM");
    Ok(Outcome { first_us, again_us: first_us, walk_us: 0.0, before_bytes, peak_bytes, turns, text_bytes })
}

fn repeated(mut work: impl FnMut() -> Result<TextCount>) -> Result<Outcome> {
    let mut outcome = once(&mut work)?;
    let again = (0..REPEATS).map(|_| once(&mut work).map(|o| o.first_us)).collect::<Result<Vec<f64>>>()?;
    outcome.again_us = median(again);
    Ok(outcome)
}

/// A load, and then a walk over what was loaded. Nothing is freed: the process ends anyway.
fn loaded<T>(load: impl FnOnce() -> Result<T>, walk: impl Fn(&T) -> TextCount) -> Result<Outcome> {
    let mut all = None;
    let mut outcome = once(|| {
        all = Some(load()?);
        Ok((0, 0))
    })?;
    let Some(all) = all else { return Ok(outcome) };
    let start = Instant::now();
    (outcome.turns, outcome.text_bytes) = walk(&all);
    outcome.walk_us = start.elapsed().as_secs_f64() * 1e6;
    std::mem::forget(all);
    Ok(outcome)
}

/// Reads every byte of every text, as whoever sends it to a model would.
fn walk<'a>(texts: impl Iterator<Item = &'a str>) -> TextCount {
    let mut sum = 0;
    let seen = texts.fold((0, 0), |(turns, bytes), text| {
        sum = text.bytes().fold(sum, |sum, byte| sum ^ byte);
        (turns + 1, bytes + text.len() as u64)
    });
    std::hint::black_box(sum);
    seen
}

fn load(home: &Path, key: &str) -> Result<Transcript> {
    Ok(Store::open(home)?.load(&SessionKey::new(key)?)?)
}

fn stream(home: &Path, key: &str) -> Result<TextCount> {
    let mut reader = Store::open(home)?.stream(&SessionKey::new(key)?, Start::First)?;
    let (mut turns, mut bytes, mut last) = (0, 0, 0);
    while let Some(item) = reader.next()? {
        let LogItem::Entry(entry) = item else { return Err("the session is damaged".into()) };
        let record = Record::of(&entry).ok_or("the session is not UTF-8")?;
        if record.role().is_some_and(|role| !role.is_empty()) && record.ts().is_some() && record.verified() {
            turns += 1;
        }
        bytes += record.line().len() as u64;
        last = last.max(record.seq());
    }
    if last != turns {
        return Err("some records are not as they were written".into());
    }
    Ok((turns, bytes))
}

fn reindex(home: &Path) -> Result<TextCount> {
    let made = Store::open(home)?.reindex(&mut |_, _| {})?;
    Ok((made.turns, made.log_bytes))
}

/// Reads what [`TAIL`] began to its end.
pub(crate) fn tail(mut reader: Reader) -> Result<TextCount> {
    let (mut turns, mut bytes) = (0, 0);
    while let Some(item) = reader.next()? {
        let LogItem::Entry(entry) = item else { return Err("the session is damaged".into()) };
        let record = Record::of(&entry).ok_or("the session is not UTF-8")?;
        turns += 1;
        bytes += record.content().len() as u64;
    }
    if turns != TAIL_TURNS {
        return Err(format!("{turns} turns were read instead of {TAIL_TURNS}").into());
    }
    Ok((turns, bytes))
}

fn open(store: &Store, key: &SessionKey) -> Result<TextCount> {
    let session = store.existing_session(key)?;
    Ok((session.id().len() as u64, 0))
}

/// A size from /proc/self/status in bytes; 0 where there is none.
fn resident(name: &str) -> u64 {
    field("/proc/self/status", name).and_then(|text| kibibytes(&text)).unwrap_or(0) << 10
}

const TAIL_TURNS: u64 = 50;
/// The start from which resuming a session reads: its last turns.
pub(crate) const TAIL: Start = Start::Tail { count: TAIL_TURNS, before: None };
const REPEATS: usize = 51;
