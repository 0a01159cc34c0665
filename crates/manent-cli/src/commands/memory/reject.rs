//! `manent memory reject ID…`: proposed items are thrown away.

use super::ItemIds;
use crate::commands::prelude::*;

/// Throw away what waits in the inbox
#[derive(Debug, Args)]
pub(crate) struct MemoryRejectArgs {
    #[command(flatten)]
    items: ItemIds,
}

pub(crate) fn run(context: &Context<'_>, args: &MemoryRejectArgs) -> Result<Exit, Failure> {
    context.store(args.items.wait.time)?.consolidation()?.reject(&args.items.ids)?;
    let mut output = context.output();
    for id in &args.items.ids {
        if output.json {
            output.json(&json!({"rejected": id}))?;
        } else {
            output.done("rejected", &id.to_string(), "")?;
        }
    }
    output.finish()
}
