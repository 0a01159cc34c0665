//! The whole of what each command says: standard output, standard error and exit code, compared to the letter.
//! A script that parses any of it breaks when one of these changes.

use crate::support::{Stream, TestEnvironment, records};

/// A session of three turns and a title, written by the binary.
fn work() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.append("work", "hello");
    let reply =
        r#"{"role":"assistant","model":"m","tool_calls":[{"id":"c1","name":"ls"}],"content":"hi\nthere"}"#;
    let title = r#"{"kind":"title","title":"A greeting"}"#;
    env.manent_given(&["append", "work", "--jsonl"], format!("{reply}\n{title}\n")).assert_code(0);
    env
}

/// A session whose second turn was hurt and whose end was torn off.
fn damaged() -> TestEnvironment {
    let env = TestEnvironment::new();
    let mut bytes = records::session("work", &["one", "two", "three", "four"]);
    let hurt = bytes.windows(3).position(|w| w == b"two").unwrap();
    bytes[hurt] = b'T';
    bytes.truncate(bytes.len() - 20);
    env.plant("work", bytes);
    env
}

#[test]
fn append_says_which_session_and_which_number() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.manent(&["append", "work", "hello"]), @"
    work 1
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["append", "work", "hello again"]), @"
    work 2
    [exit 0]
    ");
}

#[test]
fn append_json_gives_a_receipt_that_scripts_can_read() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.manent(&["append", "work", "hello", "--json"]), @r#"
    {"session":"work","id":"[id]","seq":1,"offset":167,"durability":"sync"}
    [exit 0]
    "#);
    let output = env.manent(&["append", "work", "hello", "--json", "--durability", "flush"]);
    insta::assert_snapshot!(output, @r#"
    {"session":"work","id":"[id]","seq":2,"offset":258,"durability":"flush"}
    [exit 0]
    "#);
}

#[test]
fn append_jsonl_gives_a_receipt_for_each_line() {
    let env = TestEnvironment::new();
    let lines = format!("{}\n\n{}\n", records::plain("one"), records::plain("two"));
    insta::assert_snapshot!(env.manent_given(&["append", "work", "--jsonl"], lines), @"
    work 1
    work 2
    [exit 0]
    ");
}

#[test]
fn append_says_where_the_torn_end_went() {
    let env = damaged();
    insta::assert_snapshot!(env.manent(&["append", "work", "five"]), @"
    work 4
    [stderr]
    note: the end of work was torn by a crash; its 70 bytes are kept in [home]/sessions/work.jsonl.torn-405-0
    [exit 0]
    ");
}

#[test]
fn show_prints_turns_and_names_what_it_does_not_know() {
    insta::assert_snapshot!(work().manent(&["show", "work"]), @r#"
        1  user  [time]
    hello

        2  assistant  [time]
    hi
    there
    [{"id":"c1","name":"ls"}]

        3  title  [time]
    {"seq":3,"ts":"[time]","kind":"title","title":"A greeting","crc":"[crc]"}

    [exit 0]
    "#);
}

#[test]
fn show_tail_counts_turns_from_the_end() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["show", "work", "--tail", "1"]), @r#"
        2  assistant  [time]
    hi
    there
    [{"id":"c1","name":"ls"}]

        3  title  [time]
    {"seq":3,"ts":"[time]","kind":"title","title":"A greeting","crc":"[crc]"}

    [exit 0]
    "#);
}

#[test]
fn show_from_begins_at_a_number() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["show", "work", "--from", "2"]), @r#"
        2  assistant  [time]
    hi
    there
    [{"id":"c1","name":"ls"}]

        3  title  [time]
    {"seq":3,"ts":"[time]","kind":"title","title":"A greeting","crc":"[crc]"}

    [exit 0]
    "#);
    insta::assert_snapshot!(env.manent(&["show", "work", "--from", "99"]), @"[exit 0]");
}

#[test]
fn show_json_prints_the_records_as_they_stand() {
    insta::assert_snapshot!(work().manent(&["show", "work", "--json"]), @r#"
    {"seq":1,"ts":"[time]","role":"user","content":"hello","crc":"[crc]"}
    {"seq":2,"ts":"[time]","role":"assistant","model":"m","tool_calls":[{"id":"c1","name":"ls"}],"content":"hi\nthere","crc":"[crc]"}
    {"seq":3,"ts":"[time]","kind":"title","title":"A greeting","crc":"[crc]"}
    [exit 0]
    "#);
}

#[test]
fn show_raw_prints_only_what_was_said() {
    insta::assert_snapshot!(work().manent(&["show", "work", "--raw"]), @"
    hello
    hi
    there

    [exit 0]
    ");
}

#[test]
fn show_of_a_damaged_session_prints_what_is_left_and_names_the_rest() {
    insta::assert_snapshot!(damaged().manent(&["show", "work"]), @"
        1  user  [time]
    one

        3  user  [time]
    three

    [stderr]
    warning: work: 89 bytes at offset 225 cannot be read (checksum); `manent verify` tells more
    warning: work: the last 70 bytes at the end are no record: torn by a crash, or being written now; `manent verify` tells
    [exit 0]
    ");
}

#[test]
fn sessions_lists_them_newest_first() {
    let env = work();
    env.manent_given(
        &["append", "old", "--jsonl"],
        r#"{"ts":"2001-01-01T00:00:00.000Z","role":"user","content":"long ago"}"#,
    );
    insta::assert_snapshot!(env.manent(&["sessions"]), @"
    SESSION  TURNS  UPDATED                    SIZE  TITLE
    work         2  [time]  504 B  A greeting
    old          1  [time]  260 B  long ago
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions", "--since", "2020-01-01", "--limit", "1"]), @"
    SESSION  TURNS  UPDATED                    SIZE  TITLE
    work         2  [time]  504 B  A greeting
    [exit 0]
    ");
}

#[test]
fn sessions_json_has_the_documented_fields() {
    insta::assert_snapshot!(work().manent(&["sessions", "--json"]), @r#"
    {"key":"work","id":"[id]","title":"A greeting","turns":2,"bytes":504,"status":"live","created":"[time]","updated":"[time]","tokens":5}
    [exit 0]
    "#);
}

#[test]
fn sessions_of_an_empty_store_says_how_to_begin() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.manent(&["sessions"]), @"
    [stderr]
    note: no sessions in [home]; `manent append KEY TEXT` makes one
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions", "--json"]), @"[exit 0]");
}

#[test]
fn sessions_warns_of_damage_and_lists_the_session_all_the_same() {
    insta::assert_snapshot!(damaged().manent(&["sessions"]), @"
    SESSION  TURNS  UPDATED                    SIZE  TITLE
    work         2  [time]  475 B  one
    [stderr]
    warning: work: damaged; `manent verify` tells where
    [exit 0]
    ");
}

#[test]
fn verify_says_that_all_is_well() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       work  3 records
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify", "work", "--json"]), @r#"
    {"session":"work","id":"[id]","status":"live","records":3,"unverified":0,"damage":[],"tail":"clean"}
    [exit 0]
    "#);
}

#[test]
fn verify_names_every_damaged_place() {
    let env = damaged();
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    damaged  work  2 records
               checksum: 89 bytes at offset 225
               torn: 70 bytes at offset 405 are no record
               `manent repair` sets them aside; so does the next append
    [exit 3]
    ");
    insta::assert_snapshot!(env.manent(&["verify", "--json"]), @r#"
    {"session":"work","id":"[id]","status":"live","records":2,"unverified":0,"damage":[{"offset":225,"length":89,"reason":"checksum","acknowledged":false},{"offset":405,"length":70,"reason":"torn","acknowledged":false}],"tail":"torn"}
    [exit 3]
    "#);
}

#[test]
fn repair_says_what_it_kept_and_acknowledged_and_then_verify_is_content() {
    let env = damaged();
    insta::assert_snapshot!(env.manent(&["repair", "work"]), @"
    repaired work
               70 torn bytes are kept in [home]/sessions/work.jsonl.torn-405-0
               acknowledged: 89 bytes at offset 225 (checksum)
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       work  3 records
               checksum: 89 bytes at offset 225, acknowledged
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["repair"]), @"
    sound    work
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["show", "work"]), @r#"
        1  user  [time]
    one

        3  user  [time]
    three

        4  gap  [time]
    {"seq":4,"ts":"[time]","kind":"gap","offset":225,"length":89,"hash":"crc32c:57a0c5cd","lines":1,"reason":"checksum","crc":"[crc]"}

    [stderr]
    warning: work: 89 bytes at offset 225 cannot be read (checksum); `manent verify` tells more
    [exit 0]
    "#);
}

#[test]
fn repair_json_says_the_same_to_a_script() {
    insta::assert_snapshot!(damaged().manent(&["repair", "--json"]), @r#"
    {"session":"work","set_aside":{"offset":405,"length":70,"copy":"[home]/sessions/work.jsonl.torn-405-0"},"acknowledged":[{"offset":225,"length":89,"reason":"checksum"}]}
    [exit 0]
    "#);
}

#[test]
fn errors_say_what_where_and_what_to_do_next() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["show", "wrok"]), @r#"
    [stderr]
    error: there is no session "wrok" in [home]; `manent sessions` lists what is there
    [exit 4]
    "#);
    insta::assert_snapshot!(env.manent(&["append", "", "text"]), @"
    [stderr]
    error: a session key cannot be empty; give it a name, such as 'work'
    [exit 2]
    ");
    insta::assert_snapshot!(env.manent(&["append", &"k".repeat(1025), "text"]), @"
    [stderr]
    error: a session key can have 1024 bytes, this one has 1025
    [exit 2]
    ");
    insta::assert_snapshot!(env.manent(&["append", "work", "text", "--expect-seq", "1"]), @"
    [stderr]
    error: expected seq 1 in [home]/sessions/work.jsonl, but the next is 4; read what was added and decide again
    [exit 6]
    ");
    insta::assert_snapshot!(env.manent(&["append", "work", "text", "--wait", "soon"]), @r#"
    [stderr]
    error: invalid value 'soon' for '--wait <TIME>': "soon" is no time; write 500ms, 5s, 2m, 12h, 7d or 2w

    For more information, try '--help'.
    [exit 2]
    "#);
    insta::assert_snapshot!(env.manent(&["show", "work", "--tail", "1", "--from", "1"]), @"
    [stderr]
    error: the argument '--tail <N>' cannot be used with '--from <SEQ>'

    Usage: manent show --tail <N> <KEY>

    For more information, try '--help'.
    [exit 2]
    ");
    insta::assert_snapshot!(env.manent_given(&["append", "work", "--jsonl"], "{}\n"), @r#"
    [stderr]
    error: line 1 of standard input: a record needs "role" (a turn) or "kind" (anything else), as a string
    [exit 1]
    "#);
}

#[test]
fn a_held_session_names_its_holder() {
    let env = TestEnvironment::new();
    let _holder = Stream::hold(&env, "work");
    insta::assert_snapshot!(env.manent(&["append", "work", "text", "--wait", "0s"]), @"
    [stderr]
    error: [home]/sessions/work.jsonl is held by pid [pid]; wait for it, or read it meanwhile
    [exit 5]
    ");
}

#[test]
fn a_file_renamed_by_hand_is_not_taken_for_another_session() {
    let env = work();
    std::fs::rename(env.log("work"), env.log("play")).unwrap();
    insta::assert_snapshot!(env.manent(&["show", "play"]), @r#"
    [stderr]
    error: [home]/sessions/play.jsonl says it holds the session "work", not "play"; it was copied or renamed by hand: move a copy out of the store, or give it its name back
    [exit 1]
    "#);
    insta::assert_snapshot!(env.manent(&["append", "play", "x"]), @r#"
    [stderr]
    error: [home]/sessions/play.jsonl says it holds the session "work", not "play"; it was copied or renamed by hand: move a copy out of the store, or give it its name back
    [exit 1]
    "#);
}
