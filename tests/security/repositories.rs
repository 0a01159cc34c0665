//! `manent run exec` in a directory with repositories, and a person who uses Git there afterwards, outside.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Output, TestEnvironment, machine};

/// A store, and a repository to work in; nothing where no sandbox works.
fn workshop(test: &str) -> Option<(TestEnvironment, PathBuf)> {
    let env = TestEnvironment::new();
    if env.manent(&["sandbox"]).code() != Some(0) {
        machine::skip(test, "no sandbox works here");
        return None;
    }
    let work = env.root().join("work");
    std::fs::create_dir(&work).unwrap();
    git(&work, &["init", "-q", "-b", "main"]);
    std::fs::write(work.join("file"), "one\n").unwrap();
    git(&work, &["add", "file"]);
    git(&work, &["commit", "-qm", "first"]);
    Some((env, work))
}

/// Git as the person runs it.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(args);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = git.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn exec(env: &TestEnvironment, work: &Path, options: &[&str], line: &str) -> Output {
    let mut command = env.command(&[&["run", "exec", "x"], options, &["--", "sh", "-c", line]].concat());
    command.current_dir(work);
    env.output(command, b"")
}

fn last_output(env: &TestEnvironment) -> String {
    let run: Value = serde_json::from_str(&env.done(&["run", "list", "--json", "--limit", "1"])).unwrap();
    let shown = env.done(&["run", "show", run["run_id"].as_str().unwrap(), "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["entry"]["attempts"][0]["runner_output"].as_str().unwrap().to_owned()
}

/// Each line makes the next `git` of a person run a program, unless it is undone.
#[test]
fn the_next_git_of_a_person_runs_nothing_that_a_command_left() {
    let Some((env, work)) = workshop("the_next_git_of_a_person_runs_nothing_that_a_command_left") else {
        return;
    };
    let marker = env.root().join("PWN");
    let touch = format!("touch {}", marker.display());
    let config = format!("[core]\\n repositoryformatversion = 0\\n fsmonitor = {touch}\\n");
    let made = format!(
        "mkdir -p $d/objects $d/refs; echo 'ref: refs/heads/x' > $d/HEAD; printf '{config}' > $d/config"
    );
    let bare = format!("{config} bare = false\\n worktree = .\\n");
    std::fs::create_dir(work.join("plain")).unwrap();
    let attacks = [
        (format!("printf '[core]\\n fsmonitor = {touch}\\n' >> .git/config"), "."),
        (
            format!("printf '#!/bin/sh\\n{touch}\\n' > .git/hooks/post-index-change; chmod +x .git/hooks/*"),
            ".",
        ),
        (format!("d=evil; {made}; echo ../evil > .git/commondir"), "."),
        (format!("d=nested/.git; {made}"), "nested"),
        (format!("d=plain/.git; {made}"), "plain"),
        (format!("d=bare; {made}; printf '{bare}' > bare/config"), "bare"),
        (format!("d=plain; {made}; printf '{bare}' > plain/config"), "plain"),
        (format!("mv .git aside; d=.git; {made}; cp aside/index .git"), "."),
        (format!("d=evil/.git; {made}; mkdir linked; ln -s ../evil/.git linked/.git"), "linked"),
    ];
    for (line, place) in attacks {
        exec(&env, &work, &[], &line);
        let place = work.join(place);
        // Whether Git finds a repository there does not matter.
        let mut status = Command::new("git");
        status.arg("-C").arg(if place.exists() { &place } else { &work }).args(["status"]);
        let _ = status.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(!marker.exists(), "{line}");
        assert_eq!(git(&work, &["log", "--format=%s"]), "first\n", "{line}");
    }
}

#[test]
fn a_new_repository_is_quarantined_with_a_warning_unless_it_was_allowed() {
    let Some((env, work)) = workshop("a_new_repository_is_quarantined_with_a_warning") else { return };
    let output = exec(&env, &work, &[], "git init -q new; echo x > AGENTS.md; echo done");
    output.assert_code(0);
    assert_eq!(output.stdout(), "done\n");
    let said = output.stderr();
    for wanted in ["new/.git appeared during the command", "AGENTS.md appeared", "/quarantine/", "--new-repo"]
    {
        assert!(said.contains(wanted), "{wanted}: {output}");
    }
    assert!(last_output(&env).contains("[sandbox: new/.git appeared"), "{}", last_output(&env));
    assert!(!work.join("new/.git").exists() && !work.join("AGENTS.md").exists());
    let quarantine = env.home().join("quarantine");
    let entries: Vec<PathBuf> =
        std::fs::read_dir(&quarantine).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries.len(), 1);
    assert!(
        entries[0].join("files/new/.git/config").is_file() && entries[0].join("files/AGENTS.md").is_file()
    );
    env.manent(&["doctor"]).assert_code(0);
    env.manent(&["verify"]).assert_code(0);

    let allowed = exec(&env, &work, &["--new-repo"], "git init -q new; echo x > AGENTS.md");
    allowed.assert_code(0);
    assert!(!allowed.stderr().contains("quarantine"), "{allowed}");
    assert!(work.join("new/.git/config").exists() && work.join("AGENTS.md").exists());
}

#[test]
fn git_commits_in_the_sandbox_with_writable_git_and_what_else_it_wrote_is_put_back() {
    let Some((env, work)) = workshop("git_commits_in_the_sandbox_with_writable_git") else { return };
    let identity = "git -c user.name=a -c user.email=a@b";
    let line = format!("echo two > file; {identity} checkout -q -b topic && {identity} commit -qam second");
    let output = exec(&env, &work, &["--writable", ".git"], &line);
    output.assert_code(0);
    assert_eq!(git(&work, &["log", "--format=%s", "topic"]), "second\nfirst\n");
    let config = std::fs::read_to_string(work.join(".git/config")).unwrap();
    let output =
        exec(&env, &work, &["--writable", ".git"], "git config alias.st '!touch PWN'; touch .git/new");
    assert!(output.stderr().contains(".git/config was put back"), "{output}");
    assert_eq!(std::fs::read_to_string(work.join(".git/config")).unwrap(), config);
    assert!(!work.join(".git/new").exists());
    for wrong in ["src", "/", ".git/hooks"] {
        exec(&env, &work, &["--writable", wrong], "touch ran").assert_code(2);
    }
    exec(&env, &work, &["--writable", "gone/.git"], "touch ran").assert_fails(1, &["cannot be used"]);
    assert!(!work.join("ran").exists());
}
