//! What runs have taught: lessons of retrospectives in the memory, by the runs that they name.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use manent::memory::Filter;
use manent::{SessionKey, Store};

use crate::context::Context;
use crate::exit::Failure;

/// Lessons by the sessions whose runs they rest on. It is found out before these runs go.
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
    let mut by_run: HashMap<String, Vec<u64>> = HashMap::new();
    let memory = match store.memory() {
        Err(manent::Error::NoRoom { .. }) => return Ok(HashMap::new()),
        memory => memory?,
    };
    for replaced in [false, true] {
        let ours = Filter { replaced, tags: vec!["retro".to_owned()], ..Filter::default() };
        for item in memory.items(&ours)? {
            for run in item.tags.iter().filter_map(|tag| tag.strip_prefix("run:")) {
                by_run.entry(run.to_owned()).or_default().push(item.id);
            }
        }
    }
    let mut found = HashMap::new();
    if by_run.is_empty() {
        return Ok(found);
    }
    let runs = store.runs()?;
    for session in sessions {
        let mut ids = HashSet::new();
        runs.each(&session, |run| {
            let by_place = || by_run.get(&format!("{session}:{}", run.seq));
            ids.extend(by_run.get(run.run_id.trim()).or_else(by_place).into_iter().flatten());
            ControlFlow::Continue(())
        })?;
        found.insert(session, ids.into_iter().collect());
    }
    Ok(found)
}
