//! What is known already, and what contradicts it; the inbox.

use std::sync::Arc;
use std::time::Duration;

use manent::consolidate::{Refusal, Rules};
use manent::memory::{Kind, NewItem, SourceKind};
use manent::{Error, Files, Store, StoreOptions, turn};
use manent_sim::{Fault, SimDisk};

use super::{
    Model, at, contents, dailies, expect_grounded, home, key, learned, look, look_at, open, proposed, say,
};

const INBOX: Rules = Rules { tokens_per_day: 200_000, inbox: true, dry_run: false, again: false };

#[test]
fn what_is_known_is_not_remembered_again_however_it_is_worded() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I live in Lyon. I prefer tabs over spaces in Python code.");
    look(&store, "one", &mut Model::honest());
    say(&store, "two", "user", "I live in Lyon! I do prefer tabs over spaces in my Python code.");
    let done = look(&store, "two", &mut Model::honest());
    assert_eq!(done[0].refused.iter().map(|(why, _)| *why).collect::<Vec<_>>(), [Refusal::Known; 2]);
    say(&store, "three", "user", "I live in Lyon.");
    look(&store, "three", &mut Model::claiming(&[("The user lives in Lyon", "I live in Lyon.")]));
    store.memory().unwrap().add(&NewItem::new(Kind::Fact, "The user owns two cats")).unwrap();
    say(&store, "four", "user", "I own two cats.");
    look(&store, "four", &mut Model::honest());
    assert_eq!(contents(&store).len(), 3, "{:?}", contents(&store));
    assert_eq!(dailies(&store).len(), 4);
    let audit = store.memory().unwrap().audit().unwrap();
    assert_eq!(audit.same.items, 0, "{audit:?}");
}

#[test]
fn what_contradicts_replaces_and_can_be_taken_back() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I live in Lyon.");
    look(&store, "one", &mut Model::claiming(&[("The user lives in Lyon", "I live in Lyon")]));
    say(&store, "two", "user", "I live in Berlin.");
    let done = look(&store, "two", &mut Model::honest());
    assert_eq!(done[0].items[0].replaces, Some(learned(&store)[0].replaces.unwrap()));
    assert_eq!(contents(&store), ["I live in Berlin."], "in whichever person");
    let forgotten = store.memory().unwrap().forget(&[learned(&store)[0].id]).unwrap();
    assert_eq!(forgotten.active_again.len(), 1);
    assert_eq!(contents(&store), ["The user lives in Lyon"]);
    expect_grounded(&store);
}

#[test]
fn the_same_words_the_other_way_round_are_no_duplicate() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I prefer tabs over spaces.");
    look(&store, "one", &mut Model::honest());
    say(&store, "two", "user", "I prefer spaces over tabs.");
    look(&store, "two", &mut Model::honest());
    assert_eq!(contents(&store), ["I prefer spaces over tabs."]);
}

/// Conversations are not always looked at in the order in which they were.
#[test]
fn what_was_said_earlier_does_not_replace_what_was_said_later() {
    let dir = home();
    let store = open(dir.path());
    let early = turn("user", "I live in Lyon.").string("ts", "2026-01-01T10:00:00.000Z");
    let late = turn("user", "I live in Berlin.").string("ts", "2026-02-01T10:00:00.000Z");
    store.append(&key("early"), early).unwrap();
    store.append(&key("late"), late).unwrap();
    look(&store, "late", &mut Model::honest());
    let done = look(&store, "early", &mut Model::honest());
    assert_eq!(done[0].refused[0].0, Refusal::Outdated);
    assert_eq!(contents(&store), ["I live in Berlin."]);
    // Nor in one turn, whatever order a model tells it in.
    say(&store, "both", "user", "My name is Anna. My name is Berta.");
    let claims = [("", "My name is Berta."), ("", "My name is Anna.")];
    look(&store, "both", &mut Model::claiming(&claims));
    assert_eq!(contents(&store).last().unwrap(), "My name is Berta.");
}

#[test]
fn what_a_person_put_there_is_replaced_by_a_person_only() {
    for put in ["I live in Lyon", "The user lives in Lyon"] {
        let dir = home();
        let store = open(dir.path());
        let memory = store.memory().unwrap();
        memory.add(&NewItem::new(Kind::Fact, put)).unwrap();
        say(&store, "one", "user", "I live in Berlin. I own a boat.");
        let done = look(&store, "one", &mut Model::honest());
        assert_eq!((done[0].items.len(), done[0].proposed.len()), (1, 1), "{done:?}");
        assert_eq!(contents(&store), [put, "I own a boat."]);
        let waiting = proposed(&store);
        assert_eq!(waiting[0].content, "The user said: I live in Berlin.");
        let accepted = store.consolidation().unwrap().accept(&[waiting[0].id]).unwrap();
        assert_eq!(accepted[0].item.as_ref().unwrap().replaces, Some(1));
        assert_eq!(contents(&store), ["I own a boat.", "I live in Berlin."]);
        assert!(proposed(&store).is_empty());
        // And what a person accepted is that person's.
        say(&store, "two", "user", "I live in Oslo.");
        look(&store, "two", &mut Model::honest());
        assert_eq!(proposed(&store).len(), 1);
        assert_eq!(contents(&store), ["I own a boat.", "I live in Berlin."]);
        expect_grounded(&store);
    }
}

#[test]
fn the_inbox_waits_for_a_person() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I live in Lyon. I own a boat. I play the cello.");
    look_at(&store, &at(&store, "one"), &mut Model::honest(), INBOX).unwrap();
    assert!(contents(&store).is_empty() && dailies(&store).len() == 1);
    let ids: Vec<u64> = proposed(&store).iter().map(|item| item.id).collect();
    assert_eq!(ids.len(), 3);
    // What waits is not proposed again.
    say(&store, "two", "user", "I live in Lyon.");
    let done = look_at(&store, &at(&store, "two"), &mut Model::honest(), INBOX).unwrap();
    assert_eq!(done[0].refused[0].0, Refusal::Known);
    let consolidation = store.consolidation().unwrap();
    let missing = consolidation.accept(&[ids[0], 99]).unwrap_err();
    assert!(matches!(missing, Error::NotProposed { id: 99 }), "{missing}");
    assert!(matches!(consolidation.reject(&[ids[0], 99]), Err(Error::NotProposed { id: 99 })));
    assert_eq!((contents(&store).len(), proposed(&store).len()), (0, 3), "all or none");
    assert_eq!(consolidation.accept(&[ids[0], ids[0]]).unwrap().len(), 1);
    assert!(matches!(consolidation.accept(&[ids[0]]), Err(Error::NotProposed { .. })), "once");
    consolidation.reject(&[ids[1]]).unwrap();
    assert!(matches!(consolidation.reject(&[ids[1]]), Err(Error::NotProposed { .. })));
    assert_eq!(contents(&store), ["I live in Lyon."]);
    assert_eq!(learned(&store)[0].source.who, SourceKind::User);
    assert_eq!(proposed(&store).len(), 1);
    assert!(consolidation.accept(&[]).unwrap().is_empty());
    // Whoever finds the inbox held is told so, and nothing is taken.
    let inbox = store.inbox().unwrap();
    let held = inbox.writer(Duration::ZERO).unwrap();
    assert!(matches!(
        open(dir.path()).consolidation().unwrap().accept(&[ids[2]]),
        Err(Error::MemoryHeld { .. })
    ));
    drop(held);
    assert_eq!(contents(&store).len(), 1);
    expect_grounded(&store);
}

/// A crash while something is accepted: accepted again, it is there once.
#[test]
fn whatever_happens_what_is_accepted_is_remembered_once() {
    let opened = |disk: &SimDisk| -> manent::Result<Store> {
        let files =
            Files::open_on(Arc::new(disk.clone()), "/store".into())?.waiting_for_movers(Duration::ZERO);
        Ok(Store::on_files(files, StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() }))
    };
    let image = SimDisk::new(0);
    let store = opened(&image).unwrap();
    say(&store, "one", "user", "I live in Lyon. I own a boat.");
    look_at(&store, &at(&store, "one"), &mut Model::honest(), INBOX).unwrap();
    drop(store);
    let mut tried = 0;
    for operation in 0.. {
        let disk = image.copy(operation);
        let fault = if operation % 2 == 0 { Fault::CrashPower } else { Fault::CrashKill };
        disk.add_fault(disk.op_count() + operation, fault);
        let done = opened(&disk).and_then(|store| store.consolidation()?.accept(&[1, 2]));
        if disk.crashed().is_none() {
            assert_eq!(done.unwrap().len(), 2);
            break;
        }
        let disk = disk.restart();
        disk.reset_faults();
        let store = opened(&disk).unwrap();
        for item in proposed(&store) {
            store.consolidation().unwrap().accept(&[item.id]).unwrap();
        }
        assert_eq!(contents(&store), ["I live in Lyon.", "I own a boat."], "{fault:?} at {operation}");
        assert!(proposed(&store).is_empty());
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn what_was_forgotten_is_not_brought_back_by_the_same_passage() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I live in Lyon. I own a boat.");
    look(&store, "one", &mut Model::honest());
    let memory = store.memory().unwrap();
    memory.forget(&[learned(&store)[0].id]).unwrap();
    memory.compact().unwrap();
    assert!(look(&store, "one", &mut Model::honest()).is_empty());
    let mut other = Model { prompt: "look harder".into(), ..Model::honest() };
    look_at(&store, &at(&store, "one"), &mut other, Rules { again: true, ..Rules::default() }).unwrap();
    assert_eq!(contents(&store), ["I own a boat."]);
    // Said again, it counts again.
    say(&store, "one", "user", "I live in Lyon.");
    look(&store, "one", &mut Model::honest());
    assert_eq!(contents(&store).len(), 2);
}

#[test]
fn looking_again_with_other_words_adds_what_is_new_and_nothing_twice() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "one", "user", "I live in Lyon. I own a boat.");
    look(&store, "one", &mut Model::claiming(&[("", "I live in Lyon.")]));
    say(&store, "one", "user", "I live in Berlin.");
    look(&store, "one", &mut Model::honest());
    assert_eq!(contents(&store), ["I live in Berlin."]);
    let again = Rules { again: true, ..Rules::default() };
    // The same extractor is given nothing twice, wherever the passages ended.
    let mut same = Model::honest();
    assert!(look_at(&store, &at(&store, "one"), &mut same, again).unwrap().is_empty() && same.asked() == 0);
    let mut other = Model { prompt: "look harder".into(), ..Model::honest() };
    let done = look_at(&store, &at(&store, "one"), &mut other, again).unwrap();
    assert_eq!(done.iter().map(|done| done.turns).collect::<Vec<_>>(), [(1, 2)]);
    assert!(other.transcripts.is_empty(), "what was told is not told again");
    assert_eq!(contents(&store), ["I live in Berlin.", "I own a boat."], "what was replaced stays so");
    assert_eq!(dailies(&store).len(), 2);
    assert!(look_at(&store, &at(&store, "one"), &mut other, again).unwrap().is_empty());
    assert!(look(&store, "one", &mut other).is_empty());
}
