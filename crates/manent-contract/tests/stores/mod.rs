//! Runs a store on every backend: sessions with their life and their forks, memory, runs and reports.

use std::sync::Arc;
use std::time::Duration;

use manent::memory::{Filter, Kind, NewItem};
use manent::{
    Error, Growth, LogItem, Place, Query, Reader, Record, SessionKey, Space, Start, Store, StoreOptions,
    StreamId, Streams, turn,
};
use manent_runs::retrospective::Reports;
use manent_runs::{NewAttempt, NewRun, NewVerdict, RunEnd, RunName, Runs, Status};

/// Makes an empty backend, a new one each time.
type Make<'a> = &'a dyn Fn() -> Arc<dyn Streams>;

/// Longer than anything takes; nothing is ever measured with it.
const LONG: Duration = Duration::from_mins(2);

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

fn is_in_the_way<T>(outcome: &Result<T, Error>) -> bool {
    outcome.as_ref().is_err_and(Error::is_in_the_way)
}

fn store(make: Make<'_>) -> Store {
    Store::on(make(), None, StoreOptions { wait: LONG, ..StoreOptions::default() })
}

#[track_caller]
fn say(store: &Store, session: &str, text: &str) -> u64 {
    store.append(&key(session), turn("user", text)).expect("taken").seq
}

#[track_caller]
fn live(store: &Store, session: &str) -> StreamId {
    store.live(&key(session)).expect("looked for").expect("a live session").id
}

/// Reads the rest of a stream, and asserts that nothing of it is damaged.
#[track_caller]
fn rest_of(reader: &mut Reader) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(item) = reader.next().expect("reading goes on") {
        match item {
            LogItem::Entry(entry) if entry.seq == 0 => {}
            LogItem::Entry(entry) => {
                all.push((entry.seq, Record::of(&entry).expect("UTF-8").content().into_owned()));
            }
            LogItem::Damage(damage) => panic!("nothing was damaged, but {damage:?} was read"),
        }
    }
    all
}

#[track_caller]
fn texts(store: &Store, at: &StreamId) -> Vec<String> {
    let all = rest_of(&mut store.read(at, Start::First).expect("read"));
    assert!(all.iter().map(|(seq, _)| *seq).eq(1..=all.len() as u64), "numbers from 1 on: {all:?}");
    all.into_iter().map(|(_, text)| text).collect()
}

#[track_caller]
fn assert_sound(store: &Store, at: &StreamId) {
    let report = store.verify(at, &mut |_, _| {}).expect("checked");
    assert!(report.is_sound(), "{report:?}");
}

/// A session is written, archived, read, begun anew, deleted, restored and found, by its key and by its id.
pub(crate) fn a_session_lives_through_archive_and_trash(make: Make<'_>) {
    let store = store(make);
    let work = key("work");
    assert!(store.load(&work).expect("empty").is_empty() && !store.exists(&work).expect("looked for"));
    assert_eq!((say(&store, "work", "one"), say(&store, "work", "two")), (1, 2));
    let first = live(&store, "work");
    let archived = store.archive(&first, &mut |_, _| {}).expect("archived");
    assert_eq!(texts(&store, &archived), ["one", "two"]);
    assert_eq!(store.find(&work).expect("found").id, archived, "the newest there is");
    assert_eq!(say(&store, "work", "anew"), 1);
    assert!(is_in_the_way(&store.unarchive(&archived)), "a live one is in the way");
    let second = live(&store, "work");
    assert_eq!(store.find_id(&first.id).expect("found").id, archived);
    assert_eq!(store.find_id(&second.id).expect("found").id, second);

    let trashed = store.delete(&second).expect("deleted");
    assert_eq!(texts(&store, &trashed), ["anew"]);
    assert_eq!(store.unarchive(&archived).expect("nothing is in the way"), first);
    let listed = store.find_in(Place::Trash, &work).expect("found");
    assert!(is_in_the_way(&store.restore(&listed)), "a live one is in the way");
    let archived = store.archive(&first, &mut |_, _| {}).expect("archived");
    assert_eq!(store.restore(&listed).expect("restored"), second);
    let trashed = store.delete(&archived).expect("deleted");
    let listed = store.find_id(&trashed.id).expect("found");
    assert_eq!((listed.id.place, listed.from), (Place::Trash, Place::Archive));
    assert_eq!(store.restore(&listed).expect("restored"), archived, "to where it was");
    assert_eq!(texts(&store, &archived), ["one", "two"]);
    assert_eq!(store.tail(&work, 1).expect("read").len(), 1);
}

/// A follower of a session is told of more, of nothing, and of its end; and reads everything once.
pub(crate) fn a_session_can_be_followed(make: Make<'_>) {
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
pub(crate) fn forks_share_what_they_continue(make: Make<'_>) {
    let store = store(make);
    for n in 1..=5 {
        say(&store, "work", &format!("turn {n}"));
    }
    let work = live(&store, "work");
    let forked = store.fork(&work, Some(3), &key("branch")).expect("forked");
    assert!(!forked.copied && forked.upto == 3, "{forked:?}");
    assert_eq!((say(&store, "branch", "elsewhere"), say(&store, "work", "turn 6")), (4, 6));
    let branch = live(&store, "branch");
    assert_eq!(branch, forked.id);
    assert_eq!(texts(&store, &branch), ["turn 1", "turn 2", "turn 3", "elsewhere"]);
    assert_eq!(texts(&store, &work).len(), 6);

    let second = store.fork(&branch, Some(2), &key("second")).expect("forked from what it shares");
    assert_eq!(texts(&store, &second.id), ["turn 1", "turn 2"]);
    let third = store.fork(&branch, None, &key("third")).expect("forked from its end");
    assert_eq!((third.upto, say(&store, "third", "on")), (4, 5));
    assert!(matches!(store.fork(&work, Some(7), &key("x")), Err(Error::NoSuchRecord { last: Some(6), .. })));
    assert!(is_in_the_way(&store.fork(&work, None, &key("branch"))));

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

/// Purging a session leaves its forks with a copy of what they shared, wherever they are, and names them.
pub(crate) fn a_purged_parent_leaves_its_forks_whole(make: Make<'_>) {
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
pub(crate) fn a_purge_with_forks_leaves_none(make: Make<'_>) {
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
pub(crate) fn summaries_and_titles_are_counted_from_records(make: Make<'_>) {
    let store = store(make);
    say(&store, "work", "the first thing said");
    store.append(&key("work"), turn("assistant", "the answer")).expect("taken");
    let summary = |session: &str| {
        let all = store.sessions(Place::Live, None, usize::MAX).expect("listed").sessions;
        let summary = all.into_iter().find(|s| s.id.key == key(session)).expect("a session");
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

/// Items are remembered, found, replaced, forgotten and compacted away; proposals wait beside them.
pub(crate) fn memory_is_kept_and_searched(make: Make<'_>) {
    let store = store(make);
    let memory = store.memory().expect("kept here");
    let first = memory.add(&NewItem::new(Kind::Fact, "the harbour freezes in winter")).expect("kept");
    let second = memory.add(&NewItem::new(Kind::Pref, "answers in French")).expect("kept");
    assert_eq!((first.id, second.id), (1, 2));
    let proposed = store.inbox().expect("kept here").add(&NewItem::new(Kind::Fact, "perhaps")).expect("kept");
    assert_eq!(proposed.id, 1, "numbers of its own");
    let found = memory.search(&Query::parse("harbour", 0).unwrap(), 5).expect("searched");
    assert_eq!(found.hits.iter().map(|hit| hit.item.id).collect::<Vec<_>>(), [1]);
    memory.forget(&[first.id]).expect("forgotten");
    let left = || memory.items(&Filter::default()).expect("listed");
    assert_eq!(left().iter().map(|item| item.id).collect::<Vec<_>>(), [2]);
    let compacted = memory.compact().expect("compacted");
    assert_eq!((compacted.dropped, compacted.bytes_after < compacted.bytes_before), (1, true));
    assert_eq!(left().iter().map(|item| item.content.as_str()).collect::<Vec<_>>(), ["answers in French"]);
    let third = memory.add(&NewItem::new(Kind::Fact, "a third thing")).expect("kept");
    assert_eq!(third.id, 4, "forgetting took a number too, and none is given twice");
    let found = memory.search(&Query::parse("harbour", 0).unwrap(), 5).expect("searched");
    assert_eq!(found.hits.len(), 0);
    assert!(memory.verify().expect("checked").expect("a memory").is_sound());
    assert!(store.consolidation().expect("kept here").verify().expect("checked").is_none(), "none yet");
}

/// Runs are begun, ended, recorded once, judged, and removed with the last session of their key.
pub(crate) fn runs_are_kept_judged_and_purged(make: Make<'_>) {
    let store = store(make);
    let (work, runs) = (key("work"), Runs::open(&store).expect("kept here"));
    say(&store, "work", "one");
    let run = NewRun { skill: "lint".to_owned(), idempotency_key: "k".to_owned(), ..NewRun::default() };
    let alone = runs.lock_run(&work, "k").expect("nobody else");
    assert!(matches!(runs.lock_run(&work, "k"), Err(manent_runs::Error::Running { .. })));
    let started = runs.begin(&work, run.clone()).expect("begun");
    let attempt = NewAttempt { exit_code: Some(0), ..NewAttempt::default() };
    let ended = RunEnd { attempts: vec![attempt], status: Status::Success, ..RunEnd::default() };
    runs.finish(&started, &ended).expect("ended");
    drop(alone);
    assert!(runs.begin(&work, run).expect("known").recorded.repeated, "a run with a key is recorded once");
    let run = RunName::Id(started.run_id().to_owned());
    let verdict = NewVerdict { run, attempt: None, verified: Some(true), note: String::new() };
    assert!(runs.judge(&work, &verdict).expect("judged").receipt.is_some());
    assert!(runs.judge(&work, &verdict).expect("judged").repeated);
    let mut seen = Vec::new();
    runs.each(&work, |run| {
        seen.push((run.skill.to_string(), run.status));
        std::ops::ControlFlow::Continue(())
    })
    .expect("read");
    assert_eq!(seen, [("lint".to_owned(), Status::Success)]);
    assert!(Reports::open(&store).expect("kept here").last().is_none());
    let purged = store.purge(&[live(&store, "work")], false).expect("purged");
    assert_eq!(purged.companions, [StreamId::live_in(Space::Runs, &work)]);
    assert!(runs.log(&work).expect("looked for").is_none());
}

/// Makes one test of each check, on a backend.
macro_rules! store_tests {
    ($make:path) => {
        $crate::stores::store_tests! { $make:
            a_session_lives_through_archive_and_trash
            a_session_can_be_followed
            forks_share_what_they_continue
            a_purged_parent_leaves_its_forks_whole
            a_purge_with_forks_leaves_none
            summaries_and_titles_are_counted_from_records
            memory_is_kept_and_searched
            runs_are_kept_judged_and_purged
        }
    };
    ($make:path: $($check:ident)*) => { $(
        #[test]
        fn $check() {
            $crate::stores::$check(&|| $make());
        }
    )* };
}
pub(crate) use store_tests;
