//! The writer's lease (faults 26, 28 to 31, 53, 57): one writer at a time, and never a log where there is none.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use manent_log::{Durability, Error, Expect, Log, Options, Reader, RealDisk, SharedLog};

use crate::support::{
    GrowingDisk, Moment, RunAs, Scene, native, seqs, spawn_child, turn, turn_line, wait_until_ready,
    with_header,
};

fn waiting(wait: Duration) -> Options {
    Options { wait, ..with_header() }
}

/// Fault 28. Two programs on one session: the second is told who has it, at once, and can still read.
#[test]
fn a_second_writer_is_told_who_holds_the_log() {
    let scene = Scene::with(native(2));
    let mut log = scene.open();
    let start = Instant::now();
    let held = scene.try_open().unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(1));
    let Error::Held { pid, .. } = &held else { panic!("{held}") };
    if std::fs::read_to_string("/proc/locks").is_ok_and(|table| table.contains("FLOCK")) {
        assert_eq!(*pid, Some(std::process::id()), "{held}");
    } else {
        eprintln!("SKIPPED: /proc/locks tells nothing here, so the holder's pid is not checked");
    }
    log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap();
    assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3], "reading needs no lease");
    drop(log);
    assert_eq!(scene.append("y").seq, 4);
}

/// Fault 28. Whoever asked to wait gets the log as soon as it is free, and sees what was written meanwhile.
#[test]
fn a_waiting_writer_gets_the_log_when_it_is_released() {
    let scene = Scene::with(native(2));
    let mut log = scene.open();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let start = Instant::now();
            let log = Log::open(&RealDisk::shared(), &scene.path, &waiting(Duration::from_secs(20)));
            (log.unwrap().next_seq(), start.elapsed())
        });
        std::thread::sleep(Duration::from_millis(80));
        log.append(&turn("meanwhile"), Durability::Flush, Expect::Any).unwrap();
        drop(log);
        let (next, waited) = second.join().unwrap();
        assert_eq!(next, 4);
        assert!(waited >= Duration::from_millis(70) && waited < Duration::from_secs(10), "{waited:?}");
    });
}

/// Fault 28. Waiting ends when the time is up.
#[test]
fn a_waiting_writer_gives_up_in_time() {
    let scene = Scene::with(native(2));
    let _log = scene.open();
    let start = Instant::now();
    let held = Log::open(&RealDisk::shared(), &scene.path, &waiting(Duration::from_millis(100))).unwrap_err();
    assert!(matches!(held, Error::Held { .. }), "{held}");
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(50) && waited < Duration::from_secs(5), "{waited:?}");
}

/// Fault 30. A writer that was killed leaves nothing behind that would have to be removed by hand.
#[test]
fn the_log_of_a_killed_writer_can_be_opened_at_once() {
    let scene = Scene::with(native(2));
    let mut child = spawn_child("hold", &scene.path, "077", RunAs::Us).unwrap();
    assert!(wait_until_ready(&mut child));
    let held = scene.try_open().unwrap_err();
    let Error::Held { pid, .. } = &held else { panic!("{held}") };
    assert!(pid.is_none_or(|pid| pid == child.id()), "{held} and not by {}", child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut log = scene.try_open().expect("nobody holds it any more");
    assert_eq!(log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap().seq, 3);
    assert_eq!(scene.names(), ["chat.jsonl"], "there is no lock file");
}

/// Faults 26, 31. Deleted while it was open: the append fails, and no ghost of the file appears.
#[test]
fn a_deleted_log_is_gone_for_every_durability() {
    for durability in [Durability::Flush, Durability::Sync, Durability::Group] {
        let scene = Scene::with(native(2));
        let mut log = scene.open();
        std::fs::remove_file(&scene.path).unwrap();
        for _ in 0..2 {
            let gone = log.append(&turn("x"), durability, Expect::Any).unwrap_err();
            assert!(matches!(gone, Error::Gone { .. }), "{durability:?}: {gone}");
        }
        assert_eq!(scene.names(), [] as [&str; 0], "{durability:?}");
    }
    // Before its first record too, and in a group of threads.
    let scene = Scene::new();
    let shared = SharedLog::new(scene.open());
    std::fs::remove_file(&scene.path).unwrap();
    let gone = shared.append(turn("x"), Durability::Group).unwrap_err();
    assert!(matches!(gone.root(), Error::Gone { .. }), "{gone}");
    assert_eq!(scene.names(), [] as [&str; 0]);
}

/// Fault 31. Moved away, or replaced by another file: a durable receipt for a file that nobody will find is a lie.
#[test]
fn a_moved_or_replaced_log_is_gone() {
    for replaced in ["moved", "replaced by a rename", "moved and made anew"] {
        let scene = Scene::with(native(2));
        let mut log = scene.open();
        let elsewhere = scene.dir().join("elsewhere.jsonl");
        match replaced {
            "replaced by a rename" => {
                std::fs::write(&elsewhere, native(1)).unwrap();
                std::fs::rename(&elsewhere, &scene.path).unwrap();
            }
            _ => std::fs::rename(&scene.path, &elsewhere).unwrap(),
        }
        if replaced == "moved and made anew" {
            scene.write(native(1));
        }
        let gone = log.append(&turn("x"), Durability::Sync, Expect::Any).unwrap_err();
        assert!(matches!(gone, Error::Gone { .. }), "{replaced}: {gone}");
        if scene.path.exists() {
            assert_eq!(scene.bytes(), native(1), "{replaced}: the new file is not ours to write");
            assert_eq!(scene.append("new").seq, 2, "{replaced}: and its own lease is free");
        }
        if elsewhere.exists() {
            assert_eq!(std::fs::read(&elsewhere).unwrap(), native(2), "{replaced}");
        }
    }
}

/// Fault 31. Two handles where the file was replaced under the first: each writes its own file or none.
#[test]
fn a_file_appended_to_by_another_program_and_then_moved_is_gone_also_for_a_cheap_append() {
    let scene = Scene::with(native(2));
    let mut log = scene.open();
    scene.append_raw(b"{\"role\":\"user\",\"content\":\"theirs\"}\n");
    let elsewhere = scene.dir().join("elsewhere.jsonl");
    std::fs::rename(&scene.path, &elsewhere).unwrap();
    scene.write(native(1));
    let gone = log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap_err();
    assert!(
        matches!(gone, Error::Gone { .. }),
        "what others added cannot be read at the path any more: {gone}"
    );
    assert_eq!(scene.bytes(), native(1));
}

/// Fault 31. Replaced in the moment between our opening it and our locking it: a lock on a file that no path leads to
/// any more would let a second writer in.
#[test]
fn a_log_that_is_replaced_while_it_is_opened_is_opened_again() {
    let scene = Scene::with(native(2));
    let disk = GrowingDisk::shared(&scene.path, Moment::BeforeTheLock, native(5));
    let mut log = Log::open(&disk, &scene.path, &with_header()).unwrap();
    assert_eq!(log.next_seq(), 6, "the file that is there now");
    assert!(matches!(scene.try_open(), Err(Error::Held { .. })), "and it is that one's lease");
    log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap();
    assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3, 4, 5, 6]);
}

/// Faults 53, 57. What is no regular file is refused by name at once: nothing blocks, nothing is followed.
#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let scene = Scene::new();
    let at = |name: &str| scene.dir().join(name);
    let target = at("target.jsonl");
    std::fs::write(&target, native(2)).unwrap();
    std::os::unix::fs::symlink(&target, at("link")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
    assert!(made.success());
    let _socket = UnixListener::bind(at("socket")).unwrap();

    for name in ["link", "zero", "dangling", "directory", "fifo", "socket"] {
        let start = Instant::now();
        let write = Log::open(&RealDisk::shared(), &at(name), &waiting(Duration::from_secs(30))).unwrap_err();
        let read = Reader::open(&RealDisk::shared(), &at(name)).unwrap_err();
        for refused in [write, read] {
            assert!(matches!(refused, Error::NotALog { .. }), "{name}: {refused}");
        }
        assert!(start.elapsed() < Duration::from_secs(2), "{name} took {:?}", start.elapsed());
    }
    let device = Reader::open(&RealDisk::shared(), "/dev/zero".as_ref()).unwrap_err();
    assert!(matches!(device, Error::NotALog { .. }), "{device}");
    assert_eq!(std::fs::read(&target).unwrap(), native(2));
    assert!(!at("nowhere").exists(), "nothing was made through the link");
}

/// A home that is itself a link is a person's choice; only the last step is not followed.
#[test]
fn a_log_in_a_linked_directory_is_fine() {
    let scene = Scene::new();
    let (real, link) = (scene.dir().join("real"), scene.dir().join("home"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mut log = Log::open(&RealDisk::shared(), &link.join("chat.jsonl"), &with_header()).unwrap();
    log.append(&turn("x"), Durability::Sync, Expect::Any).unwrap();
    let mut reader = Reader::open(&RealDisk::shared(), &real.join("chat.jsonl")).unwrap();
    assert_eq!(seqs(&crate::support::drain(&mut reader)), [0, 1]);
}

/// Fault 22. Where an ordinary user may not write, the log says so, and reading still works. Root may write anywhere,
/// so the question is put by a child that is nobody.
#[test]
fn without_the_right_to_write_a_log_is_read_and_writing_says_why() {
    let scene = Scene::with([native(2), turn_line(3, "x"), b"\n".to_vec()].concat());
    let refused_for = |path: &std::path::Path| {
        let run_as = if rustix::process::geteuid().is_root() { RunAs::Nobody } else { RunAs::Us };
        let Ok(mut child) = spawn_child("be_refused", path, "077", run_as) else {
            eprintln!("SKIPPED: cannot run this binary as an ordinary user, and root may write anywhere");
            return;
        };
        let is_ready = wait_until_ready(&mut child);
        let status = child.wait().unwrap();
        if status.code() == Some(126) || status.code() == Some(127) {
            eprintln!("SKIPPED: an ordinary user cannot reach this binary, and root may write anywhere");
            return;
        }
        assert!(is_ready && status.success(), "{status}");
    };
    let set_mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    // The file may only be read.
    set_mode(scene.dir(), 0o755);
    set_mode(&scene.path, 0o444);
    let before = scene.bytes();
    refused_for(&scene.path);
    assert_eq!(scene.bytes(), before);
    // Nothing can be made in the directory.
    set_mode(scene.dir(), 0o555);
    refused_for(&scene.dir().join("new.jsonl"));
    set_mode(scene.dir(), 0o755);
    assert_eq!(scene.names(), ["chat.jsonl"]);
}

/// Fault 29. A program that starts others (an agent runs tools all the time) lets go of a log and takes it again. A
/// child has the handle too for the moment between fork and exec; the lease must end with the writer all the same.
#[test]
fn a_released_log_is_free_while_other_threads_start_programs() {
    let scene = Scene::with(native(2));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(std::process::Command::new("true").status().unwrap().success());
                }
            });
        }
        let held = (0..2_000).find_map(|round| scene.try_open().err().map(|error| (round, error)));
        done.store(true, Ordering::Relaxed);
        assert!(held.is_none(), "nobody holds it, but: {held:?}");
    });
}
