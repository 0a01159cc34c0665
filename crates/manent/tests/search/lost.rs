//! A log that vanished behind the catalogue's back: nothing in the store says so, but the catalogue remembers.

use manent::backend::Selector;
use manent::log::fs::Disk;
use manent::{MissingSession, Place, Store, turn};
use manent_sim::{Fault, SimDisk};

use super::key;
use super::scenes::{HOME, find, open, say, try_open};

/// Two sessions, one of which was forked, that the catalogue has seen.
fn scene() -> SimDisk {
    let disk = SimDisk::new(3);
    let store = open(&disk);
    say(&store, "work", &["one", "two", "three"]);
    say(&store, "other", &["of no concern"]);
    store.fork(&find(&store, Place::Live, "work"), Some(2), &key("branch")).unwrap();
    say(&store, "branch", &["another three"]);
    disk.pass(5_000_000_000);
    look(&store);
    disk
}

/// A look at everything, which brings the catalogue up to date.
fn look(store: &Store) {
    store.stats(&mut |_, _| {}).unwrap();
}

fn keys(missing: &[MissingSession]) -> Vec<&str> {
    missing.iter().map(|missing| missing.id.key.as_str()).collect()
}

#[test]
fn vanished_log_is_missing_for_every_process_until_it_is_acknowledged() {
    for looks in [false, true] {
        let disk = scene();
        let stays = open(&disk);
        look(&stays);
        disk.remove(&path("work")).unwrap();
        let store = open(&disk);
        if looks {
            look(&store);
            look(&stays);
        }
        for (who, store) in [("new", open(&disk)), ("looked", store), ("stays", stays.clone())] {
            let missing = store.missing().unwrap();
            assert_eq!(keys(&missing), ["work"], "{who}, looks: {looks}");
            assert_eq!((missing[0].last_seq, missing[0].ours), (3, true));
        }
        let acknowledged = open(&disk).acknowledge_missing(Selector::Key(&key("work"))).unwrap();
        assert_eq!(keys(&acknowledged), ["work"]);
        for store in [open(&disk), stays] {
            assert_eq!(keys(&store.missing().unwrap()), NONE, "acknowledged");
            look(&store);
            assert_eq!(keys(&store.missing().unwrap()), NONE, "acknowledged, and looked again");
        }
    }
}

#[test]
fn loss_is_mentioned_once_by_all_processes_together() {
    let disk = scene();
    let (one, other) = (open(&disk), open(&disk));
    disk.remove(&path("work")).unwrap();
    look(&one);
    assert_eq!(keys(&one.newly_missing()), ["work"]);
    look(&other);
    assert_eq!(keys(&other.newly_missing()), NONE);
    assert_eq!(keys(&one.newly_missing()), NONE);
    assert_eq!(keys(&other.missing().unwrap()), ["work"], "it is missing all the same");
}

#[test]
fn session_begun_anew_hides_no_loss() {
    let disk = scene();
    disk.remove(&path("work")).unwrap();
    let store = open(&disk);
    store.append(&key("work"), turn("user", "begun anew")).unwrap();
    assert!(store.missing_of(&key("work")).unwrap().is_some_and(|missing| missing.last_seq == 3));
    assert_eq!(keys(&store.missing().unwrap()), ["work"]);
    look(&store);
    assert_eq!(keys(&open(&disk).missing().unwrap()), ["work"]);
    assert!(open(&disk).missing_of(&key("work")).unwrap().is_some());
    assert!(open(&disk).missing_of(&key("other")).unwrap().is_none());
}

#[test]
fn log_whose_header_was_damaged_is_not_missing() {
    let disk = scene();
    let mut bytes = disk.peek(path("work")).unwrap();
    bytes[12] ^= 1;
    disk.poke(path("work"), bytes).unwrap();
    for _ in 0..2 {
        assert_eq!(keys(&open(&disk).missing().unwrap()), NONE);
        look(&open(&disk));
    }
}

/// A number is used again after its record was torn. The copy of the torn one is no trace of the one that follows.
#[test]
fn copy_of_an_older_torn_record_is_no_trace_of_a_lost_one() {
    let disk = scene();
    let cut = |bytes: usize| {
        let whole = disk.peek(path("work")).unwrap();
        disk.poke(path("work"), &whole[..whole.len() - bytes]).unwrap();
    };
    cut(10);
    say(&open(&disk), "work", &["three again"]);
    disk.pass(5_000_000_000);
    look(&open(&disk));
    let at = find(&open(&disk), Place::Live, "work");
    let is_sound = || open(&disk).verify(&at, &mut |_, _| {}).unwrap().is_sound();
    assert!(is_sound(), "torn, set aside, and gone on with");
    let whole = disk.peek(path("work")).unwrap();
    let border = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    cut(whole.len() - border);
    disk.pass(5_000_000_000);
    assert!(!is_sound(), "record 3 is lost");
    look(&open(&disk));
    assert!(!is_sound());
}

/// Killed or cut off from power at any operation, a purge leaves what was or what was to be, and no loss.
#[test]
fn interrupted_purge_is_no_loss() {
    let from = scene().op_count();
    for crash in [Fault::CrashKill, Fault::CrashPower] {
        let mut at = from;
        loop {
            let disk = scene();
            let stays = open(&disk.as_process(2));
            look(&stays);
            at = at.max(disk.op_count());
            disk.add_fault(at, crash);
            let purged = try_open(&disk).and_then(|store| {
                let at = store.find_in(Place::Live, &key("work"))?.id;
                store.purge(&[at], false)
            });
            if disk.crashed().is_none() {
                purged.unwrap();
                disk.reset_faults();
                assert_eq!(keys(&stays.missing().unwrap()), NONE, "another process, after the purge");
                break;
            }
            let disk = disk.restart();
            for _ in 0..2 {
                let store = open(&disk);
                assert_eq!(keys(&store.missing().unwrap()), NONE, "{crash:?} at {at}: {:#?}", disk.trace());
                look(&store);
                assert_eq!(keys(&store.newly_missing()), NONE, "{crash:?} at {at}");
            }
            at += 1;
        }
    }
}

/// Whatever another process does between any two operations of one that looks, nothing is taken for a loss.
#[test]
fn moves_and_purges_of_another_process_are_no_loss() {
    type Act = fn(&Store);
    let acts: [Act; 4] = [
        |store| drop(store.archive(&find(store, Place::Live, "work"), &mut |_, _| {})),
        |store| drop(store.delete(&find(store, Place::Live, "work"))),
        |store| drop(store.purge(&[find(store, Place::Live, "work")], false)),
        |store| {
            let archived = store.archive(&find(store, Place::Live, "work"), &mut |_, _| {});
            drop(store.unarchive(&archived.unwrap()));
        },
    ];
    for (which, act) in acts.into_iter().enumerate() {
        for stays in [false, true] {
            for nth in 0.. {
                let disk = scene();
                let mut store = open(&disk);
                if stays {
                    look(&store);
                } else {
                    store = open(&disk);
                }
                let other = open(&disk.as_process(2));
                disk.visit_before(disk.op_count() + nth, move || act(&other));
                let missing = store.missing().unwrap();
                assert_eq!(keys(&missing), NONE, "act {which}, {nth}: {:#?}", disk.trace());
                look(&store);
                assert_eq!(keys(&store.newly_missing()), NONE, "act {which}, {nth}: {:#?}", disk.trace());
                if disk.cancel_visit() {
                    break;
                }
                look(&store);
                assert_eq!(keys(&store.missing().unwrap()), NONE, "act {which}, {nth}, afterwards");
            }
        }
    }
}

#[test]
fn lost_session_that_was_restored_and_purged_is_not_missing() {
    let disk = scene();
    let stays = open(&disk);
    let copy = disk.peek(path("work")).unwrap();
    disk.remove(&path("work")).unwrap();
    look(&stays);
    assert_eq!(keys(&stays.missing().unwrap()), ["work"]);
    // Nobody looks between the two.
    disk.poke(path("work"), copy).unwrap();
    let store = open(&disk);
    store.purge(&[find(&store, Place::Live, "work")], false).unwrap();
    for store in [store, stays, open(&disk)] {
        look(&store);
        assert_eq!(keys(&store.missing().unwrap()), NONE);
    }
}

/// Both files have the same records at the same offsets: only the ids in their headers tell them apart.
#[test]
fn fork_that_was_emptied_and_made_again_from_the_same_records_is_missing() {
    for looks in [false, true] {
        let disk = SimDisk::new(3);
        disk.poke(path("foreign"), "{\"role\":\"user\",\"content\":\"alpha\"}\n").unwrap();
        let store = open(&disk);
        let foreign = find(&store, Place::Live, "foreign");
        store.fork(&foreign, None, &key("fork")).unwrap();
        look(&store);
        disk.poke(path("fork"), "").unwrap();
        store.fork(&foreign, None, &key("fork")).unwrap();
        let store = open(&disk);
        if looks {
            look(&store);
        }
        assert_eq!(keys(&store.missing().unwrap()), ["fork"], "looks: {looks}");
        assert!(store.missing_of(&key("fork")).unwrap().is_some(), "looks: {looks}");
    }
}

fn path(name: &str) -> std::path::PathBuf {
    std::path::Path::new(HOME).join("sessions").join(format!("{name}.jsonl"))
}

const NONE: [&str; 0] = [];
