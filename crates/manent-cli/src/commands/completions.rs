//! `manent completions SHELL`: the script by which a shell completes the commands.

use std::io::Write;

use clap::CommandFactory;

use crate::args::CommandLine;
use crate::commands::prelude::*;

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(crate) fn run(_context: &Context<'_>, args: &CompletionsArgs) -> Result<Exit, Failure> {
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CommandLine::command(), "manent", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
