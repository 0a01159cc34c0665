//! What of a report is remembered: statements with enough runs, each once. Said again with other numbers, it replaces
//! what was said before; what is no longer so is retired (`retired.rs`). What a person wrote is left alone.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use manent::memory::{Filter, Item, Kind, Memory, NewItem, Source, SourceKind};
use manent::redact;

use super::report::Report;
use super::retired;
use super::statements::{Statement, Topic};
use super::statistics::RUNS_MIN;
use crate::error::Result;

/// What remembering did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LessonChanges {
    /// Items that are new.
    pub added: Vec<u64>,
    /// Items that replace what an earlier report said of the same thing: the new one, and the old one.
    pub replaced: Vec<(u64, u64)>,
    /// How many were remembered before, to the letter; or a person said something about the same thing.
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
        let mut done = LessonChanges::default();
        let lessons: Vec<&Statement> = self.statements.iter().filter(|one| is_lesson(one)).collect();
        let ours = Filter { tags: vec![TAG.to_owned()], ..Filter::default() };
        if !self.whole || (lessons.is_empty() && memory.items(&ours)?.is_empty()) {
            return Ok(done);
        }
        // Before looking what is known: two who do this at once must not both find that nothing is.
        let mut hold = memory.writer(wait)?;
        let active = memory.items(&ours)?;
        let mut known: HashMap<&str, &Item> = HashMap::new();
        // Newest first: of two, the newer counts.
        for item in &active {
            if let Some(about) = about_of(item) {
                known.entry(about).or_insert(item);
            }
        }
        let mut said = HashSet::new();
        for lesson in lessons {
            let about = format!("{ABOUT}{}", self.about(lesson));
            let content = redact(lesson.lesson.as_ref().unwrap_or(&lesson.text)).into_owned();
            match known.get(about.as_str()) {
                Some(item) if item.content == content || !is_ours(item) => done.known += 1,
                Some(item) => {
                    let new = hold.add(&self.item_of(lesson, content, about.clone()).replacing(item.id))?;
                    done.replaced.push((new.id, item.id));
                }
                None => done.added.push(hold.add(&self.item_of(lesson, content, about.clone()))?.id),
            }
            said.insert(about);
        }
        let is_said = |item: &Item| about_of(item).is_none_or(|about| said.contains(about));
        let mut over = active;
        over.retain(|item| is_ours(item) && !is_said(item) && retired::is_over(self, item));
        if !over.is_empty() {
            // With what they had replaced, or that would be active again.
            let mut behind = memory.items(&Filter { replaced: true, ..ours })?;
            behind.retain(|item| is_ours(item) && over.iter().any(|one| about_of(one) == about_of(item)));
            let ids: Vec<u64> = over.iter().chain(&behind).map(|item| item.id).collect();
            hold.forget(&ids)?;
            done.retired = over.iter().map(|item| item.id).collect();
            done.retired.sort_unstable();
        }
        Ok(done)
    }

    /// A statement about one project or one session is another than that about all.
    fn about(&self, lesson: &Statement) -> String {
        format!("{}{}", lesson.about, self.within())
    }

    /// What stands behind what a lesson of this report is about: nothing if it is about all runs.
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

/// What an item is about, with the word before it.
pub(super) fn about_of(item: &Item) -> Option<&str> {
    item.tags.iter().map(String::as_str).find(|tag| tag.starts_with(ABOUT))
}

/// Whether a retrospective wrote it, and not a person.
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

/// On everything that a retrospective remembers.
pub(super) const TAG: &str = "retro";
/// Before what a lesson is about, in a tag: by this it is known again.
pub(super) const ABOUT: &str = "about:";
pub(super) const TOPIC: &str = "topic";
pub(super) const SKILL: &str = "skill";
pub(super) const MODEL: &str = "model";
pub(super) const RUN: &str = "run";
const NAME_CHARS: usize = 80;
const RUNS: usize = 3;
