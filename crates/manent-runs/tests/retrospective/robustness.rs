//! What other programs, broken clocks and vandals write: nothing of it breaks a report, or is hidden by it.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use manent_runs::retrospective::{RUNS_MIN, ReportQuery, Topic};
use serde_json::{Value, json};

use crate::world::{DAY_MS, NOW_MS, Plan, START_MS, World, said};

#[test]
fn odd_entries_are_counted_apart_and_named() {
    let mut world = World::new(21);
    let plan = Plan::of("odd");
    for _ in 0..6 {
        world.run(&plan, true, &json!({"final_status": "splendid"}));
        world.run(&plan, true, &json!({"final_status": 7}));
        world.run(&plan, true, &json!({"timestamp": "1970-01-01T00:00:00Z"}));
        world.run(&plan, true, &json!({"timestamp": (NOW_MS + 400 * DAY_MS).to_string()}));
        world.run(&plan, true, &json!({"timestamp": null}));
        world.run(&plan, true, &json!({"duration_ms": -5}));
        world.run(&plan, true, &json!({"skill": ""}));
        world.run(&plan, true, &json!({"skill": null, "attempts": "none"}));
        world.run(
            &plan,
            false,
            &json!({"attempts": [{"attempt": 2, "verified": "yes"}, {"attempt": 1}, 7, null]}),
        );
        world.run(&plan, false, &json!({"attempts": [], "model_used": null}));
    }
    let report = world.report();
    assert_eq!((report.totals.runs, report.totals.other, report.totals.success.of), (60, 12, 48));
    assert_eq!(report.statuses.len(), 2);
    let odd = |what: &str| report.oddities.iter().find(|odd| odd.what.contains(what)).map(|odd| odd.count);
    assert_eq!(odd("before the year 2000"), Some(6));
    assert_eq!(odd("below zero"), Some(6));
    assert_eq!(odd("no name of a skill"), Some(12));
    assert_eq!(odd("no time"), Some(6));
    assert_eq!(odd("still to come"), Some(6));
    // Times that cannot be are on no day.
    let on_days: u64 = report.days.iter().map(|day| day.success + day.failure + day.unknown).sum();
    assert_eq!(on_days, 60 - 18);
    assert!(report.days.iter().all(|day| day.day.starts_with("2026-11-")), "{:?}", report.days);
    assert!(said(&report, Topic::Open).iter().any(|one| one.n == 12));
    let told = [report.to_html(None), report.to_markdown(None)];
    assert!(told.iter().all(|text| text.contains("splendid")));
    // In a period, those without a time are left out, and that is said.
    let since = world.ask(&ReportQuery { since_ms: Some(START_MS), ..ReportQuery::default() });
    assert_eq!(since.totals.runs, 42);
    assert!(
        since.notes.iter().any(|note| note.starts_with("18 runs without a time that can be")),
        "{:?}",
        since.notes
    );
}

#[test]
fn an_output_of_fifty_megabytes_is_no_trouble() {
    let mut world = World::new(22);
    let huge = format!("{}\nerror: it broke at last\n", "x".repeat(50 << 20));
    let attempt = json!({"attempt": 1, "runner_output": huge, "error_class": "\u{1b}[31m\u{0}big"});
    world.run(&Plan::of("huge"), false, &json!({"attempts": [attempt]}));
    let report = world.report();
    assert_eq!(report.failures[0].signature, "big: error: it broke at last");
}

#[test]
fn any_number_of_names_inputs_and_causes_is_bounded_and_what_matters_stays() {
    let mut world = World::new(23);
    let usual = Plan::of("usual");
    for n in 0..12_000_u64 {
        let name = format!("once-{n}");
        let cause: String = (0..8).map(|at| char::from(b'a' + (n >> (at * 2) & 15) as u8)).collect();
        let attempt =
            json!({"attempt": 1, "skill_hash": name, "runner_output": format!("error {cause} happened")});
        world.run(&usual, false, &json!({"skill": name, "final_status": "failed", "attempts": [attempt]}));
        world.run(&usual, n % 4 != 0, &Value::Null);
    }
    let report = world.report();
    let group = report.groups.iter().find(|group| group.skill == "usual").unwrap();
    assert_eq!((group.success.count, group.n, group.missed), (9_000, 12_000, 0));
    assert_eq!(report.totals.runs, 24_000, "those that are not shown are counted");
    assert!(report.groups.len() <= 4096, "{}", report.groups.len());
    assert!(
        report.notes.iter().any(|note| note.contains("too many skills, models and phases")),
        "{:?}",
        report.notes
    );
    assert_eq!(
        world.ask(&ReportQuery { threads: 1, ..ReportQuery::default() }).groups.len(),
        report.groups.len()
    );
}

#[test]
fn whoever_stops_it_is_told_that_it_is_not_all() {
    let mut world = World::new(24);
    for session in ["a", "b", "c"] {
        world.plant(&Plan { session, ..Plan::of("fix") }, 40, 40);
    }
    let stop = AtomicBool::new(true);
    let known = vec!["never".to_owned()];
    let stopped =
        world.ask(&ReportQuery { stop: Some(&stop), known_skills: &known, ..ReportQuery::default() });
    assert!(!stopped.whole && stopped.totals.runs < 240 && stopped.unused.is_empty());
    assert!(stopped.notes[0].starts_with("stopped before the end"), "{:?}", stopped.notes);
    let late = world.ask(&ReportQuery { deadline: Some(Instant::now()), ..ReportQuery::default() });
    assert!(!late.whole);
    assert!(world.report().whole);
}

#[test]
fn damage_and_lines_that_are_no_runs_hide_nothing_else() {
    let mut world = World::new(25);
    world.plant(&Plan { session: "a", ..Plan::of("fix") }, 6, 0);
    world.plant(&Plan { session: "b", ..Plan::of("fix") }, 6, 0);
    world.line("b", json!({"kind": "note", "text": "hello"}));
    world.write();
    let path = world.dir().join("runs/a.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&path, bytes).unwrap();
    let report = world.report();
    assert!((10..12).contains(&report.totals.runs), "{}", report.totals.runs);
    assert!(report.notes.iter().any(|note| note.contains("cannot be read: 1, in a")), "{:?}", report.notes);
    assert!(
        report.notes.iter().any(|note| note.starts_with("lines that are no runs, and were passed over: 1")),
        "{:?}",
        report.notes
    );
}

#[test]
fn nothing_is_concluded_from_fewer_than_five() {
    for n in 0..RUNS_MIN {
        let mut world = World::new(30 + n);
        let late = Plan { hash: "v2", at_ms: START_MS + DAY_MS, ..Plan::of("few") };
        world.plant(&Plan::of("few"), 100, 0);
        for _ in 0..n {
            world.run(&late, false, &json!({"input": {"same": 1}, "model_used": "other"}));
        }
        let report = world.report();
        for one in &report.statements {
            let is_about_few = one.n < RUNS_MIN;
            assert!(!is_about_few || one.text.contains(&format!("too few runs ({n}) to say")), "{one:?}");
        }
        assert!(report.comparisons.iter().all(|one| !one.supported), "{:?}", report.comparisons);
    }
}
