//! Letting go of the lease and taking it again: others may write in between, and nothing of theirs is lost or counted
//! twice. Two logs in one process stand for two processes: each has opened the file for itself.

use std::path::Path;
use std::time::Duration;

use manent_log::{Durability, Error, Expect, Log, RealDisk, Result, SharedLog};

use crate::support::{
    RunAs, Scene, file_of, native, plain_line, seqs, spawn_child, turn, turn_line, wait_until_ready,
    with_header,
};

const AT_ONCE: Duration = Duration::ZERO;

fn add(log: &mut Log, text: &str) -> u64 {
    log.append(&turn(text), Durability::Flush, Expect::Any).unwrap().seq
}

/// Rests, lets something happen, and wakes.
fn rest_during(log: Log, meanwhile: impl FnOnce()) -> Result<Log> {
    let resting = log.rest().unwrap();
    meanwhile();
    resting.wake(AT_ONCE)
}

#[test]
fn a_log_that_rests_lets_another_writer_in_and_goes_on_behind_it() {
    let scene = Scene::with(native(2));
    let mut log = scene.open();
    assert_eq!(add(&mut log, "a"), 3);
    let mut log = rest_during(log, || {
        assert_eq!(scene.append("b").seq, 4);
        scene.open().append_batch(&[turn("c"), turn("d")], Durability::Sync, Expect::Any).unwrap();
    })
    .unwrap();
    assert_eq!((log.next_seq(), log.path()), (7, scene.path.as_path()));
    assert!(matches!(scene.try_open(), Err(Error::Held { .. })), "awake, it holds the lease again");
    assert_eq!(log.append(&turn("e"), Durability::Sync, Expect::Seq(7)).unwrap().seq, 7);
    assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(scene.verify().is_sound());
}

#[test]
fn a_log_that_nobody_touched_goes_on_where_it_was() {
    for before in [native(2), file_of(&[plain_line("theirs")]), native(2)[..native(2).len() - 1].to_vec()] {
        let scene = Scene::with(before);
        let mut log = scene.open();
        let first = log.next_seq();
        for n in 0..3 {
            let (kind, next) = (log.kind(), log.next_seq());
            log = rest_during(log, || {}).unwrap();
            assert_eq!((log.kind(), log.next_seq()), (kind, next));
            assert_eq!(add(&mut log, "x"), first + n);
        }
        assert!(scene.verify().is_sound(), "{:?}", String::from_utf8_lossy(&scene.bytes()));
    }
}

/// Another program's file: whatever kind it has become, and whatever was added without asking.
#[test]
fn what_other_programs_added_is_counted() {
    let scene = Scene::with(file_of(&[plain_line("1")]));
    let log = scene.open();
    let mut log = rest_during(log, || {
        assert_eq!(scene.append("2").seq, 2);
        scene.append_raw(file_of(&[plain_line("3")]));
        scene.append_raw(plain_line("4, without its newline"));
    })
    .unwrap();
    assert_eq!(log.kind(), manent_log::FileKind::Adopted);
    assert_eq!(add(&mut log, "5"), 5);
    assert_eq!(seqs(&scene.read().0), [1, 2, 3, 4, 5]);
}

#[test]
fn what_another_writer_left_torn_is_set_aside() {
    let scene = Scene::with(native(2));
    let torn = &turn_line(4, "never finished")[..30];
    let mut log = rest_during(scene.open(), || {
        assert_eq!(scene.append("kept").seq, 3);
        scene.append_raw(torn);
    })
    .unwrap();
    let aside = log.set_aside().expect("the torn end is kept").clone();
    assert_eq!(std::fs::read(&aside.copy).unwrap(), torn);
    assert_eq!(add(&mut log, "next"), 4);
    let log = rest_during(log, || {}).unwrap();
    assert_eq!(log.set_aside(), None, "told once");
    assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3, 4]);
    assert_eq!(scene.torn_copies().len(), 1);
}

/// Lines that cannot be read stood at the end when the log went to rest; the other writer cut them, as it should, and
/// perhaps wrote exactly as many bytes in their place.
#[test]
fn an_end_that_another_writer_cut_and_filled_again_is_looked_at() {
    let record = file_of(&[turn_line(3, "x")]);
    let garbage = [b"g\n", &vec![b'g'; record.len() - 3][..], b"\n"].concat();
    for filled in [false, true] {
        let scene = Scene::with(native(2));
        let mut log = scene.open();
        scene.append_raw(&garbage);
        let conflict = log.append(&turn("x"), Durability::Flush, Expect::Seq(3)).unwrap_err();
        assert!(matches!(conflict, Error::Conflict { next: 5, .. }), "two lines were counted: {conflict}");
        let len = scene.len();
        let log = rest_during(log, || {
            if filled {
                assert_eq!(scene.append("x").seq, 3);
                assert_eq!(scene.len(), len, "as long as before");
            } else {
                drop(scene.open());
                assert_eq!(scene.bytes(), native(2));
            }
        })
        .unwrap();
        assert_eq!(log.next_seq(), if filled { 4 } else { 3 });
    }
}

/// Faults 26, 31. Nothing is written to a file that nobody will find.
#[test]
fn a_log_that_was_deleted_moved_or_replaced_is_gone() {
    for what in ["deleted", "moved", "replaced by a rename", "moved and made anew"] {
        let scene = Scene::with(native(2));
        let elsewhere = scene.dir().join("elsewhere.jsonl");
        let gone = rest_during(scene.open(), || {
            match what {
                "deleted" => std::fs::remove_file(&scene.path).unwrap(),
                "replaced by a rename" => {
                    std::fs::write(&elsewhere, native(2)).unwrap();
                    std::fs::rename(&elsewhere, &scene.path).unwrap();
                }
                _ => std::fs::rename(&scene.path, &elsewhere).unwrap(),
            }
            if what == "moved and made anew" {
                scene.write(native(2));
            }
        })
        .unwrap_err();
        assert!(matches!(gone, Error::Gone { .. }), "{what}: {gone}");
        if scene.path.exists() {
            assert_eq!(scene.append("new").seq, 3, "{what}: the lease of the new file is free");
        }
    }
}

#[test]
fn a_log_that_became_shorter_is_not_gone_on_with() {
    let scene = Scene::with(native(3));
    let shrunk = rest_during(scene.open(), || scene.set_len(native(2).len() as u64)).unwrap_err();
    assert!(matches!(shrunk, Error::Shrunk { .. }), "{shrunk}");
    assert_eq!(scene.bytes(), native(2));
    assert_eq!(scene.append("opened again").seq, 3);
}

/// Fault 28. Waking is taking the lease: at once or not at all, or as soon as the other lets go.
#[test]
fn a_log_that_another_writer_holds_is_held_until_it_is_released() {
    let scene = Scene::with(native(2));
    let resting = scene.open().rest().unwrap();
    let mut other = scene.open();
    let held = resting.wake(AT_ONCE).unwrap_err();
    let Error::Held { pid, .. } = &held else { panic!("{held}") };
    if std::fs::read_to_string("/proc/locks").is_ok_and(|table| table.contains("FLOCK")) {
        assert_eq!(*pid, Some(std::process::id()), "{held}");
    }
    add(&mut other, "x");
    let resting = other.rest().unwrap();
    let mut other = scene.open();
    let next = std::thread::scope(|scope| {
        let waiting = scope.spawn(move || resting.wake(Duration::from_mins(1)).unwrap().next_seq());
        std::thread::sleep(Duration::from_millis(50));
        add(&mut other, "y");
        drop(other);
        waiting.join().unwrap()
    });
    assert_eq!(next, 5);
}

/// Fault 30. The same with processes: one that was killed while it held the log holds nothing.
#[test]
fn a_log_wakes_after_the_process_that_held_it_was_killed() {
    let scene = Scene::with(native(2));
    let first = scene.open().rest().unwrap();
    let second = scene.open().rest().unwrap();
    let mut child = spawn_child("hold", &scene.path, "077", RunAs::Us).unwrap();
    assert!(wait_until_ready(&mut child));
    assert!(matches!(first.wake(AT_ONCE), Err(Error::Held { .. })));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(add(&mut second.wake(AT_ONCE).unwrap(), "x"), 3);
}

/// Sleep does not heal: a handle that does not know what is on the disk stays closed for writing.
#[test]
fn a_poisoned_log_is_poisoned_when_it_wakes() {
    let scene = Scene::with(native(3));
    let mut log = scene.open();
    scene.set_len(native(2).len() as u64);
    log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap_err();
    let why = log.poisoned().unwrap().to_owned();
    let torn = &turn_line(3, "torn")[..30];
    scene.append_raw(torn);
    let mut log = rest_during(log, || {}).unwrap();
    assert_eq!(log.poisoned(), Some(why.as_str()));
    for durability in [Durability::Flush, Durability::Sync] {
        let poisoned = log.append(&turn("x"), durability, Expect::Any).unwrap_err();
        assert!(matches!(poisoned, Error::Poisoned { .. }), "{poisoned}");
    }
    assert!(matches!(log.write_header(Durability::Flush), Err(Error::Poisoned { .. })));
    assert_eq!(scene.bytes(), [native(2), torn.to_vec()].concat(), "nor does it cut anything");
}

/// A log that was made and never written to leaves no file, resting as closed; awake, it begins again.
#[test]
fn a_log_that_was_never_written_leaves_no_file_while_it_rests() {
    let scene = Scene::new();
    let mut log = scene.open();
    for _ in 0..2 {
        log = rest_during(log, || assert_eq!(scene.names(), [] as [&str; 0])).unwrap();
        assert!(log.is_new());
        assert_eq!(scene.bytes(), b"");
        assert!(matches!(scene.try_open(), Err(Error::Held { .. })));
    }
    drop(log);
    assert_eq!(scene.names(), [] as [&str; 0]);

    let mut log = rest_during(scene.open(), || {}).unwrap();
    assert_eq!(add(&mut log, "turn 1"), 1);
    assert_eq!(scene.bytes(), native(1));
    let log = rest_during(log, || assert_eq!(scene.bytes(), native(1))).unwrap();
    assert_eq!(log.next_seq(), 2);
}

/// While it rests others may make the log, and what they made is theirs: not removed, not given a second header.
#[test]
fn a_log_that_others_made_while_it_rested_is_gone_on_with() {
    let scene = Scene::new();
    let mut log = rest_during(scene.open(), || assert_eq!(scene.append("turn 1").seq, 1)).unwrap();
    assert!(!log.is_new());
    assert_eq!(add(&mut log, "turn 2"), 2);
    assert_eq!(scene.bytes(), native(2));

    let scene = Scene::new();
    let (first, second) = (scene.open().rest().unwrap(), scene.open().rest().unwrap());
    let mut other = scene.open();
    drop(first);
    assert!(matches!(second.wake(AT_ONCE), Err(Error::Held { .. })));
    assert_eq!(scene.bytes(), b"", "another's file, who is about to write");
    assert_eq!(add(&mut other, "turn 1"), 1);
    assert_eq!(scene.bytes(), native(1));

    let scene = Scene::with("");
    let log = rest_during(scene.open(), || assert_eq!(scene.bytes(), b"")).unwrap();
    drop(log);
    assert_eq!(scene.bytes(), b"", "an empty file that was there before stays");
}

/// Writers that take turns, each through one handle, share no number and lose nothing.
#[test]
fn writers_that_rest_between_their_records_take_turns() {
    let scene = Scene::new();
    let work = |path: &Path| {
        let patient = manent_log::Options { wait: Duration::from_mins(1), ..with_header() };
        let mut log = Log::open(&RealDisk::shared(), path, &patient).unwrap();
        let mut numbers = Vec::new();
        for _ in 0..50 {
            numbers.push(add(&mut log, "x"));
            log = log.rest().unwrap().wake(Duration::from_mins(1)).unwrap();
        }
        numbers
    };
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(|| work(&scene.path))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>());
    assert!(scene.verify().is_sound());
    assert_eq!(seqs(&scene.read().0), (0..=200).collect::<Vec<_>>());
}

/// A log that threads share rests as any other, once they gave it back.
#[test]
fn a_shared_log_rests_between_two_crowds() {
    let scene = Scene::new();
    let mut log = scene.open();
    for round in 0..3 {
        let shared = SharedLog::new(log);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| shared.append(turn("x"), Durability::Group).unwrap());
            }
        });
        log = rest_during(shared.into_inner(), || assert_eq!(scene.append("y").seq, round * 5 + 5)).unwrap();
    }
    assert_eq!(log.next_seq(), 16);
}
