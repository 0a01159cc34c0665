//! `manent run …`: what skills did, with every attempt.

mod exec;
mod judge;
mod list;
#[cfg(target_os = "linux")]
mod live_output;
mod record;
#[cfg(target_os = "linux")]
mod sandboxed;
mod show;

use std::ops::ControlFlow;

use manent::SessionKey;
use manent_runs::{ReadSummary, Run, Runs, Status};

use super::subcommands;
use crate::commands::prelude::*;

subcommands! {
    /// What skills did, with every attempt: run and record, list, show, judge
    RunCommand {
        Exec(exec::RunExecArgs),
        Record(record::RunRecordArgs),
        List(list::RunListArgs),
        Show(show::RunShowArgs),
        Judge(judge::RunJudgeArgs),
    }
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

/// A run that was named: by its id or the beginning of it, or by its session and a number.
struct FoundRun {
    session: SessionKey,
    seq: u64,
    /// The id, which is empty if the run has none.
    run_id: String,
    skill: String,
}

impl FoundRun {
    fn new(session: &SessionKey, run: &Run<'_>) -> FoundRun {
        FoundRun {
            session: session.clone(),
            seq: run.seq,
            run_id: run.run_id.to_string(),
            skill: run.skill.to_string(),
        }
    }

    fn name(&self) -> String {
        format!("{}:{}", self.session, self.seq)
    }
}

/// Finds the run that `text` names, in one session or in all of them.
fn find_run(
    context: &Context<'_>,
    runs: &Runs,
    text: &str,
    only: Option<&SessionKey>,
) -> Result<FoundRun, Failure> {
    if let Some((session, seq)) =
        place_in(text).filter(|(session, _)| only.is_none_or(|only| only == session))
        && runs.log(&session)?.is_some()
        && let Some(found) = by_number(runs, &session, seq)?
    {
        return Ok(found);
    }
    let mut found = by_id(context, runs, text, only)?;
    if found.len() > 1 {
        let places: Vec<String> = found.iter().map(FoundRun::name).collect();
        return Err(Failure::usage(format!("{text:?} is the beginning of several: {}", places.join(", "))));
    }
    found.pop().ok_or_else(|| {
        Failure::not_found(format!("there is no run {text:?}; `manent run list` shows what is there"))
    })
}

fn place_in(text: &str) -> Option<(SessionKey, u64)> {
    let (session, seq) = text.rsplit_once(':')?;
    Some((SessionKey::new(session).ok()?, seq.parse().ok()?))
}

/// Returns the run that a record is about. For the record of its begin, that is the record of its end, if there is one.
fn by_number(runs: &Runs, session: &SessionKey, seq: u64) -> Result<Option<FoundRun>, Failure> {
    let Some(run_id) = runs.run_of(session, seq)? else { return Ok(None) };
    let mut found = None;
    runs.each(session, |run| {
        if run.seq != seq && (run_id.is_empty() || run.run_id != run_id) {
            return ControlFlow::Continue(());
        }
        found = Some(FoundRun::new(session, run));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Returns the runs whose id begins with `id`, or the one whose id it is.
fn by_id(
    context: &Context<'_>,
    runs: &Runs,
    id: &str,
    only: Option<&SessionKey>,
) -> Result<Vec<FoundRun>, Failure> {
    let mut found: Vec<FoundRun> = Vec::new();
    let sessions = match only {
        Some(only) => vec![only.clone()],
        None => runs.sessions()?.into_iter().map(|listed| listed.id.key).collect(),
    };
    for session in sessions {
        let mut exact = None;
        let read = runs.each(&session, |run| {
            let is_it = run.run_id == id;
            if is_it || (id.len() >= ID_CHARS_MIN && run.run_id.starts_with(id) && found.len() < FOUND_MAX) {
                let one = FoundRun::new(&session, run);
                if is_it { exact = Some(one) } else { found.push(one) }
            }
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match read {
            Ok(seen) => warn_of_damage(context, runs, &session, &seen),
            // One log that cannot be read hides no other.
            Err(e) => context.complain(&e.into()),
        }
        if let Some(exact) = exact {
            return Ok(vec![exact]);
        }
    }
    Ok(found)
}

/// The shortest beginning of an id that names a run.
const ID_CHARS_MIN: usize = 8;
/// The number of runs that are named if a beginning is ambiguous.
const FOUND_MAX: usize = 5;
