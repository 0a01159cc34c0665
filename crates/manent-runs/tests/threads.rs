//! Retrospectives where the system starts no threads: what many threads would do, the calling one does.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::atomic::{AtomicU64, Ordering};

use manent::backend::threads::without_threads;
use manent::{SessionKey, Store};
use manent_runs::retrospective::ReportQuery;
use manent_runs::{NewRun, Runs};

#[test]
fn retrospective_without_threads_reads_every_session() {
    let dir = tempfile::tempdir().unwrap();
    let runs = Runs::open(&Store::open(dir.path()).unwrap()).unwrap();
    for number in 0..4 {
        let run = NewRun { skill: "fix".to_owned(), ..NewRun::default() };
        runs.begin(&SessionKey::new(format!("s{number}")).unwrap(), run).unwrap();
    }
    let question = ReportQuery { threads: 4, ..ReportQuery::default() };
    let read = AtomicU64::new(0);
    let progress = |_: u64, _: u64| {
        read.fetch_add(1, Ordering::Relaxed);
    };
    without_threads(|| runs.retrospective(&question, &progress)).unwrap();
    assert_eq!(read.into_inner(), 4, "sessions");
}
