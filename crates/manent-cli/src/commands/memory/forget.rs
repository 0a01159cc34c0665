//! `manent memory forget ID…`: from now on these are in no list, no search and no context.

use super::ItemIds;
use crate::commands::prelude::*;

pub(crate) type MemoryForgetArgs = ItemIds;

pub(crate) fn run(context: &Context<'_>, args: &MemoryForgetArgs) -> Result<Exit, Failure> {
    let ItemIds { ids, wait } = args;
    let done = super::memory(context, wait.time)?.forget(ids).map_err(|e| {
        let failure = Failure::from(e);
        let none = if ids.len() > 1 { "; nothing was forgotten" } else { "" };
        Failure::new(failure.exit, format!("{}{none}", failure.message))
    })?;
    let json = json!({"forgotten": done.ids, "active_again": done.active_again});
    context.print(&json, |output| {
        done.ids.iter().try_for_each(|id| output.done("forgotten", &id.to_string(), ""))
    })?;
    for id in &done.active_again {
        context.note(&format!(
            "item {id}, which it had replaced, is active again; `manent memory forget {id}` if not"
        ));
    }
    context.detail("`manent memory compact` removes what is forgotten from the file");
    Ok(Exit::Done)
}
