//! Lines that are understood mean to real shells what they mean here.
//!
//! Lines made of all that shells treat specially are run where the only programs are ones that note how they were
//! called. Whatever a shell called must be among the commands that were read. Only lines that are understood are run,
//! and no file can be written by those.

#![expect(clippy::disallowed_methods, reason = "the test lays out the disk")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use manent_sim::Rng;

use super::ShellLine;

const SEEDS: [&str; 12] = [
    "cargo test -p x",
    "cargo test && ls || curl y",
    "cargo 'a b' \"c d\" e\\ f",
    "ls; cargo test; curl z",
    "cargo test | ls -l | curl",
    "cargo test 2>&1 | ls",
    "ls >/dev/null 2>&1; curl a",
    "cargo '' \"\" x",
    "cargo \\\n test\nls",
    "cargo test \"\\$HOME \\x \\\\\"",
    "ls a=b --c=d e^f %1 @x +y",
    "curl 'it'\\''s' \\; ls",
];
/// No program of the system among them, and no path but this one.
const PIECES: [&str; 38] = [
    "'",
    "\"",
    "\\",
    "\\\\",
    "\\\n",
    "\n",
    " ",
    "\t",
    ";",
    "&&",
    "||",
    "|",
    "&",
    ">",
    "<",
    "2>&1",
    ">&2",
    ">/dev/null",
    "1",
    "=",
    "A=b ",
    "#",
    " # ",
    "^",
    "%",
    ",",
    ":",
    "@",
    "+",
    "-",
    "é",
    "\u{3000}",
    "cargo",
    " ls ",
    "; curl x",
    "''",
    "\"\"",
    "{",
];
/// Notes its name and its arguments in one write.
const PROGRAM: &str = "#!/bin/sh\nIFS=$(printf '\\037')\nprintf '%s\\036' \"${0##*/}$IFS$*\" >> \"$NOTES\"\n";

fn mutated(rng: &mut Rng) -> String {
    let mut line = SEEDS[rng.below(SEEDS.len() as u64) as usize].to_owned();
    for _ in 0..rng.below(5) {
        let at = rng.below(line.len() as u64 + 1) as usize;
        if line.is_char_boundary(at) {
            line.insert_str(at, PIECES[rng.below(PIECES.len() as u64) as usize]);
        }
    }
    line
}

/// The command lines of all programs that a shell started for one line.
fn called(shell: &Path, dir: &Path, line: &str) -> Vec<Vec<String>> {
    let notes = dir.join("notes");
    std::fs::write(&notes, "").unwrap();
    let mut command = Command::new(shell);
    command.arg("-c").arg(line).current_dir(dir.join("empty")).env_clear();
    command.env("PATH", dir.join("bin")).env("NOTES", &notes);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap();
    let notes = std::fs::read_to_string(&notes).unwrap();
    let calls = notes.split('\u{1e}').filter(|call| !call.is_empty());
    // A program without arguments has nothing behind the sign.
    let words = |call: &str| match call.strip_suffix('\u{1f}') {
        Some(alone) if !alone.contains('\u{1f}') => vec![alone.to_owned()],
        _ => call.split('\u{1f}').map(str::to_owned).collect(),
    };
    calls.map(words).collect()
}

#[test]
fn shells_call_what_was_read_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["bin", "empty"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    for program in ["cargo", "ls", "curl", "test", "A", "x"] {
        let path = dir.path().join("bin").join(program);
        std::fs::write(&path, PROGRAM).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let shells: Vec<&Path> = ["/bin/dash", "/bin/bash", "/bin/sh"]
        .iter()
        .map(Path::new)
        .filter(|shell| shell.exists())
        .take(2)
        .collect();
    let (mut run, mut seen) = (0, 0);
    for seed in 0..600 {
        let text = if seed < SEEDS.len() as u64 {
            SEEDS[seed as usize].to_owned()
        } else {
            mutated(&mut Rng::new(seed))
        };
        let line = ShellLine::read(&text);
        if line.unclear.is_some() {
            continue;
        }
        run += 1;
        for shell in &shells {
            for call in called(shell, dir.path(), &text) {
                seen += 1;
                // One empty argument and none look the same in the notes.
                let is_same = |read: &Vec<String>| {
                    *read == call
                        || (call.len() == 1 && read.len() == 2 && read[0] == call[0] && read[1].is_empty())
                };
                assert!(line.commands.iter().any(is_same), "{seed}: {text:?} called {call:?}, read {line:?}");
            }
        }
        assert_eq!(
            std::fs::read_dir(dir.path().join("empty")).unwrap().count(),
            0,
            "{seed}: {text:?} wrote a file"
        );
    }
    assert!(run > 100 && seen > 200, "{run} lines run, {seen} calls seen");
}
