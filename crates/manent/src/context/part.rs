//! The part of a session that a context is made of: from the compaction in force on, or from the first record.

use std::collections::HashSet;

use manent_log::{Entry, LogEnd, LogItem};

use super::records::{
    Compaction, ContextRecord, PromptConfig, PromptConfigError, PromptConfigRecord, text_in,
};
use super::{Context, render};
use crate::error::Result;
use crate::reading::Reader;
use crate::store::Store;
use crate::stream::Start;
use crate::tokens::Tokens;
use manent_store::StreamId;

/// The records that a context is made of, and everything else that it needs.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Records and gaps from where the part begins, in order. Turns that the compaction pins come first.
    pub(super) held: Vec<ContextRecord>,
    /// The compaction in force.
    pub(super) compaction: Option<Compaction>,
    /// The last record that counts.
    pub(super) last_seq: u64,
    /// The number of the last record that was read, whatever it says.
    pub(super) end: u64,
    /// The session ended with bytes that are no record.
    pub(super) is_torn: bool,
    /// A `context` record before the part, by its number; `None` if the record of that number is no such record.
    earlier: Option<(u64, Option<PromptConfigRecord>)>,
    /// Texts of records before the part, to which settings refer.
    texts: Vec<EarlierText>,
}

/// A text of a `context` record.
#[derive(Debug)]
struct EarlierText {
    seq: u64,
    /// The member of the record.
    what: &'static str,
    /// `None` if it is not there.
    text: Option<String>,
}

/// What was read of a session.
struct Stretch {
    held: Vec<ContextRecord>,
    /// The number of turns in it.
    turns: u64,
    end: u64,
    is_torn: bool,
}

impl Part {
    /// Reads from the end back to where the compaction in force lets it begin, or to the beginning if there is none.
    ///
    /// Streams are read forwards, so a longer tail is read until it is long enough: what is read in vain is less than
    /// what is needed.
    pub(super) fn read(store: &Store, at: &StreamId, upto: Option<u64>) -> Result<Part> {
        if upto == Some(0) {
            return Ok(Part::default());
        }
        let before = upto.map(|seq| seq + 1);
        let mut count = TAIL_TURNS;
        let mut reader = store.read(at, Start::Tail { count, before })?;
        loop {
            let mut read = Stretch::read(&mut reader, upto)?;
            // Fewer turns than were asked for: there are no others.
            let is_whole = read.turns < count;
            if let Some(compaction) = in_force(&read.held) {
                let from = compaction.kept_from;
                let is_before = |held: &ContextRecord| held.seq().is_some_and(|seq| seq < from);
                if !is_whole && !read.held.iter().any(is_before) {
                    reader.restart(store, at, Start::Seq(from.max(1)))?;
                    read = Stretch::read(&mut reader, upto)?;
                }
                let mut part = Part::of(read);
                let mut pinned = Vec::new();
                for seq in &compaction.pinned {
                    if let Some(held) = part.record(*seq) {
                        pinned.push(held.clone());
                    } else {
                        reader.restart(store, at, Start::Seq(*seq))?;
                        pinned.extend(Stretch::read(&mut reader, Some(*seq))?.held);
                    }
                }
                part.remember_settings(compaction.context_seq);
                part.held.retain(|held| !is_before(held));
                part.held.splice(0..0, pinned);
                part.compaction = Some(compaction);
                part.look_up(&mut reader, store, at)?;
                return Ok(part);
            }
            if is_whole {
                let mut part = Part::of(read);
                part.look_up(&mut reader, store, at)?;
                return Ok(part);
            }
            count = count.saturating_mul(4);
            reader.restart(store, at, Start::Tail { count, before })?;
        }
    }

    /// Reads the last turns and no more, whatever was compacted; but nothing that is summed up.
    pub(super) fn read_last(store: &Store, at: &StreamId, turns: u64) -> Result<Part> {
        let mut reader = store.read(at, Start::Tail { count: turns, before: None })?;
        let mut part = Part::of(Stretch::read(&mut reader, None)?);
        part.compaction = in_force(&part.held);
        if let Some(compaction) = part.compaction.take() {
            part.remember_settings(compaction.context_seq);
            part.held.retain(|held| held.seq().is_none_or(|seq| seq >= compaction.kept_from));
            part.compaction = Some(compaction);
        }
        // Whatever else is looked up for it is of this very session, though another may have taken its place since.
        let id = reader.meta().map(|meta| meta.id.clone()).unwrap_or_default();
        part.look_up(&mut reader, store, &StreamId { id, ..at.clone() })?;
        Ok(part)
    }

    fn of(read: Stretch) -> Part {
        let Stretch { held, end, is_torn, .. } = read;
        let last_seq = held.iter().rev().find_map(ContextRecord::seq).unwrap_or(0);
        Part { held, last_seq, end, is_torn, ..Part::default() }
    }

    /// Adds a record that was appended to the session, and leaves out what a compaction sums up. Returns `None` if the
    /// context now needs records that are not in the part.
    pub(super) fn with_appended(mut self, entry: &Entry<'_>) -> Option<Part> {
        self.end = entry.seq;
        let Some(held) = ContextRecord::of(entry) else { return Some(self) };
        match &held {
            ContextRecord::Compaction(compaction) => self.cut(compaction)?,
            ContextRecord::Undo(target)
                if self.compaction.as_ref().is_some_and(|force| force.seq == *target) =>
            {
                return None;
            }
            _ => {}
        }
        self.last_seq = held.seq().unwrap_or(self.last_seq);
        let is_about_settings = matches!(held, ContextRecord::Compaction(_) | ContextRecord::PromptConfig(_));
        self.held.push(held);
        (!is_about_settings || self.missing().is_none()).then_some(self)
    }

    /// Lets the part begin where a compaction says. Returns `None` if it began later, or lacks a turn that is pinned.
    fn cut(&mut self, compaction: &Compaction) -> Option<()> {
        let from = compaction.kept_from;
        if self.compaction.as_ref().is_some_and(|before| from < before.kept_from) {
            return None;
        }
        let pinned = compaction.pinned.iter().map(|seq| self.record(*seq).cloned());
        let pinned: Vec<ContextRecord> = pinned.collect::<Option<_>>()?;
        self.remember_settings(compaction.context_seq);
        self.held.retain(|held| held.seq().is_some_and(|seq| seq >= from));
        self.held.splice(0..0, pinned);
        self.compaction = Some(compaction.clone());
        Some(())
    }

    fn record(&self, seq: u64) -> Option<&ContextRecord> {
        self.held.iter().find(|held| held.seq() == Some(seq))
    }

    /// Lists the settings that are known, in order.
    fn settings(&self) -> impl Iterator<Item = &PromptConfigRecord> {
        let earlier = self.earlier.iter().filter_map(|(_, noted)| noted.as_ref());
        earlier.chain(self.held.iter().filter_map(ContextRecord::setting))
    }

    /// Keeps the setting of this number, and the texts that the last setting refers to, before the part is cut.
    fn remember_settings(&mut self, context_seq: Option<u64>) {
        let references: Vec<(u64, &str)> =
            self.settings().last().map(PromptConfigRecord::references).into_iter().flatten().collect();
        for (seq, what) in references {
            if self.has_looked_up(seq, what) {
                let text = self.text(seq, what).map(str::to_owned);
                self.texts.retain(|known| (known.seq, known.what) != (seq, what));
                self.texts.push(EarlierText { seq, what, text });
            }
        }
        let named = self.settings().find(|noted| Some(noted.seq) == context_seq);
        if let Some(named) = named.cloned() {
            self.earlier = Some((named.seq, Some(named)));
        }
    }

    /// Returns a text to which a setting refers, or `None` if it is not there or was not looked up.
    fn text(&self, seq: u64, what: &str) -> Option<&str> {
        match self.settings().find(|noted| noted.seq == seq) {
            Some(noted) => noted.text(what),
            None => self.earlier_text(seq, what)?.text.as_deref(),
        }
    }

    /// Returns whether a text to which a setting refers needs no looking up, whether it is there or not.
    fn has_looked_up(&self, seq: u64, what: &str) -> bool {
        self.settings().any(|noted| noted.seq == seq) || self.earlier_text(seq, what).is_some()
    }

    fn earlier_text(&self, seq: u64, what: &str) -> Option<&EarlierText> {
        self.texts.iter().find(|known| (known.seq, known.what) == (seq, what))
    }

    /// Returns the last `context` record that counts, or `None` if there is none.
    pub(super) fn noted(&self) -> Option<&PromptConfigRecord> {
        let last = self.held.iter().rev().find_map(ContextRecord::setting);
        // What was noted before the part begins may still hold.
        last.or_else(|| {
            let seq = self.compaction.as_ref()?.context_seq?;
            self.earlier.as_ref().filter(|(of, _)| *of == seq)?.1.as_ref()
        })
    }

    /// Returns what a context still lacks: the number of a record before the part, and the text that is wanted of it;
    /// without a text, all of it.
    fn missing(&self) -> Option<(u64, Option<&'static str>)> {
        if !self.held.iter().any(|held| held.setting().is_some())
            && let Some(seq) = self.compaction.as_ref().and_then(|compaction| compaction.context_seq)
            && self.earlier.as_ref().is_none_or(|(of, _)| *of != seq)
        {
            return Some((seq, None));
        }
        let mut references = self.noted()?.references();
        references.find(|(seq, what)| !self.has_looked_up(*seq, what)).map(|(seq, what)| (seq, Some(what)))
    }

    /// Looks up what the context needs from before the part.
    fn look_up(&mut self, reader: &mut Reader, store: &Store, at: &StreamId) -> Result<()> {
        while let Some((seq, what)) = self.missing() {
            reader.restart(store, at, Start::Seq(seq))?;
            match what {
                None => {
                    let held = Stretch::read(reader, Some(seq))?.held;
                    self.earlier = Some((seq, held.iter().find_map(ContextRecord::setting).cloned()));
                }
                Some(what) => {
                    let text = text_in(reader, seq, what)?;
                    self.texts.push(EarlierText { seq, what, text });
                }
            }
        }
        Ok(())
    }

    /// Returns what is sent besides the turns, with the texts that are not where they should be.
    pub(super) fn setting(&self) -> Option<(PromptConfig, Vec<PromptConfigError>)> {
        let resolve = |noted: &PromptConfigRecord| {
            noted.resolved(&mut |seq, what| self.text(seq, what).map(str::to_owned))
        };
        self.noted().map(resolve)
    }

    /// Makes the context, and names the texts that are not where they should be: each is counted as a gap.
    pub(super) fn into_context(mut self, tokens: Tokens) -> (Context, Vec<PromptConfigError>) {
        let setting = self.setting();
        let held = std::mem::take(&mut self.held);
        self.render(held, setting, tokens)
    }

    /// As [`Part::into_context`], of a part that is used again.
    pub(super) fn context(&self, tokens: Tokens) -> Context {
        self.render(self.held.clone(), self.setting(), tokens).0
    }

    fn render(
        &self,
        held: Vec<ContextRecord>,
        setting: Option<(PromptConfig, Vec<PromptConfigError>)>,
        tokens: Tokens,
    ) -> (Context, Vec<PromptConfigError>) {
        let (setting, missing) = setting.unzip();
        let missing = missing.unwrap_or_default();
        let mut context = render::render(held, self.compaction.as_ref(), setting.as_ref(), tokens);
        context.last_seq = self.last_seq;
        context.gaps += missing.len() as u64;
        (context, missing)
    }
}

impl Stretch {
    /// Reads to the end, or up to and with the record `upto`.
    fn read(reader: &mut Reader, upto: Option<u64>) -> Result<Stretch> {
        let held = Vec::with_capacity(TAIL_TURNS as usize);
        let mut read = Stretch { held, turns: 0, end: 0, is_torn: false };
        while let Some(item) = reader.next()? {
            match item {
                LogItem::Damage(damage) => read.held.push(ContextRecord::Gap(damage)),
                LogItem::Entry(entry) if upto.is_some_and(|upto| entry.seq > upto) => break,
                LogItem::Entry(entry) => {
                    let one = ContextRecord::of(&entry);
                    read.turns += u64::from(matches!(one, Some(ContextRecord::Turn(_))));
                    // The header of a fork stands behind the records of its parent.
                    read.end = read.end.max(entry.seq);
                    read.held.extend(one);
                }
            }
        }
        read.is_torn = matches!(reader.end(), LogEnd::Torn(_));
        Ok(read)
    }
}

/// Reads the record of a number, with damage in its place.
pub(super) fn read_one(store: &Store, at: &StreamId, seq: u64) -> Result<Vec<ContextRecord>> {
    Ok(Stretch::read(&mut store.read(at, Start::Seq(seq))?, Some(seq))?.held)
}

/// Returns the newest compaction that was not undone.
fn in_force(held: &[ContextRecord]) -> Option<Compaction> {
    let mut undone = HashSet::new();
    for held in held.iter().rev() {
        match held {
            ContextRecord::Undo(target) => {
                undone.insert(*target);
            }
            ContextRecord::Compaction(compaction) if !undone.contains(&compaction.seq) => {
                return Some(compaction.clone());
            }
            _ => {}
        }
    }
    None
}

const TAIL_TURNS: u64 = 64;
