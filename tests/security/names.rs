//! Hostile keys and titles through a whole life: archived, listed, shown by id, deleted, restored, forked, purged. They
//! stay in the store, apart from each other, and away from the terminal.

use std::collections::BTreeMap;

use serde_json::Value;

use super::keys::{everything_under, hostile_keys};
use super::terminal::{HOSTILE, assert_harmless};
use crate::support::machine::{self, Nobody};
use crate::support::{TestEnvironment, records};

/// The ids of a place by key.
fn ids(env: &TestEnvironment, place: &str) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listed = env.listed(place);
    let ids: BTreeMap<_, _> = listed.iter().map(|row| (text(&row["key"]), text(&row["id"]))).collect();
    assert_eq!(ids.len(), listed.len(), "each key once");
    ids
}

/// All of them in one command, which keeps them apart.
fn all<'a>(command: &'a [&'a str], keys: &'a [String]) -> Vec<&'a str> {
    let mut args = command.to_vec();
    args.push("--");
    args.extend(keys.iter().map(String::as_str));
    args
}

#[test]
fn hostile_keys_live_a_whole_life_in_the_store() {
    let env = TestEnvironment::new();
    let mut keys = hostile_keys();
    keys.sort();
    for (n, key) in keys.iter().enumerate() {
        env.append(key, &format!("number {n}"));
    }
    let files = env.tree();
    let assert_place = |place: &str| {
        let ids = ids(&env, place);
        assert_eq!(
            ids.keys().collect::<Vec<_>>(),
            keys.iter().collect::<Vec<_>>(),
            "{place}: under their own names"
        );
        let counts = env.counts();
        assert_eq!(counts.iter().sum::<usize>(), keys.len(), "{place}: {counts:?}");
        let mut names: Vec<String> = env.tree().into_keys().map(|name| name.to_ascii_lowercase()).collect();
        names.dedup();
        assert_eq!(names.len(), keys.len(), "{place}: a file for each, also where case is ignored");
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(env.said(&format!("@{}", ids[key])), [format!("number {n}")], "{place}: {key:?}");
        }
    };
    env.done(&all(&["archive"], &keys));
    assert_place("archived");
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(env.said(key), [format!("number {n}")], "{key:?}");
    }
    env.done(&all(&["unarchive"], &keys));
    assert!(env.tree() == files, "byte for byte, and under the same names");
    env.done(&all(&["rm"], &keys));
    assert_place("trash");
    env.done(&all(&["restore"], &keys));
    assert!(env.tree() == files, "byte for byte, and under the same names");
    // From the archive to the trash and back.
    env.done(&all(&["archive"], &keys));
    env.done(&all(&["rm"], &keys));
    env.done(&all(&["restore"], &keys));
    assert_place("archived");
    env.done(&all(&["unarchive"], &keys));

    let mut found = Vec::new();
    everything_under(env.root(), &mut found);
    assert!(found.iter().all(|path| path.starts_with(env.home())), "made outside of the store: {found:?}");
    env.done(&all(&["rm", "--purge"], &keys));
    assert_eq!(env.tree().len(), 0, "{:?}", env.tree().keys());
}

#[test]
fn hostile_keys_are_forked_and_titled() {
    let env = TestEnvironment::new();
    for (n, key) in hostile_keys().iter().enumerate() {
        env.append(key, "one");
        let fork = format!("fork {n}");
        env.done(&["fork", "--", key, &fork]);
        env.done(&["title", "--", key, key]);
        env.done(&["archive", "--", key]);
        assert_eq!(env.said(&fork), ["one"], "{key:?}");
        env.done(&["fork", "--", &fork, key]);
        assert_eq!(env.said(key), ["one"], "{key:?}: the live one, a fork of a fork of the archived one");
        env.manent(&["verify", "--", key, &fork]).assert_code(0);
        env.done(&["rm", "--purge", "--with-forks", "--", key]);
    }
    assert_eq!(env.tree().len(), 0, "{:?}", env.tree().keys());
}

/// Root may write anywhere; an ordinary user shows that nothing but the store was needed.
#[test]
fn an_ordinary_user_needs_no_more_than_the_store() {
    let Some(nobody) = Nobody::new() else {
        return machine::skip("an_ordinary_user_needs_no_more", "only root can become another user");
    };
    for key in ["../x", "/etc/passwd", "..", "CON", "-rf", "%2e%2e%2fx", "\u{e9}", &"x".repeat(1024)] {
        nobody.manent(&["append", "--", key, "one"]).assert_code(0);
        for command in ["archive", "unarchive", "rm", "restore"] {
            nobody.manent(&[command, "--", key]).assert_code(0);
        }
        nobody.manent(&["fork", "--", key, "fork"]).assert_code(0);
        nobody.manent(&["rm", "--purge", "--", key]).assert_code(0);
        assert_eq!(nobody.manent(&["show", "--raw", "fork"]).stdout(), "one\n");
        nobody.manent(&["rm", "--purge", "fork"]).assert_code(0);
        assert_eq!(nobody.env.tree().len(), 0, "{key:?}");
    }
}

#[test]
fn keys_and_titles_do_not_drive_the_terminal() {
    let env = TestEnvironment::new();
    let key = format!("key {}", HOSTILE.join("").replace('\0', ""));
    let title = HOSTILE.join("|").replace('\0', "");
    let (key, title) = (key.as_str(), title.as_str());
    env.append(key, "one");
    assert_harmless(&env, &["title", "--", key, title]);
    assert_harmless(&env, &["sessions"]);
    assert_harmless(&env, &["fork", "-v", "--", key]);
    assert_harmless(&env, &["fork", "--json", "--", key]);
    assert_harmless(&env, &["archive", "--", key]);
    for args in [&["sessions", "--archived"][..], &["verify"], &["sessions", "--archived", "--json"]] {
        assert_harmless(&env, args);
    }
    assert_harmless(&env, &["show", "-f", "--", key]);
    assert_harmless(&env, &["title", "--", key, title]);
    assert_harmless(&env, &["restore", "--", key]);
    assert_harmless(&env, &["unarchive", "--", key]);
    assert_harmless(&env, &["rm", "--", key]);
    assert_harmless(&env, &["sessions", "--trash"]);
    assert_harmless(&env, &["verify"]);
    assert_harmless(&env, &["restore", "--", key]);
    env.append(key, "in the way");
    assert_harmless(&env, &["restore", "--", key]);
    assert_harmless(&env, &["unarchive", "--", key]);
    assert_harmless(&env, &["fork", "--", key, key]);
    assert_harmless(&env, &["fork", "--at", "99", "--", key]);
    // The forks are named.
    assert_harmless(&env, &["rm", "--purge", "--", key]);
    assert_harmless(&env, &["rm", "--", key]);
    assert_harmless(&env, &["man", key]);
    assert_harmless(&env, &["completions", key]);
}

/// An id is read from a header that anybody may have written.
#[test]
fn an_id_does_not_drive_the_terminal() {
    let env = TestEnvironment::new();
    let id = serde_json::to_string(&HOSTILE.join("").replace('\0', "")).unwrap();
    let meta = format!(r#""seq":0,"ts":"{}","meta":{{"format":1,"id":{id},"key":"a"}}"#, records::TS);
    env.plant("a", records::file(&[records::sealed(&meta), records::turn(1, "one")]));
    for args in [
        &["sessions"][..],
        &["fork", "a"],
        &["verify", "--json"],
        &["append", "a", "two", "--json"],
        &["archive", "a"],
        &["sessions", "--archived"],
        &["unarchive", "a"],
        &["rm", "a"],
        &["restore", "a"],
        &["rm", "--purge", "a"],
    ] {
        assert_harmless(&env, args);
    }
}
