//! Keys that would like to be paths, devices, flags or each other. A raw string is never a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::support::TestEnvironment;

/// Every file and directory under a path.
pub(super) fn everything_under(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        out.push(path.clone());
        if path.is_dir() {
            everything_under(&path, out);
        }
    }
}

/// Keys that would like to be somewhere else.
#[rustfmt::skip]
const PATHS: [&str; 11] = [
    "../x", "../../../../tmp/x", "/etc/passwd", "//etc//passwd", "..", ".", "...", "a/../b", "a/b",
    "a\\b", "C:\\x",
];

/// Keys that mean something to a shell, a system or a command line.
#[rustfmt::skip]
const WORDS: [&str; 30] = [
    "~", "~root", "~/x", "$HOME", "`id`", "$(id)", "*", "?", "a;b", "a|b", "a b", " ", "\t", "\n",
    "a\nb", "\r", "\u{1b}[31m", "\u{7f}", "CON", "con", "con.txt", "NUL", "nul.jsonl", "COM1",
    "LPT9", "AUX", "-rf", "--home", "--", "-",
];

/// Keys that look like files of the store, like each other, or like nothing.
#[rustfmt::skip]
const TWINS: [&str; 28] = [
    ".hidden", ".jsonl", "a.jsonl", "a.jsonl.torn-5-0", "a%2fb", "%2e%2e%2fx", "%00", "%", "%%",
    "100%", "a", "A", "\u{e9}", "e\u{301}", "K", "k", "\u{212a}", "\u{fb01}", "fi", "\u{131}", "I",
    "i", "\u{202e}txt", "\u{200b}", "\u{feff}a", "\u{e0041}", "日本語", "👩\u{200d}👧",
];

pub(super) fn hostile_keys() -> Vec<String> {
    let mut keys: Vec<String> =
        [&PATHS[..], &WORDS, &TWINS].concat().into_iter().map(str::to_owned).collect();
    keys.extend(["x".repeat(160), "x".repeat(161), "x".repeat(1023), "x".repeat(1024), "é".repeat(512)]);
    keys
}

/// Acceptance list 56.
#[test]
fn no_key_leaves_the_store_or_meets_another() {
    let env = TestEnvironment::new();
    let keys = hostile_keys();
    let mut refused = Vec::new();
    for (n, key) in keys.iter().enumerate() {
        let text = format!("number {n}");
        let output = env.manent(&["append", "--durability", "flush", "--", key, &text]);
        if output.code() != Some(0) || !output.stdout().ends_with(" 1\n") {
            refused.push(format!("{key:?}: {output}"));
        }
    }
    assert!(refused.is_empty(), "each of them is a session of its own: {refused:#?}");
    // Each key leads to its own session again, by every command that takes one.
    for (n, key) in keys.iter().enumerate() {
        let shown = env.manent(&["show", "--raw", "--", key]);
        assert_eq!((shown.stdout(), shown.code()), (format!("number {n}\n"), Some(0)), "{key:?}");
        env.assert_clean(key);
    }
    let listed = env.manent(&["sessions", "--json"]);
    let mut found: Vec<String> = listed
        .stdout()
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["key"].as_str().unwrap().to_owned()
        })
        .collect();
    let mut wanted = keys.clone();
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted, "listed under the names they were given");

    let mut files = Vec::new();
    everything_under(env.root(), &mut files);
    let outside: Vec<_> = files.iter().filter(|path| !path.starts_with(env.home())).collect();
    assert!(outside.is_empty(), "made outside of the store: {outside:?}");
    let names = env.file_names();
    assert_eq!(names.len(), keys.len());
    let of_the_store = files.iter().filter(|path| !path.starts_with(env.index())).count();
    assert_eq!(of_the_store, keys.len() + 2, "nothing but the store, its directory and the sessions");
    for name in &names {
        let safe = |b: u8| b.is_ascii_alphanumeric() || b"._-%~".contains(&b);
        assert!(name.bytes().all(safe) && name.len() <= 255, "{name:?}");
    }
    let mut folded: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    folded.sort();
    folded.dedup();
    assert_eq!(folded.len(), names.len(), "also where case is ignored they are apart");
}

/// Acceptance list 56: the few that are refused are refused everywhere, in words.
#[test]
fn keys_that_cannot_be_are_refused_by_every_command() {
    let env = TestEnvironment::new();
    env.append("a", "x");
    let long = "x".repeat(1025);
    let very_long = "x".repeat(10_000);
    for (key, word) in
        [("", "cannot be empty"), (&*long, "1024 bytes, this one has 1025"), (&*very_long, "has 10000")]
    {
        for args in [&["append", key, "text"][..], &["show", key], &["verify", key], &["repair", key]] {
            env.manent(args).assert_fails(2, &[word]);
        }
        for command in ["archive", "unarchive", "rm", "restore", "fork"] {
            env.manent(&[command, key]).assert_fails(2, &[word]);
            env.manent(&[command, "a", key]).assert_fails(2, &[word]);
        }
        env.manent(&["title", key, "text"]).assert_fails(2, &[word]);
        env.manent(&["rm", "--purge", "a", key]).assert_fails(2, &[word]);
    }
    // A NUL cannot be typed; a key that is no text can.
    for args in [&[b"append", &b"\xff\xfe"[..], b"x"][..], &[b"show", b"\xff"], &[b"verify", b"\xff"]] {
        let args: Vec<&OsStr> = args.iter().map(|arg| OsStr::from_bytes(arg)).collect();
        let output = env.manent(&args);
        output.assert_code(2);
        assert!(output.stderr().starts_with("error: invalid UTF-8"), "{output}");
    }
    assert_eq!(env.file_names(), ["a.jsonl"]);
}

/// A key that begins with a dash is taken for a flag, and the error says how to say otherwise.
#[test]
fn a_key_with_a_dash_is_asked_for_and_not_guessed() {
    let env = TestEnvironment::new();
    let output = env.manent(&["append", "-rf", "x"]);
    output.assert_code(2);
    assert!(output.stderr().contains("use '-- -r"), "{output}");
    env.manent(&["append", "--", "-rf", "x"]).assert_code(0);
    assert_eq!(env.file_names(), ["-rf.jsonl"]);
}
