//! `manent restore KEY…`: brings sessions back from the trash to where they were, the newest of each key.

use manent::{Place, StreamId};

use crate::commands::prelude::*;

pub(crate) type RestoreArgs = MovedSessions;

pub(crate) fn run(context: &Context<'_>, args: &RestoreArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    for_each_name(context, &args.keys, |text, output| {
        let listed = find_session_by(&store, text, |key| store.find_in(Place::Trash, key))?;
        if listed.id.place != Place::Trash {
            let StreamId { key, place, .. } = listed.id;
            let what = format!("{key} is {}, not in the trash: there is nothing to restore", place.word());
            return Err(Failure::failed(what));
        }
        let restored = store.restore(&listed)?;
        Ok(print_place(output, "restored", &restored)?)
    })
}
