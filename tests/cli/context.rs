//! `manent context` and `manent compact`: what a model sees of a session, and making it smaller.

use serde_json::Value;

use crate::support::TestEnvironment;

/// Returns the messages that a model sees.
#[track_caller]
fn seen(env: &TestEnvironment, args: &[&str]) -> Vec<Value> {
    let output = env.manent(&[&["context", "--json"], args].concat());
    output.assert_code(0);
    let mut lines: Vec<Value> =
        output.stdout().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let total = lines.pop().expect("the last line");
    let tokens: u64 = lines.iter().map(|message| message["tokens"].as_u64().unwrap()).sum();
    assert_eq!(
        (total["messages"].as_u64(), total["tokens"].as_u64()),
        (Some(lines.len() as u64), Some(tokens))
    );
    lines
}

/// A conversation in which a tool never answered.
fn interrupted(env: &TestEnvironment) {
    let records = concat!(
        r#"{"role":"user","content":"list the files"}"#,
        "\n",
        r#"{"role":"assistant","content":"","tool_calls":[{"id":"a","name":"ls","arguments":{}}]}"#,
        "\n",
        r#"{"role":"user","content":"and?"}"#,
        "\n",
        r#"{"role":"assistant","content":"sorry"}"#,
        "\n",
    );
    env.manent_given(&["append", "work", "--jsonl"], records).assert_code(0);
}

#[test]
fn a_context_is_shown_message_by_message_with_what_each_takes() {
    let env = TestEnvironment::new();
    interrupted(&env);
    let messages = seen(&env, &["work"]);
    let roles: Vec<&str> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant"]);
    assert_eq!((&messages[2]["from"], &messages[2]["tool_call_id"]), (&"interrupted".into(), &"a".into()));
    assert!(messages.iter().all(|message| message["tokens"].as_u64() > Some(0)));
    let shown = env.manent(&["context", "work"]);
    assert!(
        shown.stdout().contains("put in for a result that never came, of record 2"),
        "{}",
        shown.stdout()
    );
    let all: u64 = messages.iter().map(|message| message["tokens"].as_u64().unwrap()).sum();
    assert!(shown.stderr().contains(&format!("5 messages, {all} tokens")), "{}", shown.stderr());
}

#[test]
fn what_the_model_saw_at_an_answer_is_what_stood_before_it() {
    let env = TestEnvironment::new();
    interrupted(&env);
    let at_answer = seen(&env, &["work", "--at", "4"]);
    assert_eq!(at_answer, seen(&env, &["work"])[..4]);
    assert_eq!(seen(&env, &["work", "--at", "3"]), at_answer, "the question is the last thing it saw");
    env.manent(&["context", "work", "--at", "9"]).assert_fails(4, &["work", "no record 9"]);
    env.manent(&["context", "nobody"]).assert_fails(4, &["nobody"]);
}

/// A number that a parser would round, or refuse, is sent to the provider as the model wrote it.
#[test]
fn calls_come_out_as_they_are_stored() {
    let env = TestEnvironment::new();
    let calls = r#"[{"id":"a","name":"f","arguments":{"n":123456789012345678901234567890,"x":1.10}}]"#;
    let record = format!(r#"{{"role":"assistant","content":"","tool_calls":{calls}}}"#);
    env.manent_given(&["append", "work", "--jsonl"], record + "\n").assert_code(0);
    let shown = env.manent(&["context", "work", "--json"]).stdout();
    assert!(shown.contains(&format!(r#""tool_calls":{calls},"#)), "{shown}");
}

#[test]
fn a_context_never_drives_the_terminal() {
    let env = TestEnvironment::new();
    env.append("work", "\u{1b}[31mred\u{1b}]0;title\u{7}");
    let shown = env.manent(&["context", "work"]).stdout();
    assert!(!shown.contains('\u{1b}') && shown.contains("red"), "{shown:?}");
}

#[test]
fn a_compaction_by_hand_frees_what_it_says_and_can_be_taken_back() {
    let env = TestEnvironment::new();
    let record = |n: u32| {
        let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
        format!("{{\"role\":\"{role}\",\"content\":\"turn {n} about src/file{n}.rs and some more words\"}}\n")
    };
    let records: String = (0..60).map(record).collect();
    env.manent_given(&["append", "work", "--jsonl", "--durability", "flush"], records).assert_code(0);
    let before = seen(&env, &["work"]);
    let done = env.manent(&["compact", "work", "--json"]);
    done.assert_code(0);
    let done: Value = serde_json::from_str(&done.stdout()).expect("JSON");
    let after = seen(&env, &["work"]);
    let tokens = |messages: &[Value]| messages.iter().map(|m| m["tokens"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        (done["before"].as_u64(), done["after"].as_u64()),
        (Some(tokens(&before)), Some(tokens(&after)))
    );
    assert!(tokens(&after) * 10 < tokens(&before) * 7 && after.len() <= 30, "{done}");
    assert_eq!(after[0]["from"], "summary");
    assert_eq!(env.records("work").iter().filter(|line| line.contains("\"role\"")).count(), 60);
    env.manent(&["compact", "work", "--undo"]).assert_code(0);
    assert_eq!(seen(&env, &["work"]), before);
    env.manent(&["compact", "work", "--undo"]).assert_fails(4, &["no compaction of work is in force"]);
}

#[test]
fn a_session_with_nothing_to_sum_up_is_left_alone() {
    let env = TestEnvironment::new();
    env.append("work", "hello");
    let before = env.bytes("work");
    let done = env.manent(&["compact", "work"]);
    done.assert_code(0);
    assert!(done.stderr().contains("nothing in work to compact"), "{}", done.stderr());
    assert_eq!(env.bytes("work"), before);
    env.manent(&["compact", "nobody"]).assert_fails(4, &["nobody"]);
}
