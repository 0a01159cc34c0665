//! Stores as nobody would make them on purpose, one by one.

use std::fs;
use std::path::{Path, PathBuf};

use manent::log::frame;
use manent::{Body, Durability, Expect, Place, Query, Store, StreamId, turn};

use super::check::{Like, check, same};
use super::oracle::{Ask, Truth};
use super::without_index::fresh;
use super::{NOW_MS, key};

fn scene() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

fn sessions(home: &Path) -> PathBuf {
    home.join("sessions")
}

fn say(store: &Store, session: &str, text: &str) -> u64 {
    let body = turn("user", text).into();
    store.append_with(&key(session), &[body], Durability::Flush, Expect::Any).unwrap()[0].seq
}

/// Whoever is asked answers what the logs say: this store, one that is opened now, and one without an index.
#[track_caller]
fn expect_right(home: &Path, store: &Store, asks: &[Ask]) {
    let bare = fresh(home);
    let truth = Truth::of(&bare).unwrap();
    for ask in asks {
        let here = check(store, &truth, ask).unwrap_or_else(|what| panic!("{what}"));
        for other in [&Store::open(home).unwrap(), &bare] {
            let there = check(other, &truth, ask).unwrap_or_else(|what| panic!("another: {what}"));
            same(&here, &there, Like::Exactly).unwrap_or_else(|what| panic!("{:?}: {what}", ask.text()));
        }
    }
}

fn words(words: &[&str]) -> Vec<Ask> {
    words.iter().map(|word| Ask::word(word)).collect()
}

/// A role has no name in a segment that has too many of them.
#[test]
fn any_number_of_roles_can_be_asked_for() {
    let (dir, store) = scene();
    let turns: Vec<Body> =
        (0..600).map(|n| turn(&format!("r{}", n % 300), format!("word w{n}")).into()).collect();
    for part in turns.chunks(200) {
        store.append_with(&key("crowd"), part, Durability::Flush, Expect::Any).unwrap();
        // A segment for each.
        Store::open(dir.path()).unwrap().reindex(&mut |_, _| {}).unwrap();
        store.search(&Query::parse("word", NOW_MS).unwrap(), 1).unwrap();
    }
    let mut asks = Vec::new();
    for n in [0, 254, 255, 256, 299] {
        let roles = vec![format!("r{n}")];
        asks.push(Ask { roles: roles.clone(), ..Ask::default() });
        asks.push(Ask { roles: roles.clone(), ..Ask::word("word") });
        asks.push(Ask { not_roles: roles, ..Ask::word("word") });
    }
    expect_right(dir.path(), &store, &asks);
}

#[test]
fn a_turn_of_the_far_future_or_past_is_found() {
    let (dir, store) = scene();
    for ts in ["2200-01-01T00:00:00Z", "9999-12-30T00:00:00Z", "2026-11-01T00:00:00Z", "1950-01-01T00:00:00Z"]
    {
        let body: Body = turn("user", "time").string("ts", ts).into();
        store.append_with(&key("times"), &[body], Durability::Flush, Expect::Any).unwrap();
    }
    let ask = |since, until| Ask { since, until, ..Ask::word("time") };
    let second = 1_700_000_000;
    expect_right(dir.path(), &store, &[ask(None, None), ask(Some(second), None), ask(None, Some(second))]);
}

/// A file that was emptied is gone; nothing but its length tells when it is one again.
#[test]
fn a_file_that_was_emptied_and_written_again_is_found() {
    let (dir, store) = scene();
    let path = sessions(dir.path()).join("foreign.jsonl");
    say(&store, "work", "alpha");
    fs::write(&path, "{\"role\":\"user\",\"content\":\"alpha bravo\"}\n").unwrap();
    let asks = words(&["alpha", "bravo", "charlie"]);
    expect_right(dir.path(), &store, &asks);
    // Longer than any disk's clock takes from tick to tick, so that the directory counts as quiet.
    std::thread::sleep(std::time::Duration::from_millis(30));
    expect_right(dir.path(), &store, &asks);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    expect_right(dir.path(), &Store::open(dir.path()).unwrap(), &asks);
    expect_right(dir.path(), &store, &asks);
    let line = "{\"role\":\"user\",\"content\":\"alpha charlie\"}\n";
    std::io::Write::write_all(&mut fs::OpenOptions::new().append(true).open(&path).unwrap(), line.as_bytes())
        .unwrap();
    expect_right(dir.path(), &Store::open(dir.path()).unwrap(), &asks);
    expect_right(dir.path(), &store, &asks);
}

/// Somebody put a session into the archive and into the trash at once.
#[test]
fn a_session_that_was_copied_as_it_was_moved_is_found_once() {
    for (archive, trash) in [("archive", "trash"), ("trash", "archive")] {
        let (dir, store) = scene();
        say(&store, "work", "alpha");
        say(&store, "other", "alpha");
        expect_right(dir.path(), &store, &words(&["alpha"]));
        let id = store.find(&key("work")).unwrap().id.id;
        let path = sessions(dir.path()).join("work.jsonl");
        for place in [archive, trash] {
            fs::create_dir_all(dir.path().join(place)).unwrap();
            fs::copy(&path, dir.path().join(place).join(format!("work.{id}.jsonl"))).unwrap();
        }
        fs::remove_file(&path).unwrap();
        expect_right(dir.path(), &store, &words(&["alpha"]));
    }
}

/// A record rots, and its session grows before anybody looks: that it is lost is noticed when it is to be shown, and
/// what comes after it is shown in its place.
#[test]
fn a_record_that_rotted_unnoticed_takes_nobodys_place() {
    let (dir, store) = scene();
    for text in ["alpha", "alpha bravo charlie", "alpha and so many other words that this comes last"] {
        say(&store, "work", text);
    }
    // So far behind it that nobody who goes on from the end comes across it.
    for n in 0..9 {
        say(&store, "work", &format!("n{n}"));
    }
    say(&store, "other", "alpha bravo charlie delta");
    expect_right(dir.path(), &store, &words(&["alpha"]));
    let path = sessions(dir.path()).join("work.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"alpha\"", "\"alphX\"", 1)).unwrap();
    say(&Store::open(dir.path()).unwrap(), "work", "delta");
    let truth = Truth::of(&fresh(dir.path())).unwrap();
    for store in [&Store::open(dir.path()).unwrap(), &store] {
        let few = super::check::search(store, &Ask::word("alpha"), 1).unwrap();
        assert_eq!(few.hits.len(), 1, "the next best");
        check(store, &truth, &Ask::word("alpha")).unwrap();
    }
    expect_right(dir.path(), &store, &words(&["alpha", "delta"]));
}

/// A fork shows the records of its parent as its own, also when that is in the trash.
#[test]
fn what_a_fork_shows_of_a_parent_in_the_trash_is_found() {
    let (dir, store) = scene();
    for text in ["alpha", "bravo", "charlie", "delta"] {
        say(&store, "work", text);
    }
    let fork = |from: &str, upto: u64, to: &str| {
        let at = store.find(&key(from)).unwrap().id;
        store.fork(&at, Some(upto), &key(to)).unwrap();
        say(&store, to, "echo");
    };
    fork("work", 3, "branch");
    fork("branch", 4, "twig");
    let trash = |name: &str| {
        store.delete(&store.find(&key(name)).unwrap().id).unwrap();
        expect_right(dir.path(), &store, &words(&["alpha", "charlie", "delta", "echo"]));
        let of_key = Ask { sessions: vec!["work".to_owned()], ..Ask::word("bravo") };
        expect_right(dir.path(), &store, &[of_key]);
        let found = store.search(&Query::parse("charlie", NOW_MS).unwrap(), 9).unwrap();
        found.hits.iter().map(|hit| (hit.id.place, hit.seq)).collect::<Vec<_>>()
    };
    assert_eq!(trash("work"), [(Place::Trash, 3)], "both forks show it");
    assert_eq!(trash("branch"), [(Place::Trash, 3)], "one still does");
    assert_eq!(trash("twig"), [], "nobody does");
}

/// A crash in the middle of an archive leaves a copy, which counts as soon as the live one is gone.
#[test]
fn a_copy_counts_when_the_live_one_is_gone() {
    let (dir, store) = scene();
    say(&store, "work", "alpha");
    say(&store, "other", "alpha");
    let id = store.find(&key("work")).unwrap().id.id;
    let path = sessions(dir.path()).join("work.jsonl");
    fs::create_dir_all(dir.path().join("archive")).unwrap();
    fs::copy(&path, dir.path().join("archive").join(format!("work.{id}.jsonl"))).unwrap();
    for _ in 0..3 {
        expect_right(dir.path(), &store, &words(&["alpha"]));
    }
    fs::remove_file(&path).unwrap();
    expect_right(dir.path(), &store, &words(&["alpha"]));
}

/// Another program's name for a key, and ours: both files are sessions of one key.
#[test]
fn two_files_of_one_key_are_told_apart_or_named() {
    let (dir, store) = scene();
    say(&store, "telegram:alice", "alpha ours");
    let plain = sessions(dir.path()).join("telegram:alice.jsonl");
    fs::write(plain, "{\"role\":\"user\",\"content\":\"alpha theirs\"}\n".repeat(2)).unwrap();
    let found = store.search(&Query::parse("alpha", NOW_MS).unwrap(), 10).unwrap();
    // What is shown can be read there: nothing is found in a session that an address does not lead to.
    for hit in &found.hits {
        let mut records = store.read(&hit.id, manent::Start::Seq(hit.seq)).unwrap();
        let Some(manent::LogItem::Entry(entry)) = records.next().unwrap() else { panic!("{hit:?}") };
        let text = manent::Record::of(&entry).unwrap().content().into_owned();
        assert_eq!(text, hit.snippet.text, "{hit:?}");
    }
    let mut spots: Vec<_> = found.hits.iter().map(|hit| (hit.id.clone(), hit.seq)).collect();
    spots.sort_by_key(|(at, seq)| (at.id.clone(), *seq));
    spots.dedup();
    assert_eq!(spots.len(), found.hits.len(), "found twice: {:?}", found.hits);
}

/// The index is a file: it cannot be kept, and nothing else is wrong.
#[test]
fn a_store_whose_index_cannot_be_kept_does_everything() {
    let (dir, store) = scene();
    say(&store, "work", "alpha");
    let index = dir.path().join("index");
    fs::write(&index, "a file").unwrap();
    for _ in 0..2 {
        expect_right(dir.path(), &store, &words(&["alpha"]));
    }
    say(&store, "gone", "alpha bravo");
    let at = store.find(&key("gone")).unwrap().id;
    store.purge(&[at], false).unwrap();
    expect_right(dir.path(), &store, &words(&["alpha", "bravo"]));
    let state = store.index_state().unwrap();
    assert!(state.broken.is_some(), "{state:?}");
    assert_eq!(fs::read_to_string(&index).unwrap(), "a file", "whatever it is, it is not ours");
    store.repair(&key("work")).unwrap();
    store.verify(&StreamId::live(&key("work")), &mut |_, _| {}).unwrap();
    assert_eq!(store.sessions(Place::Live, None, 5).unwrap().total, 1);
}

/// The target of a symbolic link belongs to somebody else.
#[test]
fn a_link_in_place_of_the_index_is_not_followed() {
    let (dir, store) = scene();
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["catalogue", "a.words", "b.tmp", "news"] {
        fs::write(elsewhere.path().join(name), name).unwrap();
    }
    say(&store, "work", "alpha");
    say(&store, "gone", "bravo");
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("index")).unwrap();
    expect_right(dir.path(), &store, &words(&["alpha", "bravo"]));
    let _ = store.reindex(&mut |_, _| {});
    let _ = store.purge(&[store.find(&key("gone")).unwrap().id], false);
    expect_right(dir.path(), &store, &words(&["alpha", "bravo"]));
    let mut left: Vec<_> = fs::read_dir(elsewhere.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.words", "b.tmp", "catalogue", "news"], "untouched");
}

/// Under a store that is open, another one takes its place.
#[test]
fn a_store_that_was_replaced_as_a_whole_is_searched_as_it_is_now() {
    for outer in ["", "outer"] {
        let top = tempfile::tempdir().unwrap();
        let (now, next) = (top.path().join("now").join(outer), top.path().join("next").join(outer));
        let other = Store::open(&next).unwrap();
        say(&other, "work", "charlie");
        let store = Store::open(&now).unwrap();
        say(&store, "work", "alpha");
        for _ in 0..3 {
            expect_right(&now, &store, &words(&["charlie", "alpha"]));
        }
        fs::rename(top.path().join("now"), top.path().join("old")).unwrap();
        fs::rename(top.path().join("next"), top.path().join("now")).unwrap();
        expect_right(&now, &store, &words(&["charlie", "alpha"]));
    }
}

/// A store that is reached through a link, which then leads elsewhere.
#[test]
fn a_store_behind_a_link_that_changes_is_searched_as_it_is_now() {
    let top = tempfile::tempdir().unwrap();
    for (name, text) in [("a", "alpha"), ("b", "charlie")] {
        say(&Store::open(top.path().join(name)).unwrap(), "work", text);
    }
    let link = top.path().join("link");
    std::os::unix::fs::symlink("a", &link).unwrap();
    let store = Store::open(&link).unwrap();
    for _ in 0..3 {
        expect_right(&link, &store, &words(&["charlie", "alpha"]));
    }
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("b", &link).unwrap();
    expect_right(&link, &store, &words(&["charlie", "alpha"]));
}

/// A file that has another name elsewhere, under which it is written.
#[test]
fn what_is_written_under_another_name_is_found() {
    let (dir, store) = scene();
    let (path, other) = (sessions(dir.path()).join("foreign.jsonl"), dir.path().join("elsewhere"));
    say(&store, "work", "alpha");
    fs::write(&path, "{\"role\":\"user\",\"content\":\"alpha\"}\n").unwrap();
    fs::hard_link(&path, &other).unwrap();
    for _ in 0..3 {
        expect_right(dir.path(), &store, &words(&["alpha", "bravo"]));
    }
    let line = "{\"role\":\"user\",\"content\":\"bravo\"}\n";
    std::io::Write::write_all(
        &mut fs::OpenOptions::new().append(true).open(&other).unwrap(),
        line.as_bytes(),
    )
    .unwrap();
    expect_right(dir.path(), &store, &words(&["alpha", "bravo"]));
}

/// A file of ours that somebody changed in the middle and sealed again, to the same length. If it grew as well before
/// anybody looked, that is not noticed: ours only grow.
#[test]
fn a_record_that_was_rewritten_with_its_checksum_is_found() {
    let (dir, store) = scene();
    for text in ["alpha one", "bravo two", "delta end"] {
        say(&store, "work", text);
    }
    let asks = words(&["gamma", "alpha", "bravo", "delta"]);
    expect_right(dir.path(), &store, &asks);
    // Until the time stamp is settled, so that the file is no longer read just because it changed a moment ago.
    std::thread::sleep(std::time::Duration::from_millis(150));
    expect_right(dir.path(), &store, &asks);
    let path = sessions(dir.path()).join("work.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().find(|line| line.contains("bravo")).unwrap();
    let body = std::str::from_utf8(frame::body_of(line.as_bytes())).unwrap().replace("bravo", "gamma");
    let sealed = String::from_utf8(frame::line(2, &body_of(&body))).unwrap();
    fs::write(&path, text.replace(&format!("{line}\n"), &sealed)).unwrap();
    expect_right(dir.path(), &store, &asks);
}

fn body_of(members: &str) -> Body {
    let mut body = Body::new();
    let record: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&format!("{{{members}}}")).unwrap();
    for name in ["ts", "role", "content"] {
        body.string(name, record[name].as_str().unwrap());
    }
    body
}
