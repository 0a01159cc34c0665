//! `manent run judge RUN good|bad|none`: what somebody knows of a run that its record does not say.

use anstyle::Style;
use manent_runs::{NewVerdict, RunName, Status};
use serde_json::json;

use super::finding::find;
use crate::args::run::{Judge, Worth};
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Judge) -> Result<Exit, Failure> {
    let runs = super::runs(context, given.wait.time)?;
    let only = given.session.as_deref().map(context::key).transpose()?;
    let found = find(context, &runs, &given.run, only.as_ref())?;
    let name =
        if found.run_id.is_empty() { RunName::Seq(found.seq) } else { RunName::Id(found.run_id.clone()) };
    let verified = match given.worth {
        Worth::Good => Some(true),
        Worth::Bad => Some(false),
        Worth::None => None,
    };
    let verdict = NewVerdict {
        run: name,
        attempt: given.attempt,
        verified,
        note: given.note.clone().unwrap_or_default(),
    };
    let judged = runs.judge(&found.session, &verdict)?;
    let mut output = context.output();
    if output.json {
        let receipt = judged.receipt.as_ref();
        output.json(&json!({
            "session": found.session.as_str(), "id": receipt.map(|receipt| &*receipt.id),
            "seq": receipt.map(|receipt| receipt.seq),
            "offset": receipt.map(|receipt| receipt.position.raw()),
            "durability": receipt.map(|receipt| receipt.durability.word()),
            "run_id": judged.run_id, "run_seq": judged.run_seq, "attempt": judged.attempt, "verified": verified,
            "repeated": judged.repeated,
        }))?;
    } else {
        let (style, word) = match verified {
            Some(true) => (super::style_of(Status::Success), "good"),
            Some(false) => (super::style_of(Status::Failure), "bad"),
            None => (super::style_of(Status::Unknown), "no verdict"),
        };
        let attempt = judged.attempt.map_or_else(String::new, |number| format!(", attempt {number}"));
        let text = format!("  {} {}{attempt}", term::line(&found.skill), term::line(&found.name()));
        let before = match (judged.repeated, &judged.receipt) {
            (false, _) => "",
            (true, Some(_)) => "  said before",
            (true, None) => "  there was none",
        };
        output.line(&[(style, word), (Style::new(), &text), (term::FAINT, before)])?;
    }
    output.flush()?;
    Ok(Exit::Done)
}
