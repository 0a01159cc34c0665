//! `manent memory compact`: rewrites the file without what was forgotten.

use anstyle::{AnsiColor, Style};
use serde_json::json;

use crate::args::Wait;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Wait) -> Result<Exit, Failure> {
    let memory = super::memory(context, given.time)?;
    let done = memory.compact()?;
    let mut output = context.output();
    let damaged = done.damaged.as_ref().map(|path| path.display().to_string());
    if output.json {
        output.json(&json!({
            "dropped": done.dropped, "dropped_ever": done.dropped_ever, "bytes_before": done.bytes_before,
            "bytes_after": done.bytes_after, "damaged": damaged,
        }))?;
    } else if done.dropped == 0 {
        output.line(&[(term::FAINT, "nothing to remove: nothing in the file is forgotten")])?;
    } else {
        let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
        let plural = if done.dropped == 1 { "" } else { "s" };
        let (before, after) = (term::size(done.bytes_before), term::size(done.bytes_after));
        let what = format!(" {} forgotten item{plural}; {before} are now {after}", term::count(done.dropped));
        output.line(&[(style, "removed"), (Style::new(), &what)])?;
    }
    output.flush()?;
    if let Some(path) = damaged {
        context.warn(&format!("what could not be read is kept in {path}; it may hold what was forgotten"));
    }
    Ok(Exit::Done)
}
