//! `manent fork`: a session that goes on from a record of another, whatever becomes of that one.

use crate::support::{Stream, TestEnvironment, records};

fn work() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant("work", records::session("work", &["one", "two", "three"]));
    env
}

/// Every session is sound, its parents included.
#[track_caller]
fn assert_sound(env: &TestEnvironment) {
    env.manent(&["verify"]).assert_code(0);
}

#[test]
fn a_fork_and_its_parent_go_on_apart() {
    let env = work();
    let before = env.bytes("work");
    env.done(&["fork", "work", "b", "--at", "2"]);
    assert_eq!(env.bytes("work"), before, "the parent is not touched");
    assert!(env.bytes("b").len() < 500, "nothing is copied");
    assert_eq!(env.said("b"), ["one", "two"]);
    assert_eq!(env.append("b", "b three"), 3, "numbers go on");
    assert_eq!(env.append("work", "four"), 4);
    assert_eq!(env.said("b"), ["one", "two", "b three"]);
    assert_eq!(env.said("work"), ["one", "two", "three", "four"]);
    let part = |args: &[&str]| env.done(&[&["show", "b", "--raw"], args].concat());
    assert_eq!(part(&["--tail", "2"]), "two\nb three\n", "the end reaches into the parent");
    assert_eq!(part(&["--from", "2"]), "two\nb three\n");
    assert_eq!(part(&["--from", "3"]), "b three\n");
    assert_eq!(env.listed("live").iter().find(|row| row["key"] == "b").unwrap()["turns"], 3);
    assert_sound(&env);
}

#[test]
fn a_fork_of_a_fork_of_a_fork() {
    let env = work();
    env.done(&["fork", "work", "b", "--at", "2"]);
    env.append("b", "b three");
    env.done(&["fork", "b", "c"]);
    env.append("c", "c four");
    env.done(&["fork", "c", "d", "--at", "1"]);
    env.append("d", "d two");
    env.done(&["fork", "d"]);
    assert_eq!(env.said("c"), ["one", "two", "b three", "c four"]);
    assert_eq!(env.said("d"), ["one", "d two"]);
    assert_eq!(env.said("d-fork"), ["one", "d two"]);
    // Each in another place.
    env.done(&["archive", "work", "c"]);
    env.done(&["rm", "b", "d"]);
    assert_eq!(env.said("c"), ["one", "two", "b three", "c four"]);
    assert_eq!(env.said("d-fork"), ["one", "d two"]);
    assert_sound(&env);
}

#[test]
fn what_is_archived_or_in_the_trash_can_be_forked() {
    let env = work();
    env.done(&["archive", "work"]);
    env.done(&["fork", "work", "b", "--at", "2"]);
    let id = format!("@{}", env.id_in("archived", "work"));
    env.done(&["rm", "work"]);
    env.manent(&["fork", "work", "c"]).assert_code(4);
    env.done(&["fork", &id, "c"]);
    assert_eq!((env.said("b"), env.said("c")), (vec!["one".into(), "two".into()], env.said(&id)));
    // And the parent may come back and go on.
    env.done(&["restore", "work"]);
    env.done(&["unarchive", "work"]);
    env.append("work", "four");
    assert_eq!(env.said("c"), ["one", "two", "three"]);
    assert_sound(&env);
}

#[test]
fn a_free_name_is_found() {
    let env = work();
    for name in ["work-fork", "work-fork-2", "work-fork-3"] {
        assert!(env.done(&["fork", "work"]).starts_with(&format!("forked {name} ")), "{name}");
    }
    env.done(&["archive", "work-fork-2"]);
    assert!(env.done(&["fork", "work"]).starts_with("forked work-fork-2 "), "an archived name is free");
    assert!(env.done(&["fork", "work-fork"]).starts_with("forked work-fork-fork "));
    let long = "x".repeat(1024);
    env.append(&long, "x");
    env.manent(&["fork", &long]).assert_fails(2, &["1024 bytes"]);
    env.done(&["fork", &long, "short"]);
}

#[test]
fn a_fork_is_made_while_the_parent_is_written() {
    let env = work();
    let mut holder = Stream::hold(&env, "work");
    assert!(env.done(&["fork", "work", "--wait", "0s"]).starts_with("forked work-fork "));
    holder.send(&records::plain("behind the fork"));
    holder.line();
    assert!(holder.finish().0.success());
    assert_eq!(env.said("work-fork"), ["one", "two", "three", "held"]);
    assert_eq!(env.said("work").len(), 5);
    assert_sound(&env);
}

/// A session whose id cannot be a file name gets another when it is put away; a fork must find it all the same.
#[test]
fn a_fork_of_a_session_with_an_odd_id_outlives_the_archive() {
    for id in ["s1", "../../x", ""] {
        let env = TestEnvironment::new();
        let meta = format!(r#""seq":0,"ts":"{}","meta":{{"format":1,"id":"{id}","key":"a"}}"#, records::TS);
        env.plant("a", records::file(&[records::sealed(&meta), records::turn(1, "one")]));
        env.done(&["fork", "a", "b"]);
        env.append("b", "two");
        env.done(&["archive", "a"]);
        assert_eq!(env.said("b"), ["one", "two"], "{id:?}");
        env.done(&["rm", "a"]);
        assert_eq!(env.said("b"), ["one", "two"], "{id:?}");
        assert_sound(&env);
    }
}
