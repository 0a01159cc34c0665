//! The progress of making a data set: it moves steadily, never back, and ends where all is done.

use manent::log::RealDisk;
use manent::{Body, Durability};
use manent_runs::Runs;
use manent_runs::dataset::{DatasetFormat, Existing, Recipe, make};
use serde_json::json;

use super::scene::{Scene, key, words};

#[test]
fn progress_moves_steadily_within_one_large_log_and_ends_at_the_total() {
    let scene = Scene::new();
    for n in 0..50 {
        scene.asked(&format!("small-{n}"), "", &words(n, 20), &words(n + 100, 20), true);
    }
    // Most bytes are in one log, which one thread reads while the others have nothing left to do.
    let run = |n| json!({"kind": "run", "skill": "fix", "input": words(n, 1000)}).to_string();
    let runs: Vec<Body> = (0..500).map(|n| Body::parse(run(n).as_bytes()).unwrap()).collect();
    Runs::open(&scene.store).unwrap().append(&key("large"), &runs, Durability::Flush).unwrap();
    // Lines that are no runs count too.
    scene.run_line("large", &json!({"kind": "note", "text": words(7, 10_000)}).to_string());
    let path = scene.dir.path().join("store/runs/small-0.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("attempts", "attemqts")).unwrap();

    let mut calls = Vec::new();
    let dir = scene.dir.path().join("set");
    let recipe = Recipe::new(DatasetFormat::TrlSft);
    let mut progress = |done: u64, all: u64| calls.push((done, all));
    make(&scene.store, &recipe, &RealDisk::shared(), &dir, Existing::Keep, &mut progress).unwrap();

    let listed = Runs::open(&scene.store).unwrap().sessions().unwrap();
    let log_bytes: u64 = listed.iter().map(|listed| listed.bytes).sum();
    assert!(log_bytes > 3 << 20, "{log_bytes}");
    assert!(calls.iter().all(|(_, all)| *all == log_bytes * 2), "read, and written: {calls:?}");
    assert!(calls.is_sorted(), "never back: {calls:?}");
    assert_eq!(calls.last().unwrap().0, log_bytes * 2, "all is done");
    let read: Vec<u64> = calls.iter().map(|(done, _)| *done).filter(|done| *done <= log_bytes).collect();
    assert!(read.contains(&log_bytes), "all is read: {calls:?}");
    let step = read.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(step < log_bytes / 8, "no step is a large part of the work: {calls:?}");
}
