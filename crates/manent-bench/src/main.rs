//! Manent and its peers, side by side.
//!
//! `cargo run --release -p manent-bench -- [GROUP…] [--json] [--quick] [--dir DIR]`. Every group makes its own data,
//! lets ours and the peers take turns in one run, and gives a row for each comparison. It informs and never fails: a
//! goal that is missed is a `NO` in the table, not an exit code; only an I/O error is one.
//!
//! | file | about |
//! |---|---|
//! | `append.rs`, `sync.rs`, `group.rs` | what it costs to write one session |
//! | `create.rs`, `sessions.rs` | what it costs to begin one, and to write thousands |
//! | `load.rs`, `tail.rs`, `huge.rs` | what it costs to read |
//! | `archive.rs`, `fork.rs` | what it costs to put a session away, and to branch off one |
//! | `search.rs`, `catalogue.rs` | what it costs to find a turn, and to list the sessions |
//! | `memory.rs`, `context.rs` | what it costs to remember, and to make what a model sees |
//! | `chat.rs` | a chat: its start, and what a turn takes besides the model |
//! | `runs.rs` | what it costs to look back on runs of skills |
//! | `sandbox.rs` | what a command in the sandbox takes more in a large workspace |
//! | `commands.rs` | whole programs: the `manent` command, and ripgrep |
//! | `peers.rs` | the naive store and SQLite |
//! | `data.rs`, `session.rs` | the text, and the session files made of it |
//! | `child.rs` | reading in a fresh process, where memory can be measured |
//! | `measure.rs`, `row.rs`, `machine.rs`, `args.rs` | rounds, rows, the machine, the command line |

#![allow(
    clippy::disallowed_methods,
    reason = "the peers use std::fs, and the bench itself is no part of the store"
)]
#![allow(clippy::cast_precision_loss, reason = "numbers are rounded to four digits before they are shown")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "printing rows is what this program is for")]

mod append;
mod archive;
mod args;
mod catalogue;
mod chat;
mod child;
mod commands;
mod context;
mod create;
mod data;
mod fork;
mod group;
mod huge;
mod load;
mod machine;
mod measure;
mod memory;
mod peers;
mod row;
mod runs;
#[cfg(target_os = "linux")]
mod sandbox;
mod search;
mod session;
mod sessions;
mod sync;
mod tail;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::{Args, Command, Output, Topic};
use crate::row::{Goal, Row};

/// Any failure; the bench only reports it.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The parameters that every group of benchmarks needs.
#[derive(Debug)]
pub(crate) struct Bench {
    /// A directory of this run's own.
    pub(crate) dir: PathBuf,
    pub(crate) effort: Effort,
}

/// The effort of a run, which bounds its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Quick,
    Full,
}

impl Bench {
    /// Rounds of a bench: about a third of them when it must be quick.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        match self.effort {
            Effort::Quick => full.div_ceil(3),
            Effort::Full => full,
        }
    }

    /// A goal that is meant for the full size: a tenth of the data would show something else.
    pub(crate) fn at_full_size(&self, goal: Goal) -> Goal {
        match self.effort {
            Effort::Quick => Goal::Inform,
            Effort::Full => goal,
        }
    }

    /// An empty directory for one group.
    pub(crate) fn place(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }
}

/// The data goes when the run ends, whether it went well or not.
impl Drop for Bench {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("manent-bench: {} is left behind: {error}", self.dir.display());
        }
    }
}

fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", args::HELP);
            Ok(())
        }
        Ok(Command::Child(task)) => child::run(&task),
        Ok(Command::Run(args)) => run(&args),
        Err(wrong) => {
            eprintln!("manent-bench: {wrong}\n\n{}", args::HELP);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manent-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let bench = Bench { dir: own_directory(args)?, effort: args.effort };
    let about = machine::describe(&bench.dir);
    match args.output {
        Output::Table => about.iter().for_each(|line| println!("{line}")),
        // Rows are the only thing on stdout, so that it can be piped.
        Output::Json => about.iter().for_each(|line| eprintln!("{line}")),
    }
    let mut rows = Vec::new();
    for group in &args.groups {
        eprintln!("running {} …", group.word());
        let new = run_group(&bench, *group)?;
        // One group's gigabytes at a time are enough.
        std::fs::remove_dir_all(bench.place(group.word())?)?;
        if args.output == Output::Json {
            for row in &new {
                println!("{}", serde_json::to_string(row)?);
            }
        }
        rows.extend(new);
    }
    if args.output == Output::Table {
        println!("\n{}", row::table(&rows));
    }
    Ok(())
}

fn run_group(bench: &Bench, group: Topic) -> Result<Vec<Row>> {
    match group {
        Topic::Append => append::run(bench),
        Topic::Sync => sync::run(bench),
        Topic::Create => create::run(bench),
        Topic::Group => group::run(bench),
        Topic::Sessions => sessions::run(bench),
        Topic::Load => load::run(bench),
        Topic::Tail => tail::run(bench),
        Topic::Archive => archive::run(bench),
        Topic::Fork => fork::run(bench),
        Topic::Search => search::run(bench),
        Topic::Catalogue => catalogue::run(bench),
        Topic::Memory => memory::run(bench),
        Topic::Context => context::run(bench),
        Topic::Chat => chat::run(bench),
        Topic::Runs => runs::run(bench),
        #[cfg(target_os = "linux")]
        Topic::Sandbox => sandbox::run(bench),
        #[cfg(not(target_os = "linux"))]
        Topic::Sandbox => Ok(Vec::new()),
        Topic::Huge => huge::run(bench),
    }
}

/// A directory that did not exist, so that deleting it deletes nothing else. `target/` is preferred: it lies on the
/// disk where people work, while the system's temporary directory is often memory.
fn own_directory(args: &Args) -> Result<PathBuf> {
    let target = PathBuf::from("target");
    let parent = match &args.dir {
        Some(dir) => dir.clone(),
        None if target.is_dir() => target,
        None => std::env::temp_dir(),
    };
    let dir = parent.join(format!("manent-bench-{}", std::process::id()));
    std::fs::create_dir_all(&parent)?;
    std::fs::create_dir(&dir)?;
    Ok(dir)
}
