//! Live, archived, in the trash, and back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manent_log::{Durability, Expect};

use super::Make;
use super::subject::{
    LONG, Subject, assert_held, assert_in_the_way, assert_not_found, header, key, let_others_run, said,
};
use crate::backend::{Address, Place, Start, Which};

/// A stream can go from every place to every other, keeps its key, its id and every byte on the way, is in
/// one list at any time, and can be written again when it is live again.
pub fn a_stream_goes_through_all_places_unchanged(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (0..50).map(|n| said(&format!("{n} {}", "x".repeat(n * 100)))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let live = subject.live(&work);
    let mut all = subject.all(&live);
    let (live_, archive, trash) = (Place::Live, Place::Archive, Place::Trash);
    let tour =
        [archive, trash, archive, live_, trash, live_, archive, trash, live_, live_, archive, archive, live_];
    for condensing in [false, true] {
        let mut at = live.clone();
        for to in tour {
            let moved = subject.relocate(&at, to);
            assert_eq!((moved.place, &moved.key, &moved.id), (to, &work, &live.id), "from {at:?}");
            if condensing {
                subject.backend.condense(&moved, &mut |_, _| {}).expect("condensed");
            }
            assert_eq!(subject.places_of(&live.id), [to], "it is in one place");
            assert!(subject.all(&moved) == all, "from {:?} to {to:?} nothing changes", at.place);
            if to != at.place {
                assert_not_found(subject.backend.read(&at, Start::First, None), "where it was before");
                assert_not_found(subject.try_relocate(&at, to), "moving it again from where it was");
            }
            at = moved;
        }
        let next = all.len() as u64;
        assert_eq!(subject.say(&work, "and on").seq, next, "live again, it goes on");
        all = subject.all(&live);
    }
}

/// A live stream is in the way of another that would become live, also while it is only being begun; both
/// stay what and where they were.
pub fn nothing_is_replaced_by_a_move(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "old");
    let archived = subject.relocate(&subject.live(&work), Place::Archive);
    subject.say(&work, "older");
    let trashed = subject.relocate(&subject.live(&work), Place::Trash);
    let unborn = subject.lease(&work, LONG).expect("a lease for a new stream");
    for at in [&archived, &trashed] {
        assert_in_the_way(subject.try_relocate(at, Place::Live), Place::Live, "a stream is about to begin");
    }
    drop(unborn);
    subject.say(&work, "new");
    for at in [&archived, &trashed] {
        assert_in_the_way(subject.try_relocate(at, Place::Live), Place::Live, "there is a live stream");
    }
    assert_eq!(subject.texts(&archived), ["old"]);
    assert_eq!(subject.texts(&trashed), ["older"]);
    assert_eq!(subject.texts(&subject.live(&work)), ["new"]);
    assert_eq!(Place::ALL.map(|place| subject.list(place, Which::All).len()), [1, 1, 1]);
}

/// The next record of a key whose stream was put away begins a new one, and any number of them can be put
/// away; each can be read and brought back.
pub fn a_key_has_any_number_of_archived_streams(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for place in [Place::Archive, Place::Trash] {
        let mut put_away = Vec::new();
        for n in 0..4 {
            assert_eq!(subject.say(&work, &format!("{place:?} {n}")).seq, 1, "a new stream");
            put_away.push(subject.relocate(&subject.live(&work), place));
        }
        assert_eq!(subject.list(place, Which::Key(&work)).len(), 4);
        for (n, at) in put_away.iter().enumerate() {
            assert_eq!(subject.texts(at), [format!("{place:?} {n}")]);
            let live = subject.relocate(at, Place::Live);
            assert_eq!((subject.live(&work), live.id.as_str()), (live.clone(), at.id.as_str()));
            subject.say(&work, "and on");
            assert_eq!(subject.texts(&subject.relocate(&live, place)).len(), 2);
        }
    }
    assert_eq!(Place::ALL.map(|place| subject.list(place, Which::All).len()), [0, 4, 4]);
}

/// In the trash it is known where a stream was before: live, or archived and condensed.
pub fn the_trash_knows_where_a_stream_was(make: Make<'_>) {
    let subject = Subject::new(make);
    for (name, from) in [("live", Place::Live), ("archived", Place::Archive)] {
        subject.say(&key(name), "one");
        let mut at = subject.live(&key(name));
        for _ in 0..2 {
            at = subject.relocate(&at, from);
            subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
            at = subject.relocate(&at, Place::Trash);
            let listed = subject.list(Place::Trash, Which::Id(&at.id)).remove(0);
            assert_eq!((&listed.address, listed.from), (&at, from));
        }
        assert_eq!(subject.texts(&subject.relocate(&at, from)), ["one"]);
    }
}

/// A stream that is being written moves when its writer is done, or not at all if that takes too long. Under
/// the lease everything goes on as before.
pub fn a_move_waits_for_the_writer(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for to in [Some(Place::Archive), Some(Place::Trash), None] {
        subject.say(&work, "one");
        let at = subject.live(&work);
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        let go = |wait: Duration| {
            let _moving = subject.moving();
            match to {
                Some(to) => subject.backend.relocate(&at, to, wait).map(Some),
                None => subject.backend.delete(&at, wait).map(|()| None),
            }
        };
        assert_held(go(Duration::ZERO), "moving what is being written");
        let done = AtomicBool::new(false);
        let moved = thread::scope(|scope| {
            let moved = scope.spawn(|| {
                let moved = go(LONG).expect("moved, after a wait");
                assert!(done.load(Ordering::SeqCst), "moved while it was being written");
                moved
            });
            let_others_run();
            lease.append(&[said("two")], Durability::Flush, Expect::Seq(2)).expect("taken");
            done.store(true, Ordering::SeqCst);
            drop(lease);
            moved.join().expect("no panic")
        });
        if let Some(moved) = moved {
            assert_eq!(subject.texts(&moved), ["one", "two"]);
        }
        assert!(subject.list(Place::Live, Which::All).is_empty());
    }
}

/// An address with an id means that stream. When it is elsewhere now, another stream of the same key in its
/// place is not read, moved or deleted for it.
pub fn an_address_means_one_stream_and_no_other(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "first");
    let old = subject.live(&work);
    subject.relocate(&old, Place::Archive);
    subject.say(&work, "second");
    let of_other_key = Address { key: key("other"), ..subject.live(&work) };
    for at in [&old, &of_other_key, &Address { place: Place::Trash, ..old.clone() }] {
        assert_not_found(subject.backend.read(at, Start::First, None), "reading what is elsewhere");
        assert_not_found(subject.backend.verify(at, &mut |_, _| {}), "checking what is elsewhere");
        assert_not_found(subject.backend.settle(at), "settling what is elsewhere");
        assert_not_found(subject.try_relocate(at, Place::Trash), "moving what is elsewhere");
        assert_not_found(subject.delete(at), "deleting what is elsewhere");
    }
    assert_eq!(subject.texts(&subject.live(&work)), ["second"]);
    assert_eq!(Place::ALL.map(|place| subject.list(place, Which::All).len()), [1, 1, 0]);
}

/// Without an id, an address means the live stream of its key, whichever that is; where it goes it is known
/// by its id.
pub fn a_live_stream_can_be_named_by_its_key_alone(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for place in [Place::Archive, Place::Trash] {
        subject.say(&work, "one");
        let live = subject.live(&work);
        let by_key = Address::live(&work);
        assert_eq!(subject.all(&by_key), subject.all(&live));
        subject.backend.settle(&by_key).expect("settled");
        let moved = subject.relocate(&by_key, place);
        assert_eq!(moved, Address { place, ..live }, "with the id that its header gives");
        assert_eq!(subject.texts(&moved), ["one"]);
    }
    subject.say(&work, "one");
    subject.delete(&Address::live(&work)).expect("deleted");
    assert_not_found(subject.delete(&Address::live(&work)), "there is none now");
}

/// The right to move streams is held by one; whoever comes second waits, and gets it when the first is done.
/// Nobody needs it to write or to read.
pub fn only_one_may_move_streams(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let first = subject.moving();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let _second = subject.moving();
                assert!(done.load(Ordering::SeqCst), "two had the right to move streams");
            });
        }
        let_others_run();
        assert_eq!(subject.say(&work, "one").seq, 1, "writing needs no such right");
        assert_eq!(subject.texts(&Address::live(&work)), ["one"]);
        drop(subject.lease(&work, LONG).expect("a lease"));
        done.store(true, Ordering::SeqCst);
        drop(first);
    });
    drop(subject.moving());
}

/// Whoever has the right to move streams sees each exactly once, whatever others did before and will do
/// after.
pub fn a_stream_is_in_one_place_at_any_time(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "one");
    let live = subject.live(&work);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let _moving = subject.moving();
                assert_eq!(subject.places_of(&live.id).len(), 1);
            }
        });
        let mut at = live.clone();
        for to in [Place::Archive, Place::Trash, Place::Live].repeat(5) {
            at = subject.relocate(&at, to);
            if to == Place::Archive {
                subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
            }
            thread::yield_now();
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(subject.texts(&live), ["one"]);
}

/// Settling and condensing can be asked for of any stream in any place, again and again, also while it is
/// written, and change nothing that is read. Neither needs the right to move streams.
pub fn settling_and_condensing_change_nothing_that_is_read(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bare = key("header only");
    subject.say(&work, &"long ".repeat(100_000));
    subject.create(&bare, &header(&bare), &[]).expect("made");
    for key in [work, bare] {
        let mut at = subject.live(&key);
        let all = subject.all(&at);
        let lease = subject.lease(&key, LONG).expect("a lease");
        subject.backend.settle(&at).expect("settled while it is written");
        subject.backend.condense(&at, &mut |_, _| {}).expect("nothing to do");
        drop(lease);
        for place in Place::ALL {
            at = subject.relocate(&at, place);
            for _ in 0..2 {
                subject.backend.settle(&at).expect("settled");
                subject.backend.condense(&at, &mut |done, all| assert!(done <= all)).expect("condensed");
                assert!(subject.all(&at) == all, "{place:?}");
                assert_eq!(subject.places_of(&at.id), [place]);
            }
        }
    }
}
