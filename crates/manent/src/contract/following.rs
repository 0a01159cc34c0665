//! Reading on: as a stream grows, moves, or goes.

use manent_log::{Change, End, Expect};

use super::Make;
use super::subject::{Subject, key, numbers, rest_of, said};
use crate::backend::{Address, Place, Start};

/// A reader that found the end goes on when there is more, from wherever it began, as often as that happens.
pub fn a_reader_at_its_end_sees_what_comes_later(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.append(&work, &[said("1"), said("2"), said("3")], Expect::Any).expect("taken");
    let tail = |count| Start::Tail { count, before: None };
    let starts = [Start::First, Start::Header, Start::Seq(2), Start::Seq(4), tail(0), tail(1), tail(9)];
    let mut readers: Vec<_> =
        starts.iter().map(|start| subject.open(&Address::live(&work), *start)).collect();
    for reader in &mut readers {
        rest_of(&mut **reader);
        assert!(!reader.advance().expect("asked again"), "the end may be asked for twice");
        assert_eq!(reader.end(), End::Clean);
    }
    for seq in 4..8 {
        assert_eq!(subject.say(&work, "more").seq, seq);
        for (reader, start) in readers.iter_mut().zip(starts) {
            assert_eq!(numbers(&rest_of(&mut **reader)), [seq], "begun at {start:?}");
        }
    }
    // A record beyond the last one asked for stays out of sight however long one waits.
    let mut bounded = subject.backend.read(&Address::live(&work), Start::First, Some(8)).expect("read");
    assert_eq!(rest_of(&mut *bounded).len(), 8);
    subject.append(&work, &[said("8"), said("9")], Expect::Any).expect("taken");
    assert_eq!(numbers(&rest_of(&mut *bounded)), [8]);
    assert!(rest_of(&mut *bounded).is_empty());
}

/// At its end a reader can ask whether there is more: `Grew` if there is, `None` if not, and again `None`
/// when it has read that too.
pub fn change_tells_growth_from_rest(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "1");
    let at = subject.live(&work);
    for start in [Start::First, Start::Seq(1), Start::Tail { count: 1, before: None }] {
        let mut reader = subject.open(&at, start);
        rest_of(&mut *reader);
        for _ in 0..3 {
            assert_eq!(Subject::change(&*reader), Change::None, "nothing was written");
            subject.say(&key("other"), "of no concern");
            assert_eq!(Subject::change(&*reader), Change::None, "nothing was written to this stream");
            subject.say(&work, "more");
            assert_eq!(Subject::change(&*reader), Change::Grew);
            assert_eq!(Subject::change(&*reader), Change::Grew, "asking is not reading");
            assert_eq!(rest_of(&mut *reader).len(), 1);
        }
        assert_eq!(Subject::change(&*reader), Change::None);
    }
}

/// A reader of a stream that was moved or removed is told so, also when another stream of the key has begun.
pub fn change_tells_that_a_stream_is_elsewhere_or_gone(make: Make<'_>) {
    let subject = Subject::new(make);
    for to in [Some(Place::Archive), Some(Place::Trash), None] {
        let work = key(&format!("work {to:?}"));
        subject.say(&work, "1");
        let at = subject.live(&work);
        let mut reader = subject.open(&at, Start::First);
        let mut by_key = subject.open(&Address::live(&work), Start::First);
        for reader in [&mut reader, &mut by_key] {
            rest_of(&mut **reader);
            assert_eq!(Subject::change(&**reader), Change::None);
        }
        match to {
            Some(to) => drop(subject.relocate(&at, to)),
            None => subject.delete(&at).expect("deleted"),
        }
        for reader in [&reader, &by_key] {
            assert_eq!(Subject::change(&**reader), Change::Replaced, "after going to {to:?}");
        }
        subject.say(&work, "another stream");
        for reader in [&mut reader, &mut by_key] {
            assert_eq!(Subject::change(&**reader), Change::Replaced, "with another stream of the key");
            assert!(rest_of(&mut **reader).is_empty(), "whose records are not this one's");
        }
    }
}

/// A stream that grew and was moved then has grown first: what can still be read is read before a reader
/// hears that it is gone.
pub fn what_was_written_before_a_move_is_not_missed(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "1");
    let mut reader = subject.open(&Address::live(&work), Start::First);
    rest_of(&mut *reader);
    subject.say(&work, "2");
    let archived = subject.relocate(&subject.live(&work), Place::Archive);
    subject.backend.condense(&archived, &mut |_, _| {}).expect("condensed");
    assert_eq!(Subject::change(&*reader), Change::Grew, "there is a record to be read");
    assert_eq!(numbers(&rest_of(&mut *reader)), [2]);
    assert_eq!(Subject::change(&*reader), Change::Replaced);
}

/// `Seq` with a number that is not there yet gives nothing smaller, however the stream grows.
pub fn a_number_that_is_not_there_yet_is_waited_for(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "1");
    let mut reader = subject.open(&Address::live(&work), Start::Seq(4));
    for seq in 2..6 {
        assert!(rest_of(&mut *reader).is_empty(), "record 4 is not there yet");
        assert_eq!(subject.say(&work, "more").seq, seq);
        if seq >= 4 {
            assert_eq!(numbers(&rest_of(&mut *reader)), [seq]);
        }
    }
}

/// Whoever reads a stream while it is moved, condensed or removed reads it to its end as it was.
pub fn a_reader_outlives_moves_and_removal(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (0..400).map(|n| said(&format!("{n} {}", "x".repeat(4096)))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let live = subject.live(&work);
    let all = subject.all(&live);
    let half_way = |at: &Address| {
        let mut reader = subject.open(at, Start::First);
        for _ in 0..200 {
            assert!(reader.advance().expect("reads on"));
        }
        reader
    };
    let mut readers = vec![half_way(&live)];
    let archived = subject.relocate(&live, Place::Archive);
    readers.push(half_way(&archived));
    subject.backend.condense(&archived, &mut |_, _| {}).expect("condensed");
    readers.push(half_way(&archived));
    let trashed = subject.relocate(&archived, Place::Trash);
    readers.push(half_way(&trashed));
    let live = subject.relocate(&trashed, Place::Live);
    readers.push(half_way(&live));
    subject.delete(&live).expect("deleted");
    subject.say(&work, "another stream of the key");
    for (at, reader) in readers.iter_mut().enumerate() {
        assert!(rest_of(&mut **reader) == all[200..], "reader {at} reads what it began to read");
    }
}
