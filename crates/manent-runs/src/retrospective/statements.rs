//! The statements of a report: sentences with their n, how sure they are, and the runs that they rest on; and the
//! words that all forms of the report share.

use std::fmt::Write as _;

use manent::words;
use serde::Serialize;

use super::compare::{ComparisonKind, FlakySkill, RateComparison};
use super::report::{FailureCluster, Report, SkillStats};
use super::statistics::{Proportion, RUNS_MIN};

words! {
    /// The topic of a statement, in the order of importance.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Topic {
        /// The success rate fell.
        Regression = "regression",
        /// The success rate rose.
        Improvement = "improvement",
        /// Two models do not do equally well.
        Difference = "difference",
        /// The skill ends both ways with everything the same.
        Flaky = "flaky",
        /// Many failures look the same.
        Failures = "failures",
        /// Many runs have an unknown outcome.
        Open = "open",
        /// The skill was never used.
        Unused = "unused",
        /// The success rate of a skill.
        Rate = "rate",
        /// Too few runs to say anything.
        #[default]
        TooFew = "too-few",
    }
}

/// A statement that the numbers support.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Statement {
    /// The topic.
    pub topic: Topic,
    /// The statement in words.
    pub text: String,
    /// The number of runs that the statement rests on.
    pub n: u64,
    /// The corrected p-value of a statement that two rates differ.
    pub chance: Option<f64>,
    /// The skill that the statement is about.
    pub skill: Option<String>,
    /// The model that the statement is about.
    pub model: Option<String>,
    /// Some of the runs that it rests on.
    pub runs: Vec<String>,
    /// An id of the subject: a later report that speaks of the same thing has the same.
    pub about: String,
    /// The part that is remembered, if that is not all of the text.
    #[serde(skip)]
    pub(super) lesson: Option<String>,
}

pub(super) fn statements(report: &Report) -> Vec<Statement> {
    let mut all: Vec<Statement> = Vec::new();
    let supported = report.comparisons.iter().filter(|one| one.supported);
    let tested = report.comparisons.iter().filter(|one| one.chance.is_some()).count();
    all.extend(supported.map(|one| compared(one, tested)));
    all.extend(report.flaky.iter().map(flaky));
    let many = report.failures.iter().filter(|one| one.count >= RUNS_MIN).take(FAILURES);
    all.extend(many.map(failures));
    all.extend(report.unused.iter().map(|name| unused(name)));
    for group in &report.groups {
        all.push(if group.enough {
            rate(group)
        } else {
            let text = format!("{}: {}", group.name(), too_few_words(group.n));
            statement_of(group, Topic::TooFew, text)
        });
        if group.unknown + group.other >= RUNS_MIN {
            all.push(open(group));
        }
    }
    // In the order of topics; within one, as they come: the surest or the most frequent first.
    all.sort_by_key(|statement| statement.topic);
    all
}

fn compared(one: &RateComparison, comparisons: usize) -> Statement {
    let topic = match (one.differs, one.is_worse()) {
        (ComparisonKind::ModelBeside, _) => Topic::Difference,
        (_, true) => Topic::Regression,
        (_, false) => Topic::Improvement,
    };
    let (before, after) = (rate_words(one.before), rate_words(one.after));
    let skill = skill_name(&one.skill);
    let moved = if one.is_worse() { "fell" } else { "rose" };
    let since = one.since.as_deref().unwrap_or("an unknown day");
    let finding = match one.differs {
        ComparisonKind::Period => {
            let what = with(&one.skill, &one.model, &one.phase);
            format!("{what}: success {moved} from {before} in the period before to {after}")
        }
        ComparisonKind::Version => {
            let (from, to, model) = (version_name(&one.from), version_name(&one.to), with_model(&one.model));
            format!(
                "{skill}{model}: success {moved} from {before} to {after} with version {to}, first seen on {since} \
                 (before: {from})"
            )
        }
        ComparisonKind::Model => {
            let also =
                if one.version_too { "; the skill's version changed too, so it may be that" } else { "" };
            let (from, to) = (&one.from, &one.to);
            format!(
                "{skill}: success {moved} from {before} with {from} to {after} with {to}, first seen on {since}{also}"
            )
        }
        ComparisonKind::ModelBeside => {
            let (from, to) = ((&one.from, &before), (&one.to, &after));
            let ((better, high), (worse, low)) = if one.is_worse() { (from, to) } else { (to, from) };
            let caveat = other_reasons(one);
            format!("{skill}: {better} succeeded in {high} and {worse} in {low}; {caveat}")
        }
    };
    let corrected = one.corrected.unwrap_or(1.0);
    let many = match comparisons {
        1 => "the only comparison".to_owned(),
        _ => format!("one of {comparisons} comparisons"),
    };
    Statement {
        topic,
        text: format!("{finding} (p {}, corrected as {many})", chance(corrected)),
        n: one.before.of + one.after.of,
        chance: Some(corrected),
        skill: Some(one.skill.clone()),
        model: Some(if one.model.is_empty() { one.to.clone() } else { one.model.clone() }),
        runs: one.runs.clone(),
        about: one.about(),
        // The corrected p-value depends on how much else was compared: runs of other skills would change the lesson.
        lesson: Some(finding),
    }
}

/// Names other reasons than the model for a difference between two that were used in the same time.
fn other_reasons(one: &RateComparison) -> &'static str {
    match (one.same_inputs, one.version_too) {
        (true, false) => "nearly all runs of both were on inputs that the other was given too",
        (true, true) => {
            "both were given nearly the same inputs, but other versions of the skill, so it may be that"
        }
        (false, false) => "nobody drew by lot which of them got which task, so it may be the tasks",
        (false, true) => {
            "nobody drew by lot which of them got which task, and the versions of the skill differ, so it may be that"
        }
    }
}

impl RateComparison {
    /// Identifies the statement on it across reports.
    pub(super) fn about(&self) -> String {
        about(&[self.differs.word(), &self.skill, &self.model, &self.phase, &self.from, &self.to])
    }

    /// Returns `different` if the numbers support a difference, else why nothing is concluded.
    pub(super) fn verdict_words(&self, different: &str) -> String {
        match (self.supported, self.chance) {
            (true, _) => different.to_owned(),
            (false, Some(_)) => "may be equal".to_owned(),
            (false, None) => too_few_words(self.before.of.min(self.after.of)),
        }
    }
}

impl SkillStats {
    /// The columns of [`SkillStats::table_row`].
    pub(super) const TABLE_COLUMNS: [&str; 9] = [
        "skill",
        "n",
        "success",
        "first attempt",
        "checked and good",
        "attempts",
        "median",
        "p95",
        "unknown",
    ];

    /// Returns the skill with its model and its phase, as [`with`] words them.
    pub(super) fn name(&self) -> String {
        with(&self.skill, &self.model, &self.phase)
    }

    /// Returns the cells of a row in the table of all skills; `cell` words a proportion.
    pub(super) fn table_row(&self, cell: impl Fn(&Proportion) -> String) -> Vec<String> {
        let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), duration_text);
        vec![
            self.name(),
            self.n.to_string(),
            cell(&self.success),
            cell(&self.first_try),
            cell(&self.verified),
            self.attempts_mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}")),
            time(self.duration.median_ms),
            time(self.duration.p95_ms),
            (self.unknown + self.other).to_string(),
        ]
    }
}

impl FailureCluster {
    /// Identifies the statement on them across reports.
    pub(super) fn about(&self) -> String {
        about(&["failures", &self.signature])
    }
}

fn flaky(one: &FlakySkill) -> Statement {
    let what = format!("{}{}", skill_name(&one.skill), with_model(&one.model));
    let text = if one.enough {
        format!(
            "{what} is flaky: on {} of {} inputs that it was given more than once, the same version ended both ways \
             ({} runs)",
            one.mixed_inputs, one.repeated_inputs, one.n
        )
    } else {
        format!("{what} ended both ways on one input: {}", too_few_words(one.n))
    };
    Statement {
        topic: if one.enough { Topic::Flaky } else { Topic::TooFew },
        text,
        n: one.n,
        skill: Some(one.skill.clone()),
        model: Some(one.model.clone()),
        runs: one.pairs.iter().flat_map(|(good, bad)| [good.clone(), bad.clone()]).collect(),
        about: about(&["flaky", &one.skill, &one.model]),
        ..Statement::default()
    }
}

fn failures(one: &FailureCluster) -> Statement {
    let when = match (day_of(one.first.as_deref()), day_of(one.last.as_deref())) {
        ("?", last) => format!("at unknown times{}", if last == "?" { "" } else { "?" }),
        (first, last) if first == last => format!("on {first}"),
        (first, last) => format!("between {first} and {last}"),
    };
    let (count, of, skills) = (one.count, one.of, one.skills.join(", "));
    let alike = match (one.all_named, one.skills.is_empty()) {
        (true, _) => format!("{count} of {of} failures of {skills} look the same"),
        (false, true) => format!("{count} of {of} failures look the same"),
        (false, false) => {
            format!("{count} of {of} failures of all skills look the same ({skills} among them)")
        }
    };
    Statement {
        topic: Topic::Failures,
        text: format!("{alike}, {when}: {}", one.signature),
        n: one.count,
        skill: (one.skills.len() == 1).then(|| one.skills[0].clone()),
        model: (one.models.len() == 1).then(|| one.models[0].clone()),
        runs: one.runs.clone(),
        about: one.about(),
        ..Statement::default()
    }
}

fn unused(name: &str) -> Statement {
    Statement {
        topic: Topic::Unused,
        text: format!("{} was never used in this time (0 runs)", skill_name(name)),
        skill: Some(name.to_owned()),
        about: about(&["unused", name]),
        ..Statement::default()
    }
}

fn rate(group: &SkillStats) -> Statement {
    let mut text = format!("{} succeeded in {}", group.name(), rate_words(group.success));
    if let (Some(low), Some(high)) = (group.success.low, group.success.high) {
        let _ = write!(text, ", so between {} and {}", percent(low), percent(high));
    }
    if let Some(rate) = group.first_try.rate.filter(|_| group.first_try.is_enough()) {
        let _ = write!(text, "; at the first attempt {}", percent(rate));
    }
    if group.missed > 0 {
        let _ = write!(text, "; up to {} runs may be missing", group.missed);
    }
    statement_of(group, Topic::Rate, text)
}

fn open(group: &SkillStats) -> Statement {
    let text = format!(
        "{}: {} runs did not tell how they ended and {} say it in a word without a meaning here; they count as \
         neither",
        group.name(),
        group.unknown,
        group.other
    );
    let n = group.unknown + group.other;
    Statement { n, runs: group.open_runs.clone(), ..statement_of(group, Topic::Open, text) }
}

fn statement_of(group: &SkillStats, topic: Topic, text: String) -> Statement {
    Statement {
        topic,
        text,
        n: group.n,
        skill: Some(group.skill.clone()),
        model: Some(group.model.clone()),
        runs: group.failed_runs.iter().chain(&group.good_runs).cloned().collect(),
        about: about(&[topic.word(), &group.skill, &group.model, &group.phase]),
        ..Statement::default()
    }
}

/// The words where nothing can be concluded.
pub(super) fn too_few_words(n: u64) -> String {
    format!("too few runs ({n}) to say")
}

/// `lint with qwen3 in plan`.
pub(super) fn with(skill: &str, model: &str, phase: &str) -> String {
    let phase = if phase.is_empty() { String::new() } else { format!(" in {phase}") };
    format!("{}{}{phase}", skill_name(skill), with_model(model))
}

pub(super) fn skill_name(skill: &str) -> &str {
    if skill.is_empty() { "(no skill named)" } else { skill }
}

fn with_model(model: &str) -> String {
    if model.is_empty() { String::new() } else { format!(" with {model}") }
}

/// The beginning of a hash, as people write it.
pub(super) fn version_name(hash: &str) -> &str {
    let hash = hash.rsplit_once(':').map_or(hash, |(_, hash)| hash);
    match &hash[..hash.floor_char_boundary(HASH_CHARS)] {
        "" => "(no version)",
        hash => hash,
    }
}

/// `90 % (45 of 50)`.
fn rate_words(share: Proportion) -> String {
    format!("{} ({} of {})", share.rate.map_or_else(|| "-".to_owned(), percent), share.count, share.of)
}

/// Formats a rate in percent. Only a rate of exactly 0 or 1 is shown as 0 % or 100 %.
pub(super) fn percent(rate: f64) -> String {
    match (rate * 100.0).round() {
        0.0 if rate > 0.0 => "under 1 %".to_owned(),
        100.0 if rate < 1.0 => "over 99 %".to_owned(),
        whole => format!("{whole:.0} %"),
    }
}

/// Names the two sides of a comparison.
pub(super) fn compared_name(one: &RateComparison) -> String {
    match one.differs {
        ComparisonKind::Period => {
            format!("{}, period before and this", with(&one.skill, &one.model, &one.phase))
        }
        ComparisonKind::Version => {
            let (from, to) = (version_name(&one.from), version_name(&one.to));
            format!("{}, version {from} and {to}", with(&one.skill, &one.model, ""))
        }
        ComparisonKind::Model | ComparisonKind::ModelBeside => {
            format!("{}, {} and {}", skill_name(&one.skill), one.from, one.to)
        }
    }
}

/// The day of a time as records write it.
pub(super) fn day_of(time: Option<&str>) -> &str {
    time.map_or("?", |time| &time[..time.len().min(10)])
}

/// Formats a duration for a person: `1.5 s`, `3 min`.
pub(super) fn duration_text(ms: u64) -> String {
    let tenths = |ms: u64, unit: u64| format!("{}.{}", ms / unit, ms % unit * 10 / unit).replace(".0", "");
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{} s", tenths(ms, 1000)),
        60_000..3_600_000 => format!("{} min", tenths(ms, 60_000)),
        3_600_000..86_400_000 => format!("{} h", tenths(ms, 3_600_000)),
        _ => format!("{} d", tenths(ms, 86_400_000)),
    }
}

/// Formats a number for a person: `12,345`.
pub fn thousands(number: u64) -> String {
    if number < 1000 {
        return number.to_string();
    }
    format!("{},{:03}", thousands(number / 1000), number % 1000)
}

/// Returns true for control characters, and for marks that turn the direction of writing or cannot be seen.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

fn chance(p: f64) -> String {
    if p < 0.001 { "under 0.001".to_owned() } else { format!("{p:.3}") }
}

/// Formats a p-value for a table, with a digit more. One above zero is never shown as zero.
pub(super) fn chance_in_table(p: f64) -> String {
    if p < 0.0001 { "under 0.0001".to_owned() } else { format!("{p:.4}") }
}

fn about(parts: &[&str]) -> String {
    blake3::hash(parts.join("\u{0}").as_bytes()).to_hex()[..ABOUT_CHARS].to_owned()
}

const FAILURES: usize = 8;
const HASH_CHARS: usize = 12;
const ABOUT_CHARS: usize = 16;
