//! The rules of the simulated disk about locks: on files and on directories, held, let go, and lost in a crash.

use std::io::ErrorKind;
use std::path::Path;

use manent_log::fs::{Access, Disk, DiskFile};

use crate::disk_tests::{create, disk, log, open};
use crate::{CrashKind, Errno, Fault, SimDisk, is_crash};

fn open_dir(disk: &SimDisk) -> Box<dyn DiskFile> {
    disk.open(Path::new("/s"), Access::Directory).unwrap()
}

#[test]
fn locks_belong_to_handles() {
    let disk = disk(1);
    let other = disk.as_process(77);
    let (mine, twin, theirs) = (open(&disk), open(&disk), open(&other));
    assert_eq!(mine.lock_holder(), None);
    assert!(mine.try_lock().unwrap() && mine.try_lock().unwrap(), "taking it twice is taking it once");
    assert!(!twin.try_lock().unwrap(), "another handle of the same process is somebody else");
    assert!(!theirs.try_lock().unwrap());
    assert_eq!(theirs.lock_holder(), Some(1000));
    drop(twin);
    assert!(!theirs.try_lock().unwrap(), "closing another handle frees nothing");
    drop(mine);
    assert!(theirs.try_lock().unwrap());
    assert_eq!(theirs.lock_holder(), Some(77));
    disk.rename(log(), Path::new("/s/moved")).unwrap();
    assert!(create(&disk, "/s/log").try_lock().unwrap(), "the lock is on the file, not on its name");
}

#[test]
fn a_lock_that_is_let_go_can_be_taken_by_another_process_while_the_file_stays_open() {
    let disk = disk(1);
    let (mine, theirs) = (open(&disk), open(&disk.as_process(77)));
    assert!(mine.try_lock().unwrap());
    theirs.unlock().unwrap();
    assert!(!theirs.try_lock().unwrap(), "it was not theirs to free");
    mine.unlock().unwrap();
    mine.unlock().unwrap();
    assert_eq!(mine.append(b"still open").unwrap(), 10);
    assert!(theirs.try_lock().unwrap());
    assert!(!mine.try_lock().unwrap());
    drop(mine);
    assert_eq!(theirs.lock_holder(), Some(77), "closing a handle that let go frees nothing");
    disk.add_fault(disk.op_count(), Fault::Fail(Errno::Io));
    theirs.unlock().unwrap_err();
    assert_eq!(theirs.lock_holder(), Some(77), "what failed has no effect");
}

#[test]
fn directories_are_locked_as_files_are_and_opened_for_nothing_else() {
    let disk = disk(1);
    let (mine, theirs) = (open_dir(&disk), open_dir(&disk.as_process(77)));
    assert_eq!(mine.id().unwrap(), disk.inspect(Path::new("/s")).unwrap().id);
    assert_eq!(mine.state().unwrap().links, 1);
    assert!(mine.try_lock().unwrap());
    assert!(!theirs.try_lock().unwrap());
    assert_eq!(theirs.lock_holder(), Some(1000));
    assert!(open(&disk).try_lock().unwrap(), "a file in it has a lock of its own");
    mine.unlock().unwrap();
    assert!(theirs.try_lock().unwrap() && !mine.try_lock().unwrap());
    drop(theirs);
    assert!(mine.try_lock().unwrap(), "let go by closing");

    assert_eq!(mine.read_at(&mut [0], 0).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(mine.append(b"x").unwrap_err().raw_os_error(), Some(9));
    assert_eq!(mine.set_len(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    let kind = |path: &str| disk.open(Path::new(path), Access::Directory).unwrap_err().kind();
    assert_eq!(kind("/s/log"), ErrorKind::NotADirectory);
    assert_eq!(kind("/s/log/below"), ErrorKind::NotADirectory);
    assert_eq!(kind("/s/none"), ErrorKind::NotFound);
    assert!(disk.open(Path::new("/"), Access::Directory).is_ok());
}

#[test]
fn the_lock_of_a_directory_dies_with_its_process_and_a_dead_handle_frees_nothing() {
    for kind in [CrashKind::Kill, CrashKind::Power] {
        let old = disk(1);
        let dead = open_dir(&old);
        assert!(dead.try_lock().unwrap());
        old.crash(kind);
        let new = old.restart();
        let heir = open_dir(&new);
        assert!(heir.try_lock().unwrap());
        let before = new.op_count();
        assert!(is_crash(&dead.try_lock().unwrap_err()));
        assert!(is_crash(&dead.unlock().unwrap_err()));
        assert!(is_crash(&old.rename_new(log(), Path::new("/s/new")).unwrap_err()));
        assert_eq!(dead.lock_holder(), None);
        assert_eq!(new.op_count(), before);
        drop(dead);
        assert_eq!(heir.lock_holder(), Some(1000));
        assert_eq!(new.paths(), [log()]);
    }
}
