//! Consolidation: turns statements of the user into memory items, with evidence, step by step.
//!
//! A step takes the next passage of a session. First it writes a summary of the passage, as one `daily` item; then it
//! asks a model which statements of the user are worth remembering, checks every answer against the user's own words,
//! and remembers those that pass. A journal records how far each session was processed; after a crash the step is
//! resumed, and items that it had written are not written again. No lease on a session is held meanwhile, so that
//! conversations go on.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Consolidation`], and how far each session was looked at |
//! | `step.rs` | the two phases of a step; comparing a claim with the memory |
//! | `journal.rs` | the log of passages that were looked at |
//! | `passage.rs` | the part of a session that a step looks at, and the user's own sentences in it |
//! | `extractor.rs` | [`Extractor`]: the model, its replies, and the stand-in without one |
//! | `grounding.rs` | the check that the user said what a model claims, and not the opposite |
//! | `inbox.rs` | proposed items, until a person accepts or rejects them |

mod extractor;
mod grounding;
mod inbox;
mod journal;
mod passage;
mod step;

use std::path::{Path, PathBuf};
use std::time::Duration;

use manent_store::{Repaired, Space, StreamId};

use crate::error::{Result, if_found};
use crate::memory::Kind;
use crate::reader::Start;
use crate::store::Store;

pub use extractor::{Extractor, ExtractorError, ExtractorReply, TokensSpent, WithoutModel, schema};
pub use grounding::Refusal;
pub use inbox::Accepted;

use journal::{Journal, JournalEntry, JournalState};
use passage::{Passage, record_mark};
use step::StepRun;

/// Settings of a consolidation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The tokens that models may take in the whole store, per day (UTC).
    pub tokens_per_day: u64,
    /// Put what was learned into the inbox, where it waits for a person.
    pub inbox: bool,
    /// Write nothing.
    pub dry_run: bool,
    /// True to begin at the first record: also what was looked at before, but nothing by the same extractor twice.
    pub again: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { tokens_per_day: 200_000, inbox: false, dry_run: false, again: false }
    }
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The session has no new turns.
    UpToDate,
    /// A passage was looked at.
    Done(Box<Consolidated>),
    /// The budget of tokens for today is used up.
    OverBudget {
        /// The tokens taken today.
        spent: u64,
        /// The tokens allowed per day.
        budget: u64,
    },
    /// The extractor did not answer. What was said is looked at again next time.
    Failed {
        /// The reason.
        why: String,
        /// True if the extractor cannot be reached at all.
        unavailable: bool,
    },
}

/// The result of a passage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consolidated {
    /// The first and the last record of the passage.
    pub turns: (u64, u64),
    /// The item that tells what happened.
    pub daily: Option<LearnedItem>,
    /// True if `daily` quotes the passage, because the extractor's summary told of something else.
    pub daily_extracted: bool,
    /// The items that are remembered now.
    pub items: Vec<LearnedItem>,
    /// The items that wait in the inbox.
    pub proposed: Vec<LearnedItem>,
    /// The claims that are not remembered, by their quotes.
    pub refused: Vec<(Refusal, String)>,
    /// The extractor gave no answer that could be read.
    pub unreadable: bool,
    /// The tokens that the extractor took.
    pub spent: TokensSpent,
    /// There is more to look at.
    pub more: bool,
}

/// A fact that was learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedItem {
    /// The number of the item; `None` in a dry run.
    pub id: Option<u64>,
    /// The kind of the item.
    pub kind: Kind,
    /// The text of the item.
    pub content: String,
    /// The words of the user that it rests on.
    pub quote: String,
    /// The record in which they stand.
    pub seq: u64,
    /// The item that it replaces.
    pub replaces: Option<u64>,
}

/// The consolidation of a store.
#[derive(Debug, Clone)]
pub struct Consolidation {
    store: Store,
    /// The journal, for messages.
    path: PathBuf,
}

impl Store {
    /// Returns the consolidation of this store, which turns what was said into memory.
    pub fn consolidation(&self) -> Result<Consolidation> {
        self.check_supports(Space::Journal)?;
        let name = || format!("journal of {}", self.streams().name()).into();
        let path = self.streams().path(&StreamId::single(Space::Journal)).unwrap_or_else(name);
        Ok(Consolidation { store: self.clone(), path })
    }
}

impl Consolidation {
    /// The journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the right to consolidate, waiting for another at most `wait`, until the [`Consolidator`] is dropped. If
    /// somebody else has it, that is [`Error::ConsolidationHeld`](crate::Error::ConsolidationHeld).
    pub fn consolidator(&self, wait: Duration) -> Result<Consolidator> {
        let journal = Journal::hold(&self.store, wait)?;
        Ok(Consolidator { of: self.clone(), journal })
    }

    /// The last record of a session that was looked at; 0: none was.
    pub fn cursor(&self, at: &StreamId) -> Result<u64> {
        let (at, _) = self.resolved(at)?;
        let journal = JournalState::read(&self.store, name_of(&at))?;
        Ok(self.reached(&journal, &at)?.cursor)
    }

    /// Checks every byte of the journal. Returns `None` if there is none.
    pub fn verify(&self) -> Result<Option<manent_log::VerifyReport>> {
        self.store.verify_stream(&StreamId::single(Space::Journal))
    }

    /// Sets a torn end aside, and acknowledges damage. A sound journal is not written to.
    pub fn repair(&self) -> Result<Repaired> {
        if !self.store.is_damaged(&StreamId::single(Space::Journal))? {
            return Ok(Repaired::default());
        }
        self.consolidator(self.store.wait())?.journal.repair()
    }

    /// Returns a session with its id filled in, and the last record that is its parent's, if it is a fork.
    fn resolved(&self, at: &StreamId) -> Result<(StreamId, u64)> {
        let mut at = at.clone();
        let Some(mut reader) = if_found(self.store.read(&at, Start::Header))? else { return Ok((at, 0)) };
        reader.next()?;
        let Some(meta) = reader.meta() else { return Ok((at, 0)) };
        if at.id.is_empty() {
            at.id.clone_from(&meta.id);
        }
        Ok((at, meta.parent.as_ref().map_or(0, |parent| parent.upto)))
    }

    /// Determines how far a session was looked at. A number counts only while the record behind it is the one that was
    /// read: records that a crash took may have been written anew. The records that a fork shares belong to its parent.
    fn reached(&self, journal: &JournalState, at: &StreamId) -> Result<ConsolidationProgress> {
        let (_, shared) = self.resolved(at)?;
        let mut entries: Vec<&JournalEntry> = journal.entries.iter().collect();
        entries.sort_unstable_by(|a, b| (b.turns.1, &b.end, b.is_done).cmp(&(a.turns.1, &a.end, a.is_done)));
        entries.dedup_by(|next, one| (next.turns.1, &next.end) == (one.turns.1, &one.end));
        let mut reached = ConsolidationProgress { shared, cursor: shared, gone: Vec::new() };
        for entry in entries {
            if !self.is_unchanged(at, entry.turns.1, &entry.end)? {
                reached.gone.push((entry.turns.1, entry.end.clone()));
            } else if entry.is_done {
                reached.cursor = entry.turns.1.max(shared);
                break;
            }
        }
        Ok(reached)
    }

    fn is_unchanged(&self, at: &StreamId, seq: u64, mark: &str) -> Result<bool> {
        let Some(mut reader) = if_found(self.store.read(at, Start::Seq(seq)))? else { return Ok(false) };
        while let Some(item) = reader.next()? {
            match item {
                manent_log::LogItem::Entry(entry) if entry.seq == seq => {
                    return Ok(record_mark(&entry) == mark);
                }
                // It cannot be read any more; but it is there, or what follows it is.
                manent_log::LogItem::Entry(entry) if entry.seq > seq => return Ok(true),
                manent_log::LogItem::Damage(damage) if damage.seq.saturating_add(damage.lines) > seq => {
                    return Ok(true);
                }
                _ => {}
            }
        }
        // A torn end is set aside by the next writer, which gives its numbers to other records.
        Ok(matches!(reader.end(), manent_log::LogEnd::Torn(torn) if torn.seq <= seq && torn.length > 0))
    }
}

/// The extent to which a session was looked at.
#[derive(Debug)]
struct ConsolidationProgress {
    /// The last record that the session shares with its parent.
    shared: u64,
    cursor: u64,
    /// Ends of passages that are no longer what they were: the numbers, and by what they were known.
    gone: Vec<(u64, String)>,
}

impl ConsolidationProgress {
    fn is_gone(&self, entry: &JournalEntry) -> bool {
        self.gone.iter().any(|(seq, end)| *seq == entry.turns.1 && *end == entry.end)
    }
}

/// The right to consolidate.
#[derive(Debug)]
pub struct Consolidator {
    of: Consolidation,
    journal: Journal,
}

impl Consolidator {
    /// Looks at the next passage of a session.
    pub fn step(&mut self, at: &StreamId, extractor: &mut dyn Extractor, rules: &Rules) -> Result<Step> {
        let prompt = hash_of(extractor);
        let (at, _) = self.of.resolved(at)?;
        let journal = JournalState::read(&self.of.store, name_of(&at))?;
        let reached = self.of.reached(&journal, &at)?;
        let is_current = |entry: &&JournalEntry| entry.prompt == prompt && !reached.is_gone(entry);
        // Nothing behind the cursor is finished.
        let finished: Vec<&JournalEntry> =
            journal.entries.iter().filter(is_current).filter(|entry| entry.is_done && rules.again).collect();
        let mut first = if rules.again { reached.shared } else { reached.cursor }.saturating_add(1);
        loop {
            if let Some(entry) =
                finished.iter().find(|entry| entry.turns.0 <= first && first <= entry.turns.1)
            {
                first = entry.turns.1.saturating_add(1);
                continue;
            }
            let next = finished.iter().map(|entry| entry.turns.0).filter(|next| *next > first).min();
            let resumed = journal.open().filter(is_current).filter(|open| open.turns.0 == first);
            let upto = resumed.map_or(u64::MAX, |open| open.turns.1);
            let upto = upto.min(next.map_or(u64::MAX, |next| next - 1));
            let read = Passage::read(&self.of.store, &at, (first, upto), extractor.max_input())?;
            let Some(passage) = read else {
                let Some(next) = next else { return Ok(Step::UpToDate) };
                first = next;
                continue;
            };
            if journal.spent >= rules.tokens_per_day && !passage.user_turns.is_empty() {
                return Ok(Step::OverBudget { spent: journal.spent, budget: rules.tokens_per_day });
            }
            let work = StepRun::new(&at, &passage, &prompt, rules, (&journal, &reached, resumed));
            return work.run(self, extractor);
        }
    }
}

/// Returns the name of a session in the journal: its id, or the key of one that has no id.
fn name_of(at: &StreamId) -> &str {
    if at.id.is_empty() { at.key.as_str() } else { &at.id }
}

fn hash_of(extractor: &dyn Extractor) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(extractor.name().as_bytes()).update(b"\n").update(extractor.prompt().as_bytes());
    hash.finalize().to_hex().as_str()[..HASH_CHARS].to_owned()
}

const HASH_CHARS: usize = 16;
