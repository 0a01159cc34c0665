//! `manent doctor` finds what keeps a store from being used, says what to do, and leaves nothing behind.

use crate::support::machine::{Mount, Nobody, give, set_mode, skip};
use crate::support::{TestEnvironment, records};

/// The lines that are not ok.
#[track_caller]
fn complaints(env: &TestEnvironment, code: i32) -> Vec<String> {
    let output = env.manent(&["doctor"]);
    output.assert_code(code);
    assert!(output.stderr_bytes.is_empty(), "{output}");
    let wrong = output.stdout();
    let wrong = wrong.lines().filter(|line| !line.starts_with("ok "));
    wrong.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
fn assert_one(found: &[String], begins: &str, holds: &[&str]) {
    let [line] = found else { panic!("one line was to be wrong: {found:#?}") };
    assert!(line.starts_with(begins), "{line}");
    for words in holds {
        assert!(line.contains(words), "{words:?} is not in {line}");
    }
}

/// Doctor names directories where appends are refused, with the same advice as the append.
#[test]
fn directories_that_others_can_write_are_bad() {
    let env = TestEnvironment::new();
    env.append("a", "x");
    assert_eq!(complaints(&env, 0), [""; 0]);
    for dir in [env.home().to_owned(), env.sessions()] {
        set_mode(&dir, 0o707);
        let path = dir.display().to_string();
        assert_one(&complaints(&env, 1), "bad ", &[&path, "everybody may write there", "chmod o-w"]);
        set_mode(&dir, 0o755);
        assert_one(&complaints(&env, 0), "warn ", &[&path, "mode 0755", "chmod 700"]);
        set_mode(&dir, 0o700);
    }
}

#[test]
fn a_store_of_another_user_is_bad() {
    let Some(nobody) = Nobody::new() else {
        skip("a_store_of_another_user_is_bad", "we cannot become somebody else");
        return;
    };
    nobody.manent(&["append", "a", "x"]).assert_code(0);
    let found = complaints(&nobody.env, 1);
    assert!(found[0].contains("belongs to user 65534") && found[0].contains("run as that user"), "{found:?}");
    nobody.manent(&["doctor"]).assert_code(0);
    give(nobody.env.home(), 1);
    nobody.manent(&["doctor"]).assert_code(1);
}

#[test]
fn something_else_in_the_place_of_the_store_is_bad() {
    let env = TestEnvironment::new();
    std::fs::write(env.home(), "a file").unwrap();
    let found = complaints(&env, 1);
    assert!(found[0].starts_with("bad store") && found[0].contains("is no directory"), "{found:?}");
}

/// A disk that is full is told before the first append fails.
#[test]
fn a_disk_that_is_nearly_full_is_told() {
    let outer = TestEnvironment::new();
    let Some(disk) = Mount::new(outer.root(), "tmpfs", "size=2m,mode=0755") else {
        skip("a_disk_that_is_nearly_full_is_told", "nothing can be mounted here");
        return;
    };
    let env = TestEnvironment::within(disk.path());
    env.append("a", "x");
    assert_one(&complaints(&env, 0), "warn disk only ", &["free", "make room"]);
    let _ = std::fs::write(disk.path().join("filler"), vec![7; 3 << 20]);
    let found = complaints(&env, 1);
    assert!(found.iter().any(|line| line.starts_with("bad disk full")), "{found:?}");
}

/// On an unknown file system nothing is written, unless an option allows it.
#[test]
fn a_file_system_that_is_not_trusted_is_told() {
    let outer = TestEnvironment::new();
    let Some(disk) = Mount::new(outer.root(), "hugetlbfs", "mode=0700") else {
        skip("a_file_system_that_is_not_trusted_is_told", "hugetlbfs cannot be mounted here");
        return;
    };
    let env = TestEnvironment::within(disk.path());
    env.make_directories();
    let output = env.manent(&["doctor"]);
    output.assert_code(1);
    assert!(output.stdout().contains("bad   file system  of an unknown kind"), "{output}");
    let output = env.manent(&["doctor", "--any-filesystem"]);
    assert!(output.stdout().contains("warn  file system  of an unknown kind"), "{output}");
}

/// A clock that was ahead once makes sessions that stay the newest for years.
#[test]
fn a_clock_that_is_behind_the_records_is_told() {
    let env = TestEnvironment::new();
    let later = records::plain("from the future").replace("2026-", "2099-");
    env.manent_given(&["append", "--jsonl", "a"], later).assert_code(0);
    assert_one(&complaints(&env, 0), "warn clock it says ", &["but a was written 2099-11-15"]);
}

/// Damage that somebody acknowledged is no alarm; damage that nobody did is, in every place, with what to type.
#[test]
fn damage_is_bad_until_it_is_acknowledged() {
    let env = TestEnvironment::new();
    let mut bytes = records::session("a b", &["one", "two", "three"]);
    let hurt = bytes.windows(3).position(|w| w == b"two").unwrap();
    bytes[hurt] = b'T';
    env.append("a b", "to learn the name of its file");
    std::fs::write(env.sessions().join(&env.file_names()[0]), bytes).unwrap();
    let found = complaints(&env, 3);
    assert_one(&found, "bad session a b is damaged", &["`manent verify 'a b'`", "`manent repair 'a b'`"]);
    env.done(&["repair", "a b"]);
    assert_eq!(complaints(&env, 0), [""; 0]);
    assert!(env.done(&["doctor"]).contains("a b is damaged, which is known and acknowledged"));
    env.done(&["archive", "a b"]);
    assert_eq!(complaints(&env, 0), [""; 0]);
}

/// Whoever asks how a store is must not change it.
#[test]
fn doctor_changes_no_session_and_makes_no_file_but_the_index() {
    let env = TestEnvironment::new();
    for key in ["a", "b", "c", "d"] {
        env.append(key, "x");
    }
    env.done(&["archive", "b"]);
    env.done(&["rm", "c"]);
    let torn = [env.bytes("d"), b"{\"seq\":2,\"torn".to_vec()].concat();
    env.plant("d", torn);
    let before = env.tree();
    assert_one(&complaints(&env, 3), "bad session d is damaged", &["`manent repair d`"]);
    assert!(env.tree() == before);
}
