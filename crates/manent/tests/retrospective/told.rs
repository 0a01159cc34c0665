//! The report as a page and as Markdown: everything from a record is text, and nothing that was found is missing.

use manent::retrospective::Report;
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
