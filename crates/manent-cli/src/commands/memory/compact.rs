//! `manent memory compact`: rewrites the file without what was forgotten.

use crate::commands::prelude::*;

/// Rewrite the file without what was forgotten
#[derive(Debug, Args)]
pub(crate) struct MemoryCompactArgs {
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &MemoryCompactArgs) -> Result<Exit, Failure> {
    let done = super::memory(context, args.wait.time)?.compact()?;
    let damaged = done.damaged.as_ref().map(|path| path.display().to_string());
    let json = json!({
        "dropped": done.dropped, "dropped_ever": done.dropped_ever, "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after, "damaged": damaged,
    });
    context.print(&json, |output| {
        if done.dropped == 0 {
            return output.line(&[(term::FAINT, "nothing to remove: nothing in the file is forgotten")]);
        }
        let items = term::counted(done.dropped, "forgotten item");
        let (before, after) = (term::size(done.bytes_before), term::size(done.bytes_after));
        output.done("removed", &format!("{items}; {before} are now {after}"), "")
    })?;
    if let Some(path) = damaged {
        context.warn(&format!("what could not be read is kept in {path}; it may hold what was forgotten"));
    }
    Ok(Exit::Done)
}
