//! Disks that refuse in the middle of a move: every call that changes something fails once, with each error that a disk
//! has. The error is told, nothing is lost, and when the cause is gone the same command succeeds.

use std::io::Write;

use super::moves::{
    ARCHIVE, Case, RESTORE, RESTORE_ARCHIVED, RM, RM_ARCHIVED, UNARCHIVE, assert_forks, assert_whole,
    changes_something, copy_of, places, scene,
};
use super::syscalls::at_each_call;
use crate::support::random::Random;
use crate::support::strace::{self, Call};
use crate::support::{Output, TestEnvironment, machine, records};

/// Runs the command while one of its calls fails.
fn failing_at(env: &TestEnvironment, call: &Call, error: &str, args: &[&str]) -> Output {
    let Call { name, nth } = call;
    let (trace, inject) = (format!("trace={name}"), format!("inject={name}:error={error}:when={nth}"));
    let (output, log) = strace::traced(env, &["-e", &trace, "-e", &inject], args);
    assert!(log.contains("INJECTED"), "{call:?} was not reached: {output}");
    output
}

/// Lets each call fail, on a store of its own each time.
fn fail_each_call(case: &Case, check: impl Fn(&TestEnvironment, &str) + Sync) {
    let template = scene(case);
    let (output, calls) = strace::calls(&copy_of(&template), case.args);
    output.assert_code(0);
    let calls: Vec<Call> = calls.into_iter().filter(changes_something).collect();
    for (error, words) in [("EIO", "Input/output error"), ("ENOSPC", "No space left on device")] {
        // A disk has no space for what would need some.
        let needs_space =
            |call: &&Call| error != "ENOSPC" || ["write", "mkdir", "fdatasync"].contains(&&*call.name);
        let calls: Vec<Call> = calls.iter().filter(needs_space).cloned().collect();
        at_each_call(&calls, |call| {
            let name = format!("{:?} with {error} at {call:?}", case.args);
            let env = copy_of(&template);
            let output = failing_at(&env, call, error, case.args);
            if output.code() == Some(0) {
                // It could do without: tidying up behind itself, or a warning that nobody reads.
                assert_eq!(places(&env), case.after, "{name}: {output}");
            } else {
                assert_eq!(output.code(), Some(1), "{name}: {output}");
                let said = output.stderr();
                let told = said.contains(words) || said.contains("no space for");
                assert!(said.contains("error: ") && told, "{name}: {output}");
            }
            check(&env, &name);
        });
    }
}

#[test]
fn a_move_that_fails_at_any_call_loses_nothing_and_can_be_done_again() {
    if !machine::can_trace() {
        return machine::skip("a_move_that_fails_at_any_call", "strace cannot trace here");
    }
    for case in [ARCHIVE, UNARCHIVE, RM, RM_ARCHIVED, RESTORE, RESTORE_ARCHIVED] {
        fail_each_call(&case, |env, name| {
            assert_whole(env, name);
            let again = env.manent(case.args);
            assert!(case.again.contains(&again.code().unwrap()), "{name}, done again: {again}");
            assert_eq!(places(env), case.after, "{name}, done again: {again}");
            assert_whole(env, name);
            assert_eq!(env.unfinished(), [""; 0], "{name}: nothing half written is left");
        });
    }
}

#[test]
fn a_fork_that_fails_at_any_call_can_be_made_again() {
    if !machine::can_trace() {
        return machine::skip("a_fork_that_fails_at_any_call", "strace cannot trace here");
    }
    let case = Case { args: &["fork", "work", "new"], before: &[], after: [1, 0, 0], again: &[0, 6] };
    fail_each_call(&case, |env, name| {
        assert_whole(env, name);
        let again = env.manent(case.args);
        assert!(case.again.contains(&again.code().unwrap()), "{name}: {again}");
        assert_eq!(env.said("new"), ["one", "two", "three"], "{name}");
        assert_whole(env, name);
    });
}

#[test]
fn a_purge_that_fails_at_any_call_takes_nothing_from_a_fork() {
    if !machine::can_trace() {
        return machine::skip("a_purge_that_fails_at_any_call", "strace cannot trace here");
    }
    let case = Case { args: &["rm", "--purge", "work"], before: &[], after: [0; 3], again: &[0, 4] };
    fail_each_call(&case, |env, name| {
        assert_forks(env, name);
        let again = env.manent(case.args);
        assert!(case.again.contains(&again.code().unwrap()), "{name}: {again}");
        assert_eq!(places(env), [0; 3], "{name}");
        assert_forks(env, name);
        assert_eq!(env.holding("\"three\""), [""; 0], "{name}");
    });
}

/// A session that does not become much smaller when it is packed.
fn large_session() -> Vec<u8> {
    let mut random = Random::new(7);
    let letter = |random: &mut Random| char::from(b'!' + random.below(90) as u8);
    let texts: Vec<String> = (0..12).map(|_| (0..48_000).map(|_| letter(&mut random)).collect()).collect();
    records::session("a", &texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Packing needs room for the packed file beside the plain one.
#[test]
fn a_disk_that_is_full_during_an_archive_keeps_the_session() {
    let outer = TestEnvironment::new();
    let Some(disk) = machine::Mount::new(outer.root(), "tmpfs", "size=2m,mode=0755") else {
        return machine::skip("a_disk_that_is_full_during_an_archive", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    let bytes = large_session();
    env.plant("a", &bytes);
    let filler = disk.path().join("filler");
    let fill = || {
        let mut file = std::fs::File::create(&filler).unwrap();
        while file.write_all(&[b'f'; 4096]).is_ok() {}
    };
    fill();
    // Not even the directory can be made; or it can, and there is no room for the packed file.
    for place in ["live", "archived"] {
        env.manent(&["archive", "a"]).assert_fails(1, &["No space left on device"]);
        let both = [env.listed("live"), env.listed("archived")].concat();
        let there = both.iter().filter(|row| row["key"] == "a").count();
        assert_eq!((there, env.said("a").len()), (1, 12), "{place}: it is there, and is read");
        assert_eq!(env.unfinished(), [""; 0], "{place}");
        std::fs::remove_file(&filler).unwrap();
        env.manent(&["append", "b", place]).assert_code(0);
        env.done(&["archive", "b"]);
        fill();
    }
    // Deleting and restoring need no room.
    std::fs::remove_file(&filler).unwrap();
    env.done(&["archive", "a"]);
    fill();
    env.done(&["rm", "a"]);
    env.done(&["restore", "a"]);
    env.manent(&["unarchive", "a"]).assert_fails(1, &["No space left on device"]);
    assert_eq!(env.said("a").len(), 12);
    std::fs::remove_file(&filler).unwrap();
    env.done(&["unarchive", "a"]);
    assert!(env.bytes("a") == bytes, "byte for byte");
}

#[test]
fn too_few_open_files_stop_a_move_and_lose_nothing() {
    if !machine::has("prlimit") {
        return machine::skip("too_few_open_files_stop_a_move", "there is no prlimit");
    }
    for case in [ARCHIVE, UNARCHIVE, RM_ARCHIVED, RESTORE] {
        let template = scene(&case);
        let mut failures = 0;
        for files in 4..=10 {
            let env = copy_of(&template);
            let name = format!("{:?} with {files} files", case.args);
            let output = env.manent_under(&["prlimit", &format!("--nofile={files}")], case.args);
            if output.code() != Some(0) {
                failures += 1;
                output.assert_fails(1, &["Too many open files"]);
            }
            assert_whole(&env, &name);
            let again = env.manent(case.args);
            assert!(case.again.contains(&again.code().unwrap()), "{name}: {again}");
            assert_eq!(places(&env), case.after, "{name}");
        }
        assert!((1..7).contains(&failures), "the limit was felt, and once was wide enough: {failures}");
    }
}
