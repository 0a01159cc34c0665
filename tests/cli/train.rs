//! `manent train`: data sets that load where they are meant to, whole or not at all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::random::Random;
use crate::support::{Output, TestEnvironment, machine, strace};

const FORMATS: [&str; 5] = ["openai", "trl-sft", "trl-dpo", "kto", "sharegpt"];

/// Words that say something else for every number.
fn words(seed: u64, count: u64) -> String {
    let mut random = Random::new(seed);
    (0..count).map(|_| format!("w{}", random.below(1_000_000))).collect::<Vec<_>>().join(" ")
}

/// Writes the log of runs of a session, as other programs do.
fn runs(env: &TestEnvironment, session: &str, runs: &[Value]) {
    env.make_directories();
    let dir = env.home().join("runs");
    std::fs::create_dir_all(&dir).unwrap();
    let lines: Vec<String> = runs.iter().map(Value::to_string).collect();
    std::fs::write(dir.join(format!("{session}.jsonl")), lines.join("\n") + "\n").unwrap();
}

/// Runs of one attempt each, of which every third failed.
fn plain_runs(count: u64, length: u64) -> Vec<Value> {
    let run = |n: u64| {
        json!({"skill": "fix", "project_root": format!("/src/p{}", n % 40), "input": words(n, length), "attempts": [
            {"attempt": 1, "model": "m", "verified": !n.is_multiple_of(3),
                "output_summary": words(n + count, length)}]})
    };
    (0..count).map(run).collect()
}

/// A session with tools and calls, and the run of two attempts at one prompt in it.
fn with_tools(env: &TestEnvironment) {
    let tools = json!([{"type": "function", "function": {"name": "read", "parameters": {"type": "object",
        "properties": {"path": {"type": "string"}}}}}, {"type": "function", "function": {"name": "sum"}}]);
    let records = [
        json!({"kind": "context", "system": "Be brief.", "tools": tools.to_string()}),
        json!({"role": "user", "content": "what is in a.txt?"}),
        json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "1", "name": "read", "arguments": {"path": "a.txt"}},
            {"id": "2", "name": "sum", "arguments": {"of": [1, 2.5], "deep": {"x": null}}}]}),
        json!({"role": "tool", "tool_call_id": "1", "name": "read", "content": "odd \u{0} \u{1b} \u{2028} 😀"}),
        json!({"role": "tool", "tool_call_id": "2", "name": "sum", "content": "3.5"}),
        json!({"role": "assistant", "content": "It says odd things."}),
    ];
    let lines = records.map(|record| record.to_string()).join("\n");
    env.manent_given(&["append", "zz", "--jsonl"], lines).assert_code(0);
    let part = |first: u64, last: u64| json!({"session": "zz", "seq": [first, last]});
    let attempt = |n: u64, output: Value| {
        let prompt = part(1, 2);
        json!({"attempt": n, "model": "m", "verified": n == 2, "prompt_ref": prompt, "output_ref": output})
    };
    runs(env, "zz", &[json!({"skill": "fix", "attempts": [attempt(1, part(3, 3)), attempt(2, part(3, 6))]})]);
}

fn train(env: &TestEnvironment, format: &str, dir: &Path, more: &[&str]) -> Output {
    let dir = dir.to_string_lossy();
    env.manent(&[&["train", "--format", format, "-o", &dir], more].concat())
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A Python that has `datasets`: made once, beside what was compiled.
fn python() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/datasets");
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("datasets");
    let (wanted, have) = (here.join("requirements.txt"), place.join("requirements.txt"));
    let list = std::fs::read(&wanted).unwrap();
    // The list is copied last: an environment that was not finished, or is of another version, is made again.
    if std::fs::read(&have).is_ok_and(|have| have == list) {
        return place.join("bin/python");
    }
    let run = |program: &Path, args: &[&str]| {
        let hint = "this test installs Hugging Face `datasets` from PyPI (150 MB, once): it needs python3 with venv \
                    (Debian: python3-venv) and a way to PyPI or a mirror of it (PIP_INDEX_URL)";
        let output = Command::new(program).args(args).output();
        let output = output.unwrap_or_else(|e| panic!("{}: {e}; {hint}", program.display()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} failed; {hint}:\n{said}", program.display());
    };
    run(Path::new("python3"), &["-m", "venv", "--clear", &place.to_string_lossy()]);
    let options =
        ["install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:", "--no-deps"];
    run(&place.join("bin/pip"), &[&options[..], &["--requirement", &wanted.to_string_lossy()]].concat());
    std::fs::copy(&wanted, &have).unwrap();
    place.join("bin/python")
}

#[test]
fn data_sets_load_with_hugging_face_datasets() {
    let python = python();
    let env = TestEnvironment::new();
    with_tools(&env);
    // More than loaders look at to guess the columns, before the first row that has tools.
    let mut plain = plain_runs(9000, 120);
    plain.push(json!({"skill": "fix", "input": "mend it", "attempts": [
        {"attempt": 1, "model": "m", "verified": false, "output_summary": "a cast",
            "runner_output": "E0308: mismatched"},
        {"attempt": 2, "model": "m", "verified": true, "output_summary": "another type"}]}));
    runs(&env, "aa", &plain);
    let dirs: Vec<PathBuf> = FORMATS.iter().map(|format| env.root().join(format)).collect();
    for (format, dir) in FORMATS.iter().zip(&dirs) {
        train(&env, format, dir, &["--summaries", "--validation", "0"]).assert_code(0);
    }
    let split = env.root().join("split");
    std::fs::remove_file(env.home().join("runs/aa.jsonl")).unwrap();
    for (n, run) in plain_runs(400, 30).iter().enumerate() {
        runs(&env, &format!("s{n}"), std::slice::from_ref(run));
    }
    train(&env, "kto", &split, &["--summaries", "--validation", "0.3"]).assert_code(0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/datasets/load.py");
    let mut command = Command::new(python);
    command.arg(script).args(&dirs).arg(&split).env("HF_HUB_OFFLINE", "1").env("HF_HOME", env.root());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for loaded in [
        "openai default train 6001",
        "openai repair train 1",
        "trl-sft default train 6001",
        "trl-dpo default train 1",
        "trl-dpo unpaired train 9001",
        "kto default train 9003",
        "sharegpt repair train 1",
    ] {
        assert!(said.lines().any(|line| line == loaded), "{loaded}:\n{said}");
    }
    assert!(said.contains("split default validation"), "{said}");
}

#[test]
fn what_is_in_the_way_is_kept_and_force_replaces_a_data_set_alone() {
    let env = TestEnvironment::new();
    runs(&env, "a", &plain_runs(30, 20));
    let dir = env.root().join("data");
    let made = train(&env, "kto", &dir, &["--summaries", "--json", "--validation", "0"]);
    made.assert_code(0);
    let told: Value = serde_json::from_slice(&made.stdout_bytes).unwrap();
    assert_eq!((&told["rows"]["train.jsonl"], &told["runs"]), (&json!(30), &json!(30)));
    let again = train(&env, "kto", &dir, &["--summaries"]);
    again.assert_code(6);
    assert!(String::from_utf8_lossy(&again.stderr_bytes).contains("--force"), "{again}");
    train(&env, "trl-sft", &dir, &["--summaries", "--force"]).assert_code(0);
    assert!(std::fs::read_to_string(dir.join("manifest.json")).unwrap().contains("trl-sft"));
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    train(&env, "kto", &dir, &["--force"]).assert_code(6);
    assert_eq!(std::fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");
    train(&env, "kto", &dir.join("notes.txt"), &["--force"]).assert_code(2);
    train(&env, "kto", &dir, &["--validation", "200%"]).assert_code(2);
}

#[test]
fn nothing_to_learn_from_is_said_with_why() {
    let env = TestEnvironment::new();
    let none = train(&env, "kto", &env.root().join("none"), &[]);
    none.assert_code(4);
    assert!(String::from_utf8_lossy(&none.stderr_bytes).contains("there are no runs"), "{none}");
    runs(&env, "a", &plain_runs(30, 20));
    let none = train(&env, "kto", &env.root().join("data"), &[]);
    none.assert_code(4);
    let said = String::from_utf8_lossy(&none.stderr_bytes).into_owned();
    assert!(said.contains("no rows") && said.contains("30 only summary"), "{none}");
    assert!(said.contains("--summaries"), "what helps is said: {none}");
    assert!(!env.root().join("data").exists(), "and nothing is in the way of the next one");
    let none = train(&env, "kto", &env.root().join("data"), &["--skill", "nosuch"]);
    none.assert_code(4);
    assert!(none.stderr().contains("no run is one that was asked for"), "{none}");
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    if !machine::can_trace() {
        machine::skip("a_full_disk_is_told_and_leaves_nothing", "strace cannot trace here");
        return;
    }
    let env = TestEnvironment::new();
    runs(&env, "a", &plain_runs(3000, 60));
    std::fs::create_dir(env.root().join("place")).unwrap();
    let dir = env.root().join("place/data");
    for file in ["rows.tmp", "train.jsonl", "manifest.json"] {
        let path = env.root().join("place/.data.manent-new").join(file);
        let (path, to) = (path.to_string_lossy(), dir.to_string_lossy());
        let options = ["-P", &path, "-e", "trace=write", "-e", "inject=write:error=ENOSPC"];
        let args = ["train", "--format", "kto", "--summaries", "-o", &to];
        let (output, log) = strace::traced(&env, &options, &args);
        assert!(log.contains("INJECTED"), "{file}: {log}\n{output}");
        output.assert_code(1);
        let said = String::from_utf8_lossy(&output.stderr_bytes).into_owned();
        assert!(said.contains("No space left") && said.contains("make room"), "{file}: {said}");
        assert!(
            names(&env.root().join("place")).is_empty(),
            "{file}: {:?}",
            names(&env.root().join("place"))
        );
    }
}

#[test]
fn a_kill_leaves_a_whole_data_set_or_none() {
    let env = TestEnvironment::new();
    runs(&env, "a", &plain_runs(4000, 60));
    let dir = env.root().join("place/data");
    let to = dir.to_string_lossy();
    let args = ["train", "--format", "kto", "--summaries", "--force", "-o", &to];
    let whole = [
        "README.md",
        "manifest.json",
        "repair-train.jsonl",
        "repair-validation.jsonl",
        "train.jsonl",
        "validation.jsonl",
    ];
    let mut random = Random::new(7);
    let mut killed = 0;
    for _ in 0..12 {
        let mut child = env
            .command(&args)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(random.below(400)));
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        let there = names(&dir);
        assert!(there.is_empty() || there == whole, "{there:?}");
    }
    assert!(killed > 0, "none was killed in time");
    env.manent(&args).assert_code(0);
    assert_eq!(names(&dir), whole);
    assert_eq!(names(&env.root().join("place")), ["data"], "nothing else is left");
}
