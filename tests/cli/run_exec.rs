//! `manent run exec`: a command in the sandbox that is on record whatever happens to it, or to us.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
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
fn a_verifier_that_cannot_be_started_or_never_ends_is_no_verdict() {
    let Some((env, work)) = workshop("a_verifier_that_cannot_be_started") else { return };
    let tries = ["fix", "--attempts", "3", "--timeout", "1s"];
    for (verify, tried) in [("no-such-verifier -q", 1), ("/etc/passwd", 1), ("sleep 60", 3)] {
        let args = [&tries[..], &["--json", "--verify", verify, "--", "true"]].concat();
        let output = exec(&env, &work, &args);
        assert_eq!(output.code(), Some(1), "{output}");
        assert!(output.stderr().contains("its verification says nothing of it"), "{output}");
        let told: Value = serde_json::from_str(&output.stdout()).unwrap();
        assert_eq!(told["status"], "unknown", "{told}");
        let attempts = told["attempts"].as_array().unwrap();
        assert_eq!(attempts.len(), tried, "what is missing is not looked for again: {told}");
        for attempt in attempts {
            assert_eq!((&attempt["verified"], &attempt["error_class"]), (&Value::Null, &"verifier".into()));
        }
    }
    for odd in [["--verify", ""], ["--verify", " "], ["--timeout", "0"], ["--timeout", "0s"]] {
        exec(&env, &work, &[&["fix"], &odd[..], &["--", "touch", "ran"]].concat()).assert_code(2);
    }
    assert!(!work.join("ran").exists());
}

#[test]
fn a_program_that_the_sandbox_hides_is_named_and_can_be_let_in() {
    let Some((env, work)) = workshop("a_program_that_the_sandbox_hides") else { return };
    let home = env.root().join("ann");
    let (bin, rustup) = (home.join(".cargo/bin"), home.join(".rustup"));
    for dir in [&bin, &rustup, &home.join(".ssh")] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let script = "#!/bin/sh\necho $CARGO_HOME $RUSTUP_HOME\necho x > $CARGO_HOME/written || true\n";
    for name in ["lint-it", "rustup"] {
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let run = |args: &[&str], path: &str| {
        let mut command = command(&env, &work, args);
        command.env("HOME", &home).env("PATH", path).env_remove("CARGO_HOME").env_remove("RUSTUP_HOME");
        env.output(command, b"")
    };
    let (cargo, rustup) = (bin.parent().unwrap().to_str().unwrap(), rustup.to_str().unwrap());
    let advice = format!("`--read {cargo} --read {rustup}` lets it in");
    let place = format!("lint-it is at {}, which the sandbox hides", bin.join("lint-it").display());
    let hidden = run(&["lint", "--attempts", "3", "--", "lint-it"], &path);
    hidden.assert_code(1);
    assert!(hidden.stderr().contains(&place) && hidden.stderr().contains(&advice), "{hidden}");
    let verifier = run(&["lint", "--verify", "lint-it -q", "--", "true"], &path);
    assert!(verifier.stderr().contains(&place), "{verifier}");
    run(&["lint", "--", "sh", "-c", "exit 127"], &path).assert_fails(1, &["exit code 127", "run show"]);

    // On the PATH inside, also if it is not on ours; and nothing in it is changed.
    for path in [path.as_str(), "/usr/bin:/bin"] {
        let args = ["lint", "--read", cargo, "--read", rustup, "--", "lint-it"];
        let seen = run(&args, path);
        seen.assert_code(0);
        assert!(seen.stdout().starts_with(&format!("{cargo} {rustup}\n")), "{seen}");
        run(&["lint", "--read", bin.to_str().unwrap(), "--", "lint-it"], path).assert_code(0);
    }
    assert!(!home.join(".cargo/written").exists());

    let runs = || env.done(&["run", "list", "--json", "--limit", "100"]).lines().count();
    let before = runs();
    let (store, keys) = (env.home().to_path_buf(), home.join(".ssh"));
    for dir in [store.as_path(), &keys, Path::new("/"), Path::new("/no/such/dir")] {
        let refused = run(&["lint", "--read", dir.to_str().unwrap(), "--", "touch", "ran"], &path);
        refused.assert_fails(1, &["the read-only path", "cannot be used"]);
    }
    assert!(runs() == before && !work.join("ran").exists(), "nothing was begun");
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
fn an_interrupt_stops_the_command_and_counts_neither_for_nor_against_its_skill() {
    let Some((env, work)) = workshop("an_interrupt_stops_the_command") else { return };
    let line = "echo said; touch begun; sleep 60";
    let args = ["slow", "--attempts", "3", "--verify", "true", "--", "sh", "-c", line];
    let signals = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
    for (kind, code) in signals.into_iter().cycle().take(6) {
        let mut child = start(&env, &work, &args);
        signal(&child, kind);
        assert_eq!(child.wait().unwrap().code(), Some(code));
        std::fs::remove_file(work.join("begun")).unwrap();
    }
    let shown = env.done(&["run", "show", "runs:3", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let entry = &shown["entry"];
    assert_eq!((&shown["status"], &entry["final_status"]), (&"unknown".into(), &"interrupted".into()));
    assert_eq!(entry["attempts"].as_array().unwrap().len(), 1, "nothing is tried again");
    let attempt = &entry["attempts"][0];
    assert_eq!(
        (&attempt["error_class"], &attempt["runner_output"], &attempt["verified"]),
        (&"interrupted".into(), &"said\n".into(), &Value::Null)
    );
    assert_eq!(env.done(&["run", "list", "--json", "--status", "unknown"]).lines().count(), 6);
    let retro = env.done(&["retro"]);
    assert!(!retro.contains("0 %") && !retro.contains("0%"), "{retro}");
    // The verification too may be what is broken off.
    let verify = ["slow", "--verify", "touch begun; sleep 60", "--", "true"];
    let mut child = start(&env, &work, &verify);
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(env.done(&["run", "list", "--json", "--status", "unknown"]).lines().count(), 7);
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
    assert_eq!(piped.stdout_bytes, b"a\x1b]0;owned\x07\xe2\x80\xae\r\n\xff");
}

#[test]
fn in_a_pipe_or_a_file_nothing_of_the_output_is_missing() {
    let Some((env, work)) = workshop("in_a_pipe_or_a_file_nothing_is_missing") else { return };
    let expected: Vec<u8> = (1..=1_500_000).flat_map(|n: u32| format!("{n}\n").into_bytes()).collect();
    let seq = ["loud", "--", "seq", "1", "1500000"];
    let mut child = command(&env, &work, &seq).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(got == expected, "{} of {} bytes came to a slow reader", got.len(), expected.len());

    let file = std::fs::File::create(env.root().join("out")).unwrap();
    let done = command(&env, &work, &seq).stdin(Stdio::null()).stdout(file).status().unwrap();
    assert_eq!(done.code(), Some(0));
    assert!(std::fs::read(env.root().join("out")).unwrap() == expected, "something is missing in a file");
}

#[test]
fn a_reader_that_leaves_or_hangs_stops_neither_the_command_nor_its_clock() {
    let Some((env, work)) = workshop("a_reader_that_leaves_or_hangs") else { return };
    let spawn = |args: &[&str]| {
        let mut command = command(&env, &work, args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut left = spawn(&["left", "--", "sh", "-c", "seq 1 1500000; touch finished"]);
    drop(left.stdout.take());
    assert_eq!(left.wait().unwrap().code(), Some(0), "whoever left did not want more");
    assert!(work.join("finished").exists());
    assert_eq!(only_run(&env)["status"], "success");

    // The pipe is held open, and nobody reads.
    for line in ["yes", "seq 1 200000"] {
        let begun = Instant::now();
        let hung = spawn(&["hung", "--timeout", "2s", "--", "sh", "-c", line]);
        let (pipe, output) = {
            let mut hung = hung;
            (hung.stdout.take(), hung.wait_with_output().unwrap())
        };
        assert!(begun.elapsed() < HANG, "it hung with its reader");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("bytes of what it wrote were not shown, because nobody read them"), "{said}");
        drop(pipe);
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut lost = command(&env, &work, &["lost", "--", "echo", "hello"]);
    lost.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
    let lost = lost.output().unwrap();
    let said = String::from_utf8(lost.stderr).unwrap();
    assert!(lost.status.code() == Some(1) && said.contains("could not all be written"), "{said}");
}

#[test]
fn a_run_with_a_key_is_run_once() {
    let Some((env, work)) = workshop("a_run_with_a_key_is_run_once") else { return };
    let args = ["job", "--idempotency-key", "nightly-7", "--", "sh", "-c", "echo x >> ran"];
    exec(&env, &work, &args).assert_code(0);
    exec(&env, &work, &args)
        .assert_fails(6, &["come to its end, with success", "manent run show", "another"]);
    assert_eq!(std::fs::read_to_string(work.join("ran")).unwrap(), "x\n");
    let failing = ["job", "--idempotency-key", "nightly-8", "--json", "--", "false"];
    let first: Value = serde_json::from_str(&exec(&env, &work, &failing).stdout()).unwrap();
    let second = exec(&env, &work, &failing);
    second.assert_code(6);
    assert!(second.stderr().contains("and failed"), "{second}");
    let told: Value = serde_json::from_str(&second.stdout()).unwrap();
    assert_eq!((&told["run_id"], &told["status"]), (&first["run_id"], &"failed".into()));
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

#[test]
fn a_run_that_is_under_way_is_not_begun_a_second_time() {
    let Some((env, work)) = workshop("a_run_that_is_under_way") else { return };
    let slow = "echo x >> ran; touch begun; sleep 60";
    let mut first = start(&env, &work, &["job", "--idempotency-key", "k", "--", "sh", "-c", slow]);
    let quick_in = |dir: &Path, more: &[&str]| {
        let line = format!("echo x >> {}/ran", dir.display());
        exec(&env, dir, &[&["job", "--idempotency-key", "k"], more, &["--", "sh", "-c", &line]].concat())
    };
    let quick = |more: &[&str]| quick_in(&work, more);
    quick(&[]).assert_fails(5, &["under way", &format!("(pid {})", first.id()), "another key"]);
    assert!(first.try_wait().unwrap().is_none(), "the second waits for nothing");
    let ran = || std::fs::read_to_string(work.join("ran")).unwrap().lines().count();
    assert_eq!(ran(), 1);
    // Keys count within one session; and without one, nothing is the same run. In another directory: in one, commands
    // run one after another.
    let elsewhere = env.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    quick_in(&elsewhere, &["--session", "another"]).assert_code(0);
    exec(&env, &elsewhere, &["job", "--", "true"]).assert_code(0);
    for _ in 0..2 {
        exec(&env, &elsewhere, &["job", "--idempotency-key", "", "--", "true"]).assert_code(0);
    }
    assert_eq!(std::fs::read_to_string(elsewhere.join("ran")).unwrap().lines().count(), 1);

    // Killed, it does not keep anybody from it.
    signal(&first, Signal::KILL);
    first.wait().unwrap();
    quick(&[]).assert_code(0);
    assert_eq!(ran(), 2);
    quick(&[]).assert_fails(6, &["has come to its end"]);
    let names = crate::support::environment::names_in(&env.home().join("runs"));
    assert_eq!(names, ["another.jsonl", "runs.jsonl"], "nothing is left behind");
    env.manent(&["verify"]).assert_code(0);
}

#[test]
fn command_that_waits_for_another_in_its_directory_says_so() {
    let Some((env, work)) = workshop("command_that_waits_for_another") else { return };
    let mut first = start(&env, &work, &["job", "--", "sh", "-c", "touch begun; sleep 60"]);
    let refused = exec(&env, &work, &["other", "--timeout", "1s", "--json", "--", "true"]);
    refused.assert_code(1);
    let told: Value = serde_json::from_str(&refused.stdout()).unwrap();
    assert_eq!(told["status"], "unknown", "the command was not run: {told}");
    assert_eq!(told["attempts"][0]["error_class"], "sandbox", "{told}");
    for said in ["note: another command runs in this directory", "try again when it has ended"] {
        assert!(refused.stderr().contains(said), "{refused}");
    }
    signal(&first, Signal::TERM);
    first.wait().unwrap();
    exec(&env, &work, &["other", "--", "true"]).assert_code(0);
}

#[test]
fn of_many_that_begin_the_same_run_at_once_one_does() {
    let Some((env, work)) = workshop("of_many_that_begin_the_same_run") else { return };
    let codes: Vec<Option<i32>> = std::thread::scope(|scope| {
        let one = || {
            let args = ["job", "--idempotency-key", "k", "--wait", "60s", "--", "sh", "-c", "echo x >> ran"];
            exec(&env, &work, &args).code()
        };
        let all: Vec<_> = (0..6).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(std::fs::read_to_string(work.join("ran")).unwrap(), "x\n", "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert!(codes.iter().all(|code| [Some(0), Some(5), Some(6)].contains(code)), "{codes:?}");
    assert_eq!(only_run(&env)["status"], "success");
}
