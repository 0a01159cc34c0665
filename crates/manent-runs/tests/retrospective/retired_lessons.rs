//! Lessons that no longer hold go; facts, and what a person wrote, stay.

use std::time::Duration;

use manent::Memory;
use manent::memory::{Filter, Item, Kind, NewItem};
use manent_runs::retrospective::{LessonChanges, Report, ReportQuery};

use crate::world::{DAY_MS, Plan, START_MS, World};

const WAIT: Duration = Duration::from_secs(20);

/// Forty runs of `fix`, so many of them failures that look the same.
fn fixes(failures: u64) -> World {
    let mut world = World::new(failures);
    world.plant(&Plan::of("fix"), 40 - failures, failures);
    world
}

fn remember(report: &Report, memory: &Memory) -> LessonChanges {
    report.remember(memory, WAIT).unwrap()
}

fn with(memory: &Memory, topic: &str) -> Vec<Item> {
    let tags = vec!["retro".to_owned(), format!("topic:{topic}")];
    memory.items(&Filter { tags, ..Filter::default() }).unwrap()
}

#[test]
fn a_lesson_that_no_longer_holds_is_retired_with_all_it_had_replaced() {
    let mut world = fixes(10);
    let memory = world.store.memory().unwrap();
    assert_eq!(remember(&world.report(), &memory).added.len(), 2, "a rate, and failures that look the same");
    let second = remember(&fixes(12).report(), &memory);
    assert_eq!((second.replaced.len(), second.retired.len()), (2, 0));
    let active = with(&memory, "failures")[0].id;
    let third = remember(&fixes(0).report(), &memory);
    assert_eq!((third.retired, third.replaced.len()), (vec![active], 1), "the rate is another");
    assert!(with(&memory, "failures").is_empty(), "what it had replaced does not come back");
    assert_eq!(with(&memory, "rate").len(), 1);
    // It breaks again: that is said as if for the first time.
    assert_eq!(remember(&fixes(9).report(), &memory).added.len(), 1);
}

#[test]
fn too_few_runs_are_no_reason_to_forget() {
    let mut world = fixes(10);
    let memory = world.store.memory().unwrap();
    remember(&world.report(), &memory);
    let nothing = LessonChanges::default();
    let mut few = World::new(1);
    few.plant(&Plan::of("fix"), 4, 0);
    assert_eq!(remember(&few.report(), &memory), nothing, "four runs");
    let mut other = World::new(2);
    other.plant(&Plan::of("other"), 40, 0);
    other.plant(&Plan { model: "large", ..Plan::of("fix") }, 40, 0);
    let done = remember(&other.report(), &memory);
    assert_eq!((done.added.len(), done.retired.len()), (2, 0), "another skill, and another model");
    // The same phase seldom, another one often.
    let mut phases = World::new(3);
    phases.plant(&Plan::of("fix"), 3, 0);
    phases.plant(&Plan { phase: "plan", ..Plan::of("fix") }, 40, 0);
    assert_eq!(with(&memory, "failures").len(), 1);
    let done = remember(&phases.report(), &memory);
    assert_eq!(done.retired.len(), 1, "of forty runs none failed like that");
    assert_eq!(with(&memory, "rate").len(), 4, "but the rate of that phase nobody knows better");
    // Not at all any more.
    let mut gone = World::new(4);
    gone.plant(&Plan { phase: "plan", ..Plan::of("fix") }, 40, 0);
    remember(&gone.report(), &memory);
    assert_eq!(with(&memory, "rate").len(), 4, "nor where there are no runs of it");
}

#[test]
fn a_report_about_a_part_forgets_nothing_of_the_whole() {
    let mut world = fixes(10);
    let memory = world.store.memory().unwrap();
    remember(&world.report(), &memory);
    let mut good = fixes(0);
    let over = std::sync::atomic::AtomicBool::new(true);
    let parts = [
        ReportQuery { skill: Some("fix"), ..ReportQuery::default() },
        ReportQuery { session: Some("a"), ..ReportQuery::default() },
        ReportQuery { until_ms: Some(START_MS + 5 * DAY_MS), ..ReportQuery::default() },
        ReportQuery { stop: Some(&over), ..ReportQuery::default() },
    ];
    for question in parts {
        let done = remember(&good.ask(&question), &memory);
        assert!(done.retired.is_empty(), "{question:?}");
    }
    assert_eq!(with(&memory, "failures").len(), 1);
    // What was learned of one session is over when that session says so, and not before.
    let of_a = ReportQuery { session: Some("a"), ..ReportQuery::default() };
    remember(&world.ask(&of_a), &memory);
    assert_eq!(with(&memory, "failures").len(), 2);
    assert_eq!(remember(&good.report(), &memory).retired.len(), 1);
    assert_eq!(remember(&good.ask(&of_a), &memory).retired.len(), 1);
    assert!(with(&memory, "failures").is_empty());
}

/// A log that cannot be read may hold what is missed.
#[test]
fn what_could_not_be_read_may_hold_what_is_missed() {
    let mut world = fixes(10);
    let memory = world.store.memory().unwrap();
    remember(&world.report(), &memory);
    let mut hurt = fixes(0);
    hurt.write();
    let log = hurt.dir().join("runs/a.jsonl");
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    std::fs::write(&log, bytes).unwrap();
    assert!(remember(&hurt.report(), &memory).retired.is_empty());
    assert_eq!(with(&memory, "failures").len(), 1);
}

#[test]
fn what_a_person_wrote_or_changed_stays() {
    let mut world = fixes(10);
    let memory = world.store.memory().unwrap();
    remember(&world.report(), &memory);
    let lesson = with(&memory, "failures").remove(0);
    let mut mine = NewItem::new(Kind::Context, "the disk of the build machine was full in November");
    mine.tags.clone_from(&lesson.tags);
    let mine = memory.add(&mine.replacing(lesson.id)).unwrap();
    assert_eq!(remember(&fixes(12).report(), &memory).replaced.len(), 1, "the rate, and not what I say");
    assert!(remember(&fixes(0).report(), &memory).retired.is_empty());
    assert_eq!(with(&memory, "failures")[0].id, mine.id);
}

#[test]
fn models_that_no_longer_differ_are_no_longer_said_to() {
    let beside = |small: (u64, u64), large: (u64, u64)| {
        let mut world = World::new(7);
        // Side by side: the first and the last run are of the same model.
        world.plant(&Plan::of("fix"), 1, 0);
        world.plant(&Plan { model: "large", ..Plan::of("fix") }, large.0, large.1);
        world.plant(&Plan::of("fix"), small.0, small.1);
        world
    };
    let mut world = beside((10, 30), (40, 0));
    let memory = world.store.memory().unwrap();
    remember(&world.report(), &memory);
    let said = with(&memory, "difference");
    assert_eq!(said.len(), 1);
    assert!(["model:small", "model:large"].iter().all(|tag| said[0].tags.contains(&(*tag).to_owned())));
    remember(&beside((40, 0), (3, 0)).report(), &memory);
    assert_eq!(with(&memory, "difference").len(), 1, "three runs of one of them tell nothing");
    let done = remember(&beside((38, 2), (40, 0)).report(), &memory);
    assert!(done.retired.contains(&said[0].id) && with(&memory, "difference").is_empty(), "{done:?}");
}

#[test]
fn what_broke_when_stays_a_fact() {
    let mut world = World::new(8);
    world.plant(&Plan::of("fix"), 40, 0);
    world.plant(&Plan { hash: "v2", ..Plan::of("fix") }, 10, 30);
    let memory = world.store.memory().unwrap();
    remember(&world.report(), &memory);
    let fact = with(&memory, "regression").remove(0);
    assert_eq!(fact.kind, Kind::Fact);
    let mut mended = World::new(9);
    mended.plant(&Plan { hash: "v3", ..Plan::of("fix") }, 80, 0);
    let done = remember(&mended.report(), &memory);
    assert_eq!(done.retired.len(), 1, "the failures");
    assert_eq!(with(&memory, "regression")[0].id, fact.id);
}

/// A memory nobody ever wrote to is not made by a report that has nothing to say.
#[test]
fn nothing_to_say_writes_nothing() {
    let mut world = World::new(10);
    world.plant(&Plan::of("rare"), 2, 1);
    let memory = world.store.memory().unwrap();
    assert_eq!(remember(&world.report(), &memory), LessonChanges::default());
    assert!(!memory.path().exists());
}
