//! Runs with a truth that somebody planted.

use std::path::Path;

use manent::{Body, Durability, SessionKey, Store};
use manent_runs::Runs;
use manent_runs::retrospective::{Report, ReportQuery, Statement, Topic};
use manent_sim::Rng;
use serde_json::{Value, json};

/// 2026-11-01, and a day.
pub(crate) const START_MS: i64 = 1_793_491_200_000;
pub(crate) const DAY_MS: i64 = 86_400_000;
pub(crate) const NOW_MS: i64 = START_MS + 30 * DAY_MS;

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) runs: Runs,
    pub(crate) rng: Rng,
    pending: Vec<(String, Value)>,
    next: u64,
}

/// The shape of a run, except for what differs from one to the next.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) skill: &'static str,
    pub(crate) model: &'static str,
    pub(crate) phase: &'static str,
    pub(crate) hash: &'static str,
    pub(crate) session: &'static str,
    pub(crate) at_ms: i64,
}

impl Plan {
    pub(crate) fn of(skill: &'static str) -> Plan {
        Plan { skill, model: "small", phase: "", hash: "v1", session: "a", at_ms: START_MS }
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let runs = Runs::open(&store).unwrap();
        World { dir, store, runs, rng: Rng::new(seed), pending: Vec::new(), next: 0 }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A run that succeeds or not. What `more` says is put over the rest.
    pub(crate) fn run(&mut self, plan: &Plan, success: bool, more: &Value) -> String {
        self.next += 1;
        let id = format!("r{:05}", self.next);
        let attempt = json!({
            "attempt": 1, "model": plan.model, "verified": success, "skill_hash": plan.hash,
            "error_class": if success { "" } else { "wrong" },
        });
        let mut entry = json!({
            "kind": "run", "run_id": id, "timestamp": at(plan.at_ms + self.next as i64 * 1000), "skill": plan.skill,
            "phase": plan.phase, "model_used": plan.model, "input": {"task": self.next}, "attempts": [attempt],
            "final_status": if success { "success" } else { "failed" }, "duration_ms": 1000 + self.next % 10,
        });
        if let Value::Object(more) = more {
            for (name, value) in more {
                entry[name] = value.clone();
            }
        }
        self.pending.push((plan.session.to_owned(), entry));
        id
    }

    /// Exactly so many that succeed and so many that fail, mixed.
    pub(crate) fn plant(&mut self, plan: &Plan, success: u64, failure: u64) {
        let (mut good, mut bad) = (success, failure);
        while good + bad > 0 {
            let is_good = self.rng.below(good + bad) < good;
            let left = if is_good { &mut good } else { &mut bad };
            *left -= 1;
            self.run(plan, is_good, &Value::Null);
        }
    }

    /// A line as it is.
    pub(crate) fn line(&mut self, session: &str, entry: Value) {
        self.pending.push((session.to_owned(), entry));
    }

    pub(crate) fn write(&mut self) {
        self.pending.sort_by(|a, b| a.0.cmp(&b.0));
        for of_one in self.pending.chunk_by(|a, b| a.0 == b.0) {
            let body = |(_, entry): &(String, Value)| Body::parse(entry.to_string().as_bytes()).unwrap();
            let bodies: Vec<Body> = of_one.iter().map(body).collect();
            self.runs.append(&SessionKey::new(&of_one[0].0).unwrap(), &bodies, Durability::Flush).unwrap();
        }
        self.pending.clear();
    }

    pub(crate) fn report(&mut self) -> Report {
        self.ask(&ReportQuery::default())
    }

    pub(crate) fn ask(&mut self, question: &ReportQuery<'_>) -> Report {
        self.write();
        let question = ReportQuery { now_ms: NOW_MS, ..*question };
        self.runs.retrospective(&question, &|_, _| {}).unwrap()
    }
}

pub(crate) fn at(ms: i64) -> String {
    let (days, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    // Only Novembers: that is where the worlds are.
    let day = days - START_MS / DAY_MS + 1;
    let (hour, minute, second, milli) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60, rest % 1000);
    if (1..=30).contains(&day) {
        format!("2026-11-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    } else {
        // As a number of milliseconds, which is as good.
        ms.to_string()
    }
}

/// Returns the statements on a topic.
pub(crate) fn said(report: &Report, topic: Topic) -> Vec<&Statement> {
    report.statements.iter().filter(|one| one.topic == topic).collect()
}

/// Counts the statements that call anything changed or different.
pub(crate) fn alarms(report: &Report) -> usize {
    [Topic::Regression, Topic::Improvement, Topic::Difference]
        .iter()
        .map(|topic| said(report, *topic).len())
        .sum()
}
