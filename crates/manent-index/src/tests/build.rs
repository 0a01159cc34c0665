//! Builds of the index, with purges and searches in the middle of them; and the check before a save.

use std::sync::Arc;
use std::thread;

use manent_store::Place;

use super::world::{GATE, World};

/// The word that only the purged stream has.
const SECRET: &str = "qzsecret";

/// The number of long turns of a stream, which are so much together that callers may ask for a partial answer.
const TURNS: usize = 24;

/// Text with many words that stand nowhere else, so that a segment of it is written to the disk at once.
fn text(seed: usize) -> String {
    let words: Vec<String> = (0..20_000).map(|word| format!("w{seed}x{:x}", word * 7919 + seed)).collect();
    words.join(" ")
}

/// Appends a stream at whose last record a reader waits while the gate is shut.
fn append_much(world: &World, key: &str) {
    for seed in 0..TURNS {
        world.append(key, "user", &format!("bravo {}", text(seed)));
    }
    world.append(key, "user", GATE);
}

fn found(world: &World, text: &str) -> usize {
    let found = world.search(text, 100);
    assert_eq!(found.partial, None);
    found.hits.len()
}

/// Lets `world` search on another thread, and calls `meanwhile` when it has read all of a stream but its last record.
fn while_building<T>(world: &World, meanwhile: impl FnOnce() -> T) -> T {
    world.corpus.gate.shut(GATE);
    thread::scope(|scope| {
        let searching = scope.spawn(|| found(world, "bravo"));
        world.corpus.gate.await_reader();
        let done = meanwhile();
        world.corpus.gate.open();
        searching.join().unwrap();
        done
    })
}

#[test]
fn purge_while_another_process_builds_succeeds_and_nothing_of_it_comes_back() {
    let world = World::in_memory();
    world.append("large", "user", SECRET);
    append_much(&world, "large");
    world.append("small", "user", "bravo");
    let other = world.of_another_process();
    while_building(&world, || {
        other.purge("large").expect("purged while another process reads it");
        assert_eq!(found(&other, "bravo"), 1, "a search of the other process does not wait");
        assert_eq!(found(&other, SECRET), 0);
    });
    assert_eq!((found(&world, "bravo"), found(&world, SECRET)), (1, 0));
    assert_eq!(world.files_with(SECRET.as_bytes()), [] as [&str; 0]);
    for world in [&world, &other, &world.of_another_process()] {
        assert_eq!(world.index.missing().unwrap(), [], "a purge is no loss");
    }
}

#[test]
fn purge_while_another_thread_builds_does_not_wait_for_it() {
    let world = World::in_memory();
    append_much(&world, "large");
    world.append("secret", "user", SECRET);
    while_building(&world, || world.purge("secret").expect("purged while another thread reads"));
    assert_eq!((found(&world, "bravo"), found(&world, SECRET)), (TURNS, 0));
    assert_eq!(world.files_with(SECRET.as_bytes()), [] as [&str; 0]);
    assert_eq!(world.index.missing().unwrap(), []);
    assert_eq!(world.corpus.gate.times_passed(), 1, "it was read once");
}

#[test]
fn stream_of_a_purged_key_that_is_begun_again_during_a_build_is_read_as_the_new_one() {
    let world = World::in_memory();
    world.append("large", "user", SECRET);
    append_much(&world, "large");
    let other = world.of_another_process();
    while_building(&world, || {
        other.purge("large").unwrap();
        other.append("large", "user", "bravo of the new one");
    });
    assert_eq!((found(&world, "bravo"), found(&world, SECRET)), (1, 0));
    assert_eq!(world.files_with(SECRET.as_bytes()), [] as [&str; 0]);
}

#[test]
fn purge_of_what_an_old_catalogue_knows_leaves_a_build_of_another_process_to_be_saved() {
    let world = World::in_memory();
    world.append("small", "user", "alpha");
    world.append("secret", "user", SECRET);
    assert_eq!(found(&world, "alpha"), 1);
    assert_eq!(world.index.index_state().unwrap().behind, 0, "saved");
    append_much(&world, "large");
    world.append("small", "user", "alpha again");
    let other = world.of_another_process();
    while_building(&world, || {
        other.purge("secret").unwrap();
        assert_eq!(other.files_with(SECRET.as_bytes()), [] as [&str; 0], "before it returns");
    });
    assert_eq!((found(&world, "alpha"), found(&world, "bravo"), found(&world, SECRET)), (2, TURNS, 0));
    assert_eq!(world.corpus.gate.times_passed(), 1, "the purge cost no second reading");
    assert_eq!(world.files_with(SECRET.as_bytes()), [] as [&str; 0]);
    let third = world.of_another_process();
    assert_eq!(third.index.index_state().unwrap().behind, 0, "the build was saved");
    assert_eq!((found(&third, "alpha"), found(&third, "bravo")), (2, TURNS));
    assert_eq!(third.corpus.gate.times_passed(), 0, "and nobody reads it again");
    assert_eq!(third.index.missing().unwrap(), []);
}

#[test]
fn full_searches_of_one_process_wait_for_one_build() {
    let world = World::in_memory();
    append_much(&world, "large");
    let second = while_building(&world, || {
        let listing = Arc::clone(&world.index).sessions_so_far(Place::Live, None, 10);
        assert_eq!(listing.unwrap().total, 0, "a partial answer does not wait");
        assert_eq!(world.index.bytes(), 0, "nor does a question about the index");
        let (index, corpus) = (world.index.clone(), world.corpus.clone());
        let second = World { index, corpus, blobs: None };
        thread::spawn(move || found(&second, "bravo"))
    });
    assert_eq!(second.join().unwrap(), TURNS);
    assert_eq!(found(&world, "bravo"), TURNS);
    assert_eq!(world.corpus.gate.times_passed(), 1, "it was read once");
}

#[test]
fn build_that_waits_for_another_process_which_is_done_by_then_reads_nothing() {
    let world = World::in_memory();
    append_much(&world, "large");
    let other = world.of_another_process_that_waits();
    world.corpus.gate.shut(GATE);
    thread::scope(|scope| {
        let first = scope.spawn(|| found(&world, "bravo"));
        world.corpus.gate.await_reader();
        let second = scope.spawn(|| found(&other, "bravo"));
        world.corpus.gate.open();
        assert_eq!((first.join().unwrap(), second.join().unwrap()), (TURNS, TURNS));
    });
    assert_eq!(world.corpus.gate.times_passed(), 1);
}

/// With the right to write held, a store of 100,000 sessions would be looked through once more.
#[test]
fn check_before_a_save_looks_only_at_streams_that_a_watching_backend_reports() {
    let world = World::in_memory();
    world.append("small", "user", "alpha");
    assert_eq!(found(&world, "alpha"), 1);
    assert_eq!(*world.corpus.compared.lock().unwrap(), [false, true], "the survey, and the check");
}
