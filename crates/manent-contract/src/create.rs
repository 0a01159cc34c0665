//! Checks of `create` and `delete`: streams that are created as a whole, and removed.

use manent_log::{Body, Durability, Expect, LogItem, TailState};
use manent_store::{
    Error, Place, Repaired, Seek, Selector, Space, StreamHeader, StreamId, StreamPart, Target,
};

use crate::Make;
use crate::subject::{
    LONG, Parent, Subject, TS, assert_in_the_way, assert_not_found, header, header_of_fork, how,
    is_too_large, key, line, numbers, records, rest_of, tail, turn,
};

/// A created stream has its header and all records from the start; if one part cannot be had, or is too large, there
/// is no stream.
pub fn create_makes_all_or_nothing(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let given = header(&work);
    let at = subject.at(&work);
    let bodies: Vec<Body> = (0..3000).map(|n| turn(&format!("{n} {}", "x".repeat(1000)))).collect();
    for good in [0, 1, 3000] {
        let mut parts = records(&bodies[..good]).chain([Err(Error::Backend("no more of them".into()))]);
        let _moving = subject.moving();
        let failed = subject.streams.create(&at, &given, &mut parts);
        assert!(matches!(failed, Err(Error::Backend(_))), "the error of the parts, found: {failed:?}");
        assert!(subject.list(Place::Live, Selector::All).is_empty(), "nothing is left after {good} records");
        assert_not_found(subject.streams.open(Target::Id(&at)), "half made");
    }
    let large = turn(&"x".repeat(manent_log::frame::RECORD_BYTES_MAX));
    let refused = subject.create(&work, &given, &[turn("one"), large]).expect_err("too large");
    assert!(is_too_large(&refused), "wanted manent_log::Error::TooLarge, found: {refused}");
    assert_not_found(subject.streams.open(Target::Id(&at)), "half made");

    subject.create(&work, &given, &bodies).expect("made");
    let at = subject.live(&work);
    assert_eq!(at.id, given.id);
    let all = subject.all(&at);
    assert_eq!(all[0].line, line(0, &given.body), "the header as it was given");
    assert_eq!(numbers(&all), (0..=3000).collect::<Vec<_>>());
    assert!(all[1..].iter().zip(1..).all(|(seen, seq)| seen.line == line(seq, &bodies[seq as usize - 1])));
    assert_eq!(subject.say(&work, "and on").seq, 3001);
}

/// A header alone is a stream too, which is listed, read, checked and appended to.
pub fn create_of_header_alone_makes_a_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let bare = subject.work();
    subject.create(&bare, &header(&bare), &[]).expect("made");
    assert_eq!(subject.list(Place::Live, Selector::Key(&bare)).len(), 1);
    assert_eq!(numbers(&subject.all(&subject.live(&bare))), [0]);
    if let Some(report) = subject.assert_sound(&subject.live(&bare)) {
        assert_eq!((report.records, report.tail), (0, TailState::Clean));
    }
    assert_eq!(subject.say(&bare, "one").seq, 1);
}

/// The parts of a new stream may be read from the same backend while they are asked for.
pub fn create_accepts_parts_read_meanwhile(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, copy) = (key("work"), key("copy"));
    for n in 1..=10 {
        subject.say(&work, &format!("{n}"));
    }
    let mut reader = subject.open(&subject.at(&work), Seek::Seq(1));
    let mut parts = std::iter::from_fn(|| {
        assert!(subject.list(Place::Live, Selector::Key(&copy)).is_empty(), "nothing is there before all is");
        match reader.next().expect("reading goes on")? {
            LogItem::Entry(entry) => Some(Ok(StreamPart::Record {
                seq: entry.seq,
                body: Body::parse(entry.bytes).expect("a body"),
            })),
            LogItem::Damage(damage) => panic!("nothing was damaged, but {damage:?} was read"),
        }
    });
    let _moving = subject.moving();
    subject.streams.create(&subject.at(&copy), &header(&copy), &mut parts).expect("made");
    assert_eq!(subject.live_texts(&copy), subject.live_texts(&work));
}

/// A live stream is in the way of one to be created, also while it is only being begun.
pub fn create_never_replaces_a_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let unborn = subject.lease(&work, LONG).expect("a lease for a new stream");
    let refused = subject.create(&work, &header(&work), &[turn("made")]);
    assert_in_the_way(refused, Place::Live, "a stream is about to begin");
    drop(unborn);
    subject.say(&work, "one");
    let refused = subject.create(&work, &header(&work), &[turn("made")]);
    assert_in_the_way(refused, Place::Live, "there is a live stream");
    assert_eq!(subject.live_texts(&work), ["one"]);
    if space == Space::Sessions {
        let archived = subject.relocate(&subject.live(&work), Place::Archive);
        subject.create(&work, &header(&work), &[turn("made")]).expect("nothing is in the way now");
        assert_eq!(subject.texts(&archived), ["one"]);
        assert_eq!(subject.live_texts(&work), ["made"]);
    }
}

/// Makes a fork with records of its own.
pub(crate) fn fork_of(
    subject: &Subject,
    parent: &StreamId,
    upto: u64,
    name: &str,
    own: &[&str],
) -> (StreamId, StreamHeader) {
    let fork = key(name);
    let parent = Parent { id: parent.id.clone(), key: parent.key.to_string(), upto };
    let header = header_of_fork(&fork, Some(&parent));
    let bodies: Vec<Body> = own.iter().map(|text| turn(text)).collect();
    subject.create(&fork, &header, &bodies).expect("made");
    (subject.live(&fork), header)
}

/// A stream whose header names a parent holds only what comes after it: its first number is the one after the last
/// that is shared, whether it is created with records, appended to, or written under a lease.
pub fn fork_numbers_continue_those_of_its_parent(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for n in 1..=5 {
        subject.say(&work, &format!("{n}"));
    }
    let parent = subject.live(&work);
    let (first, _) = fork_of(&subject, &parent, 3, "with records", &["four", "five"]);
    assert_eq!(numbers(&subject.all(&first)), [0, 4, 5]);
    assert_eq!(subject.say(&first.key, "six").seq, 6);
    assert_eq!(numbers(&subject.read(&first, Seek::Seq(1), None)), [4, 5, 6], "it holds nothing smaller");
    let (mut reader, missing) = subject.open_counting(&first, tail(5, None));
    assert_eq!((numbers(&rest_of(&mut *reader)), missing), (vec![0, 4, 5, 6], 2));
    subject.assert_sound(&first);

    let (second, _) = fork_of(&subject, &parent, 2, "without", &[]);
    let mut lease = subject.lease(&second.key, LONG).expect("a lease");
    assert_eq!(lease.next_seq(), 3);
    lease.append(&[turn("three")], &how(Durability::Flush, Expect::Seq(3))).expect("taken");
    drop(lease);
    assert_eq!(numbers(&subject.all(&second)), [0, 3]);
    assert_eq!(numbers(&subject.all(&parent)), [0, 1, 2, 3, 4, 5], "the parent is left alone");
}

/// A deleted stream is in no list and cannot be read or deleted again; its key is free, and no other stream is touched.
pub fn deleted_stream_is_gone(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    if let Some(other) = subject.other() {
        subject.say(&other, "stays");
    }
    let places = if space == Space::Sessions { &Place::ALL[..] } else { &[Place::Live] };
    for (place, packing) in places.iter().flat_map(|place| [(*place, false), (*place, true)]) {
        subject.say(&work, "goes");
        let mut at = subject.live(&work);
        if space == Space::Sessions {
            at = subject.relocate(&at, place);
        }
        if packing {
            subject.pack(&at);
        }
        subject.delete(&at).expect("deleted");
        assert_eq!(subject.places_of(&at.id), [], "it is in no list");
        for place in Place::ALL {
            assert!(subject.list(place, Selector::Key(&work)).is_empty());
            assert!(subject.list(place, Selector::Id(&at.id)).is_empty());
        }
        assert_not_found(subject.streams.open(Target::Id(&at)), "deleted");
        assert_not_found(subject.lease_existing(&at, LONG), "deleted");
        assert_not_found(subject.delete(&at), "deleted already");
        assert_eq!(subject.say(&work, "anew").seq, 1, "the key is free");
        subject.delete(&subject.live(&work)).expect("deleted");
    }
    if let Some(other) = subject.other() {
        assert_eq!(subject.live_texts(&other), ["stays"]);
        assert_eq!(subject.counts(), [1, 0, 0]);
    }
}

/// Repairing a stream without damage writes nothing.
pub fn repair_of_sound_stream_writes_nothing(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "one");
    let Some(maintenance) = subject.streams.maintenance() else { return };
    let all = subject.all(&subject.at(&work));
    for _ in 0..2 {
        let repaired = maintenance.repair(&subject.at(&work), TS, LONG).expect("looked at");
        assert_eq!(repaired, Repaired::default());
    }
    let mut lease = subject.lease(&work, LONG).expect("a lease");
    assert_eq!(lease.acknowledge(TS).expect("looked at"), [], "nor is there damage to acknowledge");
    drop(lease);
    assert_eq!(subject.all(&subject.at(&work)), all);
}
