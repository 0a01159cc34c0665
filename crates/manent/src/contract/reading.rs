//! Reading: from where, to where, the last turns; and what is not there.

use manent_log::{End, Expect, TailState};

use super::Make;
use super::subject::{
    LONG, Subject, assert_not_found, header, header_of_fork, key, note, numbers, rest_of, said,
};
use crate::backend::{Address, Backend, Place, Start, Which};
use crate::meta::Parent;

/// Seven records, of which 1, 3 and 6 are turns.
fn seven(subject: &Subject) -> Address {
    let work = key("work");
    let bodies = [said("1"), note("2"), said("3"), note("4"), note("5"), said("6"), note("7")];
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    subject.live(&work)
}

/// `First` and `Header` begin with the header, `Seq` with the first record that has at least that number (0
/// is the header); `until` is the last number given. Any range is right, also an empty one and one beyond the
/// end.
pub fn reading_begins_and_ends_where_it_is_told(make: Make<'_>) {
    let subject = Subject::new(make);
    let at = seven(&subject);
    for start in [Start::First, Start::Header] {
        assert_eq!(numbers(&subject.read(&at, start, None)), [0, 1, 2, 3, 4, 5, 6, 7], "{start:?}");
        assert_eq!(numbers(&subject.read(&at, start, Some(0))), [0], "{start:?} until 0");
        assert_eq!(numbers(&subject.read(&at, start, Some(3))), [0, 1, 2, 3], "{start:?} until 3");
    }
    for from in 0..=9 {
        for until in (0..=9).map(Some).chain([None, Some(u64::MAX)]) {
            let wanted: Vec<u64> = (from..=until.unwrap_or(7).min(7)).collect();
            let found = numbers(&subject.read(&at, Start::Seq(from), until));
            assert_eq!(found, wanted, "from {from} until {until:?}");
        }
    }
    let mut records = subject.open(&at, Start::Seq(u64::MAX));
    assert!(rest_of(&mut *records).is_empty());
    assert_eq!((records.missing(), records.end()), (0, End::Clean));
}

/// `Tail` begins with the turn from which on there are as many as asked for, and gives everything behind it.
/// Records without a role do not count. If there are not that many, it says how many are missing, and begins
/// with the header.
pub fn a_tail_counts_turns_and_gives_all_that_stands_behind(make: Make<'_>) {
    let subject = Subject::new(make);
    let at = seven(&subject);
    let tail = |count: u64| {
        let mut records = subject.open(&at, Start::Tail { count, before: None });
        (numbers(&rest_of(&mut *records)), records.missing())
    };
    assert_eq!(tail(0), (vec![], 0));
    assert_eq!(tail(1), (vec![6, 7], 0));
    assert_eq!(tail(2), (vec![3, 4, 5, 6, 7], 0));
    assert_eq!(tail(3), (vec![1, 2, 3, 4, 5, 6, 7], 0));
    assert_eq!(tail(4), (vec![0, 1, 2, 3, 4, 5, 6, 7], 1));
    assert_eq!(tail(u64::MAX), (vec![0, 1, 2, 3, 4, 5, 6, 7], u64::MAX - 3));

    let bare = key("header only");
    subject.create(&bare, &header(&bare), &[]).expect("made");
    let mut records = subject.open(&Address::live(&bare), Start::Tail { count: 2, before: None });
    assert_eq!((numbers(&rest_of(&mut *records)), records.missing()), (vec![0], 2));
}

/// With `before`, only turns with a smaller number count; what stands behind is given all the same, up to
/// `until`.
pub fn a_tail_can_count_from_before_a_number(make: Make<'_>) {
    let subject = Subject::new(make);
    let at = seven(&subject);
    let tail = |count: u64, before: u64, until: Option<u64>| {
        let start = Start::Tail { count, before: Some(before) };
        let mut records = subject.backend.read(&at, start, until).expect("read");
        (numbers(&rest_of(&mut *records)), records.missing())
    };
    assert_eq!(tail(1, 7, None), (vec![6, 7], 0));
    assert_eq!(tail(1, 6, None), (vec![3, 4, 5, 6, 7], 0), "6 itself does not count");
    assert_eq!(tail(1, 6, Some(5)), (vec![3, 4, 5], 0));
    assert_eq!(tail(2, 6, Some(5)), (vec![1, 2, 3, 4, 5], 0));
    assert_eq!(tail(3, 6, Some(5)), (vec![0, 1, 2, 3, 4, 5], 1));
    assert_eq!(tail(0, 3, None), (vec![3, 4, 5, 6, 7], 0));
    assert_eq!(tail(1, 1, None), (vec![0, 1, 2, 3, 4, 5, 6, 7], 1), "no turn before the first");
    assert_eq!(tail(1, 0, Some(0)), (vec![0], 1));
    assert_eq!(tail(1, 8, None), (vec![6, 7], 0));
    assert_eq!(tail(2, u64::MAX, None), (vec![3, 4, 5, 6, 7], 0), "a number beyond the end");
}

/// A stream that does not exist is not found, whatever is asked of it; and asking makes none.
pub fn what_is_not_there_is_not_found(make: Make<'_>) {
    let subject = Subject::new(make);
    let backend: &dyn Backend = &*subject.backend;
    assert!(!backend.name().is_empty(), "a backend has a name for messages");
    let ask = |what: &str| {
        for place in Place::ALL {
            for id in ["", "01a1e14d-2382-722e-bd10-b9f468ff6bed"] {
                let at = Address { place, key: key("nowhere"), id: id.to_owned() };
                let what = format!("{what}, {at:?}");
                for start in
                    [Start::Header, Start::First, Start::Seq(1), Start::Tail { count: 1, before: None }]
                {
                    assert_not_found(backend.read(&at, start, None), &what);
                }
                assert_not_found(backend.verify(&at, &mut |_, _| {}), &what);
                assert_not_found(backend.settle(&at), &what);
                assert_not_found(backend.condense(&at, &mut |_, _| {}), &what);
                let _moving = subject.moving();
                assert_not_found(backend.delete(&at, LONG), &what);
                for to in Place::ALL {
                    assert_not_found(backend.relocate(&at, to, LONG), &what);
                }
            }
            assert!(subject.list(place, Which::Key(&key("nowhere"))).is_empty());
        }
        assert_not_found(backend.lease(&key("nowhere"), None, LONG), what);
        assert_not_found(backend.repair(&key("nowhere"), "2026-01-02T03:04:05.678Z", LONG), what);
    };
    ask("in an empty store");
    subject.say(&key("somewhere"), "one");
    ask("beside another stream");
    assert_eq!(Place::ALL.map(|place| subject.list(place, Which::All).len()), [1, 0, 0]);
}

/// The header of a stream is known however it is read: id, key, and what it was forked from.
pub fn a_reader_knows_the_header_wherever_it_begins(make: Make<'_>) {
    let subject = Subject::new(make);
    let at = seven(&subject);
    let parent = Parent { id: at.id.clone(), key: at.key.to_string(), upto: 7, crc: "00000000".into() };
    let fork = key("fork");
    subject.create(&fork, &header_of_fork(&fork, Some(&parent)), &[said("8")]).expect("made");
    let tail = |count| Start::Tail { count, before: None };
    for start in [Start::Header, Start::First, Start::Seq(5), Start::Seq(100), tail(0), tail(1), tail(100)] {
        let meta = subject.open(&at, start).meta().cloned().expect("a header");
        assert_eq!((meta.id.as_str(), meta.key.as_str()), (at.id.as_str(), "work"), "{start:?}");
        assert_eq!(meta.parent, None, "{start:?}");
        let fork = subject.open(&Address::live(&fork), start);
        assert_eq!(fork.meta().and_then(|meta| meta.parent.clone()), Some(parent.clone()), "{start:?}");
    }
}

/// Each reader has its own place in a stream.
pub fn readers_do_not_disturb_each_other(make: Make<'_>) {
    let subject = Subject::new(make);
    let at = seven(&subject);
    let mut first = subject.open(&at, Start::First);
    let mut second = subject.open(&at, Start::Seq(3));
    for wanted in 0..3 {
        assert!(first.advance().expect("reads on"));
        assert!(second.advance().expect("reads on"));
        let seq = |item| match item {
            Some(manent_log::Item::Entry(entry)) => entry.seq,
            other => panic!("wanted a record, found {other:?}"),
        };
        assert_eq!((seq(first.item()), seq(second.item())), (wanted, wanted + 3));
        assert_eq!(seq(first.item()), wanted, "looking twice is no going on");
    }
    assert_eq!(numbers(&rest_of(&mut *first)), [3, 4, 5, 6, 7]);
    assert_eq!(numbers(&rest_of(&mut *second)), [6, 7]);
}

/// A full check counts every record behind the header and finds nothing wrong, wherever the stream is.
pub fn a_whole_stream_verifies(make: Make<'_>) {
    let subject = Subject::new(make);
    let mut at = seven(&subject);
    for place in [Place::Live, Place::Archive, Place::Trash] {
        at = subject.relocate(&at, place);
        let (mut last, mut called) = (0, false);
        let report = subject.backend.verify(&at, &mut |done, all| {
            assert!(done >= last && done <= all, "progress goes from 0 to all: {done} of {all} after {last}");
            (last, called) = (done, true);
        });
        let report = report.expect("checked");
        assert!(report.is_sound() && report.damage.is_empty(), "{report:?}");
        assert_eq!((report.records, report.unverified, report.tail), (7, 0, TailState::Clean), "{place:?}");
        assert!(called, "progress is told at least once");
    }
}
