//! `manent show -f`: sees what others append, and says so when the file under it is no longer the same.

use std::time::Duration;

use crate::support::{Stream, TestEnvironment, records};

fn follow(env: &TestEnvironment, args: &[&str]) -> Stream {
    Stream::start(env, &[&["show", "a", "-f", "--json"], args].concat())
}

#[test]
fn a_follower_sees_every_record_that_another_process_appends() {
    let env = TestEnvironment::new();
    env.append("a", "before");
    let follower = follow(&env, &["--tail", "1"]);
    assert!(follower.line().contains("before"));
    let mut writer = Stream::start(&env, &["append", "a", "--jsonl", "--durability", "flush"]);
    for n in 0..20 {
        // From a few bytes to more than a reader takes at once.
        let text = format!("{n} {}", "x".repeat(1 << n));
        writer.send(&records::plain(&text));
        writer.line();
        let line = follower.line();
        assert!(line.contains(&text), "record {n} comes whole");
        assert_eq!(env.records("a").last(), Some(&line), "byte for byte");
    }
    assert!(follower.is_silent_for(Duration::from_millis(120)), "and nothing twice");
}

/// Acceptance list 25, shrinking.
#[test]
fn a_follower_says_that_the_file_became_shorter() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    let first = env.bytes("a").len() as u64;
    env.append("a", "two");
    let follower = follow(&env, &[]);
    follower.lines_until(|line| line.contains("two"));
    std::fs::OpenOptions::new().write(true).open(env.log("a")).unwrap().set_len(first).unwrap();
    let (status, rest, errors) = follower.finish();
    assert_eq!((status.code(), rest.len()), (Some(1), 0));
    assert!(errors[0].starts_with("error: a became shorter") && errors[0].contains("verify"), "{errors:?}");
}

/// Acceptance list 25, rotation.
#[test]
fn a_follower_says_that_the_file_was_replaced_or_deleted() {
    for how in ["replaced", "deleted"] {
        let env = TestEnvironment::new();
        env.append("a", "one");
        let follower = follow(&env, &[]);
        follower.line();
        if how == "replaced" {
            std::fs::copy(env.log("a"), env.log("b")).unwrap();
            std::fs::rename(env.log("b"), env.log("a")).unwrap();
        } else {
            std::fs::remove_file(env.log("a")).unwrap();
        }
        let (status, _, errors) = follower.finish();
        assert_eq!(status.code(), Some(1), "{how}");
        assert!(errors[0].starts_with("error: a was moved, replaced or deleted"), "{how}: {errors:?}");
    }
}

#[test]
fn a_follower_waits_for_the_rest_of_a_record_and_shows_it_once() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    let follower = follow(&env, &[]);
    follower.line();
    let record = records::turn(2, "in two parts");
    let (head, tail) = record.split_at(30);
    append_by_hand(&env, head.as_bytes());
    assert!(follower.is_silent_for(Duration::from_millis(150)), "half a record is nothing");
    append_by_hand(&env, format!("{tail}\n").as_bytes());
    assert_eq!(follower.line(), record);
    assert!(follower.is_silent_for(Duration::from_millis(120)));
}

#[test]
fn a_follower_is_not_confused_when_a_torn_end_is_cut_and_something_else_written_there() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    append_by_hand(&env, &records::turn(2, &"torn by a crash".repeat(100)).as_bytes()[..900]);
    let follower = follow(&env, &[]);
    assert!(follower.line().contains("one"));
    env.append("a", "two");
    assert!(follower.line().contains(r#""content":"two""#));
}

fn append_by_hand(env: &TestEnvironment, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(env.log("a")).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
}
