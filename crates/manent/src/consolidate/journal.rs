//! The journal of consolidation, `consolidation.jsonl`: the passages looked at, by which extractor, with what result.
//!
//! Its lease is the right to consolidate, so that no passage is looked at twice at once; a process that dies releases
//! it. A passage that was begun and not finished is resumed. The journal holds ids, numbers and hashes, never any text.

use std::collections::BTreeMap;
use std::time::Duration;

use manent_log::{Body, Durability, Entry, LogItem};
use manent_store::{AppendOptions, IfMissing, Repaired, Seek, Space, StreamId, StreamWriter, Target, clock};

use super::extractor::{ExtractorError, TokensSpent};
use super::{Consolidated, Refusal};
use crate::error::{Error, Result, if_found};
use crate::meta::{add_json, new_header};
use crate::store::Store;
use crate::turn::Record;

/// The entries of the journal on one session, and the tokens of this day.
#[derive(Debug, Default)]
pub(super) struct JournalState {
    /// The entries of the session, oldest first: one when a passage is begun, and another when it is finished.
    pub(super) entries: Vec<JournalEntry>,
    /// The last of them was begun and not finished.
    pub(super) is_open: bool,
    /// The number of failed attempts at the open passage.
    pub(super) failures: u32,
    /// The tokens that models took today.
    pub(super) spent: u64,
}

/// A passage that a step began or finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JournalEntry {
    pub(super) turns: (u64, u64),
    /// By what its last record is known.
    pub(super) end: String,
    pub(super) prompt: String,
    pub(super) at_ms: i64,
    pub(super) is_done: bool,
    /// The sentences that facts were learned from: the turns, and the sentences of each.
    pub(super) learned: Vec<(u64, u64)>,
}

impl JournalState {
    /// Reads the journal. What is damaged in it is passed over: at worst something is looked at again, and known then.
    pub(super) fn read(store: &Store, session: &str) -> Result<JournalState> {
        let mut state = JournalState::default();
        let id = StreamId::single(Space::Journal);
        let Some(mut reader) = if_found(store.streams().open(Target::Id(&id)))? else { return Ok(state) };
        reader.seek(Seek::First)?;
        let today = clock::now();
        let today = today.get(..DATE_CHARS).unwrap_or_default();
        while let Some(item) = reader.next()? {
            let LogItem::Entry(entry) = item else { continue };
            state.take(&entry, session, today);
        }
        Ok(state)
    }

    fn take(&mut self, entry: &Entry<'_>, session: &str, today: &str) {
        let Some(record) = Record::of(entry) else { return };
        let ts = record.ts().unwrap_or_default();
        if ts.get(..DATE_CHARS) == Some(today) {
            let taken = ["input", "output"].map(|name| record.parse::<u64>(name).unwrap_or(0));
            self.spent = taken.into_iter().fold(self.spent, u64::saturating_add);
        }
        if record.string("session").as_deref() != Some(session) {
            return;
        }
        let (Some(turns), Some(prompt)) = (record.parse("turns"), record.string("prompt")) else { return };
        let is_done = match record.kind().as_deref() {
            Some("begun") => false,
            Some("consolidated") => true,
            Some("failed") => {
                self.failures += 1;
                return;
            }
            _ => return,
        };
        let entry = JournalEntry {
            turns,
            end: record.string("end").unwrap_or_default().into_owned(),
            prompt: prompt.into_owned(),
            at_ms: clock::parse_ms(&ts).unwrap_or_default(),
            is_done,
            learned: record.parse("learned").unwrap_or_default(),
        };
        let again = self.open().is_some_and(|open| open.turns == turns && open.prompt == entry.prompt);
        if is_done || !again {
            self.failures = 0;
        }
        self.is_open = !is_done;
        self.entries.push(entry);
    }

    /// The passage that was begun and not finished.
    pub(super) fn open(&self) -> Option<&JournalEntry> {
        self.entries.last().filter(|_| self.is_open)
    }
}

/// The right to write the journal.
#[derive(Debug)]
pub(super) struct Journal {
    writer: Box<dyn StreamWriter>,
}

impl Journal {
    pub(super) fn hold(store: &Store, wait: Duration) -> Result<Journal> {
        let new = || {
            new_header(|meta| {
                meta.string("kind", "consolidation").string("app", store.app());
            })
        };
        let leased = store.streams().lease(&StreamId::single(Space::Journal), IfMissing::Create(&new), wait);
        let writer = leased.map_err(|error| match error.log() {
            Some(manent_log::Error::Held { pid, .. }) => Error::ConsolidationHeld { pid: *pid },
            _ => error.into(),
        })?;
        Ok(Journal { writer })
    }

    /// Notes that a passage is being looked at. Its end must not be lost while what came of it is kept.
    pub(super) fn begin(&mut self, passage: &PassageKey<'_>) -> Result<()> {
        let mut body = passage.body("begun");
        body.string("end", passage.end);
        self.append(&body, Durability::Sync)
    }

    /// Notes that the extractor gave no reply. One that could not be reached says nothing about the passage.
    pub(super) fn fail(
        &mut self,
        passage: &PassageKey<'_>,
        error: &ExtractorError,
        spent: TokensSpent,
    ) -> Result<()> {
        let mut body = passage.body(match error {
            ExtractorError::Refused(_) => "failed",
            ExtractorError::Unavailable(_) => "unavailable",
        });
        body.number("input", spent.input).number("output", spent.output);
        self.append(&body, Durability::Flush)
    }

    /// Notes that a passage is done: all that came of it is where it belongs.
    pub(super) fn finish(
        &mut self,
        passage: &PassageKey<'_>,
        done: &Consolidated,
        learned: &[(u64, u64)],
    ) -> Result<()> {
        let mut body = passage.body("consolidated");
        body.string("end", passage.end);
        body.number("input", done.spent.input).number("output", done.spent.output);
        if let Some(daily) = done.daily.as_ref().and_then(|daily| daily.id) {
            body.number("daily", daily);
        }
        for (name, items) in [("items", &done.items), ("proposed", &done.proposed)] {
            let ids: Vec<u64> = items.iter().filter_map(|item| item.id).collect();
            if !ids.is_empty() {
                add_json(&mut body, name, &ids);
            }
        }
        if !learned.is_empty() {
            add_json(&mut body, "learned", &learned);
        }
        if !done.refused.is_empty() {
            add_json(&mut body, "refused", &counted(&done.refused));
        }
        self.append(&body, Durability::Sync)
    }

    pub(super) fn repair(&mut self) -> Result<Repaired> {
        let acknowledged = self.writer.acknowledge(&clock::now())?;
        Ok(Repaired { set_aside: self.writer.set_aside().cloned(), acknowledged })
    }

    fn append(&mut self, body: &Body, durability: Durability) -> Result<()> {
        self.writer.append(std::slice::from_ref(body), &AppendOptions::new(durability))?;
        Ok(())
    }
}

/// The passage, model and prompt that a record of the journal is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassageKey<'a> {
    pub(super) session: &'a str,
    pub(super) turns: (u64, u64),
    /// By what the last of them is known.
    pub(super) end: &'a str,
    pub(super) model: &'a str,
    pub(super) prompt: &'a str,
}

impl PassageKey<'_> {
    fn body(&self, kind: &str) -> Body {
        let mut body = Body::new();
        body.string("ts", &clock::now()).string("kind", kind).string("session", self.session);
        add_json(&mut body, "turns", &self.turns);
        body.string("model", self.model).string("prompt", self.prompt);
        body
    }
}

fn counted(refused: &[(Refusal, String)]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (why, _) in refused {
        *counts.entry(why.word()).or_default() += 1;
    }
    counts
}

const DATE_CHARS: usize = 10;
