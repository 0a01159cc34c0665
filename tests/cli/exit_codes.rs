//! The exit codes that scripts rely on: 0 done, 1 failed, 2 usage, 3 damage, 4 not found, 5 held, 6 conflict,
//! 7 unknown, and the end by Ctrl-C.

use std::path::Path;

use crate::support::machine::{Nobody, give, set_mode, skip};
use crate::support::{Stream, TestEnvironment, machine, records, strace};

/// A session with one bad byte.
fn plant_damaged(env: &TestEnvironment, key: &str) {
    let mut bytes = records::session(key, &["one", "two"]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    env.plant(key, bytes);
}

#[test]
fn done_is_0() {
    let env = TestEnvironment::new();
    for args in [&["append", "a", "x"][..], &["show", "a"], &["sessions"], &["verify", "a"], &["repair", "a"]]
    {
        env.manent(args).assert_code(0);
    }
}

#[test]
fn failed_is_1() {
    let env = TestEnvironment::new();
    env.plant("a", [0x1f, 0x8b, 8, 0]);
    for args in [&["append", "a", "x"][..], &["show", "a"], &["verify", "a"], &["repair", "a"]] {
        env.manent(args).assert_fails(1, &["a.jsonl is not a log: it is gzip data"]);
    }
}

#[test]
fn usage_is_2_and_nothing_is_touched() {
    let env = TestEnvironment::new();
    let wrong: [&[&str]; 11] = [
        &["append", "a", "--jsonl", "--key", "k"],
        &["frobnicate"],
        &["append"],
        &["append", "a", "text", "--jsonl"],
        &["append", "a", "x", "--durability", "maybe"],
        &["append", "a", "x", "--expect-seq", "-1"],
        &["append", "a", "x", "--wait", "5 fortnights"],
        &["append", "", "x"],
        &["show", "a", "--raw", "--json"],
        &["show", "a", "b"],
        &["sessions", "--since", "yesterday-ish"],
    ];
    for args in wrong {
        let output = env.manent(args);
        output.assert_code(2);
        assert!(output.stdout_bytes.is_empty(), "{output}");
        assert!(output.stderr().starts_with("error: "), "{output}");
    }
    assert!(!env.home().exists(), "a mistyped command makes no store");
}

#[test]
fn damage_is_3_for_verify_and_0_for_those_who_show_what_is_left() {
    let env = TestEnvironment::new();
    plant_damaged(&env, "a");
    env.manent(&["verify", "a"]).assert_code(3);
    env.manent(&["verify"]).assert_code(3);
    for args in [&["show", "a"][..], &["show", "a", "--json"], &["sessions"]] {
        let output = env.manent(args);
        output.assert_code(0);
        assert!(output.stderr().starts_with("warning: a: "), "damage is named: {output}");
    }
}

#[test]
fn not_found_is_4_whether_there_is_a_store_or_not() {
    let env = TestEnvironment::new();
    for store in ["none", "empty", "another session"] {
        for args in [&["show", "a"][..], &["verify", "a"], &["repair", "a"], &["show", "a", "--tail", "1"]] {
            env.manent(args).assert_fails(4, &["there is no session \"a\"", "`manent sessions`"]);
        }
        match store {
            "none" => env.make_directories(),
            _ => drop(env.append("b", "x")),
        }
    }
    assert_eq!(env.file_names(), ["b.jsonl"], "looking for a session does not make one");
}

#[test]
fn held_is_5_for_whoever_wants_to_write_and_0_for_readers() {
    let env = TestEnvironment::new();
    let _holder = Stream::hold(&env, "a");
    env.manent(&["append", "a", "x", "--wait", "0s"]).assert_code(5);
    for args in [&["show", "a"][..], &["verify", "a"], &["sessions"]] {
        env.manent(args).assert_code(0);
    }
}

#[test]
fn conflict_is_6_and_nothing_is_written() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    let before = env.bytes("a");
    for wrong in ["0", "1", "3", "18446744073709551615"] {
        let output = env.manent(&["append", "a", "two", "--expect-seq", wrong]);
        output.assert_fails(6, &[&format!("expected seq {wrong}"), "the next is 2"]);
    }
    assert_eq!(env.bytes("a"), before);
    env.manent(&["append", "a", "two", "--expect-seq", "2"]).assert_code(0);
}

#[test]
fn unknown_is_7_and_says_how_to_go_on() {
    if !machine::can_trace() {
        return skip("unknown_is_7", "strace cannot trace here");
    }
    let env = TestEnvironment::new();
    env.append("a", "one");
    let log = env.log("a").to_string_lossy().into_owned();
    let options = ["-P", &log, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"];
    let (output, _) = strace::traced(&env, &options, &["append", "a", "two"]);
    output
        .assert_fails(7, &["unknown whether the record is kept", "look before you append it again", "--key"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
}

#[test]
fn of_several_sessions_all_are_done_and_the_worst_code_is_the_exit() {
    let env = TestEnvironment::new();
    env.append("good", "x");
    plant_damaged(&env, "hurt");
    plant_damaged(&env, "hurt-too");

    let output = env.manent(&["verify", "missing", "hurt", "good"]);
    output.assert_code(3);
    assert!(
        output.stdout().contains("damaged  hurt") && output.stdout().contains("ok       good"),
        "{output}"
    );
    assert!(output.stderr().contains("there is no session \"missing\""), "{output}");
    env.manent(&["verify", "good", "missing"]).assert_code(4);

    let output = env.manent(&["repair", "missing", "hurt", "good", "hurt-too"]);
    output.assert_code(4);
    let said = output.stdout();
    assert!(said.contains("repaired hurt\n") && said.contains("repaired hurt-too\n"), "{output}");
    assert!(said.contains("sound    good"), "{output}");
    env.manent(&["verify"]).assert_code(0);

    let _holder = Stream::hold(&env, "held");
    plant_damaged(&env, "hurt-again");
    std::fs::OpenOptions::new().append(true).open(env.log("held")).unwrap();
    let output = env.manent(&["repair", "hurt-again", "missing", "good", "--wait", "0s"]);
    output.assert_code(4);
    assert!(output.stdout().contains("repaired hurt-again"), "{output}");
}

#[test]
fn ctrl_c_ends_a_follower_as_every_shell_expects() {
    let env = TestEnvironment::new();
    env.append("a", "x");
    let follower = Stream::start(&env, &["show", "a", "-f", "--json"]);
    follower.line();
    follower.signal(rustix::process::Signal::INT);
    let (status, _, errors) = follower.finish();
    // A shell makes 130 of death by SIGINT; a program that catches it says 130 itself.
    let by_signal = std::os::unix::process::ExitStatusExt::signal(&status) == Some(2);
    assert!(by_signal || status.code() == Some(130), "{status:?}");
    assert!(errors.is_empty(), "{errors:?}");
}

/// Something in the place of a log, and what is said of it.
type Obstacle = (&'static str, fn(&Path));

const OBSTACLES: [Obstacle; 7] = [
    ("UTF-16 text", |path| std::fs::write(path, [0xff, 0xfe, b'{', 0, b'}', 0, b'\n', 0]).unwrap()),
    ("gzip data", |path| std::fs::write(path, [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]).unwrap()),
    ("a SQLite database", |path| std::fs::write(path, b"SQLite format 3\0 and so on\n").unwrap()),
    ("a directory", |path| std::fs::create_dir(path).unwrap()),
    ("a symbolic link", |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
    ("a symbolic link", |path| std::os::unix::fs::symlink("nowhere", path).unwrap()),
    ("a pipe, socket or device", |path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR).unwrap();
    }),
];

/// A file that is no log is named, with exit code 1; it hides neither the damage elsewhere nor its exit code.
#[test]
fn verify_names_what_is_no_log_and_exits_3_for_damage_elsewhere() {
    for (what, make) in OBSTACLES {
        let env = TestEnvironment::new();
        env.append("good", "x");
        make(&env.log("odd"));
        let output = env.manent(&["verify"]);
        output.assert_fails(1, &["odd.jsonl is not a log: it is", what]);
        assert!(output.stdout().contains("ok       good"), "{output}");

        plant_damaged(&env, "hurt");
        plant_damaged(&env, "zebra");
        for args in [&["verify"][..], &["verify", "good", "odd", "hurt", "zebra"]] {
            let output = env.manent(args);
            output.assert_fails(3, &["odd.jsonl is not a log: it is", what]);
            for line in ["ok       good", "damaged  hurt", "damaged  zebra"] {
                assert!(output.stdout().contains(line), "{what}: {output}");
            }
        }
        env.manent(&["doctor"]).assert_code(3);
    }
}

/// The same in the place of the logs that stand beside the sessions.
#[test]
fn verify_goes_on_behind_a_log_beside_the_sessions_that_cannot_be_read() {
    for name in
        ["memory.jsonl", "inbox.jsonl", "consolidation.jsonl", "runs/good.jsonl", "runs", "archive", "trash"]
    {
        let env = TestEnvironment::new();
        env.append("good", "x");
        plant_damaged(&env, "hurt");
        let path = env.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
        let output = env.manent(&["verify"]);
        output.assert_fails(3, &[name]);
        assert!(output.stdout().contains("ok       good"), "{name}: {output}");
        assert!(output.stdout().contains("damaged  hurt"), "{name}: {output}");
    }
}

#[test]
fn verify_goes_on_behind_a_file_that_may_not_be_read() {
    let Some(nobody) = Nobody::new() else {
        return skip("verify_goes_on_behind_a_file_that_may_not_be_read", "we cannot become somebody else");
    };
    let env = &nobody.env;
    for key in ["good", "odd"] {
        nobody.manent(&["append", key, "x"]).assert_code(0);
    }
    set_mode(&env.log("odd"), 0);
    let output = nobody.manent(&["verify"]);
    output.assert_fails(1, &["odd.jsonl: Permission denied"]);
    assert!(output.stdout().contains("ok       good"), "{output}");
    plant_damaged(env, "hurt");
    give(&env.log("hurt"), Nobody::UID);
    let output = nobody.manent(&["verify"]);
    output.assert_fails(3, &["odd.jsonl: Permission denied"]);
    assert!(output.stdout().contains("damaged  hurt"), "{output}");
}
