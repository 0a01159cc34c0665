//! `manent run …`: what skills did, with every attempt.

#[cfg(target_os = "linux")]
mod exec;
mod finding;
#[cfg(target_os = "linux")]
mod hidden;
mod judge;
mod list;
mod record;
mod show;
#[cfg(target_os = "linux")]
mod shown;

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::SessionKey;
use manent_runs::{ReadSummary, Runs, Status};

use crate::args::run::{self as args, RunCommand};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

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
        RunCommand::Judge(given) => judge::run(context, given),
    }
}

/// The runs of the store, for writers that wait this long for others.
fn runs(context: &Context<'_>, wait: Duration) -> Result<Runs, Failure> {
    Ok(Runs::open(&context.store(wait)?)?)
}

/// Says that something in a log could not be read.
/// Says what is wrong with a log, unless it is known and was acknowledged.
fn warn_of_damage(context: &Context<'_>, runs: &Runs, key: &SessionKey, seen: &ReadSummary) {
    if let Some(torn) = &seen.torn {
        context.warn(&format!(
            "the runs of {key} end with {} bytes that are no record: somebody died while writing, or is at it now; \
             `manent verify {}` tells more",
            term::count(torn.length),
            term::shell_word(key.as_str())
        ));
    }
    if seen.damage.is_empty() {
        return;
    }
    let report = runs.verify(key).ok().flatten();
    let places = match report.map(|report| report.damage.iter().filter(|found| !found.acknowledged).count()) {
        Some(0) => return,
        None => format!("{} places", seen.damage.len()),
        Some(1) => "1 place".to_owned(),
        Some(n) => format!("{n} places"),
    };
    let word = term::shell_word(key.as_str());
    context.warn(&format!("the runs of {key}: damaged in {places}; `manent verify {word}` tells more"));
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
