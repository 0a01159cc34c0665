//! Commands, run by whoever runs them.

use std::time::Duration;

use manent_agent::tools::CommandResult;
use serde_json::json;

use super::{World, has};

#[test]
fn a_command_is_handed_on_and_its_output_comes_back() {
    let world = World::new();
    let done = world.done("run_command", &json!({"command": "cargo test"}));
    assert_eq!(done.content, "ran cargo test\n[exit code 0, 1.5 s]\n");
    assert_eq!((done.failed, done.exit_code, done.sandbox.as_deref()), (false, Some(0), Some("none (test)")));
    world.done("run_command", &json!({"command": "sleep 1", "timeout_s": 5}));
    let said = world.shell.commands.lock().unwrap().clone();
    let wanted = [("cargo test", 120), ("sleep 1", 5)].map(|(c, s)| (c.to_owned(), Duration::from_secs(s)));
    assert_eq!(said, wanted);
}

#[test]
fn a_command_that_fails_is_told_with_the_end_of_what_it_wrote() {
    let world = World::new();
    let output = (1..=5000).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
    let ran = CommandResult {
        output,
        exit_code: Some(101),
        ended: "exit code 101".to_owned(),
        sandbox: "none".to_owned(),
        duration: Duration::from_secs(2),
        notes: vec!["x/.git was moved".to_owned()],
    };
    *world.shell.answer.lock().unwrap() = Some(Ok(ran));
    let done = world.done("run_command", &json!({"command": "false"}));
    assert_eq!((done.failed, done.exit_code), (true, Some(101)));
    assert!(done.content.starts_with("[3000 lines before these left out]\nline 3001\n"), "{}", done.content);
    assert!(done.content.ends_with("line 5000\n[exit code 101, 2.0 s]\n[sandbox: x/.git was moved]\n"));
    *world.shell.answer.lock().unwrap() = Some(Err("no sandbox works here".to_owned()));
    let done = world.done("run_command", &json!({"command": "true"}));
    assert_eq!((done.failed, done.exit_code), (true, None));
    has(&done.content, "the command could not be run: no sandbox works here");
}

#[test]
fn a_command_that_is_to_write_into_a_repository_is_for_a_person_to_allow_each_time() {
    let world = World::new();
    let usual = world.prepare("run_command", &json!({"command": "git log"})).unwrap();
    assert_eq!(usual.once_because, None);
    for (member, wanted) in [("writable_git", "write commits into .git"), ("new_repo", "new repositories")] {
        let prepared = world.prepare("run_command", &json!({"command": "git log", (member): true})).unwrap();
        has(prepared.once_because.unwrap(), wanted);
        prepared.run(&|| false);
        let extras = *world.shell.extras.lock().unwrap();
        assert_eq!((extras.writable_git, extras.new_repo), (member == "writable_git", member == "new_repo"));
    }
}

#[test]
fn a_person_sees_all_of_a_command() {
    let world = World::new();
    let short = world.prepare("run_command", &json!({"command": "ls"})).unwrap();
    assert_eq!(short.preview().unwrap(), None);
    let long = format!("echo {}; rm -rf ~", "x".repeat(300));
    for command in [long.as_str(), "ls\nrm -rf ~"] {
        let prepared = world.prepare("run_command", &json!({"command": command})).unwrap();
        assert_eq!(prepared.preview().unwrap().as_deref(), Some(command));
    }
    has(&world.fails("run_command", &json!({"command": " \n"})), "is no command");
    has(&world.fails("run_command", &json!({"command": "x".repeat(40_000)})), "write a file and run that");
    has(&world.fails("run_command", &json!({"command": "x", "timeout_s": 601})), "up to 600");
}
