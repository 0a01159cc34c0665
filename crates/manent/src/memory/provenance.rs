//! The evidence that items rest on, and the turns around it.

use std::borrow::Cow;
use std::collections::HashMap;

use manent_log::LogItem;

use super::Memory;
use super::item::{Item, Source, SourceKind};
use crate::context::normalized_role;
use crate::error::{Error, Result, if_found};
use crate::reader::Start;
use crate::store::Store;
use crate::turn::Record;
use manent_store::{Place, SessionKey, StreamId};

/// The evidence that an item rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Provenance {
    /// A person said that it is to be remembered.
    Told,
    /// The quote stands in a record.
    Quoted {
        /// The record.
        seq: u64,
        /// The role that said it.
        role: String,
    },
    /// The source has no quote.
    NoQuote,
    /// The quote is not in the passage.
    NotThere,
    /// The session, or that part of it, is not there.
    Gone,
}

impl Provenance {
    /// Returns true if the item rests on the words of a person.
    pub fn is_grounded(&self) -> bool {
        match self {
            Provenance::Told => true,
            Provenance::Quoted { role, .. } => normalized_role(role) == "user",
            _ => false,
        }
    }
}

/// The history of an item, with the turns around its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemHistory {
    /// The item.
    pub item: Item,
    /// True if the item is active; otherwise another one replaces it.
    pub active: bool,
    /// The items that replace it.
    pub replaced_by: Vec<u64>,
    /// The evidence that the item rests on.
    pub provenance: Provenance,
    /// The session that it came from, if that is still there.
    pub session: Option<StreamId>,
    /// The passage and some turns around it.
    pub passage: Vec<SourceTurn>,
    /// The contexts that the item was put into.
    pub recalls: RecallStats,
}

/// A turn around the source of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTurn {
    /// The number of the record.
    pub seq: u64,
    /// The role of the speaker.
    pub role: String,
    /// The time, as the record says.
    pub ts: String,
    /// The text of the turn.
    pub text: String,
    /// True if the turn belongs to the source; otherwise it only stands close to it.
    pub is_source: bool,
}

/// The number of contexts that an item was put into, from the `context` records of all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecallStats {
    /// The number of contexts.
    pub times: u64,
    /// The time of the last one, as its record says.
    pub last: String,
}

impl Memory {
    /// Looks for the evidence that a source names.
    pub fn provenance(&self, source: &Source) -> Result<Provenance> {
        let Some(quote) = source.quote.as_deref().filter(|quote| !quote.trim().is_empty()) else {
            return Ok(if source.who == SourceKind::User { Provenance::Told } else { Provenance::NoQuote });
        };
        let Some((first, last)) = source.seqs else { return Ok(Provenance::NotThere) };
        let Some(session) = self.session_of(source)? else { return Ok(Provenance::Gone) };
        let mut provenance = Provenance::Gone;
        each_turn(&self.store, &session, first, last, |seq, record| {
            if matches!(provenance, Provenance::Quoted { .. }) {
                return;
            }
            provenance = if contains_quote(&record.spoken_text(), quote) {
                Provenance::Quoted { seq, role: record.role().unwrap_or_default().into_owned() }
            } else {
                Provenance::NotThere
            };
        })?;
        Ok(provenance)
    }

    /// Returns the time of the first turn of a source, as its record says.
    pub(crate) fn said_at(&self, source: &Source) -> Result<Option<String>> {
        let Some((first, _)) = source.seqs else { return Ok(None) };
        let Some(session) = self.session_of(source)? else { return Ok(None) };
        let mut ts = None;
        each_turn(&self.store, &session, first, first, |_, record| ts = record.ts().map(Cow::into_owned))?;
        Ok(ts)
    }

    /// Returns the history of an item. There are several where another program gave an id twice.
    pub fn history(&self, id: u64) -> Result<Vec<ItemHistory>> {
        let items = self.get(id)?;
        if items.is_empty() {
            return Err(Error::NoItem { id });
        }
        let recalls = self.recalls()?.remove(&id).unwrap_or_default();
        let active = self.is_active(id)?;
        let mut histories = Vec::with_capacity(items.len());
        for item in items {
            let (session, mut passage) = (self.session_of(&item.source)?, Vec::new());
            if let (Some(session), Some((first, last))) = (&session, item.source.seqs) {
                let around =
                    (first.saturating_sub(RECORDS_AROUND).max(1), last.saturating_add(RECORDS_AROUND));
                each_turn(&self.store, session, around.0, around.1, |seq, record| {
                    passage.push(SourceTurn {
                        seq,
                        role: record.role().unwrap_or_default().into_owned(),
                        ts: record.ts().unwrap_or_default().into_owned(),
                        text: record.content().into_owned(),
                        is_source: (first..=last).contains(&seq),
                    });
                })?;
            }
            let provenance = self.provenance(&item.source)?;
            let replaced_by = self.replacers_of(id)?;
            histories.push(ItemHistory {
                item,
                active,
                replaced_by,
                provenance,
                session,
                passage,
                recalls: recalls.clone(),
            });
        }
        Ok(histories)
    }

    /// Counts the contexts that each item was put into, from the `context` records of all sessions.
    pub fn recalls(&self) -> Result<HashMap<u64, RecallStats>> {
        let mut recalls: HashMap<u64, RecallStats> = HashMap::new();
        let memory_member = memchr::memmem::Finder::new(br#""memory":"#);
        for place in [Place::Live, Place::Archive] {
            for listed in self.store.list(place)? {
                // Of a fork, what it shares was counted where it was forked from.
                let records = if_found(self.store.records(&listed.id, Start::First))?;
                let Some(mut records) = records else { continue };
                while let Some(found) = records.next()? {
                    let LogItem::Entry(entry) = found else { continue };
                    if memory_member.find(entry.bytes).is_none() {
                        continue;
                    }
                    let Some(record) = Record::of(&entry) else { continue };
                    if record.kind().as_deref() != Some("context") {
                        continue;
                    }
                    let ids: Option<Vec<u64>> = record.parse("memory");
                    let ts = record.ts().unwrap_or_default();
                    for id in ids.unwrap_or_default() {
                        let recall = recalls.entry(id).or_default();
                        recall.times += 1;
                        if *ts > *recall.last {
                            recall.last = ts.clone().into_owned();
                        }
                    }
                }
            }
        }
        Ok(recalls)
    }

    /// The session that a source names, wherever it is now.
    fn session_of(&self, source: &Source) -> Result<Option<StreamId>> {
        let by_id = source.session_id.as_deref().filter(|id| !id.is_empty());
        let by_key = source.session.as_deref().and_then(|key| SessionKey::new(key).ok());
        let found = match (by_id, by_key) {
            (Some(id), _) => self.store.find_id(id),
            (None, Some(key)) => self.store.find(&key),
            (None, None) => return Ok(None),
        };
        Ok(if_found(found)?.map(|listed| listed.id))
    }
}

/// Returns true if a text contains a quote, whatever the blanks and line breaks between its words.
fn contains_quote(text: &str, quote: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.contains(quote) || plain(text).contains(&plain(quote))
}

/// Gives the turns of a session from one record to another, at most [`PASSAGE_MAX`].
fn each_turn(
    store: &Store,
    at: &StreamId,
    first: u64,
    last: u64,
    mut take: impl FnMut(u64, &Record<'_>),
) -> Result<()> {
    let Some(mut reader) = if_found(store.read(at, Start::Seq(first)))? else { return Ok(()) };
    let mut left = PASSAGE_MAX;
    while let Some(found) = reader.next()? {
        let LogItem::Entry(entry) = found else { continue };
        if entry.seq > last || left == 0 {
            break;
        }
        if let Some(record) = Record::of(&entry).filter(|record| entry.seq >= first && record.is_turn()) {
            take(entry.seq, &record);
            left -= 1;
        }
    }
    Ok(())
}

/// The number of records shown before and after a passage.
const RECORDS_AROUND: u64 = 2;
/// The most turns that are read of a passage.
const PASSAGE_MAX: u32 = 1000;
