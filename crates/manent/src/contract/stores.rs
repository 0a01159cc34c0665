//! What the store makes of a backend: it must work on any.

use std::time::Duration;

use manent_log::Item;

use super::Make;
use super::subject::{LONG, key};
use crate::backend::{Address, Place, Start};
use crate::error::Error;
use crate::reading::{Growth, Reader};
use crate::store::{Store, StoreOptions};
use crate::turn::{Record, turn};

fn store(make: Make<'_>) -> Store {
    Store::on(make(), StoreOptions { wait: LONG, ..StoreOptions::default() })
}

#[track_caller]
fn say(store: &Store, session: &str, text: &str) -> u64 {
    store.append(&key(session), turn("user", text)).expect("taken").seq
}

#[track_caller]
fn live(store: &Store, session: &str) -> Address {
    store.live(&key(session)).expect("looked for").expect("a live session").address
}

/// What is left to read, and that nothing of it is damaged.
#[track_caller]
fn rest_of(reader: &mut Reader) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(item) = reader.next().expect("reading goes on") {
        match item {
            Item::Entry(entry) if entry.seq == 0 => {}
            Item::Entry(entry) => {
                all.push((entry.seq, Record::of(&entry).expect("UTF-8").content().into_owned()));
            }
            Item::Damage(damage) => panic!("nothing was damaged, but {damage:?} was read"),
        }
    }
    all
}

#[track_caller]
fn texts(store: &Store, at: &Address) -> Vec<String> {
    let all = rest_of(&mut store.read(at, Start::First).expect("read"));
    assert!(all.iter().map(|(seq, _)| *seq).eq(1..=all.len() as u64), "numbers from 1 on: {all:?}");
    all.into_iter().map(|(_, text)| text).collect()
}

#[track_caller]
fn assert_sound(store: &Store, at: &Address) {
    let report = store.verify(at, &mut |_, _| {}).expect("checked");
    assert!(report.is_sound(), "{report:?}");
}

/// A session is written, archived, read, begun anew, deleted, restored and found, by its key and by its id.
pub fn a_session_lives_through_archive_and_trash(make: Make<'_>) {
    let store = store(make);
    let work = key("work");
    assert!(store.load(&work).expect("empty").is_empty() && !store.exists(&work).expect("looked for"));
    assert_eq!((say(&store, "work", "one"), say(&store, "work", "two")), (1, 2));
    let first = live(&store, "work");
    let archived = store.archive(&first, &mut |_, _| {}).expect("archived");
    assert_eq!(texts(&store, &archived), ["one", "two"]);
    assert_eq!(store.find(&work).expect("found").address, archived, "the newest there is");
    assert_eq!(say(&store, "work", "anew"), 1);
    assert!(matches!(store.unarchive(&archived), Err(Error::InTheWay { .. })), "a live one is in the way");
    let second = live(&store, "work");
    assert_eq!(store.find_id(&first.id).expect("found").address, archived);
    assert_eq!(store.find_id(&second.id).expect("found").address, second);

    let trashed = store.delete(&second).expect("deleted");
    assert_eq!(texts(&store, &trashed), ["anew"]);
    assert_eq!(store.unarchive(&archived).expect("nothing is in the way"), first);
    let listed = store.find_in(Place::Trash, &work).expect("found");
    assert!(matches!(store.restore(&listed), Err(Error::InTheWay { .. })), "a live one is in the way");
    let archived = store.archive(&first, &mut |_, _| {}).expect("archived");
    assert_eq!(store.restore(&listed).expect("restored"), second);
    let trashed = store.delete(&archived).expect("deleted");
    let listed = store.find_id(&trashed.id).expect("found");
    assert_eq!((listed.address.place, listed.from), (Place::Trash, Place::Archive));
    assert_eq!(store.restore(&listed).expect("restored"), archived, "to where it was");
    assert_eq!(texts(&store, &archived), ["one", "two"]);
    assert_eq!(store.tail(&work, 1).expect("read").len(), 1);
}

/// A follower of a session is told of more, of nothing, and of its end; and reads everything once.
pub fn a_session_can_be_followed(make: Make<'_>) {
    let store = store(make);
    let work = key("work");
    say(&store, "work", "one");
    let mut reader = store.stream(&work, Start::First).expect("read");
    assert_eq!(rest_of(&mut reader).len(), 1);
    assert_eq!(reader.wait(Duration::from_millis(1)).expect("looked at"), Growth::Nothing);
    std::thread::scope(|scope| {
        scope.spawn(|| say(&store, "work", "two"));
        assert_eq!(reader.wait(Duration::MAX).expect("looked at"), Growth::More);
    });
    assert_eq!(rest_of(&mut reader), [(2, "two".to_owned())]);
    store.archive(&live(&store, "work"), &mut |_, _| {}).expect("archived");
    assert_eq!(reader.wait(LONG).expect("looked at"), Growth::Replaced);
}

/// A fork, and a fork of a fork, read as one session from the first record on, from any number and from the
/// tail, wherever what they were forked from is; and no session sees another's later turns.
pub fn forks_share_what_they_continue(make: Make<'_>) {
    let store = store(make);
    for n in 1..=5 {
        say(&store, "work", &format!("turn {n}"));
    }
    let work = live(&store, "work");
    let forked = store.fork(&work, Some(3), &key("branch")).expect("forked");
    assert!(!forked.copied && forked.upto == 3, "{forked:?}");
    assert_eq!((say(&store, "branch", "elsewhere"), say(&store, "work", "turn 6")), (4, 6));
    let branch = live(&store, "branch");
    assert_eq!(branch, forked.address);
    assert_eq!(texts(&store, &branch), ["turn 1", "turn 2", "turn 3", "elsewhere"]);
    assert_eq!(texts(&store, &work).len(), 6);

    let second = store.fork(&branch, Some(2), &key("second")).expect("forked from what it shares");
    assert_eq!(texts(&store, &second.address), ["turn 1", "turn 2"]);
    let third = store.fork(&branch, None, &key("third")).expect("forked from its end");
    assert_eq!((third.upto, say(&store, "third", "on")), (4, 5));
    assert!(matches!(store.fork(&work, Some(7), &key("x")), Err(Error::NoSuchRecord { last: Some(6), .. })));
    assert!(matches!(store.fork(&work, None, &key("branch")), Err(Error::InTheWay { .. })));

    let whole = [(1, "turn 1"), (2, "turn 2"), (3, "turn 3"), (4, "elsewhere"), (5, "on")];
    let whole = whole.map(|(seq, text)| (seq, text.to_owned()));
    let check = |what: &str| {
        for from in 0..5 {
            let seq = from as u64 + 1;
            let read = rest_of(&mut store.stream(&key("third"), Start::Seq(seq)).expect("read"));
            assert_eq!(read, whole[from..], "from {seq}, {what}");
            let tail = Start::Tail { count: 5 - from as u64, before: None };
            let read = rest_of(&mut store.stream(&key("third"), tail).expect("read"));
            assert_eq!(read, whole[from..], "the last {}, {what}", 5 - from);
        }
        let tail = Start::Tail { count: 99, before: None };
        assert_eq!(rest_of(&mut store.stream(&key("third"), tail).expect("read")), whole, "{what}");
        assert_sound(&store, &live(&store, "third"));
    };
    check("all live");
    let archived = store.archive(&work, &mut |_, _| {}).expect("archived");
    store.archive(&branch, &mut |_, _| {}).expect("archived");
    check("archived");
    store.delete(&archived).expect("deleted");
    say(&store, "work", "another session of that key");
    check("in the trash, with another in its place");
    assert_eq!(say(&store, "third", "and on"), 6);
}

/// What is purged leaves its forks with a copy of what they shared, wherever they are, and names them.
pub fn a_purged_parent_leaves_its_forks_whole(make: Make<'_>) {
    let store = store(make);
    for n in 1..=2 {
        say(&store, "a", &format!("a{n}"));
    }
    store.fork(&live(&store, "a"), None, &key("b")).expect("forked");
    say(&store, "b", "b3");
    store.fork(&live(&store, "b"), None, &key("c")).expect("forked");
    say(&store, "c", "c4");
    let c = store.archive(&live(&store, "c"), &mut |_, _| {}).expect("archived");
    store.fork(&live(&store, "a"), Some(1), &key("d")).expect("forked");

    let purged = store.purge(&[live(&store, "b")], false).expect("purged");
    assert_eq!((purged.removed.len(), purged.forks), (1, vec![c.clone()]), "the middle of a line of forks");
    assert_eq!(texts(&store, &c), ["a1", "a2", "b3", "c4"]);
    assert_sound(&store, &c);
    let purged = store.purge(&[live(&store, "a")], false).expect("purged");
    assert_eq!((purged.removed.len(), purged.forks.len()), (1, 2), "and its beginning");
    assert_eq!(texts(&store, &c), ["a1", "a2", "b3", "c4"]);
    assert_eq!(texts(&store, &live(&store, "d")), ["a1"]);
    assert_eq!(say(&store, "d", "d2"), 2);
    for session in ["a", "b"] {
        assert!(!store.exists(&key(session)).expect("looked for"), "{session} is gone");
    }
    let c = store.unarchive(&c).expect("live again");
    assert_eq!(say(&store, "c", "c5"), 5);
    assert_sound(&store, &c);
}

/// A purge that takes the forks along takes theirs too, and leaves what does not depend on them.
pub fn a_purge_with_forks_leaves_none(make: Make<'_>) {
    let store = store(make);
    say(&store, "a", "a1");
    store.fork(&live(&store, "a"), None, &key("b")).expect("forked");
    say(&store, "b", "b2");
    store.fork(&live(&store, "b"), None, &key("c")).expect("forked");
    store.delete(&live(&store, "c")).expect("deleted");
    let purged = store.purge(&[live(&store, "b")], true).expect("purged");
    assert_eq!((purged.removed.len(), purged.forks.len()), (2, 0));
    assert_eq!(Place::ALL.map(|place| store.list(place).expect("a list").len()), [1, 0, 0]);
    assert_eq!(texts(&store, &live(&store, "a")), ["a1"]);
}

/// Titles and summaries, which are read from records, also through a fork.
pub fn summaries_and_titles_are_counted_from_records(make: Make<'_>) {
    let store = store(make);
    say(&store, "work", "the first thing said");
    store.append(&key("work"), turn("assistant", "the answer")).expect("taken");
    let summary = |session: &str| {
        let all = store.sessions(Place::Live, None, usize::MAX).expect("listed").sessions;
        let summary = all.into_iter().find(|s| s.address.key == key(session)).expect("a session");
        assert!(!summary.damaged);
        (summary.title, summary.turns)
    };
    assert_eq!(summary("work"), ("the first thing said".to_owned(), 2));
    store.set_title(&key("work"), "A title").expect("taken");
    assert_eq!(summary("work"), ("A title".to_owned(), 2));
    assert!(
        store.set_title(&key("nowhere"), "x").is_err_and(|e| e.is_not_found()),
        "titles begin no session"
    );
    store.fork(&live(&store, "work"), Some(2), &key("branch")).expect("forked");
    assert_eq!(summary("branch"), ("the first thing said".to_owned(), 2));
}
