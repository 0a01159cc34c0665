//! Says which command helps, for errors of the library, whose own messages name no commands.

use manent::backend::{Error as StoreError, Exposure};
use manent::{Error, Place, Space};

/// Returns the message of an error with what to do next.
pub(crate) fn message(error: &Error) -> String {
    if let Some(StoreError::Unsupported { store, space }) = error.store()
        && *space != Space::Sessions
    {
        let hint = "choose a home of its own with --home";
        return format!("{store} keeps sessions of another program and nothing else; {hint}");
    }
    match hint(error) {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    }
}

/// Returns the message of an error about runs with what to do next.
pub(crate) fn message_of_runs(error: &manent_runs::Error) -> String {
    match error {
        manent_runs::Error::Manent(error) => message(error),
        manent_runs::Error::NoRun { .. } => format!("{error}; `manent run list` shows what is there"),
        _ => error.to_string(),
    }
}

fn hint(error: &Error) -> Option<String> {
    let hint = match error {
        Error::NoItem { .. } => "`manent memory list` shows what is there",
        Error::NotProposed { .. } => "`manent memory inbox` shows what is there",
        Error::NotPacked { id, .. } => return Some(format!("then `manent archive @{id}` packs it")),
        _ => store_hint(error.store()?)?,
    };
    Some(hint.to_owned())
}

fn store_hint(error: &StoreError) -> Option<&'static str> {
    Some(match error {
        StoreError::NotFound { space: Space::Sessions, place, .. } => match place {
            None | Some(Place::Live) => "`manent sessions` lists what is there",
            Some(Place::Archive) => "`manent sessions --archived` lists what is there",
            Some(Place::Trash) => "`manent sessions --trash` lists what is there",
        },
        StoreError::NotLive { place: Place::Trash, .. } => "`manent restore` brings it back",
        StoreError::Archive { .. } => {
            "what can be read is saved by `manent show … --json | manent append NEW --jsonl`"
        }
        StoreError::Exposed { why: Exposure::OwnedBy(_), .. } => "--home names another directory",
        error if error.is_unknown() => "`manent append --key` gives a record such a key",
        _ => return None,
    })
}
