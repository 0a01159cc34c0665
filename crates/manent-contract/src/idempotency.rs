//! Checks of idempotency keys: a record that is appended again is there once.

use std::thread;

use manent_log::{Body, Durability, Expect, KEY_BYTES_MAX, KEY_RECORDS};
use manent_store::{AppendOptions, Place, Selector, Space};

use crate::Make;
use crate::subject::{LONG, Subject, conflict, how, keyed, numbers, turn};

/// An append with the key of a record that is there writes nothing and gives the receipt of the first, whatever else it
/// says: alone, in a batch, under a lease, with any durability.
pub fn known_key_gets_its_first_receipt(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let first = subject.append(&work, &[keyed("k", "one")], Expect::Any).expect("taken").remove(0);
    for durability in [Durability::Sync, Durability::Group, Durability::Flush] {
        let terms = AppendOptions { wait: LONG, ..AppendOptions::new(durability) };
        let again = subject.append_with(&work, &[keyed("k", "other words")], terms).expect("known").remove(0);
        assert_eq!((again.seq, again.position, &again.id), (first.seq, first.position, &first.id));
        assert_eq!(again.durability, durability, "as durable as asked");
    }
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    let batch = [keyed("k", "one"), turn("two"), keyed("l", "three"), keyed("l", "again")];
    let receipts = lease.append(&batch, &how(Durability::Flush, Expect::Seq(1))).expect("taken");
    assert_eq!(receipts.iter().map(|receipt| receipt.seq).collect::<Vec<_>>(), [1, 2, 3, 3]);
    assert_eq!(lease.next_seq(), 4, "what is known takes no number");
    drop(lease);
    assert_eq!(subject.live_texts(&work), ["one", "two", "three"]);
    assert_eq!(subject.say(&work, "four").seq, 4);
    if let Some(other) = subject.other() {
        let receipts = subject.append(&other, &[keyed("k", "its own")], Expect::Any).expect("taken");
        assert_eq!(receipts[0].seq, 1, "a key counts within one stream");
    }
}

/// A record with a new key may expect what any record may; one that is known has got its number.
pub fn expectation_of_a_known_key_is_not_checked(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.append(&work, &[keyed("k", "one")], Expect::Seq(1)).expect("the right one");
    let again = subject.append(&work, &[keyed("k", "one")], Expect::Seq(1)).expect("known");
    assert_eq!(again[0].seq, 1, "the very same call gets the very same answer");
    let refused = subject.append(&work, &[keyed("new", "no")], Expect::Seq(1)).expect_err("a wrong number");
    assert_eq!(conflict(&refused), Some(2), "wanted manent_log::Error::Conflict, found: {refused}");
    assert_eq!(subject.live_texts(&work), ["one"]);
}

/// A key is found among the last 1,000 records at least, and stays what it was in the archive and back.
pub fn key_is_found_among_the_last_thousand_records(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.append(&work, &[keyed("k", "one")], Expect::Any).expect("taken");
    let fill: Vec<Body> = (0..KEY_RECORDS - 1).map(|_| turn("x")).collect();
    subject.append(&work, &fill, Expect::Any).expect("taken");
    assert_eq!(subject.append(&work, &[keyed("k", "one")], Expect::Any).expect("known")[0].seq, 1);
    if space == Space::Sessions {
        let archived = subject.relocate(&subject.live(&work), Place::Archive);
        subject.relocate(&archived, Place::Live);
        assert_eq!(subject.append(&work, &[keyed("k", "one")], Expect::Any).expect("known")[0].seq, 1);
    }
    assert_eq!(numbers(&subject.all(&subject.at(&work))).len(), KEY_RECORDS + 1);
}

/// Threads that record the same at once record it once, and all get its receipt.
pub fn threads_with_one_key_record_once(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let seqs: Vec<u64> = thread::scope(|scope| {
        let append = |nth: usize| {
            let durability = if nth.is_multiple_of(2) { Durability::Group } else { Durability::Flush };
            let terms = AppendOptions { wait: LONG, ..AppendOptions::new(durability) };
            subject.append_with(&work, &[keyed("k", "one")], terms).expect("taken or known")[0].seq
        };
        let threads: Vec<_> = (0..8).map(|nth| scope.spawn(move || append(nth))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(seqs, [1; 8]);
    assert_eq!(subject.live_texts(&work), ["one"]);
}

/// A key of no bytes, or of too many, is refused, and no stream begins.
pub fn empty_or_oversized_key_is_refused(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for by in ["", &"k".repeat(KEY_BYTES_MAX + 1)] {
        let refused = subject.append(&work, &[keyed(by, "no")], Expect::Any);
        assert!(refused.is_err(), "a key of {} bytes was taken", by.len());
        assert!(
            subject.list(Place::Live, Selector::All).is_empty(),
            "nothing begins a stream that is refused"
        );
    }
    subject.append(&work, &[keyed(&"k".repeat(KEY_BYTES_MAX), "one")], Expect::Any).expect("taken");
}

/// The holder of the lease can make records that are there survive power loss.
pub fn keep_from_changes_nothing_that_is_read(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let terms = AppendOptions { wait: LONG, ..AppendOptions::new(Durability::Flush) };
    let receipts = subject.append_with(&work, &[turn("one"), turn("two")], terms).expect("taken");
    let before = subject.all(&subject.at(&work));
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    for receipt in &receipts {
        lease.keep_from(receipt.position).expect("kept");
    }
    assert_eq!(lease.append(&[turn("three")], &how(Durability::Sync, Expect::Any)).expect("taken")[0].seq, 3);
    drop(lease);
    assert_eq!(subject.all(&subject.at(&work))[..3], before[..], "nothing was changed by it");
}
