//! The peers that ours is compared with: the code that most agents have, and `SQLite`.
//!
//! The naive store is `zeroclaw`'s `session_store.rs`, line by line in spirit: open, append, `writeln!`, close; load
//! with `BufReader::lines` and `serde_json` into owned strings. It writes no time and no checksum, so its records are
//! shorter than ours: the comparison is in its favour.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::Turn;

/// A turn as the naive store keeps it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: String,
    pub(crate) content: String,
}

#[derive(Serialize)]
struct MessageRef<'a> {
    role: &'a str,
    content: &'a str,
}

/// One turn as the naive store writes it.
pub(crate) fn naive_line(turn: &Turn) -> Result<String> {
    Ok(serde_json::to_string(&MessageRef { role: turn.role, content: &turn.content })?)
}

/// The naive append. `writeln!` on a file is two write calls; that is what people write.
pub(crate) fn naive_append(path: &Path, turn: &Turn) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{}", naive_line(turn)?)?;
    Ok(())
}

/// The naive load.
pub(crate) fn naive_load(path: &Path) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for line in BufReader::new(File::open(path)?).lines() {
        messages.push(serde_json::from_str(&line?)?);
    }
    Ok(messages)
}

/// Loads a file of ours as [`naive_load`] does: its header is no message, and is passed over.
pub(crate) fn naive_lines(path: &Path) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for line in BufReader::new(File::open(path)?).lines().skip(1) {
        messages.push(serde_json::from_str(&line?)?);
    }
    Ok(messages)
}

/// An item of a memory as a program would declare it, or what forgets one.
#[derive(Debug, Deserialize)]
pub(crate) struct Remembered {
    id: u64,
    ts: String,
    kind: String,
    #[serde(default)]
    pub(crate) content: String,
    #[serde(default)]
    #[expect(dead_code, reason = "whoever loads a memory wants them")]
    tags: Vec<String>,
    #[serde(default)]
    target: u64,
}

/// Reads a memory as one would without a library: active items, newest first.
pub(crate) fn naive_memory(path: &Path) -> Result<Vec<Remembered>> {
    let mut active = HashMap::new();
    for line in BufReader::new(File::open(path)?).lines() {
        let item: Remembered = serde_json::from_str(&line?)?;
        if item.kind == "forget" {
            active.remove(&item.target);
        } else {
            active.insert(item.id, item);
        }
    }
    let mut items: Vec<Remembered> = active.into_values().collect();
    items.sort_by(|a, b| (&b.ts, b.id).cmp(&(&a.ts, a.id)));
    Ok(items)
}

/// The `synchronous` setting of `SQLite`: when it waits for the disk.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Synchronous {
    /// Only at a checkpoint: a power cut may lose the last commits, as our Flush may.
    Normal,
    /// At every commit, as our Sync does.
    Full,
}

/// A `SQLite` database with one table of turns, in WAL mode.
pub(crate) struct Sqlite {
    connection: rusqlite::Connection,
}

impl Sqlite {
    pub(crate) fn create(path: &Path, synchronous: Synchronous) -> Result<Sqlite> {
        let connection = rusqlite::Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let word = match synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", word)?;
        connection
            .execute_batch("CREATE TABLE turns(seq INTEGER PRIMARY KEY, ts TEXT, role TEXT, content TEXT)")?;
        Ok(Sqlite { connection })
    }

    /// One insert, one transaction, through a statement that is prepared once.
    pub(crate) fn append(&self, turn: &Turn) -> Result<()> {
        let mut insert =
            self.connection.prepare_cached("INSERT INTO turns(ts, role, content) VALUES (?1, ?2, ?3)")?;
        insert.execute((&turn.ts, turn.role, &turn.content))?;
        Ok(())
    }
}
