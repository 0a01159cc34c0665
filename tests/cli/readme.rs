//! The demonstration of the README, run as it stands there.

use std::path::Path;
use std::process::Command;

use crate::support::{MANENT, Output, TestEnvironment};

/// A command of an example, and what it is said to print.
struct Step {
    command: String,
    prints: Vec<String>,
}

/// The steps of the console blocks between two sentences.
fn steps(from: &str, to: &str) -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = text.find(from).unwrap_or_else(|| panic!("the README says {from:?}"));
    let end = begin + text[begin..].find(to).unwrap_or_else(|| panic!("the README says {to:?}"));
    let mut steps: Vec<Step> = Vec::new();
    let mut in_block = false;
    for line in text[begin..end].lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) {
            steps.push(Step { command: command.to_owned(), prints: Vec::new() });
        } else if let Some(step) = steps.last_mut().filter(|_| in_block && !line.is_empty()) {
            step.prints.push(line.to_owned());
        }
    }
    steps
}

fn run(env: &TestEnvironment, command: &str) -> Output {
    let mut shell = Command::new("sh");
    env.clean(&mut shell);
    let bin = Path::new(MANENT).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap_or_default();
    shell.env("PATH", format!("{bin}:{path}")).arg("-c").arg(format!("exec 2>&1; {command}"));
    env.output(shell, b"")
}

/// Numbers depend on where and when it runs.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_digit() && out.ends_with('#') => {}
            c if c.is_ascii_digit() => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// Returns true if a line is as the README has it, where `…` stands for anything.
fn is_like(line: &str, shown: &str) -> bool {
    let (line, shown) = (without_numbers(line), without_numbers(shown));
    match shown.split_once('…') {
        Some((begin, end)) => line.starts_with(begin) && line.ends_with(end),
        None => line == shown,
    }
}

#[test]
fn torn_file_of_the_readme_is_sound_after_the_next_append() {
    let env = TestEnvironment::new();
    let before = steps("## A short tour", "Now hurt it.");
    assert!(before.iter().any(|step| step.command == "manent sessions"), "the catalogue has seen it whole");
    for Step { command, .. } in before {
        run(&env, &command).assert_code(0);
    }
    let hurt = steps("Now hurt it.", "Or change a byte");
    assert!(hurt.len() >= 4, "there is a demonstration");
    let last = hurt.len() - 1;
    for (nth, Step { command, prints }) in hurt.into_iter().enumerate() {
        let output = run(&env, &command);
        let printed = output.stdout();
        let lines: Vec<&str> = printed.lines().collect();
        let same = lines.len() == prints.len() && lines.iter().zip(&prints).all(|(a, b)| is_like(a, b));
        assert!(same, "`{command}` prints, by the README:\n{}\nand does:\n{output}", prints.join("\n"));
        if nth == last {
            output.assert_code(0);
        }
    }
}
