//! Skills that end both ways although nothing differs: the same version, model, input, file and project.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::capped::Capped;
use super::report::SkillStats;
use super::statistics::RUNS_MIN;
use super::tally::{Input, pair_key};

/// A skill, with a model, on inputs that it was given more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlakySkill {
    /// The skill.
    pub skill: String,
    /// The model.
    pub model: String,
    /// How many runs there were on inputs that were given more than once: the n of this.
    pub n: u64,
    /// Whether that is enough to conclude anything.
    pub enough: bool,
    /// How many such inputs.
    pub repeated_inputs: u64,
    /// On how many of these it succeeded and failed.
    pub mixed_inputs: u64,
    /// Pairs of runs on one input: one that succeeded, and one that failed.
    pub pairs: Vec<(String, String)>,
}

/// Those with at least one input that ended both ways; most such inputs first.
pub(super) fn find(inputs: Capped<Input>, groups: &[SkillStats]) -> Vec<FlakySkill> {
    let of_groups =
        groups.iter().map(|group| (pair_key(&group.skill, &group.model), (&group.skill, &group.model)));
    let names: HashMap<u64, (&String, &String)> = of_groups.collect();
    let mut found: BTreeMap<(&String, &String), FlakySkill> = BTreeMap::new();
    let mut slots: Vec<Input> = inputs.into_slots().into_iter().map(|(_, slot)| slot.value).collect();
    // The pairs that are shown are those that were seen first, in whatever order the table has them.
    let first = |input: &Input| input.good.as_ref().map(|(spot, _)| *spot);
    slots.sort_by_key(first);
    for input in slots {
        let n = u64::from(input.success) + u64::from(input.failure);
        let Some(pair) = names.get(&input.of).filter(|_| n > 1) else { continue };
        let flaky = found.entry(*pair).or_default();
        flaky.n += n;
        flaky.repeated_inputs += 1;
        if let (Some((_, good)), Some((_, bad))) = (input.good, input.bad) {
            flaky.mixed_inputs += 1;
            if flaky.pairs.len() < PAIRS {
                flaky.pairs.push((good.into(), bad.into()));
            }
        }
    }
    let told = found.into_iter().map(|((skill, model), flaky)| FlakySkill {
        skill: skill.clone(),
        model: model.clone(),
        enough: flaky.n >= RUNS_MIN,
        ..flaky
    });
    let mut all: Vec<FlakySkill> = told.filter(|flaky| flaky.mixed_inputs > 0).collect();
    all.sort_by_key(|flaky| std::cmp::Reverse(flaky.mixed_inputs));
    all
}

const PAIRS: usize = 3;
