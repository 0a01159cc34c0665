//! What a model sees of a session: the messages of its context, made from the log and from nothing else.
//!
//! The same log gives the same messages, to the byte, whenever and wherever it is asked. So what the model saw when it
//! gave an answer can be shown at any time after: it is what the records before that answer give.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Context`]: reading back to where it begins, at the cost of the tail |
//! | `records.rs` | the records that shape a context: `context`, `compaction`, `undo` |
//! | `render.rs` | the fold from records to messages: a machine of four states |
//! | `compact.rs`, `plan.rs` | making a context smaller by a record; which way leads there |
//! | `extract.rs` | a summary without a model |
//! | `follow.rs` | many passages of one session, read in one go |

mod compact;
mod extract;
mod follow;
mod plan;
mod records;
mod render;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use manent_log::Item;

use crate::error::{Error, Result};
use crate::reading::Reader;
use crate::store::Store;
use crate::stream::Start;
#[cfg(feature = "search")]
use crate::tokens::Counting;
use crate::tokens::Tokens;
use crate::turn::Record;
use manent_store::threads::share;
use manent_store::{SessionKey, StreamId};

pub use compact::{Compacted, Limits, Reason, Summariser, Way};
pub use follow::{Follower, Gone, Seen};
pub use records::{Setting, SettingError};
pub use render::{Message, Origin, standard as speaker};

use records::{Compaction, Held};

/// What a model sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// In the order in which they are sent.
    pub messages: Vec<Message>,
    /// The schemas of the tools, as JSON; nothing if there are none.
    pub tools: Option<String>,
    /// What the schemas take.
    pub tools_tokens: u64,
    /// The model, where a record names one.
    pub model: Option<String>,
    /// How tools are called, where a record says so.
    pub protocol: Option<String>,
    /// All of it, in tokens.
    pub tokens: u64,
    /// The first turn that is in it as it was said; nothing if none is.
    pub first_seq: Option<u64>,
    /// The last record that counts.
    pub last_seq: u64,
    /// The compaction that is in force, by its number.
    pub compaction: Option<u64>,
    /// Places in the part that was read which cannot be read.
    pub gaps: u64,
    /// The last thing in it is a question that nobody answered.
    pub unanswered: bool,
}

impl Store {
    /// What a model sees of the live session of a key if it is asked now. One that was never written is empty.
    pub fn context(&self, key: &SessionKey, tokens: Tokens) -> Result<Context> {
        match self.context_at(&StreamId::live(key), None, tokens) {
            Err(e) if e.is_not_found() => Ok(Context::default()),
            context => context,
        }
    }

    /// What the model saw at a record: for an answer, what stood before it; for anything else, up to and with it.
    /// Nothing: at the end.
    pub fn context_at(&self, at: &StreamId, seq: Option<u64>, tokens: Tokens) -> Result<Context> {
        let upto = match seq {
            None => None,
            Some(seq) => Some(self.last_seen_at(at, seq)?),
        };
        let (context, missing) = Part::read(self, at, upto)?.context(self, at, tokens)?;
        match missing.into_iter().next() {
            // Who goes on needs an answer; who asks what was seen needs the truth.
            Some(missing) if seq.is_some() => Err(missing.into()),
            _ => Ok(context),
        }
    }

    /// What models see of the sessions that were written last, newest first, each with its last turns only: for a
    /// program that starts and serves many. One that cannot be read hides no other.
    pub fn hydrate_all(
        &self,
        sessions: usize,
        turns: u64,
        tokens: Tokens,
    ) -> Result<Vec<(SessionKey, Result<Context>)>> {
        let listed = self.recent(sessions)?;
        Ok(in_threads(&listed, |listed| {
            let address = &listed.id;
            let context = self.hydrate(address, turns, tokens);
            (address.key.clone(), context)
        }))
    }

    fn hydrate(&self, at: &StreamId, turns: u64, tokens: Tokens) -> Result<Context> {
        let (part, id) = Part::read_last(self, at, turns)?;
        // Whatever else is looked up for it is of this very session, though another may have taken its place since.
        let at = StreamId { id, ..at.clone() };
        Ok(part.context(self, &at, tokens)?.0)
    }

    /// The last record that a model had seen when it gave this one.
    fn last_seen_at(&self, at: &StreamId, seq: u64) -> Result<u64> {
        let mut reader = self.read(at, Start::Seq(seq))?;
        while let Some(item) = reader.next()? {
            let Item::Entry(entry) = item else { continue };
            if entry.seq != seq || seq == 0 {
                break;
            }
            let role =
                Record::of(&entry).and_then(|record| record.role().map(|role| render::is_answer(&role)));
            return Ok(if role == Some(true) { seq - 1 } else { seq });
        }
        Err(Error::NoSuchRecord { name: at.key.to_string(), seq, last: None })
    }
}

/// The part of a session that a context is made of.
struct Part {
    /// Records and gaps from where it begins, in order.
    held: Vec<Held>,
    compaction: Option<Compaction>,
    last_seq: u64,
}

impl Part {
    /// Reads from the end back to where the compaction in force lets it begin, or to the beginning if there is none.
    ///
    /// Streams are read forwards, so a longer tail is read until it is long enough: what is read in vain is less than
    /// what is needed.
    fn read(store: &Store, at: &StreamId, upto: Option<u64>) -> Result<Part> {
        let mut turns = TAIL_TURNS;
        loop {
            let start = match upto {
                Some(0) => return Ok(Part { held: Vec::new(), compaction: None, last_seq: 0 }),
                Some(seq) => Start::Tail { count: turns, before: Some(seq + 1) },
                None => Start::Tail { count: turns, before: None },
            };
            let (held, whole) = read_from(store, at, start, upto)?;
            if let Some(compaction) = in_force(&held) {
                let from = compaction.kept_from;
                let is_enough = whole || held.iter().any(|held| held.seq().is_some_and(|seq| seq < from));
                let mut held =
                    if is_enough { held } else { read_from(store, at, Start::Seq(from.max(1)), upto)?.0 };
                let last_seq = held.iter().rev().find_map(Held::seq).unwrap_or(0);
                held.retain(|held| held.seq().is_none_or(|seq| seq >= from));
                let mut pinned = Vec::new();
                for seq in &compaction.pinned {
                    pinned.extend(read_from(store, at, Start::Seq(*seq), Some(*seq))?.0);
                }
                held.splice(0..0, pinned);
                return Ok(Part { held, compaction: Some(compaction), last_seq });
            }
            if whole {
                let last_seq = held.iter().rev().find_map(Held::seq).unwrap_or(0);
                return Ok(Part { held, compaction: None, last_seq });
            }
            turns = turns.saturating_mul(4);
        }
    }

    /// Reads the last turns and no more, whatever was compacted; but nothing that is summed up.
    /// Gives the id of the session that was read, too.
    fn read_last(store: &Store, at: &StreamId, turns: u64) -> Result<(Part, String)> {
        let mut reader = store.read(at, Start::Tail { count: turns, before: None })?;
        let (mut held, _) = hold(&mut reader, None)?;
        let id = reader.meta().map(|meta| meta.id.clone()).unwrap_or_default();
        let compaction = in_force(&held);
        let last_seq = held.iter().rev().find_map(Held::seq).unwrap_or(0);
        if let Some(compaction) = &compaction {
            held.retain(|held| held.seq().is_none_or(|seq| seq >= compaction.kept_from));
        }
        Ok((Part { held, compaction, last_seq }, id))
    }

    /// What was sent besides the turns, at the end of the part.
    fn setting(&self, store: &Store, at: &StreamId) -> Result<Option<(Setting, Vec<SettingError>)>> {
        let setting = match self.held.iter().rev().find_map(Held::setting) {
            Some(setting) => Some(setting),
            // What was said before the part began may still hold.
            None => self.setting_before(store, at)?,
        };
        setting.map(|setting| setting.resolved(store, at)).transpose()
    }

    /// With the texts that are not where they should be: each is counted as a gap.
    fn context(self, store: &Store, at: &StreamId, tokens: Tokens) -> Result<(Context, Vec<SettingError>)> {
        let (setting, missing) = match self.setting(store, at)? {
            Some((setting, missing)) => (Some(setting), missing),
            None => (None, Vec::new()),
        };
        let mut context = render::render(self.held, self.compaction.as_ref(), setting.as_ref(), tokens);
        context.last_seq = self.last_seq;
        context.gaps += missing.len() as u64;
        Ok((context, missing))
    }

    fn setting_before(&self, store: &Store, at: &StreamId) -> Result<Option<records::Noted>> {
        let Some(seq) = self.compaction.as_ref().and_then(|compaction| compaction.context_seq) else {
            return Ok(None);
        };
        let (held, _) = read_from(store, at, Start::Seq(seq), Some(seq))?;
        Ok(held.iter().find_map(Held::setting))
    }
}

/// What a conversation is about, in so many tokens and in its own words: numbers, who spoke, what was said.
#[cfg(feature = "search")]
pub(crate) fn extracted(told: &[(u64, &str, &str)], budget: u64) -> String {
    let lines: Vec<extract::Line<'_>> =
        told.iter().map(|(seq, role, text)| extract::Line { seq: *seq, role, text }).collect();
    extract::extract(&lines, budget, Tokens::new(Counting::Estimate))
}

/// The newest compaction that was not undone.
fn in_force(held: &[Held]) -> Option<Compaction> {
    let mut undone = HashSet::new();
    for held in held.iter().rev() {
        match held {
            Held::Undo(target) => {
                undone.insert(*target);
            }
            Held::Compaction(compaction) if !undone.contains(&compaction.seq) => {
                return Some(compaction.clone());
            }
            _ => {}
        }
    }
    None
}

/// Reads records up to a number; and whether that was everything from the first one on.
fn read_from(store: &Store, at: &StreamId, start: Start, upto: Option<u64>) -> Result<(Vec<Held>, bool)> {
    let (held, turns) = hold(&mut store.read(at, start)?, upto)?;
    // Fewer turns than were asked for: there are no others.
    let whole = matches!(start, Start::Tail { count, .. } if turns < count);
    Ok((held, whole))
}

/// What a reader gives up to a number; and how many turns are in it.
fn hold(reader: &mut Reader, upto: Option<u64>) -> Result<(Vec<Held>, u64)> {
    let (mut held, mut turns) = (Vec::with_capacity(TAIL_TURNS as usize), 0);
    while let Some(item) = reader.next()? {
        match item {
            Item::Damage(damage) => held.push(Held::Gap(damage)),
            Item::Entry(entry) if upto.is_some_and(|upto| entry.seq > upto) => break,
            Item::Entry(entry) => {
                let one = Held::of(&entry);
                turns += u64::from(matches!(one, Some(Held::Turn(_))));
                held.extend(one);
            }
        }
    }
    Ok((held, turns))
}

/// Does something for each of many, in as many threads as there are processors; what comes of it is in their order.
fn in_threads<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    if threads == 1 || all.len() < ALONE_MAX {
        return all.iter().map(work).collect();
    }
    // Each takes the next few as soon as it is done with the last: one of them may have a processor to itself.
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::with_capacity(all.len() / threads);
        loop {
            let from = next.fetch_add(AT_ONCE, Ordering::Relaxed);
            let Some(few) = all.get(from..).filter(|rest| !rest.is_empty()) else { return done };
            done.extend(few.iter().take(AT_ONCE).enumerate().map(|(at, one)| (from + at, work(one))));
        }
    };
    let mut results: Vec<Option<R>> = all.iter().map(|_| None).collect();
    let done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| share(scope, take)).collect();
        let mut done = take();
        done.extend(others.into_iter().filter_map(|other| other.finish().ok()).flatten());
        done
    });
    for (at, result) in done {
        results[at] = Some(result);
    }
    // A thread that died is done without: its part is done here.
    results.into_iter().zip(all).map(|(result, one)| result.unwrap_or_else(|| work(one))).collect()
}

const TAIL_TURNS: u64 = 64;
const THREADS_MAX: usize = 8;
/// So few are read sooner than a thread is begun.
const ALONE_MAX: usize = 16;
const AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use super::in_threads;
    use manent_store::threads::without_threads;

    #[test]
    fn in_threads_without_threads_does_all_of_it_here_in_order() {
        let all: Vec<u64> = (0..1000).collect();
        let here = std::thread::current().id();
        let done = without_threads(|| in_threads(&all, |one| (one * 2, std::thread::current().id() == here)));
        assert_eq!(done, all.iter().map(|one| (one * 2, true)).collect::<Vec<_>>());
    }
}
