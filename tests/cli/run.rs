//! `manent run record`, `list` and `show`: what skills did, each run once, and all of it to be seen again.

use serde_json::Value;

use crate::support::runs::run;
use crate::support::terminal::on_terminal;
use crate::support::{Output, Stream, TestEnvironment, machine};

/// A word that must be nowhere after a purge.
const SECRET: &str = "correct-horse-battery";

fn json_lines(output: &Output) -> Vec<Value> {
    output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The runs that a list gives: skill and status.
fn listed(env: &TestEnvironment, args: &[&str]) -> Vec<(String, String)> {
    let output = env.manent(&[&["run", "list", "--json"], args].concat());
    output.assert_code(0);
    let word = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    json_lines(&output).iter().map(|row| (word(row, "skill"), word(row, "status"))).collect()
}

fn skills(env: &TestEnvironment, args: &[&str]) -> Vec<String> {
    listed(env, args).into_iter().map(|(skill, _)| skill).collect()
}

#[test]
fn of_a_stream_everything_goes_in_that_can_and_the_rest_is_named() {
    let env = TestEnvironment::in_memory();
    let long = format!(r#"{{"session_id":"a","skill":"long","phase":"{}"}}"#, "x".repeat(65 << 20));
    let output_of_50_mb = "y".repeat(50 << 20);
    let whole = format!(
        r#"{{"session_id":"a","skill":"whole","attempts":[{{"attempt":1,"runner_output":"{output_of_50_mb}"}}]}}"#
    );
    let lines = [
        r#"{"session_id":"a","skill":"first","idempotency_key":"k","final_status":"ok"}"#,
        "no json",
        &long,
        r#"{"session_id":"b","skill":"odd","attempts":[{"attempt":2},{"attempt":1}],"duration_ms":-5}"#,
        "",
        &whole,
        r#"{"skill":"nowhere"}"#,
        r#"{"session_id":"a","skill":"header","meta":{}}"#,
        r#"{"session_id":"a","skill":"first","idempotency_key":"k","final_status":"ok"}"#,
    ];
    let mut input = lines.join("\n").into_bytes();
    input.extend(b"\n{\"session_id\":\"b\",\"skill\":\"bytes \xff\"}");
    let output = env.manent_given(&["run", "record", "--json"], &input);
    let words = [
        "line 2 ",
        "line 3 ",
        "over the limit of 67108864",
        "line 7 ",
        "session_id",
        "line 8 ",
        "`meta`",
        "odd",
    ];
    output.assert_fails(1, &words);
    let receipts = json_lines(&output);
    assert_eq!(receipts.len(), 5, "{output}");
    let of = |name: &str| receipts.iter().map(|receipt| receipt[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("session"), ["a", "b", "a", "a", "b"]);
    assert_eq!(of("seq"), [1, 1, 2, 1, 2]);
    assert_eq!(of("repeated"), [false, false, false, true, false]);
    assert_eq!(
        (&receipts[0]["run_id"], &receipts[0]["offset"]),
        (&receipts[3]["run_id"], &receipts[3]["offset"])
    );
    assert_eq!(skills(&env, &["--session", "a", "--status", "success"]), ["first"]);
    assert_eq!(skills(&env, &[]).len(), 4);
    let shown = env.done(&["run", "show", "a:2"]);
    assert!(shown.contains(&output_of_50_mb), "fifty megabytes are kept whole");
    let marked = env.manent(&["run", "show", "b:2"]);
    assert!(marked.stdout().contains("bytes \u{fffd}") && marked.stdout().contains("no UTF-8"), "{marked}");
}

#[test]
fn what_another_program_gives_is_kept_byte_for_byte() {
    let env = TestEnvironment::new();
    let input = r#"{"n":[1e999,-0.0,123456789012345678901234567890],"k":1,"k":2,"s":"\u0041"}"#;
    let entry =
        format!(r#"{{"seq":7,"crc":"x","skill":"s","input":{input},"mine":[{input}],"timestamp":3}}"#);
    env.manent(&["run", "record", "a", &entry]).assert_code(0);
    let shown = env.manent(&["run", "show", "a:1", "--json"]);
    let line = shown.stdout();
    assert!(
        line.contains(&format!(r#""input":{input}"#)) && line.contains(&format!(r#""mine":[{input}]"#)),
        "{line}"
    );
    assert!(!line.contains(r#""crc":"x""#), "{line}");
    assert!(line.contains(r#""kind":"run""#) && line.contains(r#""session_id":"a""#), "{line}");
    let shown: Value = serde_json::from_str(&line.replace("1e999", "1")).unwrap();
    assert_eq!(shown["oddities"].as_array().unwrap().len(), 1, "a time from 1970: {shown}");
}

#[test]
fn runs_are_found_by_what_they_were() {
    let env = TestEnvironment::new();
    let entry = |n: u32, skill: &str, model: &str, status: &str, project: &str| {
        format!(r#"{{"session_id":"s{}","timestamp":"2026-01-{n:02}T00:00:00Z","skill":"{skill}","#, n % 2)
            + &format!(r#""model_used":"{model}","final_status":"{status}","#)
            + &format!(r#""project_root":"{project}","run_id":"run-number-{n}"}}"#)
    };
    let lines = [
        entry(1, "lint", "small", "success", "/p"),
        entry(4, "lint", "large", "failed", "/p/sub"),
        entry(2, "test", "small", "splendid", "/pp"),
        entry(3, "test", "large", "", "/q"),
    ];
    env.manent_given(&["run", "record", "--durability", "flush"], lines.join("\n")).assert_code(0);
    assert_eq!(skills(&env, &[]), ["lint", "test", "test", "lint"], "newest first");
    assert_eq!(skills(&env, &["--limit", "1"]), ["lint"]);
    assert_eq!(listed(&env, &["--skill", "test", "--status", "other"]), [("test".into(), "other".into())]);
    assert_eq!(skills(&env, &["--model", "small"]), ["test", "lint"]);
    assert_eq!(skills(&env, &["--project", "/p"]), ["lint", "lint"], "below it too, but not beside it");
    assert_eq!(skills(&env, &["--since", "2026-01-02", "--until", "2026-01-03"]), ["test", "test"]);
    assert_eq!(skills(&env, &["--session", "s1"]), ["test", "lint"]);
    assert!(skills(&env, &["--session", "never"]).is_empty(), "no runs are no error");
    assert!(env.done(&["run", "list"]).starts_with("WHEN"));
    assert!(env.done(&["run", "show", "run-number-4"]).contains("/p/sub"));
    env.manent(&["run", "show", "run-numb"]).assert_fails(2, &["several"]);
    env.manent(&["run", "show", "nothing-like-it"]).assert_fails(4, &["manent run list"]);
    env.manent(&["run", "show", "s1:99"]).assert_fails(4, &[]);
    env.manent(&["run", "list", "--status", "splendid"]).assert_code(2);
}

#[test]
fn two_that_import_the_same_at_once_record_it_once() {
    let env = TestEnvironment::new();
    let line =
        |n: u32| format!("{{\"session_id\":\"s{}\",\"skill\":\"x\",\"idempotency_key\":\"k{n}\"}}\n", n % 3);
    let input: String = (0..600).map(line).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                env.manent_given(&["run", "record", "-q", "--wait", "60s"], &input).assert_code(0);
            });
        }
    });
    assert_eq!(skills(&env, &["--limit", "10000"]).len(), 600);
    let lines: usize = (0..3)
        .map(|n| std::fs::read_to_string(env.home().join(format!("runs/s{n}.jsonl"))).unwrap())
        .map(|text| text.lines().count())
        .sum();
    assert_eq!(lines, 603, "nothing is there twice, and three headers");
}

#[test]
fn a_list_of_very_many_runs_takes_little_memory() {
    if !machine::has("prlimit") {
        return machine::skip("a_list_of_very_many_runs", "there is no prlimit");
    }
    let env = TestEnvironment::in_memory();
    env.make_directories();
    std::fs::create_dir(env.home().join("runs")).unwrap();
    let filler = "z".repeat(2000);
    let line = |n: u32| {
        format!(
            "{{\"timestamp\":{},\"skill\":\"s{n}\",\"attempts\":[{{\"runner_output\":\"{filler}\"}}]}}\n",
            1_700_000_000 + n
        )
    };
    let text: String = (0..150_000).map(line).collect();
    std::fs::write(env.home().join("runs/a.jsonl"), text).unwrap();
    let output = env.manent_under(&["prlimit", "--as=201326592"], &["run", "list", "--json", "--limit", "3"]);
    output.assert_code(0);
    let found: Vec<Value> = json_lines(&output).iter().map(|row| row["skill"].clone()).collect();
    assert_eq!(found, ["s149999", "s149998", "s149997"]);
}

#[test]
fn nothing_in_a_run_reaches_the_terminal_as_a_command() {
    let env = TestEnvironment::new();
    let evil = r"\u001b]0;owned\u0007\u001b[2J\u202e";
    let entry = format!(
        r#"{{"skill":"{evil}","phase":"{evil}","run_id":"id-{evil}","input":"{evil}","model_used":"{evil}","#
    ) + &format!(
        r#""final_status":"{evil}","timestamp":"{evil}","attempts":[{{"model":"{evil}","#
    ) + &format!(
        r#""runner_output":"a\n{evil}","output_summary":"{evil}","error_class":"{evil}","params":"\u009b{evil}"}}]}}"#
    );
    env.manent(&["run", "record", "a", &entry]).assert_code(0);
    for args in [
        &["run", "list"][..],
        &["run", "show", "a:1"],
        &["run", "show", "a:1", "--json"],
        &["run", "list", "--json"],
    ] {
        let screen = on_terminal(&env, args).text();
        let obeyed = ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{202e}", "\u{9b}"];
        assert!(obeyed.iter().all(|evil| !screen.contains(evil)), "{args:?}: {screen:?}");
        assert!(screen.contains("owned"), "it is shown, not hidden: {screen:?}");
    }
}

#[test]
fn whatever_the_umask_runs_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnvironment::new();
    env.manent_with_umask("000", &["run", "record", "a", r#"{"skill":"s"}"#]);
    let mode = |path: &str| std::fs::metadata(env.home().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("runs"), mode("runs/a.jsonl")), (0o700, 0o600));
}

#[test]
fn damage_in_runs_is_named_and_hides_no_other_run() {
    let env = TestEnvironment::new();
    for skill in ["one", "two", "three"] {
        env.manent(&["run", "record", "a", &format!(r#"{{"skill":"{skill}"}}"#)]).assert_code(0);
    }
    let path = env.home().join("runs/a.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("two", "tWo") + "{\"seq\":4,\"torn").unwrap();
    let output = env.manent(&["run", "list", "--json"]);
    output.assert_code(0);
    assert_eq!(json_lines(&output).len(), 2, "{output}");
    assert!(output.stderr().contains("the runs of a: damaged"), "{output}");
    assert!(output.stderr().contains("bytes that are no record"), "a torn end is told too: {output}");
    env.manent(&["verify"]).assert_code(3);
    env.manent(&["verify", "a"]).assert_code(3);
    env.manent(&["verify", "nosuch"]).assert_fails(4, &["nosuch"]);
    let verified = env.manent(&["verify", "--json"]);
    assert_eq!(json_lines(&verified)[0]["runs"], "a", "{verified}");
    assert_eq!(json_lines(&verified)[0]["damage"].as_array().unwrap().len(), 2, "{verified}");
    let doctor = env.manent(&["doctor"]);
    doctor.assert_code(3);
    assert!(doctor.stdout().contains("those of a are damaged"), "{doctor}");
    env.manent(&["repair", "a"]).assert_code(0);
    env.manent(&["verify"]).assert_code(0);
    env.manent(&["verify", "a"]).assert_code(0);
    let known = env.manent(&["run", "list"]);
    assert!(!known.stderr().contains("damaged"), "what was acknowledged is no alarm: {known}");
    env.manent(&["doctor"]).assert_code(0);
    assert!(env.done(&["stats"]).contains("of 1 session"));
    assert_eq!(skills(&env, &[]), ["three", "one"]);
}

#[test]
fn a_purge_takes_the_runs_of_a_session_along() {
    let env = TestEnvironment::new();
    let run = format!(r#"{{"skill":"s","input":"{SECRET}"}}"#);
    env.append("doomed", SECRET);
    env.append("other", "stays");
    for key in ["doomed", "other", "never"] {
        env.manent(&[
            "run",
            "record",
            key,
            &run.replace(SECRET, if key == "other" { "mine" } else { SECRET }),
        ])
        .assert_code(0);
    }
    // A torn end that was set aside is of the session too.
    let path = env.home().join("runs/doomed.jsonl");
    let torn = format!("{}{{\"seq\":2,\"{SECRET}", std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, torn).unwrap();
    env.manent(&["run", "record", "doomed", &run]).assert_code(0);
    let holder = Stream::hold(&env, "doomed");
    env.manent(&["rm", "--purge", "--wait", "0s", "doomed"]).assert_fails(5, &["held"]);
    assert_eq!(skills(&env, &["--session", "doomed"]).len(), 2, "what is not removed loses nothing");
    drop(holder);
    env.done(&["archive", "doomed", "-q"]);
    env.append("doomed", SECRET);
    let id = env.id_in("live", "doomed");
    let one = env.manent(&["rm", "--purge", &format!("@{id}")]);
    one.assert_code(0);
    assert!(one.stderr().contains("runs of doomed are kept"), "another session of the key is there: {one}");
    let purged = env.manent(&["rm", "--purge", "doomed"]);
    purged.assert_code(0);
    assert!(purged.stdout().contains("purged the runs of doomed"), "{purged}");
    env.manent(&["rm", "--purge", "never"]).assert_code(0);
    assert!(env.holding(SECRET).is_empty(), "{:?}", env.holding(SECRET));
    assert_eq!(skills(&env, &["--session", "other"]), ["s"]);
    env.manent(&["rm", "--purge", "never"]).assert_fails(4, &["never"]);
}

#[test]
fn a_purge_says_what_the_memory_still_tells_of_the_runs() {
    let env = TestEnvironment::new();
    let failed = |number: u64| run(number, "fix", "small", "v1", false);
    env.plant_runs("doomed", &(0..8).map(failed).collect::<Vec<_>>());
    env.plant_runs(
        "other",
        &(20..28).map(|number| run(number, "lint", "small", "v1", true)).collect::<Vec<_>>(),
    );
    env.manent(&["retro", "--remember", "-q"]).assert_code(0);
    let ids = |tag: &str| -> Vec<String> {
        let items = json_lines(&env.manent(&["memory", "list", "--tag", tag, "--json"]));
        items.iter().map(|item| item["id"].to_string()).collect()
    };
    let (of_fix, of_lint) = (ids("skill:fix"), ids("skill:lint"));
    assert!(!of_fix.is_empty() && !of_lint.is_empty());
    let purged = env.manent(&["rm", "--purge", "-y", "doomed"]);
    purged.assert_code(0);
    let advice =
        purged.stderr().split('`').find(|part| part.starts_with("manent memory forget")).unwrap().to_owned();
    let named: Vec<&str> = advice.split(' ').skip(3).collect();
    assert!(of_fix.iter().all(|id| named.contains(&id.as_str())), "{advice} / {of_fix:?}");
    assert!(of_lint.iter().all(|id| !named.contains(&id.as_str())), "{advice} / {of_lint:?}");
    let other = env.manent(&["rm", "--purge", "-y", "other"]);
    assert!(other.stderr().contains("manent memory forget"), "{other}");
    env.append("kept", "hello");
    let unasked = env.manent(&["rm", "-y", "kept"]);
    unasked.assert_code(0);
    env.manent(&["restore", "kept"]).assert_code(0);
}

#[test]
fn a_session_without_runs_is_told_from_a_store_without_any() {
    let env = TestEnvironment::new();
    env.manent(&["run", "record", "a", r#"{"skill":"s","timestamp":1793491200}"#]).assert_code(0);
    let none = env.manent(&["run", "list", "--session", "nosuch"]);
    none.assert_code(0);
    assert!(none.stderr().contains("no runs of a session nosuch"), "{none}");
    let listed = env.manent(&["run", "list", "--json"]);
    assert_eq!(json_lines(&listed)[0]["oddities"], 0, "a time may be a number: {listed}");
}
