//! Looks up the records of sessions that drafts quote. Drafts come in the order of the runs, which is nearly that of
//! the sessions, so each session is read forwards once; within a handful of drafts, what they quote is looked up in the
//! order of the records.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use manent::Store;
use manent::context::{Message, Origin, PassageError, PassageReader};
use manent_store::{Place, SessionKey, StreamId};

use super::draft::{ChatMessage, Draft, EarlierFailure, MessageSource, ROW_BYTES_MAX, Role};
use super::messages::RowPart;
use super::{Recipe, SkipReason};
use crate::error::Result;
use crate::runs::RecordRange;

/// A range of records that was quoted: the key and the id of the session, the first and the last record.
pub(super) type QuotedRange = ((String, String), (u64, u64));

/// The ids of the items that are in the memory now.
pub(super) type MemoryIds = Arc<HashSet<u64>>;

/// Returns the ids of the items in the memory; `None` if no prompt may hold any.
pub(super) fn memory_ids(store: &Store, recipe: &Recipe) -> Result<Option<MemoryIds>> {
    if !recipe.with_memory {
        return Ok(None);
    }
    let items = store.memory()?.items(&manent::memory::Filter::default())?;
    Ok(Some(Arc::new(items.into_iter().map(|item| item.id).collect())))
}

/// Looks up what drafts quote.
#[derive(Debug)]
pub(super) struct QuoteReader<'a> {
    store: &'a Store,
    /// Sessions that are being read, the last used last.
    open: Vec<(String, PassageReader)>,
    /// The streams of sessions by name; `None` for those that do not exist.
    found: HashMap<String, Option<StreamId>>,
    /// The ids of the items in the memory; `None` if no prompt may hold any.
    memory_ids: Option<MemoryIds>,
}

impl<'a> QuoteReader<'a> {
    pub(super) fn new(store: &'a Store, memory_ids: Option<MemoryIds>) -> QuoteReader<'a> {
        QuoteReader { store, open: Vec::new(), found: HashMap::new(), memory_ids }
    }

    /// Looks up what these drafts quote. Those for which something is not there are left out. What is quoted may be
    /// much longer than what quotes it: when there is enough, the other drafts are given back as they are.
    pub(super) fn look_up(
        &mut self,
        drafts: Vec<Draft>,
        enough: usize,
        left_out: &mut Vec<SkipReason>,
    ) -> Result<(Vec<Draft>, Vec<Draft>)> {
        let mut wanted: Vec<(String, (u64, u64), usize, RowPart)> = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            for (source, part) in [(&draft.prompt, RowPart::Prompt), (&draft.answer, RowPart::Answer)] {
                if let MessageSource::Records(passage) = source {
                    wanted.push((name(passage), (passage.seq.1, passage.seq.0), at, part));
                }
            }
        }
        if wanted.is_empty() {
            return Ok((drafts, Vec::new()));
        }
        wanted.sort_unstable();
        let mut drafts: Vec<Option<Draft>> = drafts.into_iter().map(Some).collect();
        // Drafts that quote nothing are done already.
        let mut is_done = vec![true; drafts.len()];
        for (_, _, at, _) in &wanted {
            is_done[*at] = false;
        }
        let mut bytes = 0;
        for (_, _, at, part) in wanted {
            let Some(draft) = &mut drafts[at] else { continue };
            if bytes >= enough && !is_done[at] {
                continue;
            }
            is_done[at] = true;
            if let Err(why) = self.fill(draft, part)? {
                left_out.push(why);
                drafts[at] = None;
            } else {
                bytes += draft.bytes();
            }
        }
        let (mut whole, mut rest) = (Vec::new(), Vec::new());
        for (draft, is_done) in drafts.into_iter().zip(is_done) {
            if is_done { &mut whole } else { &mut rest }.extend(draft);
        }
        Ok((whole, rest))
    }

    fn fill(&mut self, draft: &mut Draft, part: RowPart) -> Result<std::result::Result<(), SkipReason>> {
        let source = if part == RowPart::Prompt { &draft.prompt } else { &draft.answer };
        let MessageSource::Records(passage) = source else { return Ok(Ok(())) };
        let passage = passage.clone();
        if passage.seq.0 > passage.seq.1 || passage.seq.1 == 0 {
            return Ok(Err(SkipReason::BadReference));
        }
        let Ok(key) = SessionKey::new(passage.session.as_str()) else {
            return Ok(Err(SkipReason::BadReference));
        };
        let Some(reader) = self.reader(&key, &passage)? else { return Ok(Err(SkipReason::NotThere)) };
        let session = (reader.stream_id().key.to_string(), reader.stream_id().id.clone());
        match part {
            RowPart::Prompt => {
                let seen = match reader.prompt(passage.seq) {
                    Ok(seen) => seen,
                    Err(gone) => return reason(gone).map(Err),
                };
                let keeps_memory = self
                    .memory_ids
                    .as_ref()
                    .is_some_and(|now| seen.memory_ids.iter().all(|id| now.contains(id)));
                let mut messages = seen.context.messages;
                let before = messages.len();
                messages.retain(|message| keeps_memory || message.origin != Origin::Memory);
                draft.memory_left_out = messages.len() < before;
                draft.is_repair = draft.failures.iter().any(|failure| holds(&messages, &passage, failure));
                draft.failures.clear();
                draft.tools = seen.context.tools;
                draft.prompt = MessageSource::Messages(without_recalled(messages));
            }
            RowPart::Answer => match reader.messages(passage.seq) {
                Ok(messages) => match answer(messages) {
                    Some(answer) => draft.answer = MessageSource::Messages(answer),
                    None => return Ok(Err(SkipReason::OddShape)),
                },
                Err(gone) => return reason(gone).map(Err),
            },
        }
        draft.quoted.push((session, passage.seq));
        Ok(Ok(()))
    }

    /// Returns a reader of the session of a passage, an open one if there is one. `None` if there is no such session.
    fn reader(&mut self, key: &SessionKey, passage: &RecordRange) -> Result<Option<&mut PassageReader>> {
        let name = name(passage);
        if let Some(at) = self.open.iter().position(|(open, _)| *open == name) {
            self.open[at..].rotate_left(1);
        } else {
            let Some(stream) = self.find(key, passage, &name)? else { return Ok(None) };
            let reader = match PassageReader::open(self.store, &stream, ROW_BYTES_MAX) {
                Err(e) if e.is_not_found() => return Ok(None),
                opened => opened?,
            };
            if self.open.len() >= OPEN_MAX {
                self.open.remove(0);
            }
            self.open.push((name, reader));
        }
        Ok(self.open.last_mut().map(|(_, reader)| reader))
    }

    /// Finds the session of a passage, live or archived. Deleted sessions are not searched.
    fn find(&mut self, key: &SessionKey, passage: &RecordRange, name: &str) -> Result<Option<StreamId>> {
        if let Some(found) = self.found.get(name) {
            return Ok(found.clone());
        }
        let mut stream = None;
        for place in [Place::Live, Place::Archive] {
            let mut listed = self.store.list_of(place, key)?;
            listed.retain(|listed| passage.id.is_empty() || listed.id.id == passage.id);
            listed.sort_by(|a, b| (a.modified_ms, &a.id.id).cmp(&(b.modified_ms, &b.id.id)));
            if let Some(listed) = listed.pop() {
                stream = Some(listed.id);
                break;
            }
        }
        if self.found.len() >= FOUND_MAX {
            self.found.clear();
        }
        self.found.insert(name.to_owned(), stream.clone());
        Ok(stream)
    }
}

fn name(passage: &RecordRange) -> String {
    format!("{}\0{}", passage.session, passage.id)
}

fn reason(gone: PassageError) -> Result<SkipReason> {
    match gone {
        PassageError::Missing => Ok(SkipReason::NotThere),
        PassageError::Damaged => Ok(SkipReason::Damaged),
        PassageError::TooLong => Ok(SkipReason::TooLong),
        PassageError::Failed(error) => Err(error.into()),
    }
}

/// Returns true if a prompt holds the failure of an earlier attempt: its answer, or what was printed about it.
fn holds(messages: &[Message], prompt: &RecordRange, failure: &EarlierFailure) -> bool {
    let same = |output: &&RecordRange| {
        output.session == prompt.session
            && (output.id == prompt.id || output.id.is_empty() || prompt.id.is_empty())
    };
    let answered = failure.output.as_ref().filter(same).is_some_and(|output| {
        let (first, last) = output.seq;
        messages.iter().any(|message| {
            matches!(message.origin, Origin::Turn(seq) if (first..=last).contains(&seq))
                && message.role == "assistant"
        })
    });
    let finders: Vec<_> = failure.printed.iter().map(memchr::memmem::Finder::new).collect();
    let is_printed =
        |message: &Message| finders.iter().any(|finder| finder.find(message.content.as_bytes()).is_some());
    answered || messages.iter().any(is_printed)
}

/// Returns the answer of a model: from its first message to its last, with results of tools in between. `None` if that
/// is not what the records hold.
fn answer(mut messages: Vec<Message>) -> Option<Vec<ChatMessage>> {
    // A call at the end has no result yet, and none is made up.
    while messages.last().is_some_and(|message| message.role != "assistant") {
        let last = messages.pop()?;
        if last.role != "tool" {
            return None;
        }
    }
    let odd = |message: &Message| {
        let is_turn = matches!(message.origin, Origin::Turn(_));
        !is_turn || !matches!(message.role.as_str(), "assistant" | "tool")
    };
    if messages.first()?.role != "assistant" || messages.iter().any(odd) {
        return None;
    }
    let empty = |message: &Message| message.content.trim().is_empty() && message.tool_calls.is_none();
    if messages.iter().all(empty) {
        return None;
    }
    Some(without_recalled(messages))
}

/// Replaces the results of the tool `recall`: they may hold what was forgotten since.
fn without_recalled(messages: Vec<Message>) -> Vec<ChatMessage> {
    let converted = |message: Message| {
        let recalled = message.role == "tool" && message.name.as_deref() == Some("recall");
        ChatMessage {
            role: Role::parse(&message.role).unwrap_or_default(),
            content: if recalled { RECALLED.to_owned() } else { message.content },
            calls: message.tool_calls,
            call_id: message.tool_call_id,
            name: message.name,
        }
    };
    messages.into_iter().map(converted).collect()
}

/// The text in place of what the tool `recall` found.
const RECALLED: &str = "[what was recalled is not part of this data set]";
/// Sessions that are read at the same time. Each takes up to twice a row.
const OPEN_MAX: usize = 4;
const FOUND_MAX: usize = 10_000;
