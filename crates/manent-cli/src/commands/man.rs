//! `manent man [COMMAND]`: a manual page, for `man -l -` or an installer.

use std::io::Write;

use clap::CommandFactory;

use crate::args::CommandLine;
use crate::commands::prelude::*;

/// Print a manual page
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The page of this command [default: the page of manent itself]
    command: Option<String>,
}

pub(crate) fn run(_context: &Context<'_>, args: &ManArgs) -> Result<Exit, Failure> {
    let mut command = CommandLine::command();
    command.build();
    let page = match args.command.as_deref() {
        None => &command,
        Some(name) => command.find_subcommand(name).ok_or_else(|| {
            Failure::usage(format!("there is no command {:?}; `manent help` lists them", term::line(name)))
        })?,
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page.clone()).render(&mut roff)?;
    io::stdout().lock().write_all(&roff)?;
    Ok(Exit::Done)
}
