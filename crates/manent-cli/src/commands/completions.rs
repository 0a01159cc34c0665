//! `manent completions SHELL`: what a shell needs to complete our commands.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::exit::{Exit, Failure};

pub(crate) fn run(given: &Completions) -> Result<Exit, Failure> {
    // Into memory first: the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(given.shell, &mut Args::command(), "manent", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Exit::Done)
}
