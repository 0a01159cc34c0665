//! Budgets, dry runs, models that refuse or cannot be reached.

use std::time::Duration;

use manent::consolidate::{ExtractorError, Rules, Step, TokensSpent};
use manent::log::{Body, frame};
use manent::{Store, now};

use super::{Model, at, contents, dailies, files, home, look, open, proposed, say};

fn step(store: &Store, name: &str, model: &mut Model<'_>, rules: Rules) -> Step {
    let mut by = store.consolidation().unwrap().consolidator(Duration::ZERO).unwrap();
    by.step(&at(store, name), model, &rules).unwrap()
}

#[test]
fn what_models_may_take_a_day_is_counted_over_all_sessions_before_anybody_is_asked() {
    let dir = home();
    let store = open(dir.path());
    for name in ["one", "two", "three"] {
        say(&store, name, "user", "I own a boat.");
    }
    say(&store, "silent", "tool", "output");
    let rules = Rules { tokens_per_day: 500, ..Rules::default() };
    let mut model = Model { spent: TokensSpent { input: 120, output: 30 }, ..Model::honest() };
    for name in ["one", "two"] {
        assert!(matches!(step(&store, name, &mut model, rules), Step::Done(_)), "{name}");
    }
    let asked = model.asked();
    assert_eq!(step(&store, "three", &mut model, rules), Step::OverBudget { spent: 600, budget: 500 });
    assert_eq!(model.asked(), asked, "it stops before it asks");
    assert!(
        matches!(step(&store, "silent", &mut model, rules), Step::Done(_)),
        "what asks nobody costs nothing"
    );
    assert!(matches!(step(&store, "three", &mut model, Rules::default()), Step::Done(_)), "nothing was lost");
    let huge = TokensSpent { input: u64::MAX, output: u64::MAX };
    say(&store, "one", "user", "I play the cello.");
    step(&store, "one", &mut Model { spent: huge, ..Model::honest() }, Rules::default());
    say(&store, "one", "user", "I fear spiders.");
    assert!(matches!(step(&store, "one", &mut model, Rules::default()), Step::OverBudget { .. }));
}

#[test]
fn what_was_taken_counts_also_where_nothing_came_of_it() {
    for (failed, counted) in [
        (ExtractorError::Unavailable("gone".into()), "unavailable"),
        (ExtractorError::Refused("no".into()), "refused"),
    ] {
        let dir = home();
        let store = open(dir.path());
        say(&store, "one", "user", "I own a boat.");
        let mut model = Model { spent: TokensSpent { input: 120, output: 30 }, ..Model::honest() };
        model.facts = Box::new(move |_| Err(failed.clone()));
        assert!(matches!(step(&store, "one", &mut model, Rules::default()), Step::Failed { .. }));
        let rules = Rules { tokens_per_day: 150, ..Rules::default() };
        let over = step(&store, "one", &mut model, rules);
        assert_eq!(over, Step::OverBudget { spent: 150, budget: 150 }, "{counted}");
    }
}

#[test]
fn a_new_day_begins_with_nothing_taken() {
    for (day, is_over) in [("2020-01-01T10:00:00.000Z".to_owned(), false), (now(), true)] {
        let dir = home();
        let store = open(dir.path());
        say(&store, "one", "user", "I own a boat.");
        look(&store, "one", &mut Model::honest());
        // A record of that day, as the journal has them.
        let path = dir.path().join("consolidation.jsonl");
        let mut bytes = std::fs::read(&path).unwrap();
        let mut body = Body::new();
        body.string("ts", &day)
            .string("kind", "failed")
            .string("session", "another")
            .number("input", 1 << 30);
        let lines = String::from_utf8_lossy(&bytes).lines().count() as u64;
        bytes.extend(frame::line(lines, &body));
        std::fs::write(&path, bytes).unwrap();
        say(&store, "one", "user", "I play the cello.");
        let done = step(&store, "one", &mut Model::honest(), Rules::default());
        assert_eq!(matches!(done, Step::OverBudget { .. }), is_over, "{day}: {done:?}");
        assert!(store.consolidation().unwrap().verify().unwrap().unwrap().is_sound());
    }
}

#[test]
fn a_dry_run_shows_what_would_be_and_writes_nothing() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I own a boat. I live in Lyon.");
    let dry = Rules { dry_run: true, ..Rules::default() };
    let truth = |dir: &std::path::Path| {
        let mut all = files(dir);
        // What is found by is derived, and may be brought up to date by whoever looks.
        all.retain(|path, _| !path.strip_prefix(dir).unwrap().starts_with("index"));
        all
    };
    for round in 0..2 {
        let before = truth(dir.path());
        let Step::Done(done) = step(&store, "one", &mut Model::honest(), dry) else {
            panic!("nothing shown")
        };
        assert!(
            done.daily.as_ref().is_some_and(|daily| daily.id.is_none() && daily.content.contains("boat"))
        );
        let items = if round == 0 { 2 } else { 1 };
        assert_eq!((done.items.len(), done.proposed.len()), (items, 0), "{done:?}");
        assert!(done.items.iter().all(|item| item.id.is_none()));
        assert_eq!(truth(dir.path()), before, "round {round}");
        let mut failing = Model::honest();
        failing.facts = Box::new(|_| Err(ExtractorError::Refused("no".into())));
        assert!(matches!(step(&store, "one", &mut failing, dry), Step::Failed { .. }));
        assert_eq!(truth(dir.path()), before, "round {round}, failed");
        look(&store, "one", &mut Model::honest());
        say(&store, "one", "user", "I live in Berlin. I own a boat.");
    }
    assert_eq!(store.consolidation().unwrap().cursor(&at(&store, "one")).unwrap(), 2);
}

#[test]
fn who_cannot_be_reached_is_asked_again_for_ever_and_writes_nothing_more() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I own a boat.");
    let mut gone = Model::honest();
    gone.daily = Box::new(|_| Err(ExtractorError::Unavailable("no server".into())));
    let mut sizes = Vec::new();
    for _ in 0..20 {
        let failed = step(&store, "one", &mut gone, Rules::default());
        assert_eq!(failed, Step::Failed { why: "no server".into(), unavailable: true });
        sizes.push(std::fs::metadata(dir.path().join("consolidation.jsonl")).unwrap().len());
    }
    assert_eq!(gone.transcripts.len(), 20);
    sizes.dedup();
    assert_eq!(sizes.len(), 1, "the journal does not grow with it: {sizes:?}");
    let done = look(&store, "one", &mut Model::honest());
    assert_eq!((done.len(), contents(&store).len(), dailies(&store).len()), (1, 1, 1));
}

#[test]
fn who_refuses_five_times_is_done_without() {
    for at_daily in [true, false] {
        let dir = home();
        let store = open(dir.path());
        say(&store, "one", "user", "I own a boat.");
        say(&store, "two", "user", "I play the cello.");
        let mut model = Model::honest();
        let refuse = |_: &str| Err(ExtractorError::Refused("no".into()));
        if at_daily {
            model.daily = Box::new(refuse);
        } else {
            model.facts = Box::new(refuse);
        }
        for n in 0..5 {
            let failed = step(&store, "one", &mut model, Rules::default());
            assert_eq!(failed, Step::Failed { why: "no".into(), unavailable: false }, "{n}");
            // Another session is no matter, nor is who cannot be reached, nor what is said meanwhile.
            let mut gone = Model::honest();
            gone.facts = Box::new(|_| Err(ExtractorError::Unavailable("gone".into())));
            step(&store, "two", &mut gone, Rules::default());
            say(&store, "one", "user", &format!("I like tea number {n}."));
        }
        let asked = model.asked();
        let Step::Done(done) = step(&store, "one", &mut model, Rules::default()) else { panic!("not done") };
        assert_eq!((model.asked(), done.turns), (asked, (1, 1)), "nobody is asked a sixth time");
        assert!(done.unreadable && done.items.is_empty() && done.daily.is_some());
        assert_eq!(done.daily_extracted, at_daily);
        assert_eq!(dailies(&store).iter().filter(|day| day.content.contains("boat")).count(), 1);
        let done = look(&store, "one", &mut Model::honest());
        assert_eq!(done[0].turns, (2, 6), "the cursor went on, and counting begins anew");
        assert!(proposed(&store).is_empty());
    }
}

#[test]
fn another_extractor_is_given_its_own_tries() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I own a boat.");
    let mut model = Model::honest();
    model.facts = Box::new(|_| Err(ExtractorError::Refused("no".into())));
    for _ in 0..5 {
        step(&store, "one", &mut model, Rules::default());
    }
    let mut other = Model { prompt: "other".into(), ..Model::honest() };
    other.facts = Box::new(|_| Err(ExtractorError::Refused("no".into())));
    assert!(matches!(step(&store, "one", &mut other, Rules::default()), Step::Failed { .. }));
    assert!(
        matches!(step(&store, "one", &mut other, Rules::default()), Step::Failed { .. }),
        "not given up yet"
    );
    let mut good = Model { prompt: "good".into(), ..Model::honest() };
    look(&store, "one", &mut good);
    assert_eq!((contents(&store).len(), dailies(&store).len()), (1, 1));
}
