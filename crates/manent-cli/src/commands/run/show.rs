//! `manent run show RUN_ID|SESSION:SEQ`: everything of one run.

use std::ops::ControlFlow;
use std::time::Duration;

use anstyle::Style;
use manent::SessionKey;
use manent::runs::{Attempt, Oddity, Passage, Run, Runs};
use serde_json::json;
use serde_json::value::RawValue;

use crate::args::run::Show;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Show) -> Result<Exit, Failure> {
    let runs = super::runs(context, Duration::ZERO)?;
    let mut output = context.output();
    if let Some((session, seq)) = place_in(&given.run)
        && runs.log(&session)?.is_some()
        && let Some(found) = by_number(&runs, &session, seq)?
    {
        return print_found(context, &runs, &found, &mut output);
    }
    let found = by_id(context, &runs, &given.run)?;
    match &found[..] {
        [] => {
            let what = format!("there is no run {:?}; `manent run list` shows what is there", given.run);
            Err(Failure::new(Exit::NotFound, what))
        }
        [one] => print_found(context, &runs, one, &mut output),
        several => {
            let places: Vec<String> = several.iter().map(Found::name).collect();
            let what = format!("{:?} is the beginning of several: {}", given.run, places.join(", "));
            Err(Failure::new(Exit::Usage, what))
        }
    }
}

/// A run that is meant.
struct Found {
    session: SessionKey,
    seq: u64,
    run_id: String,
}

impl Found {
    fn name(&self) -> String {
        format!("{}:{}", self.session, self.seq)
    }
}

fn place_in(text: &str) -> Option<(SessionKey, u64)> {
    let (session, seq) = text.rsplit_once(':')?;
    Some((SessionKey::new(session).ok()?, seq.parse().ok()?))
}

/// The run that a record is about: of one that began a run which came to its end, that end.
fn by_number(runs: &Runs, session: &SessionKey, seq: u64) -> Result<Option<Found>, Failure> {
    let Some(run_id) = runs.run_of(session, seq)? else { return Ok(None) };
    let mut found = None;
    runs.each(session, |run| {
        if run.seq != seq && (run_id.is_empty() || run.run_id != run_id) {
            return ControlFlow::Continue(());
        }
        found = Some(Found { session: session.clone(), seq: run.seq, run_id: run.run_id.to_string() });
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The runs whose id begins so; the one whose id it is, if there is one.
fn by_id(context: &Context<'_>, runs: &Runs, id: &str) -> Result<Vec<Found>, Failure> {
    let mut found: Vec<Found> = Vec::new();
    for listed in runs.sessions()? {
        let session = listed.address.key;
        let mut exact = None;
        let read = runs.each(&session, |run| {
            let is_it = run.run_id == id;
            if is_it || (id.len() >= ID_CHARS_MIN && run.run_id.starts_with(id) && found.len() < FOUND_MAX) {
                let one = Found { session: session.clone(), seq: run.seq, run_id: run.run_id.to_string() };
                if is_it { exact = Some(one) } else { found.push(one) }
            }
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match read {
            Ok(seen) => super::warn_of_damage(context, &session, &seen),
            // One log that cannot be read hides no other.
            Err(e) => context.complain(&e.into()),
        }
        if let Some(exact) = exact {
            return Ok(vec![exact]);
        }
    }
    Ok(found)
}

fn print_found(
    context: &Context<'_>,
    runs: &Runs,
    found: &Found,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let mut printed = None;
    let seen = runs.each(&found.session, |run| {
        if run.seq != found.seq || run.run_id != found.run_id {
            return ControlFlow::Continue(());
        }
        printed = Some(if output.json {
            print_json(&found.session, run, output)
        } else {
            print(&found.session, run, output)
        });
        ControlFlow::Break(())
    })?;
    super::warn_of_damage(context, &found.session, &seen);
    let Some(printed) = printed else {
        let what = format!("the run {} is gone; look again with `manent run list`", found.name());
        return Err(Failure::new(Exit::NotFound, what));
    };
    printed?;
    output.flush()?;
    Ok(Exit::Done)
}

fn print_json(session: &SessionKey, run: &Run<'_>, output: &mut Output) -> std::io::Result<()> {
    let odd: Vec<String> = run.oddities.iter().map(Oddity::to_string).collect();
    let head = json!({
        "session": session.as_str(), "seq": run.seq, "run_id": run.run_id, "status": run.status.word(),
        "oddities": odd,
    });
    let head = head.to_string();
    // The entry itself goes out as it stands: numbers of any size, and members that we know nothing of.
    let is_json = serde_json::from_str::<&RawValue>(run.line).is_ok();
    let line = if is_json { run.line } else { "null" };
    output.json_line(&format!("{},\"entry\":{line}}}", head.trim_end_matches('}')))
}

fn print(session: &SessionKey, run: &Run<'_>, output: &mut Output) -> std::io::Result<()> {
    let status = run.status.word();
    let skill = term::line(&run.skill);
    output.line(&[(Style::new().bold(), &skill), (super::style_of(run.status), &format!("  {status}"))])?;
    let at = run.at_ms.map_or_else(|| run.timestamp.to_string(), when::format_ms);
    let said = if run.final_status.eq_ignore_ascii_case(status) { "" } else { &run.final_status };
    let took = run.duration_ms.map_or_else(String::new, term::lasting);
    let place = format!("{session}:{}", run.seq);
    for (name, text) in [
        ("run", &*run.run_id),
        ("where", &place),
        ("when", &at),
        ("took", &took),
        ("status", said),
        ("session", if run.session_id == session.as_str() { "" } else { &run.session_id }),
        ("phase", &run.phase),
        ("project", &run.project_root),
        ("file", &run.file_path),
        ("model", &run.model_used),
        ("version", &run.skill_hash),
        ("key", &run.idempotency_key),
        ("input", run.input.unwrap_or_default()),
    ] {
        member(output, "", name, text)?;
    }
    for odd in &run.oddities {
        member(output, "", "odd", &odd.to_string())?;
    }
    for (attempt, nth) in run.attempts.iter().zip(1_u64..) {
        print_attempt(attempt, nth, output)?;
    }
    Ok(())
}

fn print_attempt(attempt: &Attempt<'_>, nth: u64, output: &mut Output) -> std::io::Result<()> {
    let number = attempt.attempt.unwrap_or(nth);
    let verified = match attempt.verified {
        Some(true) => "verified",
        Some(false) => "not verified",
        None => "",
    };
    output.line(&[(Style::new().bold(), &format!("attempt {number}")), (Style::new(), "")])?;
    let took = attempt.duration_ms.map_or_else(String::new, term::lasting);
    let exit = attempt.exit_code.map_or_else(String::new, |code| code.to_string());
    for (name, text) in [
        ("checked", verified),
        ("model", &*attempt.model),
        ("took", &took),
        ("exit", &exit),
        ("error", &attempt.error_class),
        ("version", &attempt.skill_hash),
        ("sandbox", &attempt.sandbox),
        ("params", attempt.params.unwrap_or_default()),
        ("usage", attempt.usage.unwrap_or_default()),
        ("prompt", &passage(attempt.prompt_ref.as_ref())),
        ("answer", &passage(attempt.output_ref.as_ref())),
        ("summary", &attempt.output_summary),
    ] {
        member(output, "  ", name, text)?;
    }
    if !attempt.runner_output.is_empty() {
        output.line(&[(term::FAINT, "  output")])?;
        output.block(attempt.runner_output.trim_end_matches('\n'))?;
    }
    Ok(())
}

/// Where a passage can be looked at.
fn passage(passage: Option<&Passage>) -> String {
    passage.map_or_else(String::new, |Passage { session, seq: (first, last), .. }| {
        format!("{session} {first}-{last}  (`manent show {} --from {first}`)", term::shell_word(session))
    })
}

fn member(output: &mut Output, indent: &str, name: &str, text: &str) -> std::io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let front = format!("{indent}{}", term::pad(name, NAME_COLUMNS));
    output.line(&[(term::FAINT, &front), (Style::new(), &term::line(text))])
}

const NAME_COLUMNS: usize = 9;
/// Less of an id is too little to mean one.
const ID_CHARS_MIN: usize = 8;
/// So many are named where only one can be meant.
const FOUND_MAX: usize = 5;
