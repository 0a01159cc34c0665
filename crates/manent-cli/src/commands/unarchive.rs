//! `manent unarchive KEY…`: makes archived sessions live again, the newest of each key.

use manent::Place;

use crate::commands::prelude::*;

pub(crate) type UnarchiveArgs = MovedSessions;

pub(crate) fn run(context: &Context<'_>, args: &UnarchiveArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    for_each_name(context, &args.keys, |text, output| {
        let listed = find_session_by(&store, text, |key| store.find_in(Place::Archive, key))?;
        let bar = context.spinner(listed.bytes);
        let live = store.unarchive(&listed.id);
        bar.finish_and_clear();
        Ok(print_place(output, "unarchived", &live?)?)
    })
}
