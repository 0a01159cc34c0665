//! `manent run …`: what skills did, with every attempt.

#[cfg(target_os = "linux")]
mod exec;
mod list;
mod record;
mod show;

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::SessionKey;
use manent::runs::{Runs, Seen, Status};

use crate::args::run::{self as args, RunCommand};
use crate::context::Context;
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &args::Run) -> Result<Exit, Failure> {
    match &given.command {
        #[cfg(target_os = "linux")]
        RunCommand::Exec(given) => exec::run(context, given),
        #[cfg(not(target_os = "linux"))]
        RunCommand::Exec(_) => {
            let what = "there is no sandbox on this system, and no command is run without one; use Linux";
            Err(Failure::new(Exit::Failed, what))
        }
        RunCommand::Record(given) => record::run(context, given),
        RunCommand::List(given) => list::run(context, given),
        RunCommand::Show(given) => show::run(context, given),
    }
}

/// The runs of the store, for writers that wait this long for others.
fn runs(context: &Context<'_>, wait: Duration) -> Result<Runs, Failure> {
    Ok(context.store(wait)?.runs()?)
}

/// Says that something in a log could not be read.
fn warn_of_damage(context: &Context<'_>, key: &SessionKey, seen: &Seen) {
    let places = match seen.damage.len() {
        0 => return,
        1 => "1 place".to_owned(),
        n => format!("{n} places"),
    };
    context.warn(&format!("the runs of {key}: damaged in {places}; `manent verify` tells more"));
}

fn style_of(status: Status) -> Style {
    let color = match status {
        Status::Success => AnsiColor::Green,
        Status::Failure => AnsiColor::Red,
        Status::Unknown => AnsiColor::Yellow,
        Status::Other => AnsiColor::Blue,
    };
    Style::new().fg_color(Some(color.into())).bold()
}
