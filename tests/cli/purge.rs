//! `manent rm --purge`: for good means that no byte is left, and that nobody loses what was theirs.

use crate::support::terminal::answering;
use crate::support::{TestEnvironment, records};

/// A word that must be nowhere afterwards.
const SECRET: &str = "correct-horse-battery";

/// One key with a session in each place, torn bytes of each set aside, and what a crash left half written.
fn everywhere() -> TestEnvironment {
    let env = TestEnvironment::new();
    let torn = &records::turn(2, &SECRET.repeat(3)).into_bytes()[..90];
    for (there, back) in [("archive", ""), ("rm", ""), ("archive", "rm"), ("fork", "")] {
        env.append("doomed", SECRET);
        let whole = env.bytes("doomed");
        std::fs::write(env.log("doomed"), [&*whole, torn].concat()).unwrap();
        if there != "fork" {
            env.done(&[there, "doomed", "-q"]);
        }
        if !back.is_empty() {
            env.done(&[back, "doomed", "-q"]);
        }
    }
    env.append("doomed", "and the end");
    for dir in [env.sessions(), env.archive(), env.trash()] {
        std::fs::write(dir.join(".01a1e14a-05ca-731a-9829-bf4cb9d544dd.0123456789abcdef.tmp"), SECRET)
            .unwrap();
    }
    assert_eq!(env.counts(), [1, 1, 2]);
    env
}

#[test]
fn a_purge_leaves_no_byte_anywhere() {
    let env = everywhere();
    env.append("other", "stays");
    assert!(env.holding(SECRET).len() > 8, "{:?}", env.holding(SECRET));
    let purged = env.manent(&["rm", "--purge", "doomed"]);
    purged.assert_code(0);
    assert_eq!(purged.stdout().lines().count(), 4, "{purged}");
    assert!(purged.stderr_bytes.is_empty(), "{purged}");
    assert_eq!(env.holding(SECRET), [""; 0]);
    assert_eq!(env.holding("doomed"), [""; 0]);
    assert_eq!(env.tree().keys().collect::<Vec<_>>(), ["sessions/other.jsonl"]);
    env.manent(&["rm", "--purge", "doomed"]).assert_code(4);
}

#[test]
fn a_purge_takes_what_was_typed_in_chats_along() {
    let env = TestEnvironment::new();
    env.append("secret", "the cellar");
    let history = env.home().join("chat_history");
    std::fs::write(&history, "where is the cellar?\n").unwrap();
    env.manent(&["rm", "secret"]).assert_code(0);
    assert!(history.exists(), "what is in the trash can come back");
    let purged = env.manent(&["rm", "--purge", "--yes", "secret"]);
    purged.assert_code(0);
    assert!(purged.stderr().contains("what was typed in chats"), "{}", purged.stderr());
    assert!(!history.exists());
}

#[test]
fn a_purge_of_an_id_takes_that_session_alone() {
    let env = everywhere();
    let archived = env.id_in("archived", "doomed");
    env.done(&["rm", "--purge", &format!("@{archived}")]);
    assert_eq!(env.counts(), [1, 0, 2]);
    assert_eq!(env.holding(&archived), [""; 0]);
    assert!(!env.holding(SECRET).is_empty());
    assert!(env.done(&["rm", "--purge", "doomed", "--json"]).lines().all(|line| line.contains("\"purged\"")));
    assert_eq!(env.tree().len(), 0);
}

/// A session with forks and forks of forks, in all places.
fn family() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant("work", records::session("work", &["one", "two", "three"]));
    env.done(&["fork", "work", "b", "--at", "2"]);
    env.append("b", "b three");
    env.done(&["fork", "b", "c"]);
    env.append("c", "c four");
    env.done(&["fork", "work", "d"]);
    env.append("d", "d four");
    env.done(&["archive", "b"]);
    env.done(&["rm", "d"]);
    env
}

#[test]
fn forks_keep_what_they_share_and_are_named() {
    let env = family();
    let id = format!("@{}", env.id_in("trash", "d"));
    insta::assert_snapshot!(env.manent(&["rm", "--purge", "work"]), @"
    purged work  @[id]
    [stderr]
    warning: b (@[id]) is a fork of it and holds a copy of what they share
    warning: d (@[id]) is a fork of it and holds a copy of what they share
    note: `manent rm --purge --with-forks` would have taken them too
    [exit 0]
    ");
    let check = || {
        assert_eq!(env.said("b"), ["one", "two", "b three"]);
        assert_eq!(env.said("c"), ["one", "two", "b three", "c four"]);
        assert_eq!(env.said(&id), ["one", "two", "three", "d four"]);
        env.manent(&["verify"]).assert_code(0);
    };
    check();
    assert_eq!(env.counts(), [1, 1, 1]);
    // In the middle of a chain.
    env.done(&["rm", "--purge", "b", "-q"]);
    assert_eq!(env.said("c"), ["one", "two", "b three", "c four"]);
    assert_eq!(env.append("c", "five"), 5);
    env.done(&["restore", "d"]);
    assert_eq!(env.append("d", "five"), 5);
    env.manent(&["verify"]).assert_code(0);
    assert_eq!(env.holding("\"parent\""), [""; 0], "nobody names a parent that is gone");
}

#[test]
fn with_forks_takes_the_whole_family() {
    let env = family();
    env.append("stranger", "stays");
    insta::assert_snapshot!(env.manent(&["rm", "--purge", "--with-forks", "work"]), @"
    purged d  @[id]
    purged c  @[id]
    purged b  @[id]
    purged work  @[id]
    [exit 0]
    ");
    assert_eq!(env.tree().keys().collect::<Vec<_>>(), ["sessions/stranger.jsonl"]);
}

#[test]
fn a_purge_asks_on_a_terminal_and_only_there() {
    for answer in ["n\n", "\n", "what?\n", "\u{4}"] {
        let env = everywhere();
        let before = env.tree();
        let screen = answering(&env, &["rm", "--purge", "doomed"], answer);
        assert_eq!(screen.code, Some(1), "{answer:?}: {}", screen.text());
        let question = "doomed (1 live, 1 archived, 2 in the trash) will be gone for good. Go on? [y/N]";
        assert!(screen.text().contains(question), "{}", screen.text());
        assert!(screen.text().contains("nothing was removed"), "{}", screen.text());
        assert!(env.tree() == before, "{answer:?}");
    }
    for (answer, args) in [
        ("y\n", &["rm", "--purge", "doomed"][..]),
        ("", &["rm", "--purge", "--yes", "doomed"]),
        ("", &["rm", "-y", "--purge", "doomed"]),
    ] {
        let env = everywhere();
        let screen = answering(&env, args, answer);
        assert_eq!(screen.code, Some(0), "{}", screen.text());
        assert_eq!(screen.text().contains("[y/N]"), !answer.is_empty());
        assert_eq!(env.tree().len(), 0);
    }
    // Only a purge is for good.
    let env = everywhere();
    let screen = answering(&env, &["rm", "doomed"], "");
    assert_eq!((screen.code, screen.text().contains("[y/N]")), (Some(0), false));
}
