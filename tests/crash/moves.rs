//! Kill -9 at each single system call of what moves, forks and removes sessions. In each of these moments every turn
//! of every session can be read, a session is in one place, and the command done again succeeds.

use super::syscalls::at_each_call;
use crate::support::strace::{self, Call};
use crate::support::{TestEnvironment, machine, records};

/// A command, and what leads up to it.
pub(super) struct Case {
    pub(super) args: &'static [&'static str],
    pub(super) before: &'static [&'static [&'static str]],
    /// The number of sessions of `work` in the end: live, archived, in the trash.
    pub(super) after: [usize; 3],
    /// Exit codes of the command done again: it may have been done already.
    pub(super) again: &'static [i32],
}

/// `work` with a torn end that was set aside, and two forks of it, one of them archived.
fn family() -> TestEnvironment {
    let env = TestEnvironment::new();
    let torn = &records::turn(4, "torn").into_bytes()[..40];
    env.plant("work", [&*records::session("work", &["one", "two", "three"]), torn].concat());
    env.done(&["repair", "work"]);
    env.done(&["fork", "work", "b", "--at", "2"]);
    env.append("b", "b three");
    env.done(&["fork", "b", "c"]);
    env.append("c", "c four");
    env.done(&["archive", "b"]);
    env
}

pub(super) fn scene(case: &Case) -> TestEnvironment {
    let env = family();
    for args in case.before {
        env.done(args);
    }
    env
}

/// Kills the command at each of its calls, on a store of its own each time.
fn kill_at_each_call(test: &str, case: &Case, steps: &[&str], check: impl Fn(&TestEnvironment, &str) + Sync) {
    if !machine::can_trace() {
        return machine::skip(test, "strace cannot trace here");
    }
    let template = scene(case);
    let (output, calls) = strace::calls(&copy_of(&template), case.args);
    output.assert_code(0);
    for step in steps {
        assert!(calls.iter().any(|call| call.name.starts_with(step)), "{step} is a step: {calls:?}");
    }
    let calls: Vec<Call> = calls.into_iter().filter(changes_something).collect();
    at_each_call(&calls, |call| {
        let env = copy_of(&template);
        let output = strace::killed_at(&env, call, case.args);
        assert_eq!(output.signal(), Some(9), "{call:?}: {output}");
        check(&env, &format!("{:?} killed at {call:?}", case.args));
    });
}

/// Between two calls that change nothing, nothing changes: whoever dies there dies before the next one that does.
pub(super) fn changes_something(call: &Call) -> bool {
    let steps = ["mkdir", "rename", "unlink", "write", "ftruncate", "fchmod", "fsync", "fdatasync"];
    steps.iter().any(|step| call.name.starts_with(step))
}

/// The same store once more.
pub(super) fn copy_of(template: &TestEnvironment) -> TestEnvironment {
    let env = TestEnvironment::new();
    let copied = std::process::Command::new("cp").arg("-a").arg(template.home()).arg(env.home()).status();
    assert!(copied.is_ok_and(|status| status.success()));
    env
}

/// Counts the sessions of `work` in each place.
pub(super) fn places(env: &TestEnvironment) -> [usize; 3] {
    ["live", "archived", "trash"]
        .map(|place| env.listed(place).iter().filter(|row| row["key"] == "work").count())
}

/// All turns of everybody can be read, and `work` is in one place.
#[track_caller]
pub(super) fn assert_whole(env: &TestEnvironment, case: &str) {
    assert_eq!(
        places(env).iter().sum::<usize>(),
        1,
        "{case}: one session in one place: {:?}",
        env.tree().keys()
    );
    let work = format!("@{ID}");
    assert_eq!(env.said(&work), ["one", "two", "three"], "{case}");
    assert_forks(env, case);
}

#[track_caller]
pub(super) fn assert_forks(env: &TestEnvironment, case: &str) {
    assert_eq!(env.said("b"), ["one", "two", "b three"], "{case}");
    assert_eq!(env.said("c"), ["one", "two", "b three", "c four"], "{case}");
    let verified = env.manent(&["verify"]);
    assert_eq!(verified.code(), Some(0), "{case}: {verified}");
}

/// Checks that a killed move can be finished, and that the session can be purged to the last byte.
fn check_move(case: &Case) -> impl Fn(&TestEnvironment, &str) + Sync {
    |env, name| {
        assert_whole(env, name);
        let again = env.manent(case.args);
        assert!(case.again.contains(&again.code().unwrap()), "{name}, done again: {again}");
        assert_eq!(places(env), case.after, "{name}, done again: {again}");
        assert_whole(env, name);
        env.done(&["rm", "--purge", "-q", &format!("@{ID}")]);
        assert_forks(env, name);
        let left: Vec<String> =
            env.tree().into_keys().filter(|path| path.contains(ID) || path.contains("work")).collect();
        assert_eq!(left, [""; 0], "{name}: a purge leaves nothing of it");
        assert_eq!(env.holding("\"three\""), [""; 0], "{name}: not a byte");
        assert_eq!(env.unfinished(), [""; 0], "{name}: and nothing half written");
    }
}

pub(super) const ID: &str = "01a1e14a-05ca-731a-9829-bf4cb9d544dd";

pub(super) const ARCHIVE: Case =
    Case { args: &["archive", "work"], before: &[], after: [0, 1, 0], again: &[0] };
pub(super) const UNARCHIVE: Case =
    Case { args: &["unarchive", "work"], before: &[&["archive", "work"]], after: [1, 0, 0], again: &[0, 4] };
pub(super) const RM: Case = Case { args: &["rm", "work"], before: &[], after: [0, 0, 1], again: &[0, 4] };
pub(super) const RM_ARCHIVED: Case =
    Case { args: &["rm", "work"], before: &[&["archive", "work"]], after: [0, 0, 1], again: &[0, 4] };
pub(super) const RESTORE: Case =
    Case { args: &["restore", "work"], before: &[&["rm", "work"]], after: [1, 0, 0], again: &[0, 4] };
pub(super) const RESTORE_ARCHIVED: Case = Case {
    args: &["restore", "work"],
    before: &[&["archive", "work"], &["rm", "work"]],
    after: [0, 1, 0],
    again: &[0, 4],
};

#[test]
fn an_archive_killed_at_any_system_call_loses_nothing() {
    let steps = ["rename", "fsync", "write", "fdatasync", "unlink", "flock"];
    kill_at_each_call("an_archive_killed", &ARCHIVE, &steps, check_move(&ARCHIVE));
}

#[test]
fn an_unarchive_killed_at_any_system_call_loses_nothing() {
    let steps = ["rename", "fsync", "write", "fdatasync", "unlink", "flock"];
    kill_at_each_call("an_unarchive_killed", &UNARCHIVE, &steps, check_move(&UNARCHIVE));
}

#[test]
fn a_deletion_killed_at_any_system_call_loses_nothing() {
    for case in [RM, RM_ARCHIVED] {
        kill_at_each_call("a_deletion_killed", &case, &["rename", "fsync", "flock"], check_move(&case));
    }
}

#[test]
fn a_restoration_killed_at_any_system_call_loses_nothing() {
    for case in [RESTORE, RESTORE_ARCHIVED] {
        kill_at_each_call("a_restoration_killed", &case, &["rename", "fsync", "flock"], check_move(&case));
    }
}

#[test]
fn a_fork_killed_at_any_system_call_is_there_or_not() {
    let case =
        Case { args: &["fork", "work", "new", "--at", "2"], before: &[], after: [1, 0, 0], again: &[0, 6] };
    kill_at_each_call("a_fork_killed", &case, &["rename", "fsync", "write", "fdatasync"], |env, name| {
        assert_whole(env, name);
        let again = env.manent(case.args);
        assert!(case.again.contains(&again.code().unwrap()), "{name}: {again}");
        assert_eq!(env.said("new"), ["one", "two"], "{name}");
        assert_eq!(env.listed("live").len(), 3, "{name}");
        assert_eq!(env.append("new", "three"), 3, "{name}");
        assert_whole(env, name);
        env.done(&["rm", "--purge", "--with-forks", "work"]);
        assert_eq!(env.tree().len(), 0, "{name}: {:?}", env.tree().keys());
    });
}

#[test]
fn a_purge_killed_at_any_system_call_takes_nothing_from_a_fork() {
    let case = Case {
        args: &["rm", "--purge", "work"],
        before: &[&["fork", "work", "d"]],
        after: [0; 3],
        again: &[0, 4],
    };
    kill_at_each_call(
        "a_purge_killed",
        &case,
        &["rename", "fsync", "write", "fdatasync", "unlink"],
        |env, name| {
            assert_forks(env, name);
            assert_eq!(env.said("d"), ["one", "two", "three"], "{name}");
            let again = env.manent(case.args);
            assert!(case.again.contains(&again.code().unwrap()), "{name}: {again}");
            assert_forks(env, name);
            assert_eq!(env.said("d"), ["one", "two", "three"], "{name}");
            assert_eq!(places(env), [0; 3], "{name}");
            env.done(&["rm", "--purge", "--with-forks", "b", "d"]);
            assert_eq!(env.tree().len(), 0, "{name}: {:?}", env.tree().keys());
        },
    );
}

#[test]
fn a_purge_with_forks_killed_at_any_system_call_can_be_finished() {
    let args = &["rm", "--purge", "--with-forks", "work"];
    let case = Case { args, before: &[], after: [0; 3], again: &[0, 4] };
    kill_at_each_call("a_purge_with_forks_killed", &case, &["unlink", "fsync"], |env, name| {
        let again = env.manent(case.args);
        assert!(case.again.contains(&again.code().unwrap()), "{name}: {again}");
        assert_eq!(env.tree().len(), 0, "{name}: {:?}", env.tree().keys());
    });
}
