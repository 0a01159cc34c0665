//! The messages that a model sees of a session: its context, made from the log and from nothing else.
//!
//! The same log gives the same messages, to the byte, whenever and wherever it is asked. So what the model saw when it
//! gave an answer can be shown at any time after: it is what the records before that answer give.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Context`], and how a store makes one |
//! | `part.rs` | the records that a context is made of, and the tail that a [`Session`](crate::Session) keeps |
//! | `records.rs` | the records that shape a context: `context`, `compaction`, `undo` |
//! | `render.rs` | the fold from records to messages: a machine of four states |
//! | `compact.rs` | making a context smaller by appending a record |
//! | `extract.rs` | a summary without a model |
//! | `passages.rs` | many passages of one session, read in one pass |

mod compact;
mod extract;
mod part;
mod passages;
mod records;
mod render;

use manent_log::LogItem;

use crate::error::{Error, Result, if_found};
use crate::reader::Start;
use crate::store::Store;
#[cfg(feature = "search")]
use crate::tokens::Counting;
use crate::tokens::Tokens;
use crate::turn::Record;
use manent_store::threads::parallel_map;
use manent_store::{SessionKey, StreamId};

pub use compact::{CompactedContext, CompactionMethod, CompactionReason, Limits, Summariser};
pub use passages::{PassageError, PassagePrompt, PassageReader, PassageResult};
pub use records::{PromptConfig, PromptConfigError};
pub use render::{Message, Origin, normalized_role};

use part::Part;
pub(crate) use part::Tail;

/// The messages and tools that a model is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// In the order in which they are sent.
    pub messages: Vec<Message>,
    /// The schemas of the tools, as JSON.
    pub tools: Option<String>,
    /// The tokens that the schemas take.
    pub tools_tokens: u64,
    /// The model, where a record names one.
    pub model: Option<String>,
    /// The protocol of tool calls, if a record names one.
    pub protocol: Option<String>,
    /// The tokens of the whole context.
    pub tokens: u64,
    /// The first turn that is in the context as it was said.
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
    /// Returns the context that a model would be given now in the live session of a key. A session that was never
    /// written has an empty one.
    pub fn context(&self, key: &SessionKey, tokens: Tokens) -> Result<Context> {
        Ok(if_found(self.context_at(&StreamId::live(key), None, tokens))?.unwrap_or_default())
    }

    /// Returns the context that the model had at a record: for an answer, the records before it; for anything else, up
    /// to and including it. Without a number, the context at the end.
    pub fn context_at(&self, at: &StreamId, seq: Option<u64>, tokens: Tokens) -> Result<Context> {
        let upto = match seq {
            None => None,
            Some(seq) => Some(self.last_seen_at(at, seq)?),
        };
        let (context, missing) = Part::read(self, at, upto)?.into_context(tokens);
        match missing.into_iter().next() {
            // Who goes on needs an answer; who asks what was seen needs the truth.
            Some(missing) if seq.is_some() => Err(missing.into()),
            _ => Ok(context),
        }
    }

    /// Returns the contexts of the sessions that were written last, newest first, each with its last turns only: for a
    /// program that starts and serves many. A session that cannot be read hides no other.
    pub fn hydrate_all(
        &self,
        sessions: usize,
        turns: u64,
        tokens: Tokens,
    ) -> Result<Vec<(SessionKey, Result<Context>)>> {
        let listed = self.recent(sessions)?;
        let threads_max = if listed.len() < SEQUENTIAL_MAX { 1 } else { THREADS_MAX };
        let contexts = parallel_map(&listed, threads_max, |listed| {
            let address = &listed.id;
            let context = Part::read_last(self, address, turns).map(|part| part.into_context(tokens).0);
            (address.key.clone(), context)
        });
        Ok(contexts.map_err(manent_store::Error::from)?)
    }

    /// The last record that a model had seen when it gave this one.
    fn last_seen_at(&self, at: &StreamId, seq: u64) -> Result<u64> {
        let mut reader = self.read(at, Start::Seq(seq))?;
        while let Some(item) = reader.next()? {
            let LogItem::Entry(entry) = item else { continue };
            if entry.seq != seq || seq == 0 {
                break;
            }
            let role = Record::of(&entry).and_then(|record| record.role());
            let is_answer = role.is_some_and(|role| normalized_role(&role) == "assistant");
            return Ok(if is_answer { seq - 1 } else { seq });
        }
        Err(Error::NoSuchRecord { name: at.key.to_string(), seq, last: None })
    }
}

/// Sums a conversation up in its own words, within a budget of tokens. `turns` has the number, role and text of each
/// turn.
#[cfg(feature = "search")]
pub(crate) fn extracted(turns: &[(u64, &str, &str)], budget: u64) -> String {
    let lines: Vec<extract::Line<'_>> =
        turns.iter().map(|(seq, role, text)| extract::Line { seq: *seq, role, text }).collect();
    extract::extract(&lines, budget, Tokens::new(Counting::Estimate))
}

const THREADS_MAX: usize = 8;
/// Up to this number, sessions are read sooner than a thread is started.
const SEQUENTIAL_MAX: usize = 16;
