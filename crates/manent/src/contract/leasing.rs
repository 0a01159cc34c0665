//! One writer at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manent_log::{Durability, Expect};

use super::Make;
use super::subject::{LONG, Subject, assert_held, assert_not_found, header, key, let_others_run, said};
use crate::backend::{Address, Place, Terms};

/// As long as a lease is held, whoever does not want to wait for another is refused: a lease, for a new
/// stream or one that exists, and an append of any durability. Afterwards everything goes on.
pub fn a_second_writer_is_refused_at_once(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for round in 0..2 {
        let lease = subject.lease(&work, Duration::ZERO).expect("nobody else holds it");
        assert_held(subject.lease(&work, Duration::ZERO), "a second lease");
        assert_held(subject.lease(&work, Duration::from_millis(30)), "a second lease, after a wait in vain");
        assert_held(subject.backend.lease(&work, None, Duration::ZERO), "a lease of what exists");
        for durability in [Durability::Sync, Durability::Group, Durability::Flush] {
            let terms = Terms { durability, expect: Expect::Any, wait: Duration::ZERO };
            assert_held(subject.append_on(&work, &[said("no")], &terms), "an append meanwhile");
            assert_held(subject.append_on(&work, &[said("no"), said("no")], &terms), "a batch meanwhile");
            let terms = Terms { expect: Expect::Seq(1), ..terms };
            assert_held(subject.append_on(&work, &[said("no")], &terms), "one that expects something");
        }
        assert_eq!(lease.next_seq(), round + 1, "nothing was written around the lease");
        drop(lease);
        drop(subject.lease(&work, Duration::ZERO).expect("a lease ends when it is dropped"));
        assert_eq!(subject.say(&work, "and on").seq, round + 1);
    }
    assert_eq!(subject.texts(&Address::live(&work)), ["and on"; 2]);
}

/// Whoever waits for a lease gets it when the other is dropped, and not before.
pub fn a_lease_is_waited_for(make: Make<'_>) {
    let subject = Subject::new(make);
    for existing in [false, true] {
        let work = key(&format!("work {existing}"));
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
                    mine.append(&[said("second")], Durability::Flush, Expect::Any).expect("taken");
                });
            }
            let_others_run();
            lease.append(&[said("first")], Durability::Flush, Expect::Any).expect("taken");
            let_go.store(true, Ordering::SeqCst);
            drop(lease);
        });
        let texts = subject.texts(&subject.live(&work));
        assert_eq!(texts[usize::from(existing)..], ["first", "second", "second", "second"]);
    }
}

/// An append waits for a lease as long as it was told, and then goes on behind what was written under it.
pub fn an_append_waits_for_a_lease(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "before");
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    let let_go = AtomicBool::new(false);
    thread::scope(|scope| {
        for durability in [Durability::Sync, Durability::Group, Durability::Flush] {
            let (subject, work, let_go) = (&subject, &work, &let_go);
            scope.spawn(move || {
                let terms = Terms { durability, expect: Expect::Any, wait: LONG };
                subject.append_on(work, &[said("appended")], &terms).expect("taken, after a wait");
                assert!(let_go.load(Ordering::SeqCst), "an append while a lease was held");
            });
        }
        let_others_run();
        for _ in 0..5 {
            lease.append(&[said("leased")], Durability::Flush, Expect::Any).expect("taken");
        }
        let_go.store(true, Ordering::SeqCst);
        drop(lease);
    });
    let texts = subject.texts(&subject.live(&work));
    assert_eq!(texts[..6], ["before", "leased", "leased", "leased", "leased", "leased"]);
    assert_eq!(texts[6..], ["appended"; 3]);
}

/// Leases and appends that take turns go on behind each other, and each lease knows the next number.
pub fn a_lease_goes_on_behind_what_others_wrote(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let mut wanted = Vec::new();
    for round in 0..5 {
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        assert_eq!(lease.next_seq(), wanted.len() as u64 + 1);
        let expect = Expect::Seq(lease.next_seq());
        lease.append(&[said("under a lease")], Durability::Flush, expect).expect("taken");
        drop(lease);
        subject.say(&work, &format!("appended {round}"));
        wanted.extend(["under a lease".to_owned(), format!("appended {round}")]);
    }
    assert_eq!(subject.texts(&Address::live(&work)), wanted);
}

/// Without a header to begin with, a lease needs a live stream: an archived one is none.
pub fn a_lease_can_insist_on_a_stream(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    assert_not_found(subject.backend.lease(&work, None, LONG), "never written");
    subject.say(&work, "one");
    let mut lease = subject.backend.lease(&work, None, LONG).expect("it exists");
    assert_eq!((lease.next_seq(), &**lease.id()), (2, subject.live(&work).id.as_str()));
    lease.append(&[said("two")], Durability::Flush, Expect::Seq(2)).expect("taken");
    assert!(lease.set_aside().is_none(), "nothing was torn");
    assert!(lease.names().expect("counted") >= 1);
    drop(lease);
    let archived = subject.relocate(&subject.live(&work), Place::Archive);
    assert_not_found(subject.backend.lease(&work, None, LONG), "archived");
    let lease = subject.lease(&work, LONG).expect("a new one may begin");
    assert_eq!(lease.next_seq(), 1);
    assert_ne!(**lease.id(), *archived.id);
}

/// One writer may hold the leases of many keys, and none of them is in the way of another key's.
pub fn leases_of_different_keys_do_not_meet(make: Make<'_>) {
    let subject = Subject::new(make);
    let keys: Vec<_> = (0..20).map(|n| key(&format!("work {n}"))).collect();
    let mut leases: Vec<_> =
        keys.iter().map(|key| subject.lease(key, Duration::ZERO).expect("its own lease")).collect();
    for lease in &mut leases {
        lease.append(&[said("one")], Durability::Flush, Expect::Seq(1)).expect("taken");
    }
    assert_eq!(subject.say(&key("free"), "one").seq, 1);
    drop(leases);
    for key in &keys {
        assert_eq!(subject.texts(&Address::live(key)), ["one"]);
    }
}

/// A thread that panics gives back its lease and its right to move streams.
pub fn a_panic_gives_back_what_was_held(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    thread::scope(|scope| {
        let died = scope.spawn(|| {
            let mut lease = subject.lease(&work, LONG).expect("a lease");
            let _moving = subject.moving();
            lease.append(&[said("one")], Durability::Flush, Expect::Any).expect("taken");
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
pub fn a_wait_may_be_for_ever(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let terms = Terms { durability: Durability::Flush, expect: Expect::Any, wait: Duration::MAX };
    subject.append_on(&work, &[said("one")], &terms).expect("taken");
    let lease = subject.lease(&work, Duration::MAX).expect("a lease");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| subject.append_on(&work, &[said("two")], &terms));
        let_others_run();
        drop(lease);
        waiting.join().expect("no panic").expect("taken, after a wait");
    });
    let _moving = subject.backend.exclusive(Duration::MAX).expect("the right to move streams");
    let backend = &subject.backend;
    let mut at = subject.live(&work);
    for to in [Place::Archive, Place::Trash, Place::Live] {
        at = backend.relocate(&at, to, Duration::MAX).expect("moved");
    }
    let fork = key("fork");
    backend.create(&fork, &header(&fork), &mut std::iter::empty()).expect("made");
    let whole = header(&fork).body;
    backend.absorb(&Address::live(&fork), &whole, &at, 2, Duration::MAX).expect("made whole");
    backend.repair(&work, "2026-01-02T03:04:05.678Z", Duration::MAX).expect("looked at");
    backend.delete(&at, Duration::MAX).expect("deleted");
}
