//! Checks of key rules of a caller: several keys for each line, and as far back as the rule says.

use std::thread;

use manent_log::{Body, Durability, Entry, Expect, KEY_RECORDS, KeyRule, Occurrence, Reach, members_of};
use serde_json::Value;

use manent_store::{AppendOptions, Receipt, Result, SessionKey, Space, StreamPart, StreamWriter};

use crate::Make;
use crate::subject::{LONG, Subject, TS, conflict, header_body, how, keyed, turn};

/// Knows a line by each of its names, in the whole stream.
const NAMES: KeyRule = KeyRule { name: "names", reach: Reach::Whole, keys_of: names_of };
/// Knows a line by each of its names, among the last few.
const RECENT_NAMES: KeyRule = KeyRule { name: "recent names", reach: Reach::Last(RECENT), keys_of: names_of };
/// Knows a line by its text.
const TEXTS: KeyRule = KeyRule { name: "texts", reach: Reach::Whole, keys_of: text_of };
const RECENT: usize = 5;

/// Calls `add` with each string in the member `names`.
fn names_of(line: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
    let names = member(line, "names");
    let names = names.as_ref().and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    names.for_each(|name| add(name.as_bytes()));
}

fn text_of(line: &Entry<'_>, add: &mut dyn FnMut(&[u8])) {
    if let Some(Value::String(text)) = member(line, "content") {
        add(text.as_bytes());
    }
}

fn member(line: &Entry<'_>, name: &str) -> Option<Value> {
    let members = members_of(std::str::from_utf8(line.bytes).ok()?)?;
    let (_, json) = members.iter().find(|(member, _)| member == name)?;
    serde_json::from_str(json).ok()
}

/// Makes a record with names.
fn named(names: &[&str], text: &str) -> Body {
    let names = serde_json::to_string(names).expect("strings");
    let json = format!(r#"{{"ts":"{TS}","role":"user","names":{names},"content":"{text}"}}"#);
    Body::parse(json.as_bytes()).expect("an object")
}

fn append(subject: &Subject, key: &SessionKey, rule: &KeyRule, bodies: &[Body]) -> Vec<u64> {
    let how = AppendOptions { durability: Durability::Flush, expect: Expect::Any, wait: LONG, keys: rule };
    numbers_of(subject.append_with(key, bodies, how))
}

#[track_caller]
fn numbers_of(receipts: Result<Vec<Receipt>>) -> Vec<u64> {
    receipts.expect("taken or known").iter().map(|receipt| receipt.seq).collect()
}

/// Finds the number and the text of a record under a lease.
#[track_caller]
fn found(
    lease: &mut dyn StreamWriter,
    rule: &KeyRule,
    key: &str,
    which: Occurrence,
) -> Option<(u64, String)> {
    let record = lease.find(rule, key.as_bytes(), which).expect("looked for")?;
    let line = Entry { seq: record.seq, offset: 0, bytes: &record.bytes, verified: true };
    let text = member(&line, "content").and_then(|text| text.as_str().map(str::to_owned));
    Some((record.seq, text.expect("a text")))
}

/// A body with any key that a record has, or a body before it, is not appended, and gets the receipt of the first: with
/// every durability, in a batch, under a lease.
pub fn record_with_any_key_of_another_is_appended_once(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["a", "b"], "one")]), [1]);
    for durability in [Durability::Sync, Durability::Group, Durability::Flush] {
        for names in [&["a"][..], &["b"], &["x", "b"], &["b", "a"]] {
            let how = AppendOptions { keys: &NAMES, wait: LONG, ..AppendOptions::new(durability) };
            let again = subject.append_with(&work, &[named(names, "other words")], how).expect("known");
            assert_eq!((again[0].seq, again[0].durability), (1, durability), "by {names:?}");
        }
    }
    let batch = [
        named(&["c"], "two"),
        turn("three"),
        named(&["d", "a"], "known"),
        named(&["d", "c"], "known in the batch"),
        named(&[], "four"),
        named(&[], "five"),
        keyed("a", "six"),
    ];
    assert_eq!(append(&subject, &work, &NAMES, &batch), [2, 3, 1, 2, 4, 5, 6]);
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    let by_name = AppendOptions { keys: &NAMES, ..how(Durability::Flush, Expect::Seq(7)) };
    let receipts = lease.append(&[named(&["e"], "seven"), named(&["b", "e"], "known")], &by_name);
    assert_eq!(numbers_of(receipts), [7, 1]);
    let refused = lease.append(&[named(&["f"], "no")], &by_name).expect_err("a wrong number");
    assert_eq!(conflict(&refused), Some(8), "wanted manent_log::Error::Conflict, found: {refused}");
    assert_eq!(numbers_of(lease.append(&[named(&["e"], "known")], &by_name)), [7], "whatever is expected");
    drop(lease);
    assert_eq!(subject.live_texts(&work), ["one", "two", "three", "four", "five", "six", "seven"]);
}

/// Keys of a body that is not appended do not count.
pub fn body_left_out_of_a_batch_leaves_its_keys_free(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let batch = [named(&["a"], "one"), named(&["a", "b"], "known"), named(&["b"], "two")];
    assert_eq!(append(&subject, &work, &NAMES, &batch), [1, 1, 2]);
    let batch = [named(&["b", "c"], "known"), named(&["c"], "three"), named(&["c"], "known")];
    assert_eq!(append(&subject, &work, &NAMES, &batch), [2, 3, 3]);
    assert_eq!(subject.live_texts(&work), ["one", "two", "three"]);
}

/// A rule that reaches through the whole stream finds its first record, however many follow, also where the keys were
/// read ahead.
pub fn key_of_whole_reach_is_found_behind_any_number_of_records(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.streams.prefetch_keys(&subject.at(&work), &NAMES).expect("there is no stream, and no error");
    let mut bodies = vec![named(&["a", "b"], "one")];
    bodies.extend((0..3 * KEY_RECORDS).map(|_| turn("x")));
    subject.append(&work, &bodies, Expect::Any).expect("taken, under no rule");
    subject.streams.prefetch_keys(&subject.at(&work), &NAMES).expect("read");
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["b"], "known")]), [1]);
    subject.append(&work, &bodies[1..], Expect::Any).expect("taken");
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["a"], "known")]), [1]);
    let last = 6 * KEY_RECORDS as u64 + 2;
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["c"], "new")]), [last]);
}

/// A rule that reaches back a few records finds a key among these.
pub fn key_of_short_reach_is_found_within_it(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for round in 0..10 * RECENT as u64 {
        let name = round.to_string();
        let seq = 1 + round * RECENT as u64;
        assert_eq!(append(&subject, &work, &RECENT_NAMES, &[named(&[&name], "one")]), [seq]);
        let fill: Vec<Body> = (1..RECENT).map(|_| turn("x")).collect();
        subject.append(&work, &fill, Expect::Any).expect("taken");
        assert_eq!(append(&subject, &work, &RECENT_NAMES, &[named(&[&name], "known")]), [seq]);
    }
}

/// Under a lease, a record is found by a key: the first that has it, and the last.
pub fn find_returns_the_first_and_the_last_record_of_a_key(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let mut lease = subject.lease(&work, LONG).expect("a lease for a new stream");
    assert_eq!(found(&mut *lease, &NAMES, "a", Occurrence::First), None, "nothing was written");
    assert!(lease.is_new());
    let bodies = [named(&["a", "b"], "one"), named(&["b"], "two"), turn("three"), named(&["b", "c"], "four")];
    let receipts = lease.append(&bodies, &how(Durability::Flush, Expect::Any)).expect("taken, under no rule");
    for (name, first, last) in [("a", 1, 1), ("b", 1, 4), ("c", 4, 4)] {
        for (which, seq) in [(Occurrence::First, first), (Occurrence::Last, last)] {
            let record = lease.find(&NAMES, name.as_bytes(), which).expect("looked for").expect("there");
            assert_eq!(
                (record.seq, record.offset),
                (seq, receipts[seq as usize - 1].position.raw()),
                "{name}"
            );
            let wanted = subject.all(&subject.at(&work))[seq as usize].line.clone();
            assert_eq!(String::from_utf8(record.bytes).expect("text"), wanted, "the line, to the byte");
        }
    }
    assert_eq!(found(&mut *lease, &NAMES, "d", Occurrence::Last), None);
    assert_eq!(found(&mut *lease, &TEXTS, "a", Occurrence::Last), None, "a key of another rule");
    assert_eq!(found(&mut *lease, &TEXTS, "two", Occurrence::Last), Some((2, "two".to_owned())));
    assert_eq!(found(&mut *lease, &KeyRule::IDEMPOTENCY, "a", Occurrence::First), None, "not such a key");
    assert_eq!(lease.next_seq(), 5, "nothing was appended");
    lease.append(&[keyed("a", "five")], &how(Durability::Flush, Expect::Any)).expect("taken");
    let by_key = found(&mut *lease, &KeyRule::IDEMPOTENCY, "a", Occurrence::First);
    assert_eq!(by_key, Some((5, "five".to_owned())));
}

/// Keys are those of all records, whoever appended them and under which rule: with and without a lease, through the
/// same backend, by rules that take turns.
pub fn keys_follow_appends_by_other_rules_and_writers(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for round in 0..4 {
        let seq = |nth: u64| round * 5 + nth;
        let name = |nth: u64| format!("{round}/{nth}");
        let body = |nth: u64| named(&[&name(nth)], &name(nth));
        assert_eq!(append(&subject, &work, &NAMES, &[body(1)]), [seq(1)]);
        subject.append(&work, &[body(2)], Expect::Any).expect("taken, under no rule");
        assert_eq!(append(&subject, &work, &TEXTS, &[body(3), body(1)]), [seq(3), seq(1)]);
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        lease.append(&[body(4)], &how(Durability::Sync, Expect::Seq(seq(4)))).expect("taken, under no rule");
        assert_eq!(found(&mut *lease, &NAMES, &name(4), Occurrence::Last), Some((seq(4), name(4))));
        drop(lease);
        assert_eq!(append(&subject, &work, &RECENT_NAMES, &[body(5)]), [seq(5)]);
        for nth in 1..=5 {
            assert_eq!(append(&subject, &work, &NAMES, &[body(nth)]), [seq(nth)], "{}", name(nth));
        }
    }
    assert_eq!(subject.live_texts(&work).len(), 20);
}

/// A stream that is replaced, or removed and begun anew, has the keys of the records that it has then.
pub fn keys_of_a_stream_go_with_it(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let bodies = [named(&["a"], "one"), named(&["b"], "two")];
    assert_eq!(append(&subject, &work, &NAMES, &bodies), [1, 2]);
    let lease = subject.lease(&work, LONG).expect("a lease");
    // With the same id and as long as the old one, so that records lie where others lay.
    let parts = [named(&["c"], "one"), named(&["b"], "two")];
    let mut parts = (1..).zip(parts).map(|(seq, body)| Ok(StreamPart::Record { seq, body }));
    let id = lease.id().to_string();
    lease.replace(Some(&header_body(&id, work.as_str(), None)), &mut parts, &[]).expect("replaced");
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["c"], "known")]), [1]);
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["a"], "three")]), [3], "it is gone");
    subject.streams.delete(&subject.at(&work), LONG).expect("removed");
    let bodies = [named(&["d"], "one"), named(&["b"], "two"), named(&["a"], "three")];
    subject.append(&work, &bodies, Expect::Seq(1)).expect("begun anew");
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["d"], "known")]), [1]);
    assert_eq!(append(&subject, &work, &NAMES, &[named(&["c"], "four")]), [4], "it is gone");
}

/// Threads that record the same at once, under a rule, record it once, and all get its receipt.
pub fn threads_with_keys_of_a_rule_record_once(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    thread::scope(|scope| {
        for nth in 0..6 {
            let (subject, work) = (&subject, &work);
            scope.spawn(move || {
                let durability = if nth % 2 == 0 { Durability::Group } else { Durability::Flush };
                for round in 0..10 {
                    let (shared, own) = (format!("shared {round}"), format!("{nth}/{round}"));
                    let how = AppendOptions { keys: &NAMES, wait: LONG, ..AppendOptions::new(durability) };
                    let body = named(&[&own, &shared], &shared);
                    subject.append_with(work, &[body], how).expect("taken or known");
                    subject.append_with(work, &[turn("x")], how).expect("taken");
                }
            });
        }
    });
    let mut texts = subject.live_texts(&work);
    texts.retain(|text| text != "x");
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 10);
    assert_eq!(subject.live_texts(&work).len(), 10 + 60, "each once, and what has no keys always");
}
