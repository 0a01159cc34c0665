//! `manent consolidate` and the inbox: what was said becomes memory with proof, and what was not said does not.

use std::time::Duration;

use manent_sim::model_server::{ModelServer, Script, replies};
use serde_json::{Value, json};

use crate::support::model::{Task, ollama, requests, task};
use crate::support::{Output, Stream, TestEnvironment};

const BOAT: &str = "My boat is called Bertha and lies in Lisbon.";

/// A model that gives these answers where facts are asked for, one after the other.
fn telling(answers: Vec<Value>) -> ModelServer {
    let next = std::sync::atomic::AtomicUsize::new(0);
    ollama(move |request| match task(request) {
        Task::Facts => {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(answers.len() - 1);
            match &answers[at] {
                Value::String(text) => replies::ollama(text),
                facts => replies::ollama(&facts.to_string()),
            }
        }
        _ => replies::ollama("The user told of a boat."),
    })
}

fn fact(quote: &str, content: &str) -> Value {
    json!({"facts": [{"kind": "fact", "quote": quote, "content": content}]})
}

/// A session in which something was said, and a model that finds it.
fn scene(answers: Vec<Value>) -> (TestEnvironment, ModelServer) {
    let env = TestEnvironment::new();
    let server = telling(answers);
    env.serve(&server);
    env.append("a", BOAT);
    (env, server)
}

fn json_of(output: &Output) -> Value {
    output.assert_code(0);
    serde_json::from_slice(&output.stdout_bytes).unwrap_or_else(|e| panic!("{e}: {output}"))
}

#[test]
fn what_was_said_is_remembered_with_its_proof() {
    let (env, server) = scene(vec![fact(BOAT, "The user's boat is called Bertha and lies in Lisbon.")]);
    let done = json_of(&env.manent(&["consolidate", "a", "--json"]));
    let names: Vec<&String> = done.as_object().unwrap().keys().collect();
    let wanted = [
        "session",
        "id",
        "turns",
        "daily",
        "items",
        "proposed",
        "refused",
        "unreadable",
        "more",
        "dry_run",
        "tokens",
    ];
    let mut sorted = (names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), wanted.to_vec());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1);
    assert_eq!(
        (&done["session"], &done["turns"], &done["dry_run"]),
        (&json!("a"), &json!([1, 1]), &json!(false))
    );
    let learned = &done["items"][0];
    assert_eq!(
        (&learned["quote"], &learned["seq"], &learned["kind"]),
        (&json!(BOAT), &json!(1), &json!("fact"))
    );
    assert!(done["tokens"]["input"].as_u64() > Some(0));
    let why = env.done(&["memory", "why", &learned["id"].to_string()]);
    assert!(why.contains("what the user said: the quote is there") && why.contains("> "), "{why}");
    assert!(why.contains(BOAT) && why.contains("session   a, record 1"), "{why}");
    // Once is enough.
    let asked = server.requests().len();
    let again = env.manent(&["consolidate", "a"]);
    again.assert_code(0);
    assert!(again.stdout_bytes.is_empty() && again.stderr().contains("nothing new was said in a"), "{again}");
    env.manent(&["consolidate", "a", "--again"]).assert_code(0);
    let chats = requests(&server, Task::Facts).len();
    assert_eq!(chats, 1, "not by the same model with the same words, {asked}");
    assert_eq!(env.mem_json(&["list"]).len(), 2, "a day and a fact");
}

#[test]
fn an_answer_that_cannot_be_read_is_asked_for_once_more() {
    let (env, server) = scene(vec![json!("Sure! Here are the facts:"), fact(BOAT, BOAT)]);
    let done = json_of(&env.manent(&["consolidate", "a", "--json"]));
    assert_eq!((done["items"].as_array().unwrap().len(), &done["unreadable"]), (1, &json!(false)));
    let asked = requests(&server, Task::Facts);
    assert_eq!(asked.len(), 2);
    let complaint = asked[1].json().to_string();
    assert!(
        complaint.contains("That cannot be read") && complaint.contains("Here are the facts"),
        "{complaint}"
    );

    let (env, server) = scene(vec![json!("no"), json!("{\"facts\":"), fact(BOAT, BOAT)]);
    let output = env.manent(&["consolidate", "a"]);
    output.assert_code(0);
    assert!(output.stderr().contains("no answer that can be read"), "{output}");
    assert!(output.stdout().contains("nothing to remember"), "{output}");
    assert_eq!(requests(&server, Task::Facts).len(), 2, "not for ever");
    assert_eq!(env.mem_json(&["list", "--kind", "fact"]).len(), 0);
}

#[test]
fn what_the_user_did_not_say_is_not_remembered() {
    let lie = "My boat is called Titanic and lies in Oslo.";
    let (env, _server) = scene(vec![fact(lie, lie)]);
    let done = json_of(&env.manent(&["consolidate", "a", "--json"]));
    assert_eq!(done["items"], json!([]));
    assert_eq!(done["refused"], json!([{"why": "not said by the user", "quote": lie}]));
    assert_eq!(env.holding("Titanic"), [""; 0]);
    // What the model makes of true words is not believed either.
    let (env, _server) = scene(vec![fact(BOAT, "The user's boat is called Titanic and sank.")]);
    let done = json_of(&env.manent(&["consolidate", "a", "--json"]));
    assert!(done["items"][0]["content"].as_str().unwrap().contains(BOAT), "{done}");
    assert_eq!(env.holding("Titanic"), [""; 0]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (env, server) = scene(vec![fact(BOAT, BOAT)]);
    let before = env.tree();
    let done = json_of(&env.manent(&["consolidate", "a", "--dry-run", "--json"]));
    assert_eq!((&done["dry_run"], &done["items"][0]["id"]), (&json!(true), &Value::Null));
    let text = env.done(&["consolidate", "a", "--dry-run"]);
    assert!(text.contains("would be") && text.contains(BOAT), "{text}");
    assert_eq!(env.tree().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(env.tree() == before, "no byte is different");
    assert_eq!(requests(&server, Task::Facts).len(), 2);
    assert_eq!(json_of(&env.manent(&["consolidate", "a", "--json"]))["items"].as_array().unwrap().len(), 1);
}

#[test]
fn the_inbox_waits_for_a_person() {
    let tea = "I always drink my tea without any milk.";
    let env = TestEnvironment::new();
    let both = json!({"facts": [
        {"kind": "fact", "quote": BOAT, "content": BOAT}, {"kind": "pref", "quote": tea, "content": tea},
    ]});
    let server = telling(vec![both]);
    env.serve(&server);
    env.append("a", &format!("{BOAT} {tea}"));
    let output = env.manent(&["consolidate", "a", "--inbox"]);
    output.assert_code(0);
    assert!(
        output.stderr().contains("2 items wait in the inbox; `manent memory inbox` shows it"),
        "{output}"
    );
    assert_eq!(env.mem_json(&["list", "--kind", "fact"]).len(), 0);
    let inbox = env.mem_json(&["inbox"]);
    assert_eq!(inbox.len(), 2);
    let id = |words: &str| {
        let item = inbox.iter().find(|item| item["content"].as_str().unwrap().contains(words)).unwrap();
        item["id"].to_string()
    };
    let shown = env.done(&["memory", "inbox"]);
    assert!(shown.contains(BOAT) && shown.contains("a 1: "), "{shown}");
    env.mem(&["accept", "99"]).assert_fails(4, &["99"]);
    env.mem(&["reject", &id("tea"), "99"]).assert_code(4);
    assert_eq!(env.mem_json(&["inbox"]).len(), 2, "all or none");
    let accepted = env.done(&["memory", "accept", &id("boat")]);
    assert!(accepted.starts_with("remembered "), "{accepted}");
    env.done(&["memory", "reject", &id("tea")]);
    assert!(env.mem_json(&["inbox"]).is_empty());
    let facts = env.mem_json(&["list", "--kind", "fact"]);
    assert_eq!(facts.len(), 1);
    let why = env.done(&["memory", "why", &facts[0]["id"].to_string()]);
    assert!(why.contains("what the user said: the quote is there"), "{why}");
    assert_eq!(env.mem_json(&["list", "--kind", "pref"]).len(), 0);
    env.mem(&["inbox"]).assert_code(0);
}

#[test]
fn what_contradicts_replaces_or_waits_for_a_person() {
    let (new, old) = ("My boat lies in Porto.", "My boat lies in Lisbon.");
    let env = TestEnvironment::new();
    let server = telling(vec![fact(old, old), fact(new, new)]);
    env.serve(&server);
    env.append("a", old);
    let first = json_of(&env.manent(&["consolidate", "a", "--json"]))["items"][0]["id"].clone();
    env.append("a", new);
    let second = json_of(&env.manent(&["consolidate", "a", "--json"]));
    let replaced = &second["items"][0]["replaces"];
    let listed: Vec<Value> = env.mem_json(&["list", "--kind", "fact"]);
    if replaced.is_null() {
        assert_eq!(listed.len(), 2, "two facts that may both be true: {second}");
    } else {
        assert_eq!((replaced, listed.len()), (&first, 1), "{second}");
    }
    // What a person put there is not replaced by what a model took from a conversation.
    let env = TestEnvironment::new();
    let server = telling(vec![fact("I do not like tea at all.", "The user does not like tea at all.")]);
    env.serve(&server);
    let mine = env.remember(&["I like tea"]);
    env.append("a", "I do not like tea at all.");
    let done = json_of(&env.manent(&["consolidate", "a", "--json"]));
    assert!(env.remembered().contains(&mine), "{done}");
}

#[test]
fn all_sessions_and_unknown_ones() {
    let (env, server) = scene(vec![fact(BOAT, BOAT)]);
    env.append("b", "The weather was fine.");
    env.manent(&["consolidate"]).assert_code(2);
    env.manent(&["consolidate", "--all", "a"]).assert_code(2);
    let output = env.manent(&["consolidate", "nobody", "a"]);
    output.assert_code(4);
    assert!(output.stderr().contains("nobody") && output.stdout().contains("consolidated a"), "{output}");
    let output = env.manent(&["consolidate", "--all"]);
    output.assert_code(0);
    assert!(output.stdout().contains("consolidated b 1-1"), "{output}");
    assert!(requests(&server, Task::Daily).len() == 2);
}

#[test]
fn without_a_model_days_are_told_and_nothing_is_learned() {
    let env = TestEnvironment::new();
    env.serve_nobody();
    env.append("a", BOAT);
    let output = env.manent(&["consolidate", "a"]);
    output.assert_fails(1, &["no model server answers", "--without-model"]);
    assert!(!env.home().join("consolidation.jsonl").exists());
    let done = json_of(&env.manent(&["consolidate", "a", "--without-model", "--json"]));
    assert!(done["daily"]["content"].as_str().unwrap().contains("Bertha"), "{done}");
    assert_eq!(done["items"], json!([]));
    env.manent(&["consolidate", "a", "--without-model", "--model", "x"]).assert_code(2);
    let recall = env.manent(&["consolidate", "a", "--provider", "recall"]);
    recall.assert_fails(1, &["no model is configured"]);
}

#[test]
fn a_server_that_refuses_is_a_failure_for_scripts() {
    let env = TestEnvironment::new();
    let server = ollama(|_| Script::error(400, r#"{"error":"no"}"#));
    env.serve(&server);
    env.append("a", BOAT);
    env.append("b", BOAT);
    let output = env.manent(&["consolidate", "a", "b"]);
    output.assert_fails(1, &["a: ", "looked at again next time"]);
    assert!(output.stderr().contains("b: "), "the other one is tried too: {output}");
    assert!(env.mem_json(&["list"]).is_empty());
}

#[test]
fn the_budget_of_the_day_is_kept() {
    let (env, server) = scene(vec![fact(BOAT, BOAT)]);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.configure(&format!("{config}tokens_per_day = 1\n"));
    env.append("b", BOAT);
    let output = env.manent(&["consolidate", "--all"]);
    assert!(
        output.stderr().contains("are allowed") && output.stderr().contains("tokens_per_day"),
        "{output}"
    );
    output.assert_code(1);
    assert_eq!(requests(&server, Task::Facts).len(), 1, "the first took more than is allowed, and the last");
}

#[test]
fn another_who_consolidates_is_waited_for_or_named() {
    let (env, server) = scene(vec![fact(BOAT, BOAT)]);
    env.append("slow", BOAT);
    let slow = ollama(|_| Script::new().stall());
    let mut command = env.command(&["consolidate", "slow", "--provider", "ollama"]);
    command.env("OLLAMA_HOST", slow.url());
    let mut holder = command.spawn().unwrap();
    assert!(slow.wait_for_requests(2, Duration::from_secs(30)));
    while !env.home().join("consolidation.jsonl").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = holder.id();
    let output = env.manent(&["consolidate", "a", "--wait", "0s"]);
    output.assert_fails(5, &["consolidating", &format!("pid {pid}"), "wait longer"]);
    assert!(requests(&server, Task::Facts).is_empty());
    let waiting = Stream::start(&env, &["consolidate", "a", "--wait", "50s"]);
    assert!(waiting.is_silent_for(Duration::from_millis(200)), "it waits");
    holder.kill().unwrap();
    holder.wait().unwrap();
    waiting.lines_until(|line| line.contains("consolidated a"));
    assert!(waiting.finish().0.success());
}

#[test]
fn a_kill_between_the_two_questions_is_gone_on_from() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match task(request) {
        Task::Facts => Script::new().stall(),
        _ => replies::ollama("The user told of a boat."),
    });
    env.serve(&server);
    env.append("a", BOAT);
    let mut child = env.command(&["consolidate", "a"]).spawn().unwrap();
    while requests(&server, Task::Facts).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let days = env.mem_json(&["list", "--kind", "daily"]);
    assert_eq!(days.len(), 1, "what happened is written down by then");
    let server = telling(vec![fact(BOAT, BOAT)]);
    env.serve(&server);
    let done = json_of(&env.manent(&["consolidate", "a", "--json"]));
    assert_eq!(done["items"].as_array().unwrap().len(), 1);
    assert_eq!(done["daily"]["id"], days[0]["id"], "and not again");
    assert!(requests(&server, Task::Daily).is_empty());
    assert_eq!(env.mem_json(&["list"]).len(), 2);
    env.manent(&["verify"]).assert_code(0);
}
