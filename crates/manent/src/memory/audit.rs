//! How good the memory is: what is in it twice, what rests on nothing, what nobody needs.

use std::collections::HashMap;

use super::comparison::{self, Fingerprint};
use super::provenance::Provenance;
use super::{Counts, Filter, Kind, Memory};
use crate::error::Result;
use crate::secrets::secrets;

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audit {
    /// What is in the file.
    pub counts: Counts,
    /// Lines that cannot be read.
    pub damaged: u64,
    /// Items that repeat an older one, to the letter.
    pub same: Rate,
    /// Items that nearly do.
    pub near: Rate,
    /// Items that do not rest on the word of a person: no quote, or one that is not where it should be.
    pub ungrounded: Rate,
    /// Of these: items whose quote was said by a model or a tool.
    pub not_said_by_user: Rate,
    /// Items that look like credentials.
    pub secret: Rate,
    /// Items that were never put into a context.
    pub never_recalled: Rate,
    /// Items that may contradict another one.
    pub contradictory: Rate,
    /// Items to which any of this applies, but for not having been recalled.
    pub flawed: Rate,
    /// Those that repeat each other: an older one and a newer one. Some of them, if there are very many.
    pub same_pairs: Vec<Pair>,
    /// Those that nearly do.
    pub near_pairs: Vec<Pair>,
    /// Those that may contradict each other.
    pub contradictions: Vec<Pair>,
}

/// How many items, and which: some of them, if there are very many.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rate {
    /// How many.
    pub items: usize,
    /// Of all that are active, between 0 and 1.
    pub rate: f64,
    /// Their ids, newest first.
    pub ids: Vec<u64>,
}

/// Two items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The one with the lower id.
    pub older: u64,
    /// The other.
    pub newer: u64,
}

impl Memory {
    /// Looks at every active item.
    pub fn audit(&self) -> Result<Audit> {
        let recalls = self.recalls()?;
        let mut seen: Vec<(Fingerprint, Flaws)> = Vec::new();
        let mut failed = None;
        self.each(&Filter::default(), |item| {
            let provenance = match self.provenance(&item.source) {
                Ok(provenance) => provenance,
                Err(e) => {
                    failed = Some(e);
                    return false;
                }
            };
            let day = (item.kind == Kind::Daily).then(|| item.at_ms.div_euclid(DAY_MS));
            let flaws = Flaws {
                ungrounded: !provenance.is_grounded(),
                by_others: matches!(provenance, Provenance::Quoted { .. }) && !provenance.is_grounded(),
                secret: !secrets(&item.content).is_empty(),
                unrecalled: !recalls.contains_key(&item.id),
                ..Flaws::default()
            };
            seen.push((Fingerprint::new(item.id, &item.content, day), flaws));
            true
        })?;
        if let Some(e) = failed {
            return Err(e);
        }
        let mut audit = judge(seen);
        audit.counts = self.counts()?;
        audit.damaged = self.damage()?.iter().map(|damage| damage.lines.max(1)).sum();
        Ok(audit)
    }
}

/// `seen` is newest first.
#[expect(clippy::cast_precision_loss, reason = "a rate, to be read by people")]
fn judge(seen: Vec<(Fingerprint, Flaws)>) -> Audit {
    let all = seen.len();
    let mut flaws: HashMap<u64, Flaws> = HashMap::new();
    let mut order = Vec::with_capacity(all);
    let mut traits = Vec::with_capacity(all);
    for (of, flaw) in seen {
        order.push(of.id);
        flaws.insert(of.id, flaw);
        traits.push(of);
    }
    // Oldest first: of two that say the same, the newer one repeats the older.
    traits.reverse();
    let alike = comparison::compare(&traits);
    let mut mark = |id: u64, set: fn(&mut Flaws)| set(flaws.entry(id).or_default());
    alike.same.iter().for_each(|(_, newer)| mark(*newer, |flaw| flaw.same = true));
    alike.near.iter().for_each(|(_, newer)| mark(*newer, |flaw| flaw.near = true));
    for (a, b) in &alike.contradictory {
        mark(*a, |flaw| flaw.against = true);
        mark(*b, |flaw| flaw.against = true);
    }
    let rate = |has: fn(&Flaws) -> bool| {
        let with = order.iter().filter(|id| flaws.get(*id).is_some_and(has));
        let items = with.clone().count();
        let rate = if all == 0 { 0.0 } else { items as f64 / all as f64 };
        Rate { items, rate, ids: with.take(EXAMPLES_MAX).copied().collect() }
    };
    Audit {
        counts: Counts::default(),
        damaged: 0,
        same: rate(|flaw| flaw.same),
        near: rate(|flaw| flaw.near),
        ungrounded: rate(|flaw| flaw.ungrounded),
        not_said_by_user: rate(|flaw| flaw.by_others),
        secret: rate(|flaw| flaw.secret),
        never_recalled: rate(|flaw| flaw.unrecalled),
        contradictory: rate(|flaw| flaw.against),
        flawed: rate(|flaw| flaw.same || flaw.near || flaw.ungrounded || flaw.secret || flaw.against),
        same_pairs: pairs(&alike.same),
        near_pairs: pairs(&alike.near),
        contradictions: pairs(&alike.contradictory),
    }
}

#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one question, and they are asked one by one")]
struct Flaws {
    same: bool,
    near: bool,
    ungrounded: bool,
    by_others: bool,
    secret: bool,
    unrecalled: bool,
    against: bool,
}

fn pairs(of: &[(u64, u64)]) -> Vec<Pair> {
    of.iter().take(EXAMPLES_MAX).map(|(older, newer)| Pair { older: *older, newer: *newer }).collect()
}

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// So many are named.
const EXAMPLES_MAX: usize = 100;
