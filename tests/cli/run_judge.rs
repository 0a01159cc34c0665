//! `manent run judge`, and `:good` and `:bad` in a chat: what somebody says of a run afterwards counts everywhere.

use std::path::Path;

use manent_sim::model_server::{ModelServer, Request, Script, replies};
use serde_json::{Value, json};

use crate::support::model::{MODEL, Sitting};
use crate::support::runs::run;
use crate::support::terminal::on_terminal;
use crate::support::{Output, TestEnvironment};

fn objects(output: &Output) -> Vec<Value> {
    output.assert_code(0);
    output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn object(output: &Output) -> Value {
    let mut all = objects(output);
    assert_eq!(all.len(), 1, "{output}");
    all.remove(0)
}

fn shown(env: &TestEnvironment, name: &str) -> Value {
    object(&env.manent(&["run", "show", name, "--json"]))
}

fn log(env: &TestEnvironment) -> Vec<u8> {
    std::fs::read(env.home().join("runs/a.jsonl")).unwrap()
}

/// Three runs: one of two attempts that failed, one that never ended, and one without an id.
fn three_runs() -> TestEnvironment {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"run_id":"run-number-1","skill":"fix","final_status":"failed","attempts":[{"attempt":1},{"attempt":2}]}"#,
        r#"{"kind":"run-start","run_id":"run-number-2","skill":"lost"}"#,
    ];
    env.manent_given(&["run", "record", "a", "-"], lines.join("\n")).assert_code(0);
    env.plant_runs("theirs", &[json!({"skill": "other", "attempts": [{"attempt": 1}]})]);
    env
}

#[test]
fn a_verdict_is_kept_shown_and_taken_back() {
    let env = three_runs();
    let judged = object(&env.manent(&["run", "judge", "a:1", "good", "--note", "it works", "--json"]));
    let expected = json!({"session": "a", "seq": 3, "durability": "sync", "run_id": "run-number-1", "run_seq": 1,
        "attempt": 2, "verified": true, "repeated": false});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&judged[name], value, "{name}: {judged}");
    }
    assert!(judged["id"].is_string() && judged["offset"].is_u64(), "{judged}");
    let run = shown(&env, "run-number-1");
    assert_eq!((&run["status"], &run["entry"]["final_status"]), (&json!("success"), &json!("failed")));
    let verdict = &run["verdicts"][0];
    assert_eq!(
        (&verdict["attempt"], &verdict["verified"], &verdict["seq"]),
        (&json!(2), &json!(true), &json!(3))
    );
    assert_eq!(verdict["note"], "it works");
    assert!(verdict["timestamp"].is_string(), "{verdict}");
    let text = env.done(&["run", "show", "a:1"]);
    assert!(text.contains("status   failed") && text.contains("verdict  good, said afterwards 20"), "{text}");
    assert!(text.contains("checked  verified, said afterwards 20") && text.contains(": it works"), "{text}");
    assert_eq!(env.done(&["run", "show", "a:3"]), text, "the record of a verdict is about its run");
    let rows = objects(&env.manent(&["run", "list", "--session", "a", "--status", "success", "--json"]));
    assert_eq!((rows.len(), &rows[0]["judged"]["note"]), (1, &json!("it works")));
    let listed = env.done(&["run", "list", "--session", "a"]);
    assert!(listed.contains("judged 20") && listed.contains(": it works"), "{listed}");

    // The same once more writes nothing, and says so.
    let before = log(&env);
    let again =
        object(&env.manent(&["run", "judge", "run-number-1", "good", "--note", "it works", "--json"]));
    assert_eq!((&again["repeated"], &again["seq"]), (&json!(true), &json!(3)));
    let again = env.done(&["run", "judge", "a:1", "good", "--note=it works"]);
    assert!(again.contains("good  fix a:1, attempt 2  said before"), "{again}");
    assert_eq!(log(&env), before);

    env.manent(&["run", "judge", "a:1", "bad", "--attempt", "1"]).assert_code(0);
    env.manent(&["run", "judge", "a:1", "none"]).assert_code(0);
    let run = shown(&env, "a:1");
    assert_eq!((&run["status"], run["verdicts"].as_array().unwrap().len()), (&json!("failed"), 1));
    env.manent(&["verify"]).assert_code(0);
}

#[test]
fn a_run_that_was_cut_off_and_one_of_another_program_are_judged() {
    let env = three_runs();
    env.manent(&["run", "judge", "run-number-2", "bad", "--session", "a", "--note", "the disk was full"])
        .assert_code(0);
    let rows = objects(&env.manent(&["run", "list", "--status", "unknown", "--session", "a", "--json"]));
    assert!(rows.is_empty(), "it is no longer unknown: {rows:?}");
    let run = shown(&env, "a:2");
    assert_eq!((&run["status"], &run["verdicts"][0]["attempt"]), (&json!("failed"), &Value::Null));
    assert!(env.done(&["run", "show", "a:2"]).contains(": the disk was full"));
    let nothing = env.done(&["run", "judge", "theirs:1", "none"]);
    assert!(nothing.contains("no verdict  other theirs:1, attempt 1  there was none"), "{nothing}");
    let judged = object(&env.manent(&["run", "judge", "theirs:1", "good", "--json"]));
    assert_eq!((&judged["run_id"], &judged["run_seq"]), (&json!(""), &json!(1)));
    assert_eq!(shown(&env, "theirs:1")["status"], "success");
}

#[test]
fn what_cannot_be_judged_is_said_and_nothing_is_written() {
    let env = three_runs();
    let before = log(&env);
    for (args, exit, words) in [
        (&["nothing-like-it", "good"][..], 4, &["manent run list"][..]),
        (&["a:99", "good"], 4, &["manent run list"]),
        (&["run-numb", "good"], 2, &["several", "a:1", "a:2"]),
        (&["run-number-1", "good", "--session", "theirs"], 4, &["manent run list"]),
        (&["a:1", "good", "--session", "theirs"], 4, &["manent run list"]),
        (&["a:1", "good", "--attempt", "0"], 4, &["no attempt 0", "the last is 2"]),
        (&["a:1", "good", "--attempt", "999999"], 4, &["no attempt 999999"]),
        (&["a:2", "good", "--attempt", "1"], 4, &["it has none"]),
        (&["a:1", "good", "--attempt", "-1"], 2, &[]),
        (&["a:1", "splendid"], 2, &["good", "bad", "none"]),
        (&["a:1"], 2, &[]),
        (&["a:1", "good", "--session", ""], 2, &[]),
    ] {
        env.manent(&[&["run", "judge"], args].concat()).assert_fails(exit, words);
    }
    let verdict = r#"{"kind":"run-verdict","run_id":"run-number-1","verdict":"good"}"#;
    env.manent(&["run", "record", "a", verdict])
        .assert_fails(1, &["a verdict on a run, and not a run", "`manent run judge` gives a verdict"]);
    assert_eq!(log(&env), before);
}

#[test]
fn many_processes_that_judge_at_once_all_have_their_say() {
    let env = three_runs();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let env = &env;
            scope.spawn(move || {
                let (worth, note) = (["good", "bad"][n % 2], format!("by {}", n / 2));
                let args = ["run", "judge", "a:1", worth, "--note", &note, "--wait", "60s"];
                env.manent(&args).assert_code(0);
            });
        }
    });
    let text = String::from_utf8(log(&env)).unwrap();
    let last = text.lines().rfind(|line| line.contains("run-verdict")).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("run-verdict")).count(), 6, "{text}");
    let is_good = last.contains(r#""verified":true"#);
    assert_eq!(shown(&env, "a:1")["status"], if is_good { "success" } else { "failed" });
    env.manent(&["verify"]).assert_code(0);
}

/// Text of other programs does not drive the terminal, and malformed verdicts do not count.
#[test]
fn verdicts_of_other_programs_cannot_harm() {
    let env = TestEnvironment::new();
    let note = "n".repeat(10 << 20);
    env.plant_runs(
        "a",
        &[
            run(1, "fix", "small", "v1", false),
            json!({"kind": "run-verdict", "run_id": "run-1", "attempt": 0, "verified": true}),
            json!({"kind": "run-verdict", "run_id": "run-1", "attempt": 999_999, "verified": true}),
            json!({"kind": "run-verdict", "run_id": "run-1", "verified": "yes"}),
            json!({"kind": "run-verdict", "run_id": "run-2", "verified": true, "note": note}),
            run(2, "fix", "small", "v1", false),
        ],
    );
    env.plant_runs("b", &[json!({"kind": "run-verdict", "run_id": "run-1", "verified": true})]);
    let rows = objects(&env.manent(&["run", "list", "--json"]));
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("run_id"), of("status")),
        (vec![json!("run-2"), json!("run-1")], vec![json!("success"), json!("failed")])
    );
    assert!(
        rows[0]["judged"]["note"].as_str().unwrap().chars().count() <= 1001,
        "a list shows the beginning"
    );
    assert_eq!(
        shown(&env, "run-2")["verdicts"][0]["note"].as_str().unwrap().len(),
        10 << 20,
        "all of it is there"
    );

    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}";
    env.plant_runs(
        "a",
        &[
            run(1, evil, "small", "v1", false),
            json!({"kind": "run-verdict", "run_id": "run-1", "verified": true, "note": evil, "timestamp": evil}),
        ],
    );
    for args in [
        &["run", "list"][..],
        &["run", "list", "--json"],
        &["run", "show", "a:1"],
        &["run", "show", "a:1", "--json"],
        &["run", "judge", "a:1", "bad", "--note", evil],
    ] {
        let screen = on_terminal(&env, args).text();
        let obeyed = ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{202e}"];
        assert!(obeyed.iter().all(|evil| !screen.contains(evil)), "{args:?}: {screen:?}");
        assert!(screen.contains("owned"), "it is shown, not hidden: {args:?}: {screen:?}");
    }
}

#[test]
fn a_retrospective_counts_a_run_as_it_was_judged() {
    let env = TestEnvironment::new();
    let mut open = run(3, "fix", "small", "v1", true);
    open["kind"] = json!("run-start");
    env.plant_runs("a", &[run(1, "fix", "small", "v1", false), run(2, "fix", "small", "v1", true), open]);
    let totals = || object(&env.manent(&["retro", "--json"]))["totals"].clone();
    let before = totals();
    assert_eq!((&before["success"]["count"], &before["success"]["of"]), (&json!(1), &json!(2)), "{before}");
    env.manent(&["run", "judge", "a:1", "good"]).assert_code(0);
    env.manent(&["run", "judge", "a:3", "bad"]).assert_code(0);
    let after = totals();
    assert_eq!((&after["success"]["count"], &after["success"]["of"]), (&json!(2), &json!(3)), "{after}");
    assert_eq!(after["verified"]["count"], json!(2), "{after}");
    assert_eq!(after["runs"], json!(3));
}

/// A model that uses a skill for every question but those that begin with a greeting.
fn skilled(env: &TestEnvironment) -> ModelServer {
    let answer = |request: &Request| {
        let body = request.json();
        let last = body["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or_default();
        let asked = last["content"].as_str().unwrap_or_default().to_owned();
        if last["role"] == "tool" {
            let question =
                body["messages"].as_array().into_iter().flatten().rfind(|one| one["role"] == "user");
            let question = question.and_then(|one| one["content"].as_str()).unwrap_or_default().to_owned();
            return replies::ollama(&format!("Salve, {question}"));
        }
        if asked.starts_with("hello") {
            return replies::ollama("Hello.");
        }
        let call = json!({"name": "use_skill", "arguments": {"name": "greeting"}});
        let said = json!({"role": "assistant", "content": "", "tool_calls": [{"function": call}]});
        Script::new().chunk(replies::ollama_line(&said)).chunk(replies::ollama_done("stop", 900, 9))
    };
    let server = ModelServer::start(move |request| match request.path.as_str() {
        "/api/version" => Script::body(r#"{"version":"0.12.0"}"#),
        "/api/tags" => Script::body(json!({"models": [{"name": MODEL}]}).to_string()),
        "/api/show" => Script::body(r#"{"capabilities":["completion","tools"],"model_info":{}}"#),
        _ => answer(request),
    });
    let server = server.unwrap();
    env.serve(&server);
    let skill = env.home().join("skills/greeting");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: greeting\ndescription: How to greet.\n---\nSay salve and the name.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    server
}

fn rows(dir: &Path) -> Vec<Value> {
    let Ok(text) = std::fs::read_to_string(dir.join("train.jsonl")) else { return Vec::new() };
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_skill_used_in_a_chat_becomes_data_to_train_on_once_it_is_judged() {
    let env = TestEnvironment::new();
    let _server = skilled(&env);
    for (session, question) in [("a", "greet Anna"), ("b", "greet Berta"), ("c", "greet Carla")] {
        env.chat(&[session], question).assert_code(0);
    }
    let train = |format: &str, name: &str| {
        let dir = env.root().join(name);
        let output =
            env.manent(&["train", "--format", format, "--validation", "0", "-o", &dir.to_string_lossy()]);
        (output, rows(&dir))
    };
    let (output, made) = train("openai", "unjudged");
    assert!(made.is_empty(), "nobody said that any of it is good: {output}");
    env.manent(&["run", "judge", "a:2", "good"]).assert_code(0);
    env.manent(&["run", "judge", "b:2", "bad", "--note", "too stiff"]).assert_code(0);
    let (output, made) = train("openai", "judged");
    output.assert_code(0);
    assert_eq!(made.len(), 1, "{output}");
    let messages = made[0]["messages"].as_array().unwrap();
    let text = made[0].to_string();
    assert!(
        text.contains("greet Anna") && text.contains("Say salve and the name"),
        "what it was told: {text}"
    );
    assert_eq!(messages.last().unwrap()["content"], "Salve, greet Anna");
    assert!(!text.contains("Berta") && !text.contains("Carla"), "{text}");
    let (output, made) = train("kto", "verdicts");
    output.assert_code(0);
    let labels: Vec<(bool, bool)> =
        made.iter().map(|row| (row["label"] == true, row.to_string().contains("Anna"))).collect();
    assert_eq!(labels.len(), 2, "{output}");
    assert!(labels.iter().all(|(label, is_anna)| label == is_anna), "{labels:?}");
    // Taken back, it is data no more.
    env.manent(&["run", "judge", "a:2", "none"]).assert_code(0);
    assert!(train("openai", "taken-back").1.is_empty());
}

#[test]
fn somebody_in_a_chat_says_what_an_answer_was_worth() {
    let env = TestEnvironment::new();
    let _server = skilled(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says(":good", "no skill was used in a yet");
    sitting.says("hello", "Hello.");
    sitting.says(":bad", "no skill was used in a yet");
    sitting.says("greet Anna", "Salve, greet Anna");
    sitting.says(":good --well -- done; \"so\"", "good  greeting a:2, attempt 1");
    let first = shown(&env, "a:2");
    assert_eq!(
        (&first["status"], &first["verdicts"][0]["note"]),
        (&json!("success"), &json!("--well -- done; \"so\""))
    );
    sitting.says("greet Berta", "Salve, greet Berta");
    sitting.says("hello again", "Hello.");
    // Of another program, for this session: that is nothing that was seen here.
    env.manent(&["run", "record", "a", r#"{"skill":"theirs","final_status":"failed"}"#]).assert_code(0);
    sitting.says(":bad", "bad  greeting a:5, attempt 1");
    sitting.says(":bad", "said before");
    sitting.says(":runs", "judged");
    sitting.says(":new b", "a new session b");
    sitting.says(":good", "no skill was used in b yet");
    sitting.types(":quit\r");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    let status = |place: &str| shown(&env, place)["status"].clone();
    assert_eq!((status("a:2"), status("a:5")), (json!("success"), json!("failed")));
}
