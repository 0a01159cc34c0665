//! Compaction: when a context grows too large, its oldest part is summed up in a record. Nothing is removed.
//!
//! Methods are tried from the mildest on: leave out the output of old tool calls; sum up with a model; sum up with a
//! model piece by piece; sum up without a model; leave whole turns out, with a note. The result of each is rendered and
//! counted by the same function that triggered the compaction, and is used only if the context really is small enough.

use std::collections::HashSet;

use manent_log::Body;
use manent_store::clock;

use super::extract::{Line, coverage, extract};
use super::part::Part;
use super::records::{Compaction, ContextRecord, ContextTurn, PromptConfig};
use super::{Context, render};
use crate::error::{Error, Result};
use crate::meta::add_json;
use crate::store::Session;
use crate::tokens::Tokens;

/// The largest size of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of tokens.
    pub max_tokens: u64,
    /// The largest number of messages.
    pub max_messages: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_tokens: 32_000, max_messages: 50 }
    }
}

impl Limits {
    /// Returns the limit that a context exceeds, if any.
    pub fn exceeded_by(&self, context: &Context) -> Option<CompactionReason> {
        if context.tokens > self.max_tokens {
            return Some(CompactionReason::Tokens);
        }
        (context.messages.len() > self.max_messages).then_some(CompactionReason::Messages)
    }

    /// Returns the size that a compaction must reach: so much smaller that the next turn does not need another.
    fn target(&self) -> Limits {
        Limits { max_tokens: self.max_tokens * 6 / 10, max_messages: (self.max_messages * 6 / 10).max(4) }
    }
}

words! {
    /// The reason for a compaction.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CompactionReason {
        /// Too many tokens.
        Tokens = "tokens",
        /// Too many messages.
        Messages = "messages",
        /// A user or a program asked for it.
        Manual = "manual",
    }
}

words! {
    /// A method of making a context smaller.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CompactionMethod {
        /// Old outputs of tools are replaced by references to their records.
        Prune = "prune",
        /// A model wrote a summary.
        Model = "model",
        /// A model wrote a summary, piece by piece.
        Chunks = "chunks",
        /// The sentences that name the most were quoted.
        Extract = "extract",
        /// Turns were left out, with a note to the model.
        Drop = "drop",
    }
}

/// Sums up, with a model or otherwise.
pub trait Summariser {
    /// Returns the name that records of its work carry.
    fn name(&self) -> &str;
    /// Returns its instructions; their hash goes into the record.
    fn prompt(&self) -> &str;
    /// Returns the number of tokens of a transcript that it takes at once.
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

/// The outcome of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactedContext {
    /// The number of its record.
    pub seq: u64,
    /// The reason for the compaction.
    pub reason: CompactionReason,
    /// The method that was used.
    pub way: CompactionMethod,
    /// Tokens before it.
    pub before: u64,
    /// Tokens after it.
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
        let config = part.prompt_config().map(|(config, _)| config);
        let planner = CompactionPlanner { part: &part, config: config.as_ref(), tokens };
        let record = plan_record(&planner, limits, asked, summariser);
        self.keep_part(part);
        let Some((body, compacted)) = record? else { return Ok(None) };
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
fn plan_record(
    planner: &CompactionPlanner<'_>,
    limits: Limits,
    asked: bool,
    summariser: Option<&mut dyn Summariser>,
) -> Result<Option<(Body, CompactedContext)>> {
    let before = planner.render(planner.part.compaction.as_ref());
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
    let Some((way, plan)) = planner.plan(before.tokens, target, summariser, &mut tried) else {
        if reason == CompactionReason::Manual {
            return Ok(None);
        }
        let least = planner.least();
        return Err(Error::CannotCompact { tokens: least, limit: limits.max_tokens });
    };
    let after = planner.render(Some(&plan.compaction)).tokens;
    let body = plan.body(reason, way, before.tokens, after);
    let kept_from = plan.compaction.kept_from;
    let before = before.tokens;
    Ok(Some((body, CompactedContext { seq: 0, reason, way, before, after, kept_from, tried })))
}

/// A compaction that is not written yet.
pub(super) struct CompactionPlan {
    pub(super) compaction: Compaction,
    pub(super) model: Option<(String, String)>,
}

impl CompactionPlan {
    pub(super) fn body(
        &self,
        reason: CompactionReason,
        way: CompactionMethod,
        before: u64,
        after: u64,
    ) -> Body {
        let mut body = Body::new();
        body.string("ts", &clock::now()).string("kind", "compaction");
        body.string("reason", reason.word()).string("way", way.word());
        body.number("before", before).number("after", after).number("kept_from", self.compaction.kept_from);
        for (name, seqs) in [("pruned", &self.compaction.pruned), ("pinned", &self.compaction.pinned)] {
            if !seqs.is_empty() {
                add_json(&mut body, name, seqs);
            }
        }
        if let Some(seq) = self.compaction.context_seq {
            body.number("context", seq);
        }
        if let Some((model, prompt)) = &self.model {
            body.string("model", model).string("prompt", prompt);
        }
        body.string("content", &self.compaction.summary);
        body
    }
}

/// Success, or the reason why a method does not lead to the target.
type Attempt<T> = std::result::Result<T, String>;

pub(super) struct CompactionPlanner<'a> {
    pub(super) part: &'a Part,
    pub(super) config: Option<&'a PromptConfig>,
    pub(super) tokens: Tokens,
}

impl CompactionPlanner<'_> {
    pub(super) fn render(&self, compaction: Option<&Compaction>) -> Context {
        let from = compaction.map_or(0, |compaction| compaction.kept_from);
        let pinned = compaction.map_or(&[][..], |compaction| &compaction.pinned);
        let is_shown =
            |record: &&ContextRecord| record.seq().is_none_or(|seq| seq >= from || pinned.contains(&seq));
        let records: Vec<ContextRecord> = self.part.records.iter().filter(is_shown).cloned().collect();
        render::render(records, compaction, self.config, self.tokens)
    }

    fn turns(&self) -> impl DoubleEndedIterator<Item = &ContextTurn> {
        self.part.records.iter().filter_map(|record| match record {
            ContextRecord::Turn(turn) => Some(turn),
            _ => None,
        })
    }

    /// Checks that a compaction reaches the target and really makes the context smaller.
    fn fits(&self, compaction: &Compaction, before: u64, target: Limits) -> Attempt<()> {
        let context = self.render(Some(compaction));
        match target.exceeded_by(&context) {
            None if context.tokens >= before => {
                Err(format!("{} tokens would become {}", before, context.tokens))
            }
            None => Ok(()),
            Some(CompactionReason::Messages) => {
                Err(format!("{} messages would be left", context.messages.len()))
            }
            Some(_) => Err(format!("{} tokens would be left", context.tokens)),
        }
    }

    /// The mildest way that leads to the target.
    pub(super) fn plan(
        &self,
        before: u64,
        target: Limits,
        summariser: Option<&mut dyn Summariser>,
        tried: &mut Vec<(CompactionMethod, String)>,
    ) -> Option<(CompactionMethod, CompactionPlan)> {
        let pruned = self.pruned();
        let base = self.part.compaction.clone().unwrap_or_default();
        let context_seq =
            self.part.records.iter().rev().find_map(ContextRecord::prompt_config).map(|config| config.seq);
        let base = Compaction { pruned, context_seq: context_seq.or(base.context_seq), ..base };
        let mut attempt = |way: CompactionMethod, plan: Attempt<CompactionPlan>| {
            let fits = plan.and_then(|plan| self.fits(&plan.compaction, before, target).map(|()| plan));
            fits.map_err(|why| tried.push((way, why))).ok().map(|plan| (way, plan))
        };
        let unmodelled = |compaction: Compaction| Ok(CompactionPlan { compaction, model: None });
        if base.pruned.len() > self.part.compaction.as_ref().map_or(0, |before| before.pruned.len())
            && let Some(plan) = attempt(CompactionMethod::Prune, unmodelled(base.clone()))
        {
            return Some(plan);
        }
        let cut = self.cut(&base, target)?;
        let rest = self.render(Some(&cut)).tokens;
        let (room, replaced) = (target.max_tokens.saturating_sub(rest), before.saturating_sub(rest));
        let budget = room.min(replaced / SUMMARY_PART).max(SUMMARY_TOKENS_MIN);
        let with = |summary: String| Compaction { summary, ..cut.clone() };
        if let Some(summariser) = summariser {
            let model = (
                summariser.name().to_owned(),
                blake3::hash(summariser.prompt().as_bytes()).to_hex().to_string(),
            );
            let (way, summary) = self.summarised(&cut, budget, summariser);
            let plan = summary.and_then(|summary| {
                self.check_summary(&cut, &summary, budget)?;
                Ok(CompactionPlan { compaction: with(summary), model: Some(model) })
            });
            if let Some(plan) = attempt(way, plan) {
                return Some(plan);
            }
        }
        let lines = self.lines_before(&cut);
        // Joined, texts do not take exactly what they take alone: a little less may be needed.
        for share in EXTRACT_SHARES {
            let extracted = with(extract(&lines, budget * share / 100, self.tokens));
            if let Some(plan) = attempt(CompactionMethod::Extract, unmodelled(extracted)) {
                return Some(plan);
            }
        }
        attempt(CompactionMethod::Drop, unmodelled(with(breadcrumb(&lines))))
    }

    /// Returns the tokens that are left if everything is left out that may be.
    pub(super) fn least(&self) -> u64 {
        let none = Limits { max_tokens: 0, max_messages: 0 };
        let base = Compaction { pruned: self.pruned(), ..self.part.compaction.clone().unwrap_or_default() };
        let cut = self.cut(&base, none);
        self.render(cut.map(|cut| Compaction { summary: String::new(), ..cut }).as_ref()).tokens
    }

    /// Results of tools that need only be pointed to: large ones, before the last question and the last few results.
    fn pruned(&self) -> Vec<u64> {
        let before = self.part.compaction.iter().flat_map(|compaction| compaction.pruned.iter().copied());
        let mut pruned: HashSet<u64> = before.collect();
        let results: Vec<&ContextTurn> = self.turns().filter(|turn| turn.answers.is_some()).collect();
        for turn in results.iter().rev().skip(RESULTS_KEPT) {
            if !is_skill(turn) && turn.content.len() > PRUNE_BYTES_MIN {
                pruned.insert(turn.seq);
            }
        }
        let mut pruned: Vec<u64> = pruned.into_iter().collect();
        pruned.sort_unstable();
        pruned
    }

    /// Finds the place to cut: before the earliest question from which on everything fits into a third of the target;
    /// if not even the last one does, before an answer behind it. Returns `None` if there is nothing to cut.
    fn cut(&self, base: &Compaction, target: Limits) -> Option<Compaction> {
        let third = Limits { max_tokens: target.max_tokens / 3, max_messages: target.max_messages / 2 };
        let questions: Vec<u64> = self
            .turns()
            .filter(|turn| turn.role == "user" && turn.seq > base.kept_from)
            .map(|turn| turn.seq)
            .collect();
        let at = |kept_from: u64, pinned: Vec<u64>| Compaction {
            kept_from,
            pinned,
            summary: String::new(),
            ..base.clone()
        };
        for seq in &questions {
            let cut = at(*seq, self.skills_before(*seq));
            if third.exceeded_by(&self.render(Some(&cut))).is_none() {
                return Some(cut);
            }
        }
        let last = self.turns().rfind(|turn| turn.role == "user").map(|turn| turn.seq);
        let answers = self.turns().filter(|turn| {
            turn.role == "assistant" && turn.seq > base.kept_from && last.is_none_or(|last| turn.seq > last)
        });
        let mut best = questions.last().map(|seq| at(*seq, self.skills_before(*seq)));
        for answer in answers {
            let mut pinned = self.skills_before(answer.seq);
            pinned.extend(last);
            pinned.sort_unstable();
            let cut = at(answer.seq, pinned);
            let fits = third.exceeded_by(&self.render(Some(&cut))).is_none();
            best = Some(cut);
            if fits {
                break;
            }
        }
        best
    }

    /// Skills that were loaded stay as they are.
    fn skills_before(&self, seq: u64) -> Vec<u64> {
        let loaded = self.turns().filter(|turn| turn.seq < seq && turn.answers.is_some() && is_skill(turn));
        loaded.map(|turn| turn.seq).collect()
    }

    /// Returns the lines to sum up: the earlier summary, and what was said since.
    fn lines_before(&self, cut: &Compaction) -> Vec<Line<'_>> {
        let before = self.part.compaction.as_ref().map_or("", |compaction| &compaction.summary);
        let mut lines = vec![Line { seq: 0, role: "", text: before }];
        let turns = self.turns().filter(|turn| turn.seq < cut.kept_from && !cut.pinned.contains(&turn.seq));
        lines.extend(turns.map(|turn| Line { seq: turn.seq, role: &turn.role, text: &turn.content }));
        lines.retain(|line| !line.text.is_empty());
        lines
    }

    /// Refuses a summary that names much less than quotes of the same length would: small models write about something
    /// else.
    fn check_summary(&self, cut: &Compaction, summary: &str, budget: u64) -> Attempt<()> {
        let lines = self.lines_before(cut);
        let by_quoting = coverage(&lines, &extract(&lines, budget, self.tokens), self.tokens);
        let by_model = coverage(&lines, summary, self.tokens);
        if by_model * 100 >= by_quoting * KEPT_PERCENT {
            return Ok(());
        }
        let share = by_model * 100 / by_quoting.max(1);
        Err(format!("its summary names {share} % of the paths, numbers and names that quoting would keep"))
    }

    /// Lets a model sum up, in as many pieces as it needs.
    fn summarised(
        &self,
        cut: &Compaction,
        budget: u64,
        summariser: &mut dyn Summariser,
    ) -> (CompactionMethod, Attempt<String>) {
        let mut summary =
            self.part.compaction.as_ref().map_or_else(String::new, |before| before.summary.clone());
        let lines = self.lines_before(cut);
        let texts: Vec<String> = lines
            .iter()
            .filter(|line| line.seq > 0)
            .map(|line| format!("#{} {}: {}\n", line.seq, line.role, clipped(line.text, line.role)))
            .collect();
        let room = summariser.max_input().saturating_sub(budget + PROMPT_TOKENS).max(PIECE_TOKENS_MIN);
        let pieces = pieces(&texts, room, self.tokens);
        let way = if pieces.len() > 1 { CompactionMethod::Chunks } else { CompactionMethod::Model };
        if pieces.len() > PIECES_MAX {
            return (way, Err(format!("it would take {} calls", pieces.len())));
        }
        for piece in &pieces {
            match summariser.summarise(&summary, piece, budget) {
                Ok(text) if text.trim().is_empty() => return (way, Err("it gave nothing".to_owned())),
                Ok(text) => summary = text,
                Err(why) => return (way, Err(why)),
            }
        }
        (way, Ok(summary))
    }
}

/// Returns true if a tool that loads skills gave this.
fn is_skill(turn: &ContextTurn) -> bool {
    turn.name.as_deref().is_some_and(|name| name.contains("skill"))
}

/// Joins lines into pieces of at most `room` tokens.
fn pieces(lines: &[String], room: u64, tokens: Tokens) -> Vec<String> {
    let (mut pieces, mut piece, mut used) = (Vec::new(), String::new(), 0);
    for line in lines {
        let cost = tokens.count(line);
        if used + cost > room && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
            used = 0;
        }
        piece.push_str(line);
        used += cost;
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// A turn as a summariser is shown it: bounded, so that no single one is too long for it.
fn clipped(text: &str, role: &str) -> String {
    let max = if role == "tool" { TOOL_CHARS } else { TURN_CHARS };
    let count = text.chars().count();
    if count <= max {
        return text.to_owned();
    }
    let head: String = text.chars().take(max / 2).collect();
    let tail: String = text.chars().skip(count - max / 2).collect();
    format!("{head} […{} characters left out…] {tail}", count - max)
}

/// Returns the note that is left if not even a summary has room.
fn breadcrumb(lines: &[Line<'_>]) -> String {
    let turns: Vec<u64> = lines.iter().map(|line| line.seq).filter(|seq| *seq > 0).collect();
    match (turns.first(), turns.last()) {
        (Some(first), Some(last)) => format!(
            "{} turns (records {first} to {last}) were left out for lack of room. Ask, if something from them is \
             needed.",
            turns.len()
        ),
        _ => "Earlier turns were left out for lack of room.".to_owned(),
    }
}

/// The most recent results of tools are kept as they are.
const RESULTS_KEPT: usize = 2;
const PRUNE_BYTES_MIN: usize = 800;
/// A summary takes at most this part of what it stands for.
const SUMMARY_PART: u64 = 4;
const SUMMARY_TOKENS_MIN: u64 = 64;
/// The share of the names that quoting keeps which a model's summary must name too, in percent. A summary has other
/// things to say.
const KEPT_PERCENT: u64 = 40;
/// The shares of the budget that an extract tries in turn, in percent.
const EXTRACT_SHARES: [u64; 4] = [100, 94, 80, 50];
/// The tokens that a summariser's instructions take besides the transcript.
const PROMPT_TOKENS: u64 = 500;
const PIECE_TOKENS_MIN: u64 = 256;
/// The most calls of a model for one summary.
const PIECES_MAX: usize = 16;
const TOOL_CHARS: usize = 600;
const TURN_CHARS: usize = 4000;
