//! Facts that were planted are found, with their numbers; what was not planted is not said.

use manent_runs::retrospective::{ComparisonKind, RUNS_MIN, ReportQuery, Topic};
use serde_json::{Value, json};

use crate::world::{DAY_MS, Plan, START_MS, World, alarms, said};

/// A world with everything in it.
fn whole_world() -> World {
    let mut world = World::new(1);
    world.plant(&Plan { session: "a", ..Plan::of("good") }, 90, 10);
    world.plant(&Plan { session: "b", ..Plan::of("coin") }, 50, 50);
    world.plant(&Plan { session: "c", ..Plan::of("broken-since") }, 57, 3);
    let broken = Plan { session: "c", hash: "v2", at_ms: START_MS + 10 * DAY_MS, ..Plan::of("broken-since") };
    world.plant(&broken, 24, 36);
    world.plant(&Plan { session: "d", ..Plan::of("rare") }, 3, 1);
    // Two that are the same, and look it: 70 and 71 of 100.
    world.plant(&Plan { session: "e", ..Plan::of("equal") }, 70, 30);
    world.plant(&Plan { session: "f", model: "large", ..Plan::of("equal") }, 71, 29);
    let flaky = Plan { session: "g", ..Plan::of("moody") };
    for n in 0..40 {
        world.run(&flaky, n % 4 != 0, &json!({"input": {"b": n % 5, "a": [1, 2]}}));
    }
    world
}

#[test]
fn what_was_planted_is_said_with_its_numbers() {
    let mut world = whole_world();
    let known: Vec<String> = ["good", "never", "coin"].map(str::to_owned).into();
    let report = world.ask(&ReportQuery { known_skills: &known, ..ReportQuery::default() });
    let text = |topic| said(&report, topic).iter().map(|one| one.text.clone()).collect::<Vec<_>>();

    let rates = text(Topic::Rate);
    let expect =
        "good with small succeeded in 90 % (90 of 100), so between 83 % and 94 %; at the first attempt 90 %";
    assert!(rates.contains(&expect.to_owned()), "{rates:#?}");
    assert!(
        rates
            .iter()
            .any(|one| one.starts_with("coin with small succeeded in 50 % (50 of 100), so between 40 %"))
    );

    let worse = said(&report, Topic::Regression);
    assert_eq!(worse.len(), 1, "{worse:#?}");
    assert!(worse[0].text.starts_with(
        "broken-since with small: success fell from 95 % (57 of 60) to 40 % (24 of 60) with version v2, first seen on \
         2026-11-11 (before: v1)"
    ));
    assert!(worse[0].chance.unwrap() < 1e-6 && worse[0].n == 120);
    let markdown = report.to_markdown(None);
    assert!(markdown.contains("| under 0.0001 | yes |") && !markdown.contains("0.0000"), "{markdown}");

    assert_eq!(text(Topic::TooFew), ["rare with small: too few runs (4) to say"]);
    assert_eq!(text(Topic::Unused), ["never was never used in this time (0 runs)"]);
    let flaky = said(&report, Topic::Flaky);
    assert_eq!(flaky.len(), 1, "{flaky:#?}");
    assert!(flaky[0].text.starts_with("moody with small is flaky: on 5 of 5 inputs"), "{}", flaky[0].text);
    assert_eq!(flaky[0].n, 40);

    // 70 and 71 of 100 were compared, and nothing is made of it.
    let equal = report.comparisons.iter().find(|one| one.skill == "equal").unwrap();
    assert!(equal.differs == ComparisonKind::Model && !equal.supported && equal.chance.unwrap() > 0.9);
    assert_eq!(alarms(&report), 1);
    for one in &report.statements {
        assert!(one.n >= RUNS_MIN || matches!(one.topic, Topic::TooFew | Topic::Unused), "{one:?}");
        assert!(!one.runs.is_empty() || one.topic == Topic::Unused, "{one:?}");
    }
}

#[test]
fn every_number_of_a_group_is_the_number_that_was_planted() {
    let mut world = World::new(2);
    let plan = Plan { phase: "build", ..Plan::of("fix") };
    let tries = |verified: &[bool]| -> Value {
        let attempt =
            |(at, good): (usize, &bool)| json!({"attempt": at + 1, "model": "small", "verified": good});
        Value::Array(verified.iter().enumerate().map(attempt).collect())
    };
    for n in 0..10 {
        world.run(&plan, true, &json!({"attempts": tries(&[true]), "duration_ms": n * 100}));
    }
    for _ in 0..5 {
        world.run(&plan, true, &json!({"attempts": tries(&[false, false, true]), "duration_ms": 5000}));
        world.run(&plan, false, &json!({"attempts": tries(&[false, false]), "duration_ms": -3}));
    }
    world.run(&plan, true, &json!({"final_status": "splendid"}));
    let open = json!({"kind": "run-start", "run_id": "open", "skill": "fix", "phase": "build", "model_used": "small"});
    world.line("a", open);
    let report = world.report();
    let group = &report.groups[0];
    assert_eq!((&*group.skill, &*group.model, &*group.phase, group.n), ("fix", "small", "build", 20));
    assert_eq!((group.success.count, group.first_try.count, group.verified.count), (15, 10, 15));
    assert_eq!((group.unknown, group.other), (1, 1));
    assert_eq!(group.attempts[..4], [10, 0, 5, 0]);
    assert!((group.attempts_mean.unwrap() - 25.0 / 15.0).abs() < 1e-9);
    // 0, 100, … 900, and five times 5000.
    let lasted = group.duration;
    assert_eq!(
        (lasted.n, lasted.median_ms, lasted.p95_ms, lasted.max_ms),
        (15, Some(700), Some(5000), Some(5000))
    );
    assert_eq!(report.statuses[0].what, "splendid");
    assert!(
        report.oddities.iter().all(|odd| !odd.what.contains("status")),
        "said once: {:?}",
        report.oddities
    );
    assert_eq!((report.totals.runs, report.totals.success.of, report.totals.unknown), (22, 20, 1));
    assert_eq!(group.open_runs.len(), 2);
}

#[test]
fn failures_of_one_cause_fall_together_and_others_stay_apart() {
    let mut world = World::new(3);
    let causes: [fn(u64) -> String; 3] = [
        |n| {
            format!(
                "error: cannot open /home/u{n}/p/{n:x}/file{n}.rs: No such file or directory (os error 2)"
            )
        },
        |n| {
            format!(
                "2026-11-{:02}T10:00:{:02}Z request {n} to 10.0.{n}.7:80{n} timed out after {n}.5s",
                n % 28 + 1,
                n % 60
            )
        },
        |n| {
            format!(
                "thread 'main{n}' panicked at src/x{n}.rs:{n}:5:\nassertion `left == right` failed: job {n}"
            )
        },
    ];
    for n in 0..30_u64 {
        let skill = if n % 2 == 0 { "one" } else { "two" };
        let at = (n % 3) as usize;
        let class = ["io", "timeout", "test"][at];
        let attempt = json!({
            "attempt": 1, "verified": false, "error_class": class,
            "exit_code": 1, "runner_output": format!("starting {n}\n{}\n\n", causes[at](n)),
        });
        world.run(&Plan::of(skill), false, &json!({"attempts": [attempt]}));
    }
    let report = world.report();
    assert_eq!(report.failures.len(), 3, "{:#?}", report.failures);
    for cluster in &report.failures {
        assert_eq!((cluster.count, cluster.runs.len()), (10, 3), "{cluster:?}");
        assert_eq!(cluster.skills, ["one", "two"]);
        assert_eq!(cluster.first.as_ref().unwrap()[..10], *"2026-11-01");
    }
    assert_eq!(said(&report, Topic::Failures).len(), 3);
}

#[test]
fn failures_are_counted_among_those_of_the_skills_that_are_named() {
    let mut world = World::new(10);
    let mut fail = |skill: &str, class: &str, count: usize| {
        for _ in 0..count {
            let attempt = json!({"attempt": 1, "verified": false, "error_class": class});
            world.run(&Plan::of("x"), false, &json!({"skill": skill, "attempts": [attempt]}));
        }
    };
    fail("deploy", "denied", 22);
    fail("deploy", "other", 4);
    fail("lint", "shared", 5);
    fail("review", "shared", 6);
    fail("review", "own", 9);
    fail("", "nameless", 7);
    fail("", "partly", 3);
    fail("deploy", "partly", 5);
    (0..20).for_each(|n| fail(&format!("skill-{n:02}"), "everywhere", 1));
    let report = world.report();
    let said = said(&report, Topic::Failures);
    let of = |class: &str| {
        let one = said.iter().find(|one| one.text.ends_with(&format!(": {class}"))).unwrap();
        one.text.split_once(", on ").unwrap().0.to_owned()
    };
    assert_eq!(of("denied"), "22 of 31 failures of deploy look the same");
    assert_eq!(of("shared"), "11 of 20 failures of lint, review look the same");
    assert_eq!(of("own"), "9 of 15 failures of review look the same");
    assert_eq!(of("nameless"), "7 of 81 failures look the same");
    assert_eq!(of("partly"), "8 of 81 failures of all skills look the same (deploy among them)");
    let everywhere = of("everywhere");
    assert!(
        everywhere.starts_with("20 of 81 failures of all skills look the same (skill-00, "),
        "{everywhere}"
    );
    assert!(everywhere.ends_with("skill-11, … among them)"), "{everywhere}");
}

#[test]
fn a_trend_is_told_against_the_period_before() {
    let mut world = World::new(4);
    let now = START_MS + 20 * DAY_MS;
    for (skill, before, after) in
        [("worse", (45, 5), (20, 30)), ("same", (30, 20), (31, 19)), ("new", (2, 1), (4, 0))]
    {
        world.plant(&Plan { at_ms: START_MS + 11 * DAY_MS, ..Plan::of(skill) }, before.0, before.1);
        world.plant(&Plan { at_ms: now, ..Plan::of(skill) }, after.0, after.1);
        // Before the period before: that is nobody's business.
        world.plant(&Plan { at_ms: START_MS, ..Plan::of(skill) }, 0, 50);
    }
    world.line("a", json!({"kind": "run", "skill": "worse", "final_status": "failed"}));
    let report = world.ask(&ReportQuery { since_ms: Some(now), ..ReportQuery::default() });
    let worse = said(&report, Topic::Regression);
    assert_eq!(worse.len(), 1, "{worse:#?}");
    let wanted =
        "worse with small: success fell from 90 % (45 of 50) in the period before to 40 % (20 of 50)";
    assert!(worse[0].text.starts_with(wanted), "{}", worse[0].text);
    assert_eq!(alarms(&report), 1);
    assert!(report.notes.iter().any(|note| note.starts_with("1 run without a time")), "{:?}", report.notes);
    assert_eq!(report.totals.runs, 104);
}

#[test]
fn a_switch_of_the_model_is_named_with_its_day_and_what_else_changed() {
    let mut world = World::new(5);
    world.plant(&Plan { model: "old", ..Plan::of("fix") }, 48, 2);
    let new = Plan { model: "new", hash: "v2", at_ms: START_MS + 5 * DAY_MS, ..Plan::of("fix") };
    world.plant(&new, 15, 35);
    let report = world.report();
    let worse = said(&report, Topic::Regression);
    assert_eq!(worse.len(), 1);
    assert!(
        worse[0]
            .text
            .contains("from 96 % (48 of 50) with old to 30 % (15 of 50) with new, first seen on 2026-11-06")
    );
    assert!(worse[0].text.contains("the skill's version changed too"), "{}", worse[0].text);
}

#[test]
fn a_skill_that_was_mended_between_two_runs_is_not_flaky() {
    let mut world = World::new(6);
    for n in 0..10 {
        let hash = if n < 5 { "v1" } else { "v2" };
        world.run(&Plan { hash, ..Plan::of("mended") }, n >= 5, &json!({"input": {"x": 1}}));
        let file = format!("f{n}.rs");
        world.run(&Plan::of("other-files"), n >= 5, &json!({"input": {}, "file_path": file}));
        world.run(&Plan::of("no-input"), n >= 5, &json!({"input": null}));
    }
    // The same input, written in another way.
    for n in 0..6 {
        let input = if n % 2 == 0 { json!({"a": 1, "b": 2}) } else { json!({"b": 2.0, "a": 1}) };
        world.run(&Plan::of("moody"), n % 2 == 0, &json!({"input": input}));
    }
    let report = world.report();
    let names: Vec<&str> = report.flaky.iter().map(|one| &*one.skill).collect();
    assert_eq!(names, ["moody"]);
    assert_eq!((report.flaky[0].n, report.flaky[0].mixed_inputs), (6, 1));
}

#[test]
fn the_threads_make_no_difference() {
    let mut world = whole_world();
    let one = world.ask(&ReportQuery { threads: 1, ..ReportQuery::default() });
    for threads in [2, 2, 2, 3, 7] {
        assert_eq!(world.ask(&ReportQuery { threads, ..ReportQuery::default() }), one, "{threads} threads");
    }
}

#[test]
fn what_was_asked_for_is_all_that_counts() {
    let mut world = World::new(7);
    for (project, session) in [("/home/u/app", "a"), ("/home/u/app2", "b"), ("/srv/deep/app/", "c")] {
        for _ in 0..5 {
            world.run(&Plan { session, ..Plan::of("fix") }, true, &json!({"project_root": project}));
        }
    }
    world.plant(&Plan { session: "b", ..Plan::of("other") }, 5, 0);
    let mut count = |question: ReportQuery<'_>| world.ask(&question).totals.runs;
    assert_eq!(count(ReportQuery::default()), 20);
    assert_eq!(count(ReportQuery { project: Some("/home/u/app/"), ..ReportQuery::default() }), 5);
    assert_eq!(count(ReportQuery { project: Some("app"), ..ReportQuery::default() }), 10);
    assert_eq!(count(ReportQuery { session: Some("b"), ..ReportQuery::default() }), 10);
    assert_eq!(count(ReportQuery { skill: Some("other"), ..ReportQuery::default() }), 5);
    assert_eq!(count(ReportQuery { skill: Some("none"), ..ReportQuery::default() }), 0);
    let first_day = ReportQuery { until_ms: Some(START_MS + DAY_MS), ..ReportQuery::default() };
    assert_eq!(count(first_day), 20);
    assert_eq!(count(ReportQuery { since_ms: Some(START_MS + DAY_MS), ..ReportQuery::default() }), 0);
}

#[test]
fn of_two_models_side_by_side_it_is_said_whether_they_had_the_same_tasks() {
    let mut world = World::new(9);
    for n in 0..60 {
        for (model, is_good) in [("large", true), ("small", n % 2 == 0)] {
            let plan = |skill, hash| Plan { model, hash, ..Plan::of(skill) };
            world.run(&plan("same", "v1"), is_good, &json!({"input": {"task": n}}));
            world.run(&plan("others", "v1"), is_good, &Value::Null);
            world.run(&plan("none-known", "v1"), is_good, &json!({"input": null}));
            // The same inputs, in other projects.
            world.run(
                &plan("elsewhere", "v1"),
                is_good,
                &json!({"input": {"task": n}, "project_root": model}),
            );
            // One input of the hundred that one of them had.
            let task = if is_good { 0 } else { n };
            world.run(&plan("one-shared", "v1"), is_good, &json!({"input": {"task": task}}));
            world.run(&plan("versions", model), is_good, &json!({"input": {"task": n}}));
        }
    }
    let report = world.report();
    let differ = said(&report, Topic::Difference);
    assert_eq!(differ.len(), 6, "{differ:#?}");
    for one in differ {
        let skill = one.skill.as_deref().unwrap();
        assert!(
            one.text.contains(": large succeeded in 100 % (60 of 60) and small in 50 % (30 of 60); "),
            "{one:?}"
        );
        let compared = report.comparisons.iter().find(|all| all.skill == skill).unwrap();
        assert_eq!(compared.same_inputs, matches!(skill, "same" | "versions"), "{one:?}");
        let wanted = match skill {
            "same" => "nearly all runs of both were on inputs that the other was given too (p",
            "versions" => "nearly the same inputs, but other versions of the skill, so it may be that (p",
            _ => "nobody drew by lot which of them got which task, so it may be the tasks (p",
        };
        assert!(one.text.contains(wanted), "{one:?}");
    }
}

/// Programs may name the version once for the whole run, as FORMAT.md has it, and not with every attempt.
#[test]
fn a_version_that_only_the_whole_run_names_is_one() {
    let mut world = World::new(8);
    for n in 0..40 {
        let hash = if n < 20 { "v1" } else { "v2" };
        let attempt = json!({"attempt": 1, "model": "small", "verified": n < 20});
        let more = json!({"input": {"x": 1}, "skill_hash": hash, "attempts": [attempt]});
        world.run(&Plan::of("on-run"), n < 20, &more);
        world.run(
            &Plan::of("no-attempts"),
            n < 20,
            &json!({"input": {"x": 1}, "skill_hash": hash, "attempts": []}),
        );
        // What an attempt says of itself counts more.
        world.run(
            &Plan { hash, ..Plan::of("on-both") },
            n < 20,
            &json!({"input": {"x": 1}, "skill_hash": "other"}),
        );
    }
    let report = world.report();
    assert!(report.flaky.is_empty(), "{:#?}", report.flaky);
    let worse = said(&report, Topic::Regression);
    assert_eq!(worse.len(), 3, "{worse:#?}");
    for one in worse {
        let wanted = "with small: success fell from 100 % (20 of 20) to 0 % (0 of 20) with version v2";
        assert!(one.text.contains(wanted), "{}", one.text);
    }
}
