//! Half an hour of work, played fast: two terminals on one conversation, tools, a command that hangs, Ctrl-C, a server
//! that dies, kill -9, going on, contexts that are compacted. Whatever was typed and whatever was shown as an answer is
//! in the log afterwards, once and in its order.
//!
//! The same is played with a real model (`./test --real-model`), as far as one that small can play along.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use manent_sim::model_server::{Closing, Request, Script, replies};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::model::{MODEL, Sitting, Task, asked, ollama, piece, task};
use crate::support::{HANG, TestEnvironment};

/// The server died once.
static DIED: AtomicBool = AtomicBool::new(false);

/// The script of the model for each question.
fn plays(request: &Request) -> Script {
    match task(request) {
        Task::Summary => return replies::ollama("They worked on notes and counted."),
        Task::Chat => {}
        _ => return replies::ollama(r#"{"facts":[]}"#),
    }
    // What was stopped or summed up, and what the user says next, come in one message.
    let asked = asked(request);
    let asked = asked.rsplit("</tool_result>").next().unwrap_or_default().lines().last().unwrap_or_default();
    let call = |name: &str, arguments: &Value| {
        let call = json!({"name": name, "arguments": arguments});
        replies::ollama(&format!("One moment.\n<tool_call>\n{call}\n</tool_call>"))
    };
    let half = || Script::new().chunk(piece("It begins so"));
    match asked {
        "" => replies::ollama("The tool is done."),
        "write it down" => call("write_file", &json!({"path": "notes.txt", "content": "milk\n"})),
        "read it to me" => call("read_file", &json!({"path": "notes.txt"})),
        "count for ever" => call("run_command", &json!({"command": "echo begun; touch begun; sleep 1000"})),
        "tell me a long story" | "tell me more" => half().stall(),
        "are you well?" if !DIED.swap(true, Ordering::SeqCst) => half().close(Closing::Rst),
        other => {
            let (number, _) = other.split_once(' ').unwrap_or((other, ""));
            Script::split(ollama_bytes(&format!("answer to {number}")), 7)
        }
    }
}

/// The bytes of an answer, so that they can be sent in odd pieces.
fn ollama_bytes(text: &str) -> String {
    piece(text) + &replies::ollama_done("stop", 100, 10)
}

fn sit(env: &TestEnvironment, workspace: &Path, seen: &str) -> Sitting {
    let mut sitting = Sitting::down_in(env, &["chat", "work"], workspace);
    sitting.sees(seen);
    sitting
}

/// A place to work in, apart from the store.
fn workspace(env: &TestEnvironment) -> PathBuf {
    let workspace = env.root().join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    workspace
}

/// Questions of some length, so that contexts grow.
fn question(number: usize) -> String {
    format!("q{number} {}", "what of the other one, and of the one behind it? ".repeat(12).trim_end())
}

#[test]
fn half_an_hour_of_work_loses_nothing() {
    let env = TestEnvironment::new();
    let server = ollama(plays);
    env.configure(&format!(
        "[agent]\nmodel = \"{MODEL}\"\nmax_context_tokens = 3000\n[ollama]\nurl = \"{}\"\n\
         [consolidation]\nwhen = \"off\"\n",
        server.url()
    ));
    let workspace = workspace(&env);
    let (mut typed, mut shown) = (Vec::new(), Vec::new());
    let mut ask = |sitting: &mut Sitting, question: &str, answer: &str| {
        sitting.says(question, answer);
        typed.push(question.to_owned());
        shown.push(answer.to_owned());
    };

    let mut one = sit(&env, &workspace, "a new session work");
    ask(&mut one, "q1 hello", "answer to q1");
    let mut two = sit(&env, &workspace, "going on with session work");
    ask(&mut two, "q2 hello from the other side", "answer to q2");

    // Tools: what changes something is shown and asked for.
    one.types("write it down\r");
    one.sees("+milk");
    one.types("y\n");
    one.sees("The tool is done.");
    ask(&mut one, "read it to me", "The tool is done.");
    assert_eq!(std::fs::read_to_string(workspace.join("notes.txt")).unwrap(), "milk\n");

    // A command that hangs, and an answer that does: both are stopped, and the conversation goes on.
    stop_a_command(&mut one, &workspace);
    ask(&mut one, "q3 still there?", "answer to q3");
    one.types("tell me a long story\r");
    one.sees("It begins so");
    one.signal(Signal::INT);
    one.sees("what came so far is kept");

    // The server dies in the middle; what came is kept, and it is asked again.
    one.types("are you well?\r");
    one.sees("the question is kept");
    one.says(":retry", "answer to are");
    ask(&mut one, "q4 and now?", "answer to q4");

    // Killed in the middle of an answer; the other terminal, and a new one, go on.
    one.types("tell me more\r");
    one.sees("It begins so");
    one.signal(Signal::KILL);
    one.leaves();
    ask(&mut two, "q5 did you see that?", "answer to q5");
    let mut three = sit(&env, &workspace, "going on with session work");
    for number in 6..18 {
        let (sitting, question) = (if number % 2 == 0 { &mut two } else { &mut three }, question(number));
        ask(sitting, &question, &format!("answer to q{number}"));
    }
    for mut sitting in [two, three] {
        sitting.types("\u{4}");
        assert_eq!(sitting.leaves().0.code(), Some(0));
    }

    assert_kept(&env, &typed, &shown);
}

/// Lets a model run a command that hangs, and stops it.
fn stop_a_command(sitting: &mut Sitting, workspace: &Path) {
    sitting.types("count for ever\r");
    sitting.sees("or no and why");
    sitting.types("y\n");
    sitting.sees("· run echo begun");
    // It is there when it has said something.
    let began = std::time::Instant::now();
    while !workspace.join("begun").exists() && began.elapsed() < HANG / 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    sitting.signal(Signal::INT);
    sitting.sees("stopped");
}

/// Asserts that everything that was typed and shown is in the log, and that the log is whole.
fn assert_kept(env: &TestEnvironment, typed: &[String], shown: &[String]) {
    let turns = env.turns("work");
    let said = |role: &str| -> Vec<String> {
        turns.iter().filter(|(r, _)| r == role).map(|(_, text)| text.clone()).collect()
    };
    let in_order = [
        "q1 hello",
        "q2 hello from the other side",
        "write it down",
        "read it to me",
        "count for ever",
        "q3 still there?",
        "tell me a long story",
        "are you well?",
        "are you well?",
        "q4 and now?",
        "tell me more",
        "q5 did you see that?",
    ];
    let mut wanted: Vec<String> = in_order.map(str::to_owned).to_vec();
    wanted.extend((6..18).map(question));
    assert_eq!(said("user"), wanted, "each question once, in its order");
    assert!(typed.iter().all(|question| wanted.contains(question)));
    for answer in shown {
        assert!(said("assistant").contains(answer), "{answer}");
    }
    let records: Vec<Value> = env.records("work").iter().map(|r| serde_json::from_str(r).unwrap()).collect();
    let numbers: Vec<u64> = records.iter().filter_map(|r| r["seq"].as_u64()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no number twice, none missing");
    let interrupted = |how: &str| records.iter().filter(|r| r["interrupted"] == how).count();
    assert_eq!((interrupted("stopped"), interrupted("broken")), (1, 1));
    let hung = records.iter().find(|r| r["name"] == "run_command").expect("its result is kept");
    assert!(hung["content"].as_str().unwrap().contains("begun"), "{hung}");
    assert!(hung["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty()), "{hung}");
    assert!(records.iter().any(|r| r["kind"] == "compaction"), "the context was compacted on the way");
    env.assert_clean("work");
    env.manent(&["context", "work"]).assert_code(0);
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_half_an_hour_of_work_loses_nothing() {
    let url = std::env::var("MANENT_REAL_MODEL").expect("run ./test --real-model");
    let env = TestEnvironment::new();
    env.configure(&format!(
        "[agent]\nprovider = \"openai\"\nmodel = \"smollm2\"\nmax_context_tokens = 1000\n[openai]\nurl = \
         \"{url}\"\n[consolidation]\nwhen = \"off\"\n"
    ));
    let workspace = workspace(&env);
    let sit = |seen: &str| {
        let mut sitting = Sitting::down_in(&env, &["chat", "work", "--no-tools"], &workspace)
            .with_patience(std::time::Duration::from_mins(4));
        sitting.sees(seen);
        sitting
    };
    // The line under an answer is there when the answer is in the log.
    let done = "tokens";
    let mut one = sit("a new session work");
    one.says("What is the capital of France? One word.", done);
    let mut two = sit("going on with session work");
    two.says("And of Spain? One word.", done);
    one.types("Tell me a very long story about a fox and a river.\r");
    one.answers();
    one.signal(Signal::INT);
    one.sees("stopped");
    one.types("Tell me another very long story, about a mountain.\r");
    one.answers();
    one.signal(Signal::KILL);
    one.leaves();
    let mut three = sit("going on with session work");
    let padding = "Please keep in mind that the harbour has seven boats and a red crane. ".repeat(6);
    for number in 0..4 {
        let sitting = if number % 2 == 0 { &mut two } else { &mut three };
        sitting.says(&format!("{padding} Say the number {number}."), done);
    }
    for mut sitting in [two, three] {
        sitting.types("\u{4}");
        assert_eq!(sitting.leaves().0.code(), Some(0));
    }
    let users = env.turns("work").into_iter().filter(|(role, _)| role == "user").count();
    assert_eq!(users, 8, "every question is there, also the one that was killed");
    let records: Vec<Value> = env.records("work").iter().map(|r| serde_json::from_str(r).unwrap()).collect();
    assert_eq!(records.iter().filter(|r| r["interrupted"] == "stopped").count(), 1);
    assert!(records.iter().any(|r| r["kind"] == "compaction"), "the context was compacted on the way");
    env.assert_clean("work");
}
