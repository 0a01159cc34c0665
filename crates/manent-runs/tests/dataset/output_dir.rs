//! Where a data set may be made, and that there is a whole one or none.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use manent_runs::dataset::{DatasetError, DatasetFormat, Existing, Recipe};

use super::scene::{Scene, words};

fn scene() -> Scene {
    let scene = Scene::new();
    scene.asked("s", "", &words(1, 20), "the answer", true);
    scene
}

fn recipe() -> Recipe {
    Recipe { validation: 0, ..Recipe::new(DatasetFormat::TrlSft) }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_new_or_empty_directory_is_taken_and_another_only_if_it_is_a_data_set() {
    let scene = scene();
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("deep/data");
    let made = scene.try_make(&recipe(), &dir, Existing::Keep).unwrap();
    assert_eq!(made.rows("train.jsonl"), 1);
    let whole = names(&dir);
    assert_eq!(whole.len(), 6, "{whole:?}");
    assert_eq!(names(&place.path().join("deep")), ["data"], "nothing else is left");
    let refused = scene.try_make(&recipe(), &dir, Existing::Keep).unwrap_err();
    assert!(matches!(refused, DatasetError::NotEmpty { .. }), "{refused}");
    scene.asked("s", "", &words(5, 20), "another answer", true);
    assert_eq!(scene.try_make(&recipe(), &dir, Existing::Replace).unwrap().rows("train.jsonl"), 2);
    assert_eq!((names(&dir), names(&place.path().join("deep"))), (whole, vec!["data".to_owned()]));
    std::fs::write(dir.join("thesis.tex"), "years of work").unwrap();
    let refused = scene.try_make(&recipe(), &dir, Existing::Replace).unwrap_err();
    assert!(matches!(&refused, DatasetError::NotOurs { name, .. } if name == "thesis.tex"), "{refused}");
    assert_eq!(std::fs::read_to_string(dir.join("thesis.tex")).unwrap(), "years of work");
    assert_eq!(names(&place.path().join("deep")), ["data"], "what was begun is gone");
}

#[test]
fn a_file_a_link_to_nowhere_and_a_directory_of_others_are_refused_in_words() {
    let scene = scene();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("file"), "x").unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    for name in ["file", "dangling", "file/below"] {
        let refused = scene.try_make(&recipe(), &at(name), Existing::Replace).unwrap_err();
        assert!(matches!(refused, DatasetError::NoDirectory { .. }), "{name}: {refused}");
    }
    std::fs::create_dir(at("empty")).unwrap();
    symlink("empty", at("link")).unwrap();
    scene.try_make(&recipe(), &at("link"), Existing::Keep).unwrap();
    assert_eq!(names(&at("empty")).len(), 6, "through a link, what it leads to is meant");
    assert!(at("link").is_symlink());
    assert_eq!(names(place.path()), ["dangling", "empty", "file", "link"]);
}

#[test]
fn what_a_dead_process_left_is_taken_up() {
    let scene = scene();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    scene.try_make(&recipe(), &at("data"), Existing::Keep).unwrap();
    // Killed while it replaced one: the old one is aside, the new one not yet there.
    std::fs::rename(at("data"), at(".data.manent-old")).unwrap();
    std::fs::create_dir(at(".data.manent-new")).unwrap();
    std::fs::write(at(".data.manent-new/train.jsonl"), "half a ro").unwrap();
    let refused = scene.try_make(&recipe(), &at("data"), Existing::Keep).unwrap_err();
    assert!(matches!(refused, DatasetError::NotEmpty { .. }), "the old one is back, and kept: {refused}");
    assert_eq!(names(place.path()), ["data"]);
    assert_eq!(names(&at("data")).len(), 6);
}

#[test]
fn two_at_once_in_one_place_make_one_whole_data_set() {
    let scene = scene();
    for n in 0..200 {
        scene.asked("s", "", &words(n + 10, 20), &words(n + 1000, 100), true);
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("data");
    let outcomes: Vec<Result<_, DatasetError>> = std::thread::scope(|scope| {
        let make = || scene.try_make(&recipe(), &dir, Existing::Keep);
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    for refused in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(refused, DatasetError::Busy { .. } | DatasetError::NotEmpty { .. }), "{refused}");
    }
    assert_eq!(std::fs::read_to_string(dir.join("train.jsonl")).unwrap().lines().count(), 201);
    assert_eq!(names(place.path()), ["data"]);
}

#[test]
fn files_are_for_their_owner_alone() {
    let scene = scene();
    let rows = scene.make(&recipe());
    for (name, _) in rows.files() {
        let mode = std::fs::metadata(rows.dir.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
