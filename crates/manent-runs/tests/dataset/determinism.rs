//! The same input gives the same bytes.

use manent::Store;
use manent_runs::dataset::{DatasetFormat, Recipe};
use serde_json::json;

use super::scene::{FORMATS, Scene, words};

#[test]
fn two_data_sets_of_the_same_runs_are_the_same_to_the_byte() {
    let scene = Scene::new();
    for n in 0..150_u64 {
        let session = format!("s{}", (n * 37) % 23);
        scene.asked(
            &session,
            &format!("/p{}", n * 37 % 23 / 2),
            &words(n % 50, 20),
            &words(n + 300, 60),
            n % 3 > 0,
        );
    }
    // The same files, made in another order and so listed in another.
    let copy = Scene::new();
    for part in ["sessions", "runs"] {
        let (from, to) =
            (scene.dir.path().join("store").join(part), copy.dir.path().join("store").join(part));
        std::fs::create_dir_all(&to).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        for path in names.into_iter().rev() {
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    let copy = Scene { store: Store::open(copy.dir.path().join("store")).unwrap(), dir: copy.dir };
    for format in FORMATS {
        let recipe = Recipe { validation: 3000, ..Recipe::new(format) };
        let first = scene.make(&recipe).files();
        assert!(first.iter().any(|(name, bytes)| name == "train.jsonl" && !bytes.is_empty()));
        for other in [&scene, &copy, &copy] {
            assert_eq!(other.make(&recipe).files(), first, "{format:?}");
        }
    }
}

/// Logs are read by several threads, and rows are made in portions that are much shorter than one of these logs.
#[test]
fn of_a_run_that_is_recorded_twice_far_apart_the_first_counts() {
    let scene = Scene::new();
    let dir = scene.dir.path().join("store/runs");
    std::fs::create_dir_all(&dir).unwrap();
    let line = |n: u64, verified: bool| {
        let (asked, said) = (words(n, 20), words(n + 10_000 * u64::from(verified) + 10_000, 100));
        json!({"run_id": format!("r{n}"), "skill": "fix", "input": asked, "attempts": [
            {"attempt": 1, "verified": verified, "output_summary": said}]})
        .to_string()
    };
    let started =
        |n: u64| json!({"kind": "run-start", "run_id": format!("r{n}"), "skill": "fix"}).to_string();
    for session in ["a", "b", "c"] {
        let begun_and_ended = (0..RUNS).flat_map(|n| [started(n), line(n, true)]);
        let again = (0..RUNS).map(|n| if n % 5 == 0 { started(RUNS + n) } else { line(n, false) });
        let text = begun_and_ended.chain(again).fold(String::new(), |text, line| text + &line + "\n");
        std::fs::write(dir.join(format!("{session}.jsonl")), text).unwrap();
    }
    let recipe = Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::Kto) };
    let first = scene.make(&recipe);
    assert_eq!(
        first.made.counts.runs,
        3 * (RUNS + RUNS / 5),
        "those that were begun and did not end are runs too"
    );
    let rows = first.of("train.jsonl");
    assert_eq!(rows.len() as u64, RUNS, "what three logs say three times is one row");
    for (n, row) in rows.iter().enumerate() {
        assert_eq!(row["label"], true, "row {n}: the second record of a run counted");
        let asked = row["prompt"][0]["content"].as_str().unwrap();
        assert_eq!(asked, words(n as u64, 20), "row {n} is in the place of another");
    }
    for _ in 0..3 {
        assert_eq!(scene.make(&recipe).files(), first.files());
    }
}

const RUNS: u64 = 2000;
