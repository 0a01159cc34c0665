//! Checks of readers: seeking, limits, the last turns, and streams that do not exist.

use manent_log::{Expect, LogEnd, TailState};
use manent_store::{Place, Seek, Selector, Space, StreamId, Target};

use crate::Make;
use crate::subject::{
    LONG, Parent, Subject, TS, assert_not_found, header, header_of_fork, note, numbers, rest_of, tail, turn,
};

/// Seven records, of which 1, 3 and 6 are turns.
fn seven(subject: &Subject) -> StreamId {
    let work = subject.work();
    let bodies = [turn("1"), note("2"), turn("3"), note("4"), note("5"), turn("6"), note("7")];
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    subject.live(&work)
}

/// `First` and `Header` begin with the header, `Seq` with the first record that has at least that number (0
/// is the header); `end_at` gives the last number. Any range is right, also an empty one and one beyond the
/// end.
pub fn seek_and_end_at_bound_what_is_read(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let at = seven(&subject);
    for start in [Seek::First, Seek::Header] {
        assert_eq!(numbers(&subject.read(&at, start, None)), [0, 1, 2, 3, 4, 5, 6, 7], "{start:?}");
        assert_eq!(numbers(&subject.read(&at, start, Some(0))), [0], "{start:?} until 0");
        assert_eq!(numbers(&subject.read(&at, start, Some(3))), [0, 1, 2, 3], "{start:?} until 3");
    }
    for from in 0..=9 {
        for until in (0..=9).map(Some).chain([None, Some(u64::MAX)]) {
            let wanted: Vec<u64> = (from..=until.unwrap_or(7).min(7)).collect();
            let found = numbers(&subject.read(&at, Seek::Seq(from), until));
            assert_eq!(found, wanted, "from {from} until {until:?}");
        }
    }
    let (mut reader, missing) = subject.open_counting(&at, Seek::Seq(u64::MAX));
    assert!(rest_of(&mut *reader).is_empty());
    assert_eq!((missing, reader.end()), (0, LogEnd::Clean));
}

/// `Seek::Last` begins with the turn from which on there are as many as asked for, and gives everything behind it.
/// Records without a role do not count. If there are not that many, it says how many are missing, and begins
/// with the header.
pub fn seek_last_counts_matching_lines(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let at = seven(&subject);
    let last = |count: u64| {
        let (mut reader, missing) = subject.open_counting(&at, tail(count, None));
        (numbers(&rest_of(&mut *reader)), missing)
    };
    assert_eq!(last(0), (vec![], 0));
    assert_eq!(last(1), (vec![6, 7], 0));
    assert_eq!(last(2), (vec![3, 4, 5, 6, 7], 0));
    assert_eq!(last(3), (vec![1, 2, 3, 4, 5, 6, 7], 0));
    assert_eq!(last(4), (vec![0, 1, 2, 3, 4, 5, 6, 7], 1));
    assert_eq!(last(u64::MAX), (vec![0, 1, 2, 3, 4, 5, 6, 7], u64::MAX - 3));
    let every = Seek::Last { count: 3, before: None, matches: &|_| true };
    assert_eq!(numbers(&subject.read(&at, every, None)), [5, 6, 7], "a predicate that takes every line");
    let none = Seek::Last { count: 1, before: None, matches: &|_| false };
    assert_eq!(subject.open_counting(&at, none).1, 1, "a predicate that takes none");

    subject.delete(&at).expect("deleted");
    subject.create(&at.key, &header(&at.key), &[]).expect("made");
    let (mut reader, missing) = subject.open_counting(&subject.at(&at.key), tail(2, None));
    assert_eq!((numbers(&rest_of(&mut *reader)), missing), (vec![0], 2), "of a header alone");
}

/// With `before`, only lines with a smaller number count; what stands behind is given all the same, up to the number of
/// `end_at`.
pub fn seek_last_before_a_number_ignores_later_lines(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let at = seven(&subject);
    let last = |count: u64, before: u64, until: Option<u64>| {
        let (mut reader, missing) = subject.open_counting(&at, tail(count, Some(before)));
        reader.end_at(until.unwrap_or(u64::MAX));
        (numbers(&rest_of(&mut *reader)), missing)
    };
    assert_eq!(last(1, 7, None), (vec![6, 7], 0));
    assert_eq!(last(1, 6, None), (vec![3, 4, 5, 6, 7], 0), "6 itself does not count");
    assert_eq!(last(1, 6, Some(5)), (vec![3, 4, 5], 0));
    assert_eq!(last(2, 6, Some(5)), (vec![1, 2, 3, 4, 5], 0));
    assert_eq!(last(3, 6, Some(5)), (vec![0, 1, 2, 3, 4, 5], 1));
    assert_eq!(last(0, 3, None), (vec![3, 4, 5, 6, 7], 0));
    assert_eq!(last(1, 1, None), (vec![0, 1, 2, 3, 4, 5, 6, 7], 1), "no turn before the first");
    assert_eq!(last(1, 0, Some(0)), (vec![0], 1));
    assert_eq!(last(1, 8, None), (vec![6, 7], 0));
    assert_eq!(last(2, u64::MAX, None), (vec![3, 4, 5, 6, 7], 0), "a number beyond the end");
}

/// A stream that does not exist is not found, whatever is asked of it; and asking makes none.
pub fn missing_stream_is_not_found(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let streams = &*subject.streams;
    let nowhere = subject.other().unwrap_or_else(|| subject.work());
    assert!(!streams.name().is_empty(), "a backend has a name for messages");
    let ask = |what: &str| {
        for place in Place::ALL {
            for id in ["", "01a1e14d-2382-722e-bd10-b9f468ff6bed"] {
                let at = StreamId { space, place, key: nowhere.clone(), id: id.to_owned() };
                let what = format!("{what}, {at:?}");
                assert_not_found(streams.open(Target::Id(&at)), &what);
                assert_not_found(streams.open(Target::Name { space, place, name: "nothing.jsonl" }), &what);
                assert_not_found(subject.lease_existing(&at, LONG), &what);
                assert_not_found(streams.sync(&at), &what);
                if let Some(maintenance) = streams.maintenance() {
                    assert_not_found(maintenance.verify(&at, &mut |_, _| {}), &what);
                    assert_not_found(maintenance.pack(&at, &mut |_, _| {}), &what);
                }
                let _moving = subject.moving();
                assert_not_found(streams.delete(&at, LONG), &what);
                if space == Space::Sessions {
                    for to in Place::ALL {
                        assert_not_found(streams.relocate(&at, to, LONG), &what);
                    }
                }
            }
            assert!(subject.list(place, Selector::Key(&nowhere)).is_empty());
            assert!(subject.list(place, Selector::Name("nothing.jsonl")).is_empty());
        }
        if let Some(maintenance) = streams.maintenance() {
            assert_not_found(maintenance.repair(&subject.at(&nowhere), TS, LONG), what);
        }
        assert!(
            streams.is_trustworthy(&subject.at(&nowhere)).expect("looked at"),
            "nobody else wrote what is not there"
        );
    };
    ask("in an empty store");
    if subject.other().is_some() {
        subject.say(&subject.work(), "one");
        ask("beside another stream");
        assert_eq!(subject.counts(), [1, 0, 0]);
    }
}

/// The header of a stream is known however it is read: id, key, and what it was forked from.
pub fn reader_knows_the_header_after_every_seek(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let at = seven(&subject);
    let last = |count| tail(count, None);
    let starts = [Seek::Header, Seek::First, Seek::Seq(5), Seek::Seq(100), last(0), last(1), last(100)];
    let check = |at: &StreamId, first_seq: u64| {
        for start in starts {
            let reader = subject.open(at, start);
            let (names, first) = Subject::names(&*reader);
            assert_eq!(
                (names.id.as_str(), names.key.as_str()),
                (at.id.as_str(), at.key.as_str()),
                "{start:?}"
            );
            assert_eq!((reader.id(), first), (at.id.as_str(), first_seq), "{start:?}");
            assert!(reader.is_native().expect("looked at"), "all of it is ours");
        }
    };
    check(&at, 1);
    let parent = Parent { id: at.id.clone(), key: at.key.to_string(), upto: 7 };
    subject.delete(&at).expect("deleted");
    subject.create(&at.key, &header_of_fork(&at.key, Some(&parent)), &[turn("8")]).expect("made");
    check(&subject.live(&at.key), 8);
}

/// Each reader has its own place in a stream.
pub fn readers_are_independent(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let at = seven(&subject);
    let mut first = subject.open(&at, Seek::First);
    let mut second = subject.open(&at, Seek::Seq(3));
    for wanted in 0..3 {
        assert!(first.advance().expect("reads on"));
        assert!(second.advance().expect("reads on"));
        let seq = |item| match item {
            Some(manent_log::LogItem::Entry(entry)) => entry.seq,
            other => panic!("wanted a record, found {other:?}"),
        };
        assert_eq!((seq(first.item()), seq(second.item())), (wanted, wanted + 3));
        assert_eq!(seq(first.item()), wanted, "looking twice is no going on");
    }
    assert_eq!(numbers(&rest_of(&mut *first)), [3, 4, 5, 6, 7]);
    assert_eq!(numbers(&rest_of(&mut *second)), [6, 7]);
}

/// A full check counts every record behind the header and finds nothing wrong, wherever the stream is.
pub fn verify_of_sound_stream_counts_its_records(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let mut at = seven(&subject);
    let Some(maintenance) = subject.streams.maintenance() else { return };
    for place in [Place::Live, Place::Archive, Place::Trash] {
        if space == Space::Sessions {
            at = subject.relocate(&at, place);
        }
        let (mut last, mut called) = (0, false);
        let report = maintenance.verify(&at, &mut |done, all| {
            assert!(done >= last && done <= all, "progress goes from 0 to all: {done} of {all} after {last}");
            (last, called) = (done, true);
        });
        let report = report.expect("checked");
        assert!(report.is_sound() && report.damage.is_empty(), "{report:?}");
        assert_eq!((report.records, report.unverified, report.tail), (7, 0, TailState::Clean), "{place:?}");
        assert!(called, "progress is told at least once");
    }
}
