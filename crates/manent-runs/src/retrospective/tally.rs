//! Counts that are kept while runs go by, in tables of bounded size. Two tallies of different runs can be merged; the
//! sum does not depend on who counted what, except for what a full table evicts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use manent::redact;

use super::bounded_map::{BoundedMap, BoundedValue, key_of, key_with};
use super::durations::Durations;
use super::signature::{last_attempt, signature};
use super::statistics::Proportion;
use super::{ReportQuery, input_hash};
use crate::runs::{Attempt, Oddity, Run, Status, YEAR_2000_MS};

/// The number of runs by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OutcomeCounts {
    pub(super) success: u64,
    pub(super) failure: u64,
    pub(super) unknown: u64,
    pub(super) other: u64,
}

impl OutcomeCounts {
    fn add(&mut self, status: Status) {
        *match status {
            Status::Success => &mut self.success,
            Status::Failure => &mut self.failure,
            Status::Unknown => &mut self.unknown,
            Status::Other => &mut self.other,
        } += 1;
    }

    pub(super) fn merge(&mut self, other: OutcomeCounts) {
        self.success += other.success;
        self.failure += other.failure;
        self.unknown += other.unknown;
        self.other += other.other;
    }

    pub(super) fn ended(&self) -> u64 {
        self.success + self.failure
    }

    pub(super) fn all(&self) -> u64 {
        self.ended() + self.unknown + self.other
    }

    pub(super) fn success_rate(&self) -> Proportion {
        Proportion::new(self.success, self.ended())
    }
}

/// Counts of the runs of a skill with a model in a phase.
#[derive(Debug, Default)]
pub(super) struct SkillTally {
    pub(super) skill: String,
    pub(super) model: String,
    pub(super) phase: String,
    pub(super) ends: OutcomeCounts,
    /// The outcomes in the period before.
    pub(super) before: OutcomeCounts,
    /// Runs that ended and list their attempts.
    pub(super) with_attempts: u64,
    pub(super) first_try: u64,
    pub(super) verified: u64,
    /// The number of successes that took one attempt, two, …; the last counts that many or more.
    pub(super) attempts: [u64; ATTEMPTS],
    pub(super) attempts_sum: u64,
    pub(super) durations: Durations,
    pub(super) good: ExampleRuns,
    pub(super) bad: ExampleRuns,
    pub(super) open: ExampleRuns,
}

/// A skill in one version, done by one model.
#[derive(Debug, Default)]
pub(super) struct VersionTally {
    pub(super) skill: String,
    pub(super) model: String,
    pub(super) hash: String,
    pub(super) ends: OutcomeCounts,
    pub(super) span: TimeSpan,
    pub(super) good: ExampleRuns,
    pub(super) bad: ExampleRuns,
}

/// One input that a version of a skill was given, with one model.
#[derive(Debug, Default)]
pub(super) struct InputTally {
    /// The key of the skill and the model: see [`pair_key`]. Most inputs come once, and their names would be most of
    /// the table.
    pub(super) of: u64,
    /// A hash of the input alone, to find the inputs that two models had in common.
    pub(super) task: u64,
    pub(super) success: u32,
    pub(super) failure: u32,
    pub(super) good: Option<(RunPosition, Box<str>)>,
    pub(super) bad: Option<(RunPosition, Box<str>)>,
}

/// Failures that look the same.
#[derive(Debug, Default)]
pub(super) struct FailureTally {
    pub(super) signature: String,
    pub(super) count: u64,
    pub(super) span: TimeSpan,
    pub(super) skills: NameSample,
    pub(super) models: NameSample,
    pub(super) examples: ExampleRuns,
}

/// A word for an end that has no meaning here.
#[derive(Debug, Default)]
pub(super) struct StatusWordTally {
    pub(super) text: String,
    pub(super) count: u64,
    pub(super) examples: ExampleRuns,
}

/// The counts of a report.
#[derive(Debug)]
pub(super) struct Tally<'q> {
    question: &'q ReportQuery<'q>,
    /// All runs of the period, also those whose group had no room.
    pub(super) ends: OutcomeCounts,
    pub(super) groups: BoundedMap<SkillTally>,
    pub(super) versions: BoundedMap<VersionTally>,
    pub(super) inputs: BoundedMap<InputTally>,
    pub(super) clusters: BoundedMap<FailureTally>,
    pub(super) words: BoundedMap<StatusWordTally>,
    pub(super) days: BTreeMap<i64, OutcomeCounts>,
    pub(super) odd: BTreeMap<Oddity, u64>,
    /// True for each known skill that has a run.
    pub(super) used: Vec<bool>,
    known_skills: HashMap<&'q str, usize>,
    pub(super) span: TimeSpan,
    /// Runs that pass the filters but have no valid time, so that they may or may not be in the period.
    pub(super) without_time: u64,
    pub(super) nameless: u64,
    /// Runs with a time that is still to come.
    pub(super) ahead: u64,
}

/// The period of a run: the one that is asked for, or the one before it.
enum PeriodPart {
    Now,
    Before,
    Never,
}

impl<'q> Tally<'q> {
    pub(super) fn new(question: &'q ReportQuery<'q>) -> Tally<'q> {
        let skills = question.known_skills.iter().enumerate();
        Tally {
            question,
            ends: OutcomeCounts::default(),
            groups: BoundedMap::new(GROUPS),
            versions: BoundedMap::new(VERSIONS),
            inputs: BoundedMap::new(INPUTS),
            clusters: BoundedMap::new(CLUSTERS),
            words: BoundedMap::new(WORDS),
            days: BTreeMap::new(),
            odd: BTreeMap::new(),
            used: vec![false; question.known_skills.len()],
            known_skills: skills.map(|(at, name)| (name.as_str(), at)).collect(),
            span: TimeSpan::default(),
            without_time: 0,
            nameless: 0,
            ahead: 0,
        }
    }

    /// Counts a run, if it passes the filters of the query.
    pub(super) fn add(&mut self, session: u32, key: &str, run: &Run<'_>) {
        if !self.question.wants(run) {
            return;
        }
        let at_ms = run.at_ms.filter(|ms| (YEAR_2000_MS..=self.question.latest_ms()).contains(ms));
        self.ahead += u64::from(run.at_ms.is_some_and(|ms| ms > self.question.latest_ms()));
        let when = self.when(at_ms);
        let position = RunPosition { at_ms, session, seq: run.seq };
        let skill = clip(run.skill.trim());
        let last = last_attempt(run);
        let model = if run.model_used.trim().is_empty() {
            last.map_or("", |attempt| &*attempt.model)
        } else {
            &run.model_used
        };
        let (model, phase) = (clip(model.trim()), clip(run.phase.trim()));
        let facts =
            RunFacts { skill, model, phase, version: version_of(run, last), position, id: id_of(key, run) };
        match when {
            PeriodPart::Never => {}
            PeriodPart::Before => {
                self.group(&facts).before.add(run.status);
            }
            PeriodPart::Now => self.count(run, &facts),
        }
    }

    fn when(&mut self, at_ms: Option<i64>) -> PeriodPart {
        let question = self.question;
        if question.since_ms.is_none() && question.until_ms.is_none() {
            return PeriodPart::Now;
        }
        let Some(ms) = at_ms else {
            self.without_time += 1;
            return PeriodPart::Never;
        };
        if question.until_ms.is_some_and(|until| ms >= until) {
            return PeriodPart::Never;
        }
        match question.since_ms {
            Some(since) if ms < since => match question.before_ms() {
                Some(before) if ms >= before => PeriodPart::Before,
                _ => PeriodPart::Never,
            },
            _ => PeriodPart::Now,
        }
    }

    fn group(&mut self, facts: &RunFacts<'_>) -> &mut SkillTally {
        let names = [facts.skill, facts.model, facts.phase];
        self.groups.at(key_of(&names), |group| {
            [group.skill, group.model, group.phase] = names.map(str::to_owned);
        })
    }

    fn count(&mut self, run: &Run<'_>, facts: &RunFacts<'_>) {
        self.span.add(facts.position.at_ms);
        if let Some(ms) = facts.position.at_ms {
            self.days.entry(ms.div_euclid(DAY_MS)).or_default().add(run.status);
        }
        for odd in &run.oddities {
            *self.odd.entry(*odd).or_default() += 1;
        }
        if let Some(at) = self.known_skills.get(facts.skill) {
            self.used[*at] = true;
        }
        self.ends.add(run.status);
        self.nameless += u64::from(facts.skill.is_empty());
        self.group(facts).add(run, facts);
        match run.status {
            Status::Success | Status::Failure => {
                self.version(run.status, facts);
                self.input(run, facts);
            }
            Status::Other => {
                let word = run.final_status.trim();
                let word = redact(&word[..word.floor_char_boundary(WORD_BYTES)]);
                let word = clip(&word);
                let slot = self.words.at(key_of(&[word]), |slot| word.clone_into(&mut slot.text));
                slot.count += 1;
                slot.examples.add(facts.position, &facts.id);
            }
            Status::Unknown => {}
        }
        if run.status == Status::Failure {
            let signature = signature(run);
            let key = key_of(&[&signature]);
            self.clusters.at(key, |cluster| cluster.signature = signature).add(facts);
        }
    }

    fn version(&mut self, status: Status, facts: &RunFacts<'_>) {
        let names = [facts.skill, facts.model, clip(facts.version)];
        let version = self.versions.at(key_of(&names), |version| {
            [version.skill, version.model, version.hash] = names.map(str::to_owned);
        });
        version.ends.add(status);
        version.span.add(facts.position.at_ms);
        let examples = if status == Status::Success { &mut version.good } else { &mut version.bad };
        examples.add(facts.position, &facts.id);
    }

    /// A skill is flaky if the same version of it, with the same model, the same input and the same file, ends both
    /// ways. One that was changed in between is not.
    fn input(&mut self, run: &Run<'_>, facts: &RunFacts<'_>) {
        let input = run.input.unwrap_or("");
        let file = &*run.file_path;
        if input_hash::is_empty(input) && file.is_empty() {
            return;
        }
        let number = if input.is_empty() { 0 } else { input_hash::input_hash(input) };
        let key = key_with(&[facts.skill, facts.model, facts.version, file, &run.project_root], number);
        let input = self.inputs.at(key, |input| {
            input.of = pair_key(facts.skill, facts.model);
            input.task = key_with(&[file, &run.project_root], number);
        });
        let (count, example) = match run.status {
            Status::Success => (&mut input.success, &mut input.good),
            _ => (&mut input.failure, &mut input.bad),
        };
        *count = count.saturating_add(1);
        keep_first(example, facts.position, &facts.id);
    }

    /// Adds another tally to this one.
    pub(super) fn merge(&mut self, other: Tally<'q>) {
        self.ends.merge(other.ends);
        self.groups.merge(other.groups);
        self.versions.merge(other.versions);
        self.inputs.merge(other.inputs);
        self.clusters.merge(other.clusters);
        self.words.merge(other.words);
        for (day, ends) in other.days {
            self.days.entry(day).or_default().merge(ends);
        }
        for (odd, count) in other.odd {
            *self.odd.entry(odd).or_default() += count;
        }
        self.used.iter_mut().zip(other.used).for_each(|(mine, theirs)| *mine |= theirs);
        self.span.merge(other.span);
        self.without_time += other.without_time;
        self.nameless += other.nameless;
        self.ahead += other.ahead;
    }
}

/// Returns the key of a skill and a model together.
pub(super) fn pair_key(skill: &str, model: &str) -> u64 {
    key_of(&[skill, model])
}

/// The parts of a run that are needed in several places.
struct RunFacts<'a> {
    skill: &'a str,
    model: &'a str,
    phase: &'a str,
    /// The hash of the skill.
    version: &'a str,
    position: RunPosition,
    id: Cow<'a, str>,
}

/// Returns the version of the skill: as the last attempt says, or else the whole run.
fn version_of<'a>(run: &'a Run<'_>, last: Option<&'a Attempt<'_>>) -> &'a str {
    match last.map_or("", |attempt| attempt.skill_hash.trim()) {
        "" => run.skill_hash.trim(),
        hash => hash,
    }
}

/// Returns the id of a run, or the session and the number of its record if it has none.
pub(super) fn id_of<'a>(key: &str, run: &'a Run<'_>) -> Cow<'a, str> {
    match clip(run.run_id.trim()) {
        "" => Cow::Owned(format!("{key}:{}", run.seq)),
        id => Cow::Borrowed(id),
    }
}

impl SkillTally {
    fn add(&mut self, run: &Run<'_>, facts: &RunFacts<'_>) {
        self.ends.add(run.status);
        let examples = match run.status {
            Status::Success => &mut self.good,
            Status::Failure => &mut self.bad,
            Status::Unknown | Status::Other => {
                self.open.add(facts.position, &facts.id);
                return;
            }
        };
        examples.add(facts.position, &facts.id);
        self.verified += u64::from(run.attempts.iter().any(|attempt| attempt.verified == Some(true)));
        if let Some(ms) = run.duration_ms {
            self.durations.add(ms);
        }
        if run.attempts.is_empty() {
            return;
        }
        self.with_attempts += 1;
        if run.status == Status::Success {
            let tries = attempts_to_success(run);
            self.first_try += u64::from(tries == 1);
            self.attempts[tries.min(ATTEMPTS) - 1] += 1;
            self.attempts_sum += tries as u64;
        }
    }
}

/// Returns the number of attempts that a success took: up to the first that was checked and found good, else all of
/// them.
fn attempts_to_success(run: &Run<'_>) -> usize {
    let mut attempts: Vec<&Attempt<'_>> = run.attempts.iter().collect();
    if attempts.iter().all(|attempt| attempt.attempt.is_some()) {
        attempts.sort_by_key(|attempt| attempt.attempt);
    }
    let good = attempts.iter().position(|attempt| attempt.verified == Some(true));
    good.map_or(attempts.len(), |before| before + 1)
}

impl FailureTally {
    fn add(&mut self, facts: &RunFacts<'_>) {
        self.count += 1;
        self.span.add(facts.position.at_ms);
        self.skills.add(facts.skill);
        self.models.add(facts.model);
        self.examples.add(facts.position, &facts.id);
    }
}

/// The times of the first and the last run of some kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TimeSpan {
    pub(super) first_ms: Option<i64>,
    pub(super) last_ms: Option<i64>,
}

impl TimeSpan {
    fn add(&mut self, ms: Option<i64>) {
        self.merge(TimeSpan { first_ms: ms, last_ms: ms });
    }

    pub(super) fn merge(&mut self, other: TimeSpan) {
        self.first_ms = self.first_ms.into_iter().chain(other.first_ms).min();
        self.last_ms = self.last_ms.max(other.last_ms);
    }
}

fn keep_first(first: &mut Option<(RunPosition, Box<str>)>, position: RunPosition, id: &str) {
    if first.as_ref().is_none_or(|(other, _)| position < *other) {
        *first = Some((position, id.into()));
    }
}

pub(super) const DAY_MS: i64 = 86_400_000;
/// The number of attempts up to which successes are counted separately.
pub(super) const ATTEMPTS: usize = 8;
const GROUPS: usize = 4096;
const VERSIONS: usize = 8192;
const INPUTS: usize = 100_000;
const CLUSTERS: usize = 8192;
const WORDS: usize = 256;
/// The bytes of a status word that are searched for credentials.
const WORD_BYTES: usize = 1 << 10;

impl BoundedValue for SkillTally {
    fn weight(&self) -> u64 {
        self.ends.all() + self.before.all()
    }

    fn merge(&mut self, other: SkillTally) {
        self.ends.merge(other.ends);
        self.before.merge(other.before);
        self.with_attempts += other.with_attempts;
        self.first_try += other.first_try;
        self.verified += other.verified;
        self.attempts.iter_mut().zip(other.attempts).for_each(|(mine, theirs)| *mine += theirs);
        self.attempts_sum += other.attempts_sum;
        self.durations.merge(&other.durations);
        self.good.merge(other.good);
        self.bad.merge(other.bad);
        self.open.merge(other.open);
    }
}

impl BoundedValue for VersionTally {
    fn weight(&self) -> u64 {
        self.ends.all()
    }

    fn merge(&mut self, other: VersionTally) {
        self.ends.merge(other.ends);
        self.span.merge(other.span);
        self.good.merge(other.good);
        self.bad.merge(other.bad);
    }
}

impl BoundedValue for InputTally {
    fn weight(&self) -> u64 {
        let mixed = self.success > 0 && self.failure > 0;
        u64::from(self.success) + u64::from(self.failure) + if mixed { MIXED_WEIGHT } else { 0 }
    }

    fn merge(&mut self, other: InputTally) {
        self.success = self.success.saturating_add(other.success);
        self.failure = self.failure.saturating_add(other.failure);
        for (mine, theirs) in [(&mut self.good, other.good), (&mut self.bad, other.bad)] {
            if let Some((position, id)) = theirs {
                keep_first(mine, position, &id);
            }
        }
    }
}

impl BoundedValue for FailureTally {
    fn weight(&self) -> u64 {
        self.count
    }

    fn merge(&mut self, other: FailureTally) {
        self.count += other.count;
        self.span.merge(other.span);
        self.skills.merge(&other.skills);
        self.models.merge(&other.models);
        self.examples.merge(other.examples);
    }
}

impl BoundedValue for StatusWordTally {
    fn weight(&self) -> u64 {
        self.count
    }

    fn merge(&mut self, other: StatusWordTally) {
        self.count += other.count;
        self.examples.merge(other.examples);
    }
}

/// Added to the weight of an input that ended both ways: the table is there to find these, so they are evicted last.
const MIXED_WEIGHT: u64 = 1 << 20;

/// The position of a run among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunPosition {
    /// `None` sorts first.
    pub(super) at_ms: Option<i64>,
    /// The session, by its place in the order of keys.
    pub(super) session: u32,
    pub(super) seq: u64,
}

/// The last few runs of some kind, latest first.
#[derive(Debug, Clone, Default)]
pub(super) struct ExampleRuns {
    latest: Vec<(RunPosition, String)>,
}

impl ExampleRuns {
    /// Keeps a run if it is later than one of the examples. `id` is copied only then.
    pub(super) fn add(&mut self, position: RunPosition, id: &str) {
        let at = self.latest.partition_point(|(other, _)| *other > position);
        if at < EXAMPLES {
            self.latest.insert(at, (position, id.to_owned()));
            self.latest.truncate(EXAMPLES);
        }
    }

    pub(super) fn merge(&mut self, other: ExampleRuns) {
        for (position, id) in other.latest {
            self.add(position, &id);
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        self.latest.iter().map(|(_, id)| id.clone())
    }
}

/// Names that belong to something: the first by the alphabet, and whether there are more.
#[derive(Debug, Clone, Default)]
pub(super) struct NameSample {
    first: BTreeSet<String>,
    more: bool,
    /// True if something without a name is among them.
    nameless: bool,
}

impl NameSample {
    pub(super) fn add(&mut self, name: &str) {
        self.nameless |= name.is_empty();
        if !name.is_empty() && !self.first.contains(name) {
            self.first.insert(name.to_owned());
        }
        if self.first.len() > NAMES {
            self.first.pop_last();
            self.more = true;
        }
    }

    pub(super) fn merge(&mut self, other: &NameSample) {
        other.first.iter().for_each(|name| self.add(name));
        self.more |= other.more;
        self.nameless |= other.nameless;
    }

    /// Returns true if [`NameSample::names`] names everything that this belongs to.
    pub(super) fn are_all(&self) -> bool {
        !self.more && !self.nameless && !self.first.is_empty()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let more = self.more.then(|| "…".to_owned());
        self.first.iter().cloned().chain(more).collect()
    }
}

/// Cuts the name of a skill or a model from a record to [`NAME_BYTES`].
pub(super) fn clip(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES)]
}

const EXAMPLES: usize = 3;
const NAMES: usize = 12;
const NAME_BYTES: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_in_whatever_order_they_come() {
        let position =
            |ms: u64| RunPosition { at_ms: (ms > 0).then_some(ms.cast_signed()), session: 0, seq: ms };
        let ids = |order: &[u64]| {
            let mut examples = ExampleRuns::default();
            for ms in order {
                examples.add(position(*ms), &ms.to_string());
            }
            examples.ids().collect::<Vec<_>>()
        };
        assert_eq!(ids(&[0, 1, 2, 3, 4, 5]), ["5", "4", "3"]);
        assert_eq!(ids(&[5, 0, 3, 4, 1, 2]), ["5", "4", "3"]);
        assert_eq!(ids(&[1, 0]), ["1", "0"]);
    }

    #[test]
    fn names_are_few() {
        let mut names = NameSample::default();
        (0..100).rev().for_each(|n| names.add(&format!("{n:03}")));
        assert_eq!((names.names().len(), &*names.names()[0], names.more), (13, "000", true));
        assert_eq!(clip(&"é".repeat(100)).len(), 120);
    }
}
