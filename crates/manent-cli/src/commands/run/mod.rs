//! `manent run …`: what skills did, with every attempt.

mod exec;
mod judge;
mod list;
#[cfg(target_os = "linux")]
mod live_output;
mod lookup;
mod record;
#[cfg(target_os = "linux")]
mod sandboxed;
mod show;

use manent::SessionKey;
use manent_runs::{ReadSummary, Runs, Status};

use super::subcommands;
use crate::commands::prelude::*;

/// What skills did, with every attempt: run and record, list, show, judge
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(subcommand)]
    command: RunCommand,
}

subcommands! {
    RunCommand {
        Exec(exec::RunExecArgs),
        Record(record::RunRecordArgs),
        List(list::RunListArgs),
        Show(show::RunShowArgs),
        Judge(judge::RunJudgeArgs),
    }
}

pub(crate) fn run(context: &Context<'_>, args: &RunArgs) -> Result<Exit, Failure> {
    args.command.run(context)
}

/// Opens the runs of the store. Writers wait for `wait` while another process writes.
fn runs(context: &Context<'_>, wait: Duration) -> Result<Runs, Failure> {
    Ok(Runs::open(&context.store(wait)?)?)
}

/// Warns of damage in the runs of a session, unless it was acknowledged.
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
    term::bold(color)
}
