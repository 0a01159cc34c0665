//! Checks of leases: one writer at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manent_log::{Durability, Expect};

use manent_store::{
    AppendOptions, IfMissing, LockMode, LockName, Place, Space, StreamId, StreamPart, Target,
};

use crate::Make;
use crate::subject::{
    LONG, Subject, TS, assert_held, assert_not_found, assert_not_live, header, how, key, let_others_run, turn,
};

/// A held lease refuses whoever does not want to wait for another: a lease, for a new
/// stream or one that exists, and an append of any durability. Afterwards everything goes on.
pub fn second_writer_without_wait_is_refused(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for round in 0..2 {
        let lease = subject.lease(&work, Duration::ZERO).expect("nobody else holds it");
        assert_held(subject.lease(&work, Duration::ZERO), "a second lease");
        assert_held(subject.lease(&work, Duration::from_millis(30)), "a second lease, after a wait in vain");
        assert_held(subject.lease_existing(&subject.at(&work), Duration::ZERO), "a lease of what exists");
        for durability in [Durability::Sync, Durability::Group, Durability::Flush] {
            let terms = AppendOptions::new(durability);
            assert_held(subject.append_with(&work, &[turn("no")], terms), "an append meanwhile");
            assert_held(subject.append_with(&work, &[turn("no"), turn("no")], terms), "a batch meanwhile");
            let terms = AppendOptions { expect: Expect::Seq(1), ..terms };
            assert_held(subject.append_with(&work, &[turn("no")], terms), "one that expects something");
        }
        assert_eq!(lease.next_seq(), round + 1, "nothing was written around the lease");
        drop(lease);
        drop(subject.lease(&work, Duration::ZERO).expect("a lease ends when it is dropped"));
        assert_eq!(subject.say(&work, "and on").seq, round + 1);
    }
    assert_eq!(subject.live_texts(&work), ["and on"; 2]);
}

/// Whoever waits for a lease gets it when the other is dropped, and not before.
pub fn lease_waits_for_its_holder(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    for existing in [false, true] {
        let work = subject.work();
        if existing {
            subject.say(&work, "before");
        }
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        let let_go = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut mine = subject.lease(&work, LONG).expect("a lease, after a wait");
                    assert!(let_go.load(Ordering::SeqCst), "a second lease while the first was held");
                    mine.append(&[turn("second")], &how(Durability::Flush, Expect::Any)).expect("taken");
                });
            }
            let_others_run();
            lease.append(&[turn("first")], &how(Durability::Flush, Expect::Any)).expect("taken");
            let_go.store(true, Ordering::SeqCst);
            drop(lease);
        });
        let texts = subject.live_texts(&work);
        assert_eq!(texts[usize::from(existing)..], ["first", "second", "second", "second"]);
        subject.delete(&subject.at(&work)).expect("deleted");
    }
}

/// An append waits for a lease as long as it was told, and then goes on behind what was written under it.
pub fn append_waits_for_a_lease(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "before");
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    let let_go = AtomicBool::new(false);
    thread::scope(|scope| {
        for durability in [Durability::Sync, Durability::Group, Durability::Flush] {
            let (subject, work, let_go) = (&subject, &work, &let_go);
            scope.spawn(move || {
                let terms = AppendOptions { wait: LONG, ..AppendOptions::new(durability) };
                subject.append_with(work, &[turn("appended")], terms).expect("taken, after a wait");
                assert!(let_go.load(Ordering::SeqCst), "an append while a lease was held");
            });
        }
        let_others_run();
        for _ in 0..5 {
            lease.append(&[turn("leased")], &how(Durability::Flush, Expect::Any)).expect("taken");
        }
        let_go.store(true, Ordering::SeqCst);
        drop(lease);
    });
    let texts = subject.texts(&subject.live(&work));
    assert_eq!(texts[..6], ["before", "leased", "leased", "leased", "leased", "leased"]);
    assert_eq!(texts[6..], ["appended"; 3]);
}

/// Leases and appends that take turns go on behind each other, and each lease knows the next number.
pub fn lease_continues_after_records_of_others(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let mut wanted = Vec::new();
    for round in 0..5 {
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        assert_eq!(lease.next_seq(), wanted.len() as u64 + 1);
        let expect = Expect::Seq(lease.next_seq());
        lease.append(&[turn("under a lease")], &how(Durability::Flush, expect)).expect("taken");
        drop(lease);
        subject.say(&work, &format!("appended {round}"));
        wanted.extend(["under a lease".to_owned(), format!("appended {round}")]);
    }
    assert_eq!(subject.live_texts(&work), wanted);
}

/// Without a header to begin with, a lease needs a live stream: an archived one is none.
pub fn lease_refusing_creation_needs_a_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    assert_not_found(subject.lease_existing(&subject.at(&work), LONG), "never written");
    subject.say(&work, "one");
    let mut lease = subject.lease_existing(&subject.at(&work), LONG).expect("it exists");
    assert_eq!((lease.next_seq(), &**lease.id()), (2, subject.live(&work).id.as_str()));
    lease.append(&[turn("two")], &how(Durability::Flush, Expect::Seq(2))).expect("taken");
    assert!(lease.set_aside().is_none(), "nothing was torn");
    assert!(lease.names().expect("counted") >= 1);
    drop(lease);
    let first = subject.live(&work);
    if space == Space::Sessions {
        subject.relocate(&first, Place::Archive);
    } else {
        subject.delete(&first).expect("deleted");
    }
    assert_not_found(subject.lease_existing(&subject.at(&work), LONG), "no longer live");
    let lease = subject.lease(&work, LONG).expect("a new one may begin");
    assert_eq!(lease.next_seq(), 1);
    assert_ne!(**lease.id(), *first.id);
}

/// One writer may hold the leases of many keys, and none of them is in the way of another key's.
pub fn leases_of_different_keys_are_independent(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let mut keys = subject.keys(20);
    let free = keys.pop().expect("a key");
    let mut leases: Vec<_> =
        keys.iter().map(|key| subject.lease(key, Duration::ZERO).expect("its own lease")).collect();
    for lease in &mut leases {
        lease.append(&[turn("one")], &how(Durability::Flush, Expect::Seq(1))).expect("taken");
    }
    assert_eq!(subject.say(&free, "one").seq, 1);
    drop(leases);
    for key in &keys {
        assert_eq!(subject.texts(&subject.at(key)), ["one"]);
    }
}

/// A thread that panics gives back its lease and its right to move streams.
pub fn panic_releases_leases_and_locks(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    thread::scope(|scope| {
        let died = scope.spawn(|| {
            let mut lease = subject.lease(&work, LONG).expect("a lease");
            let _moving = subject.moving();
            lease.append(&[turn("one")], &how(Durability::Flush, Expect::Any)).expect("taken");
            // A panic that prints nothing.
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(died.join().is_err(), "it panicked");
    });
    let lease = subject.lease(&work, Duration::ZERO).expect("nobody holds it");
    assert_eq!(lease.next_seq(), 2, "what was written is there");
    drop(subject.moving());
}

/// No wait is too long to be asked for: `Duration::MAX` means as long as it takes.
pub fn wait_of_max_duration_is_accepted(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let terms = AppendOptions { wait: Duration::MAX, ..AppendOptions::new(Durability::Flush) };
    subject.append_with(&work, &[turn("one")], terms).expect("taken");
    let lease = subject.lease(&work, Duration::MAX).expect("a lease");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| subject.append_with(&work, &[turn("two")], terms));
        let_others_run();
        drop(lease);
        waiting.join().expect("no panic").expect("taken, after a wait");
    });
    let streams = &subject.streams;
    let moves = LockName::Moves(space);
    let _moving = streams.lock(moves, LockMode::Exclusive, Duration::MAX).expect("the right to move streams");
    let named = LockName::Named(space, "contract.lock");
    drop(streams.lock(named, LockMode::Shared, Duration::MAX).expect("a lock"));
    let mut at = subject.live(&work);
    if space == Space::Sessions {
        for to in [Place::Archive, Place::Trash, Place::Live] {
            at = streams.relocate(&at, to, Duration::MAX).expect("moved");
        }
    }
    let writer = streams.lease(&at, IfMissing::Refuse, Duration::MAX).expect("a lease");
    let part = StreamPart::Lines { of: at.clone(), upto: None };
    writer.replace(Some(&header(&work).body), &mut std::iter::once(Ok(part)), &[]).expect("replaced");
    if let Some(maintenance) = streams.maintenance() {
        maintenance.repair(&subject.at(&work), TS, Duration::MAX).expect("looked at");
    }
    streams.delete(&subject.at(&work), Duration::MAX).expect("deleted");
}

/// The lease of an archived or deleted stream keeps others off, and refuses everything but replacing.
pub fn lease_outside_live_allows_only_replacing(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for place in [Place::Archive, Place::Trash] {
        subject.say(&work, "one");
        let at = subject.relocate(&subject.live(&work), place);
        let mut lease = subject.lease_existing(&at, Duration::ZERO).expect("a lease");
        assert!(!lease.is_new());
        assert_held(subject.lease_existing(&at, Duration::ZERO), "a second lease");
        let refused = lease.append(&[turn("no")], &how(Durability::Flush, Expect::Any));
        assert_not_live(refused, "appending to a stream that was put away");
        {
            let _moving = subject.moving();
            assert_held(subject.streams.delete(&at, Duration::ZERO), "deleting it");
            assert_held(subject.streams.relocate(&at, Place::Live, Duration::ZERO), "moving it");
        }
        drop(subject.lease(&work, Duration::ZERO).expect("the live stream of the key is another one"));
        drop(lease);
        let missing = StreamId { id: "01a1e14d-2382-722e-bd10-ffffffffffff".into(), ..at.clone() };
        let new = || header(&work);
        let refused = subject.streams.lease(&missing, IfMissing::Create(&new), Duration::ZERO);
        assert_not_found(refused, "streams begin only live");
        assert_eq!(subject.texts(&at), ["one"]);
        drop(subject.lease_existing(&at, Duration::ZERO).expect("it ended with its holder"));
    }
}

/// An append with an id reaches that very stream: where another one of the key is live, or none, it is not found.
pub fn append_by_id_reaches_only_that_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "first");
    let first = subject.live(&work);
    let append = |at: &StreamId| {
        let how = AppendOptions { wait: LONG, ..AppendOptions::new(Durability::Group) };
        subject.streams.append(at, &|| header(&work), &[turn("by id")], &how)
    };
    assert_eq!(append(&first).expect("it is live")[0].seq, 2);
    subject.delete(&first).expect("deleted");
    assert_not_found(append(&first), "a stream that was deleted");
    assert_not_found(subject.streams.open(Target::Id(&subject.at(&work))), "nothing is begun");
    subject.say(&work, "second");
    assert_not_found(append(&first), "another stream of the key is live");
    assert_eq!(subject.live_texts(&work), ["second"]);
    if space == Space::Sessions {
        let archived = subject.relocate(&subject.live(&work), Place::Archive);
        assert_not_live(append(&archived), "a stream that was put away");
        assert_eq!(subject.counts(), [0, 1, 0]);
    }
}
