//! The lessons of a report: statements with enough runs, each kept once in the memory.
//!
//! A lesson said again with other numbers replaces the one before. A lesson of an earlier report is retired where this
//! report could have said it again and did not: it must be about the same project and session, about all skills and a
//! time that ends now, have read everything, and have enough runs of what the lesson names. Too few runs are no reason
//! to forget anything. Items that a person wrote are left alone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::time::Duration;

use manent::memory::{Filter, Item, Kind, Memory, NewItem, Source, SourceKind};
use manent::redact;
use manent_store::SessionKey;

use super::report::Report;
use super::statements::{Statement, Topic};
use super::statistics::RUNS_MIN;
use super::tally::id_of;
use crate::error::Result;
use crate::runs::Runs;

/// The changes to the memory that [`Report::remember`] made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LessonChanges {
    /// Items that are new.
    pub added: Vec<u64>,
    /// Items that replace what an earlier report said of the same thing: the new one, and the old one.
    pub replaced: Vec<(u64, u64)>,
    /// The number of lessons that were in the memory to the letter, or on which a person wrote something.
    pub known: usize,
    /// Items that were active and no longer hold: they are forgotten, with what they had replaced.
    pub retired: Vec<u64>,
}

impl Report {
    /// Remembers the statements that have enough runs behind them. A report that was stopped has nothing to teach.
    ///
    /// What models differ in, which failures look the same, and how often a skill succeeds, is context: it is so until
    /// there are more runs. Where this report has enough of them and no longer says so, what an earlier one of the same
    /// project and session taught is forgotten. What broke when, and what is flaky, is a fact, and stays. Runs that it
    /// rests on stand in the tags: `run:…`. Another writer of the memory is waited for.
    pub fn remember(&self, memory: &Memory, wait: Duration) -> Result<LessonChanges> {
        let mut changes = LessonChanges::default();
        let lessons: Vec<&Statement> = self.statements.iter().filter(|one| is_lesson(one)).collect();
        let ours = Filter { tags: vec![TAG.to_owned()], ..Filter::default() };
        if !self.whole || (lessons.is_empty() && memory.items(&ours)?.is_empty()) {
            return Ok(changes);
        }
        // Taken before the items are read, so that two reports do not add the same lesson.
        let mut writer = memory.writer(wait)?;
        let active = memory.items(&ours)?;
        let mut by_about: HashMap<&str, &Item> = HashMap::new();
        // Newest first: of two, the newer counts.
        for item in &active {
            if let Some(about) = about_of(item) {
                by_about.entry(about).or_insert(item);
            }
        }
        let mut current = HashSet::new();
        for lesson in lessons {
            let about = format!("{ABOUT}{}", self.about(lesson));
            let content = redact(lesson.lesson.as_ref().unwrap_or(&lesson.text)).into_owned();
            match by_about.get(about.as_str()) {
                Some(item) if item.content == content || !is_ours(item) => changes.known += 1,
                Some(item) => {
                    let new = writer.add(&self.item_of(lesson, content, about.clone()).replacing(item.id))?;
                    changes.replaced.push((new.id, item.id));
                }
                None => changes.added.push(writer.add(&self.item_of(lesson, content, about.clone()))?.id),
            }
            current.insert(about);
        }
        let is_current = |item: &Item| about_of(item).is_none_or(|about| current.contains(about));
        let mut retired = active;
        retired.retain(|item| is_ours(item) && !is_current(item) && is_over(self, item));
        if !retired.is_empty() {
            // With what they had replaced, or that would be active again.
            let mut replaced = memory.items(&Filter { replaced: true, ..ours })?;
            replaced
                .retain(|item| is_ours(item) && retired.iter().any(|one| about_of(one) == about_of(item)));
            let ids: Vec<u64> = retired.iter().chain(&replaced).map(|item| item.id).collect();
            writer.forget(&ids)?;
            changes.retired = retired.iter().map(|item| item.id).collect();
            changes.retired.sort_unstable();
        }
        Ok(changes)
    }

    /// A statement about one project or one session is another than that about all.
    fn about(&self, lesson: &Statement) -> String {
        format!("{}{}", lesson.about, self.within())
    }

    /// Returns the suffix of `about` for a report on one project or session; empty for one on all runs.
    pub(super) fn within(&self) -> String {
        let parts = [&self.period.project, &self.period.session].map(|part| part.as_deref().unwrap_or(""));
        if parts == ["", ""] {
            return String::new();
        }
        let within = blake3::hash(parts.join("\u{0}").as_bytes()).to_hex();
        format!("-{}", &within[..8])
    }

    fn item_of(&self, lesson: &Statement, content: String, about: String) -> NewItem {
        let kind = match lesson.topic {
            Topic::Regression | Topic::Improvement | Topic::Flaky => Kind::Fact,
            _ => Kind::Context,
        };
        let mut item = NewItem::new(kind, content).from(Source::by(SourceKind::Import)).tag(TAG).tag(about);
        item.tags.extend(tag(TOPIC, lesson.topic.word()));
        let (mut skills, mut models) = (Vec::from_iter(&lesson.skill), Vec::from_iter(&lesson.model));
        // Of failures of several skills, and of two models, all are named: by these it is known whether it still holds.
        if let Some(failures) = self.failures.iter().find(|one| one.about() == lesson.about) {
            skills = failures.skills.iter().collect();
        }
        if let Some(one) = self.comparisons.iter().find(|one| one.about() == lesson.about)
            && lesson.topic == Topic::Difference
        {
            models = vec![&one.from, &one.to];
        }
        item.tags.extend(skills.into_iter().filter_map(|name| tag(SKILL, name)));
        item.tags.extend(models.into_iter().filter_map(|name| tag(MODEL, name)));
        item.tags.extend(lesson.runs.iter().take(RUNS).filter_map(|run| tag(RUN, run)));
        item
    }
}

/// Returns the tag that says what an item is about.
pub(super) fn about_of(item: &Item) -> Option<&str> {
    item.tags.iter().map(String::as_str).find(|tag| tag.starts_with(ABOUT))
}

/// Returns true if a retrospective wrote the item, and not a person.
fn is_ours(item: &Item) -> bool {
    item.source.who == SourceKind::Import
}

fn is_lesson(one: &Statement) -> bool {
    let teaches = match one.topic {
        Topic::Regression
        | Topic::Improvement
        | Topic::Difference
        | Topic::Flaky
        | Topic::Failures
        | Topic::Rate => true,
        Topic::Open | Topic::Unused | Topic::TooFew => false,
    };
    teaches && one.n >= RUNS_MIN
}

/// A label that is one: short, and nothing in it that is no letter or sign.
pub(super) fn tag(label: &str, name: &str) -> Option<String> {
    let name: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
    (!name.trim().is_empty()).then(|| format!("{label}:{name}"))
}

/// The tag of each lesson that a retrospective remembers.
pub(super) const TAG: &str = "retro";
/// The beginning of the tag with the subject of a lesson, by which the lesson is found again.
pub(super) const ABOUT: &str = "about:";
pub(super) const TOPIC: &str = "topic";
pub(super) const SKILL: &str = "skill";
pub(super) const MODEL: &str = "model";
pub(super) const RUN: &str = "run";
const NAME_CHARS: usize = 80;
const RUNS: usize = 3;

/// Returns true if a lesson is over that this report could have made, and does not make.
pub(super) fn is_over(report: &Report, item: &Item) -> bool {
    if item.kind != Kind::Context || !is_complete(report) {
        return false;
    }
    let Some(about) = about_of(item).and_then(|about| about.strip_prefix(ABOUT)) else { return false };
    let Some(about) = within(report, about) else { return false };
    let has = |topic: Topic| tag(TOPIC, topic.word()).is_some_and(|topic| item.tags.contains(&topic));
    if has(Topic::Failures) {
        // Statements name only the most frequent failures; the others still occur.
        let still_occurs = report.failures.iter().any(|one| one.count >= RUNS_MIN && one.about() == about);
        !still_occurs && has_enough(report, item)
    } else if has(Topic::Difference) {
        was_compared(report, item)
    } else {
        // A rate is replaced by the next report with enough runs. Until then it is the best estimate.
        false
    }
}

/// Returns true if the report read all runs, so that what it does not state is not so.
fn is_complete(report: &Report) -> bool {
    report.whole && !report.gaps && report.period.skill.is_none() && report.period.until.is_none()
}

/// Strips the suffix of the report's project and session; `None` if the lesson is about others.
fn within<'a>(report: &Report, about: &'a str) -> Option<&'a str> {
    let within = report.within();
    let about = about.strip_suffix(&within)?;
    (!about.contains('-')).then_some(about)
}

/// Returns true if there are enough runs of each skill that the lesson names, with its model if it names one.
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

/// Returns true if the two models of the lesson were compared, whichever of them was first.
fn was_compared(report: &Report, item: &Item) -> bool {
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
