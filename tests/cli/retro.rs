//! `manent retro`: what is said of runs, in every form; what is remembered; what a model may add, and what not.

use manent_sim::model_server::{ModelServer, replies};
use serde_json::{Value, json};

use crate::support::environment::names_in;
use crate::support::model::ollama;
use crate::support::runs::{broken_on_the_way, run};
use crate::support::{Output, TestEnvironment, terminal};

const WORSE: &str = "fix with small: success fell from 95 % (38 of 40) to 33 % (13 of 40) with version v2, first \
                     seen on 2026-11-02 (before: v1)";

fn planted() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant_runs("a", &broken_on_the_way());
    env
}

fn report(output: &Output) -> Value {
    output.assert_code(0);
    assert_eq!(output.stdout().lines().count(), 1, "one object");
    serde_json::from_slice(&output.stdout_bytes).unwrap()
}

#[test]
fn what_was_planted_is_said_in_every_form() {
    let env = planted();
    let text = env.done(&["retro"]);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(&format!("worse {WORSE}")), "{text}");
    assert!(
        flat.contains("105 runs: 73 succeeded, 30 failed, 2 of unknown outcome, 0 with a status"),
        "{text}"
    );
    assert!(
        flat.contains("too few runs (3) to say") && flat.contains("error: job <n> broke in <path>"),
        "{text}"
    );

    let told = report(&env.manent(&["retro", "--json"]));
    let mut names: Vec<&str> = told.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let wanted = [
        "comparisons",
        "days",
        "failures",
        "flaky",
        "groups",
        "narrative",
        "notes",
        "oddities",
        "period",
        "statements",
        "statuses",
        "totals",
        "unused",
        "whole",
    ];
    assert_eq!(names, wanted);
    assert!(told["statements"][0]["text"].as_str().unwrap().starts_with(WORSE), "{}", told["statements"][0]);
    assert_eq!(told["statements"][0]["n"], 80);
    assert_eq!(told["totals"]["success"]["of"], 103);

    let markdown = env.done(&["retro", "--md"]);
    assert!(
        markdown.starts_with("# Retrospective\n") && markdown.contains(&format!("- **regression**: {WORSE}"))
    );
    assert!(markdown.contains("| fix with small in build | 80 |"), "{markdown}");
}

#[test]
fn only_what_is_asked_for_is_counted() {
    let env = planted();
    env.plant_runs("b", &[run(7, "other", "small", "", true)]);
    let count =
        |args: &[&str]| report(&env.manent(&[&["retro", "--json"], args].concat()))["totals"]["runs"].clone();
    assert_eq!(count(&[]), 106);
    assert_eq!(count(&["--session", "b"]), 1);
    assert_eq!(count(&["--skill", "review"]), 20);
    assert_eq!(count(&["--project", "app"]), 106);
    assert_eq!(count(&["--project", "/elsewhere"]), 0);
    assert_eq!(count(&["--until", "2026-11-01"]), 25);
    assert_eq!(count(&["--since", "2026-11-05", "--until", "2026-11-05"]), 9);
    let after = env.manent(&["retro", "--since", "2026-11-05", "--until", "2026-11-04"]);
    after.assert_fails(2, &["--since", "--until"]);
    env.manent(&["retro", "--session", "none"]).assert_fails(4, &["none", "manent retro"]);
    let unknown = env.manent(&["retro", "--skill", "nosuch"]);
    unknown.assert_fails(4, &["no runs of a skill nosuch", "fix", "other", "review"]);
    // It is there, and was not used in this time.
    assert_eq!(count(&["--skill", "other", "--since", "2026-11-09"]), 0);
    let text = env.done(&["retro", "--until", "2026-11-01"]);
    assert!(text.starts_with("Retrospective  2026-11-01 to 2026-11-01\n"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("no period before to compare with (--since gives one)"), "{text}");
    env.manent(&["retro", "--md", "--json"]).assert_code(2);
}

#[test]
fn without_runs_that_is_said() {
    let env = TestEnvironment::new();
    let text = env.done(&["retro"]);
    assert!(text.contains("0 runs") && text.contains("nothing that the numbers support"), "{text}");
    assert_eq!(report(&env.manent(&["retro", "--json"]))["statements"], json!([]));
    assert!(!env.home().join("runs").exists(), "looking makes nothing");
}

#[test]
fn skills_without_a_run_are_named() {
    let env = planted();
    for name in ["fix", "forgotten"] {
        let dir = env.home().join("skills").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let text = format!("---\nname: {name}\ndescription: Does what it is called.\n---\nDo it.\n");
        std::fs::write(dir.join("SKILL.md"), text).unwrap();
    }
    let told = report(&env.manent(&["retro", "--json"]));
    assert_eq!(told["unused"], json!(["forgotten"]));
    // Of one project, or one session, nobody can say that.
    assert_eq!(report(&env.manent(&["retro", "--json", "--project", "app"]))["unused"], json!([]));
}

#[test]
fn a_page_is_there_as_a_whole_or_as_it_was() {
    let env = planted();
    let dir = env.root().join("pages");
    std::fs::create_dir(&dir).unwrap();
    let (file, link) = (dir.join("r.html"), dir.join("link.html"));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    env.manent(&["retro", "--html", link.to_str().unwrap()]).assert_code(0);
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "the link stays one");
    assert_eq!(names_in(&dir), ["link.html", "r.html"]);
    let printed = env.done(&["retro", "--html", "-"]);
    assert!(printed.starts_with("<!DOCTYPE html>") && printed.trim_end().ends_with("</html>"), "{printed}");
    env.manent(&["retro", "--html", dir.to_str().unwrap()]).assert_fails(2, &["pages"]);
    env.manent(&["retro", "--html", "/nowhere/at/all.html"]).assert_fails(1, &["/nowhere/at/all.html"]);
    assert_eq!(names_in(&dir), ["link.html", "r.html"]);
}

#[test]
fn lessons_are_remembered_once_and_replaced_when_they_change() {
    let env = planted();
    let first = env.manent(&["retro", "--remember"]);
    first.assert_code(0);
    assert!(first.stderr().contains("4 new, 0 instead of"), "{first}");
    let items = env.mem_json(&["list", "--tag", "retro"]);
    let fact = items.iter().find(|item| item["kind"] == "fact").unwrap();
    assert!(fact["content"].as_str().unwrap().starts_with(WORSE), "{fact}");
    let tags: Vec<&str> = fact["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(tags.contains(&"skill:fix") && tags.iter().any(|tag| tag.starts_with("run:run-")), "{tags:?}");
    assert!(
        items.iter().all(|item| !item["content"].as_str().unwrap().contains("rare")),
        "three runs teach nothing"
    );
    let again = env.manent(&["retro", "--remember"]);
    assert!(again.stderr().contains("0 new, 0 instead of what was said before, 4 known"), "{again}");

    let mut more = broken_on_the_way();
    more.extend((200..210).map(|n| run(n, "review", "large", "r1", true)));
    env.plant_runs("a", &more);
    let third = env.manent(&["retro", "--remember"]);
    assert!(third.stderr().contains("0 new, 1 instead of what was said before, 3 known"), "{third}");
    let items = env.mem_json(&["list", "--tag", "skill:review", "--tag", "topic:rate"]);
    assert_eq!(items.len(), 1, "{items:?}");
    assert!(items[0]["content"].as_str().unwrap().contains("29 of 30"), "{items:?}");

    // Nothing fails any more: what is no longer so is forgotten, what broke when is not.
    let mut good: Vec<Value> = (300..340).map(|n| run(n, "fix", "small", "v3", true)).collect();
    good.extend((340..360).map(|n| run(n, "review", "large", "r1", true)));
    env.plant_runs("a", &good);
    let fourth = env.manent(&["retro", "--remember"]);
    assert!(
        fourth.stderr().contains("2 instead of what was said before, 0 known already, 1 forgotten"),
        "{fourth}"
    );
    assert!(env.mem_json(&["list", "--tag", "topic:failures"]).is_empty());
    assert_eq!(env.mem_json(&["list", "--tag", "topic:regression"]).len(), 1);
}

/// A model that answers so, whatever it is asked.
fn telling(answer: &Value) -> ModelServer {
    let answer = match answer {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ollama(move |_| replies::ollama(&answer))
}

#[test]
fn what_a_model_adds_rests_on_runs() {
    let env = planted();
    let server = telling(&json!({
        "passages": [{"text": "The skill fix fell from 95 % to 33 % with version v2.", "runs": ["run-79", "run-78"]}],
        "edits": [{"skill": "fix", "why": "It breaks in a path.", "text": "Check\nthe path.", "runs": ["run-79"]}],
    }));
    env.serve(&server);
    let told = report(&env.manent(&["retro", "--with-model", "--json"]));
    let narrative = &told["narrative"];
    assert_eq!(
        (narrative["passages"].as_array().unwrap().len(), &narrative["dropped"]),
        (1, &json!(0)),
        "{narrative}"
    );
    assert_eq!(narrative["edits"][0]["runs"], json!(["run-79"]));
    let asked =
        server.requests().into_iter().find(|request| request.path == "/api/chat").unwrap().json().to_string();
    assert!(
        asked.contains("success fell from 95 %") && asked.contains("run-79"),
        "the facts are what it is given"
    );
    let text = env.done(&["retro", "--with-model"]);
    assert!(
        text.contains("makes of it")
            && text.contains("  | the path.")
            && text.contains("nothing was applied")
    );
}

#[test]
fn what_a_model_makes_up_is_dropped_and_counted() {
    let env = planted();
    let lies = json!({
        "passages": [
            {"text": "Much of it is the fault of a path.", "runs": ["run-79", "made-up-1"]},
            {"text": "It rests on nothing.", "runs": ["made-up-2"]},
            {"text": "Success is 99.7 % now.", "runs": ["run-79"]},
            {"text": "", "runs": ["run-79"]},
            {"text": "No runs at all.", "runs": "run-79"},
        ],
        "edits": [
            {"skill": "not-a-skill", "why": "x", "text": "rm -rf /", "runs": ["run-79"]},
            {"skill": "fix", "why": "It fails.", "text": "Mind the path.", "runs": ["run-79", "run-79", "nope"]},
        ],
    });
    let server = telling(&lies);
    env.serve(&server);
    let narrative = report(&env.manent(&["retro", "--with-model", "--json"]))["narrative"].clone();
    let texts: Vec<&str> =
        narrative["passages"].as_array().unwrap().iter().filter_map(|one| one["text"].as_str()).collect();
    assert_eq!(texts, ["Much of it is the fault of a path."], "{narrative}");
    assert_eq!(narrative["passages"][0]["runs"], json!(["run-79"]));
    assert_eq!((&narrative["unknown_runs"], &narrative["dropped"]), (&json!(3), &json!(5)), "{narrative}");
    assert_eq!(narrative["edits"].as_array().unwrap().len(), 1);
}

#[test]
fn without_an_answer_the_facts_are_told_all_the_same() {
    let env = planted();
    let server = telling(&json!("I would rather write a poem."));
    env.serve(&server);
    let poem = env.manent(&["retro", "--with-model"]);
    poem.assert_code(0);
    assert!(
        poem.stderr().contains("no answer that can be read") && poem.stdout().contains("success fell"),
        "{poem}"
    );
    env.serve_nobody();
    let nobody = env.manent(&["retro", "--with-model"]);
    nobody.assert_code(0);
    assert!(nobody.stderr().contains("the facts are told without the prose"), "{nobody}");
    assert!(nobody.stdout().contains("success fell"), "{nobody}");
}

#[test]
fn what_a_run_says_does_not_drive_a_terminal() {
    let env = TestEnvironment::new();
    let hostile = "\u{1b}]0;x\u{7}\u{1b}[2J\u{202e}name";
    let mut entries: Vec<Value> = (0..12).map(|n| run(n, hostile, hostile, hostile, n % 2 == 0)).collect();
    for entry in &mut entries {
        entry["phase"] = json!(hostile);
        entry["attempts"][0]["error_class"] = json!(hostile);
        entry["run_id"] = json!(format!("{hostile}{}", entry["run_id"]));
        entry["input"] = json!([1]);
    }
    env.plant_runs("a", &entries);
    for args in [&["retro", "--color", "never"][..], &["retro", "--md"], &["retro", "--json"]] {
        let shown = terminal::on_terminal(&env, args).text();
        assert!(shown.contains("name"), "{shown}");
        assert!(!shown.chars().any(|c| c == '\u{1b}' || c == '\u{7}' || c == '\u{202e}'), "{shown:?}");
    }
}
