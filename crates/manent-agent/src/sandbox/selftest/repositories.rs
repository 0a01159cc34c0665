//! Attempts to leave something that a person's next `git status`, shell or editor would execute: in a repository that
//! is there, in one that appears, or under a protected name.
//!
//! They are lines of shell. Whether one is refused, undone or moved away does not matter: afterwards everything that is
//! protected must be as it was, and nothing of that kind be new.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use manent::log::RealDisk;
use manent::log::fs::{Disk, Shape, read_whole};

use super::super::Sandbox;
use super::super::error::SandboxError;
use super::super::run::SandboxCommand;
use super::super::stop::StopFlag;
use super::stage::{TestStage, plant};
use super::{ATTEMPT_MAX, Control, EscapeTrial, TrialResult, short};

/// The name of an attempt, and its line of shell.
pub(super) type RepositoryAttempt = (&'static str, &'static str);

pub(super) const ALL: &[RepositoryAttempt] = &[
    ("fsmonitor in .git/config", "printf '[core]\\n fsmonitor = touch PWN\\n' >> .git/config"),
    ("a hook", "echo 'touch PWN' > .git/hooks/post-checkout"),
    (".git/commondir", "echo ../evil > .git/commondir"),
    ("replace .git", "mv .git aside; mkdir .git; echo evil > .git/config; rm -r aside"),
    ("hard link to .git/config", "ln .git/config linked; echo evil >> linked"),
    ("symlink in .git", "rm .git/config; ln -s ../evil .git/config"),
    ("config of a nested repository", "echo evil >> deep/nested/.git/config"),
    (
        "rename the parent of a repository",
        "mv deep aside; mkdir -p deep/nested/.git; echo evil > deep/nested/.git/config; rm -rf aside",
    ),
    ("config of a bare repository", "echo evil >> bare/config"),
    ("replace a bare repository", "mv bare aside; cp -r aside bare; rm -r aside; echo evil > bare/config"),
    ("a new .git file", "echo 'gitdir: ../evil' > plain/.git"),
    ("a new .git link", "ln -s ../evil plain/.git"),
    (
        "a new nested repository",
        "mkdir -p new/x/.git/objects new/x/.git/refs; echo 'ref: refs/heads/x' > new/x/.git/HEAD",
    ),
    (
        "a repository in a closed directory",
        "mkdir -p shut/.git; echo evil > shut/.git/config; chmod 000 shut",
    ),
    (
        "a new bare repository",
        "mkdir -p new/objects new/refs; echo 'ref: refs/heads/x' > new/HEAD; echo evil > new/config",
    ),
    (
        "a directory becomes a bare repository",
        "mkdir plain/objects plain/refs; echo 'ref: refs/heads/x' > plain/HEAD",
    ),
    ("the workspace becomes a bare repository", "mkdir objects refs; echo 'ref: refs/heads/x' > HEAD"),
    (
        "a bare repository by commondir",
        "mkdir new; echo 'ref: refs/heads/x' > new/HEAD; echo ../bare > new/commondir",
    ),
    ("change AGENTS.md", "echo evil >> AGENTS.md"),
    ("replace AGENTS.md", "echo evil > x; mv x AGENTS.md"),
    ("the link CLAUDE.md", "rm CLAUDE.md; echo evil > CLAUDE.md"),
    ("what the link GEMINI.md leads to", "echo evil > plain/gemini"),
    ("a file in .vscode", "echo evil > .vscode/launch.json; echo evil > .vscode/tasks.json"),
    ("a new .envrc", "echo evil > .envrc"),
    ("a new .claude", "mkdir .claude; echo evil > .claude/settings.json"),
    ("a new .mcp.json in a repository", "echo evil > deep/nested/.mcp.json"),
];

pub(super) fn trial(sandbox: &Sandbox, attempt: &RepositoryAttempt) -> Result<EscapeTrial, SandboxError> {
    let &(name, line) = attempt;
    let (control, _) = attempted(|workspace, _| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).current_dir(workspace);
        let shell = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().map_err(SandboxError::io("make an attempt outside of the sandbox"))?;
        Ok(String::new())
    })?;
    let control = match control {
        Some(_) => Control::Works,
        None => Control::Refused("it changed nothing".to_owned()),
    };
    let (escaped, got) = attempted(|_, stage| {
        let mut policy = stage.policy(&sandbox.helper);
        policy.limits.wall = ATTEMPT_MAX;
        let outcome = sandbox.run(&policy, &SandboxCommand::Shell(line.to_owned()), &StopFlag::new()?)?;
        Ok(outcome.notes.first().map_or_else(|| short(&outcome.stdout.text()), |note| short(&note.text)))
    })?;
    let (got, result) = match escaped {
        Some(path) => (format!("{} is not as it was", path.display()), TrialResult::Escaped),
        None => (got, TrialResult::Held),
    };
    Ok(EscapeTrial { attempt: name, expected: "undone", got, control, result })
}

/// Makes an attempt on a place of its own. Gives what is not as it was in it, and what was said.
fn attempted(
    make: impl FnOnce(&Path, &TestStage) -> Result<String, SandboxError>,
) -> Result<(Option<PathBuf>, String), SandboxError> {
    let stage = TestStage::new()?;
    let workspace = stage.targets.workspace.clone();
    lay_out(&workspace)?;
    let before = protected_entries(&workspace);
    let said = make(&workspace, &stage)?;
    // The attempt closed the directory; looking into it and removing it need its rights back.
    let _ = rustix::fs::chmod(workspace.join("shut"), rustix::fs::Mode::RWXU);
    let after = protected_entries(&workspace);
    let changed = before.iter().find(|(path, content)| after.get(*path) != Some(content));
    let new = after.keys().find(|path| !before.contains_key(*path));
    Ok((changed.map(|(path, _)| path).or(new).cloned(), said))
}

fn lay_out(workspace: &Path) -> Result<(), SandboxError> {
    for repository in [".git", "deep/nested/.git", "bare"].map(|name| workspace.join(name)) {
        for name in ["objects", "refs/heads", "hooks"] {
            let made = RealDisk.create_dir_all(&repository.join(name));
            made.map_err(SandboxError::io("make a repository for attempts"))?;
        }
        plant(&repository.join("HEAD"), "ref: refs/heads/main\n")?;
        plant(&repository.join("config"), "[core]\n\trepositoryformatversion = 0\n")?;
    }
    for dir in ["plain", ".vscode"] {
        let made = RealDisk.create_dir_all(&workspace.join(dir));
        made.map_err(SandboxError::io("make a directory for attempts"))?;
    }
    for name in ["AGENTS.md", ".vscode/tasks.json", "plain/gemini"] {
        plant(&workspace.join(name), "as it was\n")?;
    }
    for (name, target) in [("CLAUDE.md", "AGENTS.md"), ("GEMINI.md", "plain/gemini")] {
        let made = rustix::fs::symlink(target, workspace.join(name));
        made.map_err(SandboxError::io("make a link for attempts"))?;
    }
    Ok(())
}

/// Collects what another program could obey, with its content. Found by names alone, independent of the code under
/// test.
fn protected_entries(workspace: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![(workspace.to_owned(), false)];
    while let Some((dir, is_inside)) = left.pop() {
        for entry in RealDisk.list(&dir).unwrap_or_default() {
            let path = dir.join(&entry.name);
            let counts = is_inside || OBEYED.iter().any(|name| entry.name == OsStr::new(name));
            if counts {
                let content = match entry.shape {
                    Shape::File => read_whole(&RealDisk, &path, 1 << 20).unwrap_or_default(),
                    Shape::Link => rustix::fs::readlink(&path, Vec::new())
                        .map(std::ffi::CString::into_bytes)
                        .unwrap_or_default(),
                    Shape::Directory | Shape::Special => Vec::new(),
                };
                found.insert(path.clone(), content);
            }
            if entry.shape == Shape::Directory {
                left.push((path, counts));
            }
        }
    }
    found
}

/// The names that the attempts above are about.
const OBEYED: [&str; 13] = [
    ".git",
    "HEAD",
    "objects",
    "refs",
    "config",
    "commondir",
    "AGENTS.md",
    "CLAUDE.md",
    "gemini",
    ".vscode",
    ".envrc",
    ".claude",
    ".mcp.json",
];
