//! The example of the README: it is the file in `examples/`, it is short, and killing it loses nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]
#![allow(clippy::disallowed_methods, reason = "tests lay files out as other programs do")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use manent::{SessionKey, Store};

/// Cargo builds examples next to the tests.
fn chat() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.join("examples/chat")
}

fn start(home: &Path) -> Child {
    let mut command = Command::new(chat());
    command
        .arg(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`cargo test -p manent` builds the example, `--test example` alone does not")
}

#[test]
fn it_is_what_the_readme_shows_and_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let code = std::fs::read_to_string(root.join("examples/chat.rs")).unwrap();
    // What our own lints want says nothing to a reader.
    let code: String =
        code.lines().filter(|line| !line.starts_with("#![allow(")).flat_map(|l| [l, "\n"]).collect();
    let readme = std::fs::read_to_string(root.join("../../README.md")).unwrap();
    assert!(code.lines().count() < 40);
    assert!(readme.contains(code.trim()), "README.md shows another program than examples/chat.rs");
}

#[test]
fn every_answer_that_was_shown_is_there_after_any_kill() {
    let home = tempfile::tempdir().unwrap();
    let mut shown = Vec::new();
    for round in 0..20 {
        let mut child = start(home.path());
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        // More questions than are waited for: the kill finds it at work.
        for n in 0..6 {
            let _ = writeln!(input, "question {round}.{n}");
        }
        let already = shown.len();
        let mut lines: Vec<String> = Vec::new();
        while lines.iter().filter(|line| line.starts_with("assistant: ")).count() < already + round % 4 {
            let Some(line) = output.next() else { break };
            lines.push(line.unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        lines.extend(output.map_while(Result::ok));
        let answers: Vec<String> = lines.into_iter().filter(|line| line.starts_with("assistant: ")).collect();
        assert!(answers.starts_with(&shown), "what was shown before is shown again");
        shown = answers;
    }
    let store = Store::open(home.path()).unwrap();
    let transcript = store.load(&SessionKey::new("me").unwrap()).unwrap();
    let kept = transcript
        .turns()
        .filter(|turn| turn.role == "assistant")
        .map(|t| format!("assistant: {}", t.content));
    assert!(kept.collect::<Vec<_>>().starts_with(&shown), "acknowledged means kept");
    assert!(transcript.damage.is_empty());
    let roles: Vec<&str> = transcript.turns().map(|turn| turn.role).collect();
    assert!(roles.chunks(2).all(|pair| pair[0] == "user"), "question, answer, question: {roles:?}");
}
