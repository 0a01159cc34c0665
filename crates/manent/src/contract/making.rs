//! Streams that are made as a whole, made independent of what they were forked from, and removed.

use std::thread;
use std::time::Duration;

use manent_log::{Body, Change, Durability, Expect, Item};

use super::Make;
use super::subject::{
    LONG, Seen, Subject, assert_held, assert_in_the_way, assert_not_found, header, header_of_fork, key,
    let_others_run, line, numbers, rest_of, said,
};
use crate::backend::{Address, Header, Place, Repaired, Start, Which};
use crate::error::Error;
use crate::meta::{self, Parent};

/// A stream that is made has its header and all records from the start; if one of them cannot be had, nothing
/// is there.
pub fn a_stream_is_made_whole_or_not_at_all(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, bare) = (key("work"), key("header only"));
    let given = header(&work);
    for good in [0, 1, 3000] {
        let mut records = (0..good).map(|n| Ok(said(&format!("{n} {}", "x".repeat(1000)))));
        let failing = Error::Backend("no more of them".into());
        let mut failing = (&mut records).chain(std::iter::once(Err(failing)));
        let _moving = subject.moving();
        let failed = subject.backend.create(&work, &given, &mut failing);
        assert!(matches!(failed, Err(Error::Backend(_))), "the error of the records, found: {failed:?}");
        assert!(subject.list(Place::Live, Which::All).is_empty(), "nothing is left after {good} records");
        assert_not_found(subject.backend.read(&Address::live(&work), Start::First, None), "half made");
    }
    let bodies: Vec<Body> = (0..3000).map(|n| said(&format!("{n} {}", "x".repeat(1000)))).collect();
    subject.create(&work, &given, &bodies).expect("made");
    let at = subject.live(&work);
    assert_eq!(at.id, given.id);
    let all = subject.all(&at);
    assert_eq!(all[0].line, line(0, &given.body), "the header as it was given");
    assert_eq!(numbers(&all), (0..=3000).collect::<Vec<_>>());
    assert!(all[1..].iter().zip(1..).all(|(seen, seq)| seen.line == line(seq, &bodies[seq as usize - 1])));
    assert_eq!(subject.say(&work, "and on").seq, 3001);

    subject.create(&bare, &header(&bare), &[]).expect("made");
    assert_eq!(subject.list(Place::Live, Which::Key(&bare)).len(), 1, "a header alone is a stream");
    assert_eq!(numbers(&subject.all(&subject.live(&bare))), [0]);
    assert!(subject.backend.verify(&subject.live(&bare), &mut |_, _| {}).expect("checked").is_sound());
    assert_eq!(subject.say(&bare, "one").seq, 1);
}

/// The records of a stream that is being made may come from another one of the same store, read meanwhile.
pub fn a_stream_can_be_made_of_one_that_is_being_read(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, copy) = (key("work"), key("copy"));
    for n in 1..=10 {
        subject.say(&work, &format!("{n}"));
    }
    let mut reader = subject.open(&Address::live(&work), Start::Seq(1));
    let mut records = std::iter::from_fn(|| {
        assert!(subject.list(Place::Live, Which::Key(&copy)).is_empty(), "nothing is there before all is");
        match reader.next().expect("reading goes on")? {
            Item::Entry(entry) => Some(Ok(Body::parse(entry.bytes).expect("a body"))),
            Item::Damage(damage) => panic!("nothing was damaged, but {damage:?} was read"),
        }
    });
    let _moving = subject.moving();
    subject.backend.create(&copy, &header(&copy), &mut records).expect("made");
    assert_eq!(subject.texts(&subject.live(&copy)), subject.texts(&subject.live(&work)));
}

/// A live stream is in the way of one to be made, also while it is only being begun; one that was put away is
/// not.
pub fn making_a_stream_replaces_nothing(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let unborn = subject.lease(&work, LONG).expect("a lease for a new stream");
    let refused = subject.create(&work, &header(&work), &[said("made")]);
    assert_in_the_way(refused, Place::Live, "a stream is about to begin");
    drop(unborn);
    subject.say(&work, "one");
    let refused = subject.create(&work, &header(&work), &[said("made")]);
    assert_in_the_way(refused, Place::Live, "there is a live stream");
    assert_eq!(subject.texts(&subject.live(&work)), ["one"]);
    let archived = subject.relocate(&subject.live(&work), Place::Archive);
    subject.create(&work, &header(&work), &[said("made")]).expect("nothing is in the way now");
    assert_eq!(subject.texts(&archived), ["one"]);
    assert_eq!(subject.texts(&subject.live(&work)), ["made"]);
}

/// Makes a fork with records of its own.
fn fork_of(subject: &Subject, parent: &Address, upto: u64, name: &str, own: &[&str]) -> (Address, Header) {
    let fork = key(name);
    let last = subject.read(parent, Start::Seq(upto), Some(upto)).remove(0).line;
    let crc = last[last.len() - 10..last.len() - 2].to_owned();
    let parent = Parent { id: parent.id.clone(), key: parent.key.to_string(), upto, crc };
    let header = header_of_fork(&fork, Some(&parent));
    let bodies: Vec<Body> = own.iter().map(|text| said(text)).collect();
    subject.create(&fork, &header, &bodies).expect("made");
    (subject.live(&fork), header)
}

/// The same header, without a parent.
fn without_parent(header: &Header) -> Body {
    meta::with_parent(&format!("{{{}}}", header.body.as_str()), None, "another")
}

/// A stream whose header names a parent holds only what comes behind: its first number is the one after the
/// last that is shared, whether it is made with records, appended to, or written under a lease.
pub fn the_numbers_of_a_fork_go_on_from_its_parent(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for n in 1..=5 {
        subject.say(&work, &format!("{n}"));
    }
    let parent = subject.live(&work);
    let (first, _) = fork_of(&subject, &parent, 3, "with records", &["four", "five"]);
    assert_eq!(numbers(&subject.all(&first)), [0, 4, 5]);
    assert_eq!(subject.say(&first.key, "six").seq, 6);
    assert_eq!(numbers(&subject.read(&first, Start::Seq(1), None)), [4, 5, 6], "it holds nothing smaller");
    let mut tail = subject.open(&first, Start::Tail { count: 5, before: None });
    assert_eq!((numbers(&rest_of(&mut *tail)), tail.missing()), (vec![0, 4, 5, 6], 2));
    assert!(subject.backend.verify(&first, &mut |_, _| {}).expect("checked").is_sound());

    let (second, _) = fork_of(&subject, &parent, 2, "without", &[]);
    let mut lease = subject.lease(&second.key, LONG).expect("a lease");
    assert_eq!(lease.next_seq(), 3);
    lease.append(&[said("three")], Durability::Flush, Expect::Seq(3)).expect("taken");
    drop(lease);
    assert_eq!(numbers(&subject.all(&second)), [0, 3]);
    assert_eq!(numbers(&subject.all(&parent)), [0, 1, 2, 3, 4, 5], "the parent is left alone");
}

/// Absorbing gives a fork another header, then the parent's records up to a number and its own, each as it
/// stands. Key and id stay, writing goes on, and whoever was reading hears that the stream was replaced.
pub fn absorbing_puts_the_parents_records_before_the_forks_own(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for n in 1..=5 {
        subject.say(&work, &format!("shared {n}"));
    }
    let parent = subject.live(&work);
    let shared = subject.all(&parent);
    let (fork, header) = fork_of(&subject, &parent, 3, "fork", &["own 4", "own 5"]);
    let own = subject.all(&fork);
    let mut reader = subject.open(&fork, Start::First);
    rest_of(&mut *reader);
    let whole = without_parent(&header);
    {
        let _moving = subject.moving();
        subject.backend.absorb(&fork, &whole, &parent, 3, LONG).expect("absorbed");
    }
    let lines = |seen: &[Seen]| seen.iter().map(|seen| seen.line.clone()).collect::<Vec<_>>();
    let all = subject.all(&fork);
    assert_eq!(all[0].line, line(0, &whole), "the header as it was given");
    assert_eq!(lines(&all[1..]), [lines(&shared[1..4]), lines(&own[1..])].concat());
    assert_eq!(numbers(&all), [0, 1, 2, 3, 4, 5]);
    assert_eq!(subject.live(&fork.key), fork, "key and id stay");
    assert_eq!(subject.open(&fork, Start::Header).meta().and_then(|meta| meta.parent.clone()), None);
    assert!(subject.backend.verify(&fork, &mut |_, _| {}).expect("checked").is_sound());
    assert_eq!(subject.say(&fork.key, "own 6").seq, 6);
    assert_eq!(Subject::change(&*reader), Change::Replaced, "for whoever reads the old form");
    assert_eq!(subject.all(&parent), shared, "the parent is left alone");

    // A parent that is itself a fork and holds nothing of what is asked for gives nothing.
    let (middle, _) = fork_of(&subject, &parent, 4, "middle", &["middle 5"]);
    let (last, header) = fork_of(&subject, &parent, 2, "last", &["last 3"]);
    let _moving = subject.moving();
    subject.backend.absorb(&last, &header.body, &middle, 2, LONG).expect("absorbed");
    assert_eq!(numbers(&subject.all(&last)), [0, 3], "5 is not among the records up to 2");
}

/// Fork and parent may be in any place, condensed or not, and the fork stays where it is.
pub fn absorbing_works_wherever_fork_and_parent_are(make: Make<'_>) {
    for fork_in in Place::ALL {
        for parent_in in Place::ALL {
            let subject = Subject::new(make);
            let work = key("work");
            for n in 1..=3 {
                subject.say(&work, &format!("{n}"));
            }
            let parent = subject.live(&work);
            let (fork, header) = fork_of(&subject, &parent, 2, "fork", &["three"]);
            let put = |at: &Address, place| {
                let at = subject.relocate(at, place);
                subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
                at
            };
            let (fork, parent) = (put(&fork, fork_in), put(&parent, parent_in));
            let whole = without_parent(&header);
            {
                let _moving = subject.moving();
                subject.backend.absorb(&fork, &whole, &parent, 2, LONG).expect("absorbed");
                subject.backend.delete(&parent, LONG).expect("deleted");
            }
            assert_eq!(subject.texts(&fork), ["1", "2", "three"], "{fork_in:?} from {parent_in:?}");
            assert_eq!(subject.places_of(&fork.id), [fork_in]);
            assert!(subject.backend.verify(&fork, &mut |_, _| {}).expect("checked").is_sound());
            let live = subject.relocate(&fork, Place::Live);
            assert_eq!(subject.texts(&live), ["1", "2", "three"]);
        }
    }
}

/// A fork that is being written is rewritten when its writer is done, and nothing of what it wrote is lost.
pub fn absorbing_waits_for_the_writer(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "one");
    let parent = subject.live(&work);
    let (fork, header) = fork_of(&subject, &parent, 1, "fork", &[]);
    let whole = without_parent(&header);
    let absorb = |wait: Duration| {
        let _moving = subject.moving();
        subject.backend.absorb(&fork, &whole, &parent, 1, wait)
    };
    let mut lease = subject.lease(&fork.key, LONG).expect("a lease");
    assert_held(absorb(Duration::ZERO), "rewriting what is being written");
    thread::scope(|scope| {
        let absorbed = scope.spawn(|| absorb(LONG));
        let_others_run();
        lease.append(&[said("two")], Durability::Flush, Expect::Seq(2)).expect("taken");
        drop(lease);
        absorbed.join().expect("no panic").expect("absorbed, after a wait");
    });
    assert_eq!(subject.texts(&fork), ["one", "two"]);
}

/// What is deleted is in no list and cannot be read or deleted again; its key is free, and nothing else is
/// touched.
pub fn what_is_deleted_is_gone(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, other) = (key("work"), key("other"));
    subject.say(&other, "stays");
    for place in Place::ALL {
        for condensing in [false, true] {
            subject.say(&work, "goes");
            let at = subject.relocate(&subject.live(&work), place);
            if condensing {
                subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
            }
            subject.delete(&at).expect("deleted");
            assert_eq!(subject.places_of(&at.id), [], "it is in no list");
            for place in Place::ALL {
                assert!(subject.list(place, Which::Key(&work)).is_empty());
                assert!(subject.list(place, Which::Id(&at.id)).is_empty());
            }
            assert_not_found(subject.backend.read(&at, Start::First, None), "deleted");
            assert_not_found(subject.backend.verify(&at, &mut |_, _| {}), "deleted");
            assert_not_found(subject.delete(&at), "deleted already");
            assert_eq!(subject.say(&work, "anew").seq, 1, "the key is free");
            subject.delete(&subject.live(&work)).expect("deleted");
        }
    }
    assert_eq!(subject.texts(&subject.live(&other)), ["stays"]);
    assert_eq!(Place::ALL.map(|place| subject.list(place, Which::All).len()), [1, 0, 0]);
}

/// Where nothing is damaged there is nothing to repair, and nothing is written.
pub fn repairing_a_sound_stream_does_nothing(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "one");
    let all = subject.all(&Address::live(&work));
    for _ in 0..2 {
        let repaired = subject.backend.repair(&work, "2026-01-02T03:04:05.678Z", LONG).expect("looked at");
        assert_eq!(repaired, Repaired::default());
    }
    assert_eq!(subject.all(&Address::live(&work)), all);
}
