//! `manent reindex`: makes the index anew. Nothing depends on it: a search brings the index up to date by itself.

use std::time::Instant;

use manent::{Error, ReindexReport};

use crate::commands::prelude::*;

/// Make the index anew from the sessions
#[derive(Debug, Args)]
pub(crate) struct ReindexArgs {}

pub(crate) fn run(context: &Context<'_>, _args: &ReindexArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let begun = Instant::now();
    let made = context.with_progress(|progress| store.reindex(progress));
    let ReindexReport { sessions, turns, log_bytes, index_bytes } = made.map_err(|e| match &e {
        Error::Index(why) => {
            let hint = "searches answer all the same, only slower; make room or take the obstacle away, and try again";
            Failure::failed(format!("the index cannot be written: {why}; {hint}"))
        }
        _ => e.into(),
    })?;
    let json = json!({
        "sessions": sessions, "turns": turns, "log_bytes": log_bytes, "index_bytes": index_bytes,
    });
    let (sessions, turns) = (term::counted(sessions, "session"), term::counted(turns, "turn"));
    let (logs, index) = (term::size(log_bytes), term::size(index_bytes));
    let text = format!("indexed {sessions}, {turns}: {logs} of sessions, {index} of index");
    context.print(&json, |output| output.plain(&text))?;
    context.detail(&format!("it took {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(Exit::Done)
}
