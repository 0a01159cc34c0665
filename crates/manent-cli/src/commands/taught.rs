//! What runs have taught, for whoever removes them.

use std::collections::HashMap;

use manent::{SessionKey, Store};
use manent_runs::Runs;

use crate::context::Context;
use crate::exit::Failure;

/// Lessons by the sessions whose runs they name. It is found out before these runs go.
pub(super) struct Taught {
    lessons: Result<HashMap<SessionKey, Vec<u64>>, Failure>,
}

impl Taught {
    pub(super) fn by(store: &Store, sessions: impl IntoIterator<Item = SessionKey>) -> Taught {
        Taught { lessons: lessons(store, sessions) }
    }

    /// Says what of runs that are gone the memory still tells.
    pub(super) fn warn(&self, context: &Context<'_>, gone: &[SessionKey]) {
        if gone.is_empty() {
            return;
        }
        match &self.lessons {
            Ok(lessons) => {
                let mut ids: Vec<u64> =
                    gone.iter().filter_map(|key| lessons.get(key)).flatten().copied().collect();
                ids.sort_unstable();
                ids.dedup();
                if ids.is_empty() {
                    return;
                }
                let what = if ids.len() == 1 { "a lesson" } else { "lessons" };
                let ids = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
                context.warn(&format!(
                    "the memory still holds {what} of retrospectives that such runs taught; \
                     `manent memory forget {ids}`, then `manent memory compact`, takes that out"
                ));
            }
            Err(failure) => context.warn(&format!(
                "the memory, which may hold what such runs taught, cannot be read: {}",
                failure.message
            )),
        }
    }
}

fn lessons(
    store: &Store,
    sessions: impl IntoIterator<Item = SessionKey>,
) -> Result<HashMap<SessionKey, Vec<u64>>, Failure> {
    let (memory, runs) = match store.memory() {
        Err(e) if e.is_unsupported() => return Ok(HashMap::new()),
        memory => (memory?, Runs::open(store)?),
    };
    let mut found = HashMap::new();
    for session in sessions {
        let ids = runs.lessons_of(&session, &memory)?;
        found.insert(session, ids);
    }
    Ok(found)
}
