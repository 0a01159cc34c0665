//! Comparisons of success rates: with the period before, before and after a skill or its model changed, and between
//! models that were used side by side; and skills that are flaky.
//!
//! All comparisons of a report are one family: the chance that any of them is a false alarm is kept under
//! [`FALSE_ALARMS`] (Fisher's exact test, corrected by Holm's method). A skill is flaky if it ends both ways although
//! nothing differs: the same version, model, input, file and project.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use manent::words;
use serde::Serialize;

use super::bounded_map::BoundedMap;
use super::report::{SkillStats, date};
use super::statistics::{FALSE_ALARMS, Proportion, RUNS_MIN, different, holm};
use super::tally::{ExampleRuns, InputTally, OutcomeCounts, SkillTally, TimeSpan, VersionTally, pair_key};

words! {
    /// The difference between the two sides of a comparison.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ComparisonKind {
        /// The time: this period, and the one before.
        #[default]
        Period = "period",
        /// The version of the skill.
        Version = "version",
        /// The model, of which the second came when the first was no longer used.
        Model = "model",
        /// The model, of two that were used in the same time.
        ModelBeside = "model-beside",
    }
}

/// Two shares of the runs of a skill.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RateComparison {
    /// The difference between the two sides.
    pub differs: ComparisonKind,
    /// The skill.
    pub skill: String,
    /// The model of both; empty where that is what differs.
    pub model: String,
    /// The phase, where only one is compared.
    pub phase: String,
    /// The first: a hash or a model.
    pub from: String,
    /// The second.
    pub to: String,
    /// The day of the first run of the second.
    pub since: Option<String>,
    /// The successes of the first side.
    pub before: Proportion,
    /// The successes of the second side.
    pub after: Proportion,
    /// True if the models differ, and so do the versions of the skill.
    pub version_too: bool,
    /// True if the models differ with support by the numbers, and nearly all runs of both were on inputs that the other
    /// was given too. If not, or if nobody knows, it may be the tasks.
    pub same_inputs: bool,
    /// The p-value: the chance of such a difference if there is none behind it. `None` where there are too few runs.
    pub chance: Option<f64>,
    /// The same, after the price for all comparisons of the report.
    pub corrected: Option<f64>,
    /// True if the numbers support that there is a difference.
    pub supported: bool,
    /// Runs: of the second that failed, of the second that succeeded, of the first.
    pub runs: Vec<String>,
}

impl RateComparison {
    /// Returns true if the second side did worse.
    pub fn is_worse(&self) -> bool {
        self.after.rate < self.before.rate
    }
}

pub(super) fn trend(group: &SkillTally) -> RateComparison {
    RateComparison {
        differs: ComparisonKind::Period,
        skill: group.skill.clone(),
        model: group.model.clone(),
        phase: group.phase.clone(),
        from: "the period before".to_owned(),
        to: "this period".to_owned(),
        before: group.before.success_rate(),
        after: group.ends.success_rate(),
        runs: group.bad.ids().chain(group.good.ids()).collect(),
        ..RateComparison::default()
    }
}

/// All comparisons of versions and models, skill by skill.
pub(super) fn versions(table: BoundedMap<VersionTally>) -> Vec<RateComparison> {
    let mut skills: BTreeMap<String, Vec<VersionTally>> = BTreeMap::new();
    for slot in table.into_slots() {
        // The first run of a version that was evicted is not known, only that of its return.
        if slot.missed == 0 {
            skills.entry(slot.value.skill.clone()).or_default().push(slot.value);
        }
    }
    let mut found = Vec::new();
    for versions in skills.into_values() {
        let mut by_model: BTreeMap<&str, Vec<&VersionTally>> = BTreeMap::new();
        for version in &versions {
            by_model.entry(&version.model).or_default().push(version);
        }
        for of_model in by_model.values_mut() {
            of_model.retain(|version| version.span.first_ms.is_some());
            of_model.sort_by(|a, b| (a.span.first_ms, &a.hash).cmp(&(b.span.first_ms, &b.hash)));
            // A skill may have a new version every day: only the last changes are compared.
            let skip = of_model.len().saturating_sub(CHANGES + 1);
            found.extend(of_model[skip..].windows(2).map(|pair| by_version(pair[0], pair[1])));
        }
        found.extend(by_models(&by_model));
    }
    found
}

fn by_version(old: &VersionTally, new: &VersionTally) -> RateComparison {
    RateComparison {
        differs: ComparisonKind::Version,
        skill: new.skill.clone(),
        model: new.model.clone(),
        from: old.hash.clone(),
        to: new.hash.clone(),
        since: new.span.first_ms.map(date),
        before: old.ends.success_rate(),
        after: new.ends.success_rate(),
        runs: new.bad.ids().chain(new.good.ids().take(1)).chain(old.good.ids().take(2)).collect(),
        ..RateComparison::default()
    }
}

/// All runs of a skill that one model did.
struct ModelRuns<'a> {
    name: &'a str,
    ends: OutcomeCounts,
    span: TimeSpan,
    versions: &'a [&'a VersionTally],
}

fn by_models(by_model: &BTreeMap<&str, Vec<&VersionTally>>) -> Vec<RateComparison> {
    let mut models: Vec<ModelRuns<'_>> =
        by_model.iter().map(|(name, versions)| of_model(name, versions)).collect();
    models.retain(|model| model.span.first_ms.is_some() && !model.name.is_empty());
    models.sort_by(|a, b| (b.ends.ended(), a.name).cmp(&(a.ends.ended(), b.name)));
    models.truncate(MODELS);
    models.sort_by(|a, b| (a.span.first_ms, a.name).cmp(&(b.span.first_ms, b.name)));
    let mut found = Vec::new();
    for (at, old) in models.iter().enumerate() {
        for (nth, new) in models[at + 1..].iter().enumerate() {
            let beside = old.span.last_ms > new.span.first_ms;
            if beside || nth == 0 {
                found.push(by_model_pair(old, new, beside));
            }
        }
    }
    found
}

fn of_model<'a>(name: &'a str, versions: &'a [&'a VersionTally]) -> ModelRuns<'a> {
    let mut model = ModelRuns { name, ends: OutcomeCounts::default(), span: TimeSpan::default(), versions };
    for version in versions {
        model.ends.merge(version.ends);
        model.span.merge(version.span);
    }
    model
}

fn by_model_pair(old: &ModelRuns<'_>, new: &ModelRuns<'_>, beside: bool) -> RateComparison {
    let hashes = |model: &ModelRuns<'_>| -> Vec<String> {
        let mut all: Vec<String> = model.versions.iter().map(|version| version.hash.clone()).collect();
        all.sort();
        all
    };
    let ids = |model: &ModelRuns<'_>, pick: fn(&VersionTally) -> &ExampleRuns, count: usize| {
        let ids = model.versions.iter().flat_map(|version| pick(version).ids()).take(count);
        ids.collect::<Vec<String>>()
    };
    let mut runs = ids(new, |version| &version.bad, 2);
    runs.extend(ids(new, |version| &version.good, 1));
    runs.extend(ids(old, |version| &version.bad, 1));
    runs.extend(ids(old, |version| &version.good, 1));
    RateComparison {
        differs: if beside { ComparisonKind::ModelBeside } else { ComparisonKind::Model },
        skill: new.versions.first().map_or_else(String::new, |version| version.skill.clone()),
        from: old.name.to_owned(),
        to: new.name.to_owned(),
        since: new.span.first_ms.map(date),
        before: old.ends.success_rate(),
        after: new.ends.success_rate(),
        version_too: hashes(old) != hashes(new),
        runs,
        ..RateComparison::default()
    }
}

/// Tests every comparison with enough runs for a difference, and sorts them by p-value.
pub(super) fn judge(all: &mut [RateComparison]) {
    for one in all.iter_mut().filter(|one| one.before.is_enough() && one.after.is_enough()) {
        one.chance = Some(different(one.before, one.after));
    }
    let chances: Vec<f64> = all.iter().filter_map(|one| one.chance).collect();
    let tested = all.iter_mut().filter(|one| one.chance.is_some());
    for (one, corrected) in tested.zip(holm(&chances)) {
        one.corrected = Some(corrected);
        one.supported = corrected < FALSE_ALARMS;
    }
    let order = |one: &RateComparison| one.chance.unwrap_or(2.0);
    all.sort_by(|a, b| order(a).total_cmp(&order(b)));
}

/// Sets `same_inputs` of comparisons of models that differ. An input that the table evicted counts as one that the two
/// do not share.
pub(super) fn find_same_inputs(all: &mut [RateComparison], inputs: &BoundedMap<InputTally>) {
    let is_of_models = |one: &&mut RateComparison| {
        one.supported && matches!(one.differs, ComparisonKind::Model | ComparisonKind::ModelBeside)
    };
    let mut compared: Vec<&mut RateComparison> = all.iter_mut().filter(is_of_models).collect();
    let of_both = |one: &RateComparison| [&one.from, &one.to].map(|model| pair_key(&one.skill, model));
    // The number of runs on each input, by the key of skill and model.
    let mut tasks: HashMap<u64, HashMap<u64, u64>> =
        compared.iter().flat_map(|one| of_both(one)).map(|of| (of, HashMap::new())).collect();
    if tasks.is_empty() {
        return;
    }
    for input in inputs.values() {
        if let Some(of_model) = tasks.get_mut(&input.of) {
            *of_model.entry(input.task).or_default() += u64::from(input.success) + u64::from(input.failure);
        }
    }
    for one in &mut compared {
        let [Some(old), Some(new)] = of_both(one).map(|of| tasks.get(&of)) else { continue };
        let shared = |mine: &HashMap<u64, u64>, other: &HashMap<u64, u64>| -> u64 {
            mine.iter().filter(|(task, _)| other.contains_key(task)).map(|(_, runs)| runs).sum()
        };
        let is_nearly_all = |runs: u64, of: u64| runs.saturating_mul(100) >= of.saturating_mul(SAME_PERCENT);
        one.same_inputs =
            is_nearly_all(shared(old, new), one.before.of) && is_nearly_all(shared(new, old), one.after.of);
    }
}

/// The percentage of runs that counts as nearly all.
const SAME_PERCENT: u64 = 90;
/// The most models of a skill that are compared, and the most changes of one.
const MODELS: usize = 6;
const CHANGES: usize = 12;

/// A skill, with a model, on inputs that it was given more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlakySkill {
    /// The skill.
    pub skill: String,
    /// The model.
    pub model: String,
    /// The number of runs on inputs that were given more than once: the n of this.
    pub n: u64,
    /// True if that is enough to conclude anything.
    pub enough: bool,
    /// The number of such inputs.
    pub repeated_inputs: u64,
    /// The number of these inputs on which the skill both succeeded and failed.
    pub mixed_inputs: u64,
    /// Pairs of runs on one input: one that succeeded, and one that failed.
    pub pairs: Vec<(String, String)>,
}

/// Returns the skills with at least one input that ended both ways; most such inputs first.
pub(super) fn find_flaky(inputs: BoundedMap<InputTally>, groups: &[SkillStats]) -> Vec<FlakySkill> {
    let of_groups =
        groups.iter().map(|group| (pair_key(&group.skill, &group.model), (&group.skill, &group.model)));
    let names: HashMap<u64, (&String, &String)> = of_groups.collect();
    let mut found: BTreeMap<(&String, &String), FlakySkill> = BTreeMap::new();
    let mut inputs: Vec<InputTally> = inputs.into_slots().into_iter().map(|slot| slot.value).collect();
    // The pairs that are shown are those that were seen first, in whatever order the table has them.
    inputs.sort_by_key(|input| input.good.as_ref().map(|(position, _)| *position));
    for input in inputs {
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
    let skills = found.into_iter().map(|((skill, model), flaky)| FlakySkill {
        skill: skill.clone(),
        model: model.clone(),
        enough: flaky.n >= RUNS_MIN,
        ..flaky
    });
    let mut all: Vec<FlakySkill> = skills.filter(|flaky| flaky.mixed_inputs > 0).collect();
    all.sort_by_key(|flaky| Reverse(flaky.mixed_inputs));
    all
}

const PAIRS: usize = 3;
