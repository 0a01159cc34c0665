//! The records that shape a context, and the fields of a turn that it needs.
//!
//! A `context` record holds what was sent besides the turns: the system text, the schemas of the tools, the remembered
//! items. It is written when one of these changes. A text that an earlier `context` record of the session holds is not
//! written again, only its place and its hash.

use std::borrow::Cow;

use manent_log::{Body, Damage, Entry};
use serde_json::Value;

use crate::Receipt;
use crate::error::Result;
#[cfg(feature = "search")]
use crate::memory::Selection;
use crate::meta::{add_json, add_texts};
use crate::reader::Reader;
use crate::store::Session;
use crate::turn::Record;
use manent_store::clock;

/// A record as a context needs it.
#[derive(Debug, Clone)]
pub(super) enum ContextRecord {
    Turn(ContextTurn),
    Compaction(Compaction),
    /// A compaction that does not count any more, by its number.
    Undo(u64),
    PromptConfig(PromptConfigRecord),
    Gap(Damage),
    /// Anything else, by its number.
    Other(u64),
}

/// A turn.
#[derive(Debug, Clone, Default)]
pub(super) struct ContextTurn {
    pub(super) seq: u64,
    pub(super) role: Cow<'static, str>,
    pub(super) content: String,
    /// The tool calls as JSON, with the ids of the calls.
    pub(super) calls: Option<(String, Vec<String>)>,
    /// The id of the call that a tool result answers.
    pub(super) answers: Option<String>,
    pub(super) name: Option<String>,
}

/// The contents of a `compaction` record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Compaction {
    pub(super) seq: u64,
    /// The first turn that stays as it was said.
    pub(super) kept_from: u64,
    /// Results of tools behind that which are only pointed to.
    pub(super) pruned: Vec<u64>,
    /// Turns before the first that is kept, which stay as they were said all the same.
    pub(super) pinned: Vec<u64>,
    pub(super) summary: String,
    /// The `context` record that held when it was made.
    pub(super) context_seq: Option<u64>,
}

impl ContextRecord {
    pub(super) fn of(entry: &Entry<'_>) -> Option<ContextRecord> {
        let record = Record::of(entry)?;
        let seq = entry.seq;
        if let Some(role) = record.role() {
            return Some(ContextRecord::Turn(turn_of(seq, shared(role), &record)));
        }
        let number = |name: &str| record.parse::<u64>(name);
        let numbers = |name: &str| record.parse::<Vec<u64>>(name).unwrap_or_default();
        Some(match record.kind().as_deref() {
            Some("compaction") => {
                // One that keeps no turn is not valid.
                let kept_from = number("kept_from").filter(|from| *from <= seq)?;
                let mut pinned = numbers("pinned");
                pinned.retain(|pinned| *pinned < kept_from);
                pinned.truncate(PINNED_MAX);
                ContextRecord::Compaction(Compaction {
                    seq,
                    kept_from,
                    pruned: numbers("pruned"),
                    pinned,
                    summary: record.content().into_owned(),
                    context_seq: number("context"),
                })
            }
            Some("undo") => ContextRecord::Undo(number("target")?),
            Some("context") => ContextRecord::PromptConfig(PromptConfigRecord::of(seq, &record)),
            _ => ContextRecord::Other(seq),
        })
    }

    pub(super) fn seq(&self) -> Option<u64> {
        match self {
            ContextRecord::Turn(turn) => Some(turn.seq),
            ContextRecord::Compaction(compaction) => Some(compaction.seq),
            ContextRecord::PromptConfig(config) => Some(config.seq),
            ContextRecord::Other(seq) => Some(*seq),
            ContextRecord::Undo(_) | ContextRecord::Gap(_) => None,
        }
    }

    /// Returns about how much memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let texts = match self {
            ContextRecord::Turn(turn) => {
                turn.content.len() + turn.calls.as_ref().map_or(0, |(json, _)| json.len())
            }
            ContextRecord::Compaction(compaction) => compaction.summary.len(),
            ContextRecord::PromptConfig(config) => {
                TEXTS.iter().filter_map(|what| config.text(what)).map(str::len).sum()
            }
            ContextRecord::Undo(_) | ContextRecord::Gap(_) | ContextRecord::Other(_) => 0,
        };
        texts + size_of::<ContextRecord>()
    }

    pub(super) fn prompt_config(&self) -> Option<&PromptConfigRecord> {
        match self {
            ContextRecord::PromptConfig(config) => Some(config),
            _ => None,
        }
    }
}

/// Borrows one of the four usual roles, so that not every turn has a copy.
fn shared(role: Cow<'_, str>) -> Cow<'static, str> {
    match ROLES.into_iter().find(|shared| *shared == role) {
        Some(shared) => Cow::Borrowed(shared),
        None => Cow::Owned(role.into_owned()),
    }
}

fn turn_of(seq: u64, role: Cow<'static, str>, record: &Record<'_>) -> ContextTurn {
    if record.is_plain() {
        return ContextTurn { seq, role, content: record.content().into_owned(), ..ContextTurn::default() };
    }
    let calls = record.member("tool_calls").map(|json| (json.to_owned(), ids_in(json)));
    ContextTurn {
        seq,
        role,
        content: record.content().into_owned(),
        calls: calls.filter(|(_, ids)| !ids.is_empty()),
        answers: record.string("tool_call_id").map(Cow::into_owned),
        name: record.string("name").map(Cow::into_owned),
    }
}

/// The ids of tool calls. A call without one is known by its place.
fn ids_in(json: &str) -> Vec<String> {
    let Ok(Value::Array(calls)) = serde_json::from_str::<Value>(json) else { return Vec::new() };
    let id = |(at, call): (usize, &Value)| {
        call.get("id").and_then(Value::as_str).map_or_else(|| format!("call-{at}"), str::to_owned)
    };
    calls.iter().enumerate().map(id).collect()
}

/// Everything that is sent besides the turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptConfig {
    /// The system text.
    pub system: Option<String>,
    /// The schemas of the tools, as JSON.
    pub tools: Option<String>,
    /// The block of remembered items, as it was given.
    pub memory: Option<String>,
    /// The ids of what was remembered.
    pub memory_ids: Vec<u64>,
    /// The model.
    pub model: Option<String>,
    /// The protocol of tool calls where that is not left to the server: it decides how messages are written for the
    /// model.
    pub protocol: Option<String>,
}

/// A text of a `context` record is not where the record says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} has no {what} as record {by} says; what the model saw there cannot be shown")]
pub struct PromptConfigError {
    /// The member that should hold the text.
    pub what: &'static str,
    /// The record that should hold it.
    pub seq: u64,
    /// The record that refers to it.
    pub by: u64,
}

/// The contents of a `context` record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PromptConfigRecord {
    pub(super) seq: u64,
    texts: [Option<Text>; 3],
    memory_ids: Vec<u64>,
    model: Option<String>,
    protocol: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Here(String),
    At { seq: u64, hash: String },
}

impl PromptConfigRecord {
    fn of(seq: u64, record: &Record<'_>) -> PromptConfigRecord {
        let text = |name: &str| match record.parse(name)? {
            Value::String(text) => Some(Text::Here(text)),
            Value::Object(at) => {
                Some(Text::At { seq: at.get("at")?.as_u64()?, hash: at.get("hash")?.as_str()?.to_owned() })
            }
            _ => None,
        };
        PromptConfigRecord {
            seq,
            texts: TEXTS.map(text),
            memory_ids: record.parse("memory").unwrap_or_default(),
            model: record.string("model").map(Cow::into_owned),
            protocol: record.string("protocol").map(Cow::into_owned),
        }
    }

    /// Returns a text that stands in this very record.
    pub(super) fn text(&self, what: &str) -> Option<&str> {
        let at = TEXTS.iter().position(|name| *name == what)?;
        match self.texts.get(at)?.as_ref()? {
            Text::Here(text) => Some(text),
            Text::At { .. } => None,
        }
    }

    /// Lists the texts that stand in other records: the number of the record, and the member.
    pub(super) fn references(&self) -> impl Iterator<Item = (u64, &'static str)> {
        self.texts.iter().zip(TEXTS).filter_map(|(text, what)| match text {
            Some(Text::At { seq, .. }) => Some((*seq, what)),
            _ => None,
        })
    }

    /// Returns the setting with its texts, and which of them are not where they should be. `text_at` gives a text that
    /// stands in another record.
    pub(super) fn resolved(
        &self,
        text_at: &mut dyn FnMut(u64, &'static str) -> Option<String>,
    ) -> (PromptConfig, Vec<PromptConfigError>) {
        let (mut texts, mut missing) = ([None, None, None], Vec::new());
        for ((text, slot), what) in self.texts.iter().zip(&mut texts).zip(TEXTS) {
            *slot = match text {
                None => None,
                Some(Text::Here(text)) => Some(text.clone()),
                Some(Text::At { seq, hash }) => {
                    let found = text_at(*seq, what).filter(|text| hash_of(text) == *hash);
                    if found.is_none() {
                        missing.push(PromptConfigError { what, seq: *seq, by: self.seq });
                    }
                    found
                }
            };
        }
        let [system, tools, memory] = texts;
        let (memory_ids, model, protocol) =
            (self.memory_ids.clone(), self.model.clone(), self.protocol.clone());
        (PromptConfig { system, tools, memory, memory_ids, model, protocol }, missing)
    }
}

/// Reads a text that stands in the `context` record of a number, to which the reader was moved.
pub(super) fn text_in(reader: &mut Reader, seq: u64, what: &str) -> Result<Option<String>> {
    let Some(manent_log::LogItem::Entry(entry)) = reader.next()? else { return Ok(None) };
    let record = Record::of(&entry).filter(|_| entry.seq == seq);
    Ok(record.and_then(|record| record.parse(what)))
}

impl PromptConfig {
    /// Adds the items that were selected from the memory.
    #[cfg(feature = "search")]
    #[must_use]
    pub fn remembering(mut self, chosen: &Selection) -> PromptConfig {
        self.memory = Some(chosen.text.clone()).filter(|text| !text.is_empty());
        self.memory_ids.clone_from(&chosen.ids);
        self
    }

    fn texts(&self) -> [Option<&String>; 3] {
        [self.system.as_ref(), self.tools.as_ref(), self.memory.as_ref()]
    }

    /// The record of it. Texts that `before` has, the last setting of the session, are named and not repeated.
    fn body(&self, before: Option<&PromptConfigRecord>) -> Body {
        let mut body = Body::new();
        body.string("ts", &clock::now()).string("kind", "context");
        add_texts(&mut body, &[("model", &self.model), ("protocol", &self.protocol)]);
        add_json(&mut body, "memory", &self.memory_ids);
        for (at, (text, name)) in self.texts().into_iter().zip(TEXTS).enumerate() {
            let Some(text) = text else { continue };
            let recorded =
                before.and_then(|before| before.seq_of_text(at, text)).filter(|_| text.len() > SHORT_BYTES);
            match recorded {
                Some(seq) => {
                    let mut reference = Body::new();
                    reference.number("at", seq).string("hash", &hash_of(text));
                    body.object(name, &reference);
                }
                None => {
                    body.string(name, text);
                }
            }
        }
        body
    }
}

impl PromptConfigRecord {
    /// The number of the record in which a text stands, if this setting has that very text.
    fn seq_of_text(&self, at: usize, text: &str) -> Option<u64> {
        match self.texts.get(at)?.as_ref()? {
            Text::Here(here) => (here == text).then_some(self.seq),
            Text::At { seq, hash } => (*hash == hash_of(text)).then_some(*seq),
        }
    }

    fn equals(&self, config: &PromptConfig) -> bool {
        let same = |(at, text): (usize, Option<&String>)| match text {
            Some(text) => self.seq_of_text(at, text).is_some(),
            None => self.texts[at].is_none(),
        };
        self.memory_ids == config.memory_ids
            && self.model == config.model
            && self.protocol == config.protocol
            && config.texts().into_iter().enumerate().all(same)
    }
}

impl Session {
    /// Records what will be sent besides the turns, if the last `context` record differs; otherwise returns `None`.
    /// Called before each question to a model, with what was chosen from the memory just then, so that what is
    /// forgotten is not sent.
    pub fn set_context(&mut self, config: &PromptConfig) -> Result<Option<Receipt>> {
        let mut before = None;
        if let Some(part) = self.take_part()? {
            // A text that cannot be read any more is written again.
            let is_whole = part.prompt_config().is_some_and(|(_, missing)| missing.is_empty());
            before = part.last_prompt_config().filter(|_| is_whole).cloned();
            self.keep_part(part);
        }
        if before.as_ref().is_some_and(|before| before.equals(config)) {
            return Ok(None);
        }
        self.append(config.body(before.as_ref())).map(Some)
    }
}

fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().as_str()[..HASH_CHARS].to_owned()
}

const ROLES: [&str; 4] = ["user", "assistant", "tool", "system"];
/// The members of a `context` record that hold texts.
const TEXTS: [&str; 3] = ["system", "tools", "memory_text"];
/// Enough that no two texts share one.
const HASH_CHARS: usize = 32;
/// The most turns that a compaction pins: each is read on its own.
const PINNED_MAX: usize = 64;
/// A text up to this length is repeated rather than referred to.
const SHORT_BYTES: usize = 80;
