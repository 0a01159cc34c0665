//! Lessons in the memory: those with enough behind them, each once, whoever else remembers at the same time.

use std::time::Duration;

use manent::memory::{Filter, Kind, SourceKind};
use serde_json::json;

use crate::world::{DAY_MS, Plan, START_MS, World};

#[test]
fn two_who_remember_at_once_remember_each_lesson_once() {
    let mut world = World::new(41);
    world.plant(&Plan::of("fix"), 30, 10);
    world.plant(&Plan::of("rare"), 4, 0);
    let report = world.report();
    let memory = world.store.memory().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (report, memory) = (&report, memory.clone());
            scope.spawn(move || report.remember(&memory, Duration::from_secs(30)).unwrap());
        }
    });
    let items = memory.items(&Filter::default()).unwrap();
    assert_eq!(items.len(), 2, "a rate, and ten failures that look the same: {items:#?}");
    for item in &items {
        assert!(item.kind == Kind::Context && item.source.who == SourceKind::Import);
        assert!(
            item.tags.contains(&"retro".to_owned()) && item.tags.iter().any(|tag| tag.starts_with("run:"))
        );
    }
}

#[test]
fn names_that_are_no_labels_and_secrets_do_no_harm() {
    let mut world = World::new(42);
    let key = format!("AKIA{}", "IOSFODNN7EXAMPLE");
    for n in 0..6 {
        let attempt = json!({"attempt": 1, "runner_output": format!("error: password={key}hunter2 refused")});
        let skill = format!("bad\nname\u{7}{}", "x".repeat(300));
        world.run(
            &Plan::of("x"),
            n == 0,
            &json!({"skill": skill, "run_id": format!("\u{0}{n}"), "attempts": [attempt]}),
        );
    }
    let report = world.report();
    let memory = world.store.memory().unwrap();
    let done = report.remember(&memory, Duration::from_secs(5)).unwrap();
    assert_eq!(done.added.len(), 2);
    let all = format!("{:?}", memory.items(&Filter::default()).unwrap());
    assert!(!all.contains("hunter2"), "{all}");
    let known = report.remember(&memory, Duration::from_secs(5)).unwrap();
    assert_eq!((known.added.len(), known.replaced.len(), known.known), (0, 0, 2));
}

/// The certainty of a report depends on everything that it compares: that is no part of a lesson on one skill.
#[test]
fn runs_of_other_skills_replace_no_lesson() {
    let mut world = World::new(43);
    let broken = |world: &mut World, skill: &'static str| {
        world.plant(&Plan::of(skill), 40, 0);
        world.plant(&Plan { hash: "v2", at_ms: START_MS + DAY_MS, ..Plan::of(skill) }, 10, 30);
    };
    broken(&mut world, "fix");
    let memory = world.store.memory().unwrap();
    let first = world.report();
    assert!(
        first.statements[0].text.ends_with("corrected as the only comparison)"),
        "{:?}",
        first.statements[0]
    );
    let done = first.remember(&memory, Duration::ZERO).unwrap();
    assert_eq!(done.replaced, []);
    for skill in ["other", "third"] {
        broken(&mut world, skill);
    }
    let fact = |item: &&manent::memory::Item| item.kind == Kind::Fact && item.content.starts_with("fix ");
    let before = memory.items(&Filter::default()).unwrap();
    let before = before.iter().find(fact).unwrap();
    assert!(before.content.ends_with("(before: v1)"), "{}", before.content);
    let later = world.report();
    assert!(
        later.statements[0].text.ends_with("corrected as one of 3 comparisons)"),
        "{:?}",
        later.statements[0]
    );
    later.remember(&memory, Duration::ZERO).unwrap();
    let after = memory.items(&Filter::default()).unwrap();
    assert_eq!(after.iter().find(fact).unwrap().id, before.id, "the same item");
}
