//! Logs that vanish: named until somebody acknowledges it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::TestEnvironment;
use crate::support::model::{Sitting, saying};

/// A session of three turns that the catalogue has seen, and one beside it.
fn scene() -> TestEnvironment {
    let env = TestEnvironment::in_memory();
    for text in ["one", "two", "three"] {
        env.append("work", text);
    }
    env.append("other", "something else");
    env.done(&["sessions"]);
    env
}

#[test]
fn log_that_was_removed_is_named_until_repair_acknowledges_it() {
    let env = scene();
    fs::remove_file(env.log("work")).unwrap();
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       other  1 record
    missing  work  its log was removed, emptied or replaced; it had records up to 3
               bring it back from a backup, or `manent repair work` acknowledges the loss
    [exit 3]
    ");
    insta::assert_snapshot!(env.manent(&["verify", "work"]), @"
    missing  work  its log was removed, emptied or replaced; it had records up to 3
               bring it back from a backup, or `manent repair work` acknowledges the loss
    [exit 3]
    ");
    insta::assert_snapshot!(env.manent(&["verify", "other"]), @"
    ok       other  1 record
    [exit 0]
    ");
    env.manent(&["show", "work"])
        .assert_fails(4, &["work is missing", "records up to 3", "manent repair work"]);
    let first = env.manent(&["sessions"]);
    first.assert_code(0);
    assert!(first.stderr().contains("work is missing"), "{first}");
    let second = env.manent(&["search", "else"]);
    assert!(!second.stderr().contains("missing"), "said once: {second}");
    let doctor = env.manent(&["doctor"]);
    doctor.assert_code(3);
    assert!(doctor.stdout().contains("work is missing: its log was removed"), "{doctor}");
    env.manent(&["verify"]).assert_code(3);
    insta::assert_snapshot!(env.manent(&["repair", "work"]), @"
    repaired work
               acknowledged: its log was removed, emptied or replaced; it had records up to 3
    [exit 0]
    ");
    env.manent(&["verify"]).assert_code(0);
    env.manent(&["doctor"]).assert_code(0);
    env.manent(&["verify", "work"]).assert_fails(4, &["work"]);
}

const WORK_IS_MISSING: &str = "warning: work is missing: its log was removed, emptied or replaced; it had records up \
                               to 3; bring it back from a backup, or `manent repair work` acknowledges the loss\n";
const WORK_BEGINS_ANEW: &str = "warning: an earlier session of work is missing: its log was removed, emptied or \
                                replaced; it had records up to 3; this is a new one; bring it back from a backup, or \
                                `manent repair work` acknowledges the loss\n";

#[test]
fn stats_after_a_log_vanished_mentions_it_once() {
    let env = scene();
    fs::remove_file(env.log("work")).unwrap();
    let first = env.manent(&["stats", "--json"]);
    first.assert_code(0);
    assert_eq!(first.stderr(), WORK_IS_MISSING);
    let second = env.manent(&["stats"]);
    assert!(!second.stderr().contains("missing"), "said once: {second}");
    env.manent(&["verify"]).assert_code(3);
}

#[test]
fn chat_after_a_log_vanished_mentions_it_once() {
    let env = scene();
    let server = saying("Aye.");
    env.serve(&server);
    fs::remove_file(env.log("work")).unwrap();
    let first = env.chat(&["talk"], "one");
    first.assert_code(0);
    assert_eq!(first.stdout(), "Aye.\n");
    assert_eq!(first.stderr(), WORK_IS_MISSING);
    for output in [env.chat(&["talk"], "two"), env.manent(&["stats"])] {
        assert_eq!((output.code(), output.stderr()), (Some(0), String::new()), "said once");
    }
    env.manent(&["verify"]).assert_code(3);
}

#[test]
fn chat_in_a_session_whose_log_vanished_warns_that_it_begins_anew() {
    let env = scene();
    let server = saying("Aye.");
    env.serve(&server);
    fs::remove_file(env.log("work")).unwrap();
    let first = env.chat(&["work"], "one");
    first.assert_code(0);
    assert_eq!(first.stderr(), WORK_BEGINS_ANEW);
    let second = env.chat(&["work"], "two");
    assert_eq!((second.code(), second.stderr()), (Some(0), String::new()), "said once");
    assert_eq!(env.turns("work").len(), 4);
}

#[test]
fn chat_on_a_terminal_says_which_log_vanished() {
    let env = scene();
    let server = saying("Aye.");
    env.serve(&server);
    fs::remove_file(env.log("work")).unwrap();
    let mut sitting = Sitting::down(&env, &["chat", "talk"]);
    sitting.sees("a new session talk");
    let seen = sitting.seen();
    assert!(seen.contains("work is missing: its log was removed, emptied or replaced"), "{seen}");
    sitting.says(":new work", "an earlier session of work is missing");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
}

/// Damage that is done to a log.
type Hurt = fn(&Path);

#[test]
fn log_that_was_emptied_or_replaced_is_named() {
    let emptied: Hurt = |path| fs::write(path, "").unwrap();
    let linked: Hurt = |path| {
        fs::remove_file(path).unwrap();
        symlink("/etc/hostname", path).unwrap();
    };
    for (how, hurt) in [("emptied", emptied), ("a link", linked)] {
        for look in [false, true] {
            let env = scene();
            hurt(&env.log("work"));
            if look {
                env.manent(&["search", "else"]).assert_code(0);
            }
            for command in ["verify", "doctor"] {
                let output = env.manent(&[command]);
                output.assert_code(3);
                let says = "its log was removed, emptied or replaced";
                assert!(output.stdout().contains(says), "{how}: {output}");
            }
            env.manent(&["repair"]).assert_code(0);
            // A link in the place of a log is named for as long as it is there.
            let _ = fs::remove_file(env.log("work"));
            env.manent(&["verify"]).assert_code(0);
        }
    }
}

#[test]
fn append_to_a_session_whose_log_vanished_begins_anew_with_a_warning() {
    for look in [false, true] {
        let env = scene();
        fs::remove_file(env.log("work")).unwrap();
        if look {
            env.manent(&["sessions"]).assert_code(0);
        }
        let output = env.manent(&["append", "work", "begun anew"]);
        output.assert_code(0);
        assert_eq!(output.stdout(), "work 1\n");
        assert!(output.stderr().contains("an earlier session of work is missing"), "{output}");
        assert!(!env.manent(&["append", "work", "more"]).stderr().contains("missing"), "said once");
        let verify = env.manent(&["verify"]);
        verify.assert_code(3);
        assert!(verify.stdout().contains("missing  work"), "{verify}");
        env.manent(&["repair", "work"]).assert_code(0);
        env.manent(&["verify"]).assert_code(0);
        assert_eq!(env.records("work").len(), 2, "what was begun since is not touched");
    }
}

#[test]
fn archived_session_that_vanished_is_named() {
    let env = scene();
    env.done(&["archive", "work"]);
    env.done(&["sessions", "--archived"]);
    fs::remove_dir_all(env.archive()).unwrap();
    let verify = env.manent(&["verify"]);
    verify.assert_code(3);
    assert!(verify.stdout().contains("missing  work"), "{verify}");
}

#[test]
fn session_that_was_moved_or_purged_is_not_missing() {
    let env = scene();
    let clean = |what: &str| {
        let verify = env.manent(&["verify"]);
        assert_eq!(verify.code(), Some(0), "{what}: {verify}");
        assert!(!env.manent(&["sessions"]).stderr().contains("missing"), "{what}");
    };
    for (command, what) in
        [("archive", "archived"), ("unarchive", "live"), ("rm", "in the trash"), ("restore", "restored")]
    {
        env.done(&[command, "work"]);
        clean(what);
    }
    env.done(&["fork", "work", "branch"]);
    env.done(&["sessions"]);
    env.done(&["rm", "--purge", "--yes", "work"]);
    clean("purged");
}

#[test]
fn copy_that_is_restored_is_no_longer_missing_and_an_older_one_is_shorter() {
    let env = scene();
    let whole = env.bytes("work");
    let older =
        whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').map(|at| whole[..=at].to_vec());
    fs::remove_file(env.log("work")).unwrap();
    env.manent(&["sessions"]).assert_code(0);
    env.plant("work", whole);
    env.manent(&["verify"]).assert_code(0);
    env.manent(&["sessions"]).assert_code(0);
    env.manent(&["verify"]).assert_code(0);
    fs::remove_file(env.log("work")).unwrap();
    env.manent(&["sessions"]).assert_code(0);
    env.plant("work", older.unwrap());
    env.manent(&["sessions"]).assert_code(0);
    let verify = env.manent(&["verify"]);
    verify.assert_code(3);
    assert!(verify.stdout().contains("shorter than last seen: record 3"), "{verify}");
}

#[test]
fn other_programs_file_that_is_gone_is_listed_and_no_damage() {
    let env = scene();
    let path = env.plant("foreign", "{\"role\":\"user\",\"content\":\"hello\"}\n");
    env.done(&["sessions"]);
    fs::remove_file(path).unwrap();
    let verify = env.manent(&["verify"]);
    verify.assert_code(0);
    assert!(verify.stdout().contains("gone     foreign  its file, another program's"), "{verify}");
    let sessions = env.manent(&["sessions"]);
    assert!(!sessions.stderr().contains("foreign"), "{sessions}");
    let doctor = env.manent(&["doctor"]);
    doctor.assert_code(0);
    assert!(doctor.stdout().contains("gone since they were last seen: foreign"), "{doctor}");
    env.manent(&["repair"]).assert_code(0);
    assert!(!env.manent(&["verify"]).stdout().contains("foreign"));
}

#[test]
fn reindex_forgets_what_is_missing() {
    let env = scene();
    fs::remove_file(env.log("work")).unwrap();
    env.manent(&["sessions"]).assert_code(0);
    env.done(&["reindex"]);
    env.manent(&["verify"]).assert_code(0);
}
