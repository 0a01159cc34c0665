//! What the commands that move and fork sessions say, to the letter.

use crate::support::{Output, TestEnvironment, records};

/// A session of two turns.
fn work() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant("work", records::session("work", &["remember the milk", "and the eggs"]));
    env
}

/// A session of three turns.
fn three() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant("work", records::session("work", &["one", "two", "three"]));
    env
}

/// Returns the output without the sizes of packed files, which depend on the packer.
fn without_sizes(output: &Output) -> String {
    let text = output.to_string();
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = match line.split_once("\"bytes\":") {
            Some((head, tail)) => {
                format!("{head}\"bytes\":[size]{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => line.split_once(" B  ").map_or_else(
                || line.to_owned(),
                |(head, tail)| {
                    format!("{}[size]  {tail}", head.trim_end_matches(|c: char| c.is_ascii_digit()))
                },
            ),
        };
        lines.push(line);
    }
    lines.join("\n")
}

#[test]
fn a_whole_life_as_people_see_it() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["archive", "work"]), @"
    archived work  @[id]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions"]), @"
    [stderr]
    note: no live sessions in [home]; 1 with --archived
    [exit 0]
    ");
    insta::assert_snapshot!(without_sizes(&env.manent(&["sessions", "--archived"])), @"
    SESSION  ID              TURNS  UPDATED                    SIZE  TITLE
    work     @[id]      2  [time]  [size]  remember the milk
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["archive", "work"]), @"
    archived work  @[id]
    [stderr]
    note: work was archived already
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["show", "work", "-f"]), @"
        1  user  [time]
    remember the milk

        2  user  [time]
    and the eggs

    [stderr]
    note: work is archived and does not grow
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       work (archived @[id])  2 records
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["unarchive", "work"]), @"
    unarchived work  @[id]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions", "--archived"]), @"
    [stderr]
    note: nothing archived in [home]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["rm", "work"]), @"
    deleted work  @[id]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions", "--trash"]), @"
    SESSION  ID              TURNS  UPDATED                    SIZE  TITLE
    work     @[id]      2  [time]  337 B  remember the milk
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       work (trash @[id])  2 records
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["restore", "work"]), @"
    restored work  @[id]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions", "--trash"]), @"
    [stderr]
    note: nothing in the trash in [home]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["title", "work", "Shopping"]), @"
    work 3
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions"]), @"
    SESSION  TURNS  UPDATED                    SIZE  TITLE
    work         2  [time]  487 B  Shopping
    [exit 0]
    ");
}

#[test]
fn a_whole_life_as_scripts_see_it() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["--json", "archive", "work"]), @r#"
    {"session":"work","id":"[id]","status":"archived"}
    [exit 0]
    "#);
    insta::assert_snapshot!(without_sizes(&env.manent(&["--json", "sessions", "--archived"])), @r#"
    {"key":"work","id":"[id]","title":"remember the milk","turns":2,"bytes":[size],"status":"archived","created":"[time]","updated":"[time]","tokens":8}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["--json", "verify"]), @r#"
    {"session":"work","id":"[id]","status":"archived","records":2,"unverified":0,"damage":[],"tail":"clean"}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["--json", "unarchive", "work"]), @r#"
    {"session":"work","id":"[id]","status":"live"}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["--json", "rm", "work"]), @r#"
    {"session":"work","id":"[id]","status":"trash"}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["--json", "sessions", "--trash"]), @r#"
    {"key":"work","id":"[id]","title":"remember the milk","turns":2,"bytes":337,"status":"trash","created":"[time]","updated":"[time]","tokens":8}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["--json", "restore", "work"]), @r#"
    {"session":"work","id":"[id]","status":"live"}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["--json", "sessions", "--trash"]), @"
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["--json", "title", "work", "Shopping"]), @r#"
    {"session":"work","id":"[id]","seq":3,"offset":337,"durability":"sync"}
    [exit 0]
    "#);
}

#[test]
fn what_cannot_be_done_says_why_and_what_to_do() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["unarchive", "work"]), @r#"
    [stderr]
    error: there is no archived session "work" in [home]; `manent sessions --archived` lists what is there
    [exit 4]
    "#);
    insta::assert_snapshot!(env.manent(&["restore", "work"]), @r#"
    [stderr]
    error: there is no deleted session "work" in [home]; `manent sessions --trash` lists what is there
    [exit 4]
    "#);
    env.done(&["archive", "work"]);
    let archived = format!("@{}", env.id_in("archived", "work"));
    insta::assert_snapshot!(env.manent(&["restore", &archived]), @"
    [stderr]
    error: work is archived, not in the trash: there is nothing to restore
    [exit 1]
    ");
    insta::assert_snapshot!(env.manent(&["title", "work", "x"]), @r#"
    [stderr]
    error: the session "work" is archived, and is only read there; `manent unarchive` or `manent restore` makes it live
    [exit 1]
    "#);
    insta::assert_snapshot!(env.manent(&["repair", "work"]), @r#"
    [stderr]
    error: the session "work" is archived, and is only read there; `manent unarchive` or `manent restore` makes it live, then it can be repaired
    [exit 1]
    "#);
    env.append("work", "another");
    insta::assert_snapshot!(env.manent(&["unarchive", "work"]), @r#"
    [stderr]
    error: there is a live session "work" in the way; archive it or give it up first, then try again
    [exit 6]
    "#);
    env.done(&["rm", &archived]);
    insta::assert_snapshot!(env.manent(&["rm", &archived]), @"
    [stderr]
    error: work is in the trash already; --purge removes it for good
    [exit 1]
    ");
    insta::assert_snapshot!(env.manent(&["archive", &archived]), @r#"
    [stderr]
    error: the session "work" is in the trash, and is only read there; `manent restore` brings it back
    [exit 1]
    "#);
    insta::assert_snapshot!(env.manent(&["unarchive", &archived]), @r#"
    [stderr]
    error: the session "work" is in the trash, and is only read there; `manent restore` brings it back
    [exit 1]
    "#);
    env.done(&["rm", "work"]);
    env.append("work", "a third");
    insta::assert_snapshot!(env.manent(&["restore", "work"]), @r#"
    [stderr]
    error: there is a live session "work" in the way; archive it or give it up first, then try again
    [exit 6]
    "#);
    insta::assert_snapshot!(env.manent(&["rm", "gone"]), @r#"
    [stderr]
    error: there is no session "gone" in [home]; `manent sessions` lists what is there
    [exit 4]
    "#);
}

#[test]
fn a_fork_as_people_and_scripts_see_it() {
    let env = three();
    insta::assert_snapshot!(env.manent(&["fork", "work"]), @"
    forked work-fork  @[id]
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["fork", "work", "--at", "1", "-v"]), @"
    forked work-fork-2  @[id]
    [stderr]
    note: it goes on from record 1 of work
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["fork", "work", "other", "--at", "2", "--json"]), @r#"
    {"session":"other","id":"[id]","status":"live","parent":"work","upto":2}
    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["append", "work-fork-2", "another way"]), @"
    work-fork-2 2
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["show", "work-fork-2"]), @"
        1  user  [time]
    one

        2  user  [time]
    another way

    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["fork", "work", "other"]), @r#"
    [stderr]
    error: there is a live session "other" in the way; choose another key, or archive that session first
    [exit 6]
    "#);
    insta::assert_snapshot!(env.manent(&["fork", "work", "more", "--at", "9"]), @r#"
    [stderr]
    error: the session "work" has no record 9 that can be read; the last is 3
    [exit 4]
    "#);
    insta::assert_snapshot!(env.manent(&["fork", "work", "more", "--at", "0"]), @r#"
    [stderr]
    error: the session "work" has no record 0 that can be read; the last is 3
    [exit 4]
    "#);
    env.manent(&["verify"]).assert_code(0);
}

#[test]
fn a_parent_that_is_gone_is_named_and_hides_nothing_of_the_fork() {
    let env = three();
    env.done(&["fork", "work", "b"]);
    env.append("b", "four");
    std::fs::remove_file(env.log("work")).unwrap();
    insta::assert_snapshot!(env.manent(&["show", "b"]), @"
        4  user  [time]
    four

    [stderr]
    warning: b: what it was forked from is gone, with the records up to 3 (no_parent); `manent verify` tells more
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify", "b"]), @"
    damaged  b  1 record
               no_parent: what it was forked from is gone, with the records up to 3
    [exit 3]
    ");
    insta::assert_snapshot!(env.manent(&["verify", "b", "--json"]), @r#"
    {"session":"b","id":"[id]","status":"live","records":1,"unverified":0,"damage":[{"offset":0,"length":0,"reason":"no_parent","acknowledged":false}],"tail":"clean"}
    [exit 3]
    "#);
    assert_eq!(env.append("b", "five"), 5);
}
