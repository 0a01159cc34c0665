//! What can be typed behind `manent run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use manent::human_time::parse_duration;
use manent_runs::Status;

use super::{Level, Wait};
use crate::when::{Since, Until};

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    #[command(subcommand)]
    pub(crate) command: RunCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Run a command in the sandbox as a skill, and record it with its output; also if it is cut off
    Exec(Exec),
    /// Record runs that another program made: one JSON entry, or one a line on standard input
    Record(Record),
    /// List runs, newest first
    List(List),
    /// Show everything of one run
    Show(Show),
    /// Say of a run afterwards whether it was good; the last word counts
    Judge(Judge),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = EXEC_NOTES)]
pub(crate) struct Exec {
    /// What it is a run of; if a skill of this name is known here, its version is recorded
    pub(crate) skill: String,
    /// The session that the run belongs to
    #[arg(long, value_name = "KEY", default_value = "runs")]
    pub(crate) session: String,
    /// In which phase of some work
    #[arg(long, value_name = "PHASE")]
    pub(crate) phase: Option<String>,
    /// How often to try, until it succeeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,
    /// A line of shell that says by its exit code whether an attempt is good; in the sandbox too
    #[arg(long, value_name = "COMMAND", value_parser = line_of_shell)]
    pub(crate) verify: Option<String>,
    /// How long an attempt may take, and its verification
    #[arg(long, value_parser = some_time, default_value = "10m", value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// Let a directory into the sandbox, to be read; if it is or has a bin, that is on the PATH; repeatable
    #[arg(long, value_name = "DIR")]
    pub(crate) read: Vec<PathBuf>,
    /// Let git make commits and branches in this repository, a directory called .git; whatever else changes in it is
    /// put back; repeatable
    #[arg(long, value_name = ".git", value_parser = git_directory)]
    pub(crate) writable: Vec<PathBuf>,
    /// Keep repositories and protected files, such as AGENTS.md, that appear during the command
    #[arg(long)]
    pub(crate) new_repo: bool,
    /// A run that came to its end under this key, or is under way, is not run again
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) line: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = RECORD_NOTES)]
pub(crate) struct Record {
    /// The session [default: the `session_id` of each entry]
    #[arg(value_name = "SESSION")]
    pub(crate) first: Option<String>,
    /// A JSON object; one a line from standard input if it is left out or '-'
    #[arg(value_name = "JSON")]
    pub(crate) second: Option<String>,
    /// What a receipt promises: sync and group survive power loss, flush survives kill -9
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    pub(crate) durability: Level,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Only of this skill
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Option<String>,
    /// Only those in which this model was used
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Only those that ended so; unknown: begun, and never heard of again
    #[arg(long, value_enum, value_name = "STATUS")]
    pub(crate) status: Option<Ending>,
    /// Only in this project, or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<String>,
    /// Only since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Until>,
    /// Only of this session
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// Its id or at least eight characters of it, or its session and number: work:12
    #[arg(value_name = "RUN_ID|SESSION:SEQ")]
    pub(crate) run: String,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = JUDGE_NOTES)]
pub(crate) struct Judge {
    /// Its id or at least eight characters of it, or its session and number: work:12
    #[arg(value_name = "RUN_ID|SESSION:SEQ")]
    pub(crate) run: String,
    /// What it was worth; none takes back what was said before
    #[arg(value_enum, value_name = "VERDICT")]
    pub(crate) worth: Worth,
    /// On which attempt [default: the last one, which makes it the verdict on the run]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u64>,
    /// What there is to say about it
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
    /// Look for the run in this session only
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// What a run was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Worth {
    Good,
    Bad,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ending {
    Success,
    Failed,
    Unknown,
    Other,
}

impl From<Ending> for Status {
    fn from(ending: Ending) -> Status {
        match ending {
            Ending::Success => Status::Success,
            Ending::Failed => Status::Failure,
            Ending::Unknown => Status::Unknown,
            Ending::Other => Status::Other,
        }
    }
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

const RECORD_NOTES: &str = "\
An entry with an idempotency_key (or a run_id) that was recorded before is not recorded again, and
gets the receipt of then. What cannot be recorded is named, and the rest goes in.

Examples:
  manent run record '{\"session_id\":\"work\",\"skill\":\"lint\",\"final_status\":\"success\"}'
  cat runs.jsonl | manent run record --json";

const JUDGE_NOTES: &str = "\
A verdict counts from then on: in lists, in `manent retro`, and in `manent train`, which takes only
what has one. It also settles how a run ended that was cut off. Nothing of the run is changed: the
verdict is a record of its own, on the disk when the command returns.

Examples:
  manent run judge work:12 good
  manent run judge 0197c2d4 bad --attempt 2 --note 'it deleted the test'";
