//! `manent memory accept ID…`: proposed items become remembered ones.

use super::ItemIds;
use crate::commands::prelude::*;

pub(crate) type MemoryAcceptArgs = ItemIds;

pub(crate) fn run(context: &Context<'_>, args: &MemoryAcceptArgs) -> Result<Exit, Failure> {
    let accepted = context.store(args.wait.time)?.consolidation()?.accept(&args.ids)?;
    let mut output = context.output();
    for one in accepted {
        match one.item {
            Some(item) if output.wants_json => output.json_line(&item.line)?,
            Some(item) => {
                let instead = item.replaces.map(|id| format!(" instead of {id}")).unwrap_or_default();
                output.done("remembered", &format!("{}  {}{instead}", item.id, item.kind), "")?;
            }
            None => context.note(&format!("{} is known already, and was taken from the inbox", one.proposed)),
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}
