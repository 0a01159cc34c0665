//! The store as a program that embeds it sees it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "tests lay files out as other programs do")]

use std::fs;
use std::path::Path;

use manent::backend::Error as StoreError;
use manent::log::{LogItem, RealDisk, verify};
use manent::{Body, Durability, Error, Expect, Place, Reader, SessionKey, Start, Store, turn};

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

fn say(store: &Store, session: &str, text: &str) -> u64 {
    let body = Body::from(turn("user", text));
    store.append_with(&key(session), &[body], Durability::Flush, Expect::Any).unwrap()[0].seq
}

fn texts(store: &Store, session: &str) -> Vec<String> {
    store.load(&key(session)).unwrap().turns().map(|turn| turn.content.to_owned()).collect()
}

/// A file of the first format, as version 0.1.0 wrote it, damage included. It must read like this for ever.
#[test]
fn a_file_of_format_1_opens_for_ever() {
    let home = tempfile::tempdir().unwrap();
    let sessions = home.path().join("sessions");
    fs::create_dir(&sessions).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1.jsonl");
    let path = sessions.join("telegram%3aalice.jsonl");
    fs::copy(&fixture, &path).unwrap();
    let store = Store::open(home.path()).unwrap();
    let alice = key("telegram:alice");

    let transcript = store.load(&alice).unwrap();
    let turns: Vec<_> = transcript.turns().map(|t| (t.seq, t.role, t.content)).collect();
    let expected = [
        (1, "user", "café \"quoted\"\nsecond line \u{2028} \u{1F600}"),
        (2, "assistant", ""),
        (3, "tool", "ok"),
        (4, "user", "another program wrote this"),
    ];
    assert_eq!(turns, expected);
    let tool = transcript.turns().nth(2).unwrap();
    let extra =
        r#""tool_call_id":"c1","name":"read_file","n":0.1000000000000000055,"big":18446744073709551616"#;
    assert_eq!(tool.extra, extra, "other members keep every digit");
    assert_eq!(transcript.damage.len(), 1);

    let report = verify(&RealDisk::shared(), &path).unwrap();
    assert!(report.is_sound(), "the damage was acknowledged: {report:?}");
    assert_eq!((report.records, report.unverified), (7, 1));

    let summary = store.sessions(Place::Live, None, 1).unwrap().sessions.remove(0);
    assert_eq!((summary.title.as_str(), summary.turns), ("Milk and eggs", 4));
    assert_eq!(summary.id.id, "019a87f0-0000-7000-8000-000000000001");

    let before = fs::read(&path).unwrap();
    assert_eq!(say(&store, "telegram:alice", "still here"), 9);
    assert!(fs::read(&path).unwrap().starts_with(&before), "nothing that was there is rewritten");
}

#[test]
fn reopening_goes_on_where_it_stopped_and_writes_no_second_header() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    assert_eq!((say(&store, "a", "one"), say(&store, "a", "two")), (1, 2));
    let text = fs::read_to_string(home.path().join("sessions/a.jsonl")).unwrap();
    assert_eq!(text.matches("\"meta\"").count(), 1);
    assert_eq!(texts(&store, "a"), ["one", "two"]);
    assert!(texts(&store, "never written").is_empty());
}

/// A file renamed by hand would otherwise be two sessions in one, or one under two names.
#[test]
fn a_file_under_another_name_is_refused_and_says_whose_it_is() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    say(&store, "a", "one");
    fs::rename(home.path().join("sessions/a.jsonl"), home.path().join("sessions/b.jsonl")).unwrap();
    let refused = store.session(&key("b"));
    assert!(
        matches!(&refused, Err(Error::Store(StoreError::WrongKey { found, .. })) if found == "a"),
        "{refused:?}"
    );
    assert!(matches!(store.load(&key("b")), Err(Error::Store(StoreError::WrongKey { .. }))));
    let listed = store.list(Place::Live).unwrap();
    assert_eq!(
        (&listed[0].id.key, &listed[0].header_key),
        (&key("b"), &Some(key("a"))),
        "and so does the list"
    );
}

/// Another agent's directory of `{role, content}` files, used where it is.
#[test]
fn a_flat_directory_of_another_program_is_read_and_appended_to_in_place() {
    let home = tempfile::tempdir().unwrap();
    let theirs = "{\"role\":\"user\",\"content\":\"hello\"}\n{\"role\":\"assistant\",\"content\":\"hi\"}";
    fs::write(home.path().join("Telegram:Alice.jsonl"), theirs).unwrap();
    fs::write(home.path().join("notes.txt"), "not a session").unwrap();
    let store = Store::open(home.path()).unwrap();
    let listed: Vec<String> =
        store.list(Place::Live).unwrap().into_iter().map(|l| l.id.key.to_string()).collect();
    assert_eq!(listed, ["Telegram:Alice"]);
    assert_eq!(say(&store, "Telegram:Alice", "from us"), 3);
    assert_eq!(texts(&store, "Telegram:Alice"), ["hello", "hi", "from us"]);

    let text = fs::read_to_string(home.path().join("Telegram:Alice.jsonl")).unwrap();
    assert!(text.starts_with(theirs), "no header was added");
    // As the program that wrote it reads: one object a line, role and content, anything else ignored.
    let read: Vec<String> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["content"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(read, ["hello", "hi", "from us"]);
}

#[test]
fn the_tail_and_the_middle_of_a_session_are_found() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap();
    let mut session = store.session(&key("a")).unwrap();
    for n in 1..=500 {
        let text = format!("{n} {}", "x".repeat(n * 7 % 3000));
        let body = Body::from(turn("user", text));
        session.append_with(&[body], Durability::Flush, Expect::Seq(n as u64)).unwrap();
    }
    let first_seq = |mut reader: Reader| match reader.next().unwrap() {
        Some(LogItem::Entry(entry)) => entry.seq,
        other => panic!("{other:?}"),
    };
    for n in [1, 2, 50, 499, 500] {
        assert_eq!(
            first_seq(store.stream(&key("a"), Start::Tail { count: n, before: None }).unwrap()),
            501 - n
        );
        assert_eq!(first_seq(store.stream(&key("a"), Start::Seq(n)).unwrap()), n);
    }
    assert!(store.stream(&key("a"), Start::Seq(501)).unwrap().next().unwrap().is_none());
}
