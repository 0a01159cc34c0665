//! The whole of what each command says: standard output, standard error and exit code, compared to the letter.
//! A script that parses any of it breaks when one of these changes.

use crate::support::{Stream, TestEnvironment, records};

/// A session of three turns and a title, written by the binary.
fn work() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.append("work", "hello");
    let reply = r#"{"role":"assistant","model":"m","tool_calls":[{"id":"c1","name":"ls"}],"content":"hi\nthere"}"#;
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
    insta::assert_snapshot!(env.manent(&["append", "work", "hello"]), @"");
    insta::assert_snapshot!(env.manent(&["append", "work", "hello again"]), @"");
}

#[test]
fn append_json_gives_a_receipt_that_scripts_can_read() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.manent(&["append", "work", "hello", "--json"]), @"");
    let output = env.manent(&["append", "work", "hello", "--json", "--durability", "flush"]);
    insta::assert_snapshot!(output, @"");
}

#[test]
fn append_jsonl_gives_a_receipt_for_each_line() {
    let env = TestEnvironment::new();
    let lines = format!("{}\n\n{}\n", records::plain("one"), records::plain("two"));
    insta::assert_snapshot!(env.manent_given(&["append", "work", "--jsonl"], lines), @"");
}

#[test]
fn append_says_where_the_torn_end_went() {
    let env = damaged();
    insta::assert_snapshot!(env.manent(&["append", "work", "five"]), @"");
}

#[test]
fn show_prints_turns_and_names_what_it_does_not_know() {
    insta::assert_snapshot!(work().manent(&["show", "work"]), @"");
}

#[test]
fn show_tail_counts_turns_from_the_end() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["show", "work", "--tail", "1"]), @"");
}

#[test]
fn show_from_begins_at_a_number() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["show", "work", "--from", "2"]), @"");
    insta::assert_snapshot!(env.manent(&["show", "work", "--from", "99"]), @"");
}

#[test]
fn show_json_prints_the_records_as_they_stand() {
    insta::assert_snapshot!(work().manent(&["show", "work", "--json"]), @"");
}

#[test]
fn show_raw_prints_only_what_was_said() {
    insta::assert_snapshot!(work().manent(&["show", "work", "--raw"]), @"");
}

#[test]
fn show_of_a_damaged_session_prints_what_is_left_and_names_the_rest() {
    insta::assert_snapshot!(damaged().manent(&["show", "work"]), @"");
}

#[test]
fn sessions_lists_them_newest_first() {
    let env = work();
    env.manent_given(
        &["append", "old", "--jsonl"],
        r#"{"ts":"2001-01-01T00:00:00.000Z","role":"user","content":"long ago"}"#,
    );
    insta::assert_snapshot!(env.manent(&["sessions"]), @"");
    insta::assert_snapshot!(env.manent(&["sessions", "--since", "2020-01-01", "--limit", "1"]), @"");
}

#[test]
fn sessions_json_has_the_documented_fields() {
    insta::assert_snapshot!(work().manent(&["sessions", "--json"]), @"");
}

#[test]
fn sessions_of_an_empty_store_says_how_to_begin() {
    let env = TestEnvironment::new();
    insta::assert_snapshot!(env.manent(&["sessions"]), @"");
    insta::assert_snapshot!(env.manent(&["sessions", "--json"]), @"");
}

#[test]
fn sessions_warns_of_damage_and_lists_the_session_all_the_same() {
    insta::assert_snapshot!(damaged().manent(&["sessions"]), @"");
}

#[test]
fn verify_says_that_all_is_well() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["verify"]), @"");
    insta::assert_snapshot!(env.manent(&["verify", "work", "--json"]), @"");
}

#[test]
fn verify_names_every_damaged_place() {
    let env = damaged();
    insta::assert_snapshot!(env.manent(&["verify"]), @"");
    insta::assert_snapshot!(env.manent(&["verify", "--json"]), @"");
}

#[test]
fn repair_says_what_it_kept_and_acknowledged_and_then_verify_is_content() {
    let env = damaged();
    insta::assert_snapshot!(env.manent(&["repair", "work"]), @"");
    insta::assert_snapshot!(env.manent(&["verify"]), @"");
    insta::assert_snapshot!(env.manent(&["repair"]), @"");
    insta::assert_snapshot!(env.manent(&["show", "work"]), @"");
}

#[test]
fn repair_json_says_the_same_to_a_script() {
    insta::assert_snapshot!(damaged().manent(&["repair", "--json"]), @"");
}

#[test]
fn errors_say_what_where_and_what_to_do_next() {
    let env = work();
    insta::assert_snapshot!(env.manent(&["show", "wrok"]), @"");
    insta::assert_snapshot!(env.manent(&["append", "", "text"]), @"");
    insta::assert_snapshot!(env.manent(&["append", &"k".repeat(1025), "text"]), @"");
    insta::assert_snapshot!(env.manent(&["append", "work", "text", "--expect-seq", "1"]), @"");
    insta::assert_snapshot!(env.manent(&["append", "work", "text", "--wait", "soon"]), @"");
    insta::assert_snapshot!(env.manent(&["show", "work", "--tail", "1", "--from", "1"]), @"");
    insta::assert_snapshot!(env.manent_given(&["append", "work", "--jsonl"], "{}\n"), @"");
}

#[test]
fn a_held_session_names_its_holder() {
    let env = TestEnvironment::new();
    let _holder = Stream::hold(&env, "work");
    insta::assert_snapshot!(env.manent(&["append", "work", "text", "--wait", "0s"]), @"");
}

#[test]
fn a_file_renamed_by_hand_is_not_taken_for_another_session() {
    let env = work();
    std::fs::rename(env.log("work"), env.log("play")).unwrap();
    insta::assert_snapshot!(env.manent(&["show", "play"]), @"");
    insta::assert_snapshot!(env.manent(&["append", "play", "x"]), @"");
}
