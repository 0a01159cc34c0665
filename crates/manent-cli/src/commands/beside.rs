//! The logs that stand beside the sessions: they are checked and repaired like any.

use std::borrow::Cow;

use manent::consolidate::Consolidation;
use manent::log::VerifyReport;
use manent::{Memory, Repaired, SessionKey, Store};
use manent_runs::{Error, Runs};
use serde_json::{Value, json};

/// A log beside the sessions.
pub(super) enum Beside {
    Memory(Memory),
    Inbox(Memory),
    Journal(Consolidation),
    /// The runs of one session.
    Runs(Runs, SessionKey),
}

impl Beside {
    /// Those of a store; one that holds only another program's sessions has none.
    pub(super) fn all(store: &Store) -> Result<Vec<Beside>, Error> {
        let memory = match store.memory() {
            Err(e) if e.is_unsupported() => return Ok(Vec::new()),
            memory => memory?,
        };
        let mut all = vec![
            Beside::Memory(memory),
            Beside::Inbox(store.inbox()?),
            Beside::Journal(store.consolidation()?),
        ];
        let runs = Runs::open(store)?;
        all.extend(runs.sessions()?.into_iter().map(|listed| Beside::Runs(runs.clone(), listed.id.key)));
        Ok(all)
    }

    /// Of each key that was named, the runs, if there are any.
    pub(super) fn named(store: &Store, keys: &[String]) -> Vec<Option<Beside>> {
        let runs = Runs::open(store).ok();
        let runs_of = |text: &String| {
            let key = SessionKey::new(text.as_str()).ok()?;
            let runs = runs.clone()?;
            runs.log(&key).ok().flatten()?;
            Some(Beside::Runs(runs, key))
        };
        keys.iter().map(runs_of).collect()
    }

    /// What the JSON of it begins with.
    pub(super) fn head(&self) -> Value {
        match self {
            Beside::Memory(items) => json!({"memory": items.path().to_string_lossy()}),
            Beside::Inbox(items) => json!({"inbox": items.path().to_string_lossy()}),
            Beside::Journal(journal) => json!({"consolidation": journal.path().to_string_lossy()}),
            Beside::Runs(_, session) => json!({"runs": session.as_str()}),
        }
    }

    /// For people.
    pub(super) fn name(&self) -> Cow<'static, str> {
        match self {
            Beside::Memory(_) => "the memory".into(),
            Beside::Inbox(_) => "the inbox".into(),
            Beside::Journal(_) => "the journal of consolidation".into(),
            Beside::Runs(_, session) => format!("the runs of {session}").into(),
        }
    }

    /// Nothing: there is none.
    pub(super) fn verify(&self) -> Result<Option<VerifyReport>, Error> {
        match self {
            Beside::Memory(items) | Beside::Inbox(items) => Ok(items.verify()?),
            Beside::Journal(journal) => Ok(journal.verify()?),
            Beside::Runs(runs, session) => runs.verify(session),
        }
    }

    pub(super) fn repair(&self) -> Result<Repaired, Error> {
        match self {
            Beside::Memory(items) | Beside::Inbox(items) => Ok(items.repair()?),
            Beside::Journal(journal) => Ok(journal.repair()?),
            Beside::Runs(runs, session) => runs.repair(session),
        }
    }
}
