//! `manent man [COMMAND]`: a manual page, for `man -l -` or an installer.

use std::io::Write;

use clap::CommandFactory;

use crate::args::{Args, Man};
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(given: &Man) -> Result<Exit, Failure> {
    let mut command = Args::command();
    command.build();
    let page = match given.command.as_deref() {
        None => &command,
        Some(name) => command.find_subcommand(name).ok_or_else(|| no_such_command(name))?,
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page.clone()).render(&mut roff)?;
    std::io::stdout().lock().write_all(&roff)?;
    Ok(Exit::Done)
}

fn no_such_command(name: &str) -> Failure {
    let what = format!("there is no command {:?}; `manent help` lists them", term::line(name));
    Failure::new(Exit::Usage, what)
}
