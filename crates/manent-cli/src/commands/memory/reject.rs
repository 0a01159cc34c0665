//! `manent memory reject ID…`: proposed items are thrown away.

use super::ItemIds;
use crate::commands::prelude::*;

pub(crate) type MemoryRejectArgs = ItemIds;

pub(crate) fn run(context: &Context<'_>, args: &MemoryRejectArgs) -> Result<Exit, Failure> {
    context.store(args.wait.time)?.consolidation()?.reject(&args.ids)?;
    let mut output = context.output();
    for id in &args.ids {
        if output.wants_json {
            output.json(&json!({"rejected": id}))?;
        } else {
            output.done("rejected", &id.to_string(), "")?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}
