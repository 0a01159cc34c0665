//! `manent unarchive KEY…`: makes archived sessions live again, the newest of each key.

use manent::Place;

use super::{each, named, tell};
use crate::args::Moved;
use crate::context::Context;
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &Moved) -> Result<Exit, Failure> {
    let store = context.store(given.wait.time)?;
    each(context, &given.keys, |text, output| {
        let listed = named(&store, text, |key| store.find_in(Place::Archive, key))?;
        let bar = context.spinner(listed.bytes);
        let live = store.unarchive(&listed.id);
        bar.finish_and_clear();
        Ok(tell(output, "unarchived", &live?)?)
    })
}
