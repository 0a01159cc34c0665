//! Sessions whose logs vanished: `verify` and `doctor` name them until `repair` acknowledges the loss, other commands
//! mention each once.

use manent::backend::Selector;
use manent::{MissingSession, SessionKey, Store};

use crate::commands::prelude::*;

/// Returns the missing sessions that were named, or all of them.
pub(super) fn find(store: &Store, names: &[String]) -> Result<Vec<MissingSession>, Failure> {
    let mut missing = store.missing()?;
    missing.retain(|missing| names.is_empty() || names.iter().any(|name| is_named(missing, name)));
    missing.sort_by(|a, b| (&a.id.key, &a.id.id).cmp(&(&b.id.key, &b.id.id)));
    Ok(missing)
}

/// Returns true if a name on the command line means this session.
pub(super) fn is_named(missing: &MissingSession, name: &str) -> bool {
    let by_id = id_prefix(name).is_some_and(|id| missing.id.id.starts_with(id));
    by_id || missing.id.key.as_str() == name
}

/// Prints the missing sessions. Files of other programs that are gone are listed too, but are not damage.
pub(super) fn print(missing: &[MissingSession], output: &mut Output) -> io::Result<Exit> {
    for missing in missing {
        let (word, color) =
            if missing.ours { ("missing", AnsiColor::Red) } else { ("gone", AnsiColor::Yellow) };
        if output.wants_json {
            output.json(&json!({
                "session": missing.id.key.as_str(), "id": missing.id.id, "status": word,
                "last_seq": missing.last_seq, "bytes": missing.bytes,
            }))?;
            continue;
        }
        let text = format!("  {}  {}", term::line(missing.id.key.as_str()), words(missing));
        output.line(&[(term::bold(color), &term::pad(word, 7)), (Style::new(), &text)])?;
        if missing.ours {
            output.line(&[(term::FAINT, &format!("           {}", advice(missing)))])?;
        }
    }
    let is_loss = missing.iter().any(|missing| missing.ours);
    Ok(if is_loss { Exit::Damage } else { Exit::Done })
}

/// Describes what happened to a missing session.
pub(super) fn words(missing: &MissingSession) -> String {
    let had = format!("it had records up to {}", missing.last_seq);
    if missing.ours {
        format!("its log was removed, emptied or replaced; {had}")
    } else {
        format!("its file, another program's, is no longer there; {had}")
    }
}

/// Returns the advice for a missing session.
pub(super) fn advice(missing: &MissingSession) -> String {
    let word = term::shell_word(missing.id.key.as_str());
    let named = format!("{}{word}", option_guard(&word));
    format!("bring it back from a backup, or `manent repair {named}` acknowledges the loss")
}

/// Acknowledges the losses that were named, or all of them, and prints each.
pub(super) fn acknowledge(store: &Store, names: &[String], output: &mut Output) -> Result<(), Failure> {
    let mut acknowledged = Vec::new();
    if names.is_empty() {
        acknowledged = store.acknowledge_missing(Selector::All)?;
    }
    for missing in find(store, names)?.iter().filter(|_| !names.is_empty()) {
        acknowledged.extend(store.acknowledge_missing(Selector::Key(&missing.id.key))?);
    }
    for missing in &acknowledged {
        let name = missing.id.key.as_str();
        if output.wants_json {
            let word = if missing.ours { "missing" } else { "gone" };
            output.json(&json!({
                "session": name, "id": missing.id.id, "acknowledged": word, "last_seq": missing.last_seq,
            }))?;
            continue;
        }
        output.done("repaired", &term::line(name), "")?;
        output.plain(&format!("           acknowledged: {}", words(missing)))?;
    }
    Ok(())
}

/// Warns of the losses that no command has mentioned yet.
pub(super) fn mention(context: &Context<'_>, store: &Store) {
    store.newly_missing().iter().for_each(|missing| warn(context, missing));
}

fn warn(context: &Context<'_>, missing: &MissingSession) {
    let (what, advice) = (words(missing), advice(missing));
    context.warn(&format!("{} is missing: {what}; {advice}", missing.id.key));
}

/// Mentions the losses that no command has mentioned yet when a chat begins, and warns if it begins anew a session that
/// vanished. Losses that cannot be looked for do not keep anybody from chatting.
pub(super) fn mention_in_chat(context: &Context<'_>, store: &Store, key: &SessionKey) {
    let is_warned = warn_of_new(context, store, key);
    let missing = store.look_for_newly_missing().unwrap_or_default();
    let is_mentioned = |missing: &&MissingSession| is_warned && missing.id.key == *key;
    missing.iter().filter(|missing| !is_mentioned(missing)).for_each(|missing| warn(context, missing));
}

/// Warns if the next turn of a session begins it anew although there was one, which vanished. Returns true if so.
pub(crate) fn warn_of_new(context: &Context<'_>, store: &Store, key: &SessionKey) -> bool {
    let is_new = store.tail(key, 1).is_ok_and(|tail| tail.turns().next().is_none());
    is_new && warn_of(context, store, key)
}

/// Warns that a session is begun anew if there was one of its key, which vanished. Returns true if so.
pub(super) fn warn_of(context: &Context<'_>, store: &Store, key: &SessionKey) -> bool {
    // An error here is no reason not to append.
    let Ok(Some(missing)) = store.missing_of(key) else { return false };
    let what = format!("an earlier session of {key} is missing: {}", words(&missing));
    context.warn(&format!("{what}; this is a new one; {}", advice(&missing)));
    true
}

/// Explains why a session is not found, if the reason is that its log vanished.
pub(super) fn explain(store: &Store, name: &str, failure: Failure) -> Failure {
    let missing = match session_key(name) {
        Ok(key) if failure.exit == Exit::NotFound => store.missing_of(&key).ok().flatten(),
        _ => None,
    };
    missing.map_or(failure, |missing| {
        Failure::not_found(format!("{name} is missing: {}; {}", words(&missing), advice(&missing)))
    })
}
