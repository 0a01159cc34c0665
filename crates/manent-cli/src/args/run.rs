//! What can be typed behind `manent run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use manent::runs::Status;
use manent::when::duration;

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
    #[arg(long, value_name = "COMMAND")]
    pub(crate) verify: Option<String>,
    /// How long an attempt may take, and its verification
    #[arg(long, value_parser = duration, default_value = "10m", value_name = "TIME")]
    pub(crate) timeout: Duration,
    /// A run that came to its end under this key is not run again
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

const EXEC_NOTES: &str = "\
That it begins is on the disk before it begins: if manent is killed, the run is listed with an
unknown outcome. Exits with 0 if an attempt succeeded, and else with 1.

Examples:
  manent run exec lint -- cargo clippy
  manent run exec fix --attempts 3 --verify 'cargo test -q' -- ./fix.sh";

const RECORD_NOTES: &str = "\
An entry with an idempotency_key (or a run_id) that was recorded before is not recorded again, and
gets the receipt of then. What cannot be recorded is named, and the rest goes in.

Examples:
  manent run record '{\"session_id\":\"work\",\"skill\":\"lint\",\"final_status\":\"success\"}'
  cat runs.jsonl | manent run record --json";
