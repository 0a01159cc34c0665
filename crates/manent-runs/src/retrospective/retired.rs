//! Whether something that an earlier report taught no longer holds.
//!
//! Only what a report could have said again, and did not, is over: it must be about the same project and session, about
//! all skills, about a time that ends now, and have read everything; and it must have enough runs of what the lesson
//! names. Too few runs are no reason to forget anything.

use manent::memory::{Item, Kind};

use super::lessons::{ABOUT, MODEL, SKILL, TOPIC, about_of, tag};
use super::report::Report;
use super::statements::Topic;
use super::statistics::RUNS_MIN;

/// Whether a lesson that this report does not make is over. Whoever asks knows that it does not.
pub(super) fn is_over(report: &Report, item: &Item) -> bool {
    if item.kind != Kind::Context || !can_tell(report) {
        return false;
    }
    let Some(about) = about_of(item).and_then(|about| about.strip_prefix(ABOUT)) else { return false };
    let Some(about) = within(report, about) else { return false };
    let has = |topic: Topic| tag(TOPIC, topic.word()).is_some_and(|topic| item.tags.contains(&topic));
    if has(Topic::Failures) {
        // Only the most frequent are told; the others still are.
        let goes_on = report.failures.iter().any(|one| one.count >= RUNS_MIN && one.about() == about);
        !goes_on && has_enough(report, item)
    } else if has(Topic::Difference) {
        was_asked(report, item)
    } else {
        // A rate is said again as soon as there are enough runs, with other numbers. Until then nobody knows better.
        false
    }
}

/// Whether what this report does not say can be taken for not so.
fn can_tell(report: &Report) -> bool {
    report.whole && !report.gaps && report.period.skill.is_none() && report.period.until.is_none()
}

/// What a lesson is about, if it is about the project and the session that the report is about.
fn within<'a>(report: &Report, about: &'a str) -> Option<&'a str> {
    let within = report.within();
    let about = about.strip_suffix(&within)?;
    (!about.contains('-')).then_some(about)
}

/// Whether there are enough runs of each skill that the lesson names; of its model, where it names one.
fn has_enough(report: &Report, item: &Item) -> bool {
    let skills: Vec<&String> = named(item, SKILL).collect();
    let models: Vec<&String> = named(item, MODEL).collect();
    let of = |skill: &String| {
        let groups = report.groups.iter().filter(|group| tag(SKILL, &group.skill).as_ref() == Some(skill));
        let groups = groups.filter(|group| {
            models.is_empty() || tag(MODEL, &group.model).is_some_and(|model| models.contains(&&model))
        });
        groups.map(|group| group.n).sum::<u64>()
    };
    !skills.is_empty() && skills.into_iter().all(|skill| of(skill) >= RUNS_MIN)
}

/// Whether the two models of the lesson were compared, whichever of them was first.
fn was_asked(report: &Report, item: &Item) -> bool {
    let is_named = |label: &str, name: &str| tag(label, name).is_some_and(|tag| item.tags.contains(&tag));
    report.comparisons.iter().any(|one| {
        one.chance.is_some()
            && one.model.is_empty()
            && is_named(SKILL, &one.skill)
            && is_named(MODEL, &one.from)
            && is_named(MODEL, &one.to)
    })
}

fn named<'a>(item: &'a Item, label: &'static str) -> impl Iterator<Item = &'a String> {
    item.tags.iter().filter(move |tag| tag.strip_prefix(label).is_some_and(|rest| rest.starts_with(':')))
}
