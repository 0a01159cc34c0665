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

mod compact;
mod extract;
mod plan;
mod records;
mod render;

use std::collections::HashSet;

use manent_log::Item;

use crate::backend::{Address, Listed, Place, Start};
use crate::error::{Error, Result};
use crate::key::SessionKey;
use crate::store::Store;
use crate::tokens::Tokens;
use crate::turn::Record;

pub use compact::{Compacted, Limits, Reason, Summariser, Way};
pub use records::{Setting, SettingError};
pub use render::{Message, Origin};

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
        match self.context_at(&Address::live(key), None, tokens) {
            Err(e) if e.is_not_found() => Ok(Context::default()),
            context => context,
        }
    }

    /// What the model saw at a record: for an answer, what stood before it; for anything else, up to and with it.
    /// Nothing: at the end.
    pub fn context_at(&self, at: &Address, seq: Option<u64>, tokens: Tokens) -> Result<Context> {
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
        let mut listed = self.list(Place::Live)?;
        listed.sort_by(|a, b| (b.modified_ms, &b.address.key).cmp(&(a.modified_ms, &a.address.key)));
        listed.truncate(sessions);
        let hydrate = |listed: &Listed| {
            let part = Part::read_last(self, &listed.address, turns);
            let context = part.and_then(|part| part.context(self, &listed.address, tokens));
            (listed.address.key.clone(), context.map(|(context, _)| context))
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let each = listed.len().div_ceil(threads).max(1);
        if threads == 1 || listed.len() < ALONE_MAX {
            return Ok(listed.iter().map(hydrate).collect());
        }
        let hydrated = std::thread::scope(|scope| {
            let work = |part: &[Listed]| part.iter().map(hydrate).collect::<Vec<_>>();
            let started: Vec<_> =
                listed.chunks(each).map(|part| (part, scope.spawn(move || work(part)))).collect();
            // A thread that died is done without: its part is done here.
            started
                .into_iter()
                .flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| work(part)))
                .collect()
        });
        Ok(hydrated)
    }

    /// The last record that a model had seen when it gave this one.
    fn last_seen_at(&self, at: &Address, seq: u64) -> Result<u64> {
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
    fn read(store: &Store, at: &Address, upto: Option<u64>) -> Result<Part> {
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
    fn read_last(store: &Store, at: &Address, turns: u64) -> Result<Part> {
        let (mut held, _) = read_from(store, at, Start::Tail { count: turns, before: None }, None)?;
        let compaction = in_force(&held);
        let last_seq = held.iter().rev().find_map(Held::seq).unwrap_or(0);
        if let Some(compaction) = &compaction {
            held.retain(|held| held.seq().is_none_or(|seq| seq >= compaction.kept_from));
        }
        Ok(Part { held, compaction, last_seq })
    }

    /// What was sent besides the turns, at the end of the part.
    fn setting(&self, store: &Store, at: &Address) -> Result<Option<(Setting, Vec<SettingError>)>> {
        let setting = match self.held.iter().rev().find_map(Held::setting) {
            Some(setting) => Some(setting),
            // What was said before the part began may still hold.
            None => self.setting_before(store, at)?,
        };
        setting.map(|setting| setting.resolved(store, at)).transpose()
    }

    /// With the texts that are not where they should be: each is counted as a gap.
    fn context(self, store: &Store, at: &Address, tokens: Tokens) -> Result<(Context, Vec<SettingError>)> {
        let (setting, missing) = match self.setting(store, at)? {
            Some((setting, missing)) => (Some(setting), missing),
            None => (None, Vec::new()),
        };
        let mut context = render::render(self.held, self.compaction.as_ref(), setting.as_ref(), tokens);
        context.last_seq = self.last_seq;
        context.gaps += missing.len() as u64;
        Ok((context, missing))
    }

    fn setting_before(&self, store: &Store, at: &Address) -> Result<Option<records::Noted>> {
        let Some(seq) = self.compaction.as_ref().and_then(|compaction| compaction.context_seq) else {
            return Ok(None);
        };
        let (held, _) = read_from(store, at, Start::Seq(seq), Some(seq))?;
        Ok(held.iter().find_map(Held::setting))
    }
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
fn read_from(store: &Store, at: &Address, start: Start, upto: Option<u64>) -> Result<(Vec<Held>, bool)> {
    let mut reader = store.read(at, start)?;
    let (mut held, mut turns) = (Vec::new(), 0);
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
    // Fewer turns than were asked for: there are no others.
    let whole = matches!(start, Start::Tail { count, .. } if turns < count);
    Ok((held, whole))
}

const TAIL_TURNS: u64 = 64;
const THREADS_MAX: usize = 8;
/// So few are read sooner than a thread is begun.
const ALONE_MAX: usize = 16;
