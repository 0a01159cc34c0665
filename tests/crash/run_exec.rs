//! Faults at each system call of ours while `run exec` runs a command in the sandbox. A command that began is on
//! record, a run that was told to have succeeded is on record as that, and nothing of the sandbox outlives us.
//!
//! Faults strike the thread that runs and records, and neither the sandbox nor the command. `MANENT_EVERY_CALL=1` tries
//! every call, also those that do the same to the same file.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::syscalls::on_all_processors;
use crate::support::strace::{self, Fault, Faulty, Reach, Site, changes};
use crate::support::{HANG, Output, SYNC_FAILED, TestEnvironment, machine};

/// Leaves a line for each time that it ran, and a process that would go on for ever.
const LINE: &str = "echo x >> ran; sleep 1000 & echo said";
const ARGS: [&str; 10] = ["run", "exec", "lint", "--json", "--idempotency-key", "k", "--", "sh", "-c", LINE];
const EXEC: Faulty<'_> = Faulty { args: &ARGS, input: "", reach: Reach::FirstThread, in_work: true };

fn scene() -> TestEnvironment {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.root().join("work")).unwrap();
    env
}

/// The calls of a run; nothing where they cannot be traced, or no sandbox works.
fn sites(test: &str) -> Option<Vec<Site>> {
    if !machine::can_trace() {
        machine::skip(test, "strace cannot trace here");
        return None;
    }
    let env = scene();
    if env.manent(&["sandbox"]).code() != Some(0) {
        machine::skip(test, "no sandbox works here");
        return None;
    }
    let (output, sites) = EXEC.sites(&env);
    output.assert_code(0);
    for step in ["mkdir", "openat", "flock", "write", "fdatasync", "fsync", "clone", "socketpair"] {
        assert!(sites.iter().any(|site| site.name.starts_with(step)), "{step} is a step: {sites:?}");
    }
    Some(sites)
}

/// Counts how often the command ran.
fn times_run(env: &TestEnvironment) -> usize {
    std::fs::read_to_string(env.root().join("work/ran")).map_or(0, |text| text.lines().count())
}

/// The status of each run that is listed.
fn statuses(env: &TestEnvironment, case: &str) -> Vec<String> {
    let output = env.manent(&["run", "list", "--json"]);
    // A log with a torn end is read, and said to have one.
    assert_eq!(output.code(), Some(0), "{case}: {output}");
    let read =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["status"].as_str().unwrap().to_owned();
    output.stdout().lines().map(read).collect()
}

/// Processes that work for the run of this test.
fn left_over(env: &TestEnvironment) -> Vec<String> {
    let work = env.root().join("work");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let cmdline = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_there = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&work));
        if is_there || names(&cmdline, &work) {
            found.push(format!("{name}: {}", String::from_utf8_lossy(&cmdline).replace('\0', " ")));
        }
    }
    found
}

fn names(cmdline: &[u8], work: &Path) -> bool {
    let work = work.as_os_str().as_encoded_bytes();
    cmdline.windows(work.len()).any(|window| window == work)
}

/// Asserts that the run is recorded once, whatever happened to the first attempt.
fn assert_kept(env: &TestEnvironment, output: &Output, again: bool, case: &str) {
    let deadline = Instant::now() + HANG;
    // Whoever is told that we are gone needs a moment to end.
    while !left_over(env).is_empty() {
        assert!(Instant::now() < deadline, "{case}: these are left: {:#?}\n{output}", left_over(env));
        std::thread::sleep(Duration::from_millis(5));
    }
    let told: Option<Value> = serde_json::from_slice(&output.stdout_bytes).ok();
    let (ran, listed) = (times_run(env), statuses(env, case));
    assert!(ran <= 1, "{case}: it ran {ran} times");
    assert!(listed.len() <= 1, "{case}: {listed:?}");
    // The command always succeeds: what we or the sandbox could not do is not its failure.
    assert!(!listed.contains(&"failure".to_owned()), "{case}: {output}");
    assert!(ran == 0 || listed.len() == 1, "{case}: it ran, and no run is listed\n{output}");
    if told.as_ref().is_some_and(|told| told["status"] == "success") {
        assert_eq!((ran, listed.as_slice()), (1, &["success".to_owned()][..]), "{case}: {output}");
    }
    let has_end = std::fs::read_to_string(env.home().join("runs/runs.jsonl"))
        .is_ok_and(|log| log.lines().any(|line| line.contains("\"kind\":\"run\"")));
    let verified = env.manent(&["verify"]);
    assert_eq!(verified.code(), Some(0), "{case}: {verified}");
    if !again {
        return;
    }
    // The same once more: it is done now, or was, and is on record once.
    let mut command = env.command(&ARGS);
    command.current_dir(env.root().join("work"));
    let repeated = env.output(command, b"");
    // What the sandbox could not start has ended too, with an unknown outcome.
    let is_ended = has_end || listed.contains(&"success".to_owned());
    assert_eq!(repeated.code(), Some(if is_ended { 6 } else { 0 }), "{case}, then again: {repeated}");
    let expected = if is_ended { listed[0].as_str() } else { "success" };
    assert_eq!(statuses(env, case), [expected], "{case}, then again: {repeated}");
}

#[test]
fn run_exec_killed_at_any_system_call_loses_no_run_and_leaves_no_process() {
    let Some(mut sites) = sites("run_exec_killed_at_any_system_call") else { return };
    strace::without_reads(&mut sites);
    let reached = on_all_processors(&sites, |nth, site| {
        let env = scene();
        let (output, reached) = EXEC.with(&env, site, Fault::Kill);
        let case = format!("killed at {site:?}");
        if !reached {
            output.assert_code(0);
        }
        assert_kept(&env, &output, nth % 4 == 0 || changes(&site.name), &case);
        reached
    });
    assert_mostly(reached, sites.len());
}

#[test]
fn run_exec_with_an_error_at_any_system_call_fails_with_a_message_or_succeeds() {
    let Some(sites) = sites("run_exec_with_an_error_at_any_system_call") else { return };
    let faults: Vec<(Site, Fault)> = sites.iter().flat_map(faults_at).collect();
    let reached = on_all_processors(&faults, |nth, (site, fault)| {
        let env = scene();
        let (output, reached) = EXEC.with(&env, site, *fault);
        let case = format!("{fault:?} at {site:?}");
        assert_told(&output, &case);
        if site.name == "fdatasync" && reached {
            output.assert_fails(SYNC_FAILED, &["it is unknown whether", "runs.jsonl"]);
        }
        assert_kept(&env, &output, nth % 4 == 0, &case);
        reached
    });
    assert_mostly(reached, faults.len());
}

/// The errors that a call may give, where that is for us to bear.
fn faults_at(site: &Site) -> Vec<(Site, Fault)> {
    let errors: &[&'static str] = match site.name.as_str() {
        "write" | "fdatasync" | "fsync" | "mkdirat" | "mkdir" => &["EIO", "ENOSPC"],
        "openat" => &["EIO", "EMFILE"],
        "flock" => &["ENOLCK"],
        "clone" | "clone3" | "vfork" => &["EAGAIN"],
        "pread64" | "statx" | "statfs" | "readlink" | "getdents64" | "rename" | "renameat2" | "unlink"
        | "unlinkat" | "ftruncate" | "fchmod" => &["EIO"],
        "socketpair" | "pipe2" | "eventfd2" => &["EMFILE"],
        _ => &[],
    };
    errors.iter().map(|error| (site.clone(), Fault::Error(error))).collect()
}

/// Asserts that the command ended by itself, with success or with an error message.
pub(super) fn assert_told(output: &Output, case: &str) {
    let code = output.code().unwrap_or_else(|| panic!("{case}: it was killed: {output}"));
    let stderr = output.stderr();
    assert!(code != 101 && !stderr.contains("panicked"), "{case}: {output}");
    assert!(code == 0 || stderr.contains("error: "), "{case}: it fails and does not say so: {output}");
}

/// Asserts that most faults were reached. The system calls depend a little on the scheduler, so not all need be.
pub(super) fn assert_mostly(reached: usize, all: usize) {
    assert!(reached * 10 >= all * 8, "only {reached} of {all} faults were reached");
}
