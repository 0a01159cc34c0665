//! Compaction: when a context grows too large, what came first is summed up in a record, and nothing is removed.
//!
//! Ways are tried from the mildest on, and one is taken only if the context really is small enough with it: leave out
//! what old tools put out; sum up with a model; sum up piece by piece; sum up without a model; leave whole turns out,
//! and say so. `plan.rs` finds the way; here it is asked for, written down, and taken back.

use manent_log::Body;

use super::Context;
use super::plan::Planning;
use crate::error::{Error, Result};
use crate::store::Session;
use crate::tokens::Tokens;
use manent_store::clock;

/// How large a context may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// More tokens than this are too many.
    pub max_tokens: u64,
    /// More messages than this are too many.
    pub max_messages: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_tokens: 32_000, max_messages: 50 }
    }
}

impl Limits {
    /// What is too large about a context, if anything is.
    pub fn exceeded_by(&self, context: &Context) -> Option<CompactionReason> {
        if context.tokens > self.max_tokens {
            return Some(CompactionReason::Tokens);
        }
        (context.messages.len() > self.max_messages).then_some(CompactionReason::Messages)
    }

    /// What a compaction must reach: so much less that the next turn does not need another.
    fn target(&self) -> Limits {
        Limits { max_tokens: self.max_tokens * 6 / 10, max_messages: (self.max_messages * 6 / 10).max(4) }
    }
}

/// Why a context was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionReason {
    /// Too many tokens.
    Tokens,
    /// Too many messages.
    Messages,
    /// Somebody asked for it.
    Manual,
}

impl CompactionReason {
    /// The word in the record.
    pub fn word(self) -> &'static str {
        match self {
            CompactionReason::Tokens => "tokens",
            CompactionReason::Messages => "messages",
            CompactionReason::Manual => "manual",
        }
    }
}

/// How a context was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionMethod {
    /// Old outputs of tools are only pointed to.
    Prune,
    /// A model summed up.
    Model,
    /// A model summed up, piece by piece.
    Chunks,
    /// What names most was quoted.
    Extract,
    /// Turns were left out, and the model is told so.
    Drop,
}

impl CompactionMethod {
    /// The word in the record.
    pub fn word(self) -> &'static str {
        match self {
            CompactionMethod::Prune => "prune",
            CompactionMethod::Model => "model",
            CompactionMethod::Chunks => "chunks",
            CompactionMethod::Extract => "extract",
            CompactionMethod::Drop => "drop",
        }
    }
}

/// Sums up, with a model or otherwise.
pub trait Summariser {
    /// What it is called, for the record.
    fn name(&self) -> &str;
    /// What it is told to do; its hash goes into the record.
    fn prompt(&self) -> &str;
    /// How many tokens of transcript it takes at once.
    fn max_input(&self) -> u64;
    /// Brings a summary up to what a transcript adds, in at most so many tokens. An error is a reason to try another
    /// way.
    fn summarise(
        &mut self,
        before: &str,
        transcript: &str,
        max_tokens: u64,
    ) -> std::result::Result<String, String>;
}

/// What a compaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactedContext {
    /// The number of its record.
    pub seq: u64,
    /// Why.
    pub reason: CompactionReason,
    /// How.
    pub way: CompactionMethod,
    /// Tokens before it.
    pub before: u64,
    /// And after.
    pub after: u64,
    /// The first turn that stays as it was said.
    pub kept_from: u64,
    /// Ways that did not lead there, and why.
    pub tried: Vec<(CompactionMethod, String)>,
}

impl Session {
    /// Makes the context of the session smaller if it is too large, or in any case where `asked`. Returns `None` if it
    /// need not be.
    pub fn compact(
        &mut self,
        tokens: Tokens,
        limits: Limits,
        asked: bool,
        summariser: Option<&mut dyn Summariser>,
    ) -> Result<Option<CompactedContext>> {
        let Some(part) = self.take_part()? else { return Ok(None) };
        let setting = part.setting().map(|(setting, _)| setting);
        let planning = Planning { part: &part, setting: setting.as_ref(), tokens };
        let planned = planned(&planning, limits, asked, summariser);
        self.keep_part(part);
        let Some((body, compacted)) = planned? else { return Ok(None) };
        let seq = self.append(body)?.seq;
        Ok(Some(CompactedContext { seq, ..compacted }))
    }

    /// Takes the last compaction back, if there is one in force, by a record that says so. Returns its number.
    pub fn undo_compaction(&mut self) -> Result<Option<u64>> {
        let Some(part) = self.take_part()? else { return Ok(None) };
        let seq = part.compaction.as_ref().map(|compaction| compaction.seq);
        self.keep_part(part);
        let Some(seq) = seq else { return Ok(None) };
        let mut body = Body::new();
        body.string("ts", &clock::now()).string("kind", "undo").number("target", seq);
        self.append(body)?;
        Ok(Some(seq))
    }
}

/// Plans a compaction if one is needed. Returns its record, and what it does once that has a number.
fn planned(
    planning: &Planning<'_>,
    limits: Limits,
    asked: bool,
    summariser: Option<&mut dyn Summariser>,
) -> Result<Option<(Body, CompactedContext)>> {
    let before = planning.render(planning.part.compaction.as_ref());
    let reason = match limits.exceeded_by(&before) {
        Some(reason) => reason,
        None if asked => CompactionReason::Manual,
        None => return Ok(None),
    };
    let mut target = limits.target();
    if reason == CompactionReason::Manual {
        target.max_tokens =
            target.max_tokens.min(Limits { max_tokens: before.tokens, ..limits }.target().max_tokens);
    }
    let mut tried = Vec::new();
    let Some((way, planned)) = planning.plan(before.tokens, target, summariser, &mut tried) else {
        if reason == CompactionReason::Manual {
            return Ok(None);
        }
        let least = planning.least();
        return Err(Error::CannotCompact { tokens: least, limit: limits.max_tokens });
    };
    let after = planning.render(Some(&planned.compaction)).tokens;
    let body = planned.body(reason, way, before.tokens, after);
    let kept_from = planned.compaction.kept_from;
    let before = before.tokens;
    Ok(Some((body, CompactedContext { seq: 0, reason, way, before, after, kept_from, tried })))
}
