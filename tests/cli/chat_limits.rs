//! `manent chat` against servers that never end, and with a memory that cannot be read: there is an end, what came is
//! kept, and the person is told which limit it was and which setting changes it.

use std::time::Duration;

use manent_sim::model_server::{ModelServer, Script, replies};
use serde_json::Value;

use crate::support::model::{MODEL, Task, ollama, piece, saying, task};
use crate::support::{TestEnvironment, machine};

/// Has the binary ask this server, with these settings of the agent.
fn serve(env: &TestEnvironment, server: &ModelServer, settings: &str) {
    let url = server.url();
    env.configure(&format!(
        "[agent]\nmodel = \"{MODEL}\"\nprovider = \"ollama\"\n{settings}\n[ollama]\nurl = \"{url}\"\n\
         [retro]\nevery = \"off\"\n[consolidation]\nwhen = \"off\"\n"
    ));
}

/// The last record of a session.
fn last(env: &TestEnvironment, key: &str) -> Value {
    serde_json::from_str(env.records(key).last().unwrap()).unwrap()
}

/// More than a mebibyte in pieces of a few bytes, as models send them, and then nothing.
fn endless() -> Script {
    let lines = piece("sixteen bytes!! ").repeat(1000);
    (0..80).fold(Script::new(), |script, _| script.chunk(&lines)).stall()
}

#[test]
fn a_server_that_streams_without_end_is_cut_off_and_what_came_is_kept() {
    let env = TestEnvironment::new();
    let server = ollama(|_| endless());
    serve(&env, &server, "max_answer_bytes = 1000000");
    let output = env.chat(&["a"], "go");
    output.assert_fails(1, &["more than 1000000 bytes", "agent.max_answer_bytes", "the question is kept"]);
    let kept = last(&env, "a");
    assert_eq!((&kept["role"], &kept["interrupted"]), (&"assistant".into(), &"broken".into()));
    assert_eq!(kept["content"].as_str().unwrap().len(), 1_000_000);
    env.assert_clean("a");
}

/// The pieces of an answer are joined while nobody reads them: by themselves they would take many times its length.
#[cfg(target_os = "linux")]
#[test]
fn an_endless_answer_takes_little_memory() {
    if !machine::has("prlimit") {
        return machine::skip("an_endless_answer_takes_little_memory", "there is no prlimit");
    }
    let env = TestEnvironment::new();
    let server = ollama(|_| {
        let lines = piece("8 bytes ").repeat(1000);
        (0..700).fold(Script::new(), |script, _| script.chunk(&lines)).stall()
    });
    serve(&env, &server, "");
    let output = env.manent_under(&["prlimit", "--data=134217728"], &["chat", "a", "-p", "go"]);
    output.assert_fails(1, &["more than 4194304 bytes", "agent.max_answer_bytes"]);
    assert_eq!(last(&env, "a")["content"].as_str().unwrap().len(), 4 << 20);
}

#[test]
fn a_server_that_falls_silent_is_given_up_and_what_came_is_kept() {
    let env = TestEnvironment::new();
    let server = ollama(|_| Script::new().chunk(piece("half ")).stall());
    serve(&env, &server, "max_silence = \"1s\"");
    env.chat(&["a"], "go").assert_fails(1, &["nothing came", "for 1 s", "agent.max_silence"]);
    let kept = last(&env, "a");
    assert_eq!((&kept["content"], &kept["interrupted"]), (&"half ".into(), &"broken".into()));
}

/// A piece now and then is no silence: only what nobody waits for has a deadline.
#[test]
fn work_in_the_background_has_a_deadline_and_an_answer_that_is_read_has_none() {
    let env = TestEnvironment::new();
    let server = ollama(|request| {
        let slowly = |script: Script, _| script.chunk(piece("x")).pause(Duration::from_millis(500));
        let (pieces, done) = (|n| (0..n).fold(Script::new(), slowly), replies::ollama_done("stop", 1, 1));
        if task(request) == Task::Chat { pieces(4).chunk(done) } else { pieces(1200) }
    });
    serve(&env, &server, "background_timeout = \"1s\"");
    let output = env.chat(&["a"], "I live in Lisbon.");
    assert_eq!((output.code(), output.stdout().trim()), (Some(0), "xxxx"));
    let output = env.manent(&["consolidate", "a"]);
    let said = format!("{}{}", output.stdout(), output.stderr());
    assert!(said.contains("within 1 s") && said.contains("agent.background_timeout"), "{output}");
}

#[test]
fn a_chat_whose_memory_cannot_be_read_answers_and_says_so() {
    let env = TestEnvironment::new();
    let server = saying("The sky is blue.");
    serve(&env, &server, "");
    std::fs::create_dir(env.memory()).unwrap();
    let output = env.chat(&["a"], "What colour is the sky?");
    output.assert_code(0);
    assert_eq!(output.stdout(), "The sky is blue.\n");
    let told = output.stderr();
    assert_eq!(told.matches("nothing remembered is used for this answer").count(), 1, "{output}");
    assert!(told.contains("memory.jsonl"), "{output}");
    assert_eq!(env.turns("a").len(), 2);
}
