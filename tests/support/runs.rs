//! Runs of skills, as another program writes them.

use serde_json::{Value, json};

use super::TestEnvironment;

/// 2026-11-01.
const START_MS: u64 = 1_793_491_200_000;

impl TestEnvironment {
    /// Writes a log of runs.
    pub(crate) fn plant_runs(&self, session: &str, entries: &[Value]) {
        self.make_directories();
        let dir = self.home().join("runs");
        std::fs::create_dir_all(&dir).unwrap();
        let lines: Vec<String> = entries.iter().map(|entry| format!("{entry}\n")).collect();
        std::fs::write(dir.join(format!("{session}.jsonl")), lines.concat()).unwrap();
    }
}

/// A run; every one is an hour after the one before.
pub(crate) fn run(number: u64, skill: &str, model: &str, hash: &str, success: bool) -> Value {
    let output =
        if success { String::new() } else { format!("error: job {number} broke in /tmp/x{number}/a.rs") };
    json!({
        "run_id": format!("run-{number}"), "timestamp": (START_MS + number * 3_600_000).to_string(), "skill": skill,
        "phase": "build", "project_root": "/home/u/app", "input": {"n": number}, "model_used": model,
        "final_status": if success { "success" } else { "failed" }, "duration_ms": 1000 * (1 + number % 7),
        "attempts": [{"attempt": 1, "model": model, "verified": success, "skill_hash": hash, "runner_output": output}],
    })
}

/// A log with a skill that broke on the way, one that is good, one that was seldom used, and two runs that did not end.
pub(crate) fn broken_on_the_way() -> Vec<Value> {
    let mut all: Vec<Value> = (0..40).map(|n| run(n, "fix", "small", "v1", n % 20 != 0)).collect();
    all.extend((40..80).map(|n| run(n, "fix", "small", "v2", n % 3 == 0)));
    all.extend((80..100).map(|n| run(n, "review", "large", "r1", n != 90)));
    all.extend((100..103).map(|n| run(n, "rare", "small", "q1", true)));
    for n in 103..105 {
        let mut open = run(n, "fix", "small", "v2", true);
        open["kind"] = json!("run-start");
        all.push(open);
    }
    all
}
