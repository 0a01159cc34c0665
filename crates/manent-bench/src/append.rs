//! One turn of 1 KB to an open session, without waiting for the disk: what an agent pays at every message.
//!
//! Ours builds the record (time, role, text, escapes, number, checksum) and writes it in one call. The bare write
//! gets ready bytes and is the floor: what is above it is the price of everything the store does.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use manent::{Body, Durability, Expect, SessionKey, Store, turn_body, write_turn};

use crate::data::{Turn, Turns};
use crate::measure::{interleaved, micros_each};
use crate::peers::{self, Sqlite, Synchronous};
use crate::row::{Goal, Row};
use crate::session::file_of;
use crate::{Bench, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("append")?;
    let turns = Turns::of_one_size(1, TURNS, CONTENT_BYTES);
    let lines = written_lines(&dir, &turns)?;
    let [ours, naive, sqlite, bare] = interleaved(
        bench.rounds(101),
        [
            &mut || ours(&dir, &turns),
            &mut || naive(&dir.join("naive.jsonl"), &turns),
            &mut || sqlite(&dir.join("sqlite.db"), &turns),
            &mut || bare(&dir.join("bare.jsonl"), &lines),
        ],
    )?;
    let row = |peer: &str, cost, goal| Row::new("append 1 KB, Flush", ours, "us", peer, cost, goal);
    Ok(vec![
        row("open + writeln! + close", naive, Goal::FasterBy(3.0)),
        row("SQLite WAL NORMAL", sqlite, Goal::FasterBy(10.0)),
        row("bare write()", bare, Goal::Within(1.6)),
    ])
}

fn ours(dir: &Path, turns: &[Turn]) -> Result<f64> {
    let home = dir.join("store");
    let key = SessionKey::new("append")?;
    let mut session = Store::open(&home)?.session(&key)?;
    let mut body = Body::new();
    let mut append = |turn: &Turn| -> Result<()> {
        write_turn(&mut body, &turn.ts, turn.role, &turn.content);
        session.append_with(std::slice::from_ref(&body), Durability::Flush, Expect::Any)?;
        Ok(())
    };
    // The header is written with the first record: that is opening, not appending.
    append(&turns[0])?;
    let cost = micros_each(RECORDS, || turns.iter().cycle().take(RECORDS).try_for_each(&mut append))?;
    std::fs::remove_file(file_of(&home, &key)?)?;
    Ok(cost)
}

fn naive(path: &Path, turns: &[Turn]) -> Result<f64> {
    let mut turns = turns.iter().cycle().take(NAIVE_RECORDS);
    let cost = micros_each(NAIVE_RECORDS, || turns.try_for_each(|turn| peers::naive_append(path, turn)))?;
    std::fs::remove_file(path)?;
    Ok(cost)
}

fn sqlite(path: &Path, turns: &[Turn]) -> Result<f64> {
    let database = Sqlite::create(path, Synchronous::Normal)?;
    let mut turns = turns.iter().cycle().take(SQLITE_RECORDS);
    let cost = micros_each(SQLITE_RECORDS, || turns.try_for_each(|turn| database.append(turn)))?;
    drop(database);
    std::fs::remove_file(path)?;
    Ok(cost)
}

fn bare(path: &Path, lines: &[Vec<u8>]) -> Result<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut lines = lines.iter().cycle().take(RECORDS);
    let cost = micros_each(RECORDS, || lines.try_for_each(|line| Ok(file.write_all(line)?)))?;
    std::fs::remove_file(path)?;
    Ok(cost)
}

/// The lines that ours writes for these turns, newline included.
pub(crate) fn written_lines(dir: &Path, turns: &[Turn]) -> Result<Vec<Vec<u8>>> {
    let home = dir.join("lines");
    let key = SessionKey::new("lines")?;
    let bodies: Vec<Body> = turns.iter().map(|turn| turn_body(&turn.ts, turn.role, &turn.content)).collect();
    Store::open(&home)?.session(&key)?.append_with(&bodies, Durability::Flush, Expect::Any)?;
    let text = std::fs::read(file_of(&home, &key)?)?;
    Ok(text.split_inclusive(|b| *b == b'\n').skip(1).map(<[u8]>::to_vec).collect())
}

/// Few enough to stay in the processor's cache, where a turn that was just made is too.
const TURNS: usize = 500;
pub(crate) const CONTENT_BYTES: usize = 1000;
/// Rounds of about two milliseconds: on a shared machine most of them then pass undisturbed, and a variant that takes
/// longer is not disturbed more often than one that takes less.
const RECORDS: usize = 800;
const NAIVE_RECORDS: usize = 300;
/// Several checkpoints' worth: they are part of what an insert costs.
const SQLITE_RECORDS: usize = 2_000;
