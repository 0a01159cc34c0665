//! A log that is to exist before its first record: the header alone.

use manent_log::{Body, Disk, Durability, Error, Expect, Log, Options, RealDisk};

use crate::support::{
    RunAs, Scene, file_of, header_line, native, plain_line, seqs, spawn_child, turn, wait_until_ready,
    with_header,
};

/// The header of a fork that goes on where another session was at record 41.
fn fork() -> Options {
    let mut header = Body::new();
    header.json("meta", serde_json::from_str(r#"{"format":1,"parent":{"id":"p","upto":41}}"#).unwrap());
    Options { header: Some(header), ..Options::default() }
}

fn open(scene: &Scene, options: &Options) -> Log {
    Log::open(&RealDisk::shared(), &scene.path, options).unwrap()
}

/// The file with nothing but the header in it.
fn fork_alone() -> Vec<u8> {
    let scene = Scene::new();
    open(&scene, &fork()).write_header(Durability::Flush).unwrap();
    scene.bytes()
}

/// The header is written once, by itself or with the first record, and the bytes are the same.
#[test]
fn a_header_written_alone_is_followed_by_the_first_record() {
    for durability in [Durability::Flush, Durability::Sync, Durability::Group] {
        let scene = Scene::new();
        let mut log = scene.open();
        assert!(log.is_new());
        log.write_header(durability).unwrap();
        assert!(!log.is_new());
        assert_eq!(scene.bytes(), file_of(&[header_line()]));
        log.write_header(durability).unwrap();
        assert_eq!(log.append(&turn("turn 1"), durability, Expect::Seq(1)).unwrap().seq, 1);
        log.write_header(durability).unwrap();
        drop(log);
        assert_eq!(scene.bytes(), native(1), "{durability:?}");
        let log = scene.open();
        assert!(!log.is_new());
    }
}

/// A header is something written: the log stays when it is closed.
#[test]
fn a_log_with_nothing_but_a_header_is_kept_and_sound() {
    let scene = Scene::new();
    let mut log = scene.open();
    log.write_header(Durability::Sync).unwrap();
    drop(log);
    let report = scene.verify();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(seqs(&scene.read().0), [0]);
    assert_eq!(scene.open().next_seq(), 1);
}

/// The numbers of a fork go on from its parent's: in the same handle, after reopening, and with another's header, too.
#[test]
fn a_fork_without_records_goes_on_with_its_parents_numbers() {
    let scene = Scene::new();
    let mut log = open(&scene, &fork());
    assert_eq!(log.next_seq(), 42);
    log.write_header(Durability::Sync).unwrap();
    assert_eq!(log.next_seq(), 42);
    drop(log);
    for options in [fork(), with_header(), Options::default()] {
        let log = open(&scene, &options);
        assert!(!log.is_new());
        assert_eq!(log.next_seq(), 42);
    }
    let mut log = open(&scene, &fork());
    assert_eq!(log.append(&turn("a"), Durability::Flush, Expect::Seq(42)).unwrap().seq, 42);
    assert_eq!(seqs(&scene.read().0), [0, 42]);
    assert!(scene.verify().is_sound());

    let scene = Scene::new();
    let mut log = open(&scene, &fork());
    log.write_header(Durability::Flush).unwrap();
    scene.append_raw(file_of(&[plain_line("theirs")]));
    assert_eq!(log.append(&turn("b"), Durability::Flush, Expect::Any).unwrap().seq, 43, "theirs is 42");
}

/// R2, R4. A header that was torn anywhere is set aside and written again; if only its newline is missing, it is whole.
#[test]
fn a_torn_header_of_a_fork_is_written_again_with_the_same_numbers() {
    let whole = fork_alone();
    for cut in 0..whole.len() {
        let scene = Scene::with(&whole[..cut]);
        let mut log = open(&scene, &fork());
        let torn = cut < whole.len() - 1;
        assert_eq!((log.is_new(), log.next_seq()), (torn, 42), "cut at {cut}");
        assert_eq!(log.set_aside().is_some(), torn && cut > 0, "cut at {cut}");
        log.write_header(Durability::Flush).unwrap();
        assert_eq!(log.append(&turn("a"), Durability::Flush, Expect::Any).unwrap().seq, 42, "cut at {cut}");
        drop(log);
        assert!(scene.bytes().starts_with(&whole), "cut at {cut}");
        assert_eq!(seqs(&scene.read().0), [0, 42], "cut at {cut}");
        assert!(scene.verify().is_sound(), "cut at {cut}");
    }
}

/// No header is put into another program's file.
#[test]
fn a_file_that_has_no_header_gets_none() {
    let theirs = file_of(&[plain_line("theirs")]);
    let scene = Scene::with(&theirs);
    let mut log = scene.open();
    assert!(!log.is_new());
    log.write_header(Durability::Sync).unwrap();
    assert_eq!(scene.bytes(), theirs);
}

/// A header is not written into a file that was deleted, as records are not.
#[test]
fn a_header_is_not_written_into_a_file_that_is_gone() {
    let scene = Scene::new();
    let mut log = scene.open();
    std::fs::remove_file(&scene.path).unwrap();
    let gone = log.write_header(Durability::Flush).unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
    assert_eq!(scene.names(), [] as [&str; 0]);
    assert!(RealDisk.inspect(&scene.path).is_err());
}

/// A writer that waits while the header is written alone finds a log and no reason to write another.
#[test]
fn the_next_writer_finds_the_header() {
    let scene = Scene::new();
    let mut log = scene.open();
    log.write_header(Durability::Sync).unwrap();
    drop(log);
    let mut child = spawn_child("write", &scene.path, "077", RunAs::Us).unwrap();
    assert!(wait_until_ready(&mut child));
    assert!(child.wait().unwrap().success());
    assert_eq!(seqs(&scene.read().0), [0, 1]);
}

/// The layers above learn whose log it is from the handle that holds it.
#[test]
fn an_open_log_tells_the_header_that_stands_first_in_the_file() {
    let header_of = |bytes: Vec<u8>| scene_header(&Scene::with(bytes).open());
    assert_eq!(scene_header(&Scene::new().open()), None, "nothing is written yet");
    assert_eq!(header_of(native(2)), Some(header_line()));
    assert_eq!(
        header_of(file_of(&[b"".to_vec(), header_line()])),
        Some(header_line()),
        "a blank line is nothing"
    );
    assert_eq!(header_of([b"damage\n".to_vec(), native(2)].concat()), None, "as a reader sees it");
    assert_eq!(header_of(file_of(&[plain_line("theirs")])), None);
}

fn scene_header(log: &Log) -> Option<Vec<u8>> {
    log.header_line().map(|entry| entry.bytes.to_vec())
}
