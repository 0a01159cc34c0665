//! `manent title KEY TEXT`: gives a session a title, by a record like any other, so that nothing is rewritten.

use manent::Place;

use crate::commands::prelude::*;

/// Give a session a title
#[derive(Debug, Args)]
pub(crate) struct TitleArgs {
    /// The session
    key: String,
    /// The title; empty: the first thing the user said, as before
    text: String,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &TitleArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    let at = find_session(&store, &args.key)?.id;
    if at.place != Place::Live {
        return Err(Failure::not_live(&at, "`manent unarchive` or `manent restore` makes it live"));
    }
    let receipt = store.set_title(&at.key, &args.text)?;
    let mut output = context.output();
    output.receipt(&at.key, &receipt)?;
    output.flush()?;
    Ok(Exit::Done)
}
