//! `manent run exec SKILL -- COMMAND…`: a command in the sandbox, recorded as a run (`sandboxed.rs`).

use std::ffi::OsString;
use std::path::PathBuf;

use manent::human_time::parse_duration;

use crate::commands::prelude::*;

/// Run a command in the sandbox as a skill, and record it with its output; also if it is cut off
#[derive(Debug, Args)]
#[command(after_help = EXEC_NOTES)]
pub(crate) struct RunExecArgs {
    /// What it is a run of; if a skill of this name is known here, its version is recorded
    pub(super) skill: String,
    /// The session that the run belongs to
    #[arg(long, value_name = "KEY", default_value = "runs")]
    pub(super) session: String,
    /// In which phase of some work
    #[arg(long, value_name = "PHASE")]
    pub(super) phase: Option<String>,
    /// How often to try, until it succeeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) attempts: u32,
    /// A line of shell that says by its exit code whether an attempt is good; in the sandbox too
    #[arg(long, value_name = "COMMAND", value_parser = line_of_shell)]
    pub(super) verify: Option<String>,
    /// How long an attempt may take, and its verification
    #[arg(long, value_parser = some_time, default_value = "10m", value_name = "TIME")]
    pub(super) timeout: Duration,
    /// Let a directory into the sandbox, to be read; if it is or has a bin, that is on the PATH; repeatable
    #[arg(long, value_name = "DIR")]
    pub(super) read: Vec<PathBuf>,
    /// Let git make commits and branches in this repository, a directory called .git; whatever else changes in it is
    /// put back; repeatable
    #[arg(long, value_name = ".git", value_parser = git_directory)]
    pub(super) writable: Vec<PathBuf>,
    /// Keep repositories and protected files, such as AGENTS.md, that appear during the command
    #[arg(long)]
    pub(super) new_repo: bool,
    /// A run that came to its end under this key, or is under way, is not run again
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(super) wait: Wait,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) line: Vec<OsString>,
}

/// A line of shell that does something. An empty one is always right, and would call everything good.
fn line_of_shell(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("it is empty; name a command") } else { Ok(text.to_owned()) }
}

/// The directory of a repository, by its name: nothing else becomes writable.
fn git_directory(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    match path.file_name() {
        Some(name) if name == ".git" => Ok(path),
        _ => Err("only a directory called .git can be made writable"),
    }
}

/// A length of time in which something can happen.
fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("nothing can be done in no time; give a longer one".to_owned()),
        Ok(time) => Ok(time),
        Err(e) => Err(e.to_string()),
    }
}

/// Runs the command. Without a sandbox, which only Linux has, no command is run.
pub(crate) fn run(context: &Context<'_>, args: &RunExecArgs) -> Result<Exit, Failure> {
    #[cfg(target_os = "linux")]
    return super::sandboxed::run(context, args);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (context, args);
        let what = "there is no sandbox on this system, and no command is run without one; use Linux";
        Err(Failure::failed(what))
    }
}

const EXEC_NOTES: &str = "\
That it begins is on the disk before it begins: if manent is killed, the run is listed with an
unknown outcome. Exits with 0 if an attempt succeeded, with 1 if none did, with 5 while a run of the
same key is under way, with 6 if one has ended, and with 128 and its number after a signal.

In the sandbox it sees programs of the system, the current directory, and what --read lets in, but
not your home; it has no network, no standard input, and of the environment PATH, LANG and the like.

It cannot change what your own programs would execute afterwards: repositories (.git at any depth),
and at the root of the directory and of each repository in it AGENTS.md, .envrc, .vscode and the
like. Repositories and such files that appear are moved to quarantine/ in the home of the store
before the command's end is told, and a warning says so; --new-repo keeps them. Commands in one
directory, or in one below another, run one after another.

Examples:
  manent run exec lint --read ~/.cargo --read ~/.rustup -- cargo clippy --offline
  manent run exec fix --attempts 3 --verify 'make test' -- ./fix.sh
  manent run exec release --writable .git -- git commit -am 'Version 2'";
