//! The run that is meant: by its id or the beginning of it, or by its session and a number.

use std::ops::ControlFlow;

use manent::SessionKey;
use manent_runs::{Run, Runs};

use crate::commands::prelude::*;

/// A run that is meant.
pub(super) struct FoundRun {
    pub(super) session: SessionKey,
    pub(super) seq: u64,
    /// Empty if it has none.
    pub(super) run_id: String,
    pub(super) skill: String,
}

impl FoundRun {
    fn new(session: &SessionKey, run: &Run<'_>) -> FoundRun {
        FoundRun {
            session: session.clone(),
            seq: run.seq,
            run_id: run.run_id.to_string(),
            skill: run.skill.to_string(),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.session, self.seq)
    }
}

/// Finds it, in one session or in all of them.
pub(super) fn find(
    context: &Context<'_>,
    runs: &Runs,
    text: &str,
    only: Option<&SessionKey>,
) -> Result<FoundRun, Failure> {
    if let Some((session, seq)) =
        place_in(text).filter(|(session, _)| only.is_none_or(|only| only == session))
        && runs.log(&session)?.is_some()
        && let Some(found) = by_number(runs, &session, seq)?
    {
        return Ok(found);
    }
    let mut found = by_id(context, runs, text, only)?;
    if found.len() > 1 {
        let places: Vec<String> = found.iter().map(FoundRun::name).collect();
        return Err(Failure::usage(format!("{text:?} is the beginning of several: {}", places.join(", "))));
    }
    found.pop().ok_or_else(|| {
        Failure::not_found(format!("there is no run {text:?}; `manent run list` shows what is there"))
    })
}

fn place_in(text: &str) -> Option<(SessionKey, u64)> {
    let (session, seq) = text.rsplit_once(':')?;
    Some((SessionKey::new(session).ok()?, seq.parse().ok()?))
}

/// The run that a record is about: of one that began a run which came to its end, that end.
fn by_number(runs: &Runs, session: &SessionKey, seq: u64) -> Result<Option<FoundRun>, Failure> {
    let Some(run_id) = runs.run_of(session, seq)? else { return Ok(None) };
    let mut found = None;
    runs.each(session, |run| {
        if run.seq != seq && (run_id.is_empty() || run.run_id != run_id) {
            return ControlFlow::Continue(());
        }
        found = Some(FoundRun::new(session, run));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The runs whose id begins so; the one whose id it is, if there is one.
fn by_id(
    context: &Context<'_>,
    runs: &Runs,
    id: &str,
    only: Option<&SessionKey>,
) -> Result<Vec<FoundRun>, Failure> {
    let mut found: Vec<FoundRun> = Vec::new();
    let sessions = match only {
        Some(only) => vec![only.clone()],
        None => runs.sessions()?.into_iter().map(|listed| listed.id.key).collect(),
    };
    for session in sessions {
        let mut exact = None;
        let read = runs.each(&session, |run| {
            let is_it = run.run_id == id;
            if is_it || (id.len() >= ID_CHARS_MIN && run.run_id.starts_with(id) && found.len() < FOUND_MAX) {
                let one = FoundRun::new(&session, run);
                if is_it { exact = Some(one) } else { found.push(one) }
            }
            if is_it { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match read {
            Ok(seen) => super::warn_of_damage(context, runs, &session, &seen),
            // One log that cannot be read hides no other.
            Err(e) => context.complain(&e.into()),
        }
        if let Some(exact) = exact {
            return Ok(vec![exact]);
        }
    }
    Ok(found)
}

/// Less of an id is too little to mean one.
const ID_CHARS_MIN: usize = 8;
/// So many are named where only one can be meant.
const FOUND_MAX: usize = 5;
