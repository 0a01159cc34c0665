//! Says which command helps, for errors of the library, whose own messages name no commands.

use std::fmt::Display;

use manent::backend::{Error as StoreError, Exposure};
use manent::{Error, Place, Space};
use manent_agent::config::ConfigError;
use manent_agent::skills::SkillError;
use manent_runs::EntryError;
use manent_runs::dataset::DatasetError;
use manent_runs::retrospective::NO_BEGINNING;

/// Returns the message of an error with what to do next.
pub(crate) fn message(error: &Error) -> String {
    if let Some(StoreError::Unsupported { store, space }) = error.store()
        && *space != Space::Sessions
    {
        let hint = "choose a home of its own with --home";
        return format!("{store} keeps sessions of another program and nothing else; {hint}");
    }
    with_hint(error, hint(error).as_deref())
}

fn with_hint(error: &impl Display, hint: Option<&str>) -> String {
    hint.map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}"))
}

/// Returns the message of an error about runs with what to do next.
pub(crate) fn message_of_runs(error: &manent_runs::Error) -> String {
    let hint = match error {
        manent_runs::Error::Manent(error) => return message(error),
        manent_runs::Error::NoRun { .. } => Some("`manent run list` shows what is there"),
        manent_runs::Error::Run(EntryError::Verdict) => Some("`manent run judge` gives a verdict"),
        _ => None,
    };
    with_hint(error, hint)
}

/// Returns the message of an error about a data set with what to do next.
pub(crate) fn message_of_dataset(error: &DatasetError) -> String {
    let is_full = matches!(error, DatasetError::NotEmpty { .. });
    with_hint(error, is_full.then_some("--force replaces the data set in it"))
}

/// Returns the message of an error about skills with what to do next.
pub(crate) fn message_of_skills(error: &SkillError) -> String {
    let is_unknown = matches!(error, SkillError::NoSuch(_));
    with_hint(error, is_unknown.then_some("`manent skills list` has those there are"))
}

/// Returns the message of an error in the configuration with what to do next.
pub(crate) fn message_of_config(error: &ConfigError) -> String {
    let is_unknown = matches!(error, ConfigError::Unknown { .. });
    with_hint(error, is_unknown.then_some("`manent config` lists what can be set"))
}

/// Adds to a note of a report which option would change what it says.
pub(crate) fn complete_note(note: &mut String) {
    if note == NO_BEGINNING {
        note.push_str(" (--since gives one)");
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
