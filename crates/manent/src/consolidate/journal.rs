//! The journal of consolidation, `consolidation.jsonl`: what was looked at, by whom, and what came of it.
//!
//! It is a log like any other. Its lease is the right to consolidate, so that no passage is looked at by two at once;
//! a process that dies lets go of it. A passage that was begun and not finished is gone on with. It says nothing of
//! what was said: ids, numbers, hashes.

use std::collections::BTreeMap;
use std::time::Duration;

use manent_log::{Body, Durability, Entry, LogItem};
use serde_json::value::to_raw_value;

use super::grounding::Refusal;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::turn::Record;
use manent_store::clock;
use manent_store::{
    AppendOptions, IfMissing, Repaired, Seek, Space, StreamHeader, StreamId, StreamWriter, Target,
};

/// The journal, as far as it concerns one session and this day.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Every time that somebody looked, oldest first: once when it was begun, and again when it was finished.
    pub(super) looks: Vec<Look>,
    /// The last of them was begun and not finished.
    pub(super) is_open: bool,
    /// How often the passage that is open failed.
    pub(super) failures: u32,
    /// What models took today, in tokens.
    pub(super) spent: u64,
}

/// A passage that somebody looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) turns: (u64, u64),
    /// By what its last record is known.
    pub(super) end: String,
    pub(super) prompt: String,
    pub(super) at_ms: i64,
    pub(super) is_done: bool,
    /// From which sentences something was learned: the turns, and which of their sentences.
    pub(super) learned: Vec<(u64, u64)>,
}

impl Known {
    /// Reads the journal. What is damaged in it is passed over: at worst something is looked at again, and known then.
    pub(super) fn read(store: &Store, session: &str) -> Result<Known> {
        let mut known = Known::default();
        let mut reader = match store.streams().open(Target::Id(&StreamId::single(Space::Journal))) {
            Err(e) if e.is_not_found() => return Ok(known),
            reader => reader?,
        };
        reader.seek(Seek::First)?;
        let today = clock::now();
        let today = today.get(..DATE_CHARS).unwrap_or_default();
        while let Some(item) = reader.next()? {
            let LogItem::Entry(entry) = item else { continue };
            known.take(&entry, session, today);
        }
        Ok(known)
    }

    fn take(&mut self, entry: &Entry<'_>, session: &str, today: &str) {
        let Some(record) = Record::of(entry) else { return };
        let number = |name: &str| record.member(name).and_then(|json| json.parse::<u64>().ok());
        let ts = record.ts().unwrap_or_default();
        if ts.get(..DATE_CHARS) == Some(today) {
            let taken = number("input").unwrap_or(0).saturating_add(number("output").unwrap_or(0));
            self.spent = self.spent.saturating_add(taken);
        }
        if record.string("session").as_deref() != Some(session) {
            return;
        }
        let turns = record.member("turns").and_then(|json| serde_json::from_str::<(u64, u64)>(json).ok());
        let (Some(turns), Some(prompt)) = (turns, record.string("prompt")) else { return };
        let is_done = match record.kind().as_deref() {
            Some("begun") => false,
            Some("consolidated") => true,
            Some("failed") => {
                self.failures += 1;
                return;
            }
            _ => return,
        };
        let learned = record.member("learned").and_then(|json| serde_json::from_str(json).ok());
        let look = Look {
            turns,
            end: record.string("end").unwrap_or_default().into_owned(),
            prompt: prompt.into_owned(),
            at_ms: clock::parse_ms(&ts).unwrap_or_default(),
            is_done,
            learned: learned.unwrap_or_default(),
        };
        let again = self.open().is_some_and(|open| open.turns == turns && open.prompt == look.prompt);
        if is_done || !again {
            self.failures = 0;
        }
        self.is_open = !is_done;
        self.looks.push(look);
    }

    /// The passage that was begun and not finished.
    pub(super) fn open(&self) -> Option<&Look> {
        self.looks.last().filter(|_| self.is_open)
    }
}

/// The right to write the journal.
#[derive(Debug)]
pub(super) struct Journal {
    writer: Box<dyn StreamWriter>,
}

impl Journal {
    pub(super) fn hold(store: &Store, wait: Duration) -> Result<Journal> {
        let new = || header(store.app());
        let leased = store.streams().lease(&StreamId::single(Space::Journal), IfMissing::Create(&new), wait);
        let writer = leased.map_err(|error| match error.log() {
            Some(manent_log::Error::Held { pid, .. }) => Error::ConsolidationHeld { pid: *pid },
            _ => error.into(),
        })?;
        Ok(Journal { writer })
    }

    /// A passage is looked at from now on. Where it ends must not be lost while what came of it is kept.
    pub(super) fn begin(&mut self, what: &About<'_>) -> Result<()> {
        let mut body = what.body("begun");
        body.string("end", what.end);
        self.append(&body, Durability::Sync)
    }

    /// Asking failed; or it could not be done to the end, which says nothing of the passage.
    pub(super) fn fail(&mut self, what: &About<'_>, how: Failure, spent: TokensSpent) -> Result<()> {
        let mut body = what.body(match how {
            Failure::Refused => "failed",
            Failure::Unavailable => "unavailable",
        });
        body.number("input", spent.input).number("output", spent.output);
        self.append(&body, Durability::Flush)
    }

    /// All that came of a passage is where it belongs.
    pub(super) fn finish(&mut self, what: &About<'_>, came: &Came<'_>) -> Result<()> {
        let mut body = what.body("consolidated");
        body.string("end", what.end);
        body.number("input", came.spent.input).number("output", came.spent.output);
        if let Some(daily) = came.daily {
            body.number("daily", daily);
        }
        let mut lists =
            vec![("items", to_raw_value(&came.items)), ("proposed", to_raw_value(&came.proposed))];
        lists.push(("learned", to_raw_value(&came.learned)));
        for (name, list) in lists {
            if let Ok(raw) = list
                && raw.get() != "[]"
            {
                body.json(name, &raw);
            }
        }
        if !came.refused.is_empty()
            && let Ok(raw) = to_raw_value(&counted(&came.refused))
        {
            body.json("refused", &raw);
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

/// What a record of the journal is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) session: &'a str,
    pub(super) turns: (u64, u64),
    /// By what the last of them is known.
    pub(super) end: &'a str,
    pub(super) model: &'a str,
    pub(super) prompt: &'a str,
}

/// How asking failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    Refused,
    Unavailable,
}

impl About<'_> {
    fn body(&self, kind: &str) -> Body {
        let mut body = Body::new();
        body.string("ts", &clock::now()).string("kind", kind).string("session", self.session);
        if let Ok(raw) = to_raw_value(&self.turns) {
            body.json("turns", &raw);
        }
        body.string("model", self.model).string("prompt", self.prompt);
        body
    }
}

/// What came of a passage.
#[derive(Debug, Default)]
pub(super) struct Came<'a> {
    pub(super) daily: Option<u64>,
    pub(super) items: Vec<u64>,
    pub(super) proposed: Vec<u64>,
    pub(super) learned: &'a [(u64, u64)],
    pub(super) refused: Vec<Refusal>,
    pub(super) spent: TokensSpent,
}

/// What models took, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokensSpent {
    /// What they read.
    pub input: u64,
    /// What they wrote.
    pub output: u64,
}

fn counted(refused: &[Refusal]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for why in refused {
        *counts.entry(why.word()).or_default() += 1;
    }
    counts
}

fn header(app: &str) -> StreamHeader {
    let id = uuid::Uuid::now_v7().to_string();
    let mut meta = Body::new();
    meta.number("format", manent_log::FORMAT).string("id", &id);
    meta.string("kind", "consolidation").string("app", app);
    let mut body = Body::new();
    body.string("ts", &clock::now()).object("meta", &meta);
    StreamHeader { id, body }
}

const DATE_CHARS: usize = 10;
