//! Checks of readers that follow a stream as it grows, is moved, or is removed.

use manent_log::{Expect, FileChange, LogEnd};

use manent_store::{Place, Seek, Space, StreamId};

use crate::Make;
use crate::subject::{Subject, key, numbers, rest_of, tail, turn};

/// A reader that found the end goes on when there is more, from wherever it began, as often as that happens.
pub fn reader_at_the_end_reads_later_records(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.append(&work, &[turn("1"), turn("2"), turn("3")], Expect::Any).expect("taken");
    let last = |count| tail(count, None);
    let starts = [Seek::First, Seek::Header, Seek::Seq(2), Seek::Seq(4), last(0), last(1), last(9)];
    let mut readers: Vec<_> = starts.iter().map(|start| subject.open(&subject.at(&work), *start)).collect();
    for reader in &mut readers {
        rest_of(&mut **reader);
        assert!(!reader.advance().expect("asked again"), "the end may be asked for twice");
        assert_eq!(reader.end(), LogEnd::Clean);
    }
    for seq in 4..8 {
        assert_eq!(subject.say(&work, "more").seq, seq);
        for (reader, start) in readers.iter_mut().zip(starts) {
            assert_eq!(numbers(&rest_of(&mut **reader)), [seq], "begun at {start:?}");
        }
    }
    // A record beyond the last one asked for stays out of sight however long one waits.
    let mut bounded = subject.open(&subject.at(&work), Seek::First);
    bounded.end_at(8);
    assert_eq!(rest_of(&mut *bounded).len(), 8);
    subject.append(&work, &[turn("8"), turn("9")], Expect::Any).expect("taken");
    assert_eq!(numbers(&rest_of(&mut *bounded)), [8]);
    assert!(rest_of(&mut *bounded).is_empty());
    bounded.seek(Seek::Seq(9)).expect("moved");
    assert_eq!(numbers(&rest_of(&mut *bounded)), [9], "seeking ends the limit");
}

/// At its end a reader can ask whether there is more: `Grew` if there is, `None` if not, and again `None`
/// when it has read that too.
pub fn poll_tells_growth_from_rest(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "1");
    let at = subject.live(&work);
    for start in [Seek::First, Seek::Seq(1), tail(1, None)] {
        let mut reader = subject.open(&at, start);
        rest_of(&mut *reader);
        for _ in 0..3 {
            assert_eq!(Subject::poll(&*reader), FileChange::None, "nothing was written");
            if let Some(other) = subject.other() {
                subject.say(&other, "of no concern");
            }
            assert_eq!(Subject::poll(&*reader), FileChange::None, "nothing was written to this stream");
            subject.say(&work, "more");
            assert_eq!(Subject::poll(&*reader), FileChange::Grew);
            assert_eq!(Subject::poll(&*reader), FileChange::Grew, "asking is not reading");
            assert_eq!(rest_of(&mut *reader).len(), 1);
        }
        assert_eq!(Subject::poll(&*reader), FileChange::None);
    }
}

/// A reader of a stream that was moved or removed is told so, also when another stream of the key has begun.
pub fn poll_after_move_or_delete_is_replaced(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let places =
        if space == Space::Sessions { vec![Some(Place::Archive), Some(Place::Trash)] } else { vec![] };
    for to in places.into_iter().chain([None]) {
        subject.say(&work, "1");
        let at = subject.live(&work);
        let mut reader = subject.open(&at, Seek::First);
        let mut by_key = subject.open(&subject.at(&work), Seek::First);
        for reader in [&mut reader, &mut by_key] {
            rest_of(&mut **reader);
            assert_eq!(Subject::poll(&**reader), FileChange::None);
        }
        match to {
            Some(to) => drop(subject.relocate(&at, to)),
            None => subject.delete(&at).expect("deleted"),
        }
        for reader in [&reader, &by_key] {
            assert_eq!(Subject::poll(&**reader), FileChange::Replaced, "after going to {to:?}");
        }
        subject.say(&work, "another stream");
        for reader in [&mut reader, &mut by_key] {
            assert_eq!(Subject::poll(&**reader), FileChange::Replaced, "with another stream of the key");
            assert!(rest_of(&mut **reader).is_empty(), "whose records are not this one's");
        }
        subject.delete(&subject.at(&work)).expect("deleted");
    }
}

/// A stream that grew and was moved then has grown first: what can still be read is read before a reader
/// hears that it is gone.
pub fn poll_tells_growth_before_a_move(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "1");
    let mut reader = subject.open(&subject.at(&work), Seek::First);
    rest_of(&mut *reader);
    subject.say(&work, "2");
    let archived = subject.relocate(&subject.live(&work), Place::Archive);
    subject.pack(&archived);
    assert_eq!(Subject::poll(&*reader), FileChange::Grew, "there is a record to be read");
    assert_eq!(numbers(&rest_of(&mut *reader)), [2]);
    assert_eq!(Subject::poll(&*reader), FileChange::Replaced);
}

/// `Seq` with a number that is not there yet gives nothing smaller, however the stream grows.
pub fn seek_to_later_number_skips_smaller_ones(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "1");
    let mut reader = subject.open(&subject.at(&work), Seek::Seq(4));
    for seq in 2..6 {
        assert!(rest_of(&mut *reader).is_empty(), "record 4 is not there yet");
        assert_eq!(subject.say(&work, "more").seq, seq);
        if seq >= 4 {
            assert_eq!(numbers(&rest_of(&mut *reader)), [seq]);
        }
    }
}

/// Whoever reads a stream while it is moved, packed or removed reads it to its end as it was.
pub fn reader_outlives_moves_and_removal(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (0..400).map(|n| turn(&format!("{n} {}", "x".repeat(4096)))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let live = subject.live(&work);
    let all = subject.all(&live);
    let half_way = |at: &StreamId| {
        let mut reader = subject.open(at, Seek::First);
        for _ in 0..200 {
            assert!(reader.advance().expect("reads on"));
        }
        reader
    };
    let mut readers = vec![half_way(&live)];
    let archived = subject.relocate(&live, Place::Archive);
    readers.push(half_way(&archived));
    subject.pack(&archived);
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
