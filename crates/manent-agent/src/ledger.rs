//! Ledgers: append-only lists of what a person decided, in the space [`Space::Ledger`] of a store.
//!
//! Each decision is one record. Lines without numbers, which earlier versions wrote and which people write by hand,
//! are lines of another program to the log and are read like any other. A ledger that the backend does not call
//! trustworthy, or that cannot be read, decides nothing.

use std::path::PathBuf;

use manent::backend::{
    AppendOptions, IfMissing, ListDetail, Place, Seek, Selector, StreamFilter, StreamWriter, Target,
};
use manent::{Body, Durability, LogItem, SessionKey, Space, Store, StreamId};
use serde_json::Value;

/// One ledger of a store.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    store: Store,
    id: StreamId,
}

/// The lease of a ledger, with which decisions are appended.
#[derive(Debug)]
pub(crate) struct LedgerWriter(Box<dyn StreamWriter>);

impl Ledger {
    /// Returns the ledger of trusted folders.
    pub(crate) fn trusted(store: &Store) -> Ledger {
        Ledger::of(store, "trusted")
    }

    /// Returns the ledger of approvals.
    pub(crate) fn approvals(store: &Store) -> Ledger {
        Ledger::of(store, "approvals")
    }

    fn of(store: &Store, key: &'static str) -> Ledger {
        let id = StreamId::live_in(Space::Ledger, &SessionKey::from_static(key));
        Ledger { store: store.clone(), id }
    }

    /// Returns where the ledger lies, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        let name = || format!("{} of {}", self.id.key, self.store.streams().name()).into();
        self.store.streams().path(&self.id).unwrap_or_else(name)
    }

    /// Returns the lines in order; none if there is no ledger. A line that is not JSON, such as a torn end, is left
    /// out.
    ///
    /// An error completes a sentence that begins with the path: `may be written by others; …`.
    pub(crate) fn read(&self) -> Result<Vec<Value>, String> {
        self.check()?;
        let unreadable = |e: manent::backend::Error| format!("cannot be read: {e}");
        let mut reader = match self.store.streams().open(Target::Id(&self.id)) {
            Err(e) if e.is_not_found() => return Ok(Vec::new()),
            opened => opened.map_err(unreadable)?,
        };
        reader.seek(Seek::First).map_err(unreadable)?;
        let mut lines = Vec::new();
        while let Some(item) = reader.next().map_err(unreadable)? {
            if let LogItem::Entry(entry) = item {
                lines.extend(serde_json::from_slice::<Value>(entry.bytes));
            }
        }
        Ok(lines)
    }

    /// Takes the lease of the ledger, which begins with the first line if there is none. A ledger that would not be
    /// believed afterwards is refused.
    pub(crate) fn lease(&self) -> Result<LedgerWriter, String> {
        self.check().map_err(|why| format!("it {why}"))?;
        let header = || self.store.new_header(&self.id.key);
        let leased = self.store.streams().lease(&self.id, IfMissing::Create(&header), self.store.wait());
        leased.map(LedgerWriter).map_err(|e| e.to_string())
    }

    /// Refuses a ledger that others may have written, or that is too long to be one.
    fn check(&self) -> Result<(), String> {
        let streams = self.store.streams();
        let unknown = |e: manent::backend::Error| format!("cannot be looked at: {e}");
        // In a directory of another program there are no ledgers, and files with their names are its sessions.
        if !streams.supports(Space::Ledger) {
            return Ok(());
        }
        if !streams.is_trustworthy(&self.id).map_err(unknown)? {
            return Err(NOT_TRUSTWORTHY.to_owned());
        }
        let which = Selector::Key(&self.id.key);
        let filter = StreamFilter {
            detail: ListDetail::Outside,
            ..StreamFilter::new(Space::Ledger, Place::Live, which)
        };
        match streams.list(&filter).map_err(unknown)?.first() {
            Some(stat) if stat.bytes > BYTES_MAX => {
                Err(format!("has {} bytes; remove it and decide anew", stat.bytes))
            }
            _ => Ok(()),
        }
    }
}

impl LedgerWriter {
    /// Appends a decision. When this returns, it survives power loss.
    pub(crate) fn append(&mut self, line: &Value) -> Result<(), String> {
        let body = Body::parse(line.to_string().as_bytes()).map_err(|e| e.to_string())?;
        self.0.append(&[body], &AppendOptions::new(Durability::Sync)).map_err(|e| e.to_string())?;
        Ok(())
    }
}

const NOT_TRUSTWORTHY: &str =
    "may be written by others; make it your own, with `chmod 600`, or remove it if it is not a file";
const BYTES_MAX: u64 = 4 << 20;
