//! What can be typed about taking a session elsewhere.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

#[derive(Debug, ClapArgs)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct Export {
    /// The session: its key (the live one, else the newest archived), or @ and the beginning of its id
    pub(crate) key: String,
    /// What to write: a transcript to read, or the records, one a line
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) to: Form,
    /// Write to this file, whole or not at all [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// What a session is written as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    #[default]
    Md,
    Json,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  manent export work -o work.md
  manent export work --to json | jq -r .content";
