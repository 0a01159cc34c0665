//! What the runs of a session have taught: lessons in the memory that name one of them.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use manent::memory::{Filter, Memory};
use manent_store::SessionKey;

use super::lessons::{RUN, TAG, tag};
use super::tally::id_of;
use crate::error::Result;
use crate::runs::Runs;

impl Runs {
    /// The items of the memory that retrospectives wrote and that name a run of this session, replaced ones included.
    /// One that rests on runs of this session alone is always among them.
    pub fn lessons_of(&self, session: &SessionKey, memory: &Memory) -> Result<Vec<u64>> {
        let mut by_run: HashMap<String, Vec<u64>> = HashMap::new();
        for replaced in [false, true] {
            let ours = Filter { replaced, tags: vec![TAG.to_owned()], ..Filter::default() };
            for item in memory.items(&ours)? {
                for run in item.tags.into_iter().filter(|tag| tag.starts_with(RUN)) {
                    by_run.entry(run).or_default().push(item.id);
                }
            }
        }
        let mut ids = BTreeSet::new();
        if by_run.is_empty() {
            return Ok(Vec::new());
        }
        self.each(session, |run| {
            let name = tag(RUN, &id_of(session.as_str(), run));
            ids.extend(name.and_then(|name| by_run.get(&name)).into_iter().flatten());
            ControlFlow::Continue(())
        })?;
        Ok(ids.into_iter().collect())
    }
}
