//! One turn of 1 KB that must survive a power cut: write, then wait for the disk.
//!
//! The disk is all of the cost, so ours can only add to the bare write and fdatasync of the same bytes; the goal is to
//! add nothing that can be felt. All files grow, as sessions do. `SQLite` syncs a log of its own that it writes
//! over and over, which some file systems do faster than letting a file grow: it is shown for that reason.

use std::fs::OpenOptions;
use std::io::Write;

use manent::{Body, Durability, Expect, SessionKey, Store, write_turn};

use crate::append::{CONTENT_BYTES, written_lines};
use crate::data::{Turn, Turns};
use crate::measure::{interleaved, micros_each};
use crate::peers::{Sqlite, Synchronous};
use crate::row::{Goal, Row};
use crate::{Bench, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("sync")?;
    let turns = Turns::of_one_size(2, RECORDS, CONTENT_BYTES);
    let lines = written_lines(&dir, &turns)?;

    let mut session = Store::open(dir.join("store"))?.session(&SessionKey::new("sync")?)?;
    let mut body = Body::new();
    let mut ours = |turn: &Turn| -> Result<()> {
        write_turn(&mut body, &turn.ts, turn.role, &turn.content);
        session.append_with(std::slice::from_ref(&body), Durability::Sync, Expect::Any)?;
        Ok(())
    };
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join("bare.jsonl"))?;
    let mut bare = |line: &Vec<u8>| -> Result<()> {
        file.write_all(line)?;
        file.sync_data()?;
        Ok(())
    };
    let database = Sqlite::create(&dir.join("sqlite.db"), Synchronous::Full)?;

    // Many short rounds: a disk has slow moments, and they should fall on everyone.
    let [ours, bare, sqlite] = interleaved(
        bench.rounds(90),
        [
            &mut || micros_each(RECORDS, || turns.iter().try_for_each(&mut ours)),
            &mut || micros_each(RECORDS, || lines.iter().try_for_each(&mut bare)),
            &mut || micros_each(RECORDS, || turns.iter().try_for_each(|turn| database.append(turn))),
        ],
    )?;
    let row = |peer: &str, cost, goal| Row::new("append 1 KB, Sync", ours, "us", peer, cost, goal);
    Ok(vec![
        row("bare write() + fdatasync", bare, Goal::Within(1.1)),
        row("SQLite WAL FULL", sqlite, Goal::Inform),
    ])
}

const RECORDS: usize = 40;
