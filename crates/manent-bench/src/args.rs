//! The command line.

use std::path::PathBuf;

use crate::Effort;
use crate::child::Task;

pub(crate) const HELP: &str = "\
Usage: manent-bench [GROUP…] [--json] [--quick] [--dir DIR]

Groups: append, sync, create, group, sessions, load, tail, archive, fork, search,
        catalogue, memory, context, chat, runs, sandbox (all of these if none is named), and huge (a
        10 GB session; only when named). Search, catalogue, chat and sandbox also start the manent binary
        that lies beside this one; search compares with rg, chat with Python: what is not there is
        left out.

  --json      one JSON object a line on stdout instead of a table
  --quick     fewer rounds, no 1 GB file, a tenth of the sessions or less
  --dir DIR   make the data in a directory under DIR instead of target/
";

/// The command to run.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Args),
    Child(Task),
    Help,
}

/// Arguments of a benchmark run.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) groups: Vec<Topic>,
    pub(crate) output: Output,
    pub(crate) effort: Effort,
    pub(crate) dir: Option<PathBuf>,
}

/// The form in which rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Table,
    Json,
}

/// A group of benches, by the word that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Append,
    Sync,
    Create,
    Group,
    Sessions,
    Load,
    Tail,
    Archive,
    Fork,
    Search,
    Catalogue,
    Memory,
    Context,
    Chat,
    Runs,
    Sandbox,
    Huge,
}

impl Topic {
    const ALL: [Topic; 17] = [
        Topic::Append,
        Topic::Sync,
        Topic::Create,
        Topic::Group,
        Topic::Sessions,
        Topic::Load,
        Topic::Tail,
        Topic::Archive,
        Topic::Fork,
        Topic::Search,
        Topic::Catalogue,
        Topic::Memory,
        Topic::Context,
        Topic::Chat,
        Topic::Runs,
        Topic::Sandbox,
        Topic::Huge,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Topic::Append => "append",
            Topic::Sync => "sync",
            Topic::Create => "create",
            Topic::Group => "group",
            Topic::Sessions => "sessions",
            Topic::Load => "load",
            Topic::Tail => "tail",
            Topic::Archive => "archive",
            Topic::Fork => "fork",
            Topic::Search => "search",
            Topic::Catalogue => "catalogue",
            Topic::Memory => "memory",
            Topic::Context => "context",
            Topic::Chat => "chat",
            Topic::Runs => "runs",
            Topic::Sandbox => "sandbox",
            Topic::Huge => "huge",
        }
    }
}

/// Reads the command line; says what is wrong with it.
pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    let mut args = Args { groups: Vec::new(), output: Output::Table, effort: Effort::Full, dir: None };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => args.output = Output::Json,
            "--quick" => args.effort = Effort::Quick,
            "--dir" => args.dir = Some(words.next().ok_or("--dir needs a directory")?.into()),
            "--help" | "-h" => return Ok(Command::Help),
            // Not in the help: only the bench itself calls itself so.
            "--child" => return Task::parse(words).map(Command::Child),
            _ => {
                let group = Topic::ALL.into_iter().find(|g| g.word() == word);
                args.groups.push(group.ok_or_else(|| format!("there is no group or flag {word:?}"))?);
            }
        }
    }
    if args.groups.is_empty() {
        args.groups = Topic::ALL.into_iter().filter(|g| *g != Topic::Huge).collect();
    }
    Ok(Command::Run(args))
}
