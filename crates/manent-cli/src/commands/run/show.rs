//! `manent run show RUN_ID|SESSION:SEQ`: everything of one run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use manent::SessionKey;
use manent_runs::{Attempt, Oddity, RecordRange, Run, Runs, Status, Verdict, VerdictRef};
use serde_json::value::RawValue;

use super::find_run;
use crate::commands::prelude::*;

/// Show everything of one run
#[derive(Debug, Args)]
pub(crate) struct RunShowArgs {
    /// Its id or at least eight characters of it, or its session and number: work:12
    #[arg(value_name = "RUN_ID|SESSION:SEQ")]
    run: String,
}

pub(crate) fn run(context: &Context<'_>, args: &RunShowArgs) -> Result<Exit, Failure> {
    let runs = super::runs(context, Duration::ZERO)?;
    let found = find_run(context, &runs, &args.run, None)?;
    let mut output = context.output();
    let mut printed = None;
    let seen = runs.each(&found.session, |run| {
        if run.seq != found.seq || run.run_id != found.run_id {
            return ControlFlow::Continue(());
        }
        let verdicts = verdicts_of(&runs, &found.session, run);
        printed = Some(if output.wants_json {
            output.json_line(&json_of(&found.session, run, &verdicts))
        } else {
            print(&found.session, run, &verdicts, &mut output)
        });
        ControlFlow::Break(())
    })?;
    super::warn_of_damage(context, &runs, &found.session, &seen);
    let Some(printed) = printed else {
        let what = format!("the run {} is gone; look again with `manent run list`", found.name());
        return Err(Failure::not_found(what));
    };
    printed?;
    output.flush()?;
    Ok(Exit::Done)
}

/// The verdicts that count and can be read, by the numbers of their records.
type Verdicts = BTreeMap<u64, Verdict<'static>>;

fn verdicts_of(runs: &Runs, session: &SessionKey, run: &Run<'_>) -> Verdicts {
    let judged = run.attempts.iter().filter_map(|attempt| attempt.judged).chain(run.judged);
    let read = |seq: u64| Some((seq, runs.verdict(session, seq).ok().flatten()?));
    let seqs: BTreeSet<u64> = judged.map(|judgement| judgement.seq).collect();
    seqs.into_iter().filter_map(read).collect()
}

/// Describes a verdict for a person: the word, the time at which it was given, and its note.
fn verdict_words(word: &str, judged: Option<VerdictRef>, verdicts: &Verdicts) -> String {
    let Some(judgement) = judged else { return word.to_owned() };
    let at = judgement.at_ms.map_or_else(String::new, |ms| format!(" {}", when::format_ms(ms)));
    let note = verdicts.get(&judgement.seq).map_or("", |verdict| &*verdict.note);
    let colon = if note.is_empty() { "" } else { ": " };
    format!("{word}, said afterwards{at}{colon}{note}")
}

fn json_of(session: &SessionKey, run: &Run<'_>, verdicts: &Verdicts) -> String {
    let verdict = |(attempt, verified, judged): (Option<u64>, Option<bool>, VerdictRef)| {
        let found = verdicts.get(&judged.seq);
        json!({
            "seq": judged.seq, "attempt": attempt, "verified": verified,
            "timestamp": found.map(|verdict| &*verdict.timestamp), "note": found.map(|verdict| &*verdict.note),
        })
    };
    let attempts = run.attempts.iter().enumerate();
    let of_attempts = attempts
        .filter_map(|(nth, attempt)| Some((Some(run.number_of(nth)), attempt.verified, attempt.judged?)));
    let is_good = Some(run.status == Status::Success);
    let of_run = run.judged.filter(|_| run.attempts.is_empty()).map(|judged| (None, is_good, judged));
    let json_verdicts: Vec<Value> = of_attempts.chain(of_run).map(verdict).collect();
    let odd: Vec<String> = run.oddities.iter().map(Oddity::to_string).collect();
    let head = json!({
        "session": session.as_str(), "seq": run.seq, "run_id": run.run_id, "status": run.status.word(),
        "oddities": odd, "verdicts": json_verdicts,
    });
    let head = head.to_string();
    // The entry itself goes out as it stands: numbers of any size, and members that we know nothing of.
    let is_json = serde_json::from_str::<&RawValue>(run.line).is_ok();
    let line = if is_json { run.line } else { "null" };
    format!("{},\"entry\":{line}}}", head.trim_end_matches('}'))
}

fn print(session: &SessionKey, run: &Run<'_>, verdicts: &Verdicts, output: &mut Output) -> io::Result<()> {
    let status = run.status.word();
    let skill = term::line(&run.skill);
    output.line(&[(Style::new().bold(), &skill), (super::style_of(run.status), &format!("  {status}"))])?;
    let at = run.at_ms.map_or_else(|| run.timestamp.to_string(), when::format_ms);
    let entry_says = if run.final_status.eq_ignore_ascii_case(status) { "" } else { &run.final_status };
    let word = if run.status == Status::Success { "good" } else { "bad" };
    let judged = run.judged.map_or_else(String::new, |_| verdict_words(word, run.judged, verdicts));
    let took = run.duration_ms.map_or_else(String::new, term::lasting);
    let place = format!("{session}:{}", run.seq);
    for (name, text) in [
        ("run", &*run.run_id),
        ("where", &place),
        ("when", &at),
        ("took", &took),
        ("status", entry_says),
        ("verdict", &judged),
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
        let number = attempt.attempt.unwrap_or(nth);
        output.line(&[(Style::new().bold(), &format!("attempt {number}")), (Style::new(), "")])?;
        print_attempt(attempt, verdicts, output)?;
    }
    Ok(())
}

fn print_attempt(attempt: &Attempt<'_>, verdicts: &Verdicts, output: &mut Output) -> io::Result<()> {
    let verified = match attempt.verified {
        Some(true) => "verified",
        Some(false) => "not verified",
        None => "",
    };
    let checked = verdict_words(verified, attempt.judged, verdicts);
    let took = attempt.duration_ms.map_or_else(String::new, term::lasting);
    let exit = attempt.exit_code.map_or_else(String::new, |code| code.to_string());
    for (name, text) in [
        ("checked", &*checked),
        ("model", &attempt.model),
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

/// Returns the place of a passage, and the command that shows it.
fn passage(passage: Option<&RecordRange>) -> String {
    passage.map_or_else(String::new, |RecordRange { session, seq: (first, last), .. }| {
        format!("{session} {first}-{last}  (`manent show {} --from {first}`)", term::shell_word(session))
    })
}

fn member(output: &mut Output, indent: &str, name: &str, text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let front = format!("{indent}{}", term::pad(name, NAME_COLUMNS));
    output.line(&[(term::FAINT, &front), (Style::new(), &term::line(text))])
}

const NAME_COLUMNS: usize = 9;
