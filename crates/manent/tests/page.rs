//! A first page of a store of thousands, shown before every stream was looked at: what our own programs wrote is on it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "the test writes as another program does")]

use std::path::Path;

use manent::{Durability, Expect, Listing, Place, SessionKey, Store, StreamId, turn};

fn key(name: &str) -> SessionKey {
    SessionKey::new(name).unwrap()
}

fn say(store: &Store, session: &str, text: &str) {
    let bodies = [turn("user", text).into()];
    store.append_with(&key(session), &bodies, Durability::Flush, Expect::Any).unwrap();
}

/// A store of thousands, with its catalogue on the disk.
fn large(home: &Path) -> Listing {
    let store = Store::open(home).unwrap();
    for number in 0..SESSIONS {
        say(&store, &format!("session-{number}"), "a few words, enough for a title of some length");
    }
    store.sessions(Place::Live, None, PAGE).unwrap()
}

fn names(listing: &Listing) -> Vec<&str> {
    listing.sessions.iter().map(|session| session.id.key.as_str()).collect()
}

#[test]
fn what_our_programs_wrote_is_on_the_page_at_once() {
    let home = tempfile::tempdir().unwrap();
    let looked = large(home.path());
    let at_once =
        Store::open(home.path()).unwrap().sessions_at_once(None, PAGE).unwrap().expect("a large store");
    assert_eq!(at_once.sessions, looked.sessions);
    assert_eq!(at_once.total, SESSIONS);
    assert!(at_once.as_of_ms.is_some_and(|ms| ms > 0), "it says how old it is");

    let writer = Store::open(home.path()).unwrap();
    say(&writer, "session-7", "again");
    say(&writer, "brand-new", "hello");
    writer.fork(&StreamId::live(&key("session-9")), None, &key("a-fork")).unwrap();
    let at_once =
        Store::open(home.path()).unwrap().sessions_at_once(None, PAGE).unwrap().expect("a large store");
    let looked = Store::open(home.path()).unwrap().sessions(Place::Live, None, PAGE).unwrap();
    assert_eq!(at_once.sessions, looked.sessions);
    assert_eq!(at_once.total, SESSIONS + 2);
    let newest = &names(&at_once)[..3];
    assert!(["session-7", "brand-new", "a-fork"].iter().all(|name| newest.contains(name)), "{newest:?}");
    let again = at_once.sessions.iter().find(|session| session.id.key == key("session-7")).unwrap();
    assert_eq!(again.turns, 2);
}

#[test]
fn what_is_gone_or_was_changed_by_another_program_is_not_shown_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let looked = large(home.path());
    let first = looked.sessions[0].id.key.clone();
    Store::open(home.path()).unwrap().archive(&StreamId::live(&first), &mut |_, _| {}).unwrap();
    let store = Store::open(home.path()).unwrap();
    if let Some(page) = store.sessions_at_once(None, PAGE).unwrap() {
        assert!(!names(&page).contains(&first.as_str()), "it was archived");
    }
    let looked = store.sessions(Place::Live, None, PAGE).unwrap();
    assert!(!names(&looked).contains(&first.as_str()));

    let second = &looked.sessions[0].id.key;
    let path = home.path().join("sessions").join(second.file_name());
    let line = "{\"role\":\"user\",\"content\":\"from elsewhere\"}\n";
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str(line);
    std::fs::write(&path, text).unwrap();
    let store = Store::open(home.path()).unwrap();
    let page = store.sessions_at_once(None, PAGE).unwrap();
    assert_eq!(page, None, "what is on the page changed: everything is looked at");
    assert_eq!(store.sessions(Place::Live, None, 1).unwrap().sessions[0].turns, 2);
}

#[test]
fn a_store_of_ordinary_size_is_looked_at_as_a_whole() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    say(&store, "only", "one");
    store.sessions(Place::Live, None, PAGE).unwrap();
    assert_eq!(store.sessions_at_once(None, PAGE).unwrap(), None);
    assert!(!home.path().join("index/news").exists(), "and nobody notes what they write");
}

const SESSIONS: usize = 4000;
const PAGE: usize = 20;
