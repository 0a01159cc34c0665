//! The memory is as private as the sessions, follows no link, and what stands in it never drives the terminal.

use std::os::unix::fs::symlink;

use super::terminal::{HOSTILE, assert_harmless};
use crate::support::TestEnvironment;
use crate::support::machine::{self, Nobody, mode_of, set_mode};

#[test]
fn whatever_the_umask_the_memory_is_for_its_owner_alone() {
    for umask in ["000", "022", "777"] {
        let env = TestEnvironment::new();
        let manent = |args: &[&str]| env.manent_with_umask(umask, &[&["memory"], args].concat());
        manent(&["add", "a needle"]);
        manent(&["add", "another needle"]);
        manent(&["search", "needle"]);
        assert_eq!((mode_of(env.home()), mode_of(&env.memory())), (0o700, 0o600), "umask {umask}");
        let index = env.index().join("memory");
        assert_eq!(mode_of(&index), 0o700, "umask {umask}");
        // What is made anew, and what is set aside, is no more open than the file was.
        let damaged = [env.memory_bytes(), b"{\"damaged\n{\"torn".to_vec()].concat();
        std::fs::write(env.memory(), damaged).unwrap();
        manent(&["forget", "1"]);
        manent(&["compact"]);
        for (name, _) in env.everything() {
            assert_eq!(mode_of(&env.home().join(&name)), 0o600, "umask {umask}: {name}");
        }
        assert!(env.tree().len() >= 2, "something was set aside");
    }
}

/// A link would make us read, or write, where somebody else wants.
#[test]
fn a_link_in_the_place_of_the_memory_is_not_followed() {
    let env = TestEnvironment::new();
    env.make_directories();
    let elsewhere = env.root().join("precious");
    let precious = "{\"id\":1,\"kind\":\"fact\",\"content\":\"not ours\"}\n";
    std::fs::write(&elsewhere, precious).unwrap();
    for target in [elsewhere.clone(), env.root().join("nowhere")] {
        symlink(&target, env.memory()).unwrap();
        for args in
            [&["add", "x"][..], &["list"], &["forget", "1"], &["why", "1"], &["search", "ours"], &["compact"]]
        {
            let output = env.mem(args);
            output.assert_fails(1, &["memory.jsonl is not a log: it is a symbolic link"]);
            assert!(!output.stderr().contains("not ours") && output.stdout_bytes.is_empty(), "{output}");
        }
        env.manent(&["doctor"]).assert_code(1);
        std::fs::remove_file(env.memory()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), precious);
    assert!(!env.root().join("nowhere").exists());
    // Nor where the new file of a compaction is written.
    env.remember(&["stays"]);
    env.remember(&["goes"]);
    env.done(&["memory", "forget", "2"]);
    symlink(&elsewhere, env.home().join("memory.jsonl.new")).unwrap();
    env.done(&["memory", "compact"]);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), precious);
    assert_eq!(env.remembered(), [1]);
}

/// Reading must work, writing must be refused with these words, and nothing may have changed.
#[track_caller]
fn assert_read_but_not_written(env: &TestEnvironment, words: &[&str]) {
    let before = env.memory_bytes();
    for args in [&["list"][..], &["search", "thing"], &["why", "1"], &["select", "thing"], &["audit"]] {
        env.mem(args).assert_code(0);
    }
    for args in [&["add", "x"][..], &["forget", "1"], &["compact"]] {
        env.mem(args).assert_fails(1, &[&["refusing to write to"], words].concat());
    }
    assert_eq!(env.memory_bytes(), before);
}

#[test]
fn in_a_directory_that_others_can_write_nothing_is_remembered() {
    let env = TestEnvironment::new();
    env.remember(&["a thing"]);
    for mode in [0o777, 0o1777, 0o702] {
        set_mode(env.home(), mode);
        assert_read_but_not_written(&env, &["everybody may write there", "chmod o-w"]);
    }
    set_mode(env.home(), 0o700);
    env.remember(&["another"]);
    let fresh = TestEnvironment::new();
    std::fs::create_dir(fresh.home()).unwrap();
    set_mode(fresh.home(), 0o777);
    fresh.mem(&["add", "x"]).assert_fails(1, &["refusing to write to"]);
    assert!(fresh.everything().is_empty(), "a refusal makes nothing");
}

#[test]
fn the_memory_of_another_user_is_read_and_not_written() {
    if !machine::is_root() {
        return machine::skip("the_memory_of_another_user", "only root can give a directory away");
    }
    let env = TestEnvironment::new();
    env.remember(&["a thing"]);
    machine::give(env.home(), Nobody::UID);
    assert_read_but_not_written(&env, &["it belongs to user 65534", "--home"]);
}

/// A memory in which every field that is ever printed is hostile, once as ours and once as another program's.
fn hostile(ours: bool) -> TestEnvironment {
    let env = TestEnvironment::new();
    let all = HOSTILE.join("|");
    let json = |text: &str| serde_json::to_string(text).unwrap();
    if ours {
        for (n, text) in HOSTILE.iter().enumerate() {
            let output = env.manent_given(&["memory", "add"], format!("honest {n} {text} end"));
            output.assert_code(0);
        }
    }
    let a = json(&all);
    let source = format!(
        r#"{{"who":{a},"session":{a},"session_id":{a},"turns":[1,2],"quote":{a},"model":{a},{a}:{a}}}"#
    );
    let content = json(&format!("honest {all}"));
    let lines = [
        format!(
            r#"{{"id":101,"kind":"fact","ts":{a},"tags":[{a},{a}],"source":{source},"content":{content}}}"#
        ),
        format!(r#"{{"id":102,"kind":{a},"content":{a}}}"#),
        format!(r#"{{"id":103,"kind":"fact","source":{a},"content":{{{a}:[{a}]}}}}"#),
        "{\"id\":104,\"kind\":\"pref\",\t\"content\":\"honest raw \u{9b}31m \u{7f}\u{202e}\"}".to_owned(),
        "\u{1b}]0;damaged\u{7}".to_owned(),
        r#"{"id":105,"kind":"fact","content":"last"}"#.to_owned(),
        "\u{1b}]0;torn".to_owned(),
    ];
    env.make_directories();
    let before = std::fs::read(env.memory()).unwrap_or_default();
    std::fs::write(env.memory(), [before, lines.join("\n").into_bytes()].concat()).unwrap();
    // Recalled at a time that is none.
    let recalled = format!("{{\"kind\":\"context\",\"ts\":{a},\"memory\":[101]}}");
    env.manent_given(&["append", "work", "--jsonl"], recalled).assert_code(0);
    env
}

#[test]
fn nothing_that_is_remembered_reaches_the_terminal_as_a_command() {
    for ours in [false, true] {
        let env = hostile(ours);
        let shown = assert_harmless(&env, &["memory", "list"]);
        assert!(shown.text().contains(r"\u{1b}[2J"), "it is shown, escaped: {}", shown.text());
        for args in [
            &["memory", "why", "101"][..],
            &["memory", "why", "103"],
            &["memory", "search", "honest", "--limit", "100"],
            &["memory", "search", "reversed"],
            &["memory", "search", "31m"],
            &["memory", "select", "honest"],
            &["memory", "audit"],
            &["memory", "list", "--replaced"],
            &["verify"],
            &["doctor"],
        ] {
            assert_harmless(&env, args);
        }
        for args in [
            &["memory", "list", "--json"][..],
            &["memory", "search", "honest", "--json"],
            &["memory", "why", "101", "--json"],
            &["memory", "select", "honest", "--json"],
            &["memory", "audit", "--json"],
        ] {
            let screen = assert_harmless(&env, &[&["-q"], args].concat()).text();
            for line in screen.lines().filter(|line| line.starts_with('{')) {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{args:?}: {line:?}");
            }
        }
    }
}

/// Text from the command line is not echoed raw either.
#[test]
fn a_mistake_about_the_memory_is_not_echoed_raw() {
    let env = TestEnvironment::new();
    env.remember(&["one"]);
    let evil = "\u{1b}]0;evil\u{7}\u{9b}31m\u{202e}";
    for args in [
        &["memory", "add", "x", "--kind", evil][..],
        &["memory", "add", "x", "--tag", evil],
        &["memory", "add", "x", "--from", evil],
        &["memory", "add", "x", "--session", evil],
        &["memory", "add", "x", "--session", "a", "--seq", evil],
        &["memory", "forget", evil],
        &["memory", "search", "--", evil],
        &["memory", "list", "--tag", evil],
        &["memory", "list", "--session", evil],
        &["memory", "list", "--since", evil],
        &["memory", evil],
    ] {
        assert_harmless(&env, args);
    }
    assert_eq!(env.remembered(), [1]);
}
