//! The part of a session that a context is made of: from the compaction in force on, or from the first record.
//!
//! A [`Session`] keeps its part as a [`Tail`]. The lease keeps others from writing, so the session reads the part once,
//! adds the records that it appends itself, and makes every later context from that. A writer that ignores the lease
//! shows when the next record gets another number than expected; then the tail is dropped, and read again when it is
//! needed. Whatever could make a kept tail differ from the log prevents keeping it: damage, a torn end, and more than
//! [`BYTES_MAX`].

use std::collections::{HashMap, HashSet};

use manent_log::{Body, Entry, LogEnd, LogItem, frame};
use manent_store::{Receipt, StreamId};

use super::records::{
    Compaction, ContextRecord, PromptConfig, PromptConfigError, PromptConfigRecord, text_in,
};
use super::{Context, render};
use crate::error::{Result, if_found};
use crate::reader::{Reader, Start};
use crate::store::{Session, Store};
use crate::tokens::Tokens;

/// The records that a context is made of, and everything else that it needs.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Records and gaps from where the part begins, in order. Turns that the compaction pins come first.
    pub(super) records: Vec<ContextRecord>,
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
    /// Texts of records before the part, to which `context` records refer, by record and member; `None` if it is not
    /// there.
    texts: HashMap<(u64, &'static str), Option<String>>,
}

/// The records read from a session.
struct ReadRecords {
    records: Vec<ContextRecord>,
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
            let mut read = ReadRecords::read(&mut reader, upto)?;
            // Fewer turns than were asked for: there are no others.
            let is_whole = read.turns < count;
            if let Some(compaction) = in_force(&read.records) {
                let from = compaction.kept_from;
                let is_before = |record: &ContextRecord| record.seq().is_some_and(|seq| seq < from);
                if !is_whole && !read.records.iter().any(is_before) {
                    reader.restart(store, at, Start::Seq(from.max(1)))?;
                    read = ReadRecords::read(&mut reader, upto)?;
                }
                let mut part = Part::of(read);
                let mut pinned = Vec::new();
                for seq in &compaction.pinned {
                    if let Some(record) = part.record(*seq) {
                        pinned.push(record.clone());
                    } else {
                        reader.restart(store, at, Start::Seq(*seq))?;
                        pinned.extend(ReadRecords::read(&mut reader, Some(*seq))?.records);
                    }
                }
                part.remember_prompt_configs(compaction.context_seq);
                part.records.retain(|record| !is_before(record));
                part.records.splice(0..0, pinned);
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
        let mut part = Part::of(ReadRecords::read(&mut reader, None)?);
        if let Some(compaction) = in_force(&part.records) {
            part.remember_prompt_configs(compaction.context_seq);
            part.records.retain(|record| record.seq().is_none_or(|seq| seq >= compaction.kept_from));
            part.compaction = Some(compaction);
        }
        // Whatever else is looked up for it is of this very session, though another may have taken its place since.
        let id = reader.meta().map(|meta| meta.id.clone()).unwrap_or_default();
        part.look_up(&mut reader, store, &StreamId { id, ..at.clone() })?;
        Ok(part)
    }

    fn of(read: ReadRecords) -> Part {
        let ReadRecords { records, end, is_torn, .. } = read;
        let last_seq = records.iter().rev().find_map(ContextRecord::seq).unwrap_or(0);
        Part { records, last_seq, end, is_torn, ..Part::default() }
    }

    /// Adds a record that was appended to the session, and leaves out what a compaction sums up. Returns `None` if the
    /// context now needs records that are not in the part.
    pub(super) fn with_appended(mut self, entry: &Entry<'_>) -> Option<Part> {
        self.end = entry.seq;
        let Some(record) = ContextRecord::of(entry) else { return Some(self) };
        match &record {
            ContextRecord::Compaction(compaction) => self.cut(compaction)?,
            ContextRecord::Undo(target)
                if self.compaction.as_ref().is_some_and(|current| current.seq == *target) =>
            {
                return None;
            }
            _ => {}
        }
        self.last_seq = record.seq().unwrap_or(self.last_seq);
        let is_about_prompt_config =
            matches!(record, ContextRecord::Compaction(_) | ContextRecord::PromptConfig(_));
        self.records.push(record);
        (!is_about_prompt_config || self.missing().is_none()).then_some(self)
    }

    /// Lets the part begin where a compaction says. Returns `None` if it began later, or lacks a turn that is pinned.
    fn cut(&mut self, compaction: &Compaction) -> Option<()> {
        let from = compaction.kept_from;
        if self.compaction.as_ref().is_some_and(|before| from < before.kept_from) {
            return None;
        }
        let pinned = compaction.pinned.iter().map(|seq| self.record(*seq).cloned());
        let pinned: Vec<ContextRecord> = pinned.collect::<Option<_>>()?;
        self.remember_prompt_configs(compaction.context_seq);
        self.records.retain(|record| record.seq().is_some_and(|seq| seq >= from));
        self.records.splice(0..0, pinned);
        self.compaction = Some(compaction.clone());
        Some(())
    }

    fn record(&self, seq: u64) -> Option<&ContextRecord> {
        self.records.iter().find(|record| record.seq() == Some(seq))
    }

    /// Lists the `context` records that were read, in order.
    fn prompt_configs(&self) -> impl Iterator<Item = &PromptConfigRecord> {
        let earlier = self.earlier.iter().filter_map(|(_, config)| config.as_ref());
        earlier.chain(self.records.iter().filter_map(ContextRecord::prompt_config))
    }

    /// Keeps the `context` record of this number, and the texts that the last one refers to, before the part is cut.
    fn remember_prompt_configs(&mut self, context_seq: Option<u64>) {
        let references: Vec<(u64, &'static str)> =
            self.prompt_configs().last().map(PromptConfigRecord::references).into_iter().flatten().collect();
        for (seq, what) in references {
            if self.has_looked_up(seq, what) {
                let text = self.text(seq, what).map(str::to_owned);
                self.texts.insert((seq, what), text);
            }
        }
        let named = self.prompt_configs().find(|config| Some(config.seq) == context_seq);
        if let Some(named) = named.cloned() {
            self.earlier = Some((named.seq, Some(named)));
        }
    }

    /// Returns a text to which a `context` record refers, or `None` if it is not there or was not looked up.
    fn text(&self, seq: u64, what: &'static str) -> Option<&str> {
        match self.prompt_configs().find(|config| config.seq == seq) {
            Some(config) => config.text(what),
            None => self.texts.get(&(seq, what))?.as_deref(),
        }
    }

    /// Returns whether a text to which a `context` record refers was looked up, whether it is there or not.
    fn has_looked_up(&self, seq: u64, what: &'static str) -> bool {
        self.prompt_configs().any(|config| config.seq == seq) || self.texts.contains_key(&(seq, what))
    }

    /// Returns the last `context` record that counts, or `None` if there is none.
    pub(super) fn last_prompt_config(&self) -> Option<&PromptConfigRecord> {
        let last = self.records.iter().rev().find_map(ContextRecord::prompt_config);
        // A record before the part may still be in force.
        last.or_else(|| {
            let seq = self.compaction.as_ref()?.context_seq?;
            self.earlier.as_ref().filter(|(of, _)| *of == seq)?.1.as_ref()
        })
    }

    /// Returns what a context still lacks: the number of a record before the part, and the text that is wanted of it;
    /// without a text, all of it.
    fn missing(&self) -> Option<(u64, Option<&'static str>)> {
        if !self.records.iter().any(|record| record.prompt_config().is_some())
            && let Some(seq) = self.compaction.as_ref().and_then(|compaction| compaction.context_seq)
            && self.earlier.as_ref().is_none_or(|(of, _)| *of != seq)
        {
            return Some((seq, None));
        }
        let mut references = self.last_prompt_config()?.references();
        references.find(|(seq, what)| !self.has_looked_up(*seq, what)).map(|(seq, what)| (seq, Some(what)))
    }

    /// Looks up what the context needs from before the part.
    fn look_up(&mut self, reader: &mut Reader, store: &Store, at: &StreamId) -> Result<()> {
        while let Some((seq, what)) = self.missing() {
            reader.restart(store, at, Start::Seq(seq))?;
            match what {
                None => {
                    let records = ReadRecords::read(reader, Some(seq))?.records;
                    self.earlier =
                        Some((seq, records.iter().find_map(ContextRecord::prompt_config).cloned()));
                }
                Some(what) => {
                    let text = text_in(reader, seq, what)?;
                    self.texts.insert((seq, what), text);
                }
            }
        }
        Ok(())
    }

    /// Returns what is sent besides the turns, with the texts that are not where they should be.
    pub(super) fn prompt_config(&self) -> Option<(PromptConfig, Vec<PromptConfigError>)> {
        let resolve = |config: &PromptConfigRecord| {
            config.resolved(&mut |seq, what| self.text(seq, what).map(str::to_owned))
        };
        self.last_prompt_config().map(resolve)
    }

    /// Makes the context, and names the texts that are not where they should be: each is counted as a gap.
    pub(super) fn into_context(mut self, tokens: Tokens) -> (Context, Vec<PromptConfigError>) {
        let config = self.prompt_config();
        let records = std::mem::take(&mut self.records);
        self.render(records, config, tokens)
    }

    /// Makes the context as [`Part::into_context`] does, of a part that is used again.
    pub(super) fn context(&self, tokens: Tokens) -> Context {
        self.render(self.records.clone(), self.prompt_config(), tokens).0
    }

    fn render(
        &self,
        records: Vec<ContextRecord>,
        config: Option<(PromptConfig, Vec<PromptConfigError>)>,
        tokens: Tokens,
    ) -> (Context, Vec<PromptConfigError>) {
        let (config, missing) = config.unzip();
        let missing = missing.unwrap_or_default();
        let mut context = render::render(records, self.compaction.as_ref(), config.as_ref(), tokens);
        context.last_seq = self.last_seq;
        context.gaps += missing.len() as u64;
        (context, missing)
    }
}

impl ReadRecords {
    /// Reads to the end, or up to and with the record `upto`.
    fn read(reader: &mut Reader, upto: Option<u64>) -> Result<ReadRecords> {
        let records = Vec::with_capacity(TAIL_TURNS as usize);
        let mut read = ReadRecords { records, turns: 0, end: 0, is_torn: false };
        while let Some(item) = reader.next()? {
            match item {
                LogItem::Damage(damage) => read.records.push(ContextRecord::Gap(damage)),
                LogItem::Entry(entry) if upto.is_some_and(|upto| entry.seq > upto) => break,
                LogItem::Entry(entry) => {
                    let one = ContextRecord::of(&entry);
                    read.turns += u64::from(matches!(one, Some(ContextRecord::Turn(_))));
                    // The header of a fork stands behind the records of its parent.
                    read.end = read.end.max(entry.seq);
                    read.records.extend(one);
                }
            }
        }
        read.is_torn = matches!(reader.end(), LogEnd::Torn(_));
        Ok(read)
    }
}

/// Reads the record of a number, with damage in its place.
pub(super) fn read_one(store: &Store, at: &StreamId, seq: u64) -> Result<Vec<ContextRecord>> {
    Ok(ReadRecords::read(&mut store.read(at, Start::Seq(seq))?, Some(seq))?.records)
}

/// Returns the newest compaction that was not undone.
fn in_force(records: &[ContextRecord]) -> Option<Compaction> {
    let mut undone = HashSet::new();
    for record in records.iter().rev() {
        match record {
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

/// The end of a session, from the compaction in force on.
#[derive(Debug)]
pub(crate) struct Tail {
    part: Part,
    /// The number that the next record gets if nobody writes around the lease.
    next_seq: u64,
}

impl Tail {
    /// Adds records that were appended, by their receipts. Returns `None` if the tail has to be read again.
    pub(crate) fn with_appended(self, bodies: &[Body], receipts: &[Receipt]) -> Option<Tail> {
        let Tail { mut part, mut next_seq } = self;
        for (body, receipt) in bodies.iter().zip(receipts) {
            if receipt.seq < next_seq {
                // The log knew its key: this is the receipt of an earlier record, and nothing was appended.
                continue;
            }
            if receipt.seq > next_seq {
                return None;
            }
            let line = frame::line(next_seq, body);
            let bytes = line.strip_suffix(b"\n").unwrap_or(&line);
            let entry = Entry { seq: next_seq, offset: receipt.position.raw(), bytes, verified: true };
            part = part.with_appended(&entry)?;
            next_seq += 1;
        }
        Some(Tail { part, next_seq })
    }
}

impl Session {
    /// Returns what a model sees of the session if it is asked now, as [`Store::context`](crate::Store::context) does.
    /// The log is read for the first of several contexts, and for another one if somebody wrote around the lease.
    pub fn context(&mut self, tokens: Tokens) -> Result<Context> {
        let Some(part) = self.take_part()? else { return Ok(Context::default()) };
        let context = part.context(tokens);
        self.keep_part(part);
        Ok(context)
    }

    /// Takes out the part that is kept, or reads it; `None` if nothing was written yet. [`Session::keep_part`] puts it
    /// back, before the next append.
    pub(super) fn take_part(&mut self) -> Result<Option<Part>> {
        if let Some(tail) = self.tail.take() {
            return Ok(Some(tail.part));
        }
        if_found(Part::read(self.store(), &StreamId::live(self.key()), None))
    }

    /// Keeps a part, unless it cannot be carried on by what is appended.
    pub(super) fn keep_part(&mut self, part: Part) {
        let next_seq = self.next_seq();
        let is_sound =
            !part.is_torn && !part.records.iter().any(|record| matches!(record, ContextRecord::Gap(_)));
        let is_current = part.end.checked_add(1) == Some(next_seq);
        let bytes: usize = part.records.iter().map(ContextRecord::bytes).sum();
        self.tail = (is_sound && is_current && bytes <= BYTES_MAX).then_some(Tail { part, next_seq });
    }
}

/// The bytes of a part that is kept: more than any model is given at once, and little enough to keep for each session
/// that is being answered.
const BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests change files from outside")]
mod tests {
    use std::sync::Arc;

    use manent_sim::Rng;
    use manent_store::{InMemory, SessionKey};

    use super::*;
    use crate::context::{Limits, PromptConfig};
    use crate::tokens::Counting;
    use crate::{Durability, Expect, Store, StoreOptions, turn};

    const TOKENS: fn() -> Tokens = || Tokens::new(Counting::Estimate);

    fn in_memory() -> Store {
        Store::on(Arc::new(InMemory::default()), None, StoreOptions::default())
    }

    fn key(text: &str) -> SessionKey {
        SessionKey::new(text).unwrap()
    }

    /// Compares the context from the kept tail with one that is read, and returns whether the tail was kept.
    fn compare(session: &mut Session, what: &str) -> bool {
        let was_kept = session.tail.is_some();
        let fresh = session.store().context(session.key(), TOKENS()).unwrap();
        assert_eq!(session.context(TOKENS()).unwrap(), fresh, "{what}");
        was_kept
    }

    fn body(json: &str) -> Body {
        Body::parse(json.as_bytes()).unwrap()
    }

    /// Does something at random to a session.
    fn act(session: &mut Session, rng: &mut Rng) {
        let last = session.next_seq() - 1;
        let text = |rng: &mut Rng, word: &str| format!("{word} ").repeat(rng.range(1..=60) as usize);
        let long = |n: u64| Some(format!("text {n} ").repeat(20)).filter(|_| n > 0);
        match rng.below(16) {
            0..3 => drop(session.append(turn("user", text(rng, "please"))).unwrap()),
            3..5 => drop(session.append(turn("assistant", text(rng, "well"))).unwrap()),
            5..7 => {
                let calls = format!(r#"[{{"id":"c{last}","name":"cat","arguments":{{}}}}]"#);
                session.append(turn("assistant", "").json("tool_calls", &calls).unwrap()).unwrap();
                if rng.chance(4, 5) {
                    let name = if rng.chance(1, 4) { "load_skill" } else { "cat" };
                    let output = turn("tool", text(rng, "some output of a tool"));
                    let id = format!("c{last}");
                    session.append(output.string("tool_call_id", &id).string("name", name)).unwrap();
                }
            }
            7 => drop(session.append(body(r#"{"kind":"title","title":"on tea"}"#)).unwrap()),
            8 => drop(session.append(body(r#"{"kind":"compaction","kept_from":99999}"#)).unwrap()),
            9 | 10 => {
                let config = PromptConfig {
                    system: long(rng.below(3)),
                    tools: long(rng.below(2)),
                    memory: long(rng.below(4)),
                    memory_ids: vec![rng.below(2)],
                    ..PromptConfig::default()
                };
                session.set_context(&config).unwrap();
            }
            11 => drop(session.compact(TOKENS(), LIMITS, rng.chance(1, 2), None)),
            12 => {
                let (from, pinned) = (rng.range(1..=last.max(1)), rng.range(1..=last.max(1)));
                let context = rng.range(1..=last.max(1));
                let mut compaction = Body::new();
                compaction.string("kind", "compaction").number("kept_from", from);
                compaction.json("pinned", serde_json::from_str(&format!("[{pinned}]")).unwrap());
                compaction.number("context", context).string("content", "they spoke");
                session.append(compaction).unwrap();
            }
            13 => drop(session.undo_compaction().unwrap()),
            14 => {
                let target = rng.range(1..=last.max(1));
                session.append(body(&format!(r#"{{"kind":"undo","target":{target}}}"#))).unwrap();
            }
            _ => {
                let mut keyed: Body = turn("user", text(rng, "again")).into();
                keyed.idempotent(&format!("key-{}", rng.below(5)));
                let batch =
                    [turn("assistant", "first").into(), keyed.clone(), keyed, turn("user", "last").into()];
                session.append_with(&batch, Durability::Flush, Expect::Any).unwrap();
            }
        }
    }

    const LIMITS: Limits = Limits { max_tokens: 600, max_messages: 20 };

    #[test]
    fn context_from_a_kept_tail_equals_a_fresh_read_after_random_records() {
        let (mut compared, mut kept) = (0_u32, 0_u32);
        for seed in 0..60 {
            let mut rng = Rng::new(seed);
            let dir = tempfile::tempdir().unwrap();
            let store = if seed % 4 == 0 { Store::open(dir.path()).unwrap() } else { in_memory() };
            let mut work = key("work");
            for round in 0..4 {
                let mut session = store.session(&work).unwrap();
                for step in 0..rng.range(1..=30) {
                    act(&mut session, &mut rng);
                    kept += u32::from(compare(&mut session, &format!("seed {seed}, step {round}.{step}")));
                    compared += 1;
                }
                let last = session.next_seq() - 1;
                drop(session);
                if rng.chance(1, 2) {
                    let fork = key(&format!("fork-{round}"));
                    store.fork(&StreamId::live(&work), Some(rng.range(1..=last)), &fork).unwrap();
                    work = fork;
                }
            }
        }
        assert!(kept * 10 > compared * 8, "a tail was kept {kept} times of {compared}");
    }

    #[test]
    fn write_around_the_lease_makes_the_tail_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let mut session = store.session(&key("work")).unwrap();
        session.append(turn("user", "1")).unwrap();
        assert!(!compare(&mut session, "nothing was read") && session.tail.is_some());
        let path = store.streams().path(&StreamId::live(&key("work"))).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, b"{\"role\":\"user\",\"content\":\"2\"}\n").unwrap();
        session.append(turn("user", "3")).unwrap();
        assert!(session.tail.is_none(), "the record got another number");
        compare(&mut session, "written around");
        let context = session.context(TOKENS()).unwrap();
        let texts: Vec<&str> = context.messages.iter().map(|message| message.content.as_str()).collect();
        assert!(texts.contains(&"2") && texts.contains(&"3"), "{texts:?}");
        assert!(session.tail.is_some());
    }

    #[test]
    fn damaged_session_keeps_no_tail() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        for text in ["one", "two", "three"] {
            store.append(&key("work"), turn("user", text)).unwrap();
        }
        let path = store.streams().path(&StreamId::live(&key("work"))).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("two", "2wo")).unwrap();
        let mut session = store.session(&key("work")).unwrap();
        for _ in 0..2 {
            assert_eq!(session.context(TOKENS()).unwrap().gaps, 1);
            assert!(session.tail.is_none());
            session.append(turn("user", "more")).unwrap();
            compare(&mut session, "damaged");
        }
    }

    #[test]
    fn tail_longer_than_the_bound_is_kept_only_once_it_is_compacted() {
        let store = in_memory();
        let mut session = store.session(&key("work")).unwrap();
        let mut seq = 0;
        for _ in 0..=BYTES_MAX >> 20 {
            seq = session.append(turn("user", "x".repeat(1 << 20))).unwrap().seq;
        }
        session.context(TOKENS()).unwrap();
        assert!(session.tail.is_none());
        let compaction = format!(r#"{{"kind":"compaction","kept_from":{seq},"content":"much"}}"#);
        session.append(body(&compaction)).unwrap();
        compare(&mut session, "compacted");
        assert!(session.tail.is_some());
    }
}
