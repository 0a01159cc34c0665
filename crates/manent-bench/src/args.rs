//! The command line.

use std::path::PathBuf;

use crate::Effort;
use crate::child::Task;

pub(crate) const HELP: &str = "\
Usage: manent-bench [GROUP…] [--json] [--quick] [--dir DIR]

Groups: append, sync, group, load, tail (all of these if none is named), and
        huge (a 10 GB session; only when named)

  --json      one JSON object a line on stdout instead of a table
  --quick     fewer rounds, and no 1 GB file
  --dir DIR   make the data in a directory under DIR instead of target/
";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Args),
    Child(Task),
    Help,
}

/// How to run.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) groups: Vec<Group>,
    pub(crate) output: Output,
    pub(crate) effort: Effort,
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Table,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Append,
    Sync,
    Group,
    Load,
    Tail,
    Huge,
}

impl Group {
    const ALL: [Group; 6] =
        [Group::Append, Group::Sync, Group::Group, Group::Load, Group::Tail, Group::Huge];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Group::Append => "append",
            Group::Sync => "sync",
            Group::Group => "group",
            Group::Load => "load",
            Group::Tail => "tail",
            Group::Huge => "huge",
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
                let group = Group::ALL.into_iter().find(|g| g.word() == word);
                args.groups.push(group.ok_or_else(|| format!("there is no group or flag {word:?}"))?);
            }
        }
    }
    if args.groups.is_empty() {
        args.groups = Group::ALL.into_iter().filter(|g| *g != Group::Huge).collect();
    }
    Ok(Command::Run(args))
}
