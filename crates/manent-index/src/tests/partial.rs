//! Partial answers, while a thread reads much.

use manent_store::Place;

use super::world::World;

/// A world with one stream that takes long to read, because its readers are held back, and a small one.
fn world() -> World {
    let world = World::in_memory();
    world.append("small", "user", "alpha");
    let text = "bravo ".repeat(100_000);
    for _ in 0..10 {
        world.append("large", "user", &text);
    }
    world
}

#[test]
fn partial_search_of_a_new_store_answers_before_it_was_read() {
    let world = world();
    world.corpus.gate.shut("large");
    let found = world.search_partial("bravo", 10);
    let so_far = found.partial.expect("an answer that says that it is partial");
    assert!(found.hits.is_empty());
    assert!(so_far.bytes < so_far.total_bytes, "{so_far:?}");
    // The thread that it started is held back: a second question does not wait for it either.
    world.corpus.gate.await_reader();
    assert!(world.search_partial("alpha", 10).partial.is_some());
    assert_eq!(world.index.once(&live("small")).unwrap(), None, "single streams are answered too");
    world.corpus.gate.open();
    let found = world.search("bravo", 10);
    assert_eq!((found.hits.len(), found.partial), (10, None), "the full answer waits for the thread");
    assert_eq!(world.search_partial("bravo", 10), found, "now nothing is missing");
}

#[test]
fn partial_search_with_little_to_read_is_complete() {
    let world = World::in_memory();
    world.append("small", "user", "alpha");
    let found = world.search_partial("alpha", 10);
    assert_eq!((found.hits.len(), found.partial), (1, None));
}

#[test]
fn partial_search_finds_what_was_known_before_much_was_added() {
    let world = World::in_memory();
    world.append("small", "user", "alpha");
    assert_eq!(world.search("alpha", 10).hits.len(), 1);
    let text = "alpha bravo ".repeat(50_000);
    for _ in 0..10 {
        world.append("large", "user", &text);
    }
    world.corpus.gate.shut("large");
    let found = world.search_partial("alpha", 10);
    assert!(found.partial.is_some());
    assert_eq!(found.hits.len(), 1, "{:?}", found.hits);
    assert_eq!(found.hits[0].id.key.as_str(), "small");
    let listing = world.index.sessions_so_far(Place::Live, None, 10).unwrap();
    assert!(listing.partial.is_some());
    assert_eq!(listing.sessions.len(), 1, "the list has the stream that was read before");
    world.corpus.gate.open();
    assert_eq!(world.search("alpha", 20).hits.len(), 11);
    let listing = world.index.sessions_so_far(Place::Live, None, 10).unwrap();
    assert_eq!((listing.sessions.len(), listing.partial), (2, None));
}

fn live(key: &str) -> manent_store::StreamId {
    manent_store::StreamId::live(&manent_store::SessionKey::new(key).unwrap())
}
