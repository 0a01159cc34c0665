//! Who may read and write: private by default, suspicious of directories that others can write to, and no link is
//! followed where a log should be.

use std::os::unix::fs::symlink;

use crate::support::machine::{self, Nobody, mode_of, set_mode};
use crate::support::{TestEnvironment, records};

/// Acceptance list 59.
#[test]
fn whatever_the_umask_files_are_for_their_owner_alone() {
    for umask in ["000", "022", "077", "777"] {
        let env = TestEnvironment::new();
        let manent = |args: &[&str]| env.manent_with_umask(umask, args);
        manent(&["append", "a", "x"]);
        // A copy of torn bytes is as private as the session.
        let torn = [env.bytes("a"), b"{\"seq\":2,\"torn".to_vec()].concat();
        std::fs::write(env.log("a"), torn).unwrap();
        manent(&["append", "a", "y"]);
        assert_eq!(mode_of(env.home()), 0o700, "umask {umask}");
        assert_eq!(mode_of(&env.sessions()), 0o700, "umask {umask}");
        let names = env.file_names();
        assert_eq!(names.len(), 2, "the session and the torn bytes: {names:?}");
        for name in names {
            assert_eq!(mode_of(&env.sessions().join(&name)), 0o600, "umask {umask}: {name}");
        }
    }
}

/// Reading must work, writing must be refused with these words, and nothing may have changed.
#[track_caller]
fn assert_read_but_not_written(env: &TestEnvironment, words: &[&str]) {
    let before = env.bytes("a");
    for args in [&["show", "a"][..], &["sessions"], &["verify", "a"]] {
        env.manent(args).assert_code(0);
    }
    for args in [&["append", "a", "x"][..], &["append", "new", "x"]] {
        env.manent(args).assert_fails(1, &[&["refusing to write to"], words].concat());
    }
    assert_eq!(env.bytes("a"), before);
    assert_eq!(env.file_names(), ["a.jsonl"]);
}

/// Acceptance list 58.
#[test]
fn a_store_that_everybody_may_write_to_is_read_and_not_written() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    for dir in [env.home().to_owned(), env.sessions()] {
        for mode in [0o777, 0o1777, 0o702] {
            set_mode(&dir, mode);
            let name = dir.display().to_string();
            assert_read_but_not_written(&env, &[&name, "everybody may write there", "chmod o-w"]);
        }
        set_mode(&dir, 0o700);
    }
    env.append("a", "two");
    // The group is the owner's choice.
    set_mode(env.home(), 0o770);
    env.append("a", "three");
}

/// Acceptance list 58: a refusal makes nothing.
#[test]
fn a_refused_home_stays_as_it_was() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.home()).unwrap();
    set_mode(env.home(), 0o777);
    env.manent(&["append", "a", "x"]).assert_fails(1, &["refusing to write to"]);
    let made: Vec<_> = std::fs::read_dir(env.home()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(made.is_empty(), "made where writing was refused: {made:?}");
}

/// Acceptance list 58.
#[test]
fn a_store_of_another_user_is_read_and_not_written() {
    if !machine::is_root() {
        return machine::skip("a_store_of_another_user", "only root can give a directory away");
    }
    let env = TestEnvironment::new();
    env.append("a", "one");
    for dir in [env.home().to_owned(), env.sessions()] {
        machine::give(&dir, Nobody::UID);
        let name = dir.display().to_string();
        assert_read_but_not_written(&env, &[&name, "it belongs to user 65534", "--home"]);
        machine::give(&dir, 0);
    }
    env.append("a", "two");
}

/// Acceptance list 57: the store itself may be a link; people move their data to other disks.
#[test]
fn a_home_that_is_a_link_is_fine() {
    let env = TestEnvironment::new();
    let real = env.root().join("elsewhere");
    std::fs::create_dir(&real).unwrap();
    set_mode(&real, 0o700);
    symlink(&real, env.home()).unwrap();
    env.append("a", "one");
    assert_eq!(env.records("a").len(), 1);
    assert!(real.join("sessions/a.jsonl").is_file());
    // What counts is where it leads to.
    set_mode(&real, 0o777);
    env.manent(&["append", "a", "x"]).assert_fails(1, &["refusing to write", "everybody may write there"]);
}

/// Acceptance list 57: a backup by hard links is legitimate, but whoever else has the link reads along.
#[test]
fn a_session_with_a_second_name_is_written_with_a_warning() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    std::fs::hard_link(env.log("a"), env.root().join("second name")).unwrap();
    let output = env.manent(&["append", "a", "two"]);
    output.assert_code(0);
    assert_eq!(output.stdout(), "a 2\n", "it is not refused");
    assert!(
        output.stderr().starts_with("warning: ") && output.stderr().contains("link"),
        "it is told: {output}"
    );
}

/// Acceptance list 57 and 60: a link planted where the torn bytes will be copied to is not written through.
#[test]
fn a_link_planted_for_the_copy_of_torn_bytes_is_not_followed() {
    let env = TestEnvironment::new();
    let good = records::session("a", &["one"]);
    env.plant("a", [&*good, b"{\"seq\":2,\"torn"].concat());
    let victim = env.root().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let missing = env.root().join("missing");
    symlink(&victim, env.sessions().join(format!("a.jsonl.torn-{}-0", good.len()))).unwrap();
    symlink(&missing, env.sessions().join(format!("a.jsonl.torn-{}-1", good.len()))).unwrap();
    assert_eq!(env.append("a", "two"), 2);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!missing.exists());
    let copy = std::fs::read(env.sessions().join(format!("a.jsonl.torn-{}-2", good.len()))).unwrap();
    assert_eq!(copy, b"{\"seq\":2,\"torn");
}

/// Acceptance list 22, a directory, as a user to whom rights mean something.
#[test]
fn a_read_only_directory_is_read_and_a_new_session_says_why_not() {
    let Some(nobody) = Nobody::new() else {
        return machine::skip("a_read_only_directory_is_read", "only root can become another user");
    };
    nobody.manent(&["append", "a", "one"]).assert_code(0);
    let env = &nobody.env;
    set_mode(&env.sessions(), 0o500);
    for args in [&["show", "a"][..], &["sessions"], &["verify", "a"], &["repair", "a"]] {
        nobody.manent(args).assert_code(0);
    }
    nobody
        .manent(&["append", "new", "x"])
        .assert_fails(1, &["cannot create", "new.jsonl", "Permission denied"]);
    // A torn end cannot be set aside here, so it is not cut.
    let torn = [env.bytes("a"), b"{\"seq\":2,\"torn".to_vec()].concat();
    std::fs::write(env.log("a"), &torn).unwrap();
    nobody.manent(&["append", "a", "x"]).assert_fails(1, &["set torn bytes aside", "Permission denied"]);
    assert_eq!(env.bytes("a"), torn);
    nobody.manent(&["show", "a"]).assert_code(0);
}

/// A session that may only be read.
#[test]
fn a_read_only_session_is_read_and_writing_says_why_not() {
    let Some(nobody) = Nobody::new() else {
        return machine::skip("a_read_only_session_is_read", "only root can become another user");
    };
    nobody.manent(&["append", "a", "one"]).assert_code(0);
    set_mode(&nobody.env.log("a"), 0o400);
    nobody.manent(&["show", "a"]).assert_code(0);
    nobody.manent(&["verify", "a"]).assert_code(0);
    nobody.manent(&["append", "a", "x"]).assert_fails(1, &["cannot open", "a.jsonl", "Permission denied"]);
}

/// A session that may not even be read is named, and hides no other.
#[test]
fn a_session_without_the_right_to_read_it_is_an_error_and_not_empty() {
    let Some(nobody) = Nobody::new() else {
        return machine::skip("a_session_without_the_right_to_read_it", "only root can become another user");
    };
    nobody.manent(&["append", "a", "one"]).assert_code(0);
    nobody.manent(&["append", "b", "two"]).assert_code(0);
    set_mode(&nobody.env.log("a"), 0);
    for args in [&["show", "a"][..], &["verify", "a"], &["append", "a", "x"]] {
        nobody.manent(args).assert_fails(1, &["a.jsonl", "Permission denied", "check who owns it"]);
    }
    let listed = nobody.manent(&["sessions"]);
    listed.assert_code(0);
    assert!(
        listed.stdout().contains("two") && listed.stderr().contains("a.jsonl: Permission denied"),
        "{listed}"
    );
    nobody.manent(&["verify"]).assert_code(1);
}

/// Acceptance list 58, the other way round: an ordinary user in a store of root's.
#[test]
fn an_ordinary_user_cannot_write_to_the_store_of_another() {
    let Some(nobody) = Nobody::new() else {
        return machine::skip("an_ordinary_user_cannot_write", "only root can become another user");
    };
    nobody.manent(&["append", "a", "one"]).assert_code(0);
    for path in [nobody.env.home(), &nobody.env.sessions(), &nobody.env.log("a")] {
        machine::give(path, 0);
        set_mode(path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    nobody.manent(&["show", "a"]).assert_code(0);
    nobody.manent(&["append", "a", "x"]).assert_fails(1, &["it belongs to user 0"]);
}
