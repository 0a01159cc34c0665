//! `manent run exec`: a command in the sandbox that is on record whatever happens to it, or to us.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::terminal::run_on_terminal;
use crate::support::{HANG, Output, TestEnvironment, machine};

/// A store, and a directory to work in; nothing where no sandbox works.
fn workshop(test: &str) -> Option<(TestEnvironment, PathBuf)> {
    let env = TestEnvironment::new();
    if env.manent(&["sandbox"]).code() != Some(0) {
        machine::skip(test, "no sandbox works here");
        return None;
    }
    let work = env.root().join("work");
    std::fs::create_dir(&work).unwrap();
    Some((env, work))
}

fn command(env: &TestEnvironment, work: &Path, args: &[&str]) -> Command {
    let mut command = env.command(&[&["run", "exec"], args].concat());
    command.current_dir(work);
    command
}

fn exec(env: &TestEnvironment, work: &Path, args: &[&str]) -> Output {
    env.output(command(env, work, args), b"")
}

fn only_run(env: &TestEnvironment) -> Value {
    let output = env.manent(&["run", "list", "--json"]);
    assert_eq!(output.stdout().lines().count(), 1, "{output}");
    serde_json::from_str(&output.stdout()).unwrap()
}

/// Everything of the only run.
fn entry(env: &TestEnvironment) -> Value {
    let run = only_run(env);
    let shown = env.done(&["run", "show", run["run_id"].as_str().unwrap(), "--json"]);
    serde_json::from_str::<Value>(&shown).unwrap()["entry"].clone()
}

fn start(env: &TestEnvironment, work: &Path, args: &[&str]) -> Child {
    let mut command = command(env, work, args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + HANG;
    while !work.join("begun").exists() {
        assert!(Instant::now() < deadline, "the command never began");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn what_a_command_did_is_on_record() {
    let Some((env, work)) = workshop("what_a_command_did_is_on_record") else { return };
    let output =
        exec(&env, &work, &["lint", "--phase", "check", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    output.assert_fails(1, &["exit code 3"]);
    assert_eq!(output.stdout(), "out\nerr\n");
    let entry = entry(&env);
    assert_eq!(
        (&entry["skill"], &entry["phase"], &entry["final_status"]),
        (&"lint".into(), &"check".into(), &"failed".into())
    );
    let attempt = &entry["attempts"][0];
    assert_eq!((&attempt["exit_code"], &attempt["error_class"]), (&3.into(), &"exit".into()));
    assert_eq!(attempt["runner_output"], "out\nerr\n");
    assert!(attempt["sandbox"].is_string() && entry["duration_ms"].is_u64(), "{entry}");
    assert_eq!(entry["input"]["command"][0], "sh");
}

#[test]
fn a_command_is_tried_until_its_verification_holds() {
    let Some((env, work)) = workshop("a_command_is_tried_until_its_verification_holds") else { return };
    let skill = work.join(".agents/skills/count");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: count\ndescription: Counts tries.\n---\n").unwrap();
    let line = "echo x >> tries; echo try $(wc -l < tries)";
    let verify = "echo checking; test $(wc -l < tries) -eq 3";
    let args = ["count", "--json", "--attempts", "5", "--verify", verify, "--", "sh", "-c", line];
    let output = exec(&env, &work, &args);
    output.assert_code(0);
    let told: Value = serde_json::from_str(&output.stdout()).unwrap();
    assert_eq!(
        (&told["status"], told["attempts"].as_array().unwrap().len()),
        (&"success".into(), 3),
        "{told}"
    );
    let entry = entry(&env);
    let of = |name: &str| -> Vec<Value> {
        entry["attempts"].as_array().unwrap().iter().map(|attempt| attempt[name].clone()).collect()
    };
    assert_eq!(of("verified"), [false, false, true]);
    assert_eq!(of("attempt"), [1, 2, 3]);
    assert!(of("skill_hash").iter().all(|hash| hash.as_str().is_some_and(|hash| hash.len() > 20)), "{entry}");
    assert_eq!(of("runner_output")[2], "try 3\n[verification: exit code 0]\nchecking\n");
    let refused = exec(&env, &work, &["count", "-q", "--attempts", "2", "--verify", "false", "--", "true"]);
    refused.assert_fails(1, &["after 2 attempts (verify)"]);
}

#[test]
fn a_kill_leaves_a_run_whose_outcome_is_unknown() {
    let Some((env, work)) = workshop("a_kill_leaves_a_run") else { return };
    let mut child = start(&env, &work, &["slow", "--", "sh", "-c", "touch begun; sleep 60"]);
    // The command has begun, so that it was going to begin is on the disk.
    assert_eq!(only_run(&env)["status"], "unknown");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let run = only_run(&env);
    assert_eq!((&run["skill"], &run["status"]), (&"slow".into(), &"unknown".into()));
    env.manent(&["verify"]).assert_code(0);
    assert_eq!(env.done(&["run", "list", "--json", "--status", "unknown"]).lines().count(), 1);
}

#[test]
fn an_interrupt_stops_the_command_and_is_on_record() {
    let Some((env, work)) = workshop("an_interrupt_stops_the_command") else { return };
    let mut child = start(
        &env,
        &work,
        &["slow", "--attempts", "3", "--", "sh", "-c", "echo said; touch begun; sleep 60"],
    );
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let entry = entry(&env);
    assert_eq!((&entry["final_status"], entry["attempts"].as_array().unwrap().len()), (&"failed".into(), 1));
    assert_eq!(
        (&entry["attempts"][0]["error_class"], &entry["attempts"][0]["runner_output"]),
        (&"interrupted".into(), &"said\n".into())
    );
}

#[test]
fn a_command_that_takes_too_long_or_says_too_much_is_on_record() {
    let Some((env, work)) = workshop("a_command_that_takes_too_long") else { return };
    exec(&env, &work, &["slow", "--timeout", "1s", "--", "sleep", "60"]).assert_fails(1, &["timeout"]);
    assert_eq!(entry(&env)["attempts"][0]["error_class"], "timeout");
    let line = "i=0; while [ $i -lt 60000 ]; do echo a line of output $i; i=$((i+1)); done; echo the end";
    let output = exec(&env, &work, &["loud", "--", "sh", "-c", line]);
    output.assert_code(0);
    let shown = env.done(&["run", "show", "runs:4", "--json"]);
    let attempt = serde_json::from_str::<Value>(&shown).unwrap()["entry"]["attempts"][0].clone();
    let kept = attempt["runner_output"].as_str().unwrap();
    assert!(
        kept.starts_with("a line of output 0\n") && kept.ends_with("the end\n"),
        "beginning and end are kept"
    );
    let (cut, all) = (attempt["cut_bytes"].as_u64().unwrap(), 60_000 * 18);
    assert!(kept.len() < 300 << 10 && cut + kept.len() as u64 > all, "{cut} bytes were cut");
    assert!(kept.contains(&format!("[{cut} bytes, {} lines left out]", attempt["cut_lines"])), "and counted");
}

#[test]
fn what_a_command_prints_does_not_drive_the_terminal_and_is_raw_in_a_pipe() {
    let Some((env, work)) = workshop("what_a_command_prints") else { return };
    let args = ["show", "--", "printf", "a\\033]0;owned\\007\\342\\200\\256\\r\\n\\377"];
    let screen = run_on_terminal(command(&env, &work, &args)).text();
    assert!(
        !screen.contains("\u{1b}]") && !screen.contains('\u{7}') && !screen.contains('\u{202e}'),
        "{screen:?}"
    );
    assert!(screen.contains("owned"), "{screen:?}");
    let piped = exec(&env, &work, &args);
    assert_eq!(piped.stdout, b"a\x1b]0;owned\x07\xe2\x80\xae\r\n\xff");
}

#[test]
fn a_run_with_a_key_is_run_once() {
    let Some((env, work)) = workshop("a_run_with_a_key_is_run_once") else { return };
    let args = ["job", "--idempotency-key", "nightly-7", "--", "sh", "-c", "echo x >> ran"];
    exec(&env, &work, &args).assert_code(0);
    exec(&env, &work, &args).assert_fails(6, &["come to its end", "manent run show"]);
    assert_eq!(std::fs::read_to_string(work.join("ran")).unwrap(), "x\n");
}

#[test]
fn without_a_sandbox_no_run_is_begun() {
    if !machine::can_trace() {
        return machine::skip("without_a_sandbox_no_run_is_begun", "strace cannot trace here");
    }
    let env = TestEnvironment::new();
    let faults =
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", TRACED, "-e", NO_BUBBLEWRAP, "-e", NO_LANDLOCK];
    let output = env.manent_under(&faults, &["run", "exec", "x", "--", "touch", "/tmp/ran"]);
    output.assert_fails(1, &["no sandbox works", "no command is run"]);
    assert!(!env.home().join("runs").exists(), "nothing was begun, so nothing is on record");
}

const TRACED: &str = "trace=pivot_root,landlock_create_ruleset";
const NO_BUBBLEWRAP: &str = "inject=pivot_root:error=EPERM";
const NO_LANDLOCK: &str = "inject=landlock_create_ruleset:error=EOPNOTSUPP";
