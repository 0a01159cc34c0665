//! Session files to read: written through the engine, record by record as an agent would, only in larger batches.
//!
//! Each may have a twin in the naive store's format with the same turns, so that the peer reads its own, shorter lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use manent::{Body, Durability, Expect, Files, SessionKey, Store, StoreOptions, turn_body};

use crate::Result;
use crate::data::{self, Turn, Turns};
use crate::peers::naive_line;

/// A session made for reading.
#[derive(Debug)]
pub(crate) struct BenchSession {
    pub(crate) home: PathBuf,
    pub(crate) key: SessionKey,
    pub(crate) bytes: u64,
    pub(crate) turns: u64,
    pub(crate) text_bytes: u64,
    pub(crate) escapes: u64,
    pub(crate) foreign_bytes: u64,
}

impl BenchSession {
    /// Says what the text is like, for the reader of the numbers.
    pub(crate) fn describe(&self) -> String {
        format!(
            "session of {} MB: {} turns, {:.0} bytes a line, {:.1} escapes a KB, {:.1} % of the text not ASCII",
            self.bytes / 1_000_000,
            self.turns,
            self.bytes as f64 / self.turns as f64,
            self.escapes as f64 * 1024.0 / self.text_bytes as f64,
            self.foreign_bytes as f64 * 100.0 / self.text_bytes as f64,
        )
    }
}

/// The file of a live session.
pub(crate) fn file_of(home: &Path, key: &SessionKey) -> Result<PathBuf> {
    Ok(Files::open(home)?.live_path(key))
}

/// Writes a session of about `bytes`, and its twin if a path is given for one.
pub(crate) fn make(home: &Path, name: &str, bytes: u64, twin: Option<&Path>) -> Result<BenchSession> {
    make_of(Turns::new(4), home, name, bytes, twin)
}

/// Makes a session of the caller's turns. See [`make`].
pub(crate) fn make_of(
    mut all: Turns,
    home: &Path,
    name: &str,
    bytes: u64,
    twin: Option<&Path>,
) -> Result<BenchSession> {
    let key = SessionKey::new(name)?;
    let mut session = Store::open(home)?.session(&key)?;
    let path = file_of(home, &key)?;
    let mut twin = twin.map(File::create).transpose()?.map(BufWriter::new);
    let mut made = BenchSession {
        home: home.to_owned(),
        key,
        bytes: 0,
        turns: 0,
        text_bytes: 0,
        escapes: 0,
        foreign_bytes: 0,
    };
    let mut bodies: Vec<Body> = Vec::with_capacity(BATCH);
    while made.bytes < bytes {
        bodies.clear();
        for turn in all.by_ref().take(BATCH) {
            bodies.push(turn_body(&turn.ts, turn.role, &turn.content));
            made.text_bytes += turn.content.len() as u64;
            made.escapes += data::escapes_in(&turn.content) as u64;
            made.foreign_bytes += turn.content.bytes().filter(|b| !b.is_ascii()).count() as u64;
            if let Some(twin) = &mut twin {
                writeln!(twin, "{}", naive_line(&turn)?)?;
            }
        }
        made.turns += bodies.len() as u64;
        session.append_with(&bodies, Durability::Flush, Expect::Any)?;
        made.bytes = std::fs::metadata(&path)?.len();
    }
    // Nothing of this is to be written back while something is measured.
    File::open(&path)?.sync_data()?;
    if let Some(twin) = twin {
        twin.into_inner()?.sync_data()?;
    }
    Ok(made)
}

/// Many sessions, as a store has them after some years.
#[derive(Debug)]
pub(crate) struct Many {
    pub(crate) home: PathBuf,
    pub(crate) keys: Vec<SessionKey>,
    pub(crate) turns: u64,
    pub(crate) bytes: u64,
}

impl Many {
    /// The directory of their files.
    pub(crate) fn dir(&self) -> Result<PathBuf> {
        let first = self.keys.first().ok_or("there are no sessions")?;
        let path = file_of(&self.home, first)?;
        Ok(path.parent().ok_or("a file lies nowhere")?.to_owned())
    }

    /// Says how many there are, and how long making them took.
    fn describe(&self, took: Duration) -> String {
        let (sessions, seconds) = (self.keys.len(), took.as_secs_f64());
        let Many { turns, bytes, .. } = self;
        format!("{sessions} sessions, {turns} turns, {} MB, made in {seconds:.0} s", bytes / 1_000_000)
    }
}

/// A store to write with whose index is not kept near what it writes by a thread of its own: that would do some of the
/// work beforehand that is measured, or get in its way.
pub(crate) fn writer(home: &Path) -> Result<Store> {
    Ok(Store::on_files(Files::open(home)?, StoreOptions::default()))
}

/// Writes `count` sessions, each with one write.
pub(crate) fn make_many(home: &Path, count: usize, mut next: impl FnMut() -> Vec<Turn>) -> Result<Many> {
    let start = Instant::now();
    let store = writer(home)?;
    let mut many = Many { home: home.to_owned(), keys: Vec::with_capacity(count), turns: 0, bytes: 0 };
    for n in 0..count {
        let key = SessionKey::new(format!("telegram:user-{n:06}"))?;
        let turns = next();
        many.turns += turns.len() as u64;
        store.append_with(&key, &bodies_of(&turns), Durability::Flush, Expect::Any)?;
        many.bytes += std::fs::metadata(file_of(home, &key)?)?.len();
        many.keys.push(key);
    }
    rustix::fs::syncfs(File::open(home)?)?;
    eprintln!("{}", many.describe(start.elapsed()));
    Ok(many)
}

/// Turns as they are appended.
pub(crate) fn bodies_of(turns: &[Turn]) -> Vec<Body> {
    turns.iter().map(|turn| turn_body(&turn.ts, turn.role, &turn.content)).collect()
}

const BATCH: usize = 500;
