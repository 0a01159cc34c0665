//! Checks of `append`: numbers, receipts, expectations, bytes.

use manent_log::frame::{self, RECORD_BYTES_MAX};
use manent_log::{Body, Durability, Expect};

use manent_store::{AppendOptions, Place, Selector, Space, Target};

use crate::Make;
use crate::subject::{
    LONG, Subject, assert_not_found, conflict, how, is_too_large, line, note, numbers, turn,
};

/// Records are numbered from 1, one after the other, whether they come one by one, in batches or under a
/// lease.
pub fn record_numbers_begin_at_1_without_gaps(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    assert_eq!(subject.say(&work, "one").seq, 1);
    assert_eq!(subject.say(&work, "two").seq, 2);
    let batch = subject.append(&work, &[turn("three"), turn("four")], Expect::Any).expect("taken");
    assert_eq!(batch.iter().map(|r| r.seq).collect::<Vec<_>>(), [3, 4]);
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    assert_eq!(lease.next_seq(), 5);
    assert_eq!(lease.append(&[turn("five")], &how(Durability::Flush, Expect::Any)).expect("taken")[0].seq, 5);
    assert_eq!(lease.next_seq(), 6);
    drop(lease);
    assert_eq!(subject.say(&work, "six").seq, 6);
    assert_eq!(subject.live_texts(&work), ["one", "two", "three", "four", "five", "six"]);
    assert_eq!(numbers(&subject.all(&subject.at(&work))), [0, 1, 2, 3, 4, 5, 6]);
    if let Some(other) = subject.other() {
        assert_eq!(subject.say(&other, "its own").seq, 1, "each key has its own numbers");
    }
}

/// A receipt gives the id of its stream, and the number and position under which its record is read.
pub fn receipt_names_id_number_and_position_of_the_record(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let bodies: Vec<Body> = (0..20).map(|n| turn(&"x".repeat(n * 50))).collect();
    let mut receipts = subject.append(&work, &bodies[..10], Expect::Any).expect("taken");
    for body in &bodies[10..] {
        receipts.extend(subject.append(&work, std::slice::from_ref(body), Expect::Any).expect("taken"));
    }
    let live = subject.live(&work);
    let all = subject.all(&live);
    assert_eq!(receipts.len(), bodies.len());
    for ((receipt, body), seen) in receipts.iter().zip(&bodies).zip(&all[1..]) {
        assert_eq!((receipt.seq, receipt.position.raw()), (seen.seq, seen.position));
        assert_eq!(seen.line, line(receipt.seq, body), "the line is the record's, to the byte");
        assert_eq!(*receipt.id, *live.id, "the id of the stream");
    }
    assert!(all.is_sorted_by_key(|seen| seen.position), "positions grow with the numbers");
}

/// An append that expects the number it would get is done; any other is a conflict that names the next
/// number, and writes nothing.
pub fn append_with_wrong_expectation_writes_nothing(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "one");
    let taken = subject.append(&work, &[turn("two"), turn("three")], Expect::Seq(2)).expect("the right one");
    assert_eq!(taken[0].seq, 2, "the expectation is about the first of a batch");
    for wrong in [0, 1, 3, 5, u64::MAX] {
        let refused = subject.append(&work, &[turn("no"), turn("no")], Expect::Seq(wrong));
        let refused = refused.expect_err("a wrong expectation");
        assert_eq!(conflict(&refused), Some(4), "wanted manent_log::Error::Conflict, found: {refused}");
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        let refused = lease.append(&[turn("no")], &how(Durability::Flush, Expect::Seq(wrong)));
        let refused = refused.expect_err("a wrong expectation under a lease");
        assert_eq!(conflict(&refused), Some(4), "wanted manent_log::Error::Conflict, found: {refused}");
        assert_eq!(lease.next_seq(), 4, "a conflict ends no lease");
    }
    assert_eq!(subject.append(&work, &[turn("four")], Expect::Seq(4)).expect("the right one")[0].seq, 4);
    assert_eq!(subject.live_texts(&work), ["one", "two", "three", "four"]);
}

/// Whoever expects 1 begins a stream; whoever expects anything else of a key without one gets a conflict, and
/// no stream begins.
pub fn append_expecting_1_begins_a_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let refused = subject.append(&work, &[turn("no")], Expect::Seq(2)).expect_err("there is no record 1");
    assert_eq!(conflict(&refused), Some(1), "wanted manent_log::Error::Conflict, found: {refused}");
    assert!(subject.list(Place::Live, Selector::All).is_empty(), "a conflict begins no stream");
    assert_not_found(subject.streams.open(Target::Id(&subject.at(&work))), "after a conflict");
    assert_eq!(subject.append(&work, &[turn("one")], Expect::Seq(1)).expect("the first")[0].seq, 1);
    let refused = subject.append(&work, &[turn("no")], Expect::Seq(1)).expect_err("it exists");
    assert_eq!(conflict(&refused), Some(2));
    assert_eq!(subject.live_texts(&work), ["one"]);
}

/// A stream has one header, from whoever began it, however often it is opened afterwards.
pub fn append_to_existing_stream_keeps_its_header(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let first = subject.say(&work, "one").id;
    let header_line = subject.all(&subject.at(&work))[0].line.clone();
    for _ in 0..3 {
        assert_eq!(subject.say(&work, "more").id, first, "the id of the stream, not of the header offered");
        let lease = subject.lease(&work, LONG).expect("a lease");
        assert_eq!(*lease.id(), first);
    }
    let all = subject.all(&subject.at(&work));
    assert_eq!(all[0].line, header_line, "the header stays as it was written");
    assert_eq!(all.iter().filter(|seen| seen.line.contains("\"meta\"")).count(), 1, "and is the only one");
    assert_eq!(subject.live(&work).id, *first);
}

/// Header and first record come together: a lease that was taken for a new key and never written under begins
/// no stream, neither while it is held nor afterwards, and the next writer's header counts.
pub fn stream_without_records_is_not_there(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let lease = subject.lease(&work, LONG).expect("a lease for a new stream");
    assert_eq!(lease.next_seq(), 1);
    let unused = lease.id().clone();
    assert!(!unused.is_empty(), "it has the id of the header that was offered");
    assert!(subject.list(Place::Live, Selector::All).is_empty(), "nothing is listed before the first record");
    assert!(subject.list(Place::Live, Selector::Key(&work)).is_empty(), "nor by its key");
    drop(lease);
    assert!(subject.list(Place::Live, Selector::All).is_empty(), "nothing is left of it");
    assert_not_found(subject.streams.open(Target::Id(&subject.at(&work))), "never written");
    assert_not_found(subject.lease_existing(&subject.at(&work), LONG), "never written");

    let mut lease = subject.lease(&work, LONG).expect("a lease for a new stream");
    assert_ne!(*lease.id(), unused);
    let id = lease.id().clone();
    lease.append(&[turn("one")], &how(Durability::Flush, Expect::Any)).expect("taken");
    assert_eq!(subject.live(&work).id, *id, "from its first record on it is there, also under the lease");
    assert_eq!(subject.live_texts(&work), ["one"]);
}

/// An append of no records gives no receipts and begins no stream, but its expectation counts.
pub fn append_of_no_records_checks_only_the_expectation(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    assert!(subject.append(&work, &[], Expect::Any).expect("nothing to do").is_empty());
    assert!(subject.list(Place::Live, Selector::All).is_empty(), "no stream begins");
    subject.say(&work, "one");
    assert!(subject.append(&work, &[], Expect::Seq(2)).expect("nothing to do").is_empty());
    let refused = subject.append(&work, &[], Expect::Seq(7)).expect_err("a wrong expectation");
    assert_eq!(conflict(&refused), Some(2));
    assert_eq!(subject.live_texts(&work), ["one"]);
}

/// A batch is read in the order in which it was given.
pub fn batch_is_read_in_its_order(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let texts: Vec<String> = (0..1000).map(|n| format!("record {}", n * 7919 % 1000)).collect();
    let bodies: Vec<Body> = texts.iter().map(|text| turn(text)).collect();
    let receipts = subject.append(&work, &bodies, Expect::Seq(1)).expect("taken");
    assert_eq!(receipts.iter().map(|r| r.seq).collect::<Vec<_>>(), (1..=1000).collect::<Vec<_>>());
    assert_eq!(subject.live_texts(&work), texts);
}

/// Whatever JSON a record holds, its bytes are read as they were given: members nobody knows, numbers of any
/// length, escapes, blanks, members that repeat inside of others, nothing at all, and a megabyte.
pub fn bodies_are_kept_to_the_byte(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let given = [
        r#"{"kind":"x","n":[1,2.50,1e400,-0,18446744073709551616,0.1000000000000000055,1E+2]}"#,
        r#"{"role":"user","z":1,"a":{"b":1,"a":2,"b":3},"unknown":{"deep":[[[{"x":null}]]]},"content":""}"#,
        r#"{"role":"user","blanks":[ 1,  2 ,3 ],"content":"\u0000 \u00e9 \/ \ud83d\ude00 \\u0000"}"#,
        "{\"role\":\"user\",\"content\":\"\u{2028}\u{feff}\u{7f}\u{85} \u{1F600}\u{10FFFF}e\u{301}\u{e9}\"}",
        r#"{"role":"user","\"quoted\" \n name":true,"":1,"content":"x"}"#,
        r#"{"kind":"x","inner":{"seq":1,"crc":"00000000"},"content":"{\"seq\":1,\"crc\":\"00000000\"}"}"#,
        r#"{"role":"user","content":"'; DROP TABLE records; -- $1 %s {} \\"}"#,
    ];
    let mut bodies: Vec<Body> =
        given.iter().map(|json| Body::parse(json.as_bytes()).expect("a body")).collect();
    bodies.push(Body::new());
    bodies.push(turn(""));
    bodies.push(turn(&"\u{1F600} and \"more\"\n".repeat((1 << 20) / 16)));
    bodies.push(turn(&(0..0x80_u8).map(char::from).collect::<String>()));
    for body in &bodies {
        subject.append(&work, std::slice::from_ref(body), Expect::Any).expect("taken");
    }
    subject.append(&work, &bodies, Expect::Any).expect("taken as a batch too");
    let all = subject.all(&subject.at(&work));
    assert_eq!(all.len(), 1 + 2 * bodies.len());
    for (seen, body) in all[1..].iter().zip(bodies.iter().chain(&bodies)) {
        let kept = frame::body_of(seen.line.as_bytes());
        let shown = String::from_utf8_lossy(&body.as_bytes()[..body.as_bytes().len().min(100)]);
        assert!(kept == body.as_bytes() || body.as_bytes().is_empty(), "record {}: {shown}", seen.seq);
        assert!(seen.line == line(seen.seq, body), "the whole line of record {}: {shown}", seen.seq);
    }
    if space == Space::Sessions {
        let archived = subject.relocate(&subject.live(&work), Place::Archive);
        subject.pack(&archived);
        assert!(subject.all(&archived) == all, "archived, they are still the same");
    }
}

/// A record longer than [`RECORD_BYTES_MAX`] is refused as too large, and none of its batch is written.
pub fn record_over_the_limit_is_refused_with_its_batch(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let batch = [turn("small"), turn(&"x".repeat(RECORD_BYTES_MAX))];
    let refused = subject.append(&work, &batch, Expect::Any).expect_err("too large");
    assert!(is_too_large(&refused), "wanted manent_log::Error::TooLarge, found: {refused}");
    assert!(subject.list(Place::Live, Selector::All).is_empty(), "no stream begins with it");
    subject.say(&work, "one");
    let refused = subject.append(&work, &batch, Expect::Any).expect_err("too large");
    assert!(is_too_large(&refused), "wanted manent_log::Error::TooLarge, found: {refused}");
    subject.say(&work, "two");
    assert_eq!(subject.live_texts(&work), ["one", "two"]);
}

/// Each level of durability is taken, by appends and under a lease, and repeated by the receipt.
pub fn receipt_repeats_the_durability(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let levels = [Durability::Sync, Durability::Group, Durability::Flush];
    for durability in levels {
        let terms = AppendOptions { wait: LONG, ..AppendOptions::new(durability) };
        let receipts = subject.append_with(&work, &[note("a"), note("b")], terms).expect("taken");
        assert!(receipts.iter().all(|r| r.durability == durability), "{receipts:?}");
        let receipts = subject.append_with(&work, &[note("c")], terms).expect("taken");
        assert!(receipts.iter().all(|r| r.durability == durability), "{receipts:?}");
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        let receipts = lease.append(&[note("d")], &how(durability, Expect::Any)).expect("taken");
        assert!(receipts.iter().all(|r| r.durability == durability), "{receipts:?}");
    }
    assert_eq!(subject.live_texts(&work), ["a", "b", "c", "d"].repeat(levels.len()));
}
