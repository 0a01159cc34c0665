//! Things that stand where a log should: each is refused by name, at once. None is waited for, followed or eaten.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Output, TestEnvironment};

const COMMANDS: [&[&str]; 7] = [
    &["show", "a"],
    &["show", "a", "--tail", "1"],
    &["show", "a", "--from", "2"],
    &["show", "a", "-f"],
    &["verify", "a"],
    &["repair", "a"],
    &["append", "a", "text"],
];

/// Far less than a command would take that waits, and far more than one takes that does not.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Runs every command on what `make` put in the place of the log.
fn assert_refused(what: &str, make: impl Fn(&TestEnvironment, &Path)) {
    let env = TestEnvironment::new();
    env.make_directories();
    make(&env, &env.log("a"));
    let before = std::fs::symlink_metadata(env.log("a")).unwrap();
    for args in COMMANDS {
        let output = timed(&env, args);
        output.assert_fails(1, &["a.jsonl is not a log", what]);
        assert!(output.stdout_bytes.is_empty(), "{output}");
    }
    // Those who look at the whole store pass over it or name it; it hides no other session and stops nobody.
    env.append("b", "still here");
    let listed = timed(&env, &["sessions"]);
    listed.assert_code(0);
    assert!(listed.stdout().contains("still here"), "{listed}");
    assert!(timed(&env, &["verify"]).stdout().contains("ok       b"));
    let after = std::fs::symlink_metadata(env.log("a")).unwrap();
    assert_eq!((before.file_type(), before.len()), (after.file_type(), after.len()), "it is left as it was");
}

fn timed(env: &TestEnvironment, args: &[&str]) -> Output {
    let began = Instant::now();
    let output = env.manent(args);
    assert!(began.elapsed() < AT_ONCE, "{args:?} took {:?}", began.elapsed());
    output
}

/// Acceptance list 53.
#[test]
fn a_fifo_is_refused_and_not_waited_for() {
    assert_refused("a pipe, socket or device", |_, path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    });
}

/// Acceptance list 53.
#[test]
fn a_socket_is_refused() {
    assert_refused("a pipe, socket or device", |_, path| drop(UnixListener::bind(path).unwrap()));
}

/// Acceptance list 53.
#[test]
fn a_directory_is_refused() {
    assert_refused("a directory", |_, path| std::fs::create_dir(path).unwrap());
}

/// Acceptance list 53 and 57.
#[test]
fn an_endless_device_behind_a_link_is_not_read() {
    assert_refused("a symbolic link", |_, path| symlink("/dev/zero", path).unwrap());
}

/// Acceptance list 57: also a link to a session of ours is not followed.
#[test]
fn a_link_to_a_real_session_is_refused() {
    assert_refused("a symbolic link", |env, path| {
        env.append("real", "text");
        symlink(env.log("real"), path).unwrap();
    });
    assert_refused("a symbolic link", |env, path| symlink(env.root().join("nowhere"), path).unwrap());
}

/// Acceptance list 53.
#[test]
fn other_file_formats_are_named() {
    let text = "{\"role\":\"user\",\"content\":\"hi\"}\n";
    let utf16 = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
        [mark.to_vec(), text.encode_utf16().flat_map(bytes).collect()].concat()
    };
    let formats: [(&str, Vec<u8>); 5] = [
        ("UTF-16 text", utf16(&[0xff, 0xfe], u16::to_le_bytes)),
        ("UTF-16 text", utf16(&[0xfe, 0xff], u16::to_be_bytes)),
        ("gzip data", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, b'\n', 0]),
        ("zstd data", vec![0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, b'\n', 0]),
        ("a SQLite database", b"SQLite format 3\0 and so on\n".to_vec()),
    ];
    for (name, bytes) in formats {
        assert_refused(name, |_, path| std::fs::write(path, &bytes).unwrap());
    }
}

/// Acceptance list 53: an empty file is what a crash before the first write leaves. It holds nothing and is no damage;
/// whether that is an empty session or none, it can be begun.
#[test]
fn an_empty_file_holds_nothing_and_can_be_written_to() {
    let env = TestEnvironment::new();
    env.plant("a", b"");
    for args in &COMMANDS[..3] {
        let output = timed(&env, args);
        assert!(output.stdout_bytes.is_empty() && matches!(output.code(), Some(0 | 4)), "{args:?}: {output}");
    }
    assert!(matches!(env.manent(&["verify", "a"]).code(), Some(0 | 4)));
    assert_eq!(env.append("a", "first"), 1);
    assert!(env.bytes("a").starts_with(br#"{"seq":0,"#), "with a header like any other");
    env.assert_clean("a");
}

/// A text that is nobody's log is neither cut nor appended to.
#[test]
fn a_file_in_which_nothing_can_be_read_is_not_written_to() {
    let env = TestEnvironment::new();
    for text in ["Dear diary,\n\ntoday I wrote no JSON.\n", "\u{7f}ELF\u{1}\u{2}\n", "no newline"] {
        env.plant("a", text);
        env.manent(&["append", "a", "x"]).assert_fails(1, &["a.jsonl is not a log", "no line can be read"]);
        assert_eq!(env.bytes("a"), text.as_bytes());
        assert_eq!(env.file_names(), ["a.jsonl"]);
    }
}
