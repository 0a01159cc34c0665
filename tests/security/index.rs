//! The index holds the words of every session. It is as private as they are, and nobody who can write to it can make a
//! search say something else, or write somewhere else.

use std::os::unix::fs::symlink;

use crate::support::TestEnvironment;
use crate::support::environment::names_in;
use crate::support::machine::{Nobody, give, mode_of, set_mode, skip};

#[track_caller]
fn finds(env: &TestEnvironment, count: usize) {
    let output = env.manent(&["search", "--json", "needle"]);
    assert_eq!(output.stdout().lines().count(), count, "{output}");
}

/// Others on the machine could otherwise read in the index what they cannot read in the sessions.
#[test]
fn whatever_the_umask_the_index_is_for_its_owner_alone() {
    for umask in ["000", "022", "077", "777"] {
        let env = TestEnvironment::new();
        let manent = |args: &[&str]| env.manent_with_umask(umask, args);
        manent(&["append", "a", "a needle"]);
        manent(&["search", "needle"]);
        assert_eq!(mode_of(&env.index()), 0o700, "umask {umask}");
        let names = names_in(&env.index());
        assert!(names.len() >= 3, "{names:?}");
        for name in names {
            assert_eq!(mode_of(&env.index().join(&name)), 0o600, "umask {umask}: {name}");
        }
    }
}

/// So is the one in the cache, with the directories that were made for it.
#[test]
fn an_index_in_the_cache_is_private_too() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.home()).unwrap();
    set_mode(env.home(), 0o700);
    std::fs::write(env.home().join("a.jsonl"), "{\"role\":\"user\",\"content\":\"a needle\"}\n").unwrap();
    finds(&env, 1);
    let mut dir = env.cache();
    for _ in 0..4 {
        assert_eq!(mode_of(&dir), 0o700, "{dir:?}");
        let names = names_in(&dir);
        if names.len() == 1 {
            dir = dir.join(&names[0]);
        }
    }
    let names = names_in(&dir);
    assert!(names.contains(&"catalogue".to_owned()), "{dir:?}: {names:?}");
    for name in names {
        assert_eq!(mode_of(&dir.join(&name)), 0o600, "{name}");
    }
}

/// A link in its place would make us write where somebody else wants: it is not followed, and answers are right.
#[test]
fn a_link_in_the_place_of_the_index_is_not_followed() {
    let env = TestEnvironment::new();
    env.append("a", "a needle");
    let elsewhere = env.root().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    set_mode(&elsewhere, 0o700);
    std::fs::write(elsewhere.join("precious.words"), "not ours").unwrap();
    symlink(&elsewhere, env.index()).unwrap();
    for n in 1..4 {
        finds(&env, n);
        env.append("a", "another needle");
    }
    let told = env.manent(&["doctor"]);
    told.assert_code(0);
    assert!(told.stdout().contains("warn  index"), "{told}");
    env.manent(&["reindex"]).assert_fails(1, &["the index cannot be written"]);
    assert_eq!(names_in(&elsewhere), ["precious.words"], "nothing was written or removed there");
    env.append("b", "x");
    env.done(&["rm", "--purge", "b"]);
    assert_eq!(names_in(&elsewhere), ["precious.words"], "nor by a purge");
    finds(&env, 4);
}

/// Links in the places of its files, too.
#[test]
fn a_link_in_the_place_of_a_file_of_the_index_is_not_followed() {
    let env = TestEnvironment::new();
    env.append("a", "a needle");
    finds(&env, 1);
    let precious = env.root().join("precious");
    for name in names_in(&env.index()) {
        std::fs::write(&precious, "not ours").unwrap();
        let path = env.index().join(&name);
        if std::fs::remove_file(&path).is_ok() {
            symlink(&precious, &path).unwrap();
        }
        for _ in 0..2 {
            env.append("a", "another needle");
            let output = env.manent(&["search", "--json", "needle"]);
            output.assert_code(0);
        }
        assert_eq!(std::fs::read(&precious).unwrap(), b"not ours", "{name}");
        let _ = std::fs::remove_dir_all(env.index());
    }
    let turns = 1 + 2 * 3;
    finds(&env, turns.min(20));
}

/// An index that others could have written is not used, and none is written where others could read it.
#[test]
fn an_index_that_others_can_write_is_ignored() {
    let env = TestEnvironment::new();
    env.append("a", "a needle");
    finds(&env, 1);
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        set_mode(&env.index(), mode);
        let before: Vec<_> =
            env.everything().into_iter().filter(|(name, _)| name.starts_with("index")).collect();
        env.append("a", "another needle");
        let count = env.records("a").len();
        finds(&env, count);
        let after: Vec<_> =
            env.everything().into_iter().filter(|(name, _)| name.starts_with("index")).collect();
        assert!(before == after, "mode {mode:o}: it was written");
        let told = env.manent(&["doctor"]);
        told.assert_code(0);
        assert!(told.stdout().contains("warn  index"), "mode {mode:o}: {told}");
        set_mode(&env.index(), 0o700);
    }
    // But what was purged goes from there, too.
    env.append("doomed", "xyzzyplugh");
    env.done(&["search", "xyzzyplugh"]);
    assert!(env.holding("xyzzyplugh").len() > 1);
    set_mode(&env.index(), 0o777);
    env.done(&["rm", "--purge", "doomed"]);
    assert_eq!(env.holding("xyzzyplugh"), [""; 0]);
}

/// An index that another user made in our store, with what he would like us to read, is not read.
#[test]
fn an_index_of_another_user_is_ignored() {
    let Some(nobody) = Nobody::new() else {
        skip("an_index_of_another_user_is_ignored", "we cannot become somebody else");
        return;
    };
    let found = |count: usize| {
        let output = nobody.manent(&["search", "--json", "needle"]);
        assert_eq!(output.stdout().lines().count(), count, "{output}");
        assert!(output.stderr_bytes.is_empty() || count == 0, "{output}");
    };
    nobody.manent(&["append", "a", "a needle"]).assert_code(0);
    found(1);
    give(&nobody.env.index(), 1);
    for count in 2..4 {
        nobody.manent(&["append", "a", "another needle"]).assert_code(0);
        found(count);
    }
    let told = nobody.manent(&["doctor"]);
    told.assert_code(0);
    assert!(told.stdout().contains("warn  index"), "{told}");
}

/// Root looks into somebody's store: nothing that root owns may be left there, or its owner has an index that he can
/// never write again.
#[test]
fn another_user_who_looks_leaves_nothing_behind() {
    let Some(nobody) = Nobody::new() else {
        skip("another_user_who_looks_leaves_nothing_behind", "we cannot become somebody else");
        return;
    };
    nobody.manent(&["append", "a", "a needle"]).assert_code(0);
    finds(&nobody.env, 1);
    assert_eq!(nobody.env.counts(), [1, 0, 0]);
    assert!(!nobody.env.index().exists(), "{:?}", nobody.env.everything().keys());
}
