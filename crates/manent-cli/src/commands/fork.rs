//! `manent fork KEY [NEWKEY]`: a new session that goes on from a record of another.

use manent::{SessionKey, Store};
use serde_json::json;

use super::{named, tell};
use crate::args::Fork;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &Fork) -> Result<Exit, Failure> {
    let store = context.store(given.wait.time)?;
    let parent = named(&store, &given.key, |key| store.find(key))?.id;
    let forked = match &given.new_key {
        Some(text) => store.fork(&parent, given.at, &context::key(text)?)?,
        None => fork_under_a_free_key(&store, &parent, given.at)?,
    };
    let mut output = context.output();
    if output.json {
        let at = &forked.id;
        output.json(&json!({
            "session": at.key.as_str(), "id": at.id, "status": at.place.word(),
            "parent": parent.key.as_str(), "upto": forked.upto,
        }))?;
    } else {
        tell(&mut output, "forked", &forked.id)?;
    }
    output.flush()?;
    context.detail(&format!("it goes on from record {} of {}", forked.upto, parent.key));
    if forked.copied {
        context.note("the records were copied, because another program may rewrite that file");
    }
    Ok(Exit::Done)
}

fn fork_under_a_free_key(
    store: &Store,
    parent: &manent::StreamId,
    at: Option<u64>,
) -> Result<manent::Forked, Failure> {
    for n in 1..=KEYS_TRIED {
        let more = if n == 1 { String::new() } else { format!("-{n}") };
        let key = SessionKey::new(format!("{}-fork{more}", parent.key))?;
        match store.fork(parent, at, &key) {
            Err(e) if e.is_in_the_way() => {}
            forked => return Ok(forked?),
        }
    }
    Err(Failure::new(Exit::Conflict, format!("{} has many forks; give the new one a key", parent.key)))
}

const KEYS_TRIED: u32 = 1000;
