//! Archive and trash are as private as the sessions, and as suspicious: of links, of things that are no file, of names
//! and ids that would like to be paths.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::support::environment::names_in;
use crate::support::machine::{self, Nobody, mode_of, set_mode};
use crate::support::{TestEnvironment, records};

const ID: &str = "01a1e14a-05ca-731a-9829-bf4cb9d544dd";

#[test]
fn whatever_the_umask_archive_and_trash_are_for_their_owner_alone() {
    for umask in ["000", "022", "777"] {
        let env = TestEnvironment::new();
        let manent = |args: &[&str]| env.manent_with_umask(umask, args);
        let private = || {
            for dir in [env.archive(), env.trash(), env.sessions()].iter().filter(|dir| dir.exists()) {
                assert_eq!(mode_of(dir), 0o700, "umask {umask}: {}", dir.display());
            }
            for name in env.tree().into_keys() {
                assert_eq!(mode_of(&env.home().join(&name)), 0o600, "umask {umask}: {name}");
            }
        };
        manent(&["append", "a", "x"]);
        let torn = [env.bytes("a"), b"{\"seq\":2,\"torn".to_vec()].concat();
        std::fs::write(env.log("a"), torn).unwrap();
        for args in [
            &["fork", "a"][..],
            &["archive", "a"],
            &["rm", "a"],
            &["restore", "a"],
            &["unarchive", "a"],
            &["rm", "a"],
            &["rm", "--purge", "a"],
        ] {
            manent(args);
            private();
        }
    }
}

/// Whoever may write in the store could send what is put away to somewhere else.
#[test]
fn a_link_in_the_place_of_archive_or_trash_is_not_followed() {
    for (args, dir) in [(["archive", "a"], "archive"), (["rm", "a"], "trash")] {
        let env = TestEnvironment::new();
        env.append("a", "one");
        let elsewhere = env.root().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        set_mode(&elsewhere, 0o700);
        std::fs::write(elsewhere.join(format!("evil.{ID}.jsonl")), records::session("evil", &["planted"]))
            .unwrap();
        symlink(&elsewhere, env.home().join(dir)).unwrap();
        env.manent(&args).assert_fails(1, &[dir, "symbolic link"]);
        assert_eq!(names_in(&elsewhere).len(), 1, "nothing was put there");
        assert_eq!(env.said("a"), ["one"], "the session is where it was");
        env.append("a", "two");
        let verified = env.manent(&["verify"]);
        verified.assert_fails(1, &["symbolic link"]);
        assert!(verified.stdout().contains("ok       a"), "it hides nothing: {verified}");
        for args in
            [&["show", "evil"][..], &["restore", "evil"], &["unarchive", "evil"], &["rm", "--purge", "evil"]]
        {
            let output = env.manent(args);
            assert!(matches!(output.code(), Some(1 | 4)), "{args:?}: {output}");
            assert!(!output.stdout().contains("planted"), "{args:?}: {output}");
        }
        assert_eq!(names_in(&elsewhere).len(), 1, "nothing was taken from there");
    }
}

/// Things that are called like an archived session: a link to a secret, a pipe that nobody writes to, a directory, an
/// endless device.
#[test]
fn what_is_no_file_in_archive_or_trash_is_ignored_at_once() {
    let env = TestEnvironment::new();
    let secret = env.root().join("secret");
    std::fs::write(&secret, records::session("link", &["secret"])).unwrap();
    for there in ["archive", "rm"] {
        env.append("good", "good");
        env.done(&[there, "good"]);
    }
    for dir in [env.archive(), env.trash()] {
        for suffix in ["jsonl", "jsonl.zst"] {
            let name = |key: &str| dir.join(format!("{key}.{ID}.{suffix}"));
            symlink(&secret, name("link")).unwrap();
            symlink("/dev/zero", name("zero")).unwrap();
            symlink(env.root().join("nowhere"), name("nowhere")).unwrap();
            std::fs::create_dir(name("dir")).unwrap();
            let made = Command::new("mkfifo").arg(name("fifo")).status();
            assert!(made.is_ok_and(|status| status.success()));
        }
        // And as leftovers of packing, which a purge sweeps up.
        symlink(&secret, dir.join(".link.tmp")).unwrap();
        std::fs::create_dir(dir.join(".dir.tmp")).unwrap();
    }
    assert_eq!(env.counts(), [0, 1, 1]);
    for key in ["link", "zero", "nowhere", "dir", "fifo"] {
        for args in [["show", key], ["unarchive", key], ["restore", key], ["archive", key]] {
            env.manent(&args).assert_code(4);
        }
    }
    env.manent(&["verify"]).assert_code(0);
    env.manent(&["show", &format!("@{ID}")]).assert_code(4);
    env.done(&["rm", "--purge", "good"]);
    assert_eq!(std::fs::read(&secret).unwrap(), records::session("link", &["secret"]));
    // A session whose place is taken by such a thing is put away all the same, or stays.
    for (key, place) in [("fifo", env.archive()), ("dir", env.archive()), ("link", env.archive())] {
        env.plant(key, records::session(key, &["mine"]));
        let output = env.manent(&["archive", key]);
        assert!(matches!(output.code(), Some(0 | 1)), "{output}");
        assert_eq!(env.said(key), ["mine"], "{}: {output}", place.display());
    }
    assert_eq!(std::fs::read(&secret).unwrap(), records::session("link", &["secret"]));
}

/// A header is written by whoever wrote the file.
#[test]
fn an_id_that_would_like_to_be_a_path_stays_in_the_store() {
    let long = "x".repeat(300);
    for id in [
        "../../x",
        "/etc/passwd",
        "..",
        ".",
        "a/b",
        "a\\u0000b",
        "\\u001b[2J",
        "",
        &long,
        "%2e%2e%2f",
        "ID-in-CAPS",
    ] {
        let env = TestEnvironment::new();
        let meta = format!(r#""seq":0,"ts":"{}","meta":{{"format":1,"id":"{id}","key":"a"}}"#, records::TS);
        let bytes = records::file(&[records::sealed(&meta), records::turn(1, "one")]);
        env.plant("a", &bytes);
        for (there, back, place) in [("archive", "unarchive", "archived"), ("rm", "restore", "trash")] {
            env.done(&[there, "a"]);
            let name = format!("@{}", env.id_in(place, "a"));
            assert_eq!(env.said(&name), ["one"], "{id:?}");
            assert_eq!(env.tree().len(), 1, "{id:?}: {:?}", env.tree().keys());
            env.done(&[back, "a"]);
            assert_eq!(env.bytes("a"), bytes, "{id:?}");
        }
        env.done(&["fork", "a", "b"]);
        env.done(&["rm", "--purge", "a", "-q"]);
        assert_eq!(env.said("b"), ["one"], "{id:?}");
        assert_eq!(names_in(env.root()), ["home"], "{id:?}: nothing outside of the store");
        assert_eq!(env.tree().keys().collect::<Vec<_>>(), ["sessions/b.jsonl"], "{id:?}");
    }
}

/// A header that names a parent by hand leads to sessions only.
#[test]
fn a_parent_that_would_like_to_be_a_path_is_a_parent_that_is_gone() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.root().join("x")).unwrap();
    for (id, key) in [("../../x", "../../../etc/passwd"), (ID, "a"), ("", "b"), ("*", "")] {
        let parent = format!(r#""parent":{{"id":"{id}","key":"{key}","upto":1,"crc":"00000000"}}"#);
        let header = records::header_with("a", &format!(r#""format":1,{parent}"#));
        env.plant("a", records::file(&[header, records::turn(2, "two")]));
        let output = env.manent(&["show", "a", "--raw"]);
        assert_eq!((output.code(), output.stdout().as_str()), (Some(0), "two\n"), "{id}: {output}");
        assert!(output.stderr().contains("warning: a: what it was forked from is"), "{id}: {output}");
        env.manent(&["verify", "a"]).assert_code(3);
    }
}

/// Without write permission reading works, a move fails with the reason, and nothing is half done.
#[test]
fn a_read_only_store_is_read_and_not_moved() {
    let Some(nobody) = Nobody::new() else {
        return machine::skip("a_read_only_store_is_read_and_not_moved", "only root can become another user");
    };
    let env = &nobody.env;
    for (key, there) in [("live", ""), ("packed", "archive"), ("deleted", "rm")] {
        nobody.manent(&["append", key, key]).assert_code(0);
        if !there.is_empty() {
            nobody.manent(&[there, key]).assert_code(0);
        }
    }
    let before = env.tree();
    let dirs = [env.sessions(), env.archive(), env.trash(), env.home().to_owned()];
    let lock = |mode: u32| dirs.iter().for_each(|dir| set_mode(dir, mode));
    lock(0o500);
    for args in [
        &["show", "packed"][..],
        &["sessions", "--archived"],
        &["sessions", "--trash"],
        &["verify"],
        &["show", "live"],
    ] {
        nobody.manent(args).assert_code(0);
    }
    for args in [
        &["archive", "live"][..],
        &["unarchive", "packed"],
        &["rm", "live"],
        &["rm", "packed"],
        &["restore", "deleted"],
        &["fork", "live"],
        &["rm", "--purge", "packed"],
        &["rm", "--purge", "live"],
    ] {
        nobody.manent(args).assert_fails(1, &["Permission denied"]);
    }
    lock(0o700);
    assert!(env.tree() == before, "{:?}", env.tree().keys());
    for dir in &dirs[1..3] {
        // Of another user, or open to everybody.
        set_mode(dir, 0o777);
        let args = if dir.ends_with("archive") { ["archive", "live"] } else { ["rm", "live"] };
        nobody.manent(&args).assert_fails(1, &["refusing to write to", "everybody may write there"]);
        set_mode(dir, 0o700);
    }
    assert!(env.tree() == before, "{:?}", env.tree().keys());
    nobody.manent(&["unarchive", "packed"]).assert_code(0);
}

#[test]
fn a_read_only_disk_is_read_and_moving_says_so() {
    let outer = TestEnvironment::new();
    let Some(disk) = machine::Mount::new(outer.root(), "tmpfs", "size=4m,mode=0755") else {
        return machine::skip("a_read_only_disk_is_read_and_moving_says_so", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    for (key, there) in [("live", ""), ("packed", "archive"), ("deleted", "rm")] {
        env.append(key, key);
        if !there.is_empty() {
            env.done(&[there, key]);
        }
    }
    let before: Vec<PathBuf> = env.tree().keys().map(PathBuf::from).collect();
    disk.again("ro");
    assert_eq!((env.said("packed"), env.counts()), (vec!["packed".to_owned()], [1, 1, 1]));
    env.manent(&["verify"]).assert_code(0);
    for args in [
        &["archive", "live"][..],
        &["unarchive", "packed"],
        &["rm", "live"],
        &["restore", "deleted"],
        &["fork", "live"],
        &["title", "live", "x"],
        &["rm", "--purge", "deleted"],
    ] {
        env.manent(args).assert_fails(1, &["Read-only file system"]);
    }
    disk.again("rw");
    assert_eq!(env.tree().keys().map(PathBuf::from).collect::<Vec<_>>(), before);
    env.done(&["archive", "live"]);
}
