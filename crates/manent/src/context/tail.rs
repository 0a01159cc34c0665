//! The tail of a session that its writer keeps, so that a question is answered from one read of the log.
//!
//! The lease keeps others from writing. A [`Session`] therefore reads the part that a context is made of once, adds
//! what it appends itself, and makes every later context from that. A writer who ignores the lease shows when the next
//! record gets another number than expected; then the tail is dropped, and read again when it is needed. What could
//! make a kept tail differ from the log is not kept at all: damage, a torn end, and more than [`BYTES_MAX`].

use manent_log::{Body, Entry, frame};

use super::Context;
use super::part::Part;
use super::records::ContextRecord;
use crate::error::Result;
use crate::store::Session;
use crate::tokens::Tokens;
use manent_store::{Receipt, StreamId};

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
        match Part::read(self.store(), &StreamId::live(self.key()), None) {
            Err(e) if e.is_not_found() => Ok(None),
            part => part.map(Some),
        }
    }

    /// Keeps a part, unless it cannot be carried on by what is appended.
    pub(super) fn keep_part(&mut self, part: Part) {
        let next_seq = self.next_seq();
        let is_sound = !part.is_torn && !part.held.iter().any(|held| matches!(held, ContextRecord::Gap(_)));
        let is_current = part.end.checked_add(1) == Some(next_seq);
        let bytes: usize = part.held.iter().map(ContextRecord::bytes).sum();
        self.tail = (is_sound && is_current && bytes <= BYTES_MAX).then_some(Tail { part, next_seq });
    }
}

/// More than any model is given at once, and little enough to keep for each session that is being answered.
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
                    let said = turn("tool", text(rng, "some output of a tool"));
                    let id = format!("c{last}");
                    session.append(said.string("tool_call_id", &id).string("name", name)).unwrap();
                }
            }
            7 => drop(session.append(body(r#"{"kind":"title","title":"on tea"}"#)).unwrap()),
            8 => drop(session.append(body(r#"{"kind":"compaction","kept_from":99999}"#)).unwrap()),
            9 | 10 => {
                let setting = PromptConfig {
                    system: long(rng.below(3)),
                    tools: long(rng.below(2)),
                    memory: long(rng.below(4)),
                    memory_ids: vec![rng.below(2)],
                    ..PromptConfig::default()
                };
                session.set_context(&setting).unwrap();
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
        let said: Vec<&str> = context.messages.iter().map(|message| message.content.as_str()).collect();
        assert!(said.contains(&"2") && said.contains(&"3"), "{said:?}");
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
