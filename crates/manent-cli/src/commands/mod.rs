//! One file for each command, all of the same shape: `run(context, what was typed)` gives the exit code.

pub(crate) mod append;
pub(crate) mod repair;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod verify;

use manent::{SessionKey, Store};

use crate::context;
use crate::exit::Failure;

/// The sessions that were named, or all of them, sorted by key.
fn named_or_all(store: &Store, named: &[String]) -> Result<Vec<SessionKey>, Failure> {
    if !named.is_empty() {
        return named.iter().map(|text| context::key(text)).collect();
    }
    let mut keys: Vec<SessionKey> = store.list()?.into_iter().map(|listed| listed.key).collect();
    keys.sort();
    Ok(keys)
}
