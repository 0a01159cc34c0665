//! Letting others write in between: a log lets go of its lease, stays open, and takes the lease again later.
//!
//! A program that keeps a session open for hours writes to it for moments. Closing and opening again would do, but
//! costs a look at the end of the file each time (at all of it, where it is another program's). A log that rested
//! knows where it was; if nobody wrote, it goes on at once. A resting log cannot be written to: [`Log::rest`] consumes
//! the log, and only [`RestingLog::wake`] gives it back.

use std::path::Path;
use std::time::Duration;

use super::keys::next_mark;
use super::{Log, first_seq_of};
use crate::error::{Error, Result};
use crate::lock::{IfMissing, Lease};
use crate::recover::{self, Ready};

/// A log that is open and does not hold the lease. Dropping it closes it.
#[derive(Debug)]
pub struct RestingLog {
    log: Log,
}

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
    fn refresh(&mut self, ready: Ready) {
        let Ready { kind, header_line, unborn, len, next_seq, settled, newline_first, torn_end, set_aside } =
            ready;
        if !unborn {
            self.header = None;
        }
        self.mark = next_mark();
        self.next_seq = self.header.as_ref().map_or(next_seq, first_seq_of);
        self.kind = kind;
        self.header_line = header_line;
        self.len = len;
        self.settled = settled;
        self.newline_first = newline_first;
        self.torn_end = torn_end;
        self.set_aside = set_aside;
    }

    /// Nothing was written before the rest: whatever is at the path now is as good, and if there is nothing, a new
    /// file is.
    fn begin_again(&mut self, wait: Duration) -> Result<()> {
        self.lease.check_process()?;
        let (path, trust) = (self.lease.path(), self.lease.trust);
        self.lease = Lease::take(&*self.disk, path, IfMissing::Create, trust, wait)?;
        self.name_is_durable &= !self.lease.created;
        let ready = recover::make_ready(&*self.disk, &self.lease, IfMissing::Create)?;
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
        let kept = if self.torn_end { self.settled.0 } else { self.len };
        if state.len < kept {
            return Err(Error::Shrunk { path: self.path().to_owned(), was: kept, now: state.len });
        }
        if state.len == self.len && !self.torn_end {
            // Nobody wrote. Files only grow, but for ends that cannot be read, which recovery cuts; ours could be read
            // to its last byte, so nobody cut it and filled the place with other bytes. What else happened to the
            // file (damage, an overwritten byte) would not have been noticed on an open log either.
            self.set_aside = None;
            return Ok(());
        }
        let ready = recover::make_ready(&*self.disk, &self.lease, IfMissing::Refuse)?;
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

    /// The file.
    pub fn path(&self) -> &Path {
        self.log.path()
    }
}
