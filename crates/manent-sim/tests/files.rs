//! `AtomicFile` and `FileLock` on a disk that fails: whatever happens, the old content is there or the new one, and who
//! holds a lock holds that of the file the path leads to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent_log::fs::{Access, Disk};
use manent_log::{AtomicFile, Error, FileLock, LockMode};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};

const TARGET: &str = "/s/file";
const SEEDS: u64 = 40;

fn target() -> &'static Path {
    Path::new(TARGET)
}

/// A disk with the old content, durable.
fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.poke(TARGET, "old content").unwrap();
    disk
}

/// Several pages, so that a torn write shows.
fn new_content() -> Vec<u8> {
    b"new content\n".repeat(1000)
}

fn replace(disk: &SimDisk) -> io::Result<()> {
    let mut file = AtomicFile::create(disk, target())?;
    let (first, second) = (&new_content()[..5000], &new_content()[5000..]);
    file.write_all(first)?;
    file.write_all(second)?;
    file.commit()
}

fn replace_locked(disk: &SimDisk) -> io::Result<()> {
    let mut file = AtomicFile::create_locked(disk, target())?;
    file.write_all(&new_content())?;
    file.commit()
}

fn operations_of(work: fn(&SimDisk) -> io::Result<()>) -> u64 {
    let disk = disk(0);
    work(&disk).unwrap();
    disk.op_count()
}

fn leftovers(disk: &SimDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path != target()).collect()
}

#[test]
fn atomic_file_crash_at_any_operation_leaves_the_old_content_or_the_new() {
    let mut seen = [false; 2];
    for work in [replace, replace_locked] {
        for operation in 0..=operations_of(work) {
            let power = (0..SEEDS).map(|seed| (CrashKind::Power, seed));
            for (kind, seed) in power.chain([(CrashKind::Kill, 0)]) {
                let disk = disk(seed);
                let fault = match kind {
                    CrashKind::Kill => Fault::CrashKill,
                    CrashKind::Power => Fault::CrashPower,
                };
                disk.add_fault(operation, fault);
                let done = work(&disk);
                disk.crash(kind);
                let after = disk.restart();
                let content = after.peek(TARGET).expect("there was always a file");
                let is_new = content == new_content();
                let case = format!("{kind:?} at {operation}: {done:?}\n{}", disk.trace().join("\n"));
                assert!(is_new || content == b"old content", "{case}");
                assert!(is_new || done.is_err(), "a commit that returned survives: {case}");
                seen[usize::from(is_new)] = true;
                assert!(
                    leftovers(&after).iter().all(|path| path.extension().is_some_and(|tmp| tmp == "tmp"))
                );
                after.reset_faults();
                work(&after).unwrap();
                assert_eq!(after.peek(TARGET).unwrap(), new_content());
            }
        }
    }
    assert_eq!(seen, [true; 2], "both outcomes occur");
}

#[test]
fn atomic_file_error_at_any_operation_leaves_the_old_content_and_no_temporary_file() {
    for work in [replace, replace_locked] {
        let operations = operations_of(work);
        for operation in 0..operations {
            let disk = disk(1);
            disk.add_fault(operation, Fault::Fail(Errno::NoSpace));
            let done = work(&disk);
            let struck = disk.trace().into_iter().find(|line| line.ends_with(']')).unwrap();
            assert!(done.is_err(), "{struck}");
            // When the directory cannot be synced, the new file is in its place already.
            let expected =
                if struck.contains(" sync_dir ") { new_content() } else { b"old content".to_vec() };
            assert_eq!(disk.peek(TARGET).unwrap(), expected, "{struck}");
            // A file whose identity was not told cannot be told from another one of its name, and stays.
            if !struck.contains(" id ") {
                assert_eq!(leftovers(&disk), [] as [PathBuf; 0], "{struck}");
            }
        }
    }
}

#[test]
fn locked_atomic_files_left_by_crashes_do_not_pile_up() {
    let mut disk = disk(3);
    for _ in 0..20 {
        let mut file = AtomicFile::create_locked(&disk, target()).unwrap();
        file.write_all(b"half").unwrap();
        disk.crash(CrashKind::Kill);
        drop(file);
        disk = disk.restart();
        assert_eq!(leftovers(&disk), [Path::new("/s/.new-0.tmp")]);
    }
    replace_locked(&disk).unwrap();
    assert_eq!(leftovers(&disk), [] as [PathBuf; 0]);
}

#[test]
fn locked_atomic_file_survives_a_sweeper_between_any_two_operations() {
    for operation in 0..operations_of(replace_locked) {
        let disk = disk(1);
        let sweeper = disk.as_process(2000);
        disk.visit_before(operation, move || {
            for path in leftovers(&sweeper) {
                if acquire(&sweeper, &path, LockMode::Exclusive).is_ok() {
                    sweeper.remove(&path).unwrap();
                }
            }
        });
        replace_locked(&disk).unwrap();
        assert_eq!(disk.peek(TARGET).unwrap(), new_content(), "before {operation}");
        assert_eq!(leftovers(&disk), [] as [PathBuf; 0], "before {operation}");
    }
}

fn acquire(disk: &SimDisk, path: &Path, mode: LockMode) -> manent_log::Result<FileLock> {
    FileLock::acquire(disk, path, Access::Read, mode, Duration::ZERO)
}

#[test]
fn file_lock_of_two_lockers_is_granted_to_one_and_names_the_other() {
    let disk = disk(1);
    let other = disk.as_process(2000);
    let held = acquire(&disk, target(), LockMode::Exclusive).unwrap();
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let refused = acquire(&other, target(), mode);
        assert!(matches!(refused, Err(Error::Held { pid: Some(1000), .. })), "{refused:?}");
    }
    drop(held);
    assert!(acquire(&other, target(), LockMode::Exclusive).is_ok());
}

#[test]
fn file_lock_shared_excludes_an_exclusive_one_until_the_last_is_dropped() {
    let disk = disk(1);
    let other = disk.as_process(2000);
    let one = acquire(&disk, target(), LockMode::Shared).unwrap();
    let two = acquire(&other, target(), LockMode::Shared).unwrap();
    drop(one);
    let refused = acquire(&disk, target(), LockMode::Exclusive);
    assert!(matches!(refused, Err(Error::Held { pid: Some(2000), .. })), "{refused:?}");
    drop(two);
    let held = acquire(&disk, target(), LockMode::Exclusive).unwrap();
    disk.crash(CrashKind::Kill);
    let after = disk.restart();
    assert!(acquire(&after, target(), LockMode::Exclusive).is_ok(), "a lock ends with its process");
    drop(held);
}

/// Somebody replaces the file, or moves it away and makes a new one, between any two operations of a locker.
#[test]
fn file_lock_is_on_the_file_that_the_path_leads_to_whenever_it_is_replaced() {
    let operations = {
        let disk = disk(1);
        acquire(&disk, target(), LockMode::Exclusive).unwrap();
        disk.op_count()
    };
    for operation in 0..operations {
        for moves_first in [false, true] {
            let disk = disk(1);
            let other = disk.as_process(2000);
            disk.visit_before(operation, move || {
                if moves_first {
                    other.rename(target(), Path::new("/s/moved")).unwrap();
                    AtomicFile::create(&other, target()).unwrap().commit_new().unwrap();
                } else {
                    replace(&other).unwrap();
                }
            });
            let lock = acquire(&disk, target(), LockMode::Exclusive).unwrap();
            assert!(lock.is_at_path(&disk).unwrap(), "before {operation}");
        }
    }
}
