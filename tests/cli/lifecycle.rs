//! Archive, unarchive, delete, restore and title, as people and scripts meet them: what is said, what is there
//! afterwards, and that every byte comes back.

use crate::support::environment::names_in;
use crate::support::{TestEnvironment, records};

/// A session of two turns.
fn work() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant("work", records::session("work", &["remember the milk", "and the eggs"]));
    env
}

#[test]
fn a_mistyped_command_touches_nothing() {
    let env = work();
    let before = env.tree();
    let wrong: [&[&str]; 12] = [
        &["archive"],
        &["unarchive"],
        &["rm"],
        &["restore"],
        &["fork"],
        &["title", "work"],
        &["archive", "work", ""],
        &["rm", "work", &"x".repeat(1025)],
        &["rm", "--with-forks", "work"],
        &["fork", "work", ""],
        &["fork", "work", "--at", "-1"],
        &["sessions", "--archived", "--trash"],
    ];
    for args in wrong {
        let output = env.manent(args);
        output.assert_fails(2, &[]);
        assert!(output.stdout_bytes.is_empty(), "{output}");
    }
    assert_eq!(env.tree(), before, "not even the sessions that were named rightly");
}

#[test]
fn what_is_not_there_is_4_and_makes_no_store() {
    let env = TestEnvironment::new();
    let all: [&[&str]; 8] = [
        &["archive", "a"],
        &["unarchive", "a"],
        &["rm", "a"],
        &["rm", "--purge", "a"],
        &["restore", "a"],
        &["fork", "a"],
        &["title", "a", "x"],
        &["show", "@01a1e14a-05ca-731a-9829-bf4cb9d544dd"],
    ];
    for args in all {
        env.manent(args).assert_fails(4, &["there is no ", "session "]);
        assert!(!env.home().exists(), "{args:?}");
    }
    env.append("b", "x");
    for args in all {
        env.manent(args).assert_fails(4, &["there is no ", "session "]);
    }
    env.manent(&["fork", "b", "--at", "2"]).assert_fails(4, &["has no record 2", "the last is 1"]);
    assert_eq!(names_in(env.home()), ["sessions"]);
}

#[test]
fn of_several_sessions_all_are_moved_and_the_worst_code_is_the_exit() {
    let env = TestEnvironment::new();
    let append = |keys: &[&str]| keys.iter().for_each(|key| assert_eq!(env.append(key, key), 1));
    append(&["a", "b", "c"]);
    let output = env.manent(&["archive", "a", "missing", "b", "c"]);
    output.assert_fails(4, &["there is no session \"missing\""]);
    assert_eq!(output.stdout().lines().count(), 3, "{output}");
    assert_eq!(env.counts(), [0, 3, 0]);

    append(&["b"]);
    let output = env.manent(&["unarchive", "a", "missing", "b", "c"]);
    output.assert_code(6);
    assert!(output.stderr().contains("in the way") && output.stderr().contains("missing"), "{output}");
    assert_eq!(env.counts(), [3, 1, 0]);

    let output = env.manent(&["rm", "missing", "a", "c"]);
    output.assert_code(4);
    append(&["a"]);
    let output = env.manent(&["restore", "missing", "a", "c"]);
    output.assert_code(6);
    assert_eq!(env.said("c"), ["c"]);
    assert_eq!(env.counts(), [3, 1, 1]);
}

#[test]
fn a_key_means_the_live_session_else_the_newest_that_was_archived() {
    let env = TestEnvironment::new();
    let mut ids = Vec::new();
    for text in ["first", "second", "third"] {
        assert_eq!(env.append("work", text), 1, "an archived key begins anew");
        assert_eq!(env.said("work"), [text], "the live one");
        ids.push(env.id_in("live", "work"));
        env.done(&["archive", "work"]);
        assert_eq!(env.said("work"), [text], "the newest that was archived");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each has an id of its own");
    for (id, text) in ids.iter().zip(["first", "second", "third"]) {
        assert_eq!(env.said(&format!("@{id}")), [text]);
    }
    env.done(&["unarchive", "work"]);
    assert_eq!(env.id_in("live", "work"), ids[2], "the newest comes back, as what it was");
    env.done(&["rm", "work"]);
    assert_eq!(env.said("work"), ["second"], "what is in the trash is not meant");
    assert_eq!(env.said(&format!("@{}", ids[2])), ["third"], "unless it is named");
}

#[test]
fn session_in_the_trash_is_not_found_and_the_error_names_restore() {
    let env = TestEnvironment::new();
    for key in ["work", "-odd key"] {
        env.append(key, "one");
        env.done(&["rm", "--", key]);
    }
    for command in ["show", "export", "context", "verify", "repair", "archive", "fork", "rm"] {
        let words = ["the session \"work\" is in the trash", "`manent restore work` brings it back"];
        env.manent(&[command, "--", "work"]).assert_fails(4, &words);
    }
    env.manent(&["show", "--", "-odd key"]).assert_fails(4, &["`manent restore -- '-odd key'`"]);
    env.manent(&["show", "other"]).assert_fails(4, &["there is no session", "`manent sessions`"]);
    env.done(&["restore", "work"]);
    assert_eq!(env.said("work"), ["one"]);
}

#[test]
fn an_id_is_known_by_its_beginning_and_a_nickname_is_a_key() {
    let env = TestEnvironment::new();
    let plant = |key: &str, id: &str| {
        let meta =
            format!(r#""seq":0,"ts":"{}","meta":{{"format":1,"id":"{id}","key":"{key}"}}"#, records::TS);
        env.plant(key, records::file(&[records::sealed(&meta), records::turn(1, key)]));
    };
    plant("one", "01a1e14a-05ca-731a-9829-bf4cb9d544dd");
    plant("two", "01a1e14a-05ca-731a-9829-bf4cb9d544ee");
    plant("three", "02b2f25b-05ca-731a-9829-bf4cb9d544dd");
    assert_eq!(env.said("@01a1e14a-05ca-731a-9829-bf4cb9d544dd"), ["one"]);
    assert_eq!(env.said("@02b2f25b"), ["three"]);
    for args in [&["show", "@01a1e14a-05ca"][..], &["archive", "@01a1e14a"], &["fork", "@01a1e14a"]] {
        env.manent(args).assert_fails(2, &["several sessions", "01a1e14a", "give more of it"]);
    }
    // Wherever they are.
    env.done(&["archive", "one"]);
    env.done(&["rm", "two"]);
    env.manent(&["show", "@01a1e14a"]).assert_fails(2, &["several sessions"]);
    assert_eq!(env.said("@01a1e14a-05ca-731a-9829-bf4cb9d544ee"), ["two"]);
    env.done(&["unarchive", "@01a1e14a-05ca-731a-9829-bf4cb9d544dd"]);
    env.done(&["restore", "@01a1e14a-05ca-731a-9829-bf4cb9d544ee"]);
    assert_eq!(env.counts(), [3, 0, 0]);

    for key in ["@alice", "@deadbeef00", "@cafe", "@"] {
        env.append(key, key);
        env.done(&["archive", key]);
        assert_eq!(env.said(key), [key]);
        env.done(&["unarchive", key]);
        env.done(&["rm", key]);
        env.done(&["restore", key]);
        env.done(&["title", key, "x"]);
        env.done(&["rm", key]);
        env.append(key, "again");
        let gone = env.done(&["rm", "--purge", key]);
        assert_eq!(gone.lines().count(), 2, "{key}: the live one and the one in the trash: {gone}");
        assert_eq!(env.counts(), [3, 0, 0], "{key}");
    }
}

/// Sessions of every kind that archive and trash must give back as they were.
fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    let mut damaged = records::session("a", &["one", "two", "three"]);
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let newer =
        records::file(&[records::header_with("a", r#""format":99"#), records::turn(1, "from tomorrow")]);
    let long: Vec<String> = (0..3000).map(|n| format!("{n} {}", "text ".repeat(300))).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    vec![
        ("sound", records::session("a", &["one", "two"])),
        ("damaged", damaged),
        ("of a newer format", newer),
        ("without a turn", records::session("a", &[])),
        ("of several frames", records::session("a", &long)),
        (
            "another program's",
            b"{\"role\":\"user\",\"content\":\"hi\"}\r\n\n{\"role\":\"bot\",\"content\":\"x\"}".to_vec(),
        ),
    ]
}

#[test]
fn every_byte_comes_back_from_archive_and_trash() {
    for (kind, bytes) in kinds() {
        let env = TestEnvironment::new();
        env.plant("a", &bytes);
        let shown = env.manent(&["show", "--json", "a"]).stdout_bytes;
        let verified = env.manent(&["verify", "a"]).code();
        for (there, back, place) in [
            ("archive", "unarchive", "archived"),
            ("rm", "restore", "trash"),
            ("archive", "unarchive", "archived"),
        ] {
            env.done(&[there, "a"]);
            assert_eq!(env.file_names(), [""; 0], "{kind}: {there} leaves nothing behind");
            let name = format!("@{}", env.id_in(place, "a"));
            let output = env.manent(&["show", "--json", &name]);
            assert_eq!(output.stdout_bytes, shown, "{kind}: it is read as before: {output}");
            assert_eq!(env.manent(&["verify", &name]).code(), verified, "{kind}: as sound as before");
            env.done(&[back, "a"]);
            assert!(env.bytes("a") == bytes, "{kind}: byte for byte");
            assert_eq!(env.tree().len(), 1, "{kind}: and nothing else is left: {:?}", env.tree().keys());
        }
        // An archived one goes to the trash and back as it is.
        env.done(&["archive", "a"]);
        let archived = env.tree();
        env.done(&["rm", "a"]);
        env.done(&["restore", "a"]);
        assert!(env.tree() == archived, "{kind}: back in the archive, where it was");
        env.done(&["unarchive", "a"]);
        assert!(env.bytes("a") == bytes, "{kind}: byte for byte");
    }
}

#[test]
fn a_torn_end_is_set_aside_and_goes_along() {
    let torn = records::turn(2, "torn in the middle").into_bytes()[..60].to_vec();
    let good = records::session("a", &["one"]);
    for (there, back) in [("archive", "unarchive"), ("rm", "restore")] {
        let env = TestEnvironment::new();
        env.plant("a", [&*good, &*torn].concat());
        env.done(&[there, "a"]);
        assert_eq!(env.file_names(), [""; 0], "{there}: the torn bytes are not left behind");
        assert_eq!(env.counts().iter().sum::<usize>(), 1, "{there}: they are no session");
        env.done(&[back, "a"]);
        assert_eq!(env.bytes("a"), good, "{back}");
        assert_eq!(env.torn_copies("a"), std::slice::from_ref(&torn), "{back}: beside the session again");
        assert_eq!(env.tree().len(), 2);
        env.assert_clean("a");
    }
}

#[test]
fn a_title_is_set_changed_and_taken_back() {
    let env = work();
    let title = |place: &str| env.listed(place)[0]["title"].as_str().unwrap().to_owned();
    assert_eq!(title("live"), "remember the milk");
    for (text, shown) in [("Shopping", "Shopping"), ("Groceries ✓", "Groceries ✓"), ("", "remember the milk")]
    {
        env.done(&["title", "work", text]);
        assert_eq!(title("live"), shown);
    }
    env.done(&["title", "work", "At last"]);
    assert_eq!(env.said("work").len(), 2, "a title is no turn");
    env.done(&["archive", "work"]);
    assert_eq!(title("archived"), "At last", "it goes along");
    env.done(&["rm", "work"]);
    assert_eq!(title("trash"), "At last");
    env.done(&["restore", "work"]);
    env.done(&["unarchive", "work"]);
    assert_eq!(env.append("work", "more"), 7, "titles are records like any other");
    env.assert_clean("work");
}
