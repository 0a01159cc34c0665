//! The same input gives the same bytes.

use manent::Store;
use manent::dataset::Recipe;

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
