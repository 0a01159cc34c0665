//! The report as a page and as Markdown: everything from a record is text, and nothing that was found is missing.

use std::time::Duration;

use manent::memory::Filter;
use manent_runs::retrospective::Report;
use serde_json::json;

use crate::world::{DAY_MS, Plan, START_MS, World};

#[test]
fn nothing_from_a_record_is_markup_in_any_field() {
    let hostile = "</script><img src=x onerror=alert(1)>\"'`|*_\u{202e}\u{1b}[31m";
    let mut world = World::new(51);
    for n in 0..20 {
        let hash = if n < 10 { hostile.to_owned() } else { format!("2{hostile}") };
        let attempt = json!({
            "attempt": 1, "model": hostile, "skill_hash": hash, "error_class": hostile, "runner_output": hostile,
            "output_summary": hostile, "verified": n < 10,
        });
        let status = if n == 19 {
            hostile
        } else if n < 10 {
            "success"
        } else {
            "failed"
        };
        world.run(
            &Plan::of("x"),
            n < 10,
            &json!({
                "skill": hostile, "model_used": hostile, "phase": hostile, "run_id": format!("{hostile}{n}"),
                "input": {hostile: 1}, "attempts": [attempt], "final_status": status, "file_path": hostile,
                "timestamp": (START_MS + n * DAY_MS).to_string(), "project_root": hostile,
            }),
        );
    }
    let report = world.report();
    assert!(!report.flaky.is_empty() || !report.comparisons.is_empty());
    let (page, markdown) = (report.to_html(None), report.to_markdown(None));
    for text in [&page, &markdown] {
        assert!(!text.contains("<img") && !text.contains("</script"), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{1b}']));
        assert!(text.contains("&lt;img src=x"));
    }
    // No attribute is left by a quote of theirs.
    assert!(!page.contains("onerror=alert(1)>\""));
}

#[test]
fn a_page_of_any_report_is_whole() {
    let empty = Report::default().to_html(None);
    assert!(empty.contains("No runs in this time") && empty.trim_end().ends_with("</html>"));
    // Years of days, and one day alone.
    for days in [1, 59, 61, 400, 3000] {
        let mut world = World::new(52);
        for day in [0, days - 1] {
            world.run(&Plan::of("x"), true, &json!({"timestamp": (START_MS - day * DAY_MS).to_string()}));
        }
        let page = world.report().to_html(None);
        let columns = page.matches("class=\"column\"").count();
        assert!((1..=60).contains(&columns), "{columns} for {days}");
    }
}

#[test]
fn a_password_that_failures_printed_is_in_no_form_of_the_report() {
    let mut world = World::new(53);
    for n in 0..5 {
        let attempt =
            |class: &str, said: &str| json!({"attempt": 1, "error_class": class, "runner_output": said});
        let printed = "connecting\nerror: login failed with password=CorrectHorseBattery\n";
        world.run(&Plan::of("login"), false, &json!({"attempts": [attempt("auth", printed)]}));
        let class = attempt("password=CorrectHorseBattery", "");
        world.run(&Plan::of("class"), false, &json!({"attempts": [class]}));
        let summary = json!({"attempt": 1, "output_summary": "password=CorrectHorseBattery"});
        world.run(&Plan::of("summary"), false, &json!({"attempts": [summary]}));
        world.run(&Plan::of("status"), false, &json!({"final_status": "password=Horse1Battery"}));
        let other = format!("error: login failed with password=AnotherHorse{}Battery", "x".repeat(n));
        world.run(&Plan::of("login"), false, &json!({"attempts": [attempt("auth", &other)]}));
    }
    let report = world.report();
    let memory = world.store.memory().unwrap();
    assert!(report.remember(&memory, Duration::ZERO).unwrap().added.len() >= 3);
    let remembered = memory.items(&Filter::default()).unwrap();
    let lessons = remembered
        .iter()
        .map(|item| format!("{} {:?}", item.content, item.tags))
        .collect::<Vec<_>>()
        .join("\n");
    let forms = [
        report.to_json(None).to_string(),
        report.to_markdown(None),
        report.to_html(None),
        lessons,
        format!("{report:?}"),
    ];
    for form in forms {
        let small = form.to_lowercase();
        assert!(!small.contains("horse") && !small.contains("battery"), "{form}");
        assert!(small.contains("login failed with password=") && small.contains("secret"), "{form}");
    }
    // Whatever the password was, it is one failure.
    assert!(report.failures.iter().any(|one| one.count == 10), "{:#?}", report.failures);
}

/// The output of such a run is its answer, and says nothing of what is wrong with it.
#[test]
fn a_run_that_somebody_judged_bad_is_a_failure_of_that_kind() {
    let mut world = World::new(54);
    let attempt = json!({"attempt": 1, "verified": true, "exit_code": 0, "runner_output": "answer 42"});
    for note in
        ["", "wrong city, 3 times\nand more", "Wrong city, 4 times", "password=C0rrectHorseBattery was shown"]
    {
        for _ in 0..3 {
            let id = world.run(&Plan::of("ask"), true, &json!({"attempts": [attempt.clone()]}));
            world.line("a", json!({"kind": "run-verdict", "run_id": id, "verified": false, "note": note}));
        }
    }
    // It failed by itself: what it printed is the reason.
    let failed = json!({"attempt": 1, "error_class": "io", "runner_output": "error: no such file"});
    let id = world.run(&Plan::of("ask"), false, &json!({"attempts": [failed]}));
    world.line("a", json!({"kind": "run-verdict", "run_id": id, "verified": false, "note": "bad"}));
    // Taken back.
    let id = world.run(&Plan::of("ask"), true, &json!({"attempts": [attempt]}));
    for verified in [json!(false), json!(null)] {
        world.line("a", json!({"kind": "run-verdict", "run_id": id, "verified": verified, "note": "no"}));
    }
    let report = world.report();
    let kinds: Vec<(&str, u64)> = report.failures.iter().map(|one| (&*one.signature, one.count)).collect();
    let wanted = [
        ("judged bad: wrong city, <n> times", 6),
        ("judged bad", 3),
        ("judged bad: password=[secret] was shown", 3),
        ("io: error: no such file", 1),
    ];
    assert_eq!(kinds, wanted);
}
