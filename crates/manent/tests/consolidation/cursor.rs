//! How far a session was looked at, and two who look.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use manent::consolidate::{Rules, Step};
use manent::{Durability, Error, Expect, Store, turn};

use super::{Model, at, contents, dailies, expect_grounded, files, home, key, look, look_at, open, say};

fn path_of(dir: &std::path::Path, name: &str) -> PathBuf {
    files(dir).into_keys().find(|path| path.ends_with(name)).unwrap()
}

/// Cuts the last lines off a session, as a power cut does with what was not synced.
fn lose(dir: &std::path::Path, lines: usize) -> Store {
    let path = path_of(dir, "work.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().collect();
    std::fs::write(&path, kept[..kept.len() - lines].join("\n") + "\n").unwrap();
    open(dir)
}

#[test]
fn turns_that_were_lost_and_written_anew_are_looked_at_again_and_no_others() {
    let dir = home();
    let mut store = open(dir.path());
    let mut model = Model::honest();
    say(&store, "work", "user", "I own a boat.");
    look(&store, "work", &mut model);
    say(&store, "work", "user", "I play the cello.");
    say(&store, "work", "user", "I fear spiders.");
    look(&store, "work", &mut model);
    store = lose(dir.path(), 1);
    let cursor = |store: &Store| store.consolidation().unwrap().cursor(&at(store, "work")).unwrap();
    assert_eq!(cursor(&store), 1, "where the last whole passage ended");
    // As many turns as before, so that only their checksums tell.
    say(&store, "work", "user", "I collect stamps.");
    let done = look(&store, "work", &mut model);
    assert_eq!(done.iter().map(|done| done.turns).collect::<Vec<_>>(), [(2, 3)]);
    assert!(!model.evidence.last().unwrap().contains("boat"));
    assert!(contents(&store).contains(&"I collect stamps.".to_owned()));
    assert_eq!(contents(&store).iter().filter(|text| text.contains("cello")).count(), 1);
    assert_eq!(dailies(&store).len(), 3, "what was told of the lost turns tells nothing of the new ones");
    assert!(look(&store, "work", &mut model).is_empty());
    // All of it.
    store = lose(dir.path(), 3);
    for text in ["I eat oats.", "I hate rain.", "I know Kim."] {
        say(&store, "work", "user", text);
    }
    let done = look(&store, "work", &mut model);
    assert_eq!(done.iter().map(|done| done.turns).collect::<Vec<_>>(), [(1, 3)]);
    assert_eq!(cursor(&store), 3);
    assert!(
        ["I eat oats.", "I hate rain.", "I know Kim."]
            .iter()
            .all(|text| contents(&store).contains(&(*text).into()))
    );
}

/// A step is cut off, the turns that it looked at are lost, others are written in their place.
#[test]
fn a_step_that_was_cut_off_is_not_gone_on_with_where_other_turns_stand_now() {
    let dir = home();
    let mut store = open(dir.path());
    for text in ["I own a boat.", "I play the cello.", "I fear spiders."] {
        say(&store, "work", "user", text);
    }
    let mut dying = Model::honest();
    dying.facts = Box::new(|_| Err(manent::consolidate::ExtractorError::Unavailable("gone".into())));
    let mut by = store.consolidation().unwrap().consolidator(Duration::ZERO).unwrap();
    assert!(matches!(by.step(&at(&store, "work"), &mut dying, &Rules::default()), Ok(Step::Failed { .. })));
    drop(by);
    assert_eq!(dailies(&store).len(), 1);
    store = lose(dir.path(), 2);
    say(&store, "work", "user", "I collect stamps.");
    say(&store, "work", "user", "I hate rain.");
    let mut dying_again = Model::honest();
    dying_again.facts = Box::new(|_| Err(manent::consolidate::ExtractorError::Unavailable("gone".into())));
    let mut by = store.consolidation().unwrap().consolidator(Duration::ZERO).unwrap();
    assert!(matches!(
        by.step(&at(&store, "work"), &mut dying_again, &Rules::default()),
        Ok(Step::Failed { .. })
    ));
    drop(by);
    let done = look(&store, "work", &mut Model::honest());
    assert_eq!(done.iter().map(|done| done.turns).collect::<Vec<_>>(), [(1, 3)]);
    assert_eq!(contents(&store), ["I own a boat.", "I collect stamps.", "I hate rain."]);
    assert_eq!(dailies(&store).len(), 2, "once of those that were lost, once of those that are there");
}

#[test]
fn damage_at_the_cursor_starts_nothing_again() {
    for (damaged, more) in [("I fear spiders.", false), ("I fear spiders.", true), ("I own a boat.", true)] {
        let dir = home();
        let mut store = open(dir.path());
        let mut model = Model::honest();
        for text in ["I own a boat.", "I play the cello.", "I fear spiders."] {
            say(&store, "work", "user", text);
        }
        look(&store, "work", &mut model);
        let path = path_of(dir.path(), "work.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        if more {
            say(&store, "work", "user", "I hate rain.");
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        assert!(whole.starts_with(&text));
        std::fs::write(&path, whole.replace(damaged, &damaged.to_uppercase())).unwrap();
        store = open(dir.path());
        let done = look(&store, "work", &mut model);
        let turns: Vec<(u64, u64)> = done.iter().map(|done| done.turns).collect();
        assert_eq!(turns, if more { vec![(4, 4)] } else { vec![] }, "{damaged}, {more}");
        assert_eq!(dailies(&store).len(), 1 + usize::from(more));
    }
}

#[test]
fn a_journal_that_is_gone_or_damaged_brings_nothing_twice() {
    for how in ["gone", "first line", "half", "every line", "a bit"] {
        let dir = home();
        let mut store = open(dir.path());
        let mut model = Model { max: 60, ..Model::honest() };
        for text in ["I live in Lyon.", "I own a boat.", "I live in Berlin.", "I fear spiders."] {
            say(&store, "work", "user", text);
            say(&store, "work", "assistant", &"Well. ".repeat(25));
        }
        look(&store, "work", &mut model);
        let (before, days) = (contents(&store), dailies(&store).len());
        assert_eq!((before.len(), days), (3, 4), "{before:?}");
        let path = path_of(dir.path(), "consolidation.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        match how {
            "gone" => std::fs::remove_file(&path).unwrap(),
            "first line" => std::fs::write(&path, text.split_once('\n').unwrap().1).unwrap(),
            "half" => std::fs::write(&path, &text[..text.len() / 2]).unwrap(),
            "every line" => std::fs::write(&path, text.replace("\"turns\"", "\"tunrs\"")).unwrap(),
            _ => std::fs::write(&path, text.replacen("consolidated", "consolidatee", 3)).unwrap(),
        }
        store = open(dir.path());
        look(&store, "work", &mut model);
        assert_eq!((contents(&store), dailies(&store).len()), (before, days), "{how}");
        let consolidation = store.consolidation().unwrap();
        consolidation.repair().unwrap();
        assert!(consolidation.verify().unwrap().unwrap().is_sound(), "{how}");
        assert!(look(&store, "work", &mut model).is_empty());
        expect_grounded(&store);
    }
}

#[test]
fn nobody_waits_for_a_model_but_another_who_consolidates_is_told() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "work", "user", "I own a boat.");
    let at = at(&store, "work");
    let (asked, is_asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let consolidating = {
            let (store, at) = (store.clone(), at.clone());
            scope.spawn(move || {
                let mut model = Model::honest();
                model.facts = Box::new(|evidence| {
                    asked.send(()).unwrap();
                    answered.recv().unwrap();
                    Ok(super::all_said(evidence))
                });
                look_at(&store, &at, &mut model, Rules::default()).unwrap()
            })
        };
        is_asked.recv().unwrap();
        // Another process, which waits for nobody.
        let other = open(dir.path());
        let bodies = [turn("user", "I play the cello.").into()];
        other.append_with(&key("work"), &bodies, Durability::Sync, Expect::Any).unwrap();
        let mut session = other.session(&key("work")).unwrap();
        session.append(turn("assistant", "Fine.")).unwrap();
        other
            .memory()
            .unwrap()
            .add(&manent::memory::NewItem::new(manent::memory::Kind::Fact, "by hand"))
            .unwrap();
        let held = other.consolidation().unwrap().consolidator(Duration::ZERO);
        assert!(matches!(held, Err(Error::ConsolidationHeld { .. })), "{held:?}");
        answer.send(()).unwrap();
        // What was said meanwhile is asked about next.
        is_asked.recv().unwrap();
        answer.send(()).unwrap();
        let done = consolidating.join().unwrap();
        assert_eq!(done.iter().map(|done| done.turns).collect::<Vec<_>>(), [(1, 1), (2, 3)]);
    });
    assert_eq!(contents(&store).len(), 3);
    store.consolidation().unwrap().consolidator(Duration::ZERO).unwrap();
}
