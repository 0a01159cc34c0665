//! `manent run judge RUN good|bad|none`: what somebody knows of a run that its record does not say.

use manent_runs::{NewVerdict, RunName, Status};

use super::find_run;
use crate::commands::prelude::*;
use crate::output::receipt_json;

/// Say of a run afterwards whether it was good; the last word counts
#[derive(Debug, Args)]
#[command(after_help = JUDGE_NOTES)]
pub(crate) struct RunJudgeArgs {
    /// Its id or at least eight characters of it, or its session and number: work:12
    #[arg(value_name = "RUN_ID|SESSION:SEQ")]
    run: String,
    /// What it was worth; none takes back what was said before
    #[arg(value_parser = one_of([("good", Some(true)), ("bad", Some(false)), ("none", None)]), value_name = "VERDICT")]
    worth: Worth,
    /// On which attempt [default: the last one, which makes it the verdict on the run]
    #[arg(long, value_name = "N")]
    attempt: Option<u64>,
    /// What there is to say about it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Look for the run in this session only
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

// An alias, because clap takes an `Option` for an argument that may be left out.
type Worth = Option<bool>;

pub(crate) fn run(context: &Context<'_>, args: &RunJudgeArgs) -> Result<Exit, Failure> {
    let runs = super::runs(context, args.wait.time)?;
    let only = args.session.as_deref().map(session_key).transpose()?;
    let found = find_run(context, &runs, &args.run, only.as_ref())?;
    let name =
        if found.run_id.is_empty() { RunName::Seq(found.seq) } else { RunName::Id(found.run_id.clone()) };
    let verified = args.worth;
    let verdict = NewVerdict {
        run: name,
        attempt: args.attempt,
        verified,
        note: args.note.clone().unwrap_or_default(),
    };
    let judged = runs.judge(&found.session, &verdict)?;
    let mut json = receipt_json(&found.session, judged.receipt.as_ref());
    json["run_id"] = judged.run_id.into();
    json["run_seq"] = judged.run_seq.into();
    json["attempt"] = judged.attempt.into();
    json["verified"] = verified.into();
    json["repeated"] = judged.repeated.into();
    let (status, word) = match verified {
        Some(true) => (Status::Success, "good"),
        Some(false) => (Status::Failure, "bad"),
        None => (Status::Unknown, "no verdict"),
    };
    let attempt = judged.attempt.map_or_else(String::new, |number| format!(", attempt {number}"));
    let text = format!("  {} {}{attempt}", term::line(&found.skill), term::line(&found.name()));
    let before = match (judged.repeated, &judged.receipt) {
        (false, _) => "",
        (true, Some(_)) => "  said before",
        (true, None) => "  there was none",
    };
    context.print(&json, |output| {
        output.line(&[(super::style_of(status), word), (Style::new(), &text), (term::FAINT, before)])
    })?;
    Ok(Exit::Done)
}

const JUDGE_NOTES: &str = "\
A verdict counts from then on: in lists, in `manent retro`, and in `manent train`, which takes only
what has one. It also settles how a run ended that was cut off. Nothing of the run is changed: the
verdict is a record of its own, on the disk when the command returns.

Examples:
  manent run judge work:12 good
  manent run judge 0197c2d4 bad --attempt 2 --note 'it deleted the test'";
