//! `manent restore KEY…`: brings sessions back from the trash to where they were, the newest of each key.

use manent::{Place, StreamId};

use super::{each, named, tell};
use crate::args::Moved;
use crate::context::Context;
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &Moved) -> Result<Exit, Failure> {
    let store = context.store(given.wait.time)?;
    each(context, &given.keys, |text, output| {
        let listed = named(&store, text, |key| store.find_in(Place::Trash, key))?;
        if listed.id.place != Place::Trash {
            let StreamId { key, place, .. } = listed.id;
            let what = format!("{key} is {}, not in the trash: there is nothing to restore", place.word());
            return Err(Failure::new(Exit::Failed, what));
        }
        let restored = store.restore(&listed)?;
        Ok(tell(output, "restored", &restored)?)
    })
}
