//! Prefixes of commands that a person may allow, and for how long.
//!
//! A prefix says nothing of the words behind it, and for most programs those decide what is done: `git log --output=F`
//! writes a file, `tar tf x --checkpoint-action=exec=…` runs a program. So there are three kinds.
//!
//! | program | a prefix is allowed |
//! |---|---|
//! | one of [`READERS`] | for the project, and stored |
//! | one of [`RUNNERS`] | never |
//! | any other | for the session, and only with options that the person saw |

use std::collections::BTreeSet;

use super::ApprovalScope;
use super::shell_line::ShellLine;

/// A prefix that a person can be offered, and for how long it would be allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The first words of the command: `cargo test`.
    pub words: Vec<String>,
    /// [`ApprovalScope::Project`] for a program that only reads, else [`ApprovalScope::Session`].
    pub longest: ApprovalScope,
}

impl Prefix {
    /// Returns the prefix to offer for a line of shell, or `None` if only the very same line can be allowed.
    pub(super) fn of(line: &ShellLine) -> Option<Prefix> {
        let [only] = line.commands.as_slice() else { return None };
        if line.unclear.is_some() || runs_others(only) {
            return None;
        }
        if is_reader(only) {
            return Some(Prefix { words: only[..1].to_vec(), longest: ApprovalScope::Project });
        }
        let is_subcommand = |word: &String| {
            word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !word.starts_with('-')
        };
        let words = 1 + usize::from(only.get(1).is_some_and(is_subcommand));
        Some(Prefix { words: only[..words].to_vec(), longest: ApprovalScope::Session })
    }
}

/// Returns whether a command is one of [`READERS`], named as it is there: `./ls` is another program.
pub(super) fn is_reader(words: &[String]) -> bool {
    words.first().is_some_and(|program| READERS.contains(&program.as_str()))
}

/// Returns whether a command is one of [`RUNNERS`], by whatever path or version it is named.
pub(super) fn runs_others(words: &[String]) -> bool {
    let Some(program) = words.first() else { return false };
    let program = base(program);
    // Interpreters come with their version: python3.12.
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUNNERS.iter().any(|(_, programs)| programs.contains(&name) || programs.contains(&program))
}

/// Returns the file name of a program.
pub(super) fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the options among the words of a command, without their values: what decides what a program does beyond
/// its name. Besides `-x` and `--long=value` these are `+x` and `name=value`.
pub(super) fn options(words: &[String]) -> BTreeSet<String> {
    let option = |word: &String| {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        (word.starts_with(['-', '+']) || word.contains('=')).then(|| name.to_owned())
    };
    words.iter().filter_map(option).collect()
}

/// Programs that only read, whatever their arguments: none of their options writes a file or runs a program. Only
/// prefixes of these are stored.
pub const READERS: [&str; 10] = ["ls", "cat", "head", "tail", "wc", "stat", "du", "pwd", "echo", "grep"];

/// Shells, interpreters and launchers: programs that run whatever their arguments, or a file named there, tell them
/// to, in groups. No prefix of these is ever allowed, only the very same line.
pub const RUNNERS: &[(&str, &[&str])] = &[
    (
        "shells",
        &["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "nu", "pwsh"],
    ),
    ("many in one", &["busybox", "toybox"]),
    (
        "shell commands that run their arguments",
        &["command", "builtin", "exec", "eval", "source", ".", "time"],
    ),
    ("as another user", &["sudo", "doas", "su", "runuser", "setpriv", "pkexec"]),
    ("with other limits or surroundings", &["env", "nohup", "nice", "ionice", "chrt", "taskset", "timeout"]),
    (
        "the same",
        &["setsid", "stdbuf", "unbuffer", "flock", "script", "prlimit", "choom", "watch", "systemd-run"],
    ),
    (
        "other sandboxes",
        &["chroot", "unshare", "nsenter", "bwrap", "firejail", "docker", "podman", "kubectl"],
    ),
    (
        "observed",
        &["strace", "ltrace", "perf", "gdb", "lldb", "valgrind", "rlwrap", "screen", "tmux", "expect"],
    ),
    ("for many arguments or files", &["xargs", "parallel", "find", "fd", "fdfind", "entr", "watchexec"]),
    ("on other machines", &["ssh", "mosh", "rsync", "vagrant"]),
    (
        "interpreters",
        &["python", "pypy", "perl", "ruby", "irb", "node", "nodejs", "deno", "bun", "php", "lua"],
    ),
    ("the same", &["luajit", "tclsh", "Rscript", "julia", "java", "jshell", "osascript"]),
    (
        "text with commands in it",
        &["awk", "gawk", "mawk", "nawk", "sed", "gsed", "ed", "ex", "vi", "vim", "nvim"],
    ),
    ("the same", &["emacs"]),
    (
        "builds and packages, which run what a file says",
        &["make", "gmake", "ninja", "just", "task", "npm", "npx"],
    ),
    ("the same", &["pnpm", "yarn", "bunx", "uvx", "pipx"]),
];
