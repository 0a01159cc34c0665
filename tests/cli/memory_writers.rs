//! Two processes, one memory: one writes, the others are told who does, wait, or read.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::machine::{can_trace, skip};
use crate::support::{HANG, Stream, TestEnvironment};

/// Another process that holds the memory until it is killed.
struct Holder(Child);

impl Holder {
    fn new(env: &TestEnvironment) -> Holder {
        let mut command = Command::new("flock");
        command.args(["--exclusive", "--no-fork"]).arg(env.memory()).args([
            "sh",
            "-c",
            "echo held; exec sleep 600",
        ]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("flock is there");
        let mut said = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).expect("it holds the memory");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_writer_is_told_who_holds_the_memory_and_readers_are_not_kept_waiting() {
    let env = TestEnvironment::new();
    env.remember(&["one thing"]);
    let before = env.memory_bytes();
    let holder = Holder::new(&env);
    let words = format!("error: memory is held by another manent process (pid {});", holder.0.id());
    for args in [
        &["add", "x", "--wait", "0s"][..],
        &["forget", "1", "--wait", "0s"],
        &["compact", "--wait", "0s"],
        &["add", "x", "--wait", "100ms"],
    ] {
        let output = env.mem(args);
        output.assert_code(5);
        assert!(output.stderr().starts_with(&words), "{output}");
        assert!(output.stdout_bytes.is_empty());
    }
    for args in [&["list"][..], &["search", "thing"], &["why", "1"], &["select", "x"], &["audit"]] {
        env.mem(args).assert_code(0);
    }
    env.manent(&["verify"]).assert_code(0);
    env.manent(&["doctor"]).assert_code(0);
    assert_eq!(env.memory_bytes(), before);
    // Sessions are nobody's business.
    env.append("a", "x");
    // There is no lock file that could outlive its owner.
    drop(holder);
    env.mem(&["add", "x", "--wait", "0s"]).assert_code(0);
}

#[test]
fn a_writer_that_waits_goes_on_when_the_holder_is_gone() {
    let env = TestEnvironment::new();
    env.remember(&["one"]);
    let holder = Holder::new(&env);
    let waiting = Stream::start(&env, &["memory", "add", "two", "--wait", "60s"]);
    assert!(waiting.is_silent_for(Duration::from_millis(150)), "it waits");
    drop(holder);
    assert_eq!(waiting.line(), "remembered 2  fact");
    assert!(waiting.finish().0.success());
    assert_eq!(env.remembered(), [2, 1]);
}

/// One of ours, stopped in the middle of its write: the message names it, and when it is killed nothing is held.
#[test]
fn a_writer_that_was_stopped_is_named_and_one_that_was_killed_holds_nothing() {
    if !can_trace() {
        return skip("a_writer_that_was_stopped_is_named", "nothing can be traced here");
    }
    let env = TestEnvironment::new();
    env.remember(&["one"]);
    let log = env.root().join("strace.log");
    let log = log.to_str().unwrap();
    let stop = ["-e", "trace=flock", "-e", "inject=flock:signal=SIGSTOP:when=1"];
    let wrapper = [&["strace", "-f", "-qq", "-o", log][..], &stop].concat();
    let mut command = env.command_under(&wrapper, &["memory", "add", "two"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut tracer = command.spawn().unwrap();
    let began = Instant::now();
    let held = loop {
        let output = env.mem(&["compact", "--wait", "0s"]);
        if output.code() == Some(5) {
            break output;
        }
        let stops = began.elapsed() < HANG && tracer.try_wait().unwrap().is_none();
        assert!(stops, "it stops while it holds the memory: {output}");
    };
    let said = held.stderr();
    let pid = said.split("(pid ").nth(1).and_then(|rest| rest.split(')').next()).expect("it names a process");
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert_eq!(name.trim(), "manent", "{said}");
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    tracer.wait().unwrap();
    env.mem(&["add", "three", "--wait", "0s"]).assert_code(0);
    env.manent(&["verify"]).assert_code(0);
}

#[test]
fn sixteen_processes_that_remember_at_once_lose_nothing_and_share_no_number() {
    let env = TestEnvironment::new();
    let writers: Vec<Stream> = (0..16)
        .map(|n| Stream::start(&env, &["memory", "add", &format!("writer {n}"), "--wait", "60s"]))
        .collect();
    let mut ids = BTreeSet::new();
    for writer in writers {
        let (status, lines, errors) = writer.finish();
        assert!(status.success(), "{errors:?}");
        let id = lines[0].strip_prefix("remembered ").and_then(|rest| rest.split(' ').next()).unwrap();
        assert!(ids.insert(id.parse::<u64>().unwrap()), "{id} was given twice");
    }
    assert_eq!(env.remembered(), ids.iter().rev().copied().collect::<Vec<_>>());
    let items = env.mem_json(&["list"]);
    for n in 0..16 {
        assert!(items.iter().any(|item| item["content"] == format!("writer {n}")), "writer {n}");
    }
    env.manent(&["verify"]).assert_code(0);
}

/// Readers, and a compaction, among writers: nobody is told that the file changes, and no item is lost.
#[test]
fn searching_and_compacting_while_others_write_is_no_trouble() {
    let env = TestEnvironment::new();
    env.remember(&["an albatross stays"]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut kept = vec![1];
            for n in 0..20 {
                let id = env.remember(&[&format!("albatross {n}"), "--wait", "60s"]);
                if n % 2 == 0 {
                    env.mem(&["forget", &id.to_string(), "--wait", "60s"]).assert_code(0);
                } else {
                    kept.push(id);
                }
            }
            kept
        });
        let compacting = scope.spawn(|| {
            for _ in 0..10 {
                env.mem(&["compact", "--wait", "60s"]).assert_code(0);
            }
        });
        for _ in 0..20 {
            let found = env.mem_json(&["search", "albatross", "--limit", "100"]);
            assert!(found.iter().any(|item| item["id"] == 1), "{found:?}");
            let _ = env.mem_json(&["list"]);
        }
        compacting.join().unwrap();
        let mut kept = writer.join().unwrap();
        kept.reverse();
        assert_eq!(env.remembered(), kept);
    });
    env.manent(&["verify"]).assert_code(0);
}
