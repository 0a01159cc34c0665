//! `manent retro --every`: a worker that keeps the report up to date; however many there are, and however they end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use manent_sim::model_server::replies;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::environment::names_in;
use crate::support::machine::{self, mode_of};
use crate::support::model::{MODEL, Sitting, ollama, saying};
use crate::support::runs::{broken_on_the_way, run};
use crate::support::{Stream, TestEnvironment};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(50);

fn planted() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant_runs("a", &broken_on_the_way());
    env
}

fn worker(env: &TestEnvironment, every: &str, more: &[&str]) -> Stream {
    // The runs are of one month of one year, and these tests of any.
    Stream::start(env, &[&["retro", "--every", every, "--since", "5000d"], more].concat())
}

/// The report that is kept, if one is.
fn kept(env: &TestEnvironment) -> Option<Value> {
    let bytes = std::fs::read(env.home().join("retro/latest.json")).ok()?;
    Some(serde_json::from_slice(&bytes).expect("it is there as a whole, or not at all"))
}

fn wait_for(env: &TestEnvironment, what: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        match kept(env).filter(&what) {
            Some(kept) => return kept,
            None => assert!(began.elapsed() < LONG, "no such report is made: {:?}", kept(env)),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_runs(count: u64) -> impl Fn(&Value) -> bool {
    move |kept| kept["totals"]["runs"] == count
}

/// Ends a worker, and gives what it said.
fn end(worker: Stream, signal: Signal) -> Vec<String> {
    worker.signal(signal);
    let (status, lines, errors) = worker.finish();
    assert_eq!((status.code(), lines.len()), (Some(0), 0), "{errors:#?}");
    errors
}

#[test]
fn a_worker_keeps_the_report_up_to_date_and_ends_when_it_is_told_to() {
    let env = planted();
    let working = worker(&env, "1s", &["--remember"]);
    let first = wait_for(&env, has_runs(105));
    env.plant_runs("b", &[run(7, "other", "small", "", true)]);
    wait_for(&env, has_runs(106));
    let said = end(working, Signal::TERM);
    assert!(said[0].contains("every 1s") && said[0].contains("retro/latest.html"), "{said:#?}");
    assert!(said[1].contains("105 runs, 1 skill got worse or is flaky; remembered: 4 new"), "{said:#?}");
    assert!(said[2].contains("106 runs") && said.len() == 3, "{said:#?}");
    let made = env.manent(&["retro", "--json", "--since", "5000d"]);
    let now: Value = serde_json::from_slice(&made.stdout_bytes).unwrap();
    let names = |value: &Value| -> BTreeSet<String> { value.as_object().unwrap().keys().cloned().collect() };
    let mut kept = names(&first);
    assert!(kept.remove("made") && kept == names(&now), "the same as --json");
    assert_eq!(env.mem_json(&["list", "--tag", "retro"]).len(), 4);
    let files = ["latest.html", "latest.json"];
    assert_eq!(names_in(&env.home().join("retro")), files);
    assert!(files.iter().all(|name| mode_of(&env.home().join("retro").join(name)) == 0o600));
    // Nothing of it is a session.
    assert_eq!(env.done(&["sessions", "--json"]), "");
    // Ctrl-C while it waits for a day to pass.
    let working = worker(&env, "1d", &[]);
    working.error_with("every 1d");
    assert_eq!(end(working, Signal::INT), [""; 0]);
}

#[test]
fn of_two_workers_one_makes_each_report() {
    let env = planted();
    let workers = [worker(&env, "2s", &[]), worker(&env, "2s", &[]), worker(&env, "2s", &[])];
    wait_for(&env, has_runs(105));
    env.plant_runs("b", &[run(7, "other", "small", "", true)]);
    wait_for(&env, has_runs(106));
    let said: Vec<String> = workers.into_iter().flat_map(|worker| end(worker, Signal::TERM)).collect();
    let made = |runs: &str| said.iter().filter(|line| line.contains(runs)).count();
    assert_eq!((made("105 runs"), made("106 runs")), (1, 1), "{said:#?}");
}

/// Killed at whatever it was at: the report is whole, the schedule goes on, nothing is left behind.
#[test]
fn a_worker_that_is_killed_hinders_no_other() {
    let env = planted();
    for n in 0..12 {
        env.plant_runs("b", &(0..=n).map(|n| run(n, "other", "small", "", true)).collect::<Vec<_>>());
        let working = worker(&env, "1s", &[]);
        // It looks after a second, and is at it for some milliseconds.
        std::thread::sleep(Duration::from_millis(1000 + n * 9));
        working.signal(Signal::KILL);
        working.finish();
        let _whole = kept(&env);
    }
    env.plant_runs("b", &(0..20).map(|n| run(n, "other", "small", "", true)).collect::<Vec<_>>());
    let working = worker(&env, "1s", &[]);
    wait_for(&env, has_runs(125));
    end(working, Signal::TERM);
    assert_eq!(names_in(&env.home().join("retro")), ["latest.html", "latest.json"]);
}

#[test]
fn a_read_only_store_is_told_of_and_the_worker_goes_on() {
    let outer = TestEnvironment::new();
    let Some(disk) = machine::Mount::new(outer.root(), "tmpfs", "size=4m,mode=0755") else {
        return machine::skip("a_read_only_store_is_told_of", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    env.plant_runs("a", &broken_on_the_way());
    disk.again("ro");
    let working = worker(&env, "1s", &[]);
    let why = working.error_with("no report this time");
    assert!(why.starts_with("warning: ") && why.contains("Read-only file system"), "{why}");
    assert_eq!(kept(&env), None);
    disk.again("rw");
    wait_for(&env, has_runs(105));
    end(working, Signal::TERM);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let env = planted();
    for (args, words) in [
        (&["--every", "daily"][..], "a time like 1d"),
        (&["--every", "off"], "give a time"),
        (&["--every", "0s"], "a second or more"),
        (&["--every", "1d", "--since", "2026-11-01"], "a length of time"),
    ] {
        env.manent(&[&["retro"], args].concat()).assert_fails(2, &[words]);
    }
    for args in [&["--skill", "fix"][..], &["--json"], &["--md"], &["--until", "1d"], &["--html", "x"]] {
        env.manent(&[&["retro", "--every", "1d"], args].concat()).assert_code(2);
    }
    assert!(!env.home().join("retro").exists());
}

#[test]
fn a_purge_of_runs_takes_the_report_along_and_others_know_of_it() {
    let env = planted();
    env.append("a", "hello");
    env.append("plain", "hello");
    let working = worker(&env, "1s", &[]);
    wait_for(&env, has_runs(105));
    end(working, Signal::TERM);
    let doctor = env.done(&["doctor"]);
    assert!(doctor.contains("latest.html, made") && doctor.contains("retro, yours alone"), "{doctor}");
    let stats: Value = serde_json::from_str(&env.done(&["stats", "--json"])).unwrap();
    assert!(stats["storage"]["retro"].as_u64().unwrap() > 1000, "{stats}");
    env.done(&["rm", "--purge", "--yes", "plain"]);
    assert!(kept(&env).is_some(), "it had no runs");
    let purged = env.manent(&["rm", "--purge", "--yes", "a"]);
    assert!(purged.stderr().contains("the latest retrospective is gone too"), "{purged}");
    assert_eq!(names_in(&env.home().join("retro")), [] as [&str; 0]);
    // The runs of a key without a session go the same way.
    env.plant_runs("b", &broken_on_the_way());
    let working = worker(&env, "1s", &[]);
    wait_for(&env, has_runs(105));
    end(working, Signal::TERM);
    env.done(&["rm", "--purge", "--yes", "b"]);
    assert_eq!(names_in(&env.home().join("retro")), [] as [&str; 0]);
    std::fs::write(env.home().join("retro/latest.json"), "{}").unwrap();
    assert!(env.done(&["doctor"]).contains("does not say when it was made"));
}

#[test]
fn a_chat_says_once_that_a_skill_got_worse() {
    let env = planted();
    let working = worker(&env, "1s", &[]);
    wait_for(&env, has_runs(105));
    end(working, Signal::TERM);
    let server = saying("Aye.");
    env.serve(&server);
    let seen = |key: &str| {
        let mut sitting = Sitting::down(&env, &["chat", key]);
        sitting.says("Ahoy", "Aye.");
        sitting.types("\u{4}");
        sitting.leaves().1
    };
    let first = seen("one");
    assert!(first.contains("skills: fix with small: success fell from 95 %"), "{first}");
    assert!(first.contains("`manent retro` tells more"), "{first}");
    let second = seen("two");
    assert!(!second.contains("skills:"), "{second}");
}

/// A chat makes it too, by itself, and is not held up by it.
#[test]
fn a_chat_makes_the_report_while_it_is_open() {
    let env = planted();
    let server = ollama(|_| replies::ollama("Aye."));
    env.configure(&format!(
        "[agent]\nmodel = \"{MODEL}\"\n[ollama]\nurl = \"{}\"\n[retro]\nevery = \"1s\"\nsince = \"5000d\"\n",
        server.url()
    ));
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.says("Ahoy", "Aye.");
    wait_for(&env, has_runs(105));
    sitting.says("Still there?", "Aye.");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
}
