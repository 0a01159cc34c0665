//! A backend in one `SQLite` database, written from the documentation of the traits.
//!
//! The name of a stream, a row of `streams`, is apart from its content, a row of `contents` and its `lines`.
//! Moving a stream changes its name; replacing it gives the name another content. A reader reads a content,
//! whatever becomes of the name. A content without a name is kept until its last reader is gone.
//!
//! The database is locked for as long as a process has it open, so leases and locks need to be known to the
//! threads of this process alone. They share one connection, and let go of it before a caller's code runs.
//!
//! Every change is one transaction. A commit is synced, for [`Durability::Group`] too, but not for
//! [`Durability::Flush`]: its record survives the process, and power loss after the next sync or checkpoint.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::{
    Body, Damage, Durability, Entry, KeyIndex, KeyRule, KeyedLine, Occurrence, Reach, RecordPlace,
    VerifyReport,
};
use manent_store::rows::{
    RowReader, Rows, StoredLine, catch_up, next_seq, path_of, plan_append, verify_rows, write_parts,
};
use manent_store::sync::lock;
use manent_store::thread_locks::{ThreadLockGuard, ThreadLocks};
use manent_store::{
    AppendOptions, Changes, Cursor, Error, HeaderNames, IfMissing, KnownStreams, Lock, LockMode, LockName,
    Maintenance, NewHeader, Place, Position, ProgressFn, Receipt, Repaired, Replaced, Result, ScanTime,
    SessionKey, Space, StreamFilter, StreamHeader, StreamId, StreamParts, StreamReader, StreamStat,
    StreamWriter, Streams, Target, Version, clock::now_ms, streams::compare_streams,
};
use rusqlite::Error::InvalidColumnType;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction, TransactionBehavior, params};

/// Makes the tables. Numbers of streams and contents are never used again: readers and versions rely on that.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS contents (content INTEGER PRIMARY KEY AUTOINCREMENT,
        header_id TEXT NOT NULL, header_key TEXT NOT NULL,
        lines INTEGER NOT NULL, bytes INTEGER NOT NULL, modified_ms INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS lines (content INTEGER NOT NULL REFERENCES contents ON DELETE CASCADE,
        position INTEGER NOT NULL, seq INTEGER NOT NULL, verified INTEGER NOT NULL, bytes BLOB NOT NULL,
        PRIMARY KEY (content, position));
    CREATE INDEX IF NOT EXISTS lines_by_seq ON lines (content, seq, position);
    CREATE TABLE IF NOT EXISTS streams (stream INTEGER PRIMARY KEY AUTOINCREMENT,
        space TEXT NOT NULL, place TEXT NOT NULL, former_place TEXT NOT NULL, key TEXT NOT NULL,
        id TEXT NOT NULL, content INTEGER NOT NULL UNIQUE REFERENCES contents);
    CREATE UNIQUE INDEX IF NOT EXISTS streams_by_name ON streams (space, place, key, id);
    CREATE UNIQUE INDEX IF NOT EXISTS live_streams ON streams (space, key) WHERE place = 'live';
    CREATE TABLE IF NOT EXISTS set_aside (stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
        bytes BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS set_aside_by_stream ON set_aside (stream);
    DELETE FROM contents WHERE content NOT IN (SELECT content FROM streams);
";

/// The number of indexes of keys that are remembered; beyond it, all are forgotten and read again.
const INDEXES_MAX: usize = 256;

/// The numbers of open readers of each content that has any.
type Readers = HashMap<i64, usize>;

/// The keys of the records of contents, by content and name of the rule.
type Indexes = HashMap<(i64, &'static str), Arc<Mutex<KeyIndex>>>;

/// The result of a query.
type Sql<T> = rusqlite::Result<T>;

/// Streams in a database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    shared: Arc<Shared>,
}

/// The parts of a backend that its readers and writers use too.
struct Shared {
    path: PathBuf,
    database: Mutex<Database>,
    holders: Arc<ThreadLocks>,
    indexes: Mutex<Indexes>,
}

/// The connection and all that must change together with it.
struct Database {
    connection: Connection,
    readers: Readers,
}

/// A stream that is there.
#[derive(Debug)]
struct Found {
    stream: i64,
    content: i64,
    id: String,
    header_id: String,
    modified_ms: i64,
}

/// The lines of a content, which stays there as long as this.
#[derive(Debug)]
struct Lines {
    shared: Arc<Shared>,
    content: i64,
    place: Place,
}

/// A lease of a stream.
#[derive(Debug)]
struct Writer {
    shared: Arc<Shared>,
    at: StreamId,
    /// The stream, or `None` until it begins.
    found: Option<Found>,
    id: Arc<str>,
    /// The header that is written, or that the first record brings along.
    header: Option<StoredLine>,
    count: u64,
    next: u64,
    is_finished: bool,
    _lease: ThreadLockGuard,
}

impl Sqlite {
    /// Opens a database, or makes it. Waits some seconds for another process to close it.
    pub(crate) fn open(path: &Path) -> Result<Sqlite> {
        let connection = connect(path).map_err(backend)?;
        let database = Mutex::new(Database { connection, readers: Readers::new() });
        let (holders, indexes) = (Arc::default(), Mutex::default());
        Ok(Sqlite { shared: Arc::new(Shared { path: path.to_owned(), database, holders, indexes }) })
    }

    /// Takes a lease. Outside the live place, and of a stream that is named by an id, none is begun.
    fn writer(&self, at: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Writer> {
        let shared = Arc::clone(&self.shared);
        let lease = shared.hold(at, wait)?;
        let found = shared.read(|connection| find(connection, at))?;
        let (id, count, first, last) = match (&found, missing) {
            (Some(found), _) => {
                let count = shared.count(found.content)?;
                let last = shared.line(found.content, count.saturating_sub(1))?;
                (found.id.clone(), count, shared.line(found.content, 0)?, last)
            }
            (None, IfMissing::Create(new)) if at.place == Place::Live && at.id.is_empty() => {
                let header = new();
                let line = StoredLine::record(at, 0, &header.body)?;
                (header.id, 0, Some(line.clone()), Some(line))
            }
            (None, _) => return Err(Error::not_found(at, &self.name())),
        };
        let next = next_seq(first.as_ref(), last.as_ref());
        let (at, id, header) = (at.clone(), id.into(), first.filter(|line| line.verified && line.seq == 0));
        Ok(Writer { shared, at, found, id, header, count, next, is_finished: false, _lease: lease })
    }

    /// Takes the lease of the live stream of a key for whoever makes one, and makes sure that there is none.
    fn hold_vacant(&self, space: Space, key: &SessionKey) -> Result<ThreadLockGuard> {
        let live = StreamId::live_in(space, key);
        let hint = "archive or delete it first, or wait until its writer is done";
        let in_the_way = || Error::InTheWay { key: key.to_string(), place: Place::Live, hint };
        let lease = self.shared.hold(&live, Duration::ZERO).map_err(|_| in_the_way())?;
        let found = self.shared.read(|connection| find(connection, &live))?;
        if found.is_some() { Err(in_the_way()) } else { Ok(lease) }
    }
}

impl Streams for Sqlite {
    fn name(&self) -> String {
        self.shared.name()
    }

    fn supports(&self, _space: Space) -> bool {
        true
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        let lines = self.shared.open_lines(at)?.ok_or_else(|| match at {
            Target::Id(id) => Error::not_found(id, &self.name()),
            Target::Name { space, place, name } => Error::no_name(space, place, name, &self.name()),
        });
        Ok(Box::new(RowReader::new(lines?)?))
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        if matches!(missing, IfMissing::Create(_)) {
            id.check_key()?;
        }
        Ok(Box::new(self.writer(id, missing, wait)?))
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        id.check_live()?;
        id.check_key()?;
        self.prefetch_keys(id, how.keys)?;
        self.writer(id, IfMissing::Create(new), how.wait)?.append(records, how)
    }

    fn list(&self, which: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        let mut all = self.shared.read(|connection| stats(connection, which.space))?;
        all.retain(|stat| which.takes(stat));
        Ok(which.arrange(all))
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, _since: &Cursor) -> Result<Changes> {
        let moment = ScanTime::new(now_ms());
        let all = self.shared.read(|connection| stats(connection, space))?;
        // The same content, and not shorter.
        let grew =
            |old: Version, new: Version| old.words()[0] == new.words()[0] && old.words()[1] <= new.words()[1];
        Ok(Changes { moment, streams: compare_streams(known, all, grew), cursor: Cursor::default() })
    }

    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()> {
        id.check_live()?;
        id.check_key()?;
        let _lease = self.hold_vacant(id.space, &id.key)?;
        let lines = write_parts(id, Some(&header.body), parts, |of| self.shared.lines_of(of))?;
        self.shared.write(id, Durability::Sync, |tx, _| insert_stream(tx, id, &header.id, &lines)).map(drop)
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        id.check_place(to, &self.name())?;
        let (found, _lease) = self.shared.hold_found(id, wait)?;
        if id.place == to {
            return Ok(StreamId { id: found.id, ..id.clone() });
        }
        let _vacant = if to == Place::Live { Some(self.hold_vacant(id.space, &id.key)?) } else { None };
        self.shared.write(id, Durability::Sync, |tx, _| {
            // A live stream has the id of its header, which other programs' streams do not have.
            let new_id = if to == Place::Live { found.header_id } else { found.id };
            let mut new = StreamId { place: to, id: new_id, ..id.clone() };
            if to != Place::Live && (new.id.is_empty() || find(tx, &new)?.is_some()) {
                new.id = tx.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?;
            }
            let sql = "UPDATE streams SET place = ?2, id = ?3, former_place = place WHERE stream = ?1";
            tx.execute(sql, params![found.stream, to.word(), new.id])?;
            Ok(new)
        })
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        let (found, _lease) = self.shared.hold_found(id, wait)?;
        self.shared.write(id, Durability::Sync, |tx, readers| {
            tx.execute("DELETE FROM streams WHERE stream = ?1", [found.stream])?;
            drop_unread(tx, readers, found.content)
        })
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.shared.find(id)?;
        self.shared.checkpoint(id)
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        let name = match name {
            LockName::Moves(space) => format!("moves\0{}", space.word()),
            LockName::Named(space, name) => format!("lock\0{}\0{name}", space.word()),
        };
        let busy = || Error::Busy { path: self.shared.path.clone(), pid: Some(std::process::id()) };
        Ok(Box::new(self.shared.holders.take(&name, mode, wait).ok_or_else(busy)?))
    }

    fn prefetch_keys(&self, id: &StreamId, rule: &KeyRule) -> Result<()> {
        if rule.reach != Reach::Whole || id.place != Place::Live {
            return Ok(());
        }
        let lines = self.shared.open_lines(Target::Id(id))?;
        lines.map_or(Ok(()), |lines| self.shared.keys(lines.content, rule, |_| Ok(())))
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        Some(self)
    }
}

/// The database keeps records as a whole or not at all, so there is nothing to repair, and nothing is packed.
impl Maintenance for Sqlite {
    fn verify(&self, id: &StreamId, progress: ProgressFn<'_>) -> Result<VerifyReport> {
        Ok(verify_rows(&self.shared.lines_of(id)?, progress))
    }

    fn repair(&self, id: &StreamId, _ts: &str, _wait: Duration) -> Result<Repaired> {
        self.shared.find(id).map(|_| Repaired::default())
    }

    fn pack(&self, id: &StreamId, _progress: ProgressFn<'_>) -> Result<()> {
        self.shared.find(id).map(drop)
    }
}

impl StreamWriter for Writer {
    fn append(&mut self, bodies: &[Body], how: &AppendOptions<'_>) -> Result<Vec<Receipt>> {
        self.at.check_live()?;
        if self.is_finished {
            let why = "an earlier commit failed".to_owned();
            return Err(manent_log::Error::Poisoned { path: path_of(&self.at), why }.into());
        }
        let plan = |index: &KeyIndex| plan_append(&self.at, bodies, how, self.next, index);
        let has_keys = !how.keys.is_idempotency() || bodies.iter().any(|body| body.key().is_some());
        let planned = match &self.found {
            Some(found) if has_keys => self.shared.keys(found.content, how.keys, plan)?,
            _ => plan(&KeyIndex::new(how.keys))?,
        };
        if planned.lines.len() < bodies.len() && how.durability != Durability::Flush {
            self.shared.checkpoint(&self.at)?;
        }
        let first = if self.found.is_some() { self.count } else { 1 };
        if !planned.lines.is_empty() {
            let written = self.write(&planned.lines, how.durability);
            self.is_finished = written.as_ref().is_err_and(Error::is_unknown);
            written?;
        }
        Ok(planned.receipts(&self.id, first))
    }

    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        self.at.check_live()?;
        let Some(found) = &self.found else { return Ok(None) };
        let place = self.shared.keys(found.content, rule, |index| Ok(index.find(key, which)))?;
        let Some(RecordPlace { seq, offset }) = place else { return Ok(None) };
        let line = self.shared.line(found.content, offset)?;
        Ok(line.map(|line| KeyedLine { seq, offset, bytes: line.bytes.to_vec(), is_kept: false }))
    }

    fn keep_from(&mut self, _position: Position) -> Result<()> {
        self.shared.checkpoint(&self.at)
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let lines = write_parts(&self.at, header, parts, |of| self.shared.lines_of(of))?;
        let bytes = lines.iter().map(StoredLine::file_bytes).sum();
        self.shared.write(&self.at, Durability::Sync, |tx, readers| {
            let header_id = names(lines.first()).id;
            let Some(found) = &self.found else {
                return insert_stream(tx, &self.at, &header_id, &lines).map(drop);
            };
            let content = insert_content(tx, &lines, found.modified_ms)?;
            let sql = "INSERT INTO set_aside SELECT ?1, bytes FROM lines
                WHERE content = ?2 AND position >= ?3 AND position < ?3 + ?4 ORDER BY position";
            for Damage { offset, lines, .. } in left_out {
                tx.execute(sql, [found.stream, found.content, signed(*offset), signed(*lines)])?;
            }
            let id = if self.at.place == Place::Live { &header_id } else { &found.id };
            let sql = "UPDATE streams SET content = ?2, id = ?3 WHERE stream = ?1";
            tx.execute(sql, params![found.stream, content, id])?;
            drop_unread(tx, readers, found.content)
        })?;
        Ok(Replaced { bytes, set_aside: None })
    }

    fn acknowledge(&mut self, _ts: &str) -> Result<Vec<Damage>> {
        Ok(Vec::new())
    }

    fn next_seq(&self) -> u64 {
        self.next
    }

    fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn header(&self) -> Option<Entry<'_>> {
        self.header.as_ref().filter(|_| !self.is_new()).map(|line| line.entry(0))
    }

    fn is_new(&self) -> bool {
        self.found.is_none()
    }

    /// Returns what a reader of the stream would, and false where it cannot be read.
    fn is_native(&self) -> bool {
        let lines = self.shared.open_lines(Target::Id(&self.at));
        let native = |lines| RowReader::new(lines).and_then(|reader| reader.is_native());
        self.is_new() || lines.is_ok_and(|lines| lines.is_some_and(|lines| native(lines).unwrap_or(false)))
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

impl Writer {
    /// Appends lines, behind the header if the stream begins with them.
    fn write(&mut self, lines: &[StoredLine], durability: Durability) -> Result<()> {
        let header = self.header.iter().filter(|_| self.found.is_none());
        let lines: Vec<StoredLine> = header.chain(lines).cloned().collect();
        let begun = self.shared.write(&self.at, durability, |tx, _| match &self.found {
            Some(found) => insert_lines(tx, found.content, self.count, &lines).map(|()| None),
            None => insert_stream(tx, &self.at, &self.id, &lines),
        })?;
        self.found = self.found.take().or(begun);
        self.count += lines.len() as u64;
        self.next = lines.last().map_or(self.next, |line| line.seq + 1);
        Ok(())
    }
}

impl Rows for Lines {
    fn count(&self) -> Result<u64> {
        self.shared.count(self.content)
    }

    fn line(&self, index: u64) -> Result<Option<StoredLine>> {
        self.shared.line(self.content, index)
    }

    fn first_from(&self, seq: u64) -> Result<u64> {
        let sql = "SELECT position FROM lines WHERE content = ?1 AND seq >= ?2 ORDER BY seq LIMIT 1";
        let first: Option<i64> = self.shared.select(sql, [self.content, signed(seq)], |row| row.get(0))?;
        first.map_or_else(|| self.count(), |position| Ok(position.cast_unsigned()))
    }

    fn is_current(&self) -> Result<bool> {
        let sql = "SELECT 1 FROM streams WHERE content = ?1 AND place = ?2";
        Ok(self.shared.select(sql, params![self.content, self.place.word()], |_| Ok(()))?.is_some())
    }

    fn number(&self) -> u64 {
        self.content.cast_unsigned()
    }
}

/// Removes a content that has no name any more, after its last reader. An error leaves it to the next process
/// that opens the database.
impl Drop for Lines {
    fn drop(&mut self) {
        let Database { connection, readers } = &mut *lock(&self.shared.database);
        let Some(open) = readers.get_mut(&self.content) else { return };
        *open -= 1;
        if *open == 0 {
            readers.remove(&self.content);
            drop_unread(connection, readers, self.content).unwrap_or_default();
        }
    }
}

/// Says nothing of what the database holds: that is content.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns what to call the backend in messages.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Takes the lease of a stream, whether it exists or not.
    fn hold(&self, at: &StreamId, wait: Duration) -> Result<ThreadLockGuard> {
        let id = if at.place == Place::Live { "" } else { &at.id };
        let name = format!("lease\0{}\0{}\0{}\0{id}", at.space.word(), at.place.word(), at.key.as_str());
        self.holders.take(&name, LockMode::Exclusive, wait).ok_or_else(|| {
            manent_log::Error::Held { path: path_of(at), pid: Some(std::process::id()) }.into()
        })
    }

    /// Reads from the database.
    fn read<T>(&self, query: impl FnOnce(&Connection) -> Sql<T>) -> Result<T> {
        query(&lock(&self.database).connection).map_err(backend)
    }

    /// Returns the row that a query finds, if there is one.
    fn select<T>(&self, sql: &str, of: impl Params, take: fn(&Row<'_>) -> Sql<T>) -> Result<Option<T>> {
        self.read(|connection| connection.prepare_cached(sql)?.query_row(of, take).optional())
    }

    /// Changes the database in one transaction. Where its commit fails, nobody knows what is kept.
    fn write<T>(
        &self,
        at: &StreamId,
        durability: Durability,
        change: impl FnOnce(&Transaction<'_>, &Readers) -> Sql<T>,
    ) -> Result<T> {
        let Database { connection, readers } = &mut *lock(&self.database);
        let synchronous = if durability == Durability::Flush { "NORMAL" } else { "FULL" };
        connection.pragma_update(None, "synchronous", synchronous).map_err(backend)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(backend)?;
        let changed = change(&tx, readers).map_err(backend)?;
        tx.commit().map_err(|error| unknown(at, &error))?;
        Ok(changed)
    }

    /// Writes all that is in the write-ahead log to the database and syncs both: what an earlier sync did not
    /// make durable is written anew.
    fn checkpoint(&self, at: &StreamId) -> Result<()> {
        let sql = "PRAGMA wal_checkpoint(FULL)";
        let busy = lock(&self.database).connection.query_row(sql, [], |row| row.get(0));
        let busy: bool = busy.map_err(|error| unknown(at, &error))?;
        if busy { Err(unknown(at, &"the checkpoint was not completed")) } else { Ok(()) }
    }

    /// Finds a stream by its id, or a live one by its key alone.
    fn find(&self, at: &StreamId) -> Result<Found> {
        let found = self.read(|connection| find(connection, at))?;
        found.ok_or_else(|| Error::not_found(at, &self.name()))
    }

    /// Finds a stream and takes its lease, for whoever moves or removes it.
    fn hold_found(&self, at: &StreamId, wait: Duration) -> Result<(Found, ThreadLockGuard)> {
        self.find(at)?;
        let lease = self.hold(at, wait)?;
        Ok((self.find(at)?, lease))
    }

    /// Opens the lines of a stream, if it is there. They cannot be removed in between.
    fn open_lines(self: &Arc<Shared>, at: Target<'_>) -> Result<Option<Lines>> {
        let Database { connection, readers } = &mut *lock(&self.database);
        let (place, content) = match at {
            Target::Id(id) => (id.place, find(connection, id).map(|found| found.map(|found| found.content))),
            Target::Name { space, place, name } => (place, find_named(connection, space, place, name)),
        };
        let Some(content) = content.map_err(backend)? else { return Ok(None) };
        *readers.entry(content).or_default() += 1;
        Ok(Some(Lines { shared: Arc::clone(self), content, place }))
    }

    /// Returns how many lines a content has.
    fn count(&self, content: i64) -> Result<u64> {
        let sql = "SELECT lines FROM contents WHERE content = ?1";
        let count: Option<i64> = self.select(sql, [content], |row| row.get(0))?;
        Ok(count.map_or(0, i64::cast_unsigned))
    }

    /// Returns a line of a content, or `None` beyond its end.
    fn line(&self, content: i64, position: u64) -> Result<Option<StoredLine>> {
        let sql = "SELECT seq, verified, bytes FROM lines WHERE content = ?1 AND position = ?2";
        self.select(sql, [content, signed(position)], line_of_row)
    }

    /// Returns all lines of a stream.
    fn lines_of(self: &Arc<Shared>, at: &StreamId) -> Result<Vec<StoredLine>> {
        let lines = self.open_lines(Target::Id(at))?.ok_or_else(|| Error::not_found(at, &self.name()))?;
        (0..lines.count()?).filter_map(|position| lines.line(position).transpose()).collect()
    }

    /// Brings the index of the keys of a content up to date, which is kept between calls, and looks into it.
    fn keys<T>(&self, content: i64, rule: &KeyRule, look: impl FnOnce(&KeyIndex) -> Result<T>) -> Result<T> {
        let mut indexes = lock(&self.indexes);
        if indexes.len() > INDEXES_MAX {
            indexes.clear();
        }
        let index = Arc::clone(indexes.entry((content, rule.name)).or_default());
        drop(indexes);
        let mut index = lock(&index);
        if !index.serves(rule) {
            *index = KeyIndex::new(rule);
        }
        catch_up(&mut index, rule, self.count(content)?, |position| self.line(content, position))?;
        look(&index)
    }
}

/// Opens a database for this process alone, makes its tables, and removes what a killed process left.
fn connect(path: &Path) -> Sql<Connection> {
    let mut connection = Connection::open(path)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(SCHEMA)?;
    tx.commit()?;
    Ok(connection)
}

/// Finds a stream by its id, or a live one by its key alone.
fn find(connection: &Connection, at: &StreamId) -> Sql<Option<Found>> {
    let sql = "SELECT stream, content, id, header_id, modified_ms FROM streams JOIN contents USING (content)
        WHERE space = ?1 AND place = ?2 AND key = ?3 AND (id = ?4 OR (?4 = '' AND place = 'live'))";
    let name = params![at.space.word(), at.place.word(), at.key.as_str(), at.id];
    let found = |row: &Row<'_>| {
        let (stream, content, id) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Found { stream, content, id, header_id: row.get(3)?, modified_ms: row.get(4)? })
    };
    connection.prepare_cached(sql)?.query_row(name, found).optional()
}

/// Finds the content of the stream that a list gave this name, which is its number.
fn find_named(connection: &Connection, space: Space, place: Place, name: &str) -> Sql<Option<i64>> {
    let sql = "SELECT content FROM streams
        WHERE stream = CAST(?1 AS INTEGER) AND CAST(stream AS TEXT) = ?1 AND space = ?2 AND place = ?3";
    let name = [name, space.word(), place.word()];
    connection.prepare_cached(sql)?.query_row(name, |row| row.get(0)).optional()
}

/// Returns all streams of a space, in every place, except those of which nothing was written.
fn stats(connection: &Connection, space: Space) -> Sql<Vec<StreamStat>> {
    let sql = "SELECT stream, place, former_place, key, id, content, header_key, lines, bytes, modified_ms
        FROM streams JOIN contents USING (content) WHERE space = ?1 AND lines > 0";
    let mut query = connection.prepare_cached(sql)?;
    query.query_map([space.word()], |row| stat_of_row(space, row))?.collect()
}

/// Makes a stream of a list from a row that [`stats`] selected.
fn stat_of_row(space: Space, row: &Row<'_>) -> Sql<StreamStat> {
    let place = place_of_row(row, 1)?;
    let from = if place == Place::Trash { place_of_row(row, 2)? } else { place };
    let key: String = row.get(3)?;
    let header_key: String = row.get(6)?;
    let header_key = if header_key == key { None } else { SessionKey::new(header_key).ok() };
    let key = SessionKey::new(key).map_err(|error| InvalidColumnType(3, error.to_string(), Type::Text))?;
    let number = |column| row.get(column).map(i64::cast_unsigned);
    Ok(StreamStat {
        id: StreamId { space, place, key, id: row.get(4)? },
        name: row.get::<_, i64>(0)?.to_string(),
        version: Version::new([number(5)?, number(7)?, number(9)?, 0, 0]),
        bytes: number(8)?,
        modified_ms: row.get(9)?,
        from,
        header_key,
    })
}

/// Reads the word of a place.
fn place_of_row(row: &Row<'_>, column: usize) -> Sql<Place> {
    let word: String = row.get(column)?;
    let place = Place::ALL.into_iter().find(|place| place.word() == word);
    place.ok_or(InvalidColumnType(column, word, Type::Text))
}

/// Makes a line from its number, its being verified, and its bytes.
fn line_of_row(row: &Row<'_>) -> Sql<StoredLine> {
    let seq = row.get(0).map(i64::cast_unsigned)?;
    Ok(StoredLine { seq, verified: row.get(1)?, bytes: row.get_ref(2)?.as_blob()?.into() })
}

/// Makes a content of lines. Its time is not before the one that is given.
fn insert_content(tx: &Transaction<'_>, lines: &[StoredLine], since_ms: i64) -> Sql<i64> {
    let HeaderNames { id, key, .. } = names(lines.first());
    tx.execute("INSERT INTO contents VALUES (NULL, ?1, ?2, 0, 0, ?3)", params![id, key, since_ms])?;
    let content = tx.last_insert_rowid();
    insert_lines(tx, content, 0, lines)?;
    Ok(content)
}

/// Adds lines to a content, the first of them at this position. Its time does not go back.
fn insert_lines(tx: &Transaction<'_>, content: i64, first: u64, lines: &[StoredLine]) -> Sql<()> {
    let mut insert = tx.prepare_cached("INSERT INTO lines VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (position, line) in (first..).zip(lines) {
        let (position, seq) = (signed(position), signed(line.seq));
        insert.execute(params![content, position, seq, line.verified, &line.bytes[..]])?;
    }
    let sql = "UPDATE contents SET lines = lines + ?2, bytes = bytes + ?3, modified_ms = max(modified_ms, ?4)
        WHERE content = ?1";
    let bytes = signed(lines.iter().map(StoredLine::file_bytes).sum());
    tx.prepare_cached(sql)?.execute([content, signed(lines.len() as u64), bytes, now_ms()])?;
    Ok(())
}

/// Begins a stream with these lines, and finds it.
fn insert_stream(tx: &Transaction<'_>, at: &StreamId, id: &str, lines: &[StoredLine]) -> Sql<Option<Found>> {
    let content = insert_content(tx, lines, 0)?;
    let sql = "INSERT INTO streams VALUES (NULL, ?1, ?2, ?2, ?3, ?4, ?5)";
    tx.execute(sql, params![at.space.word(), at.place.word(), at.key.as_str(), id, content])?;
    find(tx, &StreamId { id: id.to_owned(), ..at.clone() })
}

/// Removes a content that has neither a name nor a reader.
fn drop_unread(connection: &Connection, readers: &Readers, content: i64) -> Sql<()> {
    if !readers.contains_key(&content) {
        let sql = "DELETE FROM contents WHERE content = ?1 AND NOT EXISTS
            (SELECT 1 FROM streams WHERE streams.content = ?1)";
        connection.prepare_cached(sql)?.execute([content])?;
    }
    Ok(())
}

/// Returns the names that the first line of a stream gives, which are empty where it is not a header.
fn names(first: Option<&StoredLine>) -> HeaderNames {
    first.and_then(|line| HeaderNames::of_entry(&line.entry(0))).unwrap_or_default()
}

/// Makes a number that the database can hold, which is larger than all it holds where `number` is too.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Makes an error of what the database said.
fn backend(error: rusqlite::Error) -> Error {
    Error::Backend(Box::new(error))
}

/// Makes the error of a change of which nobody knows whether it is kept.
fn unknown(at: &StreamId, why: &dyn fmt::Display) -> Error {
    manent_log::Error::Unknown { path: path_of(at), why: why.to_string() }.into()
}
