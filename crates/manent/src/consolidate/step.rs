//! One step of consolidation: first a summary of what happened, then the facts worth remembering.
//!
//! A claim that the memory holds already, or that the user contradicted later, is refused. Claims are compared by their
//! words alone with the items that a search for them finds.

use manent_index::Query;
use manent_index::words::Words;
use manent_store::{StreamId, clock};

use super::extractor::{self, Extractor, ExtractorError, TokensSpent};
use super::grounding::{self, Claim, GroundedClaim, Refusal, SAID};
use super::journal::{JournalEntry, JournalState, PassageKey};
use super::passage::Passage;
use super::{Consolidated, ConsolidationProgress, Consolidator, LearnedItem, Rules, Step, name_of};
use crate::context::extracted;
use crate::error::Result;
use crate::memory::{Filter, Item, Kind, Memory, NewItem, Relation, Source, SourceKind};

/// One step at work.
pub(super) struct StepRun<'a> {
    at: &'a StreamId,
    passage: &'a Passage,
    prompt: &'a str,
    rules: &'a Rules,
    journal: &'a JournalState,
    reached: &'a ConsolidationProgress,
    /// The passage was begun before.
    resumed: Option<&'a JournalEntry>,
    /// The items written of this session before, by any extractor.
    written: Vec<WrittenItem>,
    /// The sentences from which something was learned.
    learned: Vec<(u64, u64)>,
    model: String,
    done: Consolidated,
}

/// An item that was written before.
struct WrittenItem {
    item: Item,
    /// True if it waits in the inbox.
    is_proposed: bool,
}

impl<'a> StepRun<'a> {
    pub(super) fn new(
        at: &'a StreamId,
        passage: &'a Passage,
        prompt: &'a str,
        rules: &'a Rules,
        (journal, reached, resumed): (&'a JournalState, &'a ConsolidationProgress, Option<&'a JournalEntry>),
    ) -> StepRun<'a> {
        let done = Consolidated { turns: passage.turns, more: passage.more, ..Consolidated::default() };
        let (written, learned, model) = Default::default();
        StepRun { at, passage, prompt, rules, journal, reached, resumed, written, learned, model, done }
    }

    pub(super) fn run(
        mut self,
        consolidator: &mut Consolidator,
        extractor: &mut dyn Extractor,
    ) -> Result<Step> {
        extractor.name().clone_into(&mut self.model);
        let model = self.model.clone();
        let key = PassageKey {
            session: name_of(self.at),
            turns: self.passage.turns,
            end: &self.passage.end,
            model: &model,
            prompt: self.prompt,
        };
        let is_begun = self.resumed.is_some_and(|open| open.turns == self.passage.turns);
        if !self.rules.dry_run && !is_begun {
            consolidator.journal.begin(&key)?;
        }
        if !self.passage.user_turns.is_empty() {
            self.written = self.written_before(consolidator)?;
            if let Err(failed) = self.ask(consolidator, extractor)? {
                let unavailable = matches!(failed, ExtractorError::Unavailable(_));
                // An extractor that was not reached and cost nothing leaves nothing to note.
                if (!unavailable || self.done.spent != TokensSpent::default()) && !self.rules.dry_run {
                    consolidator.journal.fail(&key, &failed, self.done.spent)?;
                }
                let (ExtractorError::Unavailable(why) | ExtractorError::Refused(why)) = failed;
                return Ok(Step::Failed { why, unavailable });
            }
        }
        if !self.rules.dry_run {
            consolidator.journal.finish(&key, &self.done, &self.learned)?;
        }
        Ok(Step::Done(Box::new(self.done)))
    }

    /// Collects the items written of this session, also those replaced since: by a step that was cut off, or by one
    /// that the journal lost. Items older than the passage are skipped, since no item is written before its words are
    /// said.
    fn written_before(&self, consolidator: &Consolidator) -> Result<Vec<WrittenItem>> {
        let first_ms = self.passage.user_turns.first().and_then(|turn| clock::parse_ms(&turn.ts));
        let since_ms = first_ms.map(|ms| ms.saturating_sub(CLOCK_SLACK_MS));
        let mut written = Vec::new();
        for (memory, is_proposed) in
            [(consolidator.of.store.memory()?, false), (consolidator.of.store.inbox()?, true)]
        {
            for replaced in [false, true] {
                let filter = Filter { since_ms, replaced, ..Filter::default() };
                memory.each(&filter, |item| {
                    if self.is_from_here(&item.source) {
                        written.push(WrittenItem { item, is_proposed });
                    }
                    true
                })?;
            }
        }
        Ok(written)
    }

    fn is_from_here(&self, source: &Source) -> bool {
        let ours = self.source(None, None);
        let same = match (&ours.session_id, &source.session_id) {
            (Some(ours), Some(theirs)) => ours == theirs,
            (None, None) => ours.session == source.session,
            _ => false,
        };
        same && source.seqs.is_some() && source.prompt.is_some()
    }

    /// Runs both phases. The inner error is that of the extractor.
    fn ask(
        &mut self,
        consolidator: &Consolidator,
        extractor: &mut dyn Extractor,
    ) -> Result<std::result::Result<(), ExtractorError>> {
        let given_up = self.resumed.is_some() && self.journal.failures >= FAILURES_MAX;
        if let Some(daily) = self.daily_before() {
            self.done.daily = Some(learned_of(daily));
        } else {
            let summary = if given_up { Ok(None) } else { self.summarise(extractor) };
            let summary = match summary {
                Ok(summary) => summary,
                Err(failed) => return Ok(Err(failed)),
            };
            self.done.daily_extracted = summary.is_none();
            self.write_daily(consolidator, summary)?;
        }
        if given_up {
            self.done.unreadable = true;
            return Ok(Ok(()));
        }
        let claims = match self.claims(extractor) {
            Ok(claims) => claims,
            Err(failed) => return Ok(Err(failed)),
        };
        self.done.unreadable = claims.is_none();
        let mut grounded = Vec::new();
        for claim in claims.unwrap_or_default() {
            match grounding::ground(&claim, self.passage) {
                Ok(one) => grounded.push(one),
                Err(why) => self.done.refused.push((why, claim.quote)),
            }
        }
        // In the order of the conversation: the last statement counts.
        grounded.sort_by_key(|one| (one.seq, one.nth));
        for one in grounded {
            self.learn(consolidator, one)?;
        }
        Ok(Ok(()))
    }

    /// Returns an earlier summary of this passage, by any extractor, if summaries cover all of it.
    fn daily_before(&self) -> Option<&Item> {
        let holds = |item: &&Item| {
            let last = item.source.seqs.map_or(0, |(_, last)| last);
            let is_gone = self.reached.gone.iter().any(|(end, _)| *end == last);
            // Turns that a crash took were written anew: only summaries since then are about them.
            let since = self.resumed.is_some_and(|open| open.turns.1 == last && item.at_ms >= open.at_ms);
            item.kind == Kind::Daily && (!is_gone || since)
        };
        let dailies: Vec<&Item> = self.written.iter().map(|written| &written.item).filter(holds).collect();
        let covers =
            |item: &Item, seq: u64| item.source.seqs.is_some_and(|(first, last)| first <= seq && seq <= last);
        let is_covered = |seq: u64| dailies.iter().any(|item| covers(item, seq));
        let all = self.passage.user_turns.iter().all(|turn| is_covered(turn.seq));
        let first = self.passage.user_turns.first()?.seq;
        dailies.iter().find(|item| all && covers(item, first)).copied()
    }

    /// Phase one: asks for a summary of the passage. Returns `None` if the extractor told of something else.
    fn summarise(
        &mut self,
        extractor: &mut dyn Extractor,
    ) -> std::result::Result<Option<String>, ExtractorError> {
        let transcript = self.passage.transcript();
        let reply = extractor.daily(&transcript)?;
        self.add_spent(reply.spent);
        if reply.text.len() > ANSWER_BYTES_MAX {
            return Ok(None);
        }
        let summary = reply.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let fits = summary.len() <= DAILY_BYTES_MAX && grounding::is_about(&summary, &transcript);
        Ok(fits.then_some(summary))
    }

    fn write_daily(&mut self, consolidator: &Consolidator, summary: Option<String>) -> Result<()> {
        let by_model = summary.is_some();
        let summary = summary.unwrap_or_else(|| {
            let turns = self.passage.lines.iter();
            let lines: Vec<_> = turns.map(|(seq, who, text)| (*seq, who.as_str(), text.as_str())).collect();
            extracted(&lines, DAILY_TOKENS).split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let (Some(first), Some((seq, quote))) = (self.passage.user_turns.first(), self.plain_quote()) else {
            return Ok(());
        };
        let summary = crate::redact(summary.trim()).into_owned();
        let summary = if summary.is_empty() { quote.clone() } else { summary };
        let minute =
            self.passage.ts.get(..MINUTE_CHARS).filter(|_| clock::parse_ms(&self.passage.ts).is_some());
        let content =
            minute.map(|minute| format!("{} {summary}", minute.replacen('T', " ", 1))).unwrap_or(summary);
        // From the first turn of the user on, so that the range contains the quote.
        let mut source = self.source(Some(quote.clone()), Some((first.seq, self.passage.turns.1)));
        source.model = by_model.then(|| self.model.clone());
        let mut learned = LearnedItem { id: None, kind: Kind::Daily, content, quote, seq, replaces: None };
        if !self.rules.dry_run {
            let item = NewItem::new(Kind::Daily, learned.content.clone()).from(source);
            learned.id = Some(consolidator.of.store.memory()?.add(&item)?.id);
        }
        self.done.daily = Some(learned);
        Ok(())
    }

    /// Words of the user that give nothing away, and where they stand.
    fn plain_quote(&self) -> Option<(u64, String)> {
        let mut sentences = self
            .passage
            .user_turns
            .iter()
            .flat_map(|turn| turn.sentences.iter().map(|sentence| (turn.seq, sentence.text.as_str())));
        sentences.find_map(|(seq, text)| {
            let (mut pieces, mut from) = (Vec::new(), 0);
            for secret in crate::secrets(text) {
                pieces.push(&text[from..secret.start]);
                from = secret.end;
            }
            pieces.push(&text[from..]);
            let clipped = |piece: &'a str| piece[..piece.floor_char_boundary(QUOTE_BYTES_MAX)].trim();
            let tells =
                |piece: &&str| piece.chars().any(char::is_alphanumeric) && crate::secrets(piece).is_empty();
            pieces.into_iter().map(clipped).find(tells).map(|piece| (seq, piece.to_owned()))
        })
    }

    /// Phase two: asks for the facts worth remembering. Returns `None` if no reply could be read.
    fn claims(
        &mut self,
        extractor: &mut dyn Extractor,
    ) -> std::result::Result<Option<Vec<Claim>>, ExtractorError> {
        let evidence = self.passage.evidence();
        let reply = extractor.facts(&evidence, None)?;
        self.add_spent(reply.spent);
        let wrong = match extractor::claims(&reply.text) {
            Ok(claims) => return Ok(Some(claims)),
            Err(wrong) => wrong,
        };
        let before = &reply.text[..reply.text.floor_char_boundary(COMPLAINT_BYTES_MAX)];
        let repaired = extractor.facts(&evidence, Some((before, wrong)))?;
        self.add_spent(repaired.spent);
        Ok(extractor::claims(&repaired.text).ok())
    }

    fn learn(&mut self, consolidator: &Consolidator, grounded: GroundedClaim) -> Result<()> {
        let GroundedClaim { kind, content, quote, seq, ts, nth } = grounded;
        let mut learned = LearnedItem { id: None, kind, content, quote, seq, replaces: None };
        if self.learned.contains(&(seq, nth)) {
            self.done.refused.push((Refusal::Known, learned.quote));
            return Ok(());
        }
        let (memory, inbox) = (consolidator.of.store.memory()?, consolidator.of.store.inbox()?);
        if let Some(WrittenItem { item, is_proposed }) = self.learned_before(&learned) {
            // By a step that was cut off, perhaps by a sync that failed.
            let (learned, is_proposed) = (learned_of(item), *is_proposed);
            if !self.rules.dry_run {
                if is_proposed { inbox.keep()? } else { memory.keep()? }
            }
            self.note(learned, is_proposed, (seq, nth));
            return Ok(());
        }
        let found = compare(&memory, &learned.content)?;
        let refusal =
            if self.was_known(&learned, nth) || found.is_known || compare(&inbox, &learned.content)?.is_known
            {
                Some(Refusal::Known)
            } else {
                let source = self.source(None, Some((seq, seq)));
                found.is_outdated(&memory, &source, &ts)?.then_some(Refusal::Outdated)
            };
        if let Some(why) = refusal {
            self.done.refused.push((why, learned.quote));
            return Ok(());
        }
        let to_inbox = self.rules.inbox || found.needs_a_person();
        learned.replaces = found.contradicts().filter(|_| !to_inbox);
        if !self.rules.dry_run {
            let mut source = self.source(Some(learned.quote.clone()), Some((seq, seq)));
            source.model = Some(self.model.clone());
            let mut item = NewItem::new(learned.kind, learned.content.clone()).from(source);
            item.replaces = learned.replaces;
            learned.id = Some(if to_inbox { inbox.add(&item)?.id } else { memory.add(&item)?.id });
        }
        self.note(learned, to_inbox, (seq, nth));
        Ok(())
    }

    fn note(&mut self, learned: LearnedItem, is_proposed: bool, sentence: (u64, u64)) {
        self.learned.push(sentence);
        let list = if is_proposed { &mut self.done.proposed } else { &mut self.done.items };
        list.push(learned);
    }

    /// Finds the item that the same extractor made of the same words before it was cut off.
    fn learned_before(&self, learned: &LearnedItem) -> Option<&WrittenItem> {
        let is_ours = |written: &&WrittenItem| written.item.source.prompt.as_deref() == Some(self.prompt);
        self.of_the_same_words(learned).find(is_ours)
    }

    /// Returns true if these words were remembered once: an item that a person forgot, or that was replaced, does not
    /// come back.
    fn was_known(&self, learned: &LearnedItem, nth: u64) -> bool {
        let current = self.journal.entries.iter().filter(|entry| !self.reached.is_gone(entry));
        self.of_the_same_words(learned).next().is_some()
            || current.into_iter().any(|entry| entry.learned.contains(&(learned.seq, nth)))
    }

    fn of_the_same_words(&self, learned: &LearnedItem) -> impl Iterator<Item = &WrittenItem> {
        let (seq, quote) = (learned.seq, learned.quote.clone());
        self.written.iter().filter(move |WrittenItem { item, .. }| {
            let same = item.source.seqs == Some((seq, seq)) && item.source.quote.as_ref() == Some(&quote);
            item.kind != Kind::Daily && same
        })
    }

    fn source(&self, quote: Option<String>, seqs: Option<(u64, u64)>) -> Source {
        Source {
            session: Some(self.at.key.to_string()),
            session_id: Some(self.at.id.clone()).filter(|id| !id.is_empty()),
            seqs,
            quote,
            prompt: Some(self.prompt.to_owned()),
            ..Source::by(SourceKind::Model)
        }
    }

    fn add_spent(&mut self, spent: TokensSpent) {
        let total = &mut self.done.spent;
        total.input = total.input.saturating_add(spent.input);
        total.output = total.output.saturating_add(spent.output);
    }
}

fn learned_of(item: &Item) -> LearnedItem {
    LearnedItem {
        id: Some(item.id),
        kind: item.kind,
        content: item.content.clone(),
        quote: item.source.quote.clone().unwrap_or_default(),
        seq: item.source.seqs.map_or(0, |(first, _)| first),
        replaces: item.replaces,
    }
}

/// The number of failures after which a passage is done without the extractor, so that it does not hold up those behind
/// it.
const FAILURES_MAX: u32 = 5;
const ANSWER_BYTES_MAX: usize = 256 << 10;
const DAILY_BYTES_MAX: usize = 1000;
const DAILY_TOKENS: u64 = 100;
const MINUTE_CHARS: usize = 16;
const QUOTE_BYTES_MAX: usize = 400;
/// The number of bytes of an unreadable reply that the extractor is shown again.
const COMPLAINT_BYTES_MAX: usize = 2000;
/// Clocks are set back now and then.
const CLOCK_SLACK_MS: i64 = 24 * 60 * 60 * 1000;

/// The active items that are similar to a claim.
#[derive(Debug, Default)]
pub(super) struct MemoryMatches {
    pub(super) is_known: bool,
    contradicted: Vec<Item>,
}

impl MemoryMatches {
    /// Returns the item that the claim replaces: the newest of those that it contradicts.
    pub(super) fn contradicts(&self) -> Option<u64> {
        self.contradicted.iter().map(|item| item.id).max()
    }

    /// Returns true if the claim contradicts something that a person or a file of theirs put there. A model's reading
    /// of a conversation does not replace that.
    fn needs_a_person(&self) -> bool {
        self.contradicted.iter().any(|item| item.source.who != SourceKind::Model)
    }

    /// Returns true if a contradicted item was said later than the claim: conversations are not always looked at in the
    /// order in which they took place.
    fn is_outdated(&self, memory: &Memory, source: &Source, ts: &str) -> Result<bool> {
        let ms = clock::parse_ms(ts).unwrap_or(i64::MAX);
        for item in &self.contradicted {
            let here =
                (&source.session_id, &source.session) == (&item.source.session_id, &item.source.session);
            if here && item.source.seqs > source.seqs {
                return Ok(true);
            }
            let said_at = memory.said_at(&item.source)?;
            if said_at.as_deref().and_then(clock::parse_ms).is_some_and(|other| other > ms) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Compares something with what is active.
pub(super) fn compare(memory: &Memory, content: &str) -> Result<MemoryMatches> {
    let mut found = MemoryMatches::default();
    let plain = in_first_person(content);
    let Some(query) = Query::of_question(&plain) else { return Ok(found) };
    for hit in memory.search(&query, CANDIDATES)?.hits {
        if hit.item.kind == Kind::Daily {
            continue;
        }
        let other = in_first_person(&hit.item.content);
        match Relation::between(&other, &plain) {
            Relation::Near if reverses_preference(&other, &plain) => found.contradicted.push(hit.item),
            Relation::Same | Relation::Near => found.is_known = true,
            Relation::Contradictory => found.contradicted.push(hit.item),
            Relation::Unrelated => {}
        }
    }
    Ok(found)
}

/// Returns true if one text prefers this to that and the other that to this: the same words, and the opposite.
fn reverses_preference(one: &str, other: &str) -> bool {
    let sides = |text: &str| {
        let mut words = Vec::new();
        Words::default().split(text, |term, _| words.push(term.to_owned()));
        let at = words.iter().position(|word| matches!(word.as_str(), "over" | "than"))?;
        Some((words.get(at.checked_sub(1)?)?.clone(), words.get(at + 1)?.clone()))
    };
    matches!((sides(one), sides(other)), (Some((a, b)), Some((c, d))) if a == d && b == c && a != b)
}

/// Rewrites an item about the user in the first person, without its opening words.
fn in_first_person(content: &str) -> String {
    let text = content.strip_prefix(SAID).unwrap_or(content);
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let own = match word {
            "user" | "User" => "I",
            "user's" | "user’s" | "User's" | "User’s" => "my",
            _ => word,
        };
        if own != word && words.last().is_some_and(|before| before.eq_ignore_ascii_case("the")) {
            words.pop();
        }
        let is_verb = words.last() == Some(&"I");
        words.push(match own {
            "has" if is_verb => "have",
            "is" if is_verb => "am",
            "does" if is_verb => "do",
            "doesn't" | "doesn’t" if is_verb => "don't",
            verb if is_verb && !verb.ends_with("ss") => verb.strip_suffix('s').unwrap_or(verb),
            other => other,
        });
    }
    words.join(" ")
}

/// The number of similar items that a claim is compared with.
const CANDIDATES: usize = 32;
