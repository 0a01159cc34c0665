//! `remember`: something for later sessions, that rests on words of the user in this one.
//!
//! A model must not make up what is remembered, nor take it from a file or a page that it read. So it gives the user's
//! own words, and they must stand in a turn of the user.

use std::fmt;
use std::sync::Arc;

use manent::memory::{Filter, Kind, NewItem, Source, SourceKind};
use manent::{SessionKey, Store};
use serde::Deserialize;

use super::arguments::{Parameter, ParameterType, ToolSpec};
use super::error::ToolError;
use super::{CallSubject, Job, PreparedCall, ToolEffect, ToolResult, Tools, text};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "remember",
    effect: ToolEffect::Record,
    about: "Keep something the user said for later conversations.",
    parameters: &[
        Parameter::required("content", ParameterType::Text, "What to remember, one sentence"),
        Parameter::required("quote", ParameterType::Text, "The user's own words it rests on, copied exactly"),
        Parameter::optional(
            "kind",
            ParameterType::OneOf(&["fact", "pref", "context"]),
            "fact: something that is so; pref: what the user likes; context: what is going on",
        ),
    ],
    prepare,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    content: String,
    quote: String,
    kind: Option<String>,
}

/// Writes items into the memory.
pub trait MemorySink: fmt::Debug + Send + Sync {
    /// Adds an item, unless one that says the same is active. An error says why that cannot be done.
    fn keep(&self, item: &NewItem) -> Result<RememberOutcome, String>;
}

/// The result of [`MemorySink::keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RememberOutcome {
    /// A new item with this id.
    New(u64),
    /// The item that already said the same.
    Known(u64),
}

/// Writes at once on the calling thread, without an order among the calls of several conversations.
impl MemorySink for Store {
    fn keep(&self, item: &NewItem) -> Result<RememberOutcome, String> {
        let failed = |e: manent::Error| e.to_string();
        let memory = self.memory().map_err(failed)?;
        let mut known = None;
        let looked = memory.each(&Filter::default(), |other| {
            if other.content.trim().eq_ignore_ascii_case(&item.content) {
                known = Some(other.id);
            }
            known.is_none()
        });
        looked.map_err(failed)?;
        Ok(match known {
            Some(id) => RememberOutcome::Known(id),
            None => RememberOutcome::New(memory.add(item).map_err(failed)?.id),
        })
    }
}

struct RememberJob {
    keeper: Arc<dyn MemorySink>,
    item: NewItem,
}

fn prepare(tools: &Tools, raw: &str) -> Result<PreparedCall, ToolError> {
    let Tools { keeper, store, session, .. } = tools;
    let Arguments { content, quote, kind } = SPEC.read(raw)?;
    let (content, quote) = (content.trim(), quote.trim());
    if content.is_empty() || content.len() > CONTENT_BYTES_MAX {
        return Err(SPEC.wrong(format!("\"content\" must have 1 to {CONTENT_BYTES_MAX} bytes")));
    }
    if quote.chars().filter(|c| c.is_alphanumeric()).count() < QUOTE_CHARS_MIN
        || quote.len() > CONTENT_BYTES_MAX
    {
        return Err(SPEC.wrong("\"quote\" must be a few words of the user, copied exactly".to_owned()));
    }
    if !manent::secrets(content).is_empty() || !manent::secrets(quote).is_empty() {
        let why = "that looks like a password or a key, and such things are not remembered".to_owned();
        return Err(ToolError::Refused(why));
    }
    let failed = |e: manent::Error| ToolError::Refused(format!("cannot look at the session: {e}"));
    let Some(seq) = said(store, session, quote).map_err(failed)? else {
        let why = "the user did not say that in this conversation, and only the user's own words can be remembered; \
                   copy \"quote\" exactly from a message of the user";
        return Err(ToolError::Refused(why.to_owned()));
    };
    let id = store.live(session).map_err(failed)?.map(|listed| listed.id.id);
    let source = Source {
        session: Some(session.to_string()),
        session_id: id.filter(|id| !id.is_empty()),
        seqs: Some((seq, seq)),
        quote: Some(quote.to_owned()),
        ..Source::by(SourceKind::Model)
    };
    let kind = kind.and_then(|word| word.parse().ok()).unwrap_or(Kind::Fact);
    let what = text::what("remember", content);
    let job = RememberJob { keeper: keeper.clone(), item: NewItem::new(kind, content).from(source) };
    Ok(SPEC.prepared(CallSubject::Record, what, job))
}

/// The newest turn of the user that holds the words, whatever the blanks between them.
fn said(store: &Store, session: &SessionKey, quote: &str) -> manent::Result<Option<u64>> {
    let quote = text::collapse_whitespace(quote);
    let tail = store.tail(session, TURNS)?;
    let mut users = tail.turns().rev().filter(|turn| turn.role == "user");
    Ok(users.find(|turn| text::collapse_whitespace(turn.content).contains(&quote)).map(|turn| turn.seq))
}

impl Job for RememberJob {
    fn preview(&self) -> Result<Option<String>, ToolError> {
        let NewItem { kind, content, source, .. } = &self.item;
        let quote = source.quote.as_deref().unwrap_or_default();
        Ok(Some(format!("{kind}: {content}\nbecause you said: {quote}\n")))
    }

    fn run(&self, _: &dyn Fn() -> bool) -> Result<ToolResult, ToolError> {
        let kept = self.keeper.keep(&self.item);
        let kept = kept.map_err(|e| ToolError::Refused(format!("cannot remember that: {e}")))?;
        Ok(ToolResult::of(match kept {
            RememberOutcome::New(id) => format!("remembered as item {id}"),
            RememberOutcome::Known(id) => format!("known already, as item {id}"),
        }))
    }
}

/// The number of turns that are searched for the quoted words.
const TURNS: u64 = 200;
/// The fewest letters and digits of a quote: fewer say nothing, in any script.
const QUOTE_CHARS_MIN: usize = 4;
const CONTENT_BYTES_MAX: usize = 2000;
