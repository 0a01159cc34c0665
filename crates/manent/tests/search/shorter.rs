//! A log that lost its last records behind the catalogue's back: nothing in it says so, but the catalogue remembers.

use std::fs;
use std::path::PathBuf;

use manent::log::frame::DamageReason;
use manent::{Place, Query, Store, StreamId, turn};

use super::{NOW_MS, key};

struct Scene {
    dir: tempfile::TempDir,
    store: Store,
}

impl Scene {
    /// A session of four turns, which the catalogue has seen.
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let scene = Scene { dir, store };
        for text in ["one", "two", "three", "four"] {
            scene.say("work", text);
        }
        scene.look();
        scene
    }

    fn say(&self, session: &str, text: &str) {
        self.store.append(&key(session), turn("user", text)).unwrap();
    }

    fn open(&self) -> Store {
        Store::open(self.dir.path()).unwrap()
    }

    /// A search, which brings the catalogue up to date.
    fn look(&self) {
        self.open().search(&Query::parse("one", NOW_MS).unwrap(), 10).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("sessions/work.jsonl")
    }

    fn live(&self) -> StreamId {
        self.open().find_in(Place::Live, &key("work")).unwrap().id
    }

    /// Takes the last records away, as a restored backup or a bad disk does.
    fn cut(&self, records: usize) {
        let text = fs::read_to_string(self.path()).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        fs::write(self.path(), lines[..lines.len() - records].concat()).unwrap();
    }
}

/// The number of the last record that a session once had, where it is said to be shorter.
fn shorter(store: &Store, at: &StreamId) -> Vec<u64> {
    let report = store.verify(at, &mut |_, _| {}).unwrap();
    let found = report.damage.iter().filter(|found| found.damage.reason == DamageReason::Shorter);
    found
        .map(|found| {
            assert!(!found.acknowledged);
            found.damage.seq
        })
        .collect()
}

#[test]
fn a_log_that_lost_its_end_is_told_before_and_after_the_catalogue_saw_it() {
    let scene = Scene::new();
    let at = scene.live();
    assert_eq!(shorter(&scene.open(), &at), NONE, "whole");
    let long = fs::metadata(scene.path()).unwrap().len();
    scene.cut(2);
    let short = fs::metadata(scene.path()).unwrap().len();
    let report = scene.open().verify(&at, &mut |_, _| {}).unwrap();
    let damage = report.damage.last().unwrap().damage;
    assert_eq!((damage.reason, damage.seq), (DamageReason::Shorter, 4));
    assert_eq!((damage.offset, damage.length), (short, long - short), "where it ends, and what is not there");
    assert_eq!(shorter(&scene.open(), &StreamId::live(&key("work"))), [4], "by its key alone");
    scene.look();
    assert_eq!(shorter(&scene.open(), &at), [4], "a search in between");
    let listed = scene.open().sessions(Place::Live, None, 1).unwrap().sessions;
    assert_eq!(listed[0].once.map(|(_, seq)| seq), Some(4), "in lists too");
    scene.look();
    assert_eq!(shorter(&scene.open(), &at), [4], "and another");
    assert_eq!(shorter(&scene.store, &at), [4], "whoever had it open knows too");
}

#[test]
fn a_log_that_lost_its_end_and_grew_again_is_told() {
    for looks in [[false, false], [true, false], [false, true], [true, true]] {
        let scene = Scene::new();
        let at = scene.live();
        scene.cut(2);
        if looks[0] {
            scene.look();
        }
        let store = scene.open();
        for text in ["other", "words", "and more", "than before"] {
            store.append(&key("work"), turn("user", text)).unwrap();
        }
        if looks[1] {
            scene.look();
        }
        assert_eq!(shorter(&scene.open(), &at), [4], "{looks:?}");
    }
}

#[test]
fn a_repair_clears_it() {
    for look in [false, true] {
        let scene = Scene::new();
        let at = scene.live();
        scene.cut(1);
        if look {
            scene.look();
        }
        let repaired = scene.open().repair(&key("work")).unwrap();
        assert!(
            repaired.acknowledged.iter().any(|damage| damage.reason == DamageReason::Shorter),
            "{repaired:?}"
        );
        assert_eq!(shorter(&scene.open(), &at), NONE, "acknowledged");
        scene.look();
        assert_eq!(shorter(&scene.open(), &at), NONE, "and stays so");
        // What is lost then is told anew.
        scene.cut(1);
        assert_eq!(shorter(&scene.open(), &at), [3]);
        scene.look();
        assert_eq!(shorter(&scene.open(), &at), [3]);
    }
}

#[test]
fn what_moves_is_not_shorter() {
    let scene = Scene::new();
    let store = scene.open();
    let at = store.archive(&scene.live(), &mut |_, _| {}).unwrap();
    assert_eq!(shorter(&scene.open(), &at), NONE, "archived");
    scene.look();
    assert_eq!(shorter(&scene.open(), &at), NONE, "archived, and seen so");
    let at = store.unarchive(&at).unwrap();
    assert_eq!(shorter(&scene.open(), &at), NONE, "live again");
    scene.say("work", "five");
    let at = store.delete(&at).unwrap();
    assert_eq!(shorter(&scene.open(), &at), NONE, "in the trash");
    scene.look();
    let trashed = store.find_in(Place::Trash, &key("work")).unwrap();
    let at = store.restore(&trashed).unwrap();
    assert_eq!(shorter(&scene.open(), &at), NONE, "restored");
}

/// The next session of a key is another one, however short.
#[test]
fn a_new_session_of_the_same_key_is_not_shorter() {
    for look in [false, true] {
        let scene = Scene::new();
        let archived = scene.open().archive(&scene.live(), &mut |_, _| {}).unwrap();
        let store = scene.open();
        store.append(&key("work"), turn("user", "begun anew")).unwrap();
        if look {
            scene.look();
        }
        assert_eq!(shorter(&scene.open(), &scene.live()), NONE, "look: {look}");
        assert_eq!(
            shorter(&scene.open(), &StreamId::live(&key("work"))),
            NONE,
            "by its key alone, look: {look}"
        );
        assert_eq!(shorter(&scene.open(), &archived), NONE, "the archived one, look: {look}");
    }
}

#[test]
fn a_fork_that_was_given_a_copy_is_not_shorter() {
    let scene = Scene::new();
    let store = scene.open();
    let fork = store.fork(&scene.live(), Some(2), &key("branch")).unwrap().id;
    scene.say("branch", "three, another");
    scene.look();
    store.purge(&[scene.live()], false).unwrap();
    assert_eq!(shorter(&scene.open(), &fork), NONE, "it has all that it had");
    scene.look();
    assert_eq!(shorter(&scene.open(), &fork), NONE);
    scene.say("branch", "four");
    scene.look();
    assert_eq!(shorter(&scene.open(), &fork), NONE);
}

#[test]
fn another_programs_file_may_become_shorter() {
    let scene = Scene::new();
    let path = scene.dir.path().join("sessions/foreign.jsonl");
    let line = "{\"role\":\"user\",\"content\":\"x\"}\n";
    fs::write(&path, line.repeat(3)).unwrap();
    scene.look();
    fs::write(&path, line).unwrap();
    let at = StreamId::live(&key("foreign"));
    assert_eq!(shorter(&scene.open(), &at), NONE);
    scene.look();
    assert_eq!(shorter(&scene.open(), &at), NONE);
    // Not even where we had written to it.
    scene.say("foreign", "ours");
    scene.look();
    fs::write(&path, line).unwrap();
    scene.look();
    assert_eq!(shorter(&scene.open(), &at), NONE);
}

/// A crash tears the last record; what is left of it is set aside by the next append. What was seen behind it is gone.
#[test]
fn tail_that_was_set_aside_is_not_a_loss_and_what_vanished_beside_it_is() {
    for look in [false, true] {
        let scene = Scene::new();
        let at = scene.live();
        let bytes = fs::read(scene.path()).unwrap();
        // Record 4, torn.
        fs::write(scene.path(), &bytes[..bytes.len() - 30]).unwrap();
        assert_eq!(shorter(&scene.open(), &at), NONE, "it is torn, which is named");
        if look {
            scene.look();
        }
        scene.open().append(&key("work"), turn("user", "four again")).unwrap();
        assert_eq!(shorter(&scene.open(), &at), NONE, "it was set aside, look: {look}");
        scene.look();
        assert_eq!(shorter(&scene.open(), &at), NONE, "and seen so, look: {look}");
        // What is lost then is told anew.
        scene.open().append(&key("work"), turn("user", "five")).unwrap();
        scene.look();
        scene.cut(2);
        assert_eq!(shorter(&scene.open(), &at), [5], "lost without a trace, look: {look}");
    }
    // Torn in the third record, so that the fourth is lost as a whole.
    let scene = Scene::new();
    let at = scene.live();
    let bytes = fs::read(scene.path()).unwrap();
    let fourth = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
    fs::write(scene.path(), &bytes[..fourth - 20]).unwrap();
    assert_eq!(shorter(&scene.open(), &at), [4], "torn");
    scene.open().append(&key("work"), turn("user", "three again")).unwrap();
    assert_eq!(shorter(&scene.open(), &at), [4], "set aside");
    scene.look();
    assert_eq!(shorter(&scene.open(), &at), [4], "and seen");
}

/// Several sessions of one key, and one of them lost something.
#[test]
fn the_one_that_lost_something_is_told_and_no_other() {
    let scene = Scene::new();
    let first = scene.open().archive(&scene.live(), &mut |_, _| {}).unwrap();
    scene.say("work", "a second session");
    scene.say("work", "of two turns");
    scene.look();
    let second = scene.live();
    scene.cut(1);
    assert_eq!(shorter(&scene.open(), &second), [2]);
    assert_eq!(shorter(&scene.open(), &first), NONE);
    scene.look();
    let second = scene.open().archive(&second, &mut |_, _| {}).unwrap();
    assert_eq!(shorter(&scene.open(), &second), [2], "archived, and still without its end");
    assert_eq!(shorter(&scene.open(), &first), NONE);
    scene.look();
    assert_eq!(shorter(&scene.open(), &second), [2]);
}

const NONE: [u64; 0] = [];
