//! One log, open for writing: open, recover, append, commit, close.
//!
//! The file follows a write from its beginning to its end. [`Log::open`] takes the lease and makes the end of the file
//! clean; [`Log::append`] builds the lines in memory, writes them in one call, waits as long as the durability level
//! asks, and only then gives a receipt. Whatever goes wrong in between is undone, or, where that cannot be known,
//! ends the handle for good. Closing is dropping: nothing is buffered, so nothing can be lost by it. Between appends a
//! log can rest ([`Log::rest`]), so that others may write.

mod keys;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::body::Body;
use crate::commit::Durability;
use crate::error::{Error, Result, hint};
use crate::frame::{self, FileKind, SEQ_MAX};
use crate::fs::{Disk, FileId, write_fully};
use crate::header::Header;
use crate::keys::KeyRule;
use crate::lock::{FileSystemTrust, Lease, MissingLog, directory_of};
use crate::reader::{Entry, LogEnd, Reader};
use crate::recover::{self, AppendState, STUB_BYTES, SetAside};

use keys::next_mark;
pub use keys::{KeyedLine, LogKeys, SharedKeys};

/// Options for opening a log for writing.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The header to write if the log does not exist yet; without one a missing log is an error. It is written
    /// together with the first record, so that no log is ever without records, or by [`Log::write_header`].
    pub header: Option<Body>,
    /// The longest wait for another writer. Default: no waiting.
    pub wait: Duration,
    /// The file systems to trust.
    pub trust: FileSystemTrust,
    /// The caller knows that the name of the file survives power loss already, which spares the first synced append
    /// the sync of the directory. Means nothing for a file that opening has to create.
    pub name_is_durable: bool,
}

/// Proof that a record is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogReceipt {
    /// The record's number.
    pub seq: u64,
    /// The offset of its line in the file.
    pub offset: u64,
    /// The durability that was reached.
    pub durability: Durability,
}

/// The caller's expectation of the number of the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Any number is right.
    Any,
    /// The (first) record must get this number, else nothing is written.
    Seq(u64),
}

/// A log, open for writing. Holds the lease for as long as it lives.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = &dir.path().join("chat.jsonl");
/// use manent_log::{Body, Durability, Expect, Log, Options, RealDisk};
///
/// let mut header = Body::new();
/// header.json("meta", serde_json::from_str(r#"{"format":1}"#)?);
/// let options = Options { header: Some(header), ..Options::default() };
/// let mut log = Log::open(&RealDisk::shared(), path, &options)?;
///
/// let mut turn = Body::new();
/// turn.string("role", "user").string("content", "hello");
/// let receipt = log.append(&turn, Durability::Sync, Expect::Any)?;
/// assert_eq!(receipt.seq, 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Log {
    disk: Arc<dyn Disk>,
    lease: Lease,
    /// The header that is still to be written, before the first record.
    header: Option<Body>,
    end: AppendState,
    /// True if the name of the file is known to survive power loss.
    name_is_durable: bool,
    poison: Option<String>,
    at: LogStage,
    /// The places of records with keys, once somebody looked for one; and the id of the log that these are the keys of.
    keys: SharedKeys,
    stream: Arc<str>,
    /// Tells this state of the file from those before others wrote to it, and from those of other handles.
    mark: u64,
    /// The bytes of the commit in hand, and where each of its records begins in the file. Kept for their memory.
    buffer: Vec<u8>,
    starts: Vec<u64>,
}

/// The stage a log is in. One that is found in the middle of a commit at the beginning of another was broken off by a
/// panic, and nobody knows what it wrote: the handle is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogStage {
    Rest,
    Commit,
}

impl Log {
    /// Takes the lease, checks the end of the file, and sets aside and cuts what a crash left there.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, options: &Options) -> Result<Log> {
        let missing = if options.header.is_some() { MissingLog::Create } else { MissingLog::Refuse };
        let lease = Lease::take(&**disk, path, missing, options.trust, options.wait)?;
        let mut end = recover::make_ready(&**disk, &lease, missing).inspect_err(|_| {
            lease.remove_untouched(&**disk);
        })?;
        let header = if end.unborn { options.header.clone() } else { None };
        end.next_seq = header.as_ref().map_or(end.next_seq, first_seq_of);
        Ok(Log {
            disk: disk.clone(),
            name_is_durable: options.name_is_durable && !lease.created,
            lease,
            header,
            end,
            poison: None,
            at: LogStage::Rest,
            keys: SharedKeys::default(),
            stream: Arc::default(),
            mark: next_mark(),
            buffer: Vec::new(),
            starts: Vec::new(),
        })
    }

    /// Appends one record, once: see [`Log::append_by`] and [`KeyRule::IDEMPOTENCY`] for one that has the key of a
    /// record that is there.
    pub fn append(&mut self, body: &Body, durability: Durability, expect: Expect) -> Result<LogReceipt> {
        if body.key().is_some() {
            let receipts = self.append_batch(std::slice::from_ref(body), durability, expect)?;
            return Ok(receipts[0]);
        }
        let seq = self.guarded(|log| log.commit(std::slice::from_ref(body), durability, expect))?;
        Ok(LogReceipt { seq, offset: self.starts[0], durability })
    }

    /// Appends several records with one write and one sync, each once as [`Log::append`] does. Not atomic: a crash may
    /// leave the first few of them.
    pub fn append_batch(
        &mut self,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<LogReceipt>> {
        self.append_by(&KeyRule::IDEMPOTENCY, bodies, durability, expect)
    }

    /// Writes the header alone, if it is still due: a log that is to exist before its first record. Whatever header
    /// the file has is then as durable as asked.
    pub fn write_header(&mut self, durability: Durability) -> Result<()> {
        self.guarded(|log| {
            log.check_usable(durability)?;
            if log.header.is_some() {
                log.encode(&[])?;
                return log.put_down(0, durability);
            }
            match (durability, log.end.kind) {
                (Durability::Flush, _) => Ok(()),
                // It may be another's, whose sync of it failed or never came.
                (_, FileKind::Native) => log.rewrite_from(0),
                (_, FileKind::Foreign | FileKind::Adopted) => log.make_durable(),
            }
        })
    }

    /// Returns where the next line begins, as far as this handle knows: another program that appends without the lease
    /// is noticed at the next append.
    pub fn end_offset(&self) -> u64 {
        self.end.len
    }

    /// Returns true if the header is still to be written: there is nothing in the file yet.
    pub fn is_new(&self) -> bool {
        self.header.is_some()
    }

    /// Returns the header as opening the log, or waking it, found it in the file. `None` if there was none yet, or
    /// damage before it.
    pub fn header_line(&self) -> Option<Entry<'_>> {
        let bytes = self.end.header_line.as_deref()?;
        Some(Entry { seq: 0, offset: 0, bytes, verified: true })
    }

    /// Returns the number of names (hard links) of the file: with more than one, it can be reached from elsewhere too.
    pub fn names(&self) -> Result<u64> {
        Ok(self.lease.file().state().map_err(Error::io("inspect", self.path()))?.links)
    }

    /// The number that the next record will get, if nobody else appends.
    pub fn next_seq(&self) -> u64 {
        self.end.next_seq
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.lease.path()
    }

    /// Returns the identity of the file, whatever it is called.
    pub fn file_id(&self) -> FileId {
        self.lease.id()
    }

    /// The caller knows that the name of the file survives power loss already.
    pub fn trust_name(&mut self) {
        self.name_is_durable |= !self.lease.created;
    }

    /// Returns the kind of the file: ours, adopted or foreign.
    pub fn kind(&self) -> FileKind {
        self.end.kind
    }

    /// Returns the reason why this handle will not write again, or `None` if it will.
    pub fn poisoned(&self) -> Option<&str> {
        self.poison.as_deref().or((self.at == LogStage::Commit).then_some(BROKEN_OFF))
    }

    /// Returns the bytes that opening the log, or waking it, had to cut off its end, and where they are kept.
    pub fn set_aside(&self) -> Option<&SetAside> {
        self.end.set_aside.as_ref()
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Runs a commit on a handle that may write.
    fn guarded<T>(&mut self, commit: impl FnOnce(&mut Log) -> Result<T>) -> Result<T> {
        if let Some(why) = self.poisoned() {
            return Err(Error::Poisoned { path: self.path().to_owned(), why: why.to_owned() });
        }
        self.at = LogStage::Commit;
        let outcome = commit(self);
        self.at = LogStage::Rest;
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        outcome
    }

    /// The error for whoever waits for a commit that a panic broke off.
    pub(crate) fn broken_off(&self) -> Error {
        self.unknown(BROKEN_OFF)
    }

    fn unknown(&self, why: impl Into<String>) -> Error {
        Error::Unknown { path: self.path().to_owned(), why: why.into() }
    }

    /// Closes the handle for good, and says that nobody knows what of the commit is kept.
    fn close_unknown(&mut self, why: String) -> Error {
        let error = self.unknown(why.as_str());
        self.poison = Some(why);
        error
    }

    /// Writes records without looking for their keys, and gives the number of the first.
    fn commit(&mut self, bodies: &[Body], durability: Durability, expect: Expect) -> Result<u64> {
        self.check_usable(durability)?;
        let shared = self.keys.clone();
        // Whoever is reading the log for its keys reads these too.
        let mut keys = shared.try_lock().ok();
        self.write_records(bodies.iter(), durability, expect, keys.as_deref_mut())
    }

    /// Writes the records and gives the number of the first; `starts` then holds the offset of each.
    fn write_records<'b>(
        &mut self,
        bodies: impl ExactSizeIterator<Item = &'b Body> + Clone,
        durability: Durability,
        expect: Expect,
        keys: Option<&mut LogKeys>,
    ) -> Result<u64> {
        let first = self.end.next_seq;
        if let Expect::Seq(expected) = expect
            && expected != first
        {
            return Err(Error::Conflict { path: self.path().to_owned(), expected, next: first });
        }
        self.encode(bodies.clone())?;
        if bodies.len() > 0 {
            // Another program's line that is not finished becomes a record when ours follows, and was not read.
            let is_read = !self.end.newline_first && !self.end.torn_end;
            let start = self.end.len;
            self.put_down(bodies.len() as u64, durability)?;
            if let Some(keys) = keys.filter(|_| is_read) {
                self.note_keys(keys, bodies, start, durability);
            }
        }
        Ok(first)
    }

    /// Writes what was encoded, waits as long as the level asks, and only then counts it in.
    fn put_down(&mut self, records: u64, durability: Durability) -> Result<()> {
        self.write_buffer()?;
        if durability != Durability::Flush {
            self.make_durable()?;
        }
        // Before the commit and not behind it: another program may have slipped in between our look and our write.
        self.end.settled = (self.end.len, self.end.next_seq);
        self.end.len += self.buffer.len() as u64;
        self.end.next_seq += records;
        self.end.newline_first = false;
        self.end.torn_end = false;
        self.header = None;
        if self.end.kind == FileKind::Foreign {
            self.end.kind = FileKind::Adopted;
        }
        Ok(())
    }

    /// Everything that must hold before a byte is written.
    fn check_usable(&mut self, durability: Durability) -> Result<()> {
        self.lease.check_process()?;
        let state = self.lease.file().state().map_err(Error::io("inspect", self.path()))?;
        if state.links == 0 {
            return Err(Error::Gone { path: self.path().to_owned(), how: "deleted" });
        }
        if durability != Durability::Flush {
            // A file moved by hand keeps its records, so a cheap append need not look; a sync takes a hundred times
            // longer than looking.
            self.lease.check_path(&*self.disk)?;
        }
        match state.len.cmp(&self.end.len) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => self.fold_in_others(),
            std::cmp::Ordering::Less => {
                let error = Error::Shrunk { path: self.path().to_owned(), was: self.end.len, now: state.len };
                self.poison = Some(format!("it shrank from {} to {} bytes", self.end.len, state.len));
                Err(error)
            }
        }
    }

    /// Another program appended without asking for the lease. Its lines are counted, and we go on behind them.
    fn fold_in_others(&mut self) -> Result<()> {
        self.mark = next_mark();
        self.lease.check_path(&*self.disk)?;
        let (offset, seq) = self.end.settled;
        let mut reader = Reader::resume(&self.disk, self.lease.path(), self.end.kind, offset, seq)?;
        while reader.next()?.is_some() {}
        let end = reader.end();
        let torn_lines = match end {
            LogEnd::Clean => 0,
            LogEnd::Torn(torn) => torn.lines,
        };
        self.end.settled = (reader.position(), reader.next_seq().unwrap_or(seq));
        self.end.next_seq = self.end.settled.1 + torn_lines;
        self.end.torn_end = end != LogEnd::Clean;
        self.end.len = reader.read_to();
        self.end.newline_first =
            !recover::ends_with_newline(self.lease.file(), self.lease.path(), self.end.len)?;
        Ok(())
    }

    /// Builds the bytes of a commit: the newline that is missing, the header that is due, the records.
    fn encode<'b>(&mut self, bodies: impl IntoIterator<Item = &'b Body>) -> Result<()> {
        self.buffer.clear();
        self.starts.clear();
        if self.end.newline_first {
            self.buffer.push(b'\n');
        }
        if let Some(header) = &self.header {
            header.check_size()?;
            frame::encode(&mut self.buffer, 0, header.as_bytes());
        }
        for (seq, body) in (self.end.next_seq..).zip(bodies) {
            body.check_size()?;
            if seq > SEQ_MAX {
                return Err(Error::Full { path: self.lease.path().to_owned(), max: SEQ_MAX });
            }
            self.starts.push(self.end.len + self.buffer.len() as u64);
            frame::encode(&mut self.buffer, seq, body.as_bytes());
        }
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<()> {
        let Err((written, source)) = write_fully(self.lease.file(), &self.buffer) else { return Ok(()) };
        if let Err(why) = self.take_back(written) {
            let why = format!("a write failed ({source}) and could not be taken back ({why})");
            return Err(self.close_unknown(why));
        }
        Err(self.write_error(source))
    }

    /// Cuts off what a failed write left, if the end of the file is still ours to cut.
    ///
    /// The cut is synced: whole records of the failed batch may be among the bytes, and a power cut must not bring
    /// back what the caller was told had failed. Nor may it bring them back where the sync failed or never came: the
    /// next writer would find a clean end, and give their numbers and their keys to other records. So a stub that
    /// cannot be read stays until the bytes behind it are known to be gone, and opening the log removes it as any torn
    /// end. In another program's file there is no stub, because that program may continue its line.
    fn take_back(&self, written: usize) -> io::Result<()> {
        let file = self.lease.file();
        let appended_in_between = || io::Error::other("another program appended in between");
        let len = file.state()?.len;
        if len == self.end.len {
            return Ok(());
        }
        if len != self.end.len + written as u64 {
            return Err(appended_in_between());
        }
        let stub_end = self.end.len + STUB_BYTES;
        if self.end.kind == FileKind::Native && len > stub_end {
            file.set_len(stub_end)?;
            file.sync()?;
            // A sync takes a while.
            if file.state()?.len != stub_end {
                return Err(appended_in_between());
            }
        }
        file.set_len(self.end.len)?;
        file.sync()
    }

    fn write_error(&self, source: io::Error) -> Error {
        let path: PathBuf = self.path().to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let free = self.disk.free_bytes(directory_of(&path)).unwrap_or(0);
                Error::NoSpace { path, needed: self.buffer.len() as u64, free }
            }
            _ => Error::Io { action: "append to", path, source },
        }
    }

    /// Waits until the records, and the name of the file, are on stable storage.
    ///
    /// After a failed sync nobody can tell what is on the disk: the kernel reports the error once and forgets it.
    fn make_durable(&mut self) -> Result<()> {
        if let Err(source) = self.lease.file().sync() {
            return Err(self.close_unknown(format!("a sync failed ({source}{})", hint(&source))));
        }
        self.sync_name()
    }

    /// Waits until the name of the file is on stable storage, if it is not known to be.
    fn sync_name(&mut self) -> Result<()> {
        if !self.name_is_durable {
            if let Err(source) = self.disk.sync_dir(directory_of(self.lease.path())) {
                let why = format!("the directory could not be synced ({source}{})", hint(&source));
                return Err(self.close_unknown(why));
            }
            self.name_is_durable = true;
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.remove_untouched();
    }
}

impl Log {
    /// A log that was made and never written to leaves no file behind. Whoever waits for it makes a new one: the path
    /// is looked at again after the lock was taken.
    fn remove_untouched(&self) {
        if self.header.is_some() && self.poisoned().is_none() {
            self.lease.remove_untouched(&*self.disk);
        }
    }
}

/// A log that is open and does not hold the lease. Dropping it closes it.
#[derive(Debug)]
pub struct RestingLog {
    log: Log,
}

/// Letting others write in between: a log lets go of its lease, stays open, and takes the lease again later.
///
/// A program that keeps a session open for hours writes to it for moments. Closing and opening again would do, but
/// costs a look at the end of the file each time (at all of it, where it is another program's). A log that rested
/// knows where it was; if nobody wrote, it goes on at once. A resting log cannot be written to: [`Log::rest`] consumes
/// the log, and only [`RestingLog::wake`] gives it back.
impl Log {
    /// Lets go of the lease. A log that was made and never written to leaves no file behind meanwhile, as if it were
    /// closed. If this fails, the log is closed.
    pub fn rest(mut self) -> Result<RestingLog> {
        self.remove_untouched();
        // From here on an empty file at the path may be another's, who is about to write: not ours to remove.
        self.lease.created = false;
        self.lease.let_go()?;
        Ok(RestingLog { log: self })
    }

    /// Takes over what was found at the end of the file.
    fn refresh(&mut self, end: AppendState) {
        if !end.unborn {
            self.header = None;
        }
        let next_seq = self.header.as_ref().map_or(end.next_seq, first_seq_of);
        self.end = AppendState { next_seq, ..end };
        self.mark = next_mark();
    }

    /// Begins again where nothing was written before the rest: whatever is at the path now is as good, and if there is
    /// nothing, a new file is.
    fn begin_again(&mut self, wait: Duration) -> Result<()> {
        self.lease.check_process()?;
        let (path, trust) = (self.lease.path(), self.lease.trust);
        self.lease = Lease::take(&*self.disk, path, MissingLog::Create, trust, wait)?;
        self.name_is_durable &= !self.lease.created;
        let ready = recover::make_ready(&*self.disk, &self.lease, MissingLog::Create)?;
        self.refresh(ready);
        Ok(())
    }

    /// Takes the lease of the same file again and looks what became of it.
    fn go_on(&mut self, wait: Duration) -> Result<()> {
        self.lease.retake(wait)?;
        let state = self.lease.file().state().map_err(Error::io("inspect", self.path()))?;
        if state.links == 0 {
            return Err(Error::Gone { path: self.path().to_owned(), how: "deleted" });
        }
        self.lease.check_path(&*self.disk)?;
        if self.poisoned().is_some() {
            // It will not write again, and so must not cut anything either.
            return Ok(());
        }
        // Another writer may have cut an end that could not be read, and nothing else.
        let len_min = if self.end.torn_end { self.end.settled.0 } else { self.end.len };
        if state.len < len_min {
            return Err(Error::Shrunk { path: self.path().to_owned(), was: len_min, now: state.len });
        }
        if state.len == self.end.len && !self.end.torn_end {
            // Nobody wrote. Files only grow, but for ends that cannot be read, which recovery cuts; ours could be read
            // to its last byte, so nobody cut it and filled the place with other bytes. What else happened to the
            // file (damage, an overwritten byte) would not have been noticed on an open log either.
            self.end.set_aside = None;
            return Ok(());
        }
        let ready = recover::make_ready(&*self.disk, &self.lease, MissingLog::Refuse)?;
        self.refresh(ready);
        Ok(())
    }
}

impl RestingLog {
    /// Takes the lease again, waiting for another writer at most `wait`, and goes on behind what others wrote
    /// meanwhile. If it fails, the log is closed: whoever wants it opens it again.
    ///
    /// A file that was deleted, moved or replaced is [`Error::Gone`]; one that became shorter is [`Error::Shrunk`]. A
    /// log to which nothing had been written begins again at its path instead. A handle that was closed for writing
    /// ([`Log::poisoned`]) stays so.
    pub fn wake(self, wait: Duration) -> Result<Log> {
        let mut log = self.log;
        if log.is_new() && log.poisoned().is_none() {
            log.begin_again(wait)?;
        } else {
            log.go_on(wait)?;
        }
        Ok(log)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.log.path()
    }
}

/// The number of the first record under a header that is about to be written.
fn first_seq_of(header: &Body) -> u64 {
    Header::parse(format!("{{{}}}", header.as_str()).as_bytes()).first_seq
}

/// The reason why a handle is finished on which a commit began and did not come back.
const BROKEN_OFF: &str = "a panic broke off a commit";

/// The memory that a buffer keeps after a record: one huge record must not keep its memory for ever.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
