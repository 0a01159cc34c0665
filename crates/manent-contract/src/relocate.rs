//! Checks of `relocate`: live, archived, in the trash, and back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manent_log::{Durability, Expect};

use manent_store::{Place, Selector, Space, StreamId, Target};

use crate::Make;
use crate::subject::{
    LONG, Subject, assert_held, assert_in_the_way, assert_not_found, assert_unsupported, header, how, key,
    let_others_run, turn,
};

/// A stream can go from every place to every other, keeps its key, its id and every byte on the way, is in
/// one list at any time, and can be written again when it is live again.
pub fn relocate_between_all_places_keeps_every_byte(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (0..50).map(|n| turn(&format!("{n} {}", "x".repeat(n * 100)))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let live = subject.live(&work);
    let mut all = subject.all(&live);
    let (live_, archive, trash) = (Place::Live, Place::Archive, Place::Trash);
    let tour =
        [archive, trash, archive, live_, trash, live_, archive, trash, live_, live_, archive, archive, live_];
    for packing in [false, true] {
        let mut at = live.clone();
        for to in tour {
            let moved = subject.relocate(&at, to);
            assert_eq!((moved.place, &moved.key, &moved.id), (to, &work, &live.id), "from {at:?}");
            if packing {
                subject.pack(&moved);
            }
            assert_eq!(subject.places_of(&live.id), [to], "it is in one place");
            assert!(subject.all(&moved) == all, "from {:?} to {to:?} nothing changes", at.place);
            if to != at.place {
                assert_not_found(subject.streams.open(Target::Id(&at)), "where it was before");
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
pub fn relocate_to_live_never_replaces_a_stream(make: Make<'_>) {
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
    assert_eq!(subject.counts(), [1, 1, 1]);
}

/// The next record of a key whose stream was put away begins a new one, and any number of them can be put
/// away; each can be read and brought back.
pub fn key_has_any_number_of_archived_streams(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for place in [Place::Archive, Place::Trash] {
        let mut put_away = Vec::new();
        for n in 0..4 {
            assert_eq!(subject.say(&work, &format!("{place:?} {n}")).seq, 1, "a new stream");
            put_away.push(subject.relocate(&subject.live(&work), place));
        }
        assert_eq!(subject.list(place, Selector::Key(&work)).len(), 4);
        for (n, at) in put_away.iter().enumerate() {
            assert_eq!(subject.texts(at), [format!("{place:?} {n}")]);
            let live = subject.relocate(at, Place::Live);
            assert_eq!((subject.live(&work), live.id.as_str()), (live.clone(), at.id.as_str()));
            subject.say(&work, "and on");
            assert_eq!(subject.texts(&subject.relocate(&live, place)).len(), 2);
        }
    }
    assert_eq!(subject.counts(), [0, 4, 4]);
}

/// In the trash it is known where a stream was before: live, or archived and packed.
pub fn trashed_stream_knows_its_former_place(make: Make<'_>) {
    let subject = Subject::new(make);
    for (name, from) in [("live", Place::Live), ("archived", Place::Archive)] {
        subject.say(&key(name), "one");
        let mut at = subject.live(&key(name));
        for _ in 0..2 {
            at = subject.relocate(&at, from);
            subject.pack(&at);
            at = subject.relocate(&at, Place::Trash);
            let listed = subject.list(Place::Trash, Selector::Id(&at.id)).remove(0);
            assert_eq!((&listed.id, listed.from), (&at, from));
        }
        assert_eq!(subject.texts(&subject.relocate(&at, from)), ["one"]);
    }
}

/// A stream that is being written moves when its writer is done, or not at all if that takes too long. Under
/// the lease everything goes on as before.
pub fn relocate_and_delete_wait_for_the_writer(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for to in [Some(Place::Archive), Some(Place::Trash), None] {
        subject.say(&work, "one");
        let at = subject.live(&work);
        let mut lease = subject.lease(&work, LONG).expect("a lease");
        let go = |wait: Duration| {
            let _moving = subject.moving();
            match to {
                Some(to) => subject.streams.relocate(&at, to, wait).map(Some),
                None => subject.streams.delete(&at, wait).map(|()| None),
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
            lease.append(&[turn("two")], &how(Durability::Flush, Expect::Seq(2))).expect("taken");
            done.store(true, Ordering::SeqCst);
            drop(lease);
            moved.join().expect("no panic")
        });
        if let Some(moved) = moved {
            assert_eq!(subject.texts(&moved), ["one", "two"]);
        }
        assert!(subject.list(Place::Live, Selector::All).is_empty());
    }
}

/// A stream id with an id means that stream. When it is elsewhere now, another stream of the same key in its
/// place is not read, moved or deleted for it.
pub fn id_of_a_moved_stream_is_not_found(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "first");
    let old = subject.live(&work);
    subject.relocate(&old, Place::Archive);
    subject.say(&work, "second");
    let of_other_key = StreamId { key: key("other"), ..subject.live(&work) };
    for at in [&old, &of_other_key, &StreamId { place: Place::Trash, ..old.clone() }] {
        assert_not_found(subject.streams.open(Target::Id(at)), "reading what is elsewhere");
        if let Some(maintenance) = subject.streams.maintenance() {
            assert_not_found(maintenance.verify(at, &mut |_, _| {}), "checking what is elsewhere");
        }
        assert_not_found(subject.lease_existing(at, LONG), "a lease of what is elsewhere");
        assert_not_found(subject.streams.sync(at), "syncing what is elsewhere");
        assert_not_found(subject.try_relocate(at, Place::Trash), "moving what is elsewhere");
        assert_not_found(subject.delete(at), "deleting what is elsewhere");
    }
    assert_eq!(subject.texts(&subject.live(&work)), ["second"]);
    assert_eq!(subject.counts(), [1, 1, 0]);
}

/// Without an id, a stream id means the live stream of its key, whichever that is; where it goes it is known
/// by its id.
pub fn live_stream_is_found_by_its_key_alone(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for place in [Place::Archive, Place::Trash] {
        subject.say(&work, "one");
        let live = subject.live(&work);
        let by_key = StreamId::live(&work);
        assert_eq!(subject.all(&by_key), subject.all(&live));
        subject.streams.sync(&by_key).expect("synced");
        let moved = subject.relocate(&by_key, place);
        assert_eq!(moved, StreamId { place, ..live }, "with the id that its header gives");
        assert_eq!(subject.texts(&moved), ["one"]);
    }
    subject.say(&work, "one");
    subject.delete(&StreamId::live(&work)).expect("deleted");
    assert_not_found(subject.delete(&StreamId::live(&work)), "there is none now");
}

/// Whoever has the right to move streams sees each exactly once, whatever others did before and will do
/// after.
pub fn holder_of_moves_lock_sees_each_stream_once(make: Make<'_>) {
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
                subject.pack(&at);
            }
            thread::yield_now();
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(subject.texts(&live), ["one"]);
}

/// Syncing and packing can be asked for of any stream in any place, again and again, also while it is
/// written, and change nothing that is read. Neither needs the right to move streams.
pub fn sync_and_pack_change_nothing_that_is_read(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bare = key("header only");
    subject.say(&work, &"long ".repeat(100_000));
    subject.create(&bare, &header(&bare), &[]).expect("made");
    for key in [work, bare] {
        let mut at = subject.live(&key);
        let all = subject.all(&at);
        let lease = subject.lease(&key, LONG).expect("a lease");
        subject.streams.sync(&at).expect("synced while it is written");
        subject.pack(&at);
        drop(lease);
        for place in Place::ALL {
            at = subject.relocate(&at, place);
            for _ in 0..2 {
                subject.streams.sync(&at).expect("synced");
                subject.pack(&at);
                assert!(subject.all(&at) == all, "{place:?}");
                assert_eq!(subject.places_of(&at.id), [place]);
            }
        }
    }
}

/// Only sessions have places: streams of other spaces stay live, and other places of their spaces are empty.
pub fn relocate_outside_sessions_is_unsupported(make: Make<'_>, space: Space) {
    if space == Space::Sessions {
        return;
    }
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "one");
    let at = subject.live(&work);
    for to in [Place::Archive, Place::Trash] {
        assert_unsupported(subject.try_relocate(&at, to), "only sessions have places");
        let elsewhere = StreamId { place: to, ..at.clone() };
        assert_not_found(subject.streams.open(Target::Id(&elsewhere)), "nothing is there");
    }
    assert_eq!(subject.counts(), [1, 0, 0]);
    assert_eq!(Subject { streams: subject.streams.clone(), space: Space::Sessions }.counts(), [0; 3]);
    assert_eq!(subject.live_texts(&work), ["one"]);
}
