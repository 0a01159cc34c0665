//! A command cannot leave anything that a person's next `git status`, shell or editor would execute: what is protected
//! stays as it was, and what appears is moved to the quarantine.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use manent_agent::sandbox::{
    Cause, CommandEnd, CommandOutcome, Isolation, NewEntries, SandboxCommand, SandboxError, SandboxPolicy,
    StopFlag,
};

use super::{Place, each, helper, running, wait_until};

/// Git as a person runs it, outside of the sandbox.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(args);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = git.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn make_repository(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    git(dir, &["init", "-q", "-b", "main", "."]);
    std::fs::write(dir.join("file"), "one\n").unwrap();
    git(dir, &["add", "file"]);
    git(dir, &["commit", "-qm", "first"]);
}

/// Everything below a directory: content of files, targets of links.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        let bytes = if meta.is_symlink() {
            std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            b"a directory".to_vec()
        } else {
            std::fs::read(&path).unwrap()
        };
        all.insert(path.strip_prefix(dir).unwrap().to_owned(), bytes);
    }
    all
}

fn texts(outcome: &CommandOutcome, cause: Cause) -> String {
    let of_cause = outcome.notes.iter().filter(|note| note.cause == cause);
    of_cause.flat_map(|note| [note.text.as_str(), "\n"]).collect()
}

/// Every path below the quarantine of a place, from the directory of a command.
fn quarantined(place: &Place) -> String {
    let all = content(&place.store().join("quarantine"));
    all.keys().flat_map(|path| [path.display().to_string(), "\n".to_owned()]).collect()
}

/// Lines that change what is protected, or try to.
const ATTACKS: [&str; 17] = [
    "printf '[core]\\n fsmonitor = touch PWN\\n' >> .git/config",
    "mkdir -p .git/hooks; printf '#!/bin/sh\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout",
    "echo ../evil > .git/commondir",
    "rm -r .git/hooks .git/info",
    "mv .git/config .git/config.old; cp .git/config.old .git/config; echo '[x]' >> .git/config",
    "ln .git/config linked && echo '[x]' >> linked; rm -f linked",
    "rm .git/config; ln -s ../evil .git/config",
    "echo x >> deep/sub/.git/config; echo x > deep/sub/.git/hooks/pre-commit",
    "mv deep/sub/.git deep/sub/aside && mkdir deep/sub/.git && rm -r deep/sub/aside",
    "mv deep aside && mkdir -p deep/sub && cp -r aside/sub/. deep/sub && echo x >> deep/sub/.git/config; rm -rf aside",
    "echo x >> bare.git/config; echo x > bare.git/hooks/update",
    "mv bare.git moved && cp -r moved bare.git && rm -r moved && echo x >> bare.git/config",
    "echo evil >> AGENTS.md; echo evil > .envrc; rm deep/sub/CLAUDE.md",
    "echo evil > .vscode/tasks.json; echo evil > .vscode/launch.json; mv .vscode .code; rm -rf .code",
    "rm AGENTS.md; mkdir AGENTS.md",
    "rm -rf .git/refs/heads; echo x > .git/HEAD; rm .git/index",
    "chmod 777 .git .git/config",
];

#[test]
fn what_is_protected_is_as_it_was_after_any_command() {
    each("what_is_protected_is_as_it_was_after_any_command", |place| {
        let (work, template) = (place.root.path().join("work"), place.root.path().join("template"));
        let at = |name: &str| template.join(name);
        make_repository(&template);
        make_repository(&at("deep/sub"));
        git(&template, &["init", "-q", "--bare", "bare.git"]);
        std::fs::create_dir(at(".vscode")).unwrap();
        for name in ["AGENTS.md", ".envrc", "deep/sub/CLAUDE.md", ".vscode/tasks.json"] {
            std::fs::write(at(name), "as it was\n").unwrap();
        }
        for attack in ATTACKS {
            std::fs::remove_dir_all(&work).unwrap();
            let copied = Command::new("cp").arg("-a").args([&template, &work]).status();
            assert!(copied.unwrap().success());
            let before = content(&work);
            let outcome = place.run(attack);
            let (mut before, mut after) = (before, content(&work));
            // Under Landlock nothing keeps a command from removing objects; that is told.
            if place.sandbox.kind() == Isolation::Landlock
                && texts(&outcome, Cause::Trouble).contains("`git fsck`")
            {
                let is_object = |path: &Path| path.iter().any(|part| part == "objects");
                before.retain(|path, _| !is_object(path));
                after.retain(|path, _| !is_object(path));
            }
            assert_eq!(after, before, "{attack}: {:?}", outcome.notes);
            assert_eq!(git(&work, &["status", "--porcelain", "file"]), "", "{attack}");
        }
    });
}

#[test]
fn a_repository_or_protected_name_that_appears_is_moved_to_the_quarantine() {
    each("a_repository_or_protected_name_that_appears_is_moved_to_the_quarantine", |place| {
        make_repository(&place.work("known"));
        std::fs::create_dir_all(place.work("there/objects")).unwrap();
        std::fs::write(place.work("there/own"), "mine\n").unwrap();
        let evil = "mkdir -p $d/objects $d/refs; echo 'ref: refs/heads/x' > $d/HEAD; echo x > $d/config";
        for (attack, moved, left) in [
            ("git init -q new".to_owned(), "new/.git", "new"),
            ("mkdir -p x/y; echo 'gitdir: /tmp' > x/y/.git".to_owned(), "x/y/.git", "x/y"),
            ("ln -s /tmp .git".to_owned(), ".git", "there"),
            ("mkdir z; ln -s ../known/.git z/.git".to_owned(), "z/.git", "known/.git"),
            (format!("d=bare; {evil}"), "bare", "there"),
            (format!("d=there; {evil}"), "there/HEAD", "there/objects"),
            (format!("d=.; {evil}; echo x > kept"), "HEAD", "kept"),
            (
                "mkdir c; echo 'ref: refs/x' > c/HEAD; echo ../known/.git > c/commondir".to_owned(),
                "c",
                "there",
            ),
            ("echo evil > AGENTS.md".to_owned(), "AGENTS.md", "there"),
            ("mkdir .claude; echo evil > .claude/settings.json".to_owned(), ".claude/settings.json", "there"),
            ("echo evil > known/.mcp.json".to_owned(), "known/.mcp.json", "known/file"),
            ("ln -s there/own CLAUDE.md".to_owned(), "CLAUDE.md", "there/own"),
            ("mkdir shut; git init -q shut/r; chmod 000 shut".to_owned(), "shut/r/.git", "shut"),
        ] {
            let outcome = place.run(&attack);
            let said = texts(&outcome, Cause::Appeared);
            assert!(
                quarantined(place).contains(&format!("files/{moved}\n")),
                "{attack}: {}",
                quarantined(place)
            );
            assert!(std::fs::symlink_metadata(place.work(moved)).is_err(), "{attack}: {moved} is there");
            assert!(
                said.contains("appeared during the command") && said.contains("quarantine/"),
                "{attack}: {said}"
            );
            assert!(std::fs::symlink_metadata(place.work(left)).is_ok(), "{attack}: {left} is gone");
            std::fs::remove_dir_all(place.store().join("quarantine")).unwrap();
        }
        assert_eq!(std::fs::read_to_string(place.work("there/own")).unwrap(), "mine\n");
        let nothing =
            place.run("mkdir plain; echo x > plain/AGENTS.md; echo x > plain/HEAD; mkdir plain/refs");
        assert_eq!(nothing.notes, [], "elsewhere these are names like others");
        assert!(place.work("plain/AGENTS.md").exists());
    });
}

#[test]
fn with_a_persons_word_new_repositories_stay() {
    each("with_a_persons_word_new_repositories_stay", |place| {
        let policy = SandboxPolicy { new_entries: NewEntries::Allowed, ..place.policy() };
        let outcome = place.run_with(&policy, "git init -q a; git init -q --bare b; echo x > AGENTS.md");
        assert_eq!((outcome.ending, outcome.notes.as_slice()), (CommandEnd::Exit(0), &[][..]));
        let exists = ["a/.git/config", "b/config", "AGENTS.md"].map(|name| place.work(name).exists());
        assert_eq!(exists, [true; 3]);
        // From then on they are protected.
        place.run_with(&policy, "echo x >> a/.git/config; echo x >> b/config; echo y > AGENTS.md");
        let read = |name: &str| std::fs::read_to_string(place.work(name)).unwrap();
        assert_eq!(read("AGENTS.md"), "x\n");
        assert!(!read("a/.git/config").ends_with("x\n") && !read("b/config").ends_with("x\n"));
    });
}

#[test]
fn protected_links_and_what_they_lead_to_are_as_they_were() {
    each("protected_links_and_what_they_lead_to_are_as_they_were", |place| {
        std::fs::create_dir_all(place.work("docs")).unwrap();
        std::fs::write(place.work("docs/agents.md"), "as it was\n").unwrap();
        symlink("docs/agents.md", place.work("AGENTS.md")).unwrap();
        symlink("AGENTS.md", place.work("CLAUDE.md")).unwrap();
        symlink("docs/nothing.md", place.work("GEMINI.md")).unwrap();
        make_repository(&place.work("real"));
        std::fs::rename(place.work("real/.git"), place.work("store")).unwrap();
        symlink("../store", place.work("real/.git")).unwrap();
        let before = content(&place.work(""));
        for attack in [
            "echo evil > docs/agents.md",
            "echo evil > AGENTS.md",
            "rm AGENTS.md CLAUDE.md; echo evil > AGENTS.md; ln -s evil.md CLAUDE.md",
            // The file system gives the new AGENTS.md the inode that CLAUDE.md had.
            "rm AGENTS.md CLAUDE.md; : > a; echo evil > AGENTS.md; rm a; ln -s evil.md CLAUDE.md",
            "echo evil > docs/nothing.md",
            "rm real/.git; git init -q real",
            "echo x >> store/config; echo x > store/hooks/pre-commit",
        ] {
            let outcome = place.run(attack);
            assert_eq!(content(&place.work("")), before, "{attack}: {:?}", outcome.notes);
        }
    });
}

/// Work trees and submodules have a file instead of a directory; their data lies elsewhere in the workspace.
#[test]
fn the_directories_that_a_git_file_names_are_protected() {
    each("the_directories_that_a_git_file_names_are_protected", |place| {
        make_repository(&place.work("main"));
        git(&place.work("main"), &["worktree", "add", "-q", "../tree"]);
        std::fs::create_dir(place.work("apart")).unwrap();
        git(&place.work("apart"), &["init", "-q", "--separate-git-dir", "../data"]);
        let before = content(&place.work(""));
        place.run("echo x >> main/.git/worktrees/tree/gitdir; echo 'gitdir: ../evil' > tree/.git");
        place.run("echo x >> data/config; rm apart/.git; rm data/HEAD");
        assert_eq!(content(&place.work("")), before);
        assert_eq!(git(&place.work("tree"), &["status", "--porcelain"]), "");
    });
}

#[test]
fn commits_and_branches_can_be_made_with_a_persons_word_and_nothing_else() {
    each("commits_and_branches_can_be_made_with_a_persons_word_and_nothing_else", |place| {
        make_repository(&place.work(""));
        let commit = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; \
                      echo two > file && git checkout -q -b topic && git commit -qam second";
        if place.sandbox.kind() == Isolation::Bubblewrap {
            assert_ne!(place.run(commit).ending, CommandEnd::Exit(0), "without it, .git is read-only");
        }
        let policy = SandboxPolicy { writable_git: vec![".git".into()], ..place.policy() };
        let outcome = place.run_with(&policy, commit);
        assert_eq!(outcome.ending, CommandEnd::Exit(0), "{}", outcome.stdout.text());
        assert_eq!(texts(&outcome, Cause::Trouble), "");
        assert_eq!(git(&place.work(""), &["log", "--format=%s", "topic"]), "second\nfirst\n");
        assert_eq!(git(&place.work(""), &["status", "--porcelain"]), "");
        git(&place.work(""), &["fsck", "--strict"]);

        let closed = |path: &Path| {
            let free = ["objects", "refs", "logs", "index", "HEAD", "COMMIT_EDITMSG", "kept_HEAD"];
            !path.iter().next().is_some_and(|first| free.iter().any(|name| first == *name))
        };
        let mut before = content(&place.work(".git"));
        before.retain(|path, _| closed(path));
        for attack in [
            "git config core.fsmonitor 'touch PWN'",
            "echo x > .git/hooks/pre-commit; rm .git/description",
            "mkdir -p .git/modules/objects/hooks; echo x > .git/modules/objects/config; echo .. > .git/commondir",
            "echo x > .git/new; mkdir .git/x_HEAD; echo x > .git/x_HEAD/config; echo sha > .git/kept_HEAD",
            "echo /tmp > .git/objects/info/alternates",
            // Git writes through these, as the person who runs it.
            "rm .git/COMMIT_EDITMSG; ln -s ../../.bashrc .git/COMMIT_EDITMSG; ln -s /tmp .git/refs/out",
            "rm .git/logs/HEAD; ln -s /etc/passwd .git/logs/HEAD; mkfifo .git/refs/fifo",
            "mv .git aside && cp -r aside .git && echo x >> .git/config; rm -rf aside",
        ] {
            let outcome = place.run_with(&policy, attack);
            let mut after = content(&place.work(".git"));
            assert!(!after.contains_key(Path::new("objects/info/alternates")), "{attack}");
            for link in ["COMMIT_EDITMSG", "refs/out", "logs/HEAD", "refs/fifo"] {
                let meta = std::fs::symlink_metadata(place.work(".git").join(link));
                assert!(!meta.is_ok_and(|meta| !meta.is_file()), "{attack}: {link} {:?}", outcome.notes);
            }
            after.retain(|path, _| closed(path));
            assert_eq!(after, before, "{attack}: {:?}", outcome.notes);
        }
        assert!(place.work(".git/kept_HEAD").exists());
    });
}

#[test]
fn only_a_real_git_directory_of_the_workspace_can_be_made_writable() {
    each("only_a_real_git_directory_of_the_workspace_can_be_made_writable", |place| {
        make_repository(&place.work("r"));
        make_repository(&place.root.path().join("outside"));
        symlink("../r/.git", place.work(".git")).unwrap();
        std::fs::create_dir_all(place.work("file")).unwrap();
        std::fs::write(place.work("file/.git"), "gitdir: ../r/.git").unwrap();
        for path in [".git", "file/.git", "r", "../outside/.git", "gone/.git", "."] {
            let policy = SandboxPolicy { writable_git: vec![path.into()], ..place.policy() };
            let run = place.sandbox.run(
                &policy,
                &SandboxCommand::Shell("true".to_owned()),
                &StopFlag::new().unwrap(),
            );
            let refused = run.expect_err(path);
            assert!(matches!(refused, SandboxError::Refused { .. } | SandboxError::Path { .. }), "{refused}");
        }
        for workspace in ["r/.git", "r/.git/hooks"] {
            let policy = SandboxPolicy { workspace: place.work(workspace), ..place.policy() };
            let run = place.sandbox.run(
                &policy,
                &SandboxCommand::Shell("true".to_owned()),
                &StopFlag::new().unwrap(),
            );
            let refused = run.expect_err(workspace).to_string();
            assert!(refused.contains("choose a work tree"), "{refused}");
        }
    });
}

#[test]
fn more_repositories_than_can_be_mounted_are_compared_and_that_is_said() {
    each("more_repositories_than_can_be_mounted_are_compared_and_that_is_said", |place| {
        make_repository(&place.root.path().join("template"));
        for number in 0..150 {
            let dir = place.work(&format!("r{number:03}"));
            std::fs::create_dir_all(&dir).unwrap();
            let mut copy = Command::new("cp");
            copy.arg("-r").args([place.root.path().join("template/.git"), dir.join(".git")]);
            assert!(copy.status().unwrap().success());
        }
        let line = "for d in r*; do echo '[x]' >> $d/.git/config; echo x > $d/.git/hooks/pre-commit; done; \
                    mv r149 s149; true";
        let outcome = place.run(line);
        if place.sandbox.kind() == Isolation::Bubblewrap {
            assert!(texts(&outcome, Cause::Limit).contains("more than are mounted read-only"), "{outcome:?}");
        }
        let read = |path: &str| std::fs::read_to_string(place.work(path)).unwrap_or_default();
        for number in 0..150 {
            let dir = format!("r{number:03}/.git");
            assert!(!read(&format!("{dir}/config")).contains("[x]"), "{dir}: {:?}", outcome.notes);
            assert!(!place.work(&dir).join("hooks/pre-commit").exists(), "{dir}");
        }
        assert!(!place.work("s149/.git").exists());
    });
}

#[test]
fn what_is_quarantined_moves_to_another_file_system_as_it_is() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    each("what_is_quarantined_moves_to_another_file_system_as_it_is", |place| {
        let store = elsewhere.path().join(place.sandbox.kind().to_string());
        std::fs::create_dir(&store).unwrap();
        let policy = SandboxPolicy { store: store.clone(), ..place.policy() };
        std::fs::write(place.work("secret"), "own\n").unwrap();
        let line = "git init -q new; ln -s /etc/passwd new/.git/link; ln -s ../../secret new/.git/own; \
                    mkfifo new/.git/fifo; chmod 500 new/.git/hooks";
        let outcome = place.run_with(&policy, line);
        assert_eq!(texts(&outcome, Cause::Trouble), "");
        assert!(!place.work("new/.git").exists(), "{:?}", outcome.notes);
        assert_eq!(std::fs::read_to_string(place.work("secret")).unwrap(), "own\n");
        let kept: Vec<PathBuf> =
            std::fs::read_dir(store.join("quarantine")).unwrap().map(|e| e.unwrap().path()).collect();
        let moved = kept[0].join("files/new/.git");
        assert!(
            std::fs::read_link(moved.join("link")).is_ok_and(|target| target == Path::new("/etc/passwd"))
        );
        assert!(moved.join("config").is_file());
        assert_eq!(std::fs::metadata(&kept[0]).unwrap().permissions().mode() & 0o777, 0o700);
    });
}

#[test]
fn after_a_kill_the_next_command_undoes_what_was_left() {
    each("after_a_kill_the_next_command_undoes_what_was_left", |place| {
        make_repository(&place.work("r"));
        let before = content(&place.work("r/.git"));
        let marker = format!("cut-off-{}-{}", std::process::id(), place.sandbox.kind());
        let line = format!(
            "git init -q new; echo '[x]' >> r/.git/config; rm r/.git/description; echo > up; sleep 60; : {marker}"
        );
        let mut agent = Command::new(helper());
        agent.arg(place.sandbox.kind().to_string()).args([place.work(""), place.store()]).arg(line);
        let agent = agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut agent = agent.unwrap();
        wait_until("the command is up", || place.work("up").exists());
        agent.kill().unwrap();
        agent.wait().unwrap();
        wait_until("everything is gone", || running(&marker) == 0);
        let outcome = place.run("true");
        let said: String = outcome.notes.iter().map(|note| note.text.as_str()).collect();
        assert!(said.contains("that was cut off") && said.contains("new/.git appeared"), "{said}");
        assert!(!place.work("new/.git").exists());
        assert_eq!(content(&place.work("r/.git")), before, "{said}");
        assert_eq!(place.run("true").notes, [], "once");
    });
}

/// Between a kill and the next command a person may have worked there.
#[test]
fn what_changed_after_a_killed_command_is_left_as_it_is_and_told() {
    each("what_changed_after_a_killed_command_is_left_as_it_is_and_told", |place| {
        make_repository(&place.work("r"));
        let marker = format!("left-{}-{}", std::process::id(), place.sandbox.kind());
        let mut agent = Command::new(helper());
        agent.arg(place.sandbox.kind().to_string()).args([place.work(""), place.store()]);
        agent.arg(format!("echo > up; sleep 60; : {marker}"));
        let agent = agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut agent = agent.unwrap();
        wait_until("the command is up", || place.work("up").exists());
        agent.kill().unwrap();
        agent.wait().unwrap();
        wait_until("everything is gone", || running(&marker) == 0);
        // As if that had been an hour ago.
        let notes = std::fs::read_dir(place.store().join("sandbox")).unwrap().next().unwrap().unwrap().path();
        let touched = Command::new("touch").args(["-d", "1 hour ago"]).arg(notes.join("lock")).status();
        assert!(touched.unwrap().success());
        make_repository(&place.work("mine"));
        std::fs::write(place.work("AGENTS.md"), "mine\n").unwrap();
        git(&place.work("r"), &["config", "alias.st", "status"]);
        let outcome = place.run("true");
        let said = texts(&outcome, Cause::Trouble);
        assert!(
            said.contains("mine/.git was changed later") && said.contains("AGENTS.md was changed"),
            "{said}"
        );
        assert!(place.work("mine/.git").exists() && place.work("AGENTS.md").exists());
        assert_eq!(git(&place.work("r"), &["config", "alias.st"]), "status\n");
        assert_eq!(quarantined(place), "");
    });
}

/// Each would take what the other changes for what was there before.
#[test]
fn commands_in_one_workspace_run_one_after_another() {
    each("commands_in_one_workspace_run_one_after_another", |place| {
        std::fs::create_dir(place.work("below")).unwrap();
        let first = "echo > up; while [ ! -e go ]; do sleep 0.02; done; echo first >> log";
        std::thread::scope(|scope| {
            let running = scope.spawn(|| place.run(first));
            wait_until("the first is up", || place.work("up").exists());
            let mut hasty = SandboxPolicy { workspace: place.work("below"), ..place.policy() };
            hasty.limits.wall = Duration::from_millis(200);
            let refused = place.sandbox.run(
                &hasty,
                &SandboxCommand::Shell("true".to_owned()),
                &StopFlag::new().unwrap(),
            );
            assert!(matches!(refused, Err(SandboxError::Busy { .. })), "{refused:?}");
            let stop = StopFlag::new().unwrap();
            stop.now();
            let stopped =
                place.sandbox.run(&place.policy(), &SandboxCommand::Shell("true".to_owned()), &stop);
            assert!(matches!(stopped, Err(SandboxError::Busy { .. })), "{stopped:?}");
            let second = scope.spawn(|| place.run("echo second >> log"));
            std::fs::write(place.work("go"), "").unwrap();
            assert_eq!(running.join().unwrap().ending, CommandEnd::Exit(0));
            assert_eq!(second.join().unwrap().ending, CommandEnd::Exit(0));
        });
        assert_eq!(std::fs::read_to_string(place.work("log")).unwrap(), "first\nsecond\n");
    });
}
