//! `manent completions` and `manent man`: whole, on standard output, and quiet when nobody listens.

use std::process::{Command, Stdio};

use crate::support::{TestEnvironment, machine};

const COMMANDS: [&str; 11] = [
    "append",
    "show",
    "sessions",
    "archive",
    "unarchive",
    "restore",
    "fork",
    "title",
    "verify",
    "repair",
    "rm",
];

#[test]
fn completions_come_for_every_shell() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = env.manent(&["completions", shell]);
        output.assert_code(0);
        assert!(output.stderr_bytes.is_empty() && output.stdout().ends_with('\n'), "{shell}");
        for word in COMMANDS.iter().chain(&["--with-forks", "--durability"]) {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(output.stdout().contains(word), "{shell}: {word}");
        }
    }
    env.manent(&["completions", "tcsh"]).assert_fails(2, &["tcsh", "bash"]);
    assert!(!env.home().exists(), "they need no store");
}

/// A shell reads its script without a complaint.
#[test]
fn the_completions_are_a_script() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish"] {
        if !machine::has(shell) {
            if shell == "bash" {
                machine::skip("the_completions_are_a_script", "there is no bash");
            }
            continue;
        }
        let script = env.root().join(shell);
        std::fs::write(&script, env.done(&["completions", shell])).unwrap();
        let output = Command::new(shell).arg("-n").arg(&script).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
    }
}

#[test]
fn manual_pages_come_for_every_command() {
    let env = TestEnvironment::new();
    let page = env.done(&["man"]);
    assert!(page.contains(".TH manent 1"), "{page}");
    for command in COMMANDS {
        assert!(page.contains(command), "{command}");
        let page = env.done(&["man", command]);
        assert!(page.contains(".TH manent-") && page.contains(".SH OPTIONS"), "{command}: {page}");
    }
    env.manent(&["man", "frobnicate"])
        .assert_fails(2, &["there is no command", "frobnicate", "`manent help`"]);
    assert!(!env.home().exists(), "they need no store");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let env = TestEnvironment::new();
    for args in [&["completions", "bash"][..], &["completions", "zsh"], &["man"], &["man", "append"]] {
        let mut command = env.command(args);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}
