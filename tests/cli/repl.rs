//! `manent chat` on a terminal: lines are questions, lines with a colon are commands.

use manent_sim::model_server::{Script, replies};
use rustix::process::Signal;

use crate::support::TestEnvironment;
use crate::support::model::{Sitting, Task, asked, ollama, piece, requests, saying};

#[test]
fn somebody_at_a_terminal_asks_looks_around_and_leaves() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match asked(request) {
        more if more.starts_with("Tell me more") => {
            replies::ollama(&"There are clouds over the sea. ".repeat(200))
        }
        _ => replies::ollama("The sky is blue."),
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "sky"]);
    sitting.sees("a new session sky");
    sitting.says("What colour is the sky?", "The sky is blue.");
    sitting.says(":help", ":sessions");
    sitting.says(":search colour", "What colour is the sky?");
    sitting.says(":memory add The user likes the sky", "remembered");
    sitting.says(":memory list", "The user likes the sky");
    sitting.says(":memory", "The user likes the sky");
    sitting.says(":context", "tokens; 3 messages");
    sitting.says(":context all", "You are a helpful assistant");
    sitting.says(":context nonsense", ":context all");
    sitting.says(":title The colour of things", "The colour of things");
    sitting.says(":search colour", "sky");
    sitting.says(":nonsense", "there is no command :nonsense; :help lists what there is");
    sitting.says(":memory forget 99", "99");
    sitting.says(":memory frob", "frob");
    sitting.says(":model", "`:model NAME` goes on with another");
    sitting.says(":config", "agent.model");
    sitting.says(":show", "What colour is the sky?");
    for n in 0..4 {
        sitting.says(&format!("Tell me more of the sky, part {n}."), "tokens");
    }
    sitting.says(":compact", "compacted");
    sitting.says(":undo", "undone");
    sitting.says(":fork sky-two", "going on with session sky-two");
    sitting.says("And in the fork?", "The sky is blue.");
    sitting.types("\u{4}");
    let (status, seen) = sitting.leaves();
    assert_eq!(status.code(), Some(0), "{seen}");
    assert!(seen.contains("everything is kept; `manent chat sky-two` goes on"), "{seen}");
    assert_eq!(env.turns("sky").len(), 10);
    assert_eq!(env.turns("sky-two").last().unwrap().1, "The sky is blue.");
    assert_eq!(requests(&server, Task::Chat).len(), 6, "commands ask no model");
}

#[test]
fn a_line_that_ends_with_a_backslash_goes_on() {
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.types("one\\\r");
    sitting.sees("…");
    sitting.says("two", "Aye.");
    sitting.types(":quit\r");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    assert_eq!(env.turns("a")[0].1, "one\ntwo");
}

#[test]
fn ctrl_c_stops_an_answer_and_not_the_conversation() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match asked(request).as_str() {
        "slow" => Script::new().chunk(piece("half of it")).stall(),
        _ => replies::ollama("whole"),
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.types("slow\r");
    sitting.sees("half of it");
    sitting.signal(Signal::INT);
    sitting.sees("stopped; what came so far is kept");
    sitting.says("quick", "whole");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    let turns = env.turns("a");
    assert_eq!((turns.len(), turns[1].1.as_str()), (4, "half of it"));
}

#[test]
fn trouble_with_a_server_does_not_end_the_conversation() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match asked(request).as_str() {
        "bad" => Script::error(400, r#"{"error":"the card fell out"}"#),
        _ => replies::ollama("fine"),
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("bad", "the card fell out");
    sitting.says("good", "fine");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
}

#[test]
fn what_a_model_says_at_a_terminal_is_shown_and_not_obeyed() {
    let env = TestEnvironment::new();
    let server = ollama(|_| replies::ollama("look \u{1b}[2J\u{1b}]0;owned\u{7} here"));
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("x", "here");
    sitting.types("\u{4}");
    let bytes = sitting.bytes();
    sitting.leaves();
    for bad in [&b"\x1b[2J"[..], b"\x1b]0;", b"\x07"] {
        assert!(!bytes.windows(bad.len()).any(|window| window == bad), "{bad:?}");
    }
}

#[test]
fn what_a_model_wants_to_do_is_shown_and_not_obeyed() {
    let env = TestEnvironment::new();
    let call =
        serde_json::json!({"name": "run_command", "arguments": {"command": "echo \u{1b}]0;owned\u{7} $X"}});
    let call = format!("<tool_call>\n{call}\n</tool_call>");
    let server = ollama(move |request| {
        let is_told = asked(request).contains("<tool_result");
        replies::ollama(if is_told { "it was not allowed" } else { &call })
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.types("x\r");
    sitting.sees("or no and why");
    // Between prompts the terminal is as it was, and this one does not translate the return key.
    sitting.types("never\n");
    sitting.sees("it was not allowed");
    sitting.types("\u{4}");
    let bytes = sitting.bytes();
    sitting.leaves();
    for bad in [&b"\x1b]0;"[..], b"\x07"] {
        assert!(!bytes.windows(bad.len()).any(|window| window == bad), "{bad:?}");
    }
    let result = env.manent(&["show", "a", "--json"]).stdout();
    assert!(result.contains("the user did not allow it: never"), "the model is told why: {result}");
}

#[test]
fn two_terminals_on_one_session_see_one_conversation() {
    let env = TestEnvironment::new();
    let server = ollama(|request| replies::ollama(&format!("answer to {}", asked(request))));
    env.serve(&server);
    let mut one = Sitting::down(&env, &["chat", "a"]);
    one.sees("a new session a");
    one.says("first", "answer to first");
    let mut two = Sitting::down(&env, &["chat", "a"]);
    two.sees("going on with session a");
    two.sees("answer to first");
    two.says("second", "answer to second");
    one.says("third", "answer to third");
    for mut sitting in [one, two] {
        sitting.types("\u{4}");
        assert_eq!(sitting.leaves().0.code(), Some(0));
    }
    let sent = requests(&server, Task::Chat).pop().unwrap().json().to_string();
    assert!(sent.contains("answer to second"), "the third question knows of the second: {sent}");
    assert_eq!(env.turns("a").len(), 6);
}
