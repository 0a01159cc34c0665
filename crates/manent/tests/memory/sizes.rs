//! Sizes at which work that grows with the square would take minutes. No clock is asked.

use std::fmt::Write as _;
use std::time::Duration;

use manent::Durability;

use super::{fact, found, home, ids, open, with_file};

const MANY: u64 = 100_000;

#[test]
fn a_hundred_thousand_tombstones_for_one_item() {
    let mut text = String::from("{\"id\":1,\"kind\":\"fact\",\"content\":\"guava\"}\n");
    for id in 2..MANY {
        writeln!(text, "{{\"id\":{id},\"kind\":\"forget\",\"target\":1}}").unwrap();
    }
    // Once more: after an id that is out of order, ids are looked up in another way.
    text += "{\"id\":1,\"kind\":\"fact\",\"content\":\"guava again\"}\n";
    for id in MANY..2 * MANY {
        writeln!(text, "{{\"id\":{id},\"kind\":\"forget\",\"target\":1}}").unwrap();
    }
    let (_dir, memory) = with_file(text);
    assert!(ids(&memory).is_empty());
    assert_eq!(memory.counts().unwrap().forgotten, 2);
    assert_eq!(found(&memory, "guava"), Vec::<u64>::new());
    assert_eq!(memory.compact().unwrap().dropped, 2);
    assert!(std::fs::metadata(memory.path()).unwrap().len() < 1000);
    assert_eq!(memory.add(&fact("x")).unwrap().id, 2 * MANY);
}

#[test]
fn a_hundred_thousand_items_with_one_id() {
    let mut text = String::new();
    for _ in 0..MANY {
        text += "{\"id\":7,\"kind\":\"fact\",\"content\":\"lychee\"}\n";
    }
    // One that replaces them all, and is forgotten, again and again.
    for id in (0..MANY / 2).map(|n| 10 + 2 * n) {
        writeln!(text, "{{\"id\":{id},\"kind\":\"pref\",\"replaces\":7,\"content\":\"x\"}}").unwrap();
        writeln!(text, "{{\"id\":{},\"kind\":\"forget\",\"target\":{id}}}", id + 1).unwrap();
    }
    let (_dir, memory) = with_file(text);
    let counts = memory.counts().unwrap();
    assert_eq!((counts.active as u64, counts.forgotten as u64, counts.double_ids), (MANY, MANY / 2, 1));
    assert_eq!(memory.get(7).unwrap().len() as u64, MANY);
    memory.forget(&[7]).unwrap();
    assert_eq!(memory.counts().unwrap().active, 0);
    assert_eq!(memory.counts().unwrap().double_ids, 0);
    assert_eq!(memory.compact().unwrap().dropped, MANY + MANY / 2);
}

#[test]
fn forgetting_one_by_one_from_a_large_memory() {
    let dir = home();
    let memory = open(dir.path());
    let mut hold = memory.writer(Duration::ZERO).unwrap();
    for n in 1..=MANY {
        assert_eq!(hold.add_with(&fact("date"), Durability::Flush).unwrap().id, n);
    }
    for id in 1..=MANY / 5 {
        hold.forget(&[id]).unwrap();
    }
    drop(hold);
    for id in MANY / 5 + 1..=MANY / 4 {
        memory.forget(&[id]).unwrap();
    }
    assert_eq!(memory.counts().unwrap().active as u64, MANY - MANY / 4);
    let all: Vec<u64> = (MANY / 4 + 1..=MANY).collect();
    memory.forget(&all).unwrap();
    assert!(ids(&memory).is_empty());
    assert_eq!(memory.compact().unwrap().dropped, MANY);
}

#[test]
fn a_chain_of_ten_thousand_replacements() {
    let dir = home();
    let memory = open(dir.path());
    let mut hold = memory.writer(Duration::ZERO).unwrap();
    hold.add(&fact("fig 0")).unwrap();
    for n in 1..10_000 {
        hold.add_with(&fact(&format!("fig {n}")).replacing(n), Durability::Flush).unwrap();
    }
    assert_eq!(ids(&memory), [10_000]);
    assert_eq!(memory.counts().unwrap().replaced, 9_999);
    // Back again, one by one.
    for id in (9_000..=10_000).rev() {
        assert_eq!(hold.forget(&[id]).unwrap().active_again, [id - 1]);
    }
    drop(hold);
    assert_eq!(ids(&memory), [8_999]);
}

#[test]
fn a_hundred_thousand_damaged_lines() {
    let mut text = String::new();
    for id in 0..MANY {
        writeln!(text, "{{\"id\":{id},\"kind\":\"fact\",\"content\":\"x\"}}\n{{broken").unwrap();
    }
    let (_dir, memory) = with_file(text);
    assert_eq!(ids(&memory).len() as u64, MANY);
    assert_eq!(memory.damage().unwrap().len() as u64, MANY - 1, "the last one may still be written");
    memory.forget(&[5]).unwrap();
    let damaged = memory.compact().unwrap().damaged.unwrap();
    assert_eq!(std::fs::read_to_string(damaged).unwrap().lines().count() as u64, MANY);
}
