//! What of a report is remembered: statements with enough runs, each once. Said again with other numbers, it replaces
//! what was said before.

use std::collections::HashMap;
use std::time::Duration;

use super::report::Report;
use super::statistics::RUNS_MIN;
use super::words::{Statement, Topic};
use crate::error::Result;
use crate::memory::{Filter, Kind, Memory, NewItem, Source, Who};
use crate::secrets::redact;

/// What remembering did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Items that are new.
    pub added: Vec<u64>,
    /// Items that replace what an earlier report said of the same thing: the new one, and the old one.
    pub replaced: Vec<(u64, u64)>,
    /// How many were remembered before, to the letter.
    pub known: usize,
}

impl Report {
    /// Remembers the statements that have enough runs behind them. A report that was stopped has nothing to teach.
    ///
    /// What models differ in, and how often a skill succeeds, is context: it is so until there are more runs. What
    /// broke when, and what is flaky, is a fact. Runs that it rests on stand in the tags: `run:…`. Another
    /// writer of the memory is waited for.
    pub fn remember(&self, memory: &Memory, wait: Duration) -> Result<Remembered> {
        let mut done = Remembered::default();
        let lessons: Vec<&Statement> = self.statements.iter().filter(|one| is_lesson(one)).collect();
        if !self.whole || lessons.is_empty() {
            return Ok(done);
        }
        // Before looking what is known: two who do this at once must not both find that nothing is.
        let mut hold = memory.hold(wait)?;
        let mut known: HashMap<String, (u64, String)> = HashMap::new();
        let ours = Filter { tags: vec![TAG.to_owned()], ..Filter::default() };
        // Newest first: of two, the newer counts.
        for item in memory.items(&ours)? {
            if let Some(about) = item.tags.iter().find(|tag| tag.starts_with(ABOUT)) {
                known.entry(about.clone()).or_insert((item.id, item.content));
            }
        }
        for lesson in lessons {
            let about = format!("{ABOUT}{}", self.about(lesson));
            let content = redact(&lesson.text).into_owned();
            match known.get(&about) {
                Some((_, same)) if *same == content => done.known += 1,
                Some((old, _)) => {
                    let item = hold.add(&item_of(lesson, content, about).replacing(*old))?;
                    done.replaced.push((item.id, *old));
                }
                None => done.added.push(hold.add(&item_of(lesson, content, about))?.id),
            }
        }
        Ok(done)
    }

    /// A statement about one project or one session is another than that about all.
    fn about(&self, lesson: &Statement) -> String {
        let parts = [&self.period.project, &self.period.session].map(|part| part.as_deref().unwrap_or(""));
        if parts == ["", ""] {
            return lesson.about.clone();
        }
        let within = blake3::hash(parts.join("\u{0}").as_bytes()).to_hex();
        format!("{}-{}", lesson.about, &within[..8])
    }
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

fn item_of(lesson: &Statement, content: String, about: String) -> NewItem {
    let kind = match lesson.topic {
        Topic::Regression | Topic::Improvement | Topic::Flaky => Kind::Fact,
        _ => Kind::Context,
    };
    let mut item = NewItem::new(kind, content).from(Source::by(Who::Import)).tag(TAG).tag(about);
    let labels = [("skill", &lesson.skill), ("model", &lesson.model)];
    for (label, name) in labels {
        item.tags.extend(name.as_deref().and_then(|name| tag(label, name)));
    }
    item.tags.extend(lesson.runs.iter().take(RUNS).filter_map(|run| tag("run", run)));
    item
}

/// A label that is one: short, and nothing in it that is no letter or sign.
fn tag(label: &str, name: &str) -> Option<String> {
    let name: String = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
    (!name.trim().is_empty()).then(|| format!("{label}:{name}"))
}

const TAG: &str = "retro";
/// Before what a lesson is about, in a tag: by this it is known again.
const ABOUT: &str = "about:";
const NAME_CHARS: usize = 80;
const RUNS: usize = 3;
