//! `manent archive KEY…`: puts sessions away. They leave the list, are packed, and are read as before.

use manent::Place;

use crate::commands::prelude::*;

/// Put sessions away, packed; they are read as before
#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    sessions: MovedSessions,
}

pub(crate) fn run(context: &Context<'_>, args: &ArchiveArgs) -> Result<Exit, Failure> {
    let store = context.store(args.sessions.wait.time)?;
    for_each_name(context, &args.sessions.keys, |text, output| {
        // A session whose packing was interrupted is no longer live; it is found in the archive, and packed now.
        let listed = find_session(&store, text)?;
        let archived = context.with_progress(|progress| store.archive(&listed.id, progress))?;
        if listed.id.place != Place::Live {
            context.note(&format!("{} was archived already", archived.key));
        }
        Ok(print_place(output, "archived", &archived)?)
    })
}
