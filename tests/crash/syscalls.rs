//! Kill -9 at each single system call of a command, by strace: before every step there is a moment, and in each of
//! these moments the machine may take the process away.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::strace::{self, Call};
use crate::support::{TestEnvironment, machine, records};

/// Runs a case for each of its calls, on all processors.
pub(super) fn at_each_call(calls: &[Call], case: impl Fn(&Call) + Sync) {
    on_all_processors(calls, |_, call| {
        case(call);
        true
    });
}

/// Runs a case for each of these, on all processors. Gives for how many it was true.
pub(super) fn on_all_processors<T: Sync>(all: &[T], case: impl Fn(usize, &T) -> bool + Sync) -> usize {
    let (next, count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(nth) else { break };
                    count.fetch_add(usize::from(case(nth, one)), Ordering::Relaxed);
                }
            });
        }
    });
    count.into_inner()
}

/// Asserts after a killed `append a two` that the old records are there, and the new one wholly or not at all.
fn assert_kept(env: &TestEnvironment, old: &[String], receipt: &[u8], case: &str) {
    let output = env.manent(&["show", "a", "--json"]);
    let never_begun = output.code() == Some(4) && old.is_empty() && receipt.is_empty();
    assert!(output.code() == Some(0) || never_begun, "{case}: {output}");
    let shown: Vec<String> = output.stdout().lines().map(str::to_owned).collect();
    assert!(shown.starts_with(old), "{case}: what was there can be read at once: {shown:?}");
    assert!(shown.len() <= old.len() + 1, "{case}: {shown:?}");
    let after = env.append("a", "after");
    let records = env.records("a");
    let kept = records.len() - old.len() == 2;
    assert_eq!(after as usize, records.len(), "{case}: numbers are contiguous");
    assert!(kept || records.len() - old.len() == 1, "{case}: {records:?}");
    assert!(kept || receipt.is_empty(), "{case}: a receipt was printed, but the record is lost");
    if kept {
        assert!(records[old.len()].contains(r#""content":"two""#), "{case}: {records:?}");
    }
    env.assert_clean("a");
}

/// Acceptance list 1.
#[test]
fn an_append_killed_at_any_system_call_loses_nothing_that_was_acknowledged() {
    if !machine::can_trace() {
        return machine::skip("an_append_killed_at_any_system_call", "strace cannot trace here");
    }
    let session = records::session("a", &["one"]);
    let env = TestEnvironment::new();
    env.plant("a", &session);
    let (output, calls) = strace::calls(&env, &["append", "a", "two"]);
    output.assert_code(0);
    for step in ["openat", "flock", "write", "fdatasync", "fsync"] {
        assert!(calls.iter().any(|call| call.name == step), "an append has the step {step}: {calls:?}");
    }
    at_each_call(&calls, |call| {
        let env = TestEnvironment::new();
        env.plant("a", &session);
        let old = [records::turn(1, "one")];
        let output = strace::killed_at(&env, call, &["append", "a", "two"]);
        assert_eq!(output.signal(), Some(9), "{call:?}: {output}");
        assert_kept(&env, &old, &output.stdout_bytes, &format!("{call:?}"));
    });
}

/// Acceptance list 1, where everything is still to be made: the store, the directory, the session.
#[test]
fn a_first_append_killed_at_any_system_call_can_be_done_again() {
    if !machine::can_trace() {
        return machine::skip("a_first_append_killed_at_any_system_call", "strace cannot trace here");
    }
    let (output, calls) = strace::calls(&TestEnvironment::new(), &["append", "a", "two"]);
    output.assert_code(0);
    assert!(calls.iter().any(|call| call.name == "mkdir"), "{calls:?}");
    at_each_call(&calls, |call| {
        let env = TestEnvironment::new();
        let output = strace::killed_at(&env, call, &["append", "a", "two"]);
        assert_eq!(output.signal(), Some(9), "{call:?}: {output}");
        assert_kept(&env, &[], &output.stdout_bytes, &format!("{call:?}"));
        assert_eq!(machine::mode_of(&env.log("a")), 0o600, "{call:?}");
        assert_eq!(machine::mode_of(&env.sessions()), 0o700, "{call:?}");
    });
}

/// Acceptance list 3, for the recovery that an append does by itself.
#[test]
fn an_append_that_dies_while_it_sets_a_torn_end_aside_keeps_every_byte_of_it() {
    if !machine::can_trace() {
        return machine::skip(
            "an_append_that_dies_while_it_sets_a_torn_end_aside",
            "strace cannot trace here",
        );
    }
    let (session, torn) = torn_session();
    let env = TestEnvironment::new();
    env.plant("a", [&*session, &*torn].concat());
    let (output, calls) = strace::calls(&env, &["append", "a", "two"]);
    output.assert_code(0);
    assert!(calls.iter().any(|call| call.name == "ftruncate"), "{calls:?}");
    at_each_call(&calls, |call| {
        let case = format!("{call:?}");
        let env = TestEnvironment::new();
        env.plant("a", [&*session, &*torn].concat());
        let output = strace::killed_at(&env, call, &["append", "a", "two"]);
        assert_eq!(output.signal(), Some(9), "{case}: {output}");
        assert_kept(&env, &[records::turn(1, "one")], &output.stdout_bytes, &case);
        assert!(env.torn_copies("a").contains(&torn), "{case}: the torn bytes are kept somewhere, whole");
        assert!(env.bytes("a").starts_with(&session), "{case}");
    });
}

/// Acceptance list 3.
#[test]
fn a_repair_killed_at_any_system_call_and_done_again_gives_the_same_bytes() {
    if !machine::can_trace() {
        return machine::skip("a_repair_killed_at_any_system_call", "strace cannot trace here");
    }
    let (mut damaged, torn) = torn_session();
    damaged.extend(records::file(&["{a line that was hurt}", &records::turn(3, "three")]));
    let plant = || {
        let env = TestEnvironment::new();
        env.plant("a", [&*damaged, &*torn].concat());
        env
    };
    let env = plant();
    let (output, calls) = strace::calls(&env, &["repair", "a"]);
    output.assert_code(0);
    let repaired = without_times(&env.bytes("a"));
    assert!(repaired.contains(r#""kind":"gap""#), "{repaired}");
    at_each_call(&calls, |call| {
        let case = format!("{call:?}");
        let env = plant();
        let output = strace::killed_at(&env, call, &["repair", "a"]);
        assert_eq!(output.signal(), Some(9), "{case}: {output}");
        env.manent(&["repair", "a"]).assert_code(0);
        assert_eq!(without_times(&env.bytes("a")), repaired, "{case}");
        assert!(env.torn_copies("a").contains(&torn), "{case}: the torn bytes are kept somewhere, whole");
        env.manent(&["verify", "a"]).assert_code(0);
        let done = env.bytes("a");
        env.manent(&["repair", "a"]).assert_code(0);
        assert_eq!(env.bytes("a"), done, "{case}: once more changes nothing");
    });
}

/// Acceptance list 4 and 23: a directory that a killed process made is not known to survive a power cut; whoever
/// gives the first receipt in it must make sure.
#[test]
fn a_store_whose_making_was_interrupted_is_made_durable_before_the_first_receipt() {
    if !machine::can_trace() {
        return machine::skip("a_store_whose_making_was_interrupted", "strace cannot trace here");
    }
    let synced = |env: &TestEnvironment| {
        let (output, log) = strace::traced(env, &["-y", "-e", "trace=fsync"], &["append", "a", "x"]);
        output.assert_code(0);
        [env.root(), env.home(), &*env.sessions()].map(|dir| log.contains(&format!("<{}>)", dir.display())))
    };
    let env = TestEnvironment::new();
    assert_eq!(synced(&env), [true; 3], "the names of store, directory and session are synced");
    for nth in 1..=2 {
        let env = TestEnvironment::new();
        let call = Call { name: "fsync".to_owned(), nth };
        assert_eq!(strace::killed_at(&env, &call, &["append", "a", "x"]).signal(), Some(9));
        assert_eq!(
            synced(&env)[nth - 1..],
            [true, true, true][nth - 1..],
            "killed before sync {nth} of a directory"
        );
    }
}

/// A session of one turn, and the beginning of a second, as a kill in the middle of a write leaves it.
fn torn_session() -> (Vec<u8>, Vec<u8>) {
    let torn = records::turn(2, &"torn ".repeat(300)).into_bytes()[..1000].to_vec();
    (records::session("a", &["one"]), torn)
}

/// A log without the times and checksums, which differ from one repair to the next.
fn without_times(bytes: &[u8]) -> String {
    crate::support::normalise::normalise(std::str::from_utf8(bytes).unwrap(), "")
}
