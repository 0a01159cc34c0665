//! The real file system, where its interface promises more than one system call does: a rename that replaces nothing,
//! a lock on a directory, a lock that is let go while its file stays open. The simulated disk has the same tests.

use std::io::ErrorKind;
use std::path::Path;

use manent_log::fs::{Access, Disk, DiskFile};
use manent_log::{Error, RealDisk};

use crate::support::Scene;

fn open_dir(path: &Path) -> Box<dyn DiskFile> {
    RealDisk.open(path, Access::Directory).unwrap()
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Whatever stands at the new name stays, and so does what was to be moved.
#[test]
fn a_rename_to_a_name_that_is_taken_is_refused_and_changes_nothing() {
    let scene = Scene::with("ours");
    let at = |name: &str| scene.dir().join(name);
    std::fs::write(at("file"), "theirs").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    std::fs::hard_link(&scene.path, at("twin")).unwrap();
    let names = scene.names();
    for to in ["file", "directory", "link", "dangling", "twin", "chat.jsonl"] {
        let refused = kind(RealDisk.rename_new(&scene.path, &at(to)));
        assert_eq!(refused, ErrorKind::AlreadyExists, "{to}");
        assert_eq!(kind(RealDisk.rename_new(&at("directory"), &at(to))), ErrorKind::AlreadyExists, "{to}");
    }
    assert_eq!(scene.names(), names);
    assert_eq!(scene.bytes(), b"ours");
    assert_eq!(std::fs::read(at("file")).unwrap(), b"theirs");
    assert_eq!(kind(RealDisk.rename_new(&at("missing"), &at("new"))), ErrorKind::NotFound);
    assert_eq!(kind(RealDisk.rename_new(&scene.path, &at("missing/new"))), ErrorKind::NotFound);
    assert_eq!(kind(RealDisk.rename_new(&at("directory"), &at("directory/in"))), ErrorKind::InvalidInput);
}

/// To a free name it is a rename like any other: the same file, also in another directory, also a directory.
#[test]
fn a_rename_to_a_free_name_moves_files_and_directories() {
    let scene = Scene::with("ours");
    let (dir, moved) = (scene.dir().join("dir"), scene.dir().join("moved"));
    std::fs::create_dir(&dir).unwrap();
    let id = RealDisk.inspect(&scene.path).unwrap().id;
    RealDisk.rename_new(&scene.path, &dir.join("new")).unwrap();
    RealDisk.rename_new(&dir, &moved).unwrap();
    assert_eq!(scene.names(), ["moved"]);
    assert_eq!(RealDisk.inspect(&moved.join("new")).unwrap().id, id);
    assert_eq!(std::fs::read(moved.join("new")).unwrap(), b"ours");
}

/// A directory is locked as a file is: against every other opener, also in the same process, also by another name.
#[test]
fn a_lock_on_a_directory_keeps_other_openers_out() {
    let scene = Scene::new();
    let link = scene.dir().join("link");
    std::os::unix::fs::symlink(scene.dir(), &link).unwrap();
    let (first, second) = (open_dir(scene.dir()), open_dir(&link));
    assert_eq!(first.id().unwrap(), second.id().unwrap(), "a link is followed");
    assert_eq!(first.id().unwrap(), RealDisk.inspect(scene.dir()).unwrap().id);
    assert!(first.state().unwrap().links > 0);
    assert!(first.try_lock().unwrap());
    assert!(!second.try_lock().unwrap());
    if std::fs::read_to_string("/proc/locks").is_ok_and(|table| table.contains("FLOCK")) {
        assert_eq!(second.lock_holder(), Some(std::process::id()));
    }
    first.unlock().unwrap();
    assert!(second.try_lock().unwrap(), "let go, and still open");
    assert!(!first.try_lock().unwrap());
    drop(second);
    assert!(first.try_lock().unwrap(), "let go by closing");
    drop(scene.open());
    assert!(!open_dir(scene.dir()).try_lock().unwrap(), "the log of a session has a lock of its own");
}

/// A directory is opened for its lock and nothing else.
#[test]
fn nothing_is_read_or_written_through_a_directory() {
    let scene = Scene::new();
    let dir = open_dir(scene.dir());
    assert_eq!(kind(dir.read_at(&mut [0; 8], 0)), ErrorKind::IsADirectory);
    dir.append(b"x").unwrap_err();
    dir.set_len(0).unwrap_err();
}

/// A lock on something that is not a directory is refused without waiting.
#[test]
fn what_is_no_directory_is_not_opened_as_one() {
    let scene = Scene::with("x");
    let at = |name: &str| scene.dir().join(name);
    std::os::unix::fs::symlink(&scene.path, at("link")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    for name in ["chat.jsonl", "link", "fifo", "chat.jsonl/below"] {
        assert_eq!(kind(RealDisk.open(&at(name), Access::Directory)), ErrorKind::NotADirectory, "{name}");
    }
    assert_eq!(kind(RealDisk.open(&at("missing"), Access::Directory)), ErrorKind::NotFound);
}

/// Letting go of a lock is not closing, can be done twice, and frees nobody else's.
#[test]
fn a_lock_that_is_let_go_can_be_taken_by_others_and_again() {
    let scene = Scene::new();
    let log = scene.open();
    let other = RealDisk.open(&scene.path, Access::Append).unwrap();
    other.unlock().unwrap();
    assert!(matches!(scene.try_open(), Err(Error::Held { .. })), "it was not the other's to free");
    drop(log);
    let other = RealDisk.open(&scene.path, Access::CreateNew).unwrap();
    for _ in 0..2 {
        assert!(other.try_lock().unwrap());
        assert!(matches!(scene.try_open(), Err(Error::Held { .. })));
        other.unlock().unwrap();
        other.unlock().unwrap();
        other.append(b"\n").unwrap();
        drop(scene.open());
    }
}
