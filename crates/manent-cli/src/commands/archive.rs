//! `manent archive KEY…`: puts sessions away. They leave the list, are packed, and are read as before.

use manent::Place;

use super::{each, named, tell};
use crate::args::Moved;
use crate::context::Context;
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &Moved) -> Result<Exit, Failure> {
    let store = context.store(given.wait.time)?;
    each(context, &given.keys, |text, output| {
        // One whose packing was interrupted is no longer live; it is found among the archived, and packed now.
        let listed = named(&store, text, |key| store.find(key))?;
        let was_live = listed.id.place == Place::Live;
        let bar = context.progress(listed.bytes);
        let archived = store.archive(&listed.id, &mut |done, all| {
            bar.set_length(all);
            bar.set_position(done);
        });
        bar.finish_and_clear();
        let archived = archived?;
        if !was_live {
            context.note(&format!("{} was archived already", archived.key));
        }
        Ok(tell(output, "archived", &archived)?)
    })
}
