//! [`PassageReader`]: the prompts and answers of many records of one session, read in one pass.
//!
//! [`Store::context_at`] reads back from one record; asked for every record of a session, it reads the session as
//! often. A [`PassageReader`] reads forwards once, keeps the last few megabytes, and answers for records as it passes
//! them.

use std::collections::VecDeque;

use manent_log::LogItem;

use super::part::read_one;
use super::records::{Compaction, ContextRecord, PromptConfig, PromptConfigRecord, text_in};
use super::{Context, Message, render};
use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::reader::Start;
use crate::store::Store;
use crate::tokens::{Counting, Tokens};
use manent_store::StreamId;

/// A reader of many passages of one session, which it reads forwards once. It is cheapest to ask for passages in the
/// order of their records.
#[derive(Debug)]
pub struct PassageReader {
    store: Store,
    at: StreamId,
    reader: Reader,
    /// The last records that were read.
    window: VecDeque<WindowEntry>,
    window_bytes: usize,
    /// The last record that is no longer in the window.
    forgotten: u64,
    /// The last record that was read.
    seen: u64,
    /// A record that was read and lies behind the one that was asked for.
    ahead: Option<WindowEntry>,
    /// Compactions that were not undone.
    compactions: Vec<Compaction>,
    config_record: Option<PromptConfigRecord>,
    /// The last record that shapes a context.
    shaped: u64,
    /// The number of the `context` record in force, its contents, and whether all of its texts were found.
    config: Option<(u64, PromptConfig, bool)>,
    bytes_max: usize,
}

#[derive(Debug)]
struct WindowEntry {
    /// The number of the record; a gap has that of the record before it.
    seq: u64,
    /// `None` if it is longer than anything that is wanted.
    record: Option<ContextRecord>,
    bytes: usize,
}

impl WindowEntry {
    fn is_gap(&self) -> bool {
        matches!(self.record, Some(ContextRecord::Gap(_)))
    }
}

/// The context that a model was given at a record.
#[derive(Debug)]
pub struct PassagePrompt {
    /// The messages and tools.
    pub context: Context,
    /// The numbers of the memory items in it.
    pub memory_ids: Vec<u64>,
}

/// The reason why a passage cannot be shown.
#[derive(Debug)]
pub enum PassageError {
    /// There is no such record.
    Missing,
    /// A passage with records that cannot be read.
    Damaged,
    /// The passage is longer than the reader was opened for.
    TooLong,
    /// The session cannot be read.
    Failed(Error),
}

impl From<Error> for PassageError {
    fn from(error: Error) -> PassageError {
        PassageError::Failed(error)
    }
}

/// The result of asking for a passage.
pub type PassageResult<T> = std::result::Result<T, PassageError>;

impl PassageReader {
    /// Opens a session for passages of at most `bytes_max` bytes.
    pub fn open(store: &Store, at: &StreamId, bytes_max: usize) -> Result<PassageReader> {
        let reader = store.read(at, Start::First)?;
        // From now on this very session is meant, though another may take its place.
        let id = reader.meta().map(|meta| meta.id.clone()).unwrap_or_default();
        Ok(PassageReader {
            store: store.clone(),
            at: StreamId { id, ..at.clone() },
            reader,
            window: VecDeque::new(),
            window_bytes: 0,
            forgotten: 0,
            seen: 0,
            ahead: None,
            compactions: Vec::new(),
            config_record: None,
            shaped: 0,
            config: None,
            bytes_max,
        })
    }

    /// Returns the session that is read.
    pub fn stream_id(&self) -> &StreamId {
        &self.at
    }

    /// Returns what a model was given when it had these records, the first and the last, before it: the records as the
    /// context at the last of them renders them, with the system text and the tools that held there. Where the passage
    /// begins before a compaction, the summary stands for what the compaction summed up.
    pub fn prompt(&mut self, (first, last): (u64, u64)) -> PassageResult<PassagePrompt> {
        if last < self.seen && (last < self.shaped || first <= self.forgotten) {
            self.rewind()?;
        }
        self.go_to(last)?;
        let compaction = self.compactions.last().map(|compaction| {
            let mut compaction = compaction.clone();
            if first >= compaction.kept_from {
                compaction.summary.clear();
            }
            compaction.pinned.retain(|pinned| *pinned >= first);
            compaction
        });
        let begin = compaction.as_ref().map_or(first, |compaction| first.max(compaction.kept_from));
        let mut records = Vec::new();
        for seq in compaction.iter().flat_map(|compaction| &compaction.pinned) {
            records.extend(read_one(&self.store, &self.at, *seq)?);
        }
        self.take(begin, last, &mut records)?;
        self.resolve()?;
        let config = match &self.config {
            Some((_, _, false)) => return Err(PassageError::Damaged),
            Some((_, config, true)) => Some(config),
            None => None,
        };
        let memory_ids = config.map(|config| config.memory_ids.clone()).unwrap_or_default();
        let context = render::render(records, compaction.as_ref(), config, Tokens::new(Counting::Estimate));
        if context.gaps > 0 { Err(PassageError::Damaged) } else { Ok(PassagePrompt { context, memory_ids }) }
    }

    /// Returns the messages in these records, from the first to the last.
    pub fn messages(&mut self, (first, last): (u64, u64)) -> PassageResult<Vec<Message>> {
        if last < self.seen && first <= self.forgotten {
            self.rewind()?;
        }
        self.go_to(last)?;
        let mut records = Vec::new();
        self.take(first, last, &mut records)?;
        let context = render::render(records, None, None, Tokens::new(Counting::Estimate));
        if context.gaps > 0 { Err(PassageError::Damaged) } else { Ok(context.messages) }
    }

    fn rewind(&mut self) -> Result<()> {
        *self = PassageReader::open(&self.store, &self.at, self.bytes_max)?;
        Ok(())
    }

    /// Copies what the window holds of a passage.
    fn take(&self, first: u64, last: u64, records: &mut Vec<ContextRecord>) -> PassageResult<()> {
        if first <= self.forgotten {
            return Err(PassageError::TooLong);
        }
        // Damage before the very first record belongs to whatever begins there.
        let from = if first <= 1 { 0 } else { self.window.partition_point(|entry| entry.seq < first) };
        if first > 1 && self.window.get(from).is_none_or(|entry| entry.seq != first) {
            return Err(PassageError::Damaged);
        }
        let mut bytes = 0;
        for entry in self.window.range(from..).take_while(|entry| entry.seq <= last) {
            // Damage behind the last record is none of the passage.
            if !(entry.is_gap() && entry.seq == last) {
                bytes += entry.bytes;
                records.push(entry.record.clone().ok_or(PassageError::TooLong)?);
            }
        }
        if bytes > self.bytes_max { Err(PassageError::TooLong) } else { Ok(()) }
    }

    /// Reads on until a record was read.
    fn go_to(&mut self, last: u64) -> PassageResult<()> {
        while self.seen < last {
            let next = match self.ahead.take() {
                Some(ahead) => ahead,
                None => self.next()?.ok_or(PassageError::Missing)?,
            };
            if next.seq > last {
                self.ahead = Some(next);
                return Err(PassageError::Missing);
            }
            self.push(next);
        }
        let is_there = self.window.iter().rev().any(|entry| entry.seq == last && !entry.is_gap());
        if is_there || last <= self.forgotten { Ok(()) } else { Err(PassageError::Missing) }
    }
    fn next(&mut self) -> Result<Option<WindowEntry>> {
        let (bytes_max, seen) = (self.bytes_max, self.seen);
        Ok(self.reader.next()?.map(|item| match item {
            LogItem::Damage(damage) => {
                WindowEntry { seq: seen, record: Some(ContextRecord::Gap(damage)), bytes: 0 }
            }
            LogItem::Entry(entry) if entry.bytes.len() > bytes_max => {
                WindowEntry { seq: entry.seq, record: None, bytes: 0 }
            }
            LogItem::Entry(entry) => {
                let record = ContextRecord::of(&entry).unwrap_or(ContextRecord::Other(entry.seq));
                WindowEntry { seq: entry.seq, record: Some(record), bytes: entry.bytes.len() }
            }
        }))
    }
    fn push(&mut self, entry: WindowEntry) {
        let shaped = std::mem::replace(&mut self.shaped, entry.seq);
        match &entry.record {
            Some(ContextRecord::Compaction(compaction)) => self.compactions.push(compaction.clone()),
            Some(ContextRecord::Undo(target)) => {
                self.compactions.retain(|compaction| compaction.seq != *target);
            }
            Some(ContextRecord::PromptConfig(record)) => self.config_record = Some(record.clone()),
            _ => self.shaped = shaped,
        }
        self.window_bytes += entry.bytes;
        self.seen = self.seen.max(entry.seq);
        self.window.push_back(entry);
        // Twice what a passage may hold, so that one that ends a little before is still there.
        while self.window_bytes > self.bytes_max * 2 || self.window.len() > WINDOW_RECORDS_MAX {
            let Some(entry) = self.window.pop_front() else { break };
            self.forgotten = self.forgotten.max(entry.seq);
            self.window_bytes -= entry.bytes;
        }
    }

    /// Fetches the texts of the `context` record in force, if that was not done.
    fn resolve(&mut self) -> Result<()> {
        let Some(record) = &self.config_record else {
            self.config = None;
            return Ok(());
        };
        if self.config.as_ref().is_none_or(|(seq, ..)| *seq != record.seq) {
            let mut texts = Vec::new();
            for (seq, what) in record.references() {
                let mut reader = self.store.read(&self.at, Start::Seq(seq))?;
                texts.push(((seq, what), text_in(&mut reader, seq, what)?));
            }
            let (config, missing) = record.resolved(&mut |seq, what| {
                let found = texts.iter().find(|(of, _)| *of == (seq, what));
                found.and_then(|(_, text)| text.clone())
            });
            self.config = Some((record.seq, config, missing.is_empty()));
        }
        Ok(())
    }
}

/// The number of records of a window: more short ones than any model is given at once.
const WINDOW_RECORDS_MAX: usize = 100_000;
