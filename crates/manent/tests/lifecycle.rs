//! Archive, trash, restore, purge and fork, as a program that embeds the store sees them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "tests lay files out as other programs do")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use manent::backend::Error as StoreError;
use manent::{
    Error, Growth, KeyParts, LogItem, Place, SessionKey, Start, Store, StoreOptions, StreamId, turn,
};

struct Scene {
    home: tempfile::TempDir,
    store: Store,
}

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

impl Scene {
    fn new() -> Scene {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        Scene { home, store }
    }

    fn say(&self, session: &str, text: &str) -> u64 {
        self.store.append(&key(session), turn("user", text)).unwrap().seq
    }

    /// Reads a session. Returns its text, and the number of places that could not be read.
    fn read(&self, at: &StreamId) -> (Vec<(u64, String)>, usize) {
        let mut reader = self.store.read(at, Start::First).unwrap();
        let (mut turns, mut damage) = (Vec::new(), 0);
        while let Some(item) = reader.next().unwrap() {
            match item {
                LogItem::Damage(_) => damage += 1,
                LogItem::Entry(entry) if entry.seq == 0 => {}
                LogItem::Entry(entry) => {
                    turns.push((entry.seq, manent::Record::of(&entry).unwrap().content().into_owned()));
                }
            }
        }
        (turns, damage)
    }

    fn texts(&self, at: &StreamId) -> Vec<String> {
        let (turns, damage) = self.read(at);
        assert_eq!(damage, 0);
        turns.into_iter().map(|(_, text)| text).collect()
    }

    fn live(&self, session: &str) -> StreamId {
        self.store.live(&key(session)).unwrap().unwrap().id
    }

    fn archive(&self, session: &str) -> StreamId {
        self.store.archive(&self.live(session), &mut |_, _| {}).unwrap()
    }

    /// Every file under the store, by its path.
    fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        for dir in ["sessions", "archive", "trash"] {
            for entry in fs::read_dir(self.home.path().join(dir)).into_iter().flatten() {
                names.push(format!("{dir}/{}", entry.unwrap().file_name().to_str().unwrap()));
            }
        }
        names.sort();
        names
    }

    fn grep(&self, needle: &str) -> Vec<String> {
        fn walk(dir: &Path, needle: &str, found: &mut Vec<String>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, needle, found);
                } else {
                    let bytes = fs::read(&path).unwrap();
                    let plain = zstd::stream::decode_all(&*bytes).unwrap_or(bytes);
                    if String::from_utf8_lossy(&plain).contains(needle) {
                        found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                    }
                }
            }
        }
        let mut found = Vec::new();
        walk(self.home.path(), needle, &mut found);
        found
    }
}

#[test]
fn an_archived_session_reads_the_same_and_the_next_record_begins_a_new_one() {
    let scene = Scene::new();
    for n in 0..50 {
        scene.say("work", &format!("turn {n}"));
    }
    let before = fs::read(scene.home.path().join("sessions/work.jsonl")).unwrap();
    let live = scene.live("work");
    let texts = scene.texts(&live);
    let archived = scene.archive("work");
    assert_eq!((archived.place, &archived.id), (Place::Archive, &live.id));
    assert_eq!(scene.files(), [format!("archive/work.{}.jsonl.zst", live.id)]);
    assert_eq!(scene.texts(&archived), texts);
    assert!(!scene.store.exists(&key("work")).unwrap());
    assert!(scene.store.load(&key("work")).unwrap().is_empty(), "a key means its live session");
    assert_eq!(scene.store.find(&key("work")).unwrap().id, archived, "and to a reader the newest");

    assert_eq!(scene.say("work", "anew"), 1);
    assert_ne!(scene.live("work").id, live.id);
    let in_the_way = scene.store.unarchive(&archived);
    assert!(
        matches!(in_the_way, Err(Error::Store(StoreError::InTheWay { place: Place::Live, .. }))),
        "{in_the_way:?}"
    );
    let second = scene.archive("work");
    assert_eq!(scene.store.unarchive(&archived).unwrap(), live);
    assert_eq!(fs::read(scene.home.path().join("sessions/work.jsonl")).unwrap(), before, "byte for byte");
    assert_eq!(scene.texts(&second), ["anew"]);
    assert_eq!(scene.say("work", "and on"), 51);
}

#[test]
fn what_was_never_written_cannot_be_archived_deleted_or_forked() {
    let scene = Scene::new();
    scene.say("other", "x");
    let nothing = StreamId::live(&key("work"));
    let outcomes = [
        scene.store.archive(&nothing, &mut |_, _| {}).map(|_| ()),
        scene.store.delete(&nothing).map(|_| ()),
        scene.store.fork(&nothing, None, &key("new")).map(|_| ()),
        scene.store.set_title(&key("work"), "a title").map(|_| ()),
    ];
    for outcome in outcomes {
        assert!(matches!(&outcome, Err(Error::Store(StoreError::NotFound { .. }))), "{outcome:?}");
    }
    assert_eq!(scene.files(), ["sessions/other.jsonl"]);
}

#[test]
fn trash_gives_back_what_it_took_to_where_it_was() {
    let scene = Scene::new();
    scene.say("live", "a");
    scene.say("old", "b");
    let (live, old) = (scene.live("live"), scene.archive("old"));
    for at in [&live, &old] {
        let trashed = scene.store.delete(at).unwrap();
        assert_eq!(trashed.place, Place::Trash);
        assert_eq!(scene.texts(&trashed).len(), 1, "it can still be read");
        let listed = scene.store.list(Place::Trash).unwrap();
        assert_eq!((listed.len(), &listed[0].from), (1, &at.place));
        assert_eq!(scene.store.restore(&listed[0]).unwrap(), *at);
    }
    assert_eq!(scene.texts(&live), ["a"]);
    assert_eq!(scene.texts(&old), ["b"]);
    let trashed = scene.store.delete(&live).unwrap();
    scene.say("live", "another");
    let listed = scene.store.find_in(Place::Trash, &key("live")).unwrap();
    assert_eq!(listed.id, trashed);
    assert!(
        matches!(scene.store.restore(&listed), Err(Error::Store(StoreError::InTheWay { .. }))),
        "nothing is replaced"
    );
}

#[test]
fn a_purge_leaves_nothing_anywhere() {
    let scene = Scene::new();
    for _ in 0..2 {
        scene.say("work", "the secret is 1234");
        scene.archive("work");
    }
    scene.say("work", "the secret is 1234");
    scene.store.delete(&scene.live("work")).unwrap();
    scene.say("work", "the secret is 1234");
    // A torn end is a copy too.
    let path = scene.home.path().join("sessions/work.jsonl");
    let torn = [fs::read(&path).unwrap(), b"{\"seq\":2,\"content\":\"the secret is 1234".to_vec()].concat();
    fs::write(&path, torn).unwrap();
    scene.say("work", "and more");
    scene.say("other", "not this one");
    assert_eq!(scene.grep("1234").len(), 5);
    let mut all = Vec::new();
    for place in Place::ALL {
        all.extend(scene.store.list(place).unwrap().into_iter().map(|listed| listed.id));
    }
    all.retain(|at| at.key == key("work"));
    let purged = scene.store.purge(&all, false).unwrap();
    assert_eq!((purged.removed.len(), purged.forks.len()), (4, 0));
    assert_eq!(scene.grep("1234"), Vec::<String>::new());
    assert_eq!(scene.files(), ["sessions/other.jsonl"]);
}

#[test]
fn a_fork_goes_on_from_a_record_and_neither_sees_the_others_later_turns() {
    let scene = Scene::new();
    for n in 1..=5 {
        scene.say("work", &format!("turn {n}"));
    }
    let work = scene.live("work");
    let forked = scene.store.fork(&work, Some(3), &key("branch")).unwrap();
    assert!(!forked.copied);
    assert_eq!(scene.say("branch", "elsewhere"), 4);
    assert_eq!(scene.say("work", "turn 6"), 6);
    let branch = scene.live("branch");
    assert_eq!(scene.texts(&branch), ["turn 1", "turn 2", "turn 3", "elsewhere"]);
    assert_eq!(scene.texts(&work).len(), 6);
    let fork_file = fs::read_to_string(scene.home.path().join("sessions/branch.jsonl")).unwrap();
    assert_eq!(fork_file.lines().count(), 2, "nothing was copied: {fork_file}");

    // A fork of a fork, from a record that the first holds.
    let second = scene.store.fork(&branch, Some(2), &key("second")).unwrap();
    assert_eq!(scene.texts(&second.id), ["turn 1", "turn 2"]);
    let third = scene.store.fork(&branch, None, &key("third")).unwrap();
    assert_eq!((third.upto, scene.say("third", "on")), (4, 5));
    let tail = scene.store.tail(&key("third"), 3).unwrap();
    let tail: Vec<_> = tail.turns().map(|t| (t.seq, t.content.to_owned())).collect();
    let wanted = [(3, "turn 3"), (4, "elsewhere"), (5, "on")].map(|(seq, text)| (seq, text.to_owned()));
    assert_eq!(tail, wanted);
    for seq in 1..=5 {
        let mut reader = scene.store.stream(&key("third"), Start::Seq(seq)).unwrap();
        let Some(LogItem::Entry(entry)) = reader.next().unwrap() else { panic!("nothing at {seq}") };
        assert_eq!(entry.seq, seq);
    }
    let beyond = scene.store.fork(&work, Some(7), &key("x"));
    assert!(matches!(beyond, Err(Error::NoSuchRecord { last: Some(6), .. })), "{beyond:?}");
    assert!(matches!(scene.store.fork(&work, Some(0), &key("x")), Err(Error::NoSuchRecord { .. })));
    assert!(matches!(
        scene.store.fork(&work, None, &key("branch")),
        Err(Error::Store(StoreError::InTheWay { .. }))
    ));
}

#[test]
fn a_forks_parent_is_found_wherever_it_is() {
    let scene = Scene::new();
    for n in 1..=3 {
        scene.say("work", &format!("turn {n}"));
    }
    scene.store.fork(&scene.live("work"), Some(2), &key("branch")).unwrap();
    scene.say("branch", "mine");
    let branch = scene.live("branch");
    let check = |what: &str| assert_eq!(scene.texts(&branch), ["turn 1", "turn 2", "mine"], "{what}");
    check("live");
    let archived = scene.archive("work");
    check("archived");
    let trashed = scene.store.delete(&archived).unwrap();
    check("deleted");
    scene.say("work", "another session of that key");
    check("with another in its place");
    assert!(scene.store.verify(&branch, &mut |_, _| {}).unwrap().is_sound());

    let purged = scene.store.purge(&[trashed], false).unwrap();
    assert_eq!(purged.forks, std::slice::from_ref(&branch), "whoever still holds a part is named");
    check("purged");
    assert!(scene.store.verify(&branch, &mut |_, _| {}).unwrap().is_sound());
    assert_eq!(scene.live("branch").id, branch.id);
    assert_eq!(scene.say("branch", "more"), 4);
    assert_eq!(scene.grep("turn 3"), Vec::<String>::new(), "what the fork did not share is gone");
}

#[test]
fn a_purge_in_the_middle_of_a_line_of_forks_keeps_what_the_others_need() {
    for with_forks in [false, true] {
        let scene = Scene::new();
        for n in 1..=2 {
            scene.say("a", &format!("a{n}"));
        }
        scene.store.fork(&scene.live("a"), None, &key("b")).unwrap();
        scene.say("b", "b3");
        scene.store.fork(&scene.live("b"), None, &key("c")).unwrap();
        scene.say("c", "c4");
        let archived = scene.archive("c");
        scene.store.fork(&scene.live("a"), Some(1), &key("d")).unwrap();
        let purged = scene.store.purge(&[scene.live("b")], with_forks).unwrap();
        assert_eq!(purged.removed.len(), if with_forks { 2 } else { 1 });
        assert_eq!(scene.texts(&scene.live("a")), ["a1", "a2"]);
        assert_eq!(scene.texts(&scene.live("d")), ["a1"]);
        if with_forks {
            // With its quotes: an id or a checksum may hold the bare letters.
            assert_eq!(scene.grep("\"c4\""), Vec::<String>::new());
            continue;
        }
        assert_eq!(scene.texts(&archived), ["a1", "a2", "b3", "c4"]);
        assert!(scene.store.verify(&archived, &mut |_, _| {}).unwrap().is_sound());
        scene.store.purge(&[scene.live("a")], false).unwrap();
        assert_eq!(scene.texts(&archived), ["a1", "a2", "b3", "c4"]);
        assert_eq!(scene.texts(&scene.live("d")), ["a1"]);
    }
}

#[test]
fn a_fork_whose_parent_is_gone_or_another_says_so_and_shows_the_rest() {
    let scene = Scene::new();
    for n in 1..=3 {
        scene.say("work", &format!("turn {n}"));
    }
    let work = scene.live("work");
    scene.store.fork(&work, Some(2), &key("branch")).unwrap();
    scene.say("branch", "mine");
    let branch = scene.live("branch");
    let path = scene.home.path().join("sessions/work.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(scene.read(&branch), (vec![(3, "mine".to_owned())], 1));
    assert!(!scene.store.verify(&branch, &mut |_, _| {}).unwrap().is_sound());
    // Cut before the shared record: as if an unsynced tail had been lost.
    let cut: String = whole.lines().take(2).flat_map(|line| [line, "\n"]).collect();
    fs::write(&path, cut).unwrap();
    let (turns, damage) = scene.read(&branch);
    assert_eq!((turns.len(), damage), (2, 1));
    // The number was used again by another record.
    scene.say("work", "another second turn");
    let (turns, damage) = scene.read(&branch);
    assert_eq!((turns, damage), (vec![(1, "turn 1".into()), (3, "mine".into())], 1));
    assert!(!scene.store.verify(&branch, &mut |_, _| {}).unwrap().is_sound());
    fs::write(&path, whole).unwrap();
    assert_eq!(scene.texts(&branch), ["turn 1", "turn 2", "mine"]);
}

#[test]
fn a_fork_of_a_damaged_record_gets_no_record_that_it_did_not_share() {
    let scene = Scene::new();
    for n in 1..=4 {
        scene.say("work", &format!("turn {n}"));
    }
    scene.store.fork(&scene.live("work"), Some(2), &key("branch")).unwrap();
    scene.say("branch", "mine");
    let path = scene.home.path().join("sessions/work.jsonl");
    let bad = fs::read_to_string(&path).unwrap().replace("turn 2", "turn X");
    fs::write(&path, bad).unwrap();
    scene.store.purge(&[scene.live("work")], false).unwrap();
    let (turns, damage) = scene.read(&scene.live("branch"));
    assert_eq!((turns, damage), (vec![(1, "turn 1".into()), (3, "mine".into())], 1));
}

/// An address made of a key alone is as good as one from a list.
#[test]
fn a_purge_by_key_alone_takes_nothing_from_forks() {
    for with_forks in [false, true] {
        let scene = Scene::new();
        scene.say("work", "one");
        scene.say("work", "two");
        scene.store.fork(&StreamId::live(&key("work")), None, &key("branch")).unwrap();
        scene.say("branch", "three");
        let branch = scene.live("branch");
        let purged = scene.store.purge(&[StreamId::live(&key("work"))], with_forks).unwrap();
        assert_eq!((purged.removed.len(), purged.forks.len()), if with_forks { (2, 0) } else { (1, 1) });
        if !with_forks {
            assert_eq!(scene.texts(&branch), ["one", "two", "three"]);
        }
    }
}

/// Records copied into a fork by a purge that was interrupted are known to the next purge.
#[test]
fn a_purge_that_was_interrupted_still_knows_who_holds_a_copy() {
    let scene = Scene::new();
    scene.say("work", "the secret");
    let work = scene.live("work");
    for fork in ["first", "second"] {
        scene.store.fork(&work, None, &key(fork)).unwrap();
    }
    let hasty = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    let hasty = Store::open_with(scene.home.path(), hasty).unwrap();
    let held = scene.store.session(&key("second")).unwrap();
    assert!(hasty.purge(std::slice::from_ref(&work), false).is_err(), "one of its forks is being written");
    drop(held);
    assert_eq!(scene.texts(&scene.live("first")), ["the secret"]);
    let purged = scene.store.purge(std::slice::from_ref(&work), false).unwrap();
    assert_eq!(purged.forks.len(), 2, "both are named: {purged:?}");
    let purged = scene.store.purge(&[scene.live("second")], true).unwrap();
    assert_eq!(purged.removed.len(), 1, "they are no longer kin of each other");
    assert_eq!(scene.grep("the secret"), ["first.jsonl"]);
}

#[test]
fn a_session_that_does_not_exist_yet_can_be_waited_for() {
    let scene = Scene::new();
    let mut reader = scene.store.stream(&key("late"), Start::First).unwrap();
    assert!(!reader.advance().unwrap());
    assert_eq!(reader.wait(Duration::from_millis(1)).unwrap(), Growth::Nothing);
    scene.say("late", "here");
    assert_eq!(reader.wait(Duration::from_mins(1)).unwrap(), Growth::More);
    let mut seqs = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let LogItem::Entry(entry) = item else { panic!("{item:?}") };
        seqs.push(entry.seq);
    }
    assert_eq!(seqs, [0, 1]);
    scene.say("late", "and more");
    assert_eq!(reader.wait(Duration::from_mins(1)).unwrap(), Growth::More);
    assert!(matches!(reader.next().unwrap(), Some(LogItem::Entry(entry)) if entry.seq == 2));
}

#[test]
fn a_turn_has_every_member_once_and_its_text_last() {
    let body = manent::Body::from(
        turn("user", "x")
            .string("m", "1")
            .string("content", "y")
            .string("m", "2")
            .string("seq", "9")
            .string("ts", "T"),
    );
    assert_eq!(body.as_str(), r#""ts":"T","role":"user","m":"2","content":"y""#);
}

/// Parts of a key that hold the sign by which other stores join them.
#[test]
fn parts_of_a_key_are_kept_apart_in_the_header_and_make_two_sessions() {
    let scene = Scene::new();
    let parts = |channel: &str, sender: &str| KeyParts {
        channel: channel.into(),
        sender: Some(sender.into()),
        ..KeyParts::default()
    };
    let pairs = [parts("x", "y_z"), parts("x_y", "z"), parts("x:y", "z"), parts("x", "y:z")];
    for pair in &pairs {
        assert_eq!(
            scene.store.append(&pair.key().unwrap(), turn("user", "mine")).unwrap().seq,
            1,
            "{pair:?}"
        );
    }
    assert_eq!(scene.store.list(Place::Live).unwrap().len(), pairs.len());
    for pair in &pairs {
        let reader = scene.store.stream(&pair.key().unwrap(), Start::Header).unwrap();
        assert_eq!(reader.meta().unwrap().parts.as_ref(), Some(pair));
    }
    // Typed as text, it is the same session.
    assert_eq!(scene.say("x:y_z", "typed"), 2);
}

#[test]
fn what_a_dead_mover_left_half_written_goes_with_the_next_archive() {
    let scene = Scene::new();
    scene.say("work", "one");
    let archived = scene.archive("work");
    let leftover = scene.home.path().join("archive/.01a1e14d-2382.0123.tmp");
    fs::write(&leftover, "half").unwrap();
    scene.store.unarchive(&archived).unwrap();
    assert!(!leftover.exists());
    fs::write(&leftover, "half").unwrap();
    let archived = scene.archive("work");
    assert!(!leftover.exists());
    assert_eq!(scene.store.load_at(&archived).unwrap().len(), 1);
}
