//! Kill -9 while something is remembered, forgotten or compacted: what was acknowledged is there, once, and nothing
//! that was forgotten comes back.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::support::machine::{can_trace, skip};
use crate::support::memory::memory_of;
use crate::support::random::Random;
use crate::support::strace::{calls, killed_at};
use crate::support::{MANENT, TestEnvironment};

/// The contents of what is remembered, by number. A number that is there twice fails.
#[track_caller]
fn remembered(env: &TestEnvironment) -> BTreeMap<u64, String> {
    let mut all = BTreeMap::new();
    for item in env.mem_json(&["list"]) {
        let id = item["id"].as_u64().unwrap();
        let twice = all.insert(id, item["content"].as_str().unwrap().to_owned());
        assert_eq!(twice, None, "{id} is there twice");
    }
    all
}

/// A shell that remembers one thing after the other until it is killed, with whatever it is running.
fn adding_in_a_loop(env: &TestEnvironment, round: u64) -> Command {
    let script = format!(
        "n=0; while :; do n=$((n+1)); \"$0\" --home \"$1\" memory add --json \"round {round}, item $n $2\"; done"
    );
    let mut command = Command::new("setsid");
    env.clean(&mut command);
    command.args(["sh", "-c", &script, MANENT]).arg(env.home()).arg("x".repeat(3000));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

#[test]
fn no_item_is_lost_and_no_number_given_twice_in_twenty_kills() {
    let deep = std::env::var("MANENT_DEEP_KILLS").ok().and_then(|n| n.parse::<u64>().ok());
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let env = TestEnvironment::new();
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    for round in 0..deep.map_or(20, |n| n / 50) {
        let mut child = adding_in_a_loop(&env, round).spawn().unwrap();
        let group = rustix::process::Pid::from_child(&child);
        std::thread::sleep(random.duration_below(std::time::Duration::from_millis(120)));
        // It may not have begun a group of its own yet.
        while rustix::process::kill_process_group(group, rustix::process::Signal::KILL).is_err() {}
        child.wait().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        let said_of = |e: &str| format!("round {round} of MANENT_SEED={seed}: {e}");
        for line in said.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let item: serde_json::Value = serde_json::from_str(line).expect("a receipt is whole");
            let text = item["content"].as_str().unwrap().to_owned();
            let twice = acknowledged.insert(item["id"].as_u64().unwrap(), text);
            assert_eq!(twice, None, "{}", said_of("a number was given twice"));
        }
        let there = remembered(&env);
        for (id, text) in &acknowledged {
            assert_eq!(there.get(id), Some(text), "{}", said_of("an acknowledged item is not there"));
        }
        // What was written and not acknowledged counts too: nobody may give its number again.
        acknowledged = there;
    }
    let last = acknowledged.keys().next_back().copied().unwrap_or_default();
    assert!(env.remember(&["after all"]) > last);
    env.manent(&["verify"]).assert_code(0);
}

/// Three items of which one is forgotten.
fn before_compacting() -> TestEnvironment {
    let env = TestEnvironment::in_memory();
    env.plant_memory(memory_of(&["stays one", "a forgotten thing", "stays three"]));
    env.done(&["memory", "forget", "2"]);
    env
}

#[track_caller]
fn assert_old_or_new(env: &TestEnvironment, old: &[u8], at: &str) {
    let names: Vec<&str> = [(1, "stays one"), (3, "stays three")].into_iter().map(|(_, text)| text).collect();
    let there = remembered(env);
    assert_eq!(there.values().map(String::as_str).collect::<Vec<_>>(), names, "{at}");
    let now = env.memory_bytes();
    let holds = now.windows(9).any(|window| window == b"forgotten");
    assert!(!holds || now == old, "{at}: the old file or the new one, nothing between them");
    env.mem(&["search", "forgotten"]).assert_code(4);
    assert_eq!(env.mem_json(&["search", "stays"]).len(), 2, "{at}");
    env.manent(&["verify"]).assert_code(0);
    // Whoever writes next takes what was left lying, and gives no number again.
    assert_eq!(env.remember(&["next"]), 5, "{at}");
    env.done(&["memory", "compact"]);
    assert_eq!(env.holding("forgotten"), [""; 0], "{at}");
    let names: Vec<String> = env.tree().into_keys().collect();
    assert_eq!(names, ["memory.jsonl"], "{at}");
}

#[test]
fn a_compaction_killed_at_any_system_call_leaves_the_old_file_or_the_new_one() {
    if !can_trace() {
        return skip("a_compaction_killed_at_any_system_call", "nothing can be traced here");
    }
    let (done, calls) = calls(&before_compacting(), &["memory", "compact"]);
    done.assert_code(0);
    let deep = std::env::var_os("MANENT_DEEP_KILLS").is_some();
    let wanted =
        ["write", "pwrite64", "rename", "renameat", "renameat2", "unlink", "unlinkat", "fsync", "fdatasync"];
    let changing = |name: &str| deep || wanted.contains(&name);
    let mut killed = 0;
    for call in calls.iter().filter(|call| changing(&call.name)) {
        let env = before_compacting();
        let old = env.memory_bytes();
        let output = killed_at(&env, call, &["memory", "compact"]);
        killed += usize::from(output.code() != Some(0));
        assert_old_or_new(&env, &old, &format!("{call:?}"));
    }
    assert!(killed >= 4, "of {calls:?} only {killed} killed it");
}

#[test]
fn an_item_whose_writer_is_killed_at_any_system_call_is_whole_or_not_there() {
    if !can_trace() {
        return skip("an_item_whose_writer_is_killed_at_any_system_call", "nothing can be traced here");
    }
    let scene = || {
        let env = TestEnvironment::in_memory();
        env.plant_memory(memory_of(&["one", "two"]));
        env
    };
    let (done, calls) = calls(&scene(), &["memory", "add", "three"]);
    done.assert_code(0);
    let wanted = ["write", "pwrite64", "flock", "fsync", "fdatasync", "openat", "ftruncate"];
    let (mut with, mut without) = (0, 0);
    for call in calls.iter().filter(|call| wanted.contains(&call.name.as_str())) {
        let env = scene();
        let output = killed_at(&env, call, &["memory", "add", "three"]);
        let there = remembered(&env);
        let acknowledged = output.stdout().starts_with("remembered 3");
        match there.len() {
            3 => with += 1,
            2 => without += 1,
            _ => panic!("{call:?}: {there:?}"),
        }
        assert!(!acknowledged || there.get(&3).is_some_and(|text| text == "three"), "{call:?}: {there:?}");
        env.manent(&["verify"]).assert_code(0);
        let next = env.remember(&["next"]);
        assert!(next > *there.keys().next_back().unwrap(), "{call:?}");
        assert_eq!(remembered(&env).len(), there.len() + 1, "{call:?}");
    }
    assert!(with > 0 && without > 0, "killed before and behind the write: {with}, {without}");
}
