//! One file for each command, all of the same shape: `run(context, what was typed)` gives the exit code.

pub(crate) mod append;
pub(crate) mod repair;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod verify;

use std::path::PathBuf;

use manent::{Listed, SessionKey, Store};

use crate::context;
use crate::exit::Failure;

/// A session file to work on.
struct Target {
    key: SessionKey,
    path: PathBuf,
}

/// A file, and what is wrong about its place; one of the two is always there.
type Found = (Option<Target>, Option<Failure>);

/// The sessions that were named, or every file of the store, sorted by key. A file that does not lie where its key
/// leads comes with what is wrong about it; a name that leads nowhere is only what is wrong.
fn named_or_all(store: &Store, named: &[String]) -> Result<Vec<Found>, Failure> {
    if !named.is_empty() {
        let keys: Vec<SessionKey> = named.iter().map(|text| context::key(text)).collect::<Result<_, _>>()?;
        let target = |key: SessionKey| match store.existing(&key) {
            Ok(path) => (Some(Target { key, path }), None),
            Err(e) => (None, Some(e.into())),
        };
        return Ok(keys.into_iter().map(target).collect());
    }
    let mut listed: Vec<Listed> = store.list()?;
    listed.sort_by(|a, b| (&a.key, &a.path).cmp(&(&b.key, &b.path)));
    let target = |listed: Listed| {
        let misplaced = store.check_place(&listed).err().map(Failure::from);
        (Some(Target { key: listed.key, path: listed.path }), misplaced)
    };
    Ok(listed.into_iter().map(target).collect())
}
