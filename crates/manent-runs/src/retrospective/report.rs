//! The report: the tallies as rates with intervals, sorted, with the names of runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use manent::redact;
use serde::Serialize;
use serde_json::Value;

use super::bounded_map::{BoundedMap, BoundedValue, MapSlot};
use super::compare::{self, FlakySkill, RateComparison};
use super::durations::DurationStats;
use super::narrative::Narrative;
use super::statements::{self, Statement};
use super::statistics::{Proportion, RUNS_MIN, float};
use super::tally::{self, ATTEMPTS, DAY_MS, OutcomeCounts, Tally};
use super::{ReadStats, ReportQuery};
use crate::runs::Oddity;

/// The findings of a retrospective. The names of the fields are those of its JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The period and the filters of a report.
    pub period: Period,
    /// All runs of the period together.
    pub totals: Totals,
    /// Statements in words, with the runs that they rest on; what matters most first.
    pub statements: Vec<Statement>,
    /// Each skill with each model in each phase; those with most runs first.
    pub groups: Vec<SkillStats>,
    /// Failures that look the same; most frequent first.
    pub failures: Vec<FailureCluster>,
    /// Rates that were compared: with the period before, before and after a change, between models.
    pub comparisons: Vec<RateComparison>,
    /// Skills that ended both ways with everything the same.
    pub flaky: Vec<FlakySkill>,
    /// Known skills without a run in the period.
    pub unused: Vec<String>,
    /// Runs by day, in order; days without any are left out.
    pub days: Vec<DayCounts>,
    /// Words for an end that have no meaning here.
    pub statuses: Vec<OddityCount>,
    /// Oddities of entries that were put up with.
    pub oddities: Vec<OddityCount>,
    /// Notes to read before believing the rest: what was left out, and why.
    pub notes: Vec<String>,
    /// False if reading was stopped before the end.
    pub whole: bool,
    /// True if something could not be read or kept: what is not said may be so all the same.
    #[serde(skip)]
    pub(super) gaps: bool,
}

/// The period and the filters of a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Period {
    /// The beginning of the period; `None` if it begins with the first run.
    pub since: Option<String>,
    /// The end of the period.
    pub until: Option<String>,
    /// The beginning of the period before, to compare with.
    pub before: Option<String>,
    /// The first run that was counted.
    pub first: Option<String>,
    /// The last run that was counted.
    pub last: Option<String>,
    /// The project, if the report is about one.
    pub project: Option<String>,
    /// The skill, if the report is about one.
    pub skill: Option<String>,
    /// The session, if the report is about one.
    pub session: Option<String>,
    /// The number of logs that were read.
    pub sessions: u64,
}

/// All runs together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Totals {
    /// The number of runs.
    pub runs: u64,
    /// The successes among runs that ended.
    pub success: Proportion,
    /// The successes at the first attempt, among runs that ended and say what was tried.
    pub first_try: Proportion,
    /// The runs that were checked and found good, among those that ended.
    pub verified: Proportion,
    /// Runs of unknown outcome: begun, and nothing says how they ended.
    pub unknown: u64,
    /// Runs with a status that has no meaning here.
    pub other: u64,
    /// The number of successes that took one attempt, two, …; the last counts that many or more.
    pub attempts: [u64; ATTEMPTS],
    /// The durations of runs that ended.
    pub duration: DurationStats,
}

/// A skill with a model in a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SkillStats {
    /// The skill; empty if entries name none.
    pub skill: String,
    /// The model that did it in the end.
    pub model: String,
    /// The phase.
    pub phase: String,
    /// Runs that ended: the n of everything here.
    pub n: u64,
    /// True if that is enough to conclude anything.
    pub enough: bool,
    /// The successes.
    pub success: Proportion,
    /// The successes at the first attempt.
    pub first_try: Proportion,
    /// The runs that were checked and found good.
    pub verified: Proportion,
    /// Runs of unknown outcome.
    pub unknown: u64,
    /// Runs with a status that has no meaning here.
    pub other: u64,
    /// The mean number of attempts of a success.
    pub attempts_mean: Option<f64>,
    /// The number of successes that took one attempt, two, …
    pub attempts: [u64; ATTEMPTS],
    /// The durations of runs that ended.
    pub duration: DurationStats,
    /// The same in the period before.
    pub before: Option<Proportion>,
    /// The most runs that may have been left out for want of room.
    pub missed: u64,
    /// Runs that failed, the latest first.
    pub failed_runs: Vec<String>,
    /// Runs that succeeded.
    pub good_runs: Vec<String>,
    /// Runs of unknown outcome, or with a status that has no meaning here.
    pub open_runs: Vec<String>,
}

/// Failures that look the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FailureCluster {
    /// The common signature, without what differs from one to the next.
    pub signature: String,
    /// The number of failures.
    pub count: u64,
    /// The time of the first failure.
    pub first: Option<String>,
    /// The time of the last failure.
    pub last: Option<String>,
    /// The number of all failures in this time: those of its skills, or of all skills if not all of them are named.
    pub of: u64,
    /// The skills that failed so.
    pub skills: Vec<String>,
    /// The models that failed in this way.
    pub models: Vec<String>,
    /// Some of the runs, the latest first.
    pub runs: Vec<String>,
    /// The most runs that may have been left out for want of room.
    pub missed: u64,
    /// True if `skills` names all of them.
    #[serde(skip)]
    pub(super) all_named: bool,
}

/// The runs of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DayCounts {
    /// The day, as `2026-11-16` (UTC).
    pub day: String,
    /// The number of successes.
    pub success: u64,
    /// The number of failures.
    pub failure: u64,
    /// The number of runs with neither outcome, as far as is known.
    pub unknown: u64,
}

/// An oddity, and the number of its runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OddityCount {
    /// A description of the oddity.
    pub what: String,
    /// The number of times it was met.
    pub count: u64,
    /// Some of the runs.
    pub runs: Vec<String>,
}

impl Period {
    /// The first day and the last: as was asked for, or else of the runs. Where it was asked for until some time, that
    /// time is no longer in it.
    pub fn days(&self) -> Option<(String, String)> {
        let day = |time: &Option<String>| time.as_deref().map(|time| time.chars().take(10).collect());
        let last_asked = self.until.as_deref().and_then(|until| until.parse::<Timestamp>().ok());
        let last_asked = last_asked.map(|until| date(until.as_millisecond().saturating_sub(1)));
        Some((day(&self.since).or(day(&self.first))?, last_asked.or(day(&self.last))?))
    }
}

impl Report {
    /// The report as JSON, with what a model made of it under `narrative`.
    pub fn to_json(&self, narrative: Option<&Narrative>) -> Value {
        // Neither has anything that JSON has no way to say.
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["narrative"] = serde_json::to_value(narrative).unwrap_or_default();
        value
    }

    /// The notes, then runs with a status that is not understood, as far as `statuses_max` words of it, then other
    /// oddities.
    pub(super) fn remarks(&self, statuses_max: usize) -> impl Iterator<Item = String> {
        let status = |odd: &OddityCount| {
            let runs = runs_word(odd.count);
            format!("{runs} with the status “{}”, which has no meaning here", odd.what)
        };
        let oddity = |odd: &OddityCount| format!("{}: {}", runs_word(odd.count), odd.what);
        let statuses = self.statuses.iter().take(statuses_max).map(status);
        self.notes.iter().cloned().chain(statuses).chain(self.oddities.iter().map(oddity))
    }
}

pub(super) fn make(question: &ReportQuery<'_>, tally: Tally<'_>, read: &ReadStats) -> Report {
    let mut report = Report {
        period: period(question, &tally, read),
        notes: notes(question, &tally, read),
        whole: !read.stopped,
        gaps: has_gaps(&tally, read),
        days: days(&tally),
        oddities: oddities(&tally),
        unused: unused(question, &tally, read),
        ..Report::default()
    };
    report.statuses = statuses(tally.words);
    report.comparisons = compare::versions(tally.versions);
    let mut groups = tally.groups.into_slots();
    let name = |group: &tally::SkillTally| (group.skill.clone(), group.model.clone(), group.phase.clone());
    groups.sort_by_cached_key(|slot| (Reverse(slot.value.ends.all()), name(&slot.value)));
    let mut totals = tally::SkillTally::default();
    let all = tally.ends;
    for MapSlot { value: group, missed } in groups {
        if question.before_ms().is_some() && group.before.ended() > 0 && group.ends.ended() > 0 {
            report.comparisons.push(compare::trend(&group));
        }
        if group.ends.all() > 0 {
            report.groups.push(skill_stats(&group, missed, question.before_ms().is_some()));
            totals.merge(group);
        }
    }
    compare::judge(&mut report.comparisons);
    compare::find_same_inputs(&mut report.comparisons, &tally.inputs);
    report.flaky = compare::find_flaky(tally.inputs, &report.groups);
    report.failures = failures(tally.clusters, &report.groups, all.failure);
    report.totals = Totals {
        runs: all.all(),
        success: all.success_rate(),
        first_try: Proportion::new(totals.first_try, totals.with_attempts),
        verified: Proportion::new(totals.verified, all.ended()),
        unknown: all.unknown,
        other: all.other,
        attempts: totals.attempts,
        duration: totals.durations.stats(),
    };
    report.statements = statements::statements(&report);
    report
}

/// Returns true if something could not be read, or there was no room for it.
fn has_gaps(tally: &Tally<'_>, read: &ReadStats) -> bool {
    let full = [tally.groups.left_out, tally.versions.left_out, tally.clusters.left_out];
    !read.troubles.is_empty() || !read.damaged.is_empty() || full.iter().any(|left| left.keys > 0)
}

fn skill_stats(group: &tally::SkillTally, missed: u64, has_before: bool) -> SkillStats {
    let n = group.ends.ended();
    let counted = group.attempts.iter().sum();
    SkillStats {
        skill: group.skill.clone(),
        model: group.model.clone(),
        phase: group.phase.clone(),
        n,
        enough: n >= RUNS_MIN,
        success: group.ends.success_rate(),
        first_try: Proportion::new(group.first_try, group.with_attempts),
        verified: Proportion::new(group.verified, n),
        unknown: group.ends.unknown,
        other: group.ends.other,
        attempts_mean: (counted > 0).then(|| float(group.attempts_sum) / float(counted)),
        attempts: group.attempts,
        duration: group.durations.stats(),
        before: has_before.then(|| group.before.success_rate()),
        missed,
        failed_runs: group.bad.ids().collect(),
        good_runs: group.good.ids().collect(),
        open_runs: group.open.ids().collect(),
    }
}

/// `failed`: how many runs failed, whatever their skill.
fn failures(
    clusters: BoundedMap<tally::FailureTally>,
    groups: &[SkillStats],
    failed: u64,
) -> Vec<FailureCluster> {
    let mut by_skill: HashMap<&str, u64> = HashMap::new();
    for group in groups {
        *by_skill.entry(&group.skill).or_default() += group.success.of - group.success.count;
    }
    let of = |cluster: &tally::FailureTally| {
        if !cluster.skills.are_all() {
            return failed;
        }
        let named = cluster.skills.names();
        let sum: u64 = named.iter().filter_map(|skill| by_skill.get(skill.as_str())).sum();
        // For a skill that there was no room for, no failures are known but these.
        sum.max(cluster.count)
    };
    let finished = |MapSlot { value: cluster, missed }: MapSlot<tally::FailureTally>| FailureCluster {
        // An output may hold a key or a token.
        signature: redact(&cluster.signature).into_owned(),
        count: cluster.count,
        first: cluster.span.first_ms.map(time),
        last: cluster.span.last_ms.map(time),
        of: of(&cluster),
        all_named: cluster.skills.are_all(),
        skills: cluster.skills.names(),
        models: cluster.models.names(),
        runs: cluster.examples.ids().collect(),
        missed,
    };
    let mut all: Vec<FailureCluster> = clusters.into_slots().into_iter().map(finished).collect();
    all.sort_by(|a, b| (b.count, &a.signature).cmp(&(a.count, &b.signature)));
    all
}

fn statuses(words: BoundedMap<tally::StatusWordTally>) -> Vec<OddityCount> {
    let counted = |MapSlot { value: word, .. }: MapSlot<tally::StatusWordTally>| OddityCount {
        what: word.text,
        count: word.count,
        runs: word.examples.ids().collect(),
    };
    let mut all: Vec<OddityCount> = words.into_slots().into_iter().map(counted).collect();
    all.sort_by(|a, b| (b.count, &a.what).cmp(&(a.count, &b.what)));
    all
}

fn days(tally: &Tally<'_>) -> Vec<DayCounts> {
    let day = |(day, ends): (&i64, &OutcomeCounts)| DayCounts {
        day: date(day.saturating_mul(DAY_MS)),
        success: ends.success,
        failure: ends.failure,
        unknown: ends.unknown + ends.other,
    };
    tally.days.iter().map(day).collect()
}

fn oddities(tally: &Tally<'_>) -> Vec<OddityCount> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for (odd, count) in &tally.odd {
        let what = match odd {
            // `statuses` names each of these words, with its runs.
            Oddity::Status => continue,
            Oddity::Shape(name) => format!("{name} of another shape"),
            Oddity::NegativeDuration => "a duration below zero, taken as unknown".to_owned(),
            Oddity::OldTime => "a time before the year 2000, taken as none".to_owned(),
            Oddity::Replaced => "text that was no UTF-8".to_owned(),
            Oddity::Order | Oddity::Repeated | Oddity::NoTime => odd.to_string(),
        };
        *all.entry(what).or_default() += count;
    }
    if tally.nameless > 0 {
        all.insert("no name of a skill".to_owned(), tally.nameless);
    }
    if tally.ahead > 0 {
        all.insert("a time that is still to come, taken as none".to_owned(), tally.ahead);
    }
    all.into_iter().map(|(what, count)| OddityCount { what, count, runs: Vec::new() }).collect()
}

/// Returns the known skills without a run. Of a report on some runs only, or that was stopped, nobody can say that a
/// skill was never used.
fn unused(question: &ReportQuery<'_>, tally: &Tally<'_>, read: &ReadStats) -> Vec<String> {
    if question.project.is_some() || question.session.is_some() || read.stopped {
        return Vec::new();
    }
    let names = question.known_skills.iter().zip(&tally.used);
    let unused = names.filter(|(name, used)| !**used && question.skill.is_none_or(|skill| *name == skill));
    let mut unused: Vec<String> = unused.map(|(name, _)| name.clone()).collect();
    unused.sort();
    unused.dedup();
    unused
}

fn period(question: &ReportQuery<'_>, tally: &Tally<'_>, read: &ReadStats) -> Period {
    Period {
        since: question.since_ms.map(time),
        until: question.until_ms.map(time),
        before: question.before_ms().map(time),
        first: tally.span.first_ms.map(time),
        last: tally.span.last_ms.map(time),
        project: question.project.map(str::to_owned),
        skill: question.skill.map(str::to_owned),
        session: question.session.map(str::to_owned),
        sessions: read.sessions,
    }
}

fn notes(question: &ReportQuery<'_>, tally: &Tally<'_>, read: &ReadStats) -> Vec<String> {
    let mut notes = Vec::new();
    if read.stopped {
        notes.push(format!("stopped before the end: {} logs were read, and not all of them", read.sessions));
    }
    if tally.without_time > 0 {
        let runs = runs_word(tally.without_time);
        notes.push(format!(
            "{runs} without a time that can be: nobody knows whether they belong here, so left out"
        ));
    }
    if question.since_ms.is_none() {
        notes.push(NO_BEGINNING.to_owned());
    }
    if read.repeated > 0 {
        notes.push(format!("{} recorded twice, counted once", runs_word(read.repeated)));
    }
    if read.others > 0 {
        notes.push(format!("lines that are no runs, and were passed over: {}", read.others));
    }
    if !read.damaged.is_empty() {
        let (count, names) = (read.damaged_more, few(&read.damaged));
        notes.push(format!(
            "places that cannot be read: {count}, in {names}; the runs there are missing here"
        ));
    }
    for trouble in read.troubles.iter().take(FEW) {
        notes.push(format!("not read: {trouble}"));
    }
    if read.troubles.len() > FEW {
        notes.push(format!("not read: {} more logs", read.troubles.len() - FEW));
    }
    let full = [
        (tally.groups.left_out, "skills, models and phases with few runs"),
        (tally.versions.left_out, "versions of skills with few runs"),
        (tally.clusters.left_out, "failures of which there are few alike"),
        (tally.words.left_out, "runs with rare words for their status"),
    ];
    for (left, what) in full {
        if left.keys > 0 {
            notes.push(format!(
                "there are too many {what} to keep: {} runs of such are not shown",
                left.weight
            ));
        }
    }
    if tally.inputs.left_out.keys > 0 {
        notes.push(format!(
            "there are too many inputs to keep: {} that came seldom were let go, so flaky skills may be missing here",
            tally.inputs.left_out.keys
        ));
    }
    notes
}

fn few(names: &[String]) -> String {
    let mut names = names.to_vec();
    names.sort();
    let more = names.len().saturating_sub(FEW);
    names.truncate(FEW);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names.join(", "))
}

/// `1 run`, `7 runs`.
fn runs_word(count: u64) -> String {
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}

/// A time as records write it.
pub(super) fn time(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| "-".to_owned(), |time| format!("{time:.3}"))
}

/// The day of a time.
pub(super) fn date(ms: i64) -> String {
    time(ms).chars().take(10).collect()
}

/// The note of a report on runs since ever.
pub const NO_BEGINNING: &str = "no beginning was given, so there is no period before to compare with";
const FEW: usize = 5;
