//! `manent title KEY TEXT`: a record like any other, so that nothing is rewritten.

use serde_json::json;

use super::named;
use crate::args::Title;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Title) -> Result<Exit, Failure> {
    let store = context.store(given.wait.time)?;
    let at = named(&store, &given.key, |key| store.find(key))?.id;
    if at.place != manent::Place::Live {
        let hint = "`manent unarchive` or `manent restore` makes it live";
        return Err(Failure::not_live(&at, hint));
    }
    let receipt = store.set_title(&at.key, &given.text)?;
    let mut output = context.output();
    if output.json {
        output.json(&json!({
            "session": at.key.as_str(), "id": &*receipt.id, "seq": receipt.seq,
            "offset": receipt.position.raw(), "durability": receipt.durability.word(),
        }))?;
    } else {
        let key = term::line(at.key.as_str());
        output.line(&[(anstyle::Style::new(), &format!("{key} {}", receipt.seq))])?;
    }
    output.flush()?;
    Ok(Exit::Done)
}
