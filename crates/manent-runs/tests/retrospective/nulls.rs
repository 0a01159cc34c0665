//! Worlds in which nothing differs: a report may call something different in one of twenty, and no more.

use manent_runs::retrospective::ReportQuery;

use crate::world::{DAY_MS, Plan, START_MS, World, alarms};

#[test]
fn where_nothing_differs_hardly_anything_is_said_to() {
    let mut false_alarms = 0;
    for seed in 0..200 {
        let mut world = World::new(1000 + seed);
        let now = START_MS + 15 * DAY_MS;
        let models = ["small", "large", "other"];
        for (at, skill) in ["a", "b", "c", "d"].into_iter().enumerate() {
            // Each skill has one rate, whoever does it and whenever.
            let hundredths = 30 + 20 * at as u64;
            for n in 0..120 {
                let (model, late) = (models[n % 3], n >= 60);
                let hash = if n % 60 < 30 { "v1" } else { "v2" };
                let day =
                    if late { now } else { START_MS + 5 * DAY_MS } + if hash == "v2" { DAY_MS } else { 0 };
                let success = world.rng.below(100) < hundredths;
                world.run(
                    &Plan { model, hash, at_ms: day, ..Plan::of(skill) },
                    success,
                    &serde_json::Value::Null,
                );
            }
        }
        let report = world.ask(&ReportQuery { since_ms: Some(now), ..ReportQuery::default() });
        assert!(report.comparisons.iter().filter(|one| one.chance.is_some()).count() >= 30);
        false_alarms += usize::from(alarms(&report) > 0);
    }
    // One in twenty of 200 is 10; more than 18 would come about once in a hundred such tests.
    assert!(false_alarms <= 18, "{false_alarms} of 200 worlds");
}
