//! The files beside the sessions, `inbox.jsonl` and `consolidation.jsonl`: checked, repaired, and named when what they
//! rest on is purged.

use std::path::PathBuf;

use manent_sim::model_server::{ModelServer, replies};
use serde_json::json;

use crate::support::TestEnvironment;
use crate::support::model::{Task, ollama, task};

const BOAT: &str = "My boat is called Bertha and lies in Lisbon.";

/// A store with an item in its inbox, and a journal.
fn proposed() -> (TestEnvironment, ModelServer) {
    let env = TestEnvironment::new();
    let server = ollama(|request| match task(request) {
        Task::Facts => {
            let fact = json!({"facts": [{"kind": "fact", "quote": BOAT, "content": BOAT}]});
            replies::ollama(&fact.to_string())
        }
        _ => replies::ollama("The user told of a boat."),
    });
    env.serve(&server);
    env.append("a", BOAT);
    env.done(&["consolidate", "a", "--inbox", "-q"]);
    (env, server)
}

fn files(env: &TestEnvironment) -> [PathBuf; 2] {
    ["inbox.jsonl", "consolidation.jsonl"].map(|name| env.home().join(name))
}

#[test]
fn a_purge_names_what_waits_in_the_inbox() {
    let (env, _server) = proposed();
    let output = env.manent(&["rm", "--purge", "--yes", "a"]);
    output.assert_code(0);
    let told = output.stderr();
    assert!(told.contains("the inbox still holds an item taken from it; `manent memory reject 1`"), "{told}");
    assert!(told.contains("the memory still holds an item taken from it"), "{told}");
    env.done(&["memory", "reject", "1"]);
    assert!(!env.holding(BOAT).iter().any(|name| name.contains("inbox")), "{:?}", env.holding(BOAT));
    let journal = std::fs::read_to_string(env.home().join("consolidation.jsonl")).unwrap();
    assert!(!journal.contains("Bertha") && !journal.contains("boat"), "it quotes nobody: {journal}");
}

#[test]
fn a_torn_end_is_found_and_set_aside() {
    for nth in 0..2 {
        let (env, _server) = proposed();
        let path = &files(&env)[nth];
        let whole = std::fs::read(path).unwrap();
        std::fs::write(path, [&whole[..], b"{\"seq\":99,\"half"].concat()).unwrap();
        let verified = env.manent(&["verify"]);
        assert!(verified.stdout().contains("torn: 15 bytes"), "{verified}");
        let doctor = env.manent(&["doctor"]);
        assert!(doctor.code().is_some(), "{doctor}");
        let repaired = env.manent(&["repair"]);
        repaired.assert_code(0);
        assert!(repaired.stdout().contains("15 torn bytes are kept in"), "{repaired}");
        assert_eq!(std::fs::read(path).unwrap(), whole);
        env.manent(&["verify"]).assert_code(0);
        env.done(&["memory", "accept", "1"]);
    }
}

#[test]
fn damage_is_named_acknowledged_and_survived() {
    let names = ["the inbox", "the journal of consolidation"];
    for (nth, name) in names.iter().enumerate() {
        let (env, _server) = proposed();
        let path = &files(&env)[nth];
        let mut bytes = std::fs::read(path).unwrap();
        let second = bytes.iter().position(|b| *b == b'\n').unwrap() + 40;
        bytes[second] ^= 1;
        std::fs::write(path, &bytes).unwrap();
        let verified = env.manent(&["verify"]);
        verified.assert_code(3);
        assert!(verified.stdout().contains(&format!("damaged  {name}")), "{verified}");
        let json = env.manent(&["verify", "--json"]);
        assert!(json.stdout().contains(["\"inbox\":", "\"consolidation\":"][nth]), "{json}");
        let doctor = env.manent(&["doctor"]);
        doctor.assert_code(3);
        assert!(doctor.stdout().contains(["inbox", "journal"][nth]), "{doctor}");
        env.manent(&["repair"]).assert_code(0);
        env.manent(&["verify"]).assert_code(0);
        // What was lost is looked at again, or not; nothing refuses to work.
        env.manent(&["consolidate", "a"]).assert_code(0);
        env.mem(&["inbox"]).assert_code(0);
    }
}

#[test]
fn what_is_no_log_is_not_written_over() {
    for nth in 0..2 {
        let (env, _server) = proposed();
        let path = &files(&env)[nth];
        std::fs::remove_file(path).unwrap();
        std::fs::create_dir(path).unwrap();
        env.append("a", "My boat is green and has two sails.");
        let output = env.manent(&["consolidate", "a", "--inbox"]);
        assert_ne!(output.code(), Some(0), "{output}");
        assert!(output.stderr().contains(path.file_name().unwrap().to_str().unwrap()), "{output}");
        env.append("a", "sessions are nobody's hostages");
    }
}
