//! A backend in a database of `SQLite`, written from the documentation of `manent_store` alone: it shows that the seam
//! can be implemented without files, and what that takes.
//!
//! A stream is a row of `streams` with its lines in `lines`. Appending adds lines. Whatever else changes a stream makes
//! another row and leaves the old one without a place, until the last reader of it is gone. One process uses a database
//! at a time: leases and locks are those of its threads.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use manent_log::{Body, Damage, Durability, Entry, KeyIndex, KeyRule, KeyedLine, Occurrence, Report};
use manent_store::holders::{Holders, Holding};
use manent_store::rows::{self, Line, RowReader, Rows};
use manent_store::streams::{compare_streams, now_ms};
use manent_store::sync::lock;
use manent_store::{
    Append, Changes, Cursor, Error, Filter, Header, HeaderNames, IfMissing, KnownStreams, Lock, LockMode,
    LockName, Maintenance, NewHeader, Parts, Place, Position, Progress, Receipt, Repaired, Replaced, Result,
    SessionKey, Space, StreamId, StreamReader, StreamStat, StreamWriter, Streams, Target, Version,
};
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, named_params, params};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS streams (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        space INTEGER NOT NULL,
        place INTEGER,
        key TEXT NOT NULL,
        id TEXT NOT NULL,
        came_from INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        count INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS by_key ON streams (space, key, place);
    CREATE TABLE IF NOT EXISTS lines (
        stream INTEGER NOT NULL,
        position INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        verified INTEGER NOT NULL,
        bytes BLOB NOT NULL,
        PRIMARY KEY (stream, position)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS by_seq ON lines (stream, seq);
    CREATE TABLE IF NOT EXISTS left_out (space INTEGER, key TEXT, bytes BLOB);
";

/// Streams in a database.
pub(crate) struct Sqlite {
    shared: Arc<Shared>,
}

/// What the backend, its writers and its readers share.
struct Shared {
    name: String,
    db: Mutex<Connection>,
    /// How many readers each stream has.
    readers: Mutex<HashMap<i64, u64>>,
    /// The keys of streams that were appended to.
    keys: Mutex<HashMap<i64, KeyIndex>>,
    holders: Arc<Holders>,
}

/// A stream, and where it is.
struct Kept {
    number: i64,
    count: i64,
    stat: StreamStat,
}

impl Sqlite {
    /// Opens a database, which is made if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Sqlite> {
        let db = Connection::open(path).map_err(backend)?;
        db.execute_batch("PRAGMA journal_mode = WAL;")
            .and_then(|()| db.execute_batch(SCHEMA))
            .map_err(backend)?;
        let (readers, keys, holders) = (Mutex::default(), Mutex::default(), Arc::default());
        let name = path.display().to_string();
        Ok(Sqlite { shared: Arc::new(Shared { name, db: Mutex::new(db), readers, keys, holders }) })
    }
}

impl Shared {
    fn db(&self) -> MutexGuard<'_, Connection> {
        lock(&self.db)
    }

    /// Writes in one transaction, which survives power loss unless the caller wants speed.
    fn write<T>(&self, durability: Durability, act: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut db = self.db();
        let synchronous = if durability == Durability::Flush { "OFF" } else { "FULL" };
        db.pragma_update(None, "synchronous", synchronous).map_err(backend)?;
        let transaction = db.transaction().map_err(backend)?;
        let done = act(&transaction)?;
        transaction.commit().map_err(backend)?;
        Ok(done)
    }

    /// Returns the streams that a condition selects.
    fn select(&self, condition: &str, values: impl Params) -> Result<Vec<Kept>> {
        let db = self.db();
        let columns = "number, space, place, key, id, came_from, changed_ms, count, bytes";
        let query = format!("SELECT {columns} FROM streams WHERE place IS NOT NULL AND {condition}");
        let mut statement = db.prepare_cached(&query).map_err(backend)?;
        let rows = statement.query_map(values, kept_of).map_err(backend)?;
        rows.collect::<rusqlite::Result<_>>().map_err(backend)
    }

    fn find(&self, at: &StreamId) -> Result<Kept> {
        let condition = "space = ?1 AND key = ?2 AND place = ?3 AND (id = ?4 OR ?4 = '' AND place = 0)";
        let values = params![number_of(at.space), at.key.as_str(), number_in(at.place), at.id];
        self.select(condition, values)?.pop().ok_or_else(|| Error::not_found(at, &self.name))
    }

    fn lines(&self, number: i64) -> Result<Vec<Line>> {
        let db = self.db();
        let query = "SELECT seq, bytes, verified FROM lines WHERE stream = ? ORDER BY position";
        let mut statement = db.prepare_cached(query).map_err(backend)?;
        let rows = statement.query_map([number], line_of).map_err(backend)?;
        rows.collect::<rusqlite::Result<_>>().map_err(backend)
    }

    fn line(&self, number: i64, position: i64) -> Result<Option<Line>> {
        let query = "SELECT seq, bytes, verified FROM lines WHERE stream = ? AND position = ?";
        let db = self.db();
        let mut statement = db.prepare_cached(query).map_err(backend)?;
        statement.query_row([number, position], line_of).optional().map_err(backend)
    }

    fn count(&self, number: i64) -> Result<u64> {
        let query = "SELECT count FROM streams WHERE number = ?";
        let count: i64 = self.db().query_row(query, [number], |row| row.get(0)).map_err(backend)?;
        Ok(count.cast_unsigned())
    }

    /// Takes the lease of a stream, which need not exist. The live stream of a key has one, whatever its id.
    fn hold(&self, at: &StreamId, wait: Duration) -> Result<Holding> {
        let id = if at.place == Place::Live { "" } else { &at.id };
        let name = format!("lease {:?} {:?} {id} {}", at.space, at.place, at.key);
        let pid = Some(std::process::id());
        let held = || manent_log::Error::Held { path: rows::path_of(at), pid }.into();
        self.holders.take(&name, LockMode::Exclusive, wait).ok_or_else(held)
    }

    /// Takes the lease of a live stream that is to begin, so that nobody else begins one.
    fn hold_free(&self, at: &StreamId) -> Result<Holding> {
        let at = StreamId::live_in(at.space, &at.key);
        let hint = "archive it first, or choose another key";
        let in_the_way = || Error::InTheWay { key: at.key.to_string(), place: Place::Live, hint };
        let held = self.hold(&at, Duration::ZERO).map_err(|_| in_the_way())?;
        match self.find(&at) {
            Ok(_) => Err(in_the_way()),
            Err(e) if e.is_not_found() => Ok(held),
            Err(e) => Err(e),
        }
    }

    /// Makes the lines of a stream that is written as a whole.
    fn write_parts(&self, at: &StreamId, header: Option<&Body>, parts: Parts<'_>) -> Result<Vec<Line>> {
        rows::write_parts(at, header, parts, |of| self.lines(self.find(of)?.number))
    }

    /// Removes the lines of a stream that has no place, unless somebody reads it. The number of readers is held, so
    /// that none can come meanwhile.
    fn forget(&self, number: i64, readers: &HashMap<i64, u64>) -> Result<()> {
        if readers.contains_key(&number) {
            return Ok(());
        }
        self.write(Durability::Flush, |transaction| {
            let gone = "DELETE FROM streams WHERE number = ? AND place IS NULL";
            if execute(transaction, gone, [number])? > 0 {
                lock(&self.keys).remove(&number);
                execute(transaction, "DELETE FROM lines WHERE stream = ?", [number])?;
            }
            Ok(())
        })
    }
}

/// Begins a stream and returns its number.
fn begin(transaction: &Transaction<'_>, at: &StreamId, from: Place) -> Result<i64> {
    let query =
        "INSERT INTO streams (space, place, key, id, came_from, changed_ms) VALUES (?, ?, ?, ?, ?, ?)";
    let (space, place, from) = (number_of(at.space), number_in(at.place), number_in(from));
    execute(transaction, query, params![space, place, at.key.as_str(), at.id, from, now_ms()])?;
    Ok(transaction.last_insert_rowid())
}

/// Adds lines to a stream and returns the position of the first.
fn push(transaction: &Transaction<'_>, number: i64, lines: &[Line]) -> Result<i64> {
    let count = "SELECT count FROM streams WHERE number = ?";
    let first: i64 = transaction.query_row(count, [number], |row| row.get(0)).map_err(backend)?;
    for (position, line) in (first..).zip(lines) {
        let query = "INSERT INTO lines VALUES (?, ?, ?, ?, ?)";
        let seq = line.seq.cast_signed();
        execute(transaction, query, params![number, position, seq, line.verified, &*line.bytes])?;
    }
    let bytes = lines.iter().map(Line::len).sum::<u64>().cast_signed();
    let query = "UPDATE streams SET count = count + :count, bytes = bytes + :bytes,
                 changed_ms = MAX(changed_ms, :now) WHERE number = :number";
    let values = named_params! {
        ":count": signed(lines.len() as u64), ":bytes": bytes, ":now": now_ms(), ":number": number
    };
    execute(transaction, query, values)?;
    Ok(first)
}

/// Takes a stream out of its place.
fn take_out(transaction: &Transaction<'_>, number: i64) -> Result<()> {
    execute(transaction, "UPDATE streams SET place = NULL WHERE number = ?", [number]).map(|_| ())
}

fn execute(transaction: &Transaction<'_>, query: &str, values: impl Params) -> Result<usize> {
    transaction.prepare_cached(query).and_then(|mut statement| statement.execute(values)).map_err(backend)
}

fn line_of(row: &Row<'_>) -> rusqlite::Result<Line> {
    let (seq, bytes): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
    Ok(Line { seq: seq.cast_unsigned(), bytes: bytes.into(), verified: row.get(2)? })
}

fn kept_of(row: &Row<'_>) -> rusqlite::Result<Kept> {
    let (number, count): (i64, i64) = (row.get(0)?, row.get(7)?);
    let (key, id): (String, String) = (row.get(3)?, row.get(4)?);
    let (space, place, from): (u32, u32, u32) = (row.get(1)?, row.get(2)?, row.get(5)?);
    let key = SessionKey::new(key).map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
    let stat = StreamStat {
        name: format!("{id} {key}"),
        id: StreamId { space: Space::ALL[space as usize], place: Place::ALL[place as usize], key, id },
        version: Version::new([number.cast_unsigned(), count.cast_unsigned(), 0, 0, 0]),
        bytes: row.get::<_, i64>(8)?.cast_unsigned(),
        modified_ms: row.get(6)?,
        from: Place::ALL[from as usize],
        header_key: None,
    };
    Ok(Kept { number, count, stat })
}

fn number_of(space: Space) -> u32 {
    Space::ALL.iter().position(|other| *other == space).unwrap_or_default() as u32
}

fn number_in(place: Place) -> u32 {
    Place::ALL.iter().position(|other| *other == place).unwrap_or_default() as u32
}

/// Returns the id that a header gives; empty if there is no header.
fn id_of(header: Option<&Line>) -> String {
    let header = header.filter(|line| line.seq == 0);
    header.and_then(|line| HeaderNames::of_line(&line.bytes)).unwrap_or_default().id
}

fn backend(error: rusqlite::Error) -> Error {
    Error::Backend(Box::new(error))
}

/// Returns a number as the database can compare it.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Streams for Sqlite {
    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn supports(&self, _space: Space) -> bool {
        true
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        // Counted before it is looked for, so that nobody removes its lines in between.
        let mut readers = lock(&self.shared.readers);
        let kept = match at {
            Target::Id(id) => self.shared.find(id)?,
            Target::Name { space, place, name } => {
                let all = self.shared.select("space = ?", [number_of(space)])?;
                let found =
                    all.into_iter().find(|kept| kept.stat.id.place == place && kept.stat.name == name);
                found.ok_or_else(|| Error::no_name(space, place, name, &self.shared.name))?
            }
        };
        *readers.entry(kept.number).or_default() += 1;
        drop(readers);
        let (shared, number, id) = (self.shared.clone(), kept.number, kept.stat.id);
        Ok(Box::new(RowReader::new(SqliteRows { shared, number, id })?))
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        Ok(Box::new(SqliteWriter::take(&self.shared, id, missing, wait)?))
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &Append<'_>,
    ) -> Result<Vec<Receipt>> {
        let mut writer = SqliteWriter::take(&self.shared, id, IfMissing::Create(new), how.wait)?;
        writer.append(records, how)
    }

    fn list(&self, filter: &Filter<'_>) -> Result<Vec<StreamStat>> {
        let all = self.shared.select("space = ?", [number_of(filter.space)])?;
        let stats = all.into_iter().map(|kept| kept.stat);
        Ok(filter.arrange(stats.filter(|stat| filter.takes(stat)).collect()))
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, _since: &Cursor) -> Result<Changes> {
        let all = self.shared.select("space = ?", [number_of(space)])?.into_iter().map(|kept| kept.stat);
        let grew = |was: Version, now: Version| {
            let ([was, before, ..], [is, count, ..]) = (was.words(), now.words());
            was == is && count > before
        };
        Ok(Changes { streams: compare_streams(known, all, grew), ..Changes::default() })
    }

    fn create(&self, id: &StreamId, header: &Header, parts: Parts<'_>) -> Result<()> {
        id.check_key()?;
        let _lease = self.shared.hold_free(id)?;
        let lines = self.shared.write_parts(id, Some(&header.body), parts)?;
        let at = StreamId { id: header.id.clone(), ..id.clone() };
        self.shared.write(Durability::Sync, |transaction| {
            let number = begin(transaction, &at, Place::Live)?;
            push(transaction, number, &lines).map(|_| ())
        })
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        let shared = &self.shared;
        id.check_place(to, &shared.name)?;
        shared.find(id)?;
        let _lease = shared.hold(id, wait)?;
        let Kept { number, stat, .. } = shared.find(id)?;
        let mut at = StreamId { place: to, ..stat.id };
        if to == id.place {
            return Ok(at);
        }
        let _target = if to == Place::Live { Some(shared.hold_free(id)?) } else { None };
        if to == Place::Live {
            at.id = id_of(shared.line(number, 0)?.as_ref());
        } else if at.id.is_empty() || shared.find(&at).is_ok() {
            // Another program's stream has no id of its own, and another stream may have the same one.
            at.id = format!("moved-{number}-{}", now_ms());
        }
        let from = if to == Place::Trash { id.place } else { to };
        let query = "UPDATE streams SET place = ?, id = ?, came_from = ?, changed_ms = MAX(changed_ms, ?)
                     WHERE number = ?";
        let values = params![number_in(to), at.id, number_in(from), now_ms(), number];
        shared.write(Durability::Sync, |transaction| execute(transaction, query, values))?;
        Ok(at)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        self.shared.find(id)?;
        let _lease = self.shared.hold(id, wait)?;
        let Kept { number, .. } = self.shared.find(id)?;
        let readers = lock(&self.shared.readers);
        self.shared.write(Durability::Sync, |transaction| take_out(transaction, number))?;
        self.shared.forget(number, &readers)
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.shared.find(id)?;
        sync(&self.shared)
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        let busy = || Error::Busy { path: self.shared.name.clone().into(), pid: Some(std::process::id()) };
        let held = self.shared.holders.take(&format!("{name:?}"), mode, wait).ok_or_else(busy)?;
        Ok(Box::new(held))
    }

    fn may_contain(&self, id: &StreamId, bytes: &[u8]) -> Result<bool> {
        let Kept { number, .. } = match self.shared.find(id) {
            Err(e) if e.is_not_found() => return Ok(false),
            found => found?,
        };
        let query = "SELECT EXISTS (SELECT 1 FROM lines WHERE stream = ? AND INSTR(bytes, ?) > 0)";
        self.shared.db().query_row(query, params![number, bytes], |row| row.get(0)).map_err(backend)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

/// Makes all that was written survive power loss.
fn sync(shared: &Shared) -> Result<()> {
    let db = shared.db();
    db.pragma_update(None, "synchronous", "FULL").map_err(backend)?;
    db.query_row("PRAGMA wal_checkpoint(FULL)", [], |_| Ok(())).map_err(backend)
}

impl Maintenance for Sqlite {
    fn verify(&self, id: &StreamId, progress: Progress<'_>) -> Result<Report> {
        Ok(rows::verify_rows(&self.shared.lines(self.shared.find(id)?.number)?, progress))
    }

    fn repair(&self, id: &StreamId, _ts: &str, _wait: Duration) -> Result<Repaired> {
        // The database tears nothing.
        self.shared.find(id).map(|_| Repaired::default())
    }

    fn pack(&self, id: &StreamId, progress: Progress<'_>) -> Result<()> {
        let bytes = self.shared.find(id)?.stat.bytes;
        progress(bytes, bytes);
        Ok(())
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// A stream being read.
struct SqliteRows {
    shared: Arc<Shared>,
    number: i64,
    id: StreamId,
}

impl Rows for SqliteRows {
    fn count(&self) -> Result<u64> {
        self.shared.count(self.number)
    }

    fn line(&self, index: u64) -> Result<Option<Line>> {
        self.shared.line(self.number, signed(index))
    }

    fn first_from(&self, seq: u64) -> Result<u64> {
        let query = "SELECT MIN(position) FROM lines WHERE stream = ? AND seq >= ?";
        let values = params![self.number, signed(seq)];
        let found: Option<i64> =
            self.shared.db().query_row(query, values, |row| row.get(0)).map_err(backend)?;
        found.map_or_else(|| self.count(), |position| Ok(position.cast_unsigned()))
    }

    fn is_current(&self) -> Result<bool> {
        match self.shared.find(&self.id) {
            Err(e) if e.is_not_found() => Ok(false),
            found => Ok(found?.number == self.number),
        }
    }

    fn number(&self) -> u64 {
        self.number.cast_unsigned()
    }
}

impl Drop for SqliteRows {
    fn drop(&mut self) {
        let mut readers = lock(&self.shared.readers);
        if let Some(count) = readers.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                readers.remove(&self.number);
            }
        }
        // What is left over is in nobody's way, and goes with the next reader.
        let _ = self.shared.forget(self.number, &readers);
    }
}

impl fmt::Debug for SqliteRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteRows").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The right to write a stream.
struct SqliteWriter {
    shared: Arc<Shared>,
    at: StreamId,
    id: Arc<str>,
    header: Option<Line>,
    /// `None` as long as the stream has no record, so that nobody may see it.
    number: Option<i64>,
    next_seq: u64,
    _lease: Holding,
}

impl SqliteWriter {
    fn take(
        shared: &Arc<Shared>,
        at: &StreamId,
        missing: IfMissing<'_>,
        wait: Duration,
    ) -> Result<SqliteWriter> {
        at.check_key()?;
        let lease = shared.hold(at, wait)?;
        let (number, id, header, last) = match (shared.find(at), missing) {
            (Ok(Kept { number, count, stat }), _) => {
                let header = shared.line(number, 0)?.filter(|line| line.seq == 0);
                (Some(number), stat.id.id, header, shared.line(number, count - 1)?)
            }
            (Err(e), IfMissing::Create(new))
                if e.is_not_found() && *at == StreamId::live_in(at.space, &at.key) =>
            {
                let Header { id, body } = new();
                (None, id, Some(Line::record(at, 0, &body)?), None)
            }
            (Err(e), _) => return Err(e),
        };
        let next_seq = rows::next_seq(header.as_ref(), last.as_ref());
        let (shared, at) = (shared.clone(), at.clone());
        Ok(SqliteWriter { shared, at, id: id.into(), header, number, next_seq, _lease: lease })
    }

    /// Does something with the keys of the records, up to date.
    fn with_keys<T>(&self, rule: &KeyRule, act: impl FnOnce(&KeyIndex) -> Result<T>) -> Result<T> {
        let Some(number) = self.number else { return act(&KeyIndex::new(rule)) };
        let mut all = lock(&self.shared.keys);
        let keys = all.entry(number).or_default();
        let count = self.shared.count(number)?;
        rows::catch_up(keys, rule, count, |position| self.shared.line(number, signed(position)))?;
        act(keys)
    }

    /// Keeps what is left out of a stream that is replaced.
    fn keep_left_out(&self, transaction: &Transaction<'_>, number: i64, left_out: &[Damage]) -> Result<()> {
        let query = "INSERT INTO left_out SELECT ?, ?, bytes FROM lines
                     WHERE stream = ? AND position >= ? AND position < ? + MAX(?, 1)";
        for damage in left_out {
            let (first, lines) = (signed(damage.offset), signed(damage.lines));
            let space = number_of(self.at.space);
            execute(transaction, query, params![space, self.at.key.as_str(), number, first, first, lines])?;
        }
        Ok(())
    }
}

impl StreamWriter for SqliteWriter {
    fn append(&mut self, bodies: &[Body], how: &Append<'_>) -> Result<Vec<Receipt>> {
        self.at.check_live()?;
        let durability = how.durability;
        let plan = |keys: &KeyIndex| rows::plan_append(&self.at, bodies, how, self.next_seq, keys);
        let planned = self.with_keys(how.keys, plan)?;
        let begins = self.number.is_none();
        if planned.lines.is_empty() {
            if durability != Durability::Flush {
                sync(&self.shared)?;
            }
            return Ok(planned.receipts(&self.id, 0));
        }
        let (number, first) = self.shared.write(durability, |transaction| {
            let at = StreamId { id: self.id.to_string(), ..self.at.clone() };
            let number = self.number.map_or_else(|| begin(transaction, &at, Place::Live), Ok)?;
            if begins {
                push(transaction, number, self.header.as_slice())?;
            }
            Ok((number, push(transaction, number, &planned.lines)?))
        })?;
        self.number = Some(number);
        self.next_seq += planned.lines.len() as u64;
        Ok(planned.receipts(&self.id, first.cast_unsigned()))
    }

    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        self.at.check_live()?;
        let found = self.with_keys(rule, |keys| Ok(keys.find(key, which)))?;
        let (Some(place), Some(number)) = (found, self.number) else { return Ok(None) };
        let Some(line) = self.shared.line(number, signed(place.offset))? else { return Ok(None) };
        let (seq, offset, bytes) = (place.seq, place.offset, line.bytes.to_vec());
        Ok(Some(KeyedLine { seq, offset, bytes, is_kept: false }))
    }

    fn keep_from(&mut self, _position: Position) -> Result<()> {
        sync(&self.shared)
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: Parts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let lines = self.shared.write_parts(&self.at, header, parts)?;
        let Kept { number, stat, .. } = self.shared.find(&self.at)?;
        let mut at = stat.id;
        if at.place == Place::Live {
            at.id = id_of(lines.first());
        }
        let readers = lock(&self.shared.readers);
        self.shared.write(Durability::Sync, |transaction| {
            self.keep_left_out(transaction, number, left_out)?;
            take_out(transaction, number)?;
            let new = begin(transaction, &at, stat.from)?;
            push(transaction, new, &lines)
        })?;
        self.shared.forget(number, &readers)?;
        Ok(Replaced { bytes: lines.iter().map(Line::len).sum(), set_aside: None })
    }

    fn acknowledge(&mut self, _ts: &str) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    fn next_seq(&self) -> u64 {
        self.next_seq
    }

    fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn header(&self) -> Option<Entry<'_>> {
        self.header.as_ref().filter(|_| self.number.is_some()).map(|line| line.entry(0))
    }

    fn is_new(&self) -> bool {
        self.number.is_none()
    }

    fn is_native(&self) -> bool {
        self.header.is_some()
    }

    fn is_finished(&self) -> bool {
        false
    }
}

impl fmt::Debug for SqliteWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteWriter").field("at", &self.at).finish_non_exhaustive()
    }
}
