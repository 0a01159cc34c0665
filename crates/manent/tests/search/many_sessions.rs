//! Searches of a store with more than a thousand sessions, whose files are changed by programs and by hand between and
//! during the searches.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use manent::{Durability, Expect, Store, turn};

use super::check::{ALL, check_all, search};
use super::key;
use super::oracle::{Ask, Truth};

const SESSIONS: usize = 1_200;

fn append(store: &Store, session: usize, text: &str) {
    let body = turn("user", text.to_owned()).into();
    store.append_with(&key(&format!("s{session}")), &[body], Durability::Flush, Expect::Any).unwrap();
}

fn file(home: &Path, session: usize) -> PathBuf {
    home.join("sessions").join(format!("s{session}.jsonl"))
}

/// A store with an index that knows all of it.
fn made(home: &Path) -> Store {
    let store = Store::open(home).unwrap();
    for session in 0..SESSIONS {
        append(&store, session, "common word");
    }
    store.reindex(&mut |_, _| {}).unwrap();
    store
}

#[test]
fn a_first_answer_is_that_of_the_files_whoever_changed_them() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let writer = made(home);
    let foreign = |word: &str| format!("{{\"role\":\"user\",\"content\":\"{word} common\"}}\n");
    let changes: [(&str, &dyn Fn()); 8] = [
        ("nothing", &|| {}),
        ("grew", &|| append(&writer, 7, "common again")),
        ("came", &|| append(&writer, SESSIONS, "common too")),
        ("went", &|| fs::remove_file(file(home, 100)).unwrap()),
        ("another's", &|| fs::write(file(home, 5_000), foreign("one")).unwrap()),
        ("rewritten in place", &|| fs::write(file(home, 5_000), foreign("two")).unwrap()),
        ("renamed", &|| fs::rename(file(home, 200), file(home, 6_000)).unwrap()),
        ("cut", &|| fs::write(file(home, 300), "").unwrap()),
    ];
    for (what, change) in changes {
        change();
        for ask in [Ask::word("common"), Ask::word("two"), Ask::word("again")] {
            // Each time as a command asks: nothing was looked at before.
            let store = Store::open(home).unwrap();
            let truth = Truth::of(&store).unwrap();
            check_all(&store, &truth, &ask).map_err(|e| format!("{what}: {e}")).unwrap();
        }
    }
}

#[test]
fn what_was_said_before_a_question_is_found_while_others_speak() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let writer = made(home);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let other = Store::open(home).unwrap();
            for round in 0.. {
                append(&other, round * 7 % SESSIONS, "noise");
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        for round in 0..25 {
            let word = format!("said{round}");
            append(&writer, round * 31, &word);
            let found = search(&Store::open(home).unwrap(), &Ask::word(&word), ALL);
            let hits = found.map(|found| (found.related, found.hits.len()));
            done.store(round == 24 || hits.is_err(), Ordering::Relaxed);
            assert_eq!(hits, Ok((false, 1)), "{word}");
        }
        other.join().unwrap();
    });
}
