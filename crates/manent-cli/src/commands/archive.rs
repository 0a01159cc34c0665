//! `manent archive KEY…`: puts sessions away. They leave the list, are packed, and are read as before.

use manent::Place;

use crate::commands::prelude::*;

pub(crate) type ArchiveArgs = MovedSessions;

pub(crate) fn run(context: &Context<'_>, args: &ArchiveArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    for_each_name(context, &args.keys, |text, output| {
        // A session whose packing was interrupted is no longer live; it is found in the archive, and packed now.
        let listed = find_session(&store, text)?;
        let archived = context.with_progress(|progress| store.archive(&listed.id, progress))?;
        if listed.id.place != Place::Live {
            context.note(&format!("{} was archived already", archived.key));
        }
        Ok(print_place(output, "archived", &archived)?)
    })
}
