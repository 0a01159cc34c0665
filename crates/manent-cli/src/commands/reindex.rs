//! `manent reindex`: makes the index anew. Nothing depends on it: a search brings the index up to date by itself.

use std::time::{Duration, Instant};

use anstyle::Style;
use manent::{Error, ReindexReport};
use serde_json::json;

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let begun = Instant::now();
    let mut catching_up = context.catching_up();
    let made = store.reindex(&mut |done, all| catching_up.tell(done, all));
    drop(catching_up);
    let ReindexReport { sessions, turns, log_bytes, index_bytes } = made.map_err(|e| match &e {
        Error::Index(why) => {
            let hint = "searches answer all the same, only slower; make room or take the obstacle away, and try again";
            Failure::new(Exit::Failed, format!("the index cannot be written: {why}; {hint}"))
        }
        _ => e.into(),
    })?;
    let mut output = context.output();
    if output.json {
        output.json(&json!({
            "sessions": sessions, "turns": turns, "log_bytes": log_bytes, "index_bytes": index_bytes,
        }))?;
    } else {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        let counted = format!(
            "indexed {} session{}, {} turn{}: {} of sessions, {} of index",
            term::count(sessions),
            plural(sessions),
            term::count(turns),
            plural(turns),
            term::size(log_bytes),
            term::size(index_bytes)
        );
        output.line(&[(Style::new(), &counted)])?;
    }
    output.flush()?;
    context.detail(&format!("it took {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(Exit::Done)
}
