//! `manent fork KEY [NEWKEY]`: a new session that goes on from a record of another.

use manent::{Forked, SessionKey, Store, StreamId};

use crate::commands::prelude::*;

/// Begin a new session that goes on from a record of another, without copying it
#[derive(Debug, Args)]
#[command(after_help = FORK_EXAMPLES)]
pub(crate) struct ForkArgs {
    /// The session: its key, or @ and the beginning of its id
    key: String,
    /// The key of the new session [default: the old one with -fork behind it]
    #[arg(value_name = "NEWKEY")]
    new_key: Option<String>,
    /// The last record to share [default: the last there is]
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &ForkArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    let parent = find_session(&store, &args.key)?.id;
    let forked = match &args.new_key {
        Some(text) => store.fork(&parent, args.at, &session_key(text)?)?,
        None => fork_under_a_free_key(&store, &parent, args.at)?,
    };
    let at = &forked.id;
    let json = json!({
        "session": at.key.as_str(), "id": at.id, "status": at.place.word(),
        "parent": parent.key.as_str(), "upto": forked.upto,
    });
    context.print(&json, |output| print_place(output, "forked", at))?;
    context.detail(&format!("it goes on from record {} of {}", forked.upto, parent.key));
    if forked.copied {
        context.note("the records were copied, because another program may rewrite that file");
    }
    Ok(Exit::Done)
}

fn fork_under_a_free_key(store: &Store, parent: &StreamId, at: Option<u64>) -> Result<Forked, Failure> {
    for n in 1..=KEYS_TRIED {
        let more = if n == 1 { String::new() } else { format!("-{n}") };
        let key = SessionKey::new(format!("{}-fork{more}", parent.key))?;
        match store.fork(parent, at, &key) {
            Err(e) if e.is_in_the_way() => {}
            forked => return Ok(forked?),
        }
    }
    Err(Failure::conflict(format!("{} has many forks; give the new one a key", parent.key)))
}

const KEYS_TRIED: u32 = 1000;

const FORK_EXAMPLES: &str = "\
Examples:
  manent fork work                    # go on from the end, as work-fork
  manent fork work --at 12 other-way  # go on from record 12";
