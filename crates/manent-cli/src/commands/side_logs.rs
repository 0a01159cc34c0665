//! The logs beside the sessions: memory, inbox, journal of consolidation and runs. `verify` and `repair` treat them
//! like sessions.

use manent::consolidate::Consolidation;
use manent::log::VerifyReport;
use manent::{Memory, Repaired, SessionKey, Store};
use manent_runs::{Error, Runs};
use serde_json::{Value, json};

/// A log beside the sessions.
pub(super) enum SideLog {
    /// The memory or the inbox, by the name that is given.
    Items(&'static str, Memory),
    Journal(Consolidation),
    /// The runs of one session.
    Runs(Runs, SessionKey),
}

impl SideLog {
    /// Returns the side logs of a store. A store of another program, which has only sessions, has none.
    pub(super) fn all(store: &Store) -> Result<Vec<SideLog>, Error> {
        let memory = match store.memory() {
            Err(e) if e.is_unsupported() => return Ok(Vec::new()),
            memory => memory?,
        };
        let mut all = vec![
            SideLog::Items("memory", memory),
            SideLog::Items("inbox", store.inbox()?),
            SideLog::Journal(store.consolidation()?),
        ];
        let runs = Runs::open(store)?;
        all.extend(runs.sessions()?.into_iter().map(|listed| SideLog::Runs(runs.clone(), listed.id.key)));
        Ok(all)
    }

    /// Returns for each name the runs of that key, if there are any.
    pub(super) fn named(store: &Store, keys: &[String]) -> Vec<Option<SideLog>> {
        let runs = Runs::open(store).ok();
        let runs_of = |text: &String| {
            let key = SessionKey::new(text.as_str()).ok()?;
            let runs = runs.clone()?;
            runs.log(&key).ok().flatten()?;
            Some(SideLog::Runs(runs, key))
        };
        keys.iter().map(runs_of).collect()
    }

    /// Returns the members with which the JSON of this log begins.
    pub(super) fn json_head(&self) -> Value {
        match self {
            SideLog::Items(name, items) => json!({*name: items.path().to_string_lossy()}),
            SideLog::Journal(journal) => json!({"consolidation": journal.path().to_string_lossy()}),
            SideLog::Runs(_, session) => json!({"runs": session.as_str()}),
        }
    }

    /// Returns the name of this log for people.
    pub(super) fn name(&self) -> String {
        match self {
            SideLog::Items(name, _) => format!("the {name}"),
            SideLog::Journal(_) => "the journal of consolidation".to_owned(),
            SideLog::Runs(_, session) => format!("the runs of {session}"),
        }
    }

    /// Verifies the log. Returns `None` if it does not exist.
    pub(super) fn verify(&self) -> Result<Option<VerifyReport>, Error> {
        match self {
            SideLog::Items(_, items) => Ok(items.verify()?),
            SideLog::Journal(journal) => Ok(journal.verify()?),
            SideLog::Runs(runs, session) => runs.verify(session),
        }
    }

    pub(super) fn repair(&self) -> Result<Repaired, Error> {
        match self {
            SideLog::Items(_, items) => Ok(items.repair()?),
            SideLog::Journal(journal) => Ok(journal.repair()?),
            SideLog::Runs(runs, session) => runs.repair(session),
        }
    }
}
