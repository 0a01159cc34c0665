//! [`AtomicFile`] and [`FileLock`] on the machine's own disk.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent_log::fs::{Access, Disk};
use manent_log::{AtomicFile, CommitSync, Error, FileLock, LockMode, RealDisk};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        RealDisk.list(dir).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn file_in(dir: &tempfile::TempDir, content: &str) -> PathBuf {
    let path = dir.path().join("file");
    std::fs::write(&path, content).unwrap();
    path
}

fn lock(path: &Path, mode: LockMode) -> manent_log::Result<FileLock> {
    FileLock::acquire(&RealDisk, path, Access::Read, mode, Duration::ZERO)
}

#[test]
fn atomic_file_commit_replaces_the_target_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "old");
    for sync in [CommitSync::FileAndDirectory, CommitSync::File, CommitSync::None] {
        let source = RealDisk.open(&path, Access::Read).unwrap();
        let mut file = AtomicFile::create(&RealDisk, &path).unwrap().with_sync(sync);
        file.copy_range(&*source, 0, 2).unwrap();
        file.write_all(b" new").unwrap();
        file.set_mode(0o640).unwrap();
        assert_eq!(std::fs::metadata(file.temporary_path()).unwrap().permissions().mode() & 0o777, 0o640);
        file.commit().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "ol new");
        assert_eq!(names(dir.path()), ["file"]);
    }
}

#[test]
fn atomic_file_dropped_before_its_commit_leaves_the_target_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "old");
    let mut file = AtomicFile::create(&RealDisk, &path).unwrap();
    file.write_all(b"new").unwrap();
    let (name, extension) = (file.temporary_path().file_name(), file.temporary_path().extension());
    let is_hidden = name.unwrap().to_str().unwrap().starts_with('.');
    assert!(is_hidden && extension.unwrap() == "tmp", "sweepers look for such names: {name:?}");
    drop(file);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(dir.path()), ["file"]);
}

#[test]
fn atomic_file_commit_new_refuses_a_target_that_exists() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "old");
    let refused = AtomicFile::create(&RealDisk, &path).unwrap().commit_new().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(dir.path()), ["file"]);
    AtomicFile::create(&RealDisk, &dir.path().join("other")).unwrap().commit_new().unwrap();
    assert_eq!(names(dir.path()), ["file", "other"]);
}

#[test]
fn locked_atomic_file_skips_names_in_use_and_removes_what_a_crash_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(dir.path().join(".new-0.tmp"), "left by a crash").unwrap();
    let mut first = AtomicFile::create_locked(&RealDisk, &path).unwrap();
    let second = AtomicFile::create_locked(&RealDisk, &path).unwrap();
    assert_eq!(names(dir.path()), [".new-0.tmp", ".new-1.tmp"]);
    assert_eq!(first.file().state().unwrap().len, 0);
    assert!(matches!(lock(second.temporary_path(), LockMode::Exclusive), Err(Error::Held { .. })));
    let file = first.rename_with(|temporary| RealDisk.rename_new(temporary, &path)).unwrap();
    assert!(
        matches!(lock(&path, LockMode::Exclusive), Err(Error::Held { .. })),
        "the lock stays with the file"
    );
    drop((file, second));
    assert_eq!(names(dir.path()), ["file"]);
    assert!(lock(&path, LockMode::Exclusive).is_ok());
}

#[test]
fn file_lock_excludes_another_and_names_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "");
    let held = lock(&path, LockMode::Exclusive).unwrap();
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        match lock(&path, mode) {
            Err(Error::Held { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
    }
    held.release().unwrap();
    let other = lock(&path, LockMode::Exclusive).unwrap();
    assert!(matches!(held.reacquire(Duration::ZERO), Err(Error::Held { .. })));
    drop(other);
    held.reacquire(Duration::ZERO).unwrap();
}

#[test]
fn shared_file_locks_admit_each_other_and_exclude_an_exclusive_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "");
    let (one, two) = (lock(&path, LockMode::Shared).unwrap(), lock(&path, LockMode::Shared).unwrap());
    drop(one);
    match lock(&path, LockMode::Exclusive) {
        Err(Error::Held { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(two);
    assert!(lock(&path, LockMode::Exclusive).is_ok());
}

#[test]
fn file_lock_waits_until_the_holder_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "");
    let held = lock(&path, LockMode::Exclusive).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope
            .spawn(|| FileLock::acquire(&RealDisk, &path, Access::Read, LockMode::Exclusive, Duration::MAX));
        drop(held);
        assert!(waiting.join().unwrap().is_ok());
    });
    let _held = lock(&path, LockMode::Exclusive).unwrap();
    let wait = Duration::from_millis(10);
    let refused = FileLock::acquire(&RealDisk, &path, Access::Read, LockMode::Exclusive, wait);
    assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
}

#[test]
fn file_lock_is_on_the_file_that_the_path_leads_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = file_in(&dir, "");
    let moved = lock(&path, LockMode::Exclusive).unwrap();
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    assert!(!moved.is_at_path(&RealDisk).unwrap());
    assert_eq!(
        std::io::Error::from(lock(&path, LockMode::Exclusive).unwrap_err()).kind(),
        ErrorKind::NotFound
    );
    std::fs::write(&path, "").unwrap();
    let new = lock(&path, LockMode::Exclusive).unwrap();
    assert!(new.is_at_path(&RealDisk).unwrap() && new.id() != moved.id());
}

#[test]
fn file_lock_on_a_directory_is_reached_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let lock = |path: &Path| {
        FileLock::acquire(&RealDisk, path, Access::Directory, LockMode::Exclusive, Duration::ZERO)
    };
    let held = lock(&link).unwrap();
    assert!(matches!(lock(&real), Err(Error::Held { .. })));
    drop(held);
    assert!(lock(&real).unwrap().is_at_path(&RealDisk).unwrap());
}
